"""Rows of large tables reduced by DuckDB to one row per cell and seed, file by file."""

from __future__ import annotations

from collections.abc import Collection, Container, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from bayeseval._typing import Progress
from bayeseval.errors import InputError, argument
from bayeseval.readers.columns import (
    SHARED,
    UNITS,
    columns_argument,
    missing_columns,
    named_like,
    resolve_columns,
)
from bayeseval.readers.numbered import with_file_numbers, with_models_of_folders
from bayeseval.readers.raw import Changed, RawTable, make_table, with_constants
from bayeseval.readers.scans import Engine, Scan, literal
from bayeseval.readers.sql_texts import has_control, stripped, unit_label
from bayeseval.records.partials import Partials
from bayeseval.records.parts import NOTED_LABELS
from bayeseval.records.report import TableError
from bayeseval.records.row_batches import in_batches
from bayeseval.records.row_queries import (
    NUMBERS,
    TableRows,
    aggregates_among,
    grouping,
    refuse_label,
    refuse_number,
)
from bayeseval.records.row_reading import Reading, listed
from bayeseval.records.row_tables import RowGroups, place_files, put_together
from bayeseval.records.unread_averages import ScannedRows, refuse_averages_of, unread_columns

__all__ = ["group_rows", "not_reduced", "read_columns"]

# Of single rows, or of what the units say themselves.
_NOT_BESIDE: Final = {"item": ("k",), "boot": ("k", "se", "boot_sd", "n_boot")}
_MAX_LABEL: Final = 500
_SAMPLE: Final = 100


def read_columns(
    engine: Engine,
    files: Sequence[Path],
    *,
    folder: Path | None,
    columns: Mapping[str, str | None],
    constants: Mapping[str, Any],
    named_files: bool,
) -> tuple[list[TableRows], list[str]]:
    """The columns of every file, with those that names of files and folders say; notes.

    `named_files` is false for files of a card, whose names say nothing.

    Raises
    ------
    InputError
        If a file has no scores, or its columns are ambiguous.
    """
    stubs = [
        make_table(scan.source, "row", [1], ((name, [None]) for name in scan.cells))
        for scan in engine.scans
    ]
    notes: list[str] = []
    if named_files:
        stubs, notes = with_file_numbers(stubs, files)
        chosen = {**dict.fromkeys(constants), **columns}
        stubs, named = with_models_of_folders(stubs, files, folder=folder, columns=chosen)
        notes = [*notes, *named]
    explicit = {**{name: name for name in constants}, **columns}
    rows = []
    for file, scan, stub in zip(files, engine.scans, stubs, strict=True):
        added = {n: str(c[0]) for n, c in stub.columns.items() if n not in scan.cells}
        scan = replace(
            scan,
            cells={**scan.cells, **{name: literal(text) for name, text in added.items()}},
            kinds={**scan.kinds, **dict.fromkeys(added, "text")},
        )
        try:
            found = resolve_columns(
                [*scan.cells, *constants], source=scan.source, explicit=explicit
            )
        except InputError as problem:
            raise TableError(str(problem)) from problem
        ours = {our: theirs for our, theirs in found.ours.items() if theirs in scan.cells}
        # Languages may yet come from the names of tasks.
        if "score" not in ours or (found.missing and "language" not in found.missing):
            sample = with_constants(_sample(engine, scan), constants)
            raise TableError(missing_columns(found, sample.columns, source=scan.source))
        if "score" not in explicit:
            unread = unread_columns(scan.cells, ours.values())
            refuse_averages_of(
                ScannedRows(engine, scan, ours["score"], unread), theirs=ours["score"]
            )
        rows.append(TableRows(file, scan, ours, stub.derived))
    return _with_shared(rows, explicit), notes


def _with_shared(files: Sequence[TableRows], chosen: Container[str]) -> list[TableRows]:
    """The files with the names of their columns of prompts and judges, which all of them have."""
    first, *others = (
        [name for name in one.scan.cells if name not in one.ours.values()] for one in files
    )
    unread = [name for name in first if all(name in other for other in others)]
    named = {our: named_like(our, unread) for our in SHARED if our not in chosen}
    shared = {our: theirs for our, theirs in named.items() if theirs is not None}
    return [replace(one, shared=shared) for one in files]


def _sample(engine: Engine, scan: Scan) -> RawTable:
    """The first rows of a table as texts."""
    cells = ", ".join(f"{scan.label(name)} AS c{i}" for i, name in enumerate(scan.cells))
    table = engine.run(f"SELECT {cells} FROM {scan.relation} LIMIT {_SAMPLE}", source=scan.source)
    columns = [column.to_pylist() for column in table.columns]
    return make_table(
        scan.source, "row", range(1, table.num_rows + 1), zip(scan.cells, columns, strict=True)
    )


