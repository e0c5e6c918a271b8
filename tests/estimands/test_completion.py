"""Scores by language: means over the pairs of the benchmark, new ones predicted."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from bayeseval.estimands.completion import (
    CompletedTerm,
    language_scores,
    missing_pairs,
    model_records,
    records_by_model,
)
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
    every = records_by_model(arrays)
    assert len(every) == len(arrays.levels["model"])
    for model, other in enumerate(every):
        one = model_records(arrays, model)
        np.testing.assert_array_equal(other.rows, one.rows)
        np.testing.assert_array_equal(other.pairs, one.pairs)
        np.testing.assert_array_equal(other.has_pair, one.has_pair)


def completed(term: str) -> CompletedTerm:
    """A term on 2 languages, 3 tasks of 2 datasets and 2 models, with a record of one cell."""
    factors = term.split(":")
    levels = {
        "language": ("a", "b"),
        "task": ("t0", "t1", "t2"),
        "model": ("m0", "m1"),
        "dataset": ("d0", "d1"),
    }
    # Tasks 0 and 2 are of the second dataset.
    pairs = SimpleNamespace(task=np.array([0, 1, 2]), levels={"dataset": np.array([1, 0, 1])})
    arrays: Any = SimpleNamespace(levels=levels, pairs=pairs)
    cells: Any = SimpleNamespace(term=term, members={f: np.array([0]) for f in factors})
    return CompletedTerm(arrays, cells)


@pytest.mark.parametrize(
    ("term", "new", "mean"),
    [
        # Effects on keys are 1, 2, ...: keys are levels in row-major order.
        ("model:language", 1.0, [1.0, 2.0]),
        ("model:task", 0.0, [2.0]),
        ("language:task", 1 / 3, [2.0, 5.0]),
        ("model:language:task", 1 / 3, [2.0, 5.0]),
        # Two of three tasks share their dataset: (1/3)^2 + (2/3)^2.
        ("model:language:dataset", 5 / 9, [5 / 3, 11 / 3]),
    ],
)
def test_a_term_has_its_mean_over_all_tasks(term: str, new: float, mean: list[float]) -> None:
    one = completed(term)
    assert one.mean_over_new() == pytest.approx(new)
    n_keys = int(np.prod([{"language": 2, "task": 3, "dataset": 2}[f] for f in term.split(":")
                          if f != "model"]))  # fmt: skip
    effect = np.arange(1.0, n_keys + 1.0)
    both = np.stack([effect, -effect])
    np.testing.assert_allclose(one.task_mean(both), [mean, [-value for value in mean]])
    # The same from the keys of the pairs, task by task.
    task = np.arange(3)
    by_hand = [both[:, one.keys(np.full(3, lang), task)].mean(axis=1) for lang in (0, 1)]
    expected = np.stack(by_hand, axis=1)
    np.testing.assert_allclose(np.broadcast_to(one.task_mean(both), (2, 2)), expected)
