"""The part of the report on languages: potential, baseline, map, and one model in each of them."""

from __future__ import annotations

import math
from typing import Any, Final

import pandas as pd

from bayeseval import names
from bayeseval._text import grouped
from bayeseval.fitting.report.sentences import of_test_sets
from bayeseval.forecasting.map import land, place
from bayeseval.output.language_names import name_and_code
from bayeseval.output.numbers import axis_label, interval_texts, number_text, value_texts
from bayeseval.reporting.blocks import Chooser, Section, Text
from bayeseval.reporting.charts import Chart, chart_rows, forest, interval_spec
from bayeseval.reporting.grid import (
    Column,
    Grid,
    counts,
    intervals,
    labels,
    packed,
    ranks,
    values,
)
from bayeseval.reporting.planes import language_map, scatter
from bayeseval.reporting.summary import Facts

__all__ = ["languages_section"]

_NOT_ESTIMATED: Final = (
    "The model has no model:language term: a model's gap to the potential is the same in every "
    "language, and its PRR differs between languages only because the potential does."
)
# Languages at each end that the summary of a model names.
_ENDS: Final = 3
# Rows by model and language in a page, which has 100 bytes or so of each.
_MOST_CELLS: Final = 200_000


def languages_section(facts: Facts) -> Section:
    """Everything about languages."""
    table = facts.tables["language_potential"].reset_index(drop=True)
    shown = name_and_code(table[names.LANGUAGE], facts.language_names)
    texts = interval_texts(table, "potential")
    average = _average(facts, table)
    blocks: list[Chart | Grid | Text | Chooser] = [
        _potential_chart(facts, table, shown, texts),
        _potential_grid(facts, table, shown, average),
    ]
    if average is not None and len(table) > 2:
        blocks.append(_baseline_chart(facts, table, shown, texts, average))
    chart = _map(facts, table, shown, texts)
    places = _place_map(facts)
    blocks += [one for one in (chart, places) if one is not None]
    if facts.has("model_language"):
        blocks += _by_model(facts)
    return Section("languages", "Languages", blocks)


def _average(facts: Facts, table: pd.DataFrame) -> pd.Series[float] | None:
    """Mean scores in the order of the table and in its units."""
    if facts.observed is None:
        return None
    scores = facts.observed.average.reindex(table[names.LANGUAGE].astype(str))
    return scores.reset_index(drop=True) * 10.0**-facts.exponent


def _potential_chart(
    facts: Facts, table: pd.DataFrame, shown: list[str], texts: list[str]
) -> Chart:
    return Chart(
        "potential",
        "Potential of every language, with intervals",
        "Language potential: the score that models reach on average in a language, over all "
        "tasks. Points: means; lines: intervals.",
        forest(
            table,
            "potential",
            shown,
            texts,
            title=axis_label("potential", facts.unit),
            what="language",
        ),
    )


def _potential_grid(
    facts: Facts, table: pd.DataFrame, shown: list[str], average: pd.Series[float] | None
) -> Grid:
    columns = [
        labels("language", shown),
        intervals("potential", table, "potential", note=facts.unit),
        ranks("rank", table, "rank"),
    ]
    if average is not None:
        columns.append(values("average score", average, note="of its records, unadjusted"))
    columns += [counts("records", table["n_records"]), counts("tasks", table["n_tasks"])]
    if "published_potential" in table:
        columns.insert(2, values("as published", table["published_potential"].astype(float), 2))
    kept = tuple(c for c in columns if set(c.cells) - {"-", ""})
    has_intervals = table["potential_lower"].notna().any()
    scope = of_test_sets(facts.run.get("notes") or ()) if has_intervals else ""
    return Grid(
        "potential-table",
        f"Potential of {grouped(len(table))} languages, highest mean first. Ranks are medians with "
        "intervals, 1 is best; where intervals overlap, medians need not be in the same order. "
        f"{scope}".rstrip(),
        kept,
        csv="tables/language_potential.csv",
    )


def _baseline_chart(
    facts: Facts,
    table: pd.DataFrame,
    shown: list[str],
    texts: list[str],
    average: pd.Series[float],
) -> Chart:
    rows = pd.DataFrame(
        {
            "label": shown,
            "x": average,
            "text": texts,
            "n": table["n_records"],
            **{end: table[f"potential_{end}"].astype(float) for end in ("mean", "lower", "upper")},
        }
    )
    return Chart(
        "baseline",
        "Average score of every language against its potential",
        "Average of a language's scores against its potential. On the dashed line both are equal; "
        "above it are languages that were tested with harder tasks or weaker models than others, "
        "below it those with easier tasks or stronger models. Estimates from few records are also "
        "drawn towards the mean of all languages: low averages above the line, high ones below it.",
        scatter(
            rows[rows["x"].notna()],
            (axis_label("average score", facts.unit), axis_label("potential", facts.unit)),
        ),
    )


