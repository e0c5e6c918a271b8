"""Checks of public arguments: numbers, paths, mappings and lists, refused in one line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from numbers import Integral, Real
from pathlib import Path
from typing import Any, Final

import numpy as np

from bayeseval._special import refuse_impossible
from bayeseval._text import show
from bayeseval.errors import BayesevalError, InputError

__all__ = [
    "LEAST",
    "as_builtin",
    "as_list",
    "as_mapping",
    "as_names",
    "as_number",
    "as_path",
    "as_text",
    "as_texts",
    "as_whole_number",
    "split_names",
]

Problem = type[BayesevalError]

#: Smallest values of whole numbers that are options of commands, too; 1 for all others.
LEAST: Final[Mapping[str, int]] = {"seed": 0, "refits": 0, "sentences": 0}
# Neither arrays nor result folders hold larger ones.
_TOO_LARGE: Final = 1 << 63


def as_builtin(value: Any) -> Any:
    """The value with numpy's scalars and arrays, also inside lists and mappings, as Python's own.

    JSON and pydantic do not take those of numpy.
    """
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    if isinstance(value, Mapping):
        return {key: as_builtin(own) for key, own in value.items()}
    if isinstance(value, list | tuple):
        return [as_builtin(own) for own in value]
    return value


def as_whole_number(
    name: str, value: object, *, least: int | None = None, error: Problem = InputError
) -> int:
    """A Python or numpy integer as ``int``; truth values are none."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise error(f"{name} must be a whole number, got {_got(value)}")
    number = int(value)
    if least is not None and number < least:
        raise error(f"{name} must be at least {least}, got {show(number)}")
    if number >= _TOO_LARGE:
        raise error(f"{name} must be below 2**63, got {show(number)}")
    return number


def as_number(
    name: str, value: object, *, finite: bool = False, error: Problem = InputError
) -> float:
    """A Python or numpy number as ``float``; truth values are none."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise error(f"{name} must be a number, got {_got(value)}")
    try:
        number = float(value)
    except OverflowError:
        raise error(f"{name} must be a number, got one too large for a float") from None
    if finite and not np.isfinite(number):
        raise error(f"{name} must be a finite number, got {number:g}")
    return number


def as_text(name: str, value: object) -> str:
    """A text that is not empty."""
    if not isinstance(value, str) or not value:
        raise InputError(f"{name} must be a text that is not empty, got {_got(value)}")
    return value


def as_path(name: str, value: object) -> Path:
    """A text or a path as ``Path``."""
    # A blank is a name for the file system, and a slip for everybody else.
    if isinstance(value, str | Path) and not str(value).strip():
        raise InputError(f"{name} is empty; give a path")
    # Other objects with __fspath__ may give bytes.
    if isinstance(value, str | Path):
        refuse_impossible(value)
        return Path(value)
    fspath = getattr(value, "__fspath__", None)
    text = fspath() if callable(fspath) else None
    if not isinstance(text, str):
        # A result in memory in place of its folder; results return it when they are saved.
        saves = name == "folder" and callable(getattr(value, "save", None))
        hint = "; save it first: save(DIR) returns the folder" if saves else ""
        raise InputError(f"{name} must be a path, got {_got(value)}{hint}")
    return Path(text)


def as_mapping(name: str, value: object, *, of: str) -> Mapping[Any, Any]:
    """The mapping itself; `of` says of what to what, as in ``names to fits``."""
    if not isinstance(value, Mapping):
        raise InputError(f"{name} must be a dict of {of}, got {_got(value)}")
    return value


def as_list(name: str, value: object, *, of: str) -> list[Any]:
    """A list, tuple, array or other ordered collection as a list; `of` names its elements."""
    # A mapping would lose its values, and a set has no order that a seed repeats.
    if isinstance(value, str | bytes | Mapping | Set) or not isinstance(value, Iterable):
        raise InputError(f"{name} must be a list of {of}, got {_got(value)}")
    # The elements of an array without axes cannot be counted.
    if isinstance(value, np.ndarray) and value.ndim != 1:
        raise InputError(f"{name} must be a list of {of}, got an array of {value.ndim} dimensions")
    return list(value)


def as_texts(name: str, value: object, *, of: str) -> tuple[str, ...]:
    """Texts in a list, or one text alone, which means a list of it."""
    texts = [value] if isinstance(value, str) else as_list(name, value, of=of)
    for text in texts:
        if not isinstance(text, str):
            raise InputError(f"{name} must be a list of {of}, got {_got(text)} in it")
    return tuple(str(text) for text in texts)


def split_names(text: str | None, *, name: str) -> list[str]:
    """Names separated by commas, without surrounding blanks; empty for None and blank texts.

    Raises
    ------
    InputError
        If one of several names is empty.
    """
    if text is None or not text.strip():
        return []
    parts = [part.strip() for part in text.split(",")]
    if not all(parts):
        raise InputError(
            f"{name} has an empty name in {show(text)}; separate names by single commas"
        )
    return parts


def as_names(name: str, value: object, *, of: str) -> tuple[str, ...]:
    """Texts in a list, or names in one text, separated by commas as on the command line."""
    return as_texts(name, split_names(value, name=name) if isinstance(value, str) else value, of=of)


def _got(value: object) -> str:
    """The value in a message: those of Python itself as they are, others by their type."""
    value = as_builtin(value) if isinstance(value, np.generic) else value
    if isinstance(value, str | int | float | list | tuple | dict | set) or value is None:
        return show(value)
    return type(value).__name__
