"""Shares of correct items that depend little on the chance of the score that they belong to.

A binomial variance p (1 - p) / n that is computed from the observed share of its own score is
smaller where the score is further from one half by chance. Such scores get a larger weight, and
weighted means are drawn away from one half, by about (2 p - 1) / n. With p from other scores of
the language, the task and the model, errors of weight and score are nearly independent.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from scipy.special import expit

from bayeseval._typing import Floats, Index

__all__ = ["fitted_shares"]

# Variances need no more digits of logits; tables in few pieces need few rounds.
_ENOUGH: Final = 1e-4
_MOST_ROUNDS: Final = 100


def fitted_shares(share: Floats, n: Floats, factors: Sequence[Index]) -> Floats:
    """Shares drawn to those of an additive model, as far as chance explains the distance.

    Empirical logits log((k + 1/2) / (n - k + 1/2)) are fitted by the sums of one effect for each
    factor, with equal weights. The variance of the residuals beyond the binomial one, by moments,
    says how far each logit stays from its fit (an empirical Bayes estimate; Efron and Morris 1975).
    Where every score has effects of its own, the share is (k + 1/2) / (n + 1), the mean under
    Jeffreys' prior.

    Parameters
    ----------
    share : ndarray, shape (n_cells,)
        Observed shares, from 0 to 1.
    n : ndarray, shape (n_cells,)
        Numbers of items.
    factors : sequence of ndarray of int, shape (n_cells,)
        Levels of each cell.

    Returns
    -------
    ndarray, shape (n_cells,)
        Between 0 and 1, both excluded.

    Examples
    --------
    Scores of one language, which differ less than 50 items make them differ by chance:

    >>> import numpy as np
    >>> same = np.zeros(4, dtype=np.int64)
    >>> fitted_shares(np.array([0.74, 0.8, 0.82, 0.84]), np.full(4, 50.0), [same]).round(3)
    array([0.796, 0.796, 0.796, 0.796])
    """
    right = share * n
    own = np.log((right + 0.5) / (n - right + 0.5))
    levels = [np.unique(factor, return_inverse=True)[1] for factor in factors]
    fit = _additive(own, levels)
    n_free = sum(int(level.max()) for level in levels) + 1
    if n_free >= len(own):
        return np.asarray(expit(own))
    # Of a fit beyond what the items can show, the variance would have no bound.
    most = np.log(2.0 * n + 1.0)
    p = expit(np.clip(fit, -most, most))
    precision = n * p * (1.0 - p)
    residual = own - fit
    left = 1.0 - n_free / len(own)
    beyond = float((precision * residual**2).sum() / left - len(own)) / float(precision.sum())
    weight = 1.0 - 1.0 / (1.0 + max(beyond, 0.0) * precision)
    return np.asarray(expit(np.clip(fit + weight * residual, -most, most)))


def _additive(values: Floats, levels: Sequence[Index]) -> Floats:
    """Least squares by the sum of an effect for each factor, one factor after the other."""
    counts = [np.bincount(level) for level in levels]
    fit = np.full(len(values), values.mean())
    for _ in range(_MOST_ROUNDS):
        before = fit
        for level, count in zip(levels, counts, strict=True):
            fit = fit + (np.bincount(level, values - fit) / count)[level]
        if np.abs(fit - before).max() < _ENOUGH:
            break
    return fit
