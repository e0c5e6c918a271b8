"""Scores by language: means over the pairs of the benchmark, new ones predicted."""

from __future__ import annotations

import numpy as np
import pytest

from bayeseval.estimands.completion import language_scores, missing_pairs, model_records
from bayeseval.estimands.read import read_arrays
from tests.estimands.trees import COMPLETE, CROSSED, INCOMPLETE, Twin, make_tree


def test_observed_pairs_have_the_mean_of_their_cells() -> None:
    arrays = read_arrays(make_tree(COMPLETE))
    means = np.random.default_rng(0).uniform(20.0, 80.0, size=(arrays.n_samples, 18))
    found = language_scores(arrays, means, seed=0)
    assert found.shape == (30, 3, 3)
    for draw, model, language in np.ndindex(4, 3, 3):
        own = [
            means[draw, i]
            for i in range(18)
            if (arrays.index["model"][i], arrays.index["language"][i]) == (model, language)
        ]
        assert len(own) == 2
        assert found[draw, model, language] == pytest.approx(sum(own) / 2, rel=1e-12)


def test_pairs_without_a_record_are_expected_scores() -> None:
    tree = make_tree(INCOMPLETE, interactions=CROSSED, sd_cells=0.0, sd_residual=1e-9)
    arrays = read_arrays(tree)
    means = np.broadcast_to(arrays.score, (arrays.n_samples, len(arrays.score)))
    found = language_scores(arrays, means, seed=0)
    for draw in (0, 17):
        twin = Twin(tree, *divmod(draw, 15))
        seen = {(la, t, m): s for la, t, m, s in twin.records}
        for i, model in enumerate(twin.levels["model"]):
            for j, language in enumerate(twin.levels["language"]):
                tasks = [t for la, t in twin.pairs if la == language]
                scores = [
                    seen.get((language, t, model), twin.expected(language, t, model)) for t in tasks
                ]
                # The residual sd of 1e-9 and the order of the sums.
                assert found[draw, i, j] == pytest.approx(sum(scores) / len(scores), abs=1e-7)


def test_missing_pairs_and_records_of_a_model() -> None:
    arrays = read_arrays(make_tree(INCOMPLETE))
    last = arrays.levels["model"].index("m4")
    own = model_records(arrays, last)
    assert own.n_pairs == 1
    missing = {arrays.pairs.labels[p] for p in missing_pairs(arrays, own)}
    assert missing == set(arrays.pairs.labels) - {"en|nli"}
