"""Variances of cells that depend little on the chance of the scores that they belong to.

The variance between the items of a cell depends on the chance of its score: a share of correct
items above one half that is higher by chance has a smaller variance, and a mean of skewed values
that is lower by chance has one. With weights from such variances, weighted means are biased.
A variance estimated from all cells of the language and of the model is nearly independent of the
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
# What a right answer counts, where others count 0.
_RIGHT: Final = (1.0, 100.0)


def of_items(cells: CellTable, se: Floats, use: Bools) -> Floats:
    """Variances of the means of cells over their items.

    Where every item of a task is right or wrong, shares of right items are fitted
    (:func:`bayeseval.design.fitted_shares.fitted_shares`), as if the table had the column ``n``;
    otherwise variances are (:func:`by_margins`). The mean over each task stays.

    Parameters
    ----------
    cells : CellTable
    se : ndarray, shape (n_cells,)
        Standard errors of the means by the items of each cell alone.
    use : ndarray of bool, shape (n_cells,)
        Cells whose errors come from items.
    """
    task, n = cells.codes[names.TASK], np.where(use, cells.n_items, 1.0)
    others = [cells.codes[names.LANGUAGE], cells.codes[names.MODEL]]
    variance = by_margins(se**2 * n, n - 1.0, task, others, use) / n
    share = np.full(len(task), np.nan)
    for right in _RIGHT:
        # The variance of values that are 0 or `right` follows from their mean.
        binary = np.isclose(se**2 * (n - 1.0), cells.mean * (right - cells.mean), atol=1e-9)
        other = np.bincount(task[use & ~binary], minlength=int(task.max()) + 1) > 0
        share = np.where(use & ~other[task], cells.mean / right, share)
    at = np.isfinite(share)
    if not at.any():
        return variance
    p = fitted_shares(share[at], n[at], [task[at], *(code[at] for code in others)])
    fitted = np.zeros(len(task))
    fitted[at] = p * (1.0 - p) / n[at]
    n_tasks = int(task.max()) + 1
    mean = mean_by_task(se**2, task, at, n_tasks)
    scale = ratio(mean, mean_by_task(fitted, task, at, n_tasks))
    return np.where(at, fitted * scale[task], variance)


def by_margins(
    square: Floats, df: Floats, task: Index, others: Sequence[Index], use: Bools
) -> Floats:
    """Variances as products of one effect of each other factor, within each task.

    The variance of the cell of language l and model m in task t is mu_t a_tl b_tm: within a task,
    some languages (or models) are noisier than others. An effect is the sum of squares of its
    cells over what the other effects expect. The log of a mean square has the sampling variance
    trigamma(df / 2), and effects are drawn to those of the task as far as that explains how they
    differ (an empirical Bayes estimate as that of Smyth 2004). The mean over the task stays.

    Parameters
    ----------
    square, df : ndarray, shape (n_cells,)
        Mean square of each cell and its degrees of freedom.
    task : ndarray of int, shape (n_cells,)
        Task of each cell.
    others : sequence of ndarray of int, shape (n_cells,)
        Levels of the other factors.
    use : ndarray of bool, shape (n_cells,)
        Cells whose mean squares are known.

    Returns
    -------
    ndarray, shape (n_cells,)
        Also of cells not in use, from the effects of their levels.

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
    n_tasks, has = int(task.max()) + 1, use & (df > 0)
    mean = mean_by_task(square, task, has, n_tasks)[task]
    known = has & (mean > 0.0)
    if not known.any():
        return mean
    df = np.where(known, df, 0.0)
    # Outcomes that are all alike have a variance as well; 2 / df of the mean stands in for their 0.
    value = np.where(square > 0.0, square, np.minimum(2.0 / np.maximum(df, 1.0), 1.0) * mean)
    levels = [np.unique(task * (int(o.max()) + 1) + o, return_inverse=True)[1] for o in others]
    effects = [np.ones(len(task)) for _ in levels]
    for _ in range(_MOST_ROUNDS):
        before = np.prod(effects, axis=0)
        for i, level in enumerate(levels):
            rest = mean * np.prod(effects[:i] + effects[i + 1 :], axis=0)
            effects[i] = _effect(value, rest, df, level, task)
        if np.abs(np.log(np.prod(effects, axis=0) / before)).max() < _ENOUGH:
            break
    drawn = np.prod(effects, axis=0)
    return mean * ratio(drawn, mean_by_task(drawn, task, known, n_tasks)[task])


def _effect(value: Floats, rest: Floats, df: Floats, level: Index, task: Index) -> Floats:
    """Factor by which the cells of each level differ from `rest`, drawn to the task, by cell."""
    _, first = np.unique(level, return_index=True)
    total = _sums(level, df)
    known, of_task, n_tasks = total > 0, task[first], int(task.max()) + 1
    half = np.where(known, total, 1.0) / 2.0
    factor = ratio(_sums(level, df * value), _sums(level, df * rest))
    log = np.log(np.where(known, factor, 1.0)) - special.digamma(half) + np.log(half)
    error = special.polygamma(1, half)
    off = log - mean_by_task(log, of_task, known, n_tasks)[of_task]
    n = _sums(of_task, known.astype(np.float64))[of_task]
    spread = off**2 * ratio(n, n - 1.0)
    between = np.maximum(mean_by_task(spread - error, of_task, known, n_tasks), 0.0)[of_task]
    drawn = np.where(known, ratio(between, between + error) * off, 0.0)
    return np.asarray(np.exp(drawn)[level])


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
