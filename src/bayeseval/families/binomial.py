"""Binomial counts of correct items."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import bdtr, expit, gammaln, log_expit

from bayeseval._typing import Floats
from bayeseval.families.base import At, Family

__all__ = ["BINOMIAL", "draw_counts", "log_ways"]


def log_ways(n: Floats, k: Floats) -> Floats:
    """Log of the number of ways to choose k of n items."""
    return np.asarray(gammaln(n + 1.0) - gammaln(k + 1.0) - gammaln(n - k + 1.0))


def draw_counts(rng: np.random.Generator, share: Floats, items: Floats | None) -> Floats:
    """Draw shares of correct items; without numbers of items, return the expected shares."""
    if items is None:
        return share
    return np.asarray(rng.binomial(np.asarray(items).astype(np.int64), share) / items)


def _log_density(observed: Floats, at: At) -> Floats:
    n, k = at.items, observed
    return np.asarray(log_ways(n, k) + k * log_expit(at.centre) + (n - k) * log_expit(-at.centre))


def _cdf(observed: Floats, at: At) -> Floats:
    n, k = at.items, observed
    # SciPy wants numbers of items that are integers.
    at_most = bdtr(k, np.asarray(n).astype(np.int64), expit(at.centre))
    return np.asarray(at_most - 0.5 * np.exp(_log_density(k, at)))


def _numpyro(at: At) -> Any:
    import numpyro.distributions as dist

    return dist.BinomialLogits(at.centre, at.items)


def _pymc(site: str, at: At, **observed: Any) -> Any:
    import pymc as pm

    return pm.Binomial(site, n=at.items, logit_p=at.centre, **observed)


def _draw(rng: np.random.Generator, at: At) -> Floats:
    return draw_counts(rng, at.centre, at.items)


BINOMIAL = Family(
    name="binomial",
    quantity="count",
    scale=None,
    log_density=_log_density,
    numpyro=_numpyro,
    pymc=_pymc,
    draw=_draw,
    cdf=_cdf,
)
