"""Groups of the rows of all files, and the tables that have one row for each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pandas as pd

from bayeseval._text import counted, grouped
from bayeseval._typing import Floats, Index
from bayeseval.errors import InputError, argument
from bayeseval.readers.raw import ReducedTable, object_array
from bayeseval.readers.scans import Engine
from bayeseval.records.moments import merged_pieces
from bayeseval.records.row_queries import STATE, Batch, Locator, TableRows
from bayeseval.records.row_reading import Reading, listed

if TYPE_CHECKING:
    from bayeseval.records.database_rows import DatabaseRows

__all__ = ["RowGroups", "place_files", "put_together"]

#: The label of the unit that stands for all of a group.
_ALL: Final = "all"
# What the labels of a group take of the memory that is allowed, in bytes.
_BYTES: Final = 100
# Of more groups those of files with the same columns are put together before they are labelled.
_MOST_BY_FILE: Final = 100_000


@dataclass(frozen=True, eq=False)
class RowGroups:
    """Groups of rows with the same labels.

    Parameters
    ----------
    reading : Reading
        The files, and how they are read again.
    unit : str or None
        ``item`` or ``boot``, over which rows are reduced.
    keys : tuple of str
        Our columns that tell groups apart.
    tables : sequence of ReducedTable
        One row per group, in parts.
    n, mean, square : array of float, shape (n_groups,)
        Rows of each group; mean and sum of squared deviations of their scores. The last is NaN
        for files, whose rows are read again for it.
    lowest, highest : array of float, shape (n_groups,)
    missing : tuple of float
        Scores that mean that there is none.
    remote : DatabaseRows or None
        The rows of a table in a database, instead of files.
    """

    reading: Reading
    unit: str | None
    keys: tuple[str, ...]
    tables: Sequence[ReducedTable]
    n: Floats
    mean: Floats
    square: Floats
    lowest: Floats
    highest: Floats
    missing: tuple[float, ...]
    remote: DatabaseRows | None = None

    @property
    def engine(self) -> Engine:
        """Has the views `placed` and `partial` of the partial results, and `raw_groups`."""
        return self.reading.engine

    @property
    def files(self) -> Sequence[TableRows]:
        """Every file."""
        return self.reading.files

    @property
    def summary(self) -> str:
        """How many rows were reduced to how many means."""
        n_rows, n_groups = int(self.n.sum()), len(self.n)
        return (
            f"{counted(n_rows, 'row')} reduced to {counted(n_groups, 'mean')} over {self.unit}s"
            " while they were read"
        )

    @property
    def source(self) -> str:
        """The first file, for messages."""
        return self.reading.source


def place_files(
    engine: Engine, batches: Sequence[Batch], paths: Sequence[Path], *, source: str
) -> None:
    """View `placed`: the partial results of all batches, and the number of the file of each row."""
    places = pd.DataFrame(
        [
            (str(path), place, file)
            for batch, path in zip(batches, paths, strict=True)
            for place, file in enumerate(batch.files)
        ],
        columns=["filename", "place", "file"],
    )
    engine.connection.register("given_places", places)
    engine.execute("CREATE TEMP TABLE places AS SELECT * FROM given_places", source=source)
    engine.execute(
        "CREATE TEMP VIEW placed AS SELECT f.file, p.* EXCLUDE (filename, place) FROM "
        f"{listed(paths, with_names=True)} p JOIN places f USING (filename, place)",
        source=source,
    )


def put_together(
    reading: Reading,
    unit: str | None,
    keys: tuple[str, ...],
    missing: tuple[float, ...],
) -> RowGroups:
    """Number the groups of all files, and merge what the files say of each.

    Parameters
    ----------
    reading : Reading
    unit : str or None
    keys : tuple of str
    missing : tuple of float

    Raises
    ------
    InputError
        If there are no rows, or more groups than fit into memory.
    """
    engine, source = reading.engine, reading.source
    reading = replace(reading, files=_in_parts(reading, keys))
    parts = pd.DataFrame(
        {"file": range(len(reading.files)), "part": [one.part for one in reading.files]}
    )
    engine.connection.register("given_parts", parts)
    engine.execute("CREATE TEMP TABLE parts AS SELECT * FROM given_parts", source=source)
    engine.execute(
        "CREATE TEMP VIEW partial AS SELECT f.part, p.* EXCLUDE (file) FROM placed p "
        "JOIN parts f USING (file)",
        source=source,
    )
    named = ["part", *STATE, *(f"k_{key}" for key in keys)]
    select = f"SELECT DISTINCT {', '.join(named)} FROM partial"
    n_groups = engine.run(f"SELECT count(*) AS n FROM ({select})", source=source)["n"][0].as_py()
    if n_groups > engine.memory // _BYTES:
        raise InputError(
            f"{source}: the rows have {grouped(n_groups)} different sets of labels and numbers "
            f"beside the score, more than fit into {argument('memory')}; allow more, or leave out "
            "a column whose numbers differ from row to row"
        )
    distinct = engine.run(f"{select} ORDER BY ALL", source=source).to_pandas()
    if not len(distinct):
        raise InputError(f"{source}: the table has no rows")
    # Labels that clean to the same one are one cell's where the table is put together.
    numbered = distinct.assign(g=np.arange(len(distinct)))
    engine.connection.register("numbered", numbered)
    engine.execute("CREATE TEMP TABLE raw_groups AS SELECT * FROM numbered", source=source)
    rows = engine.run(
        "SELECT g, n, mean, square, lowest, highest FROM partial p JOIN raw_groups r ON "
        + " AND ".join(f"p.{name} IS NOT DISTINCT FROM r.{name}" for name in named)
        # Sums in one order have the same last digits, on which later results depend.
        + " ORDER BY ALL",
        source=source,
    )
    bare = _merged(rows, len(distinct), RowGroups(reading, unit, keys, (), *_NONE, missing))
    locate = Locator(engine, reading.files, keys, unit, missing, distinct)
    return replace(bare, tables=_tables(bare, numbered, locate))


_NONE: Final = (np.zeros(0),) * 5


def _in_parts(reading: Reading, keys: Sequence[str]) -> list[TableRows]:
    """The files, each a part of its own, as tables in memory are.

    Of many groups, files that have values in the same columns are one part: their tables would
    be read alike, and only what is said of single files is then said of all of them.
    """
    filled = ", ".join(
        [
            "bool_or(NOT no_unit) AS unit",
            *(f"bool_or(k_{key} IS NOT NULL) AS f_{key}" for key in keys),
        ]
    )
    labels = ", ".join(["file", *STATE, *(f"k_{key}" for key in keys)])
    table = reading.engine.run(
        f"SELECT file, count(*) AS n, {filled} FROM (SELECT DISTINCT {labels} FROM placed) "
        "GROUP BY file ORDER BY file",
        source=reading.source,
    ).to_pandas()
    if int(table["n"].sum()) <= _MOST_BY_FILE:
        return [replace(one, part=part) for part, one in enumerate(reading.files)]
    columns = {int(row[0]): row[2:] for row in table.itertuples(index=False, name=None)}
    parts: dict[Any, int] = {}
    return [
        replace(
            one,
            part=parts.setdefault(
                (*sorted(one.ours.items()), one.derived, columns.get(place)), len(parts)
            ),
        )
        for place, one in enumerate(reading.files)
    ]


def _merged(rows: Any, n_groups: int, groups: RowGroups) -> RowGroups:
    """Counts, means, sums of squares and extremes of groups from those of their pieces."""
    group, n, mean, square, lowest, highest = (
        column.fill_null(0 if name in ("g", "n") else np.nan).to_numpy()
        for name, column in zip(rows.column_names, rows.columns, strict=True)
    )
    count, merged, squares = merged_pieces(group, n, np.nan_to_num(mean), square, n_groups)
    low, high = np.full(n_groups, np.nan), np.full(n_groups, np.nan)
    np.fmin.at(low, group, lowest)
    np.fmax.at(high, group, highest)
    return replace(
        groups,
        n=count,
        # The mean of equal scores is the score.
        mean=np.where(low == high, low, merged),
        square=squares,
        lowest=low,
        highest=high,
    )


def _tables(groups: RowGroups, first: pd.DataFrame, locate: Locator) -> list[ReducedTable]:
    """One row per group, in one table for the files of a part."""
    tables = []
    for part in sorted({one.part for one in groups.files}):
        own = [one for one in groups.files if one.part == part]
        rows = first[first["part"] == part]
        if not len(rows):
            raise InputError(f"{own[0].scan.source}: the table has no rows")
        at = rows["g"].to_numpy(dtype=np.int64)
        many = "" if len(own) == 1 else f" and {counted(len(own) - 1, 'more file')}"
        tables.append(
            ReducedTable(
                source=own[0].scan.source + many,
                place="row",
                numbers=np.arange(1, len(rows) + 1),
                columns=_columns(groups, own, rows, at),
                derived=own[0].derived,
                group=at,
                rows=groups.n[at].astype(np.int64),
                lowest=groups.lowest[at],
                highest=groups.highest[at],
                locate=locate,
                files=tuple(one.scan.source for one in own),
            )
        )
    return tables


def _columns(
    groups: RowGroups, own: Sequence[TableRows], rows: pd.DataFrame, at: Index
) -> dict[str, Any]:
    """The cells of a part's groups; those of columns that are not read are empty."""
    names = dict.fromkeys(name for one in own for name in one.scan.cells)
    columns = {name: object_array([None] * len(rows)) for name in names}
    for our, theirs in own[0].ours.items():
        if our == "score":
            empty = rows["empty"].to_numpy(dtype=np.bool_)
            means = groups.mean[at]
            cells: list[Any] = [None if e else float(m) for e, m in zip(empty, means, strict=True)]
        elif our == groups.unit:
            cells = [None if no else _ALL for no in rows["no_unit"]]
        else:
            values = rows[f"k_{our}"].astype(object)
            cells = [None if pd.isna(value) else value for value in values]
        columns[theirs] = object_array(cells)
    unused = [name for name in columns if name not in own[0].ours.values()]
    filled = ~rows["blank"].to_numpy(dtype=np.bool_)
    language = own[0].ours.get("language")
    if unused and language is not None:
        lacking = np.array([cell is None for cell in columns[language]])
        columns[unused[0]][filled & lacking] = "(filled)"
    return columns
