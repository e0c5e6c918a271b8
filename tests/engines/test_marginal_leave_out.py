"""Left-out records and groups, against the model refitted without them."""

from __future__ import annotations

import warnings
from dataclasses import replace

import arviz_stats
import numpy as np
import pytest
import xarray as xr

from bayeseval import load
from bayeseval.design import Design, build_design
from bayeseval.engines import SamplerSettings, to_tree
from bayeseval.engines import numpyro as numpyro_engine
from bayeseval.engines._density import random_point, to_posterior
from bayeseval.engines._evidence import leave_group_out, log_evidence, without
from bayeseval.engines._leave_out import leave_out_log_density
from bayeseval.engines.base import pointwise_log_likelihood
from bayeseval.engines.marginal import sample
from bayeseval.simulation import simulate
from bayeseval.spec import load_spec
from tests.engines.exact_gaussian import random_sds, replicated, with_test_sets, write_out

FACTORS = ("language", "task", "model")


def small(spec: str, errors: str) -> Design:
    if spec == "test_sets":
        return with_test_sets(small("crossed", errors))
    table = simulate("crossed", n_languages=5, n_tasks=3, n_models=4, seed=3).records
    design = replicated(build_design(table, load_spec(spec)), seed=1)
    if errors == "three":
        rng = np.random.default_rng(5)
        return replace(design, se=rng.choice([0.0, 2.0, 5.0], design.n_records))
    return design


def draws_of(design: Design, n: int) -> list[dict[str, float]]:
    rng = np.random.default_rng(8)
    return [random_sds(design, rng) for _ in range(n)]


def as_posterior(draws: list[dict[str, float]]) -> dict[str, np.ndarray]:
    """One chain."""
    return {name: np.array([[sds[name] for sds in draws]]) for name in draws[0]}


def as_tree(log_density: np.ndarray, dim: str) -> xr.DataTree:
    values = xr.Dataset({"score": (("chain", "draw", dim), log_density)})
    return xr.DataTree.from_dict({"log_likelihood": values})


def loo(tree: xr.DataTree) -> arviz_stats.ELPDData:
    with warnings.catch_warnings():
        # Bad k-hats are what is being counted.
        warnings.simplefilter("ignore", UserWarning)
        return arviz_stats.loo(tree, pointwise=True, var_name="score", reff=1.0)


@pytest.mark.parametrize("errors", ["none", "three"])
@pytest.mark.parametrize("spec", ["additive", "interaction", "crossed", "paper", "test_sets"])
def test_one_record_left_out(spec: str, errors: str) -> None:
    design = small(spec, errors)
    draws, dense = draws_of(design, 2), write_out(design)
    found = leave_out_log_density(design, as_posterior(draws))
    assert found.shape == (1, 2, design.n_records)
    for value, sds in zip(found[0], draws, strict=True):
        whole = dense.log_marginal(sds)
        expected = []
        for i in range(design.n_records):
            expected.append(whole - dense.log_marginal(sds, np.arange(design.n_records) != i))
        np.testing.assert_allclose(value, expected, rtol=1e-7, atol=1e-8)
    # Negative control: the densities of the other draw's sds are others.
    assert np.abs(found[0, 0] - found[0, 1]).min() > 1e-6


@pytest.mark.parametrize("by", FACTORS)
@pytest.mark.parametrize("errors", ["none", "three"])
@pytest.mark.parametrize("spec", ["additive", "crossed", "paper", "test_sets"])
def test_one_group_left_out(spec: str, errors: str, by: str) -> None:
    design = small(spec, errors)
    draws, dense = draws_of(design, 2), write_out(design)
    found = leave_out_log_density(design, as_posterior(draws), by=by)
    assert found.shape == (1, 2, len(design.coords[by]))
    for value, sds in zip(found[0], draws, strict=True):
        whole = dense.log_marginal(sds)
        expected = [
            whole - dense.log_marginal(sds, design.factor_index[by] != level)
            for level in range(len(design.coords[by]))
        ]
        np.testing.assert_allclose(value, expected, rtol=1e-8)
    # Negative control: a group's joint density is not the sum of its records'.
    single = leave_out_log_density(design, as_posterior(draws))[0, 0]
    summed = np.bincount(design.factor_index[by], weights=single)
    assert np.abs(found[0, 0] - summed).min() > 0.01


