"""A saved result as a leaderboard: one row per model, or one Every Eval Ever record."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

import pandas as pd

from bayeseval.output._files import to_json
from bayeseval.reporting.folder import SavedResults

__all__ = ["leaderboard", "leaderboard_records"]

# Version of Every Eval Ever's schema that the records keep to.
_SCHEMA: Final = "0.3.0"
# ISO 639-2 for several languages: the scores are means over them.
_SEVERAL: Final = "mul"
# What a number is, by the prefix of its columns.
_DESCRIPTIONS: Final = {
    "score": "expected score, averaged over the same language-task pairs for all models; scores "
    "of pairs that a model misses are predicted",
    "prr": "expected score divided by the language potential, over the same language-task pairs "
    "for all models; scores of pairs that a model misses are predicted",
}
_DETAILS: Final = (
    *("rank", "rank_lower", "rank_upper", "rank_set_lower", "rank_set_upper"),
    *("p_best", "tier"),
)


def leaderboard(results: SavedResults) -> pd.DataFrame:
    """One row per model: rank with both intervals, score, PRR, probability to be best, tier.

    Parameters
    ----------
    results : SavedResults
        Of a fit.

    Returns
    -------
    pandas.DataFrame
        ``rank`` is the posterior median with its own interval ``rank_{lower,upper}``, or the
        place by score of a point estimate;
        ``rank_set_{lower,upper}`` hold the ranks of all models at once. Numbers have all
        their digits.

    Raises
    ------
    InputError
        If the result has no ranking of models.
    """
    table = results.table("model_ranking")
    return pd.DataFrame(
        {
            # A point estimate has no distribution of ranks, only an order.
            "rank": table["rank_median"].fillna(
                table["score_mean"].rank(ascending=False, method="min")
            ),
            **{
                column: table[column]
                for column in (
                    *("rank_lower", "rank_upper", "rank_set_lower", "rank_set_upper", "model"),
                    *("score_mean", "score_lower", "score_upper"),
                    *("prr_mean", "prr_lower", "prr_upper"),
                    *("p_best", "tier", "n_records", "ci_kind", "ci_prob", "gate"),
                )
            },
        }
    )


def leaderboard_records(results: SavedResults) -> str:
    """The leaderboard as Every Eval Ever records, one JSON object per line and model.

    Parameters
    ----------
    results : SavedResults
        Of a fit.

    Returns
    -------
    str
        Every record has the expected score and, where there is one, the PRR as evaluation
        results with their credible intervals. The format has no place for ranks, tiers and
        the convergence gate: they are texts under ``score_details: details``. The language
        is ``mul``, several.

    Raises
    ------
    InputError
        If the result has no ranking of models.
    """
    rows = leaderboard(results).to_dict("records")
    deviations = results.table("model_ranking")
    made = []
    for row, sds in zip(rows, deviations.to_dict("records"), strict=True):
        made.append(to_json(_record({**sds, **row}, results.run)))
    return "".join(f"{line}\n" for line in made)


def _record(row: Mapping[Any, Any], run: Mapping[str, Any]) -> dict[str, Any]:
    model = str(row["model"])
    benchmark = str(run.get("benchmark", "table"))
    seconds = _epoch(run.get("created_at"))
    version = (run.get("versions") or {}).get("bayeseval")
    results = [_result(row, run, "expected_score", "score", _bounds(run))]
    if not pd.isna(row["prr_mean"]):
        results.append(_result(row, run, "performance_realisation_ratio", "prr", (None, None)))
    return {
        "schema_version": _SCHEMA,
        "evaluation_id": f"{benchmark}/{model}/{seconds}",
        "retrieved_timestamp": seconds,
        "source_metadata": {
            "source_name": benchmark,
            # An analysis of published scores, not a run of the models.
            "source_type": "documentation",
            "source_organization_name": "bayeseval",
            "evaluator_relationship": "other",
            "additional_details": {
                "data_hash": str(run.get("data_hash", "")),
                "spec": str((run.get("spec") or {}).get("name", "")),
                "engine": str(run.get("engine", "")),
                "seed": str(run.get("seed", "")),
            },
        },
        "eval_library": {"name": "bayeseval", "version": str(version or "unknown")},
        "model_info": {
            "name": model,
            "id": model,
            # Required; a table of scores does not say them.
            "additional_details": {
                "deployment_type": "unknown",
                "model_availability": "unknown",
            },
        },
        "evaluation_results": results,
    }


def _result(
    row: Mapping[Any, Any],
    run: Mapping[str, Any],
    metric: str,
    column: str,
    bounds: tuple[float | None, float | None],
) -> dict[str, Any]:
    benchmark = str(run.get("benchmark", "table"))
    lower, upper = bounds
    details = {key: _text(row[key]) for key in _DETAILS if not pd.isna(row[key])}
    score: dict[str, Any] = {
        "score": float(row[f"{column}_mean"]),
        "details": {**details, "gate": str(row["gate"]), "n_records": _text(row["n_records"])},
    }
    if not pd.isna(row[f"{column}_lower"]):
        score["uncertainty"] = {
            # The posterior standard deviation.
            "standard_error": {"value": float(row[f"{column}_sd"]), "method": "posterior"},
            "confidence_interval": {
                "lower": float(row[f"{column}_lower"]),
                "upper": float(row[f"{column}_upper"]),
                "confidence_level": float(row["ci_prob"]),
                "method": f"credible interval, {row['ci_kind']}",
            },
        }
    return {
        "evaluation_result_id": metric,
        "evaluation_name": f"{benchmark}/{metric}",
        "source_data": {"dataset_name": benchmark, "source_type": "other"},
        "metric_config": {
            "evaluation_description": _DESCRIPTIONS[column],
            "metric_id": f"bayeseval.{metric}",
            "metric_name": metric,
            "lower_is_better": False,
            "score_type": "continuous",
            # As the schema writes that there is no bound.
            "min_score": "-Infinity" if lower is None else lower,
            "max_score": "Infinity" if upper is None else upper,
            "additional_details": {"language": _SEVERAL},
        },
        "score_details": score,
    }


def _bounds(run: Mapping[str, Any]) -> tuple[float | None, float | None]:
    """The range that all tasks share."""
    ranges = {tuple(ends) for ends in (run.get("bounds") or {}).values()}
    if len(ranges) != 1:
        return None, None
    lower, upper = next(iter(ranges))
    return lower, upper


def _text(value: Any) -> str:
    """A number as text, whole where it is."""
    number = float(value)
    return str(int(number)) if number == int(number) else repr(number)


def _epoch(created_at: object) -> str:
    """Unix time of an ISO time stamp, as the format has it."""
    if not isinstance(created_at, str):
        return "0"
    try:
        return str(int(datetime.fromisoformat(created_at).timestamp()))
    except ValueError:
        return "0"
