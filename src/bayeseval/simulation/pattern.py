"""Draw the observed cells of a simulated table, and name them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from bayeseval import names
from bayeseval._typing import Bools, Floats
from bayeseval.errors import InputError

__all__ = ["frame_of", "labels_of", "observed_cells"]

_MAX_TRIES = 200


def observed_cells(shape: tuple[int, ...], share: float, rng: np.random.Generator) -> Bools:
    """Draw the observed cells: a fixed number, every level at least twice, connected.

    Parameters
    ----------
    shape : tuple of int
        Numbers of languages, tasks and models.
    share : float
        Share of observed cells, in (0, 1].
    rng : numpy.random.Generator
        Random generator.

    Returns
    -------
    ndarray of bool, shape `shape`

    Raises
    ------
    InputError
        If the shape is too small, the share is out of range, or no connected table is found.
    """
    if not 0.0 < share <= 1.0:
        raise InputError(f"observed_share must lie in (0, 1], got {share:g}")
    if min(shape) < 1 or shape[0] < 2 or shape[2] < 2:
        raise InputError(
            "a table needs at least two languages, one task and two models, got "
            f"{shape[0]}, {shape[1]} and {shape[2]}"
        )
    size = int(np.prod(shape))
    count = max(1, round(share * size))
    for _ in range(_MAX_TRIES):
        observed = np.zeros(size, dtype=bool)
        observed[rng.choice(size, size=count, replace=False)] = True
        grid = observed.reshape(shape)
        if all(
            grid.sum(axis=tuple(a for a in range(3) if a != axis)).min() >= 2 for axis in range(3)
        ) and _is_connected(grid):
            return grid
    raise InputError(
        f"no connected table with a share of {share:g} of {shape[0]} x {shape[1]} x {shape[2]} "
        f"cells was found in {_MAX_TRIES} draws; raise observed_share"
    )


def _is_connected(grid: Bools) -> bool:
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components as components

    rows = np.argwhere(grid) + np.array([0, grid.shape[0], grid.shape[0] + grid.shape[1]])
    size = sum(grid.shape)
    heads = np.concatenate([rows[:, 0], rows[:, 0]])
    tails = np.concatenate([rows[:, 1], rows[:, 2]])
    graph = coo_array((np.ones(len(heads)), (heads, tails)), shape=(size, size))
    return int(components(graph, directed=False, return_labels=False)) == 1


def labels_of(shape: Mapping[str, int], n_metrics: int) -> dict[str, tuple[str, ...]]:
    """Labels of the levels: a letter and a number, tasks as metrics of datasets on request."""
    labels = {
        factor: tuple(f"{factor[0]}{i:0{len(str(size - 1))}d}" for i in range(size))
        for factor, size in shape.items()
    }
    if n_metrics < 1:
        raise InputError(f"n_metrics must be at least 1, got {n_metrics}")
    if n_metrics > 1:
        n_tasks = shape[names.TASK]
        labels[names.TASK] = tuple(
            f"d{i // n_metrics:0{len(str(n_tasks - 1))}d}:m{i % n_metrics}" for i in range(n_tasks)
        )
    return labels


def frame_of(labels: Mapping[str, Sequence[str]], observed: Bools, score: Floats) -> pd.DataFrame:
    """One row per observed cell."""
    rows = np.argwhere(observed)
    frame = pd.DataFrame(
        {
            factor: [labels[factor][i] for i in rows[:, axis]]
            for axis, factor in enumerate(names.FACTORS)
        }
    )
    frame[names.SCORE] = score[observed]
    return frame
