"""Residual sds by level: a log-sd of every level, with a hierarchical prior.

``log sigma_k ~ N(log sd_residual, sd_log_residual^2)`` for the levels k of ``residual_by``.
Given all of them the scores remain jointly normal, with one noise class per level.

The sampled values are the log-sds themselves for levels whose records say more about them
than the prior does (*centred*), and standard normal offsets for the others. Log-sds of the
former are then nearly independent of each other and of the two parameters of their prior;
those of the latter would form a funnel.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from bayeseval import names
from bayeseval._typing import Floats
from bayeseval.design import Design

__all__ = ["Levels", "levels_of", "most_informative"]

_LOG_2_PI: Final = math.log(2.0 * math.pi)

# Equal sds are ruled out by a sum of squared distances, in standard errors, of so much per level.
_LEAST_APART: Final = 10.0


@dataclass(frozen=True, eq=False)
class Levels:
    """Residual sds of the levels of a factor.

    Attributes
    ----------
    name : str
        Variable of the posterior, such as ``sd_residual_task``.
    counts : ndarray, shape (n,)
        Number of records of each level.
    centred : ndarray of bool, shape (n,)
        Whether the log-sd is sampled, instead of its standard normal offset.
    """

    name: str
    counts: Floats
    centred: npt.NDArray[np.bool_]

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
        centre = xp.log(typical)[..., None]
        return xp.where(self.centred, values, centre + spread[..., None] * values)

    def sampled(self, log_sds: Floats, typical: Floats, spread: Floats) -> Floats:
        """Inverse of :meth:`log_sds`."""
        offsets = (log_sds - np.log(typical)[..., None]) / spread[..., None]
        return np.where(self.centred, log_sds, offsets)

    def log_prior(self, values: Any, typical: Any, spread: Any, xp: Any = np) -> Any:
        """Log density of the sampled values given the two parameters of their prior, (...)."""
        offsets = (values - xp.log(typical)[..., None]) / spread[..., None]
        offsets = xp.where(self.centred, offsets, values)
        n_centred = float(self.centred.sum())
        total = -0.5 * xp.sum(offsets**2, axis=-1) - 0.5 * self.n * _LOG_2_PI
        return total - n_centred * xp.log(spread)

    def variances(self, spread: float) -> Floats:
        """Rough posterior variances of the sampled values, shape (n,)."""
        prior = np.where(self.centred, spread**2, 1.0)
        by_records = 0.5 / np.maximum(self.counts, 1.0)
        by_records = np.where(self.centred, by_records, by_records / spread**2)
        return np.asarray(1.0 / (1.0 / prior + 1.0 / by_records))


def levels_of(design: Design) -> Levels | None:
    """Levels whose residual sds differ, all with offsets; None with one residual sd."""
    factor = design.spec.residual_by
    if factor is None or design.residual_index is None:
        return None
    n = len(design.coords[factor])
    return Levels(
        name=names.level_name(names.SD_RESIDUAL, factor),
        counts=np.bincount(design.residual_index, minlength=n).astype(np.float64),
        centred=np.zeros(n, dtype=np.bool_),
    )


def most_informative(levels: Levels, away: Floats) -> Levels:
    """Centre the levels whose records say more about their log-sd than the prior does.

    None is centred where the sds may be equal. At equal sds the density of log-sds is infinite
    for ``sd_log_residual = 0``, and importance sampling would miss the mass around that point.

    Parameters
    ----------
    levels : Levels
        The levels.
    away : ndarray, shape (n,)
        Distances of their log-sds from that of a typical level. The information of n records
        about a log-sd is at most 2 n, of which the effects take about half on a crossed table.
    """
    apart = float(levels.counts @ away**2) > _LEAST_APART * levels.n
    informative = levels.counts * np.mean(away**2) > 1.0
    return replace(levels, centred=informative & apart)
