"""The part of the report on models: ranking, evenness, rank probabilities, pairs."""

from __future__ import annotations

from typing import Final

import numpy as np
import pandas as pd

from bayeseval import names
from bayeseval.fitting.report.evenness import evenness_sentences, notes_on_gaps, without_evenness
from bayeseval.fitting.report.model_tables import lowest_gaps
from bayeseval.output.language_names import name_and_code
from bayeseval.output.numbers import (
    NONE,
    axis_label,
    interval_texts,
    probability_text,
    rank_range_texts,
)
from bayeseval.reporting.blocks import Section, Text
from bayeseval.reporting.charts import Chart, heat_map
from bayeseval.reporting.grid import (
    Column,
    Grid,
    counts,
    intervals,
    labels,
    percents,
    probabilities,
    ranks,
    values,
)
from bayeseval.reporting.planes import plane
from bayeseval.reporting.summary import Facts, model_sentences

__all__ = ["models_section"]

_GAPS: Final = "sd of gaps"
_GAP_THERE: Final = "gap there"
_EQUAL_GAPS: Final = (
    " CV-PRR, equal gaps: what CV-PRR would be with the same gap in every language."
)
# Pairs of more models are a table that nobody reads; the CSV has them.
_MOST_MODELS: Final = 150


def models_section(facts: Facts) -> Section:
    """Everything about models."""
    ranking = facts.tables["model_ranking"].reset_index(drop=True)
    # Who is ahead stands at the top of the page.
    blocks: list[Grid | Chart | Text] = [_ranking(facts, ranking), Text(model_sentences(facts))]
    if facts.observed is not None and facts.observed.prr_note:
        blocks.append(Text([f"PRR is not reported: {facts.observed.prr_note}."]))
    if len(ranking) > 1:
        blocks += _evenness(facts, ranking)
    if facts.has("rank_probabilities") and len(ranking) > 1:
        blocks += _rank_probabilities(facts, ranking)
    if facts.has("pairwise_models") and not facts.point_estimate:
        blocks += _pairs(facts, ranking)
    if facts.has("model_disparity"):
        blocks += _description(facts)
    return Section("models", "Models", blocks)


def _ranking(facts: Facts, ranking: pd.DataFrame) -> Grid:
    tiers = ranking["tier"].astype(float)
    columns = [
        labels("model", ranking[names.MODEL]),
        intervals("score", ranking, "score", note=facts.unit),
        intervals("PRR", ranking, "prr", note="1 is average"),
        ranks("rank", ranking, "rank", note="of it alone"),
        _joint(ranking),
        counts("tier", tiers),
        probabilities("P(best)", ranking["p_best"].astype(float)),
    ]
    columns += [
        percents("predicted", ranking["share_predicted"].astype(float), note="not measured"),
        counts("records", ranking["n_records"].astype(float)),
    ]
    return Grid(
        "ranking",
        "Models by expected score, all on the same language-task pairs. Bars: mean and interval, "
        "all on one scale. "
        + (
            "PRR: score divided by the mean potential of the same pairs. "
            if ranking["prr_mean"].notna().any()
            else ""
        )
        + "Ranks are medians with the interval of this model alone, 1 is best; joint ranks are "
        "intervals that contain the ranks of all models at once.",
        _known(columns),
        csv="tables/model_ranking.csv",
    )


def _known(columns: list[Column]) -> tuple[Column, ...]:
    """Columns that hold something, as ranks of a point estimate do not."""
    return tuple(column for column in columns if set(column.cells) - {NONE, ""})


def _joint(ranking: pd.DataFrame) -> Column:
    bounds = ranking[["rank_set_lower", "rank_set_upper"]].to_numpy(dtype=float)
    return Column(
        "joint ranks",
        [text.replace("-", "–") if "-" in text[1:] else text for text in rank_range_texts(bounds)],
        order=bounds[:, 0].tolist(),
        note="of all at once",
    )


