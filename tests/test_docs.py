"""The pages without building them: every page is reachable, and code cells are the public API."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import bayeseval

DOCS = Path(__file__).parents[1] / "docs"
PAGES = sorted(
    str(path.relative_to(DOCS).with_suffix("").as_posix())
    for path in DOCS.rglob("*.md")
    if "_build" not in path.parts
)
_TOCTREE = re.compile(r"^```\{toctree\}\n(.*?)^```", re.MULTILINE | re.DOTALL)
_CELL = re.compile(
    r"^```\{code-cell\} ipython3\n((?::[^\n]*\n)*)(.*?)^```", re.MULTILINE | re.DOTALL
)
_HEADER = "file_format: mystnb\n---\n"


def text_of(page: str) -> str:
    return (DOCS / f"{page}.md").read_text(encoding="utf-8")


RUN = [page for page in PAGES if "```{code-cell}" in text_of(page)]


def entries(page: str) -> list[str]:
    """Pages that the toctrees of a page name, relative to docs/."""
    lines = [line for block in _TOCTREE.findall(text_of(page)) for line in block.split("\n")]
    folder = (DOCS / page).parent
    return [
        str((folder / line).resolve().relative_to(DOCS.resolve()).as_posix())
        for line in lines
        if line and not line.startswith(":")
    ]


def private_names(code: str) -> list[str]:
    """What a cell uses of bayeseval that is not public; all else of Python is allowed."""
    tree = ast.parse(code)
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("bayeseval"):
            found += [f"from {node.module} import {name.name}" for name in node.names]
        elif isinstance(node, ast.Import):
            found += [
                f"import {name.name}" for name in node.names if name.name.startswith("bayeseval.")
            ]
        elif isinstance(node, ast.Attribute):
            of_package = isinstance(node.value, ast.Name) and node.value.id == "be"
            public = not of_package or node.attr in (*bayeseval.__all__, "__version__", "__file__")
            if not public or re.match(r"_[^_]", node.attr):
                found.append(ast.unparse(node))
    return found


def typed_numbers(text: str) -> list[str]:
    """Decimal numbers and percentages in the prose of a page, where no cell computed them."""
    prose = _CELL.sub("", text.partition(_HEADER)[2])
    prose = re.sub(r"^```.*?^```", "", prose, flags=re.MULTILINE | re.DOTALL)
    prose = re.sub(r"`[^`]*`|\$[^$]*\$|\]\([^)]*\)|arXiv:\S+|Python 3\.\d+", "", prose)
    prose = prose.replace("95 %", "")  # the probability of all intervals, which is a setting
    return re.findall(r"\d+\.\d+|\d+ ?%", prose)


def test_every_page_is_in_a_toctree_and_no_entry_is_missing() -> None:
    named = [entry for page in PAGES for entry in entries(page)]
    assert sorted([*named, "index"]) == PAGES


def test_some_pages_run() -> None:
    assert "tutorials/first_fit" in RUN


@pytest.mark.parametrize("page", RUN)
def test_a_page_that_runs_is_a_notebook_of_the_public_api(page: str) -> None:
    text = text_of(page)
    assert text.startswith("---\njupytext:\n")
    assert _HEADER in text
    cells = [code for _, code in _CELL.findall(text)]
    assert len(cells) == text.count("```{code-cell}"), "a cell is not closed, or not ipython3"
    used = [name for code in cells for name in private_names(code)]
    assert not used, f"docs/{page}.md uses what is not public: {used}"


@pytest.mark.parametrize("page", [page for page in RUN if page.startswith("tutorials/")])
def test_the_text_of_a_tutorial_has_no_number_that_nothing_computed(page: str) -> None:
    assert typed_numbers(text_of(page)) == []


def test_the_checks_find_what_they_look_for() -> None:
    assert private_names("import bayeseval as be\nbe.load('mega')._hidden") == [
        "be.load('mega')._hidden"
    ]
    assert private_names("be.fitting") == ["be.fitting"]
    assert private_names("from bayeseval.engines import marginal") == [
        "from bayeseval.engines import marginal"
    ]
    assert private_names("be.fit(records).ranking()\nbe.__version__") == []
    text = f"---\n{_HEADER}\nThe score is 12.5 in 40 % of cases, with 95 %.\n"
    assert typed_numbers(text) == ["12.5", "40 %"]
