"""`perf/cell_bound.py`: no set of cells has a smaller error than the bound says."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

# What `crossed` finds in MEGA, to two digits; `perf/next_bound.py` has all of them.
SDS = {
    "sd_model": 11.0,
    "sd_language": 9.4,
    "sd_task": 16.0,
    "sd_residual": 5.9,
    "sd_language_task": 7.2,
    "sd_model_task": 7.1,
    "sd_model_language": 5.6,
}
MODULES = ("measure", "next_cells", "cell_bound", "next_bound")


@pytest.fixture(scope="module")
def perf() -> Iterator[ModuleType]:
    """`perf/next_bound.py` with the modules that it imports from its folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(Path(__file__).parents[1] / "perf"))
        for name in MODULES:
            patch.delitem(sys.modules, name, raising=False)
        import next_bound

        yield next_bound
        for name in MODULES:
            patch.delitem(sys.modules, name, raising=False)


def small(seed: int) -> object:
    """Eleven measurements in four groups, which share three weak effects."""
    import cell_bound

    rng = np.random.default_rng(seed)
    sizes = [3, 2, 3, 3]
    groups = np.split(np.arange(sum(sizes)), np.cumsum(sizes)[:-1])
    n, n_asked = sum(sizes), 4
    rows = 0.4 * rng.normal(size=(n, 3))
    own, effects = np.eye(n), np.zeros((n_asked, n))
    for k, group in enumerate(groups):
        # Each group has an effect of its own, which is what is asked.
        own[np.ix_(group, group)] += rng.uniform(0.5, 3.0)
        effects[k, group] = own[group[0], group[1]]
    asked = 0.4 * rng.normal(size=(n_asked, 3))
    shared = effects + asked @ rows.T
    variance = effects.max(axis=1) + (asked**2).sum(axis=1)
    return cell_bound.Problem(variance, shared, own + rows @ rows.T, own, groups)


def error(problem: object, cells: tuple[int, ...]) -> float:
    """Mean variance after cells are measured, by a conditional covariance."""
    at = list(cells)
    shared = problem.shared[:, at]
    fall = shared @ np.linalg.solve(problem.covariance[np.ix_(at, at)], shared.T)
    return float((problem.variance - np.diag(fall)).mean())


def least(problem: object, k: int) -> tuple[float, tuple[int, ...]]:
    """The smallest mean variance of all sets of k cells, and its cells."""
    sets = combinations(range(len(problem.covariance)), k)
    return min((error(problem, cells), cells) for cells in sets)


@pytest.mark.parametrize("seed", range(4))
def test_no_set_of_cells_is_below_the_bound_which_is_close(perf: ModuleType, seed: int) -> None:
    problem = small(seed)
    for k in (1, 2, 3, 4):
        value, cells = least(problem, k)
        bounds = perf.lower_bounds(problem, cells, rounds=200)
        assert (np.diff(bounds) < 0).all()
        assert bounds[k] <= value * (1 + 1e-12)
        # The unproven part of the fall of the variance is at most 8 % with these seeds.
        assert value - bounds[k] < 0.1 * (problem.variance.mean() - value)
        # Other cells to begin with, and groups whose sets are not tried, give a bound too.
        for start, most_sets in ((tuple(range(k)), 2000), (cells, 0)):
            other = perf.lower_bounds(problem, start, rounds=20, most_sets=most_sets)
            assert other[k] <= value * (1 + 1e-12)


def test_with_nothing_shared_the_bound_is_the_smallest_error(perf: ModuleType) -> None:
    problem = small(0)
    alone = replace(problem, covariance=problem.own)
    for k in (1, 2, 3):
        value, cells = least(alone, k)
        assert perf.lower_bounds(alone, cells)[k] == pytest.approx(value, rel=1e-12)


def test_what_is_no_bound_is_found(perf: ModuleType) -> None:
    """Noisier cells than those measured: some set does better than that 'bound'."""
    problem = small(0)
    noisy = replace(
        problem, own=problem.own + np.eye(11), covariance=problem.covariance + np.eye(11)
    )
    value, cells = least(problem, 3)
    assert perf.lower_bounds(noisy, cells, rounds=200)[3] > value
    with pytest.raises(AssertionError, match="own is no part of covariance"):
        replace(problem, own=problem.own + 5.0 * np.eye(11))
    with pytest.raises(AssertionError, match="groups depend on each other"):
        replace(problem, own=problem.covariance)
    with pytest.raises(AssertionError, match="every cell is in one group"):
        replace(problem, groups=problem.groups[1:])


def test_twenty_cells_of_mega_are_not_enough_for_potentials(perf: ModuleType) -> None:
    """With 60 % hidden, no 20 cells do what 200 random ones do."""
    import next_cells

    made = next_cells.simulated(3, 0.6, SDS, next_cells.cells_of_mega(), ["potential"])
    whole, random = perf.problem(made), made.random("potential")
    order = next_cells.known_sds(made.covariance, whole.shared, 40)
    bounds = np.sqrt(perf.lower_bounds(whole, order[:20], rounds=5, most_sets=300))
    assert bounds[20] > random[200]
    chosen = next_cells.curve(made.covariance, made.asked["potential"], order)
    # The same cells are enough for less, and more cells for this.
    assert bounds[20] < chosen[20] < random[100]
    assert chosen[40] < random[200]
