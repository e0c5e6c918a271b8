"use strict";
(() => {
  // Rows of a long table that are shown at once, and rows from which on a table has a filter.
  const PAGE = 100, FILTERED = 9, SORTED = 3;
  // Pixels: a chart that is higher scrolls inside its own box.
  const TALL = 1500;
  const make = (tag, attributes = {}, ...children) => {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    element.append(...children);
    return element;
  };
  const collator = new Intl.Collator(undefined, { numeric: true, sensitivity: "base" });
  // Digits in groups of three from 10,000 on, as in the tables.
  const grouped = (n) => (n < 10000 ? String(n) : n.toLocaleString("en"));
  const fold = (text) => text.normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase();
  // Missing numbers stand last in both directions.
  const compare = (a, b, sign) => {
    if (typeof a === "string") return sign * collator.compare(a, b);
    if (a === null || b === null) return (a === null) - (b === null);
    return sign * (a - b);
  };

  const unpack = async (id) => {
    const text = document.getElementById(id).textContent.trim();
    const bytes = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
    const unzipped = new DecompressionStream("gzip"), writer = unzipped.writable.getWriter();
    writer.write(bytes);
    writer.close();
    return JSON.parse(await new Response(unzipped.readable).text());
  };

  // Sorting by buttons in the header: numbers start with the largest, texts with A.
  const sortable = (table, sort) => {
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, column) => {
      const title = head.firstElementChild;
      const arrow = make("span", { class: "arrow", "aria-hidden": "true" }, "↕");
      const button = make("button", { type: "button" });
      title.replaceWith(button);
      button.append(title, arrow);
      button.addEventListener("click", () => {
        const first = head.dataset.kind === "number" ? "descending" : "ascending";
        const other = first === "ascending" ? "descending" : "ascending";
        const order = head.getAttribute("aria-sort") === first ? other : first;
        for (const one of heads) {
          one.removeAttribute("aria-sort");
          one.querySelector(".arrow").textContent = "↕";
        }
        head.setAttribute("aria-sort", order);
        arrow.textContent = order === "ascending" ? "↑" : "↓";
        sort(column, order === "ascending" ? 1 : -1);
      });
    });
  };

  const filterBox = (box, id, n, change) => {
    const input = make("input", { type: "search", id: `${id}-filter`, autocomplete: "off" });
    const count = make("span", { class: "count", role: "status" });
    const tell = (shown) => { count.textContent = shown === n ? `${grouped(n)} rows`
      : `${grouped(shown)} of ${grouped(n)} rows`; };
    box.prepend(make("div", { class: "tools" },
      make("label", { for: input.id }, "Filter rows"), input, count));
    input.addEventListener("input", () => tell(change(fold(input.value.trim()))));
    tell(n);
  };

  const shortTable = (box) => {
    const table = box.querySelector("table");
    const body = table.tBodies[0];
    const rows = [...body.rows];
    if (rows.length >= SORTED) {
      sortable(table, (column, sign) => {
        const number = table.tHead.rows[0].cells[column].dataset.kind === "number";
        const keys = new Map(rows.map((row) => {
          const cell = row.cells[column];
          if (!number) return [row, cell.textContent];
          return [row, cell.dataset.v ? Number(cell.dataset.v) : null];
        }));
        body.append(...[...rows].sort((a, b) => compare(keys.get(a), keys.get(b), sign)));
      });
    }
    if (rows.length >= FILTERED) {
      const texts = rows.map((row) => fold(row.textContent));
      filterBox(box, box.id, rows.length, (wanted) => {
        let shown = 0;
        rows.forEach((row, i) => {
          row.hidden = !texts[i].includes(wanted);
          shown += !row.hidden;
        });
        return shown;
      });
    }
  };

  const longTable = (box, columns) => {
    const table = box.querySelector("table");
    const n = columns[0].cells.length;
    let order = [...Array(n).keys()], shown = order, page = 0;
    const texts = order.map((i) => fold(columns.map((column) => column.cells[i]).join(" ")));
    const before = make("button", { type: "button" }, "Previous");
    const after = make("button", { type: "button" }, "Next");
    const place = make("span", { class: "count", role: "status" });
    const draw = () => {
      const pages = Math.max(1, Math.ceil(shown.length / PAGE));
      page = Math.min(page, pages - 1);
      table.tBodies[0].replaceChildren(...shown.slice(page * PAGE, (page + 1) * PAGE).map((i) =>
        make("tr", {}, ...columns.map((column, j) => {
          const text = column.kind === "number" ? column.cells[i] : make("bdi", {}, column.cells[i]);
          return j === 0 ? make("th", { scope: "row", class: column.kind === "number" ? "n" : "l" }, text)
            : make("td", { class: { number: "n", text: "t" }[column.kind] ?? "l" }, text);
        }))));
      place.textContent = `page ${page + 1} of ${pages}`;
      before.disabled = page === 0;
      after.disabled = page === pages - 1;
    };
    before.addEventListener("click", () => { page -= 1; draw(); });
    after.addEventListener("click", () => { page += 1; draw(); });
    let wanted = "";
    const filter = () => { shown = wanted ? order.filter((i) => texts[i].includes(wanted)) : order; };
    sortable(table, (column, sign) => {
      const { kind, order: numbers, cells } = columns[column];
      const keys = kind === "number" ? numbers ?? cells.map(Number) : cells;
      order = [...order].sort((a, b) => compare(keys[a], keys[b], sign));
      page = 0; filter(); draw();
    });
    filterBox(box, box.id, n, (text) => { wanted = text; page = 0; filter(); draw(); return shown.length; });
    box.querySelector(".scroll").after(make("div", { class: "tools pager" }, before, place, after));
    draw();
  };

  // A table that is wider than the page says so: not every system shows a scroll bar.
  const widths = new ResizeObserver((entries) => {
    for (const { target } of entries) {
      const frame = target.closest(".scroll");
      frame.parentElement.classList.toggle("cut", frame.scrollWidth > frame.clientWidth + 1);
    }
  });
  const watched = (box, more = "More columns") => {
    const frame = box.querySelector(".scroll");
    frame.before(make("p", { class: "more" }, `${more}: scroll sideways →`));
    widths.observe(frame);
    widths.observe(frame.firstElementChild);
  };

  for (const box of document.querySelectorAll(".table")) {
    watched(box);
    if (!box.dataset.rows) { shortTable(box); continue; }
    const details = box.closest("details");
    details.addEventListener("toggle", async () => {
      if (!details.open || box.dataset.filled) return;
      box.dataset.filled = "yes";
      longTable(box, await unpack(box.dataset.rows));
    });
  }

  if (typeof vegaEmbed === "undefined") return;
  const dark = matchMedia("(prefers-color-scheme: dark)");
  // Colours on paper are those of the light mode.
  const PAPER = "paper", root = document.documentElement;
  const paper = () => root.classList.contains(PAPER);
  const config = () => {
    const style = getComputedStyle(root);
    const colour = (name) => style.getPropertyValue(`--${name}`).trim();
    const [ink, soft, line, blue] = ["ink", "soft", "line", "blue"].map(colour);
    const font = getComputedStyle(document.body).fontFamily;
    return {
      background: null, font, aria: false, padding: 4,
      view: { stroke: null },
      axis: { labelColor: ink, titleColor: soft, gridColor: line, domainColor: soft, tickColor: soft,
        labelFlush: false, labelSeparation: 5, labelFontSize: 11.5, titleFontSize: 12, titleFontWeight: 500, titlePadding: 8 },
      legend: { titleLimit: 320, labelColor: ink, titleColor: soft, labelFontSize: 11, titleFontSize: 12,
        titleFontWeight: 500, symbolFillColor: soft, symbolStrokeColor: soft },
      text: { color: ink, fontSize: 11.5 }, rule: { color: blue }, line: { color: soft },
      point: { color: blue, stroke: ink, strokeWidth: 0 }, area: { color: soft },
    };
  };
  const themed = (spec) => {
    const colours = dark.matches && !paper()
      ? { least: "#1c2228", most: "#56b4e9", worse: "#b8560f", even: "#262d34", better: "#2f7fb5", strong: "black", weak: "white" }
      : { least: "#eef3f8", most: "#004c80", worse: "#b34700", even: "#f2f2f2", better: "#0072b2", strong: "white", weak: "black" };
    // Blue and orange are dark enough for white in both modes.
    if (spec.usermeta?.diverging) colours.strong = "white";
    return JSON.parse(JSON.stringify(spec), (_, value) =>
      typeof value === "string" && value[0] === "$" && value.slice(1) in colours ? colours[value.slice(1)] : value);
  };
  // What a pointer reads by hovering the keyboard reads by arrows: mark by mark, below the chart.
  const HINT = "Left and right arrow keys go through the marks of this chart.";
  const marksOf = (element) => {
    const nodes = new Map();
    for (const node of element.querySelectorAll("path, line, rect, text")) {
      const tooltip = node.__data__?.tooltip;
      if (!tooltip || typeof tooltip !== "object") continue;
      const text = Object.entries(tooltip).map(([name, value]) => `${name}: ${value}`).join("; ");
      // Of the parts of a mark the point is shown, not its interval or name.
      if (!nodes.has(text) || (node.tagName === "path" && nodes.get(text).tagName !== "path")) nodes.set(text, node);
    }
    return [...nodes].map(([text, node]) => [node, text]);
  };
  const readable = (element) => {
    const frame = element.parentElement;
    const status = frame.closest("figure").querySelector(".reading");
    const marks = marksOf(element);
    let at = -1;
    const leave = () => element.querySelector(".at")?.classList.remove("at");
    frame.setAttribute("tabindex", "0");
    frame.onfocus = () => { if (frame.matches(":focus-visible")) status.textContent = at < 0 ? HINT : marks[at][1]; };
    frame.onblur = () => { leave(); status.textContent = ""; };
    frame.onkeydown = (event) => {
      const last = marks.length - 1;
      const next = { ArrowRight: Math.min(at + 1, last), ArrowLeft: Math.max(at - 1, 0), Home: 0, End: last }[event.key];
      if (next === undefined || last < 0) return;
      event.preventDefault();
      leave();
      at = next;
      const [node, text] = marks[at];
      node.classList.add("at");
      node.scrollIntoView({ block: "nearest", inline: "nearest" });
      status.textContent = text;
    };
  };
  const drawn = new Map();
  const draw = async (element, spec) => {
    delete element.dataset.drawn;
    const room = element.closest("figure").clientWidth;
    // Columns that need more room scroll inside their own box.
    const least = spec.usermeta?.least ?? 0;
    const width = Math.max(room, least);
    element.style.width = `${width}px`;
    element.parentElement.classList.toggle("tall", spec.height > TALL);
    const own = themed(spec);
    own.width = width;
    // Names of points are left out where there is no room for them.
    for (const param of own.params ?? []) if (param.name === "room") param.value = width;
    own.autosize = { type: "fit-x", contains: "padding" };
    if (own.height?.ratio) own.height = Math.round(width * own.height.ratio);
    own.config = config();
    drawn.get(element)?.finalize();
    drawn.set(element, await vegaEmbed(element, own, { actions: false, renderer: "svg", tooltip: { theme: "custom" } }));
    // What the label says of the chart is in a table; its marks are no content of their own.
    element.querySelector("svg")?.setAttribute("aria-hidden", "true");
    readable(element);
    element.dataset.drawn = "yes";
  };
  // Charts that are not drawn yet, each with the function that draws it.
  const specs = new Map(), waiting = new Map();
  for (const element of document.querySelectorAll(".vega")) {
    const source = document.getElementById(`${element.id}-spec`);
    if (!source) continue;
    specs.set(element, JSON.parse(source.textContent));
    waiting.set(element, () => draw(element, specs.get(element)));
  }
  for (const box of document.querySelectorAll(".chooser")) {
    const base = JSON.parse(document.getElementById(`${box.id}-spec`).textContent);
    const element = document.getElementById(`${box.id}-chart`);
    const select = document.getElementById(`${box.id}-select`);
    const rows = unpack(`${box.id}-rows`);
    const show = async () => {
      const data = await rows;
      const wanted = Number(select.value);
      const own = data.model.map((_, i) => i).filter((i) => data.model[i] === wanted)
        .sort((a, b) => data.mean[b] - data.mean[a]);
      const spec = structuredClone(base);
      spec.data.values = own.map((i, k) => ({
        label: data.languages[data.language[i]], text: data[data.shown][i], place: k + 1,
        mean: data.mean[i], lower: data.lower[i], upper: data.upper[i],
      }));
      const columns = [
        ["language", "label", own.map((i) => data.languages[data.language[i]]), null],
        ["PRR", "number", own.map((i) => data.prr[i]), "mean"],
        ["gap to the potential", "number", own.map((i) => data.gap[i]), "mean"],
        ["records", "number", own.map((i) => String(data.records[i])), "records"],
      ].filter(([, , cells]) => cells.some((cell) => cell !== "-"));
      const id = `${box.id}-one-table`;
      const table = make("table", {},
        make("caption", { id: `${id}-caption` }, make("span", {}, make("bdi", {}, data.models[wanted]), `: ${own.length} languages`)),
        make("thead", {}, make("tr", {}, ...columns.map(([name, kind]) =>
          make("th", { scope: "col", "data-kind": kind, class: kind === "number" ? "n" : "l" },
            make("span", { class: "h" }, name))))),
        make("tbody", {}, ...own.map((i, k) => make("tr", {}, ...columns.map(([, kind, cells, order], j) =>
          j === 0 ? make("th", { scope: "row" }, make("bdi", {}, cells[k]))
            : make("td", { class: "n", "data-v": String(parseFloat(cells[k].replaceAll(",", ""))) }, cells[k]))))));
      const frame = make("div", { class: "table", id }, make("div",
        { class: own.length > 25 ? "scroll tall" : "scroll", role: "region", tabindex: "0", "aria-labelledby": `${id}-caption` }, table));
      const one = document.getElementById(`${box.id}-one`);
      const open = one.querySelector("details")?.open ?? false;
      const details = make("details", {}, make("summary", {}, "Table of ", make("bdi", {}, data.models[wanted])), frame);
      details.open = open;
      one.replaceChildren(details);
      watched(frame);
      shortTable(frame);
      specs.set(element, spec);
      await draw(element, spec);
    };
    select.addEventListener("change", show);
    // The first model needs no unpacking: a page prints as soon as it is open.
    specs.set(element, base);
    waiting.set(element, () => draw(element, base).then(show));
  }
  const start = (element) => {
    const first = waiting.get(element);
    waiting.delete(element);
    near.unobserve(element);
    return first();
  };
  const near = new IntersectionObserver((entries) => {
    for (const { isIntersecting, target } of entries) if (isIntersecting && waiting.has(target)) start(target);
  }, { rootMargin: "500px" });
  for (const element of waiting.keys()) {
    watched(element.closest("figure"), "Wider than the page");
    near.observe(element);
  }

  const again = () => { for (const element of drawn.keys()) draw(element, specs.get(element)); };
  dark.addEventListener("change", again);
  let width = innerWidth, resized = 0;
  addEventListener("resize", () => {
    if (innerWidth === width) return;
    width = innerWidth;
    clearTimeout(resized);
    resized = setTimeout(again, 150);
  });
  // Charts further down are drawn when the browser has nothing else to do, and at the latest for printing.
  // A busy machine may never have nothing else to do, so each chart waits half a second at most.
  const idle = (work) => (window.requestIdleCallback ? requestIdleCallback(work, { timeout: 500 }) : setTimeout(work, 200));
  const rest = () => {
    const [next] = waiting.keys();
    // The charts below one that fails are drawn as well.
    if (next) start(next).finally(() => idle(rest));
  };
  addEventListener("load", () => idle(rest));
  const print = (on) => () => {
    root.classList.toggle(PAPER, on);
    if (dark.matches) again();
    if (on) [...waiting.keys()].forEach(start);
  };
  addEventListener("beforeprint", print(true));
  addEventListener("afterprint", print(false));
})();
