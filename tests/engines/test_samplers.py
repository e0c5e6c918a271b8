"""The NUTS engines on a small table: same posterior, same seed, settings respected."""

from __future__ import annotations

import os

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from arviz_stats.base import array_stats

from bayeseval.design import Design, build_design
from bayeseval.engines import SamplerSettings, load_engine
from bayeseval.engines.base import Draws
from bayeseval.errors import EngineError
from bayeseval.simulation import simulate
from bayeseval.spec import load_spec
from tests.helpers import assert_within_mcse

KNOWN = {
    "name": "known",
    "effects": {"language": "fixed", "task": "fixed", "model": "fixed"},
    "fixed_scale": 0.5,
    # An sd that is as good as known, so that the posterior of the rest is Gaussian.
    "priors": {"sd_residual": {"dist": "gamma", "shape": 1e8, "rate": 2e7}},
}


@pytest.fixture(scope="module")
def design() -> Design:
    return build_design(
        simulate("additive", n_languages=5, n_tasks=3, n_models=4, seed=3).records,
        load_spec("additive"),
    )


@pytest.fixture(scope="module")
def numpyro_draws(design: Design) -> Draws:
    return load_engine("numpyro")(design, SamplerSettings(draws=1000, tune=800, seed=5))


def gaussian_posterior(design: Design, sd: float) -> tuple[np.ndarray, list[tuple[str, int]]]:
    """Exact posterior mean of intercept and effects with all sds known."""
    blocks, places = [np.ones((design.n_records, 1))], [("intercept", 0)]
    variances = [design.priors["intercept"].scale ** 2]
    bases = [np.eye(1)]
    for term in design.terms:
        k = term.n_levels
        # Orthonormal contrasts: independent N(0, sd^2) on K - 1 coordinates.
        basis = np.linalg.svd(np.eye(k) - 1.0 / k)[0][:, : k - 1]
        blocks.append(np.eye(k)[term.index] @ basis)
        variances += [term.known_sd**2] * (k - 1)
        bases.append(basis)
        places += [(term.effect, i) for i in range(k)]
    x = np.hstack(blocks)
    precision = x.T @ x / sd**2 + np.diag(1.0 / np.array(variances))
    prior_mean = np.zeros(x.shape[1])
    prior_mean[0] = design.priors["intercept"].loc
    rhs = x.T @ design.score / sd**2 + prior_mean / np.array(variances)
    solution = np.linalg.solve(precision, rhs)
    parts, start = [], 0
    for basis in bases:
        parts.append(basis @ solution[start : start + basis.shape[1]])
        start += basis.shape[1]
    return np.concatenate(parts), places


def test_numpyro_finds_the_exact_gaussian_posterior() -> None:
    design = build_design(
        simulate("additive", n_languages=5, n_tasks=3, n_models=4, seed=3).records, load_spec(KNOWN)
    )
    drawn = load_engine("numpyro")(design, SamplerSettings(draws=1000, tune=600, seed=1)).posterior
    exact, places = gaussian_posterior(design, sd=5.0)
    for value, (name, level) in zip(exact, places, strict=True):
        column = drawn[name] if drawn[name].ndim == 2 else drawn[name][..., level]
        assert_within_mcse(column, value, min_ess=400)
    # Negative control: the posterior of another residual sd is not this one.
    wrong, _ = gaussian_posterior(design, sd=50.0)
    with pytest.raises(AssertionError):
        for value, (name, level) in zip(wrong, places, strict=True):
            column = drawn[name] if drawn[name].ndim == 2 else drawn[name][..., level]
            assert_within_mcse(column, value, min_ess=400)


@pytest.mark.parametrize("nuts", ["pymc", "nutpie", "numpyro", "blackjax"])
def test_pymc_samplers_agree_with_numpyro(nuts: str, design: Design, numpyro_draws: Draws) -> None:
    settings = SamplerSettings(
        draws=500, tune=500, chains=2, seed=5, target_accept=0.95, nuts_sampler=nuts
    )
    flags = os.environ.get("XLA_FLAGS")
    with jax.enable_x64(False):
        theirs = load_engine("pymc")(design, settings)
        # PyMC's JAX samplers change both for the whole process.
        assert jnp.asarray(1.0).dtype == np.float32
    assert os.environ.get("XLA_FLAGS") == flags
    assert theirs.settings == settings
    assert theirs.attrs["inference_library"] == nuts
    assert theirs.posterior["language_effect"].shape == (2, 500, 5)
    assert all(values.dtype == np.float64 for values in theirs.posterior.values())
    found = theirs.sample_stats
    assert {"acceptance_rate", "diverging", "energy", "lp", "n_steps", "tree_depth"} <= set(found)
    # Energy is kinetic energy, which is positive, minus the log density.
    assert (found["energy"] + found["lp"] > 0.0).all()
    ours = numpyro_draws.posterior
    for name in ("intercept", "sd_language", "sd_residual"):
        error = np.hypot(
            *(
                array_stats.mcse(d[name][None], chain_axis=1, draw_axis=2)[0]
                for d in (ours, theirs.posterior)
            )
        )
        ess = array_stats.ess(
            theirs.posterior[name][None], method="bulk", chain_axis=1, draw_axis=2
        )[0]
        assert ess > 100, name
        assert abs(ours[name].mean() - theirs.posterior[name].mean()) < 5.0 * error, name


@pytest.mark.parametrize(
    ("engine", "settings", "phrase"),
    [
        ("numpyro", {"nuts_sampler": "nutpie"}, "engine numpyro does not take nuts_sampler"),
        ("pymc", {"nuts_sampler": "nutpi"}, "did you mean 'nutpie'?"),
    ],
)
def test_settings_without_a_use_are_refused(
    engine: str, settings: dict[str, str], phrase: str, design: Design
) -> None:
    with pytest.raises(EngineError) as caught:
        load_engine(engine)(design, SamplerSettings(**settings))  # type: ignore[arg-type]
    assert phrase in str(caught.value)
