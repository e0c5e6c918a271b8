"""Which levels can be compared at all: connected parts of the table."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bayeseval.names import FACTORS
from bayeseval.records.table import Records

__all__ = ["Component", "connected_components"]


@dataclass(frozen=True, slots=True)
class Component:
    """Levels linked by records, directly or through other levels.

    Parameters
    ----------
    language, task, model : tuple of str
        Sorted labels of the levels in this part.
    n_records : int
        Records between them.
    """

    language: tuple[str, ...]
    task: tuple[str, ...]
    model: tuple[str, ...]
    n_records: int


def connected_components(records: Records) -> tuple[Component, ...]:
    """Connected components of the graph of languages, tasks and models.

    Every record links its language, its task and its model. Levels of different
    components share no record, not even through others, so their effects have no
    common zero and cannot be compared.

    Returns
    -------
    tuple of Component
        Largest first (by records, then by the first language). One component means
        that the table is connected.
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components as components

    sizes = [len(records.coords[factor]) for factor in FACTORS]
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    language, task, model = (
        records.codes(factor) + offset for factor, offset in zip(FACTORS, offsets, strict=False)
    )
    total = int(offsets[-1])
    # Two links per record are enough: the third side of the triangle follows.
    start, end = np.concatenate([language, task]), np.concatenate([task, model])
    graph = coo_array((np.ones(len(start), dtype=np.int8), (start, end)), shape=(total, total))
    number, member = components(graph.tocsr(), directed=False)
    labels = np.array([label for f in FACTORS for label in records.coords[f]], dtype=object)
    factor_of = np.repeat(np.arange(len(FACTORS)), sizes)
    counts = np.bincount(member[language], minlength=number)
    # Levels by part and factor, each with its labels in their order: a table may have as many
    # parts as rows, so that a mask for each of them would be too much.
    order = np.lexsort((factor_of, member))
    group = member[order] * len(FACTORS) + factor_of[order]
    ends = np.searchsorted(group, np.arange(number * len(FACTORS)), side="right")
    own = [tuple(found) for found in np.split(labels[order], ends[:-1])]
    connected = [
        Component(
            **dict(zip(FACTORS, own[part * len(FACTORS) : (part + 1) * len(FACTORS)], strict=True)),
            n_records=int(counts[part]),
        )
        for part in range(number)
    ]
    return tuple(sorted(connected, key=lambda c: (-c.n_records, c.language)))
