"""Summaries of plain arrays whose first axis is the posterior draw."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from numbers import Real
from typing import Final, NamedTuple

import numpy as np

from bayeseval._blocks import even_blocks
from bayeseval._text import show
from bayeseval._typing import Bools, Floats, Index
from bayeseval.errors import InputError, argument

__all__ = [
    "GUARD_LIMIT",
    "Interval",
    "all_nan",
    "as_ci_prob",
    "column_blocks",
    "drop_meaningless",
    "finite_sd",
    "interval_summaries",
    "interval_summary",
    "rank_summary",
    "root_mean_square",
]


#: A quantity that is undefined in more than this share of its draws is not reported.
GUARD_LIMIT = 0.01
# Probabilities of intervals. Four digits of a percentage tell those in between from 0 and 100 %,
# and beyond them an interval is the median, or the range of all draws.
_CI_PROBS: Final = (0.01, 0.9999)
# Twice as many draws, 64 MB, are cut into blocks, of which sorting and standard deviations make
# several copies: four for each of these. And columns of a block, however many draws there are.
_BLOCK = 4_000_000
_PARTS = 4
_LEAST_COLUMNS = 64


def all_nan(shape: tuple[int, ...]) -> Floats:
    """Draws of a quantity that is not reported: NaN, which takes no memory and cannot be set."""
    return np.broadcast_to(np.float64(np.nan), shape)


class Interval(NamedTuple):
    """Posterior summary of one or many quantities, all of one shape.

    `median` is kept for ranks and NaN-free wherever `mean` is.
    """

    mean: Floats
    median: Floats
    sd: Floats
    lower: Floats
    upper: Floats


def as_ci_prob(value: object) -> float:
    """The argument ``ci_prob``, the probability inside of intervals, as ``float``.

    Raises
    ------
    InputError
        If it is no number between 0.01 and 0.9999.
    """
    least, most = _CI_PROBS
    if isinstance(value, bool) or not isinstance(value, Real):
        raise InputError(f"{argument('ci_prob')} must be a number, got {show(value)}")
    try:
        prob = float(value)
    except OverflowError:
        prob = math.inf
    if least <= prob <= most:
        return prob
    # All digits: rounded, one just outside would be a limit.
    got = repr(prob).removesuffix(".0")
    percent = f"; {got} % is {prob / 100.0:g}" if 1.0 < prob <= 100.0 * most else ""
    raise InputError(
        f"{argument('ci_prob')} must lie between {least:g} and {most:g}, got {got}{percent}"
    )


def interval_summary(draws: Floats, *, ci_prob: float) -> Interval:
    """Mean, median, sd (ddof 1) and equal-tailed interval over the first axis.

    Parameters
    ----------
    draws : ndarray, shape (n_samples, ...)
        NaN draws are ignored; a quantity with no other draws is NaN.
    ci_prob : float
        Probability inside the interval.

    Returns
    -------
    Interval
        Each of shape ``draws.shape[1:]``. A single draw is a point estimate: its
        sd and interval are unknown, hence NaN.

    Raises
    ------
    InputError
        If `ci_prob` is not between 0.01 and 0.9999.
    """
    return interval_summaries(draws, [ci_prob])[0]


def rank_summary(ranks: Floats, *, ci_prob: float) -> Interval:
    """Summarise ranks as :func:`interval_summary`, with quantiles that are ranks.

    Median and bounds come from the inverse of the empirical distribution
    function, so they are whole numbers that occur among the draws.
    """
    return interval_summaries(ranks, [ci_prob], ranks=True)[0]


def interval_summaries(
    draws: Floats, ci_probs: Sequence[float], *, ranks: bool = False
) -> tuple[Interval, ...]:
    """Several intervals of the same draws, which are sorted once.

    Parameters
    ----------
    draws : ndarray, shape (n_samples, ...)
    ci_probs : sequence of float
        One interval for each.
    ranks : bool
        Summarise as :func:`rank_summary`, otherwise as :func:`interval_summary`.
    """
    ci_probs = [as_ci_prob(prob) for prob in ci_probs]
    values = np.asarray(draws, dtype=np.float64)
    shape = values.shape[1:]
    columns = values.reshape(len(values), -1)
    at = [0.5, *((1.0 + sign * p) / 2.0 for p in ci_probs for sign in (-1.0, 1.0))]
    mean, sd = np.full((2, columns.shape[1]), np.nan)
    quantiles = np.full((len(at), columns.shape[1]), np.nan)
    # Undefined draws differ between columns: summarise the complete columns (nearly always
    # all) together and the others one by one.
    complete = np.asarray(~np.isnan(columns).any(axis=0))
    # Blocks of columns, whose sorted copies would otherwise be as large as all draws.
    together = np.array_split(np.flatnonzero(complete), len(column_blocks(*columns.shape)))
    groups = [*together, *np.flatnonzero(~complete)[:, None]]
    for members in groups:
        block = columns if len(members) == columns.shape[1] else columns[:, members]
        block = block if complete[members].all() else block[~np.isnan(block).any(axis=1)]
        if block.size == 0:
            continue
        mean[members] = block.mean(axis=0)
        if len(block) == 1:
            quantiles[0, members] = block[0]
            continue
        sd[members] = block.std(axis=0, ddof=1)
        # Sorted rows of draws: three times as fast as selection down the columns.
        ordered = np.sort(np.ascontiguousarray(block.T), axis=1)
        quantiles[:, members] = (
            np.quantile(ordered, at, axis=1, method="inverted_cdf")
            if ranks
            else [_quantile(ordered, q) for q in at]
        )
    median, *ends = (row.reshape(shape) for row in quantiles)
    of_all = mean.reshape(shape), median, sd.reshape(shape)
    return tuple(
        Interval(*of_all, lower, upper) for lower, upper in zip(ends[::2], ends[1::2], strict=True)
    )


def column_blocks(n_rows: int, n_columns: int) -> list[slice]:
    """Cut many columns into blocks of about a million numbers, each of 64 columns or more."""
    n_blocks = max(1, min(n_rows * n_columns // _BLOCK, n_columns // _LEAST_COLUMNS))
    if n_blocks > 1:
        n_blocks = min(_PARTS * n_blocks, n_columns // _LEAST_COLUMNS)
    return even_blocks(n_columns, n_blocks)


def _quantile(ordered: Floats, q: float) -> Floats:
    """The quantile of rows that are sorted, to the last bit that of `np.quantile`.

    `np.quantile` would sort them once more.
    """
    position = q * (ordered.shape[1] - 1)
    below = int(position)
    share = position - below
    low, high = ordered[:, below], ordered[:, min(below + 1, ordered.shape[1] - 1)]
    step = high - low
    return np.asarray(high - step * (1.0 - share) if share >= 0.5 else low + step * share)


def finite_sd(effects: Floats) -> Floats:
    """Finite-population standard deviation of the levels of a factor, draw by draw.

    About the mean of the levels, with K - 1 degrees of freedom: effects that sum to zero
    have K - 1 free directions, and their squares over K - 1 have the mean sd**2.

    Parameters
    ----------
    effects : ndarray, shape (n_samples, n_levels)
        Effects of two levels or more.

    Returns
    -------
    ndarray, shape (n_samples,)

    References
    ----------
    Gelman (2005), Analysis of variance: why it is more important than ever, section 3.3.
    """
    return _by_draw(effects, lambda rows: np.std(rows, axis=1, ddof=1))


def root_mean_square(values: Floats) -> Floats:
    """Root mean square of each draw: the sd around zero of values without a constraint.

    Parameters
    ----------
    values : ndarray, shape (n_samples, n)
        Effects of the cells of an interaction, residuals of the records.

    Returns
    -------
    ndarray, shape (n_samples,)
    """
    return _by_draw(values, lambda rows: np.sqrt(np.mean(np.square(rows), axis=1)))


def _by_draw(values: Floats, reduce: Callable[[Floats], Floats]) -> Floats:
    """A number for every draw, in blocks of a million numbers, of which `reduce` makes copies."""
    # Two draws at least: NumPy may sum a single row in another order.
    n_blocks = max(1, min(_PARTS * values.size // _BLOCK, len(values) // 2))
    return np.concatenate([reduce(values[rows]) for rows in even_blocks(len(values), n_blocks)])


def drop_meaningless(values: Floats, *, limit: float = GUARD_LIMIT) -> tuple[Floats, Index, Bools]:
    """Set a quantity to NaN in all draws when it is undefined in too many.

    Parameters
    ----------
    values : ndarray, shape (n_samples, n_quantities)
        NaN in a draw in which the quantity is undefined.
    limit : float
        Largest share of such draws that a reported quantity may have.

    Returns
    -------
    guarded : ndarray, shape (n_samples, n_quantities)
        A copy; dropped columns are NaN throughout.
    excluded : ndarray of int, shape (n_quantities,)
        Number of undefined draws.
    dropped : ndarray of bool, shape (n_quantities,)
        Whether a quantity is not reported.
    """
    excluded = np.isnan(values).sum(axis=0)
    dropped = excluded > limit * len(values)
    return np.where(dropped, np.nan, values), excluded, dropped
