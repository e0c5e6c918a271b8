"""Tasks on unlike ranges are refused: their effects, and their expected scores, are added up."""

from __future__ import annotations

import numpy as np

from bayeseval import names
from bayeseval._typing import Floats
from bayeseval.errors import DesignError
from bayeseval.records import Records, Units

__all__ = ["check_ranges"]


# Twice the range is still one scale (-100 to 100 beside 0 to 100); a larger ratio is another unit.
_MAX_RATIO = 2.0
# Scores of either sign on an unknown scale may stay within a tenth of it.
_HIDDEN = 10.0
_PERCENT = 100.0
_TYPICAL = 0.9


def check_ranges(records: Records) -> None:
    """Refuse tasks whose ranges differ by more than a factor of two.

    A task's range is the distance between its bounds, declared or guessed. Where they are
    not known, what the scores leave open counts. It is at least what nine in ten absolute
    scores stay below. It is at most 100 when no score is negative (BLEU below 20 goes with
    percentages), or the least where that is more, and at most ten times the least when some
    are. Two tasks of unknown range with negative scores are never refused.

    Raises
    ------
    DesignError
        Naming the two tasks furthest apart, and what to do.
    """
    tasks = records.coords[names.TASK]
    if len(tasks) < 2:
        return
    codes, scores = records.codes(names.TASK), records.scores
    spans = [_span(records.units[task], scores[codes == i]) for i, task in enumerate(tasks)]
    least, most = np.array([span[:2] for span in spans]).T
    is_open = np.array([span[2] for span in spans])
    ratio = least[:, None] / np.maximum(most, np.finfo(np.float64).tiny)[None, :]
    ratio[np.ix_(is_open, is_open)] = 0.0
    high, low = np.unravel_index(int(ratio.argmax()), ratio.shape)
    if ratio[high, low] <= _MAX_RATIO:
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
        f" (ranges may differ by a factor of {_MAX_RATIO:g}); multiply or divide the scores of one"
        " of them, so that all tasks have one scale, or, if they have one already, declare it"
        f" with 'units: {{lower: {lowest:.10g}, upper: {highest:.10g}}}' in a YAML file given with"
        " --mapping"
    )


def _span(units: Units, scores: Floats) -> tuple[float, float, bool]:
    """Least and largest possible range, and whether only negative scores speak for it."""
    if units.upper is not None and units.lower is not None:
        return units.upper - units.lower, units.upper - units.lower, False
    # One wrong score is no scale: it is warned of, and does not decide.
    size = float(np.quantile(np.abs(scores), _TYPICAL, method="lower"))
    if scores.min() < 0.0:
        return size, _HIDDEN * size, True
    # Zeros alone are on any scale.
    return size, max(size, _PERCENT) if size > 0.0 else np.inf, False


def _described(records: Records, task: int) -> str:
    label = records.coords[names.TASK][task]
    units = records.units[label]
    if units.upper is not None and units.lower is not None:
        return f"the range {units}"
    scores = records.scores[records.codes(names.TASK) == task]
    return f"scores from {scores.min():.4g} to {scores.max():.4g} on a scale that is not known"
