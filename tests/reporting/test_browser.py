"""The page in a browser: no error, no request, no overflow; used by mouse, keyboard and readers."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from bayeseval.output.language_names import name_and_code
from bayeseval.output.numbers import interval_texts
from bayeseval.reporting import SavedResults, read_saved
from bayeseval.reporting.bundle import chart_library
from bayeseval.reporting.grid import MOST_ROWS
from bayeseval.reporting.page import write_page
from bayeseval.reporting.planes import plane
from tests.reporting.pages import MODELS, SCRIPT, odd_table, save

_BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
_WIDTHS = {"wide": 1280, "phone": 390}
# A headless Chromium never draws a frame of about one page in 1,000, whatever it contains: neither
# animation nor observers of its layout run. Such a page is opened again, after a time in which a
# busy machine has drawn a frame.
_TRIALS = 3
_FRAME = """() => Promise.race([
    new Promise((done) => requestAnimationFrame(() => done(true))),
    new Promise((done) => setTimeout(() => done(false), 15000)),
])"""
# Milliseconds for what has to happen some time.
_PATIENCE = 300_000
# Violations of these impacts keep somebody from using the page.
_SERIOUS = {"serious", "critical"}


def _browser() -> str | None:
    named = os.environ.get("BAYESEVAL_BROWSER")
    return named or next((path for name in _BROWSERS if (path := shutil.which(name))), None)


try:
    from axe_playwright_python.sync_playwright import Axe
    from playwright.sync_api import TimeoutError as PlaywrightTimeoutError
    from playwright.sync_api import sync_playwright
except ImportError:
    pytest.skip("needs a browser: playwright is not installed", allow_module_level=True)
if _browser() is None:
    pytest.skip(
        "needs a browser: no browser is installed (apt-get install chromium-headless-shell), "
        "and BAYESEVAL_BROWSER names none",
        allow_module_level=True,
    )


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(
            executable_path=_browser(),
            timeout=_PATIENCE,
            args=["--no-sandbox", "--disable-gpu", "--disable-background-networking"],
        )
        yield started
        started.close()


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> SavedResults:
    return read_saved(save(odd_table(), tmp_path_factory.mktemp("odd") / "result"))


@pytest.fixture(scope="module")
def page_file(results: SavedResults, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_page(results, tmp_path_factory.mktemp("page") / "page.html")


@pytest.fixture(scope="module")
def long_file(results: SavedResults, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page with a table of more than MOST_ROWS rows."""
    table = results.tables["model_language"]
    copies = MOST_ROWS // len(table) + 1
    parts = [table.assign(language=table["language"] + f"-{i}") for i in range(copies)]
    long = pd.concat(parts, ignore_index=True)
    found = SavedResults(results.path, results.run, {**results.tables, "model_language": long})
    return write_page(found, tmp_path_factory.mktemp("long") / "page.html")


