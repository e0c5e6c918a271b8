"""What the scores are to a model: their likelihoods, bounds, counts and link.

One link serves a whole fit. With likelihoods of the scores themselves it is the identity,
and expected scores are the linear predictor. As soon as one task has another likelihood it
is the logit for all tasks: with p = expit(eta) and a chance level c (a share of the range,
0 where none is modelled) a score's expectation, under normal logits its median, is

    lower + (upper - lower) (c + (1 - c) p).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from scipy.special import logit

from bayeseval import names
from bayeseval._text import any_of
from bayeseval._typing import Floats, Index
from bayeseval.errors import DesignError, did_you_mean
from bayeseval.families import FAMILIES, Kernel, Quantity, link, of_quantity
from bayeseval.spec import ModelSpec

__all__ = [
    "Outcome",
    "build_outcome",
    "half_unit",
    "identity_outcome",
    "largest_rounding",
    "task_families",
]


_MOST_DECIMALS = 8


@dataclass(frozen=True, eq=False)
class Outcome:
    """Scores as the likelihoods need them.

    Attributes
    ----------
    families : tuple of str
        Likelihoods that occur, in canonical order.
    of_task : tuple of str
        Likelihood of each task.
    family : ndarray of int, shape (n_records,)
        Position of each record's likelihood in `families`.
    lower, upper : ndarray of float, shape (n_tasks,)
        Bounds of the scores; NaN where they are not needed.
    chance : ndarray of float, shape (n_tasks,), or None
        Floor of expected scores as a share of the range; None when there is none.
    n, k : ndarray of float, shape (n_records,), or None
        Items and correct ones; NaN for records that are no counts.
    share : ndarray of float, shape (n_records,)
        Score as a share of the range, for likelihoods of it or of its logit moved off the
        bounds. The score itself under the identity link.
    linear : ndarray of float, shape (n_records,)
        The score as the linear predictor would have it: empirical logits, or the score
        itself. Priors, starting points and forms are chosen by it.
    log_units : ndarray of float, shape (n_records,)
        What makes a log density of the modelled quantity (share, logit of it, count) one
        of the score, in score units.
    notes : tuple of str
        What was done to scores.
    """

    families: tuple[names.Likelihood, ...]
    of_task: tuple[names.Likelihood, ...]
    family: Index
    lower: Floats
    upper: Floats
    chance: Floats | None
    n: Floats | None
    k: Floats | None
    share: Floats
    linear: Floats
    log_units: Floats
    notes: tuple[str, ...]

    @property
    def link(self) -> Literal["identity", "logit"]:
        """Link of the whole fit."""
        return link(self.families)

    @property
    def kernel(self) -> Kernel | None:
        """How `linear` scatters around the linear predictor, where there is a closed form."""
        alone = len(self.families) == 1 and self.chance is None
        return FAMILIES[self.families[0]].kernel if alone else None

    @property
    def is_gaussian(self) -> bool:
        """Whether `linear` is normal around the linear predictor."""
        return self.kernel == "normal"

    @property
    def has_normal_scores(self) -> bool:
        """Whether the scores themselves are normal, so that further errors add to them."""
        return self.link == "identity" and self.is_gaussian

    @property
    def has_logit_residual(self) -> bool:
        """Whether the residual is on the logit scale."""
        return any(FAMILIES[family].quantity == "logit" for family in self.families)

    def rows(self, likelihood: str) -> Index:
        """Records with this likelihood."""
        if likelihood not in self.families:
            return np.zeros(0, dtype=np.int64)
        position = [str(family) for family in self.families].index(likelihood)
        return np.flatnonzero(self.family == position)

    def rows_of(self, *quantities: Quantity) -> Index:
        """Records with a likelihood of one of these quantities, one likelihood after the other."""
        rows = [self.rows(family) for family in of_quantity(*quantities)]
        return np.concatenate([np.zeros(0, dtype=np.int64), *rows])

    def take(self, rows: Index) -> Outcome:
        """The same of some records only."""

        def some(values: Floats | None) -> Floats | None:
            return None if values is None else values[rows]

        return replace(
            self,
            family=self.family[rows],
            n=some(self.n),
            k=some(self.k),
            share=self.share[rows],
            linear=self.linear[rows],
            log_units=self.log_units[rows],
        )

    def constant_data(self) -> dict[str, tuple[str, npt.NDArray[Any]]]:
        """What restoring the fit takes, beside the scores; nothing for plain scores."""
        if self.link == "identity" and len(self.families) == 1:
            return {}
        data: dict[str, tuple[str, npt.NDArray[Any]]] = {
            "likelihood": (names.TASK, np.array(self.of_task, dtype=str)),
            "score_lower": (names.TASK, self.lower),
            "score_upper": (names.TASK, self.upper),
        }
        if self.chance is not None:
            data["chance_share"] = (names.TASK, self.chance)
        if self.n is not None and self.k is not None:
            data |= {"n_items": (names.RECORD, self.n), "n_correct": (names.RECORD, self.k)}
        return data


def task_families(spec: ModelSpec, tasks: Sequence[str], name: str) -> tuple[names.Likelihood, ...]:
    """Likelihood of every task.

    Raises
    ------
    DesignError
        If the spec names a task that the table does not have, or has no likelihood for one.
    """
    if isinstance(spec.likelihood, dict):
        for task in spec.likelihood:
            if task not in (*tasks, "default"):
                raise DesignError(
                    f"{name}: likelihood names the task {task!r}, which the table does not have"
                    f"{did_you_mean(task, tasks)} (tasks: {', '.join(tasks)})"
                )
    found = []
    for task in tasks:
        family = spec.family(task)
        if family is None:
            raise DesignError(
                f"{name}: the spec has no likelihood for the task {task!r}; name it, or give "
                "default"
            )
        found.append(family)
    return tuple(found)


def identity_outcome(score: Floats, task: Index, of_task: tuple[names.Likelihood, ...]) -> Outcome:
    """Scores that are modelled as they are."""
    families = _present(of_task)
    unknown = np.full(len(of_task), np.nan)
    return Outcome(
        families=families,
        of_task=of_task,
        family=_positions(families, of_task)[task],
        lower=unknown,
        upper=unknown,
        chance=None,
        n=None,
        k=None,
        share=score,
        linear=score,
        log_units=np.zeros(len(score)),
        notes=(),
    )


def build_outcome(
    spec: ModelSpec,
    *,
    score: Floats,
    task: Index,
    tasks: Sequence[str],
    of_task: tuple[names.Likelihood, ...],
    bounds: tuple[Floats, Floats],
    chance: Floats | None,
    n: Floats | None,
    k: Floats | None,
    name: str,
    where: Callable[[int], str] = "record {}".format,
) -> Outcome:
    """Scores on a logit link.

    Parameters
    ----------
    spec : ModelSpec
        For ``chance`` and ``edge``.
    score : ndarray, shape (n_records,)
        In score units.
    task : ndarray of int, shape (n_records,)
        Task of each record.
    tasks : sequence of str
        Labels of the tasks.
    of_task : tuple of str
        Likelihood of each task.
    bounds : pair of ndarray, shape (n_tasks,)
        Lower and upper bounds; NaN where unknown.
    chance : ndarray, shape (n_tasks,), or None
        Chance level in score units; NaN where unknown.
    n, k : ndarray, shape (n_records,), or None
        Items and correct ones; NaN where unknown.
    name : str
        Of the table, for messages.
    where : callable
        Place of a record, for messages.

    Raises
    ------
    DesignError
        If bounds, numbers of items or chance levels are missing, or a score is no count.
    """
    families = _present(of_task)
    if link(families) == "identity":
        return identity_outcome(score, task, of_task)
    lower, upper = bounds
    open_ended = ~(np.isfinite(lower) & np.isfinite(upper))
    for i, label in enumerate(tasks):
        if open_ended[i]:
            raise DesignError(
                f"{name}: the bounds of the scores of task {label!r} are not known, which the "
                f"likelihood {of_task[i]} (logit link) needs; declare the lowest and the highest "
                f"score that is possible, for instance with '{_units(score[open_ended[task]])}', "
                "in a YAML file given with --mapping (units=(lower, upper) in Python)"
            )
    span = upper - lower
    share = (score - lower[task]) / span[task]
    outside = np.flatnonzero((share < 0.0) | (share > 1.0))
    if outside.size:
        i = int(outside[0])
        raise DesignError(
            f"{name}: {where(i)}: the score {score[i]:g} is outside its bounds "
            f"{lower[task[i]]:g} to {upper[task[i]]:g}"
        )
    family = _positions(families, of_task)[task]
    quantity = np.array([FAMILIES[name].quantity for name in families])[family]
    is_count = quantity == "count"
    counts = (
        _counts(share, score, is_count, task, n, k, span, name, where) if is_count.any() else None
    )
    floor, notes = _floors(spec, chance, lower, span, tasks, name)

    bounded = np.isin(quantity, ("logit", "share"))
    inside = np.where(bounded, np.clip(share, spec.edge, 1.0 - spec.edge), share)
    moved = int((inside != share).sum())
    if moved:
        notes.append(
            f"{moved} of {int(bounded.sum())} scores nearer than {100 * spec.edge:g} % of the "
            "range to a bound count as that far from it (edge)"
        )
    smooth = (
        inside
        if counts is None
        else np.where(is_count, (counts[1] + 0.5) / (counts[0] + 1.0), inside)
    )
    own = smooth if floor is None else (smooth - floor[task]) / (1.0 - floor[task])
    linear = logit(np.clip(own, spec.edge, 1.0 - spec.edge))

    log_units = np.zeros(len(score))
    log_units[bounded] = -np.log(span[task[bounded]])
    logits = quantity == "logit"
    log_units[logits] -= np.log(inside[logits]) + np.log1p(-inside[logits])
    if counts is not None:
        log_units[is_count] = np.log(counts[0][is_count] / span[task[is_count]])
    return Outcome(
        families=families,
        of_task=of_task,
        family=family,
        lower=lower,
        upper=upper,
        chance=floor,
        n=None if counts is None else counts[0],
        k=None if counts is None else counts[1],
        share=inside,
        linear=linear,
        log_units=log_units,
        notes=tuple(notes),
    )


def _present(of_task: Sequence[names.Likelihood]) -> tuple[names.Likelihood, ...]:
    return tuple(family for family in names.LIKELIHOODS if family in of_task)


def _positions(families: Sequence[str], of_task: Sequence[str]) -> Index:
    return np.array([list(families).index(family) for family in of_task], dtype=np.int64)


def _units(scores: Floats) -> str:
    """The line of a mapping file that declares a common range around the scores."""
    lowest, highest = float(scores.min(initial=0.0)), float(scores.max(initial=0.0))
    # 1 and 100 are the usual bounds; beyond them a round number.
    upper = next((top for top in (1.0, 100.0) if highest <= top), _round_up(highest))
    if lowest < 0.0:
        # -0.4 to 0.7 is a correlation's range, -3 to 50 one of percentages.
        upper = max(upper, 1.0 if lowest >= -1.0 else _round_up(-lowest))
        return f"units: {{lower: {-upper:.10g}, upper: {upper:.10g}}}"
    return f"units: {{lower: 0, upper: {upper:.10g}}}"


def _round_up(value: float) -> float:
    """The next number of one significant digit."""
    if value <= 0.0:
        return 1.0
    step = 10.0 ** np.floor(np.log10(value))
    return float(np.ceil(value / step) * step)


def _floors(
    spec: ModelSpec,
    chance: Floats | None,
    lower: Floats,
    span: Floats,
    tasks: Sequence[str],
    name: str,
) -> tuple[Floats | None, list[str]]:
    """Chance levels as shares of the range, and what to say of tasks without."""
    if not spec.chance:
        return None, []
    known = np.zeros(len(tasks), dtype=bool) if chance is None else np.isfinite(chance)
    if chance is None or not known.any():
        raise DesignError(
            f"{name}: the spec asks for chance levels (chance: true) and the table has none; add a "
            "column chance in score units, or leave chance out of the spec"
        )
    share = np.where(known, (np.where(known, chance, 0.0) - lower) / span, 0.0)
    for i in map(int, np.flatnonzero((share < 0.0) | (share >= 1.0))):
        raise DesignError(
            f"{name}: the chance level {chance[i]:g} of task {tasks[i]!r} is not inside its "
            f"bounds, {lower[i]:g} to {lower[i] + span[i]:g}"
        )
    without = [label for label, there in zip(tasks, known, strict=True) if not there]
    return share, [f"no chance level, so no floor: {', '.join(without)}"] if without else []


def _counts(
    share: Floats,
    score: Floats,
    is_count: npt.NDArray[np.bool_],
    task: Index,
    n: Floats | None,
    k: Floats | None,
    span: Floats,
    name: str,
    where: Callable[[int], str],
) -> tuple[Floats, Floats]:
    """Items and correct ones of every count record; NaN elsewhere."""
    items = np.full(len(share), np.nan) if n is None else np.where(is_count, n, np.nan)
    missing = np.flatnonzero(is_count & ~(items >= 1.0))
    if missing.size:
        i = int(missing[0])
        raise DesignError(
            f"{name}: {where(i)}: counts need the number of items, a column n; "
            f"{len(missing)} records have none; take "
            f"{any_of((*of_quantity('share'), *of_quantity('logit')))} where it is not known"
        )
    given = np.full(len(share), np.nan) if k is None else np.where(is_count, k, np.nan)
    exact = share * items
    whole = np.where(np.isfinite(given), given, np.round(exact))
    # A printed score is right to half a unit of its last decimal.
    half = np.array([half_unit(score[(task == t) & is_count]) for t in range(len(span))])
    allowed = np.maximum(items * (half / span)[task] * 1.001, 1e-3)
    off = np.flatnonzero(is_count & (np.abs(whole - exact) > allowed))
    if off.size:
        i = int(off[0])
        said = f"k = {given[i]:g}" if np.isfinite(given[i]) else "a whole number of correct items"
        raise DesignError(
            f"{name}: {where(i)}: the score {score[i]:g} is {exact[i]:.2f} of {items[i]:g} items, "
            f"not {said}; counts are for scores that are shares of correct items, "
            f"{any_of(of_quantity('share'))} for others"
        )
    return items, np.where(is_count, whole, np.nan)


def half_unit(score: Floats) -> float:
    """Half a unit of the last decimal that scores are printed with; 0 when they are exact."""
    for decimals in range(_MOST_DECIMALS):
        if np.abs(score - np.round(score, decimals)).max(initial=0.0) < 1e-9:
            return float(0.5 * 10.0**-decimals)
    return 0.0


def largest_rounding(outcome: Outcome, score: Floats, task: Index) -> Floats:
    """How far printing may have moved each value of the linear predictor's scale.

    Parameters
    ----------
    outcome : Outcome
        What the scores are to the likelihoods.
    score : ndarray, shape (n_records,)
        In score units.
    task : ndarray of int, shape (n_records,)
        Task of each record. Tasks may be printed with different numbers of decimals.

    Returns
    -------
    ndarray, shape (n_records,)
        Half a unit of the last decimal of the record's task, moved to the scale of
        `outcome.linear`; 0 where scores have all their digits.
    """
    half = np.array([half_unit(score[task == t]) for t in range(len(outcome.of_task))])[task]
    if outcome.link == "identity":
        return half
    span = (outcome.upper - outcome.lower)[task]
    floor = np.zeros(len(task)) if outcome.chance is None else outcome.chance[task]
    own = 1.0 / (1.0 + np.exp(-outcome.linear))
    return np.asarray(half / span / (1.0 - floor) / (own * (1.0 - own)))
