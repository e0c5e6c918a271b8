"""Predictions outside the scale of their task, which models without bounds allow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import pandas as pd

from bayeseval import names
from bayeseval._text import counted, shorten
from bayeseval.estimands.container import PosteriorArrays
from bayeseval.records.limits import limits_of_tasks

__all__ = ["outside_notes"]

_LOWER: Final = ("expected_lower", "measurement_lower")
_UPPER: Final = ("expected_upper", "measurement_upper")
_MOST_TASKS: Final = 3


def outside_notes(
    table: pd.DataFrame, bounds: Mapping[str, Sequence[Any]], arrays: PosteriorArrays
) -> list[str]:
    """Say how many cells have a mean or an end of an interval outside the scale of their task.

    Parameters
    ----------
    table : pandas.DataFrame
        Predictions, one row for each cell.
    bounds : mapping of str to (lower, upper)
        By task, declared or guessed; None where one is not known: see
        :func:`bayeseval.records.limits.limits_of_tasks`. A new task has the bounds of all others if
        these are the same.
    arrays : PosteriorArrays
        With the scores of the table.

    Returns
    -------
    list of str
        One note, or none.
    """
    tasks_known = arrays.levels[names.TASK]
    limits = limits_of_tasks(bounds, arrays.score, arrays.index[names.TASK], tasks_known)
    known = dict(
        zip(tasks_known, zip(*(ends.tolist() for ends in limits), strict=True), strict=True)
    )
    shared = next(iter(known.values())) if len(set(known.values())) == 1 else (-np.inf, np.inf)
    own = [known.get(str(task), shared) for task in table[names.TASK]]
    lower, upper = np.array(own, dtype=float).reshape(-1, 2).T
    mean = table["expected_mean"].to_numpy()
    # NaN is on neither side.
    outside_mean = (mean < lower) | (mean > upper)
    outside = (table[list(_LOWER)].to_numpy().min(axis=1) < lower) | (
        table[list(_UPPER)].to_numpy().max(axis=1) > upper
    )
    n, n_mean = int(outside.sum()), int(outside_mean.sum())
    if not n:
        return []
    tasks = dict.fromkeys(str(task) for task in table.loc[outside, names.TASK])
    scales = [f"{task} {_scale_text(*known.get(task, shared))}" for task in tasks]
    means = f", the expected score itself for {n_mean} of them" if n_mean else ""
    open_ended = [name for name, ends in known.items() if np.isinf(ends).any()]
    declare = (
        f"declare both bounds of {shorten(open_ended, limit=_MOST_TASKS)}, then "
        if open_ended
        else ""
    )
    return [
        f"{counted(n, 'cell')} {'has' if n == 1 else 'have'} intervals that reach outside the "
        f"scale of the task ({shorten(scales, limit=_MOST_TASKS)}){means}: the likelihood of this "
        "fit has no bounds, and nothing is cut off; to predict within the scale, "
        f"{declare}fit 'counts' if the numbers of items are known, or "
        "'bounded'"
    ]


def _scale_text(lower: float, upper: float) -> str:
    if np.isinf(upper):
        return f"from {lower:g}"
    return f"up to {upper:g}" if np.isinf(lower) else f"{lower:g} to {upper:g}"
