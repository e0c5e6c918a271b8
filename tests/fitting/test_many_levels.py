"""Figures of many levels: all of them drawn, one colour scale, bars in sight; captions."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bayeseval.checks.figure import checks_figure
from bayeseval.comparison.figure import comparison_figure
from bayeseval.fitting.report import run_data
from bayeseval.fitting.report.figures import disparity_figure, result_figures
from bayeseval.fitting.report.model_figures import models_figure, ranks_figure
from bayeseval.fitting.report.potential_figure import potential_figure
from bayeseval.fitting.report.replicate_figures import replicate_figures
from bayeseval.fitting.report.tables import result_tables
from bayeseval.leaving_out.report import sensitivity_figure
from bayeseval.mexa.report import alignment_figure
from tests.fitting.test_figures import calibration_tables
from tests.fitting.trees import random_tree

DATA = "Data: mini, 30 models, 3 languages, 1 task, 85 records."
COMMON = {"subtitle": "S", "gate_status": "pass"}
RANKING, RANKS = "tables/model_ranking.csv", "tables/rank_probabilities.csv"


@pytest.fixture(scope="module")
def tables() -> dict[str, pd.DataFrame]:
    """Of 30 models, with replicates."""
    tree = random_tree(n_models=30, n_languages=3, n_tasks=1, replicates=True)
    return result_tables(tree, gate_status="pass")


def row_labels(axes: Axes) -> list[str]:
    return [label.get_text() for label in axes.get_yticklabels()]


def caption(figure: Figure) -> str:
    return " ".join(text.get_text() for text in figure.texts)


def test_a_caption_says_how_large_the_table_is() -> None:
    levels = {"model": 30, "language": 3, "task": 1}
    assert run_data({"benchmark": "mini", "levels": levels, "n_records": 85}) == DATA
    # Results of early versions.
    assert run_data({"benchmark": "mini"}) == "Data: mini."


def test_every_figure_of_a_folder_says_it(tables: dict[str, pd.DataFrame]) -> None:
    figures = result_figures(tables, **COMMON, data=DATA, description=True)
    assert {"potential", "models", "components", "ranks", "disparity", "within"} <= set(figures)
    for make in figures.values():
        assert caption(make()).endswith(DATA)
    checks = checks_figure(calibration_tables(4), **COMMON, data=DATA)
    assert caption(checks).endswith(DATA)


def test_the_panels_of_a_figure_of_ranks_have_one_colour_scale(
    tables: dict[str, pd.DataFrame],
) -> None:
    evenness = {"mean": 1.0, "median": 1.0, "lower": 1.0, "upper": 2.0}
    ranking = tables[RANKING].assign(**{f"gap_sd_rank_{k}": v for k, v in evenness.items()})
    probabilities = tables[RANKS]
    score = probabilities[probabilities["quantity"] == "standardised_score"]
    # Ranks by evenness are certain, those by score are not.
    gaps = score.assign(quantity="gap_sd_languages", probability=1.0 * (score["rank"] == 1))
    everything = pd.concat([score, gaps], ignore_index=True)
    assert score["probability"].max() < 1.0
    figure = ranks_figure(everything, ranking, **COMMON)
    left, right, bar = figure.axes
    assert left.images[0].norm.vmax == right.images[0].norm.vmax == 1.0
    assert bar.get_ylim() == (0.0, 1.0)
    assert "the colour bar holds for the whole figure" in caption(figure)


def test_ranks_by_evenness_are_drawn_where_they_tell_models_apart(
    tables: dict[str, pd.DataFrame],
) -> None:
    score = tables[RANKS][tables[RANKS]["quantity"] == "standardised_score"]
    both = pd.concat([score, score.assign(quantity="gap_sd_languages")], ignore_index=True)
    drawn = {}
    # Of 30 models: an interval that covers 15 ranks of one of them, or none.
    for lower in (1.0, 2.0):
        evenness = {"mean": 8.0, "median": 8.0, "lower": 1.0, "upper": 16.0}
        ranking = tables[RANKING].assign(**{f"gap_sd_rank_{k}": v for k, v in evenness.items()})
        ranking.loc[3, "gap_sd_rank_lower"] = lower
        drawn[lower] = ranks_figure(both, ranking, **COMMON)
    heading = [axes.get_title(loc="left") for axes in drawn[2.0].axes]
    assert heading == ["Expected score", "Evenness", ""]
    assert [axes.get_title(loc="left") for axes in drawn[1.0].axes] == ["Expected score", ""]
    assert "Ranks by evenness are not drawn" in caption(drawn[1.0])
    assert "Ranks by evenness are not drawn" not in caption(drawn[2.0])


def test_ranks_of_many_models_with_long_names_fit_a_page() -> None:
    n = 120
    models = [f"organisation-{i:03d}/a-model-with-a-long-name-{i:03d}-instruct" for i in range(n)]
    ranks = pd.DataFrame({"level": models, "rank": range(1, n + 1), "probability": 1.0})
    both = [ranks.assign(quantity=q) for q in ("standardised_score", "gap_sd_languages")]
    place = np.arange(1.0, n + 1.0)
    ranking = pd.DataFrame({"model": models, "ci_prob": 0.95})
    for rank in ("rank", "gap_sd_rank"):
        for part in ("mean", "median", "lower", "upper"):
            ranking[f"{rank}_{part}"] = place
    ranking["score_mean"], ranking["gap_sd_languages_mean"] = -place, place
    figure = ranks_figure(pd.concat(both), ranking, **COMMON)
    left, right, _ = figure.axes
    assert figure.get_size_inches()[0] < 21.0
    assert len(row_labels(left)) == len(row_labels(right)) == n
    assert len(set(row_labels(left))) == n


def test_nine_panels_of_ranks_have_one_colour_scale(tables: dict[str, pd.DataFrame]) -> None:
    figure = replicate_figures(tables, **COMMON)["aggregate_ranks"]()
    *panels, bar = figure.axes
    assert len(panels) == 9
    assert len({axes.images[0].norm.vmax for axes in panels}) == 1
    assert bar.get_ylabel() == "Probability of the rank"


def test_of_more_models_than_fit_the_best_are_drawn_and_counted(
    tables: dict[str, pd.DataFrame], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bayeseval.fitting.report.replicate_figures._MOST", 10)
    figures = {name: make() for name, make in replicate_figures(tables, **COMMON).items()}
    aggregates = tables["tables/aggregates.csv"]
    own = aggregates.query(
        "aggregate == 'arithmetic_mean' and population == 'fixed' and of == 'expected'"
    )
    best = list(own.sort_values("value_mean", ascending=False)["model"].head(10))
    assert row_labels(figures["aggregates"].axes[0]) == best
    assert sorted(row_labels(figures["within"].axes[0])) == sorted(best)
    assert {axes.get_title(loc="left") for axes in figures["seed_sds"].axes} - {""} == set(best)
    assert figures["pairwise"].axes[0].images[0].get_array().shape == (10, 10)
    ranks = figures["aggregate_ranks"].axes[0].images[0].get_array()
    assert ranks.shape[0] == 10
    # No rank is cut off that one of them may have.
    np.testing.assert_allclose(ranks.sum(axis=1), 1.0)
    for figure in figures.values():
        assert "Of 30 models, the 10 with the highest arithmetic mean are drawn" in caption(figure)


def test_the_models_farthest_from_the_middle_are_numbered(
    tables: dict[str, pd.DataFrame], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bayeseval.fitting.report.figures._MOST_POINTS", 3)
    table = tables["tables/model_disparity.csv"].copy()
    rows = table.index[table["support"] == "observed"]
    table.loc[rows[[4, 9, 20]], ["mean_prr_mean", "cv_prr_mean"]] = 9.0
    figure = disparity_figure(table, **COMMON)
    (key,) = (text.get_text() for text in figure.axes[1].texts)
    assert key.split() == [
        word for i, row in enumerate(rows[[4, 9, 20]]) for word in (f"{i + 1}", table["model"][row])
    ]
    assert {"1", "2", "3"} == {t.get_text() for t in figure.axes[0].texts if t.get_text().isdigit()}
    assert "Numbered: the 3 of 30 models that lie farthest" in caption(figure)


def test_pairs_of_many_models_have_a_colour_bar(tables: dict[str, pd.DataFrame]) -> None:
    *_, bar = replicate_figures(tables, **COMMON)["pairwise"]().axes
    assert bar.get_ylabel() == "P(row better than column)"
    assert bar.get_ylim() == (0.0, 1.0)
    assert row_labels(bar) == ["0 %", "25 %", "50 %", "75 %", "100 %"]


def bars_and_points(figure: Figure, bars: str, points: str) -> tuple[float, float, float]:
    """Layers of bars and of points, and the area of the largest point."""
    found = {artist.get_gid(): artist for artist in figure.axes[0].collections}
    return (
        found[bars].get_zorder(),
        found[points].get_zorder(),
        max(found[points].get_sizes()),
    )


def test_bars_are_seen_on_the_points_of_many_rows(tables: dict[str, pd.DataFrame]) -> None:
    areas = []
    for n in (5, 50, 200):
        potential = result_tables(
            random_tree(n_languages=n, n_models=2, n_tasks=1), gate_status="pass"
        )["tables/language_potential.csv"]
        figure = potential_figure(potential, **COMMON)
        bar, point, area = bars_and_points(figure, "bars potential", "points")
        assert bar > point
        areas.append(area)
    assert areas == [85.0, 50.0, 21.0]
    figure = models_figure(tables[RANKING], **COMMON)
    bar, point, _ = bars_and_points(figure, "bars score", "points score")
    assert bar > point


@pytest.mark.parametrize(("n", "columns"), [(5, 1), (70, 1), (200, 3)])
def test_alignment_of_all_languages_is_drawn(n: int, columns: int) -> None:
    labels = [f"x{i:03d}" for i in range(n)]
    tidy = pd.DataFrame(
        {"language": label, "layer": layer, "alignment": 0.5, "n": 10}
        for label in labels
        for layer in range(3)
    )
    pooled = pd.DataFrame(
        {
            "language": labels,
            "alignment": np.linspace(1.0, 0.0, n),
            "model": "m",
            "embedding": "last",
            "pooling": "mean",
        }
    )
    *panels, bar = alignment_figure(tidy, pooled).axes
    assert len(panels) == columns
    assert [label for axes in panels for label in row_labels(axes)] == labels
    assert sum(axes.images[0].get_array().shape[0] for axes in panels) == n
    assert bar.get_ylabel() == "Alignment"
    assert f"Data: {n} languages, 10 parallel sentences each." in caption(panels[0].figure)


def ranks_of(n_languages: int, n_models: int) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Ranks of all records, and one refit that moves each level by one rank."""
    parts = [
        pd.DataFrame({"quantity": quantity, "level": [f"{letter}{i:03d}" for i in range(n)]})
        .reset_index()
        .rename(columns={"index": "median"})
        for quantity, letter, n in (
            ("language_potential", "l", n_languages),
            ("standardised_score", "m", n_models),
            ("gap_sd_languages", "m", n_models),
        )
    ]
    ranks = pd.concat(parts, ignore_index=True)
    ranks["median"] += 1.0
    ranks["lower"], ranks["upper"] = ranks["median"] - 2.0, ranks["median"] + 2.0
    moves = ranks[["quantity", "level"]].assign(
        median_before=ranks["median"], median_after=ranks["median"] + 1.0
    )
    table = pd.DataFrame({"without": ["task t"], "status": ["fitted"]})
    return ranks, moves, table


