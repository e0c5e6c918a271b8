"""Cholesky factor of the kept block of A, with nested coefficients eliminated by group.

The bordered block is, with the nested coefficients first and the scores last,

    [[E, B S], [S'B', I + S'K S]] = [[G, 0], [S'W', L]] [[G', W S], [0, L']],

where E is block diagonal and S S' is the prior covariance of the core (one for the scores, whose
entry has no I). G holds the small factors of the groups, ``W = G^-1 B`` has the width of the core,
and ``L L' = I + S'(K - W'W) S``: S meets only matrices of the size of the core.

Nested coefficients e that sum to zero, as effects of a factor do, are conditioned on
``c'e = 0``. With ``z = G^-1 c`` this projects the whitened coefficients ``G'e`` on the
orthogonal complement of z, and W with them; the determinant gets the factor ``z'z / c'c``.
Because the constrained coefficient is the last one of its group, z has one entry in each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt
from scipy import sparse

from bayeseval._blocks import even_blocks
from bayeseval._typing import Floats, Index
from bayeseval.engines._lapack import cholesky_in_place, subtract_square
from bayeseval.engines._marginal_layout import Layout

__all__ = ["Factor", "Nested", "by_row", "eliminate_nested", "mirror", "row_blocks"]

# Of the levels of the eliminated term, which are not among the stored entries: arrays of one
# number for each at some points of a batch, of which several are in memory at a time.
_BLOCK_BYTES: Final = 8_000_000


@dataclass(frozen=True, eq=False)
class Nested:
    """Factors of the groups of nested coefficients at a batch of points.

    Attributes
    ----------
    layout : Layout
        Which coefficients are nested.
    inverse : tuple of ndarray, shape (b, n_groups, size, size)
        Inverse factors of the groups, by run.
    rows : ndarray, shape (b, n_nested, c + 1)
        W, projected.
    unit : ndarray, shape (b, n_groups), or None
        The entries of z, normalised, at the rows ``layout.last``.
    log_determinant : ndarray, shape (b,)
        Of the block of the nested coefficients, given the constraint.
    """

    layout: Layout
    inverse: tuple[Floats, ...]
    rows: Floats
    unit: Floats | None
    log_determinant: Floats

    def coefficients(self, white: Floats, core: Floats, counts: Index) -> Floats:
        """Nested coefficients given those of the core.

        Parameters
        ----------
        white : ndarray, shape (m, n_nested)
            Standard normal noise, or zeros for the mean.
        core : ndarray, shape (m, c + 1)
            Coefficients of the core, and -1 for the scores.
        counts : ndarray of int, shape (b,)
            How many of these belong to each point.

        Returns
        -------
        ndarray, shape (m, n_nested)
            Scaled coefficients, by row of the layout.
        """
        point = np.repeat(np.arange(len(counts)), counts)
        stop = np.cumsum(counts)
        target = np.empty_like(white)
        for i, (low, high) in enumerate(zip(stop - counts, stop, strict=True)):
            np.matmul(core[low:high], self.rows[i].T, out=target[low:high])
        np.subtract(white, target, out=target)
        if self.unit is not None:
            unit, last = self.unit[point], target[:, self.layout.last]
            target[:, self.layout.last] = last - (last * unit).sum(axis=1, keepdims=True) * unit
        for run, inverse in zip(self.layout.runs, self.inverse, strict=True):
            own = target[:, run.rows]
            if run.size == 1:
                own *= inverse[point, :, 0, 0]
            else:
                grouped = own.reshape(len(target), run.n_groups, 1, run.size)
                own[:] = (grouped @ inverse[point]).reshape(own.shape)
        return target

    def inverse_at(self, point: int) -> sparse.csr_array:
        """Inverse factors of all groups at a point, shape (n_nested, n_nested)."""
        values, columns, sizes = [], [], []
        for run, inverse in zip(self.layout.runs, self.inverse, strict=True):
            rows = np.arange(run.rows.start, run.rows.stop).reshape(run.n_groups, 1, run.size)
            values.append(inverse[point].reshape(-1))
            columns.append(np.repeat(rows, run.size, axis=1).reshape(-1))
            sizes.append(np.full(run.n_groups * run.size, run.size))
        n = self.layout.n_nested
        if not n:
            return sparse.csr_array((0, 0))
        starts = np.concatenate([[0], np.cumsum(np.concatenate(sizes))])
        data = (np.concatenate(values), np.concatenate(columns), starts)
        return sparse.csr_array(data, shape=(n, n))


@dataclass(frozen=True, eq=False)
class Factor:
    """The factors of A at a batch of parameter points.

    Attributes
    ----------
    nested : Nested
        Factors of the nested coefficients.
    core : ndarray, shape (b, c + 1, c + 1)
        Cholesky factors L of the core bordered by the scores; entries above their diagonals are
        undefined.
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

    nested: Nested
    core: Floats
    precision: Floats
    kept_sd: Floats
    roots: Mapping[str, Floats]
    eliminated_sd: Floats
    ratio: Floats
    diagonal: Floats

    @property
    def log_determinant(self) -> Floats:
        """Of the kept block of A, shape (b,)."""
        corner = np.diagonal(self.core, axis1=1, axis2=2)[:, :-1]
        return np.asarray(self.nested.log_determinant + 2.0 * np.log(corner).sum(axis=1))

    @property
    def quadratic_form(self) -> Floats:
        """Squares of the scores that remain, shape (b,)."""
        return np.asarray(self.core[:, -1, -1] ** 2)


