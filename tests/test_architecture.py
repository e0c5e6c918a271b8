"""Who may import whom: the table of ARCHITECTURE.md, enforced on the source.

Every rule has a negative control: a small wrong module that must be caught.
"""

from __future__ import annotations

import ast
import functools
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import NamedTuple

import pytest

from scripts import architecture

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "bayeseval"
MAX_LINES = 500

BASE = (
    *(
        "_arguments",
        "_blocks",
        "_calls",
        "_cluster",
        "_compat",
        "_diagnostics",
        "_html",
        "_memory",
        "_optional",
        "_processes",
        "_progress",
        "_random",
        "_resources",
        "_second_process",
        "_special",
        "_text",
        "_typing",
        "_yaml",
    ),
    *("errors", "names"),
)

# Room: the rooms it may import, besides itself and `base`. Where two entries fit a
# module the longer one counts, so `output.store` is stricter than `output`.
_DATA = ("languages", "readers", "records")
_MODEL = (*_DATA, "spec", "design", "engines", "estimands", "checks")
_OUTPUT = ("output", "output.store")
_FITTING = ("fitting", "fitting.gate", "fitting.report")
_ANSWERS = ("comparison", "leaving_out", "planning", "forecasting")
_SIMULATED = ("simulation", "calibration")
ROOMS: Mapping[str, tuple[str, ...]] = {
    "base": (),
    "languages": (),
    "readers": ("languages",),
    "records": ("languages", "readers"),
    "families": (),
    "spec": ("families",),
    "design": ("languages", "records", "families", "spec"),
    "engines": ("records", "families", "spec", "design"),
    "estimands": ("families",),
    "checks": ("records", "families", "spec", "design", "engines", "estimands", *_OUTPUT),
    "output.store": (),
    "output": ("output.store",),
    "mexa": (*_DATA, *_OUTPUT),
    "fitting.gate": (),
    "fitting.report": ("records", "design", "estimands", "checks", *_OUTPUT, "fitting.gate"),
    "fitting": (*_MODEL, *_OUTPUT, "mexa", "fitting.gate", "fitting.report"),
    **dict.fromkeys(_ANSWERS, (*_MODEL, *_OUTPUT, *_FITTING)),
    "reporting": ("families", *_MODEL, *_OUTPUT, *_FITTING, *_ANSWERS),
    "simulation": ("records", "families", "spec", "design"),
    "calibration": (*_MODEL, *_OUTPUT, *_FITTING, "simulation"),
    "cli": (*_MODEL, *_OUTPUT, "mexa", *_FITTING, *_ANSWERS, "reporting", *_SIMULATED),
}

# Helpers that live in a stricter room than their folder's.
HELPERS = {
    **dict.fromkeys(
        (
            "output._files",
            "output._folders",
            "output._deferred",
            "output._hdf5",
            "output._identity",
            "output._integrity",
            "output._run_file",
            "output._locks",
            "output._places",
        ),
        "output.store",
    ),
    "__main__": "cli",
}

# What estimands may know of `base`: names and errors, never files.
ESTIMANDS_BASE = {"errors", "names", "_blocks", "_random", "_text", "_typing"}

# Heavy package: the modules (by prefix) that may import it at all. Inside functions
# everywhere, at module level only in a LAZY module, which is itself imported on use.
FIGURES = (
    *("checks", "fitting.plots", "output", "fitting.report"),
    *(*_ANSWERS, "calibration", "mexa.report"),
)
HEAVY: Mapping[str, tuple[str, ...]] = {
    "pymc": ("_compat", "families", "engines"),
    "pytensor": ("engines",),
    "numpyro": ("families", "engines"),
    "jax": ("families", "engines"),
    "nutpie": ("engines",),
    "blackjax": ("engines",),
    "statsmodels": ("engines",),
    "matplotlib": FIGURES,
    "arviz_base": ("_compat", "engines", "fitting"),
    "arviz_stats": ("_compat", "engines", "fitting", "comparison", "checks"),
    "arviz_plots": ("_compat", "fitting.report"),
    "jinja2": ("reporting",),
    "markupsafe": ("reporting",),
    "vl_convert": ("reporting",),
    "torch": (),
    "transformers": (),
    # The metapackage is another library on Python 3.11 than on 3.12.
    "arviz": (),
}
EAGER_ENGINES = ("engines", "engines.base")


class Import(NamedTuple):
    """One imported module or name, as written."""

    target: str
    line: int
    relative: bool
    at_import_time: bool


@functools.cache
def imports_of(source: str) -> tuple[Import, ...]:
    """All imports of a module; those in functions or for type checkers run later or never."""
    return tuple(_imports_of(ast.parse(source)))


