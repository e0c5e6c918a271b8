"""Roots of the prior covariance of related levels' effects, and effects from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from bayeseval._typing import Floats
from bayeseval.engines._lapack import cholesky_in_place

if TYPE_CHECKING:
    from bayeseval.design import Relations, Term

__all__ = ["covariance", "effects_of", "roots"]


def covariance(contrasts: Any, own: Any, sds: Sequence[Any], *, xp: Any = np) -> Any:
    """Prior covariance of the contrasts of related levels' effects.

    Parameters
    ----------
    contrasts : array, shape (n_relations, n_levels - 1, n_levels - 1)
        Those of :class:`bayeseval.design.Relations`.
    own : array, shape (..., 1, 1)
        Standard deviation of what levels do not share.
    sds : sequence of array, shape (..., 1, 1)
        Those of the relations.
    xp : module
        ``numpy``, ``jax.numpy`` or ``pytensor.tensor``.

    Returns
    -------
    array, shape (..., n_levels - 1, n_levels - 1)
    """
    total = own**2 * xp.eye(contrasts.shape[-1])
    for sd, matrix in zip(sds, contrasts, strict=True):
        total = total + sd**2 * matrix
    return total


def roots(relations: Relations, own: Floats, sds: Floats) -> Floats:
    """Roots R of the covariance of the effects, ``S = R R'``; NaN where it is singular.

    Parameters
    ----------
    relations : Relations
        Of the levels.
    own : ndarray, shape (b,)
        Standard deviations of what levels do not share.
    sds : ndarray, shape (b, n_relations)
        Those of the relations.

    Returns
    -------
    ndarray, shape (b, n_levels, n_levels)
        Their columns and their rows sum to zero.
    """
    matrices = np.ascontiguousarray(
        covariance(
            relations.contrasts,
            own[:, None, None],
            list(np.moveaxis(sds, -1, 0)[..., None, None]),
        )
    )
    matrices[~cholesky_in_place(matrices)] = np.nan
    return np.asarray(relations.basis @ np.tril(matrices) @ relations.basis.T)


def effects_of(term: Term, values: Mapping[str, Floats], unit: Floats) -> Floats:
    """Effects from standard normal offsets.

    Parameters
    ----------
    term : Term
        A term of a design.
    values : dict of str to ndarray, shape (...)
        Draws of the standard deviations.
    unit : ndarray, shape (..., n_levels)
        Offsets; those of zero-sum terms sum to zero.

    Returns
    -------
    ndarray, shape (..., n_levels)
    """
    if term.sd is None:
        return np.asarray(np.asarray(term.known_sd, dtype=np.float64) * unit)
    sd = np.asarray(values[term.sd], dtype=np.float64)
    if term.relations is None:
        return np.asarray(sd[..., None] * unit)
    shape = np.shape(unit)
    sds = np.stack([np.asarray(values[name]) for name in term.relations.sds], axis=-1)
    root = roots(term.relations, sd.reshape(-1), sds.reshape(-1, sds.shape[-1]))
    return np.asarray((root @ np.reshape(unit, (-1, shape[-1], 1)))[..., 0].reshape(shape))
