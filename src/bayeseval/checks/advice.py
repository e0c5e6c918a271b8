"""Meaning of a warning for a user's conclusions, and the recommended next command."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from bayeseval import names
from bayeseval._text import shorten
from bayeseval.checks.container import Check
from bayeseval.checks.situation import BOUNDED, INTERACTIONS, OwnSpec, Situation
from bayeseval.families import FAMILIES, of_quantity, scale_names

__all__ = ["advised_together"]

_MANY_UNCONNECTED: Final = 0.05
# Likelihoods without a residual sd that could differ by level.
_WITHOUT_SD: Final = tuple(family for family in FAMILIES if not scale_names((family,)))
# Checks that may fail for lack of interactions.
_BY_INTERACTIONS: Final = ("independence", "calibration", "sd_by_language", "residual_normality")
_EQUAL_VARIANCE: Final = "equal_variance_"
_UNDONE: Final = " A likelihood with bounds undoes this."


def advised_together(checks: Sequence[Check], fit: Situation) -> list[Check]:
    """Add meaning and next command to the checks that warn or fail.

    What they ask for that no shipped model has is in one spec, because a user can fit only one
    model next. The first check that asks for it, in the order of the output, has its lines.

    Parameters
    ----------
    checks : sequence of Check
        All checks of a fit.
    fit : Situation
        Of this fit.
    """
    warned = [check for status in ("fail", "warn") for check in checks if check.status == status]
    spec = _spec_for(warned, fit)
    asking = [check.name for check in warned if spec is not None and _helps(spec, check.name, fit)]
    found = []
    for check in checks:
        if check.status not in ("fail", "warn"):
            found.append(check)
            continue
        meaning, command = _advice(check.name, fit, spec)
        if spec is not None and check.name in asking:
            how, command = fit.own_spec(spec)
            meaning += (
                f"{_why(spec, asking, fit)}{how}"
                if check.name == asking[0]
                else f" The spec given at '{asking[0].replace('_', ' ')}' is for this, too."
            )
        found.append(replace(check, meaning=meaning, command=command))
    return found


def _spec_for(warned: Sequence[Check], fit: Situation) -> OwnSpec | None:
    """One spec with all that some checks ask for; None where shipped models have it."""
    # Another spec would lose the covariate.
    if fit.covariates:
        return None
    wanted = {check.name for check in warned}
    likelihood = _likelihood_for(wanted, fit)
    more = fit.lacking(fit.alike) if "independence" in wanted else ()
    if fit.likelihood in BOUNDED and not wanted.isdisjoint(_BY_INTERACTIONS):
        # No shipped model with bounds has more terms to compare.
        more = more or fit.lacking(fit.alike) or fit.lacking(INTERACTIONS["crossed"])
    terms = (*fit.terms, *more)
    if likelihood != fit.likelihood and (terms or fit.low_rank):
        # Residual sds that differ on one scale may be equal on the other.
        return OwnSpec(likelihood, terms)
    by_p = sorted(warned, key=lambda check: 1.0 if np.isnan(check.p) else check.p)
    factors = [
        check.name.removeprefix(_EQUAL_VARIANCE)
        for check in by_p
        if check.name.startswith(_EQUAL_VARIANCE)
    ]
    residual_by = next((f for f in factors if _needs_own_spec(f, fit)), None)
    if residual_by is None and (fit.likelihood not in BOUNDED or not more):
        return None
    # Where a shipped model has the bounds, the spec is of the likelihood that the fit has.
    return OwnSpec(fit.likelihood, terms, residual_by or fit.residual_by)


def _likelihood_for(wanted: Collection[str], fit: Situation) -> str:
    """The likelihood that some checks ask for: that of the fit, or one with bounds."""
    if fit.likelihood in BOUNDED or fit.errors:
        return fit.likelihood
    beyond = "outside_bounds" in wanted and fit.bounded
    crowded = "sd_by_language" in wanted and _is_crowded(fit)
    compressed = any(_is_undone(name, fit) for name in wanted)
    if _can_be_logits(fit):
        # Exact in `marginal`; beside a task near zero, 95 % intervals of sds of gaps had the truth
        # in 95 % of simulated tables.
        return of_quantity("logit")[0] if beyond or crowded or compressed else fit.likelihood
    return of_quantity("share")[0] if beyond or crowded else fit.likelihood


def _is_crowded(fit: Situation) -> bool:
    return fit.crowded and fit.bounded and fit.likelihood in of_quantity("score")


def _is_compressed(name: str, fit: Situation) -> bool:
    """Whether a check warns beside tasks with compressed effects, which concern it."""
    if not fit.narrow or fit.likelihood not in of_quantity("score"):
        return False
    by_task = fit.residual_by == names.TASK
    return name == f"{_EQUAL_VARIANCE}{names.TASK}" or (by_task and name == "independence")


def _is_undone(name: str, fit: Situation) -> bool:
    """Whether a check warns beside tasks whose effects logits make as large as the others'."""
    return _is_compressed(name, fit) and _can_be_logits(fit) and fit.even_on_logits


