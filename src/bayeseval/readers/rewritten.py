"""Text that the engine would read otherwise than Python does, rewritten row by row for it."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, Final, TextIO, TypeVar

from bayeseval.errors import InputError
from bayeseval.readers.compressed import sound_pieces
from bayeseval.readers.engine_errors import writing
from bayeseval.readers.raw import Nested
from bayeseval.readers.tabular import (
    delimited_rows,
    json_line_records,
    read_table,
    refuse_no_object,
    uneven_row,
)

__all__ = ["lines_of_objects", "lines_of_rows", "rewrite_delimited", "rewrite_json"]

_Item = TypeVar("_Item")

# Rows that are written at once.
_BATCH: Final = 50_000
# Documents of JSON up to this are read whole, as in memory; larger ones hold an object per line.
_WHOLE: Final = 1 << 24


def rewrite_delimited(
    file: Path,
    target: Path,
    *,
    separator: str,
    n_columns: int,
    report: Callable[[int], None],
) -> None:
    """Write a table with separators as Parquet, with the columns ``c0``, ``c1``, ... of texts.

    Raises
    ------
    InputError
        As reading it into memory.
    """
    import pyarrow as pa

    schema = pa.schema([(f"c{place}", pa.string()) for place in range(n_columns)])
    uneven: list[tuple[int, Sequence[str]]] = []
    n_uneven = 0

    def table(rows: Sequence[Sequence[str]]) -> Any:
        columns = zip(*rows, strict=True) if rows else [[]] * n_columns
        return pa.table([pa.array(list(cells), pa.string()) for cells in columns], schema=schema)

    with _text(file, newline="") as lines, _writer(target, schema) as writer:
        numbered = delimited_rows(lines, str(file), separator)
        next(numbered, None)
        for batch in _batches(numbered, report):
            rows = [row for _, row in batch if len(row) == n_columns]
            uneven = uneven or [one for one in batch if len(one[1]) != n_columns]
            n_uneven += len(batch) - len(rows)
            with writing(target.parent.parent):
                writer.write_table(table(rows))
    for start, row in uneven:
        raise uneven_row(str(file), start, row, n_columns, n_uneven)


def rewrite_json(file: Path, target: Path, *, n_bytes: int, report: Callable[[int], None]) -> None:
    """Write a table in JSON as one plain object per line.

    Raises
    ------
    InputError
        As reading it into memory.
    """
    folder = target.parent.parent
    with writing(folder):
        target.touch()
    for numbered in _batches(_records(file, n_bytes), report):
        lines = []
        for number, record in numbered:
            try:
                line = json.dumps(record, ensure_ascii=False, default=_nested)
                lines.append(line.encode() + b"\n")
            except UnicodeEncodeError as problem:
                raise InputError(
                    f"{file}, line {number}: a text holds half of a surrogate pair, which is no"
                    " character; correct it"
                ) from problem
        with writing(folder), target.open("ab") as out:
            out.writelines(lines)


def lines_of_rows(file: Path, separator: str, rows: Sequence[int]) -> list[int]:
    """The lines on which rows of a table with separators begin, the first below the header."""
    with _text(file, newline="") as lines:
        starts = (start for start, _ in delimited_rows(lines, str(file), separator))
        next(starts, None)
        return _of_rows(starts, rows)


def lines_of_objects(file: Path, rows: Sequence[int]) -> list[int]:
    """The lines of objects of JSON lines, between which there may be blank ones."""
    with _text(file, newline="\n") as lines:
        return _of_rows((n for n, line in enumerate(lines, start=1) if line.strip()), rows)


def _of_rows(numbers: Iterator[int], rows: Sequence[int]) -> list[int]:
    """The numbers of rows, which are ascending."""
    wanted = set(rows)
    counted = islice(enumerate(numbers, start=1), max(rows, default=0))
    found = {row: number for row, number in counted if row in wanted}
    return [found[row] for row in rows]


def _batches(items: Iterator[_Item], report: Callable[[int], None]) -> Iterator[list[_Item]]:
    """The items in batches; of several, it is reported how many are done."""
    done = 0
    while batch := list(islice(items, _BATCH)):
        yield batch
        done += len(batch)
        if len(batch) == _BATCH:
            report(done)
    if done >= _BATCH:
        # Lines that are blank, or parts of a row, are no rows.
        report(sys.maxsize)


def _records(file: Path, n_bytes: int) -> Iterator[tuple[int, dict[str, Any]]]:
    if n_bytes <= _WHOLE:
        table = read_table(file)
        columns = [list(table.columns[name][:]) for name in table.columns]
        for number, cells in zip(table.numbers, zip(*columns, strict=True), strict=True):
            yield int(number), dict(zip(table.columns, cells, strict=True))
        return
    with _text(file, newline="\n") as lines:
        for number, record in json_line_records(lines, str(file)):
            refuse_no_object(record, f"{file}, line {number}")
            yield number, record


def _nested(value: Any) -> Any:
    """What no cell may hold stays such a thing."""
    if isinstance(value, Nested):
        return {}
    raise TypeError(type(value).__name__)


class _Pieces(io.RawIOBase):
    """Pieces of bytes as a file, which is read once."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces, self._rest = pieces, b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._rest = self._rest or next(self._pieces, b"")
        n = min(len(buffer), len(self._rest))
        buffer[:n], self._rest = self._rest[:n], self._rest[n:]
        return n


@contextmanager
def _text(file: Path, *, newline: str) -> Iterator[TextIO]:
    """Lines of a text, unpacked, as the readers in memory see them."""
    raw = io.BufferedReader(_Pieces(sound_pieces(file)), 1 << 20)
    with io.TextIOWrapper(raw, encoding="utf-8-sig", newline=newline) as lines:
        try:
            yield lines
        except UnicodeDecodeError as problem:
            raise InputError(
                f"{file}: not UTF-8 text: byte 0x{problem.object[problem.start]:02x}; save the"
                " file as UTF-8"
            ) from problem


@contextmanager
def _writer(target: Path, schema: Any) -> Iterator[Any]:
    import pyarrow.parquet as pq

    folder = target.parent.parent
    with writing(folder):
        writer = pq.ParquetWriter(target, schema)
    try:
        yield writer
    finally:
        with writing(folder):
            writer.close()
