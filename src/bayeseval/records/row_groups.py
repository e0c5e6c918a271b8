"""Rows of large tables reduced by DuckDB to one row per cell and seed, file by file."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np
import numpy.typing as npt
import pandas as pd

from bayeseval._text import counted
from bayeseval._typing import Floats, Index, Progress
from bayeseval.errors import InputError, argument
from bayeseval.readers.columns import (
    SHARED,
    columns_argument,
    missing_columns,
    resolve_columns,
)
from bayeseval.readers.numbered import with_file_numbers, with_models_of_folders
from bayeseval.readers.raw import RawTable, ReducedTable, make_table, object_array
from bayeseval.readers.scans import Engine, Scan, literal
from bayeseval.readers.sql_texts import has_control, stripped
from bayeseval.records.partials import Partials
from bayeseval.records.row_queries import (
    NUMBERS,
    Locator,
    TableRows,
    grouping,
    refuse_label,
    refuse_number,
)

if TYPE_CHECKING:
    from bayeseval.records.database_rows import DatabaseRows

__all__ = [
    "UNITS",
    "RowGroups",
    "group_rows",
    "not_reduced",
    "partial_of",
    "put_together",
    "read_columns",
]

#: The label of the unit that stands for all of a group.
_ALL: Final = "all"

#: Our columns over which rows are reduced, the first that a table has.
UNITS: Final = ("item", "boot")
# Of single rows, or of what the units say themselves.
_NOT_BESIDE: Final = {"item": ("k",), "boot": ("k", "se", "boot_sd", "n_boot")}
_INTEGRAL: Final = re.compile(r"(-?[0-9]+)\.0+")
_MAX_LABEL: Final = 500
_STATE: Final = ("part", "blank", "no_unit", "missing", "empty")
_SAMPLE: Final = 100


@dataclass(frozen=True, eq=False)
class RowGroups:
    """Groups of rows with the same labels.

    Parameters
    ----------
    engine : Engine
    files : sequence of TableRows
    partials : Partials
    paths : sequence of Path
        Partial results of the files.
    unit : str or None
        ``item`` or ``boot``, over which rows are reduced.
    keys : tuple of str
        Our columns that tell groups apart.
    tables : sequence of ReducedTable
        One row per group, in parts.
    n, mean, square : array of float, shape (n_groups,)
        Rows of each group; mean and sum of squared deviations of their scores.
    missing : tuple of float
        Scores that mean that there is none.
    remote : DatabaseRows or None
        The rows of a table in a database, instead of files.
    """

    engine: Engine
    files: Sequence[TableRows]
    partials: Partials
    paths: Sequence[Path]
    unit: str | None
    keys: tuple[str, ...]
    tables: Sequence[ReducedTable]
    n: Floats
    mean: Floats
    square: Floats
    missing: tuple[float, ...]
    remote: DatabaseRows | None = None

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
        return self.files[0].scan.source


def read_columns(
    engine: Engine,
    files: Sequence[Path],
    *,
    folder: Path | None,
    columns: Mapping[str, str | None],
    constants: Mapping[str, Any],
) -> tuple[list[TableRows], list[str]]:
    """The columns of every file, with those that names of files and folders say; notes.

    Raises
    ------
    InputError
        If a file has no scores, or its columns are ambiguous.
    """
    stubs = [
        make_table(scan.source, "row", [1], ((name, [None]) for name in scan.cells))
        for scan in engine.scans
    ]
    stubs, notes = with_file_numbers(stubs, files)
    chosen = {**dict.fromkeys(constants), **columns}
    stubs, named = with_models_of_folders(stubs, files, folder=folder, columns=chosen)
    explicit = {**{name: name for name in constants}, **columns}
    parts: dict[tuple[Any, ...], int] = {}
    rows = []
    for file, scan, stub in zip(files, engine.scans, stubs, strict=True):
        added = {n: str(c[0]) for n, c in stub.columns.items() if n not in scan.cells}
        scan = replace(
            scan,
            cells={**scan.cells, **{name: literal(text) for name, text in added.items()}},
            kinds={**scan.kinds, **dict.fromkeys(added, "text")},
        )
        found = resolve_columns([*scan.cells, *constants], source=scan.source, explicit=explicit)
        ours = {our: theirs for our, theirs in found.ours.items() if theirs in scan.cells}
        if "score" not in ours:
            sample = _sample(engine, scan)
            raise InputError(missing_columns(found, sample.columns, source=scan.source))
        part = parts.setdefault((*sorted(ours.items()), *scan.cells), len(parts))
        rows.append(TableRows(file, scan, ours, part, stub.derived))
    return rows, [*notes, *named]


def _sample(engine: Engine, scan: Scan) -> RawTable:
    """The first rows of a table as texts."""
    listed = ", ".join(f"{scan.label(name)} AS c{i}" for i, name in enumerate(scan.cells))
    table = engine.run(f"SELECT {listed} FROM {scan.relation} LIMIT {_SAMPLE}", source=scan.source)
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
    unit = _unit_of(files)
    keys = tuple(
        dict.fromkeys(our for one in files for our in one.ours if our not in ("score", unit))
    )
    fingerprint = _dictionary(engine, files, partials, unit, progress) if unit else ""
    paths = []
    for done, one in enumerate(files):
        if progress is not None:
            progress("reducing rows", done, len(files), one.file.name)
        sql = grouping(one, keys, unit, missing)
        paths.append(partial_of(engine, partials, one, sql, depends_on=fingerprint))
    if progress is not None:
        progress("reducing rows", len(files), len(files), "")
    _refuse_bad(engine, files, paths, keys, unit)
    return put_together(engine, files, partials, paths, unit, keys, tuple(missing))


def partial_of(
    engine: Engine, partials: Partials, one: TableRows, sql: str, *, depends_on: str = ""
) -> Path:
    """The result of a query on one file, as a file that is kept.

    Parameters
    ----------
    engine : Engine
    partials : Partials
    one : TableRows
    sql : str
    depends_on : str
        What the query reads besides the file.
    """
    import duckdb

    def make(path: Path) -> None:
        engine.execute(
            f"COPY ({sql}) TO {literal(str(path))} (FORMAT parquet)", source=one.scan.source
        )

    # The relation names a link of this process.
    query = sql.replace(one.scan.relation, "relation")
    return partials.get(one.file, f"1 {duckdb.__version__}\n{depends_on}\n{query}", make)


def not_reduced(ours: Container[str], unit: str) -> list[str]:
    """Our columns that cannot stand beside the unit over which rows are reduced."""
    beside = (*UNITS[1:], *SHARED, *_NOT_BESIDE[unit])
    return [our for our in dict.fromkeys(beside) if our in ours and our != unit]


def _unit_of(files: Sequence[TableRows]) -> str | None:
    """The column over which rows are reduced; what cannot stand beside it is refused."""
    units = [unit for unit in UNITS if any(unit in one.ours for one in files)]
    if not units:
        return None
    unit = units[0]
    for one in files:
        for our in not_reduced(one.ours, unit):
            raise InputError(
                f"{one.scan.source}: rows are reduced over {unit}, and the column {our!r} "
                f"({one.ours[our]!r}) beside it is not; leave it out with "
                f"{columns_argument((our, None))}, or leave {argument('memory')} out if the table "
                "fits into memory"
            )
    return unit


def _dictionary(
    engine: Engine,
    files: Sequence[TableRows],
    partials: Partials,
    unit: str,
    progress: Progress | None,
) -> str:
    """Number the units of all files in the table `dictionary`; a text that tells it from others."""
    paths = []
    for done, one in enumerate(file for file in files if unit in file.ours):
        if progress is not None:
            progress(f"reading labels of {unit}s", done, len(files), one.file.name)
        column = one.ours[unit]
        sql = (
            f"SELECT raw, bool_or(bad) AS bad FROM (SELECT {one.scan.label(column)} AS raw, "
            f"{one.scan.bad_label(column)} AS bad FROM {one.scan.relation}) "
            "WHERE raw IS NOT NULL GROUP BY raw"
        )
        path = partial_of(engine, partials, one, sql)
        wrong = engine.run(
            f"SELECT raw FROM read_parquet({literal(str(path))}) WHERE bad OR length(raw) > "
            f"{_MAX_LABEL} OR {has_control('raw')} LIMIT 1",
            source=one.scan.source,
        ).to_pylist()
        if wrong:
            refuse_label(engine, one, unit, wrong[0]["raw"])
        paths.append(literal(str(path)))
    clean = stripped("nfc_normalize(raw)")
    if unit != "item":
        clean = f"regexp_replace({clean}, '^(-?[0-9]+)\\.0+$', '\\1')"
    source = files[0].scan.source
    engine.execute(
        "CREATE TEMP TABLE dictionary AS SELECT raw, "
        "CAST(dense_rank() OVER (ORDER BY clean) - 1 AS UINTEGER) AS code FROM "
        f"(SELECT DISTINCT raw, {clean} AS clean FROM read_parquet([{', '.join(paths)}]))",
        source=source,
    )
    sums = engine.run(
        "SELECT count(*) AS n, bit_xor(hash(raw, code)) AS h FROM dictionary", source=source
    ).to_pylist()
    return str(sums)


def _refuse_bad(
    engine: Engine,
    files: Sequence[TableRows],
    paths: Sequence[Path],
    keys: Sequence[str],
    unit: str | None,
) -> None:
    """Refuse cells that are neither numbers nor labels: the first file's first such row."""
    for one, path in zip(files, paths, strict=True):
        totals = engine.run(
            f"SELECT CAST(sum(n) AS BIGINT) AS n, CAST(sum(bad) AS BIGINT) AS bad, "
            "CAST(sum(bad_key) AS BIGINT) AS bad_key "
            f"FROM read_parquet({literal(str(path))})",
            source=one.scan.source,
        ).to_pylist()[0]
        if totals["bad"]:
            refuse_number(engine, one, "score", totals["bad"])
        if totals["bad_key"]:
            for key in keys:
                if key in one.ours and key in NUMBERS:
                    refuse_number(engine, one, key, 1)
                elif key in one.ours:
                    refuse_label(engine, one, key)


