"""Realised residuals: the noise of every record under one draw of the posterior.

Under the model, with proper priors, the joint distribution of a table and a posterior draw
is the same as that of the table and the true parameters: its residuals at one draw are
independent and uniform (normal, as scores) without a correction for fitting (Johnson 2004;
Gelman, Meng and Stern 1996). The p-value of a test at one draw is therefore exact, and its
mean over draws is the posterior predictive p-value of the test's statistic.
"""

from __future__ import annotations

import numpy as np
from scipy import special, stats

from bayeseval._typing import Floats, Index
from bayeseval.checks.blocks import row_blocks
from bayeseval.estimands import expected_score
from bayeseval.estimands.container import PosteriorArrays
from bayeseval.estimands.predict import off_bounds, replicate_scores
from bayeseval.families import FAMILIES, At

__all__ = [
    "between_groups",
    "has_exact_pit",
    "levene",
    "members_of",
    "normal_scores",
    "realised_pit",
]


# Keeps normal scores finite: 8.2 standard deviations.
_LEAST = 1e-16
# Replicates that the rank of a score is taken among where its distribution function is
# not at hand.
_REPLICATES = 99


def has_exact_pit(arrays: PosteriorArrays) -> bool:
    """Whether :func:`realised_pit` is exact: one likelihood, of scores."""
    family = FAMILIES.get(arrays.likelihood)
    return family is not None and family.quantity == "score"


def realised_pit(arrays: PosteriorArrays, draws: Index, rng: np.random.Generator) -> Floats:
    """Distribution function of every score at single draws of the posterior.

    Parameters
    ----------
    arrays : PosteriorArrays
        From :func:`bayeseval.estimands.read_arrays`.
    draws : ndarray of int, shape (n_draws,)
        Which of the flattened draws.
    rng : numpy.random.Generator
        Source of replicated scores, for likelihoods without a distribution function of errors.

    Returns
    -------
    ndarray, shape (n_draws, n_records)
        Strictly between 0 and 1.
    """
    # In place: all draws at all records may take a large part of the memory.
    values = np.empty((len(draws), len(arrays.score)))
    for row, draw in zip(values, draws, strict=True):
        row[:] = _pit(arrays, slice(int(draw), int(draw) + 1), rng)[0]
    return np.clip(values, _LEAST, 1.0 - _LEAST, out=values)


def _pit(arrays: PosteriorArrays, draw: slice, rng: np.random.Generator) -> Floats:
    family = FAMILIES.get(arrays.likelihood)
    if family is None or family.quantity != "score":
        replicated = np.concatenate(
            [replicate_scores(arrays, rng, draw) for _ in range(_REPLICATES)]
        )
        # What the likelihood makes equal has ties, which are broken at random.
        replicated, score = off_bounds(arrays, replicated), off_bounds(arrays, arrays.score)
        below, equal = (replicated < score).sum(axis=0), (replicated == score)
        rank = below + rng.uniform(size=below.shape) * (1 + equal.sum(axis=0))
        return np.asarray(rank / (_REPLICATES + 1))[None]
    sd = arrays.residual_sd[draw]
    if arrays.residual_by is not None:
        sd = sd[:, arrays.index[arrays.residual_by]]
    errors = arrays.error_variance(draw)
    if errors is not None:
        sd = np.sqrt(sd**2 + errors)
    expected, shared = expected_score(arrays, draw), arrays.shared_error(draw)
    error = (arrays.score - (expected if shared is None else expected + shared)) / sd
    extra = {p.name: arrays.extra[p.name][draw, None] for p in family.extra}
    return family.cdf(error, At(0.0, 1.0, extra))


def normal_scores(pit: Floats) -> Floats:
    """Standard normal scores of uniform values, the same shape."""
    return np.asarray(special.ndtri(pit))


def between_groups(values: Floats, group: Index) -> tuple[Floats, float]:
    """One-way analysis of variance of every row, and the intraclass correlation.

    Parameters
    ----------
    values : ndarray, shape (n_rows, n)
    group : ndarray of int, shape (n,)
        Groups of one record each say nothing and are left out.

    Returns
    -------
    p : ndarray, shape (n_rows,)
        Of the F test, exact for independent normal values of one variance; NaN with
        fewer than two groups of two.
    correlation : float
        Between two records of a group, mean over the rows; NaN likewise.
    """
    _, index, size = np.unique(group, return_inverse=True, return_counts=True)
    kept = size[index] > 1
    _, index, size = np.unique(group[kept], return_inverse=True, return_counts=True)
    n, k = int(kept.sum()), len(size)
    if k < 2 or n <= k:
        return np.full(len(values), np.nan), float("nan")
    order = np.argsort(index, kind="stable")
    starts = np.concatenate([[0], np.cumsum(size)[:-1]])
    between, within = np.empty((2, len(values)))
    for rows in row_blocks(len(values), 4 * n):
        part = values[rows][:, kept]
        mean = np.add.reduceat(part[:, order], starts, axis=1) / size
        spread = size * (mean - part.mean(axis=1, keepdims=True)) ** 2
        between[rows] = spread.sum(axis=1) / (k - 1)
        within[rows] = ((part - mean[:, index]) ** 2).sum(axis=1) / (n - k)
    # Records of a group that a random effect would count (Searle, Casella and McCulloch 1992).
    typical = (n - (size**2).sum() / n) / (k - 1)
    shared = (between - within) / typical
    correlation = float(np.mean(shared / (shared + within)))
    return np.asarray(stats.f.sf(between / within, k - 1, n - k)), correlation


def members_of(group: Index, n_groups: int) -> list[Index]:
    """Positions of the members of every group, in order."""
    size = np.bincount(group, minlength=n_groups)
    return np.split(np.argsort(group, kind="stable"), np.cumsum(size)[:-1])


def levene(values: Floats, group: Index, n_groups: int) -> Floats:
    """Levene's statistic about group medians, for many rows at once.

    Parameters
    ----------
    values : ndarray, shape (n_rows, n)
    group : ndarray of int, shape (n,)
    n_groups : int

    Returns
    -------
    ndarray, shape (n_rows,)
        As ``scipy.stats.levene(..., center="median")``, empty groups left out; NaN with
        fewer than two groups, and where no group has three values: two lie at the same
        distance from their median.
    """
    members = [rows for rows in members_of(group, n_groups) if len(rows)]
    if len(members) < 2 or max(map(len, members)) < 3:
        return np.full(len(values), np.nan)
    n, n_groups = sum(map(len, members)), len(members)
    total, explained, squares = np.zeros((3, len(values)))
    for rows in members:
        part = values[:, rows]
        part -= np.median(part, axis=1, keepdims=True)
        own = np.abs(part, out=part).sum(axis=1)
        total += own
        explained += own**2 / len(rows)
        squares += np.einsum("ij,ij->i", part, part)
    between = explained - total**2 / n
    return np.asarray((n - n_groups) / (n_groups - 1) * between / (squares - explained))
