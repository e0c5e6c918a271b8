"""Splits of a table into scores to fit and scores to predict: whole cells, or whole levels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from bayeseval import names
from bayeseval._random import generator
from bayeseval._text import counted, grouped
from bayeseval._typing import Bools, Floats, Index
from bayeseval.errors import InputError, wording
from bayeseval.records import Records

__all__ = ["LEAST_KEPT", "Splits", "split_records"]

#: Levels that stay where levels are left out: of one alone, nobody knows how much they differ.
LEAST_KEPT: Final = 2
# Squared length of a projection that is zero but for rounding.
_ZERO: Final = 1e-12


@dataclass(frozen=True, eq=False)
class Splits:
    """What is left out in every repeat.

    Attributes
    ----------
    unit : ndarray of int, shape (n_records,)
        What is left out together with each record, numbered in the order of the labels.
    held : ndarray of bool, shape (n_repeats, n_records)
        Records that are left out.
    what : str
        What a unit is: ``cell``, ``language``, ``model``, ``task`` or ``dataset``.
    """

    unit: Index
    held: Bools
    what: str

    @property
    def n_units(self) -> int:
        """Number of units of the table."""
        return int(self.unit.max()) + 1

    @property
    def n_held(self) -> int:
        """Number of units that each repeat leaves out."""
        return len(np.unique(self.unit[self.held[0]]))


def split_records(
    records: Records, share: float, *, by: names.LeftOut, repeats: int, seed: int
) -> Splits:
    """Draw which units each repeat leaves out.

    A unit of ``record`` is one model on one language of one dataset, with all of its metrics
    and replicates: one metric would give another away. Tasks are left out by dataset for
    the same reason. Some units stay, because the rest would not identify all main effects
    without them: the only ones of a model, for example. Repeats have random streams of their own,
    so that further ones leave the others as they are.

    Parameters
    ----------
    records : Records
        The table, whose order does not depend on that of its file.
    share : float
        Share of the units to leave out.
    by : {"record", "language", "task", "model"}
    repeats : int
    seed : int
        The one seed.

    Raises
    ------
    InputError
        If so many units cannot be left out.
    """
    unit, what = _units(records, by)
    n_units = int(unit.max()) + 1
    wanted = max(1, round(share * n_units))
    rows = _rows(records, unit, by)
    orders = [
        generator(seed, f"holdout {repeat}").permutation(n_units) for repeat in range(repeats)
    ]
    least = 0 if by == names.RECORD else LEAST_KEPT
    chosen = [_left_out(order, rows, min(wanted, max(0, n_units - least))) for order in orders]
    possible = min(len(one) for one in chosen)
    if possible < wanted:
        raise _too_many(records, share, by=by, what=what, n_units=n_units, possible=possible)
    return Splits(unit, np.stack([np.isin(unit, one) for one in chosen]), what)


def _units(records: Records, by: names.LeftOut) -> tuple[Index, str]:
    """Unit of every record, and what it is called."""
    datasets = records.datasets
    of_task = [datasets[task] for task in records.coords[names.TASK]]
    place = {label: i for i, label in enumerate(sorted(set(of_task)))}
    dataset = np.array([place[label] for label in of_task])[records.codes(names.TASK)]
    if by == names.TASK:
        return dataset, names.DATASET if len(place) < len(of_task) else names.TASK
    if by != names.RECORD:
        return np.asarray(records.codes(by)), by
    parts = [records.codes(names.MODEL), records.codes(names.LANGUAGE), dataset]
    _, unit = np.unique(np.stack(parts, axis=1), axis=0, return_inverse=True)
    return unit.reshape(-1), "cell"


class _Rows(NamedTuple):
    """Different rows of a table of main effects, one unit after the other.

    `columns` are those that have a one in each row. Levels that are left out together have
    columns of their own; without these, rows of such a level are differences from its
    first, whose columns are `base`.
    """

    starts: Index
    columns: Index
    base: Index | None
    n_columns: int


def _rows(records: Records, unit: Index, by: names.LeftOut) -> _Rows:
    kept = [factor for factor in names.FACTORS if factor != by]
    codes, n_columns = [], 0
    for factor in kept:
        codes.append(records.codes(factor) + n_columns)
        n_columns += len(records.coords[factor])
    own = unit if by == names.RECORD else records.codes(by)
    rows = np.unique(np.stack([unit, own, *codes], axis=1), axis=0)
    starts = np.searchsorted(rows[:, 0], np.arange(int(unit.max()) + 2))
    if by == names.RECORD:
        return _Rows(starts, rows[:, 2:], None, n_columns)
    _, first, level = np.unique(rows[:, 1], return_index=True, return_inverse=True)
    return _Rows(starts, rows[:, 2:], rows[first[level.reshape(-1)], 2:], n_columns)


def _left_out(order: Index, rows: _Rows, wanted: int) -> list[int]:
    """Units in their random order, without those that identify main effects in the rest.

    From the last unit on, those are kept that identify a contrast which no later unit does: a
    random basis of the main effects, so that the rest identifies all that the table does.
    """
    # Directions of the main effects that nothing identifies so far. Two are never identified:
    # constants that move from one factor to another.
    unknown = np.eye(rows.n_columns)
    free: list[int] = []
    for unit in reversed(order.tolist()):
        is_needed = False
        for row in range(rows.starts[unit], rows.starts[unit + 1]):
            if unknown.shape[1] <= 2:
                break
            part = unknown[rows.columns[row]].sum(axis=0)
            if rows.base is not None:
                part = part - unknown[rows.base[row]].sum(axis=0)
            if part @ part > _ZERO:
                unknown = _without(unknown, part)
                is_needed = True
        if not is_needed:
            free.append(unit)
    return free[::-1][:wanted]


def _without(basis: Floats, direction: Floats) -> Floats:
    """Orthonormal basis of what is left of a space without one direction, by a reflection."""
    mirror = direction / np.sqrt(direction @ direction)
    mirror[0] += np.copysign(1.0, mirror[0])
    turned = basis - np.outer(basis @ mirror, 2.0 * mirror / (mirror @ mirror))
    return np.asarray(turned[:, 1:])


def _too_many(
    records: Records, share: float, *, by: str, what: str, n_units: int, possible: int
) -> InputError:
    reason = (
        f"{records.name}: {100 * share:.4g} % of {grouped(n_units)} {what}s cannot be left out: "
        + ("" if by == names.RECORD else f"{LEAST_KEPT} {what}s must stay, and ")
        + "the effects of all other models, languages and tasks must stay identified"
    )
    most = np.floor(100.0 * possible / n_units) / 100.0
    if possible < 1 or most == 0.0:
        return InputError(f"{reason}; the table is too small to leave out a part of it")
    return InputError(
        f"{reason}; {counted(possible, what)} can be left out: give "
        + wording(f"holdout={most:g}", f"--holdout {most:g}")
        + " or less"
    )
