"""Ranks, their probabilities, tie groups and pairwise differences from joint draws."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.stats import rankdata

from bayeseval import names
from bayeseval._typing import Floats, Index
from bayeseval.errors import InputError, did_you_mean
from bayeseval.estimands.aggregates import aggregate_variants
from bayeseval.estimands.arrays import Interval, all_nan, interval_summary, rank_summary

__all__ = [
    "Pairwise",
    "best_levels",
    "higher_is_better",
    "is_rankable",
    "may_be_best",
    "p_better",
    "p_top_k",
    "pairwise_differences",
    "rank_draws",
    "rank_probabilities",
    "rank_sets",
    "tie_groups",
]

# Numbers that are ranked at a time: arrays of four megabytes.
_RANKED = 500_000
# Levels times ranks at a time: five arrays of 16 MB.
_MOST_DEPTHS = 2_000_000
# Draws of differences at a time: four megabytes, which stay in the cache.
_DIFFERENCES = 500_000
_LOWER_IS_BETTER = (names.GAP_SD,)
_RANKABLE = (
    *names.REPORTED,
    *(names.effect_name(factor) for factor in names.FACTORS),
    *(name for name, *_ in aggregate_variants()),
)


def higher_is_better(quantity: str) -> bool:
    """Whether rank 1 is the largest value (potential, score, effects) or the smallest.

    Raises
    ------
    InputError
        If `quantity` is not one that can be ranked.
    """
    if quantity.startswith(names.DISPARITY):
        raise InputError(
            f"{quantity} describes a table and takes its scores as exact, so it cannot be ranked; "
            f"use {names.STANDARDISED_SCORE} or {names.GAP_SD}"
        )
    if quantity not in _RANKABLE:
        raise InputError(
            f"{quantity!r} cannot be ranked{did_you_mean(quantity, _RANKABLE)} "
            f"(allowed: {', '.join(_RANKABLE)})"
        )
    return not quantity.startswith(_LOWER_IS_BETTER)


def is_rankable(quantity: str) -> bool:
    """Whether :func:`higher_is_better` knows the quantity."""
    return quantity in _RANKABLE


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
    missing = np.isnan(values)
    levels = ~missing.all(axis=0)
    usable = ~missing[:, levels].any(axis=1)
    if not levels.any() or not usable.any():
        return all_nan(values.shape)
    ranks = np.full(values.shape, np.nan)
    chosen = np.flatnonzero(usable)
    # Some draws at a time: ranking makes half a dozen copies of what it ranks.
    step = max(1, _RANKED // values.shape[1])
    for start in range(0, len(chosen), step):
        own = np.ix_(chosen[start : start + step], levels)
        block = values[own]
        ranks[own] = rankdata(-block if highest_first else block, method="min", axis=-1)
    return ranks


def best_levels(values: Floats, *, highest_first: bool, most: int | None) -> Index:
    """Positions of the best levels by their mean, in the order of the levels.

    Parameters
    ----------
    values : ndarray, shape (n_samples, n_levels)
        Joint draws of the quantity. Levels without draws come last.
    highest_first : bool
        True when large values are good.
    most : int or None
        How many there are at most; None for all levels.
    """
    n_levels = values.shape[1]
    if most is None or n_levels <= most:
        return np.arange(n_levels)
    mean = values.mean(axis=0)
    order = np.argsort(-mean if highest_first else mean, kind="stable")
    return np.sort(order[:most])


def rank_probabilities(ranks: Floats, *, most: int | None = None) -> Floats:
    """Probability of every rank of every level.

    Parameters
    ----------
    ranks : ndarray, shape (n_samples, n_levels)
        From :func:`rank_draws`.
    most : int, optional
        Ranks to count, the best ones; None for all.

    Returns
    -------
    ndarray, shape (n_levels, n_ranks)
        Entry (i, r) is P(rank of level i = r + 1). Of all ranks rows sum to one; the row of a
        level without ranks is NaN. A single draw is a point estimate, which says
        nothing of probabilities: all NaN.
    """
    n_ranks = ranks.shape[1] if most is None else most
    counts = np.empty((ranks.shape[1], n_ranks), dtype=np.int64)
    total = np.empty((ranks.shape[1], 1), dtype=np.int64)
    for level, column in enumerate(ranks.T):
        known = column[~np.isnan(column)]
        # Whole numbers as floats; those beyond the counted ones share one place.
        places = np.minimum(known, n_ranks + 1).astype(np.int64)
        counts[level] = np.bincount(places, minlength=n_ranks + 2)[1 : n_ranks + 1]
        total[level] = len(known)
    return np.where((total > 0) & (len(ranks) > 1), counts / np.where(total > 0, total, 1), np.nan)


def p_top_k(ranks: Floats, k: int) -> Floats:
    """Probability that each level is among the best `k`; shape (n_levels,).

    Raises
    ------
    InputError
        If `k` is not between 1 and the number of levels.
    """
    if not 1 <= k <= ranks.shape[1]:
        raise InputError(f"k must lie between 1 and {ranks.shape[1]} levels, got {k}")
    probability: Floats = rank_probabilities(ranks, most=k).sum(axis=1)
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


def tie_groups(values: Floats, *, highest_first: bool, prob: float = 0.975) -> Index:
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


def rank_sets(ranks: Floats, *, prob: float) -> tuple[Floats, Floats]:
    """Simultaneous rank intervals: boxes that hold the true ranks of all levels at once.

    The first half of the draws says how extreme every rank of a level is, by its tail
    probability and, beyond all draws, by its distance from them; a draw is as extreme as its
    most extreme rank. The second half says how extreme ranks the boxes have to hold
    (split conformal prediction, with the n + 1 of finite samples).

    Parameters
    ----------
    ranks : ndarray, shape (n_samples, n_levels)
        From :func:`rank_draws`; chain after chain, so that the halves share a chain at most.
    prob : float
        Joint probability of the boxes.

    Returns
    -------
    lower, upper : ndarray, shape (n_levels,)
        NaN for levels without ranks, and for all levels of a single draw.

    Notes
    -----
    Ranks exchangeable with independent draws are inside with at least `prob`, however few
    draws there are (with autocorrelated ones somewhat less); boxes that span the deepest of the
    draws which measure depth hold less, the more levels and the fewer draws. Where the second
    half has fewer than prob / (1 - prob) draws, as of fewer than 37 draws in all with 95 %, no
    set short of all ranks can promise `prob`, and every box is the whole range. No box is narrower
    than the marginal interval of its level, which as an interval of whole numbers holds more
    than it promises.
    """
    lower, upper = np.full((2, ranks.shape[1]), np.nan)
    levels = np.flatnonzero(~np.isnan(ranks).all(axis=0))
    # No copies of all ranks where none is left out.
    block = ranks if len(levels) == ranks.shape[1] else ranks[:, levels]
    usable = ~np.isnan(block).any(axis=1)
    places = (block if usable.all() else block[usable]).astype(np.int64)
    places -= 1
    if len(places) < 2 or not levels.size:
        return lower, upper
    half = len(places) // 2
    least = np.full(len(places) - half, np.iinfo(np.int64).max)
    for own, depth in _depths(places[:half]):
        least = np.minimum(least, depth[np.arange(len(depth)), places[half:, own]].min(axis=1))
    depths = np.sort(least)[::-1]
    # The true ranks are one more draw; less than nothing for sums like 0.1 + 0.2.
    place = int(np.ceil(prob * (len(depths) + 1) - 1e-9))
    limit = depths[place - 1] if place <= len(depths) else -np.inf
    first, last = np.empty((2, len(levels)))
    for own, depth in _depths(places[:half]):
        inside = depth >= limit
        first[own] = 1 + inside.argmax(axis=1)
        last[own] = len(levels) - inside[:, ::-1].argmax(axis=1)
    marginal = rank_summary(block, ci_prob=prob)
    lower[levels] = np.minimum(first, marginal.lower)
    upper[levels] = np.maximum(last, marginal.upper)
    return lower, upper


def _depths(places: Index) -> Iterator[tuple[slice, Index]]:
    """How deep every rank lies among draws, for some levels at a time.

    Parameters
    ----------
    places : ndarray of int, shape (n_samples, n_levels)
        Ranks from zero.

    Yields
    ------
    levels : slice
    depth : ndarray of int, shape (n, n_levels)
        Draws at most this rank or at least this rank, whichever are fewer; beyond all draws,
        the negative distance from them.
    """
    n_draws, n_levels = places.shape
    rank = np.arange(n_levels)
    size = max(1, _MOST_DEPTHS // n_levels)
    for start in range(0, n_levels, size):
        levels = slice(start, min(start + size, n_levels))
        own = places[:, levels]
        counts = np.stack([np.bincount(column, minlength=n_levels) for column in own.T])
        below = counts.cumsum(axis=1)
        tail = np.minimum(below, n_draws - below + counts)
        least, most = own.min(axis=0)[:, None], own.max(axis=0)[:, None]
        beyond = np.maximum(least - rank, rank - most)
        yield levels, np.asarray(np.where(beyond > 0, -beyond, tail))


def may_be_best(ranks: Floats, *, prob: float = 0.95) -> npt.NDArray[np.bool_]:
    """Smallest set of levels that holds the best one with probability `prob`.

    Parameters
    ----------
    ranks : ndarray, shape (n_samples, n_levels)
        From :func:`rank_draws`.
    prob : float
        Joint P(best) of the set.

    Returns
    -------
    ndarray of bool, shape (n_levels,)
        False throughout without probabilities.
    """
    best = np.nan_to_num(rank_probabilities(ranks, most=1)[:, 0])
    order = np.argsort(-best, kind="stable")
    before = np.concatenate([[0.0], np.cumsum(best[order])[:-1]])
    chosen = np.zeros(len(best), dtype=bool)
    # Sums of shares of the draws: 0.95 may come out as 0.9499999.
    chosen[order] = (before < prob - 1e-12) & (best[order] > 0.0)
    return chosen


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
        P(a is better than b): lower for the sd of gaps, higher otherwise.
    p_within_margin : ndarray, shape (n_pairs,)
        P(|a - b| < margin); NaN without a margin.
    """

    first: Index
    second: Index
    difference: Interval
    effect_size: Floats
    p_a_better: Floats
    p_within_margin: Floats


