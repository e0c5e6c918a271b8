"""CSV, TSV, JSON, JSONL and Parquet, recognised by their content.

Nothing is converted here: a CSV cell stays the text it is, so that the language
codes ``no``, ``nan`` (Min Nan Chinese) and ``na`` (Nauru) reach the records whole.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Final

import numpy as np

from bayeseval._text import counted, grouped, plain, show
from bayeseval.errors import InputError, wording
from bayeseval.readers.archives import is_workbook
from bayeseval.readers.base import decode, file_bytes, json_fault, json_problem
from bayeseval.readers.compressed import suffix_of
from bayeseval.readers.raw import Nested, RawTable, make_table
from bayeseval.readers.typed import typed_cells

__all__ = [
    "CUT_SHORT",
    "EXPECTED",
    "MAX_COLUMNS",
    "TABULAR_SUFFIXES",
    "EmptyTableError",
    "delimited_rows",
    "delimiter_of",
    "header_of",
    "holds_json",
    "json_line_records",
    "parquet_problem",
    "python_cells",
    "read_table",
    "refuse_no_object",
    "uneven_row",
]

#: As many as a spreadsheet can have.
MAX_COLUMNS: Final = 16_384
TABULAR_SUFFIXES: Final = (".csv", ".tsv", ".json", ".jsonl", ".ndjson", ".parquet", ".pq")

_JSON_SUFFIXES = (".json", ".jsonl", ".ndjson")
_ARCHIVES = {".xlsx": "an Excel workbook", ".eval": "a log of Inspect"}
_PARQUET_SUFFIXES = (".parquet", ".pq")
_DELIMITERS = ("\t", ",", ";", "|")
#: The formats of tables, in messages.
EXPECTED: Final = "expected CSV, TSV, JSON, JSONL or Parquet"
#: What is wrong with a Parquet file without its last bytes.
CUT_SHORT: Final = "its end is missing; check that the copy is complete"
# Cells of a small file, and how many times as many as are filled a table may have.
_FEW_CELLS: Final = 1_000_000
_MAX_SPARSE: Final = 50
# A score is at least a bit, so that a Parquet file of more rows repeats the same ones.
_FEW_ROWS: Final = 1_000_000
_ROWS_PER_BYTE: Final = 8
# Lines of a header whose cells are wrapped.
_LONGEST_HEADER: Final = 100
# Characters from which reading with pyarrow is worth its checks.
_LARGE: Final = 1_000_000


class EmptyTableError(InputError):
    """A file has no scores; nothing in it is damaged."""


def read_table(path: Path) -> RawTable:
    """Read one tabular file.

    Parameters
    ----------
    path : Path
        A CSV, TSV (or other text with tabs, semicolons or bars), JSON (a list of
        records), JSONL or Parquet file. Text must be UTF-8, with or without a byte
        order mark. It may be packed with gzip or zstandard.

    Returns
    -------
    RawTable
        Untouched cells and the place of each row.

    Raises
    ------
    EmptyTableError
        If the file is empty, or has a header only.
    InputError
        If the file cannot be read or is not a table; the message is one line.
    """
    data = file_bytes(path)
    source = str(path)
    if not data:
        raise EmptyTableError(f"{source}: the file is empty (0 bytes); {EXPECTED}")
    suffix = suffix_of(path)
    if data.startswith(b"PAR1"):
        return _read_parquet(data, source)
    if suffix in _PARQUET_SUFFIXES:
        raise InputError(f"{source}: not a Parquet file (it does not start with PAR1)")
    if data.startswith(b"PK\x03\x04") and suffix in _ARCHIVES:
        if suffix == ".xlsx" and is_workbook(path):
            way = wording("format='wide'", "--format wide")
            raise InputError(
                f"{source}: an Excel workbook, which {way} reads, be its sheets wide or with one"
                " row per score"
            )
        # What is whole has been recognised before.
        raise InputError(
            f"{source}: not {_ARCHIVES[suffix]}, or a damaged one; check that the copy is complete"
        )
    text = decode(data, source, expected=EXPECTED)
    stripped = text.lstrip()
    if suffix == ".xlsx" and stripped[:1] == "<":
        raise InputError(
            f"{source}: a web page, not an Excel workbook; open it in a spreadsheet and save it as"
            " a workbook or CSV"
        )
    if suffix == ".xlsx":
        raise InputError(f"{source}: a text file, not an Excel workbook; rename it to .csv or .tsv")
    if holds_json(text, source, suffix):
        return _read_json(text, source)
    return _read_delimited(text, source, suffix)


def holds_json(text: str, source: str, suffix: str) -> bool:
    """Whether a text that begins so holds JSON; else it has separators.

    Raises
    ------
    EmptyTableError
        If it holds blanks only.
    InputError
        If it is neither.
    """
    stripped = text.lstrip()
    if not stripped:
        raise EmptyTableError(f"{source}: the file holds nothing but blanks; {EXPECTED}")
    if stripped[0] in "[{":
        return True
    if suffix in _JSON_SUFFIXES:
        raise InputError(
            f"{source}: not JSON: expected '[' or '{{' at the start, got {show(stripped[:20])}"
        )
    if stripped[0] == "<":
        raise InputError(f"{source}: looks like HTML or XML, not a table; {EXPECTED}")
    return False


def header_of(text: str) -> str:
    """The first record that is not blank, without what stands in quotes: that may hold line feeds.

    Only separators are left of it that separate cells.
    """
    lines = (line for line in io.StringIO(text, newline="") if line.strip())
    first = record = next(lines, "")
    for line in islice(lines, _LONGEST_HEADER):
        if record.count('"') % 2 == 0:
            break
        record += line
    # A quote that is never closed is refused where the file is read.
    record = first if record.count('"') % 2 else record
    return re.sub('"[^"]*"', '""', record)


def _read_delimited(text: str, source: str, suffix: str) -> RawTable:
    lines = io.StringIO(text, newline="")
    first = next(line for line in lines if line.strip())
    first_record = header_of(text)
    delimiter = delimiter_of(first_record, suffix)
    _refuse_wide(first_record.count(delimiter) + 1, source)
    if len(text) > _LARGE:
        unquoted = _read_unquoted(text, first, source, delimiter)
        if unquoted is not None:
            return unquoted
    lines.seek(0)
    rows: list[list[str]] = []
    starts: list[int] = []
    for start, row in delimited_rows(lines, source, delimiter):
        rows.append(row)
        starts.append(start)
    if not rows:
        raise EmptyTableError(f"{source}: the file holds nothing but empty cells; {EXPECTED}")
    header, *body = rows
    if not body:
        raise EmptyTableError(f"{source}: the file has a header line and no data")
    lengths = np.fromiter(map(len, body), dtype=np.int64, count=len(body))
    uneven = np.flatnonzero(lengths != len(header))
    if uneven.size:
        position = int(uneven[0])
        raise uneven_row(
            source, starts[position + 1], body[position], len(header), int(uneven.size)
        )
    columns = zip(*body, strict=True)
    return make_table(source, "line", starts[1:], zip(header, columns, strict=True))


def delimited_rows(
    lines: Iterable[str], source: str, delimiter: str
) -> Iterator[tuple[int, list[str]]]:
    """Rows that hold anything, the header among them, with the lines on which they begin.

    Raises
    ------
    InputError
        If they are not valid CSV.
    """
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    start = 1
    try:
        for row in reader:
            if row and (len(row) > 1 or row[0].strip()):
                yield start, row
            start = reader.line_num + 1
    except csv.Error as problem:
        reason = str(problem)
        if reason == "unexpected end of data":
            reason = "a quote opened here is never closed"
        raise InputError(f"{source}, line {start}: not valid CSV: {plain(reason)}") from problem


def uneven_row(source: str, line: int, row: Sequence[str], n_columns: int, n: int) -> InputError:
    """A row that has not as many fields as the header, the first of so many."""
    return InputError(
        f"{source}, line {line}: {counted(len(row), 'field')} where the header has {n_columns};"
        f" {counted(n, 'such line')} (a value that holds the separator must be quoted)"
    )


def _refuse_wide(n_columns: int, source: str, what: str = "columns") -> None:
    """Bound the time that small files take: most of a column's is not that of its cells."""
    if n_columns > MAX_COLUMNS:
        raise InputError(f"{source}: more than {grouped(MAX_COLUMNS)} {what}, and no more are read")


