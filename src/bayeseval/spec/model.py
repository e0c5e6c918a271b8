"""`ModelSpec`: terms, likelihood and priors of a model, read from YAML.

A :class:`ModelSpec` says which terms the multilevel model has, which likelihood
and which priors. It knows nothing about data: `design` decides whether a table
can identify it, and the engines give it a density.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
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
from bayeseval._html import html_table
from bayeseval._resources import find_resource, resource_names
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
from bayeseval.spec.priors import Number, Prior, SpecConfig

__all__ = [
    "AUTO",
    "AUTO_SUMMARY",
    "CovariateTerm",
    "Effects",
    "ModelSpec",
    "ReplicateNoise",
    "covariate_name",
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
    "language:task", "model:task", "model:language", "model:language:dataset", "model:language:task"
]


class Effects(SpecConfig):
    """How each main effect is treated.

    ``pooled`` effects share a standard deviation that is estimated; ``fixed``
    effects have a known wide one (`ModelSpec.fixed_scale` times sd(score)).
    """

    language: Literal["pooled", "fixed"] = "pooled"
    task: Literal["pooled", "fixed"] = "pooled"
    model: Literal["pooled", "fixed"] = "pooled"


# Names that tables of variance components and dimensions have for something else.
_TAKEN = {
    *(*names.FACTORS, names.DATASET, names.RECORD, *names.SOURCES, names.TEST_SET),
    *("residual", "replicates", "known_se", names.INTERCEPT, names.NU, "chain", "draw"),
}


class CovariateTerm(SpecConfig):
    """A covariate in the linear predictor, ``x * theta`` with x standardised.

    Attributes
    ----------
    name : str
        Which covariate; a table's card, or an argument of the fit, says where it is. Not
        the name of another part of the model, such as ``language`` or ``residual``.
    missing : {"refuse", "model"}
        What is done with languages that have no value. ``model``: the values are
        unknowns with the prior N(0, 1), which the scores inform.
    measurement_error : bool
        True: a value with a standard error is a measurement of an unknown value.
    """

    name: Annotated[
        str,
        text_like("[a-z][a-z0-9_]*", "lower-case letters, digits and '_', a letter first"),
    ]
    missing: Literal["refuse", "model"] = "refuse"
    measurement_error: bool = False


class ReplicateNoise(SpecConfig):
    """How the noise seen in replicates (seeds, bootstrapped test sets) is treated.

    Attributes
    ----------
    pool : bool
        True: the standard deviations of the cells share a distribution by model and
        are estimated together. False: every cell's own standard deviation is taken
        as known, and cell means are not drawn towards each other: what parametric
        resampling does (paper 001, section 5).
    """

    pool: bool = True


# On the log scale 0.5 lets the noise of one level, or cell, be about three times another's
# before the prior has anything to say.
_LOG_SD = Prior(dist="half_normal", scale=0.5, relative=False)


def _known_likelihood(value: Any) -> Any:
    """Refuse unknown names with the choices; where mappings come from, sort them by task."""
    if isinstance(value, dict):
        for task, name in value.items():
            _one_of(name, names.LIKELIHOODS, where=f" of {task}")
        if not value:
            raise ValueError("the mapping is empty; give default: NAME, or a name for every task")
        return {str(task): value[task] for task in sorted(value, key=str)}
    _one_of(value, (*names.LIKELIHOODS, "card"))
    return value


def _one_of(name: Any, allowed: tuple[str, ...], where: str = "") -> None:
    if name not in allowed:
        raise ValueError(
            f"no likelihood {name!r}{where}{did_you_mean(str(name), allowed)} "
            f"(there are: {', '.join(allowed)})"
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
    """One multilevel model of benchmark scores (statistics: paper 000, Eq. 1 and 6).

    Attributes
    ----------
    name, summary : str
        What the model is called and what it is for.
    likelihood : str or dict of str to str
        Distribution of a score around its expected value: ``normal``, ``student_t``,
        ``logit_normal`` and ``beta`` (bounded scores), ``binomial`` and
        ``beta_binomial`` (counts). A mapping gives one by task, and ``default`` for the
        tasks it does not name. ``card`` takes what the benchmark's card says. All tasks
        have an identity link when all are ``normal`` or ``student_t``, else a logit link.
    chance : bool
        Whether the chance level of a task is a floor that no expected score falls below
        (logit link only).
    edge : float
        How close a score may come to a bound under ``logit_normal`` and ``beta``, which
        do not reach it, as a share of the range: scores closer are moved to there.
    population : {"observed", "models"}
        ``observed``: the models at hand are the reference population, their
        effects sum to zero. ``models``: they are a sample from a population of
        models, ordinary N(0, sd_model) effects.
    effects : Effects
        Pooled or fixed main effects.
    interactions : tuple of str
        Any of ``language:task``, ``model:task``, ``model:language``,
        ``model:language:dataset`` (what several metrics of the same outputs share)
        and ``model:language:task``; they live on observed cells.
    covariates : tuple of CovariateTerm
        What is known of languages, or of models and languages, besides the scores.
    residual_by : {None, "language", "task", "model"}
        Let the residual standard deviation differ by the levels of a factor,
        hierarchically on the log scale.
    centring : dict
        Term to ``centred`` or ``non_centred``; terms left out are decided from
        how much data a level has.
    fixed_scale : float
        Standard deviation of fixed effects, in units of sd(score).
    replicates : ReplicateNoise
        What is done with seeds and bootstrapped test sets, where a table has them.
    priors : dict
        Parameter name to :class:`Prior`, over the defaults.

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
    covariates: Annotated[tuple[CovariateTerm, ...], BeforeValidator(_as_covariates)] = ()
    residual_by: names.Factor | None = None
    centring: dict[str, Literal["centred", "non_centred"]] = {}
    fixed_scale: Number = Field(default=10.0, gt=0)
    replicates: ReplicateNoise = ReplicateNoise()
    priors: dict[str, Prior] = {}

    @field_validator("interactions")
    @classmethod
    def _canonical_order(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if len(set(value)) < len(value):
            raise ValueError("an interaction is named twice")
        return tuple(term for term in names.INTERACTIONS if term in value)

    @field_validator("covariates")
    @classmethod
    def _named_once(cls, value: tuple[CovariateTerm, ...]) -> tuple[CovariateTerm, ...]:
        if len({covariate.name for covariate in value}) < len(value):
            raise ValueError("a covariate is named twice")
        taken = [covariate.name for covariate in value if covariate.name in _TAKEN]
        if taken:
            raise ValueError(
                f"{taken[0]!r} is the name of another part of models; call the covariate otherwise"
            )
        return value

    @model_validator(mode="after")
    def _names_exist(self) -> ModelSpec:
        for term in self.centring:
            if term not in self.terms:
                raise ValueError(
                    f"centring names {term!r}, which the model does not have"
                    f"{did_you_mean(term, self.terms)} (it has: {', '.join(self.terms)})"
                )
        defaults = self._default_priors() | self._replicate_priors()
        for parameter, prior in self.priors.items():
            if parameter not in defaults:
                raise ValueError(
                    f"priors names {parameter!r}, which the model does not have"
                    f"{did_you_mean(parameter, defaults)} (it has: {', '.join(defaults)})"
                )
            if prior.positive != defaults[parameter].positive:
                wanted = "positive" if defaults[parameter].positive else "real-valued"
                raise ValueError(f"{parameter} needs a {wanted} prior, not {prior.dist}")
        return self

    @model_validator(mode="after")
    def _likelihood_fits(self) -> ModelSpec:
        if self.likelihood == "card":
            return self
        listed = " and ".join(self.families)
        if self.chance and link(self.families) == "identity":
            others = any_of(of_quantity("logit", "share", "count"))
            raise ValueError(
                f"chance is a floor under a logit link, which {listed} scores do not have; take "
                f"{others}, or leave chance out"
            )
        if self.residual_by is not None and not scale_names(self.families):
            others = any_of(f for f in of_quantity("count") if FAMILIES[f].scale is not None)
            raise ValueError(
                f"residual_by {self.residual_by}: {listed} scores have no residual that could "
                f"differ; take {others}, or leave residual_by out"
            )
        logits = [family for family in self.families if family in of_quantity("logit")]
        if logits and set(self.families) & set(of_quantity("score")):
            own = " and ".join(logits)
            raise ValueError(
                f"likelihood: {listed} in one fit: the residual of {own} is on the logit "
                "scale, that of the others in score units; take "
                f"{any_of(of_quantity('share'))} in the place of {own}"
            )
        return self

    @property
    def families(self) -> tuple[names.Likelihood, ...]:
        """Likelihoods that tasks may have, in canonical order; all of them for ``card``."""
        if self.likelihood == "card":
            return names.LIKELIHOODS
        said = self.likelihood
        named = set(said.values()) if isinstance(said, dict) else {said}
        return tuple(family for family in names.LIKELIHOODS if family in named)

    def family(self, task: str) -> names.Likelihood | None:
        """Likelihood of a task; None when the spec has none for it."""
        if isinstance(self.likelihood, dict):
            return self.likelihood.get(task, self.likelihood.get("default"))
        return None if self.likelihood == "card" else self.likelihood

    @property
    def terms(self) -> tuple[str, ...]:
        """Main effects, then interactions, in the order every output uses."""
        return (*names.FACTORS, *self.interactions)

    def _default_priors(self) -> dict[str, Prior]:
        table = {names.INTERCEPT: Prior(dist="normal", loc=0.0, scale=2.5)}
        for covariate in self.covariates:
            table[names.slope_name(covariate.name)] = Prior(dist="normal", loc=0.0, scale=1.0)
        for factor in names.FACTORS:
            if getattr(self.effects, factor) == "pooled":
                table[names.sd_name(factor)] = Prior(dist="half_normal", scale=1.0)
        for term in self.interactions:
            table[names.sd_name(term)] = Prior(dist="half_normal", scale=0.5)
        for parameter in scale_parameters(self.families):
            table[parameter.name] = Prior(**parameter.prior)
        if self.residual_by is not None:
            table[names.SD_LOG_RESIDUAL] = _LOG_SD
        for parameter in extra_parameters(self.families):
            table[parameter.name] = Prior(**parameter.prior)
        return table

    def _replicate_priors(self) -> dict[str, Prior]:
        """Priors of seed and test-set noise, which count where a table has replicates."""
        if not self.replicates.pool:
            return {}
        table = {}
        for source in names.SOURCES:
            table[names.source_model_sd(source)] = Prior(dist="half_normal", scale=0.5)
            table[names.source_log_sd(source)] = _LOG_SD
        return table

    def prior_table(self) -> dict[str, Prior]:
        """Priors of all parameters, defaults overridden, in canonical order."""
        own = self._default_priors()
        return own | {k: prior for k, prior in self.priors.items() if k in own}

    def replicate_priors(self) -> dict[str, Prior]:
        """Priors of the sds of seeds and test sets, for tables that have replicates.

        ``sd_<source>_model``, the same for every model, and ``sd_log_<source>``, how much
        the log sds differ between the cells of a model. Empty without pooling.
        """
        own = self._replicate_priors()
        return own | {k: prior for k, prior in self.priors.items() if k in own}

    def __repr__(self) -> str:
        """Name, likelihood and terms in one line; :meth:`to_yaml` has everything."""
        said = self.likelihood if isinstance(self.likelihood, str) else "by task"
        slopes = [f"{one.name} (covariate)" for one in self.covariates]
        return f"<ModelSpec {self.name!r}: {said}; {', '.join([*self.terms, *slopes])}>"

    __str__ = __repr__

    def _repr_html_(self) -> str:
        """Priors of all parameters in multiples of the scores' sd, for notebooks."""
        priors = self.prior_table()
        said = [
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
                f"{prior.dist}({', '.join(f'{k}={v:g}' for k, v in one.items())})"
                for prior, one in zip(priors.values(), said, strict=True)
            ],
        }
        return html_table(repr(self)[1:-1], columns)

    def to_dict(self) -> dict[str, Any]:
        """Plain mapping that :func:`load_spec` reads back to an equal spec."""
        return self.model_dump(mode="json", exclude_none=True)

    def to_yaml(self) -> str:
        """YAML text of the spec."""
        return yaml.safe_dump(self.to_dict(), sort_keys=False, allow_unicode=True)

    @property
    def content_hash(self) -> str:
        """SHA-256 of what changes the posterior: everything but name and summary."""
        said = {k: v for k, v in self.to_dict().items() if k not in ("name", "summary")}
        said["priors"] = {
            key: prior.model_dump(mode="json", exclude_none=True)
            for key, prior in (self.prior_table() | self.replicate_priors()).items()
        }
        return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()


