"""Bridge sampling: the density of left-out scores from fits with and without them.

The posterior with a group of scores and the one without differ by the likelihood L of the
group alone. Draws of both give p(y_g | y_-g), the ratio r of their normalising constants,
as the solution of Bennett (1976),

    mean over draws with the group of r / (L + r)  =  mean over draws without it of L / (L + r),

the optimal bridge of Meng and Wong (1996). Nothing is assumed of the likelihood.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit, logsumexp

from bayeseval._typing import Floats

__all__ = ["Bridge", "bridge"]


# What is told of a comparison are differences of four and more.
MOST_ERROR: Final = 0.5
# Share of the draws that the two posteriors must have in common: ten of two thousand.
LEAST_OVERLAP: Final = 0.005


class Bridge(NamedTuple):
    """A log ratio of normalising constants, and how much it can be relied on.

    Attributes
    ----------
    value : float
        log p(y_g | y_-g), natural log.
    error : float
        Its Monte-Carlo standard error, from how far the chains disagree.
    overlap : float
        Mean of ``L / (L + r)`` over the draws without the group: one half when the group
        says nothing, zero when the two posteriors have nothing in common.
    """

    value: float
    error: float
    overlap: float

    @property
    def is_good(self) -> bool:
        """Whether error and overlap are within their limits."""
        return self.error <= MOST_ERROR and self.overlap >= LEAST_OVERLAP


def bridge(with_group: Floats, without_group: Floats) -> Bridge:
    """Log density of a group of scores given all others.

    Parameters
    ----------
    with_group, without_group : ndarray, shape (n_chains, n_draws)
        Log likelihood of the group at draws of the posterior with it and of the one
        without it. Their numbers may differ; a single chain cannot tell the error, which
        is infinite then.

    Returns
    -------
    Bridge
    """
    pairs = list(zip(with_group, without_group, strict=False))
    by_chain = np.array([_solve(*pair) for pair in pairs])
    value = _solve(with_group.ravel(), without_group.ravel())
    error = by_chain.std(ddof=1) / np.sqrt(len(pairs)) if len(pairs) > 1 else np.inf
    return Bridge(
        value=value,
        error=float(error),
        overlap=float(expit(without_group - value).mean()),
    )


def _solve(with_group: Floats, without_group: Floats) -> float:
    def excess(log_ratio: float) -> float:
        return float(expit(log_ratio - with_group).mean() - expit(without_group - log_ratio).mean())

    # Draws under which a count is impossible say so by minus infinity; they count as such.
    if not np.isfinite(without_group).any():
        # Nothing but draws with the group is left to go by: their harmonic mean.
        return float(np.log(len(with_group)) - logsumexp(-with_group))
    ends = np.concatenate([with_group, without_group])
    ends = ends[np.isfinite(ends)]
    # At forty beyond either end one of the two means is one and the other zero.
    return float(brentq(excess, ends.min() - 40.0, ends.max() + 40.0, xtol=1e-9))