def put_together(
    engine: Engine,
    files: Sequence[TableRows],
    partials: Partials,
    paths: Sequence[Path],
    unit: str | None,
    keys: tuple[str, ...],
    missing: tuple[float, ...],
) -> RowGroups:
    """Number the groups of all files, and merge what the files say of each."""
    named = [*_STATE, *(f"k_{key}" for key in keys)]
    source = files[0].scan.source
    listed = ", ".join(literal(str(path)) for path in paths)
    engine.execute(
        f"CREATE TEMP VIEW partial AS SELECT * FROM read_parquet([{listed}])", source=source
    )
    distinct = engine.run(
        f"SELECT DISTINCT {', '.join(named)} FROM partial ORDER BY ALL", source=source
    ).to_pandas()
    if not len(distinct):
        raise InputError(f"{source}: the table has no rows")
    group = _numbered(distinct, keys, source)
    # Read by the query below, under this name.
    numbered = distinct.assign(g=group)
    engine.connection.register("numbered", numbered)
    engine.execute("CREATE TEMP TABLE raw_groups AS SELECT * FROM numbered", source=source)
    rows = engine.run(
        "SELECT g, n, mean, square, lowest, highest FROM partial p JOIN raw_groups r ON "
        + " AND ".join(f"p.{name} IS NOT DISTINCT FROM r.{name}" for name in named)
        # Sums in one order have the same last digits, on which later results depend.
        + " ORDER BY ALL",
        source=source,
    )
    merged = _merged(rows, int(group.max()) + 1)
    first = distinct.assign(g=group).drop_duplicates("g").sort_values("g")
    bare = RowGroups(
        engine,
        files,
        partials,
        paths,
        unit,
        keys,
        (),
        merged["n"],
        merged["mean"],
        merged["square"],
        missing,
    )
    return replace(bare, tables=_tables(bare, first, merged, distinct, group))


