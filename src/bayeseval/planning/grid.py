"""The designs that a plan compares: a grid around the present one, and the cheapest between."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Final

import numpy as np

from bayeseval._arguments import as_list, as_number
from bayeseval._typing import Floats
from bayeseval.errors import InputError, argument
from bayeseval.estimands.plan_variances import PlanVariances, Study
from bayeseval.estimands.planning import error_variance, p_right_population, universe_variance
from bayeseval.planning.container import FACETS

__all__ = ["grid_of", "read_levels", "with_cheapest"]

Levels = dict[str, list[float]]

_MAX_STUDIES: Final = 10_000
# Around the present design; every number is a multiple of what there is.
_STEPS: Final = (0.25, 0.5, 1.0, 2.0, 4.0)
_SEEDS: Final = (1, 2, 3, 5, 10, 20)
_PROMPTS: Final = (1, 2, 5, 10, 20)
_UNKNOWN: Final = {
    "seeds": "replicates by seed",
    "items": "test-set noise",
    "prompts": "several prompts or judges of a cell",
}


def read_levels(
    asked: Mapping[str, Sequence[int] | Sequence[float] | None],
    present: Study,
    variances: PlanVariances,
    *,
    test_size: float | None,
) -> Levels:
    """The numbers of every facet to try: those that were asked for, or some around the present.

    Parameters
    ----------
    asked : mapping
        Numbers by facet; None where nothing was asked for.
    present : Study
    variances : PlanVariances
    test_size : float, optional
        Items in one of the present test sets.

    Raises
    ------
    InputError
        If a number is invalid, or the fit knows nothing of a facet.
    """
    levels: Levels = {}
    for facet in FACETS:
        here = float(getattr(present, facet))
        given = asked[facet]
        if given is None:
            levels[facet] = _around(facet, here, variances, test_size)
            continue
        values = as_list(argument(facet), given, of="numbers")
        wanted = [as_number(argument(facet), value) for value in values]
        if not wanted:
            raise InputError(f"{facet}: no number given")
        for value in wanted:
            whole = facet != "items"
            if not (math.isfinite(value) and value > 0.0 and (not whole or value == int(value))):
                kind = "whole numbers of at least 1" if whole else "numbers above 0"
                raise InputError(f"{argument(facet)} must be {kind}, got {value:g}")
        levels[facet] = sorted(set(wanted))
        if facet == "items" and test_size is not None:
            levels[facet] = [value / test_size for value in levels[facet]]
        if math.isnan(here):
            raise InputError(
                f"{facet} cannot be planned: the table of this fit has no information on "
                f"{_UNKNOWN[facet]}"
            )
        if facet in ("languages", "tasks") and here == 1.0 and levels[facet] != [1.0]:
            raise InputError(
                f"{facet} cannot be planned: this fit has a single {facet[:-1]}, so the effect of "
                "others is not known"
            )
    return levels


def grid_of(levels: Levels) -> list[Study]:
    """All designs with these numbers.

    Raises
    ------
    InputError
        If there are too many.
    """
    number = math.prod(len(values) for values in levels.values())
    if number > _MAX_STUDIES:
        raise InputError(f"the grid has {number} designs, more than {_MAX_STUDIES}; ask for fewer")
    return [Study(*values) for values in product(*(levels[facet] for facet in FACETS))]


def with_cheapest(
    levels: Levels,
    free: Sequence[str],
    variances: PlanVariances,
    *,
    cost: Callable[[Study], float],
    target_sd: float | None,
    target_probability: float | None,
) -> Levels:
    """The levels, with those of the cheapest design that reaches the targets.

    Parameters
    ----------
    levels : dict
        From :func:`read_levels`.
    free : sequence of str
        One or two facets of whole numbers: all numbers between the smallest and the largest level
        are tried. Of the others the levels are.
    variances : PlanVariances
    cost : callable
        Of a design; it does not fall with the number of any facet.
    target_sd, target_probability : float or None

    Notes
    -----
    Precision grows with every facet, so that the smallest number of one that reaches the targets is
    found by bisection for every number of the other.
    """
    if not free or (target_sd is None and target_probability is None):
        return levels
    typical = _averaged(variances)

    def sd_of(study: Study) -> float:
        return float(np.sqrt(2.0 * error_variance(typical, study)[:, 0]).mean())

    def reaches(study: Study) -> bool:
        if target_sd is not None and sd_of(study) > target_sd:
            return False
        if target_probability is None:
            return True
        error = error_variance(typical, study)[:, 0]
        right = p_right_population(universe_variance(typical, study), error)
        return bool(right.mean() >= target_probability)

    inner, *outer = free
    low, high = int(min(levels[inner])), int(max(levels[inner]))
    others = [facet for facet in FACETS if facet not in free]
    found: tuple[float, float, Study] | None = None
    for values in product(*(levels[facet] for facet in others)):
        held = dict(zip(others, values, strict=True))
        most = high
        for number in range(*_ends(levels, outer)):
            here = held | dict.fromkeys(outer, float(number))

            def study(n: int, here: Mapping[str, float] = here) -> Study:
                return Study(**here, **{inner: float(n)})

            if found is not None and cost(study(low)) > found[0]:
                break
            if reaches(study(most)):
                most = low + bisect_left(range(low, most), True, key=lambda n: reaches(study(n)))
                new = cost(study(most)), sd_of(study(most)), study(most)
                found = new if found is None or new[:2] < found[:2] else found
    if found is None:
        return levels
    added = {facet: {getattr(found[2], facet)} if facet in free else set() for facet in levels}
    return {facet: sorted({*own, *added[facet]}) for facet, own in levels.items()}


def _ends(levels: Levels, facets: Sequence[str]) -> tuple[int, int]:
    """First and last whole number to try of a facet, if there is one; else one round."""
    return (int(min(levels[facets[0]])), int(max(levels[facets[0]])) + 1) if facets else (0, 1)


def _averaged(variances: PlanVariances) -> PlanVariances:
    """With one model of the mean variances: the mean of all models' errors is its error."""

    def mean(values: Floats | None) -> Floats | None:
        return None if values is None else values.mean(axis=1, keepdims=True)

    return replace(
        variances,
        three_way=variances.three_way.mean(axis=1, keepdims=True),
        noise=variances.noise.mean(axis=1, keepdims=True),
        seed=mean(variances.seed),
        test_set=mean(variances.test_set),
        seed_test_set=mean(variances.seed_test_set),
        prompt=mean(variances.prompt),
    )


def _around(
    facet: str, here: float, variances: PlanVariances, test_size: float | None
) -> list[float]:
    """Levels around the present one; just that one where nothing else can be said."""
    if math.isnan(here):
        return [math.nan]
    if facet == "items":
        if test_size is None:
            return list(_STEPS)
        return sorted({max(1.0, np.ceil(step * test_size)) / test_size for step in _STEPS})
    if facet == "seeds":
        return sorted({*map(float, _SEEDS), here})
    if facet == "prompts":
        return sorted({*map(float, _PROMPTS), here})
    # The present levels of a fixed facet are the ones that matter.
    if here == 1.0 or facet[:-1] in variances.fixed:
        return [here]
    return sorted({float(max(1, round(step * here))) for step in _STEPS})
