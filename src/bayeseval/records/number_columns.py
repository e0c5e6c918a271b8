"""Columns of numbers beside the score: what they may hold, and bounds of the scores in them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
import numpy.typing as npt

from bayeseval._text import Caution, counted, grouped, shorten
from bayeseval.errors import InputError
from bayeseval.readers.columns import columns_argument
from bayeseval.records.coded import by_level
from bayeseval.records.parts import REDUCED
from bayeseval.records.report import LARGEST, Units
from bayeseval.records.stack import Stack

__all__ = ["check_numbers", "doubts_of_numbers", "units_in_table"]

# Scores are rounded, to a tenth of a percent or more.
_ROUNDED: Final = 0.002
# Fewer standard errors than these say nothing of their unit.
_FEWEST_ERRORS: Final = 4
# Errors of fractions beside percentages are 100 times too small, as of 10,000 times the items.
# Errors this small are those of fractions of 30 items or more, and no test set has so many items:
# where scores of items differ by a tenth of what they can, 12,000 have such an error.
_MANY_ITEMS: Final = 300_000
_PERCENT: Final = 100.0
# Smaller errors, in units of the scale, count as this one, and larger ones as its inverse: their
# squares are no numbers.
_SMALLEST_ERROR: Final = 1e-9
_WHOLE: Final = ("n", "k", "n_seeds", "n_boot")
_AT_LEAST: Final = {
    "n": 1.0,
    "k": 0.0,
    "se": 0.0,
    "seed_sd": 0.0,
    "boot_sd": 0.0,
    "n_seeds": 1.0,
    "n_boot": 1.0,
}


def check_numbers(stack: Stack, task: npt.NDArray[np.int64], tasks: tuple[str, ...]) -> None:
    """Refuse numbers that their column cannot hold, and a chance level that is not one per task."""
    numbers = stack.numbers
    beyond = f"is beyond {LARGEST:g}; divide all by a power of ten"
    # The extremes of rows that were reduced are in the file, their means are not.
    scores, rows = stack.scores
    largest = int(np.nanargmax(np.abs(scores)))
    if np.abs(scores[largest]) > LARGEST:
        where = stack.at(int(rows[largest]), "score", float(scores[largest]))
        raise InputError(f"{where}: score {scores[largest]:g} {beyond}")
    for name, values in numbers.items():
        if name not in ("score", *REDUCED):
            _refuse(stack, name, np.abs(values) > LARGEST, beyond)
    if "se" in numbers:
        small = (numbers["se"] > 0.0) & (numbers["se"] < 1.0 / LARGEST)
        _refuse(stack, "se", small, f"is below {1.0 / LARGEST:g}; write 0 where there is none")
    for name, least in _AT_LEAST.items():
        if name in numbers:
            _refuse(stack, name, numbers[name] < least, f"is below {least:g}")
    for name in _WHOLE:
        if name in numbers:
            values = numbers[name]
            invalid = np.isfinite(values) & (values != np.floor(values))
            _refuse(stack, name, invalid, "is not a whole number")
    if "k" in numbers:
        given = np.isfinite(numbers["k"])
        items = numbers.get("n", np.full(len(stack), np.nan))
        _refuse(stack, "k", given & np.isnan(items), "has no n (number of items) beside it")
        _refuse(stack, "k", numbers["k"] > items, "is above n, the number of items")
    if "chance" in numbers:
        _per_task(stack, "chance", task, tasks)


def _refuse(stack: Stack, name: str, invalid: npt.NDArray[np.bool_], problem: str) -> None:
    rows = np.flatnonzero(invalid)
    if rows.size:
        first = int(rows[0])
        n = int(stack.n_rows[rows].sum())
        more = f"; {n} such rows" if n > 1 else ""
        raise InputError(
            f"{stack.at(first, name)}: {name} {stack.numbers[name][first]:g} {problem}{more}"
        )


def _per_task(
    stack: Stack, name: str, task: npt.NDArray[np.int64], tasks: tuple[str, ...]
) -> npt.NDArray[np.float64]:
    """The one value that a column has in each task; NaN where it is empty throughout."""
    values = stack.numbers[name]
    given = np.flatnonzero(np.isfinite(values))
    result = np.full(len(tasks), np.nan)
    # Reversed, so that the first row of each task is the one that stays.
    result[task[given][::-1]] = values[given][::-1]
    other = given[values[given] != result[task[given]]]
    if other.size:
        row = int(other[0])
        raise InputError(
            f"{stack.at(row, name)}: {name} {values[row]:g} differs from"
            f" {result[task[row]]:g} earlier in task {tasks[task[row]]!r}; it is one value per task"
        )
    return result


def units_in_table(
    stack: Stack, task: npt.NDArray[np.int64], tasks: tuple[str, ...]
) -> tuple[dict[str, Units], list[str]]:
    """Bounds given in the table's own columns ``scale_min`` and ``scale_max``."""
    bounds = {
        name: _per_task(stack, name, task, tasks)
        for name in ("scale_min", "scale_max")
        if name in stack.numbers
    }
    if not bounds:
        return {}, []
    unset = np.full(len(tasks), np.nan)
    upper = bounds.get("scale_max", unset)
    lower = bounds.get("scale_min", unset)
    has_both = all(
        name in part.numbers for part in stack.parts for name in ("scale_min", "scale_max")
    )
    units: dict[str, Units] = {}
    assumed: list[str] = []
    for code, name in enumerate(tasks):
        low, high = lower[code], upper[code]
        if not has_both and np.isnan(low) and np.isnan(high):
            continue
        if not has_both and np.isnan(low) and (_lowest(stack)[task == code] >= 0).all():
            low = 0.0
            assumed.append(name)
        units[name] = Units(
            None if np.isnan(low) else float(low), None if np.isnan(high) else float(high)
        )
    notes = [f"lower bound taken as 0 for {shorten(assumed)} (no scale_min, no negative score)"]
    return units, notes if assumed else []


