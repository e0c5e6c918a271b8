"""Cell means against brute-force conditioning; components by model against loops."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from bayeseval.estimands import derive
from bayeseval.estimands.noise import CellNoise, cell_means, model_components, read_noise
from bayeseval.estimands.plan_variances import read_plan_variances
from bayeseval.estimands.predictor import expected_score
from bayeseval.estimands.read import read_arrays
from tests.estimands.trees import COMPLETE, edit, make_tree
from tests.helpers import assert_within_mcse

N = 40_000


def _still(**more):
    """One draw, repeated: what is left is the noise of the conditional draws."""
    return _said(make_tree(COMPLETE, chains=1, draws=N, spread=0.0, se=True, **more))


def _said(tree):
    """The tree with its standard errors named as given ones, as a design writes them."""
    return edit(tree, group="constant_data", se_sd=tree["constant_data"]["se"])


def _noise(**sd):
    nothing = np.zeros((1, 1))
    return CellNoise(sd=sd, raw_sd={}, run_variance=nothing, mean_variance=nothing, pooled=True)


@pytest.mark.parametrize("residual_by", [None, "model"])
def test_cell_means_are_the_conditional_normal(residual_by: str | None) -> None:
    tree = _still(residual_by=residual_by)
    arrays, noise = read_arrays(tree), read_noise(tree)
    assert noise is not None
    assert noise.pooled
    drawn = cell_means(arrays, noise, rng=np.random.default_rng(0))
    v = tree["constant_data"]["se"].values ** 2
    eta = expected_score(arrays, slice(0, 1))[0]
    if residual_by is None:
        r = np.full(len(v), arrays.residual_sd[0, 0])
    else:
        r = arrays.residual_sd[0][arrays.index["model"]]
    for i in range(len(v)):
        # Joint covariance of the cell's mean and its observed score, conditioned by blocks.
        joint = np.array([[r[i] ** 2, r[i] ** 2], [r[i] ** 2, r[i] ** 2 + v[i]]])
        gain = joint[0, 1] / joint[1, 1]
        mean = eta[i] + gain * (arrays.score[i] - eta[i])
        sd = np.sqrt(joint[0, 0] - gain * joint[1, 0])
        assert abs(drawn[:, i].mean() - mean) < 5.0 * sd / np.sqrt(N)
        assert drawn[:, i].std() == pytest.approx(sd, rel=5.0 / np.sqrt(2 * N))
    # Negative control: these are not the observed scores.
    moved = np.abs(drawn.mean(axis=0) - arrays.score) > 5.0 * np.sqrt(v / N)
    assert moved.mean() > 0.8


def test_not_pooled_a_cell_mean_is_its_score_and_noise() -> None:
    tree = _still()
    arrays, noise = read_arrays(tree), read_noise(tree)
    assert noise is not None
    alone = replace(noise, pooled=False)
    drawn = cell_means(arrays, alone, rng=np.random.default_rng(0))
    sd = tree["constant_data"]["se"].values
    assert (np.abs(drawn.mean(axis=0) - arrays.score) < 5.0 * sd / np.sqrt(N)).all()
    assert drawn.std(axis=0) == pytest.approx(sd, rel=5.0 / np.sqrt(2 * N))


@pytest.mark.parametrize("pooled", [True, False])
def test_one_run_is_drawn_about_the_cell_mean_or_about_the_score(pooled: bool) -> None:
    tree = _said(make_tree(COMPLETE, chains=1, draws=4_000, spread=0.0, se=True))
    tree["constant_data"].attrs["pool_replicates"] = str(pooled).lower()
    arrays = read_arrays(tree)
    run = derive(tree, seed=0)[0]["arithmetic_mean_run"].to_numpy()[0]
    v = tree["constant_data"]["se"].to_numpy() ** 2
    gain = arrays.residual_sd[0, 0] ** 2 / (arrays.residual_sd[0, 0] ** 2 + v)
    eta = expected_score(arrays, slice(0, 1))[0]
    cell_mean, score = (eta + gain * (arrays.score - eta), gain * v), (arrays.score, 0.0 * v)
    (centre, variance), (other, _) = (cell_mean, score) if pooled else (score, cell_mean)
    for model in range(3):
        # All cells of the table are observed, so that every language has the same weight.
        own = arrays.index["model"] == model
        assert_within_mcse(run[:, model], centre[own].mean())
        sd = np.sqrt((variance + v)[own].sum()) / own.sum()
        assert run[:, model].std() == pytest.approx(sd, rel=5.0 / np.sqrt(2 * 4_000))
    # Negative control: the other centre is another number.
    own = arrays.index["model"] == 0
    with pytest.raises(AssertionError):
        assert_within_mcse(run[:, 0], other[own].mean())


def test_given_and_sampled_errors_of_a_record_add_up() -> None:
    tree = make_tree(COMPLETE, se=True)
    given = tree["constant_data"]["se"].to_numpy()
    shape = (2, 15, len(given))
    sd = np.random.default_rng(4).uniform(0.5, 2.0, size=shape)
    tree = edit(tree, sd_seed_cell=(("chain", "draw", "seed_cell"), sd))
    tree = edit(
        tree,
        group="constant_data",
        seed_cell_record=("seed_cell", np.arange(len(given))),
        seed_share=("record", np.full(len(given), 0.2)),
    )
    expected = np.sqrt(given**2 + 0.2 * (sd**2).mean(axis=(0, 1)))
    found = read_arrays(tree).se
    assert found is not None
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    alone = read_arrays(edit(tree, group="constant_data", se=None)).se
    assert alone is not None
    np.testing.assert_allclose(alone, np.sqrt(expected**2 - given**2), rtol=1e-9)


def test_a_cell_without_noise_is_what_was_observed() -> None:
    tree = make_tree(COMPLETE, se=True)
    tree = _said(edit(tree, group="constant_data", se=0.0))
    arrays, noise = read_arrays(tree), read_noise(tree)
    assert noise is not None
    drawn = cell_means(arrays, noise, rng=np.random.default_rng(0))
    assert drawn == pytest.approx(np.broadcast_to(arrays.score, drawn.shape), rel=1e-12)
    assert read_noise(make_tree(COMPLETE)) is None


def test_components_by_model_are_what_a_loop_says() -> None:
    tree = make_tree(COMPLETE, chains=1, draws=6)
    arrays = read_arrays(tree)
    rng = np.random.default_rng(3)
    seed = rng.uniform(0.5, 2.0, size=(6, len(arrays.score)))
    # The third model has no seeds; test sets are known everywhere.
    seed[:, arrays.index["model"] == 2] = np.nan
    boot = rng.uniform(0.5, 1.0, size=(1, len(arrays.score)))
    noise = _noise(seed=seed, boot=boot)
    scores = rng.uniform(20.0, 80.0, size=(6, 3, 5))
    found = model_components(arrays, noise, scores, rng=np.random.default_rng(1))
    for draw in range(6):
        for model in range(3):
            own = [i for i in range(len(arrays.score)) if arrays.index["model"][i] == model]
            mean = sum(scores[draw, model]) / 5
            between = (sum((x - mean) ** 2 for x in scores[draw, model]) / 4) ** 0.5
            assert found["between_sd"][draw, model] == pytest.approx(between, rel=1e-12)
            boots = sum(boot[0, i] ** 2 for i in own) / len(own)
            seeds = 0.0 if model == 2 else sum(seed[draw, i] ** 2 for i in own) / len(own)
            if model == 2:
                assert np.isnan(found["seed_sd"][draw, model])
            else:
                assert found["seed_sd"][draw, model] == pytest.approx(seeds**0.5, rel=1e-12)
            assert found["boot_sd"][draw, model] == pytest.approx(boots**0.5, rel=1e-12)
            assert found["within_sd"][draw, model] == pytest.approx((seeds + boots) ** 0.5)


def test_two_given_errors_of_a_test_set_add_up_by_model() -> None:
    tree = make_tree(COMPLETE, chains=1, draws=2)
    boot = np.linspace(0.1, 2.0, len(COMPLETE))
    # The second model has no bootstraps, the third has neither.
    model = tree["constant_data"]["model_index"].to_numpy()
    boot[model > 0] = np.nan
    se = np.where(model == 2, np.nan, np.linspace(0.1, 3.0, len(COMPLETE)))
    tree = edit(tree, group="constant_data", boot_sd=("record", boot), se_sd=("record", se))
    found = read_plan_variances(tree, fixed=(), seed=0).test_set
    assert found is not None
    both = (boot**2 + se**2)[model == 0].mean()
    alone = (se**2)[model == 1].mean()
    # A model that tells nothing has the mean of the others.
    assert found[0] == pytest.approx([both, alone, (both + alone) / 2.0], rel=1e-12)


def test_shared_test_sets_add_to_the_error_of_a_score() -> None:
    tree = _said(make_tree(COMPLETE, se=True))
    task = tree["constant_data"]["task_index"].to_numpy()
    shared = np.array([1.5, 0.7])
    tree = edit(
        tree,
        group="constant_data",
        test_set_task_sd=("test_set_task", shared),
        test_set_task_index=("record", task),
    )
    noise = read_noise(tree)
    assert noise is not None
    own = tree["constant_data"]["se"].to_numpy()
    np.testing.assert_allclose(noise.mean_variance, [own**2 + shared[task] ** 2], rtol=1e-12)


def test_effects_of_shared_test_sets_are_added_up_on_the_records() -> None:
    tree = _said(make_tree(COMPLETE, se=True))
    index = {f: tree["constant_data"][f"{f}_index"].to_numpy() for f in ("task", "language")}
    rng = np.random.default_rng(6)
    effect = {f: rng.normal(size=(2, 15, n)) for f, n in (("task", 2), ("language", 3))}
    assert read_noise(tree).shared is None  # type: ignore[union-attr]
    for factor, drawn in effect.items():
        dim = f"test_set_{factor}"
        tree = edit(tree, **{f"{dim}_effect": (("chain", "draw", dim), drawn)})
        tree = edit(tree, group="constant_data", **{f"{dim}_index": ("record", index[factor])})
    noise = read_noise(tree)
    assert noise is not None
    parts = [effect[f].reshape(30, -1)[:, index[f]] for f in effect]
    np.testing.assert_allclose(noise.shared, parts[0] + parts[1], rtol=1e-12)


def test_the_population_sd_is_a_scaled_inverse_chi() -> None:
    arrays = read_arrays(make_tree(COMPLETE, chains=1, draws=N))
    scores = np.broadcast_to(np.array([1.0, 3.0, 4.0, 8.0, 9.0, 2.0, 7.0]), (N, 3, 7))
    noise = _noise(boot=np.ones((1, len(arrays.score))))
    found = model_components(arrays, noise, scores, rng=np.random.default_rng(1))
    ratio = (found["between_sd"] / found["between_sd_population"]) ** 2
    # chi-square with 6 degrees of freedom over 6: mean 1, variance 1/3.
    assert ratio.mean() == pytest.approx(1.0, abs=5.0 * np.sqrt(1 / 3 / ratio.size))
    assert ratio.var() == pytest.approx(1 / 3, rel=0.05)


def test_sds_that_are_sampled_go_before_those_that_are_known() -> None:
    """Records 0 and 1 have sampled sds of seeds, record 2 a known one, the others none."""
    tree = make_tree(COMPLETE, chains=2, draws=2)
    n = len(COMPLETE)
    sampled = np.array([[[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0], [7.0, 8.0]]])
    share, known, raw = np.zeros(n), np.full(n, np.nan), np.full(n, np.nan)
    share[:2], known[1:3], raw[:3] = (0.5, 0.25), (9.0, 4.0), (0.1, 0.2, 4.0)
    se = np.full(n, 1.5)
    tree = edit(tree, sd_seed_cell=(("chain", "draw", "seed_cell"), sampled))
    tree = edit(
        tree,
        group="constant_data",
        seed_cell_record=("seed_cell", np.array([0, 1])),
        seed_cell_raw_sd=("seed_cell", np.array([0.1, 0.2])),
        seed_share=("record", share),
        seed_sd=("record", known),
        se_sd=("record", se),
        se=("record", se),
    )
    found = read_noise(tree)
    assert found is not None
    assert set(found.sd) == {"seed", "se"}
    flat = sampled.reshape(4, 2)
    expected = np.full((4, n), np.nan)
    expected[:, :2], expected[:, 2] = flat, 4.0
    np.testing.assert_array_equal(found.sd["seed"], expected)
    np.testing.assert_array_equal(found.raw_sd["seed"], raw)
    np.testing.assert_array_equal(found.run_variance, np.nan_to_num(expected) ** 2 + 2.25)
    # Means have the parts of the variances that the shares say; known ones are in `se`.
    of_means = np.full((4, n), 2.25)
    of_means[:, :2] += flat**2 * [0.5, 0.25]
    np.testing.assert_array_equal(found.mean_variance, of_means)
    assert found.is_upper_bound.tolist() == [True] * 3 + [False] * (n - 3)
