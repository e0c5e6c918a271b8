"""Cells to labels and to numbers, in whole columns; the first bad cell is named."""

from __future__ import annotations

import math
import re
import unicodedata
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from bayeseval._text import counted, grouped, score_hint, show
from bayeseval.errors import InputError
from bayeseval.readers.raw import Column, Nested, RawTable, object_array
from bayeseval.readers.typed import TypedCells
from bayeseval.records.coded import Coded

__all__ = [
    "MISSING_WORDS",
    "CleanLabels",
    "all_numbers",
    "clean_labels",
    "empty_cells",
    "parse_numbers",
    "read_label",
]

# float() also takes "1_000", "nan" and digits of other scripts; a table should not.
_NUMBER: Final = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_MAX_LABEL: Final = 500
#: What tables write in cells without a value, in lower case.
MISSING_WORDS: Final = frozenset(["na", "n/a", "nan", "none", "null", "-", "--", ".", "missing"])


@dataclass(frozen=True, slots=True)
class CleanLabels:
    """Labels of one column after cleaning.

    Parameters
    ----------
    values : Coded, n rows
        NFC-normalised labels without blanks at their ends.
    stripped, normalised : tuple of str
        Original labels that lost blanks, or changed by normalisation.
    """

    values: Coded
    stripped: tuple[str, ...] = ()
    normalised: tuple[str, ...] = ()


def empty_cells(cells: Column) -> npt.NDArray[np.bool_]:
    """Mask of cells that hold nothing: null, or text made of blanks."""
    if isinstance(cells, TypedCells) and (missing := cells.missing()) is not None:
        return missing
    codes, uniques = _factorise(cells)
    empty = np.fromiter(
        map(_is_empty, uniques),
        dtype=np.bool_,
        count=len(uniques),
    )
    return empty[codes]


def _is_empty(value: object) -> bool:
    return value is None or (isinstance(value, str) and not value.strip())


def clean_labels(cells: Column, *, table: RawTable, column: str, name: str) -> CleanLabels:
    """Turn a column's cells into labels.

    Whole numbers become their digits (a task or seed may be called 1).

    Raises
    ------
    InputError
        If a label is empty, not text, or holds a control character.
    """
    codes, uniques = _factorise(cells)
    cleaned = [""] * len(uniques)
    stripped: list[str] = []
    normalised: list[str] = []
    for position, value in enumerate(uniques):
        text, problem = read_label(value)
        if problem:
            rows = np.flatnonzero(codes == position)
            remedy = "; fill it in, or remove the row" if _is_empty(value) else ""
            raise InputError(f"{table.at(int(rows[0]), column)}: {name} {problem}{remedy}")
        label = unicodedata.normalize("NFC", text).strip()
        if text != text.strip():
            stripped.append(text)
        if unicodedata.normalize("NFC", text) != text:
            normalised.append(text.strip())
        cleaned[position] = label
    return CleanLabels(Coded.of(codes, cleaned), tuple(stripped), tuple(normalised))


def _factorise(cells: Column) -> tuple[npt.NDArray[np.intp], list[Any]]:
    """Codes and distinct cells. True, 1 and 1.0 are told apart, which hashing is not."""
    if isinstance(cells, TypedCells):
        return cells.factorise()
    if set(map(type, cells)) == {str}:
        first: dict[str, int] = {}
        codes = (first.setdefault(cell, len(first)) for cell in cells)
        return np.fromiter(codes, dtype=np.intp, count=len(cells)), list(first)
    index: dict[tuple[type, Any], int] = {}
    distinct: list[Any] = []
    places = np.empty(len(cells), dtype=np.intp)
    # One loop over rows, only for columns that are not plain text.
    for row, cell in enumerate(cells):
        key = (type(cell), repr(cell) if cell != cell else cell)
        place = index.setdefault(key, len(distinct))
        if place == len(distinct):
            distinct.append(cell)
        places[row] = place
    return places, distinct


def read_label(value: Any) -> tuple[str, str]:
    """The label as text, and the problem with it (or an empty string)."""
    if value is None:
        return "", "is missing"
    if isinstance(value, str):
        if not value.strip():
            return "", "is empty"
        if len(value) > _MAX_LABEL:
            return "", (
                f"{show(value)} is a label of {grouped(len(value))} characters; at most"
                f" {grouped(_MAX_LABEL)} are read"
            )
        for character in value.strip():
            if unicodedata.category(character) in {"Cc", "Cs"}:
                return "", (
                    f"{show(value)} holds the control character U+{ord(character):04X};"
                    " use a plain label"
                )
        return value, ""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value), ""
    if isinstance(value, float) and value.is_integer():
        return str(int(value)), ""
    if isinstance(value, Nested):
        return "", f"is {value}; a label must be text"
    return "", f"{show(value)} is not text"