class Opened:
    """A page, and all that it complained of or asked for."""

    def __init__(self, browser: Any, file: Path, *, script: str = "", **options: Any) -> None:
        self.address = file.resolve().as_uri()
        for _ in range(_TRIALS):
            # Nothing scrolls while it is pointed at.
            self.context = browser.new_context(**{"reduced_motion": "reduce", **options})
            self.context.set_default_timeout(_PATIENCE)
            self.context.add_init_script(script)
            self.page = self.context.new_page()
            self.problems: list[str] = []
            self.page.on("pageerror", lambda error: self.problems.append(str(error)))
            self.page.on("console", self._console)
            self.page.on("dialog", self._dialog)
            self.page.on("request", self._request)
            self.page.goto(self.address)
            if not options.get("java_script_enabled", True) or self.page.evaluate(_FRAME):
                return
            self.context.close()
        pytest.fail(f"the browser drew no frame of {_TRIALS} pages")

    def _console(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.problems.append(message.text)

    def _dialog(self, dialog: Any) -> None:
        self.problems.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def _request(self, request: Any) -> None:
        if request.url != self.address and not request.url.startswith(("data:", "blob:")):
            self.problems.append(f"request: {request.url}")

    def wait_for_charts(self) -> None:
        # A chart of one model is drawn again, beside the table of that model.
        self.page.wait_for_function(
            "[...document.querySelectorAll('.vega')].every((one) => one.dataset.drawn) &&"
            "[...document.querySelectorAll('.chooser')].every("
            "(one) => document.getElementById(`${one.id}-one-table`))"
        )


@pytest.fixture(params=list(_WIDTHS))
def opened(request: pytest.FixtureRequest, browser: Any, page_file: Path) -> Iterator[Opened]:
    size = {"width": _WIDTHS[request.param], "height": 900}
    found = Opened(browser, page_file, viewport=size)
    yield found
    found.context.close()


def settled(page: Any, measure: str) -> Any:
    """What is measured as soon as all that is wider than its frame says so, or in the end."""
    try:
        return page.wait_for_function(
            f"() => {{ const found = ({measure})();"
            " return Object.values(found).every(([wider, said]) => wider === said) && found; }"
        ).json_value()
    except PlaywrightTimeoutError:
        return page.evaluate(measure)


def column(opened: Opened, table: str, place: int) -> list[str]:
    """Cells of one column, those that are hidden left out."""
    rows = opened.page.query_selector_all(f"#{table} tbody tr:not([hidden])")
    return [row.query_selector_all("th, td")[place].text_content() for row in rows]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", _WIDTHS.values())
def test_the_page_opens_whole(browser: Any, page_file: Path, width: int, scheme: str) -> None:
    size = {"width": width, "height": 900}
    opened = Opened(browser, page_file, viewport=size, color_scheme=scheme)
    opened.wait_for_charts()
    charts = opened.page.query_selector_all(".vega svg")
    assert len(charts) == len(opened.page.query_selector_all(".vega")) >= 6
    widths = "[document.documentElement.scrollWidth, window.innerWidth]"
    needed, there = opened.page.evaluate(widths)
    assert needed <= there == width
    for details in opened.page.query_selector_all("details"):
        details.evaluate("(one) => { one.open = true; }")
    assert opened.page.evaluate(widths)[0] <= width
    found = Axe().run(opened.page).response["violations"]
    serious = [(one["id"], one["nodes"][0]["html"]) for one in found if one["impact"] in _SERIOUS]
    assert serious == []
    assert opened.problems == []
    opened.context.close()


# A browser that draws no frame and is never idle: only a limit of time calls the work.
_BUSY = """window.IntersectionObserver = class { observe() {} unobserve() {} };
window.requestIdleCallback = (work, options) => {
    if (options?.timeout) setTimeout(work, options.timeout);
};"""
# The chart of that id cannot be drawn.
_BROKEN = """let embed;
Object.defineProperty(window, 'vegaEmbed', {
    set(whole) { embed = whole; },
    get() {
        return embed && ((element, ...others) => element.id === 'NAME'
            ? Promise.reject(new Error('no chart')) : embed(element, ...others));
    },
});"""


def test_a_busy_browser_draws_all_charts(browser: Any, page_file: Path) -> None:
    opened = Opened(browser, page_file, script=_BUSY)
    opened.wait_for_charts()
    opened.page.wait_for_selector("#model-language-one-table", state="attached")
    assert opened.problems == []
    opened.context.close()


def test_a_chart_that_fails_leaves_the_others(browser: Any, page_file: Path) -> None:
    whole = Opened(browser, page_file)
    charts = whole.page.evaluate("[...document.querySelectorAll('.vega')].map((one) => one.id)")
    whole.context.close()
    broken = charts[2]
    opened = Opened(browser, page_file, script=_BUSY + _BROKEN.replace("NAME", broken))
    others = f"[...document.querySelectorAll('.vega')].filter((one) => one.id !== '{broken}')"
    opened.page.wait_for_function(f"{others}.every((one) => one.dataset.drawn)")
    if not opened.problems:
        opened.page.wait_for_event("pageerror")
    assert opened.problems == ["no chart"]
    opened.context.close()


def test_the_ranking_fits_and_a_wider_table_says_that_it_scrolls(
    opened: Opened, results: SavedResults
) -> None:
    cut = """() => Object.fromEntries([...document.querySelectorAll('.table')].map((box) => {
        const frame = box.querySelector('.scroll');
        const more = box.querySelector('.more');
        return [box.id, [frame.scrollWidth > frame.clientWidth + 1, more.offsetHeight > 0]];
    }))"""
    opened.page.wait_for_selector("#model-language-one-table", state="attached")
    for details in opened.page.query_selector_all("details"):
        details.evaluate("(one) => { one.open = true; }")
    found = settled(opened.page, cut)
    assert {"ranking", "evenness", "pairs-table"} <= set(found)
    assert found["ranking"][0] == (opened.page.viewport_size["width"] == _WIDTHS["phone"])
    assert found["evenness"][0] == (opened.page.viewport_size["width"] == _WIDTHS["phone"])
    for name, (is_wider, says_so) in found.items():
        assert is_wider == says_so, name
    # The check would see a table that is cut without a word.
    opened.page.evaluate("document.querySelector('#pairs-table').style.width = '200px'")
    assert settled(opened.page, cut)["pairs-table"] == [True, True]
    assert opened.problems == []


# Labels of one axis that cover each other, at every chart.
_COVERED = """() => [...document.querySelectorAll('.vega .role-axis-label')].flatMap((axis) => {
    const boxes = [...axis.querySelectorAll('text')]
        .filter((one) => getComputedStyle(one).opacity > 0)
        .filter((one) => !/rotate/.test(one.getAttribute('transform') ?? ''))
        .map((one) => [one.textContent, one.getBoundingClientRect()]);
    return boxes.slice(1).flatMap(([text, box], i) => {
        const [before, last] = boxes[i];
        const wide = Math.min(box.right, last.right) - Math.max(box.left, last.left);
        const high = Math.min(box.bottom, last.bottom) - Math.max(box.top, last.top);
        return wide > -2 && high > 4 ? [`${before} ${text}`] : [];
    });
})"""


def test_labels_of_axes_stand_apart_and_wide_charts_say_so(opened: Opened) -> None:
    opened.wait_for_charts()
    assert opened.page.evaluate(_COVERED) == []
    cut = """() => [...document.querySelectorAll('figure')].map((one) => {
        const frame = one.querySelector('.scroll'), more = one.querySelector('.more');
        return [frame.scrollWidth > frame.clientWidth + 1, more?.offsetHeight > 0];
    })"""
    found = settled(opened.page, cut)
    assert len(found) >= 6
    assert all(is_wider == says_so for is_wider, says_so in found)
    # The check would see a chart that is cut without a word.
    opened.page.evaluate("document.querySelector('figure .more').remove()")
    opened.page.evaluate("document.querySelector('figure .scroll').style.width = '90px'")
    assert opened.page.evaluate(cut)[0] == [True, False]
    assert opened.problems == []


def test_a_broad_table_is_named_in_print(
    browser: Any, results: SavedResults, tmp_path: Path
) -> None:
    table = results.tables["model_ranking"]
    more = {f"extra_{i}": float(i) for i in range(30)}
    found = SavedResults(
        results.path, results.run, {**results.tables, "covariates": table.assign(**more)}
    )
    opened = Opened(browser, write_page(found, tmp_path / "page.html"))
    opened.page.emulate_media(media="print")
    assert opened.page.locator("#table-covariates table").is_hidden()
    assert "columns do not fit on paper" in opened.page.locator("#table-covariates").inner_text()
    assert opened.page.locator("#ranking table").is_visible()
    assert opened.page.locator("#ranking .printed").count() == 0
    opened.page.emulate_media(media="screen")
    assert opened.page.locator("#table-covariates table").is_visible()
    assert opened.page.locator("#table-covariates .printed").is_hidden()
    opened.context.close()


def test_axe_sees_what_is_wrong(browser: Any, page_file: Path) -> None:
    opened = Opened(browser, page_file)
    opened.page.evaluate("document.querySelector('select').labels[0].remove()")
    found = Axe().run(opened.page).response["violations"]
    assert "select-name" in {one["id"] for one in found}
    opened.context.close()


def test_a_click_sorts(opened: Opened, results: SavedResults) -> None:
    wanted = sorted(results.tables["model_ranking"]["n_records"])
    head = opened.page.locator("#ranking thead th").last
    button = head.get_by_role("button")
    assert head.text_content().startswith("records")
    assert head.get_attribute("aria-sort") is None
    last = opened.page.locator("#ranking thead th").count() - 1
    button.click()
    assert head.get_attribute("aria-sort") == "descending"
    assert column(opened, "ranking", last) == [str(n) for n in reversed(wanted)]
    button.click()
    assert head.get_attribute("aria-sort") == "ascending"
    assert column(opened, "ranking", last) == [str(n) for n in wanted]
    assert opened.problems == []


def test_the_keyboard_sorts(opened: Opened) -> None:
    button = opened.page.locator("#ranking thead button").first
    button.focus()
    opened.page.keyboard.press("Enter")
    head = opened.page.locator("#ranking thead th").first
    assert head.get_attribute("aria-sort") == "ascending"
    first = column(opened, "ranking", 0)
    opened.page.keyboard.press("Space")
    assert head.get_attribute("aria-sort") == "descending"
    assert column(opened, "ranking", 0) == first[::-1]
    opened.page.keyboard.press("Tab")
    focused = opened.page.evaluate("document.activeElement.closest('th').textContent")
    assert focused.startswith("score")


def test_sorting_by_one_column_ends_that_by_another(opened: Opened) -> None:
    buttons = opened.page.locator("#ranking thead button")
    buttons.nth(0).click()
    buttons.nth(1).click()
    heads = opened.page.locator("#ranking thead th[aria-sort]")
    assert heads.count() == 1
    assert heads.first.text_content().startswith("score")


def test_filtering_leaves_the_rows_that_match(opened: Opened) -> None:
    # Charts are drawn when they come into view, and move what is below them.
    opened.wait_for_charts()
    details = opened.page.locator("details", has=opened.page.locator("#model-language-table"))
    details.locator("summary").press("Enter")
    box = opened.page.locator("#model-language-table-filter")
    # What is not visible cannot have the focus: the keys would be lost.
    box.wait_for(state="visible")
    assert opened.page.locator("label[for=model-language-table-filter]").count() == 1
    everything = column(opened, "model-language-table", 0)
    box.press_sequentially("ALERT(1)")
    assert box.input_value() == "ALERT(1)"
    assert set(column(opened, "model-language-table", 0)) == {SCRIPT}
    n = everything.count(SCRIPT)
    status = opened.page.locator("#model-language-table .count").text_content()
    assert status == f"{n} of {len(everything)} rows"
    box.fill("")
    assert column(opened, "model-language-table", 0) == everything
    assert opened.problems == []


def test_selecting_a_model_shows_its_languages(opened: Opened, results: SavedResults) -> None:
    table = results.tables["model_language"]
    models = list(dict.fromkeys(table["model"]))
    select = opened.page.locator("#model-language-select")
    select.scroll_into_view_if_needed()
    opened.page.wait_for_selector("#model-language-one-table", state="attached")
    select.select_option(index=2)
    caption = opened.page.locator("#model-language-one caption")
    caption.filter(has_text=models[2]).wait_for(state="attached")
    own = table[table["model"] == models[2]].sort_values(
        "prr_language_mean", ascending=False, kind="stable"
    )
    codes = [
        cell.rpartition("(")[2].rstrip(")") for cell in column(opened, "model-language-one", 0)
    ]
    # A language without a name is shown by its label alone.
    assert codes == list(own["language"])
    select.focus()
    opened.page.keyboard.press("ArrowDown")
    caption.filter(has_text=models[3]).wait_for(state="attached")
    assert opened.problems == []


def test_hovering_a_point_says_its_numbers(browser: Any, page_file: Path) -> None:
    opened = Opened(browser, page_file, viewport={"width": 1280, "height": 900})
    opened.wait_for_charts()
    chart = opened.page.locator("#potential")
    chart.scroll_into_view_if_needed()
    point = chart.locator("svg path[d*='A']").first
    point.hover(force=True)
    tip = opened.page.locator("#vg-tooltip-element")
    tip.wait_for(state="visible")
    assert "English (en)" in tip.text_content()
    assert opened.problems == []
    opened.context.close()


@pytest.mark.parametrize("width", _WIDTHS.values())
def test_the_keyboard_reads_the_marks_of_a_chart(
    browser: Any, page_file: Path, results: SavedResults, width: int
) -> None:
    opened = Opened(browser, page_file, viewport={"width": width, "height": 900})
    opened.wait_for_charts()
    potential = results.tables["language_potential"]
    texts = [
        f"language: {label}; potential (units of the scale 0 to 1): {text}"
        for label, text in zip(
            name_and_code(potential["language"], results.run["language_names"]),
            interval_texts(potential, "potential"),
            strict=True,
        )
    ]
    reading = opened.page.locator("#potential-figure .reading")
    opened.page.locator("#potential-figure .scroll").focus()
    read = []
    for _ in texts:
        opened.page.keyboard.press("ArrowRight")
        read.append(reading.text_content())
        assert opened.page.locator("#potential .at").count() == 1
    assert read == texts
    opened.page.keyboard.press("ArrowLeft")
    assert reading.text_content() == texts[-2]
    opened.page.keyboard.press("Home")
    assert reading.text_content() == texts[0]
    opened.page.keyboard.press("Tab")
    assert reading.text_content() == ""
    assert opened.page.locator("#potential .at").count() == 0
    assert opened.problems == []
    opened.context.close()


@pytest.mark.parametrize("width", [*_WIDTHS.values(), 700, 320])
def test_names_of_points_do_not_cover_each_other(browser: Any, tmp_path: Path, width: int) -> None:
    rng = np.random.default_rng(4)
    # Vega would cut the end of long names, in which they differ.
    models = [f"model-{name}" for name in "abcdefghijklmnop"]
    models += [f"model-of-an-organisation-with-{size}b-instruct" for size in (7, 70)]
    middle = rng.normal(1.0, 0.05, size=(len(models), 2))
    columns = {"model": models}
    for i, axis in enumerate(("a", "b")):
        for end, shift in (("mean", 0.0), ("lower", -0.02), ("upper", 0.02)):
            columns[f"{axis}_{end}"] = middle[:, i] + shift
    table = pd.DataFrame(columns)
    texts = {"x": ["1"] * len(models), "y": ["1"] * len(models)}
    spec = {**plane(table, "a", "b", texts, ("a", "b")), "width": width - 30}
    for param in spec["params"]:
        param["value"] = spec["width"]
    file = tmp_path / "plane.html"
    script = f"vegaEmbed('#one', {json.dumps(spec)}, {{renderer: 'svg'}})"
    file.write_text(
        f"<div id=one></div><script>{chart_library()}</script>"
        f"<script>{script}.then(() => {{ document.title = 'drawn'; }})</script>",
        encoding="utf-8",
    )
    opened = Opened(browser, file, viewport={"width": width, "height": 600})
    opened.page.wait_for_function("document.title === 'drawn'")
    boxes = opened.page.evaluate(
        "[...document.querySelectorAll('svg text')].filter((one) => one.textContent.startsWith("
        "'model-')).map((one) => { const b = one.getBoundingClientRect();"
        " return [b.left, b.top + 2, b.right, b.bottom - 2]; })"
    )
    assert (len(boxes) == 0) == (width < 330)
    texts = opened.page.locator("svg text").all_text_contents()
    named = [text for text in texts if text.startswith("model-")]
    assert len(named) == len(set(named))
    assert all(text in models or text.endswith("b-instruct") for text in named)
    for i, a in enumerate(boxes):
        for b in boxes[:i]:
            assert not (a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]), (a, b)
    opened.context.close()