def _lowest(stack: Stack) -> npt.NDArray[np.float64]:
    return stack.numbers.get("lowest", stack.numbers["score"])


def doubts_of_numbers(
    stack: Stack,
    task: npt.NDArray[np.int64],
    tasks: tuple[str, ...],
    units: Mapping[str, Units],
) -> list[Caution]:
    """Warn of numbers of items and of standard errors that do not go with the scores' bounds."""
    return [
        *_units_against_counts(stack, task, tasks, units),
        *_doubts_of_errors(stack, task, tasks, units),
    ]


def _units_against_counts(
    stack: Stack,
    task: npt.NDArray[np.int64],
    tasks: tuple[str, ...],
    units: Mapping[str, Units],
) -> list[Caution]:
    """Warn of bounds on which a task's scores are not the shares of items that they are.

    That is where all scores with ``n`` and ``k`` are k / n, or 100 times that, and the upper bound
    is neither open nor that of such shares.
    """
    if "k" not in stack.numbers or "n" not in stack.numbers:
        return []
    share = stack.numbers["k"] / stack.numbers["n"]
    scores = stack.numbers["score"]
    wrong: dict[tuple[Units, float], list[str]] = {}
    of_task = by_level(np.arange(len(task)), task, len(tasks))
    for name, every_row in zip(tasks, of_task, strict=True):
        rows = every_row[share[every_row] > 0.0]
        given = units[name]
        for top in (1.0, 100.0) if rows.size and given.upper is not None else ():
            fits = np.abs(scores[rows] / top - share[rows]) <= _ROUNDED
            if fits.all() and (given.upper != top or given.lower not in (None, 0.0)):
                wrong.setdefault((given, top), []).append(name)
    return [
        Caution(
            f"the scale of {shorten(names)} is {given}, but the scores are"
            f" {'' if top == 1.0 else f'{top:g} times '}k / n, the share of items that are right,"
            f" which is from 0 to {top:g}; correct the bounds, or leave n and k out"
        )
        for (given, top), names in wrong.items()
    ]


def _doubts_of_errors(
    stack: Stack,
    task: npt.NDArray[np.int64],
    tasks: tuple[str, ...],
    units: Mapping[str, Units],
) -> list[Caution]:
    """Warn of standard errors that are zero throughout, or in another unit than the scores.

    A score s on a scale from 0 to 1 that is the mean over n items has a standard error of at most
    sqrt(s (1 - s) / n), which gives the largest n for each score with an error. The median over a
    task must be at least 1; and at most 300,000 where the scale has a range of 100. Tasks with
    fewer than four errors, or without two bounds, are not looked at.
    """
    errors = stack.numbers.get("se", np.full(len(stack), np.nan))
    given = np.isfinite(errors)
    if given.sum() >= _FEWEST_ERRORS and not errors[given].any():
        return [
            Caution(
                f"se is 0 in all {counted(int(given.sum()), 'record')} that have one, as if the"
                " scores were known exactly; correct the errors, or leave the column out with"
                f" {columns_argument(('se', None))}"
            )
        ]
    found: dict[bool, list[tuple[str, float, float]]] = {}
    of_task = by_level(np.arange(len(task)), task, len(tasks))
    for name, rows in zip(tasks, of_task, strict=True):
        lower, upper = units[name].lower, units[name].upper
        if lower is None or upper is None:
            continue
        span = upper - lower
        # Quotients first: nothing overflows, however large the bounds are.
        share = stack.numbers["score"][rows] / span - lower / span
        known = (errors[rows] > 0.0) & (share > 0.0) & (share < 1.0)
        if known.sum() < _FEWEST_ERRORS:
            continue
        own, share = errors[rows][known], share[known]
        relative = np.clip(own / span, _SMALLEST_ERROR, 1.0 / _SMALLEST_ERROR)
        items = float(np.median(share * (1.0 - share) / relative**2))
        if items < 1.0 or (span == _PERCENT and items > _MANY_ITEMS):
            found.setdefault(items < 1.0, []).append((name, float(np.median(own)), items))
    cautions = []
    for too_large, named in found.items():
        names, medians, numbers = zip(*named, strict=True)
        if too_large:
            means = "more than a single test item has"
            way = "divide se by 100 if it is on a scale from 0 to 100, and the scores are fractions"
        else:
            means = f"as of about {grouped(int(float(f'{np.median(numbers):.1g}')))} test items"
            way = "multiply se by 100 if it is on a scale from 0 to 1"
        several = "s" * (len(names) > 1)
        cautions.append(
            Caution(
                f"the scores of task{several} {shorten(map(repr, names))} have a median standard"
                f" error (se) of {np.median(medians):.2g}, {means}; {way}"
            )
        )
    return cautions
