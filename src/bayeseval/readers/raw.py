"""A table as a reader returns it: untouched cells, and the place of each row."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from bayeseval.errors import InputError
from bayeseval.readers.typed import TypedCells

__all__ = [
    "Cells",
    "Column",
    "Dropped",
    "Nested",
    "RawTable",
    "ReducedTable",
    "make_table",
    "object_array",
    "rows_of",
    "with_constants",
    "without_line_feeds",
]

Cells = npt.NDArray[np.object_]
Column = Cells | TypedCells


@dataclass(frozen=True, slots=True)
class Dropped:
    """Rows left out for one reason.

    Parameters
    ----------
    reason : str
        Why, in words.
    counts : tuple of (str, int)
        Label of what was left out and the number of rows, in order of the label.
    first : str
        File and row of the first such row.
    """

    reason: str
    counts: tuple[tuple[str, int], ...]
    first: str

    @property
    def n_rows(self) -> int:
        """Number of rows left out for this reason."""
        return sum(count for _, count in self.counts)


@dataclass(frozen=True, slots=True)
class Nested:
    """A list or an object where one value was expected; `problem` says what is wrong."""

    problem: str

    def __repr__(self) -> str:
        return self.problem


@dataclass(frozen=True, slots=True)
class RawTable:
    """One file's cells.

    Parameters
    ----------
    source : str
        The file (or frame) as the user named it; starts every message.
    place : str
        What a row is called in this format: ``line``, ``record`` or ``row``.
    numbers : array of int, shape (n,)
        Where each row stands, 1-based: the physical line, or the record's position.
    columns : mapping of str to array of object or TypedCells, shape (n,)
        Cells by column, in the file's order. None is a missing cell.
    where : tuple of str, optional
        For a table made of many files: the place of every row in words, file included;
        ``numbers`` count into it from 1.
    dropped : tuple of Dropped
        What the reader itself left out, such as averages beside what they average.
    derived : tuple of str
        Columns that the file does not have: their cells were taken from those of others.
    """

    source: str
    place: str
    numbers: npt.NDArray[np.int64]
    columns: Mapping[str, Column]
    where: tuple[str, ...] = ()
    dropped: tuple[Dropped, ...] = ()
    derived: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.numbers)

    def at(self, position: int, column: str | None = None) -> str:
        """``"scores.csv, line 7, column 'F1'"``."""
        number = int(self.numbers[position])
        where = self.where[number - 1] if self.where else f"{self.source}, {self.place} {number}"
        return where if column is None else f"{where}, column {column!r}"

    def take(self, positions: npt.NDArray[Any]) -> RawTable:
        """The rows at `positions` (indices or a mask)."""
        return replace(
            self,
            numbers=self.numbers[positions],
            columns={name: cells[positions] for name, cells in self.columns.items()},
        )


@dataclass(frozen=True)
class Changed:
    """Labels that are not kept as they are written: how many, and the first few in order."""

    n: int
    first: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ReducedTable(RawTable):
    """Cells of rows that were reduced while reading: one row here for many of the files.

    Parameters
    ----------
    group : array of int, shape (n,)
        The group of rows that each row here stands for.
    rows : array of int, shape (n,)
        How many rows of the files it stands for.
    lowest, highest : array of float, shape (n,)
        Of the scores of these rows; NaN where they have none.
    locate : callable
        File and number of the first row of a group (and with a score, if given), in words.
    files : tuple of str
        The files that the rows come from.
    reduced_over : mapping of str to (Changed, Changed)
        Labels of the column, ours, over which the rows were reduced, that are not kept as they
        are written: those with blanks, and those in another form of Unicode than NFC.
    """

    group: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    rows: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    lowest: npt.NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    highest: npt.NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    locate: Callable[..., str] = str
    files: tuple[str, ...] = ()
    reduced_over: Mapping[str, tuple[Changed, Changed]] = field(default_factory=dict)

    def at(self, position: int, column: str | None = None) -> str:
        """``"scores.parquet, row 7, column 'F1'"``."""
        where = self.locate(int(self.group[position]))
        return where if column is None else f"{where}, column {column!r}"

    def at_score(self, position: int, column: str | None, score: float) -> str:
        """As :meth:`at`, of the first row with this score."""
        where = self.locate(int(self.group[position]), score)
        return where if column is None else f"{where}, column {column!r}"

    def take(self, positions: npt.NDArray[Any]) -> ReducedTable:
        """The rows at `positions` (indices or a mask)."""
        return replace(
            self,
            numbers=self.numbers[positions],
            columns={name: cells[positions] for name, cells in self.columns.items()},
            group=self.group[positions],
            rows=self.rows[positions],
            lowest=self.lowest[positions],
            highest=self.highest[positions],
        )


def rows_of(table: RawTable) -> npt.NDArray[np.int64]:
    """How many rows of the file each row of a table stands for."""
    return table.rows if isinstance(table, ReducedTable) else np.ones(len(table), dtype=np.int64)


def object_array(values: Any) -> Cells:
    """One-dimensional object array; never two-dimensional, whatever the cells hold."""
    items = list(values)
    cells: Cells = np.empty(len(items), dtype=object)
    cells[:] = items
    return cells


def without_line_feeds(name: str) -> str:
    """A name that a spreadsheet has wrapped, on one line."""
    # Not a pattern with blanks on both sides, whose time grows with the square of a run of blanks.
    first, *others = re.split(r"[\r\n]+", name)
    if not others:
        return name
    *middle, last = others
    blanks = " \t"
    parts = [first.rstrip(blanks), *(one.strip(blanks) for one in middle), last.lstrip(blanks)]
    return " ".join(parts)


def make_table(
    source: str, place: str, numbers: Iterable[int], columns: Iterable[tuple[str, Any]]
) -> RawTable:
    """Check the header; an unnamed column (a written row index) is named by its position.

    Raises
    ------
    InputError
        If two columns have the same name.
    """
    named: dict[str, Column] = {}
    for position, (raw_name, cells) in enumerate(columns, start=1):
        name = without_line_feeds(raw_name.strip()) or f"(unnamed column {position})"
        if name in named:
            first = list(named).index(name) + 1
            raise InputError(
                f"{source}: two columns are named {name!r} (columns {first} and {position});"
                " rename one"
            )
        named[name] = cells if isinstance(cells, TypedCells) else object_array(cells)
    return RawTable(
        source=source,
        place=place,
        numbers=np.asarray(
            numbers if isinstance(numbers, range) else list(numbers), dtype=np.int64
        ),
        columns=named,
    )


def with_constants(table: RawTable, constants: Mapping[str, Any]) -> RawTable:
    """The table with a column for each constant.

    Raises
    ------
    InputError
        If the table has a column of that name already.
    """
    duplicates = [name for name in constants if name in table.columns]
    if duplicates:
        raise InputError(
            f"{table.source}: {duplicates[0]!r} is both a constant and a column of the table;"
            " leave the constant out"
        )
    added = {name: object_array([value] * len(table)) for name, value in constants.items()}
    return replace(table, columns={**table.columns, **added})
