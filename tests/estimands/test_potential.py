"""Potential of pairs and languages against the slow twin."""

from __future__ import annotations

import numpy as np
import pytest

from bayeseval.estimands import (
    derive,
    expected_score,
    language_potential,
    pair_potential,
    read_arrays,
)
from tests.estimands.trees import CROSSED, INCOMPLETE, Twin, edit, make_tree
from tests.helpers import assert_within_mcse

# Both sides add a handful of float64 numbers near 100 in different orders.
RTOL = 1e-12
FEW_LANGUAGES = [row for row in INCOMPLETE if row[0] in ("en", "fr")]


class ForbiddenRandomness:
    def __getattr__(self, name):
        raise AssertionError(f"asked for random numbers ({name})")


def twins(tree, **options):
    sizes = tree["posterior"].sizes
    return [
        Twin(tree, c, d, **options) for c in range(sizes["chain"]) for d in range(sizes["draw"])
    ]


@pytest.mark.parametrize("rows", [INCOMPLETE, FEW_LANGUAGES], ids=["incomplete", "few_languages"])
@pytest.mark.parametrize("interactions", [(), ("language:task",), CROSSED])
def test_pair_potential_and_expected_score_match_the_twin(interactions, rows):
    tree = make_tree(rows, interactions=interactions)
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
    values = language_potential(read_arrays(tree), rng=ForbiddenRandomness())
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
    values = language_potential(read_arrays(tree), rng=np.random.default_rng(0))
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
    values = language_potential(arrays, rng=np.random.default_rng(3))
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
    for name in first.data_vars:
        np.testing.assert_allclose(first[name], second[name], rtol=RTOL, err_msg=str(name))


def test_population_choice_does_not_enter_the_potential():
    tree = make_tree()
    sample = tree.copy()
    sample["constant_data"].attrs["population"] = "models"
    first, second = derive(tree, seed=0)[0], derive(sample, seed=0)[0]
    np.testing.assert_array_equal(first["language_potential"], second["language_potential"])
    assert first["language_potential"].attrs["population"] == "observed"
    assert second["language_potential"].attrs["population"] == "models"
