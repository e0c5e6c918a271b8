"""Estimands on the response scale: integrals over models, bounds, draws of scores."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import xarray as xr
from scipy import integrate, special, stats

from bayeseval.engines._density import random_point, to_posterior
from bayeseval.engines.base import Draws, SamplerSettings, to_tree
from bayeseval.errors import InputError
from bayeseval.estimands import derive, expected_scores, infer, read_arrays
from bayeseval.estimands.components import variance_components
from bayeseval.estimands.container import PosteriorArrays
from bayeseval.estimands.expected import language_potential
from bayeseval.estimands.plan_variances import read_plan_variances
from bayeseval.estimands.predict import replicate_scores
from bayeseval.estimands.predictor import expected_score, linear_predictor, pair_predictor
from bayeseval.estimands.response import logistic_normal_mean
from bayeseval.estimands.summaries import components_table
from tests.bounded_tables import design


def tree_of(draws: int = 4, **spec: Any) -> xr.DataTree:
    """Random posterior of the small table, one chain."""
    built = design(**spec)
    rng = np.random.default_rng(5)
    points = [to_posterior(built, random_point(built, rng)) for _ in range(draws)]
    posterior = {name: np.stack([p[name] for p in points])[None] for name in points[0]}
    return to_tree(built, Draws(posterior, {}, SamplerSettings()), engine="numpyro")


def pair_potential(arrays: PosteriorArrays) -> np.ndarray:
    """Potential of the pairs of the benchmark."""
    return infer(expected_scores(arrays, seed=0)).point_potential


def exact_mean(eta: float, sd: float) -> float:
    """E[expit(eta + sd z)] by adaptive quadrature."""
    value, _ = integrate.quad(
        lambda z: special.expit(eta + sd * z) * stats.norm.pdf(z), -12, 12, epsabs=1e-12, limit=200
    )
    return float(value)


@pytest.mark.parametrize(("sd", "error"), [(0.3, 1e-9), (1.0, 1e-9), (2.0, 1e-7), (3.0, 1e-5)])
def test_the_integral_over_models_is_that_of_adaptive_quadrature(sd: float, error: float) -> None:
    eta = np.array([-4.0, -1.0, 0.0, 0.5, 3.0])
    found = logistic_normal_mean(eta, np.array([sd]))
    expected = np.array([exact_mean(value, sd) for value in eta])
    assert np.abs(found - expected).max() < error
    # Negative control: the score at the mean effect is another number.
    if sd >= 1.0:
        assert np.abs(special.expit(eta) - expected).max() > 0.01


def test_integral_and_simulation_agree() -> None:
    draws = special.expit(1.2 + 1.5 * np.random.default_rng(0).standard_normal(200_000))
    error = draws.std() / np.sqrt(len(draws))
    found = float(logistic_normal_mean(np.array([1.2]), np.array([1.5]))[0])
    assert abs(found - draws.mean()) < 5.0 * error
    assert abs(special.expit(1.2) - draws.mean()) > 5.0 * error


@pytest.mark.parametrize("chance", [False, True])
@pytest.mark.parametrize("likelihood", ["binomial", "beta", "logit_normal", "mixed"])
def test_potentials_are_expected_scores_of_new_models(likelihood: str, chance: bool) -> None:
    mixed = {"t0": "logit_normal", "t1": "beta", "t2": "binomial"}
    by_task = mixed if likelihood == "mixed" else dict.fromkeys(mixed, likelihood)
    arrays = read_arrays(
        tree_of(
            likelihood=by_task if likelihood == "mixed" else likelihood,
            chance=chance,
            interactions=["model:task"],
            population="models",
        )
    )
    eta, potential = pair_predictor(arrays), pair_potential(arrays)
    model_sd = np.sqrt(arrays.main_sd["model"] ** 2 + arrays.cells[0].sd ** 2)
    floor = np.zeros(3) if arrays.response.chance is None else arrays.response.chance
    rng = np.random.default_rng(1)
    models = rng.standard_normal((200_000, 2))
    for draw in range(arrays.n_samples):
        for pair in (0, 4, 8):
            c = floor[arrays.pairs.task[pair]]
            share = c + (1.0 - c) * special.expit(eta[draw, pair] + model_sd[draw] * models[:, 0])
            if by_task[f"t{arrays.pairs.task[pair]}"] == "logit_normal":
                noise = arrays.residual_sd[draw, 0] * models[:, 1]
                share = special.expit(special.logit(share) + noise)
            error = 100.0 * share.std() / np.sqrt(len(share))
            # 96 comparisons; and 1e-3 for sds above 3, which are not met in practice.
            assert abs(potential[draw, pair] - 100.0 * share.mean()) < 5.0 * error + 1e-3
    plugged = 100.0 * (floor + (1.0 - floor) * special.expit(eta[:, [0, 4, 8]]))
    assert np.abs(plugged - potential[:, [0, 4, 8]]).max() > 1.0
    assert ((potential > 0.0) & (potential < 100.0)).all()


@pytest.mark.parametrize("effects", [{}, {"model": "fixed"}])
def test_the_models_at_hand_are_averaged_over(effects: dict[str, str]) -> None:
    arrays = read_arrays(tree_of(likelihood="beta", effects=effects))
    eta = pair_predictor(arrays)[:, :, None] + arrays.main["model"][:, None, :]
    potential = pair_potential(arrays)
    np.testing.assert_allclose(potential, 100.0 * special.expit(eta).mean(axis=2))
    # Negative control: the score of a model without an effect is another number.
    assert np.abs(potential - 100.0 * special.expit(pair_predictor(arrays))).max() > 0.5


def test_language_potential_is_the_mean_over_all_tasks() -> None:
    arrays = read_arrays(tree_of(likelihood="beta", interactions=["language:task"]))
    found = language_potential(arrays, seed=0)
    # All nine pairs are in the table, sorted by language.
    expected = pair_potential(arrays).reshape(-1, 3, 3).mean(axis=2)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize("population", ["observed", "models"])
def test_blocks_of_draws_do_not_change_the_numbers(population: str) -> None:
    spec = {"interactions": ["model:language"], "population": population}
    arrays = read_arrays(tree_of(draws=12, likelihood="beta", **spec))
    whole = infer(expected_scores(arrays, seed=0))
    blocks = expected_scores(arrays, seed=0, max_bytes=1)
    assert len(list(blocks.blocks())) == 12
    (block,) = expected_scores(arrays, seed=0).blocks()
    one_by_one = np.full_like(block.points, np.nan)
    for draws, model, points in blocks.of_points():
        one_by_one[draws, model] = points
    np.testing.assert_array_equal(one_by_one, block.points)
    cut = infer(blocks)
    for name in ("standardised_score", "prr", "cv_prr_constant_gap", "language_potential"):
        np.testing.assert_allclose(getattr(cut, name), getattr(whole, name), rtol=1e-12)


def test_expected_scores_and_ratios_are_on_the_response_scale() -> None:
    tree = tree_of(likelihood={"t0": "normal", "t1": "beta_binomial", "t2": "beta"}, chance=True)
    arrays = read_arrays(tree)
    floor = arrays.response.chance[arrays.index["task"]]
    expected = 100.0 * (floor + (1.0 - floor) * special.expit(linear_predictor(arrays)))
    np.testing.assert_allclose(expected_score(arrays), expected, rtol=1e-12)
    additions, estimands = derive(tree, seed=1)
    potential = pair_potential(arrays)[:, arrays.pairs.of_record]
    found = estimands["record_prr"].to_numpy()[0]
    np.testing.assert_allclose(found, arrays.score / potential, rtol=1e-6)
    ratio = expected / potential
    own = arrays.index["model"] == 1
    np.testing.assert_allclose(
        additions["mean_prr_latent"].to_numpy()[0, :, 1], ratio[:, own].mean(axis=1), rtol=1e-12
    )
    # Every model has every pair: both supports say the same.
    for name in ("mean_prr_latent", "cv_prr_latent"):
        np.testing.assert_allclose(additions[f"{name}_common"], additions[name], rtol=1e-9)


SPREAD = {
    "logit_normal": None,
    "beta": lambda m, n, s: stats.beta(m / s**2, (1 - m) / s**2),
    "binomial": lambda m, n, s: stats.binom(n.astype(int), m),
    "beta_binomial": lambda m, n, s: stats.betabinom(n.astype(int), m / s**2, (1 - m) / s**2),
}


@pytest.mark.parametrize("likelihood", list(SPREAD))
def test_replicated_scores_have_mean_and_spread_of_the_likelihood(likelihood: str) -> None:
    tree = tree_of(draws=1, likelihood=likelihood)
    posterior = tree["posterior"].to_dataset()
    many = tree.copy()
    many["posterior"] = xr.DataTree(posterior.isel(draw=np.zeros(20_000, dtype=int)))
    arrays = read_arrays(many)
    scores = replicate_scores(arrays, np.random.default_rng(2))
    mean = special.expit(linear_predictor(arrays, slice(0, 1))[0])
    if likelihood == "logit_normal":
        values, centre, sd = (
            special.logit(scores / 100.0),
            special.logit(mean),
            arrays.residual_sd[0, 0],
        )
        spread = np.full(len(mean), sd)
    else:
        noise = arrays.response.dispersion.get(likelihood, np.zeros((1, 1)))[0, 0]
        n = arrays.response.n_items
        exact = SPREAD[likelihood](mean, n, max(noise, 1e-9))
        size = 1.0 if likelihood == "beta" else n
        values, centre, spread = scores / 100.0, mean, exact.std() / size
        np.testing.assert_allclose(exact.mean() / size, mean, rtol=1e-9)
    # 27 records: five standard errors of a mean; an sd is good to a few per cent, and to
    # little where nearly all draws are equal.
    assert (np.abs(values.mean(axis=0) - centre) < 5.0 * spread / np.sqrt(len(values))).all()
    wide = spread > 0.01
    np.testing.assert_allclose(values.std(axis=0)[wide], spread[wide], rtol=0.06)


def test_components_are_on_the_logit_scale_and_say_what_residual_there_is() -> None:
    tree = tree_of(likelihood="logit_normal")
    # Scores at the bounds have no logit: they are moved inwards.
    tree["observed_data"]["score"].values[[0, 5]] = 0.0, 100.0
    arrays = read_arrays(tree)
    plain = variance_components(arrays)
    assert plain.labels == ("language", "task", "model", "residual")
    np.testing.assert_array_equal(plain.sd[:, -1], arrays.residual_sd[:, 0])
    share = np.clip(arrays.score / 100.0, 0.005, 0.995)
    residual = special.logit(share) - linear_predictor(arrays)
    np.testing.assert_allclose(plain.finite_sd[:, -1], np.sqrt((residual**2).mean(axis=1)))
    counts = variance_components(read_arrays(tree_of(likelihood="beta_binomial")))
    assert counts.labels == ("language", "task", "model")
    np.testing.assert_allclose(counts.share.sum(axis=1), 1.0)


def test_planning_refuses_variances_on_another_scale() -> None:
    with pytest.raises(InputError, match="on the logit scale \\(likelihood beta\\)"):
        read_plan_variances(tree_of(likelihood="beta"), fixed=(), seed=0)


def test_components_are_said_to_be_logits() -> None:
    assert set(components_table(tree_of(likelihood="beta"))["scale"]) == {"logit"}
    assert set(components_table(tree_of())["scale"]) == {"score"}


@pytest.mark.parametrize("residual_by", ["language", "task", "model"])
def test_expected_scores_of_pairs_have_the_residual_of_their_own_level(residual_by: str) -> None:
    arrays = read_arrays(tree_of(likelihood="logit_normal", residual_by=residual_by))
    # An expected score depends on the sd, and the sds differ.
    assert (np.ptp(arrays.residual_sd, axis=1) > 0.0).all()
    expected = expected_scores(arrays, seed=0)
    (block,) = expected.blocks()
    of_records = expected_score(arrays)
    for i, (language, task, model) in enumerate(
        zip(*(arrays.index[f] for f in ("language", "task", "model")), strict=True)
    ):
        (at,) = np.flatnonzero((expected.language == language) & (expected.task == task))
        np.testing.assert_allclose(block.points[:, model, at], of_records[:, i], rtol=1e-10)


@pytest.mark.parametrize("chance", [0.0, 0.25])
def test_normal_scores_beside_shares_scatter_about_their_own_mean(chance: float) -> None:
    """Without noise, a score drawn under a normal likelihood is its mean on the logit link."""
    tree = tree_of(likelihood={"t0": "normal", "default": "beta"}, chance=chance > 0.0)
    tree["posterior"]["sd_residual"].values[...] = 1e-9
    arrays = read_arrays(tree)
    own = arrays.index["task"] == 0
    scores = replicate_scores(arrays, np.random.default_rng(2))
    mean = chance + (1.0 - chance) * special.expit(linear_predictor(arrays))
    np.testing.assert_allclose(scores[:, own], 100.0 * mean[:, own], rtol=1e-8)
    # Negative control: shares do scatter.
    assert (np.abs(scores - 100.0 * mean)[:, ~own] > 1e-3).all()
