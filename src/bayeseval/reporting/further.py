"""The parts of the report after models and languages: variances, checks, answers, provenance."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import pandas as pd

from bayeseval.fitting.report.sentences import (
    aggregates_or_ranking,
    geometric_mean_sentence,
    residual_sentence,
)
from bayeseval.forecasting.report import beyond_scale
from bayeseval.forecasting.words import (
    idle_covariate,
    unclear_slopes,
    weak_check,
    what_helps,
)
from bayeseval.output.numbers import interval_texts, potential_bounds
from bayeseval.reporting.blocks import Listing, Pre, Properties, Section, Text
from bayeseval.reporting.charts import Chart, calibration_chart, forest
from bayeseval.reporting.grid import Column, Grid, any_grid, counts, intervals, labels, values
from bayeseval.reporting.summary import Facts, checks_sentence

__all__ = ["further_sections", "made_section"]

_STATUS: Final[Mapping[str, str]] = {
    "fail": "failed",
    "warn": "warning",
    "pass": "passed",
    "not applicable": "not applicable",
}
_ORDER: Final = ("fail", "warn", "pass", "not applicable")
_HASHES: Final = ("data_hash", "spec_hash", "pairs_hash")
# Tables of a fit in the order in which they are shown: section, caption, and columns left out.
_TABLES: Final[Mapping[str, tuple[str, str]]] = {
    "covariates": ("covariates", "Slopes of covariates, and the variance that they explain."),
    "model_correlations": (
        "correlations",
        "Correlation over languages of the effects of two models: 1 if both are strong and weak in "
        "the same languages, compared with the other models and apart from their levels.",
    ),
    "language_parts": (
        "relations",
        "Effects of languages: what each shares with related languages by each relation, and what "
        "it does not share (language).",
    ),
    "forecast": ("forecast", "Potentials forecast from what is known of languages."),
    "forecast_check": (
        "forecast",
        "Every language left out and forecast: its potential without pooling, the forecast, and "
        "the error.",
    ),
    "plan": (
        "plan",
        "Designs of the next evaluation. sd difference: standard deviation of the error in the "
        "difference between the mean scores of two models. p correct: probability that two models "
        "of the population are put in their true order. Items: size of the test sets, 1 as now.",
    ),
    "next": (
        "next",
        "Cells to measure next, in order. gain: by how much the standard deviation of the target "
        "is expected to fall; alone: if the cell were the only one; together: with the cells "
        "above. sd target: the standard deviation that is left.",
    ),
    "next_comparison": (
        "next",
        "The standard deviation of the target by cost, for the chosen cells and other choices.",
    ),
    "within_language": ("replicates", "Noise within languages, its sources apart."),
    "aggregates": ("replicates", "Models by other aggregates over languages."),
    "sensitivity": (
        "sensitivity",
        "Every refit: agreement with the fit to all records. Common change: the mean change of all "
        "levels; largest further change: the largest one of a level beyond it.",
    ),
    "outliers": ("sensitivity", "Records that were left out as outliers."),
}
_TITLES: Final[Mapping[str, str]] = {
    "covariates": "Covariates",
    "correlations": "Correlations of models over languages",
    "relations": "Related languages",
    "forecast": "Forecast",
    "plan": "Plan",
    "next": "Next cells",
    "replicates": "Replicates",
    "sensitivity": "Sensitivity",
}
_CLOSED: Final[Mapping[str, str]] = {
    "forecast_check": "Forecasts of left-out languages",
    "next_comparison": "Other choices of cells",
    "language_parts": "Effects of languages and their parts",
    "within_language": "Noise within languages, all rows",
}


def further_sections(facts: Facts) -> list[Section]:
    """Sections whose tables the folder has, in the order of the page."""
    makers: Iterable[Callable[[Facts], Section | None]] = (_components, _comparison, _checks)
    sections = [made for make in makers if (made := make(facts)) is not None]
    blocks: dict[str, list[Grid | Text]] = {}
    for name, (section, caption) in _TABLES.items():
        if facts.has(name):
            own = blocks.setdefault(section, [])
            if name == "aggregates":
                own += _aggregates(facts, caption)
            else:
                own.append(_grid(facts, name, caption, _CLOSED.get(name)))
            if name in _NOTES and (note := _NOTES[name](facts)):
                own.append(Text([f"{note[:1].upper()}{note[1:]}"]))
    sections += [Section(name, _TITLES[name], grids) for name, grids in blocks.items()]
    return sections


def _of_forecasts(facts: Facts) -> str:
    """Which forecasts exceed the scale, and whose slope may be 0 if no forecast was checked."""
    table = facts.tables["forecast"]
    scale = potential_bounds(facts.run.get("bounds"), facts.exponent)
    texts = [beyond_scale(table[~table["observed"].astype(bool)], scale)]
    if facts.has("covariates") and not facts.has("forecast_check"):
        texts.append(unclear_slopes(facts.tables["covariates"]))
    return _sentences(texts)


def _weak(facts: Facts) -> str:
    """That intervals are too narrow or the covariate does not help, if it looks so."""
    check = facts.tables["forecast_check"]
    return _sentences(
        [weak_check(check), idle_covariate(check, what_helps(facts.run.get("spec", {})))]
    )


def _sentences(texts: Iterable[str]) -> str:
    """The texts that are not empty, each with a capital letter and a full stop."""
    return " ".join(f"{text[:1].upper()}{text[1:].removesuffix('.')}." for text in texts if text)


_NOTES: Final[Mapping[str, Callable[[Facts], str]]] = {
    "forecast": _of_forecasts,
    "forecast_check": _weak,
}


def _grid(
    facts: Facts,
    name: str,
    caption: str,
    closed: str | None = None,
    known: pd.Series[bool] | None = None,
) -> Grid:
    table = facts.tables[name] if known is None else facts.tables[name][known]
    return any_grid(
        f"table-{name.replace('_', '-')}",
        table.reset_index(drop=True),
        caption,
        csv=f"tables/{name}.csv",
        closed=closed or "",
        language_names=facts.language_names,
        # Whose ranks change most is said above; cells of text make rows high on a phone.
        leave_out=("moved",),
    )


def _aggregates(facts: Facts, caption: str) -> list[Grid | Text]:
    """Aggregates that there are, why others are not, and how they differ from the ranking."""
    table = facts.tables["aggregates"]
    grid = _grid(facts, "aggregates", caption, known=table["value_mean"].notna())
    missing = geometric_mean_sentence(table)
    why = aggregates_or_ranking(_sources(facts))
    return [Text([one for one in (why, missing) if one]), grid]


def _sources(facts: Facts) -> set[str]:
    """Components of the models, which name the sources of noise within cells."""
    return set(facts.tables["variance_components"]["component"])


def _components(facts: Facts) -> Section | None:
    if not facts.has("variance_components"):
        return None
    table = facts.tables["variance_components"]
    if "model" in table:
        table = table[table["model"].fillna("") == ""]
    table = table.reset_index(drop=True)
    logit = "scale" in table and (table["scale"] == "logit").any()
    unit = "logit scale" if logit else facts.unit
    shares = table[table["share_mean"].notna()].reset_index(drop=True)
    texts = interval_texts(shares, "share", digits=0, scale=100.0)
    sentence = residual_sentence(table, _sources(facts))
    # Errors that have rows of their own are not in the residual.
    noise = "" if sentence else ", the noise of single scores included"
    chart = Chart(
        "components-chart",
        "Share of every component in the variance of scores",
        "How much of the variance of scores goes with each component. The residual is what the "
        f"model does not explain{noise}.",
        forest(
            shares,
            "share",
            list(shares["component"].astype(str)),
            texts,
            title="share of variance, %",
            what="component",
            scale=100.0,
            zero=True,
        ),
    )
    grid = Grid(
        "components-table",
        "Standard deviation and share of the variance by component.",
        (
            labels("component", table["component"]),
            intervals("sd", table, "sd", note=unit),
            intervals("sd of the observed levels", table, "finite_sd", bars=False),
            intervals("share of variance, %", table, "share", scale=100.0, digits=0),
        ),
        csv="tables/variance_components.csv",
    )
    blocks: list[Chart | Grid | Text] = [chart, grid] if len(shares) > 1 else [grid]
    if sentence:
        blocks.append(Text([sentence]))
    return Section("components", "Variance components", blocks)


def _checks(facts: Facts) -> Section | None:
    if not facts.has("checks"):
        return None
    table = facts.tables["checks"].fillna({"meaning": "", "command": "", "sentence": ""})
    rows = [
        {
            "status": str(row["status"]),
            "word": _STATUS[str(row["status"])],
            "name": str(row["check"]).replace("_", " "),
            "sentence": str(row["sentence"]),
            "meaning": str(row["meaning"]),
            "command": str(row["command"]),
        }
        for status in _ORDER
        for row in table[table["status"] == status].to_dict("records")
    ]
    blocks: list[Any] = [Text([checks_sentence(facts)]), Listing(rows)]
    if facts.has("calibration"):
        blocks.append(
            Chart(
                "calibration",
                "Calibration of predictions",
                "Calibration: share of scores below each level of their prediction, less that "
                "level. Inside the band, predictions are as wide as they should be.",
                calibration_chart(facts.tables["calibration"]),
            )
        )
        # One kind throughout: it belongs above the table, not into every row.
        kind = "".join(f": {one}" for one in facts.tables["calibration"]["kind"].unique()[:1])
        caption = f"Calibration of predictions{kind}."
        blocks.append(_grid(facts, "calibration", caption, "Calibration as a table"))
    for name, caption in (
        ("influential_records", "Records that are furthest from what the others predict."),
        ("sd_by_language", "Standard deviation of the scores in every language, and as predicted."),
        ("prior_sensitivity", "How much results change when priors or likelihood are weighted."),
    ):
        if facts.has(name):
            blocks.append(_grid(facts, name, caption, caption.rstrip(".")))
    return Section("checks", "Model checks", blocks)


def _comparison(facts: Facts) -> Section | None:
    if not facts.has("comparison"):
        return None
    table = facts.tables["comparison"].reset_index(drop=True)
    by = str(facts.run.get("by", "record"))
    diff = table["elpd_diff"].astype(float)
    # Two standard errors to both sides.
    width = 2.0 * table["diff_se"].astype(float)
    bars = pd.DataFrame({"d_mean": diff, "d_lower": diff - width, "d_upper": diff + width})
    texts = interval_texts(bars, "d")
    several = len(table) > 1
    differences: tuple[Column, ...] = (
        intervals("difference", bars, "d", digits=1),
        values("SE of the difference", table["diff_se"].astype(float), 1),
    )
    caption = (
        f"Expected log predictive density (elpd) with one {by} left out at a time; higher is "
        "better."
    )
    if several:
        caption += " Difference from the best model with two standard errors to both sides."
    if several and "unmoved_diff" in table:
        caption += " Unmoved: over the scores that no model moves away from a bound of their scale."
        differences += (
            values("unmoved difference", table["unmoved_diff"].astype(float), 1),
            values("SE of the unmoved", table["unmoved_diff_se"].astype(float), 1),
        )
    grid = Grid(
        "comparison-table",
        caption,
        (
            labels("model", table["spec"]),
            values("elpd", table["elpd"].astype(float), 1),
            values("SE", table["se"].astype(float), 1),
            *(differences if several else ()),
            counts("bad k-hats", table["n_bad_k"].astype(float)),
            labels("method", table["method"]),
        ),
        csv="tables/comparison.csv",
    )
    chart = Chart(
        "comparison-chart",
        "Difference in elpd from the best model",
        "Difference in elpd from the best model, with two standard errors to both sides.",
        forest(
            bars,
            "d",
            list(table["spec"].astype(str)),
            texts,
            title="elpd less the best",
            what="model",
        ),
    )
    blocks: list[Chart | Grid] = [chart, grid] if several else [grid]
    if facts.has("moves") and "spearman" in facts.tables["moves"]:
        blocks.append(
            _grid(
                facts,
                "moves",
                "Agreement between the models: rank correlations of posterior means, and the "
                "largest changes of median ranks.",
            )
        )
    return Section("comparison", "Comparison of models", blocks)


def made_section(facts: Facts, citations: str) -> Section:
    """How the result was made: data, model, engine, versions, hashes and citations."""
    run = facts.run
    spec = run.get("spec") or {}
    rows: list[tuple[str, object]] = [
        ("benchmark", run.get("benchmark")),
        ("source", run.get("source")),
        ("model", spec.get("name")),
        ("what it is", spec.get("summary")),
        ("likelihood", spec.get("likelihood")),
        ("effects", _mapping(spec.get("effects"))),
        ("interactions", ", ".join(map(str, spec.get("interactions") or ()))),
        ("covariates", ", ".join(map(str, run.get("covariates") or ()))),
        ("priors", _mapping(run.get("priors"), " ~ ")),
        ("fixed effects", _mapping(run.get("fixed_effects"), " ~ ")),
        ("why this model", "; ".join(run.get("model_reasons") or ())),
        ("engine", _engine(run)),
        ("settings", _mapping(run.get("settings"))),
        ("seed", run.get("seed")),
        ("intervals", _intervals(run)),
        ("common pairs", run.get("pairs")),
        *((key.replace("_hash", " (SHA-256)"), run.get(key)) for key in _HASHES),
        ("versions", _mapping(run.get("versions"), " ")),
        ("platform", run.get("platform")),
        ("made at", run.get("created_at")),
        ("time", f"{run['seconds']:.1f} s" if "seconds" in run else None),
    ]
    known = [(name, str(value)) for name, value in rows if value not in (None, "", {}, [])]
    blocks: list[Any] = [Properties(known)]
    notes = [str(note) for note in run.get("notes") or ()]
    if notes:
        blocks.append(Pre("notes", f"Notes on the table ({len(notes)})", "\n".join(notes)))
    if citations:
        blocks.append(Pre("citations", "Citations (BibTeX)", citations))
    return Section("made", "How it was made", blocks)


def _mapping(value: object, between: str = ": ") -> str:
    if not isinstance(value, Mapping):
        return ""
    return "; ".join(f"{name}{between}{one}" for name, one in value.items())


def _engine(run: Mapping[str, Any]) -> str:
    engine, reason = str(run.get("engine") or ""), str(run.get("engine_reason") or "")
    return f"{engine} ({reason})" if engine and reason else engine


def _intervals(run: Mapping[str, Any]) -> str:
    if "ci_prob" not in run:
        return ""
    return f"{100 * float(run['ci_prob']):.4g} % equal-tailed"
