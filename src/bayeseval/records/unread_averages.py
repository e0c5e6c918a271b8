"""Scores that are the averages of columns which would not be read."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt

from bayeseval._text import brief, shorten
from bayeseval._typing import Floats
from bayeseval.readers.columns import columns_argument
from bayeseval.readers.raw import RawTable
from bayeseval.readers.scans import Engine, Scan
from bayeseval.records.cells import all_numbers
from bayeseval.records.report import TableError

__all__ = [
    "ScannedRows",
    "ScoredRows",
    "refuse_averages",
    "refuse_averages_of",
    "unread_columns",
]

# Averages are told from scores by what they equal: in so many rows, up to rounding.
_FEWEST: Final = 3
_MOST_AVERAGED: Final = 50
_ROUNDED: Final = 1e-3
# A large table is read for this only if its first rows may be averages.
_FIRST_ROWS: Final = 1_000
# The largest score of a table is taken for at least this where its first rows are looked at.
_LARGEST: Final = 100.0


def refuse_averages(table: RawTable, score: Floats, *, theirs: str, used: set[str]) -> None:
    """Refuse scores that are the averages of columns that are not read.

    Parameters
    ----------
    table : RawTable
    score : array of float, shape (n_rows,)
    theirs : str
        The column of the scores.
    used : set of str
        Columns that are read.

    Raises
    ------
    TableError
    """
    if len(table) < _FEWEST:
        return
    columns = {}
    for name in unread_columns(table.columns, used):
        # What is text or empty somewhere is no score of every row.
        numbers = all_numbers(table.columns[name])
        if numbers is not None and np.ptp(numbers) > 0.0:
            columns[name] = numbers
    if _are_averages(columns, score):
        raise _problem(table.source, theirs, [*columns])


class ScoredRows(Protocol):
    """Rows with a score that are not in memory, and their columns that are not read.

    The methods number the columns by their places in `names`.
    """

    @property
    def source(self) -> str:
        """What a message calls the table."""

    @property
    def names(self) -> Sequence[str]:
        """Columns that are not read."""

    def first(self, most: int) -> Floats:
        """Score and columns of the first rows, shape (n_rows, 1 + n_names); NaN for no number."""

    def varied(self, columns: Sequence[int]) -> Sequence[bool]:
        """Whether columns have a number in every row, and not the same in all."""

    def apart(self, columns: Sequence[int]) -> tuple[float, float]:
        """Largest distance of a score from the mean of columns; largest absolute score."""


@dataclass(frozen=True, eq=False)
class ScannedRows:
    """As :class:`ScoredRows`, of a table that the engine reads."""

    engine: Engine
    scan: Scan
    score: str
    names: Sequence[str]

    @property
    def source(self) -> str:
        """The file."""
        return self.scan.source

    @property
    def _rows(self) -> str:
        numbers = ", ".join(
            f"{self.scan.number(name)} AS c{i}" for i, name in enumerate(self.names)
        )
        rows = f"SELECT {self.scan.number(self.score)} AS x, {numbers} FROM {self.scan.relation}"
        return f"(SELECT * FROM ({rows}) WHERE x IS NOT NULL)"

    def _asked(self, sql: str) -> Any:
        return self.engine.run(sql, source=self.source).to_pandas().astype(float).to_numpy()

    def first(self, most: int) -> Floats:
        """Score and columns of the first rows."""
        return np.asarray(self._asked(f"SELECT * FROM {self._rows} LIMIT {most}"))

    def varied(self, columns: Sequence[int]) -> Sequence[bool]:
        """Whether columns have a number in every row, and not the same in all."""
        facts = ", ".join(
            f"coalesce(count(c{i}) = count(*) AND min(c{i}) < max(c{i}), false) AS c{i}"
            for i in columns
        )
        return [bool(one) for one in self._asked(f"SELECT {facts} FROM {self._rows}")[0]]

    def apart(self, columns: Sequence[int]) -> tuple[float, float]:
        """Largest distance of a score from the mean of columns; largest absolute score."""
        mean = f"({' + '.join(f'c{i}' for i in columns)}) / {len(columns)}"
        apart, size = self._asked(
            f"SELECT max(abs({mean} - x)) AS apart, max(abs(x)) AS size FROM {self._rows}"
        )[0]
        return float(apart), float(size)


def unread_columns(columns: Iterable[str], used: Container[str]) -> list[str]:
    """The columns among which averaged ones are looked for."""
    return [name for name in columns if name not in used][:_MOST_AVERAGED]


def refuse_averages_of(rows: ScoredRows, *, theirs: str) -> None:
    """As :func:`refuse_averages`, of rows that are not in memory.

    Parameters
    ----------
    rows : ScoredRows
    theirs : str
        The column of the scores.

    Raises
    ------
    TableError
    """
    if len(rows.names) < 2:
        return
    first = rows.first(_FIRST_ROWS)
    if len(first) < _FEWEST:
        return
    score, columns = first[:, 0], first[:, 1:]
    # What is empty here is no score of every row; most tables have too few columns left.
    filled = np.flatnonzero(~np.isnan(columns).any(axis=0)).tolist()
    if len(filled) < 2 or not _may_be_averages(columns[:, filled], score):
        return
    kept = [i for i, varies in zip(filled, rows.varied(filled), strict=True) if varies]
    if len(kept) < 2:
        return
    apart, size = rows.apart(kept)
    if apart <= _ROUNDED * size:
        raise _problem(rows.source, theirs, [rows.names[i] for i in kept])


def _are_averages(columns: Mapping[str, npt.NDArray[np.float64]], score: Floats) -> bool:
    if len(columns) < 2:
        return False
    apart = np.abs(np.mean([*columns.values()], axis=0) - score).max()
    return bool(apart <= _ROUNDED * np.abs(score).max())


def _may_be_averages(columns: Floats, score: Floats) -> bool:
    """Whether the mean of some of the columns may be the scores, as far as these rows tell.

    Which of them are filled and vary in all rows is not known yet. None of their means is nearer
    to the scores than the nearest sum of the columns with any weights.
    """
    size = max(_LARGEST, np.abs(score).max())
    units = np.abs(columns).max(axis=0)
    shares = columns / np.where(units > 0.0, units, 1.0)
    weights = np.linalg.lstsq(shares, score / size, rcond=None)[0]
    apart = score / size - shares @ weights
    return bool(np.sqrt(np.mean(apart**2)) <= _ROUNDED)


def _problem(source: str, theirs: str, names: Sequence[str]) -> TableError:
    return TableError(
        f"{source}, column {brief(theirs)!r}: these are the averages of "
        f"{shorten([repr(brief(name)) for name in names], limit=4)}, which would not be "
        "read; write one row per score, with a column that names the task, or read the "
        f"averages with {columns_argument(('score', theirs))}"
    )
