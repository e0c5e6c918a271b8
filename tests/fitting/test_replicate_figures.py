"""Figures of replicate noise: what stands on them, where, and that all of it can be read."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from bayeseval.fitting.report.aggregate_figures import (
    aggregate_ranks_figure,
    aggregates_figure,
    pairwise_figure,
)
from bayeseval.fitting.report.figures import figure_writers
from bayeseval.fitting.report.replicate_figures import (
    cell_sds_figure,
    replicate_figures,
    within_figure,
)
from tests.fitting.test_figures import (
    COMPONENTS,
    RANKS,
    SUBTITLE,
    offsets,
    problems,
    said,
    segments,
    tables_of,
)
from tests.fitting.trees import random_tree

WITHIN = "tables/within_language.csv"
AGGREGATES = "tables/aggregates.csv"
PAIRS = "tables/pairwise_models.csv"
OURS = ["aggregate_ranks", "aggregates", "pairwise", "seed_sds", "within"]
STYLE = {"subtitle": SUBTITLE, "gate_status": "pass"}


@pytest.fixture(scope="module")
def tables() -> dict[str, pd.DataFrame]:
    return tables_of(random_tree(replicates=True))


def drawn(tables: dict[str, pd.DataFrame], gate: str = "pass") -> dict[str, Figure]:
    makers = replicate_figures(tables, subtitle=SUBTITLE, gate_status=gate)
    return {name: make() for name, make in makers.items()}


def test_only_a_fit_with_replicates_has_these_figures(tables: dict[str, pd.DataFrame]) -> None:
    # Test sets have a known sd, so that there is nothing to compare with.
    assert sorted(replicate_figures(tables, **STYLE)) == OURS
    written = figure_writers(tables, **STYLE)
    assert {f"figures/{name}.png" for name in OURS} < set(written)
    without = tables_of(random_tree())
    assert replicate_figures(without, **STYLE) == {}
    assert len(figure_writers(without, **STYLE)) == 4


def test_components_of_single_models_stand_in_a_figure_of_their_own(
    tables: dict[str, pd.DataFrame],
) -> None:
    table = tables[COMPONENTS]
    figure = within_figure(table, **STYLE)
    (axes,) = figure.axes
    own = table[table["model"] != ""]
    assert [label.get_text() for label in axes.get_yticklabels()] == [
        f"model-{i}" for i in range(4)
    ]
    for kind in ("between", "between_population", "seed", "boot", "within"):
        rows = own[own["component"] == kind]
        np.testing.assert_array_equal(offsets(figure, f"points {kind}")[:, 0], rows["sd_mean"])
        # Each point within its own model's row.
        assert np.round(offsets(figure, f"points {kind}")[:, 1]).tolist() == [0, 1, 2, 3]
    seed = own[own["component"] == "seed"]
    np.testing.assert_array_equal(
        segments(figure, "bars seed")[:, :2], seed[["sd_lower", "sd_upper"]]
    )
    assert axes.get_xscale() == "log"
    text = said(figure)
    assert "taken as given (test sets)" in text
    assert "seed x test set" not in text


def test_captions_name_prompts_where_the_table_has_them(tables: dict[str, pd.DataFrame]) -> None:
    components = tables[COMPONENTS].replace({"component": {"boot": "judge"}})
    text = said(within_figure(components, **STYLE))
    assert "Seeds and judges: root mean square over the model's cells." in text
    assert "One run is one seed on one test set, scored by one judge." in text
    given = tables | {COMPONENTS: tables[COMPONENTS].replace({"component": {"seed": "prompt"}})}
    text = said(replicate_figures(given, **STYLE)["aggregate_ranks"]())
    assert "scores of one run, that is one seed on one test set with one prompt; bottom" in text


def test_an_sd_of_zero_is_named_not_drawn(tables: dict[str, pd.DataFrame]) -> None:
    table = tables[COMPONENTS].copy()
    table.loc[(table["component"] == "boot") & (table["model"] == "model-2"), "sd_mean"] = 0.0
    figure = within_figure(table, **STYLE)
    assert len(offsets(figure, "points boot")) == 3
    assert "Not reported and therefore not shown: boot of model-2." in said(figure)


def test_cells_lie_at_their_raw_and_posterior_sd(tables: dict[str, pd.DataFrame]) -> None:
    table = tables[WITHIN]
    figure = cell_sds_figure(table, source="seed", **STYLE)
    for axes, model in zip(figure.axes, (f"model-{i}" for i in range(4)), strict=True):
        own = table[table["model"] == model]
        np.testing.assert_array_equal(
            offsets(figure, f"points {model}"), own[["seed_sd_raw", "seed_sd_mean"]]
        )
        assert axes.get_title(loc="left") == model
        assert axes.get_xlim() == axes.get_ylim()
        # Dotted: the geometric mean of the posterior means.
        (level,) = (line.get_ydata()[0] for line in axes.lines if line.get_linestyle() == ":")
        assert np.log(level) == pytest.approx(np.log(own["seed_sd_mean"]).mean(), rel=1e-12)
    assert "raw sd 0" not in said(figure)


def test_replicates_without_spread_lie_on_the_edge(tables: dict[str, pd.DataFrame]) -> None:
    table = tables[WITHIN].copy()
    first = table.index[table["model"] == "model-1"][0]
    table.loc[first, "seed_sd_raw"] = 0.0
    figure = cell_sds_figure(table, source="seed", **STYLE)
    x = offsets(figure, "points model-1")[0, 0]
    assert x == figure.axes[1].get_xlim()[0] > 0.0
    assert "raw sd 0) lie on the left edge: 1." in said(figure)


def test_aggregates_are_told_apart(tables: dict[str, pd.DataFrame]) -> None:
    table = tables[AGGREGATES]
    figure = aggregates_figure(table, **STYLE)
    order = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    fixed = table.query("aggregate == 'arithmetic_mean' and population == 'fixed'")
    means = fixed[fixed["of"] == "expected"].set_index("model")["value_mean"]
    assert order == list(means.sort_values(ascending=False).index)
    for (kind, population, of), rows in table.groupby(["aggregate", "population", "of"]):
        points = offsets(figure, f"points {kind} {population} {of}")
        expected = rows.set_index("model")["value_mean"]
        at = {order[round(y)]: x for x, y in points}
        assert at == expected.to_dict()
    assert "variants" not in said(figure)


def test_aggregates_that_do_not_exist_are_named() -> None:
    table = tables_of(random_tree(replicates=True))[AGGREGATES].copy()
    lost = (table["aggregate"] == "geometric_mean") & (table["model"] == "model-1")
    table.loc[lost, [c for c in table if c.startswith("value_")]] = np.nan
    text = said(aggregates_figure(table, **STYLE))
    assert "not shown: geometric mean of model-1." in text
    assert "median of" not in text


def test_ranks_by_aggregate(tables: dict[str, pd.DataFrame]) -> None:
    figure = aggregate_ranks_figure(tables[RANKS], tables[AGGREGATES], **STYLE)
    assert len(figure.axes) == 9
    places = ("arithmetic_mean", "geometric_mean", "median", "arithmetic_mean_run")
    for axes, quantity in zip(figure.axes, places, strict=False):
        long = tables[RANKS][tables[RANKS]["quantity"] == quantity]
        wide = long.pivot(index="level", columns="rank", values="probability")
        shown = [label.get_text() for label in axes.get_yticklabels()]
        np.testing.assert_array_equal(np.asarray(axes.images[0].get_array()), wide.loc[shown])
    bottom = figure.axes[6].get_title(loc="left")
    assert bottom == "Arithmetic mean,\nnew languages"


def test_no_panel_of_an_aggregate_that_no_model_has() -> None:
    tables = tables_of(random_tree(replicates=True, intercept=0.0), "pass")
    reason = (
        "The geometric mean is left out: some scores are negative, and a geometric mean needs "
        "scores above 0."
    )
    for figure, n_panels in (
        (aggregates_figure(tables[AGGREGATES], **STYLE), 3),
        (aggregate_ranks_figure(tables[RANKS], tables[AGGREGATES], **STYLE), 6),
        (pairwise_figure(tables[PAIRS], tables[AGGREGATES], **STYLE), 2),
    ):
        # The key of the first figure has axes of its own.
        assert len(figure.axes) == n_panels
        assert reason in " ".join(said(figure).split())
        assert not any("Geometric" in axes.get_title(loc="left") for axes in figure.axes)


def test_pairs_are_complementary_and_the_diagonal_is_empty(
    tables: dict[str, pd.DataFrame],
) -> None:
    figure = pairwise_figure(tables[PAIRS], tables[AGGREGATES], **STYLE)
    labels = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    order = [label.split("  ")[0] for label in labels]
    assert [label.split("  ")[1] for label in labels] == ["1", "2", "3", "4"]
    for axes, kind in zip(
        figure.axes, ("arithmetic_mean", "geometric_mean", "median"), strict=True
    ):
        shown = np.ma.filled(np.ma.asarray(axes.images[0].get_array(), dtype=float), np.nan)
        assert np.isnan(np.diag(shown)).all()
        rows = tables[PAIRS][tables[PAIRS]["quantity"] == kind]
        assert len(rows) == 6
        for a, b, p in rows[["model_a", "model_b", "p_a_better"]].itertuples(index=False):
            assert shown[order.index(a), order.index(b)] == p
            assert shown[order.index(b), order.index(a)] == 1.0 - p


CASES: dict[str, dict[str, object]] = {
    "two of everything": {"n_languages": 2, "n_models": 2, "n_tasks": 2},
    "61 languages": {"n_languages": 61, "n_models": 6, "n_tasks": 1},
    "30 models": {"n_languages": 3, "n_models": 30, "n_tasks": 1, "draws": 5},
    "one draw": {"chains": 1, "draws": 1},
    "no geometric mean": {"intercept": 0.0},
    "long names": {
        "models": tuple(f"organisation/Family-Name-{i}B-instruct-preview-v0.3" for i in range(5)),
    },
    "odd names": {"models": ("a$b$", "x_{1}", "$\\frac{1}{2}$", "%d", "back\\slash")},
}


@pytest.mark.parametrize(
    ("case", "gate"), [*((case, "pass") for case in CASES), ("61 languages", "fail")]
)
def test_every_text_can_be_read(case: str, gate: str) -> None:
    figures = drawn(tables_of(random_tree(replicates=True, **CASES[case]), gate), gate)
    # A point estimate has no interval to compare a raw sd with.
    assert sorted(figures) == [name for name in OURS if case != "one draw" or name != "seed_sds"]
    for name, figure in figures.items():
        assert problems(figure) == [], name
        assert ("Convergence gate failed" in said(figure)) is (gate == "fail")


def test_point_estimates_say_so() -> None:
    figures = drawn(tables_of(random_tree(replicates=True, chains=1, draws=1), "not applicable"))
    for name in ("within", "aggregates"):
        assert "this engine gives no intervals" in said(figures[name]), name
    assert "there are no probabilities" in said(figures["aggregate_ranks"])
