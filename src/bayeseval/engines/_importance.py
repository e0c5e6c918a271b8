"""Importance sampling of a smooth density in a few dimensions.

The mode, the curvature there, a heavy-tailed proposal fitted to both, quasi-random
points, and weights smoothed and judged by Pareto-smoothed importance sampling
(Vehtari et al. 2024, "Pareto smoothed importance sampling", JMLR 25(72)).

Nothing here knows what the density is of.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
from scipy import optimize, special
from scipy.stats import qmc

__all__ = ["K_HAT_MAX", "Proposal", "Weighted", "fit_proposal", "resample", "weigh"]

Floats = npt.NDArray[np.float64]
Index = npt.NDArray[np.int64]
LogDensity = Callable[[Floats], Floats]

# Above it the weights have no reliable mean, and the smoothed estimates are biased.
K_HAT_MAX: Final = 0.7

# Degrees of freedom of the proposal: heavy enough that log-sds whose posterior
# falls off like exp(phi), towards an sd of zero, keep bounded weights.
_DF: Final = 7.0

# Steps of finite differences. The densities are exact to about 1e-9 and change over
# distances of 0.02 and more.
_GRADIENT_STEP: Final = 3e-4
_CURVATURE_STEP: Final = 1e-2

# Sds of the proposal along an axis of the curvature, relative to it.
_STRETCH: Final = (0.5, 5.0)
_REACH: Final = (1.5, 3.0)

_T_CONSTANT: Final = float(
    special.gammaln(0.5 * (_DF + 1.0)) - special.gammaln(0.5 * _DF) - 0.5 * math.log(_DF * math.pi)
)


@dataclass(frozen=True, eq=False)
class Proposal:
    """A Student-t with its own width on either side of every principal axis.

    Attributes
    ----------
    mode : ndarray, shape (n,)
        Where the density is highest.
    axes : ndarray, shape (n, n)
        Principal axes of the curvature as columns, one standard deviation long.
    stretch : ndarray, shape (2, n)
        Factors on the negative and the positive side of every axis.
    """

    mode: Floats
    axes: Floats
    stretch: Floats

    def points(self, uniform: Floats) -> tuple[Floats, Floats]:
        """Map points of the unit cube to points of the proposal.

        Parameters
        ----------
        uniform : ndarray, shape (b, n + 1)
            Points of the unit cube.

        Returns
        -------
        points : ndarray, shape (b, n)
        log_density : ndarray, shape (b,)
            Of the proposal, normalised.
        """
        # Scrambled points can land on the faces, where the quantile is infinite.
        uniform = np.clip(uniform, 1e-12, 1.0 - 1e-12)
        below, above = self.stretch
        split = below / (below + above)
        left = uniform < split
        # Both halves as upper tails of one Student-t.
        share = np.where(left, uniform / split, (1.0 - uniform) / (1.0 - split))
        radius = -special.stdtrit(_DF, 0.5 * share)
        along = np.where(left, -below, above) * radius
        log_density = (_T_CONSTANT - 0.5 * (_DF + 1.0) * np.log1p(radius**2 / _DF)).sum(axis=1)
        log_density -= np.linalg.slogdet(self.axes)[1] + np.log(0.5 * (below + above)).sum()
        return self.mode + along @ self.axes.T, log_density


def fit_proposal(log_density: LogDensity, starts: Floats) -> Proposal:
    """Proposal at the best mode that is reached from several starts.

    Parameters
    ----------
    log_density : callable
        From points (b, n) to values (b,); it may be -inf.
    starts : ndarray, shape (s, n)
        Where to start from.
    """
    found = [_climb(log_density, start) for start in starts]
    mode = max(found, key=lambda pair: pair[1])[0]
    n = len(mode)
    values, vectors = np.linalg.eigh(-_hessian(log_density, mode))
    # A direction that is flat at the mode still has a prior: its sd is of order one.
    axes = vectors / np.sqrt(np.maximum(values, 0.05))
    steps = np.concatenate([-axes.T, axes.T])
    top = log_density(mode[None])[0]
    stretch = np.zeros(2 * n)
    for reach in _REACH:
        drop = top - log_density(mode + reach * steps)
        # A normal density would have dropped by half the squared distance.
        stretch = np.maximum(stretch, reach / np.sqrt(2.0 * np.maximum(drop, 1e-3)))
    return Proposal(mode=mode, axes=axes, stretch=np.clip(stretch, *_STRETCH).reshape(2, n))


def _climb(log_density: LogDensity, start: Floats) -> tuple[Floats, float]:
    n = len(start)
    steps = _GRADIENT_STEP * np.concatenate([np.zeros((1, n)), np.eye(n), -np.eye(n)])

    def negative(point: Floats) -> tuple[float, Floats]:
        values = log_density(point + steps)
        if not np.isfinite(values).all():
            return np.inf, np.zeros(n)
        gradient = (values[1 : n + 1] - values[n + 1 :]) / (2.0 * _GRADIENT_STEP)
        return -float(values[0]), -gradient

    result = optimize.minimize(
        negative, start, jac=True, method="BFGS", options={"gtol": 1e-2, "maxiter": 200}
    )
    return result.x, -float(result.fun)


def _hessian(log_density: LogDensity, point: Floats) -> Floats:
    n, h = len(point), _CURVATURE_STEP
    rows, columns = np.triu_indices(n)
    unit = np.eye(n) * h
    corners = [
        sign_row * unit[rows] + sign_column * unit[columns]
        for sign_row in (1.0, -1.0)
        for sign_column in (1.0, -1.0)
    ]
    plus, up, down, minus = log_density(point + np.concatenate(corners)).reshape(4, -1)
    hessian = np.zeros((n, n))
    hessian[rows, columns] = (plus - up - down + minus) / (4.0 * h * h)
    return np.asarray(hessian + np.triu(hessian, 1).T)


@dataclass(frozen=True, eq=False)
class Weighted:
    """Points with importance weights.

    Attributes
    ----------
    points : ndarray, shape (chains, m, n)
        Independent sets of quasi-random points, one for every chain.
    log_weights : ndarray, shape (chains, m)
        Smoothed, normalised over all points.
    k_hat : float
        Shape of the tail of the raw weights.
    ess : float
        Effective number of points, (sum w)^2 / sum w^2 of the smoothed weights.
    log_evidence, log_evidence_se : float
        Log of the integral of the density, from the raw weights, and its standard
        error as if the points were independent (quasi-random ones do better).
    """

    points: Floats
    log_weights: Floats
    k_hat: float
    ess: float
    log_evidence: float
    log_evidence_se: float

    @property
    def efficiency(self) -> float:
        """Effective points per point."""
        return self.ess / self.log_weights.size


def weigh(
    log_density: LogDensity,
    proposal: Proposal,
    *,
    n_points: int,
    seeds: list[np.random.SeedSequence],
) -> Weighted:
    """Draw points from the proposal and weigh them.

    Parameters
    ----------
    log_density : callable
        From points (b, n) to values (b,), up to no constant.
    proposal : Proposal
        Where the points come from.
    n_points : int
        Points per chain, a power of two.
    seeds : list of SeedSequence
        One per chain: chains are independent randomisations of the points.
    """
    from arviz_stats.base import array_stats

    dimension = len(proposal.mode)
    uniform = [
        qmc.Sobol(dimension, scramble=True, rng=np.random.default_rng(seed)).random(n_points)
        for seed in seeds
    ]
    points, log_proposal = proposal.points(np.concatenate(uniform))
    raw = log_density(points) - log_proposal
    # psislw takes log likelihoods, whose negatives are the log ratios.
    smooth, k_hat = array_stats.psislw(-raw)
    smooth = np.asarray(smooth) - special.logsumexp(smooth)
    ratio = np.exp(raw - raw.max())
    return Weighted(
        points=points.reshape(len(seeds), n_points, -1),
        log_weights=smooth.reshape(len(seeds), n_points),
        k_hat=float(k_hat),
        ess=float(1.0 / np.sum(np.exp(2.0 * smooth))),
        log_evidence=float(raw.max() + np.log(ratio.mean())),
        log_evidence_se=float(ratio.std(ddof=1) / ratio.mean() / math.sqrt(len(ratio))),
    )


def resample(log_weights: Floats, n_draws: int, rng: np.random.Generator) -> tuple[Index, Index]:
    """Equally weighted draws of one chain's points, by systematic resampling.

    Parameters
    ----------
    log_weights : ndarray, shape (m,)
        Of one chain's points.
    n_draws : int
        Number of draws.
    rng : Generator
        For the offset and the order.

    Returns
    -------
    chosen : ndarray of int, shape (k,)
        Points that are drawn at all, in random order.
    repeat : ndarray of int, shape (k,)
        How often each is drawn; adds up to `n_draws`.

    Notes
    -----
    Draws of one point are meant to stand next to each other in the chain: an
    effective sample size computed from autocorrelations then counts points, and is
    not taken in by duplicates.
    """
    weights = np.exp(log_weights - special.logsumexp(log_weights))
    edges = np.concatenate([[0.0], np.cumsum(weights)]) / weights.sum()
    marks = np.floor(edges * n_draws + rng.uniform()).astype(np.int64)
    repeat = np.diff(marks)
    chosen = rng.permutation(np.flatnonzero(repeat))
    return chosen, repeat[chosen]
