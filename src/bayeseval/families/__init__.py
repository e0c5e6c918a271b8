"""Likelihood families: one object for each, with all that other folders need of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from bayeseval import names
from bayeseval.families.base import At, Family, Kernel, Parameter, Quantity
from bayeseval.families.beta import BETA
from bayeseval.families.beta_binomial import BETA_BINOMIAL
from bayeseval.families.binomial import BINOMIAL
from bayeseval.families.logit_normal import LOGIT_NORMAL
from bayeseval.families.normal import NORMAL
from bayeseval.families.student_t import STUDENT_T

__all__ = [
    "FAMILIES",
    "At",
    "Family",
    "Kernel",
    "Parameter",
    "Quantity",
    "extra_parameters",
    "link",
    "of_quantity",
    "scale_names",
    "scale_parameters",
]

#: By name, in the order of ``names.LIKELIHOODS``.
FAMILIES: dict[str, Family] = {
    family.name: family
    for family in (NORMAL, STUDENT_T, LOGIT_NORMAL, BETA, BINOMIAL, BETA_BINOMIAL)
}


def link(families: Iterable[str]) -> Literal["identity", "logit"]:
    """Link of a fit with these likelihoods: the logit as soon as one of them needs bounds."""
    unbounded = all(FAMILIES[family].quantity == "score" for family in families)
    return "identity" if unbounded else "logit"


def of_quantity(*quantities: Quantity) -> tuple[names.Likelihood, ...]:
    """Names of the likelihoods that model one of these quantities, in canonical order."""
    return tuple(family.name for family in FAMILIES.values() if family.quantity in quantities)


def scale_parameters(families: Iterable[str] | None = None) -> tuple[Parameter, ...]:
    """Noise scales of some likelihoods, or of all, each once, in canonical order."""
    scales = [family.scale for family in _families(families) if family.scale is not None]
    return _unique_by_name(scales)


def scale_names(families: Iterable[str] | None = None) -> tuple[str, ...]:
    """Names of :func:`scale_parameters`."""
    return tuple(parameter.name for parameter in scale_parameters(families))


def extra_parameters(families: Iterable[str] | None = None) -> tuple[Parameter, ...]:
    """Further parameters of some likelihoods, or of all, each once, in canonical order."""
    return _unique_by_name(
        [parameter for family in _families(families) for parameter in family.extra]
    )


def _families(likelihoods: Iterable[str] | None) -> list[Family]:
    """Objects of these likelihoods, or of all, in canonical order."""
    wanted = set(FAMILIES if likelihoods is None else likelihoods)
    return [family for name, family in FAMILIES.items() if name in wanted]


def _unique_by_name(parameters: Iterable[Parameter]) -> tuple[Parameter, ...]:
    first: dict[str, Parameter] = {}
    for parameter in parameters:
        first.setdefault(parameter.name, parameter)
    return tuple(first.values())
