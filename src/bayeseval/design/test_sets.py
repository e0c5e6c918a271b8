"""Test sets that cells share: effects of test sets with known standard deviations.

Scores of two models on the same test set have correlated errors, so their difference is more
precise than the scores, and what the test set does to both moves the language or task. The
linear predictor has an effect of the test set that cells have in common: for all cells of a
task, for those of one language and for those of one model. Their sds are known from the items
(a generalisability study, see :func:`bayeseval.records.item_variance`), or from bootstraps
with equal labels (:func:`bayeseval.records.boot_variance`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from bayeseval import names
from bayeseval._typing import Bools, Floats, Index
from bayeseval.design.cell_variances import by_margins, mean_by_task, of_items, ratio
from bayeseval.design.container import Term
from bayeseval.design.noise import Noise
from bayeseval.records import BootVariance, CellTable, ItemVariance

__all__ = ["SAYS_WHAT_IS_SHARED", "add_test_sets", "shared_note"]

# Beginnings of the notes by which a fit says that it knows what cells share of their test sets.
_SHARED_NOTE = "cells share test sets: "
_NOTHING_SHARED = "cells share nothing of their test sets, as far as "
SAYS_WHAT_IS_SHARED = (_SHARED_NOTE, _NOTHING_SHARED)


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

    The parts are means over the cells of a task. Cells differ in their noise, as their test sets
    are not equally large or their scores not equally far from a bound; bootstraps give each an sd
    tau of its own. What cells share is therefore taken as a proportion: the correlation of two
    cells of a kind is the same throughout the task (:func:`_by_cell`). A mean of bootstraps has
    all parts times 1 + 1/B.
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


def shared_note(terms: Sequence[Term], unit: str) -> str:
    """Say what cells share of their test sets.

    Parameters
    ----------
    terms : sequence of Term
        From :func:`add_test_sets`.
    unit : str
        ``item`` or ``boot``: what showed it.
    """
    if not terms:
        shown = f"the column {unit} shows; their sampling errors are taken as independent"
        return f"{_NOTHING_SHARED}{shown}"
    effects = ", ".join(term.name for term in terms)
    return f"{_SHARED_NOTE}their correlated sampling errors are modelled by {effects}"


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
    shared, unshared = {part: np.zeros(len(cells)) for part in _PARTS}, own
    if pool:
        n = np.where(use, cells.n_items, 1.0)
        variance = of_items(cells, items.se, use)
        means = {part: np.nan_to_num(getattr(items, part)) for part in ("record", *_PARTS)}
        n_tasks = len(items.task)
        off = mean_by_task(interaction, task, use, n_tasks)
        typical = mean_by_task(variance, task, use, n_tasks)
        left = ratio(np.maximum(typical - off, 0.0), typical)
        means = _subtract(means, off)
        whole = np.where(crossed, left[task] * variance, variance)
        shared, unshared = _by_cell(means, left[task] * variance, n, cells, use, whole)
        own = unshared + np.sum(list(shared.values()), axis=0)
        # All cells of a task with items, whether or not their own error comes from them.
        has_items = np.isin(task, task[use])
        shared = {part: np.where(has_items, shared[part], 0.0) for part in _PARTS}
    known = np.zeros(len(cells)) if noise.known_variance is None else noise.known_variance
    boot = noise.known_sds.get("boot", np.full(len(cells), np.nan))
    noise = replace(
        noise,
        known_variance=known + np.where(use, unshared, 0.0),
        known_sds={**noise.known_sds, "boot": np.where(use, np.sqrt(own), boot)},
    )
    return noise, shared


def _divide_boots(
    noise: Noise, boots: BootVariance, cells: CellTable
) -> tuple[Noise, dict[str, Floats]]:
    """What is left of tau^2 to each cell, and the shared parts of the means by record."""
    task, n_tasks = cells.codes[names.TASK], len(boots.task)
    means = {part: np.nan_to_num(getattr(boots, part)) for part in ("record", *_PARTS)}
    common = np.sum([means[part] for part in _PARTS], axis=0)
    if noise.replicates is None or not common.any():
        return noise, {part: np.zeros(len(cells)) for part in _PARTS}
    crossed = cells.cross.df > 0
    interaction = np.where(crossed, cells.boot.interaction * cells.cross.mean_square, 0.0)
    use = cells.boot.df > 0
    own = np.minimum(mean_by_task(interaction, task, use, n_tasks), means["record"])
    # Test sets of a language in a task have a size of their own.
    others = [cells.codes[names.LANGUAGE], cells.codes[names.MODEL]]
    levels = [task * (int(code.max()) + 1) + code for code in others]
    variance = by_margins(cells.boot.mean_square, cells.boot.df, task, levels, use)
    total = common + means["record"]
    variance = ratio(total - own, total)[task] * variance
    shared, alone = _by_cell(means, variance, np.ones(len(cells)), cells, use, variance)
    left = ratio(alone, variance)
    sources = tuple(
        replace(source, share=np.where(common[task] > 0.0, left, 1.0) * source.share)
        if source.name == "boot"
        else source
        for source in noise.replicates.sources
    )
    of_mean = 1.0 + cells.boot_square
    return (
        replace(noise, replicates=replace(noise.replicates, sources=sources)),
        {part: of_mean * shared[part] for part in _PARTS},
    )


def _by_cell(
    means: Mapping[str, Floats],
    variance: Floats,
    size: Floats,
    cells: CellTable,
    use: Bools,
    whole: Floats,
) -> tuple[dict[str, Floats], Floats]:
    """Variances of the shared parts of every cell, and of its own, from means over pairs.

    Parameters
    ----------
    means : dict of str to ndarray, shape (n_tasks,)
        What two cells of a task share, and what those of one language, and of one model, share
        beyond that.
    variance, size : ndarray, shape (n_cells,)
        Variance of each cell's mean, and number of its items, of which the smaller set is
        taken to be part of the larger: with sds s of one item, cells c and d of a kind have the
        covariance rho s_c s_d / max(n_c, n_d).
    cells : CellTable
    use : ndarray of bool, shape (n_cells,)
        Cells whose variances are known.
    whole : ndarray, shape (n_cells,)
        `variance`, or more, of which the shared parts are taken off.

    Notes
    -----
    The effect of a task is the same in all its cells. A language (or model) whose test sets are
    noisier than that has the rest among its own, and so has a cell, but never less than its
    proportion.
    """
    task, n_tasks = cells.codes[names.TASK], len(means["task"])
    sd, size = np.sqrt(variance[use] * size[use]), size[use]
    sums = {}
    for part, factors in _SHARED:
        codes = [cells.codes[factor] for factor in factors]  # type: ignore[index]
        _, first, level = np.unique(np.stack(codes), axis=1, return_index=True, return_inverse=True)
        level = level.reshape(-1)
        sums[part] = (*_over_pairs(sd, size, level[use], len(first)), task[first], level)

    def mean(*parts: tuple[str, int]) -> Floats:
        """Mean over the pairs of every task: sums over kinds of pair, by sign."""
        total, count = np.zeros(n_tasks), np.zeros(n_tasks)
        for part, sign in parts:
            of_pairs, n_pairs, place, _ = sums[part]
            total += sign * np.bincount(place, of_pairs, n_tasks)
            count += sign * np.bincount(place, n_pairs, n_tasks)
        alone = mean_by_task(variance, task, use, n_tasks)
        return np.where(count > 0.5, ratio(np.maximum(total, 0.0), count), alone)

    different = mean(("task", 1), ("language_task", -1), ("model_task", -1))
    rho_task = ratio(means["task"], different)
    shared, of_record = {"task": means["task"][task]}, 1.0 - rho_task
    for part in ("language_task", "model_task"):
        of_pairs, n_pairs, place, level = sums[part]
        typical = mean((part, 1))
        rho = np.maximum(ratio(means["task"] + means[part], typical), rho_task)
        single = np.bincount(level[use], variance[use], len(place))
        measured = np.bincount(level[use], minlength=len(place))
        own = np.where(
            n_pairs > 0.5,
            ratio(of_pairs, n_pairs),
            np.where(measured > 0, single, typical[place]),
        )
        beyond = rho[place] * own - means["task"][place]
        least = (rho - rho_task)[place] * own
        found = np.maximum(beyond, least)
        if part == "model_task":
            # Where models share nothing of their own, what is beyond the task is noise of cells.
            found = np.where(means[part][place] > 0.0, found, 0.0)
        shared[part] = found[level]
        of_record = of_record - (rho - rho_task)
    rest = whole - np.sum(list(shared.values()), axis=0)
    return shared, np.maximum(rest, np.maximum(of_record, 0.0)[task] * whole)


def _over_pairs(sd: Floats, size: Floats, level: Index, n_levels: int) -> tuple[Floats, Floats]:
    """Sums over the pairs of cells of each level of sd_c sd_d / max(n_c, n_d), and numbers."""
    order = np.lexsort((-size, level))
    sd, size, level = sd[order], size[order], level[order]
    count = np.bincount(level, minlength=n_levels)
    start = np.concatenate([[0.0], np.cumsum(sd)])
    end = np.cumsum(count)
    # Of the cells of the same level, those that follow have no more items.
    after = start[end[level]] - start[1:]
    of_pairs = np.asarray(np.bincount(level, sd / size * after, n_levels), dtype=np.float64)
    return of_pairs, count * (count - 1) / 2.0


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
