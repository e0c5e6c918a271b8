"""Check how well the table connects models, and find levels with a single record."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from scipy.sparse import coo_array

from bayeseval import names
from bayeseval._text import grouped
from bayeseval._typing import Floats, Index
from bayeseval.checks.container import Check

__all__ = ["connection_check", "unconnected_share"]

_NAMED = 3
# Pairs of more models, which are counted all at once, take hundreds of MB.
_MOST_MODELS = 5_000


def connection_check(index: Mapping[str, Index], levels: Mapping[str, tuple[str, ...]]) -> Check:
    """Models without a common language-task pair, and levels with a single record.

    A fit refuses unconnected tables. In a connected table, models without a common pair are
    compared through other models only, which relies on additive effects.

    Parameters
    ----------
    index : mapping of str to ndarray of int, shape (n_records,)
        Level of every record under each factor.
    levels : mapping of str to tuple of str
        Labels for sentences.
    """
    n_models = len(levels[names.MODEL])
    if n_models > _MOST_MODELS:
        return Check(
            "connectivity",
            "not applicable",
            sentence=f"Not checked: the table has {grouped(n_models)} models, and pairs of at most "
            f"{grouped(_MOST_MODELS)} are counted.",
        )
    common = _common_pairs(index, {factor: len(labels) for factor, labels in levels.items()})
    upper = np.triu_indices(len(levels[names.MODEL]), 1)
    single = [
        f"{factor} {levels[factor][i]}"
        for factor in names.FACTORS
        for i in np.flatnonzero(np.bincount(index[factor], minlength=len(levels[factor])) == 1)
    ]
    unconnected = np.flatnonzero(common == 0)
    sentences = []
    if len(unconnected):
        pairs = [
            (levels[names.MODEL][upper[0][i]], levels[names.MODEL][upper[1][i]])
            for i in unconnected
        ]
        sentences.append(
            f"{len(unconnected)} of {len(common)} pairs of models share no language-task pair "
            f"and are compared through others: {_few([f'{a} and {b}' for a, b in pairs])}"
        )
    if single:
        sentences.append(f"with a single record: {_few(single)}")
    value = float(common.min()) if len(common) else float("nan")
    if sentences:
        text = "; ".join(sentences)
        return Check("connectivity", "warn", value=value, sentence=f"{text[0].upper()}{text[1:]}.")
    if not len(common):
        return Check("connectivity", "not applicable", sentence="There is one model.")
    least = int(np.argmin(common))
    first, second = (levels[names.MODEL][side[least]] for side in upper)
    return Check(
        "connectivity",
        "pass",
        value=value,
        sentence=f"Every two models share at least {value:.0f} language-task "
        f"pair{'s' if value > 1 else ''} ({first} and {second}).",
    )


def unconnected_share(index: Mapping[str, Index], sizes: Mapping[str, int]) -> float:
    """Share of the pairs of models without a common language-task pair; 0 for one model."""
    common = _common_pairs(index, sizes)
    return float((common == 0).mean()) if len(common) else 0.0


def _common_pairs(index: Mapping[str, Index], sizes: Mapping[str, int]) -> Floats:
    """Number of language-task pairs that every two models share."""
    pair = index[names.LANGUAGE] * sizes[names.TASK] + index[names.TASK]
    shape = (sizes[names.MODEL], sizes[names.LANGUAGE] * sizes[names.TASK])
    tested = coo_array((np.ones(len(pair)), (index[names.MODEL], pair)), shape=shape).tocsr()
    tested.data[:] = 1.0
    shared = (tested @ tested.T).toarray()
    return np.asarray(shared[np.triu_indices(sizes[names.MODEL], 1)], dtype=np.float64)


def _few(labels: list[str]) -> str:
    more = len(labels) - _NAMED
    return ", ".join(labels[:_NAMED]) + (f" and {more} more" if more > 0 else "")
