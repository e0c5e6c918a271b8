"""Scores as a model needs them: likelihoods, bounds, counts and link.

A fit has one link. With likelihoods of the scores themselves it is the identity, and
expected scores are the linear predictor. As soon as one task has another likelihood it is
the logit for all tasks: with p = expit(eta) and a chance level c (a share of the range, 0
where none is modelled) the expectation of a score, or its median under normal logits, is

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
from bayeseval.records import WITH_NUMBERS, declare_units, natural_units
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
    task_likelihoods : tuple of str
        Likelihood of each task.
    family : ndarray of int, shape (n_records,)
        Position of each record's likelihood in `families`.
    lower, upper : ndarray of float, shape (n_tasks,)
        Bounds of the scores; NaN where they are not needed.
    chance : ndarray of float, shape (n_tasks,), or None
        Chance level as a share of the range; None when none is modelled.
    n, k : ndarray of float, shape (n_records,), or None
        Numbers of items and of correct items; NaN for records that are not counts.
    share : ndarray of float, shape (n_records,)
        Score as a share of the range; for likelihoods of the share or its logit, moved
        away from the bounds. The score itself under the identity link.
    linear : ndarray of float, shape (n_records,)
        Score on the scale of the linear predictor: empirical logits, or the score itself.
        Determines scales of priors, starting points and parametrisations.
    log_units : ndarray of float, shape (n_records,)
        Log Jacobian that turns the log density of the modelled quantity (share, its logit,
        or a count) into one of the score.
    notes : tuple of str
        Changes made to scores.
    """

    families: tuple[names.Likelihood, ...]
    task_likelihoods: tuple[names.Likelihood, ...]
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
        """Distribution of `linear` around the linear predictor, if effects integrate out."""
        alone = len(self.families) == 1 and self.chance is None
        return FAMILIES[self.families[0]].kernel if alone else None

    @property
    def is_gaussian(self) -> bool:
        """Whether `linear` is normal around the linear predictor."""
        return self.kernel == "normal"

    @property
    def has_normal_scores(self) -> bool:
        """Whether the scores themselves are normal, so that errors add in quadrature."""
        return self.link == "identity" and self.is_gaussian

    @property
    def has_logit_residual(self) -> bool:
        """Whether the residual is on the logit scale."""
        return any(FAMILIES[family].quantity == "logit" for family in self.families)

    @property
    def has_bounds(self) -> bool:
        """Whether every likelihood knows the bounds of its scores."""
        return all(FAMILIES[family].quantity != "score" for family in self.families)

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
        """The outcome of these records only."""

        def at_rows(values: Floats | None) -> Floats | None:
            return None if values is None else values[rows]

        return replace(
            self,
            family=self.family[rows],
            n=at_rows(self.n),
            k=at_rows(self.k),
            share=self.share[rows],
            linear=self.linear[rows],
            log_units=self.log_units[rows],
        )

    def constant_data(self) -> dict[str, tuple[str, npt.NDArray[Any]]]:
        """Variables from which the outcome is restored; empty under one identity link."""
        if self.link == "identity" and len(self.families) == 1:
            return {}
        data: dict[str, tuple[str, npt.NDArray[Any]]] = {
            "likelihood": (names.TASK, np.array(self.task_likelihoods, dtype=str)),
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
                    f"{name}: likelihood: the table has no task {task!r}"
                    f"{did_you_mean(task, tasks)} (tasks: {', '.join(tasks)})"
                )
    families = []
    for task in tasks:
        family = spec.family(task)
        if family is None:
            raise DesignError(
                f"{name}: the spec has no likelihood for the task {task!r}; add it, or add default"
            )
        families.append(family)
    return tuple(families)


