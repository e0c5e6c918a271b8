"""Sufficient statistics of a table under a Gaussian likelihood.

Records that share language, task, model and known standard error are first aggregated to
*cells*: their count, mean and sum of squares are sufficient for a normal likelihood. From
then on the cost does not depend on the number of records.

The coefficients are split in two. Those of one term, usually the one with the most levels,
are *eliminated*: given the others they are independent of each other, because every
record has one level of the term. The others are *kept*, those of the core first, then those
that are nested in a factor (`_marginal_layout`). The cross-products of the kept columns, with
the scores as one more column at the end, and their products with the eliminated columns are
kept sparse: no array with a row for each record, or each coefficient, and a column for each
coefficient is created.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy import sparse

from bayeseval import names
from bayeseval._typing import Floats, Index
from bayeseval.design import Design, Relations, Slope, Term
from bayeseval.engines._marginal_layout import (
    Elimination,
    Layout,
    choose_elimination,
    lay_out,
)
from bayeseval.engines._related import roots

__all__ = [
    "Block",
    "Cells",
    "Statistics",
    "aggregate",
    "build_statistics",
]


# Up to this many possible combinations, a lookup table is faster than sorting.
_TABLE_SIZE: Final = 10_000_000


@dataclass(frozen=True, eq=False)
class Cells:
    """Records aggregated by language, task, model and noise class.

    Attributes
    ----------
    count : ndarray of float, shape (n_cells,)
        Number of records.
    mean : ndarray of float, shape (n_cells,)
        Mean score minus `centre`.
    within : ndarray of float, shape (n_cells,)
        Sum of squared deviations from that mean.
    factors : dict of str to ndarray of int, shape (n_cells,)
        Level of every factor.
    noise : ndarray of int, shape (n_cells,)
        Noise class: cells of one class have the same residual variance.
    known : ndarray of float, shape (n_classes,)
        Squared known standard error of each class; zero without one.
    level : ndarray of int, shape (n_classes,)
        Level of each class whose residual sd it has; zero with one residual sd.
    record : ndarray of int, shape (n_records,)
        Cell of each record.
    centre : float
        Prior mean of the intercept, subtracted from the scores.
    log_units : float
        Log Jacobian of all scores, from the scale of the linear predictor to score units.
    """

    count: Floats
    mean: Floats
    within: Floats
    factors: dict[str, Index]
    noise: Index
    known: Floats
    level: Index
    record: Index
    centre: float
    log_units: float

    @property
    def n_cells(self) -> int:
        """Number of cells, at most languages x tasks x models x noise classes."""
        return len(self.count)

    @property
    def class_count(self) -> Floats:
        """Number of records of each noise class, shape (n_classes,)."""
        return np.asarray(
            np.bincount(self.noise, weights=self.count, minlength=len(self.known)), dtype=np.float64
        )


@dataclass(frozen=True, eq=False)
class Block:
    """Coefficients of one term.

    Attributes
    ----------
    name : str
        Term, or ``intercept``.
    columns : slice
        Position among the kept coefficients; all levels for the eliminated term.
    index : ndarray of int, shape (n_cells,)
        Level of each cell.
    weight : ndarray of float, shape (n_cells,)
        Value of a covariate for its slope; one for other terms.
    zero_sum : bool
        Whether the coefficients sum to zero.
    sd : str or None
        Standard-deviation parameter; None when it is known.
    known_sd : ndarray of float, shape (size,)
        Known standard deviations; NaN when they are a parameter. Those of the eliminated
        term are equal.
    relations : Relations or None
        What makes the coefficients of related levels alike. Their prior covariance has the
        root of :func:`bayeseval.engines._related.roots`; their `prior_sds` are 1.
    """

    name: str
    columns: slice
    index: Index
    weight: Floats
    zero_sum: bool
    sd: str | None
    known_sd: Floats
    relations: Relations | None = None

    @property
    def size(self) -> int:
        """Number of levels."""
        return int(self.columns.stop - self.columns.start)


@dataclass(frozen=True, eq=False)
class Statistics:
    """Sufficient statistics, as linear maps from the noise classes' precisions.

    With one noise class the precision is a common factor and all statistics are
    constants. The scores are the last column, after those of the ``p`` kept coefficients.

    Attributes
    ----------
    cells : Cells
        The aggregated records.
    kept : tuple of Block
        Intercept first.
    eliminated : Block
        The eliminated term.
    layout : Layout
        Which of the kept coefficients are nested.
    cross_row, cross_column : ndarray of int, shape (n_products,)
        Kept columns (p for the scores) of the cross-products that are not zero, the larger
        one first.
    cross_map : csr_array, shape (n_products, n_classes)
        Cross-products of the kept columns and the scores.
    link_map : csr_array, shape (n_links, n_classes)
        Their products with the eliminated columns, where these are not zero.
    link_row, link_level : ndarray of int, shape (n_links,)
        Kept column (p for the scores) and eliminated level of each link, by level.
    count_map : csr_array, shape (n_levels, n_classes)
        Squared length of each eliminated column.
    """

    cells: Cells
    kept: tuple[Block, ...]
    eliminated: Block
    layout: Layout
    cross_row: Index
    cross_column: Index
    cross_map: sparse.csr_array
    link_map: sparse.csr_array
    link_row: Index
    link_level: Index
    count_map: sparse.csr_array

    @property
    def n_kept(self) -> int:
        """Number of kept coefficients, p."""
        return int(self.kept[-1].columns.stop)

    def prior_sds(self, n: int, sd_of: Callable[[str], Floats]) -> tuple[Floats, Floats]:
        """Prior sds of the coefficients at n points.

        Parameters
        ----------
        n : int
            Number of points.
        sd_of : callable
            Name of a standard-deviation parameter to its values, shape (n,).

        Returns
        -------
        kept : ndarray, shape (n, p)
        eliminated : ndarray, shape (n,)
        """

        def of(block: Block) -> Floats:
            if block.relations is not None:
                return np.ones((n, block.size))
            sds = block.known_sd if block.sd is None else sd_of(block.sd)[:, None]
            return np.broadcast_to(sds, (n, block.size))

        kept = np.concatenate([of(block) for block in self.kept], axis=1)
        return kept, of(self.eliminated)[:, 0]

    def prior_roots(self, sd_of: Callable[[str], Floats]) -> dict[str, Floats]:
        """Roots of the prior covariance of related levels, (n, n_levels, n_levels), by term.

        Parameters
        ----------
        sd_of : callable
            Name of a standard-deviation parameter to its values, shape (n,).
        """
        found = {}
        for block in self.kept:
            if block.relations is not None and block.sd is not None:
                sds = np.stack([sd_of(name) for name in block.relations.sds], axis=-1)
                found[block.name] = roots(block.relations, sd_of(block.sd), sds)
        return found

    @property
    def n_classes(self) -> int:
        """Number of noise classes."""
        return len(self.cells.known)


def aggregate(design: Design, *, centre: float) -> Cells:
    """Aggregate records that differ in their score only.

    Parameters
    ----------
    design : Design
        The design, with its scores.
    centre : float
        Subtracted from the scores, which keeps cross-products small.

    Notes
    -----
    Without known standard errors there are at most languages x tasks x models
    cells. Known standard errors split cells by their value: if all differ, every record is
    a cell, and the cost is linear in the number of records.
    """
    known, level, noise = _classes(design)
    parts = [design.factor_index[factor] for factor in names.FACTORS]
    shape = (*(len(design.coords[factor]) for factor in names.FACTORS), len(known))
    first, record = _positions(np.ravel_multi_index((*parts, noise), shape), math.prod(shape))
    score = design.outcome.linear - centre
    count = np.bincount(record).astype(np.float64)
    mean = np.bincount(record, weights=score) / count
    within = np.bincount(record, weights=(score - mean[record]) ** 2).astype(np.float64)
    return Cells(
        count=count,
        mean=mean,
        within=within,
        factors={f: part[first] for f, part in zip(names.FACTORS, parts, strict=True)},
        noise=noise[first],
        known=known,
        level=level,
        record=record,
        centre=centre,
        log_units=float(design.outcome.log_units.sum()),
    )


def _classes(design: Design) -> tuple[Floats, Index, Index]:
    """Squared known error and residual level of every noise class, and the class of each record."""
    n = design.n_records
    known, noise = np.zeros(1), np.zeros(n, dtype=np.int64)
    if design.se is not None:
        known, noise = np.unique(design.se**2, return_inverse=True)
    if design.residual_index is None:
        return known, np.zeros(len(known), dtype=np.int64), noise
    keys, noise = np.unique(
        design.residual_index * len(known) + noise.reshape(-1), return_inverse=True
    )
    return known[keys % len(known)], keys // len(known), noise


def _positions(key: Index, size: int) -> tuple[Index, Index]:
    """One record of every distinct key, and the position of each record's key."""
    if size > _TABLE_SIZE:
        _, first, record = np.unique(key, return_index=True, return_inverse=True)
        return first, record
    member = np.full(size, -1)
    member[key] = np.arange(len(key))
    present = np.flatnonzero(member >= 0)
    position = np.empty(size, dtype=np.int64)
    position[present] = np.arange(len(present))
    return member[present], position[key]


