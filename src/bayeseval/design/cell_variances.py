"""Variances of cells that depend little on the chance of the scores that they belong to.

The variance between the items of a cell depends on the chance of its score. A share of correct
items above one half that is higher by chance has a smaller variance, and so has a mean of skewed
values that is lower by chance. With weights from such variances, weighted means are biased. A
variance estimated from all cells of the language and of the model is nearly independent of the
error of any one score.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from scipy import special

from bayeseval import names
from bayeseval._typing import Bools, Floats, Index
from bayeseval.design.fitted_shares import fitted_shares
from bayeseval.records import CellTable

__all__ = ["by_margins", "mean_by_task", "of_items", "ratio"]

# Weights of scores need no more digits; tables in few pieces need few rounds.
_ENOUGH: Final = 1e-4
_MOST_ROUNDS: Final = 50
# Standard errors that chance explains; a cell further from the others keeps the rest. Logs of
# variances have longer tails than empirical logits.
_FAR: Final = 5.0
# What a right answer counts, where others count 0.
_RIGHT: Final = (1.0, 100.0)


def of_items(cells: CellTable, se: Floats, use: Bools) -> Floats:
    """Variances of the means of cells over their items.

    Where every item of a task is right or wrong in one run, variances follow from the shares of
    right items that are fitted (:func:`bayeseval.design.fitted_shares.fitted_shares`), up to a
    factor for each task, with which the mean over the task stays; without a wrong answer in the
    task the factor is 1. Other variances are products of effects (:func:`by_margins`).

    Parameters
    ----------
    cells : CellTable
    se : ndarray, shape (n_cells,)
        Standard errors of the means by the items of each cell alone.
    use : ndarray of bool, shape (n_cells,)
        Cells whose errors come from items.

    Returns
    -------
    ndarray, shape (n_cells,)
        Also of cells not in use, where their task has cells in use.
    """
    task, n = cells.codes[names.TASK], np.where(use, cells.n_items, 1.0)
    n_tasks = int(task.max()) + 1
    others = [cells.codes[names.LANGUAGE], cells.codes[names.MODEL]]
    variance = by_margins(se**2 * n, n - 1.0, task, others, use) / n
    share = np.full(len(task), np.nan)
    for right in _RIGHT:
        # The variance of values that are 0 or `right` follows from their mean.
        binary = np.isclose(se**2 * (n - 1.0), cells.mean * (right - cells.mean), atol=1e-9)
        other = np.bincount(task[use & ~binary], minlength=n_tasks) > 0
        share = np.where(use & ~other[task], cells.mean / right, share)
    at = np.isfinite(share)
    if not at.any():
        return variance
    p = fitted_shares(share[at], n[at], [task[at], *(code[at] for code in others)])
    fitted = np.zeros(len(task))
    fitted[at] = p * (1.0 - p) / n[at]
    mean = mean_by_task(se**2, task, at, n_tasks)
    scale = ratio(mean, mean_by_task(fitted, task, at, n_tasks))
    return np.where(at, fitted * np.where(mean > 0.0, scale, 1.0)[task], variance)


def by_margins(
    square: Floats, df: Floats, task: Index, levels: Sequence[Index], use: Bools
) -> Floats:
    """Variances as products of a mean for each task and one effect for each of other levels.

    The variance of the cell of language l and model m in task t is mu_t a_l b_m: some languages
    (or models) are noisier than others. An effect is the sum of squares of its cells over what
    the other effects expect. The log of a mean square of normal values has the sampling variance
    trigamma(df / 2), which is multiplied by the dispersion of single cells where this is above 1.
    Effects are moved to their mean as far as that explains how they differ (an empirical Bayes
    estimate as that of Smyth 2004), and a cell keeps what is more than five standard errors
    from their product. The mean over the task stays.

    Parameters
    ----------
    square, df : ndarray, shape (n_cells,)
        Mean square of each cell and its degrees of freedom.
    task : ndarray of int, shape (n_cells,)
        Task of each cell.
    levels : sequence of ndarray of int, shape (n_cells,)
        Levels of each cell that have effects, such as languages and models. Where levels are
        those of one task each, the effects of a task follow the chance of its own scores.
    use : ndarray of bool, shape (n_cells,)
        Cells whose mean squares are known.

    Returns
    -------
    ndarray, shape (n_cells,)
        Also of cells not in use, from the effects of their levels; 0 in tasks without any
        variance.

    Examples
    --------
    Two models in two languages, of which one has about four times the variance of the other.
    The models differ no more than by chance:

    >>> import numpy as np
    >>> task, language, model = np.zeros(4, int), np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1])
    >>> square, df = np.array([1.2, 0.8, 3.8, 4.2]), np.full(4, 100.0)
    >>> by_margins(square, df, task, [language, model], np.ones(4, bool)).round(2)
    array([1.01, 1.01, 3.99, 3.99])
    """
    n_tasks, has = int(task.max()) + 1, use & (df > 0) & np.isfinite(square)
    mean = mean_by_task(square, task, has, n_tasks)[task]
    known = has & (mean > 0.0)
    if not known.any():
        return mean
    df = np.where(known, df, 0.0)
    # Outcomes that are all alike have a variance as well; 2 / df of the mean stands in for their 0.
    value = np.where(
        known & (square > 0.0), ratio(square, mean), np.minimum(2.0 / np.maximum(df, 1.0), 1.0)
    )
    # Effects that nothing moves show by how much single cells are off.
    found = _products(value, df, task, levels, 0.0)
    n_free = int(known.sum()) - _n_effects(task[known], [level[known] for level in levels])
    spread = float((df / 2.0 * (value / found - 1.0) ** 2)[known].sum())
    scale = max(spread / n_free, 1.0) if n_free > 0 else 1.0
    found = _products(value, df, task, levels, scale)
    log, error = _log(ratio(value, found), df, known)
    far = np.maximum(np.abs(log) - _FAR * np.sqrt(scale * error), 0.0)
    found = found * np.exp(np.where(known, np.sign(log) * far, 0.0))
    return mean * ratio(found, mean_by_task(found, task, known, n_tasks)[task])


def _n_effects(task: Index, levels: Sequence[Index]) -> int:
    """Number of free parameters: means of tasks, and effects beyond them.

    Exact where the cells are connected. For each further piece it counts up to one per factor too
    many, so that the dispersion of single cells is too large rather than too small.
    """
    n_tasks = len(np.unique(task))
    found = n_tasks
    for level in levels:
        n_levels = len(np.unique(level))
        pairs = len(np.unique(np.stack([task, level]), axis=1).T)
        found += n_levels - (n_tasks if pairs == n_levels else 1)
    return found


def _products(
    value: Floats, df: Floats, task: Index, levels: Sequence[Index], scale: float
) -> Floats:
    """Products of means of tasks and effects, each given the others, until none changes."""
    effects = [np.ones(len(value)) for _ in levels]
    mean, found = np.ones(len(value)), np.ones(len(value))
    for _ in range(_MOST_ROUNDS):
        before = found
        for i, level in enumerate(levels):
            rest = mean * np.prod(effects[:i] + effects[i + 1 :], axis=0)
            effects[i] = _effect(value, rest, df, level, scale)
        product = np.prod(effects, axis=0)
        mean = ratio(_sums(task, df * value), _sums(task, df * product))[task]
        # A task without known variances has no mean.
        found = np.where(mean > 0.0, mean, 1.0) * product
        if np.abs(np.log(found / before)).max() < _ENOUGH:
            break
    return found


def _effect(value: Floats, rest: Floats, df: Floats, level: Index, scale: float) -> Floats:
    """Factor by which the cells of a level differ from `rest`, moved to the mean; by cell."""
    total = _sums(level, df)
    known = total > 0.0
    log, error = _log(ratio(_sums(level, df * value), _sums(level, df * rest)), total, known)
    off = np.where(known, log - log[known].mean(), 0.0)
    n = int(known.sum())
    between = max(float((off**2 * n / max(n - 1, 1) - scale * error)[known].mean()), 0.0)
    return np.asarray(
        np.exp(off * ratio(np.full(len(off), between), between + scale * error))[level]
    )


def _log(factor: Floats, df: Floats, known: Bools) -> tuple[Floats, Floats]:
    """Log of mean squares without its bias, and its sampling variance, of normal values."""
    half = np.where(known, df, 1.0) / 2.0
    log = np.log(np.where(known, factor, 1.0)) - special.digamma(half) + np.log(half)
    return log, np.asarray(special.polygamma(1, half))


def _sums(level: Index, values: Floats) -> Floats:
    """Sums of the values of each level."""
    return np.asarray(np.bincount(level, values), dtype=np.float64)


def ratio(above: Floats, below: Floats) -> Floats:
    """The quotient, 0 where nothing stands below."""
    return np.divide(above, below, out=np.zeros(len(below)), where=below > 0.0)


def mean_by_task(values: Floats, task: Index, use: Bools, n_tasks: int) -> Floats:
    """Mean over the cells in use of each task; 0 without any."""
    count = np.bincount(task[use], minlength=n_tasks)
    return np.asarray(np.bincount(task[use], values[use], n_tasks) / np.maximum(count, 1))
