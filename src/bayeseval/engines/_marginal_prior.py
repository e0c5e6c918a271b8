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
from bayeseval.engines._marginal_levels import Levels, levels_of
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
    low : ndarray, shape (len(names),)
        Lower truncation points, zero where there are none.
    levels : Levels or None
        Residual sds by level, in further columns after the named parameters.
    """

    names: tuple[str, ...]
    priors: tuple[Prior, ...]
    low: Floats
    levels: Levels | None = None

    @property
    def n(self) -> int:
        """Number of parameters."""
        return len(self.names) + (0 if self.levels is None else self.levels.n)

    def natural(self, phi: Any, xp: Namespace = np) -> Any:
        """Standard deviations of ``phi``, shape (..., n), score units."""
        if self.levels is None:
            return self.low + xp.exp(phi)
        split = len(self.names)
        sd = self.low + xp.exp(phi[..., :split])
        log_sds = self.levels.log_sds(phi[..., split:], *self._of_levels(sd), xp)
        return xp.concatenate([sd, xp.exp(log_sds)], axis=-1)

    def unconstrained(self, sd: Floats) -> Floats:
        """Inverse of :meth:`natural`."""
        split = len(self.names)
        phi = np.log(sd[..., :split] - self.low)
        if self.levels is None:
            return np.asarray(phi)
        values = self.levels.sampled(np.log(sd[..., split:]), *self._of_levels(sd))
        return np.concatenate([phi, values], axis=-1)

    def residual(self, natural: Any) -> Any:
        """Residual sds among the values of :meth:`natural`: of every level, or the only one."""
        if self.levels is None:
            column = self.names.index(names.SD_RESIDUAL)
            return natural[..., column : column + 1]
        return natural[..., len(self.names) :]

    def log_prior(self, phi: Any, xp: Namespace = np) -> Any:
        """Log prior density of ``phi``, shape (...): that of the sds times the Jacobian."""
        split = len(self.names)
        sd = self.low + xp.exp(phi[..., :split])
        total = xp.sum(phi[..., :split], axis=-1)  # d sd / d phi = exp(phi)
        for column, prior in enumerate(self.priors):
            total = total + log_prior_density(prior, xp)(sd[..., column])
        if self.levels is not None:
            total = total + self.levels.log_prior(phi[..., split:], *self._of_levels(sd), xp)
        return total

    def _of_levels(self, sd: Any) -> tuple[Any, Any]:
        typical, spread = (
            sd[..., self.names.index(name)] for name in (names.SD_RESIDUAL, names.SD_LOG_RESIDUAL)
        )
        return typical, spread


def scales_of(design: Design) -> Scales:
    """Standard-deviation parameters of a design."""
    coefficients = {names.INTERCEPT, *(slope.slope for slope in design.slopes)}
    priors = {k: prior for k, prior in design.priors.items() if k not in coefficients}
    return Scales(
        names=tuple(priors),
        priors=tuple(priors.values()),
        low=np.array([prior.low or 0.0 for prior in priors.values()]),
        levels=levels_of(design),
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
