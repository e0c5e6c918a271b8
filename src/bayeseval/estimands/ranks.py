"""Ranks, their probabilities, tie groups and pairwise differences from joint draws."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.stats import rankdata

from bayeseval import names
from bayeseval.errors import InputError, did_you_mean
from bayeseval.estimands.aggregates import aggregate_variants
from bayeseval.estimands.arrays import Floats, Index, Interval, interval_summary

__all__ = [
    "Pairwise",
    "higher_is_better",
    "p_better",
    "p_top_k",
    "pairwise_differences",
    "rank_draws",
    "rank_probabilities",
    "tie_groups",
]

_LOWER_IS_BETTER = ("std_prr", "cv_prr")
_DISPARITY = tuple(
    names.disparity_name(quantity, support=support, flavour=flavour)
    for quantity in names.DISPARITY
    for support in names.SUPPORTS
    for flavour in names.FLAVOURS
)
_RANKABLE = (
    names.LANGUAGE_POTENTIAL,
    *_DISPARITY,
    *(names.effect_name(factor) for factor in names.FACTORS),
    *(name for name, *_ in aggregate_variants()),
)


def higher_is_better(quantity: str) -> bool:
    """Whether rank 1 is the largest value (potential, Mean-PRR, effects) or the smallest.

    Raises
    ------
    InputError
        If `quantity` is not one that can be ranked.
    """
    if quantity not in _RANKABLE:
        raise InputError(
            f"{quantity!r} cannot be ranked{did_you_mean(quantity, _RANKABLE)} "
            f"(allowed: {', '.join(_RANKABLE)})"
        )
    return not quantity.startswith(_LOWER_IS_BETTER)


def rank_draws(values: Floats, *, highest_first: bool) -> Floats:
    """Rank the levels within every draw; 1 is best.

    Parameters
    ----------
    values : ndarray, shape (n_samples, n_levels)
        Joint draws of the quantity.
    highest_first : bool
        True when large values are good.

    Returns
    -------
    ndarray, shape (n_samples, n_levels)
        Whole numbers as floats, since NaN marks what has no rank: a level that is
        NaN in every draw is left out of the ranking, and a draw in which one of
        the other levels is NaN ranks nobody, because a rank among fewer levels
        is another quantity. Equal values share the best of their ranks (draws
        are continuous, so they are equal only by construction).
    """
    ranks = np.full(values.shape, np.nan)
    missing = np.isnan(values)
    levels = ~missing.all(axis=0)
    usable = ~missing[:, levels].any(axis=1)
    if not levels.any() or not usable.any():
        return ranks
    block = values[np.ix_(usable, levels)]
    ranks[np.ix_(usable, levels)] = rankdata(
        -block if highest_first else block, method="min", axis=-1
    )
    return ranks


def rank_probabilities(ranks: Floats) -> Floats:
    """Probability of every rank of every level.

    Parameters
    ----------
    ranks : ndarray, shape (n_samples, n_levels)
        From :func:`rank_draws`.

    Returns
    -------
    ndarray, shape (n_levels, n_levels)
        Entry (i, r) is P(rank of level i = r + 1). Rows sum to one; the row of a
        level without ranks is NaN. A single draw is a point estimate, which says
        nothing of probabilities: all NaN.
    """
    n_levels = ranks.shape[1]
    counts = np.stack([(ranks == r).sum(axis=0) for r in range(1, n_levels + 1)], axis=1)
    total = counts.sum(axis=1, keepdims=True)
    known = (total > 0) & (len(ranks) > 1)
    return np.where(known, counts / np.where(total > 0, total, 1), np.nan)


def p_top_k(ranks: Floats, k: int) -> Floats:
    """Probability that each level is among the best `k`; shape (n_levels,).

    Raises
    ------
    InputError
        If `k` is not between 1 and the number of levels.
    """
    if not 1 <= k <= ranks.shape[1]:
        raise InputError(f"k must lie between 1 and {ranks.shape[1]} levels, got {k}")
    probability: Floats = rank_probabilities(ranks)[:, :k].sum(axis=1)
    return probability


def p_better(first: Floats, second: Floats, *, highest_first: bool) -> float:
    """P(first is better than second), ties counted half; NaN without two joint draws.

    Parameters
    ----------
    first, second : ndarray, shape (n_samples,)
        Joint draws of two levels.
    highest_first : bool
        True when large values are good.
    """
    difference = first - second if highest_first else second - first
    difference = difference[~np.isnan(difference)]
    if len(difference) < 2:
        return float("nan")
    return float((np.sign(difference).mean() + 1.0) / 2.0)


def tie_groups(values: Floats, *, highest_first: bool, prob: float = 0.95) -> Index:
    """Group the levels that the draws cannot tell apart.

    Walk down the list in order of the mean. The first level opens group 1. A
    level joins the open group while P(the group's first level is better than
    it) is below `prob`; otherwise it opens the next group. Members of a group
    are thus not separated from its best level; neighbours in different groups
    need not be separated from each other.

    Parameters
    ----------
    values : ndarray, shape (n_samples, n_levels)
        Joint draws of the quantity itself.
    highest_first : bool
        True when large values are good.
    prob : float
        Probability at which two levels count as told apart.

    Returns
    -------
    ndarray of int, shape (n_levels,)
        1 for the best group; 0 for levels without a rank, and for all levels
        when there is a single draw.
    """
    groups = np.zeros(values.shape[1], dtype=np.int64)
    if len(values) < 2:
        return groups
    mean = interval_summary(values, ci_prob=names.CI_PROB).mean
    order = np.argsort(-mean if highest_first else mean, kind="stable")
    ranked = [int(i) for i in order if not np.isnan(mean[i])]
    head, number = -1, 0
    for level in ranked:
        apart = number == 0 or (
            p_better(values[:, head], values[:, level], highest_first=highest_first) >= prob
        )
        if apart:
            head, number = level, number + 1
        groups[level] = number
    return groups


class Pairwise(NamedTuple):
    """Differences a - b of all unordered pairs, a before b in level order.

    Attributes
    ----------
    first, second : ndarray of int, shape (n_pairs,)
    difference : Interval
        Of a - b, each shape (n_pairs,).
    effect_size : ndarray, shape (n_pairs,)
        Posterior mean over posterior sd of the difference.
    p_a_better : ndarray, shape (n_pairs,)
        P(a is better than b): lower for Std- and CV-PRR, higher otherwise.
    """

    first: Index
    second: Index
    difference: Interval
    effect_size: Floats
    p_a_better: Floats


def pairwise_differences(values: Floats, *, highest_first: bool, ci_prob: float) -> Pairwise:
    """Compare all pairs of levels on joint draws.

    Parameters
    ----------
    values : ndarray, shape (n_samples, n_levels)
        Draws in which either level is NaN are left out of that pair.
    highest_first : bool
        True when large values are good.
    ci_prob : float
        Probability inside the equal-tailed intervals.

    References
    ----------
    From tests to effect sizes (paper 001): difference, sd, effect size, P(A > B).
    """
    first, second = np.triu_indices(values.shape[1], k=1)
    summaries, chance = [], np.empty(len(first))
    # Pair by pair: all differences at once would be n_samples x n_levels**2 / 2.
    for row, (a, b) in enumerate(zip(first, second, strict=True)):
        summaries.append(interval_summary(values[:, a] - values[:, b], ci_prob=ci_prob))
        chance[row] = p_better(values[:, a], values[:, b], highest_first=highest_first)
    stacked = (
        Interval(*(np.array(column) for column in zip(*summaries, strict=True)))
        if summaries
        else Interval(*(np.empty(0) for _ in Interval._fields))
    )
    known = stacked.sd > 0
    size = np.divide(stacked.mean, stacked.sd, out=np.full(len(first), np.nan), where=known)
    return Pairwise(first, second, stacked, size, chance)
