"""Left-out densities given everybody's noise, against dense algebra and quadrature."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import integrate, stats

from bayeseval import names
from bayeseval.design import Design, build_design
from bayeseval.engines import SamplerSettings
from bayeseval.engines._evidence import leave_group_out
from bayeseval.engines._leave_out import leave_out_log_density
from bayeseval.engines._leave_out_mixture import (
    _precision_factors,
    group_log_density,
    leave_out_mixture,
    log_convolution,
    why_no_mixture,
)
from bayeseval.engines.base import residual_sd
from bayeseval.engines.marginal import sample
from bayeseval.records import Covariate
from bayeseval.simulation import simulate
from bayeseval.spec import load_spec
from tests.engines.exact_gaussian import random_sds, with_test_sets, write_out

CROSSED = list(load_spec("crossed").interactions)
# Far more degrees of freedom than any table can tell from infinity.
MANY = 1e7


def design_of(**spec: object) -> Design:
    drawn = simulate("crossed", n_languages=5, n_tasks=3, n_models=4, seed=3)
    return build_design(drawn.records, load_spec({"name": "mine", **spec}))


def point(design: Design, nu: float, seed: int = 8, n: int = 2) -> dict[str, np.ndarray]:
    """Draws of every parameter and effect, none of them from a posterior."""
    rng = np.random.default_rng(seed)
    draws = [random_sds(design, rng) for _ in range(n)]
    found = {name: np.array([sds[name] for sds in draws]) for name in draws[0]}
    found |= {names.NU: np.full(n, nu), names.INTERCEPT: rng.normal(60.0, 3.0, n)}
    for term in design.terms:
        found[term.effect] = rng.normal(0.0, 5.0, (n, term.n_levels))
    if design.spec.residual_by is not None:
        levels = len(design.coords[design.spec.residual_by])
        found[names.level_name(names.SD_RESIDUAL, design.spec.residual_by)] = rng.uniform(
            2.0, 9.0, (n, levels)
        )
    return found


@pytest.mark.parametrize("nu", [1.05, 1.5, 4.0, 30.0, 150.0])
def test_normal_plus_student_t_by_quadrature(nu: float) -> None:
    scale = 3.0
    for variance in (1e-3, 1.0, 30.0, 400.0):
        sd = variance**0.5
        for error in (0.0, 1.0, 20.0, 80.0):
            found = log_convolution(np.array([error]), np.array([variance]), np.array([scale]), nu)[
                0
            ]
            wide = np.linspace(-14.0, 14.0, 100_001) * sd
            grid = np.unique(np.concatenate([wide, error + np.linspace(-40.0, 40.0, 100_001)]))
            density = np.exp(
                stats.norm.logpdf(grid, 0.0, sd) + stats.t.logpdf(error, nu, grid, scale) + 80.0
            )
            expected = np.log(integrate.trapezoid(density, grid)) - 80.0
            assert found == pytest.approx(expected, abs=1e-6)
    # Negative control: the density without the normal part is another one.
    assert abs(found - stats.t.logpdf(error, nu, 0.0, scale)) > 0.1


@pytest.mark.parametrize("likelihood", ["normal", "student_t"])
def test_without_heavy_tails_it_is_the_gaussian_closed_form(likelihood: str) -> None:
    design = design_of(interactions=CROSSED, likelihood=likelihood)
    draws = point(design, MANY)
    gaussian = design_of(interactions=CROSSED)
    expected = leave_out_log_density(gaussian, draws)
    # With 1e7 degrees of freedom a factor still differs from one by 4e-4.
    tolerance = 1e-9 if likelihood == "normal" else 0.02
    np.testing.assert_allclose(leave_out_mixture(design, draws), expected, atol=tolerance)
    # Often enough for a k-hat.
    often = {name: np.repeat(value, 10, axis=0) for name, value in draws.items()}
    level = np.array([group_log_density(design, often, by="task", level=i)[0] for i in range(3)])
    both = leave_out_log_density(gaussian, draws, by="task")
    np.testing.assert_allclose(level, np.log(np.exp(both).mean(axis=0)), atol=10 * tolerance)
    # Negative control: heavy tails give other densities.
    if likelihood == "student_t":
        heavy = leave_out_mixture(design, draws | {names.NU: np.full(2, 2.0)})
        assert np.abs(heavy - expected).max() > 0.5


def test_slopes_are_integrated_out_too() -> None:
    drawn = simulate("additive", n_languages=5, n_tasks=3, n_models=4, seed=3).records
    given = Covariate(
        "mexa", "language", drawn.coords["language"], (), np.array([0.9, 0.1, 0.4, 0.7, 0.2])
    )
    spec = load_spec({"name": "mine", "covariates": [{"name": "mexa"}]})
    design = build_design(drawn, spec, [given])
    draws = point(design, 1.0) | {design.slopes[0].slope: np.array([3.0, -2.0])}
    expected = leave_out_log_density(design, draws)
    np.testing.assert_allclose(leave_out_mixture(design, draws), expected, rtol=1e-8)
    # Negative control: without the covariate it is another model.
    without = build_design(drawn, load_spec("additive"))
    assert np.abs(leave_out_mixture(without, draws) - expected).max() > 0.01


@pytest.mark.parametrize("items", [False, True])
def test_residuals_by_level_are_known_noise(items: bool) -> None:
    design = design_of(interactions=["language:task"], residual_by="task")
    design = with_test_sets(design) if items else design
    assert why_no_mixture(design) is None
    draws = point(design, 1.0)
    found = leave_out_mixture(design, draws)
    for i in range(2):
        noise = draws[names.level_name(names.SD_RESIDUAL, "task")][i][design.factor_index["task"]]
        expected = dense(design, draws, i, noise)
        np.testing.assert_allclose(found[i], expected, rtol=1e-8)


def test_one_heavy_record_left_out() -> None:
    design = design_of(interactions=["language:task"], likelihood="student_t")
    nu = 2.5
    draws = point(design, nu, n=1)
    found = leave_out_mixture(design, draws, seed=4)[0]
    sd = np.broadcast_to(residual_sd(design, draws), (1, design.n_records))
    factor = _precision_factors(design, draws, sd, 4)[1][0]
    # Quantiles of the left-out record's own factor, and the mean of its density over them.
    own = stats.gamma.ppf((np.arange(4000) + 0.5) / 4000, nu / 2.0, scale=2.0 / nu)
    for record in (0, 7, 20):
        given = [
            dense(design, draws, 0, with_own(sd[0], factor, record, value), only=record)
            for value in own
        ]
        expected = np.log(np.mean(np.exp(given)))
        # The midpoint rule on 4000 quantiles.
        assert found[record] == pytest.approx(expected, abs=2e-3)
    # Negative control: other draws of the factors, other densities.
    assert np.abs(leave_out_mixture(design, draws, seed=5)[0] - found).max() > 1e-3


def with_own(sd: np.ndarray, factor: np.ndarray, record: int, value: float) -> np.ndarray:
    factor = factor.copy()
    factor[record] = value
    return np.asarray(sd / np.sqrt(factor))


def dense(
    design: Design,
    draws: dict[str, np.ndarray],
    i: int,
    noise: np.ndarray,
    only: int | None = None,
) -> np.ndarray | float:
    """Log density of each record given the others, all with known noise."""
    spec = {"name": "known", "interactions": list(design.spec.interactions)}
    plain = replace(
        design, spec=load_spec(spec), se=noise, residual_index=None,
        priors={k: v for k, v in design.priors.items() if k not in (names.NU, "sd_log_residual")},
    )  # fmt: skip
    sds = {name: float(draws[name][i]) for name in plain.priors if name != names.INTERCEPT}
    exact = write_out(plain)
    sds[names.SD_RESIDUAL] = 1e-9
    whole, every = exact.log_marginal(sds), np.arange(design.n_records)
    if only is not None:
        return float(whole - exact.log_marginal(sds, every != only))
    return np.array([whole - exact.log_marginal(sds, every != r) for r in every])


def test_a_heavy_group_left_out() -> None:
    drawn = simulate("additive", n_languages=5, n_tasks=3, n_models=4, seed=3).records
    few = drawn.codes("language") != 0
    few[np.flatnonzero(~few)[:3]] = True
    records = drawn.subset(few, name="few")
    design = build_design(records, load_spec({"name": "heavy", "likelihood": "student_t"}))
    draws = point(design, 3.0, n=1)
    # The same draw many times over: the factors of the others are drawn once for each.
    many = {name: np.repeat(value, 400, axis=0) for name, value in draws.items()}
    found, k_hat = group_log_density(design, many, by="language", level=0)
    assert k_hat < 0.7
    sd = float(draws[names.SD_RESIDUAL][0])
    rng = np.random.default_rng(1)
    group = design.factor_index["language"] == 0
    assert group.sum() == 3
    factor = _precision_factors(design, many, np.full((400, design.n_records), sd), 0)[1]
    # By hand: factors of the group from their prior, ten times for every draw.
    values = []
    plain = replace(design, spec=load_spec("additive"))
    plain = replace(plain, priors={k: v for k, v in design.priors.items() if k != names.NU})
    sds = {k: float(draws[k][0]) for k in plain.priors if k != names.INTERCEPT}
    sds[names.SD_RESIDUAL] = 1e-9
    for row in factor:
        row[group] = rng.gamma(1.5, 2.0 / 3.0, 3)
        exact = write_out(replace(plain, se=sd / np.sqrt(row)))
        values.append(exact.log_marginal(sds) - exact.log_marginal(sds, ~group))
    density = np.exp(values)
    error = density.std() / density.mean() / np.sqrt(len(values))
    assert error < 0.1
    assert found == pytest.approx(np.log(density.mean()), abs=5.0 * error)


def test_what_is_not_conditionally_gaussian_is_said() -> None:
    assert why_no_mixture(design_of(likelihood="student_t")) is None
    prior = {"intercept": {"dist": "student_t", "df": 3, "loc": 0, "scale": 1}}
    assert why_no_mixture(design_of(priors=prior)) == "the intercept's prior is student_t"


def test_records_left_out_for_good_agree_with_the_closed_form() -> None:
    """Evidences with and without a record, whatever else is asked for."""
    design = design_of(interactions=[])
    units = [3, 11]
    exact = leave_group_out(design, by="record", units=units, n_points=1024)
    assert exact.k_hat.max() < 0.7
    alone = leave_group_out(design, by="record", units=[11], n_points=1024)
    assert alone.log_density[0] == exact.log_density[1]
    posterior = sample(design, SamplerSettings(draws=1000)).posterior
    density = leave_out_log_density(design, posterior).reshape(-1, design.n_records)
    # 1 / p(y_i | y_-i) is the posterior mean of 1 / p(y_i | y_-i, sds).
    harmonic = -np.log(np.exp(-density[:, units]).mean(axis=0))
    np.testing.assert_allclose(exact.log_density, harmonic, atol=0.1)
    assert abs(exact.log_density[0] - exact.log_density[1]) > 0.2
