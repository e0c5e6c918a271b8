"""Two-way means: what a table's averages predict, as a peer for models."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from bayeseval import names
from bayeseval._typing import Floats, Index

__all__ = ["TWO_WAY", "cross_validated_sd", "two_way_means"]

#: What tables call this peer.
TWO_WAY: Final = "two-way means"
# Parts of the cross-validation; each leaves out a twentieth of the scores that are fitted.
_FOLDS: Final = 20


def two_way_means(codes: Mapping[str, Index], score: Floats, asked: Mapping[str, Index]) -> Floats:
    """Mean of the model plus mean of the (language, task) pair less the grand mean.

    Of a pair without scores the mean of the language plus the mean of the task less the grand
    mean stands for its own. A model, language or task without scores has the grand mean.

    Parameters
    ----------
    codes : dict of str to ndarray of int, shape (n,)
        Levels of the scores by factor.
    score : ndarray, shape (n,)
    asked : dict of str to ndarray of int, shape (m,)
        Levels of what is predicted.

    Returns
    -------
    ndarray, shape (m,)
    """
    grand = float(score.mean())

    def effect(own: Index, wanted: Index) -> Floats:
        """Mean less the grand mean; NaN of a level without scores."""
        n = int(max(own.max(), wanted.max())) + 1
        count = np.bincount(own, minlength=n)
        total = np.bincount(own, weights=score - grand, minlength=n)
        means = np.full(n, np.nan)
        np.divide(total, count, out=means, where=count > 0)
        return means[wanted]

    model, language, task = (
        np.nan_to_num(effect(codes[f], asked[f])) for f in (names.MODEL, names.LANGUAGE, names.TASK)
    )
    n_tasks = int(max(codes[names.TASK].max(), asked[names.TASK].max())) + 1
    pair = effect(*(one[names.LANGUAGE] * n_tasks + one[names.TASK] for one in (codes, asked)))
    return np.asarray(grand + model + np.where(np.isnan(pair), language + task, pair))


def cross_validated_sd(
    codes: Mapping[str, Index], score: Floats, unit: Index, *, rng: np.random.Generator
) -> float:
    """Root mean square error of two-way means for units that they have not seen.

    Parameters
    ----------
    codes, score
        As for :func:`two_way_means`.
    unit : ndarray of int, shape (n,)
        What is left out together with each score. Up to 20 units are left out one at a time,
        more of them in 20 random parts.
    rng : numpy.random.Generator
        Source of the parts.

    Returns
    -------
    float
        Score units.
    """
    _, place = np.unique(unit, return_inverse=True)
    n_units = int(place.max()) + 1
    fold = rng.permutation(n_units)[place] % _FOLDS
    error = np.empty(len(score))
    for part in range(min(n_units, _FOLDS)):
        out = fold == part
        error[out] = score[out] - two_way_means(
            {factor: own[~out] for factor, own in codes.items()},
            score[~out],
            {factor: own[out] for factor, own in codes.items()},
        )
    return float(np.sqrt(np.mean(error**2)))
