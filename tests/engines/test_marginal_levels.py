"""Residual sds by level in the marginal engine: density, coordinates, sampling."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import jax
import numpy as np
import pytest

from bayeseval import fit, load, names
from bayeseval.design import Design, build_design
from bayeseval.engines import SamplerSettings, _importance, marginal, numpyro
from bayeseval.engines import _marginal_nuts as nuts
from bayeseval.engines._evidence import scale_proposal, with_informed_levels
from bayeseval.engines._marginal_density import Marginal, build_marginal
from bayeseval.engines._marginal_levels import informed
from bayeseval.engines._numpyro_density import log_density
from bayeseval.errors import EngineError
from bayeseval.simulation import simulate
from bayeseval.spec import ModelSpec, load_spec
from tests.engines.exact_gaussian import replicated, write_out
from tests.reference_posteriors import distances, far

CROSSED = ("language:task", "model:task", "model:language")


@cache
def table(factor: names.Factor = "task", *, errors: bool = False) -> Design:
    """An incomplete table with up to four records per cell, without errors or with three."""
    records = simulate("crossed", n_languages=6, n_tasks=3, n_models=4, seed=3).records
    spec = ModelSpec(name="levels", interactions=CROSSED, residual_by=factor)
    design = replicated(build_design(records, spec), 3)
    if errors:
        known = np.random.default_rng(11).choice([0.0, 1.5, 6.0], design.n_records)
        design = replace(design, se=known)
    return design


def points(engine: Marginal, n: int, *, seed: int = 0) -> np.ndarray:
    """Log-sds and offsets of a plausible size."""
    rng = np.random.default_rng(seed)
    split = len(engine.scales.names)
    phi = rng.normal(0.0, 0.7, (n, engine.scales.n))
    phi[:, :split] = np.log(rng.uniform(1.0, 9.0, (n, split)))
    phi[:, engine.scales.names.index(names.SD_LOG_RESIDUAL)] = np.log(rng.uniform(0.2, 1.0, n))
    return phi


def some_informed(engine: Marginal) -> Marginal:
    """The engine in other coordinates: those of records that say much, little and nothing."""
    middle = np.log([3.0, 5.0, 1.0])
    levels = replace(engine.scales.levels, middle=middle, weight=np.array([40.0, 2.0, 0.0]))
    return replace(engine, scales=replace(engine.scales, levels=levels))


@pytest.mark.parametrize("errors", [False, True])
@pytest.mark.parametrize("factor", ["language", "task", "model"])
def test_density_is_the_multivariate_normal_of_the_scores(
    factor: names.Factor, errors: bool
) -> None:
    design = table(factor, errors=errors)
    engine = build_marginal(design)
    phi = points(engine, 3)
    natural = engine.scales.natural(phi)
    found = engine.log_likelihood(phi)
    for value, sds in zip(found, natural, strict=True):
        named = dict(zip(engine.scales.names, sds, strict=False))
        own = sds[len(named) :][design.residual_index]
        # Independent code with known errors: the sd of each record's level is one of them.
        known = np.hypot(own, 0.0 if design.se is None else design.se)
        dense = write_out(replace(design, se=known))
        assert value == pytest.approx(dense.log_marginal({**named, "sd_residual": 0.0}), rel=1e-10)
        # Negative control: with one residual sd it is another density.
        one = write_out(replace(design, se=np.full(design.n_records, own.mean())))
        assert value != pytest.approx(one.log_marginal({**named, "sd_residual": 0.0}), rel=1e-4)


def test_prior_is_that_of_the_joint_density() -> None:
    """Against NumPyro's model, which is held against PyMC's: the sds and the offsets."""
    design = table()
    engine = build_marginal(design)
    for phi in points(engine, 3):
        natural = engine.scales.natural(phi)
        point = dict(zip(engine.scales.names, natural, strict=False))
        offsets = phi[len(point) :]
        point |= {"sd_residual_task_offset": offsets, names.INTERCEPT: np.float64(50.0)}
        for term in design.terms:
            point[term.effect if term.centred else term.offset] = np.zeros(term.n_levels)
        parts = log_density(design, point)
        # Of the sds the Jacobian of the logarithm is part of the engine's density.
        jacobian = phi[: len(engine.scales.names)].sum()
        sampled = (*engine.scales.names, "sd_residual_task_offset")
        expected = sum(parts[name] for name in sampled) + jacobian
        assert engine.scales.log_prior(phi) == pytest.approx(expected, rel=1e-12)
        sds = point["sd_residual"] * np.exp(point["sd_log_residual"] * offsets)
        np.testing.assert_allclose(engine.scales.residual(natural), sds, rtol=1e-12)


def test_coordinates_differ_by_their_jacobian_only() -> None:
    plain = build_marginal(table())
    other = some_informed(plain)
    phi = points(plain, 4)
    natural = plain.scales.natural(phi)
    moved = other.scales.unconstrained(natural)
    np.testing.assert_allclose(other.scales.natural(moved), natural, rtol=1e-12)
    np.testing.assert_allclose(plain.scales.unconstrained(natural), phi, atol=1e-12)
    # d offset / d value: the sd of a posterior given a normal likelihood, in prior sds.
    spread = natural[:, plain.scales.names.index(names.SD_LOG_RESIDUAL)]
    weight = other.scales.levels.weight
    factor = 1.0 / np.sqrt(1.0 + weight * spread[:, None] ** 2)
    expected = plain.log_posterior(phi) + np.log(factor).sum(axis=1)
    np.testing.assert_allclose(other.log_posterior(moved), expected, rtol=1e-12)
    assert np.abs(plain.log_posterior(phi) - expected).max() > 0.1


@pytest.mark.parametrize("spread", [1e-9, 0.3, 1e6])
def test_values_are_standardised_conditional_log_sds(spread: float) -> None:
    """For a normal likelihood, prior times likelihood is standard normal in the values."""
    levels = some_informed(build_marginal(table())).scales.levels
    typical = np.array(4.0)
    values = np.linspace(-3.0, 3.0, 7)[:, None] * np.array([1.0, -0.5, 2.0])
    log_sds = levels.log_sds(values, typical, np.array(spread))
    likelihood = -0.5 * (levels.weight * (log_sds - levels.middle) ** 2).sum(axis=1)
    total = levels.log_prior(values, typical, np.array(spread)) + likelihood
    standard = -0.5 * (values**2).sum(axis=1)
    np.testing.assert_allclose(total - total[3], standard - standard[3], rtol=1e-6, atol=1e-6)
    back = levels.sampled(log_sds, typical, np.array(spread))
    if spread > 1e-6:  # Closer than that, log-sds do not differ in 16 digits.
        np.testing.assert_allclose(back, values, atol=1e-9)


@pytest.mark.parametrize("errors", [False, True])
def test_density_and_gradient_of_nuts_are_those_of_numpy(errors: bool) -> None:
    engine = some_informed(build_marginal(table(errors=errors)))
    phi = engine.scales.unconstrained(
        build_marginal(table(errors=errors)).scales.natural(points(engine, 1))
    )[0]
    with jax.enable_x64(True):
        function = jax.jit(jax.value_and_grad(nuts.log_posterior_function(engine)))
        value, gradient = (np.asarray(part) for part in function(phi))
    assert value == pytest.approx(engine.log_posterior(phi[None])[0], rel=1e-12)
    moves = 1e-5 * np.eye(len(phi))
    difference = engine.log_posterior(phi + moves) - engine.log_posterior(phi - moves)
    # Central differences are good to the step squared, and to rounding over the step.
    np.testing.assert_allclose(gradient, difference / 2e-5, rtol=1e-5, atol=1e-5)


def test_records_say_where_log_sds_are_and_how_well_they_are_known() -> None:
    levels = build_marginal(table()).scales.levels
    assert levels.counts.sum() == table().n_records
    assert not levels.weight.any()
    middle, weight = np.array([0.5, 1.0, 2.0]), np.array([8.0, 90.0, 0.0])

    def log_likelihood(log_sds: np.ndarray) -> np.ndarray:
        # The third level has no maximum.
        return -0.5 * (weight * (log_sds - middle) ** 2).sum(axis=1) + 0.3 * log_sds[:, 2]

    found = informed(levels, log_likelihood, np.array([0.9, 0.9, 0.7]))
    np.testing.assert_allclose(found.weight, weight, atol=1e-6)
    np.testing.assert_allclose(found.middle[:2], middle[:2], atol=1e-6)


def test_what_records_say_makes_more_points_effective() -> None:
    """On a small table; in the coordinates of offsets, 30,000 points were not enough."""
    records = simulate("by_task", n_languages=8, n_tasks=4, n_models=6, seed=1).records
    design = build_design(records, load_spec("by_task"))
    plain = build_marginal(design)
    known, _ = with_informed_levels(plain, design)
    assert (known.scales.levels.weight > 10.0).all()  # Of 48 records each.
    effective = []
    for engine in (plain, known):
        proposal = scale_proposal(engine, design)
        uniform = _importance.quasi_random(1024, engine.scales.n, [np.random.SeedSequence(1)])
        at, log_proposal = proposal.points(uniform)
        log_weights = engine.log_posterior(at) - log_proposal
        effective.append(_importance.weigh(at, log_weights, chains=1).ess)
    assert effective[1] > 150.0
    assert effective[1] > 3.0 * effective[0]


def test_nuts_takes_over_where_weights_are_unreliable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_importance, "K_HAT_MAX", -np.inf)
    monkeypatch.setitem(numpyro._DEFAULTS, "tune", 20)
    design = table()
    draws = marginal.sample(design, SamplerSettings(draws=20, chains=1, seed=1))
    assert draws.attrs["path"] == "nuts"
    assert draws.attrs["tune"] == 20
    assert "of the importance weights is above" in str(draws.attrs["path_reason"])
    assert draws.posterior["sd_residual_task"].shape == (1, 20, 3)
    assert set(draws.posterior) == {*design.priors, *design.dims()}


def test_too_many_levels_are_left_to_nuts(monkeypatch: pytest.MonkeyPatch) -> None:
    design = table("language")
    assert marginal.why_not(design) is None
    monkeypatch.setattr(marginal, "MOST_LEVELS", 5)
    assert marginal.why_not(design) == (
        "residual sds of 6 languages are too many for importance sampling"
    )
    with pytest.raises(EngineError, match="6 languages are too many.*use the engine numpyro"):
        marginal.check_design(design)
    # Left-out densities by record come from another formula.
    assert marginal.why_no_closed_form(table()) == "residual sds differ by task"


def test_by_task_on_mega_is_the_reference_posterior() -> None:
    result = fit(load("mega"), "by_task", seed=3, draws=500)
    assert result.run["engine"] == "marginal"
    assert result.run["sampling"]["path"] == "importance"
    design = build_design(load("mega"), load_spec("by_task"))
    posterior = result.data["posterior"]
    assert {*design.priors, *design.dims()} < set(posterior.data_vars)
    found = distances(result, "mega", "by_task", estimates=("mean", "sd"))
    assert {"sd_residual_task", "sd_log_residual"} < set(found.index.get_level_values(0))
    assert far(found).empty, far(found)