def group_rows(
    engine: Engine,
    files: Sequence[TableRows],
    partials: Partials,
    *,
    missing: Sequence[float],
    progress: Progress | None,
) -> RowGroups:
    """Read every file once, or its partial result, and put the groups together.

    Parameters
    ----------
    engine : Engine
    files : sequence of TableRows
    partials : Partials
    missing : sequence of float
        Scores that mean that there is none; they are groups of their own.
    progress : callable, optional

    Raises
    ------
    InputError
        For a score that is no number or a label that is none, with file and row.
    """
    unit, files = _unit_of(engine, files)
    if unit is None:
        files = _apart_by_shared(engine, files)
    keys = tuple(
        dict.fromkeys(our for one in files for our in one.ours if our not in ("score", unit))
    )
    batches = in_batches(files)
    reading = Reading(engine, partials, files, batches, progress)
    fingerprint = "" if unit is None else _dictionary(reading, unit)
    queries = {batch: grouping(batch.rows, keys, unit, missing) for batch in batches}
    paths = reading.reduced(queries, stage="reducing rows", depends_on=fingerprint)
    place_files(engine, batches, paths, source=reading.source)
    _refuse_bad(reading, keys)
    groups = put_together(reading, unit, keys, tuple(missing))
    return groups if unit is None else _with_odd_labels(groups, unit)


def not_reduced(ours: Container[str], unit: str) -> list[str]:
    """Our columns that cannot stand beside the unit over which rows are reduced."""
    beside = (*UNITS[1:], *SHARED, *_NOT_BESIDE[unit])
    return [our for our in dict.fromkeys(beside) if our in ours and our != unit]


def _unit_of(engine: Engine, files: Sequence[TableRows]) -> tuple[str | None, Sequence[TableRows]]:
    """The column over which rows are reduced, and the files without columns that are empty.

    What cannot stand beside the unit is refused.
    """
    units = [unit for unit in UNITS if any(unit in one.ours for one in files)]
    if not units:
        return None, files
    doubtful = {*units, *(our for one in files for our in not_reduced(one.ours, units[0]))}
    if len(doubtful) > 1 or files[0].shared:
        # Columns without any value are none, as in memory.
        files = [_without_empty(engine, one, doubtful) for one in files]
        units = [unit for unit in units if any(unit in one.ours for one in files)]
        if not units:
            return None, files
    unit = units[0]
    for one in files:
        for our in not_reduced(one.ours, unit):
            raise InputError(
                f"{one.scan.source}: rows are reduced over {unit}, and the column {our!r} "
                f"({one.ours[our]!r}) beside it is not; leave it out with "
                f"{columns_argument((our, None))}, or leave {argument('memory')} out if the table "
                "fits into memory"
            )
    return unit, files


def _without_empty(engine: Engine, one: TableRows, columns: Collection[str]) -> TableRows:
    """The file without those of our columns that have no value in it."""
    scan, kept = one.scan, {}
    for our, theirs in one.ours.items():
        filled = f"SELECT 1 AS filled FROM {scan.relation} WHERE NOT ({scan.empty(theirs)}) LIMIT 1"
        if our not in columns or engine.run(filled, source=scan.source).num_rows:
            kept[our] = theirs
    return replace(one, ours=kept)


def _apart_by_shared(engine: Engine, files: Sequence[TableRows]) -> Sequence[TableRows]:
    """The files of single rows, whose prompts and judges tell rows apart.

    Where the table is put together they are read if they have to be, as in memory. Columns whose
    cells are no labels could not be.
    """
    for our, theirs in files[0].shared.items():
        if not any(_has_bad_label(engine, one, theirs) for one in files):
            files = [replace(one, ours={**one.ours, our: theirs}) for one in files]
    return files


def _has_bad_label(engine: Engine, one: TableRows, column: str) -> bool:
    condition = one.scan.bad_label(column)
    found = f"SELECT 1 AS found FROM {one.scan.relation} WHERE {condition} LIMIT 1"
    return condition != "false" and engine.run(found, source=one.scan.source).num_rows > 0


