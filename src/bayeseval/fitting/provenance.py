"""How a result was made: versions, spec and data, priors, settings, gate."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import xarray as xr

from bayeseval import names
from bayeseval._optional import versions
from bayeseval._resources import resource_names
from bayeseval._text import grouped
from bayeseval.design import Design
from bayeseval.engines import SamplerSettings
from bayeseval.engines.base import unstored_notes
from bayeseval.fitting.covariates import data_hash
from bayeseval.fitting.gate import Gate
from bayeseval.records import Covariate, Records, card_citations

__all__ = ["provenance", "sampler_report", "sampling_path"]

_PACKAGES = (
    "bayeseval",
    "arviz-base",
    "arviz-stats",
    "jax",
    "numpy",
    "numpyro",
    "pandas",
    "pymc",
    "statsmodels",
    "xarray",
)

# Attributes of a posterior that are numbers.
_PATH = ("path", "path_reason")
_NUMBERS = (
    "k_hat",
    "importance_ess",
    "importance_efficiency",
    "n_points",
    "log_marginal_likelihood",
    "log_marginal_likelihood_se",
)


def provenance(
    records: Records,
    design: Design,
    gate: Gate,
    *,
    covariates: Sequence[Covariate],
    engine: str,
    settings: SamplerSettings,
) -> dict[str, Any]:
    """What is written as ``run.json``, but for timings and the engine's reasons.

    Parameters
    ----------
    records : Records
        The table.
    design : Design
        What was fitted.
    gate : Gate
        Outcome of the convergence gate.
    covariates : sequence of Covariate
        What the design's slopes were made of.
    engine : str
        The engine that drew.
    settings : SamplerSettings
        With the defaults filled in.
    """
    report = records.report
    return {
        "benchmark": records.name,
        "source": _source(records),
        "citations": card_citations(report.sources),
        "data_hash": data_hash(records, covariates, design),
        "scores_hash": records.content_hash,
        "rows_hash": records.rows_hash,
        "spec_hash": design.spec.content_hash,
        "engine": engine,
        "seed": settings.seed,
        "settings": {k: v for k, v in vars(settings).items() if v is not None},
        "spec": design.spec.to_dict(),
        "priors": {name: str(prior) for name, prior in design.priors.items()},
        "fixed_effects": {
            term.effect: f"normal(sd={term.known_sd:.4g})"
            for term in design.terms
            if isinstance(term.known_sd, float)
        },
        "population": design.spec.population,
        "covariates": {
            covariate.name: {
                "source": covariate.source,
                "hash": covariate.content_hash,
                "by": covariate.by,
                "n_languages": len(covariate.labels),
                "n_models": len(covariate.models),
                "matched": dict(covariate.matched),
            }
            for covariate in covariates
        },
        "levels": {factor: len(records.coords[factor]) for factor in names.FACTORS},
        "bounds": {task: [unit.lower, unit.upper] for task, unit in records.units.items()},
        "n_records": design.n_records,
        "language_names": dict(records.language_names),
        "notes": [
            *design.notes,
            *map(str, report.remarks_for(with_bounds=design.outcome.has_bounds)),
            *unstored_notes(design, settings),
            *_shortened(len(records.coords[names.MODEL])),
        ],
        "gate": gate.to_dict(),
        "versions": {"python": platform.python_version(), **versions(_PACKAGES)},
        "platform": f"{sys.platform} {platform.machine()}",
        "created_at": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def _source(records: Records) -> str:
    """What ``--benchmark`` takes for this table: a shipped name, a file or a folder."""
    paths = [Path(path) for path in records.report.sources]
    # Shipped tables and downloaded ones lie in benchmarks/NAME/.
    shipped = all(path.parent.parent.name == "benchmarks" for path in paths)
    if not paths or (shipped and records.name in resource_names("benchmarks")):
        return records.name
    if len(paths) == 1:
        return str(paths[0])
    try:
        return os.path.commonpath(paths) or "."
    except ValueError:
        # Several tables merged: no one path is all of them.
        return records.name


def sampler_report(tree: xr.DataTree) -> dict[str, str | float]:
    """What the engine stored about its run: path taken and why, weights, marginal likelihood."""
    attrs = tree["posterior"].attrs
    texts = {key: str(attrs[key]) for key in _PATH if key in attrs}
    numbers = {key: float(attrs[key]) for key in _NUMBERS if key in attrs}
    return {**texts, **numbers}


def sampling_path(run: Mapping[str, Any]) -> dict[str, str]:
    """How the marginal engine drew in a fit (``path``), and why; empty for other engines.

    Parameters
    ----------
    run : mapping
        Provenance of the fit. Results of early versions do not say it.
    """
    report = run.get("sampling") or {}
    return {key: str(report[key]) for key in _PATH if key in report}


def _shortened(n_models: int) -> list[str]:
    """Note on files that would grow with the square of the number of models."""
    if n_models <= names.MOST_PAIRED:
        return []
    ranked = f" and rank_probabilities.csv the {names.MOST_RANKED}" * (n_models > names.MOST_RANKED)
    return [
        f"pairwise_models.csv has the {names.MOST_PAIRED}{ranked} best of {grouped(n_models)} "
        "models in each quantity; fit.pairwise() and fit.ranks() in Python have all"
    ]
