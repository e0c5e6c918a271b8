"""Tables in databases as files are read: whole where they are small, else reduced to cells."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any, Final

import numpy as np

from bayeseval._text import grouped
from bayeseval._typing import Floats, Progress
from bayeseval.errors import InputError, argument
from bayeseval.readers.columns import UNITS, missing_columns, resolve_columns
from bayeseval.readers.databases import Address, Database, open_database
from bayeseval.readers.raw import RawTable, make_table, with_constants
from bayeseval.readers.scans import clean_names, open_engine
from bayeseval.readers.tabular import EmptyTableError, python_cells
from bayeseval.readers.typed import typed_cells
from bayeseval.records.database_queries import Queries, cell_of
from bayeseval.records.database_rows import DatabaseTable, group_database_rows
from bayeseval.records.partials import Partials
from bayeseval.records.remote import cache_folder
from bayeseval.records.report import TableError
from bayeseval.records.row_groups import not_reduced
from bayeseval.records.row_tables import RowGroups
from bayeseval.records.settings import TableMapping
from bayeseval.records.unread_averages import refuse_averages_of

__all__ = ["Found", "database_tables"]

# Of the memory that is allowed: what an engine in this process takes, and a table read whole.
_ENGINE: Final = 4
_WHOLE: Final = 8
_SAMPLE: Final = 100


@dataclass(frozen=True, eq=False)
class Found:
    """What is read of a table in a database.

    Parameters
    ----------
    name : str
        Of the table.
    tables : sequence of RawTable
    groups : RowGroups or None
        The groups of rows that the tables hold; None for a table that is read whole.
    notes : tuple of str
    """

    name: str
    tables: Sequence[RawTable]
    groups: RowGroups | None = None
    notes: tuple[str, ...] = ()


@contextmanager
def database_tables(
    text: str, *, settings: TableMapping, memory: int, progress: Progress | None
) -> Iterator[Found]:
    """The table of an address, as long as the connection is open.

    Parameters
    ----------
    text : str
        ``postgres://user@host/database?table=NAME``, or what else Ibis connects to.
    settings : TableMapping
    memory : int
        Bytes.
    progress : callable, optional
    """
    address = Address.of(text)
    partials = Partials.open(cache_folder())
    with (
        open_engine([], memory=memory, folder=partials.folder) as engine,
        open_database(address, memory=memory // _ENGINE, scratch=engine.folder) as database,
    ):
        name = database.name
        columns, ours = _columns(database, settings)
        unit = next((unit for unit in UNITS if unit in ours), None)
        if unit is None or not_reduced(ours, unit):
            yield Found(name, [_whole(database, columns, memory, progress)])
            return
        keys = tuple(our for our in ours if our not in ("score", unit))
        queries = Queries(database, columns, ours, keys, unit, tuple(settings.missing))
        if "score" not in settings.columns:
            rows = _Rows(queries, queries.unread_numbers(), progress)
            refuse_averages_of(rows, theirs=ours["score"])
        groups = group_database_rows(queries, engine, partials, progress=progress)
        yield Found(name, groups.tables, groups, (groups.summary,))


def _columns(database: Database, settings: TableMapping) -> tuple[dict[str, str], dict[str, str]]:
    """Names of the columns as they are shown and as the engine has them; ours and these."""
    own = list(database.table.columns)
    columns = dict(zip(clean_names(own, database.source), own, strict=True))
    explicit = {**{name: name for name in settings.constants}, **settings.columns}
    try:
        found = resolve_columns(
            [*columns, *settings.constants], source=database.source, explicit=explicit
        )
    except InputError as problem:
        raise TableError(str(problem)) from problem
    ours = {our: theirs for our, theirs in found.ours.items() if theirs in columns}
    # Languages may yet come from the names of tasks.
    has_names = found.missing == ("language",) and not {"task", "dataset"}.isdisjoint(found.ours)
    if "score" not in ours or (found.missing and not has_names):
        # What the cells hold says what a message advises.
        sample = with_constants(_first_rows(database, columns), settings.constants)
        raise TableError(missing_columns(found, sample.columns, source=database.source))
    return columns, ours


def _first_rows(database: Database, columns: Mapping[str, str]) -> RawTable:
    """Some rows of the table, as they are read."""
    rows = database.rows(_selected(database, columns).limit(_SAMPLE))
    cells = ((name, [row[name] for row in rows]) for name in columns)
    return make_table(database.source, "row", range(1, len(rows) + 1), cells)


@dataclass(frozen=True, eq=False)
class _Rows:
    """As :class:`bayeseval.records.unread_averages.ScoredRows`, of a table in a database."""

    queries: Queries
    names: Sequence[str]
    progress: Progress | None

    @property
    def source(self) -> str:
        return self.queries.database.source

    def _asked(self, query: Any) -> list[dict[str, Any]]:
        return self.queries.database.rows(query, waiting=self._waiting)

    def _waiting(self) -> None:
        if self.progress is not None:
            self.progress("looking for averages", 0, 1, self.queries.database.name)

    def first(self, most: int) -> Floats:
        rows = self._asked(self.queries.numbers(self.names).limit(most))
        cells = [[row["x"], *(row[f"c{i}"] for i in range(len(self.names)))] for row in rows]
        return np.array(cells, dtype=np.float64).reshape(len(rows), 1 + len(self.names))

    def varied(self, columns: Sequence[int]) -> Sequence[bool]:
        rows = self.queries.numbers(self.names)
        facts: dict[str, Any] = {"n": rows.count()}
        for i in columns:
            own = rows[f"c{i}"]
            facts |= {f"n{i}": own.count(), f"low{i}": own.min(), f"high{i}": own.max()}
        (found,) = self._asked(rows.agg(**facts))
        return [
            found[f"n{i}"] == found["n"] and found[f"low{i}"] < found[f"high{i}"] for i in columns
        ]

    def apart(self, columns: Sequence[int]) -> tuple[float, float]:
        rows = self.queries.numbers(self.names)
        mean = reduce(add, (rows[f"c{i}"] for i in columns)) / len(columns)
        apart, size = (mean - rows.x).abs().max(), rows.x.abs().max()
        (found,) = self._asked(rows.agg(apart=apart, size=size))
        return found["apart"], found["size"]


def _selected(database: Database, columns: Mapping[str, str]) -> Any:
    """All columns, those of a type that a table does not have as texts."""
    table = database.table
    return table.select(
        **{
            name: table[own] if _is_nested(table[own]) else cell_of(table[own])
            for name, own in columns.items()
        }
    )


def _is_nested(column: Any) -> bool:
    kind = column.type()
    return bool(kind.is_nested() or kind.is_json() or kind.is_binary() or kind.is_temporal())


def _whole(
    database: Database, columns: Mapping[str, str], memory: int, progress: Progress | None
) -> RawTable:
    """All rows of a small table."""
    import pyarrow as pa

    query = _selected(database, columns)

    def waiting() -> None:
        if progress is not None:
            progress("reading the table", 0, 1, database.name)

    waiting()
    batches, size, n_rows = [], 0, 0
    for batch in database.batches(query, waiting=waiting):
        batches.append(batch)
        size += batch.nbytes
        n_rows += batch.num_rows
        if size > memory // _WHOLE:
            raise InputError(
                f"{database.source}: the table has more than {grouped(n_rows)} rows, more than"
                f" {argument('memory')} lets come back from the database; rows are reduced by the"
                " database where the table has a column item or boot and no column prompt, judge"
                " or k beside it"
            )
    if not n_rows:
        raise EmptyTableError(f"{database.source}: the table has no rows")
    table = pa.Table.from_batches(batches)
    cells = {
        name: typed_cells(column) or python_cells(column)
        for name, column in zip(table.column_names, table.columns, strict=True)
    }
    made = make_table(database.source, "row", range(1, n_rows + 1), cells.items())
    return DatabaseTable(made.source, made.place, made.numbers, made.columns)
