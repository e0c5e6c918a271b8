"""Queries that reduce the rows of one file, and the places of rows in it."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd

from bayeseval._text import counted
from bayeseval.errors import InputError
from bayeseval.readers.aggregates import is_aggregate
from bayeseval.readers.columns import EXTRA_NUMBERS
from bayeseval.readers.raw import Nested, RawTable, object_array
from bayeseval.readers.scans import Engine, Scan, literal
from bayeseval.records.cells import clean_labels, parse_numbers
from bayeseval.records.report import TableError

__all__ = [
    "BLOCK",
    "NUMBERS",
    "STATE",
    "Batch",
    "Locator",
    "TableRows",
    "aggregates_among",
    "cleaned",
    "grouping",
    "keyed_rows",
    "python_cell",
    "refuse_label",
    "refuse_number",
]

#: Units of a block, of which each group of rows has a string of bits.
BLOCK: Final = 4096
#: Keys that are numbers; the others are labels.
NUMBERS: Final = (*EXTRA_NUMBERS, "scale_min", "scale_max")
#: What tells rows with the same labels apart.
STATE: Final = ("blank", "no_unit", "missing", "empty")
# Python reads whole numbers of up to 4,300 digits; floats have 309.
_MANY_DIGITS: Final = 400


@dataclass(frozen=True)
class TableRows:
    """One file with its columns, or several files with the same ones.

    Parameters
    ----------
    file : Path
        Of several, the first.
    scan : Scan
        With the columns that the names of files and folders add.
    ours : mapping of str to str
        Our columns and the file's.
    derived : tuple of str
    part : int
        Files that are one table where they are put together are one part.
    place : str
        SQL of the place of a row's file among several.
    shared : mapping of str to str
        Columns of prompts and judges that all files have and nobody has chosen, ours and theirs:
        whether they are read is decided where the table is put together.
    """

    file: Path
    scan: Scan
    ours: Mapping[str, str]
    derived: tuple[str, ...]
    part: int = 0
    place: str = "0"
    shared: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Batch:
    """Files whose rows are reduced by one query.

    Parameters
    ----------
    rows : TableRows
    files : tuple of int
        Numbers of the files, in the order of their places.
    """

    rows: TableRows
    files: tuple[int, ...]


def grouping(
    one: TableRows, keys: Sequence[str], unit: str | None, missing: Sequence[float]
) -> str:
    """The query that reduces the rows of a batch.

    It has no sums of squares: only rows less their mean keep their digits, which a later query
    reads.
    """
    bits = (
        f", code // {BLOCK} AS block, CAST(bitstring_agg(CAST(code % {BLOCK} AS UINTEGER), 0, "
        f"{BLOCK - 1}) AS BLOB) AS bits"
        if unit in one.ours
        else ", CAST(NULL AS UINTEGER) AS block, CAST(NULL AS BLOB) AS bits"
    )
    named = ", ".join(["place", *STATE, *(f"k_{key}" for key in keys)])
    return (
        f"SELECT {named}, count(*) AS n, favg(x) AS mean, CAST(NULL AS DOUBLE) AS square, "
        "min(x) AS lowest, max(x) AS highest, "
        f"count(*) FILTER (bad) AS bad, count(*) FILTER (bad_key) AS bad_key{bits} "
        f"FROM ({keyed_rows(one, keys, unit, missing)}) GROUP BY ALL"
    )


def keyed_rows(
    one: TableRows,
    keys: Sequence[str],
    unit: str | None,
    missing: Sequence[float] = (),
    *,
    coded: bool = True,
) -> str:
    """The query of the rows of one file with their keys, score and number of the unit.

    Without `coded` it needs no dictionary of units, and rows are in the order of the file.
    """
    scan, ours = one.scan, one.ours
    columns, wrong = [f"{one.place} AS place"], ["false"]
    for key in keys:
        if key not in ours:
            kind = "DOUBLE" if key in NUMBERS else "VARCHAR"
            columns.append(f"CAST(NULL AS {kind}) AS k_{key}")
        elif key in NUMBERS:
            columns.append(f"{scan.number(ours[key])} AS k_{key}")
            wrong.append(scan.bad_number(ours[key]))
        else:
            columns.append(f"{scan.label(ours[key])} AS k_{key}")
            wrong.append(scan.bad_label(ours[key]))
    score = scan.number(ours["score"])
    marked = " OR ".join(f"{score} = {value!r}" for value in map(float, missing)) or "false"
    blank = "false"
    if "language" in ours:
        blank = " AND ".join(
            f"({scan.empty(name)})"
            for name in dict.fromkeys([ours["language"], *scan.cells])
            if name not in one.derived
        )
    has_unit = unit is not None and unit in ours
    no_unit = f"{scan.label(ours[unit])} IS NULL" if has_unit and unit else "true"
    inner = (
        f"SELECT {', '.join(columns)}, {score} AS x, ({blank}) AS blank, "
        f"({no_unit}) AS no_unit, CASE WHEN {marked} THEN {score} END AS missing, "
        f"({scan.empty(ours['score'])}) AS empty, ({scan.bad_number(ours['score'])}) AS bad, "
        f"({' OR '.join(dict.fromkeys(wrong))}) AS bad_key, "
        f"{scan.label(ours[unit]) if has_unit and unit else 'NULL'} AS raw FROM {scan.relation}"
    )
    if not (has_unit and coded):
        return inner
    return f"SELECT r.*, d.code FROM ({inner}) r LEFT JOIN dictionary d ON r.raw = d.raw"


def cleaned(text: object) -> str:
    """A text of the engine as it is read as a label; nothing for what is no text."""
    return unicodedata.normalize("NFC", text).strip() if isinstance(text, str) else ""


def aggregates_among(labels: Iterable[str | None]) -> list[str]:
    """Those labels of languages, as files have them, whose rows are left out as averages."""
    return [
        label
        for label in dict.fromkeys(labels)
        if label is not None and is_aggregate(cleaned(label))
    ]


def refuse_number(
    engine: Engine, one: TableRows, key: str, count: int, *, where: str = "true"
) -> None:
    """Refuse the first cell that is no finite number, of so many, in rows with a condition."""
    column = one.ours[key]
    condition = f"({one.scan.bad_number(column)}) AND {where}"
    found = engine.first(one.scan, condition, one.scan.cells[column])
    if found is None:
        return
    row, cell = found
    try:
        parse_numbers(
            object_array([python_cell(cell, one, column)]),
            table=_row(one, row),
            column=column,
            name=key,
        )
    except InputError as problem:
        others = f"; {counted(count, 'such cell')} in the file" if count > 1 else ""
        raise TableError(f"{problem}{others}") from problem
    raise TableError(f"{one.scan.at(row)}, column {column!r}: {key} is not a number")


def refuse_label(
    engine: Engine, one: TableRows, key: str, text: str | None = None, *, where: str = "true"
) -> None:
    """Refuse the first cell that is no label, or that is this text, in rows with a condition."""
    column = one.ours[key]
    condition = f"({one.scan.bad_label(column)}) AND {where}"
    if text is not None:
        condition = f"{one.scan.label(column)} = {literal(text)}"
    found = engine.first(one.scan, condition, one.scan.cells[column])
    if found is None:
        return
    row, cell = found
    cells = object_array([python_cell(cell, one, column)])
    try:
        clean_labels(cells, table=_row(one, row), column=column, name=key)
    except InputError as problem:
        raise TableError(str(problem)) from problem
    raise TableError(f"{one.scan.at(row)}, column {column!r}: {key} is not text")


def python_cell(cell: Any, one: TableRows, column: str) -> Any:
    """A cell as the readers in memory have it."""
    if one.scan.kinds[column] == "json" and cell is not None:
        cell = json.loads(cell, parse_int=_whole_number)
    return Nested("a nested value") if isinstance(cell, dict | list) else cell


def _whole_number(digits: str) -> int | str:
    """A whole number; text if it has more digits than Python reads."""
    return int(digits) if len(digits) < _MANY_DIGITS else digits


def _row(one: TableRows, row: int) -> RawTable:
    scan = one.scan
    return RawTable(scan.source, scan.place, np.array(scan.numbers_in_file([row])), {})


@dataclass(frozen=True, eq=False)
class Locator:
    """File and number of the first row of a group, which is looked for when it is needed."""

    engine: Engine
    files: Sequence[TableRows]
    keys: tuple[str, ...]
    unit: str | None
    missing: tuple[float, ...]
    distinct: pd.DataFrame

    def __call__(self, group: int, score: float | None = None) -> str:
        """The place; with `score`, of the first row that has it, if any has."""
        labels = self.distinct.iloc[[group]]
        for value in (score, None) if score is not None else (None,):
            for one in self.files:
                place = self._row(one, labels, value)
                if place is not None:
                    return one.scan.at(place)
        return str(self.files[0].scan.source)

    def _row(self, one: TableRows, labels: pd.DataFrame, score: float | None) -> int | None:
        alternatives = []
        for row in labels.to_dict("records"):
            if row["part"] != one.part:
                continue
            same = [f"k_{key} IS NOT DISTINCT FROM {_sql(row[f'k_{key}'])}" for key in self.keys]
            same += [f"{name} = {row[name]}" for name in ("blank", "empty", "no_unit")]
            same.append(f"missing IS NOT DISTINCT FROM {_sql(row['missing'])}")
            same += [] if score is None else [f"x = {float(score)!r}"]
            alternatives.append(f"({' AND '.join(same)})")
        if not alternatives:
            return None
        rows = keyed_rows(one, self.keys, self.unit, self.missing, coded=False)
        table = self.engine.run(
            f"SELECT n FROM (SELECT row_number() OVER () AS n, * FROM ({rows})) "
            f"WHERE {' OR '.join(alternatives)} LIMIT 1",
            source=one.scan.source,
        )
        return int(table.to_pylist()[0]["n"]) if table.num_rows else None


def _sql(value: object) -> str:
    if isinstance(value, str):
        return literal(value)
    return "NULL" if value is None or value != value else repr(value)
