"""Likelihoods on a logit link: both PPLs, NumPy and SciPy by hand give one density.

No sampling. Densities are of the scores in score units: of logits and shares with their
Jacobians, of counts spread over the spacing of the scores they belong to.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import special, stats

from bayeseval.design import build_design
from bayeseval.engines import numpyro as numpyro_engine
from bayeseval.engines import pymc as pymc_engine
from bayeseval.engines._density import random_point, sampled_variables, to_posterior
from bayeseval.engines._evidence import leave_group_out, log_evidence
from bayeseval.engines._leave_out import leave_out_log_density
from bayeseval.engines._leave_out_mixture import leave_out_mixture
from bayeseval.engines._marginal_density import build_marginal
from bayeseval.engines._marginal_nuts import log_posterior_function
from bayeseval.engines.base import linear_predictor, pointwise_log_likelihood
from bayeseval.engines.marginal import why_not
from bayeseval.records import Records
from bayeseval.spec import load_spec
from tests.bounded_tables import design, frame, records

REL = 1e-8

SPECS: list[dict[str, Any]] = [
    {"likelihood": "beta"},
    {"likelihood": "binomial", "chance": True},
    {"likelihood": "logit_normal", "chance": True, "residual_by": "task"},
    {"likelihood": "beta_binomial", "residual_by": "model"},
    {
        "likelihood": {"t0": "student_t", "t1": "beta_binomial", "t2": "beta"},
        "chance": True,
        "residual_by": "language",
    },
    {"likelihood": {"t0": "logit_normal", "t1": "binomial", "default": "beta"}},
    {"likelihood": {"t1": "student_t", "default": "normal"}},
]


@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_backends_agree(spec: dict[str, Any]) -> None:
    built = design(**spec)
    rng = np.random.default_rng(1)
    density = pymc_engine.density_function(built)
    for _ in range(3):
        point = random_point(built, rng)
        ours, theirs = density(point), numpyro_engine.log_density(built, point)
        assert set(ours) == set(theirs) == {*sampled_variables(built), "score"}
        for name in ours:
            assert ours[name] == pytest.approx(theirs[name], rel=REL), name
        likelihood = pointwise_log_likelihood(built, to_posterior(built, point)).sum()
        assert ours["score"] == pytest.approx(likelihood, rel=REL)


def by_hand(family: str, row: pd.Series, centre: float, noise: float) -> float:
    """Log density of one score in score units, range 0 to 100; `centre` is a logit."""
    share = min(max(row["score"] / 100.0, 0.005), 0.995)
    mean, precision = special.expit(centre), noise**-2
    if family == "logit_normal":
        jacobian = 1.0 / (100.0 * share * (1.0 - share))
        return float(stats.norm(centre, noise).logpdf(special.logit(share)) + np.log(jacobian))
    if family == "beta":
        shape = stats.beta(mean * precision, (1.0 - mean) * precision)
        return float(shape.logpdf(share) - np.log(100.0))
    if family == "binomial":
        mass = stats.binom(int(row["n"]), mean).logpmf(int(row["k"]))
    else:
        a, b = mean * precision, (1.0 - mean) * precision
        mass = stats.betabinom(int(row["n"]), a, b).logpmf(int(row["k"]))
    return float(mass + np.log(row["n"] / 100.0))


NOISE = {
    "logit_normal": "sd_residual",
    "beta": "dispersion_beta",
    "binomial": None,
    "beta_binomial": "dispersion_beta_binomial",
}


@pytest.mark.parametrize("chance", [False, True])
@pytest.mark.parametrize("family", list(NOISE))
def test_densities_are_those_of_scipy_in_score_units(family: str, chance: bool) -> None:
    built = design(likelihood=family, chance=chance)
    posterior = to_posterior(built, random_point(built, np.random.default_rng(2)))
    eta = linear_predictor(built, posterior)
    name = NOISE[family]
    found = pointwise_log_likelihood(built, posterior)
    table = records().table
    floors = table["chance"].fillna(0.0) / 100.0 if chance else np.zeros(len(table))
    for i, (row, floor) in enumerate(zip(table.to_dict("records"), floors, strict=True)):
        centre = special.logit(floor + (1.0 - floor) * special.expit(eta[i]))
        noise = float(posterior[name]) if name is not None else np.nan
        assert found[i] == pytest.approx(by_hand(family, row, centre, noise), rel=1e-9)


@pytest.mark.parametrize("family", ["logit_normal", "beta"])
def test_densities_integrate_to_one_over_the_scores(family: str) -> None:
    """What makes likelihoods comparable; a forgotten Jacobian is a factor of 25 or more."""
    score = np.linspace(0.5, 99.5, 2000)  # off the edges, where scores are moved
    place = np.arange(len(score))
    table = pd.DataFrame({"score": score})
    table = table.assign(
        model=[f"m{i // 6}" for i in place],
        language=[f"l{i % 2}" for i in place],
        task=[f"t{i // 2 % 3}" for i in place],
    )
    built = design(table, likelihood=family)
    posterior = {term.effect: np.zeros(term.n_levels) for term in built.terms}
    posterior |= {"intercept": np.array(0.4), str(NOISE[family]): np.array(0.3)}
    density = np.exp(pointwise_log_likelihood(built, posterior))
    # Beta and logit-normal have less than 1e-4 beyond the ends here.
    assert density.sum() * (score[1] - score[0]) == pytest.approx(1.0, abs=1e-3)


@pytest.mark.parametrize("family", ["binomial", "beta_binomial"])
def test_densities_of_counts_add_up_to_one(family: str) -> None:
    """Every score stands for 100 / n points around it."""
    n, rows = 20, 21 * 6
    table = pd.DataFrame(
        {
            "model": [f"m{i // 6}" for i in range(rows)],
            "language": [f"l{i % 2}" for i in range(rows)],
            "task": [f"t{i // 2 % 3}" for i in range(rows)],
            "n": n,
            "k": [i // 6 for i in range(rows)],
        }
    ).assign(score=lambda t: 100.0 * t["k"] / n)
    built = design(table, likelihood=family)
    posterior = {term.effect: np.zeros(term.n_levels) for term in built.terms}
    posterior |= {"intercept": np.array(0.4), "dispersion_beta_binomial": np.array(0.3)}
    density = np.exp(pointwise_log_likelihood(built, posterior)).reshape(21, 6)
    # Each of the six columns has every count once: models are sorted as text.
    assert density.sum(axis=0) * 100.0 / n == pytest.approx(1.0, abs=1e-9)


def on_logits() -> tuple[Any, Any]:
    """The same table as bounded scores, and as logits with the same priors."""
    bounded = design(likelihood="logit_normal")
    table = frame().assign(score=special.logit(np.clip(frame()["score"] / 100.0, 0.005, 0.995)))
    plain = Records.from_frame(table, name="logits", mixed_scales="allow", units=(None, None))
    return bounded, build_design(plain, load_spec({"name": "x"}))


def test_logit_normal_is_gaussian_and_exact_with_the_jacobian() -> None:
    bounded, plain = on_logits()
    assert why_not(bounded) is None
    assert bounded.priors == plain.priors
    share = np.clip(frame()["score"] / 100.0, 0.005, 0.995)
    jacobian = -np.log(100.0 * share * (1.0 - share))
    one, other = build_marginal(bounded), build_marginal(plain)
    phi = np.log(np.random.default_rng(3).uniform(0.2, 1.5, (4, one.scales.n)))
    difference = one.log_posterior(phi) - other.log_posterior(phi)
    assert difference == pytest.approx(jacobian.sum(), rel=1e-12)
    # NUTS has the same constant.
    import jax

    with jax.enable_x64(True):
        value = float(log_posterior_function(one)(phi[0]))
    assert value == pytest.approx(one.log_posterior(phi)[0], rel=1e-10)

    posterior = {name: np.exp(phi[:, i]) for i, name in enumerate(one.scales.names)}
    for by in ("record", "task"):
        gained = leave_out_log_density(bounded, posterior, by=by)
        gained = gained - leave_out_log_density(plain, posterior, by=by)
        # Rows are sorted by model, language and task as they are in the frame.
        own = jacobian if by == "record" else jacobian.groupby(frame()["task"]).sum()
        np.testing.assert_allclose(gained, np.broadcast_to(own, gained.shape), rtol=1e-9)
    effects = [random_point(bounded, np.random.default_rng(seed)) for seed in range(3)]
    flat = {name: np.stack([p[name] for p in effects]) for name in effects[0]}
    flat = to_posterior(bounded, flat)
    gained = leave_out_mixture(bounded, flat) - leave_out_mixture(plain, flat)
    np.testing.assert_allclose(gained, np.broadcast_to(jacobian, gained.shape), rtol=1e-9)
    evidence = log_evidence(bounded, seed=1).log - log_evidence(plain, seed=1).log
    assert evidence == pytest.approx(jacobian.sum(), rel=1e-12)
    groups = [leave_group_out(d, by="task", seed=1).log_density for d in (bounded, plain)]
    np.testing.assert_allclose(
        groups[0] - groups[1], jacobian.groupby(frame()["task"]).sum(), rtol=1e-8
    )


def test_a_chance_level_is_no_longer_gaussian() -> None:
    reason = why_not(design(likelihood="logit_normal", chance=True))
    assert reason is not None
    assert "chance level" in reason
    reason = why_not(design(likelihood="beta"))
    assert reason is not None
    assert "not of beta" in reason


def test_the_comparison_sees_a_wrong_density() -> None:
    """Negative control: another dispersion in one backend and the parts disagree."""
    built = design(likelihood="beta_binomial")
    point = random_point(built, np.random.default_rng(3))
    moved = point | {"dispersion_beta_binomial": point["dispersion_beta_binomial"] * 1.001}
    ours = pymc_engine.log_density(built, point)
    theirs = numpyro_engine.log_density(built, moved)
    assert ours["score"] != pytest.approx(theirs["score"], rel=REL)
