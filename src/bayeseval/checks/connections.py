"""Check how well the table connects models, and find levels with a single record."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from scipy.sparse import coo_array

from bayeseval import names
from bayeseval._text import grouped
from bayeseval._typing import Floats, Index
from bayeseval.checks.container import Check

__all__ = ["connection_check", "unconnected_share"]

_NAMED = 3
# Pairs of more models, which are all in memory, take hundreds of MB.
_MOST_MODELS = 5_000
# Counts of shared pairs at a time: 16 MB.
_COUNTS = 2_000_000


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
    single = [
        f"{factor} {levels[factor][i]}"
        for factor in names.FACTORS
        for i in np.flatnonzero(np.bincount(index[factor], minlength=len(levels[factor])) == 1)
    ]
    unconnected = np.flatnonzero(common == 0)
    sentences = []
    if len(unconnected):
        pairs = [_pair(levels[names.MODEL], i) for i in unconnected[:_NAMED].tolist()]
        named = _few([f"{a} and {b}" for a, b in pairs], len(unconnected))
        sentences.append(
            f"{len(unconnected)} of {len(common)} pairs of models share no language-task pair "
            f"and are compared through others: {named}"
        )
    if single:
        sentences.append(f"with a single record: {_few(single, len(single))}")
    value = float(common.min()) if len(common) else float("nan")
    if sentences:
        text = "; ".join(sentences)
        return Check("connectivity", "warn", value=value, sentence=f"{text[0].upper()}{text[1:]}.")
    if not len(common):
        return Check("connectivity", "not applicable", sentence="There is one model.")
    least = int(np.argmin(common))
    first, second = _pair(levels[names.MODEL], least)
    return Check(
        "connectivity",
        "pass",
        value=value,
        sentence=f"Every two models share at least {value:.0f} language-task "
        f"pair{'s' if value > 1 else ''} ({first} and {second}).",
    )


def unconnected_share(index: Mapping[str, Index], sizes: Mapping[str, int]) -> float:
    """Share of the pairs of models without a common language-task pair; 0 for one model."""
    n_models = sizes[names.MODEL]
    if n_models < 2:
        return 0.0
    none = sum(
        int(np.count_nonzero(np.triu(shared == 0.0, k=start + 1)))
        for start, shared in _common_blocks(index, sizes)
    )
    return none / (n_models * (n_models - 1) // 2)


def _common_pairs(index: Mapping[str, Index], sizes: Mapping[str, int]) -> Floats:
    """Number of language-task pairs that every two models share, the first model's first."""
    parts = [
        row[start + place + 1 :]
        for start, shared in _common_blocks(index, sizes)
        for place, row in enumerate(shared)
    ]
    return np.concatenate(parts)


def _pair(models: Sequence[str], position: int) -> tuple[str, str]:
    """Two models by the position of their pair in :func:`_common_pairs`."""
    first, n_others = 0, len(models) - 1
    while position >= n_others:
        first, position, n_others = first + 1, position - n_others, n_others - 1
    return models[first], models[first + 1 + position]


def _common_blocks(
    index: Mapping[str, Index], sizes: Mapping[str, int]
) -> Iterator[tuple[int, Floats]]:
    """First of some models, and the pairs that each of them shares with every model."""
    pair = index[names.LANGUAGE] * sizes[names.TASK] + index[names.TASK]
    shape = (sizes[names.MODEL], sizes[names.LANGUAGE] * sizes[names.TASK])
    tested = coo_array((np.ones(len(pair)), (index[names.MODEL], pair)), shape=shape).tocsr()
    tested.data[:] = 1.0
    step = max(1, _COUNTS // sizes[names.MODEL])
    for start in range(0, sizes[names.MODEL], step):
        yield start, np.asarray((tested[start : start + step] @ tested.T).toarray())


def _few(labels: list[str], n: int) -> str:
    """The first of so many labels, and how many there are beside these."""
    more = n - _NAMED
    return ", ".join(labels[:_NAMED]) + (f" and {more} more" if more > 0 else "")
