"""Tables with more rows than fit into memory: reduced to cells by DuckDB, within a bound."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from bayeseval._text import show, two_sizes
from bayeseval._typing import Progress
from bayeseval.errors import InputError, argument, wording
from bayeseval.readers.base import MAX_BYTES
from bayeseval.readers.compressed import suffix_of
from bayeseval.readers.scans import DATABASE_SUFFIXES, SCANNED_SUFFIXES, open_engine
from bayeseval.records.partials import Partials
from bayeseval.records.remote import cache_folder
from bayeseval.records.row_groups import RowGroups, group_rows, read_columns
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
    settings: TableMapping,
    memory: int,
    progress: Progress | None,
) -> Iterator[tuple[RowGroups, list[str]]]:
    """The groups of rows of some files, as long as the engine is open; and notes.

    Parameters
    ----------
    files : sequence of Path
    folder : Path or None
        Where they lie; None for a file.
    settings : TableMapping
    memory : int
        Bytes.
    progress : callable, optional

    Raises
    ------
    InputError
        If a path is not UTF-8, or a file cannot be read.
    """
    partials = Partials.open(cache_folder())
    for path in (*files, partials.folder):
        _refuse_undecodable(path)
    with open_engine(list(files), memory=memory, folder=partials.folder) as engine:
        rows, notes = read_columns(
            engine, files, folder=folder, columns=settings.columns, constants=settings.constants
        )
        groups = group_rows(engine, rows, partials, missing=settings.missing, progress=progress)
        if groups.unit is not None:
            notes = [*notes, groups.summary]
        yield groups, notes


def _refuse_undecodable(path: Path) -> None:
    try:
        str(path.resolve()).encode()
    except UnicodeEncodeError as problem:
        raise InputError(
            f"{path}: DuckDB, which reduces rows while they are read, opens no file whose path is "
            "not UTF-8; rename it"
        ) from problem