def test_equal_draws_share_the_work_and_keep_their_places() -> None:
    design = small("additive", "none")
    a, b = draws_of(design, 2)
    found = leave_out_log_density(design, as_posterior([a, b, b, a, b]))
    np.testing.assert_array_equal(found[0, [0, 1, 1, 0, 1]], found[0])
    one = leave_out_log_density(design, as_posterior([b]))
    np.testing.assert_allclose(found[0, 2], one[0, 0], rtol=1e-12)


def test_psis_over_the_sds_has_no_bad_record_on_mega() -> None:
    """The way out of the bad k-hats that PSIS over all parameters has on `crossed`."""
    design = build_design(load("mega"), load_spec("crossed"))
    draws = sample(design, SamplerSettings(draws=64))
    closed = loo(as_tree(leave_out_log_density(design, draws.posterior), "record"))
    assert closed.pareto_k.max() < 0.7
    plain = loo(to_tree(design, draws, engine="marginal"))
    assert (plain.pareto_k > 0.7).sum() > 50
    # Both estimate the same sum, the plain one with an error of several units.
    assert closed.elpd == pytest.approx(float(plain.elpd), abs=100.0)
    assert closed.n_data_points == 1364


def test_a_group_is_the_ratio_of_two_evidences() -> None:
    """Three ways to one number: quadrature of nothing, PSIS, and refitted evidences."""
    design = small("paper", "none")
    groups = leave_group_out(design, by="language", n_points=1024)
    assert groups.k_hat.max() < 0.7
    assert groups.se.max() < 0.05
    draws = sample(design, SamplerSettings(draws=500))
    psis = loo(as_tree(leave_out_log_density(design, draws.posterior, by="language"), "language"))
    good = (psis.pareto_k < 0.5).to_numpy()
    assert good.sum() >= 3
    np.testing.assert_allclose(
        groups.log_density[good], psis.elpd_i.to_numpy()[good], atol=5.0 * groups.se.max() + 0.1
    )
    # Negative control: they differ by more than that between languages.
    assert np.ptp(groups.log_density) > 1.0


@pytest.mark.parametrize(("by", "unit"), [("record", 4), ("language", 1)])
def test_without_leaves_out_the_means_of_replicates_and_keeps_what_they_say_of_noise(
    by: str, unit: int
) -> None:
    drawn = simulate("additive", n_languages=4, n_tasks=2, n_models=3, seed=1, n_seeds=3, n_boot=4)
    design = build_design(drawn.records, load_spec("additive"))
    point = random_point(design, np.random.default_rng(0))
    whole = numpyro_engine.log_density(design, point)
    rest = numpyro_engine.log_density(without(design, by=by, unit=unit), point)
    density = pointwise_log_likelihood(design, to_posterior(design, point))
    own = np.arange(design.n_records) == unit
    own = own if by == "record" else design.factor_index[by] == unit
    assert whole.pop("score") - rest.pop("score") == pytest.approx(density[own].sum(), rel=1e-9)
    assert whole == pytest.approx(rest, rel=1e-12)


def test_without_takes_the_records_of_a_level_and_nothing_else() -> None:
    design = small("crossed", "three")
    rest = without(design, by="task", unit=1)
    kept = design.factor_index["task"] != 1
    np.testing.assert_array_equal(rest.score, design.score[kept])
    np.testing.assert_array_equal(rest.se, design.se[kept])
    assert rest.coords == design.coords
    assert rest.priors == design.priors
    for before, after in zip(design.terms, rest.terms, strict=True):
        assert after.labels == before.labels
        np.testing.assert_array_equal(after.index, before.index[kept])


def test_evidence_prefers_the_model_the_data_come_from() -> None:
    truth = {"sd_language_task": 9.0, "sd_residual": 4.0}
    table = simulate("interaction", n_languages=12, sds=truth, seed=2).records
    evidence = {
        spec: log_evidence(build_design(table, load_spec(spec)))
        for spec in ("additive", "interaction")
    }
    difference = evidence["interaction"].log - evidence["additive"].log
    assert difference > 10.0
    assert max(found.se for found in evidence.values()) < 0.1
    flat = simulate("additive", n_languages=12, seed=2).records
    assert (
        log_evidence(build_design(flat, load_spec("additive"))).log
        > log_evidence(build_design(flat, load_spec("interaction"))).log
    )
