"""Bounds of each task's scores, and the check for mixed scales."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from bayeseval._text import Caution, Note, any_of, shorten, together
from bayeseval.errors import InputError, did_you_mean, wording
from bayeseval.readers.measures import measure_of_task
from bayeseval.records.coded import by_level
from bayeseval.records.report import Units

__all__ = [
    "WITH_NUMBERS",
    "UnitsLike",
    "check_range",
    "declare_units",
    "lower_bound",
    "mixed_scales",
    "natural_units",
    "normalise_units",
    "resolve_units",
    "stated_units",
]

UnitsLike = Units | tuple[float | None, float | None]

#: Said after a declaration with blanks.
WITH_NUMBERS: Final = ", with numbers for LOWER and UPPER"

# A declaration names so many tasks; of more, it shows one.
_MOST_NAMED: Final = 5
# A score above this cannot be a fraction, nor a mark out of 5, 10 or 20.
_CLEARLY_PERCENT: Final = 20.0
_PERCENT: Final = 100.0
_LOWEST_MARK: Final = 1.0
_HIGHEST_MARK: Final = 10.0
# Of the first quartile of the others' scores: lower ones are a failure.
_FAR_BELOW: Final = 0.25
# Far less than the 100 of a units slip, far more than models of one task differ.
_SLIP_RATIO: Final = 10.0
# No score from 1 to this one lies between fractions and percentages.
_GAP: Final = 10.0
# Single scores may exceed the range of the others by this factor.
_WIDER: Final = 1.5

Scores = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int64]
Where = Callable[[int], str]


def lower_bound(known: float | None, lowest: float) -> float | None:
    """The lower end of a task's scale; zero, if it is not known and zero is the lowest score.

    Scores that are all positive do not show where their scale begins.

    Parameters
    ----------
    known : float or None
        Declared or guessed.
    lowest : float
        Lowest score of the task.

    Examples
    --------
    >>> [lower_bound(None, lowest) for lowest in (0.0, 0.1, -1.0)], lower_bound(-5.0, 0.0)
    ([0.0, None, None], -5.0)
    """
    return 0.0 if known is None and lowest == 0.0 else known


def normalise_units(
    units: UnitsLike | Mapping[str, UnitsLike] | None,
) -> tuple[Units | None, dict[str, Units]]:
    """Split a declaration into one for all tasks and those for single tasks.

    The key ``"*"`` of a mapping stands for all tasks that are not named.
    """
    if units is None:
        return None, {}
    if isinstance(units, Mapping):
        named = {str(task): _units(value) for task, value in units.items()}
        return named.pop("*", None), named
    return _units(units), {}


def _units(value: UnitsLike) -> Units:
    if isinstance(value, Units):
        return value
    try:
        lower, upper = value
    except (TypeError, ValueError):
        raise InputError(f"units: expected (lower, upper), got {value!r}") from None
    return Units(lower, upper)


def resolve_units(
    scores: Scores,
    task: Codes,
    tasks: tuple[str, ...],
    *,
    source: str,
    declared: tuple[Units | None, Mapping[str, Units]],
    in_table: Mapping[str, Units],
) -> tuple[dict[str, Units], list[Note]]:
    """Bounds per task: declared by the user, else stated in the table, else guessed.

    Parameters
    ----------
    scores : array, shape (n,)
    task : array of int, shape (n,)
        Position of each score in `tasks`.
    tasks : tuple of str
    source : str
        Starts every message.
    declared : tuple
        What :func:`normalise_units` returned.
    in_table : mapping of str to Units
        Bounds given in the table's own columns.

    Returns
    -------
    units : dict of str to Units
    notes : list of Note
        One line per kind of guess, and one where a declaration overrules the table.
    """
    default, named = declared
    for name in named:
        if name not in tasks:
            raise InputError(
                f"{source}: units: no task {name!r}{did_you_mean(name, tasks)}"
                f" (tasks: {shorten(tasks, limit=15)})"
            )
    stated = stated_units(tasks, declared, in_table)
    each = dict(zip(tasks, by_level(scores, task, len(tasks)), strict=True))
    by_task = {name: stated.get(name) or _guess(name, values) for name, values in each.items()}
    # A task that no model solves takes the scale of the others, when they share one.
    scales = {u for u in by_task.values() if u and u.lower is not None and u.upper is not None}
    unsolved = next(iter(scales)) if len(scales) == 1 else Units()
    units = {name: bounds or unsolved for name, bounds in by_task.items()}
    guesses: dict[Units, list[str]] = {}
    for name in tasks:
        if name not in stated:
            guesses.setdefault(units[name], []).append(name)
    overruled = [name for name in tasks if name in in_table and in_table[name] != units[name]]
    notes: list[Note] = []
    for guess, guessed in guesses.items():
        others = set(units.values()) - {guess}
        reached = np.concatenate([each[name] for name in guessed])
        note = _guess_note(guess, guessed, len(tasks), others, reached)
        marks = guess == Units() and any(_are_marks(each[name]) for name in guessed)
        notes.append(Caution(note) if marks and _beside(others) else note)
    if overruled:
        notes.append(f"declared units overrule the bounds in the table for {shorten(overruled)}")
    return units, notes


def stated_units(
    tasks: tuple[str, ...],
    declared: tuple[Units | None, Mapping[str, Units]],
    in_table: Mapping[str, Units],
) -> dict[str, Units]:
    """Bounds that the user or the table states, by task; parameters as :func:`resolve_units`."""
    default, named = declared
    stated = {name: named.get(name) or default or in_table.get(name) for name in tasks}
    return {name: bounds for name, bounds in stated.items() if bounds is not None}


def _guess(task: str, scores: Scores) -> Units | None:
    """0-1 or 0-100 where the scores leave no other common scale; None when all are zero."""
    measure = measure_of_task(task)
    if measure is not None and measure[1]:
        # A perplexity or a loss has no upper bound, wherever its values lie.
        return Units()
    lowest, highest = float(scores.min()), float(scores.max())
    if lowest == highest == 0.0:
        return None
    if lowest >= 0 and highest <= 1:
        return Units(0.0, 1.0)
    if lowest >= 0 and _CLEARLY_PERCENT < highest <= _PERCENT:
        return Units(0.0, 100.0)
    return Units()


def _guess_note(
    guess: Units, names: list[str], n_tasks: int, others: set[Units], scores: Scores
) -> str:
    """What was guessed, and the declaration that replaces it."""
    listed = f"task {names[0]}" if len(names) == 1 else f"{len(names)} tasks ({shorten(names)})"
    # Bounds given alone would hold for the other tasks of the table, too.
    tasks = names if len(names) < n_tasks else []
    others_too = ""
    if len(tasks) > _MOST_NAMED:
        # One that works as it stands.
        tasks, others_too = names[:1], ", and that of the others in the same way"
    if guess == Units():
        return (
            f"scale unknown for {listed}, with scores from {scores.min():.4g} to"
            f" {scores.max():.4g}; if it has bounds, one or both, declare them with "
            f"{declare_units(None, tasks=tasks)}{others_too}{WITH_NUMBERS}{_beside(others)}"
        )
    text = f"scale guessed {guess.lower:g}-{guess.upper:g} for {listed}"
    # A task that all models find hard has scores below 1 of 100.
    if guess == Units(0.0, 1.0) and others == {Units(0.0, _PERCENT)}:
        text += (
            f", 0-100 for the others; if it is on their scale, declare that with "
            f"{declare_units(Units(0.0, _PERCENT), tasks=[])}, and if not, rescale its scores"
        )
        return text
    return f"{text}; declare it with {declare_units(guess, tasks=tasks)}{others_too}"


def _are_marks(scores: Scores) -> bool:
    """Whether scores may be ratings of 1 to 5 or 1 to 10."""
    return bool(scores.min() >= _LOWEST_MARK and scores.max() <= _HIGHEST_MARK)


def _beside(others: set[Units]) -> str:
    """Ratings of 1 to 10 beside percentages would hardly count in a mean of both."""
    known = sorted(f"{u.lower:g}-{u.upper:g}" for u in others if None not in (u.lower, u.upper))
    if not known:
        return ""
    return (
        f"; other tasks are on {any_of(known, 'and')}, and means are those of the scores as they "
        "are: rescale a task that is on another scale, or leave it out"
    )


def natural_units(lowest: float, highest: float) -> Units | None:
    """0-1 or 0-100 for scores that lie there; None for others, which bounds nobody can guess.

    Examples
    --------
    >>> natural_units(0.2, 0.9), natural_units(3.0, 71.5), natural_units(12.0, 534.0)
    (Units(lower=0.0, upper=1.0), Units(lower=0.0, upper=100.0), None)
    """
    if lowest < 0.0 or highest > _PERCENT:
        return None
    return Units(0.0, 1.0 if highest <= 1.0 else _PERCENT)


def declare_units(units: Units | None, *, tasks: Sequence[str] = ()) -> str:
    """How to declare bounds, blanks for None, of some tasks, or of all if none is named."""
    lower, upper = (
        ("LOWER", "UPPER") if units is None else (f"{units.lower:.4g}", f"{units.upper:.4g}")
    )
    python, key = f"({lower}, {upper})", f"{{lower: {lower}, upper: {upper}}}"
    if tasks:
        python = f"{{{', '.join(f'{task!r}: {python}' for task in tasks)}}}"
        keys = [f"{json.dumps(task, ensure_ascii=False)}: {key}" for task in tasks]
        key = f"{{tasks: {{{', '.join(keys)}}}}}"
    return wording(f"units={python}", f"'units: {key}' in a --mapping file")


def check_range(
    scores: Scores,
    task: Codes,
    tasks: tuple[str, ...],
    units: Mapping[str, Units],
    where: Where,
    *,
    count: bool = True,
) -> None:
    """Refuse a score outside its task's declared bounds.

    Without `count` the message does not say how many there are: of rows that were reduced, the
    scores are the lowest, the highest and the mean.

    Raises
    ------
    InputError
        Naming the first such record and the bound.
    """
    lower = np.array([_bound_or(units[name].lower, -np.inf) for name in tasks])[task]
    upper = np.array([_bound_or(units[name].upper, np.inf) for name in tasks])[task]
    outside = np.flatnonzero((scores < lower) | (scores > upper))
    if not outside.size:
        return
    first = int(outside[0])
    side, bound = ("below", lower) if scores[first] < lower[first] else ("above", upper)
    others = f"; {outside.size} such scores" if count and outside.size > 1 else ""
    raise InputError(
        f"{where(first)}: score {scores[first]:g} is {side} the declared bound {bound[first]:g}"
        f" of task {tasks[task[first]]!r}{others}"
    )


def _bound_or(bound: float | None, otherwise: float) -> float:
    return otherwise if bound is None else bound


def mixed_scales(
    scores: Scores,
    task: Codes,
    tasks: tuple[str, ...],
    groups: Mapping[str, tuple[Codes, tuple[str, ...]]],
    where: Where,
    *,
    stated: Mapping[str, Units] | None = None,
) -> tuple[list[str], list[Caution]]:
    """One sentence for every task whose scores mix fractions and percentages.

    The rule, for each task and each way of grouping its records (by model, by file):
    a group looks like fractions when all its scores are in [0, 1] and one is above
    zero; the task is mixed when there is such a group and the median of the scores
    outside all such groups is above 20. Single low scores on a 0-100 scale (0.4
    for one language) never make a whole group look like fractions, a model that
    fails everywhere with zeros is the same on both scales, and a hard task where
    everybody is near zero has no high median. Nor is a model that fails on one task: a
    group is kept, with a warning, if the median of its scores in other tasks with a maximum
    from 20 to 100 is above 20, and its scores here, times 100, are below a quarter of the
    others' first quartile: low, be they fractions or percentages.

    A task is mixed as well when all scores of a group are above 100, all others are in
    [0, 100], and the group's median is at least 10 times that of the others: a units
    slip, such as a chrF of 5269 beside 59. And when less than half of its scores are from 10
    to 100, all others in [0, 1] with a median above 0.2, and the former, divided by 100, lie
    near the range of the others: single scores that were entered as percentages.

    Parameters
    ----------
    scores : ndarray of float, shape (n,)
        Scores of all records.
    task : ndarray of int, shape (n,)
        Position of each record's task in `tasks`.
    tasks : tuple of str
        Task labels.
    groups : mapping
        Kind of group (``"model"``, ``"file"``) to codes, shape (n,), and labels.
    where : callable
        Place of a record, for messages.
    stated : mapping of str to Units, optional
        Bounds that the table states, by task: fractions there are low scores.

    Returns
    -------
    problems : list of str
    warnings : list of Caution
        Groups that look like fractions in one task, and that fail there.
    """
    problems: list[str] = []
    failing: list[tuple[str, Caution]] = []
    kept_as_stated: list[tuple[str, Caution]] = []
    known = stated or {}
    highest = np.zeros(len(tasks))
    np.maximum.at(highest, task, scores)
    in_percent = ((highest > _CLEARLY_PERCENT) & (highest <= _PERCENT))[task]
    of_task = by_level(np.arange(len(task)), task, len(tasks))
    for code, (name, rows) in enumerate(zip(tasks, of_task, strict=True)):
        values = scores[rows]
        slip = _units_slip(values, rows, groups)
        if slip is not None:
            row, what, listed, median, ratio = slip
            problems.append(
                f"{where(row)}: task {name!r} mixes scales: the scores of {what} {listed} are all"
                f" above 100 (here {scores[row]:g}), those of the others at most 100 with median"
                f" {median:g}: about {ratio:.2g} times as high"
            )
            continue
        problem = _percentages_among_fractions(name, values, rows, where)
        if not problem:
            if values.min() < 0 or values.min() > 1 or values.max() <= _CLEARLY_PERCENT:
                continue
            elsewhere = in_percent & (task != code)
            problem, kept = _mixture(name, scores, rows, elsewhere, groups, where)
            failing += [(name, one) for one in kept]
        if name in known and known[name].upper is not None:
            kept_as_stated += [(name, _as_stated(text, known[name])) for text in problem]
        else:
            problems += problem
    return problems, [*together(failing), *together(kept_as_stated)]


def _percentages_among_fractions(name: str, values: Scores, rows: Codes, where: Where) -> list[str]:
    """At most one sentence on single percentages in a task of fractions."""
    high = values >= _GAP
    fractions = values[(values >= 0.0) & (values <= 1.0)]
    share = len(fractions) / len(values)
    if not high.any() or len(fractions) + high.sum() < len(values) or share <= 0.5:
        return []
    as_fractions = values[high] / _PERCENT
    # One that is as high as the highest fractions may be above them.
    lowest, highest = fractions.min() / _WIDER, min(1.0, _WIDER * fractions.max())
    inside = lowest <= as_fractions.min() and as_fractions.max() <= highest
    if not inside or _PERCENT * np.median(fractions) <= _CLEARLY_PERCENT:
        return []
    n, first = int(high.sum()), int(rows[np.flatnonzero(high)[0]])
    listed = f"{n} scores are from {values[high].min():g} to {values[high].max():g}"
    return [
        f"{where(first)}: task {name!r} mixes scales:"
        f" {listed if n > 1 else f'one score is {values[high][0]:g}'}, and the other"
        f" {len(fractions)} are within 0-1 (median {np.median(fractions):g})"
    ]


def _as_stated(problem: str, units: Units) -> Caution:
    return Caution(f"{problem}; they are kept, because the table states the scale {units}")


def _mixture(
    name: str,
    scores: Scores,
    rows: Codes,
    elsewhere: npt.NDArray[np.bool_],
    groups: Mapping[str, tuple[Codes, tuple[str, ...]]],
    where: Where,
) -> tuple[list[str], list[Caution]]:
    """At most one sentence on a mixture in the task of `rows`, and the groups that are kept.

    `elsewhere` is the mask of the scores in other tasks that are percentages.
    """
    values = scores[rows]
    warnings: list[Caution] = []
    known = np.zeros(len(rows), dtype=np.bool_)
    for kind, (codes, labels) in groups.items():
        own = codes[rows]
        fractions = _fraction_groups(values, own, len(labels))
        is_fraction = fractions[own]
        if not is_fraction.any() or is_fraction.all():
            continue
        median = float(np.median(values[~is_fraction]))
        if median <= _CLEARLY_PERCENT:
            continue
        failed = fractions & _fails(scores, codes, rows, fractions, elsewhere)
        if (failed[own] & ~known).any():
            listed = shorten([labels[i] for i in np.flatnonzero(failed)], limit=4)
            warnings.append(
                Caution(
                    f"task {name!r}: the scores of {kind} {listed} are all within 0-1 (at most"
                    f" {values[failed[own]].max():g}; median of the others {median:g}), and count"
                    f" as percentages, as other scores of the {kind} do"
                )
            )
        known |= failed[own]
        fractions &= ~failed
        if fractions.any():
            first = int(rows[np.flatnonzero(fractions[own] & (values > 0))[0]])
            listed = shorten([labels[i] for i in np.flatnonzero(fractions)], limit=4)
            problem = (
                f"{where(first)}: task {name!r} mixes scales: the scores of {kind} {listed}"
                f" are all within 0-1 (here {scores[first]:g}), the median of the others is"
                f" {median:g}"
            )
            return [problem], warnings
    return [], warnings


def _fails(
    scores: Scores,
    codes: Codes,
    rows: Codes,
    fractions: npt.NDArray[np.bool_],
    elsewhere: npt.NDArray[np.bool_],
) -> npt.NDArray[np.bool_]:
    """Mask of groups with percentages in other tasks, and low scores here on either scale."""
    by_group = by_level(scores[elsewhere], codes[elsewhere], len(fractions))
    usual = np.array([np.median(own) if own.size else 0.0 for own in by_group])
    here = np.zeros(len(fractions))
    np.maximum.at(here, codes[rows], scores[rows])
    low = _FAR_BELOW * np.quantile(scores[rows][~fractions[codes[rows]]], 0.25)
    return (usual > _CLEARLY_PERCENT) & (_PERCENT * here < low)


def _units_slip(
    values: Scores, rows: Codes, groups: Mapping[str, tuple[Codes, tuple[str, ...]]]
) -> tuple[int, str, str, float, float] | None:
    """First such row, kind and names of the groups, the others' median and the ratio."""
    if values.min() < 0 or values.max() <= _PERCENT:
        return None
    for kind, (codes, labels) in groups.items():
        lowest = np.full(len(labels), np.inf)
        np.minimum.at(lowest, codes[rows], values)
        above = (np.isfinite(lowest) & (lowest > _PERCENT))[codes[rows]]
        if not above.any() or above.all() or values[~above].max() > _PERCENT:
            continue
        median = float(np.median(values[~above]))
        high = float(np.median(values[above]))
        if high >= _SLIP_RATIO * median:
            listed = shorten([labels[i] for i in np.unique(codes[rows][above])], limit=4)
            ratio = high / median if median > 0 else np.inf
            return int(rows[np.flatnonzero(above)[0]]), kind, listed, median, ratio
    return None


def _fraction_groups(values: Scores, codes: Codes, n_groups: int) -> npt.NDArray[np.bool_]:
    """Mask of groups with all scores in [0, 1] and at least one above zero."""
    highest = np.full(n_groups, -np.inf)
    lowest = np.full(n_groups, np.inf)
    np.maximum.at(highest, codes, values)
    np.minimum.at(lowest, codes, values)
    return (lowest >= 0) & (highest > 0) & (highest <= 1)
