"""Refuse numbers that look like placeholders for a missing score, such as -1 in many cells."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np
import numpy.typing as npt

from bayeseval._text import counted, shorten
from bayeseval.errors import InputError, wording
from bayeseval.records.report import Units
from bayeseval.records.scales import WITH_NUMBERS, declare_units

__all__ = ["refuse_placeholders"]

# What people write for "not run" besides negative numbers.
_NINES: Final = (999.0, 9999.0, 99999.0, 999999.0)
_HIGHEST: Final = 100.0

Scores = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int64]


def refuse_placeholders(
    scores: Scores,
    task: Codes,
    tasks: tuple[str, ...],
    model: Codes,
    models: tuple[str, ...],
    *,
    declared: Mapping[str, Units],
    where: Callable[[int], str],
) -> None:
    """Refuse one whole number, outside all other scores, in two cells or more.

    A whole negative number counts when all other scores of its task are at least zero, and 999,
    9999, ... when they lie between 0 and 100; a task of nothing else is compared with the
    other tasks. A number within the declared bounds of its task is a score.

    Parameters
    ----------
    scores : ndarray of float, shape (n,)
    task : ndarray of int, shape (n,)
        Position of each record's task in `tasks`.
    tasks : tuple of str
    model : ndarray of int, shape (n,)
        Position of each record's model in `models`.
    models : tuple of str
    declared : mapping of str to Units
        Bounds that the user or the table states, by task.
    where : callable
        Place of a record, for messages.

    Raises
    ------
    InputError
        With the number, its models, and the two ways to declare what it means.
    """
    negative = (scores < 0.0) & (scores >= -max(_NINES)) & (scores == np.floor(scores))
    candidates = np.unique(scores[negative | np.isin(scores, _NINES)])
    for value in candidates:
        rows = np.flatnonzero(scores == value)
        outside = [
            code
            for code in np.unique(task[rows])
            if not _is_declared(value, declared.get(tasks[code]))
            and _is_alone(value, scores, task == code)
        ]
        rows = rows[np.isin(task[rows], outside)]
        if len(rows) < 2:
            continue
        named = np.unique(model[rows])
        throughout = [code for code in named if (scores[model == code] == value).all()]
        complete = (
            f"all scores of {shorten([models[i] for i in throughout], limit=4)}"
            if throughout
            else ""
        )
        plural = "model" if len(named) == 1 else "models"
        listed = complete or f"{plural} {shorten([models[i] for i in named], limit=4)}"
        span = "at least 0" if value < 0.0 else "between 0 and 100"
        raise InputError(
            f"{where(int(rows[0]))}: score {value:g} in {counted(len(rows), 'cell')} ({listed})"
            f" while all other scores are {span}: it looks like a placeholder for a missing"
            f" score; leave these rows out with {_missing(value)}, or, if it is a"
            f" score, declare the bounds of the scale with {declare_units(None)}{WITH_NUMBERS}"
        )


def _missing(value: float) -> str:
    return wording(f"missing={value:g}", f"missing: {value:g} in a --mapping file")


def _is_declared(value: float, units: Units | None) -> bool:
    if units is None:
        return False
    if value < 0.0:
        return units.lower is not None and units.lower <= value
    return units.upper is not None and units.upper >= value


def _is_alone(value: float, scores: Scores, in_task: npt.NDArray[np.bool_]) -> bool:
    """Whether the other scores of the task, or else of the table, leave no room for it."""
    others = scores[in_task & (scores != value)]
    others = others if others.size else scores[scores != value]
    if not others.size:
        return False
    if value < 0.0:
        return bool(others.min() >= 0.0)
    return bool(others.min() >= 0.0 and others.max() <= _HIGHEST)
