"""Groups of rows in the order of their first rows, as tables in memory have them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from bayeseval.errors import InputError
from bayeseval.readers.raw import RawTable, ReducedTable, with_constants
from bayeseval.records.report import TableError
from bayeseval.records.row_cells import same_group
from bayeseval.records.row_queries import keyed_rows
from bayeseval.records.row_tables import RowGroups

if TYPE_CHECKING:
    from bayeseval.records.build import Assembled

__all__ = ["refused_in_order"]


def refused_in_order(
    put_together: Callable[[Sequence[RawTable]], Assembled],
    tables: Sequence[RawTable],
    groups: RowGroups | None,
    constants: Mapping[str, Any],
) -> Assembled:
    """What is made of the tables; a refusal names the row that it would name in memory.

    Parameters
    ----------
    put_together : callable
    tables : sequence of RawTable
    groups : RowGroups or None
        The groups of rows that the tables hold, if their rows were reduced.
    constants : mapping of str to object
        Columns that the tables have been given.
    """
    try:
        return put_together(tables)
    except TableError as problem:
        # The rows of a database have no order.
        if groups is None or groups.remote is not None:
            raise
        try:
            ordered = _in_order(groups)
        except InputError:
            # What is wrong with the table is known; that it cannot be read again says less.
            raise problem from None
    return put_together([with_constants(one, constants) for one in ordered])


def _in_order(groups: RowGroups) -> list[ReducedTable]:
    """The tables in the order of the first rows of groups, for which all rows are read again."""
    file = np.full(len(groups.n), len(groups.files), dtype=np.int64)
    row = np.zeros(len(groups.n), dtype=np.int64)
    for place, one in enumerate(groups.files):
        groups.reading.report("finding first rows", place, len(groups.files), one.file.name)
        rows = keyed_rows(one, groups.keys, groups.unit, groups.missing, coded=False)
        found = groups.engine.run(
            "SELECT k.g, min(r.n) AS n FROM (SELECT row_number() OVER () AS n, * FROM "
            f"({rows})) r JOIN raw_groups k ON {same_group(groups, 'r', part=str(one.part))} "
            "GROUP BY k.g",
            source=one.scan.source,
        )
        group = found["g"].to_numpy().astype(np.int64)
        new = file[group] == len(groups.files)
        file[group[new]], row[group[new]] = place, found["n"].to_numpy()[new]
    order = np.lexsort((row, file))
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    return [table.take(np.argsort(rank[table.group])) for table in groups.tables]
