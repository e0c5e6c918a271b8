"""Realisation ratios: values, supports, predictions and the guard."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayeseval import names
from bayeseval.estimands import derive, disparity_summaries, expected_scores, infer, read_arrays
from tests.estimands.trees import COMPLETE, CROSSED, INCOMPLETE, Twin, edit, make_tree
from tests.helpers import assert_within_mcse

RTOL = 1e-11  # ratios of sums of float64 numbers, added in different orders
SPECS = {
    "additive": {},
    "interaction": {"interactions": ("language:task",)},
    "crossed": {"interactions": CROSSED},
    "robust": {"interactions": CROSSED, "likelihood": "student_t", "residual_by": "model"},
    "three_way": {"interactions": (*CROSSED, "model:language:task")},
    "known_se": {"se": True},
}


def summaries_of(tree, *, seed=0, max_bytes=300_000_000):
    expected = expected_scores(read_arrays(tree), seed=seed, max_bytes=max_bytes)
    return disparity_summaries(expected, infer(expected).point_potential)


def slow_disparity(tree, support, flavour):
    sizes = tree["posterior"].sizes
    return np.array(
        [
            [twin.disparity(m, support, flavour) for m in twin.levels["model"]]
            for c in range(sizes["chain"])
            for d in range(sizes["draw"])
            for twin in [Twin(tree, c, d)]
        ]
    )


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize(("support", "flavour"), names.DESCRIPTIONS)
def test_all_variants_match_the_twin_when_cells_without_a_record_are_zero(spec, support, flavour):
    tree = make_tree(**SPECS[spec], sd_cells=0.0)
    summaries = summaries_of(tree, seed=1)
    slow = slow_disparity(tree, support, flavour)
    for i, quantity in enumerate(names.DISPARITY):
        name = names.disparity_name(quantity, support=support, flavour=flavour)
        np.testing.assert_allclose(summaries[name].values, slow[..., i], rtol=RTOL, err_msg=name)


def test_the_description_has_nine_names_and_no_ranks():
    additions, _ = derive(make_tree(interactions=CROSSED), seed=0)
    expected = {
        q + suffix
        for q in ("mean_prr", "std_prr", "cv_prr")
        for suffix in ("", "_latent", "_latent_common")
    }
    found = {str(n) for n in additions.data_vars if str(n).startswith(("mean_", "std_", "cv_prr"))}
    assert found - {"cv_prr_languages"} == expected
    assert {str(n) for n in additions.data_vars if str(n).endswith("_rank")} == {
        "language_potential_rank",
        "standardised_score_rank",
        "gap_sd_languages_rank",
    }
    for name in expected:
        assert additions[name].dims == ("chain", "draw", "model")
        assert list(additions[name]["model"].values) == ["m1", "m2", "m3", "m4"]
        assert additions[name].attrs["scale"] == "response"
        assert additions[name].attrs["units"] == "1"


def test_std_divides_by_n_minus_one():
    tree = make_tree(COMPLETE, chains=1, draws=1)
    ratios = Twin(tree, 0, 0).ratios("m2", "observed", "observed")
    value = summaries_of(tree)["std_prr"].values[0, 1]
    assert value == pytest.approx(np.std(ratios, ddof=1), rel=RTOL)
    assert value != pytest.approx(np.std(ratios, ddof=0), rel=1e-3)


def test_the_std_of_almost_equal_ratios_has_all_its_digits():
    # Within 1e-5 of each other: sums of squares would lose ten digits of their difference.
    tree = make_tree(COMPLETE, chains=1, draws=1)
    score = np.random.default_rng(1).normal(1.0, 1e-5, len(COMPLETE))
    score *= [Twin(tree, 0, 0).potential(la, t) for la, t, _ in COMPLETE]
    tree = edit(tree, group="observed_data", score=score)
    expected = expected_scores(read_arrays(tree), seed=0)
    potential = infer(expected).point_potential
    arrays = expected.arrays
    ratio = np.longdouble(score) / np.longdouble(potential[0, arrays.pairs.of_record])
    own = [ratio[arrays.index["model"] == m] for m in range(3)]
    found = disparity_summaries(expected, potential)["std_prr"].values[0]
    np.testing.assert_allclose(found, [float(r.std(ddof=1)) for r in own], rtol=1e-10)
    sums = [
        np.sqrt((np.sum(r**2) / len(r) - r.mean() ** 2) * len(r) / (len(r) - 1))
        for r in (np.float64(r) for r in own)
    ]
    assert np.abs(sums / found - 1.0).max() > 1e-8


def test_common_equals_observed_exactly_on_a_complete_table():
    summaries = summaries_of(make_tree(COMPLETE[::-1], interactions=CROSSED))
    for quantity in names.DISPARITY:
        first, second = (
            summaries[names.disparity_name(quantity, support=s, flavour="latent")].values
            for s in names.SUPPORTS
        )
        np.testing.assert_array_equal(first, second)


def test_replicates_count_one_by_one():
    tree = make_tree([*COMPLETE, COMPLETE[0], COMPLETE[0]])
    summaries = summaries_of(tree)
    slow = slow_disparity(tree, "observed", "observed")[..., 0]
    np.testing.assert_allclose(summaries["mean_prr"].values, slow, rtol=RTOL)


def test_unobserved_model_cells_are_drawn_once_and_shared():
    # m3 has no record on task `sum`, which two pairs need, nor on language fr, which
    # two pairs need, nor on fi: the same draw must serve both pairs.
    sd, n = 5.0, 10_000
    tree = make_tree(
        interactions=("model:task", "model:language"), sd_cells=sd, spread=0.0, chains=1, draws=n
    )
    twin = Twin(tree, 0, 0)
    tree["constant_data"].attrs["population"] = "models"  # potentials that do not move
    values = summaries_of(tree, seed=2)["mean_prr_latent_common"].values[:, 2]
    ratios = [twin.expected(*p, "m3") / twin.base(*p) for p in twin.pairs]
    error = values - np.mean(ratios)
    weight = {p: 1.0 / (len(twin.pairs) * twin.base(*p)) for p in twin.pairs}
    groups = [
        [p for p in twin.pairs if p[1] == "sum"],
        [p for p in twin.pairs if p[0] == "fr"],
        [p for p in twin.pairs if p[0] == "fi"],
    ]
    shared = sd**2 * sum(sum(weight[p] for p in g) ** 2 for g in groups)
    separate = sd**2 * sum(weight[p] ** 2 for g in groups for p in g)
    assert_within_mcse(error, 0.0)
    assert_within_mcse(error**2, shared)
    with pytest.raises(AssertionError, match="MCSE away"):
        assert_within_mcse(error**2, separate)


def test_record_prr_values_and_precision():
    tree = make_tree(interactions=CROSSED, sd_cells=0.0)
    _, estimands = derive(tree, seed=0)
    assert estimands["record_prr"].dtype == np.float32
    assert estimands["record_prr"].dims == ("chain", "draw", "record")
    for chain, draw in [(0, 0), (1, 7)]:
        twin = Twin(tree, chain, draw)
        slow = [s / twin.potential(la, t) for la, t, _, s in twin.records]
        # float32 has a relative precision of 6e-8
        np.testing.assert_allclose(
            estimands["record_prr"].isel(chain=chain, draw=draw), slow, rtol=1e-6
        )


# -- guard -------------------------------------------------------------------------------


def poisoned_tree(n_bad, *, n_draws=400, low=1e-9):
    """French potential just below zero in the first `n_bad` draws."""
    tree = make_tree(chains=1, draws=n_draws, spread=0.1)
    posterior = tree["posterior"].to_dataset()
    effect = posterior["language_effect"].values.copy()
    for d in range(n_bad):
        twin = Twin(tree, 0, d)
        effect[0, d, 3] -= max(twin.potential("fr", t) for t in ("qa", "sum")) + low
    return edit(tree, language_effect=effect)


@pytest.mark.parametrize("n_bad", [1, 40])
def test_a_pair_whose_potential_may_be_zero_is_left_out_for_all_models(n_bad):
    additions, estimands = derive(poisoned_tree(n_bad), seed=0)
    clean = poisoned_tree(0)
    for name in ("mean_prr", "std_prr", "cv_prr", "mean_prr_latent", "mean_prr_latent_common"):
        assert json.loads(additions[name].attrs["left_out"]) == ["fr|qa", "fr|sum"]
    # No model is dropped: the others' ratios are what they are without French.
    for model, own in (("m1", 0), ("m2", 1), ("m3", 2)):
        kept = [r for r in Twin(clean, 0, 0).records if r[2] == model and r[0] != "fr"]
        for draw in (200, 399):
            twin = Twin(clean, 0, draw)
            expected = np.mean([s / twin.potential(la, t) for la, t, _, s in kept])
            found = additions["mean_prr"].values[0, draw, own]
            assert found == pytest.approx(expected, rel=RTOL), model
    hit = [r[0] == "fr" for r in INCOMPLETE]
    found = np.isnan(estimands["record_prr"]).all(dim=("chain", "draw"))
    np.testing.assert_array_equal(found, hit)
    assert json.loads(estimands["record_prr"].attrs["left_out"]) == ["fr|qa", "fr|sum"]
    # The score and its ranks do not care.
    for name in ("standardised_score", "prr", "standardised_score_rank"):
        assert np.isfinite(additions[name]).all()


def test_a_pair_within_five_sds_of_zero_is_left_out_before_any_draw_falls_below():
    tree = make_tree(chains=1, draws=200, spread=0.0)
    posterior = tree["posterior"].to_dataset()
    effect = posterior["language_effect"].values.copy()
    low = min(Twin(tree, 0, 0).potential("fr", t) for t in ("qa", "sum"))
    effect[0, :, 3] += 10.0 - low
    effect[0, ::2, 3] += 4.0  # two values 4 apart: mean 12, sd 2, six sds from zero
    kept, _ = derive(edit(tree, language_effect=effect), seed=0)
    assert json.loads(kept["mean_prr"].attrs["left_out"]) == []
    effect[0, ::2, 3] += 16.0  # 20 apart: mean 20, sd 10
    wide, _ = derive(edit(tree, language_effect=effect), seed=0)
    assert len(json.loads(wide["mean_prr"].attrs["left_out"])) >= 1


def test_without_leaving_pairs_out_the_mean_explodes():
    tree = poisoned_tree(1)
    twin = Twin(tree, 0, 0)
    assert abs(twin.disparity("m1", "observed", "observed")[0]) > 1e6
    kept = derive(tree, seed=0)[0]["mean_prr"].sel(model="m1")
    assert 0.2 < float(kept.mean()) < 5.0


def test_cv_of_a_mean_of_zero_is_not_reported():
    tree = make_tree()
    score = tree["observed_data"]["score"].values.copy()
    score[[i for i, row in enumerate(INCOMPLETE) if row[2] == "m3"]] = 0.0
    additions, _ = derive(edit(tree, group="observed_data", score=score), seed=0)
    assert np.isnan(additions["cv_prr"].sel(model="m3")).all()
    assert "Mean-PRR at or below 0" in json.loads(additions["cv_prr"].attrs["note"])["m3"]
    assert (additions["mean_prr"].sel(model="m3") == 0.0).all()
    assert np.isfinite(additions["std_prr"].sel(model="m3")).all()


def test_negative_scores_have_no_ratio_and_say_why():
    tree = make_tree()
    score = tree["observed_data"]["score"].values - 60.0
    additions, estimands = derive(edit(tree, group="observed_data", score=score), seed=0)
    for name in ("mean_prr", "cv_prr_latent_common", "prr", "cv_prr_languages"):
        assert np.isnan(additions[name]).all(), name
    assert set(json.loads(additions["mean_prr"].attrs["note"])) == {"m1", "m2", "m3", "m4"}
    assert "some scores are negative" in additions["prr"].attrs["note"]
    assert np.isnan(estimands["record_prr"]).all()
    assert np.isfinite(additions["standardised_score"]).all()
    assert np.isfinite(additions["standardised_score_rank"]).all()


def test_a_model_with_one_pair_has_a_mean_but_no_spread():
    additions, _ = derive(make_tree(), seed=0)
    assert np.isfinite(additions["mean_prr"].sel(model="m4")).all()
    for name in ("std_prr", "cv_prr", "std_prr_latent", "cv_prr_latent"):
        assert np.isnan(additions[name].sel(model="m4")).all()
    assert np.isfinite(additions["std_prr_latent_common"].sel(model="m4")).all()
    # Two scores on one pair still are one pair: their difference is noise.
    additions, _ = derive(make_tree([*INCOMPLETE, ("en", "nli", "m4")]), seed=0)
    assert np.isnan(additions["cv_prr"].sel(model="m4")).all()


# -- invariances -------------------------------------------------------------------------


@settings(max_examples=25, deadline=None)
@given(factor=st.floats(0.001, 1000.0), seed=st.integers(0, 2**32 - 1))
def test_prr_does_not_depend_on_the_unit_of_the_score(factor, seed):
    tree = make_tree(interactions=CROSSED, draws=3)
    posterior = tree["posterior"].to_dataset()
    scaled = edit(tree, **{str(n): posterior[n].values * factor for n in posterior.data_vars})
    score = tree["observed_data"]["score"].values
    scaled = edit(scaled, group="observed_data", score=score * factor)
    before, _ = derive(tree, seed=seed)
    after, _ = derive(scaled, seed=seed)
    for name in before.data_vars:
        in_units = ("language_potential", "standardised_score", "gap_sd_languages")
        expected = before[name] * (factor if name in in_units else 1.0)
        # CV of few ratios amplifies rounding of 1e-16 a little
        np.testing.assert_allclose(after[name], expected, rtol=1e-9, err_msg=str(name))


def permuted(tree, seed):
    """Same records and levels in another order, positions rewritten to match."""
    rng = np.random.default_rng(seed)
    posterior, constant = tree["posterior"].to_dataset(), tree["constant_data"].to_dataset()
    dims = [d for d in posterior.dims if d not in ("chain", "draw")]
    # Reversed, or moved on by one: no level keeps its place by chance.
    order = {
        d: (np.arange(n)[::-1] if seed == 0 else np.roll(np.arange(n), 1))
        for d, n in posterior.sizes.items()
        if d in dims
    }
    rows = rng.permutation(constant.sizes["record"])
    for factor in ("language", "task", "model"):
        place = np.argsort(order[factor])
        for name in constant.data_vars:
            if str(name) == f"{factor}_index" or str(name).endswith(f"_{factor}"):
                constant[name] = (constant[name].dims, place[constant[name].values])
    constant = constant.isel({d: order[d] for d in dims} | {"record": rows})
    observed = tree["observed_data"].to_dataset().isel(record=rows)
    groups = {"posterior": posterior.isel(order), "constant_data": constant}
    return type(tree).from_dict(groups | {"observed_data": observed})


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("seed", [0, 1])
def test_permuting_rows_and_levels_permutes_the_results_and_nothing_else(spec, seed):
    tree = make_tree(**SPECS[spec])
    other = permuted(tree, seed)
    assert list(other["posterior"]["language"].values) != list(tree["posterior"]["language"].values)
    for before, after in zip(derive(tree, seed=9), derive(other, seed=9), strict=True):
        assert set(before.data_vars) == set(after.data_vars)
        for name in before.data_vars:
            aligned = after[name].reindex_like(before[name])
            if name == "worst_language":
                np.testing.assert_array_equal(aligned, before[name])
                continue
            # float32 for prr, float64 sums in another order elsewhere
            rtol = 1e-6 if name == "record_prr" else 1e-9
            np.testing.assert_allclose(aligned, before[name], rtol=rtol, err_msg=str(name))


@pytest.mark.parametrize("spec", SPECS)
def test_renaming_levels_renames_the_results_and_nothing_else(spec):
    tree = make_tree(**SPECS[spec])
    # The new names sort as the old ones: predictions are drawn in alphabetical order.
    suffix = {f: [f"{v}_x" for v in tree["posterior"][f].values] for f in names.FACTORS}
    renamed = type(tree).from_dict(
        {
            key: child.to_dataset().assign_coords(
                {f: v for f, v in suffix.items() if f in child.to_dataset().coords}
            )
            for key, child in tree.children.items()
        }
    )
    before, after = derive(tree, seed=9)[0], derive(renamed, seed=9)[0]
    assert list(after["model"].values) == suffix["model"]
    assert list(after["language"].values) == suffix["language"]
    for name in before.data_vars:
        np.testing.assert_array_equal(after[name].values, before[name].values, err_msg=str(name))


def test_same_seed_same_numbers_and_another_seed_others():
    tree = make_tree(interactions=CROSSED)
    first, again, other = (derive(tree, seed=s)[0] for s in (3, 3, 4))
    assert first.identical(again)
    for name in ("language_potential", "standardised_score", "mean_prr_latent_common"):
        assert not np.array_equal(first[name], other[name])
    for name in ("language_potential", "standardised_score", "mean_prr"):
        same = [derive(make_tree(), seed=s)[0][name] for s in (3, 4)]
        np.testing.assert_array_equal(*same)


@pytest.mark.parametrize("spec", SPECS)
def test_block_size_does_not_change_the_numbers(spec):
    arrays = read_arrays(make_tree(**SPECS[spec]))
    whole = infer(expected_scores(arrays, seed=6))
    blocks = expected_scores(arrays, seed=6, max_bytes=7 * 8 * 200)
    assert len(list(blocks.blocks())) > 3
    (block,) = expected_scores(arrays, seed=6).blocks()
    for draws, model, points in blocks.of_points():
        np.testing.assert_array_equal(points, block.points[draws, model])
    cut = infer(blocks)
    for name in (
        *("standardised_score", "prr", "gap_sd_languages", "cv_prr_languages"),
        *("cv_prr_constant_gap", "worst_language_prr", "language_potential", "point_potential"),
    ):
        np.testing.assert_allclose(getattr(cut, name), getattr(whole, name), rtol=1e-12)
    for name, summary in summaries_of(make_tree(**SPECS[spec]), seed=6).items():
        again = disparity_summaries(blocks, cut.point_potential)[name]
        np.testing.assert_allclose(again.values, summary.values, rtol=1e-12)


def test_inputs_are_left_alone():
    tree = make_tree(interactions=CROSSED)
    before = {key: child.to_dataset().copy(deep=True) for key, child in tree.children.items()}
    derive(tree, seed=0)
    for key, dataset in before.items():
        assert tree[key].to_dataset().identical(dataset)