def load_spec(source: str | Path | ModelSpec | dict[str, Any]) -> ModelSpec:
    """Return the spec a user means.

    Parameters
    ----------
    source : str, Path, dict or ModelSpec
        The name of a shipped model (``"additive"``), the path of a YAML file, a
        mapping with the keys of :class:`ModelSpec`, or a spec as it is.

    Raises
    ------
    SpecError
        If the spec says something unknown or impossible.
    InputError
        If there is no such model or file.
    """
    if isinstance(source, ModelSpec):
        return source
    if isinstance(source, dict):
        return parse_config(ModelSpec, source, source="spec", error=SpecError)
    if not isinstance(source, str | os.PathLike):
        raise InputError(
            "a model is the name of a shipped model, a YAML file, a ModelSpec or a dict; got "
            f"{type(source).__name__}"
        )
    if source == AUTO:
        raise InputError(
            f"{AUTO} is no model until there is a table: it takes the fullest of additive, "
            "interaction, crossed and dataset that the table identifies; fit a table with it, or "
            f"name a model (shipped: {', '.join(resource_names('models'))})"
        )
    path = Path(source)
    if not path.is_file():
        if path.suffix in (".yaml", ".yml") or path.is_dir():
            raise InputError(f"{path}: no such spec file")
        path = find_resource("models", str(source))
    values = read_yaml(path, error=SpecError)
    if isinstance(values, dict):
        values = {"name": path.stem, **values}
    return parse_config(ModelSpec, values, source=str(path), error=SpecError)


def covariate_name(path: Path) -> str:
    """Name of a covariate that a file brings to ``auto``: that of the file, as names are written.

    Parameters
    ----------
    path : Path
        ``data/MEXA-2.csv`` becomes ``mexa_2``; what is no name becomes ``covariate``.
    """
    name = re.sub(r"[^a-z0-9]+", "_", path.stem.lower()).strip("_")
    return name if re.fullmatch(r"[a-z][a-z0-9_]*", name) and name not in _TAKEN else "covariate"


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
