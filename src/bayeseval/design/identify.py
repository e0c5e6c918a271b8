"""What a table cannot identify is refused, with the levels that are to blame."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from bayeseval import names
from bayeseval.design.container import Term
from bayeseval.errors import DesignError
from bayeseval.records import Component, Records, connected_components

__all__ = ["check_interactions", "check_main_effects"]

Index = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

# Labels of one line of advice; more are read off the list of parts.
_MOST_LISTED = 30


def check_main_effects(
    records: Records, factor_index: Mapping[str, Index], sizes: Mapping[str, int]
) -> None:
    """Refuse a design in which main effects cannot be told apart."""
    components = connected_components(records)
    if len(components) > 1:
        parts = "; ".join(
            " + ".join(
                f"{factor} {_first_few(getattr(component, factor))}" for factor in names.FACTORS
            )
            for component in components[:2]
        )
        raise DesignError(
            f"{records.name}: the table falls into {len(components)} parts with nothing in common, "
            f"so levels of different parts cannot be compared ({parts}); add records that link them"
            f"{_without_others(records, components)}"
        )
    free: list[names.Factor] = [factor for factor in names.FACTORS if sizes[factor] > 1]
    if _are_identified({f: factor_index[f] for f in free}, sizes):
        return
    cross = _cross_products([factor_index[f] for f in free], [sizes[f] for f in free])
    values, vectors = np.linalg.eigh(cross)
    raise DesignError(f"{records.name}: {_confounding(records, free, sizes, values, vectors)}")


def _without_others(records: Records, components: Sequence[Component]) -> str:
    """How to leave out all parts but the largest: by the factor that takes the fewest labels."""
    others = {
        factor: [label for component in components[1:] for label in getattr(component, factor)]
        for factor in names.FACTORS
    }
    factor = min(others, key=lambda name: len(others[name]))
    if not _is_enough(records, factor, others[factor]):
        return ""
    return f", or fit one part at a time ({_drop(factor, others[factor])} keeps the largest)"


def _is_enough(records: Records, factor: names.Factor, labels: Sequence[str]) -> bool:
    """Whether two models and two languages are left without some levels of a factor."""
    gone = [records.coords[factor].index(label) for label in labels]
    kept = ~np.isin(records.codes(factor), gone)
    return all(
        len(np.unique(records.codes(other)[kept])) > 1 for other in (names.MODEL, names.LANGUAGE)
    )


def _drop(factor: str, labels: Sequence[str]) -> str:
    """The line of a mapping file that leaves levels out, as a piece of advice."""
    if len(labels) <= _MOST_LISTED:
        # Every text in double quotes is the same in JSON and in YAML.
        listed = ", ".join(json.dumps(label, ensure_ascii=False) for label in labels)
    else:
        listed = f"... the {len(labels)} labels, from bayeseval validate"
    return f"'drop: {{{factor}: [{listed}]}}' in a YAML file given with --mapping"


def _are_identified(index: Mapping[str, Index], sizes: Mapping[str, int]) -> bool:
    """Whether the effects of all factors can be told apart.

    The block of the factor with the most levels is diagonal and goes first, so that
    thousands of models cost no more than the other factors do.
    """
    if len(index) < 2:
        return True
    largest = max(index, key=sizes.__getitem__)
    rest = [factor for factor in index if factor != largest]
    starts = np.cumsum([0, *(sizes[factor] for factor in rest)])
    within, between = np.zeros((starts[-1], starts[-1])), np.zeros((starts[-1], sizes[largest]))
    for i, row in enumerate(rest):
        block = slice(starts[i], starts[i + 1])
        between[block] = _joint_counts(index[row], index[largest], sizes[row], sizes[largest])
        for j, column in enumerate(rest):
            within[block, starts[j] : starts[j + 1]] = _joint_counts(
                index[row], index[column], sizes[row], sizes[column]
            )
    counts = np.bincount(index[largest], minlength=sizes[largest])
    values = np.linalg.eigvalsh(within - (between / counts) @ between.T)
    tolerance = within.max() * len(values) * np.finfo(np.float64).eps
    # One direction per factor is always empty: a constant moved to another factor.
    return int((values > tolerance).sum()) >= len(values) - len(rest)


def _joint_counts(first: Index, second: Index, n_first: int, n_second: int) -> Floats:
    counts = np.bincount(first * n_second + second, minlength=n_first * n_second)
    return counts.reshape(n_first, n_second).astype(np.float64)


def _cross_products(indices: list[Index], sizes: list[int]) -> Floats:
    """X'X of intercept and indicator columns, without forming X."""
    starts = np.concatenate([[1], 1 + np.cumsum(sizes)])
    cross = np.zeros((starts[-1], starts[-1]))
    cross[0, 0] = len(indices[0])
    columns = [start + index for start, index in zip(starts[:-1], indices, strict=True)]
    for i, first in enumerate(columns):
        np.add.at(cross, (0, first), 1.0)
        np.add.at(cross, (first, 0), 1.0)
        for second in columns[i:]:
            np.add.at(cross, (first, second), 1.0)
            if first is not second:
                np.add.at(cross, (second, first), 1.0)
    return cross


