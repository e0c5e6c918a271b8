"""The shipped benchmarks, their shapes, and what the cards of tables ask to cite."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from bayeseval._calls import explained
from bayeseval._resources import resource_names
from bayeseval._text import counted
from bayeseval.records.load import load
from bayeseval.records.registry import CARD, read_card
from bayeseval.records.remote import cached_path

__all__ = ["BenchmarkSummary", "card_citations", "list_benchmarks"]


@dataclass(frozen=True, slots=True)
class BenchmarkSummary:
    """One line of ``bayeseval list benchmarks``."""

    name: str
    title: str
    shape: str


@explained
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


def card_citations(sources: Iterable[str]) -> list[str]:
    """What the cards beside the tables ask to cite, each text once.

    Parameters
    ----------
    sources : iterable of str
        Files of a table: ``records.report.sources``. A downloaded table has the card of the
        shipped benchmark; a data frame has none.
    """
    shipped = resource_names("benchmarks")
    cards = []
    for source in sources:
        file = Path(source)
        if not file.is_file():
            continue
        own = file.parent / CARD
        downloaded = file.parent.parent.name == "benchmarks" and file.parent.name in shipped
        if own.is_file():
            cards.append(own)
        elif downloaded:
            cards.append(shipped[file.parent.name])
    texts = (read_card(card).citation.strip() for card in dict.fromkeys(cards))
    return list(dict.fromkeys(text for text in texts if text))
