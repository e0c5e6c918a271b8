"""Normal scores."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import special

from bayeseval import names
from bayeseval._typing import Floats
from bayeseval.families.base import SD_RESIDUAL_PRIOR, At, Family, Parameter

__all__ = ["NORMAL", "cdf", "log_density", "numpyro", "pymc"]


def log_density(observed: Floats, at: At) -> Floats:
    """Log density of a normal distribution."""
    density = (observed - at.centre) / at.scale
    # In place: there is a value for every record and draw, and more memory takes more time.
    density *= density
    density *= -0.5
    density -= np.log(at.scale)
    density -= 0.5 * np.log(2.0 * np.pi)
    return np.asarray(density)


def numpyro(at: At) -> Any:
    """Normal distribution in NumPyro."""
    import numpyro.distributions as dist

    return dist.Normal(at.centre, at.scale)


def pymc(site: str, at: At, **observed: Any) -> Any:
    """Normal variable in PyMC."""
    import pymc as pm

    return pm.Normal(site, mu=at.centre, sigma=at.scale, **observed)


def _draw(rng: np.random.Generator, at: At) -> Floats:
    return np.asarray(at.centre + at.scale * rng.standard_normal(np.shape(at.centre)))


def cdf(observed: Floats, at: At) -> Floats:
    """Distribution function of a normal distribution."""
    return np.asarray(special.ndtr((observed - at.centre) / at.scale))


NORMAL = Family(
    name="normal",
    quantity="score",
    scale=Parameter(names.SD_RESIDUAL, SD_RESIDUAL_PRIOR, typical=6.0),
    kernel="normal",
    log_density=log_density,
    numpyro=numpyro,
    pymc=pymc,
    draw=_draw,
    cdf=cdf,
)