def mirror(core: Floats) -> None:
    """Copy the lower triangles of matrices, (b, n, n), to the upper ones."""
    for matrix in core:
        np.copyto(matrix, matrix.T.copy(), where=_upper(len(matrix)))


@lru_cache(maxsize=16)
def _upper(n: int) -> npt.NDArray[np.bool_]:
    return np.triu(np.ones((n, n), dtype=np.bool_), 1)


def eliminate_nested(layout: Layout, stored: Floats, sds: Floats) -> Nested:
    """Factorise the groups, and subtract their effect from the core.

    Parameters
    ----------
    layout : Layout
        Which coefficients are nested.
    stored : ndarray, shape (b, layout.size)
        Cross-products. The rows of the nested coefficients are overwritten by W, and the lower
        triangle of the core by that of K - W'W, which is NaN where a group has no factor.
    sds : ndarray, shape (b, n_nested)
        Prior sds of the nested coefficients, by row.
    """
    rows, core = layout.rows(stored), layout.core(stored)
    n_points = len(stored)
    log_determinant, inverses = np.zeros(n_points), []
    failed = np.zeros(n_points, dtype=np.bool_)
    for run in layout.runs:
        scale = sds[:, run.rows].reshape(n_points, run.n_groups, run.size)
        blocks = layout.blocks(stored, run)
        blocks *= scale[:, :, :, None] * scale[:, :, None, :]
        position = np.arange(run.size)
        blocks[:, :, position, position] += 1.0
        inverse, without = _inverse_factors(blocks)
        failed |= without
        diagonal = np.diagonal(inverse, axis1=2, axis2=3).reshape(n_points, -1)
        log_determinant -= 2.0 * np.log(diagonal).sum(axis=1)
        own, scaled = rows[:, run.rows], inverse * scale[:, :, None, :]
        if run.size == 1:
            own *= scaled[:, :, 0]
        else:
            grouped = own.reshape(n_points, run.n_groups, run.size, -1)
            own[:] = (scaled @ grouped).reshape(own.shape)
        inverses.append(inverse)
    unit = None
    if layout.last is not None:
        z = np.concatenate([inverse[:, :, -1, -1] for inverse in inverses], axis=1)
        length = np.sqrt((z**2).sum(axis=1, keepdims=True))
        unit = z / length
        log_determinant += 2.0 * np.log(length[:, 0]) - np.log(len(layout.last))
        last = rows[:, layout.last]
        rows[:, layout.last] = last - unit[:, :, None] * (unit[:, None, :] @ last)
    subtract_square(core, rows)
    core[failed] = np.nan
    return Nested(
        layout=layout,
        inverse=tuple(inverses),
        rows=rows,
        unit=unit,
        log_determinant=log_determinant,
    )


def _inverse_factors(blocks: Floats) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """Inverse Cholesky factors of blocks (b, g, n, n), and the points without one."""
    without = np.zeros(len(blocks), dtype=np.bool_)
    if blocks.shape[-1] == 1:
        without = np.asarray(~(blocks > 0.0).all(axis=(1, 2, 3)))
        blocks = np.where(without[:, None, None, None], 1.0, blocks)
        return 1.0 / np.sqrt(blocks), without
    try:
        lower = np.linalg.cholesky(blocks)
    except np.linalg.LinAlgError:
        lower = np.tril(blocks)
        for i, own in enumerate(lower):
            without[i] = not cholesky_in_place(own).all()
        lower[without] = np.eye(blocks.shape[-1])
    return np.linalg.inv(lower), without


def row_blocks(n_rows: int, n_columns: int) -> list[slice]:
    """Cut rows into blocks of at most about `_BLOCK_BYTES`, each of two rows or more.

    The order in which a single row is summed may be another one.
    """
    n_blocks = max(1, min(8 * n_rows * n_columns // _BLOCK_BYTES, n_rows // 2))
    return even_blocks(n_rows, n_blocks)


def by_row(values: Floats, reduce: Callable[[Floats], Floats]) -> Floats:
    """A number for every row, without copies of all rows at a time."""
    return np.concatenate([reduce(values[rows]) for rows in row_blocks(*values.shape)])
