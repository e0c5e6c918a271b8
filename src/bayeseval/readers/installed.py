"""Readers of other distributions, found by the entry points that they declare."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Final, TypeVar

from bayeseval._text import show
from bayeseval.errors import BayesevalError, InputError, argument
from bayeseval.readers.base import Head, Options, Reader, Reading

__all__ = ["GROUP", "installed_readers"]

#: Every entry point of this group is a :class:`bayeseval.readers.base.Reader`.
GROUP: Final = "bayeseval.readers"

_Result = TypeVar("_Result")


def installed_readers(reserved: Sequence[str]) -> tuple[Reader, ...]:
    """Readers that other installed distributions bring, by name of the entry point.

    Parameters
    ----------
    reserved : sequence of str
        Names of formats that bayeseval itself has.

    Raises
    ------
    InputError
        If one cannot be imported, is no reader, or takes the name of another format.
    """
    return _discover(tuple(reserved), tuple(sys.path))


@cache
def _discover(reserved: tuple[str, ...], path: tuple[str, ...]) -> tuple[Reader, ...]:
    """Look once for a search path: `path` is only what the answer depends on."""
    # The same distribution may be found twice, as when the path lists its folder twice.
    points = {(_distribution(p), p.name, p.value): p for p in entry_points(group=GROUP)}
    owner = dict.fromkeys(reserved, "bayeseval")
    readers = []
    for point in sorted(points.values(), key=lambda p: (p.name, _distribution(p))):
        reader = _load(point)
        if reader.name in owner:
            raise _refusal(
                point, f"has the format name {reader.name!r}, which belongs to {owner[reader.name]}"
            )
        owner[reader.name] = _distribution(point)
        readers.append(_guarded(point, reader))
    return tuple(readers)


def _load(point: EntryPoint) -> Reader:
    try:
        reader = point.load()
    except Exception as problem:
        raise _refusal(point, f"cannot be imported: {_one_line(problem)}") from problem
    if not isinstance(reader, Reader):
        raise _refusal(point, f"is {show(reader)}, not a bayeseval.readers.base.Reader")
    return reader


def _guarded(point: EntryPoint, reader: Reader) -> Reader:
    """The reader, with errors in its code reported under its distribution's name."""

    def guard(work: Callable[[], _Result], where: Path) -> _Result:
        try:
            return work()
        except BayesevalError:
            raise
        except Exception as problem:
            raise _refusal(point, f"failed on {where}: {_one_line(problem)}") from problem

    def sniff(path: Path, head: Head) -> bool:
        return guard(lambda: reader.sniff(path, head), path)

    def read(paths: Sequence[Path], options: Options) -> Reading:
        return guard(lambda: reader.read(paths, options), paths[0])

    return replace(reader, sniff=sniff, read=read)


def _refusal(point: EntryPoint, problem: str) -> InputError:
    return InputError(
        f"the reader {point.name!r} ({point.value}) of the distribution {_distribution(point)} "
        f"{problem}; upgrade or uninstall that distribution, or choose one of bayeseval's own "
        f"formats with {argument('format')}"
    )


def _distribution(point: EntryPoint) -> str:
    return "unknown" if point.dist is None else f"{point.dist.name} {point.dist.version}"


def _one_line(problem: Exception) -> str:
    return f"{type(problem).__name__}: {' '.join(str(problem).split())}"
