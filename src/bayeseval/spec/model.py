"""`ModelSpec`: terms, likelihood and priors of a model, read from YAML.

A :class:`ModelSpec` lists the terms of the multilevel model, its likelihood and its
priors. It does not depend on data: `design` decides whether a table can identify
the model, and the engines evaluate its density.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import yaml
from pydantic import (
    BeforeValidator,
    Field,
    field_validator,
    model_validator,
)

from bayeseval import names
from bayeseval._calls import explained
from bayeseval._html import html_table
from bayeseval._resources import find_resource, resource_names
from bayeseval._special import refuse_special
from bayeseval._text import any_of
from bayeseval._yaml import parse_config, read_yaml, text_like
from bayeseval.errors import InputError, SpecError, did_you_mean
from bayeseval.families import (
    FAMILIES,
    extra_parameters,
    link,
    of_quantity,
    scale_names,
    scale_parameters,
)
from bayeseval.spec import relations
from bayeseval.spec.parts import (
    RESERVED_NAMES,
    CovariateTerm,
    Effects,
    ReplicateNoise,
    as_sources,
    separated,
)
from bayeseval.spec.priors import Number, Prior, SpecConfig

__all__ = [
    "AUTO",
    "AUTO_SUMMARY",
    "ModelSpec",
    "list_models",
    "load_spec",
]

#: Stands for a model that depends on the table, see :func:`bayeseval.design.choose_model`.
AUTO: Final = "auto"
AUTO_SUMMARY: Final = (
    "The default, the fullest of additive, interaction, crossed and dataset that the table "
    "identifies."
)

Interaction = Literal[
    "auto",
    "language:task",
    "model:task",
    "model:language",
    "model:language:dataset",
    "model:language:task",
]
LowRank = Literal["model:language", "model:task"]

# More products than this are never told apart in tables of benchmark scores.
_MOST_RANKS: Final = 10

# With 0.5 on the log scale, the noise of one level or cell can be about three times that of
# another before the prior shrinks the difference noticeably.
_LOG_SD = Prior(dist="half_normal", scale=0.5, relative=False)


def _known_likelihood(value: Any) -> Any:
    """Refuse unknown likelihoods, listing those allowed; sort a mapping by task."""
    if isinstance(value, dict):
        for task, name in value.items():
            _check_name(name, names.LIKELIHOODS, where=f" of {task}")
        if not value:
            raise ValueError("the mapping is empty; give default: NAME, or a name for every task")
        return {str(task): value[task] for task in sorted(value, key=str)}
    _check_name(value, (*names.LIKELIHOODS, "card"))
    return value


def _check_name(name: Any, allowed: tuple[str, ...], where: str = "") -> None:
    if name not in allowed:
        raise ValueError(
            f"unknown likelihood {name!r}{where}{did_you_mean(str(name), allowed)} "
            f"(allowed: {', '.join(allowed)})"
        )


def _as_tuple(value: Any) -> Any:
    return (value,) if isinstance(value, str) else value


def _as_covariates(value: Any) -> Any:
    """``mexa``, ``[mexa]`` and ``{name: mexa}`` mean ``[{name: mexa}]``."""
    if isinstance(value, str | dict | CovariateTerm):
        value = [value]
    if not isinstance(value, list | tuple):
        return value
    return tuple({"name": one} if isinstance(one, str) else one for one in value)


class ModelSpec(SpecConfig):
    """One multilevel model of benchmark scores (statistics: arXiv:2508.17162, Eq. 1 and 6).

    Attributes
    ----------
    name, summary : str
        Name and one-line description.
    likelihood : str or dict of str to str
        Distribution of a score around its expected value: ``normal``, ``student_t``,
        ``logit_normal`` and ``beta`` (bounded scores), ``binomial`` and
        ``beta_binomial`` (counts). A mapping gives one for each task, and under
        ``default`` one for all other tasks. ``card`` takes the likelihoods of the
        benchmark's card. The link is the identity when all tasks are ``normal`` or
        ``student_t``, and the logit for all tasks otherwise.
    chance : bool
        Whether the chance level of a task is a lower bound of its expected scores (logit
        link only).
    edge : float
        ``logit_normal`` and ``beta`` give no density to scores at a bound: scores closer
        to a bound than this share of the range are moved to this distance.
    population : {"observed", "models"}
        ``observed``: the models in the table are the reference population, and their
        effects sum to zero. ``models``: they are a sample from a population of
        models, with N(0, sd_model) effects.
    effects : Effects
        Pooled or fixed main effects.
    interactions : tuple of str
        Any of ``language:task``, ``model:task``, ``model:language``,
        ``model:language:dataset`` (shared by several metrics of the same outputs)
        and ``model:language:task``. Only observed cells have interaction effects. ``auto``
        takes those that the default model has on the table, see
        :func:`bayeseval.design.choose_model`.
    low_rank : dict of str to int
        Interactions that are sums of products of a loading of the model and a value of the
        language (``model:language``) or task (``model:task``), with the number of products
        (the rank). They are defined for all cells, also those without a score.
    covariates : tuple of CovariateTerm
        Predictors measured for languages, for models, or for pairs of model and language.
    languages : LanguageRelations, optional
        What makes the effects of languages alike: ``{place: 1000 km, family: glottolog,
        script: true}`` or some of these.
    models : ModelRelations, optional
        What makes the effects of models alike: ``{family: true}``.
    residual_by : {None, "language", "task", "model"}
        Factor whose levels differ in their residual standard deviation, with a
        hierarchical prior on the log scale.
    centring : dict
        Term to ``centred`` or ``non_centred``; for other terms the choice depends on the table,
        see :mod:`bayeseval.design.forms`.
    fixed_scale : float
        Standard deviation of fixed effects, in units of sd(score).
    replicates : ReplicateNoise
        How seeds and bootstrapped test sets are treated, where a table has them.
    sources : tuple of str, optional
        Sources of noise that the model separates, of ``seed``, ``boot``, ``prompt`` and
        ``judge``: by default all that the table has. Scores are averaged over the others, whose
        noise stays in the residual.
    priors : dict
        Parameter name to :class:`Prior`, in place of the default.

    Examples
    --------
    >>> import bayeseval as be
    >>> be.ModelSpec(name="mine", interactions=("language:task",))
    <ModelSpec 'mine': normal; language, task, model, language:task>
    """

    name: Annotated[
        str,
        text_like(
            "[A-Za-z0-9][A-Za-z0-9._-]*",
            "letters, digits, '.', '_' and '-', a letter or digit first",
        ),
    ]
    summary: str = ""
    likelihood: Annotated[
        names.Likelihood | Literal["card"] | dict[str, names.Likelihood],
        BeforeValidator(_known_likelihood),
    ] = "normal"
    chance: bool = False
    edge: Number = Field(default=0.005, gt=0, lt=0.5)
    population: Literal["observed", "models"] = "observed"
    effects: Effects = Effects()
    interactions: Annotated[tuple[Interaction, ...], BeforeValidator(_as_tuple)] = ()
    low_rank: dict[LowRank, Annotated[int, Field(ge=1, le=_MOST_RANKS, strict=True)]] = {}
    covariates: Annotated[tuple[CovariateTerm, ...], BeforeValidator(_as_covariates)] = ()
    languages: Annotated[relations.LanguageRelations | None, relations.AS_RELATIONS] = None
    models: Annotated[relations.ModelRelations | None, relations.AS_MODEL_RELATIONS] = None
    residual_by: names.Factor | None = None
    centring: dict[str, Literal["centred", "non_centred"]] = {}
    fixed_scale: Number = Field(default=10.0, gt=0)
    replicates: ReplicateNoise = ReplicateNoise()
    sources: Annotated[tuple[names.Source, ...] | None, BeforeValidator(as_sources)] = None
    priors: dict[str, Prior] = {}

    @field_validator("interactions")
    @classmethod
    def _canonical_order(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if len(set(value)) < len(value):
            raise ValueError("an interaction is named twice")
        if AUTO in value and len(value) > 1:
            raise ValueError("interactions: auto stands alone; name the interactions, or auto")
        if AUTO in value:
            return (AUTO,)
        return tuple(term for term in names.INTERACTIONS if term in value)

    @field_validator("low_rank")
    @classmethod
    def _pairs_in_order(cls, value: dict[str, int]) -> dict[str, int]:
        return {pair: value[pair] for pair in names.LOW_RANK_TERMS if pair in value}

    @field_validator("covariates")
    @classmethod
    def _named_once(cls, value: tuple[CovariateTerm, ...]) -> tuple[CovariateTerm, ...]:
        if len({covariate.name for covariate in value}) < len(value):
            raise ValueError("a covariate is named twice")
        reserved = [covariate.name for covariate in value if covariate.name in RESERVED_NAMES]
        if reserved:
            raise ValueError(
                f"{reserved[0]!r} is the name of another part of the model; rename the covariate"
            )
        return value

    @model_validator(mode="after")
    def _names_exist(self) -> ModelSpec:
        relations.check_relations(self)
        for term in self.centring:
            own = [own for own in self.terms if own not in self.ranks]
            if term not in own:
                raise ValueError(
                    f"centring: the model has no term {term!r}"
                    f"{did_you_mean(term, own)} (it has: {', '.join(own)})"
                )
        defaults = self._default_priors() | self._replicate_priors()
        for parameter, prior in self.priors.items():
            if parameter not in defaults:
                raise ValueError(
                    f"priors: the model has no parameter {parameter!r}"
                    f"{did_you_mean(parameter, defaults)} (it has: {', '.join(defaults)})"
                )
            if prior.positive != defaults[parameter].positive:
                support = "positive" if defaults[parameter].positive else "real-valued"
                raise ValueError(f"{parameter} needs a {support} prior, not {prior.dist}")
        return self

    @model_validator(mode="after")
    def _population_is_observed(self) -> ModelSpec:
        if self.low_rank and self.population != "observed":
            raise ValueError(
                "low_rank: loadings sum to zero over the models of the table, so it needs "
                "population: observed"
            )
        return self

    @model_validator(mode="after")
    def _likelihood_fits(self) -> ModelSpec:
        if self.likelihood == "card":
            return self
        listed = " and ".join(self.families)
        if self.chance and link(self.families) == "identity":
            others = any_of(of_quantity("logit", "share", "count"))
            raise ValueError(
                f"chance needs a logit link, and {listed} scores have an identity link; use "
                f"{others}, or remove chance"
            )
        if self.residual_by is not None and not scale_names(self.families):
            others = any_of(f for f in of_quantity("count") if FAMILIES[f].scale is not None)
            raise ValueError(
                f"residual_by {self.residual_by}: {listed} scores have no residual standard "
                f"deviation; use {others}, or remove residual_by"
            )
        logits = [family for family in self.families if family in of_quantity("logit")]
        if logits and set(self.families) & set(of_quantity("score")):
            on_logits = " and ".join(logits)
            raise ValueError(
                f"likelihood: {listed} cannot be combined: the residual of {on_logits} is on the "
                "logit scale, that of the others in score units; use "
                f"{any_of(of_quantity('share'))} instead of {on_logits}"
            )
        return self

    @property
    def families(self) -> tuple[names.Likelihood, ...]:
        """Likelihoods that tasks may have, in canonical order; all of them for ``card``."""
        if self.likelihood == "card":
            return names.LIKELIHOODS
        by_task = self.likelihood
        used = set(by_task.values()) if isinstance(by_task, dict) else {by_task}
        return tuple(family for family in names.LIKELIHOODS if family in used)

    def family(self, task: str) -> names.Likelihood | None:
        """Likelihood of a task; None when the spec has none for it."""
        if isinstance(self.likelihood, dict):
            return self.likelihood.get(task, self.likelihood.get("default"))
        return None if self.likelihood == "card" else self.likelihood

    @property
    def terms(self) -> tuple[str, ...]:
        """Main effects, then interactions, in the order every output uses."""
        interactions = () if self.interactions == (AUTO,) else self.interactions
        return (*names.FACTORS, *interactions, *self.ranks)

    @property
    def ranks(self) -> dict[str, int]:
        """Rank of each low-rank term, by the name of the term."""
        return {names.low_rank_term(pair): rank for pair, rank in self.low_rank.items()}

    def _default_priors(self) -> dict[str, Prior]:
        table = {names.INTERCEPT: Prior(dist="normal", loc=0.0, scale=2.5)}
        for covariate in self.covariates:
            table[names.slope_name(covariate.name)] = Prior(dist="normal", loc=0.0, scale=1.0)
        for factor in names.FACTORS:
            if getattr(self.effects, factor) == "pooled":
                table[names.sd_name(factor)] = Prior(dist="half_normal", scale=1.0)
        table |= relations.relation_priors(self)
        for term in self.terms[len(names.FACTORS) :]:
            table[names.sd_name(term)] = Prior(dist="half_normal", scale=0.5)
        for parameter in scale_parameters(self.families):
            table[parameter.name] = Prior(**parameter.prior)
        if self.residual_by is not None:
            table[names.SD_LOG_RESIDUAL] = _LOG_SD
        for parameter in extra_parameters(self.families):
            table[parameter.name] = Prior(**parameter.prior)
        return table

    def _replicate_priors(self) -> dict[str, Prior]:
        """Default priors of the noise of replicates, used where a table has these."""
        if not self.replicates.pool:
            return {}
        table = {}
        used = separated(self.sources)
        for source in used:
            table[names.source_model_sd(source)] = Prior(dist="half_normal", scale=0.5)
            table[names.source_log_sd(source)] = _LOG_SD
        for source in (source for source in names.SHARED_SOURCES if source in used):
            for shared in names.shared_by(source):
                table[names.sd_name(shared)] = Prior(dist="half_normal", scale=0.5)
        return table

    def prior_table(self) -> dict[str, Prior]:
        """Priors of all parameters, defaults overridden, in canonical order."""
        defaults = self._default_priors()
        return defaults | {k: prior for k, prior in self.priors.items() if k in defaults}

    def replicate_priors(self) -> dict[str, Prior]:
        """Priors of the sds of seeds, test sets, prompts and judges, for tables that have them.

        ``sd_<source>_model``, the same for every model, and ``sd_log_<source>``, the sd of
        the log sds of a model's cells; for prompts and judges also ``sd_prompt_task``,
        ``sd_prompt_language_task`` and ``sd_prompt_model_task``, of what cells share. Empty
        without pooling.
        """
        defaults = self._replicate_priors()
        return defaults | {k: prior for k, prior in self.priors.items() if k in defaults}

    @property
    def sources_text(self) -> str:
        """Which sources of noise the model separates: ``sources seed and prompt``."""
        used = names.NAMED_SOURCES if self.sources is None else self.sources
        return f"sources {any_of(used or ['none'], 'and')}"

    def __repr__(self) -> str:
        """Name, likelihood and terms in one line; :meth:`to_yaml` has everything."""
        likelihood = self.likelihood if isinstance(self.likelihood, str) else "by task"
        slopes = [f"{covariate.name} (covariate)" for covariate in self.covariates]
        slopes += [str(one) for one in (self.languages, self.models) if one is not None]
        slopes += [] if self.sources is None else [self.sources_text]
        return f"<ModelSpec {self.name!r}: {likelihood}; {', '.join([*self.terms, *slopes])}>"

    __str__ = __repr__

    def _repr_html_(self) -> str:
        """Priors of all parameters in multiples of the scores' sd, for notebooks."""
        priors = self.prior_table()
        arguments = [
            {
                k: v
                for k, v in prior.model_dump(exclude_none=True).items()
                if k not in ("dist", "relative")
            }
            for prior in priors.values()
        ]
        columns = {
            "parameter": list(priors),
            "prior": [
                f"{prior.dist}({', '.join(f'{k}={v:g}' for k, v in values.items())})"
                for prior, values in zip(priors.values(), arguments, strict=True)
            ],
        }
        return html_table(repr(self)[1:-1], columns)

    def to_dict(self) -> dict[str, Any]:
        """Plain mapping that :func:`load_spec` reads back to an equal spec."""
        values = self.model_dump(mode="json", exclude_none=True)
        for prior in values["priors"].values():
            if prior["dist"] == "gamma":
                # Always in absolute units: a spec that says otherwise is refused.
                del prior["relative"]
        # Hashes of models that were written before it existed stay the same.
        return values if self.low_rank else {k: v for k, v in values.items() if k != "low_rank"}

    def to_yaml(self) -> str:
        """YAML text of the spec."""
        return yaml.safe_dump(self.to_dict(), sort_keys=False, allow_unicode=True)

    @property
    def content_hash(self) -> str:
        """SHA-256 of all that affects the posterior: everything but name and summary."""
        content = {k: v for k, v in self.to_dict().items() if k not in ("name", "summary")}
        content["priors"] = {
            key: prior.model_dump(mode="json", exclude_none=True)
            for key, prior in (self.prior_table() | self.replicate_priors()).items()
            # Hashes of models that were written before prompts had priors stay the same.
            if key in self.priors
            or not key.removeprefix("sd_").removeprefix("log_").startswith(names.SHARED_SOURCES)
        }
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def load_spec(source: str | Path | ModelSpec | dict[str, Any]) -> ModelSpec:
    """Load a model specification.

    Parameters
    ----------
    source : str, Path, dict or ModelSpec
        The name of a shipped model (``"additive"``), the path of a YAML file, a
        mapping with the keys of :class:`ModelSpec`, or a spec, which is returned as it is.

    Raises
    ------
    SpecError
        If the spec has an unknown key, or a value that is not allowed.
    InputError
        If the model or the file does not exist.
    """
    if isinstance(source, ModelSpec):
        return source
    if isinstance(source, dict):
        return parse_config(ModelSpec, source, source="spec", error=SpecError)
    if not isinstance(source, str | os.PathLike):
        raise InputError(
            "a model must be the name of a shipped model, the path of a YAML file, a ModelSpec or "
            f"a dict; got {type(source).__name__}"
        )
    if source == AUTO:
        raise InputError(
            f"{AUTO} depends on the table: it is the fullest of additive, interaction, crossed "
            "and dataset that the table identifies; fit a table with it, or name a model "
            f"(shipped: {', '.join(resource_names('models'))})"
        )
    path = Path(source)
    refuse_special(path, error=SpecError)
    if not path.is_file():
        # A folder of results may have the name of a shipped model: the model is meant.
        shipped = str(source) in resource_names("models")
        if path.suffix in (".yaml", ".yml") or (path.is_dir() and not shipped):
            raise InputError(f"{path}: no such spec file")
        path = find_resource("models", str(source))
    values = read_yaml(path, error=SpecError)
    if isinstance(values, dict):
        values = {"name": path.stem, **values}
    return parse_config(ModelSpec, values, source=str(path), error=SpecError)


@explained
def list_models() -> dict[str, str]:
    """Shipped models with their one-line summaries.

    Returns
    -------
    dict of str to str
        Name to summary, in alphabetical order.

    Examples
    --------
    >>> import bayeseval as be
    >>> "additive" in be.list_models()
    True
    """
    return {name: load_spec(path).summary for name, path in resource_names("models").items()}