def _confounding(
    records: Records,
    free: list[names.Factor],
    sizes: Mapping[str, int],
    values: Floats,
    vectors: Floats,
) -> str:
    """Name the levels that move together in a direction the data cannot see."""
    tolerance = values[-1] * len(values) * np.finfo(np.float64).eps
    null = vectors[:, values <= tolerance]
    starts = np.concatenate([[1], 1 + np.cumsum([sizes[f] for f in free])])
    # Take out the harmless directions (one constant per factor) first.
    centred = null.copy()
    centred[0] = 0.0
    for factor, start in zip(free, starts, strict=False):
        block = slice(start, start + sizes[factor])
        centred[block] -= centred[block].mean(axis=0)
    _, _, rotation = np.linalg.svd(centred, full_matrices=False)
    direction = centred @ rotation[0]
    moved: dict[names.Factor, list[str]] = {}
    sign = 0.0
    for factor, start in zip(free, starts, strict=False):
        block = direction[start : start + sizes[factor]]
        if np.abs(block).max() < 1e-6 * np.abs(direction).max():
            continue
        # What one factor's levels gain the other's lose: take the opposite side.
        sign = -sign if sign else float(np.sign(block[np.abs(block).argmax()]))
        side = sign * block
        largest = np.flatnonzero(side > 0.5 * side.max())
        moved[factor] = [records.coords[factor][i] for i in largest]
    together = " and ".join(f"{factor} {_first_few(labels)}" for factor, labels in moved.items())
    fewest = min(moved, key=lambda factor: len(moved[factor]))
    can_go = _is_enough(records, fewest, moved[fewest])
    advice = f", or leave them out ({_drop(fewest, moved[fewest])})" if can_go else ""
    return (
        f"{together} always occur together, so their effects cannot be told apart; add records "
        f"that cross them{advice}"
    )


def check_interactions(
    records: Records, terms: list[Term], *, noise_is_known: bool = False
) -> list[str]:
    """Refuse an interaction that is the residual, or another term, under a new name."""
    notes = []
    for term in terms:
        if len(term.factors) == 1:
            continue
        counts = np.bincount(term.index, minlength=term.n_levels)
        if names.DATASET in term.factors:
            # Records of one cell that are of one task are no second metric.
            task = next(other for other in terms if other.name == names.TASK)
            with_task = np.unique(term.index * task.n_levels + task.index) // task.n_levels
            counts = np.bincount(with_task, minlength=term.n_levels)
        if counts.max() < 2 and not noise_is_known:
            rest = [factor for factor in names.FACTORS if factor not in term.factors]
            unit = rest[0] if rest else "record"
            raise DesignError(
                f"{records.name}: {term.name} has one {unit} in each of its {term.n_levels} cells, "
                "so it cannot be told apart from the residual; leave it out, or add replication"
            )
        for other in terms:
            if set(other.factors) < set(term.factors) and other.n_levels == term.n_levels:
                raise DesignError(
                    f"{records.name}: {term.name} has as many cells as {other.name} has levels, so "
                    "the two cannot be told apart; leave one out"
                )
        single = int((counts == 1).sum())
        if names.DATASET in term.factors:
            notes.append(
                f"{term.name}: {term.n_levels - single} of {term.n_levels} cells have two tasks "
                f"or more, and {names.sd_name(term.name)} rests on these"
            )
        elif single > term.n_levels / 2 and not noise_is_known:
            notes.append(
                f"{term.name}: {single} of {term.n_levels} cells have a single record, so "
                f"{names.sd_name(term.name)} rests on the others"
            )
    return notes


def _first_few(labels: tuple[str, ...] | list[str], most: int = 3) -> str:
    shown = ", ".join(labels[:most])
    return shown if len(labels) <= most else f"{shown} and {len(labels) - most} more"
