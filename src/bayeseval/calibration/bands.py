"""Are ranks uniform, and does coverage keep its promise? Simultaneous bands and intervals.

The band of the ECDF has the same probability to be left at every point (Säilynoja, Bürkner and
Vehtari 2022, doi:10.1007/s11222-022-10090-6): a curve is as extreme as its most extreme point,
by the tail probability of the binomial count there. The distribution of this minimum comes from
simulated uniform ranks, so that the p-value and the band are two readings of one test.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import numpy as np
from scipy.special import bdtr, betaln
from scipy.stats import beta

from bayeseval._random import generator
from bayeseval._typing import Floats, Index

__all__ = ["Uniformity", "coverage_interval", "uniformity"]

_SIMULATIONS: Final = 10_000
_MOST_POINTS: Final = 100
# Quantiles of Jeffreys' prior of a share, and correlations of the intervals of one simulation.
_SHARES: Final = np.array(np.sin(np.pi * (np.arange(400.0) + 0.5) / 800.0) ** 2, dtype=np.float64)
_CORRELATIONS: Final = np.array((np.arange(24) + 0.5) / 24.0, dtype=np.float64)


class Uniformity:
    """The null distribution of the ECDF of `n` ranks.

    Parameters
    ----------
    n : int
        Number of independent ranks.
    """

    def __init__(self, n: int) -> None:
        size = min(n, _MOST_POINTS)
        self.n = n
        #: Where the ECDF is looked at.
        self.points: Floats = np.arange(1, max(size, 2)) / max(size, 2)
        rng = generator(n, "calibrate-bands")
        shares = np.diff(np.concatenate([[0.0], self.points, [1.0]]))
        counts = np.cumsum(rng.multinomial(n, shares, size=_SIMULATIONS)[:, :-1], axis=1)
        self._null = np.sort(self._extremeness(counts.astype(np.float64)))

    def counts(self, ranks: Floats) -> Floats:
        """Number of ranks at or below every point."""
        ordered = np.sort(ranks)
        return np.searchsorted(ordered, self.points, side="right").astype(np.float64)

    def p_value(self, ranks: Floats) -> float:
        """Share of calibrated results whose curve is at least as extreme."""
        own = self._extremeness(self.counts(ranks)[None])[0]
        # Equal tail probabilities differ by rounding.
        at_most = np.searchsorted(self._null, own * (1.0 + 1e-9), side="right")
        return float((at_most + 1) / (_SIMULATIONS + 1))

    def band(self, probability: float) -> tuple[Floats, Floats]:
        """Lowest and highest ECDF at every point; the whole curve keeps inside with `probability`.

        Parameters
        ----------
        probability : float
            Simultaneous, over all points.
        """
        lowest, highest = self._counts_inside(probability)
        return lowest / self.n, highest / self.n

    def inside(self, ranks: Floats, probability: float) -> bool:
        """Whether the curve keeps inside :meth:`band`: if its p-value is above 1 - `probability`.

        Parameters
        ----------
        ranks : ndarray, shape (n,)
        probability : float
            Simultaneous, over all points.
        """
        lowest, highest = self._counts_inside(probability)
        counts = self.counts(ranks)
        return bool(((counts >= lowest) & (counts <= highest)).all())

    def _counts_inside(self, probability: float) -> tuple[Floats, Floats]:
        """Least and greatest count at every point that is not too extreme for `probability`."""
        # So many simulated curves can be as extreme and the p-value at or below the level.
        place = int(np.floor((1.0 - probability) * (_SIMULATIONS + 1))) - 1
        counts = np.broadcast_to(np.arange(self.n + 1.0)[:, None], (self.n + 1, len(self.points)))
        if place < 0:
            return counts[0], counts[-1]
        # Equal tail probabilities differ by rounding, as in the p-value.
        kept = self._tails(counts) * (1.0 + 1e-9) >= self._null[min(place, _SIMULATIONS - 1)]
        return (
            kept.argmax(axis=0).astype(np.float64),
            self.n - kept[::-1].argmax(axis=0).astype(np.float64),
        )

    def _extremeness(self, counts: Floats) -> Floats:
        """Smallest two-sided tail probability over the points; shape (n_rows,)."""
        return np.asarray(self._tails(counts).min(axis=1))

    def _tails(self, counts: Floats) -> Floats:
        """Two-sided tail probabilities of counts; shape (n_rows, n_points)."""
        below = bdtr(counts, self.n, self.points)
        above = 1.0 - np.where(counts > 0, bdtr(np.maximum(counts - 1, 0), self.n, self.points), 0)
        return np.asarray(2.0 * np.minimum(below, above))


@lru_cache(maxsize=64)
def uniformity(n: int) -> Uniformity:
    """The null distribution of `n` ranks, simulated once."""
    return Uniformity(n)


def coverage_interval(
    inside: Floats, simulation: Floats | Index, *, probability: float = 0.95
) -> Floats:
    """Share of intervals that hold the truth, with an interval; shape (3,).

    One interval per simulation: Clopper-Pearson. Several intervals of one simulation share its
    errors: their number of hits is taken as beta-binomial, with a flat prior on the correlation
    between 0 and 1 and Jeffreys' prior on the share, and the interval is that of the posterior. A
    design effect estimated from few simulations is too small where none of those at hand has
    many misses; the posterior allows for simulations that were not seen.

    Parameters
    ----------
    inside : ndarray, shape (n,)
        1 where an interval holds the truth, else 0.
    simulation : ndarray, shape (n,)
        Which simulation it is of.
    probability : float
        Of the interval of the share.

    Returns
    -------
    ndarray
        Share, lower and upper end; NaN without intervals.
    """
    n = len(inside)
    if n == 0:
        return np.full(3, np.nan)
    share = float(inside.mean())
    ends = np.array([(1.0 - probability) / 2.0, (1.0 + probability) / 2.0])
    _, unit = np.unique(simulation, return_inverse=True)
    size = np.bincount(unit).astype(np.float64)
    if n == len(size):
        hits = float(inside.sum())
        lower = beta.ppf(ends[0], hits, n - hits + 1.0) if hits > 0.0 else 0.0
        upper = beta.ppf(ends[1], hits + 1.0, n - hits) if hits < n else 1.0
    else:
        hits_of = np.bincount(unit, inside).astype(np.float64)
        lower, upper = _beta_binomial_quantiles(hits_of, size, ends)
    # A share of 0 or 1 is inside its interval.
    return np.array([share, lower if share > 0.0 else 0.0, upper if share < 1.0 else 1.0])


def _beta_binomial_quantiles(hits: Floats, size: Floats, ends: Floats) -> Floats:
    """Posterior quantiles of the mean of beta-binomial counts, by integration on a grid."""
    share = _SHARES[:, None]
    first, second = (part * (1.0 - _CORRELATIONS) / _CORRELATIONS for part in (share, 1.0 - share))
    pairs, count = np.unique(np.stack([hits, size]), axis=1, return_counts=True)
    log_density = np.zeros(first.shape)
    for (k, n), times in zip(pairs.T, count, strict=True):
        log_density += times * betaln(first + k, second + n - k)
    log_density -= len(hits) * betaln(first, second)
    density = np.exp(log_density - log_density.max()).sum(axis=1)
    # The points are the middles of equal shares of Jeffreys' prior.
    below = (np.cumsum(density) - 0.5 * density) / density.sum()
    return np.asarray(np.interp(ends, below, _SHARES))
