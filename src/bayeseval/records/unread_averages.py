"""Scores that are the averages of columns which would not be read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from bayeseval._text import brief, shorten
from bayeseval._typing import Floats
from bayeseval.readers.columns import columns_argument
from bayeseval.readers.raw import RawTable
from bayeseval.readers.scans import Engine, Scan
from bayeseval.records.cells import all_numbers
from bayeseval.records.report import TableError

__all__ = ["refuse_averages", "refuse_averages_of_scan"]

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
    for name in [name for name in table.columns if name not in used][:_MOST_AVERAGED]:
        # What is text or empty somewhere is no score of every row.
        numbers = all_numbers(table.columns[name])
        if numbers is not None and np.ptp(numbers) > 0.0:
            columns[name] = numbers
    if _are_averages(columns, score):
        raise _problem(table.source, theirs, [*columns])


def refuse_averages_of_scan(
    engine: Engine, scan: Scan, *, theirs: str, used: Sequence[str]
) -> None:
    """As :func:`refuse_averages`, of a table that the engine reads.

    Parameters
    ----------
    engine : Engine
    scan : Scan
    theirs : str
        The column of the scores.
    used : sequence of str
        Columns that are read.

    Raises
    ------
    TableError
    """
    unread = [name for name in scan.cells if name not in used][:_MOST_AVERAGED]
    if len(unread) < 2:
        return
    numbers = ", ".join(f"{scan.number(name)} AS c{i}" for i, name in enumerate(unread))
    rows = f"SELECT {scan.number(theirs)} AS x, {numbers} FROM {scan.relation}"
    scored = f"SELECT * FROM ({rows}) WHERE x IS NOT NULL"
    first = engine.run(f"{scored} LIMIT {_FIRST_ROWS}", source=scan.source).to_pandas()
    if len(first) < _FEWEST:
        return
    # What is empty here is no score of every row; most tables have too few columns left.
    columns = first.astype(float).dropna(axis="columns")
    score, filled = columns.pop("x").to_numpy(), [*columns]
    if len(filled) < 2 or not _may_be_averages(columns.to_numpy(), score):
        return
    facts = ", ".join(
        f"coalesce(count({c}) = count(*) AND min({c}) < max({c}), false) AS {c}" for c in filled
    )
    known = engine.run(f"SELECT {facts} FROM ({scored})", source=scan.source)
    kept = [c for c in filled if known[c][0].as_py()]
    if len(kept) < 2:
        return
    mean = f"({' + '.join(kept)}) / {len(kept)}"
    apart = engine.run(
        f"SELECT max(abs({mean} - x)) AS apart, max(abs(x)) AS size FROM ({scored})",
        source=scan.source,
    )
    if apart["apart"][0].as_py() <= _ROUNDED * apart["size"][0].as_py():
        raise _problem(scan.source, theirs, [unread[int(c[1:])] for c in kept])


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
