"""Tables: exact columns, order of the rows, values and missing cells."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from bayeseval.errors import InputError
from bayeseval.estimands import (
    components_table,
    derive,
    disparity_table,
    model_language_table,
    pairwise_table,
    potential_table,
    rank_probability_table,
    rank_table,
    ranking_table,
)
from tests.estimands.trees import CROSSED, INCOMPLETE, edit, make_tree

BOUNDS = ("mean", "sd", "lower", "upper")
RANK = ("mean", "median", "lower", "upper")
RTOL = 1e-12
MODELS = ["m1", "m2", "m3", "m4"]


def with_derived(tree, seed=0):
    additions, estimands = derive(tree, seed=seed)
    groups = {key: child.to_dataset() for key, child in tree.children.items()}
    groups["posterior"] = groups["posterior"].merge(additions)
    return xr.DataTree.from_dict(groups | {"estimands": estimands})


@pytest.fixture(scope="module")
def tree():
    return with_derived(make_tree(interactions=CROSSED, draws=40))


def column(tree, name, **level):
    return tree["posterior"][name].sel(level).values.reshape(-1)


def bounds(draws, prob=0.95):
    tail = (1 - prob) / 2
    return [draws.mean(), draws.std(ddof=1), *np.quantile(draws, [tail, 1 - tail])]


def test_potential_table(tree):
    table = potential_table(tree, ci_prob=0.8)
    assert list(table.columns) == [
        "language",
        *(f"potential_{b}" for b in BOUNDS),
        *(f"rank_{r}" for r in RANK),
        "n_records",
        "n_tasks",
        "tie_group",
        "ci_kind",
        "ci_prob",
    ]
    assert sorted(table["language"]) == ["de", "en", "fi", "fr"]
    assert table["rank_mean"].is_monotonic_increasing
    for row in table.to_dict("records"):
        label = row["language"]
        draws = column(tree, "language_potential", language=label)
        got = [row[f"potential_{b}"] for b in BOUNDS]
        np.testing.assert_allclose(got, bounds(draws, 0.8), rtol=RTOL)
        ranks = column(tree, "language_potential_rank", language=label)
        lower, median, upper = (
            np.sort(ranks)[int(np.ceil(p * len(ranks))) - 1] for p in (0.1, 0.5, 0.9)
        )
        got = [row[f"rank_{r}"] for r in RANK]
        np.testing.assert_allclose(got, [ranks.mean(), median, lower, upper], rtol=RTOL)
        own = [r for r in INCOMPLETE if r[0] == label]
        assert (row["n_records"], row["n_tasks"]) == (len(own), len({r[1] for r in own}))
        assert (row["ci_kind"], row["ci_prob"]) == ("eti", 0.8)
    assert table["tie_group"].iloc[0] == 1
    assert table["tie_group"].is_monotonic_increasing


VARIANTS = {
    ("observed", "observed"): "",
    ("observed", "latent"): "_latent",
    ("common", "latent"): "_latent_common",
}


@pytest.mark.parametrize(("support", "flavour"), VARIANTS)
def test_disparity_table(tree, support, flavour):
    table = disparity_table(tree, flavour=flavour, support=support)
    assert list(table.columns) == [
        "model",
        *(f"{q}_{b}" for q in ("mean_prr", "std_prr", "cv_prr") for b in BOUNDS),
        "n_records",
        "n_pairs_left_out",
        "prr",
        "support",
        "note",
        "ci_kind",
        "ci_prob",
    ]
    assert set(table["support"]) == {support}
    assert set(table["prr"]) == {flavour}
    assert sorted(table["model"]) == MODELS
    assert table["mean_prr_mean"].is_monotonic_decreasing
    for row in table.to_dict("records"):
        for quantity in ("mean_prr", "std_prr", "cv_prr"):
            draws = column(tree, quantity + VARIANTS[support, flavour], model=row["model"])
            got = [row[f"{quantity}_{b}"] for b in BOUNDS]
            np.testing.assert_allclose(got, bounds(draws), rtol=RTOL)
        assert row["n_records"] == sum(r[2] == row["model"] for r in INCOMPLETE)
        single = row["model"] == "m4" and support == "observed"
        expected = "std_prr, cv_prr: one language-task pair: no spread" if single else ""
        assert (row["note"], row["n_pairs_left_out"]) == (expected, 0)


def test_ranking_table(tree):
    table = ranking_table(tree)
    assert list(table.columns) == [
        "model",
        *(f"score_{b}" for b in BOUNDS),
        *(f"prr_{b}" for b in BOUNDS),
        *(f"rank_{r}" for r in RANK),
        *("rank_set_lower", "rank_set_upper", "p_best", "p_top3", "may_be_best", "tier"),
        *(f"gap_sd_languages_{b}" for b in BOUNDS),
        *(f"gap_sd_rank_{r}" for r in RANK),
        *(f"cv_prr_languages_{b}" for b in BOUNDS),
        *("cv_prr_constant_gap", "worst_language", "share_predicted", "n_records"),
        *(f"worst_language_prr_{b}" for b in ("mean", "lower", "upper")),
        "ci_kind",
        "ci_prob",
    ]
    assert table["score_mean"].is_monotonic_decreasing
    for row in table.to_dict("records"):
        for prefix, name in (
            ("score", "standardised_score"),
            ("prr", "prr"),
            ("gap_sd_languages", "gap_sd_languages"),
            ("cv_prr_languages", "cv_prr_languages"),
        ):
            got = [row[f"{prefix}_{b}"] for b in BOUNDS]
            np.testing.assert_allclose(got, bounds(column(tree, name, model=row["model"])))
        for prefix, name in (("rank", "standardised_score"), ("gap_sd_rank", "gap_sd_languages")):
            ranks = column(tree, f"{name}_rank", model=row["model"])
            assert row[f"{prefix}_mean"] == pytest.approx(ranks.mean())
        ranks = column(tree, "standardised_score_rank", model=row["model"])
        assert row["p_best"] == pytest.approx((ranks == 1).mean())
        assert row["p_top3"] == pytest.approx((ranks <= 3).mean())
        assert row["rank_set_lower"] <= row["rank_lower"] <= row["rank_upper"]
        assert row["rank_upper"] <= row["rank_set_upper"]
    best = table.loc[table["may_be_best"].astype(bool), "p_best"]
    assert best.sum() >= 0.95
    assert best.sum() - best.min() < 0.95
    assert table["tier"].iloc[0] == 1


def test_no_ratio_reaches_the_table_with_its_reason():
    tree = make_tree(interactions=CROSSED)
    broken = with_derived(edit(tree, intercept=-1e4))
    table = disparity_table(broken)
    assert set(table["n_pairs_left_out"]) == {8}
    assert table["note"].str.contains("no pair whose potential is clearly above zero").all()
    numbers = table.filter(regex="prr_(mean|sd|lower|upper)$")
    assert numbers.shape[1] == 12
    assert numbers.isna().all(axis=None)
    ranking = ranking_table(broken)
    assert ranking["prr_mean"].isna().all()
    assert ranking["rank_median"].notna().all()


def test_components_table(tree):
    table = components_table(tree)
    assert list(table.columns) == [
        "component",
        *(f"sd_{b}" for b in BOUNDS),
        "share_mean",
        "share_lower",
        "share_upper",
        "kind",
        *(f"finite_sd_{b}" for b in BOUNDS),
        "scale",
        "ci_kind",
        "ci_prob",
    ]
    assert list(table["component"]) == ["language", "task", "model", *CROSSED, "residual"]
    row = table.set_index("component").loc["model"]
    draws = column(tree, "sd_model")
    np.testing.assert_allclose([row[f"sd_{b}"] for b in BOUNDS], bounds(draws), rtol=RTOL)
    effects = tree["posterior"]["model_effect"].values.reshape(-1, 4)
    finite = bounds(effects.std(axis=1, ddof=1))
    np.testing.assert_allclose([row[f"finite_sd_{b}"] for b in BOUNDS], finite, rtol=RTOL)
    assert table["share_mean"].sum() == pytest.approx(1.0, rel=RTOL)


def test_pairwise_table_and_its_direction(tree):
    table = pairwise_table(tree, ["standardised_score", "gap_sd_languages", "model_effect"])
    assert list(table.columns) == [
        "quantity",
        "model_a",
        "model_b",
        *(f"diff_{b}" for b in BOUNDS),
        "effect_size",
        "p_a_better",
        "p_within_margin",
        "ci_kind",
        "ci_prob",
    ]
    assert len(table) == 3 * 6
    for row in table.to_dict("records"):
        a, b = (column(tree, row["quantity"], model=row[k]) for k in ("model_a", "model_b"))
        assert row["model_a"] < row["model_b"]
        np.testing.assert_allclose([row[f"diff_{x}"] for x in BOUNDS], bounds(a - b), rtol=RTOL)
        better = a < b if row["quantity"] == "gap_sd_languages" else a > b
        assert row["p_a_better"] == pytest.approx(better.mean(), rel=RTOL)
        assert row["effect_size"] == pytest.approx((a - b).mean() / (a - b).std(ddof=1), rel=RTOL)
    lower_is_better = table[table["quantity"] == "gap_sd_languages"]
    decided = lower_is_better[np.abs(lower_is_better["effect_size"]) > 1]
    assert len(decided)  # the direction check below must see something
    assert ((decided["diff_mean"] < 0) == (decided["p_a_better"] > 0.5)).all()


def test_rank_probability_table(tree):
    table = rank_probability_table(tree, ["language_potential", "gap_sd_languages"])
    assert list(table.columns) == ["quantity", "level", "rank", "probability", "ci_kind", "ci_prob"]
    assert len(table) == 2 * 16
    for (quantity, level, rank), part in table.groupby(["quantity", "level", "rank"]):
        factor = "model" if quantity == "gap_sd_languages" else "language"
        ranks = column(tree, f"{quantity}_rank", **{factor: level})
        expected = (ranks == rank).mean()
        np.testing.assert_allclose(part["probability"], [expected], rtol=RTOL)
    totals = table.groupby(["quantity", "level"])["probability"].sum(min_count=1).dropna()
    np.testing.assert_allclose(totals, np.ones(8), rtol=RTOL)
    order = list(dict.fromkeys(table[table["quantity"] == "language_potential"]["level"]))
    assert order == list(potential_table(tree)["language"])


def test_rank_table(tree):
    table = rank_table(tree, "gap_sd_languages")
    assert list(table.columns) == [
        "model",
        *(f"rank_{r}" for r in RANK),
        "p_best",
        "tie_group",
        "ci_kind",
        "ci_prob",
    ]
    assert table["p_best"].sum() == pytest.approx(1.0, rel=RTOL)
    ranking = ranking_table(tree).set_index("model")
    for model, mean in zip(table["model"], table["rank_mean"], strict=True):
        assert mean == ranking.loc[model, "gap_sd_rank_mean"]
    # Evenness that a model does not estimate ranks nobody.
    nothing = rank_table(with_derived(make_tree()), "gap_sd_languages")
    assert nothing[["rank_mean", "p_best", "tie_group"]].isna().all(axis=None)


def test_a_point_estimate_has_values_but_no_uncertainty():
    tree = with_derived(make_tree(fixed=("language", "task"), chains=1, draws=1))
    potential = potential_table(tree)
    assert potential["potential_mean"].notna().all()
    assert potential["potential_mean"].is_monotonic_decreasing
    for name in ("potential_sd", "potential_lower", "tie_group", *(f"rank_{r}" for r in RANK)):
        assert potential[name].isna().all(), name
    disparity = disparity_table(tree)
    assert disparity["mean_prr_mean"].notna().all()
    assert disparity["mean_prr_sd"].isna().all()
    ranking = ranking_table(tree)
    assert ranking[["score_mean", "prr_mean"]].notna().all(axis=None)
    unknown = ["score_sd", "score_lower", "rank_mean", "rank_set_lower", "p_best", "may_be_best"]
    assert ranking[[*unknown, "p_top3", "tier"]].isna().all(axis=None)
    assert components_table(tree)["sd_mean"].notna().all()
    assert components_table(tree)["sd_sd"].isna().all()
    pairs = pairwise_table(tree, ["standardised_score"])
    assert pairs["diff_mean"].notna().all()
    assert pairs[["diff_sd", "effect_size", "p_a_better"]].isna().all(axis=None)
    assert rank_probability_table(tree, ["standardised_score"])["probability"].isna().all()


def test_tables_survive_a_netcdf_round_trip(tree, tmp_path):
    path = tmp_path / "fit.nc"
    tree.to_netcdf(path, engine="h5netcdf")
    with xr.open_datatree(path, engine="h5netcdf") as opened:
        for build in (
            potential_table,
            ranking_table,
            model_language_table,
            disparity_table,
            components_table,
            rank_probability_table,
        ):
            pd.testing.assert_frame_equal(build(opened), build(tree))
        assert opened["estimands"]["potential"].dims == ("chain", "draw", "language_task")
        assert "note" in opened["posterior"]["cv_prr"].attrs


def test_estimands_group(tree):
    potential = tree["estimands"]["potential"]
    assert list(potential["language_task"].values)[:2] == ["de|nli", "de|qa"]
    posterior = tree["posterior"].to_dataset().sel(language="en", task="nli")
    expected = posterior["intercept"] + posterior["language_effect"] + posterior["task_effect"]
    expected = expected + posterior["language_task_effect"].sel(language_task="en|nli")
    # All models were tested on en|nli.
    own = posterior["model_effect"].mean("model")
    for dim, cells in (("model_task", "|nli"), ("model_language", "|en")):
        effect = posterior[f"{dim}_effect"]
        chosen = [label for label in effect[dim].values if str(label).endswith(cells)]
        assert len(chosen) == 4
        own = own + effect.sel({dim: chosen}).mean(dim)
    np.testing.assert_allclose(potential.sel(language_task="en|nli"), expected + own, rtol=RTOL)
    additive = derive(make_tree(), seed=0)[1]
    assert list(additive["language_task"].values) == list(potential["language_task"].values)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda t: disparity_table(t, flavour="latnt"), "did you mean 'latent'"),
        (
            lambda t: potential_table(t, ci_prob=95),
            r"between 0.01 and 0.9999, got 95; 95 % is 0.95$",
        ),
        (lambda t: pairwise_table(t, ["language_potential"]), "pairs need a quantity of models"),
        (lambda t: pairwise_table(t, ["standardised_scor"]), "did you mean 'standardised_score'"),
        (lambda t: pairwise_table(t, ["mean_prr"]), "cannot be ranked"),
        (
            lambda t: rank_probability_table(t, ["task"]),
            r"no quantity 'task' in this fit; did you mean 'task_effect'\? \(allowed: ",
        ),
        (lambda t: rank_probability_table(t, ["mean_prr"]), "cannot be ranked"),
        (lambda t: disparity_table(t, support="common"), "take the flavour latent"),
        (lambda t: rank_table(t, "sd_model"), "cannot be ranked"),
        (lambda t: potential_table(make_tree()), "no 'language_potential'"),
    ],
)
def test_impossible_requests_are_one_clear_line(tree, call, message):
    with pytest.raises(InputError, match=message) as error:
        call(tree)
    assert "\n" not in str(error.value)


def test_the_allowed_quantities_are_those_of_the_fit(tree):
    for call in (
        lambda: pairwise_table(tree, ["score"]),
        lambda: rank_probability_table(tree, ["score"]),
    ):
        with pytest.raises(InputError) as error:
            call()
        message = str(error.value)
        assert "did you mean 'standardised_score'?" in message
        allowed = message.rpartition("(allowed: ")[2].rstrip(")").split(", ")
        assert set(allowed) <= set(tree["posterior"].data_vars)
        assert {"standardised_score", "model_effect"} <= set(allowed)
