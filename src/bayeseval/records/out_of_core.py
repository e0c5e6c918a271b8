"""Tables with more rows than fit into memory: reduced to cells by DuckDB, within a bound."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from bayeseval._text import Note, show, two_sizes
from bayeseval._typing import Progress
from bayeseval.errors import InputError, argument, wording
from bayeseval.readers.base import MAX_BYTES, unpacked
from bayeseval.readers.compressed import suffix_of
from bayeseval.readers.detect import notes_on_empty
from bayeseval.readers.scans import DATABASE_SUFFIXES, SCANNED_SUFFIXES, Engine, open_engine
from bayeseval.readers.tabular import EmptyTableError, read_table
from bayeseval.records.partials import Partials
from bayeseval.records.remote import cache_folder
from bayeseval.records.report import LoadReport, TableError
from bayeseval.records.row_groups import group_rows, read_columns
from bayeseval.records.row_tables import RowGroups
from bayeseval.records.settings import TableMapping

__all__ = [
    "LEAST_MEMORY",
    "USUAL_MEMORY",
    "Memory",
    "as_memory",
    "is_database",
    "reduced_rows",
    "refuse_large",
]

#: Bytes, or a text such as ``2GB``.
Memory = int | str

#: The library itself takes most of this.
LEAST_MEMORY: Final = 500_000_000
#: For databases, where the user says nothing.
USUAL_MEMORY: Final = 2_000_000_000
_UNITS: Final = {
    "": 1,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
    "tb": 10**12,
    "kib": 2**10,
    "mib": 2**20,
    "gib": 2**30,
    "tib": 2**40,
}
# An exabyte, which no machine has.
_MOST_MEMORY: Final = 1e18
# Larger files are not empty.
_SMALL: Final = 1 << 16
_PARQUET: Final = (".parquet", ".pq")
_SIZE: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([a-z]*)")


def as_memory(memory: Memory) -> int:
    """Bytes of a size such as ``2GB``.

    Parameters
    ----------
    memory : int or str

    Raises
    ------
    InputError
        If it is no size, or less than the library takes.

    Examples
    --------
    >>> as_memory("2GB"), as_memory("1.5 GiB")
    (2000000000, 1610612736)
    """
    if isinstance(memory, int) and not isinstance(memory, bool):
        size = memory
    else:
        match = _SIZE.fullmatch(str(memory).strip().casefold())
        found = 0.0 if match is None else float(match[1]) * _UNITS.get(match[2], 0.0)
        if not 0.0 < found < _MOST_MEMORY:
            raise InputError(
                f"{argument('memory')} takes a size such as 2GB or 800MB, got {show(memory)}"
            )
        size = int(found)
    if size < LEAST_MEMORY:
        raise InputError(
            f"{argument('memory')} must be at least {LEAST_MEMORY // 10**6}MB, got {memory}"
        )
    return size


def is_database(path: Path) -> bool:
    """Whether a path names a DuckDB file."""
    return path.is_file() and suffix_of(path) in DATABASE_SUFFIXES


def refuse_large(files: Sequence[Path]) -> None:
    """Refuse files that are too large to be read into memory, and say how they can be reduced.

    Raises
    ------
    InputError
    """
    way = wording("memory='2GB'", "--memory 2GB")
    for one in files:
        size = one.stat().st_size
        if size > MAX_BYTES and suffix_of(one) in SCANNED_SUFFIXES:
            has, most = two_sizes(size, MAX_BYTES)
            raise InputError(
                f"{one}: the file has {has}, and at most {most} are read into memory;"
                f" {way} reduces the rows while they are read"
            )


@contextmanager
def reduced_rows(
    files: Sequence[Path],
    *,
    folder: Path | None,
    others: int,
    settings: TableMapping,
    memory: int,
    progress: Progress | None,
) -> Iterator[tuple[RowGroups, list[Note], list[Note]]]:
    """The groups of rows of some files, as long as the engine is open; and notes.

    Parameters
    ----------
    files : sequence of Path
    folder : Path or None
        Where they lie; None for a file, and for the files of a card.
    others : int
        Files of the folder that are no tables.
    settings : TableMapping
    memory : int
        Bytes.
    progress : callable, optional

    Yields
    ------
    groups : RowGroups
    warnings : list of Note
        What is left out.
    notes : list of Note
        What was read, and how.

    Raises
    ------
    InputError
        If a path is not UTF-8, or a file cannot be read.
    """
    partials = Partials.open(cache_folder())
    for path in (*files, partials.folder):
        _refuse_undecodable(path)
    kept, warnings = _without_empty(files, folder=folder, others=others)
    with open_engine(kept, memory=memory, folder=partials.folder, progress=progress) as engine:
        try:
            rows, notes = read_columns(
                engine,
                kept,
                folder=folder,
                columns=settings.columns,
                constants=settings.constants,
                named_files=folder is not None,
            )
            groups = group_rows(engine, rows, partials, missing=settings.missing, progress=progress)
        except TableError as problem:
            raise TableError(str(problem), _what_was_read(engine, warnings)) from problem
        if groups.unit is not None:
            notes = [*notes, groups.summary]
        yield groups, warnings, [*notes]


def _what_was_read(engine: Engine, notes: Sequence[Note]) -> LoadReport:
    """The report of files whose cells are refused."""
    counts = (
        engine.run(f"SELECT count(*) AS n FROM {scan.relation}", source=scan.source)
        for scan in engine.scans
    )
    n_rows = sum(count["n"][0].as_py() for count in counts)
    sources = tuple(scan.source for scan in engine.scans)
    return LoadReport(sources, n_rows, n_rows, (), (), (), tuple(notes))


def _without_empty(
    files: Sequence[Path], *, folder: Path | None, others: int
) -> tuple[list[Path], list[Note]]:
    """The files that have rows; empty ones are left out of a folder, as in memory."""
    empty: dict[Path, InputError] = {}
    for file in files:
        if not _may_be_empty(file):
            continue
        try:
            read_table(file)
        except EmptyTableError as problem:
            if folder is None or len(files) == 1:
                raise
            empty[file] = problem
        except InputError:
            # It is refused where its columns are read.
            continue
    warnings = notes_on_empty(empty, folder=folder, n_files=len(files), others=others)
    return [file for file in files if file not in empty], warnings


def _may_be_empty(file: Path) -> bool:
    """Whether a file is so small, or begins so, that it may have no rows."""
    suffix = suffix_of(file)
    if suffix not in SCANNED_SUFFIXES or suffix in DATABASE_SUFFIXES:
        return False
    try:
        if suffix in _PARQUET:
            return _has_no_rows(file)
        # Two lines are a header and a row; a header in quotes may take more.
        data = unpacked(file, limit=_SMALL)
    except InputError:
        return False
    if data is None:
        return False
    lines = [line for line in data.splitlines() if line.strip()]
    return len(lines) < 2 or (lines[0].count(b'"') % 2 == 1) or lines[0].strip() == b"["


def _has_no_rows(file: Path) -> bool:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return bool(pq.read_metadata(file).num_rows == 0) if file.stat().st_size else True
    except (pa.ArrowException, OSError, ValueError):
        return False


def _refuse_undecodable(path: Path) -> None:
    try:
        str(path.resolve()).encode()
    except UnicodeEncodeError as problem:
        raise InputError(
            f"{path}: DuckDB, which reduces rows while they are read, opens no file whose path is "
            "not UTF-8; rename it"
        ) from problem
