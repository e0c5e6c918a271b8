"""Beta-distributed shares of the range; beta-binomial counts use the same shape parameters.

The dispersion is 1 / sqrt(precision), which is zero without noise.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from scipy.special import betainc, betaln, expit

from bayeseval._typing import Floats
from bayeseval.families.base import At, Family, Parameter

__all__ = [
    "BETA",
    "DISPERSION_PRIOR",
    "draw_shares",
    "shapes",
    "shapes_in_jax",
    "shapes_in_pytensor",
]

#: A dispersion of 0.5 is a precision of 4: scores around 50 % then have an sd of 22 %.
DISPERSION_PRIOR: Final[Mapping[str, Any]] = {
    "dist": "half_normal",
    "scale": 0.5,
    "relative": False,
}


def shapes(at: At) -> tuple[Floats, Floats]:
    """Both shape parameters, in NumPy."""
    precision = at.scale**-2
    return np.asarray(expit(at.centre) * precision), np.asarray(expit(-at.centre) * precision)


def shapes_in_jax(at: At) -> tuple[Any, Any]:
    """Both shape parameters, in JAX."""
    import jax

    precision = at.scale**-2
    return jax.nn.sigmoid(at.centre) * precision, jax.nn.sigmoid(-at.centre) * precision


def shapes_in_pytensor(at: At) -> tuple[Any, Any]:
    """Both shape parameters, in PyTensor."""
    import pymc as pm

    precision = at.scale**-2
    return pm.math.sigmoid(at.centre) * precision, pm.math.sigmoid(-at.centre) * precision


def draw_shares(rng: np.random.Generator, at: At) -> Floats:
    """Draw shares whose expectation is ``at.centre``."""
    precision = at.scale**-2
    # Extreme shares underflow to a shape of zero, which NumPy refuses.
    tiny = np.finfo(np.float64).tiny
    a = np.maximum(at.centre * precision, tiny)
    return np.asarray(rng.beta(a, np.maximum((1.0 - at.centre) * precision, tiny)))


def _log_density(observed: Floats, at: At) -> Floats:
    a, b = shapes(at)
    return np.asarray((a - 1.0) * np.log(observed) + (b - 1.0) * np.log1p(-observed) - betaln(a, b))


def _cdf(observed: Floats, at: At) -> Floats:
    a, b = shapes(at)
    return np.asarray(betainc(a, b, observed))


def _numpyro(at: At) -> Any:
    import numpyro.distributions as dist

    a, b = shapes_in_jax(at)
    return dist.Beta(a, b)


def _pymc(site: str, at: At, **observed: Any) -> Any:
    import pymc as pm

    a, b = shapes_in_pytensor(at)
    return pm.Beta(site, alpha=a, beta=b, **observed)


BETA = Family(
    name="beta",
    quantity="share",
    scale=Parameter("dispersion_beta", DISPERSION_PRIOR, typical=0.15),
    log_density=_log_density,
    numpyro=_numpyro,
    pymc=_pymc,
    draw=draw_shares,
    cdf=_cdf,
)