def build_statistics(
    design: Design,
    *,
    eliminate: str | None = None,
    loadings: Mapping[str, tuple[Floats, Floats]] | None = None,
) -> Statistics:
    """Cross-products of a design.

    Parameters
    ----------
    design : Design
        With a normal prior on the intercept.
    eliminate : str, optional
        Term to eliminate, whose levels have the same sd; by default the one with which a factor
        takes the fewest operations. The density does not depend on it, only the cost.
    loadings : mapping of str to (ndarray of shape (rank,), ndarray of shape (rank, n_levels))
        For every low-rank interaction the sds of the loadings of models, and the loadings of the
        other factor: given these its effects are linear in the loadings of models.
    """
    prior = design.priors[names.INTERCEPT]
    cells = aggregate(design, centre=float(prior.loc or 0.0))
    chosen = choose_elimination(design.terms, eliminate=eliminate)
    apart = [chosen.term.name, *(term.name for term in chosen.nested)]
    index = {term.name: _cell_level(term, cells) for term in design.terms if not term.rank}
    kept = [
        Block(
            name=names.INTERCEPT,
            columns=slice(0, 1),
            index=np.zeros(cells.n_cells, dtype=np.int64),
            weight=np.ones(cells.n_cells),
            zero_sum=False,
            sd=None,
            known_sd=np.array([float(prior.scale or 0.0)]),
        )
    ]
    for slope in design.slopes:
        kept.append(_slope_block(design, slope, cells, start=kept[-1].columns.stop))
    for term in design.terms:
        if term.name in apart:
            continue
        if term.rank:
            for sd, values in zip(*(loadings or {})[term.name], strict=True):
                kept.append(_loading_block(term, sd, values, cells, kept[-1].columns.stop))
        else:
            kept.append(_block(term, index[term.name], start=kept[-1].columns.stop))
    layout = _lay_out(kept[-1].columns.stop, chosen)
    for term in chosen.nested:
        kept.append(_block(term, index[term.name], start=kept[-1].columns.stop))
    eliminated = _block(chosen.term, index[chosen.term.name], start=0)

    n_kept = kept[-1].columns.stop
    width, n_classes = n_kept + 1, len(cells.known)
    columns = [block.columns.start + block.index for block in kept]
    columns.append(np.full(cells.n_cells, n_kept))
    multiples = [*(block.weight for block in kept), cells.mean]
    entries, sums = [], []
    for i, (column, weight) in enumerate(zip(columns, multiples, strict=True)):
        # Pairs of terms have no products in common, and one pair at a time takes less memory.
        for other, other_weight in zip(columns[: i + 1], multiples[: i + 1], strict=True):
            value = cells.count * weight * other_weight
            if column is other is columns[-1]:
                value += cells.within
            found, position = np.unique(column * width + other, return_inverse=True)
            entries.append(found)
            sums.append(_sum_by([position], [value], cells.noise, (len(found), n_classes)))
    row, column = np.divmod(np.concatenate(entries), width)
    cross_map = sparse.vstack(sums, format="csr")

    link_targets = [eliminated.index * width + column for column in columns]
    link_values = [cells.count * weight for weight in multiples]
    links, position = np.unique(np.stack(link_targets), return_inverse=True)
    link_map = _sum_by(list(position.reshape(len(link_targets), -1)), link_values, cells.noise,
                       (len(links), n_classes))  # fmt: skip
    return Statistics(
        cells=cells,
        kept=tuple(kept),
        eliminated=eliminated,
        layout=layout,
        cross_row=row,
        cross_column=column,
        cross_map=cross_map,
        link_map=link_map,
        link_row=links % width,
        link_level=links // width,
        count_map=_sum_by(
            [eliminated.index], [cells.count], cells.noise, (eliminated.size, n_classes)
        ),
    )


