"""Rows of a table in a database, reduced to cells by its engine: what comes back, put together."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import pandas as pd

from bayeseval._text import counted, grouped, show
from bayeseval._typing import Index, Progress
from bayeseval.errors import InputError, argument
from bayeseval.readers.databases import Database
from bayeseval.readers.engine_errors import writing
from bayeseval.readers.raw import RawTable, object_array
from bayeseval.readers.scans import Engine, Scan, literal, typed_scan
from bayeseval.readers.sql_texts import has_control, unit_label
from bayeseval.records.cells import clean_labels, parse_numbers
from bayeseval.records.database_queries import STATES, Queries
from bayeseval.records.partials import Partials
from bayeseval.records.row_queries import (
    NUMBERS,
    STATE,
    Batch,
    Locator,
    TableRows,
    aggregates_among,
)
from bayeseval.records.row_reading import Reading
from bayeseval.records.row_tables import RowGroups, place_files, put_together

__all__ = ["DatabaseRows", "DatabaseTable", "group_database_rows", "within"]

#: What one row that comes back may take of the memory that is allowed.
_BYTES: Final = 200
_MAX_LABEL: Final = 500
_SHOWN: Final = 6
_STAGE: Final = "asking the database"
_STEPS: Final = 5


@dataclass(frozen=True, slots=True)
class DatabaseTable(RawTable):
    """Rows of a table in a database, which has no order: a row is named by its cells."""

    def at(self, position: int, column: str | None = None) -> str:
        """``"postgres://host/evals?table=scores, row with model 'm', ..., column 'F1'"``."""
        cells = ((name, cells[position]) for name, cells in self.columns.items() if name != column)
        filled = [f"{name} {show(cell)}" for name, cell in cells if cell is not None]
        where = f"{self.source}, row with {', '.join(filled[:_SHOWN])}"
        return where if column is None else f"{where}, column {column!r}"


@dataclass(frozen=True, eq=False)
class DatabaseRows:
    """The rows behind groups, for sums that need them again.

    Parameters
    ----------
    engine : Engine
        DuckDB in this process, with the tables `labels`, `pieces` and `units`.
    queries : Queries
    """

    engine: Engine
    queries: Queries

    @property
    def source(self) -> str:
        """The address of the table; starts every message."""
        return self.queries.database.source

    def table(self, sql: str) -> pd.DataFrame:
        """The rows of a query on what has come back."""
        found: pd.DataFrame = self.engine.run(sql, source=self.source).to_pandas()
        return found

    def sums(self, kept: pd.DataFrame, *, crossed: bool, progress: Progress | None) -> pd.DataFrame:
        """Sums over units of products, by task and kind of pair; see :meth:`Queries.sums`."""
        waiting = _asking(progress, 3, "sums over items")
        parts = self.queries.sums(kept, crossed=crossed)
        found = [_frame(self.queries.database, one, waiting) for one in parts]
        return pd.concat(found, ignore_index=True)

    def margin_squares(self, kept: pd.DataFrame, *, progress: Progress | None) -> pd.DataFrame:
        """Squares of the units' means over seeds, by cell."""
        waiting = _asking(progress, 4, "means over seeds")
        return _frame(self.queries.database, self.queries.margin_squares(kept), waiting)

    def digests(self) -> tuple[str, ...]:
        """SHA-256 of what has come back, and the column of the scores.

        Means and sums of squares are left out: their last digits depend on the order in which an
        engine adds. The checksums of the pieces do not.
        """
        names = self.table("SELECT * FROM labels LIMIT 0").columns
        labels = ", ".join(f'l."{name}"' for name in names if name != "gid")
        digest = hashlib.sha256()
        for sql in (
            "SELECT raw, code FROM units ORDER BY code",
            f"SELECT {labels}, p.block, p.n, p.lowest, p.highest, p.bits, p.first, p.second "
            "FROM labels l JOIN pieces p USING (gid) ORDER BY ALL",
        ):
            for batch in self.engine.run(sql, source=self.source).to_batches():
                for row in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                    digest.update(json.dumps(row).encode())
        return digest.hexdigest(), self.queries.ours["score"]

    def refuse_repeat(self, groups: Sequence[int], cell: str, *, with_unit: bool) -> None:
        """Refuse a unit that is twice in the groups of a cell.

        Raises
        ------
        InputError
        """
        on = " AND ".join(
            f"l.{name} IS NOT DISTINCT FROM r.{name}"
            for name in ("part", *STATE, *(f"k_{key}" for key in self.queries.keys))
        )
        gids = self.table(
            f"SELECT l.gid FROM labels l JOIN raw_groups r ON {on} "
            f"WHERE r.g IN ({', '.join(map(str, groups))})"
        )
        queries = self.queries
        found = queries.database.rows(
            queries.repeated([int(gid) for gid in gids["gid"]], with_unit=with_unit)
        )[0]
        cell += f", {queries.unit} {found['unit']!r}" if with_unit else ""
        hint = "keep one of them"
        if not with_unit:
            hint += ", or distinguish replicates by a seed, boot or item column"
        raise InputError(
            f"{self.source}: duplicate: {cell} has {counted(int(found['n']), 'score')}; {hint}"
        )


