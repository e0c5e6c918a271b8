"""log p(y | sds) with every effect integrated out, and the effects given the sds.

With ``A = I + D^1/2 X'R^-1 X D^1/2`` for D the prior variances of the coefficients
and R the residual variances,

    -2 log p(y | sds) = n log 2 pi + log|R| + log|A| + y'R^-1 y - r'A^-1 r,
    r = D^1/2 X'R^-1 y.

Four devices make this cheap and keep it exact, also when an sd is zero:

- Zero-sum coefficients are ``D^1/2 (I - 11'/K) u`` with standard normal u, which is
  N(0, sd^2) on the K - 1 contrasts: X is centred within the term, once.
- The block of A that belongs to the eliminated term is diagonal (a rank-one
  correction away from it when its coefficients sum to zero), so that term is taken
  out by a Schur complement: a sum over its levels of small sparse products that do
  not depend on the sds. Levels with the same count enter together.
- The scores are a last column beside the kept ones. The Cholesky factor of the
  bordered matrix holds log|A| in its diagonal, L^-1 r in its last row, and the root
  of the whole quadratic form in its last corner.
- Many sds are worked on at once, one Cholesky factor each.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, TypeVar

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.linalg import lapack

from bayeseval import names
from bayeseval.design import Design
from bayeseval.engines._marginal_prior import Scales, scales_of
from bayeseval.engines._marginal_stats import Statistics, build_statistics

__all__ = ["Factor", "Marginal", "build_marginal", "in_parallel", "one_thread_per_call"]

Floats = npt.NDArray[np.float64]
Part = TypeVar("Part")
Result = TypeVar("Result")

# Bordered matrices worked on at once are kept to about this many bytes, which stay
# in the cache.
_BATCH_BYTES: Final = 4_000_000

_LOG_2_PI: Final = float(np.log(2.0 * np.pi))


@contextmanager
def one_thread_per_call() -> Iterator[None]:
    """Let BLAS use one thread per call: many small factors run side by side instead.

    Threads of BLAS on matrices of this size wait for each other more than they work.
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
        Cholesky factors of the kept coefficients bordered by the scores.
    precision : ndarray, shape (b, n_classes)
        Residual precision of every noise class.
    kept_sd : ndarray, shape (b, p)
        Prior sd of the kept coefficients.
    eliminated_sd : ndarray, shape (b,)
        Prior sd of the eliminated coefficients.
    ratio : ndarray, shape (b,)
        Its square over the residual variance where that is one number.
    diagonal : ndarray, shape (b, n_levels)
        Diagonal of the eliminated block of A.
    """

    lower: Floats
    precision: Floats
    kept_sd: Floats
    eliminated_sd: Floats
    ratio: Floats
    diagonal: Floats

    def __len__(self) -> int:
        return len(self.lower)


@dataclass(frozen=True, eq=False)
class Marginal:
    """Density of the scores given the sds, and of the effects given both.

    Points ``phi`` are the log-sds of :attr:`scales`.

    Attributes
    ----------
    statistics : Statistics
        Of the table.
    scales : Scales
        The parameters that are left.
    """

    statistics: Statistics
    scales: Scales

    @property
    def batch(self) -> int:
        """How many points are worked on at once."""
        return max(1, _BATCH_BYTES // (8 * (self.statistics.n_kept + 1) ** 2))

    def log_posterior(self, phi: Floats) -> Floats:
        """log p(y | phi) + log p(phi) of points (b, n), shape (b,)."""
        with np.errstate(over="ignore"):
            return np.asarray(self.log_likelihood(phi) + self.scales.log_prior(phi))

    def log_likelihood(self, phi: Floats) -> Floats:
        """log p(y | phi) of points (b, n), shape (b,).

        It is -inf at points so extreme that floating point cannot tell.
        """
        parts = [phi[i : i + self.batch] for i in range(0, len(phi), self.batch)]
        return np.concatenate(in_parallel(self._log_likelihood, parts))

    def _log_likelihood(self, phi: Floats) -> Floats:
        try:
            factor = self.factor(phi)
        except np.linalg.LinAlgError:
            if len(phi) == 1:
                return np.full(1, -np.inf)
            return np.concatenate([self._log_likelihood(point[None]) for point in phi])
        corner = np.diagonal(factor.lower, axis1=1, axis2=2)
        log_determinant = np.log(factor.diagonal).sum(axis=1)
        log_determinant += 2.0 * np.log(corner[:, :-1]).sum(axis=1)
        if self.statistics.eliminated.zero_sum:
            log_determinant += np.log((1.0 / factor.diagonal).mean(axis=1))
        cells = self.statistics.cells
        log_precision = np.log(factor.precision) @ cells.class_count
        return np.asarray(
            0.5 * (log_precision - log_determinant - corner[:, -1] ** 2)
            - 0.5 * _LOG_2_PI * cells.count.sum()
        )

    def factor(self, phi: Floats) -> Factor:
        """Cholesky factors at the points `phi`, shape (b, n).

        Raises
        ------
        numpy.linalg.LinAlgError
            If a matrix is not positive definite in floating point.
        """
        statistics = self.statistics
        kept_sd, eliminated_sd, residual = self.split(phi)
        precision = 1.0 / (residual[:, statistics.cells.level] ** 2 + statistics.cells.known)
        ratio = eliminated_sd**2
        border = np.concatenate([kept_sd, np.ones((len(phi), 1))], axis=1)
        if statistics.n_classes == 1:
            ratio = ratio * precision[:, 0]
            border *= np.sqrt(precision)
            bordered, diagonal = self._bordered_one_class(ratio)
        else:
            points = [self._bordered(w, r) for w, r in zip(precision, ratio, strict=True)]
            bordered = np.stack([matrix for matrix, _ in points])
            diagonal = np.stack([values for _, values in points])
        for block in statistics.kept:
            if block.zero_sum:
                here = block.columns
                bordered[:, here, :] -= bordered[:, here, :].mean(axis=1, keepdims=True)
                bordered[:, :, here] -= bordered[:, :, here].mean(axis=2, keepdims=True)
        bordered *= border[:, :, None]
        bordered *= border[:, None, :]
        position = np.arange(statistics.n_kept)
        bordered[:, position, position] += 1.0
        return Factor(
            lower=np.linalg.cholesky(bordered),
            precision=precision,
            kept_sd=kept_sd,
            eliminated_sd=eliminated_sd,
            ratio=ratio,
            diagonal=diagonal,
        )

    @cached_property
    def _constant(self) -> _OneClass:
        return _one_class(self.statistics, self.link(np.ones(1)))

    def _bordered_one_class(self, ratio: Floats) -> tuple[Floats, Floats]:
        """Cross-products less the eliminated term, for all points at once."""
        constant = self._constant
        diagonal = 1.0 + ratio[:, None] * constant.counts
        width = self.statistics.n_kept + 1
        weights = ratio[:, None] / diagonal
        taken = (constant.pairs @ weights.T).T.reshape(-1, width, width)
        bordered = constant.cross - taken
        diagonal = diagonal[:, constant.group]
        if self.statistics.eliminated.zero_sum:
            inverse = 1.0 / (1.0 + ratio[:, None] * constant.counts)
            total = (constant.sums @ inverse.T).T
            share = ratio / (1.0 / diagonal).sum(axis=1)
            bordered += share[:, None, None] * total[:, :, None] * total[:, None, :]
        return bordered, diagonal

    def _bordered(self, precision: Floats, ratio: float) -> tuple[Floats, Floats]:
        """The same at one point, where the noise classes differ in precision."""
        statistics = self.statistics
        first, second, target = self._pairs
        width = statistics.n_kept + 1
        diagonal = 1.0 + ratio * (statistics.count_map @ precision)
        link = statistics.link_map @ precision
        divided = link / diagonal[statistics.link_level]
        taken = np.bincount(target, divided[first] * link[second], minlength=width**2)
        bordered = (statistics.cross_map @ precision - ratio * taken).reshape(width, width)
        if statistics.eliminated.zero_sum:
            total = np.bincount(statistics.link_row, divided, minlength=width)
            bordered += ratio / (1.0 / diagonal).sum() * np.outer(total, total)
        return bordered, diagonal

    @cached_property
    def _pairs(self) -> tuple[npt.NDArray[np.int64], ...]:
        first, second = self.statistics.pairs()
        row = self.statistics.link_row
        return first, second, row[first] * (self.statistics.n_kept + 1) + row[second]

    def link(self, precision: Floats) -> sparse.csr_array:
        """Products of the eliminated columns with the kept ones and the scores.

        Parameters
        ----------
        precision : ndarray, shape (n_classes,)
            Residual precisions; with one class they are left out, see `ratio`.

        Returns
        -------
        csr_array, shape (n_levels, p + 1)
        """
        statistics = self.statistics
        one = statistics.n_classes == 1
        values = statistics.link_map @ (np.ones(1) if one else precision)
        ends = np.bincount(statistics.link_level, minlength=statistics.eliminated.size)
        start = np.concatenate([[0], np.cumsum(ends)])
        shape = (statistics.eliminated.size, statistics.n_kept + 1)
        return sparse.csr_array((values, statistics.link_row, start), shape=shape)

    def centred(self, coefficients: Floats) -> Floats:
        """Kept coefficients (..., p) with the means of zero-sum terms taken off."""
        result = coefficients.copy()
        for block in self.statistics.kept:
            if block.zero_sum:
                result[..., block.columns] -= result[..., block.columns].mean(-1, keepdims=True)
        return result

    def split(self, phi: Floats) -> tuple[Floats, Floats, Floats]:
        """Sds of the kept (b, p) and eliminated (b,) coefficients, and residual (b, levels)."""
        natural = self.scales.natural(phi)
        blocks = (*self.statistics.kept, self.statistics.eliminated)
        sds = [
            np.full(len(phi), block.known_sd)
            if block.sd is None
            else natural[:, self.scales.names.index(block.sd)]
            for block in blocks
        ]
        sizes = [block.size for block in self.statistics.kept]
        kept = np.repeat(np.stack(sds[:-1], axis=1), sizes, axis=1)
        residual = natural[:, [self.scales.names.index(names.SD_RESIDUAL)]]
        if self.scales.n_offsets:
            spread = natural[:, [self.scales.names.index(names.SD_LOG_RESIDUAL)]]
            residual = residual * np.exp(spread * phi[:, self.scales.n :])
        return kept, sds[-1], residual

    def effects(
        self, phi: Floats, repeat: npt.NDArray[np.int64], *, seed: np.random.SeedSequence
    ) -> dict[str, Floats]:
        """Draw all coefficients from their exact normal distribution given the sds.

        Parameters
        ----------
        phi : ndarray, shape (n, n_parameters)
            Points.
        repeat : ndarray of int, shape (n,)
            How many draws at each.
        seed : SeedSequence
            Source of the standard normal numbers.

        Returns
        -------
        dict of str to ndarray, shape (repeat.sum(), n_levels)
            Coefficients by term, ``intercept`` among them (one level), score units.
        """
        starts = range(0, len(phi), self.batch)
        seeds = seed.spawn(len(starts))
        parts = [
            (phi[i : i + self.batch], repeat[i : i + self.batch], np.random.default_rng(child))
            for i, child in zip(starts, seeds, strict=True)
        ]
        drawn = in_parallel(lambda part: self._effects(*part), parts)
        return {name: np.concatenate([part[name] for part in drawn]) for name in drawn[0]}

    def _effects(
        self, phi: Floats, repeat: npt.NDArray[np.int64], rng: np.random.Generator
    ) -> dict[str, Floats]:
        statistics = self.statistics
        factor = self.factor(phi)
        point = np.repeat(np.arange(len(phi)), repeat)
        noise = rng.standard_normal((len(point), statistics.n_kept + 1))
        kept = np.empty((len(point), statistics.n_kept))
        stop = np.cumsum(repeat)
        for i, (lower, first, last) in enumerate(zip(factor.lower, stop - repeat, stop, strict=True)):
            # A zero against the border's corner leaves L' u = L^-1 r + noise.
            target = noise[first:last] + lower[-1]
            target[:, -1] = 0.0
            solution, _ = lapack.dtrtrs(lower.T, target.T, lower=0)
            kept[first:last] = factor.kept_sd[i] * solution.T[:, :-1]
        kept = self.centred(kept)
        eliminated = self._eliminated_mean(factor, kept, point)
        spread = factor.eliminated_sd[:, None] / np.sqrt(factor.diagonal)
        eliminated += spread[point] * rng.standard_normal(eliminated.shape)
        if statistics.eliminated.zero_sum:
            inverse = 1.0 / factor.diagonal
            share = inverse / inverse.sum(axis=1, keepdims=True)
            eliminated -= share[point] * eliminated.sum(axis=1, keepdims=True)
        return {
            block.name: kept[:, block.columns] for block in statistics.kept
        } | {statistics.eliminated.name: eliminated}

    def _eliminated_mean(
        self, factor: Factor, kept: Floats, point: npt.NDArray[np.int64]
    ) -> Floats:
        """Mean of the eliminated coefficients given the kept ones, unconstrained, (m, K)."""
        mean = np.empty((len(kept), self.statistics.eliminated.size))
        # What the scores leave: the border less the kept columns' part.
        contrast = np.concatenate([-kept, np.ones((len(kept), 1))], axis=1)
        weight = factor.ratio[:, None] / factor.diagonal
        if self.statistics.n_classes == 1:
            mean[:] = weight[point] * (self._constant.link @ contrast.T).T
            return mean
        for i, precision in enumerate(factor.precision):
            here = point == i
            mean[here] = weight[i] * (self.link(precision) @ contrast[here].T).T
        return mean


@dataclass(frozen=True, eq=False)
class _OneClass:
    """What is constant when all residual precisions are one number.

    Levels of the eliminated term with the same count act as one group.
    """

    cross: Floats
    counts: Floats
    group: npt.NDArray[np.int64]
    pairs: sparse.csr_array
    sums: sparse.csr_array
    link: sparse.csr_array


def _one_class(statistics: Statistics, link: sparse.csr_array) -> _OneClass:
    width = statistics.n_kept + 1
    counts, group = np.unique(statistics.count_map.toarray()[:, 0], return_inverse=True)
    values = link.data
    first, second = statistics.pairs()
    target = statistics.link_row[first] * width + statistics.link_row[second]
    groups = group[statistics.link_level]
    pairs = sparse.coo_array(
        (values[first] * values[second], (target, groups[first])), shape=(width**2, len(counts))
    )
    sums = sparse.coo_array((values, (statistics.link_row, groups)), shape=(width, len(counts)))
    return _OneClass(
        cross=statistics.cross_map.toarray().reshape(width, width),
        counts=counts,
        group=group,
        pairs=pairs.tocsr(),
        sums=sums.tocsr(),
        link=link,
    )


def build_marginal(design: Design, *, eliminate: str | None = None) -> Marginal:
    """Sufficient statistics and parameters of a Gaussian design.

    Parameters
    ----------
    design : Design
        Normal likelihood, normal prior on the intercept.
    eliminate : str, optional
        Term to eliminate first; see `build_statistics`.
    """
    return Marginal(
        statistics=build_statistics(design, eliminate=eliminate), scales=scales_of(design)
    )
