"""The pages without building them: every page is reachable, and code cells are the public API."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import bayeseval
import bayeseval.mexa

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
_NUMBER = re.compile(r"(?<![A-Za-z\d.,-])\d+(?:,\d{3})*(?:\.\d+)*(?: ?%)?")
_COUNT_OR_YEAR = re.compile(r"1?\d|(?:19|20)\d\d")

# Numbers that a page may state, because nothing measured them: settings and limits of the code,
# definitions, what a publication printed. Whatever is measured is computed by a cell of the page
# or read from perf/results. A number that a page no longer has is removed here too.
STATED: dict[str, dict[str, str]] = {
    "calibrate": {
        "draws of a rank, reported intervals, probability of the bands": "199 50 90 50 % 90 % 5 %",
        "probabilities of tiers": "75 % 97.5 %",
        "mean rank under calibration": "0.5",
    },
    "checks": {
        "limits of p-values, and 13 times the upper one": "0.025 0.005 0.3",
        "13 times FALSE_ALARMS, which test_checks compares with checks.csv": "0.04",
        "tables of robust and replicates, which test_checks counts": "20",
        "draws of a check, tables of a band": "40 999",
        "limit of effects of leave-one-out predictions": "2,000",
        "records, tables and models of checks of large tables": "200,000 99 5,000",
        "limit of k-hat": "0.7",
        "powers of the prior, and the limit of sensitivity": "0.99 1.01 0.05",
        "mean rank under calibration": "0.5",
        "printed in appendix C of Hu, Vulić and Korhonen (2025)": "0.979 0.987 0.001",
    },
    "compare": {
        "limits of k-hat, overlap and units, refits and draws": "0.7 0.5 % 20 500",
        "the example's share, probability of the intervals": "30 % 90 %",
    },
    "explanation/marginal_engine": {"limit of k-hat": "0.7", "limit of levels": "20"},
    "glossary": {"limits of k-hat and of tiers": "0.7 0.975"},
    "faq": {"the ends of a scale, EuroEval's definition": "100 % 1.96"},
    "forecast": {
        "names of a code, a release, a licence and a map scale": "639 5.1 4.0 110",
        "default draws, levels of two intervals": "1,000 90 %",
    },
    "formats": {
        "EuroEval's definition, a verdict as a number": "1.96 0.5",
        "a release of MTEB": "1.11",
    },
    "limits": {
        "cells and languages of perf/limits.py and perf/many_records.py": "10,000 100 200 50 20",
        "records and models of perf/limits.py": "100,000 1,000,000 125",
        "a model, its sentences, a GPU": "70 60 80 990 40%",
    },
    "mexa": {
        "default sentences": "100",
        "layers, and the bound that they give": "33",
        "limits of layers and of a line": "1000 100,000",
        "limits of perf/alignment.py": "50 2.5",
    },
    "model": {
        "a release of Glottolog, its licence": "5.1 4.0",
        "coefficients whose cube is three times the limit of operations": "1,440",
        "edge of bounded scores, on a scale to 100": "0.005 100",
        "prior of dispersions": "0.5",
        "probabilities and limits of verdicts, the default margin": "0.95 0.975 1 %",
        "residual sds of marginal": "20",
        "tables of a command": "300",
        "simulated tables and limits of tests/test_null.py": "60 % 4 % 5 % 92 93 % 98 %",
        "limits of k-hat and of the gate": "0.7 1.01 0.3",
        "default draws, draws below which rank sets contain all ranks": "1,000 37",
    },
    "next": {"cells that are listed": "20", "hidden and random cells": "60 % 100 200"},
    "plan": {"the example's items": "300 600 1,190", "a section of Brennan (2001)": "4.1"},
    "predict": {"cells that are printed": "1,000"},
    "records": {
        "placeholders and scales": "999 9999 100 20 0.2",
        "test items that no table has": "300,000",
        "columns of a table that is reduced": "256",
        "sizes of the shipped tables, which tests/test_readme.py counts": "53 22 30",
    },
    "replicates": {
        "the ends and the middle of a scale": "100 % 50 %",
        "coverage with errors of tools, in simulated tables of equal models": "51 % 80 % 50",
        "table 3 of Sälevä, Ataman and Lignos": "1,000 0.755 0.051 0.647",
        "cells and tolerance of tests/test_item_recovery.py": "32 5 %",
        "bootstraps of perf/replicate_recovery.py": "20",
    },
    "reference_posteriors": {
        "comparisons per one beyond three and five standard errors": "370 1.7"
    },
    "report": {
        "rows of a long table": "40",
        "names of a schema and a code": "0.3.0 639",
        "limit of a change, and its complement": "0.975 20",
    },
    "results": {
        "a release of Matplotlib, a section, an exit code": "3.10 2.3 130",
        "probabilities of verdicts, the default margin": "0.95 0.975 1 %",
        "limits of what is printed and stored": "10,000 0.001 30 20 50 150 300",
        "columns of running text": "80 100",
    },
    "tutorials/additive_or_interaction": {"limit of k-hat": "0.7"},
    "tutorials/arviz": {"the upper end of the scores": "100"},
    "tutorials/first_fit": {"default draws": "1,000"},
    "tutorials/plan_next": {"a cost of the example": "20"},
    "tutorials/seeds_and_test_sets": {"items of the example": "600"},
    "threat_model": {
        "limits of files, tables, labels and posteriors": "16,384 5,000,000 50 500,000 1,000,000 "
        "500 200 524,288 64 10,000 100 1,000 2,000 1000 0.000001 1,000,000,000 256",
        "files that the script generates, which a test counts": "5,000",
        "the day on which pins were compared, how many, version and finds of the control": "26 213 "
        "210 0.0.5 531",
    },
}
# The same of README outside its tables and blocks: tests/test_readme.py compares all of them,
# and the tables and blocks, with a fit, a table or a file of perf/results.
COMPARED = "53 216 22 30 555 360 37 203 150 69 % 81 6.9 11.1"


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
            # The package of alignment is public, too.
            public_names = bayeseval.mexa.__all__ if node.module == "bayeseval.mexa" else ()
            found += [
                f"from {node.module} import {name.name}"
                for name in node.names
                if name.name not in public_names
            ]
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
    """Numbers in the prose of a page that no cell computed, but for small counts and years."""
    prose = _CELL.sub("", text.partition(_HEADER)[2] or text)
    prose = re.sub(r"^```.*?^```", "", prose, flags=re.MULTILINE | re.DOTALL)
    prose = re.sub(r"\$\$.*?\$\$", "", prose, flags=re.DOTALL)
    prose = re.sub(r"(?<=\n\n)(?: {4}.*\n)+", "", prose)
    prose = re.sub(r"`[^`]*`|\$[^$]*\$|\]\([^)]*\)|<https?:[^>]*>", "", prose)
    prose = re.sub(r"(?:arXiv|doi):\S+|Python 3\.\d+|commit [0-9a-f]{7}", "", prose)
    prose = prose.replace("95 %", "")  # the probability of all intervals, which is a setting
    return [one for one in _NUMBER.findall(prose) if not _COUNT_OR_YEAR.fullmatch(one)]


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


@pytest.mark.parametrize("page", PAGES)
def test_the_text_of_a_page_has_no_number_that_was_measured(page: str) -> None:
    assert numbers(text_of(page)) == split(" ".join(STATED.get(page, {}).values()))


def test_the_text_of_readme_has_no_number_that_no_test_compares() -> None:
    text = (DOCS.parent / "README.md").read_text(encoding="utf-8")
    assert numbers(re.sub(r"^\|.*$", "", text, flags=re.MULTILINE)) == split(COMPARED)


def numbers(text: str) -> list[str]:
    return sorted({one.replace(" ", "") for one in typed_numbers(text)})


def split(stated: str) -> list[str]:
    return sorted(stated.replace(" %", "%").split())


def test_the_checks_find_what_they_look_for() -> None:
    assert private_names("import bayeseval as be\nbe.load('mega')._hidden") == [
        "be.load('mega')._hidden"
    ]
    assert private_names("be.fitting") == ["be.fitting"]
    assert private_names("from bayeseval.engines import marginal") == [
        "from bayeseval.engines import marginal"
    ]
    assert private_names("be.fit(records).ranking()\nbe.__version__") == []
    said = (
        "The score is 12.5 in 40 % of 1,364 cases of 9 models, with 95 %, in 2025 (`0.1`, $0.2$).\n"
    )
    assert typed_numbers(f"---\n{_HEADER}\n{said}") == ["12.5", "40 %", "1,364"]
    assert typed_numbers(f"# A page without cells\n\n{said}") == ["12.5", "40 %", "1,364"]
    cells = "```{code-cell} ipython3\n1.5\n```\n\n$$\n2.5\n$$\n\n```bash\nrun 3.5\n```\n"
    assert typed_numbers(f"---\n{_HEADER}\n{cells}") == []
