"""Docstrings of the public surface follow numpydoc, and say what the code takes."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest
from numpydoc.validate import validate

import bayeseval

PACKAGE = Path(__file__).resolve().parent.parent / "src" / "bayeseval"

# Form, wherever a docstring stands.
FORM = {
    "GL03",  # double blank lines
    "GL05",  # tabs
    "GL06",  # unknown section
    "GL07",  # sections in the wrong order
    "GL08",  # no docstring
    "SS01",  # no summary
    "SS02",  # the summary begins with a lower-case letter
    "SS03",  # the summary does not end with a full stop
    "SS04",  # leading spaces
    "SS06",  # the summary takes more than one line
    "PR02",  # a documented parameter does not exist
    "PR03",  # parameters in the wrong order
    "PR10",  # no space before the colon
}
# A Parameters section, once begun, names them all.
BEGUN = "PR01"
# What a user calls first documents everything it takes and returns.
COMPLETE = FORM | {"PR01", "PR07", "RT01", "RT03"}


def modules() -> list[str]:
    """Importable names of all modules that are not private."""
    names = []
    for path in sorted(PACKAGE.rglob("*.py")):
        if path.stem.startswith("_") and path.stem != "__init__":
            continue
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        names.append(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
    return names


def public_objects(module: ModuleType) -> Iterator[tuple[str, object]]:
    """Functions, classes and methods that a module defines and lists in __all__."""
    for name in getattr(module, "__all__", ()):
        item = getattr(module, name)
        if getattr(item, "__module__", None) != module.__name__:
            continue
        if inspect.isfunction(item) or inspect.isclass(item):
            yield f"{module.__name__}.{name}", item
        if inspect.isclass(item):
            for key, member in vars(item).items():
                plain = inspect.isfunction(member) or isinstance(
                    member, property | classmethod | staticmethod
                )
                if plain and not key.startswith("_"):
                    yield f"{module.__name__}.{name}.{key}", member


def complaints(name: str, codes: set[str]) -> list[str]:
    result = validate(name)
    # A class may leave inherited fields to its parent's docstring.
    if result["type"] == "function" and "\nParameters\n---" in result["docstring"]:
        codes = codes | {BEGUN}
    return [f"{code} {text}" for code, text in result["errors"] if code in codes]


@pytest.mark.parametrize("name", modules())
def test_every_module_says_what_it_is_and_what_is_public(name: str) -> None:
    tree = import_module(name)
    assert (tree.__doc__ or "").strip(), f"{name} has no docstring"
    assert isinstance(tree.__all__, list | tuple)
    missing = [public for public in tree.__all__ if not hasattr(tree, public)]
    assert missing == []


@pytest.mark.parametrize("name", modules())
def test_form_of_public_docstrings(name: str) -> None:
    found = {
        path: problems
        for path, _ in public_objects(import_module(name))
        if (problems := complaints(path, FORM))
    }
    assert found == {}


def front_door() -> list[str]:
    """The exported functions, and the methods of the object they lead to."""
    functions = [
        f"{item.__module__}.{name}"
        for name in bayeseval.__all__
        if inspect.isfunction(item := getattr(bayeseval, name))
    ]
    methods = [
        f"bayeseval.fitting.fitted.Fit.{name}"
        for name, member in inspect.getmembers_static(bayeseval.Fit)
        if not name.startswith("_")
        and (inspect.isfunction(member) or isinstance(member, classmethod))
    ]
    return functions + methods


@pytest.mark.parametrize("name", front_door())
def test_front_door_is_documented_in_full(name: str) -> None:
    assert complaints(name, COMPLETE) == []


def test_front_door_is_not_empty() -> None:
    expected = {
        "bayeseval.fitting.run.fit",
        "bayeseval.records.load.load",
        "bayeseval.fitting.fitted.Fit.potential",
    }
    assert expected <= set(front_door())


def sample(number: int, *, label: str) -> str:  # the negative control
    """repeat a label

    Parameters
    ----------
    number : int
    lable : str
        The label.
    """
    return label * number


def test_a_bad_docstring_is_caught() -> None:
    # Test modules are not importable by name, so a stand-in holds the sample.
    stand_in = ModuleType("docstring_sample")
    stand_in.sample = sample  # type: ignore[attr-defined]
    sys.modules["docstring_sample"] = stand_in
    try:
        found = {text[:4] for text in complaints("docstring_sample.sample", COMPLETE)}
    finally:
        del sys.modules["docstring_sample"]
    assert found == {"SS02", "SS03", "PR01", "PR02", "PR07", "RT01"}
