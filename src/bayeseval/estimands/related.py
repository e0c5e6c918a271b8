"""Effects of related languages or models: the parts of each relation, and those of new levels."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import xarray as xr
from scipy.linalg import helmert

from bayeseval import names
from bayeseval._typing import Floats
from bayeseval.errors import InputError

__all__ = [
    "NewLevels",
    "Parts",
    "RelatedDraws",
    "independent_contrasts",
    "new_effects",
    "part_draws",
    "read_related",
    "relation_parts",
]

# Working arrays of a block of draws, bytes.
_MAX_BYTES = 100_000_000


@dataclass(frozen=True, eq=False)
class RelatedDraws:
    """Relations of the languages, or models, of a fit, with draws of their standard deviations.

    Attributes
    ----------
    used : tuple of str
        ``place``, ``family``, ``script`` or some of these, then those of files.
    sd : ndarray, shape (n_samples, n_relations)
        Standard deviations, of effects with a variance of one on the diagonal of `matrices`.
    matrices : ndarray, shape (n_relations, n_levels, n_levels)
    factor : str
        ``language`` or ``model``.
    """

    used: tuple[str, ...]
    sd: Floats
    matrices: Floats
    factor: str = names.LANGUAGE

    @cached_property
    def basis(self) -> Floats:
        """Orthonormal contrasts, shape (n_levels, n_levels - 1)."""
        return np.asarray(helmert(self.matrices.shape[-1]).T)

    @cached_property
    def contrasts(self) -> Floats:
        """Matrices of the contrasts, shape (n_relations, n_levels - 1, n_levels - 1)."""
        return np.asarray(self.basis.T @ self.matrices @ self.basis)

    @cached_property
    def typical_variance(self) -> Floats:
        """Mean variance of a contrast, in squared sds; shape (n_relations,)."""
        return np.asarray(np.trace(self.contrasts, axis1=1, axis2=2) / self.contrasts.shape[-1])

    def population_sd(self) -> Floats:
        """Sd of the effects about their mean, shape (n_samples, n_relations)."""
        return np.asarray(self.sd * np.sqrt(self.typical_variance))

    def covariance(self, own: Floats, draws: slice) -> Floats:
        """Prior covariance of the contrasts of the effects.

        Parameters
        ----------
        own : ndarray, shape (n_samples,)
            Sd of what levels do not share.
        draws : slice
            Which draws.
        """
        n = self.contrasts.shape[-1]
        total = own[draws, None, None] ** 2 * np.eye(n)
        for sd, matrix in zip(self.sd[draws].T, self.contrasts, strict=True):
            total += sd[:, None, None] ** 2 * matrix
        return np.asarray(total)

    def blocks(self) -> list[slice]:
        """Blocks of draws whose covariances fit into the working memory."""
        size = max(1, _MAX_BYTES // (8 * 4 * self.contrasts.shape[-1] ** 2))
        return [slice(i, i + size) for i in range(0, len(self.sd), size)]


@dataclass(frozen=True, eq=False)
class Parts:
    """What the relations contribute to the effects of related levels, given the effects.

    Attributes
    ----------
    labels : tuple of str
        ``language`` or ``model``, what levels do not share, then the relations.
    mean : ndarray, shape (n_samples, n_parts, n_levels)
        Conditional means; they add up to the effects.
    finite_sd : ndarray, shape (n_samples, n_parts)
        Root of the conditional mean square over the levels, ddof 1.
    """

    labels: tuple[str, ...]
    mean: Floats
    finite_sd: Floats


@dataclass(frozen=True, slots=True, eq=False)
class NewLevels:
    """Levels without records, and how related all levels of their factor are.

    Attributes
    ----------
    labels : tuple of str
    matrices : ndarray, shape (n_relations, n_levels + n_new, n_levels + n_new)
        Relations of the levels of the table, then of the new ones.
    """

    labels: tuple[str, ...]
    matrices: Floats


def read_related(posterior: xr.Dataset, constant: xr.Dataset) -> dict[str, RelatedDraws]:
    """Relations of a fit, by factor.

    Parameters
    ----------
    posterior, constant : xarray.Dataset
        Groups ``posterior`` and ``constant_data``.

    Raises
    ------
    InputError
        If the sd of a relation is missing.
    """
    found = {
        factor: _read_related(posterior, constant, factor)
        for factor in (names.LANGUAGE, names.MODEL)
    }
    return {factor: one for factor, one in found.items() if one is not None}


def _read_related(posterior: xr.Dataset, constant: xr.Dataset, factor: str) -> RelatedDraws | None:
    dims = (factor, names.related_dim(factor))
    # Names of relations of languages are those of matrices without the factor.
    stored = [
        str(name) if factor == names.MODEL else str(name).removeprefix(f"{factor}_")
        for name, matrix in constant.data_vars.items()
        if set(matrix.dims) == set(dims)
    ]
    own = [name for name in names.RELATIONS if name in stored]
    used = [*own, *sorted(set(stored) - set(own))]
    if not used:
        return None
    sds, matrices = [], []
    for name in used:
        matrix = names.relation_matrix(name, factor)
        if names.sd_name(name) not in posterior:
            raise InputError(
                f"the fit is damaged: it has {matrix!r}, but not {names.sd_name(name)!r}; fit again"
            )
        drawn = posterior[names.sd_name(name)].transpose("chain", "draw")
        sds.append(drawn.to_numpy().astype(np.float64).reshape(-1))
        matrices.append(constant[matrix].transpose(*dims).to_numpy().astype(np.float64))
    return RelatedDraws(tuple(used), np.stack(sds, axis=1), np.stack(matrices), factor)


def relation_parts(related: RelatedDraws, own: Floats, effect: Floats) -> Parts:
    """Split the effects of related levels into what they share and what they do not.

    Given effects a = sum of parts a_k ~ N(0, S_k), a part is N(S_k S^-1 a, S_k - S_k S^-1 S_k)
    with S the sum of the S_k, on contrasts.

    Parameters
    ----------
    related : RelatedDraws
        Relations of the fit.
    own : ndarray, shape (n_samples,)
        Sd of what levels do not share.
    effect : ndarray, shape (n_samples, n_levels)
        Effects of the levels, which sum to zero.
    """
    basis, n = related.basis, related.contrasts.shape[-1]
    n_parts = 1 + len(related.used)
    mean = np.empty((len(effect), n_parts, n + 1))
    square = np.empty((len(effect), n_parts))
    matrices = [np.eye(n), *related.contrasts]
    squares = [matrix @ matrix for matrix in matrices]
    for draws in related.blocks():
        inverse = np.linalg.inv(related.covariance(own, draws))
        solved = (inverse @ (effect[draws] @ basis)[..., None])[..., 0]
        variances = [own[draws] ** 2, *(related.sd[draws].T ** 2)]
        for part, (variance, matrix) in enumerate(zip(variances, matrices, strict=True)):
            contrast = variance[:, None] * (solved @ matrix)
            mean[draws, part] = contrast @ basis.T
            # The trace of K S^-1 K, without a product of matrices at every draw.
            lost = variance**2 * np.einsum("dij,ij->d", inverse, squares[part])
            left = np.maximum(variance * np.trace(matrix) - lost, 0.0)
            square[draws, part] = (contrast**2).sum(axis=1) + left
    return Parts((related.factor, *related.used), mean, np.sqrt(square / n))


def independent_contrasts(related: RelatedDraws, own: Floats, effect: Floats) -> Floats:
    """Contrasts of the effects of related levels that the model takes as independent N(0, 1).

    Parameters
    ----------
    related, own, effect : object
        See :func:`relation_parts`.

    Returns
    -------
    ndarray, shape (n_samples, n_levels - 1)
    """
    contrasts = effect @ related.basis
    white = np.empty_like(contrasts)
    for draws in related.blocks():
        lower = np.linalg.cholesky(related.covariance(own, draws))
        white[draws] = np.linalg.solve(lower, contrasts[draws][..., None])[..., 0]
    return white


def part_draws(
    related: RelatedDraws, own: Floats, effect: Floats, rng: np.random.Generator
) -> dict[str, Floats]:
    """Draw what the relations contribute to the effects of related levels, given the effects.

    By Matheron's rule: draws of all parts from the prior, each corrected by its share of what
    their sum says wrongly of the effects.

    Parameters
    ----------
    related, own, effect : object
        See :func:`relation_parts`.
    rng : numpy.random.Generator
        Source of the draws.

    Returns
    -------
    dict of str to ndarray, shape (n_samples, n_levels)
        ``language`` or ``model``, what levels do not share, then the relations; they add up to the
        effects.
    """
    n = related.contrasts.shape[-1]
    matrices = [np.eye(n), *related.contrasts]
    sds = [own, *related.sd.T]
    parts = []
    for sd, matrix in zip(sds, matrices, strict=True):
        values, vectors = np.linalg.eigh(matrix)
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        parts.append(sd[:, None] * (rng.standard_normal((len(effect), n)) @ root.T))
    wrong = effect @ related.basis - sum(parts)
    for draws in related.blocks():
        solved = np.linalg.solve(related.covariance(own, draws), wrong[draws][..., None])[..., 0]
        for part, sd, matrix in zip(parts, sds, matrices, strict=True):
            part[draws] += sd[draws, None] ** 2 * (solved @ matrix)
    labels = (related.factor, *related.used)
    return {label: part @ related.basis.T for label, part in zip(labels, parts, strict=True)}


def new_effects(
    related: RelatedDraws,
    own: Floats,
    effect: Floats,
    matrices: Floats,
    rng: np.random.Generator,
) -> Floats:
    """Effects of new levels, relative to the mean of the levels of the table.

    Draws from their joint normal distribution given the effects of the table's levels, by
    Matheron's rule: a draw of all levels from the prior, corrected by what it says wrongly
    of the levels of the table.

    Parameters
    ----------
    related : RelatedDraws
        Relations of the fit.
    own : ndarray, shape (n_samples,)
        Sd of what levels do not share.
    effect : ndarray, shape (n_samples, n_levels)
        Effects of the table's levels, which sum to zero.
    matrices : ndarray, shape (n_relations, n_levels + n_new, n_levels + n_new)
        Relations of all levels, those of the table first.
    rng : numpy.random.Generator
        Source of the draws.

    Returns
    -------
    ndarray, shape (n_samples, n_new)
    """
    n_known, n_all = effect.shape[1], matrices.shape[-1]
    prior = own[:, None] * rng.standard_normal((len(effect), n_all))
    for sd, matrix in zip(related.sd.T, matrices, strict=True):
        values, vectors = np.linalg.eigh(matrix)
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        prior += sd[:, None] * (rng.standard_normal((len(effect), n_all)) @ root.T)
    prior -= prior[:, :n_known].mean(axis=1, keepdims=True)
    wrong = (effect - prior[:, :n_known]) @ related.basis
    # Covariance of a new level, less the mean of the others, with the contrasts of these.
    between = matrices[:, n_known:, :n_known] - matrices[:, :n_known, :n_known].mean(
        axis=1, keepdims=True
    )
    between = between @ related.basis
    new = prior[:, n_known:].copy()
    for draws in related.blocks():
        covariance = related.covariance(own, draws)
        solved = np.linalg.solve(covariance, wrong[draws][..., None])[..., 0]
        for sd, matrix in zip(related.sd[draws].T, between, strict=True):
            new[draws] += sd[:, None] ** 2 * (solved @ matrix.T)
    return new
