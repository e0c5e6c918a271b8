"""Average the scores of a table over sources of noise that a model does not separate."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from bayeseval import names
from bayeseval._text import any_of, counted
from bayeseval.errors import DesignError
from bayeseval.readers.columns import REPLICATES
from bayeseval.records.coded import combined_key
from bayeseval.records.moments import deviations
from bayeseval.records.reduced import Reduced
from bayeseval.records.table import Records

__all__ = ["average_over_others", "sources_of"]

Ints = npt.NDArray[np.int64]

# By which the rows of a table are sorted.
_ORDER: Final[tuple[names.Factor, ...]] = ("model", "language", "task")
# Standard deviations that stand for rows of replicates.
_SUMMARIES: Final = {"seed": "seed_sd", "boot": "boot_sd"}


def sources_of(records: Records) -> tuple[names.Source, ...]:
    """Sources of noise that a table has, as rows or as standard deviations."""
    columns = set(records.replicate_columns)
    columns |= {
        source for source, sd in _SUMMARIES.items() if np.isfinite(records.numbers(sd)).any()
    }
    return tuple(source for source in names.NAMED_SOURCES if source in columns)


def average_over_others(
    records: Records, sources: Sequence[names.Source] | None
) -> tuple[Records, tuple[str, ...]]:
    """Average the scores over all sources of noise but those named.

    Parameters
    ----------
    records : Records
    sources : sequence of str or None
        As in :attr:`bayeseval.spec.ModelSpec.sources`: None keeps all that the table has.

    Returns
    -------
    records : Records
        The same cells in the same order. Numbers of items are left out where scores are averaged,
        because a mean of shares is no share of the items.
    notes : tuple of str
        What was averaged.

    Raises
    ------
    DesignError
        If the table does not have a source that is named.
    """
    if sources is None:
        return records, ()
    there = sources_of(records)
    missing = [source for source in sources if source not in there]
    if missing:
        raise DesignError(
            f"{records.name}: the spec names the source {missing[0]!r}, and the table has no "
            f"replicates of it (it has: {any_of(there or ['none'], 'and')}); remove "
            f"{missing[0]} from sources, or give the table a column {missing[0]}"
        )
    others = [source for source in there if source not in sources]
    if not others:
        return records, ()
    kept = [column for column in REPLICATES if column not in others]
    keys = [*map(records.codes, _ORDER), *map(records.replicate_codes, kept)]
    _, first, group = np.unique(combined_key(keys), return_index=True, return_inverse=True)
    first, group = first.astype(np.int64), group.reshape(-1).astype(np.int64)
    averaged = replace(
        records,
        _reduced=_reduced(records, others),
        _frame=_averaged(records, others, first, group),
        _codes={factor: records.codes(factor)[first] for factor in _ORDER},
        _replicates={
            column: records.replicate_codes(column)[first]
            for column in records.replicate_columns
            if column in kept
        },
    )
    return averaged, tuple(_notes(records, others))


def _reduced(records: Records, others: Sequence[names.Source]) -> Reduced | None:
    """What is left of reduced rows where the scores are averaged over other sources."""
    reduced = records.reduced
    if reduced is None or reduced.unit in others:
        return None
    return reduced.without_seeds() if "seed" in others else reduced


def _averaged(
    records: Records, others: Sequence[names.Source], first: Ints, group: Ints
) -> pd.DataFrame:
    """One row for each group: means of scores, root mean squares of standard deviations."""
    size = np.bincount(group)
    frame = records._frame.iloc[first].reset_index(drop=True)
    start, beyond, _ = deviations(group, records.scores, len(size))
    frame["score"] = start + beyond
    for column in ("se", "seed_sd", "boot_sd"):
        if column in frame:
            values = records.numbers(column)
            given = np.isfinite(values)
            count = np.bincount(group[given], minlength=len(size))
            total = np.bincount(group[given], values[given] ** 2, len(size))
            frame[column] = np.sqrt(np.where(count > 0, total / np.maximum(count, 1), np.nan))
    for column in ("n", "k"):
        if column in frame:
            frame[column] = np.where(size > 1, np.nan, frame[column])
    if "seed" in others and "seed" in frame:
        seeds = records.replicate_codes("seed")
        pairs = np.unique(np.stack([group, seeds])[:, seeds >= 0], axis=1)
        count = np.bincount(pairs[0], minlength=len(size))
        # Bootstraps of the mean of several seeds are less noisy than those of one.
        frame["n_seeds"] = np.where(count > 0, count, records.numbers("n_seeds")[first])
    unused = {*others, *(_SUMMARIES[source] for source in others if source in _SUMMARIES)}
    unused |= {"n_boot"} if "boot" in others else set()
    return frame.drop(columns=[column for column in unused if column in frame])


def _notes(records: Records, others: Sequence[names.Source]) -> Iterator[str]:
    cell = combined_key([records.codes(factor) for factor in _ORDER])
    for source in others:
        codes = records.replicate_codes(source)
        pairs = np.unique(np.stack([cell, codes])[:, codes >= 0], axis=1)
        several = int((np.unique(pairs[0], return_counts=True)[1] > 1).sum())
        if records.reduced is not None and records.reduced.unit == source:
            several = int((records.reduced.count > 1).sum())
        done = [f"the scores of {counted(several, 'cell')} are averaged over it"] * (several > 0)
        sd = _SUMMARIES.get(source)
        if sd is not None and np.isfinite(records.numbers(sd)).any():
            done.append(f"{sd} is not used")
        unused = [c for c in ("n", "k") if several and np.isfinite(records.numbers(c)).any()]
        done += [f"{name} of averaged scores is not used" for name in unused]
        if done:
            known = source == "boot" and np.isfinite(records.numbers("se")).any()
            yield (
                f"sources leaves out {source}: {', '.join(done)}; its noise is part of the residual"
                + ", except where se is given" * bool(known)
            )
