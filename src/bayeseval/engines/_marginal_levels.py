"""Residual sds by level: a log-sd of every level, with a hierarchical prior.

``log sigma_k ~ N(log sd_residual, sd_log_residual^2)`` for the levels k of ``residual_by``.
Given all of them the scores remain jointly normal, with one noise class per level.

The sampled values are standardised conditional log-sds. What the records say about
``log sigma_k`` is close to a normal likelihood ``N(middle_k; log sigma_k, 1 / weight_k)``. Given
the two parameters of the prior, the posterior of ``log sigma_k`` then is normal too, and the
value of level k is its distance from the mean of that distribution, in its sd. Values are
nearly independent of the two parameters and of each other, whether the sds are far apart or
may be equal; log-sds themselves, or offsets from the prior's mean, form funnels or ridges.
The approximation only chooses coordinates: the density is exact for any middle and weight.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from bayeseval import names
from bayeseval._typing import Floats
from bayeseval.design import Design

__all__ = ["Levels", "informed", "levels_of"]

_LOG_2_PI: Final = math.log(2.0 * math.pi)

# Step of finite differences of log-sds, as in the curvature at the mode.
_STEP: Final = 1e-2


@dataclass(frozen=True, eq=False)
class Levels:
    """Residual sds of the levels of a factor.

    Attributes
    ----------
    name : str
        Variable of the posterior, such as ``sd_residual_task``.
    counts : ndarray, shape (n,)
        Number of records of each level.
    middle : ndarray, shape (n,)
        Log-sds that the records suggest.
    weight : ndarray, shape (n,)
        Inverse variances of these. With weights of zero the sampled values are standard
        normal offsets from the prior's mean.
    """

    name: str
    counts: Floats
    middle: Floats
    weight: Floats

    @property
    def n(self) -> int:
        """Number of levels."""
        return len(self.counts)

    def log_sds(self, values: Any, typical: Any, spread: Any, xp: Any = np) -> Any:
        """Log residual sds of all levels.

        Parameters
        ----------
        values : array, shape (..., n)
            Sampled values.
        typical, spread : array, shape (...)
            ``sd_residual`` and ``sd_log_residual``.
        xp : module
            ``numpy`` or ``jax.numpy``.
        """
        offsets, _ = self._offsets(values, typical, spread, xp)
        return xp.log(typical)[..., None] + spread[..., None] * offsets

    def sampled(self, log_sds: Floats, typical: Floats, spread: Floats) -> Floats:
        """Inverse of :meth:`log_sds`."""
        offsets = (log_sds - np.log(typical)[..., None]) / spread[..., None]
        at_zero, factor = self._offsets(np.zeros_like(log_sds), typical, spread, np)
        return np.asarray((offsets - at_zero) / factor)

    def log_prior(self, values: Any, typical: Any, spread: Any, xp: Any = np) -> Any:
        """Log density of the sampled values given the two parameters of their prior, (...)."""
        offsets, factor = self._offsets(values, typical, spread, xp)
        return xp.sum(xp.log(factor) - 0.5 * offsets**2, axis=-1) - 0.5 * self.n * _LOG_2_PI

    def variances(self, spread: float) -> Floats:
        """Rough posterior variances of the sampled values, shape (n,)."""
        # Of n records the effects take about half of their information of 2 n about a log-sd.
        by_records = np.maximum(self.counts - self.weight, 0.0)
        return np.asarray(1.0 / (1.0 + by_records / (1.0 / spread**2 + self.weight)))

    def _offsets(self, values: Any, typical: Any, spread: Any, xp: Any) -> tuple[Any, Any]:
        """Standard normal offsets from the prior's mean, and their derivatives by the values."""
        spread = spread[..., None]
        known = self.weight * spread**2
        factor = 1.0 / xp.sqrt(1.0 + known)
        pulled = self.weight * spread * factor**2 * (self.middle - xp.log(typical)[..., None])
        return pulled + factor * values, factor


def levels_of(design: Design) -> Levels | None:
    """Levels whose residual sds differ, all with offsets; None with one residual sd."""
    factor = design.spec.residual_by
    if factor is None or design.residual_index is None:
        return None
    n = len(design.coords[factor])
    return Levels(
        name=names.level_name(names.SD_RESIDUAL, factor),
        counts=np.bincount(design.residual_index, minlength=n).astype(np.float64),
        middle=np.zeros(n),
        weight=np.zeros(n),
    )


def informed(levels: Levels, log_likelihood: Callable[[Floats], Floats], log_sds: Floats) -> Levels:
    """The same levels with what the records say about each log-sd, given all other parameters.

    Parameters
    ----------
    levels : Levels
        The levels.
    log_likelihood : callable
        From log-sds of all levels, (b, n), to log likelihoods (b,), all else fixed.
    log_sds : ndarray, shape (n,)
        Log-sds near the mode.
    """
    moves = _STEP * np.eye(levels.n)
    values = log_likelihood(log_sds + np.concatenate([np.zeros((1, levels.n)), moves, -moves]))
    above, below = values[1:].reshape(2, -1)
    slope = (above - below) / (2.0 * _STEP)
    # A level whose sd may be zero has no maximum: its offsets are sampled.
    weight = np.maximum((2.0 * values[0] - above - below) / _STEP**2, 0.0)
    step = np.divide(slope, weight, out=np.zeros_like(slope), where=weight > 0.0)
    return replace(levels, middle=log_sds + step, weight=weight)
