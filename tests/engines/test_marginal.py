"""The marginal engine as a whole: its posterior against quadrature, and its contract."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from arviz_stats.base import array_stats

from bayeseval import load
from bayeseval.design import build_design
from bayeseval.engines import SamplerSettings, marginal, to_tree
from bayeseval.errors import EngineError
from bayeseval.fitting.gate import convergence_gate
from bayeseval.simulation import simulate
from bayeseval.spec import ModelSpec, load_spec
from tests.engines.exact_two_sds import check_against_quadrature, quadrature, two_sds


@pytest.mark.parametrize("sd_model", [10.0, 0.0], ids=["there", "absent"])
def test_posterior_and_evidence_are_those_of_quadrature(sd_model: float) -> None:
    design = two_sds(sd_model)
    draws = marginal.sample(design, SamplerSettings())
    assert draws.attrs["path"] == "importance"
    exact = quadrature(design)
    check_against_quadrature(draws, exact)
    found = float(draws.attrs["log_marginal_likelihood"])
    error = float(draws.attrs["log_marginal_likelihood_se"])
    assert error < 0.02
    assert abs(found - exact.log_evidence) < 5.0 * error


def test_draws_have_the_names_and_shapes_of_every_engine() -> None:
    design = build_design(load("mega"), load_spec("interaction"))
    draws = marginal.sample(design, SamplerSettings(draws=200, chains=3))
    tree = to_tree(design, draws, engine="marginal")
    posterior = tree["posterior"].to_dataset()
    assert list(posterior.data_vars) == [*design.priors, *design.dims()]
    assert dict(posterior.sizes)["chain"] == 3
    assert dict(posterior.sizes)["draw"] == 200
    assert posterior["language_task_effect"].sizes["language_task"] == 216
    for factor in ("language", "task", "model"):
        assert np.abs(posterior[f"{factor}_effect"].sum(factor)).max() < 1e-9
    for name in design.priors:
        assert np.isfinite(posterior[name]).all()
    assert posterior.attrs["path"] == "importance"
    assert float(posterior.attrs["k_hat"]) < 0.7
    assert tree["sample_stats"]["point"].dtype.kind == "i"
    # Draws of one point carry one value of every sd.
    for chain in range(3):
        points = tree["sample_stats"]["point"].to_numpy()[chain]
        sds = posterior["sd_task"].to_numpy()[chain]
        assert len(np.unique(points)) == len(np.unique(sds))


def test_mega_passes_the_gate_with_the_standard_deviations_of_the_other_engines() -> None:
    """Means by NumPyro's NUTS on the joint density, 4 x 1,000 draws, this package."""
    reference = {
        # parameter: mean, Monte-Carlo standard error
        "additive": {
            "sd_language": (10.141, 0.017),
            "sd_task": (16.514, 0.038),
            "sd_model": (12.104, 0.034),
            "sd_residual": (11.289, 0.003),
        },
        "crossed": {
            "sd_language": (9.404, 0.034),
            "sd_task": (15.886, 0.058),
            "sd_model": (11.363, 0.048),
            "sd_language_task": (7.194, 0.012),
            "sd_model_task": (7.134, 0.013),
            "sd_model_language": (5.622, 0.011),
            "sd_residual": (5.915, 0.004),
        },
    }
    for spec, means in reference.items():
        design = build_design(load("mega"), load_spec(spec))
        draws = marginal.sample(design, SamplerSettings())
        assert convergence_gate(to_tree(design, draws, engine="marginal")).status == "pass"
        assert float(draws.attrs["importance_efficiency"]) > 0.7
        for name, (mean, mcse) in means.items():
            values = draws.posterior[name]
            own = array_stats.mcse(values, chain_axis=0, draw_axis=1, method="mean")
            assert abs(values.mean() - mean) < 5.0 * np.hypot(mcse, own), (spec, name)


