"""log p(y | sds) with all effects integrated out, and draws of the effects given the sds.

With ``A = I + D^1/2 X'R^-1 X D^1/2`` for D the prior variances of the coefficients
and R the residual variances,

    -2 log p(y | sds) = n log 2 pi + log|R| + log|A| + y'R^-1 y - r'A^-1 r,
    r = D^1/2 X'R^-1 y.

Four devices make this cheap and keep it exact, also when an sd is zero:

- Zero-sum coefficients are ``sd (I - 11'/K) u`` with standard normal u, which is
  N(0, sd^2) on K - 1 orthonormal contrasts: cross-products are centred in the term.
- The block of A of the eliminated term is diagonal (on the contrasts, when its
  coefficients sum to zero), so it is eliminated by a Schur complement: a sum over its
  levels of small sparse products that do not depend on the sds. Levels with the same
  count are summed together.
- The scores are one more column beside the kept ones. The Cholesky factor of the
  bordered matrix has log|A| on its diagonal, L^-1 r in its last row, and the square root
  of the quadratic form in its last corner.
- Memory is reused, and points are distributed among threads.

NUTS uses a JAX version of the same density (`_marginal_nuts`); here compiling would
take longer than the few thousand factorisations.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Final, TypeVar

import numpy as np
import numpy.typing as npt

from bayeseval import names
from bayeseval._typing import Floats, Index
from bayeseval.design import Design
from bayeseval.engines._lapack import cholesky_in_place, solve_in_place
from bayeseval.engines._marginal_prior import Scales, scales_of
from bayeseval.engines._marginal_schur import (
    ManyClasses,
    OneClass,
    meeting_links,
    one_class,
)
from bayeseval.engines._marginal_stats import Statistics, build_statistics

__all__ = [
    "Factor",
    "Marginal",
    "build_marginal",
    "in_parallel",
    "one_thread_per_call",
]

Part = TypeVar("Part")
Result = TypeVar("Result")
Scalar = TypeVar("Scalar", np.float64, np.int64)

# Bordered matrices of a batch take about this many bytes, so that they stay in a core's
# cache.
_BATCH_BYTES: Final = 1_500_000

_LOG_2_PI: Final = float(np.log(2.0 * np.pi))


@contextmanager
def one_thread_per_call() -> Iterator[None]:
    """Let BLAS use one thread per call, as many small factorisations run in parallel.

    On matrices of this size the threads of BLAS mostly wait for each other.
    """
    from threadpoolctl import threadpool_limits

    with threadpool_limits(limits=1, user_api="blas"):
        yield


def in_parallel(work: Callable[[Part], Result], parts: Sequence[Part]) -> list[Result]:
    """Results of independent parts, on as many cores as this process may use."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    if len(parts) < 2 or cores == 1:
        return [work(part) for part in parts]
    with ThreadPoolExecutor(cores) as pool:
        return list(pool.map(work, parts))


@dataclass(frozen=True, eq=False)
class Factor:
    """The bordered Cholesky factors at a batch of parameter points.

    Attributes
    ----------
    lower : ndarray, shape (b, p + 1, p + 1)
        Cholesky factors of the kept coefficients bordered by the scores; entries above
        their diagonals are undefined.
    precision : ndarray, shape (b, n_classes)
        Residual precision of every noise class.
    kept_sd : ndarray, shape (b, p)
        Prior sd of the kept coefficients; 1 for related levels.
    roots : dict of str to ndarray, shape (b, n_levels, n_levels)
        Roots of the prior covariance of related levels, by term.
    eliminated_sd : ndarray, shape (b,)
        Prior sd of the eliminated coefficients.
    ratio : ndarray, shape (b,)
        Its square, divided by the residual variance if there is one noise class.
    diagonal : ndarray, shape (b, n_levels)
        Diagonal of the eliminated block of A.
    """

    lower: Floats
    precision: Floats
    kept_sd: Floats
    roots: Mapping[str, Floats]
    eliminated_sd: Floats
    ratio: Floats
    diagonal: Floats


