"""Shares of correct items that depend little on the chance of the score that they belong to.

A binomial variance p (1 - p) / n that is computed from the observed share of its own score is
smaller where the score is further from one half by chance. Such scores get a larger weight, and
weighted means are drawn away from one half, by about (2 p - 1) / n. With p from other scores of
the language, the task and the model, errors of weight and score are nearly independent.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Final

import numpy as np
from scipy.special import expit

from bayeseval._typing import Floats, Index

__all__ = ["fitted_shares"]

# Variances need no more digits of logits; tables in few pieces need few rounds.
_ENOUGH: Final = 1e-4
_MOST_ROUNDS: Final = 100
# Effects of a pair of factors need several cells per level; with one, they are single scores.
_CELLS_PER_LEVEL: Final = 1.5
_ROUNDS_OF_PAIRS: Final = 20
# Standard errors that chance explains; a cell further from the others keeps the rest.
_FAR: Final = 3.0


def fitted_shares(share: Floats, n: Floats, factors: Sequence[Index]) -> Floats:
    """Shares that an additive model with effects of pairs of factors fits to all of them.

    Empirical logits log((k + 1/2) / (n - k + 1/2)) are fitted by the sums of one effect for each
    factor, with equal weights. What is left has effects of pairs of factors (language and task,
    say), means with the precisions n p (1 - p), each drawn to 0 as far as the binomial error and
    what single cells differ by explain it (by moments; Efron and Morris 1975). A cell has an
    effect of its own only for what is more than three standard errors from the fit: the rest would
    follow the chance of its score.
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
    if sum(int(level.max()) for level in levels) + 1 >= len(own):
        return np.asarray(expit(own))
    # Of a fit beyond what the items can show, the variance would have no bound.
    most = np.log(2.0 * n + 1.0)
    pairs = _pairs(levels)
    effects = [np.zeros(len(own)) for _ in pairs]
    logit = np.clip(fit, -most, most)
    for _ in range(_ROUNDS_OF_PAIRS if pairs else 0):
        before = logit
        for i, pair in enumerate(pairs):
            p = expit(logit)
            rest = own - fit - sum(effects[:i] + effects[i + 1 :])
            effects[i] = _drawn_means(rest, n * p * (1.0 - p), pair)
            logit = np.clip(fit + sum(effects), -most, most)
        if np.abs(logit - before).max() < _ENOUGH:
            break
    # Only what chance cannot explain is an effect of a cell.
    p = expit(logit)
    off = np.clip(own, -most, most) - logit
    beyond = np.maximum(np.abs(off) - _FAR / np.sqrt(n * p * (1.0 - p)), 0.0)
    return np.asarray(expit(logit + np.sign(off) * beyond))


def _pairs(levels: Sequence[Index]) -> list[Index]:
    """Levels of pairs of factors that have several cells and are not those of one factor."""
    found = []
    for one, other in combinations(levels, 2):
        pair = np.unique(one * (int(other.max()) + 1) + other, return_inverse=True)[1]
        n_levels = int(pair.max()) + 1
        of_one_factor = n_levels == max(int(one.max()), int(other.max())) + 1
        if not of_one_factor and n_levels * _CELLS_PER_LEVEL <= len(pair):
            found.append(pair)
    return found


def _drawn_means(rest: Floats, precision: Floats, level: Index) -> Floats:
    """Weighted means of the levels, drawn to 0 by moments, by cell."""
    total = np.bincount(level, precision)
    mean = np.bincount(level, precision * rest) / total
    # At least the binomial variance; more, where single cells differ beyond it.
    n_free = len(rest) - len(total)
    scale = max(float((precision * (rest - mean[level]) ** 2).sum()) / n_free, 1.0)
    between = float((total * mean**2).sum() - scale * len(total)) / float(total.sum())
    weight = 1.0 - 1.0 / (1.0 + max(between, 0.0) * total / scale)
    return np.asarray((weight * mean)[level])


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
