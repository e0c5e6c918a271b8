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
from scipy.special import bdtr
from scipy.stats import beta, t

from bayeseval._random import generator
from bayeseval._typing import Floats

__all__ = ["Uniformity", "coverage_interval", "uniformity"]

_SIMULATIONS: Final = 10_000
_MOST_POINTS: Final = 100


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


def coverage_interval(inside: Floats, simulation: Floats, *, probability: float = 0.95) -> Floats:
    """Share of intervals that hold the truth, with an interval; shape (3,).

    Intervals of one simulation share its errors, so the simulation is the unit: the share has the
    variance of the simulations' means, and the Clopper-Pearson interval is that of as many
    independent intervals as would have this variance, times a squared ratio of t quantiles, as
    this variance is uncertain (Korn and Graubard 1998). With few simulations, a share near 1 and
    misses that come together in few of them, it still holds the true share less often than it
    says: the variance is too low where none of the simulations at hand has many misses.

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
    low, high = (1.0 - probability) / 2.0, (1.0 + probability) / 2.0
    _, unit = np.unique(simulation, return_inverse=True)
    n_units = int(unit.max()) + 1
    effective = float(n_units)
    if n > n_units > 1:
        totals = np.bincount(unit, inside - share)
        variance = n_units / (n_units - 1) * float((totals**2).sum()) / n**2
        if variance > 0.0:
            # A variance from few simulations is uncertain itself.
            uncertain = float((t.ppf(high, n - 1) / t.ppf(high, n_units - 1)) ** 2)
            effective = uncertain * share * (1.0 - share) / variance
            effective = float(np.clip(effective, n_units, n))
    hits = share * effective
    lower = beta.ppf(low, hits, effective - hits + 1.0) if hits > 0.0 else 0.0
    upper = beta.ppf(high, hits + 1.0, effective - hits) if hits < effective else 1.0
    return np.array([share, lower, upper])
