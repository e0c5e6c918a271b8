"""NumPyro's compiled program: chains, blocks, start values, statistics, gradients."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from numpyro.infer.util import potential_energy, unconstrain_fn
from scipy import stats

from bayeseval import load, names
from bayeseval.design import Design, build_design, choose_model
from bayeseval.engines import SamplerSettings, load_engine
from bayeseval.engines import numpyro as numpyro_engine
from bayeseval.engines._density import (
    inverse_mass,
    random_point,
    sampled_variables,
    start_point,
)
from bayeseval.engines.base import Draws
from bayeseval.fitting.covariates import find_covariates
from bayeseval.records import Records
from bayeseval.simulation import simulate
from bayeseval.spec import list_models, load_spec
from tests import replicate_tables as tables

# NumPyro compiles a program for every structure, length of the warm-up and target_accept: the
# short runs of this file share one.
TUNE = 60


def small(spec: dict[str, Any] | str = "additive") -> Design:
    records = simulate("additive", n_languages=5, n_tasks=3, n_models=4, seed=3).records
    return build_design(records, load_spec(spec))


def run(design: Design, **settings: Any) -> Draws:
    return load_engine("numpyro")(design, SamplerSettings(**{"tune": TUNE, **settings}))


def test_more_chains_and_more_draws_leave_the_first_ones_as_they_were() -> None:
    design = small()
    short = run(design, draws=30, chains=1)
    # 70 draws need a second block of iterations, 30 do not.
    long = run(design, draws=70, chains=3)
    for name, values in short.posterior.items():
        assert np.array_equal(values, long.posterior[name][:1, :30]), name


def test_the_same_seed_gives_the_same_numbers_and_another_does_not() -> None:
    design = small()
    first, again, other = (run(design, draws=20, chains=2, seed=seed) for seed in (1, 1, 2))
    for name, values in first.posterior.items():
        assert np.array_equal(values, again.posterior[name]), name
    assert not np.array_equal(first.posterior["intercept"], other.posterior["intercept"])
    chains = first.posterior["intercept"]
    assert not np.array_equal(chains[0], chains[1])


def test_progress_is_told_and_can_stop_the_run() -> None:
    design = small()
    told: list[tuple[str, int, int]] = []
    settings = SamplerSettings(draws=60, tune=TUNE, chains=2)

    def watch(stage: str, done: int, total: int, remark: str) -> None:
        told.append((stage, done, total))

    load_engine("numpyro")(design, settings, progress=watch)
    assert ("warm-up", TUNE, TUNE) in told
    assert told[-1] == ("sampling", 60, 60)

    def stop(stage: str, done: int, total: int, remark: str) -> None:
        if stage == "warm-up":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        load_engine("numpyro")(design, settings, progress=stop)


def test_jax_keeps_the_precision_the_user_chose() -> None:
    with jax.enable_x64(False):
        drawn = run(small(), draws=5, chains=2)
        assert jnp.asarray(1.0).dtype == np.float32
    assert drawn.posterior["intercept"].dtype == np.float64


def test_a_second_table_of_the_same_structure_is_not_compiled_again() -> None:
    first = small()
    table = simulate("additive", n_languages=5, n_tasks=3, n_models=4, seed=3).records
    moved = table.table["score"] + np.random.default_rng(4).normal(size=len(table))
    second = build_design(
        Records.from_frame(table.table.assign(score=moved), name="second"), load_spec("additive")
    )
    drawn = run(first, draws=10, chains=2).posterior
    (program,) = [numpyro_engine._program(numpyro_engine.structure_of(first), TUNE, 0.9, False)]
    misses, traces = numpyro_engine._program.cache_info().misses, program.advance._cache_size()
    found = run(second, draws=10, chains=2).posterior
    assert numpyro_engine._program.cache_info().misses == misses
    assert program.advance._cache_size() == traces
    assert not np.array_equal(drawn["intercept"], found["intercept"])
    # Negative control: another structure is another program.
    numpyro_engine._program(numpyro_engine.structure_of(small("paper")), TUNE, 0.9, False)
    assert numpyro_engine._program.cache_info().misses == misses + 1


def test_chains_in_lockstep_are_the_same_chains() -> None:
    design = small()
    settings = run(design, draws=10, chains=2).settings
    with jax.enable_x64(True):
        drawn, found = (
            numpyro_engine._run(design, settings, vectorised=mode, progress=None)
            for mode in (False, True)
        )
    for one, other in zip(drawn, found, strict=True):
        assert set(one) == set(other)
        for name in one:
            assert one[name].shape == other[name].shape == (2, 10, *one[name].shape[2:])
    # The same random numbers from the same start; only rounding differs between the
    # two programs, and NUTS blows it up from the first decision that it turns.
    for name, values in drawn[0].items():
        np.testing.assert_allclose(values[:, 0], found[0][name][:, 0], rtol=1.0, err_msg=name)


def test_statistics_are_complete_and_consistent() -> None:
    found = run(small(), draws=50, chains=2).sample_stats
    assert set(found) == {
        "acceptance_rate",
        "diverging",
        "energy",
        "lp",
        "n_steps",
        "step_size",
        "tree_depth",
    }
    assert all(values.shape == (2, 50) for values in found.values())
    # Energy is kinetic energy, which is positive, minus the log density.
    assert (found["energy"] + found["lp"] > 0.0).all()
    assert (2.0 ** found["tree_depth"] > found["n_steps"]).all()
    assert (2.0 ** (found["tree_depth"] - 1) <= found["n_steps"]).all()
    # The step size is settled when sampling begins, chain by chain.
    assert np.ptp(found["step_size"], axis=1).max() == 0.0
    assert np.ptp(found["step_size"][:, 0]) > 0.0


@pytest.mark.parametrize("spec", ["population", "replicates"])
def test_shifted_variables_have_the_volume_and_the_values_of_the_model(spec: str) -> None:
    """The map between sampled and model variables can be undone and has a Jacobian of one."""
    design = tables.design("crossed", spec="replicates")
    if spec == "population":
        design = small({"name": "sample", "population": "models", "centring": {"model": "centred"}})
    sources = tuple(replace(source, centred=False) for source in design.sources)
    if design.replicates is not None:
        design = replace(design, replicates=replace(design.replicates, sources=sources))
    structure, data = numpyro_engine.structure_of(design), numpyro_engine.data_of(design)
    shift = numpyro_engine._shift(structure)
    rng = np.random.default_rng(1)
    with jax.enable_x64(True):
        shapes = numpyro_engine.free_shapes(structure).items()
        free = {name: rng.normal(size=shape) for name, shape in shapes}
        flat, unflatten = ravel_pytree(jax.tree.map(jnp.asarray, free))
        sampled = shift(unflatten(flat), data, 1.0)
        back = shift(sampled, data, -1.0)
        jacobian = jax.jacfwd(lambda x: ravel_pytree(shift(unflatten(x), data, 1.0))[0])(flat)
    moved = {name for name in free if not np.array_equal(sampled[name], free[name])}
    for name, values in free.items():
        np.testing.assert_allclose(back[name], values, rtol=1e-12, atol=1e-12)
    assert np.linalg.slogdet(np.asarray(jacobian)) == pytest.approx((1.0, 0.0), abs=1e-12)
    if spec == "population":
        assert moved == {"model_effect"}
        return
    typical = {names.source_model_sd(source.name) for source in sources}
    assert moved == {"sd_residual", *typical} and len(typical) == 3
    # The typical log sd of a model's seeds, plus the mean deviation of its cells.
    seeds = sources[0]
    of_first = free[seeds.drawn][seeds.model == 0].mean()
    expected = free["sd_seed_model"][0] + np.exp(free["sd_log_seed"]) * of_first
    assert sampled["sd_seed_model"][0] == pytest.approx(expected, rel=1e-12)


def test_cells_of_replicates_start_near_the_typical_sd_of_their_model() -> None:
    design = tables.design("crossed", spec="additive")
    (source, *_) = design.sources
    log_sd = np.where(np.arange(source.n_cells) == 0, -9.0, np.linspace(0.0, 1.0, source.n_cells))
    low = replace(source, centred=True, log_sd=log_sd)
    design = replace(design, replicates=replace(design.replicates, sources=(low,)))
    point = start_point(design, np.random.default_rng(0))
    typical = low.typical_log_sd(len(design.coords["model"]))
    assert typical.min() > 0.0
    # Start values scatter by 0.1, those of typical sds by 0.3.
    assert point[low.drawn][0] == pytest.approx(typical[low.model[0]] - 1.5, abs=0.5)
    assert point[low.drawn][1:] == pytest.approx(log_sd[1:], abs=0.5)
    assert np.log(point["sd_seed_model"]) == pytest.approx(typical, abs=1.2)


def test_target_accept_reaches_the_sampler() -> None:
    low = run(small(), draws=60, chains=2, target_accept=0.6).sample_stats
    high = run(small(), draws=60, chains=2).sample_stats  # 0.9, compiled above
    assert high["step_size"].max() < low["step_size"].min()
    assert high["acceptance_rate"].mean() > low["acceptance_rate"].mean()


def mega(spec: str) -> Design:
    records = load("mega")
    model = choose_model(spec, records).spec
    if spec == "counts":
        frame = records.table[["model", "language", "task"]].copy()
        frame["k"] = np.rint(records.table["score"] * 2.5)
        frame = frame.assign(n=250, score=frame["k"] / 2.5, scale_max=100.0)
        records = Records.from_frame(frame, name="counts")
    return build_design(records, model, find_covariates(records, model))


@pytest.mark.parametrize("spec", list(list_models()))
def test_every_chain_starts_inside_the_support(spec: str) -> None:
    design = mega(spec)
    variables = sampled_variables(design)
    assert set(inverse_mass(design)) == set(variables)
    points = [start_point(design, np.random.default_rng(seed)) for seed in (1, 2)]
    for point in points:
        assert list(point) == list(variables)
        for name, variable in variables.items():
            assert point[name].shape == variable.shape
            if variable.low is not None:
                assert np.all(point[name] > variable.low)
            if variable.zero_sum:
                # Sums of some fifty numbers of size ten, in float64.
                assert np.abs(point[name].sum(axis=-1)).max() < 1e-10
        density = numpyro_engine.log_density(design, point)
        assert np.isfinite(list(density.values())).all()
    assert points[0]["intercept"] != points[1]["intercept"]


def test_a_chain_starts_above_a_truncation_point() -> None:
    priors = {
        "sd_task": {"dist": "half_normal", "scale": 1.0, "low": 3.0, "relative": False},
        "sd_model": {"dist": "exponential", "scale": 0.001, "low": 2.0, "relative": False},
    }
    design = small({"name": "x", "likelihood": "student_t", "priors": priors})
    for seed in range(20):
        point = start_point(design, np.random.default_rng(seed))
        assert point["sd_task"] > 3.0
        assert point["sd_model"] > 2.0
        assert point["nu"] > 1.0


@pytest.mark.parametrize("spec", ["crossed", "robust", "paper"])
def test_gradients_are_finite_and_match_differences(spec: str) -> None:
    design = build_design(load("mega"), load_spec(spec))
    rng = np.random.default_rng(11)
    with jax.enable_x64(True):
        arguments = (numpyro_engine.structure_of(design), numpyro_engine.data_of(design))

        def potential(free: dict[str, Any]) -> Any:
            return potential_energy(numpyro_engine.joint_density, arguments, {}, free)

        both = jax.jit(jax.value_and_grad(potential))
        for _ in range(5):
            free = unconstrain_fn(
                numpyro_engine.joint_density, arguments, {}, random_point(design, rng)
            )
            _, gradient = both(free)
            direction = {name: rng.normal(size=np.shape(v)) for name, v in free.items()}
            assert all(np.isfinite(g).all() for g in gradient.values())
            step = 1e-6
            ahead, behind = (
                both({n: v + sign * step * direction[n] for n, v in free.items()})[0]
                for sign in (1.0, -1.0)
            )
            slope = sum(float(np.sum(gradient[n] * direction[n])) for n in free)
            # Central differences: rounding in a sum of some 1e5 over 2e-6.
            assert (ahead - behind) / (2 * step) == pytest.approx(slope, rel=1e-4, abs=1e-3)


def expected_prior(dist: str, x: float, low: float | None, a: dict[str, float]) -> float:
    """Log density by SciPy; the half and truncated ones by their survival function."""
    frozen = {
        "normal": lambda: stats.norm(a["loc"], a["scale"]),
        "student_t": lambda: stats.t(a["df"], a["loc"], a["scale"]),
        "half_normal": lambda: stats.halfnorm(scale=a["scale"]),
        "half_student_t": lambda: stats.t(a["df"], scale=a["scale"]),
        "exponential": lambda: stats.expon(scale=a["scale"]),
        "gamma": lambda: stats.gamma(a["shape"], scale=1.0 / a["rate"]),
    }[dist]()
    positive = dist not in ("normal", "student_t")
    return float(frozen.logpdf(x) - (frozen.logsf(low or 0.0) if positive else 0.0))


PRIORS: dict[str, dict[str, float]] = {
    "half_normal": {"scale": 4.0},
    "half_student_t": {"df": 3.0, "scale": 4.0},
    "exponential": {"scale": 4.0},
    "gamma": {"shape": 2.0, "rate": 0.3},
}


@pytest.mark.parametrize("low", [None, 2.5])
@pytest.mark.parametrize("dist", list(PRIORS))
def test_every_positive_prior_is_normalised(dist: str, low: float | None) -> None:
    given: dict[str, Any] = {"dist": dist, **PRIORS[dist]}
    if dist != "gamma":
        given["relative"] = False
    if low is not None:
        given["low"] = low
    design = small({"name": "x", "priors": {"sd_task": given}})
    point = random_point(design, np.random.default_rng(2))
    for x in (2.6, 5.0, 40.0):
        found = numpyro_engine.log_density(design, point | {"sd_task": np.float64(x)})["sd_task"]
        # Two float64 implementations of the same special functions.
        assert found == pytest.approx(expected_prior(dist, x, low, PRIORS[dist]), rel=1e-10)
    other = expected_prior(dist, 5.0, 2.0 if low is None else None, PRIORS[dist])
    assert expected_prior(dist, 5.0, low, PRIORS[dist]) != pytest.approx(other, rel=1e-3)


@pytest.mark.parametrize("dist", ["normal", "student_t"])
def test_every_real_prior_is_normalised(dist: str) -> None:
    numbers = {"loc": 50.0, "scale": 9.0} | ({"df": 4.0} if dist == "student_t" else {})
    design = small(
        {"name": "x", "priors": {"intercept": {"dist": dist, **numbers, "relative": False}}}
    )
    point = random_point(design, np.random.default_rng(2)) | {"intercept": np.float64(70.0)}
    found = numpyro_engine.log_density(design, point)["intercept"]
    assert found == pytest.approx(expected_prior(dist, 70.0, None, numbers), rel=1e-12)
