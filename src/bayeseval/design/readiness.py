"""Check whether a table can be fitted with a model, without fitting it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bayeseval._text import Caution
from bayeseval.design.build import build_design
from bayeseval.design.choose import choose_model
from bayeseval.errors import BayesevalError
from bayeseval.records import Records, choose_pairs, warn_of_sole_pairs
from bayeseval.spec import AUTO, ModelSpec, list_models

__all__ = ["Readiness", "check_ready"]


@dataclass(frozen=True)
class Readiness:
    """Whether a model can be fitted to a table.

    Attributes
    ----------
    model : str
        Name of the model; with ``auto``, of the chosen one.
    reason : str or None
        Why the model cannot be fitted; None when it can.
    warnings : tuple of Caution
        Warnings of a fit, besides those of the load report.
    parts : str
        What a model is made of that ``auto`` composed: ``additive + model:language``; empty for
        one that ``bayeseval list models`` has.
    """

    model: str
    reason: str | None
    warnings: tuple[Caution, ...] = ()
    parts: str = ""

    @property
    def is_ready(self) -> bool:
        """Whether the model can be fitted."""
        return self.reason is None

    def __str__(self) -> str:
        if self.reason is None:
            made_of = f": {self.parts}" if self.parts else ""
            return f"Ready to fit: yes (model {self.model}{made_of})"
        return f"Ready to fit: no, because {self.reason}"


def check_ready(
    records: Records, model: str | Path | ModelSpec | Mapping[str, Any] = AUTO
) -> Readiness:
    """Try to build the design of a fit.

    Parameters
    ----------
    records : Records
        The table.
    model : str, Path, ModelSpec or mapping
        As for :func:`bayeseval.fit`.
    """
    spec = None
    try:
        chosen = choose_model(model, records)
        spec = chosen.spec
        if chosen.design is None:
            build_design(records, spec)
    except BayesevalError as problem:
        name = str(model) if spec is None else spec.name
        return Readiness(name, str(problem).removeprefix(f"{records.name}: "))
    warnings = warn_of_sole_pairs(records, choose_pairs(records))
    return Readiness(spec.name, None, warnings, _parts(spec) if model == AUTO else "")


def _parts(spec: ModelSpec) -> str:
    """What a composed model is made of; empty for a shipped one, which has its own description."""
    if spec.name in list_models():
        return ""
    noise = [] if spec.residual_by is None else [f"noise by {spec.residual_by}"]
    covariates = [covariate.name for covariate in spec.covariates]
    return " + ".join(["additive", *spec.interactions, *covariates, *noise])
