"""The ends of the scale of every task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bayeseval._typing import Floats, Index
from bayeseval.records.scales import lower_bound

__all__ = ["limits_of_tasks"]


def limits_of_tasks(
    bounds: Mapping[str, Sequence[Any]], scores: Floats, task: Index, tasks: Sequence[str]
) -> tuple[Floats, Floats]:
    """Lower and upper ends of scales, infinite where one is not known.

    Parameters
    ----------
    bounds : mapping of str to (lower, upper)
        By task, declared or guessed; None where one is not known: then the lower one is that of
        :func:`bayeseval.records.scales.lower_bound`.
    scores : array of float, shape (n,)
    task : array of int, shape (n,)
        Position of each score's task in `tasks`.
    tasks : sequence of str

    Examples
    --------
    >>> limits_of_tasks({"b": (None, 1.0)}, np.array([2.0, 0.0]), np.array([0, 1]), ["a", "b"])
    (array([-inf,   0.]), array([inf,  1.]))
    """
    lowest = np.full(len(tasks), np.inf)
    np.minimum.at(lowest, task, scores)
    pairs = [bounds.get(name, (None, None)) for name in tasks]
    lows = [lower_bound(low, least) for (low, _), least in zip(pairs, lowest.tolist(), strict=True)]
    lower = [-np.inf if low is None else float(low) for low in lows]
    upper = [np.inf if high is None else float(high) for _, high in pairs]
    return np.array(lower), np.array(upper)
