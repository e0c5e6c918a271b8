"""A lower bound on the error that is left after any k of many cells are measured.

Measurements y of cells have the covariance C (noise included) and the covariances D with what is
asked, whose variances have the sum V. After the cells S, the sum of the variances is the smallest
one of linear estimates b'y with weights on S only::

    f(S) = V + min_b sum_t (b_t' C b_t - 2 d_t' b_t)

Let N be the blocks of the covariance of the measurements given everything that groups of cells
share (effects of models and tasks, where groups are languages), so that F = C - N is positive
semidefinite (law of total variance). Then ``b' F b >= 2 a' F b - a' F a`` for any a, and with
``r_t = d_t - F a_t``::

    f(S) >= V - sum_t a_t' F a_t - sum_groups sum_t r_tS' (N_SS)^-1 r_tS

The best cells of a group are found by trying all sets of a few cells; all cells of the group bound
what more of them do. How many cells each group gets is a knapsack problem, solved by dynamic
programming for all k at once. Every a gives a bound; the best a is found by averaging the weights
that belong to the best cells (Lagrangian decomposition with a subgradient method).

References
----------
Guignard and Kim (1987), Lagrangean decomposition: a model yielding stronger Lagrangean bounds,
Mathematical Programming 39, 215-228.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Index = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Problem:
    """Measurements, what is asked of them, and groups of cells.

    Attributes
    ----------
    variance : ndarray, shape (n_asked,)
        Of what is asked, before any measurement.
    shared : ndarray, shape (n_asked, n_cells)
        Covariances of what is asked with the measurements.
    covariance : ndarray, shape (n_cells, n_cells)
        Of the measurements, noise included.
    own : ndarray, shape (n_cells, n_cells)
        The same given what groups share: zero between cells of different groups.
    groups : sequence of ndarray of int
        Positions of the cells of each group; every cell is in one group.
    """

    variance: Floats
    shared: Floats
    covariance: Floats
    own: Floats
    groups: Sequence[Index]

    def __post_init__(self) -> None:
        """Refuse what the bound does not hold for."""
        at = np.concatenate(list(self.groups))
        assert sorted(at) == list(range(len(self.covariance))), "every cell is in one group"
        inside = np.zeros_like(self.own, dtype=bool)
        for group in self.groups:
            inside[np.ix_(group, group)] = True
        assert not self.own[~inside].any(), "groups depend on each other given what they share"
        least = np.linalg.eigvalsh(self.covariance - self.own)[0]
        # Rounding of sums of variances of this size.
        assert least > -1e-10 * np.trace(self.covariance), "own is no part of covariance"


def lower_bounds(
    problem: Problem, start: Sequence[int], *, rounds: int = 20, most_sets: int = 2_000
) -> Floats:
    """Lower bounds on the mean variance of what is asked after 0, 1, ..., len(start) cells.

    Parameters
    ----------
    problem : Problem
    start : sequence of int
        Cells whose weights the search begins with, for the largest number of cells; good cells give
        a good bound sooner, any cells give a valid one.
    rounds : int
        Steps of the search.
    most_sets : int
        Sets of cells of a group that are tried for one size of sets.

    Returns
    -------
    ndarray, shape (len(start) + 1,)
    """
    k, joined = len(start), problem.covariance - problem.own
    total = problem.variance.sum()
    weights = _weights(problem.covariance, problem.shared, list(start))
    best = np.zeros(k + 1)
    for step in range(rounds):
        left = problem.shared - weights @ joined
        falls = [_falls(problem, left, group, most_sets) for group in problem.groups]
        fall, chosen = _share_out(falls, k)
        best = np.maximum(best, total - np.sum(weights * (weights @ joined)) - fall)
        weights += (_weights(problem.own, left, chosen) - weights) / (step + 2)
    return np.asarray(best / len(problem.variance))


def _weights(covariance: Floats, shared: Floats, cells: list[int]) -> Floats:
    """Of the best linear estimates from some cells, shape (n_asked, n_cells)."""
    found = np.zeros_like(shared)
    found[:, cells] = np.linalg.solve(covariance[np.ix_(cells, cells)], shared[:, cells].T).T
    return found


def _falls(
    problem: Problem, left: Floats, group: Index, most_sets: int
) -> list[tuple[float, list[int]]]:
    """How far 0, 1, ... cells of a group reduce the sum of variances at most, and which do.

    The last entry is that of all cells of the group, and stands for every larger number.
    """
    own, square = problem.own[np.ix_(group, group)], left[:, group].T @ left[:, group]
    found: list[tuple[float, list[int]]] = [(0.0, [])]
    size = 1
    while size < len(group) and comb(len(group), size) <= most_sets:
        sets = np.array(list(combinations(range(len(group)), size)))
        rows, columns = sets[:, :, None], sets[:, None, :]
        fall = np.trace(np.linalg.solve(own[rows, columns], square[rows, columns]), 0, 1, 2)
        best = int(np.argmax(fall))
        found.append((float(fall[best]), [int(i) for i in group[sets[best]]]))
        size += 1
    everything = float(np.trace(np.linalg.solve(own, square)))
    return [*found, (everything, [int(i) for i in group])]


def _share_out(falls: list[list[tuple[float, list[int]]]], k: int) -> tuple[Floats, list[int]]:
    """The largest sum of falls with 0 to k cells in all, and the cells of the largest of them."""
    total = np.zeros(k + 1)
    taken = []
    for options in falls:
        sums = np.full((len(options), k + 1), -np.inf)
        for size, (fall, _) in enumerate(options[: k + 1]):
            sums[size, size:] = total[: k + 1 - size] + fall
        taken.append(np.argmax(sums, axis=0))
        total = sums.max(axis=0)
    cells: list[int] = []
    left = k
    for options, size in zip(reversed(falls), reversed(taken), strict=True):
        cells += options[size[left]][1]
        left -= int(size[left])
    return total, cells