def test_without_javascript_everything_is_there(browser: Any, page_file: Path) -> None:
    opened = Opened(browser, page_file, java_script_enabled=False)
    text = opened.page.locator("body").text_content()
    for model in MODELS:
        assert model in text
    assert opened.page.locator("#ranking tbody tr").count() == len(MODELS)
    assert opened.page.locator("figure.chart").first.is_hidden()
    assert opened.page.locator("#model-language-select").is_hidden()
    assert opened.page.locator("#ranking thead button").count() == 0
    opened.context.close()


def test_a_long_table_is_read_page_by_page(browser: Any, long_file: Path) -> None:
    opened = Opened(browser, long_file, viewport={"width": 390, "height": 900})
    opened.wait_for_charts()
    details = opened.page.locator("#model-language-table-all")
    details.locator("summary").press("Enter")
    rows = opened.page.locator("#model-language-table tbody tr")
    rows.nth(99).wait_for()
    assert rows.count() == 100
    pager = opened.page.locator("#model-language-table .pager")
    assert pager.get_by_role("button", name="Previous").is_disabled()
    first = rows.first.text_content()
    pager.get_by_role("button", name="Next").press("Enter")
    assert pager.locator(".count").text_content().startswith("page 2 of")
    assert rows.first.text_content() != first
    box = opened.page.locator("#model-language-table-filter")
    box.wait_for(state="visible")
    box.fill("alert(1)")
    assert set(column(opened, "model-language-table", 0)) == {SCRIPT}
    numbers = opened.page.locator("#model-language-table thead button").filter(has_text="PRR")
    numbers.click()
    shown = [float(text.split(" ")[0]) for text in column(opened, "model-language-table", 2)]
    assert shown == sorted(shown, reverse=True)
    width = opened.page.evaluate("document.documentElement.scrollWidth")
    assert width <= 390
    assert opened.problems == []
    opened.context.close()


