"""Cells as papers print them: ``12.3 ± 0.4``, ``84.6/71.7``, marks, bold type, ``-`` for none."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from bayeseval._text import has_decimal_comma, score_hint
from bayeseval.readers.raw import without_line_feeds

__all__ = [
    "COUNT",
    "MAX_CELL",
    "Cell",
    "are_repeated",
    "are_repeats",
    "is_label_column",
    "mostly_scores",
    "parse_cell",
    "without_marks",
]

MAX_CELL: Final = 400
"""Characters of a cell that is looked at."""
COUNT: Final = re.compile(r"\d{1,9}")
"""A whole number: a rank, a seed, a number of examples."""

_MARKS: Final = "*†‡§¶♣♠♦♥◦•↑↓▲▼†ªº¹²³⁴⁵⁶⁷⁸⁹✓`"
_NUMBER: Final = r"[-+−]?\d+(?:\.\d*)?|[-+−]?\.\d+"
_CELL: Final = re.compile(
    rf"(?P<values>(?:{_NUMBER})(?:\s*/\s*(?:{_NUMBER}))*)\s*%?"
    rf"(?:\s*(?:±|\+-|\+/-)\s*(?P<se>{_NUMBER})\s*%?|\s*\(\s*(?:±|\+-|\+/-)\s*(?P<in>{_NUMBER})\s*\))?"
)
# Most cells of most tables.
_PLAIN: Final = re.compile(r"[0-9]{1,15}(?:\.[0-9]{1,15})?")
_EMPHASIS: Final = re.compile(r"</?(?:b|i|u|sup|sub|strong|em)>")
_INNER_MARKS: Final = re.compile(rf"[{re.escape(_MARKS)}]+(?=\s*(?:±|\+-|\+/-|/|$))")
_MISSING: Final = frozenset(
    ["", "-", "--", "---", "–", "—", "−", "n/a", "na", "nan", "none", "null", "x", "✗", "/", "?"]
)


@dataclass(frozen=True, slots=True)
class Cell:
    """The content of a printed cell."""

    values: tuple[float, ...]
    se: float | None = None
    marked: bool = False


def parse_cell(text: str) -> Cell | None:
    """Numbers of a printed cell; None for a mark such as ``-`` that nothing was measured.

    Raises
    ------
    ValueError
        If it is neither.
    """
    if not text or text.isspace():
        return None
    if _PLAIN.fullmatch(text):
        return Cell((float(text),))
    # Longer than any number; the patterns below look at a text more than once.
    if len(text) > MAX_CELL:
        raise ValueError(text[:MAX_CELL])
    bare = text.replace("**", "").replace("__", "").strip()
    bare = _EMPHASIS.sub("", bare)
    bare = bare.strip(_MARKS + " \u00a0").replace("\u00a0", " ").replace("\u2009", " ")
    bare = _INNER_MARKS.sub("", bare).strip()
    if bare.casefold() in _MISSING:
        return None
    match = _CELL.fullmatch(bare)
    if match is None:
        raise ValueError(text)
    values = tuple(_number(value) for value in match["values"].split("/"))
    error = match["se"] or match["in"]
    return Cell(values, None if error is None else _number(error), marked=bare != text.strip())


def mostly_scores(cells: Sequence[str], *, of_language: bool = False) -> bool:
    """Whether half of the cells that are filled hold numbers, or say that there is none.

    Numbers with a decimal comma count, which are refused where they are read; so do the dates
    that a spreadsheet made of numbers, below the name of a language.

    Parameters
    ----------
    cells : sequence of str
    of_language : bool
        Whether the header of the column is a language.
    """
    filled = [cell for cell in cells if cell.strip()]
    scores, dates = 0, 0
    for cell in filled:
        try:
            parse_cell(cell)
        except ValueError:
            if not score_hint(cell):
                continue
            if not has_decimal_comma(cell):
                dates += 1
                continue
        scores += 1
    # Names of models such as GPT-4 look like dates, but then there is no number among them.
    if of_language and (scores or all(cell.strip()[0].isdigit() for cell in filled)):
        scores += dates
    return bool(filled) and scores >= 0.5 * len(filled)


def is_label_column(cells: Sequence[str], *, of_language: bool = False) -> bool:
    """Whether a column holds names rather than scores."""
    filled = any(cell.strip() for cell in cells)
    return filled and not mostly_scores(cells, of_language=of_language)


def are_repeats(cells: Sequence[str]) -> bool:
    """Whether a column holds counts or names, not scores: Rundi's code is ``run``."""
    return all(COUNT.fullmatch(cell.strip()) for cell in cells) or is_label_column(cells)


def are_repeated(body: Sequence[Sequence[str]], labels: Mapping[str, int]) -> bool:
    """Whether two rows have the same labels; a blank repeats the one above it."""
    above: dict[int, str] = {}
    keys = []
    for row in body:
        above |= {place: row[place] for place in labels.values() if row[place].strip()}
        keys.append(tuple(above.get(place, "") for place in labels.values()))
    return len(set(keys)) < len(keys)


def _number(text: str) -> float:
    number = float(text.strip().replace("−", "-"))
    if not math.isfinite(number):
        raise ValueError(text)
    return number


def without_marks(cell: str) -> str:
    """A label without daggers, stars and bold type, on one line."""
    bare = cell.replace("**", "").strip(_MARKS + " ")
    if bare.isalnum():
        return bare
    return without_line_feeds(re.sub(r"</?(?:b|i|u|sup|strong|em)>", "", bare)).strip()