def _read_unquoted(text: str, first: str, source: str, delimiter: str) -> RawTable | None:
    """A large table without quotes or blank lines; None for any other, to be explained."""
    import pyarrow as pa
    import pyarrow.csv as pc

    blank = "\n\n" in text or "\n\r\n" in text
    if blank or '"' in text or not text.startswith(first) or text.count("\r") != text.count("\r\n"):
        return None
    header = first.rstrip("\r\n").split(delimiter)
    names = [f"f{i}" for i in range(len(header))]
    try:
        table = pc.read_csv(
            pa.BufferReader(text.encode("utf-8")),
            read_options=pc.ReadOptions(column_names=names, skip_rows=1),
            parse_options=pc.ParseOptions(
                delimiter=delimiter, quote_char=False, ignore_empty_lines=False
            ),
            convert_options=pc.ConvertOptions(
                check_utf8=False,
                column_types=dict.fromkeys(names, pa.string()),
                strings_can_be_null=False,
            ),
        )
    except pa.ArrowInvalid:
        return None
    if not table.num_rows or len(header) < 2:
        return None
    cells = [typed_cells(column) for column in table.columns]
    if any(column is None for column in cells):
        return None
    return make_table(source, "line", range(2, table.num_rows + 2), zip(header, cells, strict=True))


