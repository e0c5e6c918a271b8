"""Beta-binomial counts of correct items: binomial counts whose share is beta-distributed."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

import numpy as np
from scipy.special import betaln, expit

from bayeseval._typing import Floats
from bayeseval.families.base import At, Family, Parameter
from bayeseval.families.beta import (
    DISPERSION_PRIOR,
    draw_shares,
    shapes,
    shapes_in_jax,
    shapes_in_pytensor,
)
from bayeseval.families.binomial import draw_counts, log_ways

__all__ = ["BETA_BINOMIAL"]


# Share of a tail that its sum may lack.
_LEAST: Final = 1e-9


def _log_density(observed: Floats, at: At) -> Floats:
    a, b = shapes(at)
    n, k = at.items, observed
    return np.asarray(log_ways(n, k) + betaln(k + a, n - k + b) - betaln(a, b))


def _cdf(observed: Floats, at: At) -> Floats:
    """Sum the probabilities from the count outwards, away from the expected count."""
    a, b = shapes(at)
    is_high = observed > at.items * expit(at.centre)
    items, left = at.items, np.where(is_high, at.items - observed, observed)
    a, b = np.where(is_high, b, a), np.where(is_high, a, b)
    term = np.exp(_log_density(observed, at))
    tail = 0.5 * term
    # As if no later term were larger: below the expected count they decrease, as far as they add.
    while np.any(term * left > _LEAST * tail):
        # Ratio of the probabilities of k - 1 and k.
        term = term * left * (items - left + b) / ((items - left + 1.0) * (left - 1.0 + a))
        left = np.maximum(left - 1.0, 0.0)
        tail = tail + term
    return np.asarray(np.where(is_high, 1.0 - tail, tail))


@cache
def _accurate() -> Any:
    """NumPyro's distribution by log gamma functions: JAX's ``betaln`` has errors of about 1e-7."""
    import numpyro.distributions as dist
    from jax.scipy.special import gammaln as ln

    class BetaBinomial(dist.BetaBinomial):  # type: ignore[misc]
        def log_prob(self, value: Any) -> Any:
            a, b, n = self.concentration1, self.concentration0, self.total_count
            ways = ln(n + 1.0) - ln(value + 1.0) - ln(n - value + 1.0)
            ratio = ln(value + a) - ln(a) + ln(n - value + b) - ln(b) + ln(a + b) - ln(n + a + b)
            return ways + ratio

    return BetaBinomial


def _numpyro(at: At) -> Any:
    a, b = shapes_in_jax(at)
    return _accurate()(a, b, at.items)


def _pymc(site: str, at: At, **observed: Any) -> Any:
    import pymc as pm

    a, b = shapes_in_pytensor(at)
    return pm.BetaBinomial(site, n=at.items, alpha=a, beta=b, **observed)


def _draw(rng: np.random.Generator, at: At) -> Floats:
    return draw_counts(rng, draw_shares(rng, at), at.items)


BETA_BINOMIAL = Family(
    name="beta_binomial",
    quantity="count",
    scale=Parameter("dispersion_beta_binomial", DISPERSION_PRIOR, typical=0.15),
    log_density=_log_density,
    numpyro=_numpyro,
    pymc=_pymc,
    draw=_draw,
    cdf=_cdf,
)
