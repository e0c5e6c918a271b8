"""Variance components against direct formulas."""

from __future__ import annotations

import numpy as np
import pytest

from bayeseval.estimands import component_dataset, read_arrays, variance_components
from tests.estimands.trees import CROSSED, Twin, edit, make_tree
from tests.helpers import assert_within_mcse

RTOL = 1e-12


def flat(tree, name):
    values = tree["posterior"][name].values
    return values.reshape(values.shape[0] * values.shape[1], *values.shape[2:])


def residuals(tree):
    sizes = tree["posterior"].sizes
    return np.array(
        [
            [s - twin.expected(la, t, m) for la, t, m, s in twin.records]
            for c in range(sizes["chain"])
            for d in range(sizes["draw"])
            for twin in [Twin(tree, c, d)]
        ]
    )


def test_normal_model_by_formula():
    tree = make_tree(interactions=CROSSED)
    result = variance_components(read_arrays(tree))
    assert result.labels == ("language", "task", "model", *CROSSED, "residual")
    assert set(result.kind) == {"pooled"}
    terms = result.labels[:-1]
    sd = [flat(tree, f"sd_{t.replace(':', '_')}") for t in terms] + [flat(tree, "sd_residual")]
    effects = [flat(tree, f"{t.replace(':', '_')}_effect") for t in terms]
    # Levels of a factor about their mean, K - 1; cells and records about zero.
    finite = [
        np.sqrt(((e - e.mean(axis=1, keepdims=True)) ** 2).sum(axis=1) / n)
        for e, n in zip(effects[:3], [3, 2, 3], strict=True)
    ]
    finite += [
        np.sqrt((e**2).sum(axis=1) / n) for e, n in zip(effects[3:], [8, 9, 11], strict=True)
    ]
    finite += [np.sqrt((residuals(tree) ** 2).sum(axis=1) / 20)]
    np.testing.assert_allclose(result.sd, np.stack(sd, axis=1), rtol=RTOL)
    np.testing.assert_allclose(result.finite_sd, np.stack(finite, axis=1), rtol=RTOL)
    total = sum(s**2 for s in sd)
    np.testing.assert_allclose(result.share, np.stack([s**2 / total for s in sd], 1), rtol=RTOL)
    np.testing.assert_allclose(result.share.sum(axis=1), 1.0, rtol=RTOL)


def test_fixed_effects_use_their_finite_population_sd():
    tree = make_tree(fixed=("language", "task"))
    result = variance_components(read_arrays(tree))
    assert result.kind == ("fixed", "fixed", "pooled", "pooled")
    np.testing.assert_array_equal(result.sd[:, :2], result.finite_sd[:, :2])
    expected = np.std(flat(tree, "task_effect"), axis=1, ddof=1)
    np.testing.assert_allclose(result.sd[:, 1], expected, rtol=RTOL)


@pytest.mark.parametrize("factor", ["language", "task", "model"])
def test_residual_that_differs_by_level_is_pooled_over_records(factor):
    tree = make_tree(residual_by=factor)
    result = variance_components(read_arrays(tree))
    twin = Twin(tree, 0, 0)
    place = ("language", "task", "model").index(factor)
    own = [3.0 * (1 + twin.levels[factor].index(r[place])) for r in twin.records]
    np.testing.assert_allclose(result.sd[:, -1], np.sqrt(np.mean(np.square(own))), rtol=RTOL)


def test_student_t_residual_is_realised_and_exists_for_heavy_tails():
    tree = edit(make_tree(likelihood="student_t"), nu=1.2)
    result = variance_components(read_arrays(tree))
    assert result.kind[-1] == "realised"
    expected = np.sqrt(np.mean(residuals(tree) ** 2, axis=1))
    np.testing.assert_allclose(result.sd[:, -1], expected, rtol=RTOL)
    assert np.isfinite(result.share).all()
    np.testing.assert_allclose(result.share.sum(axis=1), 1.0, rtol=RTOL)


def test_realised_residual_recovers_a_known_variance():
    # Independent draws of one score around a known expectation: with t_5 noise the
    # mean square is sigma^2 * 5 / 3, not sigma^2.
    noise = 2.0 * np.random.default_rng(8).standard_t(5.0, size=20_000)
    assert_within_mcse(noise**2, 4.0 * 5.0 / 3.0)
    rows = [(la, t, m) for la in "ab" for t in "xy" for m in ("m", "n")] * 2500
    tree = make_tree(rows, likelihood="student_t", spread=0.0, chains=1, draws=1)
    twin_free = variance_components(read_arrays(tree))  # scores unrelated to the effects
    eta = tree["observed_data"]["score"].values - residuals(tree)[0]
    tree = edit(tree, group="observed_data", score=eta + noise)
    result = variance_components(read_arrays(tree))
    np.testing.assert_allclose(result.sd[0, -1] ** 2, np.mean(noise**2), rtol=1e-9)
    assert twin_free.sd[0, -1] > 2 * result.sd[0, -1]


def test_known_standard_errors_are_a_component_of_their_own():
    tree = make_tree(se=True)
    result = variance_components(read_arrays(tree))
    assert result.labels[-2:] == ("residual", "known_se")
    assert result.kind[-1] == "known"
    se = tree["constant_data"]["se"].values
    np.testing.assert_allclose(result.sd[:, -1], np.sqrt(np.mean(se**2)), rtol=RTOL)
    # So is what items that cells of a task share do to the scores.
    shared, task = np.array([1.5, 0.7, 0.2]), tree["constant_data"]["task_index"].values
    items = edit(
        tree,
        group="constant_data",
        test_set_task_sd=("test_set_task", shared),
        test_set_task_index=("record", task),
    )
    result = variance_components(read_arrays(items))
    assert result.labels[-3:] == ("residual", "known_se", "shared_items")
    assert result.kind[-1] == "known"
    expected = np.sqrt(np.mean(shared[task] ** 2))
    np.testing.assert_allclose(result.sd[:, -1], expected, rtol=RTOL)
    # A realised residual holds them already.
    robust = variance_components(read_arrays(make_tree(se=True, likelihood="student_t")))
    assert robust.labels[-1] == "residual"


def test_a_factor_with_one_level_is_no_component():
    rows = [(la, "only", m) for la in "ab" for m in ("m", "n")]
    tree = edit(make_tree(rows), task_effect=None, sd_task=None)
    constant = tree["constant_data"].to_dataset().assign_coords(task=["only"])
    tree["constant_data"] = constant
    assert variance_components(read_arrays(tree)).labels == ("language", "model", "residual")


def test_labelled_components():
    tree = make_tree(interactions=("model:task",), fixed=("task",))
    dataset = component_dataset(tree)
    parts = variance_components(read_arrays(tree))
    assert dataset["sd"].dims == ("chain", "draw", "component")
    assert list(dataset["component"].values) == list(parts.labels)
    assert (
        dict(zip(dataset["component"].values, dataset["kind"].values, strict=True))["task"]
        == "fixed"
    )
    for name, values in (("sd", parts.sd), ("finite_sd", parts.finite_sd), ("share", parts.share)):
        np.testing.assert_array_equal(dataset[name].values.reshape(values.shape), values)
