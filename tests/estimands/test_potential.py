"""Potential of pairs and languages against the slow twin."""

from __future__ import annotations

import numpy as np
import pytest

from bayeseval.estimands import derive, expected_score, expected_scores, infer, read_arrays
from bayeseval.estimands.expected import language_potential
from tests.estimands.trees import CROSSED, INCOMPLETE, Twin, edit, make_tree
from tests.helpers import assert_within_mcse

# Both sides add a handful of float64 numbers near 100 in different orders.
RTOL = 1e-12
FEW_LANGUAGES = [row for row in INCOMPLETE if row[0] in ("en", "fr")]


def pair_potential(arrays, seed=0):
    """Potential of the pairs of the benchmark."""
    return infer(expected_scores(arrays, seed=seed)).point_potential[:, : arrays.n_pairs]


def twins(tree, **options):
    sizes = tree["posterior"].sizes
    return [
        Twin(tree, c, d, **options) for c in range(sizes["chain"]) for d in range(sizes["draw"])
    ]


@pytest.mark.parametrize("rows", [INCOMPLETE, FEW_LANGUAGES], ids=["incomplete", "few_languages"])
@pytest.mark.parametrize("interactions", [(), ("language:task",), CROSSED])
def test_pair_potential_and_expected_score_match_the_twin(interactions, rows):
    # sd 0 turns cells without a record into zeros.
    tree = make_tree(rows, interactions=interactions, sd_cells=0.0)
    arrays = read_arrays(tree)
    slow = twins(tree)
    assert arrays.pairs.labels == tuple(f"{la}|{t}" for la, t in slow[0].pairs)
    np.testing.assert_allclose(
        pair_potential(arrays), [[w.potential(*p) for p in w.pairs] for w in slow], rtol=RTOL
    )
    np.testing.assert_allclose(
        expected_score(arrays),
        [[w.expected(*record[:3]) for record in w.records] for w in slow],
        rtol=RTOL,
    )


def test_language_potential_averages_all_tasks_and_needs_no_randomness_without_interaction():
    tree = make_tree()
    values = language_potential(read_arrays(tree), seed=0)
    np.testing.assert_array_equal(values, language_potential(read_arrays(tree), seed=1))
    slow = [[w.language_potential(la) for la in w.levels["language"]] for w in twins(tree)]
    np.testing.assert_allclose(values, slow, rtol=RTOL)
    # The mean over observed pairs only is another quantity: the check above can fail.
    own_tasks = [
        [np.mean([w.potential(*p) for p in w.pairs if p[0] == la]) for la in w.levels["language"]]
        for w in twins(tree)
    ]
    assert np.abs(values - own_tasks).max() > 1.0


def test_language_potential_with_interaction_counts_unobserved_cells():
    tree = make_tree(interactions=CROSSED, sd_cells=0.0)
    values = language_potential(read_arrays(tree), seed=0)
    slow = [[w.language_potential(la) for la in w.levels["language"]] for w in twins(tree)]
    np.testing.assert_allclose(values, slow, rtol=RTOL)


def test_unobserved_cells_add_the_right_variance():
    # All draws share the same parameters, so what varies is the unobserved cells:
    # de lacks 1 of 3 tasks, en none, fi 2, fr 1.
    sd, n_tasks = 4.0, 3
    tree = make_tree(
        interactions=("language:task",), sd_cells=sd, draws=10_000, spread=0.0, chains=1
    )
    arrays = read_arrays(tree)
    values = language_potential(arrays, seed=3)
    known = Twin(tree, 0, 0)
    for column, (label, missing) in enumerate([("de", 1), ("en", 0), ("fi", 2), ("fr", 1)]):
        error = values[:, column] - known.language_potential(label)
        if missing == 0:
            np.testing.assert_allclose(error, 0.0, atol=1e-11)
            continue
        assert_within_mcse(error, 0.0)
        assert_within_mcse(error**2, sd**2 * missing / n_tasks**2)
        with pytest.raises(AssertionError, match="MCSE away"):
            assert_within_mcse(error**2, sd**2 * (missing + 1) / n_tasks**2)
    correlation = np.corrcoef(values[:, 0], values[:, 2])[0, 1]
    # Independent languages: the standard error of a correlation is 1 / sqrt(n).
    assert abs(correlation) < 5 / np.sqrt(10_000)


def test_zero_interaction_equals_additive():
    crossed = make_tree(interactions=CROSSED, sd_cells=0.0)
    zeros = {f"{t.replace(':', '_')}_effect": 0.0 for t in CROSSED}
    additive = edit(
        crossed, **dict.fromkeys([*zeros, *(f"sd_{t.replace(':', '_')}" for t in CROSSED)])
    )
    first, _ = derive(edit(crossed, **zeros), seed=4)
    second, _ = derive(additive, seed=4)
    assert list(first.data_vars) == list(second.data_vars)
    # The additive model assumes that gaps are constant and reports no evenness.
    evenness = {
        "cv_prr_languages",
        "gap_sd_languages",
        "gap_sd_languages_rank",
        "worst_language_prr",
    }
    for name in evenness:
        assert np.isnan(second[name]).all(), name
    for name in set(first.data_vars) - evenness:
        np.testing.assert_allclose(first[name], second[name], rtol=RTOL, err_msg=str(name))


def as_sample(tree):
    """The same posterior with models drawn from a population."""
    sample = tree.copy()
    sample["constant_data"].attrs["population"] = "models"
    return sample


@pytest.mark.parametrize("interactions", [(), CROSSED])
def test_models_drawn_from_a_population_leave_the_potential_alone(interactions):
    tree = make_tree(interactions=interactions, sd_cells=0.0)
    values = derive(as_sample(tree), seed=0)[0]["language_potential"]
    assert values.attrs["population"] == "models"
    slow = [
        [np.mean([w.base(la, t) for t in w.levels["task"]]) for la in w.levels["language"]]
        for w in twins(tree)
    ]
    np.testing.assert_allclose(values.to_numpy().reshape(30, 4), slow, rtol=RTOL)
    observed = derive(tree, seed=0)[0]["language_potential"]
    assert observed.attrs["population"] == "observed"
    # Effects of models do not sum to zero in these draws.
    assert np.abs(observed - values).max() > 0.5


def test_potential_of_the_models_at_hand_is_their_mean_with_unobserved_cells_drawn():
    # m4 lacks fr: three of four models inform the cell, and the fourth adds its own variance.
    sd, n = 4.0, 10_000
    tree = make_tree(interactions=("model:language",), sd_cells=sd, spread=0.0, chains=1, draws=n)
    values = language_potential(read_arrays(tree), seed=1)
    twin = Twin(tree, 0, 0)
    tested = {(la, m) for la, _, m, _ in twin.records}
    for column, language in enumerate(twin.levels["language"]):
        missing = sum((language, m) not in tested for m in twin.levels["model"])
        error = values[:, column] - twin.language_potential(language)
        if missing == 0:
            np.testing.assert_allclose(error, 0.0, atol=1e-11)
            continue
        assert_within_mcse(error**2, missing * (sd / 4) ** 2)
        with pytest.raises(AssertionError, match="MCSE away"):
            assert_within_mcse(error**2, (missing + 1) * (sd / 4) ** 2)