@dataclass(frozen=True, eq=False)
class _Place:
    """Names the rows of a group by their labels, because rows of a database have no numbers."""

    source: str
    locator: Locator
    ours: Mapping[str, str]

    def __call__(self, group: int, score: float | None = None) -> str:
        labels = self.locator.distinct.iloc[group]
        named = [
            f"{self.ours[key]} {show(labels[f'k_{key}'])}"
            for key in self.locator.keys
            if not pd.isna(labels[f"k_{key}"])
        ]
        named += [] if score is None else [f"{self.ours['score']} {score!r}"]
        return f"{self.source}, rows with {', '.join(named[:_SHOWN])}" if named else self.source


def _asking(progress: Progress | None, done: int, remark: str) -> Callable[[], None]:
    """Reports a step, at once and whenever it is called."""

    def report() -> None:
        if progress is not None:
            progress(_STAGE, done, _STEPS, remark)

    report()
    return report


def within(batches: Iterator[Any], most: int, refusal: str) -> Iterator[Any]:
    """Batches of Arrow, as long as they have no more rows than are allowed.

    Raises
    ------
    InputError
        With the text `refusal`.
    """
    n_rows = 0
    for batch in batches:
        n_rows += batch.num_rows
        if n_rows > most:
            raise InputError(refusal)
        yield batch


def group_database_rows(
    queries: Queries, engine: Engine, partials: Partials, *, progress: Progress | None
) -> RowGroups:
    """Groups of rows with the same labels, as of files.

    Parameters
    ----------
    queries : Queries
    engine : Engine
        DuckDB in this process, in which what comes back is put together.
    partials : Partials
    progress : callable, optional

    Raises
    ------
    InputError
        For a score that is no number, a label that is none, or more groups than fit into memory.
    """
    rows = DatabaseRows(engine, queries)
    source = rows.source
    waiting = _asking(progress, 0, f"labels of {queries.unit}s")
    _fetch(rows, queries.units(), "raw_units", f"different {queries.unit}s", waiting)
    queries = replace(queries, same_units=_numbered_units(rows))
    rows = replace(rows, queries=queries)
    waiting = _asking(progress, 1, "labels of cells")
    _fetch(rows, queries.groups(), "groups", "different cells and seeds", waiting)
    scan = _labels(rows)
    waiting = _asking(progress, 2, "means and sums of squares")
    _fetch(rows, queries.pieces(), "pieces", f"blocks of {queries.unit}s in cells", waiting)
    if queries.database.is_view:
        _refuse_unstable(rows, waiting)
    _refuse_bad(rows, scan)
    keys = ", ".join(f"l.k_{key}" for key in queries.keys)
    path = engine.folder / "partial.parquet"
    engine.execute(
        f"COPY (SELECT 0 AS place, l.blank, l.no_unit, l.missing, l.empty, {keys}, p.n, p.mean, "
        "p.square, p.lowest, p.highest, 0 AS bad, 0 AS bad_key, CAST(p.block AS UINTEGER) AS block,"
        " CAST(CAST(p.bits AS BIT) AS BLOB) AS bits FROM labels l JOIN pieces p USING (gid)) "
        f"TO {literal(str(path))} (FORMAT parquet)",
        source=source,
    )
    one = TableRows(Path(source), scan, dict(queries.ours), ())
    reading = Reading(engine, partials, [one], [Batch(one, (0,))], progress)
    place_files(engine, reading.batches, [path], source=source)
    groups = put_together(reading, queries.unit, queries.keys, queries.missing)
    tables = [
        replace(table, locate=_Place(source, table.locate, queries.ours))
        for table in groups.tables
        if isinstance(table.locate, Locator)
    ]
    return replace(groups, tables=tables, remote=rows)


