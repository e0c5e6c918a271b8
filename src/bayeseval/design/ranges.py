"""Refuse tasks with different ranges: their effects and expected scores could not be added."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

import numpy as np

from bayeseval import names
from bayeseval._text import Caution, shorten
from bayeseval._typing import Bools, Floats, Index
from bayeseval.errors import DesignError, wording
from bayeseval.records import (
    WITH_NUMBERS,
    Records,
    Units,
    declare_units,
    natural_units,
)
from bayeseval.records.left_out import leave_out_levels

__all__ = ["check_ranges", "narrow_tasks", "too_small_because", "warn_of_narrow_tasks"]


# Ranges up to a factor of two count as one scale (-100 to 100 and 0 to 100).
_MAX_RATIO = 2.0
# Scores of both signs on an unknown scale may cover only a tenth of it.
_MAX_SIGNED_FACTOR = 10.0
_PERCENT = 100.0
_TINY = float(np.finfo(np.float64).tiny)
_QUANTILE = 0.9
# Effects of a task whose scores vary less than this share of the others' are compressed. Under
# `by_task`, 95 % intervals of sds of gaps had the truth in 12 % of 60 simulated tables with shares
# up to 0.4, and in 60 % with 0.4 to 0.5. The smallest share in MEGA, of tasks far from any bound,
# is 0.58.
_NARROW = 0.5
# The sd of fewer independent scores is below half of the true one by chance in more than 3 % of
# tables (chi-square distribution).
_LEAST_SCORES = 8
_VARY_LESS = " vary less than half as much as those of other tasks"
_NEAR = ", as they do near a bound or near chance level"
# Tasks that a message lists to be left out.
_MOST_LISTED = 12


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
    everything = np.ones_like(is_open)
    ratio, high, low = _farthest_of(least, most, is_open, everything)
    if ratio <= _MAX_RATIO:
        return
    too_small = least[high] / np.maximum(most, _TINY) > _MAX_RATIO
    too_large = least / max(most[low], _TINY) > _MAX_RATIO
    left_out = min(too_small, too_large, key=np.sum)
    solved = _farthest_of(least, most, is_open, ~left_out)[0] <= _MAX_RATIO
    fewer = [task for task, out in zip(tasks, left_out, strict=True) if out] if solved else []
    small, large = tasks[int(low)], tasks[int(high)]
    pair = np.isin(codes, (low, high))
    bounds = [records.units[task] for task in (small, large)]
    lowest = min([float(scores[pair].min()), *(u.lower for u in bounds if u.lower is not None)])
    highest = max([float(scores[pair].max()), *(u.upper for u in bounds if u.upper is not None)])
    usual = natural_units(lowest, highest)
    raise DesignError(
        f"{records.name}: task {small} has {_described(records, int(low))} and {large}"
        f" {_described(records, int(high))}, so their scores cannot be added up or averaged"
        f" (the larger range may be at most {_MAX_RATIO:g} times the smaller); rescale the"
        " scores of one of them, so that all tasks have one scale, or, if they have one already,"
        " declare it with"
        f" {declare_units(usual)}{'' if usual else WITH_NUMBERS}{_advice_to_drop(tasks, fewer)}"
    )


def _farthest(least: Floats, most: Floats, high: Bools, low: Bools) -> tuple[float, int, int]:
    """Largest ratio of ranges of a task of `high` to one of `low`, and the two."""
    if not (high.any() and low.any()):
        return 0.0, 0, 0
    highs, lows = np.flatnonzero(high), np.flatnonzero(low)
    larger, smaller = int(highs[least[highs].argmax()]), int(lows[most[lows].argmin()])
    return float(least[larger] / max(most[smaller], _TINY)), larger, smaller


def _farthest_of(
    least: Floats, most: Floats, is_open: Bools, among: Bools
) -> tuple[float, int, int]:
    """The same of some tasks; of two ranges, one at least is not guessed from both signs."""
    return max(
        _farthest(least, most, among & ~is_open, among),
        _farthest(least, most, among, among & ~is_open),
        key=lambda found: found[0],
    )


def _advice_to_drop(tasks: Sequence[str], fewer: Sequence[str]) -> str:
    """Advice to leave out the tasks of the rarer scale, if the others have one scale."""
    if not fewer or len(fewer) > _MOST_LISTED:
        return ""
    # Every text in double quotes is the same in JSON and in YAML.
    labels = json.dumps(fewer, ensure_ascii=False)
    drop = wording(f"drop={{'task': {labels}}}", f"'drop: {{task: {labels}}}' in a --mapping file")
    return f"; {drop} keeps {len(tasks) - len(fewer)} of {len(tasks)} tasks, which have one scale"


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


def narrow_tasks(scores: Floats, task: Index, tasks: Sequence[str]) -> tuple[str, ...]:
    """Tasks whose scores vary less than half as much as those of others.

    So they do near a bound or near chance level. The sd of their scores, of which there are at
    least eight, is below half the median of the tasks' sds, those of single scores left out.

    Parameters
    ----------
    scores : ndarray, shape (n_records,)
    task : ndarray of int, shape (n_records,)
    tasks : sequence of str
    """
    n = np.bincount(task, minlength=len(tasks))
    off = scores - (np.bincount(task, scores, len(tasks)) / np.maximum(n, 1))[task]
    sds = np.sqrt(np.bincount(task, off**2, len(tasks)) / np.maximum(n - 1, 1))
    # Single scores have no sd.
    median = np.median(sds[n > 1]) if (n > 1).any() else 0.0
    is_narrow = (sds < _NARROW * median) & (n >= _LEAST_SCORES)
    return tuple(name for name, narrow in zip(tasks, is_narrow, strict=True) if narrow)


def warn_of_narrow_tasks(scores: Floats, task: Index, tasks: Sequence[str]) -> list[Caution]:
    """Warn that residual sds by task let tasks with compressed effects decide those of all.

    Parameters
    ----------
    scores : ndarray, shape (n_records,)
    task : ndarray of int, shape (n_records,)
    tasks : sequence of str
    """
    narrow = narrow_tasks(scores, task, tasks)
    if not narrow:
        return []
    listed = f"task {narrow[0]!r}" if len(narrow) == 1 else f"tasks {shorten(narrow, limit=4)}"
    return [
        Caution(
            f"the scores of {listed}{_VARY_LESS}{_NEAR}, and so do the differences between models"
            " and languages there; with residual sds by task these scores have the largest weight,"
            " and all differences, sds of gaps and variance components come out too small: leave"
            f" them out ({leave_out_levels(names.TASK, narrow)}), or fit a model with one residual"
            " sd"
        )
    ]


def too_small_because(notes: Iterable[str]) -> str:
    """What a conclusion about differences must say of :func:`warn_of_narrow_tasks`.

    Parameters
    ----------
    notes : iterable of str
        Notes of a fit.

    Returns
    -------
    str
        Empty without such a warning.

    Examples
    --------
    >>> noted = "warning: the scores of task 'hard' vary less than half as much as those of other"
    >>> too_small_because([f"{noted} tasks, as they do near a bound or ..."])[:44]
    "Warning: the scores of task 'hard' vary less"
    """
    heads = [head for head, found, _ in (note.partition(_VARY_LESS) for note in notes) if found]
    return " ".join(
        f"W{head.removeprefix('w')}{_VARY_LESS}{_NEAR}, and have the largest weight because"
        " residual sds differ by task: sds of gaps, and all differences between models and between"
        " languages, come out too small, and their intervals do not show it; the notes of the fit"
        " say what to do."
        for head in heads
    )