def _evenness_grid(facts: Facts, ranking: pd.DataFrame) -> Grid:
    worst = ranking["worst_language"].fillna("").astype(str)
    named = [one or NONE for one in name_and_code(worst, facts.language_names)]
    columns = [
        labels("model", ranking[names.MODEL]),
        intervals(_GAPS, ranking, "gap_sd_languages", note=facts.unit),
        ranks("rank", ranking, "gap_sd_rank", note="1 is most even"),
        values("CV-PRR", ranking["cv_prr_languages_mean"].astype(float), 2),
        values("CV-PRR, equal gaps", ranking["cv_prr_constant_gap"].astype(float), 2),
        Column("lowest gap in", named, "label"),
    ]
    if facts.has("model_language"):
        there = lowest_gaps(ranking, facts.tables["model_language"])
        columns.append(intervals(_GAP_THERE, there, "gap", bars=False, note=facts.unit))
    kept = _known(columns)
    return Grid(
        "evenness",
        "Evenness of models over languages, in the order of the ranking. sd of gaps: sd over "
        "languages of a model's gaps, its mean score in a language less the language potential; "
        "0 is even. Lowest gap in: the language with the lowest posterior mean gap; the "
        "lowest true gap may be in another one."
        + (_EQUAL_GAPS if ranking["cv_prr_constant_gap"].notna().any() else ""),
        kept,
        csv="tables/model_ranking.csv",
        further_csv="tables/model_language.csv" if kept[-1].name == _GAP_THERE else "",
    )


def _evenness(facts: Facts, ranking: pd.DataFrame) -> list[Grid | Chart | Text]:
    constant = facts.observed.constant if facts.observed else ()
    notes = notes_on_gaps(facts.run)
    known = ranking[ranking["gap_sd_languages_mean"].notna() & ranking["prr_mean"].notna()]
    if not len(known):
        if ranking["gap_sd_languages_mean"].notna().any():
            gaps = interval_texts(ranking, "gap_sd_languages")
            sentences = evenness_sentences(
                ranking,
                facts.tables["pairwise_models"],
                called=gaps,
                constant=constant,
                notes=notes,
            )
            return [_evenness_grid(facts, ranking), Text(sentences)]
        chosen = bool(facts.run.get("model_reasons"))
        reason = without_evenness(facts.run.get("levels") or {}, chosen=chosen)
        return [Text([reason, *notes])]
    gaps = interval_texts(known, "gap_sd_languages")
    pairs = facts.tables["pairwise_models"]
    title = axis_label("sd of gaps over languages", facts.unit)
    chart = Chart(
        "plane",
        "Models: performance (PRR) against evenness over languages",
        "Performance against evenness. To the right: higher scores. Further down: a model's gap "
        "to the language potential is more alike in all languages. Lines are intervals; the "
        "numbers are in the columns PRR and sd of gaps of the tables above. A name that would "
        "cover another one is left out: select the point to see it.",
        plane(
            known,
            "prr",
            "gap_sd_languages",
            {"x": interval_texts(known, "prr"), "y": gaps},
            ("PRR", title),
        ),
    )
    return [
        _evenness_grid(facts, ranking),
        chart,
        Text(evenness_sentences(known, pairs, called=gaps, constant=constant, notes=notes)),
    ]


def _rank_probabilities(facts: Facts, ranking: pd.DataFrame) -> list[Chart | Grid]:
    table = facts.tables["rank_probabilities"]
    own = table[table["quantity"] == names.STANDARDISED_SCORE]
    if not len(own) or own["probability"].isna().all():
        return []
    matrix = own.pivot_table(index="level", columns="rank", values="probability", sort=False)
    matrix = matrix.reindex([str(model) for model in ranking[names.MODEL]])
    matrix = matrix[sorted(matrix.columns)].dropna(how="all")
    matrix.columns = pd.Index([f"{rank:.0f}" for rank in matrix.columns])
    texts = matrix.map(probability_text)
    highest = max(0.05, float(np.nan_to_num(matrix.to_numpy(dtype=float)).max()))
    top = 1.0 if len(matrix) <= 20 else highest
    chart = Chart(
        "rank-probabilities",
        "Probability of every rank of every model",
        "Probability of each rank by expected score, 1 is best. The stronger the colour, the "
        "likelier.",
        heat_map(matrix, columns="rank", value="probability", texts=texts, top=top),
    )
    grid = Grid(
        "rank-probabilities-table",
        "Probability of each rank.",
        (
            labels("model", matrix.index),
            *(probabilities(str(rank), matrix[rank]) for rank in matrix.columns),
        ),
        csv="tables/rank_probabilities.csv",
        closed="Rank probabilities as a table",
    )
    return [chart, grid]