def identity_outcome(
    score: Floats, task: Index, task_likelihoods: tuple[names.Likelihood, ...]
) -> Outcome:
    """Build the outcome of scores under an identity link."""
    families = _in_canonical_order(task_likelihoods)
    unknown = np.full(len(task_likelihoods), np.nan)
    return Outcome(
        families=families,
        task_likelihoods=task_likelihoods,
        family=_positions(families, task_likelihoods)[task],
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
    task_likelihoods: tuple[names.Likelihood, ...],
    bounds: tuple[Floats, Floats],
    chance: Floats | None,
    n: Floats | None,
    k: Floats | None,
    name: str,
    where: Callable[[int], str] = "record {}".format,
) -> Outcome:
    """Build the outcome of scores under a logit link.

    Parameters
    ----------
    spec : ModelSpec
        The model; gives ``chance`` and ``edge``.
    score : ndarray, shape (n_records,)
        In score units.
    task : ndarray of int, shape (n_records,)
        Task of each record.
    tasks : sequence of str
        Labels of the tasks.
    task_likelihoods : tuple of str
        Likelihood of each task.
    bounds : pair of ndarray, shape (n_tasks,)
        Lower and upper bounds; NaN where unknown.
    chance : ndarray, shape (n_tasks,), or None
        Chance level in score units; NaN where unknown.
    n, k : ndarray, shape (n_records,), or None
        Numbers of items and of correct items; NaN where unknown.
    name : str
        Name of the table, for messages.
    where : callable
        Description of a record, for messages.

    Raises
    ------
    DesignError
        If bounds, numbers of items or chance levels are missing, or a score is not a count.
    """
    families = _in_canonical_order(task_likelihoods)
    if link(families) == "identity":
        return identity_outcome(score, task, task_likelihoods)
    lower, upper = bounds
    span = upper - lower
    share = _shares(score, task, tasks, task_likelihoods, bounds, name, where)
    family = _positions(families, task_likelihoods)[task]
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
            f"{moved} of {int(bounded.sum())} scores closer to a bound than {100 * spec.edge:g} % "
            "of the range were moved to this distance (edge)"
        )
    smooth = (
        inside
        if counts is None
        else np.where(is_count, (counts[1] + 0.5) / (counts[0] + 1.0), inside)
    )
    above_chance = smooth if floor is None else (smooth - floor[task]) / (1.0 - floor[task])
    linear = logit(np.clip(above_chance, spec.edge, 1.0 - spec.edge))
    return Outcome(
        families=families,
        task_likelihoods=task_likelihoods,
        family=family,
        lower=lower,
        upper=upper,
        chance=floor,
        n=None if counts is None else counts[0],
        k=None if counts is None else counts[1],
        share=inside,
        linear=linear,
        log_units=_log_units(inside, quantity, span[task], counts),
        notes=tuple(notes),
    )


def _shares(
    score: Floats,
    task: Index,
    tasks: Sequence[str],
    task_likelihoods: Sequence[str],
    bounds: tuple[Floats, Floats],
    name: str,
    where: Callable[[int], str],
) -> Floats:
    """Scores as shares of the range; refuse unknown bounds and scores outside them."""
    lower, upper = bounds
    open_ended = ~(np.isfinite(lower) & np.isfinite(upper))
    for i, label in enumerate(tasks):
        if open_ended[i]:
            raise DesignError(
                f"{name}: the bounds of the scores of task {label!r} are not known, which the "
                f"likelihood {task_likelihoods[i]} (logit link) needs; declare the lowest and the "
                f"highest possible score with {_declaration(score[open_ended[task]])}"
            )
    share = (score - lower[task]) / (upper - lower)[task]
    outside = np.flatnonzero((share < 0.0) | (share > 1.0))
    if outside.size:
        i = int(outside[0])
        raise DesignError(
            f"{name}: {where(i)}: the score {score[i]:g} is outside its bounds "
            f"{lower[task[i]]:g} to {upper[task[i]]:g}"
        )
    return np.asarray(share)


def _log_units(
    share: Floats,
    quantity: npt.NDArray[np.str_],
    span: Floats,
    counts: tuple[Floats, Floats] | None,
) -> Floats:
    """Log Jacobian from the modelled quantity of every record to its score."""
    values = np.zeros(len(share))
    bounded = np.isin(quantity, ("logit", "share"))
    values[bounded] = -np.log(span[bounded])
    logits = quantity == "logit"
    values[logits] -= np.log(share[logits]) + np.log1p(-share[logits])
    if counts is not None:
        is_count = quantity == "count"
        values[is_count] = np.log(counts[0][is_count] / span[is_count])
    return values


def _in_canonical_order(
    task_likelihoods: Sequence[names.Likelihood],
) -> tuple[names.Likelihood, ...]:
    return tuple(family for family in names.LIKELIHOODS if family in task_likelihoods)


def _positions(families: Sequence[str], task_likelihoods: Sequence[str]) -> Index:
    return np.array([list(families).index(family) for family in task_likelihoods], dtype=np.int64)


