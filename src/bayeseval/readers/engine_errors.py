"""Errors of DuckDB as one line, which says whether the file or the machine is at fault."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from bayeseval._text import plain
from bayeseval.errors import InputError, argument
from bayeseval.readers.tabular import CUT_SHORT

__all__ = ["explained", "is_of_file", "waited", "writing"]


# Seconds between two looks whether an engine has answered.
_INTERVAL: Final = 0.2
# What systems and the engine say of a disk that is full or that nobody may write to.
_DISK: Final = re.compile(
    r"No space left|not enough (?:disk )?space|Disk quota|Read-only file system|file too large"
    r"|temp_directory|offload data block|Permission denied|Input/output error",
    re.IGNORECASE,
)
_FULL: Final = re.compile(r"space|quota|too large|temp_directory|offload", re.IGNORECASE)
_WRITING: Final = re.compile(r"\b(?:writ|creat|offload|sync|truncat|max_temp_directory_size)", re.I)


@contextmanager
def explained(source: str, memory: int, folder: Path) -> Iterator[None]:
    """Errors of the engine as one line.

    Parameters
    ----------
    source : str
        What is read; starts the message unless the disk is at fault.
    memory : int
        Bytes that the user allows.
    folder : Path
        Where the engine writes.

    Raises
    ------
    InputError
        If a file is damaged, the memory does not suffice, or the disk is full.
    """
    import duckdb

    try:
        yield
    except duckdb.Error as problem:
        text = str(problem)
        if _DISK.search(text) and (_WRITING.search(text) or str(folder) in text):
            raise _unwritable(folder, _first_line(text)) from problem
        if isinstance(problem, duckdb.OutOfMemoryException):
            raise InputError(
                f"{source}: the rows cannot be reduced within {argument('memory')} "
                f"{_size(memory)}; allow more"
            ) from problem
        raise InputError(f"{source}: {_reason(problem)}") from problem


def waited(future: Future[Any], waiting: Callable[[], None] | None = None) -> Any:
    """What another thread returns or raises; Ctrl-C is heard in this one meanwhile.

    Parameters
    ----------
    future : Future
    waiting : callable, optional
        Called again and again.
    """
    while True:
        try:
            return future.result(_INTERVAL)
        except TimeoutError:
            if future.done():
                # The engine's own.
                raise
            if waiting is not None:
                waiting()


def is_of_file(problem: InputError) -> bool:
    """Whether the engine could not make sense of what a file holds."""
    import duckdb

    cause = problem.__cause__
    return isinstance(cause, duckdb.InvalidInputException | duckdb.ConversionException)


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Errors of the system as one line that names the cache rather than what is read.

    Raises
    ------
    InputError
    """
    try:
        yield
    except OSError as problem:
        raise _unwritable(folder, problem.strerror or str(problem)) from problem


def _unwritable(folder: Path, reason: str) -> InputError:
    room = "make room on this disk, or " if _FULL.search(reason) else ""
    return InputError(
        f"{folder}: cannot be written: {plain(reason)[:200]}; {room}name another folder with "
        "BAYESEVAL_CACHE"
    )


def _first_line(text: str) -> str:
    line = next((one.strip() for one in text.splitlines() if one.strip()), text)
    return re.sub(r"^[A-Z][\w ]* Error: ", "", line).partition(". ")[0].rstrip(".")


def _reason(problem: Exception) -> str:
    """The first sentence of what the engine says, without the names of its own files."""
    lines = [line.strip() for line in str(problem).splitlines() if line.strip()]
    text = lines[0] if lines else type(problem).__name__
    text = re.sub(r"^[A-Z][\w ]* Error: ", "", text)
    line = re.search(r"CSV Error on Line: (\d+)", str(problem))
    if line is not None:
        causes = ("Expected", "Value", "Error", "Maximum")
        cause = next((one for one in lines if one.startswith(causes)), "")
        text = f"line {line[1]} is not valid CSV" + (f" ({cause})" if cause else "")
    if "magic bytes" in text:
        return f"damaged Parquet file: {CUT_SHORT}"
    text = plain(re.sub(r"""['"]?/\S*/table-\d+\S*""", "the file", text))[:300]
    return f"cannot be read: {text}"


def _size(memory: int) -> str:
    return f"{memory / 1e9:.3g}GB"