@pytest.mark.parametrize(
    ("n_languages", "n_models", "sizes"),
    [
        (5, 4, [5, 4, 4]),
        (50, 20, [50, 20, 20]),
        (200, 60, [67, 67, 66, 60, 60]),
        (300, 4, [80, 80, 80, 4, 4]),
        (5, 200, [5, 80, 80]),
    ],
)
def test_sensitivity_of_many_levels_stands_in_columns(
    n_languages: int, n_models: int, sizes: list[int]
) -> None:
    ranks, moves, table = ranks_of(n_languages, n_models)
    figure = sensitivity_figure(ranks, moves, table, **COMMON, data=DATA)
    assert [len(row_labels(axes)) for axes in figure.axes] == sizes
    assert caption(figure).endswith(DATA)
    assert ("First and last 120 of 300 languages" in caption(figure)) == (n_languages == 300)
    assert ("First and last 40 of 200 models" in caption(figure)) == (n_models == 200)
    n_columns = sum("anguage" in axes.get_title(loc="left") for axes in figure.axes[:-2])
    assert ("Each column has its own range of ranks" in caption(figure)) == (n_columns > 1)
    for axes in figure.axes:
        found = {artist.get_gid(): artist for artist in axes.collections}
        points, refits = (found[gid].get_offsets().data for gid in ("points", "refits"))
        np.testing.assert_allclose(refits - points, np.tile([1.0, 0.0], (len(points), 1)))
        # In sight also where a refit does not move the rank.
        assert found["refits"].get_zorder() > found["points"].get_zorder()
    # Rows are about as high in all columns.
    figure.draw_without_rendering()
    heights = [axes.get_window_extent().height / len(row_labels(axes)) for axes in figure.axes]
    assert max(heights) < 2.1 * min(heights)
    # Inches of a page that can be looked at.
    assert max(figure.get_size_inches()) < 28.0