def _map(facts: Facts, table: pd.DataFrame, shown: list[str], texts: list[str]) -> Chart | None:
    """Languages whose place is known; those of a forecast beside those with records."""
    source, seen = table, ["with records"] * len(table)
    forecast = facts.tables.get("forecast")
    if forecast is not None and len(forecast):
        source = forecast.reset_index(drop=True)
        observed = source["observed"].astype(bool)
        seen = ["with records" if one else "forecast" for one in observed]
        shown = [
            f"{name} ({code})"
            for name, code in source[["language_name", names.LANGUAGE]].itertuples(index=False)
        ]
        texts = interval_texts(source, "potential")
    asked = [
        str(label)
        for label in (source["source_label"] if "source_label" in source else source["language"])
    ]
    where = place(asked)
    rows = pd.DataFrame(
        {
            "label": shown,
            "text": texts,
            "mean": source["potential_mean"].astype(float),
            "longitude": where["longitude"],
            "latitude": where["latitude"],
            "seen": seen,
        }
    )
    known = rows[rows["longitude"].notna() & rows["mean"].notna()].copy()
    if len(known) < 2:
        return None
    # The Pacific is at the right.
    west = known["longitude"] < -128.0
    known.loc[west, "longitude"] += 360.0
    missing = len(rows) - len(known)
    note = f" {missing} of {len(rows)} are not on the map: their places are not known." * bool(
        missing
    )
    return Chart(
        "map",
        "Map of languages by potential",
        "Each mark is a language, at one point of where it is spoken; the brighter, the higher its "
        f"potential.{note} Places: WALS and Glottolog; land: Natural Earth.",
        language_map(
            known,
            land(),
            title=axis_label("potential", facts.unit),
            hollow=len(set(seen)) > 1,
        ),
    )


def _place_map(facts: Facts) -> Chart | None:
    """What languages share with those that are spoken near them, where the model says it."""
    parts = facts.tables.get("language_parts")
    if parts is None or not (parts["component"] == "place").any():
        return None
    own = parts[parts["component"] == "place"].reset_index(drop=True)
    where = place(list(own[names.LANGUAGE].astype(str)))
    rows = pd.DataFrame(
        {
            "label": name_and_code(own[names.LANGUAGE], facts.language_names),
            "text": interval_texts(own, "effect"),
            "mean": own["effect_mean"].astype(float),
            "longitude": where["longitude"],
            "latitude": where["latitude"],
            "seen": "with records",
        }
    )
    known = rows[rows["longitude"].notna() & rows["mean"].notna()].copy()
    if len(known) < 2:
        return None
    known.loc[known["longitude"] < -128.0, "longitude"] += 360.0
    return Chart(
        "map_place",
        "Map of languages by the effect of their place",
        "Each mark is a language; the brighter, the more its potential gains from being spoken "
        "where it is: what languages near each other have in common, beside covariates and the "
        "other relations of the model. Places: WALS and Glottolog; land: Natural Earth.",
        language_map(known, land(), title=axis_label("effect", facts.unit), hollow=False),
    )