def _imports_of(tree: ast.Module) -> Iterator[Import]:
    later: set[ast.AST] = set()
    for node in ast.walk(tree):
        body = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        typing_only = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
        if body or typing_only:
            later.update(ast.walk(node))
    for node in ast.walk(tree):
        now = node not in later
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(alias.name, node.lineno, False, now)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            for alias in node.names:
                yield Import(f"{base}.{alias.name}", node.lineno, node.level > 0, now)


def module_name(path: Path) -> str:
    """``records.load`` of ``src/bayeseval/records/load.py``; empty for the package itself."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@functools.cache
def sources() -> Mapping[str, str]:
    return {module_name(p): p.read_text(encoding="utf-8") for p in sorted(PACKAGE.rglob("*.py"))}


def our_module(target: str, known: set[str]) -> str | None:
    """The module of ours that an import loads, or None for a foreign one."""
    top, *rest = target.split(".")
    if top != "bayeseval":
        return None
    while rest and ".".join(rest) not in known:
        rest.pop()
    return ".".join(rest)


def room_of(module: str) -> str:
    if module in HELPERS:
        return HELPERS[module]
    if module in BASE:
        return "base"
    matches = [room for room in ROOMS if module == room or module.startswith(room + ".")]
    assert matches, f"{module} is in no room: add it to ROOMS and to ARCHITECTURE.md"
    return max(matches, key=len)


def problems(module: str, source: str, known: set[str]) -> list[str]:
    """Every rule a module breaks."""
    found = []
    room = room_of(module)
    for item in imports_of(source):
        where = f"{module}:{item.line}"
        if item.relative:
            found.append(f"{where}: relative import")
        target = our_module(item.target, known)
        if target == "":
            found.append(f"{where}: imports the package itself ({item.target})")
        elif target is not None:
            other = room_of(target)
            allowed = {room, *ROOMS[room], "base"}
            if other not in allowed:
                found.append(f"{where}: {room} may not import {other} ({item.target})")
            elif room == "estimands" and other == "base" and target not in ESTIMANDS_BASE:
                found.append(f"{where}: estimands may not import {target}")
        package = item.target.split(".")[0]
        if package in HEAVY:
            homes = HEAVY[package]
            if not any(module == home or module.startswith(home + ".") for home in homes):
                found.append(f"{where}: {module} may not import {package}")
            lazy = module.startswith("engines.") and module not in EAGER_ENGINES
            if item.at_import_time and not lazy:
                found.append(f"{where}: {package} imported at module level")
    lines = source.count("\n")
    if lines > MAX_LINES:
        found.append(f"{module}: {lines} lines, more than {MAX_LINES}")
    return found


@pytest.mark.parametrize("module", [name for name in sources() if name])
def test_module_keeps_to_its_room(module: str) -> None:
    modules = sources()
    assert problems(module, modules[module], set(modules)) == []


def undeclared(modules: Mapping[str, str], requirements: list[str]) -> set[str]:
    """Top-level packages imported somewhere, but installed only by luck."""
    declared = {re.split(r"[^\w-]", line)[0].replace("-", "_").lower() for line in requirements}
    imported = {
        item.target.split(".")[0] for source in modules.values() for item in imports_of(source)
    }
    distributions = {
        "bidi": "python_bidi",
        "ibis": "ibis_framework",
        "vl_convert": "vl_convert_python",
        "yaml": "pyyaml",
    }
    foreign = imported - set(sys.stdlib_module_names) - {"bayeseval"}
    return {name for name in foreign if distributions.get(name, name) not in declared}


def test_every_import_is_a_declared_dependency() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    # `readers.databases` asks for Ibis and its extra before any of these modules is imported.
    databases = project["optional-dependencies"]["ibis"]
    assert undeclared(sources(), [*project["dependencies"], *databases]) == set()
    assert undeclared({"fit": "import tqdm, yaml"}, project["dependencies"]) == {"tqdm"}


def test_package_root_loads_only_the_standard_library() -> None:
    modules = sources()
    eager = [item.target for item in imports_of(modules[""]) if item.at_import_time]
    allowed = {"__future__", "importlib", "sys", "types", "typing"}
    assert {target.split(".")[0] for target in eager} <= allowed
    assert [t for t in ("__future__", "sys") if t in {e.split(".")[0] for e in eager}]


def test_rooms_form_a_walk() -> None:
    order = list(TopologicalSorter(ROOMS).static_order())
    assert order.index("records") < order.index("design") < order.index("engines")
    assert order.index("engines") < order.index("fitting") < order.index("cli")


def test_no_cycle_at_import_time() -> None:
    modules = sources()
    assert find_cycle(modules) is None


def find_cycle(modules: Mapping[str, str]) -> list[str] | None:
    known = set(modules)
    graph = {
        name: {
            target
            for item in imports_of(source)
            if item.at_import_time
            # A package's __init__ may import its own modules and be imported by them only lazily.
            and (target := our_module(item.target, known)) not in (None, "", name)
        }
        for name, source in modules.items()
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return None


BROKEN = {
    "estimands reach into engines": (
        "estimands.prr",
        "from bayeseval.engines.base import Draws",
        "estimands may not import engines",
    ),
    "estimands read files": (
        "estimands.prr",
        "def f():\n    from bayeseval._yaml import read_yaml",
        "estimands may not import _yaml",
    ),
    "records know a later room": (
        "records.load",
        "from bayeseval import design",
        "records may not import design",
    ),
    "a lazy import counts too": (
        "design",
        "def f():\n    from bayeseval.fitting.run import Fit",
        "design may not import fitting",
    ),
    "the store asks estimands": (
        "output.store",
        "from bayeseval.estimands import derive",
        "output.store may not import estimands",
    ),
    "so does the store's helper": (
        "output._files",
        "import bayeseval.estimands.prr",
        "output.store may not import estimands",
    ),
    "a sampler outside the engines": (
        "fitting.run",
        "def f():\n    import numpyro",
        "fitting.run may not import numpyro",
    ),
    "a heavy package at module level": (
        "fitting.report.figures",
        "import matplotlib.pyplot as plt",
        "matplotlib imported at module level",
    ),
    "naming a likelihood loads a PPL": (
        "families.normal",
        "import numpyro.distributions as dist",
        "numpyro imported at module level",
    ),
    "naming an engine loads a PPL": (
        "engines.base",
        "import jax.numpy as jnp",
        "jax imported at module level",
    ),
    "the ArviZ metapackage": (
        "fitting.gate",
        "def f():\n    import arviz as az",
        "fitting.gate may not import arviz",
    ),
    "a relative import": ("design", "from .spec import ModelSpec", "relative import"),
    "the public surface used inside": (
        "simulation",
        "from bayeseval import load",
        "imports the package itself",
    ),
    "a file that wants a second door": ("names", "x = 1\n" * 501, "501 lines"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_rule_is_caught(case: str) -> None:
    module, source, message = BROKEN[case]
    known = {"design", "engines.base", "estimands.prr", "estimands", "fitting.run", "spec", "_yaml"}
    found = problems(module, source, known)
    assert len(found) >= 1
    assert any(message in problem for problem in found), found


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("engines.pymc", "import pymc as pm\nfrom bayeseval.design import Design"),
        ("fitting.report.figures", "def draw():\n    import matplotlib.pyplot as plt"),
        ("design", "from bayeseval import names\nfrom bayeseval.spec import ModelSpec"),
        ("names", "x = 1\n" * 500),
    ],
)
def test_a_kept_rule_is_not(module: str, source: str) -> None:
    assert problems(module, source, {"design", "names", "spec"}) == []


def test_a_module_without_a_room_is_caught() -> None:
    with pytest.raises(AssertionError, match="leaderboard is in no room"):
        room_of("leaderboard")


def test_a_cycle_is_caught() -> None:
    ring = {
        "spec": "from bayeseval.design import Design",
        "design": "from bayeseval.spec import ModelSpec",
    }
    assert set(find_cycle(ring) or ()) == {"spec", "design"}
    ring["design"] = "def f():\n    from bayeseval.spec import ModelSpec"
    assert find_cycle(ring) is None


def test_architecture_page_lists_every_module_with_its_first_line() -> None:
    page = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    assert architecture.with_modules(page, PACKAGE) == page, "run: make architecture"


def test_a_stale_module_table_is_caught() -> None:
    page = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    stale = page.replace("| `names.py` |", "| `nouns.py` |")
    assert stale != page
    assert architecture.with_modules(stale, PACKAGE) == page


def test_architecture_page_has_the_rooms_of_this_test() -> None:
    page = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    row = r"^\| (?:base|`([\w.]+)`) \| ([^|]*) ?\| [^|]+ \|$"
    listed = re.findall(row, page, flags=re.MULTILINE)
    rooms = {room or "base": text for room, text in listed}
    assert list(rooms) == list(ROOMS)
    for room, text in rooms.items():
        if text.strip() not in ("", "base", "everything", "everything but `cli`"):
            assert set(text.strip().replace("`", "").split(", ")) == set(ROOMS[room]), room


def test_no_room_holds_more_than_a_fifth_of_the_code() -> None:
    lines = {name: source.count("\n") for name, source in sources().items() if name}
    folders: dict[str, int] = {}
    for name, count in lines.items():
        folder = name.split(".")[0]
        folders[folder] = folders.get(folder, 0) + count
    total = sum(folders.values())
    assert {folder: n for folder, n in folders.items() if n > 0.2 * total} == {}