def _lay_out(n_core: int, chosen: Elimination) -> Layout:
    zero_sum = [i for i, term in enumerate(chosen.nested) if term.zero_sum]
    return lay_out(n_core, chosen.groups, zero_sum=zero_sum[0] if zero_sum else None)


def _block(term: Term, index: Index, *, start: int) -> Block:
    return Block(
        name=term.name,
        columns=slice(start, start + term.n_levels),
        index=index,
        weight=np.ones(len(index)),
        zero_sum=term.zero_sum,
        sd=term.sd,
        known_sd=np.full(term.n_levels, np.nan if term.known_sd is None else term.known_sd),
        relations=term.relations,
    )


def _loading_block(term: Term, sd: float, values: Floats, cells: Cells, start: int) -> Block:
    """Loadings of models on one product, whose other factor has these values."""
    model, other = term.factors
    n_models = term.n_members(model)
    return Block(
        name=term.name,
        columns=slice(start, start + n_models),
        index=cells.factors[model],
        weight=values[cells.factors[other]],
        zero_sum=True,
        sd=None,
        known_sd=np.full(n_models, sd),
    )


def _slope_block(design: Design, slope: Slope, cells: Cells, *, start: int) -> Block:
    """One coefficient with a known normal prior; its column holds the covariate."""
    weight = np.empty(cells.n_cells)
    weight[cells.record] = slope.known[slope.index]
    return Block(
        name=slope.slope,
        columns=slice(start, start + 1),
        index=np.zeros(cells.n_cells, dtype=np.int64),
        weight=weight,
        zero_sum=False,
        sd=None,
        known_sd=np.array([float(design.priors[slope.slope].scale or 0.0)]),
    )


def _cell_level(term: Term, cells: Cells) -> Index:
    level = np.empty(cells.n_cells, dtype=np.int64)
    # All records of a cell have the same level of every term.
    level[cells.record] = term.index
    return level


def _sum_by(
    rows: list[Index], values: list[Floats], columns: Index, shape: tuple[int, int]
) -> sparse.csr_array:
    """Sparse matrix of the sums of `values` at (row, class of the cell)."""
    entries = sparse.coo_array(
        (np.concatenate(values), (np.concatenate(rows), np.tile(columns, len(rows)))), shape=shape
    )
    return entries.tocsr()
