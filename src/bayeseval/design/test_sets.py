"""Test items that cells share: effects of test sets with known standard deviations.

Scores of two models on the same items have correlated errors, so their difference is more
precise than the scores. The linear predictor has an effect of the test set that cells have
in common: for all cells of a task, for those of one language and for those of one model (a
generalisability study of items, see :func:`bayeseval.records.item_variance`). Their sds are
known from the items.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from bayeseval import names
from bayeseval._typing import Bools, Floats, Index
from bayeseval.design.container import Term
from bayeseval.design.noise import Noise
from bayeseval.records import CellTable, ItemVariance

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
    items: ItemVariance,
    cells: CellTable,
    coords: Mapping[str, tuple[str, ...]],
    *,
    pool: bool,
) -> tuple[Noise, list[Term]]:
    """Add the noise of test items, for cells whose test sets were not bootstrapped.

    Parameters
    ----------
    noise : Noise
        Noise known from replicates and standard errors.
    items : ItemVariance
        From :func:`bayeseval.records.item_variance`.
    cells : CellTable
        Cells of the same records.
    coords : dict of str to tuple of str
        Labels of the three factors.
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
    """
    has_error = np.isfinite(cells.se) | (cells.boot.df > 0)
    if cells.unbalanced is not None:
        has_error[cells.unbalanced.cell] = True
    use = np.isfinite(items.se) & ~has_error
    if not use.any():
        return noise, []
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
        return noise, []
    terms = []
    for part, factors in _SHARED:
        values = shared[part].copy()
        values[~np.isin(np.arange(len(values)), task[use])] = 0.0
        if values.max() > 0.0:
            terms.append(_term(factors, cells.codes, coords, values))
    return noise, terms


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
    stacked = np.stack([codes[factor] for factor in factors])  # type: ignore[index]
    levels, index = np.unique(stacked, axis=1, return_inverse=True)
    return Term(
        name=":".join((names.TEST_SET, *factors)),
        factors=factors,
        labels=tuple(
            names.cell_label(*(coords[f][i] for f, i in zip(factors, level, strict=True)))
            for level in levels.T
        ),
        index=index.reshape(-1).astype(np.int64),
        members={f: row.astype(np.int64) for f, row in zip(factors, levels, strict=True)},
        # A task without items has no such effect, but a density needs an sd above zero.
        known_sd=np.sqrt(np.maximum(variance[levels[-1]], 1e-12 * variance.max())),
        zero_sum=False,
        centred=True,
    )
