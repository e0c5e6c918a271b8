"""Meaning of a warning for a user's conclusions, and the recommended next command."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Final

from bayeseval import names
from bayeseval._text import shell_quoted, shorten
from bayeseval.checks.connections import unconnected_share
from bayeseval.checks.container import Check
from bayeseval.design import identified_interactions, narrow_tasks
from bayeseval.errors import wording
from bayeseval.estimands.container import PosteriorArrays
from bayeseval.families import FAMILIES, of_quantity, scale_names
from bayeseval.spec import AUTO, list_models

__all__ = ["Situation", "advised"]

_MANY_UNCONNECTED: Final = 0.05
# From the smallest model up.
_FULLER: Final = ("interaction", "crossed", "dataset")
_INTERACTIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "interaction": ("language:task",),
    "crossed": ("language:task", "model:task", "model:language"),
    "dataset": ("language:task", "model:task", "model:language", "model:language:dataset"),
}
# Shipped models of likelihoods that know the bounds of the scores; none has interactions.
_BOUNDED: Final[Mapping[str, str]] = {
    **dict.fromkeys(of_quantity("share"), "bounded"),
    **dict.fromkeys(of_quantity("logit"), "logit"),
    **dict.fromkeys(of_quantity("count"), "counts"),
}
# Likelihoods without a residual sd that could differ by level.
_WITHOUT_SD: Final = tuple(family for family in FAMILIES if not scale_names((family,)))
# Checks that may fail for lack of interactions.
_BY_INTERACTIONS: Final = ("independence", "calibration", "sd_by_language", "residual_normality")


@dataclass(frozen=True)
class Situation:
    """Properties of the checked fit on which the recommended next step depends.

    Attributes
    ----------
    benchmark : str
        Value of ``--benchmark``.
    model : str
        Value of ``--model``: a shipped name, ``auto``, or the name of the user's own spec.
    terms : tuple of str
        Its interactions.
    identified : tuple of str
        Interactions that the table identifies.
    likelihood : str
        ``normal``, ...; ``mixed`` where tasks differ.
    residual_by : str or None
        Factor by which residual sds differ.
    bounded : bool
        Whether the scores of all tasks have two bounds.
    alike : tuple of str
        Terms within whose cells residuals are correlated.
    outliers : int
        Number of outlying records.
    options : str
        Further options on reading the table, as a shell takes them: ``--mapping units.yaml``.
    covariates : tuple of str
        Its covariates.
    covariate : str
        Value of ``--covariate``; empty where there is none to give.
    unconnected : float
        Share of the pairs of models without a common language-task pair.
    crowded : bool
        Whether the language whose sd the model predicts worst has its scores at a bound.
    """

    benchmark: str
    model: str
    terms: tuple[str, ...]
    identified: tuple[str, ...]
    likelihood: str
    residual_by: str | None
    bounded: bool
    alike: tuple[str, ...] = ()
    outliers: int = 0
    options: str = ""
    covariates: tuple[str, ...] = ()
    covariate: str = ""
    unconnected: float = 0.0
    crowded: bool = False
    narrow: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        arrays: PosteriorArrays,
        *,
        benchmark: str,
        model: str,
        bounded: bool,
        alike: Sequence[str],
        outliers: int,
        options: str = "",
        covariate: str = "",
        crowded: bool = False,
    ) -> Situation:
        """Read terms, noise and counts off a fit."""
        sizes = {factor: len(labels) for factor, labels in arrays.levels.items()}
        return cls(
            benchmark=benchmark,
            model=model,
            terms=tuple(cells.term for cells in arrays.cells),
            identified=identified_interactions(arrays.index, sizes),
            likelihood=arrays.likelihood,
            residual_by=arrays.residual_by,
            bounded=bounded,
            alike=tuple(alike),
            outliers=outliers,
            options=options,
            covariates=tuple(slope.name for slope in arrays.slopes),
            covariate=covariate,
            unconnected=unconnected_share(arrays.index, sizes),
            crowded=crowded,
            narrow=narrow_tasks(arrays.score, arrays.index[names.TASK], arrays.levels[names.TASK]),
        )

    def has(self, shipped: str) -> bool:
        """Whether a shipped model of these interactions can be fitted to the table."""
        return set(_INTERACTIONS[shipped]) <= set(self.identified)

    def fuller(self, wanted: Sequence[str] = ()) -> str | None:
        """The smallest model with more terms than this one, including those wanted.

        With a covariate this is ``auto``, which adds it to all terms that the table identifies.
        Shipped models with interactions have no bounds; none replaces a model that has them.
        """
        if self.likelihood not in of_quantity("score"):
            return None
        needed = {*self.terms, *wanted}
        if self.covariates:
            more = needed <= set(self.identified) != set(self.terms)
            return AUTO if self.covariate and self.model != AUTO and more else None
        return next(
            (
                name
                for name in _FULLER
                if self.has(name) and needed <= set(_INTERACTIONS[name]) != set(self.terms)
            ),
            None,
        )

    def next_model(self) -> str | None:
        """The model with more terms, if possible those that residuals indicate."""
        return self.fuller(self.alike) or self.fuller()

    def robust(self) -> str | None:
        """The shipped model with heavy tails, if the table identifies it."""
        return "robust" if self.likelihood == "normal" and self.has("crossed") else None

    def lacking(self, terms: Sequence[str]) -> tuple[str, ...]:
        """Those of some terms that the table identifies and the model does not have."""
        return tuple(t for t in terms if t in self.identified and t not in self.terms)

    def own_spec(
        self, terms: Sequence[str], *, residual_by: str | None = None, bounds: bool = True
    ) -> tuple[str, str]:
        """How to write a spec of these terms, with bounds if asked, and the command that fits it.

        A likelihood that the model has already is kept.
        """
        likelihood = self.likelihood
        if bounds and likelihood not in _BOUNDED:
            likelihood = of_quantity("share")[0]
        kind = "interactions" if residual_by is None else f"by_{residual_by}"
        spec: dict[str, object] = {"name": f"{likelihood}_{kind}", "likelihood": likelihood}
        if terms:
            spec["interactions"] = list(terms)
        if residual_by is not None:
            spec["residual_by"] = residual_by
        lines = {**spec, "interactions": f"[{', '.join(terms)}]"} if terms else spec
        listed = ", ".join(repr(f"{key}: {value}") for key, value in lines.items())
        file = f"{spec['name']}.yaml"
        return (
            wording(
                f" Give this spec in place of a name: {spec}.",
                f" Write these lines to {file}, and give the file to --model: {listed}.",
            ),
            self._written("fit", python=[repr(spec)], command=f"--model {file}"),
        )

    def scales(self) -> str:
        """Command that shows the scale of every task, and how to declare those not known."""
        return wording(
            "records.report.notes",
            f"bayeseval validate {shell_quoted(self.benchmark)} {self.options}".rstrip(),
        )

    def fit(self, model: str) -> str:
        """Command that fits another model."""
        return self._written("fit", python=[repr(model)], command=f"--model {model}")

    def compare(self, *others: str | None) -> str:
        """Command that compares other models with this one; empty without others.

        Empty too where another model could only replace this one and lose its covariate.
        """
        known = [name for name in others if name is not None and name != self.model]
        if self.model in _model_names():
            known = [self.model, *known]
        if len(known) == 1:
            stays = known == [self.model] or (self.covariates and known != [AUTO])
            return "" if stays else self.fit(known[0])
        if not known:
            return ""
        return self._written("compare", python=[repr(known)], command=f"--models {','.join(known)}")

    def sensitivity(self, drop: str) -> str:
        """Command that fits this model without a part of the table."""
        named = self.model in _model_names()
        if self.covariates and not (named or self.covariate):
            return ""
        plain = _BOUNDED.get(self.likelihood, "additive")
        other = AUTO if self.covariates else self.fuller() or plain
        model = self.model if named else other
        return self._written(
            "sensitivity",
            python=[repr(model), f"drop={drop!r}"],
            command=f"--model {model} --drop {drop}",
        )

    def _written(self, name: str, *, python: Sequence[str], command: str) -> str:
        """A call, or a command that reads the same table and covariate again."""
        table = f"--benchmark {shell_quoted(self.benchmark)} {self.options}".rstrip()
        given = f"covariate={self.covariate!r}" if self.covariate else ""
        option = f" --covariate {shell_quoted(self.covariate)}" if self.covariate else ""
        return wording(
            f"be.{name}({', '.join(['records', *python, *filter(None, [given])])})",
            f"bayeseval {name} {table} {command}{option}",
        )


@cache
def _model_names() -> frozenset[str]:
    """Names that ``--model`` accepts."""
    return frozenset({AUTO, *list_models()})


def advised(check: Check, fit: Situation) -> Check:
    """Add meaning and next command to a check that warns or fails."""
    if check.status not in ("warn", "fail"):
        return check
    meaning, command = _advice(check, fit)
    if check.name in _BY_INTERACTIONS and fit.likelihood in _BOUNDED:
        more, command = _with_interactions(fit, command)
        meaning += more
    return replace(check, meaning=meaning, command=command)


def _with_interactions(fit: Situation, command: str) -> tuple[str, str]:
    """What a model with bounds lacks: interactions, in a spec that keeps its likelihood."""
    more = fit.lacking(fit.alike) or fit.lacking(_INTERACTIONS["crossed"])
    if not more or fit.covariates:
        return "", command
    lines, command = fit.own_spec((*fit.terms, *more))
    return (
        " The shipped models with interactions have no bounds; a spec of your own can have both."
        + lines,
        command,
    )


def _advice(check: Check, fit: Situation) -> tuple[str, str]:
    name = check.name
    if name in _WITHOUT_COMMAND:
        return _WITHOUT_COMMAND[name], ""
    if name == "independence":
        return _correlated_residuals(fit)
    if name == "calibration":
        return (
            "Intervals of single scores, such as predictions of untested pairs, have the wrong "
            "width. Scores of models and potentials are means of many records and depend on it "
            "less.",
            fit.compare(fit.next_model(), fit.robust()),
        )
    if name in ("highest_residual", "lowest_residual"):
        return (
            "One record is far from what the others say: check it at its source. The numbers of "
            "its model and its language move as stated; see influential_records.csv.",
            fit.compare(fit.robust()) or fit.sensitivity("outliers=10"),
        )
    if name == "sd_by_language":
        meaning = (
            "In some languages scores vary more, or less, than the model predicts: intervals of "
            "these languages' potentials are too narrow, or too wide."
        )
        if fit.crowded and fit.bounded and fit.likelihood in of_quantity("score"):
            meaning += " Scores at a bound vary less than others, which needs a model with bounds."
            return meaning, fit.compare("logit", "bounded")
        return meaning, fit.compare(fit.next_model(), fit.robust())
    if name == "outside_bounds":
        meaning = (
            "Near a bound the model predicts impossible scores, and larger differences between "
            "models than the scale allows."
        )
        if not fit.bounded:
            meaning += (
                " Models with bounds need both bounds of every task: declare those that the scales "
                "of other tasks have, and leave tasks without bounds out."
            )
            return meaning, fit.scales()
        if fit.terms and not fit.covariates:
            how, _ = fit.own_spec(fit.terms)
            meaning += " logit and bounded have no interactions; a spec of your own can have both."
            meaning += how
        return meaning, fit.compare("logit", "bounded")
    if name == "residual_normality":
        return (
            "The few records far from their predictions pull the numbers of their models and "
            "languages, and widen the intervals of all single scores beyond what most of them need."
            if fit.likelihood == "normal"
            else "Intervals of single scores have the wrong width.",
            fit.compare(fit.robust(), fit.next_model()),
        )
    if name.startswith("equal_variance_"):
        return _unequal_variance(name.removeprefix("equal_variance_"), fit)
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
        "Differences between models without a common pair, and numbers of levels with one record, "
        "depend on the model's terms more than on measurements.",
        # One refit for every model is worth it where many pairs depend on it.
        fit.sensitivity("model") if fit.unconnected >= _MANY_UNCONNECTED else "",
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


def _correlated_residuals(fit: Situation) -> tuple[str, str]:
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
    fuller = fit.fuller(fit.alike)
    if fuller is not None:
        return meaning, fit.fit(fuller)
    missing = [term for term in fit.alike if term not in fit.terms]
    unidentified = [term for term in missing if term not in fit.identified]
    if unidentified:
        meaning += (
            f" The table has too few records to estimate {' and '.join(unidentified)}; add "
            "tasks or metrics."
        )
    elif missing and fit.likelihood not in _BOUNDED:
        meaning += (
            f" Write a spec with these terms: interactions: [{', '.join((*fit.terms, *missing))}]."
        )
    return meaning, fit.compare(fit.robust())


def _unequal_variance(factor: str, fit: Situation) -> tuple[str, str]:
    meaning = (
        f"One residual sd is used for every {factor}: intervals are too narrow for the {factor}s "
        "with the larger sds and too wide for the others."
        if fit.residual_by != factor
        else f"Separate residual sds by {factor} do not explain this: the residuals have another "
        "shape than the model's likelihood."
    )
    with_bounds = fit.likelihood in _BOUNDED
    if factor == names.TASK and fit.narrow and fit.likelihood in of_quantity("score"):
        # With sds by task it would have the largest weight in effects that all tasks share.
        meaning += (
            f" Scores of {shorten(fit.narrow, limit=4)} vary less than half as much as those of"
            " other tasks, as they do near a bound, and so do differences between models and"
            " languages there: leave them out if these differences are in question, because"
            " residual sds by task would give them the largest weight."
        )
        return meaning, fit.sensitivity(names.TASK)
    if (
        factor == names.TASK
        and fit.residual_by != factor
        and fit.has("crossed")
        and not with_bounds
    ):
        return meaning, fit.compare("by_task", fit.robust())
    command = fit.compare(fit.robust())
    if fit.residual_by == factor or fit.likelihood in _WITHOUT_SD:
        return meaning, command
    meaning += f" A spec of your own can have residual_by: {factor}."
    if command or fit.covariates or fit.likelihood not in FAMILIES:
        return meaning, command
    lines, command = fit.own_spec(fit.terms, residual_by=factor, bounds=with_bounds)
    return meaning + lines, command