def _pairs(facts: Facts, ranking: pd.DataFrame) -> list[Chart | Grid]:
    table = facts.tables["pairwise_models"]
    own = table[table["quantity"] == names.STANDARDISED_SCORE]
    order = [str(model) for model in ranking[names.MODEL]]
    if len(order) > _MOST_MODELS or len(order) < 2 or own["p_a_better"].isna().all():
        return []
    place = {model: i for i, model in enumerate(order)}
    p_better = np.full((len(order), len(order)), np.nan)
    for a, b, p in own[["model_a", "model_b", "p_a_better"]].itertuples(index=False):
        i, j = place[str(a)], place[str(b)]
        p_better[i, j], p_better[j, i] = float(p), 1.0 - float(p)
    matrix = pd.DataFrame(p_better, index=order, columns=order)
    texts = matrix.map(probability_text)
    chart = Chart(
        "pairs",
        "Probability that one model is better than another",
        "Probability that the model of the row has a higher expected score than the model of the "
        "column.",
        heat_map(
            matrix,
            columns="compared with",
            value="P(row is better)",
            texts=texts,
            diverging=True,
        ),
    )
    grid = Grid(
        "pairs-table",
        "Probability that the model of the row is better than the model of the column.",
        (
            labels("model", order),
            *(
                Column(name, list(texts[name]), order=matrix[name].tolist(), heading="label")
                for name in order
            ),
        ),
        csv="tables/pairwise_models.csv",
        closed="Pairs of models as a table",
    )
    return [chart, grid]


def _description(facts: Facts) -> list[Grid | Chart]:
    table = facts.tables["model_disparity"].reset_index(drop=True)
    if table["mean_prr_mean"].isna().all():
        # No model has one where potentials are not positive.
        return []
    columns = [
        labels("model", table[names.MODEL]),
        intervals("Mean-PRR", table, "mean_prr"),
        intervals("Std-PRR", table, "std_prr"),
        intervals("CV-PRR", table, "cv_prr"),
        counts("records", table["n_records"].astype(float)),
        Column("note", ["" if pd.isna(n) else str(n) for n in table.get("note", [])], "text"),
    ]
    blocks: list[Grid | Chart] = []
    exact = (
        "Its intervals hold the uncertainty of potentials only, and take scores as exact: those of "
        "equal models often do not overlap."
    )
    known = table[table["mean_prr_mean"].notna() & table["cv_prr_mean"].notna()]
    own = facts.tables["model_ranking"]["gap_sd_languages_mean"].isna().all()
    if own and len(known) > 1:
        texts = {"x": interval_texts(known, "mean_prr"), "y": interval_texts(known, "cv_prr")}
        blocks.append(
            Chart(
                "plane",
                "Published description of models: Mean-PRR against CV-PRR",
                "The published description, each model on the pairs that it was tested on: to the "
                "right higher scores. CV-PRR is no estimate of evenness here: the model has no "
                "model:language term. Models tested on different pairs cannot be ranked by it. "
                + exact,
                plane(known, "mean_prr", "cv_prr", texts, ("Mean-PRR", "CV-PRR")),
            )
        )
    grid = Grid(
        "description",
        "The published description: scores divided by language potential, each model on the "
        f"pairs that it was tested on; no ranks. {exact}",
        _known([c for c in columns if c.name != "note" or any(c.cells)]),
        csv="tables/model_disparity.csv",
        closed="Published description (Mean-PRR, Std-PRR, CV-PRR)",
    )
    return [*blocks, grid]