def pairwise_differences(
    values: Floats,
    *,
    highest_first: bool,
    ci_prob: float,
    margin: float = float("nan"),
    levels: Index | None = None,
) -> Pairwise:
    """Compare all pairs of levels, or of some of them, on joint draws.

    Parameters
    ----------
    values : ndarray, shape (n_samples, n_levels)
        Draws in which either level is NaN are left out of that pair.
    highest_first : bool
        True when large values are good.
    ci_prob : float
        Probability inside the equal-tailed intervals.
    margin : float
        Difference below which two levels count as equally good; NaN for none.
    levels : ndarray of int, optional
        Positions of the levels to compare, in increasing order; all by default.

    References
    ----------
    From tests to effect sizes (arXiv:2509.22612): difference, sd, effect size, P(A > B).
    """
    chosen = np.arange(values.shape[1]) if levels is None else levels
    first, second = (chosen[side] for side in np.triu_indices(len(chosen), k=1))
    stacked = Interval(*(np.full(len(first), np.nan) for _ in Interval._fields))
    chance, within = np.full((2, len(first)), np.nan)
    of_levels = np.ascontiguousarray(np.asarray(values, dtype=np.float64).T)
    # In blocks: all differences at once would be n_samples x n_levels**2 / 2.
    step = max(1, _DIFFERENCES // len(values))
    for start in range(0, len(first), step):
        rows = slice(start, start + step)
        difference = of_levels[first[rows]] - of_levels[second[rows]]
        block = interval_summary(difference.T, ci_prob=ci_prob)
        for whole, part in zip(stacked, block, strict=True):
            whole[rows] = part
        n_known = np.count_nonzero(~np.isnan(difference), axis=1)
        some = n_known > 1
        sign = 1.0 if highest_first else -1.0
        won = np.count_nonzero(sign * difference > 0.0, axis=1)
        lost = np.count_nonzero(sign * difference < 0.0, axis=1)
        # Ties count half.
        chance[rows][some] = 0.5 * (1.0 + (won - lost)[some] / n_known[some])
        if np.isfinite(margin):
            near = np.count_nonzero(np.abs(difference) < margin, axis=1)
            within[rows][some] = near[some] / n_known[some]
    known = stacked.sd > 0
    size = np.divide(stacked.mean, stacked.sd, out=np.full(len(first), np.nan), where=known)
    return Pairwise(first, second, stacked, size, chance, within)