def delimiter_of(header: str, suffix: str) -> str:
    """The separator that the file's name promises if the header has it, else the commonest."""
    expected = {".tsv": "\t", ".csv": ","}.get(suffix)
    if expected is not None and expected in header:
        return expected
    # max() keeps the first of equals, so the order of _DELIMITERS settles a tie.
    return max(_DELIMITERS, key=header.count)


def _unique_keys(pairs: list[tuple[str, Any]]) -> Any:
    """Object hook: json.loads alone would silently keep the last of equal keys."""
    record = dict(pairs)
    if len(record) == len(pairs):
        return record
    duplicate = next(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
    return Nested(f"key {duplicate!r} is given twice")


def _parse_json(text: str) -> Any:
    return json.loads(text, object_pairs_hook=_unique_keys)


def _read_json(text: str, source: str) -> RawTable:
    try:
        document = _parse_json(text)
    except (ValueError, RecursionError) as problem:
        if text.lstrip().startswith("{") and _is_json_lines(text, problem):
            return _read_json_lines(text, source)
        raise json_fault(text, problem, source) from problem
    if isinstance(document, list):
        return _from_records(document, range(1, len(document) + 1), source, "record")
    if isinstance(document, dict) and any(isinstance(v, list | dict) for v in document.values()):
        keys = ", ".join(show(key) for key in list(document)[:5])
        raise InputError(
            f"{source}: expected a list of records [{{...}}, ...], got one object with the keys"
            f" {keys}; write one record per score, with the keys model, language, task and score"
        )
    return _from_records([document], [1], source, "line")


def _is_json_lines(text: str, problem: Exception) -> bool:
    """One object per line, rather than one broken object over several lines."""
    if not isinstance(problem, json.JSONDecodeError):
        return False
    if problem.msg.startswith("Extra data"):
        return True
    first = next(line for line in text.split("\n") if line.strip())
    try:
        json.loads(first)
    except (ValueError, RecursionError):
        return False
    return True


def _read_json_lines(text: str, source: str) -> RawTable:
    found = list(json_line_records(io.StringIO(text), source))
    numbers = [number for number, _ in found]
    return _from_records([record for _, record in found], numbers, source, "line")


def json_line_records(lines: Iterable[str], source: str) -> Iterator[tuple[int, Any]]:
    """What each line holds that is not blank, with its number.

    Raises
    ------
    InputError
        If a line is no JSON.
    """
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            yield number, _parse_json(line)
        except (ValueError, RecursionError) as problem:
            raise InputError(
                f"{source}, line {number}: not valid JSON: {json_problem(problem)}"
                " (one whole object per line)"
            ) from problem


def _from_records(records: list[Any], numbers: Iterable[int], source: str, place: str) -> RawTable:
    if not records:
        raise EmptyTableError(f"{source}: the list of records is empty")
    places = list(numbers)
    for record, number in zip(records, places, strict=True):
        refuse_no_object(record, f"{source}, {place} {number}")
    keys = dict.fromkeys(key for record in records for key in record)
    _refuse_wide(len(keys), source, "different keys")
    filled = sum(map(len, records))
    if len(keys) * len(records) > max(_FEW_CELLS, _MAX_SPARSE * filled):
        raise InputError(
            f"{source}: {counted(len(records), 'record')} with {grouped(len(keys))} different keys;"
            " the records of a table have the same keys"
        )
    columns = ((key, (_flat(record.get(key)) for record in records)) for key in keys)
    return make_table(source, place, places, columns)


def refuse_no_object(record: Any, where: str) -> None:
    """Refuse what is no object, or has a key twice.

    Raises
    ------
    InputError
    """
    if isinstance(record, Nested):
        raise InputError(f"{where}: {record.problem}")
    if not isinstance(record, dict):
        raise InputError(f"{where}: expected an object with keys and values, got {show(record)}")


def _flat(value: Any) -> Any:
    return Nested("a nested value") if isinstance(value, dict | list) else value


def _read_parquet(data: bytes, source: str) -> RawTable:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        metadata = pq.read_metadata(pa.BufferReader(data))
        rows = metadata.num_rows
        _refuse_wide(metadata.num_columns, source)
        if rows > max(_FEW_ROWS, _ROWS_PER_BYTE * len(data)):
            raise InputError(
                f"{source}: {grouped(rows)} rows in {grouped(len(data))} bytes, which can only be"
                " the same few rows again and again; write each score once"
            )
        # Texts as codes and levels: one long text in all rows is held once.
        texts = [
            metadata.schema.column(place).path
            for place in range(metadata.num_columns)
            if metadata.schema.column(place).physical_type == "BYTE_ARRAY"
        ]
        table = pq.read_table(pa.BufferReader(data), read_dictionary=texts)
        # A column at a time: a damaged page only shows when it is decoded.
        columns = [
            (name, typed_cells(column) or python_cells(column))
            for name, column in zip(table.column_names, table.columns, strict=True)
        ]
    except InputError:
        raise
    except (pa.ArrowException, OSError, ValueError, KeyError, OverflowError) as problem:
        raise InputError(f"{source}: damaged Parquet file: {parquet_problem(problem)}") from problem
    if not table.num_rows:
        raise EmptyTableError(f"{source}: the Parquet file has no rows")
    return make_table(source, "row", range(1, table.num_rows + 1), columns)


def python_cells(column: Any) -> list[Any]:
    """A column that is neither text nor number as Python values."""
    import pyarrow as pa

    if pa.types.is_nested(column.type):
        # Never unpacked, because no cell may hold them.
        nested = Nested("a nested value")
        return [nested if valid else None for valid in column.is_valid().to_pylist()]
    if pa.types.is_dictionary(column.type):
        cells: list[Any] = []
        for chunk in column.chunks:
            levels = [*map(_flat, chunk.dictionary.to_pylist()), None]
            codes = chunk.indices.fill_null(len(levels) - 1).to_pylist()
            cells += [levels[code] for code in codes]
        return cells
    return [_flat(value) for value in column.to_pylist()]


def parquet_problem(problem: Exception) -> str:
    """What is wrong with a Parquet file, in words."""
    reason = " ".join(str(problem).split()).partition(". ")[0]
    reason = re.sub(r"^Could not open Parquet input source '[^']*': ", "", reason)
    if "magic bytes not found in footer" in reason:
        return CUT_SHORT
    return plain(reason)[:200]
