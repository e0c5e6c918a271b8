"""Means and deviations of groups of scores that may lie far from zero, without losing digits."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from bayeseval._typing import Floats

__all__ = ["deviations", "first_values", "means_over_boots", "merged_means", "merged_pieces"]

Ints = npt.NDArray[np.int64]

# Sums of the same scores in another order have this many digits in common.
_DIGITS: Final = 12


def first_values(group: Ints, values: Floats, n: int) -> Floats:
    """The first value of each of `n` groups; 0 for a group without any.

    Scores of a group less this one are exact, or nearly: what they have in common is gone, and
    with it the digits that sums of the scores themselves would lose.

    Examples
    --------
    >>> first_values(np.array([0, 0, 2]), np.array([5.0, 7.0, 9.0]), 3)
    array([5., 0., 9.])
    """
    first = np.zeros(n)
    first[group[::-1]] = values[::-1]
    return first


def deviations(group: Ints, values: Floats, n: int) -> tuple[Floats, Floats, Floats]:
    """First value of each group, mean of the group less this one, and deviations from the mean.

    Parameters
    ----------
    group : array of int, shape (n_values,)
    values : array of float, shape (n_values,)
    n : int
        Number of groups.

    Examples
    --------
    >>> deviations(np.array([0, 0, 0]), 1e15 + np.array([1.0, 2.0, 6.0]), 1)
    (array([1.e+15]), array([2.]), array([-2., -1.,  3.]))
    """
    first = first_values(group, values, n)
    beyond = values - first[group]
    count = np.maximum(np.bincount(group, minlength=n), 1)
    mean = np.bincount(group, beyond, n) / count
    return first, mean, beyond - mean[group]


def merged_means(group: Ints, n: Floats, mean: Floats, n_groups: int) -> Floats:
    """Means of groups from numbers of rows and means of their pieces; NaN without rows.

    Examples
    --------
    >>> merged_means(np.array([0, 0]), np.array([1.0, 3.0]), np.array([4.0, 8.0]), 1)
    array([7.])
    """
    first = first_values(group, mean, n_groups)
    beyond = np.bincount(group, n * (mean - first[group]), n_groups)
    total = np.bincount(group, n, n_groups)
    with np.errstate(invalid="ignore"):
        return np.asarray(first + beyond / total)


def merged_pieces(
    group: Ints, n: Floats, mean: Floats, square: Floats, n_groups: int
) -> tuple[Floats, Floats, Floats]:
    """Counts, means and centred sums of squares of groups from those of their pieces.

    With n_j, m_j and q_j of piece j, the mean is sum n_j m_j / n, and the sum of squares
    sum q_j + sum n_j (m_j - mean)^2 (Chan, Golub and LeVeque 1983): nothing is subtracted from
    a sum of squares, which would lose its digits.
    """
    merged = merged_means(group, n, mean, n_groups)
    apart = mean - merged[group]
    total = np.bincount(group, n, n_groups).astype(np.float64)
    squares = np.bincount(group, square + n * apart**2, n_groups).astype(np.float64)
    return total, merged, squares


def means_over_boots(scores: Floats, key: Ints) -> tuple[Floats, Ints]:
    """Means of scores with the same key, in the order of the keys, and the first row of each.

    Means have 12 digits, so that models with the same scores in another order have the same ones.

    Examples
    --------
    >>> means_over_boots(np.array([0.25, 1.0, 0.75]), np.array([4, 0, 4]))
    (array([1. , 0.5]), array([1, 0]))
    """
    _, first, group = np.unique(key, return_index=True, return_inverse=True)
    start, beyond, _ = deviations(group.reshape(-1), scores, len(first))
    means = [float(f"{mean:.{_DIGITS}g}") for mean in (start + beyond).tolist()]
    return np.array(means), first.astype(np.int64)
