"""Refuse tasks with different ranges: their effects and expected scores could not be added."""

from __future__ import annotations

import numpy as np

from bayeseval import names
from bayeseval._typing import Bools, Floats
from bayeseval.errors import DesignError, wording
from bayeseval.records import Records, Units

__all__ = ["check_ranges"]


# Ranges up to a factor of two count as one scale (-100 to 100 and 0 to 100).
_MAX_RATIO = 2.0
# Scores of both signs on an unknown scale may cover only a tenth of it.
_MAX_SIGNED_FACTOR = 10.0
_PERCENT = 100.0
_QUANTILE = 0.9


def check_ranges(records: Records) -> None:
    """Refuse tasks whose ranges differ by more than a factor of two.

    The range of a task is the distance between its bounds, declared or guessed. Where they
    are not known, the scores give an interval for the range. Its lower end is the 0.9
    quantile of the absolute scores. Its upper end is 100 if no score is negative (BLEU below
    20 may be a percentage), or the lower end if that is larger, and ten times the lower end
    if some scores are negative. Two tasks of unknown range with negative scores are never
    refused.

    Raises
    ------
    DesignError
        Names the two tasks with the largest ratio of ranges.
    """
    tasks = records.coords[names.TASK]
    if len(tasks) < 2:
        return
    codes, scores = records.codes(names.TASK), records.scores
    units = records.units
    of_task = np.split(
        scores[np.argsort(codes, kind="stable")],
        np.cumsum(np.bincount(codes, minlength=len(tasks)))[:-1],
    )
    spans = [_span(units[task], own) for task, own in zip(tasks, of_task, strict=True)]
    least, most = np.array([span[:2] for span in spans]).T
    is_open = np.array([span[2] for span in spans])
    ratio, high, low = max(
        _farthest(least, most, ~is_open, np.ones_like(is_open)),
        _farthest(least, most, np.ones_like(is_open), ~is_open),
        key=lambda found: found[0],
    )
    if ratio <= _MAX_RATIO:
        return
    small, large = tasks[int(low)], tasks[int(high)]
    pair = np.isin(codes, (low, high))
    bounds = [records.units[task] for task in (small, large)]
    lowest = min(
        [0.0, float(scores[pair].min()), *(u.lower for u in bounds if u.lower is not None)]
    )
    highest = max([float(scores[pair].max()), *(u.upper for u in bounds if u.upper is not None)])
    raise DesignError(
        f"{records.name}: task {small} has {_described(records, int(low))} and {large}"
        f" {_described(records, int(high))}, so their scores cannot be added up or averaged"
        f" (the larger range may be at most {_MAX_RATIO:g} times the smaller); rescale the"
        " scores of one of them, so that all tasks have one scale, or, if they have one already,"
        " declare it with"
        f" {_declaration(lowest, highest)}"
    )


def _farthest(least: Floats, most: Floats, high: Bools, low: Bools) -> tuple[float, int, int]:
    """Largest ratio of ranges of a task of `high` to one of `low`, and the two."""
    if not (high.any() and low.any()):
        return 0.0, 0, 0
    highs, lows = np.flatnonzero(high), np.flatnonzero(low)
    larger, smaller = int(highs[least[highs].argmax()]), int(lows[most[lows].argmin()])
    tiny = float(np.finfo(np.float64).tiny)
    return float(least[larger] / max(most[smaller], tiny)), larger, smaller


def _declaration(lowest: float, highest: float) -> str:
    return wording(
        f"units=({lowest:.10g}, {highest:.10g})",
        f"'units: {{lower: {lowest:.10g}, upper: {highest:.10g}}}' in a --mapping file",
    )


def _span(units: Units, scores: Floats) -> tuple[float, float, bool]:
    """Smallest and largest possible range, and whether it is guessed from scores of both signs."""
    if units.upper is not None and units.lower is not None:
        return units.upper - units.lower, units.upper - units.lower, False
    # A quantile, so that a single wrong score (which has its own warning) does not decide.
    size = float(np.quantile(np.abs(scores), _QUANTILE, method="lower"))
    if scores.min() < 0.0:
        return size, _MAX_SIGNED_FACTOR * size, True
    # Scores that are all zero fit any scale.
    return size, max(size, _PERCENT) if size > 0.0 else np.inf, False


def _described(records: Records, task: int) -> str:
    label = records.coords[names.TASK][task]
    units = records.units[label]
    if units.upper is not None and units.lower is not None:
        return f"the range {units}"
    scores = records.scores[records.codes(names.TASK) == task]
    return f"scores from {scores.min():.4g} to {scores.max():.4g} on an unknown scale"