def _fetch(
    rows: DatabaseRows, query: Any, name: str, what: str, waiting: Callable[[], None]
) -> None:
    """A table of the process from a query of the database, by way of a file."""
    import pyarrow.parquet as pq

    path = rows.engine.folder / f"{name}.parquet"
    most = rows.engine.memory // _BYTES
    refusal = (
        f"{rows.source}: the table has more than {grouped(most)} {what}, more than "
        f"{argument('memory')} lets come back from the database; allow more, or leave rows out"
    )
    batches = within(rows.queries.database.batches(query, waiting=waiting), most, refusal)
    with pq.ParquetWriter(path, query.schema().to_pyarrow()) as writer:
        for batch in batches:
            with writing(rows.engine.folder.parent):
                writer.write_batch(batch)
    rows.engine.execute(
        f"CREATE OR REPLACE TEMP VIEW {name} AS SELECT * FROM read_parquet({literal(str(path))})",
        source=rows.source,
    )


def _refuse_unstable(rows: DatabaseRows, waiting: Callable[[], None]) -> None:
    """Refuse a view that has other rows when it is read again, as one with random() has.

    Later sums read it once more. Means and sums of squares depend on the order of the rows.
    """
    queries = rows.queries
    _fetch(rows, queries.pieces(), "pieces_again", f"blocks of {queries.unit}s in cells", waiting)
    names = "gid, block, n, lowest, highest, bits, first, second"
    first, again = (f"SELECT {names} FROM {name}" for name in ("pieces", "pieces_again"))
    changed = rows.table(
        f"SELECT 1 FROM (({first} EXCEPT ALL {again}) UNION ALL ({again} EXCEPT ALL {first})) "
        "LIMIT 1"
    )
    if len(changed):
        raise InputError(
            f"{rows.source}: the view has other rows whenever it is read; store them in a table"
            " and read that"
        )


def _numbered_units(rows: DatabaseRows) -> dict[int, int]:
    """Refuse labels of units that are none; which numbers mean the same unit as an earlier one."""
    unit, source = rows.queries.unit, rows.source
    scan = typed_scan(rows.engine, source, "raw_units")
    rows.engine.execute(
        f"CREATE OR REPLACE TEMP TABLE units AS SELECT code, {scan.label('unit')} AS raw, "
        f"{scan.bad_label('unit')} AS bad, CAST(unit AS VARCHAR) AS cell FROM raw_units",
        source=source,
    )
    wrong = rows.table(
        f"SELECT cell FROM units WHERE bad OR length(raw) > {_MAX_LABEL} "
        f"OR {has_control('raw')} LIMIT 1"
    )
    column = rows.queries.ours[unit]
    for cell in wrong["cell"]:
        raise InputError(
            f"{source}, column {column!r}: {unit} {show(cell)} is no label; expected a text of at"
            f" most {_MAX_LABEL} characters without control characters, or a whole number"
        )
    blank = rows.table("SELECT code FROM units WHERE raw IS NULL LIMIT 1")
    if len(blank):
        raise InputError(
            f"{source}, column {column!r}: some {unit}s are texts of blanks; write NULL where a row"
            f" has no {unit}"
        )
    clean = unit_label("raw", unit)
    same = rows.table(
        "SELECT code, first FROM (SELECT code, min(code) OVER (PARTITION BY clean) AS first "
        f"FROM (SELECT code, {clean} AS clean FROM units)) WHERE code <> first"
    )
    return dict(zip(same["code"].astype(int), same["first"].astype(int), strict=True))


