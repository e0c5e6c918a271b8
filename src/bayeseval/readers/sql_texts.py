"""SQL of cells: labels and numbers as the readers in memory make them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

__all__ = [
    "NUMBER",
    "Kind",
    "Scan",
    "has_control",
    "kind_of",
    "literal",
    "quoted",
    "stripped",
    "unit_label",
]

Kind = Literal["text", "whole", "float", "truth", "json", "nested", "other"]

#: The spelling of numbers in cells.py.
NUMBER: Final = r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
# The white space of Python's str.strip(), in a class of a pattern.
_BLANKS: Final = (
    r"\x09-\x0d\x1c-\x20\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}"
    r"\x{205f}\x{3000}"
)
# Characters of a text that is compared as a whole.
_LONG: Final = 100
# Whole floats above this have digits that no type of the engine holds.
_LARGEST_WHOLE: Final = "1e38"
_WHOLE: Final = re.compile(r"U?(?:TINY|SMALL|BIG|HUGE)?INT(?:EGER)?")
_NESTED: Final = ("STRUCT(", "MAP(", "UNION(")
_FLOAT: Final = re.compile(r"FLOAT|DOUBLE|DECIMAL\(.*\)")


@dataclass(frozen=True)
class Scan:
    """One table as the engine reads it.

    Parameters
    ----------
    source : str
        The file as the user named it; starts every message.
    relation : str
        SQL of the table.
    cells : mapping of str to str
        SQL of the cell by column, in the file's order.
    kinds : mapping of str to str
        What the cells of a column are: ``text``, ``whole``, ``float``, ``truth``, ``json``
        (any of these, and lists), ``nested`` or ``other``.
    place : str
        What a row is called in this format: ``row``, ``line`` or ``record``.
    numbers_in_file : callable
        The numbers of rows in the file from their numbers among the rows, from 1 and ascending.
    """

    source: str
    relation: str
    cells: Mapping[str, str]
    kinds: Mapping[str, Kind]
    place: str = "row"
    numbers_in_file: Callable[[Sequence[int]], Sequence[int]] = list

    def at(self, row: int) -> str:
        """The place of a row, as readers in memory name it: ``"scores.csv, line 7"``."""
        return f"{self.source}, {self.place} {self.numbers_in_file([row])[0]}"

    def label(self, column: str) -> str:
        """SQL of the cell as a text; null where it is empty."""
        cell, kind = self.cells[column], self.kinds[column]
        if kind == "json":
            text, number = _json_text(cell), _json_float(cell)
            return (
                f"CASE WHEN {number} = trunc({number}) THEN {_whole(number)} "
                f"WHEN {_is_filled(text)} THEN {text} END"
            )
        if kind == "float":
            text = f"CAST({cell} AS VARCHAR)"
            return f"CASE WHEN {cell} = trunc({cell}) THEN {_whole(cell)} ELSE {text} END"
        if kind != "text":
            return f"CAST({cell} AS VARCHAR)"
        return f"CASE WHEN {_is_filled(cell)} THEN {cell} END"

    def bad_label(self, column: str) -> str:
        """SQL of whether the cell is filled and no label."""
        cell, kind = self.cells[column], self.kinds[column]
        if kind in ("text", "whole"):
            return "false"
        if kind == "float":
            return f"coalesce(NOT (isfinite({cell}) AND {cell} = trunc({cell})), false)"
        if kind == "json":
            number = _json_float(cell)
            return (
                f"coalesce(json_type({cell}) IN ('ARRAY', 'OBJECT', 'BOOLEAN') OR "
                f"NOT (isfinite({number}) AND {number} = trunc({number})), false)"
            )
        return f"{cell} IS NOT NULL"

    def number(self, column: str) -> str:
        """SQL of the cell as a finite number; null where it is empty or none."""
        cell, kind = self.cells[column], self.kinds[column]
        if kind in ("whole", "float"):
            value = f"CAST({cell} AS DOUBLE)"
        elif kind in ("truth", "nested", "other"):
            return "CAST(NULL AS DOUBLE)"
        else:
            text = stripped(self._text(column))
            value = (
                f"CASE WHEN regexp_full_match({text}, '{NUMBER}') "
                f"THEN TRY_CAST({text} AS DOUBLE) END"
            )
        return f"CASE WHEN isfinite({value}) THEN {value} END"

    def empty(self, column: str) -> str:
        """SQL of whether the cell holds nothing."""
        if self.kinds[column] in ("text", "json"):
            return f"coalesce(NOT {_is_filled(self._text(column))}, true)"
        return f"{self.cells[column]} IS NULL"

    def bad_number(self, column: str) -> str:
        """SQL of whether the cell is filled and no finite number."""
        bad = f"NOT ({self.empty(column)}) AND {self.number(column)} IS NULL"
        if self.kinds[column] == "json":
            cell = self.cells[column]
            bad = f"({bad}) OR coalesce(json_type({cell}) IN ('ARRAY', 'OBJECT', 'BOOLEAN'), false)"
        return bad

    def told_apart(self, column: str) -> str:
        """SQL of a short cell for each cell, the same for the same ones.

        A long text is its beginning and a digest, and lists and objects are empty ones, because no
        cell may hold them. Dates are texts: Python does not have all of their years.
        """
        cell, kind = self.cells[column], self.kinds[column]
        if kind == "nested":
            return f"CASE WHEN {cell} IS NOT NULL THEN [] END"
        if kind == "json":
            short = _shortened(_json_text(cell))
            return (
                f"CASE WHEN json_type({cell}) IN ('ARRAY', 'OBJECT') THEN '[]'::JSON "
                f"WHEN json_type({cell}) = 'VARCHAR' THEN to_json({short}) ELSE {cell} END"
            )
        return _shortened(f"CAST({cell} AS VARCHAR)") if kind in ("text", "other") else cell

    def _text(self, column: str) -> str:
        cell = self.cells[column]
        return _json_text(cell) if self.kinds[column] == "json" else cell


def _shortened(text: str) -> str:
    return (
        f"CASE WHEN length({text}) > {_LONG} THEN left({text}, {_LONG}) || md5({text}) "
        f"ELSE {text} END"
    )


def _json_text(cell: str) -> str:
    return f"json_extract_string({cell}, '$')"


def _json_float(cell: str) -> str:
    """SQL of a number with a point or an exponent; null for whole ones, of any length."""
    text = _json_text(cell)
    return (
        f"CASE WHEN json_type({cell}) = 'DOUBLE' AND NOT regexp_full_match({text}, '-?[0-9]+') "
        f"THEN TRY_CAST({text} AS DOUBLE) END"
    )


def _whole(number: str) -> str:
    """SQL of the digits of a float without a fraction."""
    return (
        f"CASE WHEN abs({number}) < {_LARGEST_WHOLE} "
        f"THEN CAST(CAST({number} AS HUGEINT) AS VARCHAR) ELSE CAST({number} AS VARCHAR) END"
    )


def kind_of(name: str) -> Kind:
    """What a type of the engine holds."""
    if name.endswith("]") or name.startswith(_NESTED):
        return "nested"
    if name == "VARCHAR" or name.startswith("ENUM"):
        return "text"
    if _WHOLE.fullmatch(name):
        return "whole"
    if _FLOAT.fullmatch(name):
        return "float"
    return "truth" if name == "BOOLEAN" else "other"


def unit_label(text: str, unit: str) -> str:
    """SQL of the label of an item, or of a test set, which a spreadsheet may write as "1.0"."""
    clean = stripped(f"nfc_normalize({text})")
    return clean if unit == "item" else f"regexp_replace({clean}, '^(-?[0-9]+)\\.0+$', '\\1')"


def stripped(text: str) -> str:
    """SQL of a text without the blanks at its ends that Python's str.strip() takes away.

    The engine's trim() knows fewer blanks, and takes ten times as long where it is given them all.
    """
    return f"regexp_replace({text}, '^[{_BLANKS}]+|[{_BLANKS}]+$', '', 'g')"


def _is_filled(text: str) -> str:
    """SQL of whether a text holds more than blanks.

    Most texts begin with a letter or a digit of ASCII, and a pattern takes longer than comparisons.
    """
    return (
        f"CASE WHEN {text} >= '!' AND {text} < '~' THEN true "
        f"ELSE regexp_matches({text}, '[^{_BLANKS}]') END"
    )


def has_control(text: str) -> str:
    """SQL of whether a label holds a control character that is no blank at its ends."""
    return f"regexp_matches({stripped(text)}, '[\\x00-\\x1f\\x7f-\\x{{9f}}]')"


def literal(text: str) -> str:
    """A text as a literal of SQL."""
    return "'" + text.replace("'", "''") + "'"


def quoted(name: str) -> str:
    """A name as an identifier of SQL."""
    return '"' + name.replace('"', '""') + '"'