def _numbered(distinct: pd.DataFrame, keys: Sequence[str], source: str) -> Index:
    """The group of each set of labels; labels that clean to the same one are the same."""
    clean = distinct[list(_STATE)].copy()
    for key in keys:
        column = distinct[f"k_{key}"]
        clean[key] = column if key in NUMBERS else column.map(lambda t, k=key: _clean(t, k))
    group = clean.groupby(list(clean), dropna=False, sort=False).ngroup().to_numpy()
    labels = [str(name) for name in clean if name not in NUMBERS]
    several = clean.assign(g=group).drop_duplicates("g")
    several = several[several.duplicated(labels, keep=False)]
    for key in (key for key in keys if key in NUMBERS and len(several)):
        counts = several.groupby(labels, dropna=False)[key].nunique(dropna=False)
        if (counts > 1).any():
            at = dict(zip(labels, cast(tuple[Any, ...], counts.idxmax()), strict=True))
            cell = ", ".join(f"{name} {at[name]!r}" for name in labels if name not in _STATE)
            raise InputError(
                f"{source}: column {key!r} has several values in the rows of {cell}; give one "
                f"value, or leave the column out with {columns_argument((key, None))}"
            )
    return np.asarray(group, dtype=np.int64)


def _clean(text: object, key: str) -> str | None:
    if not isinstance(text, str):
        return None
    label = unicodedata.normalize("NFC", text).strip()
    return _INTEGRAL.sub(r"\1", label) if key == "seed" and _INTEGRAL.fullmatch(label) else label