def _by_model(facts: Facts) -> list[Chooser | Grid | Text]:
    table = facts.tables["model_language"].reset_index(drop=True)
    quantity = "prr_language" if table["prr_language_mean"].notna().any() else "gap"
    known = table[table[f"{quantity}_mean"].notna()].reset_index(drop=True)
    if not len(known):
        return []
    known, cut = _best_models(known)
    shown = name_and_code(known[names.LANGUAGE], facts.language_names)
    models = list(dict.fromkeys(known[names.MODEL].astype(str)))
    languages = list(dict.fromkeys(shown))
    title = {"prr_language": "PRR", "gap": axis_label("gap", facts.unit)}
    prr, gap = (interval_texts(known, one) for one in ("prr_language", "gap"))
    digits = 4
    payload = packed(
        {
            "models": models,
            "languages": languages,
            "model": pd.Categorical(known[names.MODEL].astype(str), models).codes.tolist(),
            "language": pd.Categorical(shown, languages).codes.tolist(),
            "prr": prr,
            "gap": gap,
            "records": known["n_records"].astype(int).tolist(),
            **{
                end: [_number(v, digits) for v in known[f"{quantity}_{end}"].astype(float)]
                for end in ("mean", "lower", "upper")
            },
            "shown": "prr" if quantity == "prr_language" else "gap",
        }
    )
    n_languages = max(known.groupby(names.MODEL, sort=False).size())
    gap_name = axis_label("gap to the potential", facts.unit)
    chooser = Chooser(
        "model-language",
        "Model",
        models,
        f"{title[quantity]} of the selected model, language by language, highest first."
        + (" A PRR of 1 is an average model." if quantity == "prr_language" else "")
        + cut,
        interval_spec(
            _of_first_model(known, shown, quantity, {"prr_language": prr, "gap": gap}[quantity]),
            n=n_languages,
            title=title[quantity],
            what="language",
        ),
        payload,
    )
    columns = [
        labels("model", known[names.MODEL]),
        labels("language", shown),
        Column("PRR", prr, order=known["prr_language_mean"].astype(float).tolist()),
        Column(gap_name, gap, order=known["gap_mean"].astype(float).tolist()),
        counts("records", known["n_records"]),
    ]
    grid = Grid(
        "model-language-table",
        f"{grouped(len(models))} models in {grouped(len(languages))} languages.{cut}",
        tuple(c for c in columns if set(c.cells) - {"-", ""}),
        csv="tables/model_language.csv",
        closed="All models, language by language",
        summary=_extremes(known, shown, quantity, title[quantity]),
    )
    estimated = known["estimated"].astype(str).str.lower() == "true"
    notes = [] if estimated.any() else [Text([_NOT_ESTIMATED])]
    return [*notes, chooser, grid]


def _best_models(table: pd.DataFrame) -> tuple[pd.DataFrame, str]:
    """Rows by model and language that a page has room for, and what to say of the others."""
    if len(table) <= _MOST_CELLS:
        return table, ""
    models = list(dict.fromkeys(table[names.MODEL]))
    kept = models[: max(1, _MOST_CELLS * len(models) // len(table))]
    shown = table[table[names.MODEL].isin(kept)].reset_index(drop=True)
    return shown, f" The best {grouped(len(kept))} of {grouped(len(models))} models."


def _of_first_model(
    known: pd.DataFrame, shown: list[str], quantity: str, texts: list[str]
) -> list[dict[str, Any]]:
    """Rows of the chart before a model is selected, which print without unpacking the others."""
    ends = {end: known[f"{quantity}_{end}"].astype(float) for end in ("mean", "lower", "upper")}
    rows = pd.DataFrame({"label": shown, "text": texts, **ends})
    first = rows[known[names.MODEL] == known[names.MODEL].iloc[0]]
    first = first.sort_values("mean", ascending=False, kind="stable")
    return chart_rows(first.assign(place=range(1, len(first) + 1)))


def _number(value: float, digits: int) -> float | None:
    return None if math.isnan(value) else float(f"{value:.{digits}g}")


def _extremes(known: pd.DataFrame, shown: list[str], quantity: str, title: str) -> Grid:
    """Range of every model, and the languages at both ends."""
    known = known.assign(shown=shown)
    rows = []
    for model, part in known.groupby(names.MODEL, sort=False):
        ordered = part.sort_values(f"{quantity}_mean", ascending=False, kind="stable")
        middle = ordered[f"{quantity}_mean"].astype(float)
        rows.append(
            {
                "model": model,
                "low": middle.min(),
                "median": middle.median(),
                "high": middle.max(),
                "best": ", ".join(ordered["shown"].head(_ENDS)),
                "worst": ", ".join(ordered["shown"].iloc[::-1].head(_ENDS)),
            }
        )
    table = pd.DataFrame(rows)
    texts = {c: value_texts(table[c], 2) for c in ("low", "median", "high")}
    return Grid(
        "model-language-summary",
        f"{title} over languages: {number_text(float(len(known)), 0)} rows in short. The whole "
        "table needs JavaScript, or the CSV file.",
        (
            labels("model", table["model"]),
            *(
                Column(heading, texts[c], order=table[c].tolist())
                for heading, c in (("lowest", "low"), ("median", "median"), ("highest", "high"))
            ),
            Column("highest in", table["best"].tolist(), "label"),
            Column("lowest in", table["worst"].tolist(), "label"),
        ),
    )
