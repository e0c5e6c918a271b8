"""Whether a table can be fitted: what `fit` would refuse, before anything is fitted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bayeseval.design.build import build_design
from bayeseval.design.choose import choose_model
from bayeseval.errors import BayesevalError
from bayeseval.records import WARNING, Records, choose_pairs, warn_of_sole_pairs
from bayeseval.spec import AUTO, ModelSpec

__all__ = ["Readiness", "check_ready"]


@dataclass(frozen=True)
class Readiness:
    """What became of the attempt to put a model on a table.

    Attributes
    ----------
    model : str
        Name of the model, chosen where ``auto`` was asked for.
    reason : str or None
        Why the table cannot be fitted with it; None when it can.
    warnings : tuple of str
        What a fit would warn of, beside the table's own report.
    """

    model: str
    reason: str | None
    warnings: tuple[str, ...] = ()

    @property
    def is_ready(self) -> bool:
        """Whether `fit` would take the table."""
        return self.reason is None

    def __str__(self) -> str:
        if self.reason is None:
            return f"Ready to fit: yes (model {self.model})"
        return f"Ready to fit: no, because {self.reason}"


def check_ready(
    records: Records, model: str | Path | ModelSpec | Mapping[str, Any] = AUTO
) -> Readiness:
    """Build the design that a fit would build; its refusal is the reason.

    Parameters
    ----------
    records : Records
        The table.
    model : str, Path, ModelSpec or mapping
        What ``fit`` takes; by default its default.
    """
    spec = None
    try:
        spec = choose_model(model, records).spec
        design = build_design(records, spec)
    except BayesevalError as problem:
        name = str(model) if spec is None else spec.name
        return Readiness(name, str(problem).removeprefix(f"{records.name}: "))
    warnings = (
        *(note for note in design.notes if note.startswith(WARNING)),
        *warn_of_sole_pairs(records, choose_pairs(records)),
    )
    return Readiness(spec.name, None, warnings)