def _merged(rows: Any, n_groups: int) -> dict[str, npt.NDArray[np.float64]]:
    """Counts, means and centred sums of squares of groups from those of their pieces.

    With n_j, m_j and q_j of piece j, the mean is sum n_j m_j / n, and the sum of squares
    sum q_j + sum n_j (m_j - mean)^2 (Chan, Golub and LeVeque 1983): nothing is subtracted from
    a sum of squares, which would lose its digits.
    """
    group, n, mean, square, lowest, highest = (
        column.fill_null(0 if name in ("g", "n") else np.nan).to_numpy()
        for name, column in zip(rows.column_names, rows.columns, strict=True)
    )
    total = np.bincount(group, n, n_groups)
    first = np.zeros(n_groups)
    first[group[::-1]] = np.nan_to_num(mean[::-1])
    centred = np.nan_to_num(mean) - first[group]
    merged = first + np.bincount(group, n * centred, n_groups) / total
    apart = np.nan_to_num(mean) - merged[group]
    squares = np.bincount(group, np.nan_to_num(square) + n * apart**2, n_groups)
    low, high = np.full(n_groups, np.inf), np.full(n_groups, -np.inf)
    np.fmin.at(low, group, lowest)
    np.fmax.at(high, group, highest)
    return {
        "n": total,
        "mean": merged,
        "square": squares,
        "lowest": np.where(np.isinf(low), np.nan, low),
        "highest": np.where(np.isinf(high), np.nan, high),
    }


def _tables(
    groups: RowGroups,
    first: pd.DataFrame,
    merged: Mapping[str, Floats],
    distinct: pd.DataFrame,
    group: Index,
) -> list[ReducedTable]:
    """One row per group, in one table for the files with the same columns."""
    tables = []
    for part in sorted({one.part for one in groups.files}):
        own = [one for one in groups.files if one.part == part]
        rows = first[first["part"] == part]
        if not len(rows):
            raise InputError(f"{own[0].scan.source}: the table has no rows")
        at = rows["g"].to_numpy(dtype=np.int64)
        columns = {name: object_array([None] * len(rows)) for name in own[0].scan.cells}
        for our, theirs in own[0].ours.items():
            if our == "score":
                empty = rows["empty"].to_numpy(dtype=np.bool_)
                means = merged["mean"][at]
                cells: list[Any] = [
                    None if e else float(m) for e, m in zip(empty, means, strict=True)
                ]
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
            lacking = [cell is None for cell in columns[language]]
            columns[unused[0]][filled & np.array(lacking)] = "(filled)"
        many = "" if len(own) == 1 else f" and {counted(len(own) - 1, 'more file')}"
        tables.append(
            ReducedTable(
                source=own[0].scan.source + many,
                place="row",
                numbers=np.arange(1, len(rows) + 1),
                columns=columns,
                derived=own[0].derived,
                group=at,
                rows=merged["n"][at].astype(np.int64),
                lowest=merged["lowest"][at],
                highest=merged["highest"][at],
                locate=Locator(
                    groups.engine,
                    groups.files,
                    groups.keys,
                    groups.unit,
                    groups.missing,
                    distinct,
                    group,
                ),
            )
        )
    return tables
