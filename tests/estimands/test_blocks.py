"""Draws of large tables are gone through in blocks: the same numbers, without copies of all."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from functools import partial
from typing import TypeVar

import numpy as np
import pytest
from scipy.stats import rankdata

import bayeseval as be
from bayeseval import estimands, names
from bayeseval.estimands import arrays as plain
from bayeseval.estimands import predict, ranks
from bayeseval.estimands.expected import expected_scores, language_potential
from bayeseval.estimands.inference import language_gaps, may_be_zero
from bayeseval.estimands.predictor import linear_predictor
from bayeseval.estimands.prr import disparity_summaries
from bayeseval.simulation import simulate

Result = TypeVar("Result")


@pytest.fixture(scope="module")
def fit() -> be.Fit:
    table = simulate("additive", n_languages=150, n_tasks=2, n_models=3, seed=3).records
    return be.fit(table, "additive", draws=200, chains=2)


def traced(work: Callable[[], Result]) -> tuple[Result, int]:
    """What work returns, and the most bytes that it held."""
    work()
    tracemalloc.start()
    try:
        result = work()
        return result, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_ranks_take_little_more_than_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.random.default_rng(0).normal(size=(600, 200)).round(1)
    values[:, 7] = np.nan
    values[5, 9] = np.nan
    whole = ranks.rank_draws(values, highest_first=True)
    known = np.delete(np.delete(values, 7, axis=1), 5, axis=0)
    by_hand = rankdata(-known, method="min", axis=1)
    np.testing.assert_array_equal(np.delete(np.delete(whole, 7, axis=1), 5, axis=0), by_hand)
    assert np.isnan(whole[5]).all()
    assert np.isnan(whole[:, 7]).all()
    # Seven draws at a time, with a smaller block at the end.
    monkeypatch.setattr(ranks, "_RANKED", 7 * 200)
    cut, peak = traced(lambda: ranks.rank_draws(values, highest_first=True))
    np.testing.assert_array_equal(cut, whole)
    # All draws at once took seven times their memory beside the ranks.
    assert peak < 1.6 * values.nbytes


def test_probabilities_of_ranks_need_no_copy_of_the_ranks() -> None:
    drawn = ranks.rank_draws(np.random.default_rng(0).normal(size=(600, 200)), highest_first=True)
    best, peak = traced(lambda: ranks.rank_probabilities(drawn, most=1))
    np.testing.assert_array_equal(best[:, 0], (drawn == 1.0).mean(axis=0))
    assert peak < 0.2 * drawn.nbytes


def test_what_is_not_reported_takes_no_memory(fit: be.Fit) -> None:
    posterior = fit.data["posterior"]
    for name in (names.GAP_SD, names.CV_PRR_LANGUAGES, names.rank_name(names.GAP_SD)):
        values = posterior[name].to_numpy()
        assert np.isnan(values).all()
        assert values.shape == posterior["model_effect"].shape
        assert values.strides == (0, 0, 0)


def test_potentials_near_zero_are_found_in_blocks(
    fit: be.Fit, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrays = estimands.read_arrays(fit.data)
    # Means from two to eight sds, so that some are near zero and others are not.
    rng = np.random.default_rng(1)
    values = rng.normal(np.linspace(4.0, 8.0, 900), 1.0, size=(400, 900))
    by_hand = (values <= 0.0).any(axis=0) | (values.mean(axis=0) <= 5.0 * values.std(axis=0))
    assert 100 < by_hand.sum() < 500
    monkeypatch.setattr(plain, "_BLOCK", 400 * 64)
    assert len(plain.column_blocks(*values.shape)) == 14
    found, peak = traced(lambda: may_be_zero(arrays, values))
    np.testing.assert_array_equal(found, by_hand)
    assert peak < 0.3 * values.nbytes


def test_columns_are_cut_without_gaps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain, "_BLOCK", 1_000)
    cut = plain.column_blocks(100, 1_000)
    assert [s.start for s in cut[1:]] == [s.stop for s in cut[:-1]]
    assert (cut[0].start, cut[-1].stop) == (0, 1_000)
    assert min(s.stop - s.start for s in cut) >= 64
    assert plain.column_blocks(100, 0) == [slice(0, 0)]


def test_descriptions_need_no_copy_of_the_potentials(
    fit: be.Fit, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrays = estimands.read_arrays(fit.data)
    potential = fit.data["estimands"]["potential"].to_numpy().reshape(arrays.n_samples, -1)
    expected = expected_scores(arrays, seed=0, max_bytes=100_000)
    whole = disparity_summaries(expected_scores(arrays, seed=0), potential)
    monkeypatch.setattr(plain, "_BLOCK", 1)
    cut, peak = traced(lambda: disparity_summaries(expected, potential))
    for name, summary in whole.items():
        np.testing.assert_allclose(cut[name].values, summary.values, rtol=1e-12)
    assert peak < potential.nbytes


def test_gaps_in_blocks_of_languages_are_the_same(
    fit: be.Fit, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrays = estimands.read_arrays(fit.data)
    potential = language_potential(arrays, seed=0)
    left_out = np.arange(150) % 4 == 1
    ((_, _, gap, ratio),) = language_gaps(expected_scores(arrays, seed=0), potential, left_out)
    assert np.isnan(ratio[:, :, left_out]).all()
    monkeypatch.setattr(plain, "_BLOCK", 1)
    one_model = arrays.n_samples * 150
    cut = list(
        language_gaps(expected_scores(arrays, seed=0), potential, left_out, max_values=one_model)
    )
    assert [(models.tolist(), languages) for models, languages, *_ in cut[:3]] == [
        ([0], slice(0, 75)),
        ([0], slice(75, 150)),
        ([1], slice(0, 75)),
    ]
    for models, languages, *parts in cut:
        for part, whole in zip(parts, (gap, ratio), strict=True):
            np.testing.assert_array_equal(part, whole[:, models, languages])


def test_replicated_scores_take_twice_their_memory(fit: be.Fit) -> None:
    arrays = estimands.read_arrays(fit.data)
    assert predict.draws_by_row(arrays)
    scores, peak = traced(lambda: predict.replicate_scores(arrays, np.random.default_rng(4)))
    noise = np.random.default_rng(4).standard_normal(scores.shape)
    by_hand = linear_predictor(arrays) + arrays.residual_sd * noise
    np.testing.assert_array_equal(scores, by_hand)
    assert peak < 2.3 * scores.nbytes
    # Half of the draws at a time: the same scores.
    rng = np.random.default_rng(4)
    half = len(scores) // 2
    parts = (slice(0, half), slice(half, len(scores)))
    halves = [predict.replicate_scores(arrays, rng, part) for part in parts]
    np.testing.assert_array_equal(np.concatenate(halves), scores)


def test_sds_of_draws_are_taken_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.random.default_rng(2).normal(size=(401, 300))
    by_hand = [np.std(values, axis=1, ddof=1), np.sqrt(np.mean(values**2, axis=1))]
    monkeypatch.setattr(plain, "_BLOCK", 20_000)
    for reduce, whole in zip((plain.finite_sd, plain.root_mean_square), by_hand, strict=True):
        cut, peak = traced(partial(reduce, values))
        np.testing.assert_array_equal(cut, whole)
        assert peak < 0.2 * values.nbytes
    assert len(plain.finite_sd(values[:1])) == 1


@pytest.mark.parametrize("draws_together", [True, False])
def test_summaries_do_not_depend_on_the_number_of_blocks(
    draws_together: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = np.random.default_rng(3).normal(size=(200, 700))
    values[3, 8] = np.nan
    values = np.asfortranarray(values) if draws_together else values
    monkeypatch.setattr(plain, "_BLOCK", 60_000)
    found = []
    for parts, n_blocks in ((1, 2), (3, 6), (100, 10)):
        monkeypatch.setattr(plain, "_PARTS", parts)
        assert len(plain.column_blocks(*values.shape)) == n_blocks
        found.append(plain.interval_summary(values, ci_prob=0.9))
    for other in found[1:]:
        for own, part in zip(other, found[0], strict=True):
            np.testing.assert_array_equal(own, part)
    np.testing.assert_allclose(found[0].mean[:8], values[:, :8].mean(axis=0), rtol=1e-13)