def _can_be_logits(fit: Situation) -> bool:
    """Whether normal logits suit the scores: no known errors, and no score at a bound."""
    return fit.bounded and fit.inside and not (fit.errors or fit.covariates)


def _needs_own_spec(factor: str, fit: Situation) -> bool:
    """Whether residual sds by a factor need a spec of the user's own."""
    if fit.residual_by == factor or fit.likelihood in _WITHOUT_SD or fit.likelihood not in FAMILIES:
        return False
    if fit.likelihood in BOUNDED:
        return True
    by_task = factor == names.TASK and (fit.has("crossed") or bool(fit.narrow))
    return not by_task and fit.robust() in (None, fit.model)


def _helps(spec: OwnSpec, name: str, fit: Situation) -> bool:
    """Whether a spec has what a check asks for, and no shipped model has it."""
    factor = name.removeprefix(_EQUAL_VARIANCE)
    more = set(spec.terms) - set(fit.terms)
    if name == "independence":
        return not more.isdisjoint(fit.alike) or (
            spec.likelihood != fit.likelihood and _is_undone(name, fit)
        )
    if spec.likelihood != fit.likelihood:
        return (
            name == "outside_bounds"
            or (name == "sd_by_language" and _is_crowded(fit))
            or _is_undone(name, fit)
            or (factor != name and _needs_own_spec(factor, fit))
        )
    if factor != name:
        return factor == spec.residual_by != fit.residual_by
    return bool(more) and name in _BY_INTERACTIONS and fit.likelihood in BOUNDED


def _why(spec: OwnSpec, asking: Sequence[str], fit: Situation) -> str:
    """What a spec has that no shipped model has, for the checks that ask for it."""
    undone = spec.likelihood != fit.likelihood and any(_is_undone(name, fit) for name in asking)
    compressed = f"{_compressed(fit)}{_UNDONE}" if undone else ""
    by = "" if spec.residual_by is None else f"residual_by: {spec.residual_by}"
    if spec.likelihood in BOUNDED and (spec.likelihood, spec.terms) != (fit.likelihood, fit.terms):
        also = f", and {by}" if by else ""
        return (
            f"{compressed} The shipped models with interactions have no bounds; a spec of your own"
            f" can have both{also}."
        )
    beside = "" if spec.terms == fit.terms else " beside these interactions"
    return f" A spec of your own can have {by}{beside}."


def _compressed(fit: Situation) -> str:
    """What tasks with compressed effects do to effects that all tasks share."""
    give = "give" if fit.residual_by == names.TASK else "would give"
    return (
        f" Scores of {shorten(fit.narrow, limit=4)} vary less than half as much as those of other"
        " tasks, as they do near a bound or near chance level, and so do differences between models"
        f" and languages there: residual sds by task {give} them the largest weight."
    )


def _without_compressed(name: str, fit: Situation) -> tuple[str, str]:
    """The same, and a shipped model or a refit without it."""
    if _is_undone(name, fit) and not (fit.terms or fit.low_rank):
        return f"{_compressed(fit)}{_UNDONE}", fit.compare("logit")
    leave = (
        " Leave these tasks out if your conclusions depend on differences between models or "
        "languages."
    )
    return f"{_compressed(fit)}{leave}", fit.sensitivity(names.TASK)


def _advice(name: str, fit: Situation, spec: OwnSpec | None) -> tuple[str, str]:
    if name in _WITHOUT_COMMAND:
        return _WITHOUT_COMMAND[name], ""
    if name == "independence":
        return _correlated_residuals(fit, is_answered=spec is not None and _helps(spec, name, fit))
    if name == "calibration":
        return (
            "Intervals of single scores, such as predictions of untested pairs, have the wrong "
            "width. Scores of models and potentials are means of many records and depend on it "
            "less.",
            fit.compare(fit.next_model(), fit.robust()),
        )
    if name in ("highest_residual", "lowest_residual"):
        return (
            "One record is far from what all others predict: check it at its source. The sentence "
            "above says how far it moves the means of its model and its language; see "
            "influential_records.csv.",
            fit.compare(fit.robust()) or fit.sensitivity("outliers=10"),
        )
    if name == "sd_by_language":
        meaning = (
            "In some languages scores vary more, or less, than the model predicts: intervals of "
            "these languages' potentials are too narrow, or too wide."
        )
        if _is_crowded(fit):
            meaning += " Scores at a bound vary less than others, which needs a model with bounds."
            return _with_bounds(meaning, fit)
        return meaning, fit.compare(fit.next_model(), fit.robust())
    if name == "outside_bounds":
        meaning = (
            "Near a bound the model predicts impossible scores, and larger differences between "
            "models than the scale allows."
        )
        if not fit.bounded:
            meaning += (
                " Models with bounds need a lower and an upper bound for every task: declare the "
                "bounds that are missing, and leave out tasks whose scale has none."
            )
            return meaning, fit.scales()
        return _with_bounds(meaning, fit)
    if name == "residual_normality":
        return (
            "The few records far from their predictions distort the estimates for their models and "
            "languages, and widen the intervals of all single scores beyond what most of them need."
            if fit.likelihood == "normal"
            else "Intervals of single scores have the wrong width.",
            fit.compare(fit.robust(), fit.next_model()),
        )
    if name.startswith(_EQUAL_VARIANCE):
        return _unequal_variance(name.removeprefix(_EQUAL_VARIANCE), fit, spec)
    if name.startswith("normality_"):
        factor = name.removeprefix("normality_")
        return (
            f"A {factor} far from the others is shrunk towards them too strongly, and "
            f"predictions for a new {factor} have the wrong width; ranks change little.",
            fit.sensitivity(factor),
        )
    if name == "influential_records":
        return (
            "Check these records at their source: an error there would change the numbers of "
            "their models and languages (influential_records.csv).",
            fit.sensitivity(f"outliers={max(1, fit.outliers)}"),
        )
    return (
        "Differences between models without a common language-task pair, and estimates for a "
        "language, task or model with a single record, depend more on the model's terms than on "
        "measurements.",
        # One refit for every model is worth it where many pairs depend on it.
        fit.sensitivity("model") if fit.unconnected >= _MANY_UNCONNECTED else "",
    )


