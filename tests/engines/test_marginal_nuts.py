"""NUTS on the log-sds, and the JAX density it moves on."""

from __future__ import annotations

from dataclasses import replace

import jax
import numpy as np
import pytest

from bayeseval.design import build_design
from bayeseval.engines import SamplerSettings, _importance, marginal
from bayeseval.engines import _marginal_nuts as nuts
from bayeseval.engines._marginal_density import build_marginal
from bayeseval.simulation import simulate
from bayeseval.spec import load_spec
from tests.engines.exact_gaussian import with_test_sets
from tests.engines.exact_two_sds import check_against_quadrature, quadrature, two_sds


def test_nuts_takes_over_and_has_the_same_posterior(monkeypatch: pytest.MonkeyPatch) -> None:
    # No importance weights are good enough for this gate.
    monkeypatch.setattr(_importance, "K_HAT_MAX", -np.inf)
    design = two_sds(0.0)
    said: list[str] = []
    draws = marginal.sample(
        design,
        SamplerSettings(draws=1000, chains=2),
        progress=lambda stage, done, total, remark: said.append(stage),
    )
    assert draws.attrs["path"] == "nuts"
    assert "k-hat" in draws.attrs["path_reason"]
    assert "log_marginal_likelihood" not in draws.attrs
    assert "NUTS" in said
    assert draws.sample_stats["diverging"].shape == (2, 1000)
    assert np.isfinite(draws.sample_stats["energy"]).all()
    assert not jax.config.jax_enable_x64
    check_against_quadrature(draws, quadrature(design))


# One noise class with constant products, the same added up entry by entry, and many
# classes; the eliminated term with and without the zero-sum constraint; shared test sets.
@pytest.mark.parametrize(
    ("spec", "errors", "dense"),
    [
        ("additive", False, True),
        ("additive", False, False),
        ("paper", True, True),
        ("crossed", False, True),
        ("crossed", True, True),
        ("test_sets", False, True),
    ],
)
def test_density_and_gradient_are_those_of_numpy(
    spec: str, errors: bool, dense: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not dense:
        monkeypatch.setattr(nuts, "_DENSE", 0)
    table = simulate("crossed", n_languages=5, n_tasks=3, n_models=4, seed=3).records
    shared = spec == "test_sets"
    design = build_design(table, load_spec("crossed" if shared else spec))
    if shared:
        design = with_test_sets(design)
    if errors:
        known = np.random.default_rng(1).uniform(0.5, 4.0, design.n_records)
        design = replace(design, se=known)
    engine = build_marginal(design)
    phi = np.log(np.random.default_rng(2).uniform(2.0, 12.0, engine.scales.n))
    with jax.enable_x64(True):
        function = jax.jit(jax.value_and_grad(nuts.log_posterior_function(engine)))
        value, gradient = (np.asarray(part) for part in function(phi))
    assert value == pytest.approx(engine.log_posterior(phi[None])[0], rel=1e-12)
    moves = 1e-5 * np.eye(len(phi))
    difference = engine.log_posterior(phi + moves) - engine.log_posterior(phi - moves)
    # Central differences are good to the step squared, and to rounding over the step.
    np.testing.assert_allclose(gradient, difference / 2e-5, rtol=1e-6, atol=1e-6)
    # Negative control: the gradient of the likelihood alone is another one.
    likelihood = engine.log_likelihood(phi + moves) - engine.log_likelihood(phi - moves)
    assert np.abs(gradient - likelihood / 2e-5).max() > 0.1