def _dictionary(reading: Reading, unit: str) -> str:
    """Number the units of all files in the table `dictionary`; a text that tells it from others.

    The table `odd_labels` has those of each file with blanks at their ends or not in NFC.
    """
    queries = {}
    for batch in reading.batches:
        scan, column = batch.rows.scan, batch.rows.ours.get(unit)
        if column is not None:
            queries[batch] = (
                f"SELECT place, raw, bool_or(bad) AS bad FROM (SELECT {batch.rows.place} AS place, "
                f"{scan.label(column)} AS raw, {scan.bad_label(column)} AS bad "
                f"FROM {scan.relation}) WHERE raw IS NOT NULL GROUP BY place, raw"
            )
    paths = reading.reduced(queries, stage=f"reading labels of {unit}s")
    labels = listed(paths)
    engine, source = reading.engine, reading.source
    wrong = engine.run(
        f"SELECT raw FROM {labels} WHERE bad OR length(raw) > {_MAX_LABEL} OR "
        f"{has_control('raw')} LIMIT 1",
        source=source,
    ).to_pylist()
    for one in reading.files if wrong else ():
        if unit in one.ours:
            refuse_label(engine, one, unit, wrong[0]["raw"])
    clean = unit_label("raw", unit)
    engine.execute(
        "CREATE TEMP TABLE dictionary AS SELECT raw, "
        "CAST(dense_rank() OVER (ORDER BY clean) - 1 AS UINTEGER) AS code FROM "
        f"(SELECT DISTINCT raw, {clean} AS clean FROM {labels})",
        source=source,
    )
    sums = engine.run(
        "SELECT count(*) AS n, bit_xor(hash(raw, code)) AS h FROM dictionary", source=source
    ).to_pylist()
    is_odd = f"raw <> {stripped('raw')} OR raw <> nfc_normalize(raw)"
    engine.execute("CREATE TEMP TABLE odd_labels (file INTEGER, raw VARCHAR)", source=source)
    odd = engine.run(f"SELECT 1 FROM dictionary WHERE {is_odd} LIMIT 1", source=source)
    for path, batch in zip(paths, queries, strict=True) if odd.num_rows else ():
        engine.execute(
            f"INSERT INTO odd_labels SELECT {list(batch.files)}[place + 1], raw "
            f"FROM {listed([path])} WHERE {is_odd}",
            source=source,
        )
    return str(sums)


def _with_odd_labels(groups: RowGroups, unit: str) -> RowGroups:
    """The groups, whose tables say which labels of units are not kept as they are written."""
    tables = []
    # In the order of the parts.
    for part, table in zip(sorted({one.part for one in groups.files}), groups.tables, strict=True):
        own = [place for place, one in enumerate(groups.files) if one.part == part]
        odd = f"SELECT DISTINCT raw FROM odd_labels WHERE file IN ({', '.join(map(str, own))})"
        blank = _changed(groups, f"SELECT raw AS label FROM ({odd}) WHERE raw <> {stripped('raw')}")
        form = _changed(
            groups,
            f"SELECT {stripped('raw')} AS label FROM ({odd}) WHERE raw <> nfc_normalize(raw)",
        )
        tables.append(replace(table, reduced_over={unit: (blank, form)}))
    return replace(groups, tables=tables)


def _changed(groups: RowGroups, labels: str) -> Changed:
    """How many labels a query has, and the first of them."""
    found = groups.engine.run(
        f"SELECT count(*) AS n, min(label, {NOTED_LABELS}) AS first FROM ({labels})",
        source=groups.source,
    ).to_pylist()[0]
    return Changed(found["n"], tuple(found["first"] or ()))


def _refuse_bad(reading: Reading, keys: Sequence[str]) -> None:
    """Refuse cells that are neither numbers nor labels: the first file's first such row.

    As in memory, rows of averages are left out before their other cells are read, and rows
    without a score before the numbers beside it are.
    """
    engine = reading.engine
    language = "k_language" if "language" in keys else "CAST(NULL AS VARCHAR)"
    found = engine.run(
        f"SELECT file, {language} AS language, CAST(sum(bad) AS BIGINT) AS bad, "
        "CAST(sum(bad_key) AS BIGINT) AS bad_key FROM placed WHERE bad + bad_key > 0 "
        "GROUP BY ALL ORDER BY ALL",
        source=reading.source,
    ).to_pylist()
    averages = set(aggregates_among(row["language"] for row in found))
    for file in dict.fromkeys(row["file"] for row in found):
        one, rows = reading.files[file], [row for row in found if row["file"] == file]
        where = _is_other(one, [row["language"] for row in rows if row["language"] in averages])
        n_bad = sum(row["bad"] for row in rows if row["language"] not in averages)
        if n_bad:
            refuse_number(engine, one, "score", n_bad, where=where)
        for key in keys if any(row["bad_key"] for row in rows) else ():
            if key in one.ours and key in NUMBERS:
                scored = f"NOT ({one.scan.empty(one.ours['score'])})"
                refuse_number(engine, one, key, 1, where=f"{where} AND {scored}")
            elif key in one.ours:
                refuse_label(engine, one, key, where="true" if key == "language" else where)


def _is_other(one: TableRows, languages: Sequence[str]) -> str:
    """SQL of whether a row has another language."""
    if not languages:
        return "true"
    cell = one.scan.label(one.ours["language"])
    return f"coalesce(({cell}) NOT IN ({', '.join(map(literal, languages))}), true)"
