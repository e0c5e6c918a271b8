"""The page of a result folder: one HTML file that opens from disk and asks for nothing."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bayeseval import names
from bayeseval._text import for_html, grouped, unbroken
from bayeseval.output._files import to_json
from bayeseval.output.language_names import name_and_code
from bayeseval.output.store import add_files, replace_file, write_text
from bayeseval.output.text import shorten_names
from bayeseval.reporting.blocks import Section
from bayeseval.reporting.bundle import chart_library
from bayeseval.reporting.citations import citations_of
from bayeseval.reporting.folder import SavedResults
from bayeseval.reporting.further import further_sections, made_section
from bayeseval.reporting.languages import languages_section
from bayeseval.reporting.models import models_section
from bayeseval.reporting.observed import read_observed
from bayeseval.reporting.summary import (
    Facts,
    checks_sentence,
    data_sentence,
    facts_of,
    headline,
    meanings,
    sampling_sentences,
)

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

__all__ = ["REPORT_FILE", "render_page", "save_page", "write_page"]

#: Name of the page inside a result folder.
REPORT_FILE: Final = "report.html"

# Longer names make the first sentences hard to read.
_MOST_NAME: Final = 40
_TEMPLATES: Final = Path(__file__).resolve().parent / "templates"
# Letters of scripts that run from right to left, and controls that change the direction.
_OTHER_DIRECTION: Final = re.compile(
    "[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\u200e\u200f\u202a-\u202e\u2066-\u2069]"
    "|[\U00010800-\U00010fff\U0001e800-\U0001eeff]"
)


# What would end a script element, a line of a script, or act on a terminal.
_NOT_IN_SCRIPTS: Final = re.compile("[<>&\u2028\u2029\x7f-\x9f]")
# An option with its value, as in "try --model crossed".
_OPTION: Final = re.compile(r"(--[a-z][a-z-]*(?: [a-z_]+)?)")


def write_page(results: SavedResults, path: str | Path) -> Path:
    """Write the report of a result folder as one HTML file.

    Parameters
    ----------
    results : SavedResults
        Of :func:`bayeseval.reporting.folder.read_saved`.
    path : str or Path
        Where to; what is there is replaced when the new page is whole.

    Returns
    -------
    Path
        The file.

    Raises
    ------
    InputError
        If the file cannot be written.
    """
    return save_page(results, render_page(results), path)


def save_page(results: SavedResults, html: str, path: str | Path) -> Path:
    """Write a page of these results, as :func:`write_page` does."""
    target = Path(path)
    write = partial(write_text, html)
    # A link that came with the folder is replaced, not the file that it leads to.
    if target.parent.resolve() == results.path.resolve():
        # Listed in the run file, so that it goes with the results it was made from.
        add_files(results.path, {target.name: write}, run=results.run)
    else:
        replace_file(write, target)
    return target


def render_page(results: SavedResults) -> str:
    """The page as text; equal for equal folders.

    Parameters
    ----------
    results : SavedResults
        A fit, a comparison or a sensitivity analysis.

    Returns
    -------
    str
        HTML with styles, scripts and data inside it.
    """
    facts = facts_of(results, read_observed(results.path, results.run))
    sections = _sections(facts, results)
    run = results.run
    isolate = _isolating(facts)
    spec = run.get("spec") or {}
    what = {"comparison": "comparison of models", "sensitivity": "sensitivity analysis"}
    kind = next((words for name, words in what.items() if facts.has(name)), "")
    title = str(run.get("benchmark") or results.path.name)
    shown, n_more = meanings(facts)
    prob = run.get("ci_prob", names.CI_PROB)
    return (
        _environment()
        .get_template("report.html")
        .render(
            title=title,
            subtitle=kind or f"model {spec.get('name')}, engine {run.get('engine')}",
            folder=results.path.name,
            headline=headline(facts),
            data=data_sentence(facts),
            gate=sampling_sentences(results),
            gate_failed=results.gate_failed,
            checks="" if kind else checks_sentence(facts),
            meanings=shown,
            n_more=n_more,
            intervals=""
            if facts.point_estimate or kind
            else unbroken(
                f"Numbers are posterior means with {100 * float(prob):.4g} % equal-tailed "
                "intervals."
            ),
            sections=sections,
            has_charts=any(b.kind in ("chart", "chooser") for s in sections for b in s.blocks),
            isolate=isolate,
            isolate_short=_isolating(facts, most=_MOST_NAME),
            style=_asset("report.css"),
            script=_asset("report.js"),
            library=chart_library(),
            version=(run.get("versions") or {}).get("bayeseval", ""),
            made_at=run.get("created_at", ""),
        )
    )


def _sections(facts: Facts, results: SavedResults) -> list[Section]:
    sections = []
    if facts.has("model_ranking"):
        sections.append(models_section(facts))
    if facts.has("language_potential"):
        sections.append(languages_section(facts))
    sections += further_sections(facts)
    with_map = any(getattr(block, "id", "") == "map" for one in sections for block in one.blocks)
    return [*sections, made_section(facts, citations_of(results, with_map=with_map))]


def _isolating(facts: Facts, *, most: int | None = None) -> Any:
    """A filter that keeps labels of another direction from turning the text around them.

    It also cuts labels of more than `most` characters, and their titles are the whole labels.
    """
    from markupsafe import Markup

    labels = list(dict.fromkeys(map(for_html, _labels(facts))))
    # Of all labels together, so that different ones stay different.
    short = {}
    if most is not None:
        short = dict(zip(labels, shorten_names(labels, most), strict=True))
    cut = {label: name for label, name in short.items() if len(label) > (most or 0)}
    odd = sorted(
        {
            label
            for label in labels
            if label in cut or "-" in label or _OTHER_DIRECTION.search(label)
        },
        key=len,
        reverse=True,
    )
    pattern = re.compile("|".join(map(re.escape, odd))) if odd else None

    def isolate(value: object) -> Markup:
        text = for_html(str(value))
        if pattern is None:
            return _with_options(unbroken(text))
        parts, start = [], 0
        for match in pattern.finditer(text):
            parts.append(_with_options(unbroken(text[start : match.start()])))
            label = match.group()
            title = Markup(' title="{}"').format(label) if label in cut else ""
            parts.append(Markup("<bdi{}>{}</bdi>").format(title, cut.get(label, label)))
            start = match.end()
        parts.append(_with_options(unbroken(text[start:])))
        return Markup("").join(parts)

    return isolate


def _with_options(text: str) -> Markup:
    """Text with options of commands as code, so that they are not broken at a hyphen."""
    from markupsafe import Markup, escape

    return Markup("").join(
        Markup('<code class="option">{}</code>').format(part) if i % 2 else escape(part)
        for i, part in enumerate(_OPTION.split(text))
    )


def _labels(facts: Facts) -> Iterable[str]:
    for table, column in (("model_ranking", names.MODEL), ("language_potential", names.LANGUAGE)):
        if facts.has(table):
            known = [str(label) for label in facts.tables[table][column]]
            yield from known
            if column == names.LANGUAGE:
                yield from name_and_code(known, facts.language_names)


@lru_cache(maxsize=1)
def _environment() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        finalize=_printed,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["json"] = _script_json
    environment.globals["grouped"] = grouped
    return environment


def _printed(value: object) -> object:
    """What an expression of the template prints: texts without control characters.

    Markup is made here, of texts that have none, or is a script or a style of ours.
    """
    return for_html(value) if type(value) is str else value


def _script_json(value: object) -> Markup:
    """JSON that can stand inside a script element, whatever texts are in it."""
    from markupsafe import Markup

    # JSON escapes the other control characters itself.
    return Markup(_NOT_IN_SCRIPTS.sub(lambda c: f"\\u{ord(c.group()):04x}", to_json(value)))


@lru_cache
def _asset(name: str) -> str:
    return (_TEMPLATES / name).read_text(encoding="utf-8")
