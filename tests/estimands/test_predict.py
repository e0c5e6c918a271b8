"""Replicated scores against the distributions they are drawn from."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from bayeseval.checks.realised import realised_pit
from bayeseval.estimands.container import SampledErrors
from bayeseval.estimands.predict import replicate_scores
from bayeseval.estimands.predictor import expected_score
from bayeseval.estimands.read import read_arrays
from tests.estimands.trees import make_tree


def quantiles(arrays, scores, scale):
    """Position of every replicated score in the distribution it should have."""
    z = (scores - expected_score(arrays)) / scale
    if "nu" not in arrays.extra:
        return stats.norm.cdf(z)
    return stats.t(arrays.extra["nu"][:, None]).cdf(z)


@pytest.mark.parametrize("likelihood", ["normal", "student_t"])
@pytest.mark.parametrize("se", [False, True])
def test_scores_have_the_distribution_of_the_model(likelihood, se):
    tree = make_tree(likelihood=likelihood, residual_by="task", se=se, draws=400)
    arrays = read_arrays(tree)
    scores = replicate_scores(arrays, np.random.default_rng(1))
    assert scores.shape == (800, len(arrays.score))
    scale = arrays.residual_sd[:, arrays.index["task"]]
    if se:
        scale = np.sqrt(scale**2 + arrays.se**2)
    # 16,000 independent uniforms; a p-value below 1e-4 by chance once in 10,000 seeds.
    assert stats.kstest(quantiles(arrays, scores, scale).ravel(), "uniform").pvalue > 1e-4
    # Negative control: one sd for all tasks is seen.
    wrong = quantiles(arrays, scores, np.full_like(scale, scale.mean()))
    assert stats.kstest(wrong.ravel(), "uniform").pvalue < 1e-4


def test_a_slice_of_the_draws_is_what_it_says():
    arrays = read_arrays(make_tree(sd_residual=1e-9))
    scores = replicate_scores(arrays, np.random.default_rng(1), slice(3, 7))
    np.testing.assert_allclose(scores, expected_score(arrays)[3:7], atol=1e-6)


@pytest.mark.parametrize("known", [None, 2.0])
def test_noise_of_replicates_is_that_of_the_draw(known):
    arrays = read_arrays(make_tree(sd_residual=0.01, draws=400))
    n, rng = len(arrays.score), np.random.default_rng(3)
    record = np.arange(0, n, 2)
    share = rng.uniform(0.2, 1.0, size=len(record))
    cells = SampledErrors(
        record, share, rng.lognormal(0.0, 1.0, size=(arrays.n_samples, len(record)))
    )
    known_se = None if known is None else np.full(n, known)
    noisy = replace(arrays, known_se=known_se, replicates=(cells,))
    variance = np.full((arrays.n_samples, n), 0.01**2 + (known or 0.0) ** 2)
    variance[:, record] += share * cells.sd**2
    scores = replicate_scores(noisy, rng)
    assert (
        stats.kstest(quantiles(noisy, scores, np.sqrt(variance)).ravel(), "uniform").pvalue > 1e-4
    )
    # Negative control: the mean over the draws is not it.
    wrong = np.broadcast_to(np.sqrt(variance.mean(axis=0)), variance.shape)
    assert stats.kstest(quantiles(noisy, scores, wrong).ravel(), "uniform").pvalue < 1e-4
    # Residuals realised under a draw have the noise of that draw, too.
    draws = np.array([5, 11])
    exact = stats.norm.cdf((noisy.score - expected_score(noisy)[draws]) / np.sqrt(variance[draws]))
    np.testing.assert_allclose(
        realised_pit(noisy, draws, rng), np.clip(exact, 1e-16, 1 - 1e-16), rtol=1e-12
    )
