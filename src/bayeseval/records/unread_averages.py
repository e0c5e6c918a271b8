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
# A large table is read for this only if its first rows are averages.
_FIRST_ROWS: Final = 1_000


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
    first = first.astype(float)
    filled = {n: first[n].to_numpy() for n in first if n != "x" and first[n].notna().all()}
    # A column that has one value in these rows may have others in the rest, and may not.
    varied = {name: values for name, values in filled.items() if np.ptp(values) > 0.0}
    score = first["x"].to_numpy()
    if not (_are_averages(filled, score) or _are_averages(varied, score)):
        return
    facts = ", ".join(
        f"coalesce(count(c{i}) = count(*) AND min(c{i}) < max(c{i}), false) AS c{i}"
        for i in range(len(unread))
    )
    known = engine.run(f"SELECT {facts} FROM ({scored})", source=scan.source)
    kept = [i for i, name in enumerate(known.column_names) if known[name][0].as_py()]
    if len(kept) < 2:
        return
    mean = f"({' + '.join(f'c{i}' for i in kept)}) / {len(kept)}"
    apart = engine.run(
        f"SELECT max(abs({mean} - x)) AS apart, max(abs(x)) AS size FROM ({scored})",
        source=scan.source,
    )
    if apart["apart"][0].as_py() <= _ROUNDED * apart["size"][0].as_py():
        raise _problem(scan.source, theirs, [unread[i] for i in kept])


def _are_averages(columns: Mapping[str, npt.NDArray[np.float64]], score: Floats) -> bool:
    if len(columns) < 2:
        return False
    apart = np.abs(np.mean([*columns.values()], axis=0) - score).max()
    return bool(apart <= _ROUNDED * np.abs(score).max())


def _problem(source: str, theirs: str, names: Sequence[str]) -> TableError:
    return TableError(
        f"{source}, column {brief(theirs)!r}: these are the averages of "
        f"{shorten([repr(brief(name)) for name in names], limit=4)}, which would not be "
        "read; write one row per score, with a column that names the task, or read the "
        f"averages with {columns_argument(('score', theirs))}"
    )