@dataclass(frozen=True, eq=False)
class Marginal:
    """Density of the scores given the sds, and of the effects given both.

    Points ``phi`` are the log-sds of :attr:`scales`.

    Attributes
    ----------
    statistics : Statistics
        Sufficient statistics of the table.
    scales : Scales
        The parameters that are not integrated out.
    """

    statistics: Statistics
    scales: Scales

    @property
    def batch(self) -> int:
        """Number of points in a batch."""
        return max(1, _BATCH_BYTES // (8 * (self.statistics.n_kept + 1) ** 2))

    def log_posterior(self, phi: Floats) -> Floats:
        """Log p(y | phi) + log p(phi) of points (b, n), shape (b,)."""
        return np.asarray(self.log_likelihood(phi) + self.scales.log_prior(phi))

    def log_likelihood(self, phi: Floats) -> Floats:
        """Log p(y | phi) of points (b, n), shape (b,).

        It is -inf at points so extreme that the factorisation fails numerically.
        """
        return np.concatenate(in_parallel(self._log_likelihood, self._parts(phi)))

    def log_posterior_and_effects(
        self, phi: Floats, repeat: int, *, seed: np.random.SeedSequence
    ) -> tuple[Floats, dict[str, Floats]]:
        """Log posterior and draws of the effects, from one factorisation per point.

        Parameters
        ----------
        phi : ndarray, shape (b, n)
            Points.
        repeat : int
            Number of draws of the effects at each point.
        seed : SeedSequence
            Seed of the standard normal numbers.

        Returns
        -------
        log_posterior : ndarray, shape (b,)
        effects : dict of str to ndarray, shape (b, repeat, n_levels)
            As from :meth:`effects`.
        """

        def work(part: tuple[Floats, np.random.SeedSequence]) -> tuple[Floats, dict[str, Floats]]:
            points, child = part
            factor = self.factor(points, reuse_memory=True)
            count = np.full(len(points), repeat)
            effects = self._effects(factor, count, np.random.default_rng(child))
            return self._value(factor), effects

        parts = self._parts(phi)
        done = in_parallel(work, list(zip(parts, seed.spawn(len(parts)), strict=True)))
        value = np.concatenate([part for part, _ in done]) + self.scales.log_prior(phi)
        shape = (len(phi), repeat, -1)
        effects = {
            name: np.concatenate([part[name] for _, part in done]).reshape(shape)
            for name in done[0][1]
        }
        return value, effects

    def effects(
        self, phi: Floats, repeat: Index, *, seed: np.random.SeedSequence
    ) -> dict[str, Floats]:
        """Draw all coefficients from their exact normal distribution given the sds.

        Parameters
        ----------
        phi : ndarray, shape (b, n)
            Points.
        repeat : ndarray of int, shape (b,)
            Number of draws at each point.
        seed : SeedSequence
            Seed of the standard normal numbers.

        Returns
        -------
        dict of str to ndarray, shape (repeat.sum(), n_levels)
            Coefficients by term, including ``intercept`` (one level), score units.
        """
        parts = self._parts(phi)
        seeds = seed.spawn(len(parts))
        counts = self._parts(repeat)

        def work(part: tuple[Floats, Index, np.random.SeedSequence]) -> dict[str, Floats]:
            points, count, child = part
            factor = self.factor(points, reuse_memory=True)
            return self._effects(factor, count, np.random.default_rng(child))

        done = in_parallel(work, list(zip(parts, counts, seeds, strict=True)))
        return {name: np.concatenate([part[name] for part in done]) for name in done[0]}

    def factor(self, phi: Floats, *, reuse_memory: bool = False) -> Factor:
        """Cholesky factors at the points `phi`, shape (b, n).

        Parameters
        ----------
        phi : ndarray, shape (b, n)
            Points.
        reuse_memory : bool
            Overwrite the factors that this thread got from the last such call.
        """
        natural = self.scales.natural(phi)

        def of(name: str) -> Floats:
            return np.asarray(natural[:, self.scales.names.index(name)])

        cells = self.statistics.cells
        precision = 1.0 / (self.scales.residual(natural)[:, cells.level] ** 2 + cells.known)
        return self.factor_at(
            *self.statistics.prior_sds(len(phi), of),
            precision,
            roots=self.statistics.prior_roots(of),
            reuse_memory=reuse_memory,
        )

    def factor_at(
        self,
        kept_sd: Floats,
        eliminated_sd: Floats,
        precision: Floats,
        *,
        roots: Mapping[str, Floats],
        reuse_memory: bool = False,
    ) -> Factor:
        """:meth:`factor` at given sds and precisions.

        Parameters
        ----------
        kept_sd : ndarray, shape (b, p)
            Prior sd of the kept coefficients.
        eliminated_sd : ndarray, shape (b,)
            Prior sd of the eliminated coefficients.
        precision : ndarray, shape (b, n_classes)
            Residual precision of every noise class.
        roots : dict of str to ndarray, shape (b, n_levels, n_levels)
            Roots of the prior covariance of related levels, by term.
        reuse_memory : bool
            Overwrite the factors that this thread got from the last such call.
        """
        statistics = self.statistics
        n_points, width = len(kept_sd), statistics.n_kept + 1
        shape = (n_points, width, width)
        bordered = self._memory(n_points) if reuse_memory else np.empty(shape)
        border = np.concatenate([kept_sd, np.ones((n_points, 1))], axis=1)
        if statistics.n_classes == 1:
            ratio = eliminated_sd**2 * precision[:, 0]
            border *= np.sqrt(precision)
        else:
            ratio = eliminated_sd**2
        diagonal = self.schur.reduce(ratio, precision, out=bordered)
        for block in statistics.kept:
            root = roots.get(block.name)
            if root is not None:
                rows, columns = bordered[:, block.columns], bordered[:, :, block.columns]
                rows[:] = root.transpose(0, 2, 1) @ rows
                columns[:] = columns @ root
            elif block.zero_sum:
                rows, columns = bordered[:, block.columns], bordered[:, :, block.columns]
                np.subtract(rows, rows.mean(axis=1, keepdims=True), out=rows)
                np.subtract(columns, columns.mean(axis=2, keepdims=True), out=columns)
        bordered *= border[:, :, None]
        bordered *= border[:, None, :]
        position = np.arange(statistics.n_kept)
        bordered[:, position, position] += 1.0
        bordered[~cholesky_in_place(bordered)] = np.nan
        return Factor(
            lower=bordered,
            precision=precision,
            kept_sd=kept_sd,
            roots=roots,
            eliminated_sd=eliminated_sd,
            ratio=ratio,
            diagonal=diagonal,
        )

    def scaled(
        self, factor: Factor, kept: Floats, point: Index, *, transposed: bool = False
    ) -> Floats:
        """Multiply rows by the root of the prior covariance of the kept coefficients.

        Parameters
        ----------
        factor : Factor
            Factors at a batch of points.
        kept : ndarray, shape (m, p)
            Standard normal values, or rows of the linear predictor.
        point : ndarray of int, shape (m,)
            Point of the batch that each belongs to.
        transposed : bool
            Multiply by the transposed root, as for rows of the linear predictor.
        """
        result = factor.kept_sd[point] * kept
        for block in self.statistics.kept:
            values = result[:, block.columns]
            root = factor.roots.get(block.name)
            if root is not None:
                root = root.transpose(0, 2, 1) if transposed else root
                result[:, block.columns] = (root[point] @ values[..., None])[..., 0]
            elif block.zero_sum:
                values -= values.mean(axis=1, keepdims=True)
        return result

    def _parts(self, points: npt.NDArray[Scalar]) -> list[npt.NDArray[Scalar]]:
        return [points[i : i + self.batch] for i in range(0, len(points), self.batch)]

    @cached_property
    def schur(self) -> OneClass | ManyClasses:
        """Elimination of the eliminated term, by the number of noise classes."""
        if self.statistics.n_classes == 1:
            return one_class(self.statistics)
        return ManyClasses(self.statistics, meeting_links(self.statistics))

    @cached_property
    def _local(self) -> threading.local:
        return threading.local()

    def _memory(self, n_points: int) -> Floats:
        held: Floats | None = getattr(self._local, "held", None)
        if held is None or len(held) < n_points:
            width = self.statistics.n_kept + 1
            held = self._local.held = np.empty((max(n_points, self.batch), width, width))
        return held[:n_points]

    def _log_likelihood(self, phi: Floats) -> Floats:
        return self._value(self.factor(phi, reuse_memory=True))

    def _value(self, factor: Factor) -> Floats:
        corner = np.diagonal(factor.lower, axis1=1, axis2=2)
        log_determinant = np.log(factor.diagonal).sum(axis=1)
        log_determinant += 2.0 * np.log(corner[:, :-1]).sum(axis=1)
        if self.statistics.eliminated.zero_sum:
            log_determinant += np.log((1.0 / factor.diagonal).mean(axis=1))
        cells = self.statistics.cells
        log_precision = np.log(factor.precision) @ cells.class_count
        value = 0.5 * (log_precision - log_determinant - corner[:, -1] ** 2)
        value += cells.log_units - 0.5 * _LOG_2_PI * cells.count.sum()
        return np.where(np.isnan(value), -np.inf, value)

    def _effects(
        self, factor: Factor, repeat: Index, rng: np.random.Generator
    ) -> dict[str, Floats]:
        statistics = self.statistics
        point = np.repeat(np.arange(len(repeat)), repeat)
        # With a zero in the border's corner the system is L'u = L^-1 r + noise.
        target = rng.standard_normal((len(point), statistics.n_kept + 1))
        target += factor.lower[point, -1]
        target[:, -1] = 0.0
        solve_in_place(factor.lower, target, repeat, transposed=True)
        kept = self.scaled(factor, target[:, :-1], point)

        eliminated = self.eliminated_mean(factor, kept, point)
        spread = factor.eliminated_sd[:, None] / np.sqrt(factor.diagonal)
        eliminated += spread[point] * rng.standard_normal(eliminated.shape)
        if statistics.eliminated.zero_sum:
            inverse = 1.0 / factor.diagonal
            share = inverse / inverse.sum(axis=1, keepdims=True)
            eliminated -= share[point] * eliminated.sum(axis=1, keepdims=True)
        drawn = {block.name: kept[:, block.columns] for block in statistics.kept}
        drawn[names.INTERCEPT] = drawn[names.INTERCEPT] + statistics.cells.centre
        return drawn | {statistics.eliminated.name: eliminated}

    def eliminated_mean(self, factor: Factor, kept: Floats, point: Index) -> Floats:
        """Mean of the eliminated coefficients given the kept ones, without a zero-sum constraint.

        Parameters
        ----------
        factor : Factor
            Factors at a batch of points.
        kept : ndarray, shape (m, p)
            Kept coefficients, the intercept minus `Cells.centre`.
        point : ndarray of int, shape (m,)
            Point of the batch that each belongs to, in ascending order.

        Returns
        -------
        ndarray, shape (m, n_levels)
        """
        # Residuals of the scores: the border minus the contribution of the kept columns.
        contrast = np.concatenate([-kept, np.ones((len(kept), 1))], axis=1)
        weight = factor.ratio[:, None] / factor.diagonal
        if isinstance(self.schur, OneClass):
            return np.asarray(weight[point] * (self.schur.link(factor.precision[0]) @ contrast.T).T)
        parts = [
            weight[i] * (self.schur.link(precision) @ contrast[point == i].T).T
            for i, precision in enumerate(factor.precision)
        ]
        return np.concatenate(parts)


def build_marginal(
    design: Design,
    *,
    eliminate: str | None = None,
    loadings: Mapping[str, tuple[Floats, Floats]] | None = None,
) -> Marginal:
    """Sufficient statistics and parameters of a Gaussian design.

    Parameters
    ----------
    design : Design
        Normal likelihood, normal prior on the intercept, one residual sd.
    eliminate : str, optional
        Term to eliminate first; see `build_statistics`.
    loadings : mapping of str to pair of ndarray, optional
        Of low-rank interactions; see `build_statistics`.
    """
    return Marginal(
        statistics=build_statistics(design, eliminate=eliminate, loadings=loadings),
        scales=scales_of(design),
    )