def parse_numbers(
    cells: Column, *, table: RawTable, column: str, name: str
) -> npt.NDArray[np.float64]:
    """Turn a column's cells into finite numbers; NaN stands for an empty cell only.

    Raises
    ------
    InputError
        If a cell is not a finite number: the row, the column, the cell and why.
    """
    filled = ~empty_cells(cells)
    typed_numbers = cells.numbers if isinstance(cells, TypedCells) else None
    if typed_numbers is not None:
        numbers, is_number = typed_numbers.copy(), np.ones(len(cells), dtype=np.bool_)
    else:
        cells = object_array(cells.objects()) if isinstance(cells, TypedCells) else cells
        # One loop over rows; float() alone would take more than a table should hold.
        parsed = [_number(cell) for cell in cells]
        is_number = np.array([value is not None for value in parsed], dtype=np.bool_)
        numbers = np.array([np.nan if v is None else v for v in parsed], dtype=np.float64)
    bad = np.flatnonzero(filled & ~(is_number & np.isfinite(numbers)))
    if bad.size:
        first = int(bad[0])
        others = f"; {counted(int(bad.size), 'such cell')} in the file" if bad.size > 1 else ""
        problem = _explain(cells[first], name)
        raise InputError(f"{table.at(first, column)}: {name} {problem}{others}")
    numbers[~filled] = np.nan
    # -0.0 and 0.0 are the same score and must hash alike.
    return numbers + 0.0


def all_numbers(cells: Column) -> npt.NDArray[np.float64] | None:
    """A column's cells as floats if every one is a finite number; else None.

    It ends at the first cell that is none, and makes no Python objects of what has a type: a long
    text that a file holds once is not held once for each row.
    """
    if not len(cells) or _finite(cells[0]) is None:
        return None
    codes, each = np.arange(len(cells)), iter(cells)
    if isinstance(cells, TypedCells):
        if cells.array.null_count:
            return None
        if (known := cells.numbers) is not None:
            return known if np.isfinite(known).all() else None
        codes, each = cells.lazily()
    numbers = []
    for cell in each:
        number = _finite(cell)
        if number is None:
            return None
        numbers.append(number)
    return np.array(numbers, dtype=np.float64)[codes]


def _finite(cell: Any) -> float | None:
    number = _number(cell)
    return number if number is not None and math.isfinite(number) else None


def _number(cell: Any) -> float | None:
    if cell is None or isinstance(cell, bool | np.bool_ | Nested | bytes):
        return None
    if isinstance(cell, str):
        # float() strips fewer characters than strip() does.
        text = cell.strip()
        return float(text) if _NUMBER.fullmatch(text) else None
    try:
        return float(cell)
    except OverflowError:
        return math.inf
    except (TypeError, ValueError):
        return None


def _explain(cell: Any, name: str) -> str:
    """Why a cell is not a finite number, and what to write instead."""
    shown = show(cell)
    if isinstance(cell, bool | np.bool_):
        return f"{shown} is a truth value, not a number"
    if isinstance(cell, Nested):
        return f"is {cell}, not a number"
    if not isinstance(cell, str):
        number = _number(cell)
        if number is None:
            return f"{shown} is not a number"
        hint = "; leave a missing score out" if math.isnan(number) else ""
        return f"{number} is not finite{hint}"
    text = cell.strip()
    if _NUMBER.fullmatch(text):
        return f"{shown} is not finite (too large for a number)"
    empty = "leave the cell empty if it is missing"
    if text.casefold() in MISSING_WORDS:
        return f"{shown} is not a number; {empty}"
    if text.casefold().lstrip("+-") in {"inf", "infinity"}:
        return f"{shown} is not finite"
    if text.endswith("%"):
        return f"{shown} has a percent sign; write the number alone"
    # The callers know what to do about other columns.
    remedy = f"; correct it, or {empty}" if name == "score" else ""
    return f"{shown} is not a number{score_hint(text) or remedy}"