def _with_bounds(meaning: str, fit: Situation) -> tuple[str, str]:
    """A meaning, and the shipped models with bounds or what the table has that they refuse."""
    if not fit.errors:
        return meaning, fit.compare("logit", "bounded")
    return (
        f"{meaning} Models with bounds accept neither given standard errors nor seeds: to fit such "
        "a model, leave out the errors and average over the seeds. Numbers of items (n) can stay, "
        "and 'counts' accepts rows of right and wrong items as they are.",
        "",
    )


_WITHOUT_COMMAND: Final[Mapping[str, str]] = {
    "prior_range": "The priors are far wider than the scale of the scores. With many records this "
    "has no effect; levels with few records get intervals that are too wide. Narrow the priors of "
    "the spec.",
    "prior_spread": "The priors have a different scale from the scores: sds of terms with few "
    "levels, and the pooling of these levels, are unreliable. Correct the priors of the spec; "
    "priors that are left out scale with the scores.",
    "prior_sensitivity": "Other reasonable priors would change these numbers: report them with the "
    "priors (run.json), and do not rely on their last digits. All of them are in "
    "prior_sensitivity.csv.",
}


def _correlated_residuals(fit: Situation, *, is_answered: bool) -> tuple[str, str]:
    with_models = any(names.MODEL in term.split(":") for term in fit.alike)
    quantities = "scores and ranks of models" if with_models else "potentials of languages"
    meaning = (
        "Correlated records are counted as independent evidence: intervals of "
        f"{quantities} tend to be too narrow, and probabilities too close to 0 or 1."
    )
    if all(names.DATASET in term.split(":") for term in fit.alike):
        meaning = (
            "Several metrics of the same outputs are counted as separate measurements: intervals "
            "of a model in one language, and of untested pairs, have the wrong width. Scores over "
            "all pairs depend on it less."
        )
    if not is_answered and _is_compressed("independence", fit):
        compressed, command = _without_compressed("independence", fit)
        return meaning + compressed, command
    fuller = None if is_answered else fit.fuller(fit.alike)
    if fuller is not None:
        return meaning, fit.fit(fuller)
    missing = [term for term in fit.alike if term not in fit.terms]
    unidentified = [term for term in missing if term not in fit.identified]
    if unidentified:
        meaning += (
            f" The table has too few records to estimate {' and '.join(unidentified)}; add "
            "tasks or metrics."
        )
    elif missing and fit.likelihood not in BOUNDED and not is_answered:
        lines = fit.interaction_lines((*fit.terms, *missing)).items()
        written = ", ".join(f"{key}: {value}" for key, value in lines)
        meaning += f" Write a spec with these terms: {written}."
    return meaning, fit.compare(fit.robust())


def _unequal_variance(factor: str, fit: Situation, spec: OwnSpec | None) -> tuple[str, str]:
    name = f"{_EQUAL_VARIANCE}{factor}"
    meaning = (
        f"One residual sd is used for every {factor}: intervals are too narrow for the {factor}s "
        "with the larger sds and too wide for the others."
        if fit.residual_by != factor
        else f"Separate residual sds by {factor} do not explain this: the residuals have another "
        "shape than the model's likelihood."
    )
    if spec is not None and _helps(spec, name, fit):
        return meaning, ""
    if _is_compressed(name, fit):
        compressed, command = _without_compressed(name, fit)
        return meaning + compressed, command
    by_task = factor == names.TASK and fit.residual_by != factor and fit.likelihood not in BOUNDED
    if by_task and fit.has("crossed"):
        return meaning, fit.compare("by_task", fit.robust())
    if fit.residual_by != factor and fit.likelihood not in _WITHOUT_SD:
        meaning += f" A spec of your own can have residual_by: {factor}"
        other = None if spec is None else spec.residual_by
        meaning += "." if other in (None, factor) else f" in place of residual_by: {other}."
    return meaning, fit.compare(fit.robust())
