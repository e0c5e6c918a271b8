"""Student-t scores: heavier tails, with the degrees of freedom as a parameter."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import gammaln, stdtr

from bayeseval import names
from bayeseval._typing import Floats
from bayeseval.families.base import SD_RESIDUAL_PRIOR, At, Family, Parameter

__all__ = ["STUDENT_T"]


def _log_density(observed: Floats, at: At) -> Floats:
    z, nu = (observed - at.centre) / at.scale, at.extra[names.NU]
    constant = gammaln((nu + 1.0) / 2.0) - gammaln(nu / 2.0) - 0.5 * np.log(nu * np.pi)
    return np.asarray(constant - np.log(at.scale) - (nu + 1.0) / 2.0 * np.log1p(z**2 / nu))


def _numpyro(at: At) -> Any:
    import numpyro.distributions as dist

    return dist.StudentT(at.extra[names.NU], at.centre, at.scale)


def _pymc(site: str, at: At, **observed: Any) -> Any:
    import pymc as pm

    return pm.StudentT(site, nu=at.extra[names.NU], mu=at.centre, sigma=at.scale, **observed)


def _draw(rng: np.random.Generator, at: At) -> Floats:
    nu = np.broadcast_to(at.extra[names.NU], np.shape(at.centre))
    return np.asarray(at.centre + at.scale * rng.standard_t(nu))


def _cdf(observed: Floats, at: At) -> Floats:
    return np.asarray(stdtr(at.extra[names.NU], (observed - at.centre) / at.scale))


STUDENT_T = Family(
    name="student_t",
    quantity="score",
    scale=Parameter(names.SD_RESIDUAL, SD_RESIDUAL_PRIOR, typical=6.0),
    extra=(
        Parameter(names.NU, {"dist": "gamma", "shape": 2.0, "rate": 0.1, "low": 1.0}, typical=5.0),
    ),
    kernel="student_t",
    log_density=_log_density,
    numpyro=_numpyro,
    pymc=_pymc,
    draw=_draw,
    cdf=_cdf,
)
