"""Tables of replicate noise: their rows, labels and numbers, from a tree with known draws."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from bayeseval.estimands import (
    aggregates_table,
    derive,
    model_components_table,
    pairwise_table,
    within_language_table,
)
from bayeseval.estimands.within import has_replicates
from tests.estimands.trees import COMPLETE, edit, make_tree


@pytest.fixture(scope="module")
def tree() -> xr.DataTree:
    bare = make_tree(COMPLETE, se=True)
    bare = edit(bare, group="constant_data", se_sd=bare["constant_data"]["se"])
    assert not has_replicates(bare)
    additions, cells = derive(bare, seed=0)
    groups = {key: child.to_dataset() for key, child in bare.children.items()}
    groups["posterior"] = groups["posterior"].merge(additions)
    return xr.DataTree.from_dict(groups | {"estimands": cells})


def test_components_add_up(tree: xr.DataTree) -> None:
    assert has_replicates(tree)
    table = model_components_table(tree).set_index(["model", "component"])
    se = tree["constant_data"]["se"].values
    model = tree["constant_data"]["model_index"].values
    for i, name in enumerate(("m1", "m2", "m3")):
        within = np.sqrt((se[model == i] ** 2).mean())
        for component in ("given_se", "within"):
            assert table.loc[(name, component), "sd_mean"] == pytest.approx(within, rel=1e-12)
        shares = table.loc[name]["share_mean"][["between", "within"]]
        assert shares.sum() == pytest.approx(1.0, rel=1e-9)
        assert ("seed") not in table.loc[name].index
    assert set(table["ci_prob"]) == {0.95}
    assert set(model_components_table(tree, ci_prob=0.8)["ci_prob"]) == {0.8}


def test_cells_have_their_scores_and_errors(tree: xr.DataTree) -> None:
    table = within_language_table(tree)
    assert len(table) == len(COMPLETE)
    rows = table.set_index(["language", "task", "model"])
    score, se = tree["observed_data"]["score"].values, tree["constant_data"]["se"].values
    means = tree["estimands"]["cell_mean"].mean(("chain", "draw")).values
    for i, key in enumerate(COMPLETE):
        assert rows.loc[key, "score"] == pytest.approx(score[i])
        assert rows.loc[key, "se_sd_mean"] == pytest.approx(se[i])
        assert rows.loc[key, "cell_mean"] == pytest.approx(means[i])
        assert rows.loc[key, "score_se_mean"] == pytest.approx(se[i])
    # Without seeds nothing is counted twice.
    assert set(rows["note"]) == {""}


def test_aggregates_have_one_row_each_and_the_best_first(tree: xr.DataTree) -> None:
    table = aggregates_table(tree)
    keys = ["aggregate", "population", "of"]
    assert len(table) == 3 * 3 * 2 * 3
    for _, part in table.groupby(keys):
        assert sorted(part["model"]) == ["m1", "m2", "m3"]
        assert part["value_mean"].is_monotonic_decreasing
        assert part["p_best"].sum() == pytest.approx(1.0)
        assert part["rank_mean"].sum() == pytest.approx(6.0)
    draws = tree["posterior"]["median"].values.reshape(-1, 3)
    own = table[(table[keys] == ["median", "fixed", "expected"]).all(axis=1)].set_index("model")
    best = (draws == draws.max(axis=1, keepdims=True)).mean(axis=0)
    assert own.loc[["m1", "m2", "m3"], "p_best"].to_numpy() == pytest.approx(best)
    scores = tree["estimands"]["language_score"].values.reshape(-1, 3, 3)
    assert draws == pytest.approx(np.median(scores, axis=2))


def _with_aggregates(bare: xr.DataTree) -> xr.DataTree:
    bare = edit(bare, group="constant_data", se_sd=bare["constant_data"]["se"])
    additions, cells = derive(bare, seed=0)
    groups = {key: child.to_dataset() for key, child in bare.children.items()}
    groups["posterior"] = groups["posterior"].merge(additions)
    return xr.DataTree.from_dict(groups | {"estimands": cells})


def _geometric(tree: xr.DataTree) -> pd.DataFrame:
    table = aggregates_table(tree)
    own = table[(table["aggregate"] == "geometric_mean") & (table["population"] == "fixed")]
    return own[own["of"] == "expected"].set_index("model")


def test_one_draw_without_a_geometric_mean_is_too_many() -> None:
    bare = edit(make_tree(COMPLETE, se=True, spread=0.1), intercept=4.0)
    constant = bare["constant_data"]
    own = (constant["model_index"].values == 1) & (constant["language_index"].values == 0)
    # No score is negative; in one language of m2 some draws of the mean are.
    score = np.where(own, 0.0, 20.0)
    low = _with_aggregates(edit(bare, group="observed_data", score=score))
    drawn = low["estimands"]["language_score"].sel(model="m2").min("language")
    below = int((drawn <= 0.0).sum())
    assert 0 < below < drawn.size
    rows = _geometric(low)
    assert np.isnan(rows.loc["m2", "value_mean"])
    assert np.isfinite(rows.loc["m1", "value_mean"])
    assert rows.loc["m2", "excluded_draws"] == below
    assert "no geometric mean exists" in rows.loc["m2", "note"]
    assert rows.loc["m1", "note"] == ""
    table = aggregates_table(low)
    assert np.isfinite(table[table["aggregate"] == "median"]["value_mean"]).all()
    pairs = pairwise_table(low, ["geometric_mean"])
    involved = (pairs[["model_a", "model_b"]] == "m2").any(axis=1)
    assert pairs.loc[involved, "diff_mean"].isna().all()


def test_scores_that_may_be_negative_have_no_geometric_mean(tree: xr.DataTree) -> None:
    assert np.isfinite(_geometric(tree)["value_mean"]).all()
    bare = make_tree(COMPLETE, se=True)
    n_tasks = bare["constant_data"].sizes["task"]
    for lower, reported in ((0.0, True), (-100.0, False)):
        bounds = {
            "declared_lower": ("task", np.full(n_tasks, lower)),
            "declared_upper": ("task", np.full(n_tasks, 100.0)),
        }
        own = _geometric(_with_aggregates(edit(bare, group="constant_data", **bounds)))
        assert np.isfinite(own["value_mean"]).all() == reported
        assert own["p_best"].notna().all() == reported
        note = (
            "not reported: the scores of nli start at -100, and a geometric mean needs scores "
            "above 0"
        )
        assert set(own["note"]) == {"" if reported else note}
