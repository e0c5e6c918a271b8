"""Tables of a saved result for a paper or a leaderboard: LaTeX, Typst, Markdown, CSV, JSON."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final, Literal

import pandas as pd

from bayeseval.errors import InputError
from bayeseval.output._files import csv_text
from bayeseval.output.numbers import (
    interval_texts,
    probability_text,
    rank_interval_texts,
    rank_range_texts,
    unit_text,
    value_texts,
)
from bayeseval.reporting.folder import SavedResults
from bayeseval.reporting.leaderboard import leaderboard, leaderboard_records
from bayeseval.reporting.markup import PaperTable, to_latex, to_markdown, to_typst
from bayeseval.reporting.observed import read_observed
from bayeseval.reporting.summary import facts_of

__all__ = ["ExportFormat", "export", "paper_tables"]

ExportFormat = Literal["latex", "typst", "markdown", "csv", "json"]

_MARKUP: Final[Mapping[str, Callable[[PaperTable], str]]] = {
    "latex": to_latex,
    "typst": to_typst,
    "markdown": to_markdown,
}
_NOT_CONVERGED: Final = "NOT CONVERGED: do not rely on these numbers."
_UNKNOWN: Final = "-"
# Components of a model's variance in words.
_OF_MODELS: Final[Mapping[str, str]] = {
    "between": "between languages",
    "between_population": "between languages, population",
    "seed": "seeds",
    "boot": "test sets",
    "seed_boot": "seed x test set",
    "prompt": "prompts",
    "prompt_own": "prompts, own part",
    "prompt_shared": "prompts, shared by models",
    "judge": "judges",
    "judge_own": "judges, own part",
    "judge_shared": "judges, shared by models",
    "given_se": "given standard errors",
    "within": "within, one run",
}


def export(results: SavedResults, to: ExportFormat, *, csv_safe: bool = False) -> str:
    """Write the main tables of a result in a format for papers or leaderboards.

    Parameters
    ----------
    results : SavedResults
    to : {"latex", "typst", "markdown", "csv", "json"}
        The first three hold all tables of :func:`paper_tables`. ``csv`` is the leaderboard:
        one row per model. ``json`` is the same as one Every Eval Ever record per line.
    csv_safe : bool
        Put an apostrophe before names in ``csv`` that a spreadsheet would take for formulas.

    Returns
    -------
    str
        Ends with a line feed.

    Raises
    ------
    InputError
        If the result has no such table: a leaderboard needs the result of a fit.
    """
    if to == "csv":
        return csv_text(leaderboard(results), safe=csv_safe)
    if to == "json":
        return leaderboard_records(results)
    write = _MARKUP[to]
    return "\n\n".join(write(table) for table in paper_tables(results)) + "\n"


def paper_tables(results: SavedResults) -> list[PaperTable]:
    """Model ranking, language potential and variance components; or the comparison.

    A fit with replicates has the variance components of its models, too.

    Parameters
    ----------
    results : SavedResults

    Returns
    -------
    list of PaperTable
        Every number has the digits that its interval allows, as on the terminal, and very small
        and large scores are in units of a power of ten that the caption names. Columns
        without a value, such as the ranks of a point estimate, are left out.

    Raises
    ------
    InputError
        If the folder is a sensitivity analysis.
    """
    # In the units of the terminal and of the page, which the captions name.
    facts = facts_of(results, read_observed(results.path, results.run))
    results, unit = replace(results, tables=facts.tables), facts.unit
    makers = {
        "model_ranking": _ranking,
        "language_potential": _potential,
        "variance_components": _components,
        "comparison": _comparison,
    }
    made = [make(results, unit) for name, make in makers.items() if name in results.tables]
    components = results.tables.get("variance_components")
    if components is not None and (components["model"] != "").any():
        made.append(_model_components(results, unit))
    if not made:
        raise InputError(
            f"{results.path} is the result of a {results.kind} analysis, which has no table for a "
            "paper; give the folder of a fit or a comparison"
        )
    return made


def _ranking(results: SavedResults, unit: str) -> PaperTable:
    table = results.table("model_ranking")
    columns = {
        "Model": list(table["model"]),
        "Score": interval_texts(table, "score"),
        "PRR": interval_texts(table, "prr"),
        "Rank": rank_interval_texts(table, "rank"),
        "Joint ranks": _joint_ranks(table),
        "P(best)": [probability_text(p) for p in table["p_best"]],
        "Tier": value_texts(table["tier"], 0),
        "Records": value_texts(table["n_records"], 0),
    }
    has_intervals = bool(table["score_lower"].notna().any())
    sentences = [
        f"Models of {_source(results)} by mean expected score"
        f"{unit_text(unit, before=' (', after=')')} over the same language-task pairs.",
        "PRR is the performance realisation ratio." if table["prr_mean"].notna().any() else "",
        _intervals(results.run, table),
    ]
    if has_intervals:
        sentences += [
            "Ranks are medians; joint ranks are intervals that contain the ranks of all models at "
            "once with the same probability. Models of a tier cannot be told apart from its first."
        ]
    return _table(results, "model-ranking", sentences, columns)


def _joint_ranks(table: pd.DataFrame) -> list[str]:
    return rank_range_texts(table[["rank_set_lower", "rank_set_upper"]].to_numpy(dtype=float))


def _potential(results: SavedResults, unit: str) -> PaperTable:
    table = results.table("language_potential")
    codes = list(table["language"])
    called = list(table["language_name"]) if "language_name" in table else codes
    columns = {
        "Language": called,
        **({"Code": codes} if called != codes else {}),
        "Potential": interval_texts(table, "potential"),
        "Rank": rank_interval_texts(table, "rank"),
        "Records": value_texts(table["n_records"], 0),
        "Tasks": value_texts(table["n_tasks"], 0),
    }
    sentences = [
        f"Language potential{unit_text(unit, before=' (', after=')')} of {_source(results)}: "
        "expected score of the average model, averaged over tasks.",
        _intervals(results.run, table),
        "Ranks are medians." if table["rank_median"].notna().any() else "",
    ]
    return _table(
        results, "language-potential", sentences, columns, n_names=1 + ("Code" in columns)
    )


def _components(results: SavedResults, unit: str) -> PaperTable:
    """Components of the table as a whole."""
    table = results.table("variance_components")
    table = table[table["model"] == ""]
    logit = "logit" in set(table["scale"])
    columns = {"Component": list(table["component"]), **_sd_and_share(table)}
    sentences = [
        f"Variance components of {_source(results)}: standard deviation"
        + (" on the logit scale" if logit else unit_text(unit, before=" (", after=")"))
        + " and share of the variance.",
        _intervals(results.run, table),
    ]
    return _table(results, "variance-components", sentences, columns)


def _model_components(results: SavedResults, unit: str) -> PaperTable:
    """Of every model: spread of its languages, and noise within them."""
    table = results.table("variance_components")
    table = table[table["model"] != ""]
    columns = {
        "Model": list(table["model"]),
        "Component": [_OF_MODELS.get(name, name) for name in table["component"]],
        **_sd_and_share(table),
    }
    sentences = [
        f"Variance of every model's scores between and within languages, {_source(results)}: "
        f"standard deviation{unit_text(unit, before=' (', after=')')} and share of the model's "
        "variance.",
        _intervals(results.run, table),
    ]
    return _table(results, "model-components", sentences, columns, n_names=2)


def _sd_and_share(table: pd.DataFrame) -> dict[str, list[str]]:
    return {
        "SD": interval_texts(table, "sd"),
        "Share (%)": interval_texts(table, "share", scale=100.0, digits=0),
    }


def _comparison(results: SavedResults, unit: str) -> PaperTable:
    table = results.table("comparison")
    by = str(results.run.get("by", "record"))
    columns = {
        "Model": list(table["spec"]),
        "elpd (SE)": _with_error(table["elpd"], table["se"]),
        **_differences(table),
        "Seen - left out": value_texts(table["p_eff"], 0),
        "Bad k-hats": value_texts(table["n_bad_k"], 0),
    }
    sentences = [
        f"Statistical models of {_source(results)} by expected log predictive density (elpd), one "
        f"{by} left out at a time; higher is better.",
        f"{'Differences are from the best model; s' if len(table) > 1 else 'S'}tandard errors in "
        "brackets. Seen - left out: log density of the scores when they are part of the fit, less "
        "elpd.",
        "Unmoved: over the scores that no model moves away from a bound of their scale."
        if "unmoved_diff" in table and len(table) > 1
        else "",
    ]
    return _table(results, "comparison", sentences, columns)


def _differences(table: pd.DataFrame) -> dict[str, list[str]]:
    """Of several models: over all scores and, where models move some, over the others."""
    columns = {"Difference (SE)": ("elpd_diff", "diff_se")}
    if "unmoved_diff" in table:
        columns["Unmoved (SE)"] = ("unmoved_diff", "unmoved_diff_se")
    return {
        heading: _with_error(table[value], table[error])
        for heading, (value, error) in columns.items()
        if len(table) > 1
    }


def _with_error(values: pd.Series[float], errors: pd.Series[float]) -> list[str]:
    """Values with their standard errors, with one decimal as on the terminal."""
    return [
        text if _UNKNOWN in (text, error) else f"{text} ({error})"
        for text, error in zip(value_texts(values, 1), value_texts(errors, 1), strict=True)
    ]


def _source(results: SavedResults) -> str:
    """Which table and which model a result is of."""
    run = results.run
    spec = run.get("spec")
    name = f"{run.get('benchmark', 'the table')}"
    if isinstance(spec, dict) and "name" in spec:
        name += f" (model {spec['name']}, engine {run.get('engine')})"
    return name


def _intervals(run: Mapping[str, Any], table: pd.DataFrame) -> str:
    """What the numbers and their intervals are."""
    bounds = [column for column in table if str(column).endswith("_lower")]
    if not table[bounds].notna().any(axis=None):
        return "Point estimates, without intervals."
    percent = f"{100 * float(table['ci_prob'].iloc[0]):.4g}"
    kinds = {"eti": "equal-tailed", "hdi": "highest-density"}
    kind = kinds.get(str(table["ci_kind"].iloc[0]), str(table["ci_kind"].iloc[0]))
    return f"Posterior means with {percent} % {kind} intervals."


def _table(
    results: SavedResults,
    name: str,
    sentences: list[str],
    columns: Mapping[str, list[str]],
    *,
    n_names: int = 1,
) -> PaperTable:
    """A table with the columns that hold something, and its caption."""
    made_from = name.replace("-", "_").replace("model_components", "variance_components")
    gates = results.table(made_from)["gate"]
    failed = [_NOT_CONVERGED] if (gates == "fail").any() else []
    shown = {
        heading: cells
        for place, (heading, cells) in enumerate(columns.items())
        if place < n_names or set(cells) != {_UNKNOWN}
    }
    benchmark = re.sub("[^a-z0-9]+", "-", str(results.run.get("benchmark", "")).lower()).strip("-")
    return PaperTable(
        name=name,
        label=f"tab:{benchmark}-{name}" if benchmark else f"tab:{name}",
        caption=" ".join([*failed, *filter(None, sentences)]),
        columns=shown,
        n_names=n_names,
    )