@pytest.mark.parametrize("seed", [2, 4])
def test_importance_sampling_copes_with_terms_that_are_not_there(seed: int) -> None:
    absent = {"sd_language_task": 0.0, "sd_model_language": 0.0, "sd_model_task": 0.0}
    table = simulate("crossed", sds=absent, seed=seed).records
    design = build_design(table, load_spec("crossed"))
    draws = marginal.sample(design, SamplerSettings())
    assert draws.attrs["path"] == "importance"
    # The gate asks for 100 effective draws per chain, in the weights too.
    assert float(draws.attrs["importance_ess"]) > 400.0
    assert convergence_gate(to_tree(design, draws, engine="marginal")).status == "pass"
    for name in absent:
        # Half of the prior's mass is above 0.67 of its scale.
        assert np.median(draws.posterior[name]) < 0.3 * 0.67 * design.priors[name].scale


def test_same_seed_same_draws() -> None:
    design = two_sds(10.0)
    first, again, other = (
        marginal.sample(design, SamplerSettings(draws=50, seed=seed)).posterior
        for seed in (1, 1, 2)
    )
    for name, values in first.items():
        np.testing.assert_array_equal(values, again[name])
        assert not np.array_equal(values, other[name])


def test_few_points_serve_many_draws_and_are_counted_as_few(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # As on a model so large that points are dear.
    monkeypatch.setattr(marginal, "_OPERATIONS", 0.0)
    design = build_design(load("mega"), load_spec("additive"))
    draws = marginal.sample(design, SamplerSettings(draws=1000))
    assert draws.attrs["n_points"] == 1024
    importance_ess = float(draws.attrs["importance_ess"])
    assert 800.0 < importance_ess < 1024.0

    def bulk(values: np.ndarray) -> float:
        return float(array_stats.ess(values, chain_axis=0, draw_axis=1, method="bulk"))

    sd = draws.posterior["sd_task"]
    # ArviZ's estimate varies by about a tenth at this size.
    assert bulk(sd) < 1.3 * importance_ess
    shuffled = np.random.default_rng(0).permuted(sd, axis=1)
    assert bulk(shuffled) > 2.5 * importance_ess
    # Effects are drawn afresh every time.
    assert bulk(draws.posterior["language_effect"][..., 3]) > 2.5 * importance_ess


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        (ModelSpec(name="t", likelihood="student_t"), "normal likelihood, not of student_t"),
        (
            ModelSpec(name="i", priors={"intercept": {"dist": "student_t", "df": 3, "scale": 2}}),
            "must be normal, not student_t",
        ),
    ],
    ids=["likelihood", "intercept"],
)
def test_what_is_not_gaussian_is_refused_with_a_way_out(spec: ModelSpec, reason: str) -> None:
    table = simulate("additive", n_languages=5, n_tasks=3, n_models=4, seed=3).records
    design = build_design(table, spec)
    with pytest.raises(EngineError, match=f"{reason}.*use the engine numpyro"):
        marginal.sample(design, SamplerSettings(draws=10))


def test_what_is_gaussian_is_not_refused() -> None:
    for spec in ("additive", "interaction", "crossed", "paper", "by_task"):
        assert marginal.why_not(build_design(load("mega"), load_spec(spec))) is None


@pytest.mark.parametrize(
    "setting", [{"tune": 100}, {"target_accept": 0.9}, {"nuts_sampler": "nutpie"}]
)
def test_settings_of_warm_up_are_refused(setting: dict[str, object]) -> None:
    with pytest.raises(EngineError, match=f"does not take {next(iter(setting))}"):
        marginal.sample(two_sds(10.0), SamplerSettings(**setting))  # type: ignore[arg-type]


def test_progress_is_told() -> None:
    said: list[tuple[str, int, int]] = []
    tell: Callable[[str, int, int, str], None] = lambda s, d, t, r: said.append((s, d, t))  # noqa: E731
    marginal.sample(two_sds(10.0), SamplerSettings(draws=50), progress=tell)
    assert [stage for stage, done, _ in said if done == 0] == [
        "finding the mode",
        "importance sampling",
    ]
    assert all(done in (0, total) for _, done, total in said)
