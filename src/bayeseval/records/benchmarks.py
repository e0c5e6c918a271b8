"""The shipped benchmarks and their shapes."""

from __future__ import annotations

from dataclasses import dataclass

from bayeseval._resources import resource_names
from bayeseval._text import counted
from bayeseval.records.load import load
from bayeseval.records.registry import read_card
from bayeseval.records.remote import cached_path

__all__ = ["BenchmarkSummary", "list_benchmarks"]


@dataclass(frozen=True, slots=True)
class BenchmarkSummary:
    """One line of ``bayeseval list benchmarks``."""

    name: str
    title: str
    shape: str


def list_benchmarks() -> tuple[BenchmarkSummary, ...]:
    """The shipped benchmarks with their shapes, in alphabetical order.

    Nothing is downloaded: a remote benchmark has its shape once it is in the cache.

    Returns
    -------
    tuple of BenchmarkSummary
        With the fields ``name``, ``title`` and ``shape``.

    Examples
    --------
    >>> import bayeseval as be
    >>> "mega" in [one.name for one in be.list_benchmarks()]
    True
    """
    summaries = []
    for name, path in resource_names("benchmarks").items():
        card = read_card(path)
        if card.remote is not None and not cached_path(card.remote, card.name).is_file():
            summaries.append(BenchmarkSummary(name, card.title, "downloaded when first used"))
            continue
        records = load(path)
        levels = (counted(len(records.coords[f]), f) for f in ("model", "language", "task"))
        shape = ", ".join([counted(len(records), "record"), *levels])
        summaries.append(BenchmarkSummary(name=name, title=card.title, shape=shape))
    return tuple(summaries)
