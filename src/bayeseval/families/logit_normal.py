"""Scores whose share of the range has a normal logit."""

from __future__ import annotations

import numpy as np
from scipy.special import expit

from bayeseval import names
from bayeseval._typing import Floats
from bayeseval.families.base import SD_RESIDUAL_PRIOR, At, Family, Parameter
from bayeseval.families.normal import cdf, log_density, numpyro, pymc

__all__ = ["LOGIT_NORMAL"]


def _draw(rng: np.random.Generator, at: At) -> Floats:
    noise = rng.standard_normal(np.shape(at.centre))
    return np.asarray(expit(at.centre + at.scale * noise))


LOGIT_NORMAL = Family(
    name="logit_normal",
    quantity="logit",
    scale=Parameter(names.SD_RESIDUAL, SD_RESIDUAL_PRIOR, typical=0.4),
    kernel="normal",
    log_density=log_density,
    numpyro=numpyro,
    pymc=pymc,
    draw=_draw,
    cdf=cdf,
)
