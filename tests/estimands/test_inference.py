"""What models are compared by, against the slow twin and by hand."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from bayeseval.estimands import (
    derive,
    disparity_table,
    expected_scores,
    infer,
    model_language_table,
    pairwise_table,
    ranking_probabilities,
    ranking_table,
    read_arrays,
)
from bayeseval.estimands.expected import ExpectedScores
from tests.estimands.trees import COMPLETE, CROSSED, INCOMPLETE, Twin, edit, make_tree
from tests.helpers import assert_within_mcse

RTOL = 1e-11  # sums of float64 numbers, added in different orders
SPECS = {
    "additive": (),
    "interaction": ("language:task",),
    "crossed": CROSSED,
    "three_way": (*CROSSED, "model:language:task"),
}


def with_derived(tree: xr.DataTree, seed: int = 0) -> xr.DataTree:
    additions, estimands = derive(tree, seed=seed)
    groups = {key: child.to_dataset() for key, child in tree.children.items()}
    groups["posterior"] = groups["posterior"].merge(additions)
    return xr.DataTree.from_dict(groups | {"estimands": estimands})


def with_pairs(tree: xr.DataTree, pairs: list[tuple[str, str]]) -> xr.DataTree:
    """The tree with common pairs of its own."""
    posterior = tree["posterior"].to_dataset()
    places = [
        [list(posterior[f].values).index(pair[i]) for pair in pairs]
        for i, f in enumerate(("language", "task"))
    ]
    return edit(
        tree,
        group="constant_data",
        common_pair_language=("common_pair", np.array(places[0])),
        common_pair_task=("common_pair", np.array(places[1])),
    )


def twins(tree: xr.DataTree) -> list[Twin]:
    sizes = tree["posterior"].sizes
    return [Twin(tree, c, d) for c in range(sizes["chain"]) for d in range(sizes["draw"])]


@pytest.mark.parametrize("spec", SPECS)
def test_everything_matches_the_twin_when_cells_without_a_record_are_zero(spec: str) -> None:
    tree = make_tree(interactions=SPECS[spec], sd_cells=0.0, intercept=90.0)
    found, slow = infer(expected_scores(read_arrays(tree), seed=0)), twins(tree)
    models = slow[0].levels["model"]
    expected = {
        "standardised_score": [[w.score(m) for m in models] for w in slow],
        "prr": [[w.prr(m) for m in models] for w in slow],
        "gap_sd_languages": [[w.gap_sd(m) for m in models] for w in slow],
        "cv_prr_languages": [[w.cv_languages(m) for m in models] for w in slow],
    }
    for name, values in expected.items():
        if spec in ("additive", "interaction") and name in ("gap_sd_languages", "cv_prr_languages"):
            assert np.isnan(getattr(found, name)).all()
            assert "no model:language term" in found.reasons[name]
            continue
        np.testing.assert_allclose(getattr(found, name), values, rtol=RTOL, err_msg=name)
    assert not found.left_out.any()


def test_all_models_are_asked_the_same_questions() -> None:
    tree = make_tree(sd_cells=0.0)
    score = infer(expected_scores(read_arrays(tree), seed=0)).standardised_score
    effect = tree["posterior"]["model_effect"].to_numpy().reshape(30, 4)
    np.testing.assert_allclose(score - score[:, :1], effect - effect[:, :1], rtol=1e-10, atol=1e-10)
    # Negative control: the means of the models' own records are further apart.
    arrays = read_arrays(tree)
    own = [arrays.score[arrays.index["model"] == m].mean() for m in range(4)]
    assert np.abs((own - own[0]) - (score - score[:, :1])).max() > 1.0


def test_the_score_orders_models_as_the_prr_does() -> None:
    found = infer(expected_scores(read_arrays(make_tree(interactions=CROSSED)), seed=3))
    np.testing.assert_array_equal(
        np.argsort(found.standardised_score, axis=1), np.argsort(found.prr, axis=1)
    )
    np.testing.assert_allclose(found.prr.mean(axis=1), 1.0, rtol=1e-12)


def test_one_potential_near_zero_breaks_no_model() -> None:
    tree = make_tree(spread=0.1)
    posterior = tree["posterior"].to_dataset()
    effect = posterior["language_effect"].values.copy()
    low = min(Twin(tree, 0, 0).potential("fr", t) for t in ("qa", "sum"))
    effect[..., 3] -= low
    near = with_derived(edit(tree, language_effect=effect))
    ranking, described = ranking_table(near), disparity_table(near)
    columns = ["score_mean", "prr_mean", "rank_median", "rank_set_lower", "p_best", "tier"]
    assert ranking[columns].notna().all(axis=None)
    assert list(ranking["rank_median"]) == sorted(ranking["rank_median"])
    assert described["mean_prr_mean"].notna().all()
    assert set(described["n_pairs_left_out"]) == {1}
    assert "fr|" in near["posterior"]["mean_prr"].attrs["left_out"]


def test_common_pairs_may_be_chosen_and_need_not_occur() -> None:
    tree = make_tree(interactions=CROSSED, sd_cells=0.0)
    chosen = [("fi", "sum"), ("en", "nli"), ("fr", "qa")]  # nobody was tested on the first
    found = infer(expected_scores(read_arrays(with_pairs(tree, chosen)), seed=0))
    slow = twins(tree)
    expected = [
        [np.mean([w.expected(*pair, m) for pair in chosen]) for m in w.levels["model"]]
        for w in slow
    ]
    np.testing.assert_allclose(found.standardised_score, expected, rtol=RTOL)
    everywhere = infer(expected_scores(read_arrays(tree), seed=0))
    assert np.abs(found.standardised_score - everywhere.standardised_score).max() > 0.1
    # Gaps are means over all tasks, whatever the pairs.
    np.testing.assert_array_equal(found.gap_sd_languages, everywhere.gap_sd_languages)


@pytest.mark.parametrize("draws", [1, 200])
def test_probabilities_without_intervals_are_those_of_the_tables(draws: int) -> None:
    tree = with_derived(make_tree(chains=1 if draws == 1 else 2, draws=draws))
    ranking, pairs = ranking_probabilities(tree)
    whole = ranking_table(tree).reset_index(drop=True)
    every = pairwise_table(tree, ["standardised_score"]).reset_index(drop=True)
    pd.testing.assert_frame_equal(ranking, whole[["model", "p_best"]])
    pd.testing.assert_frame_equal(pairs, every[["quantity", "model_a", "model_b", "p_a_better"]])
    assert pairs["p_a_better"].isna().all() == (draws == 1)


def test_share_predicted_counts_the_common_pairs_without_a_record() -> None:
    ranking = ranking_table(with_derived(make_tree())).set_index("model")
    pairs = {row[:2] for row in INCOMPLETE}
    for model in ("m1", "m2", "m3", "m4"):
        own = {row[:2] for row in INCOMPLETE if row[2] == model}
        assert ranking.loc[model, "share_predicted"] == pytest.approx(1 - len(own) / len(pairs))
        assert ranking.loc[model, "n_records"] == len(own)
    few = with_derived(with_pairs(make_tree(), [("en", "nli"), ("en", "qa")]))
    assert ranking_table(few).set_index("model")["share_predicted"].to_dict() == {
        "m1": 0.0,
        "m2": 0.0,
        "m3": 0.0,
        "m4": 0.5,
    }


def test_numerator_and_denominator_use_the_same_unobserved_cells() -> None:
    # Without model terms that vary, gaps are constant however uncertain g_lt is.
    tree = make_tree(
        interactions=("language:task", "model:language"), sd_cells=25.0, spread=0.0, draws=50
    )
    zero = edit(tree, model_language_effect=0.0, sd_model_language=0.0)
    found = infer(expected_scores(read_arrays(zero), seed=0))
    np.testing.assert_allclose(found.gap_sd_languages, 0.0, atol=1e-9)
    potential = found.language_potential
    assert potential.std(axis=0).min() < 1e-9 < potential.std(axis=0).max()


def test_unobserved_cells_of_a_model_widen_its_score_by_their_variance() -> None:
    # m4 was tested on one pair of one task and one language.
    sd, n = 3.0, 10_000
    tree = make_tree(interactions=("model:task",), sd_cells=sd, spread=0.0, chains=1, draws=n)
    values = infer(expected_scores(read_arrays(tree), seed=0)).standardised_score[:, 3]
    twin = Twin(tree, 0, 0)
    error = values - twin.score("m4")
    weight = [sum(p[1] == t for p in twin.pairs) / len(twin.pairs) for t in ("qa", "sum")]
    assert_within_mcse(error, 0.0)
    assert_within_mcse(error**2, sd**2 * sum(w**2 for w in weight))
    with pytest.raises(AssertionError, match="MCSE away"):
        assert_within_mcse(error**2, sd**2 * sum(weight) ** 2)


def test_worst_language_is_a_measured_one_and_its_ratio_that_of_the_language() -> None:
    tree = make_tree(interactions=CROSSED, sd_cells=0.0, spread=0.0, intercept=90.0)
    # Cells without a record are zero, the others above: the worst ones are not measured.
    effect = np.abs(tree["posterior"]["model_language_effect"].values) + 3.0
    tree = edit(tree, model_language_effect=effect)
    twin, ranking = Twin(tree, 0, 0), ranking_table(with_derived(tree)).set_index("model")
    tested = {(la, m) for la, _, m, _ in twin.records}
    unmeasured_is_worse = 0
    for model in twin.levels["model"]:
        gaps = twin.gaps(model)
        own = {la: gap for la, gap in gaps.items() if (la, model) in tested}
        worst = min(own, key=own.__getitem__)
        unmeasured_is_worse += worst != min(gaps, key=gaps.__getitem__)
        assert ranking.loc[model, "worst_language"] == worst
        ratio = twin.language_mean(model, worst) / twin.language_potential(worst)
        assert ranking.loc[model, "worst_language_prr_mean"] == pytest.approx(ratio, rel=RTOL)
    assert unmeasured_is_worse  # the restriction to measured ones is seen to matter


def test_cv_prr_under_a_constant_gap_by_hand() -> None:
    tree = make_tree(COMPLETE, interactions=CROSSED, spread=0.0, intercept=90.0)
    twin, ranking = Twin(tree, 0, 0), ranking_table(with_derived(tree)).set_index("model")
    for model in twin.levels["model"]:
        mean_gap = np.mean(list(twin.gaps(model).values()))
        potential = np.array([twin.language_potential(la) for la in twin.levels["language"]])
        ratio = 1.0 + mean_gap / potential
        expected = ratio.std(ddof=1) / ratio.mean()
        assert ranking.loc[model, "cv_prr_constant_gap"] == pytest.approx(expected, rel=1e-9)
        found = ranking.loc[model, "cv_prr_languages_mean"]
        assert found == pytest.approx(twin.cv_languages(model), rel=1e-9)


def test_model_language_table_by_hand() -> None:
    tree = make_tree(interactions=CROSSED, sd_cells=0.0, intercept=90.0)
    table = model_language_table(with_derived(tree), ci_prob=0.8)
    slow = twins(tree)
    assert len(table) == 16
    assert table["estimated"].all()
    assert table["n_records"].dtype.kind == "i"
    for row in table.to_dict("records"):
        model, language = row["model"], row["language"]
        gap = np.array([w.gaps(model)[language] for w in slow])
        ratio = [w.language_mean(model, language) / w.language_potential(language) for w in slow]
        for prefix, draws in (("gap", gap), ("prr_language", np.array(ratio))):
            expected = [draws.mean(), *np.quantile(draws, [0.1, 0.9])]
            got = [row[f"{prefix}_{part}"] for part in ("mean", "lower", "upper")]
            np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-9)
        assert row["n_records"] == sum(r[0] == language and r[2] == model for r in INCOMPLETE)
    ranking = ranking_table(with_derived(tree))
    assert list(dict.fromkeys(table["model"])) == list(ranking["model"])
    additive = model_language_table(with_derived(make_tree()))
    assert not additive["estimated"].any()
    # All gaps of a model are the same there, up to rounding: languages stay in their order.
    for _, own in additive.groupby("model", sort=False):
        assert np.ptp(own["gap_mean"]) < 1e-10
        assert list(own["language"]) == sorted(own["language"])


def test_margin_is_one_percent_of_the_declared_range_or_as_asked() -> None:
    tree = make_tree(COMPLETE)
    assert np.isnan(pairwise_table(with_derived(tree))["p_within_margin"]).all()
    # The widest of the ranges counts: 1 % of 850 less 400.
    declared = edit(
        tree,
        group="constant_data",
        declared_lower=("task", np.array([0.0, 400.0])),
        declared_upper=("task", np.array([100.0, 850.0])),
    )
    table = pairwise_table(with_derived(declared), ["standardised_score"])
    scores = with_derived(declared)["posterior"]["standardised_score"].to_numpy().reshape(30, 3)
    pairs = [(0, 1), (0, 2), (1, 2)]
    expected = [(np.abs(scores[:, a] - scores[:, b]) < 4.5).mean() for a, b in pairs]
    assert any(0.0 < p < 1.0 for p in expected)
    assert table["p_within_margin"].tolist() == pytest.approx(expected)
    declared["constant_data"].attrs["margin"] = 1e9
    assert (
        pairwise_table(with_derived(declared), ["standardised_score"])["p_within_margin"] == 1
    ).all()


def test_a_declared_lower_bound_other_than_zero_has_no_ratio() -> None:
    declared = edit(
        make_tree(COMPLETE, interactions=CROSSED),
        group="constant_data",
        declared_lower=("task", np.array([0.0, 1.0])),
        declared_upper=("task", np.array([100.0, 100.0])),
    )
    tree = with_derived(declared)
    ranking = ranking_table(tree)
    assert ranking["prr_mean"].isna().all()
    assert "the scores of qa start at 1" in tree["posterior"]["prr"].attrs["note"]
    assert ranking[["score_mean", "rank_median", "gap_sd_languages_mean"]].notna().all(axis=None)


def test_a_language_whose_potential_may_be_zero_has_no_ratio_and_is_named() -> None:
    tree = make_tree(COMPLETE, interactions=CROSSED, spread=0.1, intercept=200.0)
    posterior = tree["posterior"].to_dataset()
    effect = posterior["language_effect"].values.copy()
    effect[..., 2] -= Twin(tree, 0, 0).language_potential("fr") + 5.0
    low = with_derived(edit(tree, language_effect=effect))
    assert json.loads(low["posterior"]["cv_prr_languages"].attrs["left_out"]) == ["fr"]
    table = model_language_table(low)
    assert table.loc[table["language"] == "fr", "prr_language_mean"].isna().all()
    assert table.loc[table["language"] != "fr", "prr_language_mean"].notna().all()
    assert table["gap_mean"].notna().all()
    assert ranking_table(low)["cv_prr_languages_mean"].notna().all()


def test_linear_and_cell_by_cell_computations_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    arrays = read_arrays(make_tree(interactions=(*CROSSED, "model:language:task")))
    linear = infer(expected_scores(arrays, seed=2))
    # The route of logit links, whose mean of the score is the predictor on the identity link.
    monkeypatch.setattr(ExpectedScores, "_linear", ExpectedScores._by_cell)
    by_cell = infer(expected_scores(arrays, seed=2))
    for name in ("standardised_score", "prr", "gap_sd_languages", "language_potential"):
        np.testing.assert_allclose(getattr(by_cell, name), getattr(linear, name), rtol=1e-10)
