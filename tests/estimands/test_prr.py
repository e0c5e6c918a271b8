"""Realisation ratios: values, supports, predictions and the guard."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayeseval import names
from bayeseval.estimands import derive, disparity_summaries, pair_potential, read_arrays, record_prr
from tests.estimands.trees import COMPLETE, CROSSED, INCOMPLETE, Twin, edit, make_tree
from tests.helpers import assert_within_mcse

RTOL = 1e-11  # ratios of sums of float64 numbers, added in different orders
VARIANTS = [(s, f) for s in names.SUPPORTS for f in names.FLAVOURS]
SPECS = {
    "additive": {},
    "interaction": {"interactions": ("language:task",)},
    "crossed": {"interactions": CROSSED},
    "robust": {"interactions": CROSSED, "likelihood": "student_t", "residual_by": "model"},
    "three_way": {"interactions": (*CROSSED, "model:language:task")},
    "known_se": {"se": True},
}


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
@pytest.mark.parametrize(("support", "flavour"), VARIANTS)
def test_all_variants_match_the_twin_when_predictions_carry_no_noise(spec, support, flavour):
    # sd 0 turns unobserved cells and new residuals into their means.
    tree = make_tree(**SPECS[spec], sd_cells=0.0, sd_residual=0.0)
    if spec == "known_se":
        tree = edit(tree, group="constant_data", se=0.0)
    summaries = disparity_summaries(read_arrays(tree), seed=1)
    slow = slow_disparity(tree, support, flavour)
    for i, quantity in enumerate(names.DISPARITY):
        name = names.disparity_name(quantity, support=support, flavour=flavour)
        np.testing.assert_allclose(summaries[name].values, slow[..., i], rtol=RTOL, err_msg=name)


def test_the_twelve_names_and_labels():
    additions, _ = derive(make_tree(interactions=CROSSED), seed=0)
    expected = {
        q + f + s
        for q in ("mean_prr", "std_prr", "cv_prr")
        for f in ("", "_latent")
        for s in ("", "_common")
    }
    assert {
        str(n) for n in additions.data_vars if "prr" in str(n) and "rank" not in str(n)
    } == expected
    for name in expected:
        assert additions[name].dims == ("chain", "draw", "model")
        assert list(additions[name]["model"].values) == ["m1", "m2", "m3", "m4"]
        assert additions[name].attrs["scale"] == "response"
        assert additions[name].attrs["units"] == "1"


def test_std_divides_by_n_minus_one():
    tree = make_tree(COMPLETE, chains=1, draws=1)
    ratios = Twin(tree, 0, 0).ratios("m2", "observed", "observed")
    value = disparity_summaries(read_arrays(tree), seed=0)["std_prr"].values[0, 1]
    assert value == pytest.approx(np.std(ratios, ddof=1), rel=RTOL)
    assert value != pytest.approx(np.std(ratios, ddof=0), rel=1e-3)


@pytest.mark.parametrize("flavour", names.FLAVOURS)
def test_common_equals_observed_exactly_on_a_complete_table(flavour):
    tree = make_tree(COMPLETE[::-1], interactions=CROSSED)
    summaries = disparity_summaries(read_arrays(tree), seed=0)
    for quantity in names.DISPARITY:
        first, second = (
            summaries[names.disparity_name(quantity, support=s, flavour=flavour)].values
            for s in names.SUPPORTS
        )
        np.testing.assert_array_equal(first, second)


def test_replicates_count_one_by_one_on_observed_and_once_on_common():
    rows = [*COMPLETE, COMPLETE[0], COMPLETE[0]]
    tree = make_tree(rows)
    summaries = disparity_summaries(read_arrays(tree), seed=0)
    for support in names.SUPPORTS:
        slow = slow_disparity(tree, support, "observed")[..., 0]
        name = names.disparity_name("mean_prr", support=support)
        np.testing.assert_allclose(summaries[name].values, slow, rtol=RTOL)
    gap = summaries["mean_prr"].values - summaries["mean_prr_common"].values
    assert np.abs(gap[:, 0]).min() > 1e-4  # m1 has the replicates
    np.testing.assert_allclose(gap[:, 1:], 0.0, atol=1e-14)


def test_unobserved_model_cells_are_drawn_once_and_shared():
    # m3 has no record on task `sum`, which two pairs need, nor on language fr, which
    # two pairs need, nor on fi: the same draw must serve both pairs.
    sd, n = 5.0, 10_000
    tree = make_tree(
        interactions=("model:task", "model:language"), sd_cells=sd, spread=0.0, chains=1, draws=n
    )
    twin = Twin(tree, 0, 0)
    values = disparity_summaries(read_arrays(tree), seed=2)["mean_prr_latent_common"].values[:, 2]
    error = values - twin.disparity("m3", "common", "latent")[0]
    weight = {p: 1.0 / (len(twin.pairs) * twin.potential(*p)) for p in twin.pairs}
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


@pytest.mark.parametrize("residual_by", [None, *names.FACTORS])
@pytest.mark.parametrize("se", [False, True])
def test_new_scores_get_residual_noise_of_their_own_level(residual_by, se):
    n = 10_000
    tree = make_tree(residual_by=residual_by, se=se, spread=0.0, chains=1, draws=n)
    twin = Twin(tree, 0, 0)
    values = disparity_summaries(read_arrays(tree), seed=5)["mean_prr_common"].values[:, 2]
    own = {(la, t) for la, t, m, _ in twin.records if m == "m3"}
    errors = tree["constant_data"]["se"].values if se else np.zeros(len(twin.records))
    variance = 0.0
    for la, t in twin.pairs:
        if (la, t) in own:
            continue
        level = {"language": la, "task": t, "model": "m3"}
        sd = 3.0
        if residual_by is not None:
            sd *= 1 + twin.levels[residual_by].index(level[residual_by])
        here = [e for e, r in zip(errors, twin.records, strict=True) if r[:2] == (la, t)]
        variance += (sd**2 + np.mean(np.square(here))) / twin.potential(la, t) ** 2
    error = values - twin.disparity("m3", "common", "observed")[0]
    assert_within_mcse(error, 0.0)
    assert_within_mcse(error**2, variance / len(twin.pairs) ** 2)
    with pytest.raises(AssertionError, match="MCSE away"):
        assert_within_mcse(error**2, 1.2 * variance / len(twin.pairs) ** 2)


def test_student_t_noise_has_the_tails_of_its_degrees_of_freedom():
    n = 20_000
    tree = make_tree(
        [*COMPLETE[:-1]], likelihood="student_t", spread=0.0, chains=1, draws=n, sd_residual=2.0
    )
    tree = edit(tree, nu=3.0)
    twin = Twin(tree, 0, 0)
    (missing,) = set(twin.pairs) - {r[:2] for r in twin.records if r[2] == "m3"}
    values = disparity_summaries(read_arrays(tree), seed=5)["mean_prr_common"].values[:, 2]
    error = values - twin.disparity("m3", "common", "observed")[0]
    standardised = error * len(twin.pairs) * twin.potential(*missing) / 2.0
    # P(|t_3| > 3.182446) = 0.05 (t table); the normal has 0.0015 there.
    assert_within_mcse((np.abs(standardised) > 3.182446).astype(float), 0.05)
    with pytest.raises(AssertionError, match="MCSE away"):
        assert_within_mcse((np.abs(standardised) > 3.182446).astype(float), 0.0015)


def test_record_prr_values_and_precision():
    tree = make_tree(interactions=CROSSED)
    _, estimands = derive(tree, seed=0)
    assert estimands["prr"].dtype == np.float32
    assert estimands["prr"].dims == ("chain", "draw", "record")
    for chain, draw in [(0, 0), (1, 7)]:
        twin = Twin(tree, chain, draw)
        slow = [s / twin.potential(la, t) for la, t, _, s in twin.records]
        # float32 has a relative precision of 6e-8
        np.testing.assert_allclose(estimands["prr"].isel(chain=chain, draw=draw), slow, rtol=1e-6)


# -- guard -------------------------------------------------------------------------------


def poisoned_tree(n_bad, *, n_draws=400, low=1e-9):
    """French potential just below zero in the first `n_bad` draws; only m1 and m2 see fr."""
    tree = make_tree(chains=2, draws=n_draws // 2)
    potential = pair_potential(read_arrays(tree)).reshape(2, n_draws // 2, -1)
    labels = list(read_arrays(tree).pairs.labels)
    lowest = potential[:, :, [labels.index("fr|qa"), labels.index("fr|sum")]].max(axis=-1)
    effect = tree["posterior"]["language_effect"].values.copy()
    flat = np.zeros(n_draws, dtype=bool)
    flat[:n_bad] = True
    bad = flat.reshape(2, -1)
    effect[bad, 3] -= lowest[bad] + low
    return edit(tree, language_effect=effect)


def test_few_meaningless_draws_are_left_out_and_counted():
    tree = poisoned_tree(4)
    additions, estimands = derive(tree, seed=0)
    clean, _ = derive(poisoned_tree(0), seed=0)
    for name in ("mean_prr", "std_prr", "cv_prr", "mean_prr_latent"):
        values = additions[name].values.reshape(400, 4)
        assert json.loads(additions[name].attrs["excluded_draws"]) == {"m1": 4, "m2": 4}
        assert json.loads(additions[name].attrs["note"]) == (
            {} if name.startswith("mean") else {"m4": "one language-task pair: no spread"}
        )
        assert np.isnan(values[:4, :2]).all()
        np.testing.assert_array_equal(values[4:], clean[name].values.reshape(400, 4)[4:])
        assert np.isfinite(values[:, 2]).all()  # m3 was never tested on fr
    common = additions["mean_prr_common"]
    assert json.loads(common.attrs["excluded_draws"]) == dict.fromkeys(("m1", "m2", "m3", "m4"), 4)
    assert json.loads(estimands["prr"].attrs["excluded_draws"]) == {"fr|qa": 4, "fr|sum": 4}
    assert int(np.isnan(estimands["prr"]).sum()) == 4 * sum(r[0] == "fr" for r in INCOMPLETE)


def test_more_than_one_percent_makes_the_quantity_nan_with_the_reason():
    additions, estimands = derive(poisoned_tree(5), seed=0)
    for name in ("mean_prr", "std_prr", "cv_prr"):
        values = additions[name].values.reshape(400, 4)
        assert np.isnan(values[:, :2]).all()
        assert np.isfinite(values[:, 2]).all()
        assert "5 of 400 draws (1.25 %)" in json.loads(additions[name].attrs["note"])["m1"]
    assert np.isnan(additions["mean_prr_common"]).all()
    hit = [r[0] == "fr" for r in INCOMPLETE]
    np.testing.assert_array_equal(np.isnan(estimands["prr"]).all(dim=("chain", "draw")), hit)
    ranks = additions["mean_prr_rank"].values.reshape(400, 4)
    assert np.isnan(ranks[:, :2]).all()
    assert set(np.unique(ranks[:, 2:])) <= {1.0, 2.0}


def test_without_the_guard_the_mean_explodes():
    tree = poisoned_tree(1)
    twin = Twin(tree, 0, 0)
    unguarded = [Twin(tree, 0, d).disparity("m1", "observed", "observed")[0] for d in range(200)]
    assert abs(twin.disparity("m1", "observed", "observed")[0]) > 1e6
    assert abs(np.mean(unguarded)) > 1e4
    guarded = derive(tree, seed=0)[0]["mean_prr"].sel(model="m1")
    assert 0.2 < float(guarded.mean()) < 5.0


@pytest.mark.parametrize("value", [0.0, -1.0])
def test_cv_of_a_mean_at_or_below_zero_is_not_reported(value):
    tree = make_tree()
    score = tree["observed_data"]["score"].values.copy()
    score[[i for i, row in enumerate(INCOMPLETE) if row[2] == "m3"]] = value
    additions, _ = derive(edit(tree, group="observed_data", score=score), seed=0)
    assert np.isnan(additions["cv_prr"].sel(model="m3")).all()
    assert "Mean-PRR at or below 0" in json.loads(additions["cv_prr"].attrs["note"])["m3"]
    assert (additions["mean_prr"].sel(model="m3") <= 0.0).all()
    assert np.isfinite(additions["std_prr"].sel(model="m3")).all()


def test_a_model_with_one_pair_has_a_mean_but_no_spread():
    additions, _ = derive(make_tree(), seed=0)
    assert np.isfinite(additions["mean_prr"].sel(model="m4")).all()
    for name in ("std_prr", "cv_prr", "std_prr_latent", "cv_prr_latent"):
        assert np.isnan(additions[name].sel(model="m4")).all()
        assert np.isfinite(additions[f"{name}_common"].sel(model="m4")).all()
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
        expected = before[name] * (factor if name == "language_potential" else 1.0)
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
            # float32 for prr, float64 sums in another order elsewhere
            rtol = 1e-6 if name == "prr" else 1e-9
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
    for name in ("language_potential", "mean_prr_common", "mean_prr_latent_common"):
        assert not np.array_equal(first[name], other[name])
    np.testing.assert_array_equal(first["mean_prr"], other["mean_prr"])


@pytest.mark.parametrize("spec", SPECS)
def test_block_size_does_not_change_the_numbers(spec):
    arrays = read_arrays(make_tree(**SPECS[spec]))
    whole = disparity_summaries(arrays, seed=6)
    blocks = disparity_summaries(arrays, seed=6, max_bytes=10 * 8 * 8 * 7)
    for name, summary in whole.items():
        np.testing.assert_allclose(blocks[name].values, summary.values, rtol=1e-13)


def test_inputs_are_left_alone():
    tree = make_tree(interactions=CROSSED)
    before = {key: child.to_dataset().copy(deep=True) for key, child in tree.children.items()}
    derive(tree, seed=0)
    for key, dataset in before.items():
        assert tree[key].to_dataset().identical(dataset)


def test_record_prr_guard_limit_is_strict():
    arrays = read_arrays(make_tree(chains=1, draws=100))
    potential = pair_potential(arrays)
    potential[0, 0] = 0.0
    values, excluded = record_prr(arrays, potential)
    assert excluded[0] == 1
    assert np.isnan(values[:, arrays.pairs.of_record == 0]).sum() == 3  # three de|nli records
    potential[1, 0] = -1.0
    values, excluded = record_prr(arrays, potential)
    assert excluded[0] == 2
    assert np.isnan(values[:, arrays.pairs.of_record == 0]).all()