def _labels(rows: DatabaseRows) -> Scan:
    """Table `labels`: state and cleaned labels of every group; and how its cells are read."""
    queries, source = rows.queries, rows.source
    found = typed_scan(rows.engine, source, "groups")
    names = list(queries.columns)
    cells = dict.fromkeys(names, "NULL")
    kinds = dict.fromkeys(names, found.kinds["nulls"])
    columns = []
    for place, key in enumerate(queries.keys):
        name = queries.ours[key]
        cells[name] = f"CASE WHEN (nulls >> {place}) & 1 = 0 THEN c{place} END"
        kinds[name] = found.kinds[f"c{place}"]
    scan = Scan(source, "groups", cells, kinds)
    for key in queries.keys:
        name = queries.ours[key]
        columns.append(f"{scan.number(name) if key in NUMBERS else scan.label(name)} AS k_{key}")
    flags = (f"(state >> {bit}) & 1 = 1 AS {name}" for bit, name in enumerate(STATES))
    marks = " ".join(
        f"WHEN {place} THEN {value!r}" for place, value in enumerate(queries.missing, 1)
    )
    missing = f"CASE state >> {len(STATES)} {marks} END" if marks else "NULL"
    rows.engine.execute(
        f"CREATE OR REPLACE TEMP TABLE labels AS SELECT gid, 0 AS part, {', '.join(flags)}, "
        f"CAST({missing} AS DOUBLE) AS missing, {', '.join(columns)} FROM groups",
        source=source,
    )
    for key in queries.keys:
        _refuse_key(rows, scan, key)
    return scan


def _averages(rows: DatabaseRows) -> tuple[list[str], str]:
    """Languages whose rows are left out as averages; and SQL of whether a label is another."""
    if "language" not in rows.queries.keys:
        return [], "true"
    found = rows.table("SELECT DISTINCT k_language FROM labels WHERE k_language IS NOT NULL")
    names = aggregates_among(found["k_language"])
    listed = ", ".join(map(literal, names))
    return names, f"coalesce(k_language NOT IN ({listed}), true)" if names else "true"


def _refuse_key(rows: DatabaseRows, scan: Scan, key: str) -> None:
    """Refuse cells of a column that are not what it holds, with the first of them.

    As of files, rows of averages are left out before their other cells are read, and rows
    without a score before the numbers beside it are.
    """
    column = rows.queries.ours[key]
    bad = scan.bad_number(column) if key in NUMBERS else scan.bad_label(column)
    is_read = "true" if key == "language" else _averages(rows)[1]
    is_read += " AND NOT empty" if key in NUMBERS else ""
    found = rows.engine.run(
        f"SELECT {scan.cells[column]} AS cell FROM groups WHERE ({bad}) AND gid IN "
        f"(SELECT gid FROM labels WHERE {is_read}) ORDER BY gid LIMIT 1",
        source=rows.source,
    ).to_pylist()
    for one in found:
        table = DatabaseTable(rows.source, "row", _ONE, {column: object_array([one["cell"]])})
        _check(table, column, key)


def _refuse_bad(rows: DatabaseRows, scan: Scan) -> None:
    """Refuse scores that are no numbers, with the first of them."""
    averages, is_read = _averages(rows)
    bad = rows.table(
        "SELECT CAST(sum(bad) AS BIGINT) AS n FROM pieces JOIN labels USING (gid) "
        f"WHERE bad > 0 AND {is_read}"
    )["n"]
    if not len(bad) or pd.isna(bad[0]):
        return
    queries = rows.queries
    table = queries.bad_rows(without=averages)
    names = [queries.columns[queries.ours[our]] for our in (*queries.keys, queries.unit, "score")]
    row = queries.database.rows(table.select(*dict.fromkeys(names)).limit(1))[0]
    cells = {name: object_array([row[own]]) for name, own in queries.columns.items() if own in row}
    try:
        _check(DatabaseTable(rows.source, "row", _ONE, cells), queries.ours["score"], "score")
    except InputError as problem:
        others = f"; {counted(int(bad[0]), 'such cell')} in the table" if bad[0] > 1 else ""
        raise InputError(f"{problem}{others}") from problem


def _check(table: RawTable, column: str, key: str) -> None:
    if key == "score" or key in NUMBERS:
        parse_numbers(table.columns[column], table=table, column=column, name=key)
    else:
        clean_labels(table.columns[column], table=table, column=column, name=key)
    raise InputError(f"{table.at(0, column)}: {key} is not what the column holds")


def _frame(database: Database, query: Any, waiting: Callable[[], None]) -> pd.DataFrame:
    return pd.DataFrame(database.rows(query, waiting=waiting), columns=list(query.columns))


_ONE: Index = pd.RangeIndex(1, 2).to_numpy(dtype="int64")
