"""Predictive densities of left-out records and groups, in closed form.

Given the sds the scores are jointly normal with covariance V, so the density of some of
them given all others follows from blocks of V^-1, and

    V^-1 = R^-1 - R^-1 C R^-1,   C the posterior covariance of the expected scores.

Nothing is refitted, and importance sampling is needed for the sds only: with
``log p(y_i | y_-i, sds)`` in place of a log likelihood, PSIS-LOO estimates
``log p(y_i | y_-i)``, because the posterior without record i is proportional to the full
posterior divided by this density. The same holds for groups of records.

One record: Rasmussen and Williams (2006), "Gaussian processes for machine learning",
section 5.4.2. Groups: the same with blocks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, get_args

import numpy as np
import xarray as xr
from scipy import sparse

from bayeseval import names
from bayeseval._arguments import as_whole_number
from bayeseval._processes import in_threads
from bayeseval._typing import Floats, Index
from bayeseval.design import Design
from bayeseval.engines._lapack import cholesky_in_place, solve_in_place
from bayeseval.engines._marginal_density import (
    Marginal,
    build_marginal,
    one_thread_per_call,
)
from bayeseval.engines._marginal_factor import Factor
from bayeseval.engines._marginal_prior import scales_of
from bayeseval.errors import EngineError, did_you_mean
from bayeseval.names import LeftOut

__all__ = [
    "check_leave_out",
    "leave_out_log_density",
    "leave_out_tree",
    "stored_leave_out_tree",
]


_LOG_2_PI: Final = float(np.log(2.0 * np.pi))

# Most cells whose rows are in memory at the same time.
_CHUNK: Final = 2048


def leave_out_log_density(
    design: Design,
    posterior: Mapping[str, Floats],
    *,
    by: str = "record",
) -> Floats:
    """Log density of left-out scores given all others and the sds, draw by draw.

    Parameters
    ----------
    design : Design
        Gaussian, with one residual sd (see `marginal.why_no_closed_form`).
    posterior : dict of str to ndarray, shape (...)
        Draws of the standard deviations, from any engine; other variables are ignored.
        Equal draws are computed once.
    by : {"record", "language", "task", "model"}
        Leave out one record, or all records of one level together: the effects of the
        level then have their prior.

    Returns
    -------
    ndarray, shape (..., n_records) or (..., n_levels)
        Natural log, score scale. For groups, the joint density of their records.

    Notes
    -----
    Check the k-hat of PSIS for every group: leaving out a large one can move the sds too
    far. Then use `leave_group_out` in `_evidence`.
    """
    marginal = build_marginal(design)
    sds = np.stack([np.asarray(posterior[name]) for name in marginal.scales.names], axis=-1)
    points, index = np.unique(sds.reshape(-1, marginal.scales.n), axis=0, return_inverse=True)
    phi = marginal.scales.unconstrained(points)
    groups = None if by == names.RECORD else _groups(design, marginal, by)

    def work(point: Floats) -> Floats:
        at = Point(marginal, marginal.factor(point[None], reuse_memory=True))
        return at.records(design.outcome.linear) if groups is None else at.groups(groups)

    with one_thread_per_call():
        values = np.stack(in_threads(work, list(phi))) + _log_units(design, by)
    return values[index.reshape(-1)].reshape(*sds.shape[:-1], values.shape[-1])


def _log_units(design: Design, by: str) -> Floats:
    """Log Jacobian from logits to scores, by record or level; zero under the identity link."""
    by_record = design.outcome.log_units
    if by == names.RECORD:
        return by_record
    return np.asarray(
        np.bincount(design.factor_index[by], weights=by_record, minlength=len(design.coords[by]))
    )


def check_leave_out(design: Design, by: str) -> None:
    """Raise EngineError if left-out densities have no closed form."""
    from bayeseval.engines.marginal import why_no_closed_form

    reason = why_no_closed_form(design)
    if reason is not None:
        raise EngineError(
            f"left-out densities have no closed form: {reason}; "
            "use the group log_likelihood of the fit"
        )
    if by not in get_args(LeftOut):
        raise EngineError(
            f"cannot leave out one {by!r} at a time{did_you_mean(by, get_args(LeftOut))} "
            f"(allowed: {', '.join(get_args(LeftOut))})"
        )


def leave_out_tree(
    design: Design,
    posterior: xr.Dataset,
    *,
    by: str = "record",
    draws: int | None = None,
) -> xr.DataTree:
    """Left-out densities in place of a log likelihood, for ArviZ's ``loo`` and ``compare``.

    Parameters
    ----------
    design : Design
        Gaussian, with one residual sd (see `marginal.why_no_closed_form`).
    posterior : xarray.Dataset
        Draws of the standard deviations, from any engine.
    by : {"record", "language", "task", "model"}
        What is left out at a time.
    draws : int, optional
        Number of draws of each chain to use, evenly spaced; all by default.

    Returns
    -------
    xarray.DataTree
        Groups ``posterior`` (the sds), ``log_likelihood`` (``score``, dimensions
        ``chain``, ``draw`` and `by`; natural log, score scale) and, for records,
        ``observed_data``.

    Raises
    ------
    EngineError
        If the likelihood is not Gaussian, or `by` or `draws` is not allowed.
    """
    check_leave_out(design, by)
    if draws is not None:
        draws = as_whole_number("draws", draws, least=1, error=EngineError)
        n = posterior.sizes["draw"]
        posterior = posterior.isel(draw=np.unique(np.linspace(0, n - 1, min(draws, n)).astype(int)))
    sds = _sds(design, posterior)
    arrays = {str(name): values.to_numpy() for name, values in sds.data_vars.items()}
    label = np.arange(design.n_records) if by == names.RECORD else np.array(design.coords[by])
    density = xr.Dataset(
        {names.SCORE: (("chain", "draw", by), leave_out_log_density(design, arrays, by=by))},
        coords={"chain": sds["chain"], "draw": sds["draw"], by: label},
        attrs={"left_out": by, "conditional_on": "standard deviations"},
    )
    return _tree(design, sds, density, by=by)


def stored_leave_out_tree(
    design: Design, posterior: xr.Dataset, density: xr.Dataset, *, by: str
) -> xr.DataTree:
    """Rebuild the tree of :func:`leave_out_tree` from its stored group ``log_likelihood``."""
    return _tree(design, _sds(design, posterior).sel(draw=density["draw"]), density, by=by)


def _sds(design: Design, posterior: xr.Dataset) -> xr.Dataset:
    return posterior[list(scales_of(design).names)]


def _tree(design: Design, sds: xr.Dataset, density: xr.Dataset, *, by: str) -> xr.DataTree:
    groups = {"posterior": sds.drop_attrs(), "log_likelihood": density}
    if by == names.RECORD:
        groups["observed_data"] = design.observed_data()
    return xr.DataTree.from_dict(groups)


def _groups(design: Design, marginal: Marginal, by: str) -> list[Index]:
    level = marginal.statistics.cells.factors[by]
    return [np.flatnonzero(level == i) for i in range(len(design.coords[by]))]


@dataclass(frozen=True, eq=False)
class _Roots:
    """Rows whose inner products are covariances of expected scores.

    Attributes
    ----------
    core : ndarray, shape (m, c)
        Entries for the core coefficients.
    white : csr_array, shape (m, n_nested)
        Entries for the nested coefficients, without their constraint.
    along : ndarray, shape (m,)
        Their components in the direction of the constraint, which have no variance.
    """

    core: Floats
    white: sparse.csr_array
    along: Floats

    def take(self, rows: Index) -> _Roots:
        """Some of the rows."""
        return _Roots(self.core[rows], self.white[rows], self.along[rows])

    def squares(self) -> Floats:
        """Inner products of the rows with themselves, shape (m,)."""
        white = self.white.multiply(self.white).sum(axis=1)
        return np.asarray((self.core**2).sum(axis=1) + white - self.along**2)

    def products(self) -> Floats:
        """Inner products of all pairs of rows, shape (m, m)."""
        white = (self.white @ self.white.T).toarray()
        return np.asarray(self.core @ self.core.T + white - np.outer(self.along, self.along))


class Point:
    """Expected scores of the cells at one point: mean and covariance."""

    def __init__(self, marginal: Marginal, factor: Factor) -> None:
        statistics = marginal.statistics
        self.cells, self.eliminated = statistics.cells, statistics.eliminated
        self.marginal, self.kept_blocks = marginal, statistics.kept
        self.factor, self.layout = factor, statistics.layout
        self.precision = factor.precision[0][self.cells.noise]
        self.inverse = 1.0 / factor.diagonal[0]
        self.eliminated_variance = factor.eliminated_sd[0] ** 2

        # Derivatives of the eliminated coefficients' means with respect to the kept ones.
        link = marginal.schur.link(factor.precision[0])[:, :-1]
        self.slope = sparse.csr_array(link.multiply(factor.ratio[0] * self.inverse[:, None]))
        if self.eliminated.zero_sum:
            share = self.inverse / self.inverse.sum()
            self.slope = sparse.csr_array(
                self.slope.toarray() - np.outer(share, self.slope.sum(axis=0))
            )

        white = np.zeros((1, statistics.n_kept + 1))
        kept = marginal.kept_draws(factor, white, np.ones(1, dtype=np.int64))
        eliminated = marginal.eliminated_mean(factor, kept, np.zeros(1, dtype=np.int64))[0]
        if self.eliminated.zero_sum:
            eliminated -= share * eliminated.sum()
        self.mean = eliminated[self.eliminated.index]
        for block in self.kept_blocks:
            self.mean += block.weight * kept[0, block.columns][block.index]

    def roots(self, cells: Index) -> _Roots:
        """Rows whose inner products are the covariances due to the kept coefficients."""
        c, nested = self.layout.n_core, self.factor.nested
        rows = self._derivatives(cells)
        core = np.zeros((len(cells), c + 1))
        core[:, :c] = rows[:, :c].toarray()
        scaled = rows[:, self.layout.columns].multiply(
            self.factor.kept_sd[0, self.layout.columns][None]
        )
        white = sparse.csr_array(scaled) @ nested.inverse_at(0).T
        core[:, :c] -= white @ nested.rows[0, :, :c]
        point = np.zeros(len(cells), dtype=np.int64)
        core[:, :c] = self.marginal.scaled_core(self.factor, core[:, :c], point, transposed=True)
        solve_in_place(self.factor.core, core, np.array([len(core)]))
        along = np.zeros(len(cells))
        if nested.unit is not None:
            along = white[:, self.layout.last] @ nested.unit[0]
        return _Roots(core=core[:, :c], white=white, along=along)

    def _derivatives(self, cells: Index) -> sparse.csr_array:
        """Derivatives of expected scores with respect to the kept coefficients, (m, p)."""
        column = np.stack(
            [block.columns.start + block.index[cells] for block in self.kept_blocks], axis=1
        )
        weight = np.stack([block.weight[cells] for block in self.kept_blocks], axis=1)
        starts = np.arange(len(cells) + 1) * len(self.kept_blocks)
        shape = (len(cells), self.slope.shape[1])
        own = sparse.csr_array((weight.reshape(-1), column.reshape(-1), starts), shape=shape)
        return sparse.csr_array(own - self.slope[self.eliminated.index[cells]])

    def without_own(self, score: Floats) -> tuple[Floats, Floats]:
        """Predict each record's expected score from all other records.

        Returns
        -------
        error : ndarray, shape (n_records,)
            Score minus the mean of its expected score, given all other records.
        variance : ndarray, shape (n_records,)
            Variance of its expected score, given all other records.
        """
        variance = np.empty(self.cells.n_cells)
        for start in range(0, self.cells.n_cells, _CHUNK):
            cells = np.arange(start, min(start + _CHUNK, self.cells.n_cells))
            variance[cells] = self.roots(cells).squares()
        inverse = self.inverse[self.eliminated.index]
        own = inverse - inverse**2 / self.inverse.sum() if self.eliminated.zero_sum else inverse
        variance += self.eliminated_variance * own
        # Share of its own prediction that a record does not contribute itself.
        free = 1.0 - self.precision * variance
        error = score - self.cells.centre - self.mean[self.cells.record]
        return error / free[self.cells.record], (variance / free)[self.cells.record]

    def records(self, score: Floats) -> Floats:
        """Log densities of single records."""
        error, variance = self.without_own(score)
        variance += 1.0 / self.precision[self.cells.record]
        return np.asarray(-0.5 * (np.log(variance) + _LOG_2_PI + error**2 / variance))

    def groups(self, groups: list[Index]) -> Floats:
        """Joint log densities of the records of groups of cells."""
        if self.cells.n_cells <= _CHUNK:
            roots = self.roots(np.arange(self.cells.n_cells))
            return np.array([self._group(cells, roots.take(cells)) for cells in groups])
        return np.array([self._group(cells, self.roots(cells)) for cells in groups])

    def covariance(self, cells: Index, roots: _Roots | None = None) -> Floats:
        """Covariance of the expected scores of cells, from their `roots` if given."""
        rows = self.roots(cells) if roots is None else roots
        level = self.eliminated.index[cells]
        inverse = self.inverse[level]
        covariance = np.where(level[:, None] == level, inverse, 0.0)
        if self.eliminated.zero_sum:
            covariance -= np.outer(inverse, inverse) / self.inverse.sum()
        return np.asarray(self.eliminated_variance * covariance + rows.products())

    def _group(self, cells: Index, roots: _Roots) -> float:
        covariance = self.covariance(cells, roots)
        count, precision = self.cells.count[cells], self.precision[cells]
        root = np.sqrt(count * precision)
        free = np.eye(len(cells)) - root[:, None] * covariance * root
        if not cholesky_in_place(free[None]).all():
            return -np.inf
        error = (root * (self.cells.mean[cells] - self.mean[cells]))[None]
        solve_in_place(free[None], error, np.ones(1, dtype=np.int64))
        value = np.log(np.diagonal(free)).sum() + np.log(root).sum() - 0.5 * (error**2).sum()
        # The density of a cell's records around their mean depends on the noise only.
        value += 0.5 * ((count - 1.0) * np.log(precision) - np.log(count)).sum()
        value -= 0.5 * (precision * self.cells.within[cells]).sum()
        return float(value - 0.5 * _LOG_2_PI * count.sum())
