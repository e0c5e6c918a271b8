"""What makes the effects of languages, and of models, alike in a model specification."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from pydantic import BeforeValidator, Field

from bayeseval import names
from bayeseval._yaml import text_like
from bayeseval.spec.parts import RESERVED_NAMES
from bayeseval.spec.priors import Number, Prior, SpecConfig

if TYPE_CHECKING:
    from bayeseval.spec.model import ModelSpec

__all__ = [
    "AS_MODEL_RELATIONS",
    "AS_RELATIONS",
    "LanguageRelations",
    "ModelRelations",
    "check_relations",
    "relation_priors",
]

_DISTANCE: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?) *km")
_NAME: Final = "[a-z][a-z0-9_]*"
_NAME_WORDS: Final = "lower-case letters, digits and '_', a letter first"
# Larger than half the Earth's circumference, all languages are the same place.
_MOST_KM: Final = 20_000


def _as_km(value: Any) -> Any:
    """``1000 km`` and 1000 mean 1000 kilometres."""
    if isinstance(value, str):
        found = _DISTANCE.fullmatch(value.strip())
        if found is None:
            raise ValueError(f"expected a distance such as 1000 km, got {value!r}")
        return float(found[1])
    if isinstance(value, bool):
        raise ValueError("expected a distance such as 1000 km")
    return value


def _none_if_empty(value: Any) -> Any:
    return value or None


def _none_if_false(value: Any) -> Any:
    return None if value is False else value


class LanguageRelations(SpecConfig):
    """What makes the effects of two languages alike; each has a standard deviation of its own.

    The effects of languages are N(0, sd_language^2 I + sd_place^2 K_place + ...), with the
    matrices K of :mod:`bayeseval.languages.relations` and a sum of zero.

    Attributes
    ----------
    place : float, optional
        Kilometres over which the relation of languages by place falls to 1/e: ``1000 km``.
    family : {"glottolog"}, optional
        The tree of language families.
    script : bool, optional
        Whether languages in the same script are related.
    files : dict of str to str
        Names of further relations to CSV files of similarities or distances between languages,
        see :func:`bayeseval.languages.relation_files.by_file`.
    """

    place: Annotated[Number, BeforeValidator(_as_km), Field(ge=1, le=_MOST_KM)] | None = None
    family: Annotated[Literal["glottolog"] | None, BeforeValidator(_none_if_false)] = None
    script: Annotated[Literal[True] | None, BeforeValidator(_none_if_false)] = None
    files: Annotated[
        dict[Annotated[str, text_like(_NAME, _NAME_WORDS)], str] | None,
        BeforeValidator(_none_if_empty),
    ] = None

    @property
    def used(self) -> tuple[str, ...]:
        """Names of the relations, in the order of every output."""
        own = (name for name in names.RELATIONS if getattr(self, name) is not None)
        return (*own, *sorted(self.files or ()))

    def __str__(self) -> str:
        """Which relations there are, for the line of a spec."""
        return f"languages related by {', '.join(self.used)}"


class ModelRelations(SpecConfig):
    """What makes the effects of two models alike, beside what they do not share.

    Attributes
    ----------
    family : bool, optional
        Whether models of one family are related. Families are the column ``family`` of a table
        of models, which is given like a covariate.
    """

    family: Annotated[Literal[True] | None, BeforeValidator(_none_if_false)] = None

    @property
    def used(self) -> tuple[str, ...]:
        """Names of the relations."""
        return (names.MODEL_FAMILY,) if self.family else ()

    def __str__(self) -> str:
        """Which relations there are, for the line of a spec."""
        return "models related by family"


def relation_priors(spec: ModelSpec) -> dict[str, Prior]:
    """Priors of the standard deviations of relations, in multiples of the scores' sd."""
    used = [name for one in (spec.languages, spec.models) if one is not None for name in one.used]
    return {names.sd_name(name): Prior(dist="half_normal", scale=1.0) for name in used}


def check_relations(spec: ModelSpec) -> None:
    """Raise ValueError if other parts of a spec do not go with its related levels."""
    if spec.models is not None:
        _check_models(spec)
    if spec.languages is None:
        return
    if spec.effects.language == "fixed":
        raise ValueError("languages: fixed language effects cannot be related; make them pooled")
    if spec.centring.get(names.LANGUAGE) == "centred":
        raise ValueError(
            "centring: the effects of related languages are sampled non_centred; remove language"
        )
    reserved = {
        *RESERVED_NAMES,
        *names.RELATIONS,
        names.MODEL_FAMILY,
        *map(names.term_dim, spec.terms),
    }
    taken = sorted(reserved & set(spec.languages.files or ()))
    if taken:
        raise ValueError(
            f"languages.files: {taken[0]!r} is the name of another part of the model; rename it"
        )
    twice = [one.name for one in spec.covariates if one.name in spec.languages.used]
    if twice:
        raise ValueError(f"{twice[0]!r} is a covariate and in languages; rename the covariate")


def _check_models(spec: ModelSpec) -> None:
    if spec.effects.model == "fixed":
        raise ValueError("models: fixed model effects cannot be related; make them pooled")
    if spec.population != "observed":
        raise ValueError(
            "models: the effects of related models sum to zero over the models of the table, so "
            "they need population: observed"
        )
    if spec.centring.get(names.MODEL) == "centred":
        raise ValueError(
            "centring: the effects of related models are sampled non_centred; remove model"
        )
    taken = {names.FAMILY, names.MODEL_FAMILY} & {one.name for one in spec.covariates}
    if taken:
        raise ValueError(f"{min(taken)!r} is a covariate and in models; remove the covariate")


def _none_if_unused(kind: type[LanguageRelations | ModelRelations]) -> BeforeValidator:
    """No relations at all are the same as no entry."""

    def read(value: Any) -> Any:
        if value == {} or (isinstance(value, kind) and not value.used):
            return None
        if isinstance(value, dict) and all(
            one is None or one is False or one == {} for one in value.values()
        ):
            return None if set(value) <= set(kind.model_fields) else value
        return value

    return BeforeValidator(read)


#: What a spec's entries may be, before they are read.
AS_RELATIONS: Final = _none_if_unused(LanguageRelations)
AS_MODEL_RELATIONS: Final = _none_if_unused(ModelRelations)
