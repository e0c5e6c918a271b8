"""Tables of replicate noise: their rows, labels and numbers, from a tree with known draws."""

from __future__ import annotations

import numpy as np
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


def test_a_geometric_mean_that_does_not_exist_is_said_and_left_out(tree: xr.DataTree) -> None:
    score = tree["observed_data"]["score"].values.copy()
    model = tree["constant_data"]["model_index"].values
    score[np.flatnonzero(model == 1)[:2]] = -60.0
    low = edit(make_tree(COMPLETE, se=True), group="observed_data", score=score)
    low = edit(low, group="constant_data", se_sd=low["constant_data"]["se"])
    additions, cells = derive(low, seed=0)
    groups = {key: child.to_dataset() for key, child in low.children.items()}
    groups["posterior"] = groups["posterior"].merge(additions)
    low = xr.DataTree.from_dict(groups | {"estimands": cells})
    table = aggregates_table(low)
    own = table[(table["aggregate"] == "geometric_mean") & (table["population"] == "fixed")]
    rows = own[own["of"] == "expected"].set_index("model")
    assert np.isnan(rows.loc["m2", "value_mean"])
    assert np.isfinite(rows.loc["m1", "value_mean"])
    assert rows.loc["m2", "excluded_draws"] > 0
    assert "no geometric mean exists" in rows.loc["m2", "note"]
    assert rows.loc["m1", "note"] == ""
    assert np.isfinite(table[table["aggregate"] == "median"]["value_mean"]).all()
    pairs = pairwise_table(low, ["geometric_mean"])
    involved = (pairs[["model_a", "model_b"]] == "m2").any(axis=1)
    assert pairs.loc[involved, "diff_mean"].isna().all()
