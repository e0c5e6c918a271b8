"""The parameters that are not integrated out: log standard deviations, and their prior."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayeseval import names
from bayeseval._typing import Floats
from bayeseval.design import Design
from bayeseval.engines._density import log_tail
from bayeseval.spec import Prior

__all__ = ["Scales", "log_prior_density", "scales_of"]


# NumPy or jax.numpy: the same few operations serve the importance sampler and NUTS.
Namespace = Any


@dataclass(frozen=True, eq=False)
class Scales:
    """Standard deviations ``sd = low + exp(phi)`` and the prior of ``phi``.

    Attributes
    ----------
    names : tuple of str
        Parameters, in canonical order, the residual last.
    priors : tuple of Prior
        Their priors, in score units.
    low : ndarray, shape (n,)
        Lower truncation points, zero where there are none.
    """

    names: tuple[str, ...]
    priors: tuple[Prior, ...]
    low: Floats

    @property
    def n(self) -> int:
        """Number of parameters."""
        return len(self.names)

    def natural(self, phi: Any, xp: Namespace = np) -> Any:
        """Standard deviations of ``phi``, shape (..., n), score units."""
        return self.low + xp.exp(phi)

    def unconstrained(self, sd: Floats) -> Floats:
        """Inverse of :meth:`natural`."""
        return np.asarray(np.log(sd - self.low))

    def log_prior(self, phi: Any, xp: Namespace = np) -> Any:
        """Log prior density of ``phi``, shape (...): that of the sds times the Jacobian."""
        sd = self.natural(phi, xp)
        total = xp.sum(phi, axis=-1)  # d sd / d phi = exp(phi)
        for column, prior in enumerate(self.priors):
            total = total + log_prior_density(prior, xp)(sd[..., column])
        return total


def scales_of(design: Design) -> Scales:
    """Standard-deviation parameters of a design."""
    coefficients = {names.INTERCEPT, *(slope.slope for slope in design.slopes)}
    priors = {k: prior for k, prior in design.priors.items() if k not in coefficients}
    return Scales(
        names=tuple(priors),
        priors=tuple(priors.values()),
        low=np.array([prior.low or 0.0 for prior in priors.values()]),
    )


def log_prior_density(prior: Prior, xp: Namespace = np) -> Callable[[Any], Any]:
    """Normalised log density of a positive prior, truncated at its lower point.

    Parameters
    ----------
    prior : Prior
        One of the distributions on the positive half line, in score units.
    xp : module
        ``numpy`` or ``jax.numpy``.
    """
    scale, constant = float(prior.scale or 1.0), -log_tail(prior)
    if prior.dist == "half_normal":
        constant += 0.5 * math.log(2.0 / math.pi) - math.log(scale)
        return lambda sd: constant - 0.5 * (sd / scale) ** 2
    if prior.dist == "half_student_t":
        df = float(prior.df or 1.0)
        constant += math.log(2.0 / scale) - 0.5 * math.log(df * math.pi)
        constant += math.lgamma((df + 1.0) / 2.0) - math.lgamma(df / 2.0)
        return lambda sd: constant - 0.5 * (df + 1.0) * xp.log1p((sd / scale) ** 2 / df)
    if prior.dist == "exponential":
        constant -= math.log(scale)
        return lambda sd: constant - sd / scale
    shape, rate = float(prior.shape or 1.0), float(prior.rate or 1.0)
    constant += shape * math.log(rate) - math.lgamma(shape)
    return lambda sd: constant + (shape - 1.0) * xp.log(sd) - rate * sd