# What every chart looks like on paper: whether it is there, its colour of text, and its width
# beside that of the page.
_ON_PAPER = """matchMedia('print').addEventListener('change', ({ matches }) => {
    if (matches) window.onPaper = [...document.querySelectorAll('.vega')].map((one) => [one.id,
        one.querySelector('.role-axis-label text')?.getAttribute('fill')
            ?? one.querySelector('svg text')?.getAttribute('fill'),
        one.querySelector('svg')?.clientWidth <= document.body.clientWidth]);
});
window.onscreen = () => [...document.querySelectorAll('.vega')].map((one) =>
    one.querySelector('.role-axis-label text')?.getAttribute('fill'));
"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_page_that_was_just_opened_prints_all_charts_in_dark_ink(
    browser: Any, page_file: Path, scheme: str
) -> None:
    opened = Opened(
        browser,
        page_file,
        # No chart is drawn for being in the window, or in idle time.
        script=f"{_ON_PAPER}window.requestIdleCallback = () => 0;"
        "window.IntersectionObserver = class { observe() {} unobserve() {} };",
        color_scheme=scheme,
    )
    assert opened.page.locator(".vega svg").count() == 0
    pdf = opened.page.pdf()
    assert pdf.startswith(b"%PDF") and len(pdf) > 20_000
    on_paper = opened.page.evaluate("onPaper")
    assert "model-language-chart" in {name for name, *_ in on_paper}
    assert [one for one in on_paper if one[1:] != ["#1b1f24", True]] == []
    # On the screen the charts go back to its colours.
    ink = {"light": "#1b1f24", "dark": "#e6eaee"}[scheme]
    opened.page.wait_for_function(f"onscreen().every((one) => !one || one === '{ink}')")
    assert opened.problems == []
    opened.context.close()


def test_controls_do_not_print(browser: Any, page_file: Path) -> None:
    opened = Opened(browser, page_file)
    opened.page.emulate_media(media="print")
    assert opened.page.locator("nav").is_hidden()
    assert opened.page.locator("#ranking .tools").is_hidden()
    # The chart of one model says which one it is.
    assert opened.page.locator("#model-language-select").is_visible()
    # A button of a header is not painted again where the table goes on on the next page.
    button = opened.page.locator("#ranking th button").first
    assert button.evaluate("one => getComputedStyle(one).display") == "contents"
    opened.page.emulate_media(media="screen")
    assert button.evaluate("one => getComputedStyle(one).display") == "inline-flex"
    opened.context.close()