@pytest.mark.parametrize("n", [5, 50, 200])
def test_a_comparison_of_many_models_is_no_strip(n: int) -> None:
    specs = [f"interaction with a name of {i} that is rather long" for i in range(n)]
    elpd = -2.5 * np.arange(float(n))
    table = pd.DataFrame({"spec": specs, "elpd_diff": elpd, "diff_se": 1.0, "n_bad_k": 0})
    moves = pd.DataFrame({"spec": specs[1:], "kendall": 0.5, "against": specs[0]})
    figure = comparison_figure(
        table, moves.assign(quantity="language_potential"), by="record", **COMMON, data=DATA
    )
    left, right = figure.axes
    assert len(row_labels(left)) == len(set(row_labels(left))) == min(n, 80)
    assert len(right.collections[0].get_offsets()) == min(n, 80) - 1
    assert figure.get_size_inches()[1] < 20.0
    assert ("The best 80 of 200 models" in caption(figure)) == (n == 200)
    # Labels of the two axes stand apart, however long the name of the best model is.
    figure.draw_without_rendering()
    first, second = (axes.xaxis.label.get_window_extent() for axes in (left, right))
    assert first.x1 < second.x0
    assert second.x1 < figure.bbox.x1
    assert f"with those of {specs[0]}" in caption(figure)
