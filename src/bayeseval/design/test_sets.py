"""Test sets that cells share: effects of test sets with known standard deviations.

Scores of two models on the same test set have correlated errors, so their difference is more
precise than the scores, and what the test set does to both moves the language or task. The
linear predictor has an effect of the test set that cells have in common: for all cells of a
task, for those of one language and for those of one model. Their sds are known from the items
(a generalisability study, see :func:`bayeseval.records.item_variance`), or from bootstraps
with equal labels (:func:`bayeseval.records.boot_variance`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from bayeseval import names
from bayeseval._typing import Bools, Floats, Index
from bayeseval.design.container import Term
from bayeseval.design.noise import Noise
from bayeseval.records import BootVariance, CellTable, ItemVariance

__all__ = ["add_test_sets"]


# Part of the decomposition of variance, and the factors whose cells share it.
_SHARED: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("task", ("task",)),
    ("language_task", ("language", "task")),
    ("model_task", ("model", "task")),
)
# From the part that fewest cells share to the one that most share.
_PARTS = ("model_task", "language_task", "task")


def add_test_sets(
    noise: Noise,
    cells: CellTable,
    coords: Mapping[str, tuple[str, ...]],
    *,
    items: ItemVariance | None = None,
    boots: BootVariance | None = None,
    pool: bool,
) -> tuple[Noise, list[Term]]:
    """Add the noise of test items, and divide that of test sets into shared and own parts.

    Parameters
    ----------
    noise : Noise
        Noise known from replicates and standard errors.
    cells : CellTable
        Cells of the same records.
    coords : dict of str to tuple of str
        Labels of the three factors.
    items : ItemVariance, optional
        From :func:`bayeseval.records.item_variance`.
    boots : BootVariance, optional
        From :func:`bayeseval.records.boot_variance`.
    pool : bool
        False: use the standard error of each cell, without shared effects.

    Returns
    -------
    noise : Noise
        With the part that no other cell shares; ``boot`` among the known sds is the noise
        of the items that all runs of a cell have in common.
    terms : list of Term
        Effects of shared test sets, ``known_sd`` by level.

    Notes
    -----
    A standard error from the averages of S seeds includes omega^2 / S of the seed x test-set
    interaction, which the mean squares of seeds and items estimate separately. It is
    subtracted here, from the part that no other cell shares and, where that is smaller, from
    the parts that the cells of a model, of a language and of the task share.

    Bootstraps give each cell an sd tau of its own. Cells of a task share the same proportion of
    tau^2, and the rest remains noise of the cell; the sds of the shared effects are those of a
    typical cell. A mean of bootstraps has both times 1 + 1/B.
    """
    by_record = {part: np.zeros(len(cells)) for part in _PARTS}
    if items is not None:
        noise, by_record = _add_items(noise, items, cells, pool=pool)
    if boots is not None and pool:
        noise, of_boots = _divide_boots(noise, boots, cells)
        by_record = {part: by_record[part] + of_boots[part] for part in _PARTS}
    return noise, [
        _term(factors, cells.codes, coords, by_record[part])
        for part, factors in _SHARED
        if by_record[part].max() > 0.0
    ]


def _add_items(
    noise: Noise, items: ItemVariance, cells: CellTable, *, pool: bool
) -> tuple[Noise, dict[str, Floats]]:
    """Noise of items in cells whose test sets were not bootstrapped; shared parts by record."""
    nothing = {part: np.zeros(len(cells)) for part in _PARTS}
    has_error = np.isfinite(cells.se) | (cells.boot.df > 0)
    if cells.unbalanced is not None:
        has_error[cells.unbalanced.cell] = True
    use = np.isfinite(items.se) & ~has_error
    if not use.any():
        return noise, nothing
    task = cells.codes[names.TASK]
    crossed = use & (cells.cross.df > 0)
    interaction = np.where(crossed, cells.cross.mean_square / np.maximum(cells.n_seeds, 1.0), 0.0)
    own = np.maximum(items.se**2 - interaction, 0.0)
    shared = {part: np.nan_to_num(getattr(items, part)) for part in ("record", *_PARTS)}
    unshared = own
    if pool:
        record = shared["record"]
        shared = _subtract(shared, _mean_by_task(interaction, task, use, len(record)))
        unshared = np.where(crossed, shared["record"][task], record[task])
    variance = np.zeros(len(cells)) if noise.known_variance is None else noise.known_variance
    boot = noise.known_sds.get("boot", np.full(len(cells), np.nan))
    noise = replace(
        noise,
        known_variance=variance + np.where(use, unshared, 0.0),
        known_sds={**noise.known_sds, "boot": np.where(use, np.sqrt(own), boot)},
    )
    if not pool:
        return noise, nothing
    # All cells of a task with items, whether or not their own error comes from them.
    has_items = np.isin(task, task[use])
    return noise, {part: np.where(has_items, shared[part][task], 0.0) for part in _PARTS}


def _divide_boots(
    noise: Noise, boots: BootVariance, cells: CellTable
) -> tuple[Noise, dict[str, Floats]]:
    """What is left of tau^2 to each cell, and the shared parts of the means by record."""
    task, n_tasks = cells.codes[names.TASK], len(boots.task)
    shared = {part: np.nan_to_num(getattr(boots, part)) for part in _PARTS}
    common = np.sum([shared[part] for part in _PARTS], axis=0)
    if noise.replicates is None or not common.any():
        return noise, {part: np.zeros(len(cells)) for part in _PARTS}
    crossed = cells.cross.df > 0
    interaction = np.where(crossed, cells.boot.interaction * cells.cross.mean_square, 0.0)
    own = _mean_by_task(interaction, task, cells.boot.df > 0, n_tasks)
    total = np.maximum(common + np.nan_to_num(boots.record) - own, common)
    left = 1.0 - np.divide(common, total, out=np.zeros(n_tasks), where=total > 0.0)[task]
    sources = tuple(
        replace(source, share=left * source.share) if source.name == "boot" else source
        for source in noise.replicates.sources
    )
    of_mean = 1.0 + cells.boot_square
    return (
        replace(noise, replicates=replace(noise.replicates, sources=sources)),
        {part: of_mean * shared[part][task] for part in _PARTS},
    )


def _mean_by_task(values: Floats, task: Index, use: Bools, n_tasks: int) -> Floats:
    """Mean over the cells in use of each task; 0 without any."""
    count = np.bincount(task[use], minlength=n_tasks)
    return np.asarray(np.bincount(task[use], values[use], n_tasks) / np.maximum(count, 1))


def _subtract(parts: Mapping[str, Floats], total: Floats) -> dict[str, Floats]:
    """Subtract `total` from the variances by task, part after part, none below zero."""
    rest = {}
    for name in ("record", *_PARTS):
        amount = np.minimum(parts[name], total)
        rest[name], total = parts[name] - amount, total - amount
    return rest


def _term(
    factors: tuple[str, ...],
    codes: Mapping[names.Factor, Index],
    coords: Mapping[str, tuple[str, ...]],
    variance: Floats,
) -> Term:
    """Effects of the test sets that cells with these levels share; `variance` is by record."""
    stacked = np.stack([codes[factor] for factor in factors])  # type: ignore[index]
    levels, first, index = np.unique(stacked, axis=1, return_index=True, return_inverse=True)
    index = index.reshape(-1).astype(np.int64)
    # The mean over the cells of a level; exact where they agree, as they do without bootstraps.
    typical = variance[first]
    off = np.bincount(index, variance - typical[index]) / np.bincount(index)
    return Term(
        name=":".join((names.TEST_SET, *factors)),
        factors=factors,
        labels=tuple(
            names.cell_label(*(coords[f][i] for f, i in zip(factors, level, strict=True)))
            for level in levels.T
        ),
        index=index,
        members={f: row.astype(np.int64) for f, row in zip(factors, levels, strict=True)},
        # A task without shared test sets has no such effect, but a density needs an sd above 0.
        known_sd=np.sqrt(np.maximum(typical + off, 1e-12 * variance.max())),
        zero_sum=False,
        centred=True,
    )
