"""log p(y | sds) with all effects integrated out, and draws of the effects given the sds.

With ``A = I + D^1/2 X'R^-1 X D^1/2`` for D the prior variances of the coefficients
and R the residual variances,

    -2 log p(y | sds) = n log 2 pi + log|R| + log|A| + y'R^-1 y - r'A^-1 r,
    r = D^1/2 X'R^-1 y.

Five devices make this cheap and keep it exact, also when an sd is zero:

- Zero-sum coefficients are ``sd (I - 11'/K) u`` with standard normal u, which is
  N(0, sd^2) on K - 1 orthonormal contrasts: cross-products are centred in the term.
- The block of A of the eliminated term is diagonal (on the contrasts, when its
  coefficients sum to zero), so it is eliminated by a Schur complement: a sum over its
  levels of small sparse products that do not depend on the sds. Levels with the same
  count are summed together.
- Coefficients that are nested in the levels of a factor, as ``language:task`` in languages,
  are eliminated next, group by group (`_marginal_layout`, `_marginal_factor`): only what
  remains is one dense matrix.
- The scores are one more column beside the kept ones. The Cholesky factor of the
  bordered matrix has log|A| on its diagonal, L^-1 r in its last row, and the square root
  of the quadratic form in its last corner.
- Memory is reused, and points are distributed among threads.

NUTS uses a JAX version of the same density (`_marginal_nuts`); here compiling would
take longer than the few thousand factorisations.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np

from bayeseval import names
from bayeseval._processes import in_threads
from bayeseval._typing import Floats, Index
from bayeseval.design import Design
from bayeseval.engines._lapack import cholesky_in_place, solve_in_place
from bayeseval.engines._marginal_factor import Factor, by_row, eliminate_nested, mirror, row_blocks
from bayeseval.engines._marginal_layout import lay_out
from bayeseval.engines._marginal_prior import Scales, scales_of
from bayeseval.engines._marginal_schur import ManyClasses, OneClass, many_classes, one_class
from bayeseval.engines._marginal_stats import Block, Statistics, build_statistics

__all__ = [
    "Factor",
    "Marginal",
    "build_marginal",
    "one_thread_per_call",
]

# Stored entries of a batch take at most this many bytes, so that they stay in the caches. Batches
# of up to 16 points may take more: their points share the calls from Python, during which other
# threads wait. (On MEGA, `crossed` takes 0.35 ms for a point in batches of 16, 0.43 ms in batches
# of 8; `interaction` 0.022 ms in batches of 200, 0.027 ms in batches of 400.)
_BATCH_BYTES: Final = 4_000_000
_SMALL_BATCH: Final = 16
_SMALL_BATCH_BYTES: Final = 8_000_000

_LOG_2_PI: Final = float(np.log(2.0 * np.pi))


@contextmanager
def one_thread_per_call() -> Iterator[None]:
    """Let BLAS use one thread per call, as many small factorisations run in parallel.

    On matrices of this size the threads of BLAS mostly wait for each other.
    """
    from threadpoolctl import threadpool_limits

    with threadpool_limits(limits=1, user_api="blas"):
        yield


class _Part(NamedTuple):
    """Points of a batch, where their draws are in all draws, and the seed of these."""

    points: slice
    draws: slice
    seed: np.random.SeedSequence


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

    def without_nesting(self) -> Marginal:
        """The same density with the entries of A stored as one dense matrix."""
        dense = lay_out(self.statistics.n_kept, [])
        return replace(self, statistics=replace(self.statistics, layout=dense))

    @property
    def batch(self) -> int:
        """Number of points in a batch."""
        point = 8 * self.statistics.layout.size
        small = min(_SMALL_BATCH, _SMALL_BATCH_BYTES // point)
        return max(1, small, _BATCH_BYTES // point)

    def log_posterior(self, phi: Floats) -> Floats:
        """Log p(y | phi) + log p(phi) of points (b, n), shape (b,)."""
        return np.asarray(self.log_likelihood(phi) + self.scales.log_prior(phi))

    def log_likelihood(self, phi: Floats) -> Floats:
        """Log p(y | phi) of points (b, n), shape (b,).

        It is -inf at points so extreme that the factorisation fails numerically.
        """
        return np.concatenate(in_threads(self._log_likelihood, self._parts(phi)))

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
        counts = np.full(len(phi), repeat)
        effects = self._empty_effects(int(counts.sum()))

        def work(part: _Part) -> Floats:
            factor = self.factor(phi[part.points], reuse_memory=True)
            self._draw(factor, counts[part.points], part, effects)
            return self._value(factor)

        value = np.concatenate(in_threads(work, self._parts_with_seeds(counts, seed)))
        shape = (len(phi), repeat, -1)
        return value + self.scales.log_prior(phi), {
            name: values.reshape(shape) for name, values in effects.items()
        }

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
        effects = self._empty_effects(int(repeat.sum()))

        def work(part: _Part) -> None:
            factor = self.factor(phi[part.points], reuse_memory=True)
            self._draw(factor, repeat[part.points], part, effects)

        in_threads(work, self._parts_with_seeds(repeat, seed))
        return effects

    def _empty_effects(self, n: int) -> dict[str, Floats]:
        statistics = self.statistics
        sizes = {block.name: block.size for block in (*statistics.kept, statistics.eliminated)}
        return {name: np.empty((n, size)) for name, size in sizes.items()}

    def _parts_with_seeds(self, repeat: Index, seed: np.random.SeedSequence) -> list[_Part]:
        edges = np.concatenate([[0], np.cumsum(repeat)])
        cuts = [*range(0, len(repeat), self.batch), len(repeat)]
        spans = list(zip(cuts[:-1], cuts[1:], strict=True))
        return [
            _Part(slice(low, high), slice(int(edges[low]), int(edges[high])), child)
            for (low, high), child in zip(spans, seed.spawn(len(spans)), strict=True)
        ]

    def _draw(
        self, factor: Factor, repeat: Index, part: _Part, effects: Mapping[str, Floats]
    ) -> None:
        """Write the draws of a part's points to their place."""
        own = {name: values[part.draws] for name, values in effects.items()}
        self._effects(factor, repeat, np.random.default_rng(part.seed), out=own)

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
        statistics, layout = self.statistics, self.statistics.layout
        n_points, c = len(kept_sd), layout.n_core
        stored = self._memory(n_points) if reuse_memory else np.empty((n_points, layout.size))
        ratio = eliminated_sd**2
        if statistics.n_classes == 1:
            ratio = ratio * precision[:, 0]
        diagonal = self.schur.reduce(ratio, precision, out=stored)
        nested = eliminate_nested(layout, stored, kept_sd[:, layout.columns])
        core = layout.core(stored)
        mirror(core)
        self._apply_relations(core, roots)
        border = np.concatenate([kept_sd[:, :c], np.ones((n_points, 1))], axis=1)
        core *= border[:, :, None]
        core *= border[:, None, :]
        position = np.arange(c)
        core[:, position, position] += 1.0
        core[~cholesky_in_place(core)] = np.nan
        return Factor(
            nested=nested,
            core=core,
            precision=precision,
            kept_sd=kept_sd,
            roots=roots,
            eliminated_sd=eliminated_sd,
            ratio=ratio,
            diagonal=diagonal,
        )

    def _apply_relations(self, core: Floats, roots: Mapping[str, Floats]) -> None:
        """Multiply the core by the roots of related levels from both sides, and centre others."""
        for block in self.core_blocks:
            root, at = roots.get(block.name), block.columns
            if root is not None:
                core[:, at] = root.transpose(0, 2, 1) @ core[:, at]
                core[:, :, at] = core[:, :, at] @ root
            elif block.zero_sum:
                core[:, at] -= core[:, at].mean(axis=1, keepdims=True)
                core[:, :, at] -= core[:, :, at].mean(axis=2, keepdims=True)

    @cached_property
    def core_blocks(self) -> list[Block]:
        """The kept terms whose coefficients are not nested."""
        n_core = self.statistics.layout.n_core
        return [block for block in self.statistics.kept if block.columns.stop <= n_core]

    def kept_draws(self, factor: Factor, white: Floats, counts: Index) -> Floats:
        """Draws of the kept coefficients, the intercept minus `Cells.centre`.

        Parameters
        ----------
        factor : Factor
            Factors at a batch of points.
        white : ndarray, shape (m, p + 1)
            Standard normal noise, whose last column is not used; zeros for the mean.
        counts : ndarray of int, shape (b,)
            How many draws belong to each point; adds up to m.

        Returns
        -------
        ndarray, shape (m, p)
        """
        layout, c = self.statistics.layout, self.statistics.layout.n_core
        point = np.repeat(np.arange(len(counts)), counts)
        # With a zero in the border's corner the system is L'u = L^-1 r + noise.
        core = np.concatenate([white[:, :c], np.zeros((len(white), 1))], axis=1)
        core[:, :c] += factor.core[point, -1, :c]
        solve_in_place(factor.core, core, counts, transposed=True)
        core[:, :c] = self.scaled_core(factor, core[:, :c], point)
        result = np.empty((len(white), layout.n_kept))
        result[:, :c] = core[:, :c]
        if layout.n_nested:
            core[:, c] = -1.0
            # Nested coefficients that sum to zero are not centred: their factor does that.
            nested = factor.nested.coefficients(white[:, layout.columns], core, counts)
            result[:, layout.columns] = factor.kept_sd[point][:, layout.columns] * nested
        return result

    def scaled_core(
        self, factor: Factor, core: Floats, point: Index, *, transposed: bool = False
    ) -> Floats:
        """Multiply rows by the root of the prior covariance of the core coefficients.

        Parameters
        ----------
        factor : Factor
            Factors at a batch of points.
        core : ndarray, shape (m, c)
            Standard normal values, or rows of the linear predictor.
        point : ndarray of int, shape (m,)
            Point of the batch that each belongs to.
        transposed : bool
            Multiply by the transposed root, as for rows of the linear predictor.
        """
        result = factor.kept_sd[point, : core.shape[1]] * core
        for block in self.core_blocks:
            values = result[:, block.columns]
            root = factor.roots.get(block.name)
            if root is not None:
                root = root.transpose(0, 2, 1) if transposed else root
                result[:, block.columns] = (root[point] @ values[..., None])[..., 0]
            elif block.zero_sum:
                values -= values.mean(axis=1, keepdims=True)
        return result

    def _parts(self, points: Floats) -> list[Floats]:
        return [points[i : i + self.batch] for i in range(0, len(points), self.batch)]

    @cached_property
    def schur(self) -> OneClass | ManyClasses:
        """Elimination of the eliminated term, by the number of noise classes."""
        if self.statistics.n_classes == 1:
            return one_class(self.statistics)
        return many_classes(self.statistics)

    @cached_property
    def _local(self) -> threading.local:
        return threading.local()

    def _memory(self, n_points: int) -> Floats:
        held: Floats | None = getattr(self._local, "held", None)
        if held is None or len(held) < n_points:
            shape = (max(n_points, self.batch), self.statistics.layout.size)
            held = self._local.held = np.empty(shape)
        return held[:n_points]

    def _log_likelihood(self, phi: Floats) -> Floats:
        return self._value(self.factor(phi, reuse_memory=True))

    def _value(self, factor: Factor) -> Floats:
        log_determinant = factor.log_determinant.copy()
        log_determinant += by_row(factor.diagonal, lambda rows: np.log(rows).sum(axis=1))
        if self.statistics.eliminated.zero_sum:
            mean = by_row(factor.diagonal, lambda rows: (1.0 / rows).mean(axis=1))
            log_determinant += np.log(mean)
        cells = self.statistics.cells
        log_precision = np.log(factor.precision) @ cells.class_count
        value = 0.5 * (log_precision - log_determinant - factor.quadratic_form)
        value += cells.log_units - 0.5 * _LOG_2_PI * cells.count.sum()
        return np.where(np.isnan(value), -np.inf, value)

    def _effects(
        self,
        factor: Factor,
        repeat: Index,
        rng: np.random.Generator,
        *,
        out: Mapping[str, Floats] | None = None,
    ) -> Mapping[str, Floats]:
        """Draws at the points of a batch, written to `out` where that is given."""
        statistics = self.statistics
        point = np.repeat(np.arange(len(repeat)), repeat)
        noise = rng.standard_normal((len(point), statistics.n_kept + 1))
        kept = self.kept_draws(factor, noise, repeat)
        drawn = self._empty_effects(len(point)) if out is None else out
        for block in statistics.kept:
            drawn[block.name][:] = kept[:, block.columns]
        drawn[names.INTERCEPT][:] += statistics.cells.centre
        total = None
        if statistics.eliminated.zero_sum:
            total = by_row(factor.diagonal, lambda rows: (1.0 / rows).sum(axis=1))
        eliminated = drawn[statistics.eliminated.name]
        # In blocks: a batch of few stored entries may have thousands of draws, of every level.
        for rows in row_blocks(*eliminated.shape):
            eliminated[rows] = self._eliminated(factor, kept[rows], point[rows], total, rng)
        return drawn

    def _eliminated(
        self,
        factor: Factor,
        kept: Floats,
        point: Index,
        total: Floats | None,
        rng: np.random.Generator,
    ) -> Floats:
        """Draws of the eliminated coefficients given the kept ones.

        With a zero-sum constraint `total` is the sum of the inverse diagonal, shape (b,).
        """
        values = self.eliminated_mean(factor, kept, point)
        diagonal = factor.diagonal[point]
        spread = factor.eliminated_sd[point, None] / np.sqrt(diagonal)
        spread *= rng.standard_normal(values.shape)
        values += spread
        if total is not None:
            share = 1.0 / diagonal
            share /= total[point, None]
            share *= values.sum(axis=1, keepdims=True)
            values -= share
        return values

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
        if isinstance(self.schur, OneClass):
            weight = factor.ratio[point, None] / factor.diagonal[point]
            return np.asarray(weight * (self.schur.link(factor.precision[0]) @ contrast.T).T)
        points, first = np.unique(point, return_index=True)
        parts = (
            (factor.ratio[i] / factor.diagonal[i])
            * (self.schur.link(factor.precision[i]) @ contrast[low:high].T).T
            for i, low, high in zip(points, first, [*first[1:], len(point)], strict=True)
        )
        return np.concatenate(list(parts))


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