def _declaration(scores: Floats) -> str:
    """How to declare a common range for the scores: a usual one, or blanks."""
    usual = natural_units(float(scores.min(initial=0.0)), float(scores.max(initial=0.0)))
    return declare_units(usual) + ("" if usual else WITH_NUMBERS)


def _floors(
    spec: ModelSpec,
    chance: Floats | None,
    lower: Floats,
    span: Floats,
    tasks: Sequence[str],
    name: str,
) -> tuple[Floats | None, list[str]]:
    """Chance levels as shares of the range, and a note on tasks without one."""
    if not spec.chance:
        return None, []
    known = np.zeros(len(tasks), dtype=bool) if chance is None else np.isfinite(chance)
    if chance is None or not known.any():
        raise DesignError(
            f"{name}: the spec has chance: true, and the table has no chance levels; add a column "
            "chance in score units, or remove chance from the spec"
        )
    share = np.where(known, (np.where(known, chance, 0.0) - lower) / span, 0.0)
    for i in map(int, np.flatnonzero((share < 0.0) | (share >= 1.0))):
        raise DesignError(
            f"{name}: the chance level {chance[i]:g} of task {tasks[i]!r} is not inside its "
            f"bounds, {lower[i]:g} to {lower[i] + span[i]:g}"
        )
    without = [label for label, is_known in zip(tasks, known, strict=True) if not is_known]
    note = f"no chance level, so expected scores go down to the lower bound: {', '.join(without)}"
    return share, [note] if without else []


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
    """Numbers of items and of correct items of every count record; NaN elsewhere."""
    items = np.full(len(share), np.nan) if n is None else np.where(is_count, n, np.nan)
    missing = np.flatnonzero(is_count & ~(items >= 1.0))
    if missing.size:
        i = int(missing[0])
        raise DesignError(
            f"{name}: {where(i)}: likelihoods of counts need the number of items, a column n; "
            f"{len(missing)} records have none; add it, or fit the model bounded or logit "
            f"(likelihoods {any_of((*of_quantity('share'), *of_quantity('logit')), 'and')})"
        )
    given = np.full(len(share), np.nan) if k is None else np.where(is_count, k, np.nan)
    exact = share * items
    correct = np.where(np.isfinite(given), given, np.round(exact))
    # A printed score is right to half a unit of its last decimal.
    half = np.array([half_unit(score[(task == t) & is_count]) for t in range(len(span))])
    allowed = np.maximum(items * (half / span)[task] * 1.001, 1e-3)
    mismatched = np.flatnonzero(is_count & (np.abs(correct - exact) > allowed))
    if mismatched.size:
        i = int(mismatched[0])
        wanted = f"k = {given[i]:g}" if np.isfinite(given[i]) else "a whole number of correct items"
        raise DesignError(
            f"{name}: {where(i)}: the score {score[i]:g} is {exact[i]:.2f} of {items[i]:g} items, "
            f"not {wanted}; likelihoods of counts need scores that are shares of correct items; "
            f"fit the model bounded to other scores (likelihood {any_of(of_quantity('share'))})"
        )
    return items, np.where(is_count, correct, np.nan)


def half_unit(score: Floats) -> float:
    """Half a unit of the last decimal that scores are printed with; 0 if they are not rounded."""
    for decimals in range(_MOST_DECIMALS):
        if np.abs(score - np.round(score, decimals)).max(initial=0.0) < 1e-9:
            return float(0.5 * 10.0**-decimals)
    return 0.0


def largest_rounding(outcome: Outcome, score: Floats, task: Index) -> Floats:
    """Largest rounding error of each score, on the scale of the linear predictor.

    Parameters
    ----------
    outcome : Outcome
        The scores as the likelihoods need them.
    score : ndarray, shape (n_records,)
        In score units.
    task : ndarray of int, shape (n_records,)
        Task of each record. Tasks may be printed with different numbers of decimals.

    Returns
    -------
    ndarray, shape (n_records,)
        Half a unit of the last decimal of the record's task, converted to the scale of
        `outcome.linear`; 0 where scores are not rounded.
    """
    half = np.array([half_unit(score[task == t]) for t in range(len(outcome.task_likelihoods))])[
        task
    ]
    if outcome.link == "identity":
        return half
    span = (outcome.upper - outcome.lower)[task]
    floor = np.zeros(len(task)) if outcome.chance is None else outcome.chance[task]
    own = 1.0 / (1.0 + np.exp(-outcome.linear))
    return np.asarray(half / span / (1.0 - floor) / (own * (1.0 - own)))
