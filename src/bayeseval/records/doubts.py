"""Warnings of scores that may be errors of the input; the scores are kept."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from bayeseval._text import Caution, counted, shorten, together
from bayeseval._typing import Bools
from bayeseval.readers.measures import is_accuracy, measure_of_task, says_lower_is_better
from bayeseval.records.coded import by_level
from bayeseval.records.left_out import leave_out_levels
from bayeseval.records.report import Units
from bayeseval.records.scales import lower_bound

__all__ = ["constant_models", "doubts_of_scores", "errors_as_scores", "order_in_doubt"]

# Normal scores are this many times their median deviation from the median once in 1e40.
_MAX_DEVIATIONS: Final = 20.0
# More than this share of the scores is another part of them: the zeros of tasks that many models
# cannot do.
_MOST_FAR: Final = 0.25
_PERCENT: Final = 100.0
# Fractions among percentages: nothing between 1 and 10, and most scores well above.
_GAP: Final = 10.0
_CLEARLY_PERCENT: Final = 20.0
# Fewer scores than these say nothing by being equal.
_MIN_SCORES: Final = 4
_MAX_LISTED: Final = 3
# From this share of a task's scores on, a bound shapes them: noise that is symmetric about
# their mean reaches far beyond it.
_AT_BOUND: Final = 0.25
# Of a task that holds errors.
_COUNTED_AS_BETTER: Final = ", and higher scores count as better here"

Scores = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int64]
Where = Callable[[int], str]


def doubts_of_scores(
    scores: Scores,
    codes: Mapping[str, Codes],
    labels: Mapping[str, tuple[str, ...]],
    cells: Codes,
    *,
    units: Mapping[str, Units],
    where: Where,
) -> list[Caution]:
    """All warnings of scores that may be errors, or that say less than scores should.

    Parameters
    ----------
    scores : ndarray of float, shape (n,)
    codes : mapping of str to ndarray of int, shape (n,)
        Model, language and task of each score, as positions in `labels`.
    labels : mapping of str to tuple of str
    cells : ndarray of int, shape (n,)
        Everything but the model that tells records apart, as one number.
    units : mapping of str to Units
        Bounds by task, declared or guessed.
    where : callable
        Place of a record, for messages.
    """
    task, model = codes["task"], codes["model"]
    return [
        *_doubtful_scores(scores, task, labels["task"], model, units=units, where=where),
        *_scores_at_bounds(scores, codes, labels["task"], units=units),
        *_same_models(scores, model, labels["model"], cells),
    ]


def _doubtful_scores(
    scores: Scores,
    task: Codes,
    tasks: tuple[str, ...],
    model: Codes,
    *,
    units: Mapping[str, Units],
    where: Where,
) -> list[Caution]:
    """Warn of scores far from their task's others, and of fractions among percentages.

    *Far*: in a task without an upper bound, more than 20 times as far from the median as
    the other scores' median distance; or above 100, and twice the highest other score,
    while at least nine in ten lie between 0 and 100; or a single whole negative
    number, less than a tenth of the median or below all fractions.

    *Fractions*: in a task whose scores reach above 20, at most a quarter of the scores lie
    between 0 and 1, none between 1 and 10, and times 100 they are in the others' range. Or
    several scores of a model do, beside one of its own from 10 on.

    Parameters
    ----------
    scores : ndarray of float, shape (n,)
    task : ndarray of int, shape (n,)
        Position of each score's task in `tasks`.
    tasks : tuple of str
    model : ndarray of int, shape (n,)
        Model of each score.
    units : mapping of str to Units
        Bounds by task, declared or guessed.
    where : callable
        Place of a record, for messages.
    """
    far_off: list[tuple[str, Caution]] = []
    low: list[tuple[str, Caution]] = []
    no_accuracy: list[tuple[str, Caution]] = []
    of_task = by_level(np.arange(len(task)), task, len(tasks))
    for name, rows in zip(tasks, of_task, strict=True):
        values = scores[rows]
        if len(values) < _MIN_SCORES:
            continue
        far = _far_scores(values, bounded=units[name].upper is not None)
        if far.any():
            median = float(np.median(values[~far]))
            text = (
                f"task {name!r}: {counted(int(far.sum()), 'score')} far from the others (median"
                f" {median:.4g}): {_listed(rows[far], scores, where)}; correct or leave out what is"
                " an error"
            )
            far_off.append((name, Caution(text)))
        # One warning of each score.
        impossible = ((values < 0.0) | (values > _PERCENT)) & ~far
        if is_accuracy(name) and units[name] == Units() and impossible.any():
            text = (
                f"task {name!r}: {counted(int(impossible.sum()), 'score')} below 0 or above 100:"
                f" {_listed(rows[impossible], scores, where)}; correct or leave out what is an"
                " error, or declare the bounds"
            )
            no_accuracy.append((name, Caution(text)))
        fractions = _fractions(values) | _fractions_of_models(values, model[rows])
        if fractions.any():
            text = (
                f"task {name!r}: {counted(int(fractions.sum()), 'score')} between 0 and 1 among"
                f" percentages (these start at {values[values >= _GAP].min():.4g}):"
                f" {_listed(rows[fractions], scores, where)}; multiply by 100 if they are fractions"
            )
            low.append((name, Caution(text)))
    return [*together(far_off), *together(no_accuracy), *together(low)]


def _far_scores(values: Scores, *, bounded: bool) -> Bools:
    distance = np.abs(values - np.median(values))
    typical = float(np.median(distance[distance > 0.0])) if (distance > 0.0).any() else 0.0
    far = np.zeros(len(values), dtype=np.bool_)
    if not bounded and typical > 0.0:
        beyond = distance > _MAX_DEVIATIONS * typical
        if beyond.mean() <= _MOST_FAR:
            far |= beyond
    above = values > _PERCENT
    if values.min() >= 0.0 and 0 < above.sum() <= 0.1 * len(values):
        far |= values > max(_PERCENT, 2.0 * values[~above].max())
    if not bounded and (values < 0.0).sum() == 1:
        # -1 among scores that cannot be negative.
        lowest = float(values.min())
        whole = lowest == np.floor(lowest)
        separated = np.median(values) > 10.0 * abs(lowest) or values.max() <= abs(lowest)
        far |= (values == lowest) & bool(whole and separated)
    return far


def _fractions(values: Scores) -> Bools:
    low = (values > 0.0) & (values < 1.0)
    rest = values[~low & (values != 0.0)]
    if not low.any() or low.sum() > 0.25 * len(values) or not rest.size:
        return np.zeros(len(values), dtype=np.bool_)
    as_percent = _PERCENT * values[low]
    fits = as_percent.min() >= rest.min() and as_percent.max() <= rest.max()
    plain = rest.min() >= _GAP and np.median(rest) > _CLEARLY_PERCENT and rest.max() <= _PERCENT
    return low & bool(fits and plain)


def _fractions_of_models(values: Scores, model: Codes) -> Bools:
    """Mask of fractions of models that have percentages in the task, too."""
    low = (values > 0.0) & (values < 1.0)
    high = values >= _GAP
    none = np.zeros(len(values), dtype=np.bool_)
    if not low.any() or not high.any() or values.max() > _PERCENT:
        return none
    if np.median(values[high]) <= _CLEARLY_PERCENT:
        return none
    n_models = int(model.max()) + 1
    between = np.bincount(model[~low & ~high & (values != 0.0)], minlength=n_models)
    n_low = np.bincount(model[low], minlength=n_models)
    n_high = np.bincount(model[high], minlength=n_models)
    mixed = ((between == 0) & (n_low > 1) & (n_high > 0))[model]
    as_percent = _PERCENT * values
    inside = (as_percent >= values[high].min()) & (as_percent <= values[high].max())
    # One that cannot be a fraction says that the model's others are none either.
    refuted = np.bincount(model[low & ~inside], minlength=n_models)[model] > 0
    found: Bools = low & mixed & ~refuted
    return found


def _listed(rows: Codes, scores: Scores, where: Where) -> str:
    return shorten([f"{scores[row]:.10g} ({where(int(row))})" for row in rows], limit=_MAX_LISTED)


def errors_as_scores(
    scores: Scores, task: Codes, tasks: Sequence[str], units: Mapping[str, Units]
) -> list[Caution]:
    """Warn of tasks where lower is better by their names, unless none of their scores is positive.

    Parameters
    ----------
    scores : ndarray of float, shape (n,)
    task : ndarray of int, shape (n,)
        Position of each score's task in `tasks`.
    tasks : sequence of str
    units : mapping of str to Units
        Bounds by task, declared or guessed.
    """
    groups: dict[tuple[bool, str], list[str]] = defaultdict(list)
    highest = np.full(len(tasks), -np.inf)
    np.maximum.at(highest, task, scores)
    for name, best in zip(tasks, highest, strict=True):
        measure = measure_of_task(name)
        # Errors that were entered as their negatives.
        if best <= 0.0 or (measure is None and not says_lower_is_better(name)):
            continue
        groups[measure is None, _turned_round(units[name].upper, measure)].append(name)
    cautions = []
    for (says_so, turned), names in groups.items():
        one = len(names) == 1
        listed = f"task {names[0]!r}" if one else f"tasks {shorten(map(repr, names), limit=6)}"
        named = ("is" if one else "are") + " named after a measure of errors"
        said = ("says in its name" if one else "say in their names") + " that lower is better"
        cautions.append(
            Caution(
                f"{listed} {said if says_so else named}{_COUNTED_AS_BETTER}: if lower is better,"
                f" enter {turned}"
            )
        )
    return cautions


def order_in_doubt(notes: Iterable[str]) -> str:
    """What a conclusion about models must say of :func:`errors_as_scores`; empty without any.

    Parameters
    ----------
    notes : iterable of str
        Notes of a fit.

    Examples
    --------
    >>> warning = "warning: task 'wer' is named after a measure of errors"
    >>> order_in_doubt([f"{warning}, and higher scores count as better here: if lower is ..."])[:45]
    "Warning: task 'wer' is named after a measure "
    """
    heads = [
        head.removeprefix("warning: ")
        for head, found, _ in (note.partition(_COUNTED_AS_BETTER) for note in notes)
        if found
    ]
    return " ".join(
        f"Warning: {head}{_COUNTED_AS_BETTER}; if lower is better there, the scores and ranks of"
        " models are wrong."
        for head in heads
    )


def _turned_round(upper: float | None, measure: tuple[str, bool] | None) -> str:
    """How an error becomes a score that is better when higher."""
    if upper is not None:
        return f"{upper:g} less the error"
    if measure is None or not measure[1]:
        return "the upper bound of the scale less the error, or its negative if it has none"
    is_perplexity = measure[0].endswith(("perplexity", "ppl"))
    turned = "its negative, or minus its logarithm" if is_perplexity else "its negative"
    return f"{turned} (in a table of its own, if other tasks have another scale)"


def _scores_at_bounds(
    scores: Scores,
    codes: Mapping[str, Codes],
    tasks: tuple[str, ...],
    *,
    units: Mapping[str, Units],
) -> list[Caution]:
    """Warn of tasks whose scores are all equal, or to a quarter and more at a bound of the scale.

    Both need at least four such scores, of two models and two languages or more: one model that
    fails throughout says nothing of the task. A lower bound that is not known is that of
    :func:`bayeseval.records.scales.lower_bound`.

    Parameters
    ----------
    scores : ndarray of float, shape (n,)
    codes : mapping of str to ndarray of int, shape (n,)
        Task, model and language of each score; tasks are positions in `tasks`.
    tasks : tuple of str
    units : mapping of str to Units
        Bounds by task, declared or guessed.
    """
    equal: list[tuple[str, Caution]] = []
    crowded: dict[str, list[tuple[str, Caution]]] = {end: [] for end in ("lowest", "highest")}
    of_task = by_level(np.arange(len(scores)), codes["task"], len(tasks))
    for name, rows in zip(tasks, of_task, strict=True):
        values = scores[rows]
        lowest, highest = float(values.min()), float(values.max())
        bounds = {"lowest": lower_bound(units[name].lower, lowest), "highest": units[name].upper}
        found = {end: int((values == bound).sum()) for end, bound in bounds.items()}
        end = max(found, key=found.__getitem__)
        bound = lowest if lowest == highest else bounds[end]
        at = rows[values == bound]
        several = all(len(np.unique(codes[f][at])) > 1 for f in ("model", "language"))
        if len(at) < _MIN_SCORES or not several:
            continue
        drop = f"leave the task out ({leave_out_levels('task', [name])})"
        if lowest == highest:
            text = (
                f"task {name!r}: all {len(at)} scores are {bound:g}, so it tells no models or"
                " languages apart; models with normal residuals nevertheless predict different"
                " scores for it"
            )
            text += f"; {drop}" if len(tasks) > 1 else ""
            equal.append((f"{name} {bound:g}", Caution(text)))
        elif len(at) >= _AT_BOUND * len(rows):
            share = f"{100.0 * len(at) / len(rows):.0f} %"
            text = (
                f"task {name!r}: {share} of the scores ({len(at)} of"
                f" {len(rows)}) are {bound:g}, the {end} possible score: models with normal"
                " residuals predict scores beyond it, and larger differences between models"
                " than the scale allows; fit 'counts' if the numbers of items (column n) are known"
                " ('bounded' stays within the scale too, but its intervals are not reliable where"
                " many scores are at a bound)"
            )
            text += f", or {drop}" if len(tasks) > 1 else ""
            crowded[end].append((f"{name} {share}", Caution(text, without_bounds=True)))
    # They differ in nothing but the task and the number that its label has.
    kinds = (equal, *crowded.values())
    return [caution for cautions in kinds for caution in together(cautions, few=1)]


def constant_models(
    scores: Scores, model: Codes | npt.NDArray[np.intp], models: Sequence[str]
) -> tuple[str, ...]:
    """Models with one score throughout, in four records or more, where others have others.

    Parameters
    ----------
    scores : ndarray of float, shape (n,)
    model : ndarray of int, shape (n,)
        Position of each score's model in `models`.
    models : sequence of str

    Examples
    --------
    >>> constant_models(np.array([0.5, 0.5, 0.5, 0.5, 1.0]), np.array([1, 1, 1, 1, 0]), ["A", "B"])
    ('B',)
    """
    if np.ptp(scores) == 0.0:
        return ()
    lowest, highest = np.full(len(models), np.inf), np.full(len(models), -np.inf)
    np.minimum.at(lowest, model, scores)
    np.maximum.at(highest, model, scores)
    enough = np.bincount(model, minlength=len(models)) >= _MIN_SCORES
    return tuple(str(models[int(i)]) for i in np.flatnonzero((lowest == highest) & enough))


def _same_models(
    scores: Scores, model: Codes, models: tuple[str, ...], cells: Codes
) -> list[Caution]:
    """Warn of models with one score throughout, and of models with the same scores.

    Parameters
    ----------
    scores : ndarray of float, shape (n,)
    model : ndarray of int, shape (n,)
        Position of each score's model in `models`.
    models : tuple of str
    cells : ndarray of int, shape (n,)
        Everything but the model that tells records apart, as one number.
    """
    if len(models) < 2 or np.ptp(scores) == 0.0:
        # Where all scores are equal, it is the task that says nothing.
        return []
    constant = dict.fromkeys(constant_models(scores, model, models), "")
    with_same_scores: dict[bytes, list[str]] = defaultdict(list)
    order = np.lexsort((cells, model))
    starts = np.searchsorted(model[order], np.arange(len(models) + 1))
    for code, label in enumerate(models):
        rows = order[starts[code] : starts[code + 1]]
        if len(rows) < _MIN_SCORES:
            continue
        model_scores = scores[rows]
        if label in constant:
            constant[label] = f"{label} ({len(rows)} times {model_scores[0]:g})"
        else:
            with_same_scores[cells[rows].tobytes() + model_scores.tobytes()].append(label)
    warnings = []
    if constant:
        warnings.append(
            Caution(
                f"one score throughout for model {shorten(constant.values(), limit=_MAX_LISTED)};"
                " leave the model out if it was not run or its outputs could not be scored"
            )
        )
    for labels in with_same_scores.values():
        if len(labels) > 1:
            warnings.append(
                Caution(
                    f"models {shorten(labels, limit=6)} have exactly the same scores; leave"
                    " the copies out if they are one model"
                )
            )
    return warnings
