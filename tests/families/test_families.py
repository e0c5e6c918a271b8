"""A likelihood is one object: what a new one takes, and that nobody else knows it by name."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import integrate, stats

from bayeseval import families as room
from bayeseval import names
from bayeseval.engines import numpyro as numpyro_engine
from bayeseval.engines import pymc as pymc_engine
from bayeseval.engines._density import random_point, sampled_variables, to_posterior
from bayeseval.engines.base import SamplerSettings, pointwise_log_likelihood, to_tree
from bayeseval.estimands import read_arrays
from bayeseval.estimands.components import variance_components
from bayeseval.estimands.predict import replicate_scores
from bayeseval.families import FAMILIES, At, Family, Parameter
from bayeseval.simulation import simulate
from bayeseval.spec import load_spec
from tests.bounded_tables import design

PACKAGE = Path(room.__file__).parent.parent


def _log_density(observed: Any, at: At) -> Any:
    b, skew = 1.0 / at.scale, at.extra["skew"]
    error = (observed - at.centre) * b
    side = np.where(error >= 0.0, skew, 1.0 / skew)
    return np.log(b / (skew + 1.0 / skew)) - np.abs(error) * side


def _numpyro(at: At) -> Any:
    import numpyro.distributions as dist

    return dist.AsymmetricLaplace(at.centre, at.scale, at.extra["skew"])


def _pymc(site: str, at: At, **observed: Any) -> Any:
    import pymc as pm

    return pm.AsymmetricLaplace(
        site, b=1.0 / at.scale, kappa=at.extra["skew"], mu=at.centre, **observed
    )


def _draw(rng: np.random.Generator, at: At) -> Any:
    shape, skew = np.shape(at.centre), at.extra["skew"]
    up, down = rng.exponential(size=shape), rng.exponential(size=shape)
    return at.centre + at.scale * (up / skew - down * skew)


def _cdf(observed: Any, at: At) -> Any:
    return stats.laplace_asymmetric.cdf(observed, at.extra["skew"], at.centre, at.scale)


SKEWED = Family(
    name="student_t",
    quantity="score",
    scale=Parameter(names.SD_RESIDUAL, {"dist": "half_normal", "scale": 1.0}, typical=3.0),
    extra=(
        Parameter("skew", {"dist": "gamma", "shape": 9.0, "rate": 9.0, "low": 0.1}, typical=0.5),
    ),
    log_density=_log_density,
    numpyro=_numpyro,
    pymc=_pymc,
    draw=_draw,
    cdf=_cdf,
)


@pytest.fixture
def skewed(monkeypatch: pytest.MonkeyPatch) -> str:
    """An asymmetric Laplace in the place of Student-t: who asks by name gets it wrong."""
    monkeypatch.setitem(FAMILIES, "student_t", SKEWED)
    return "student_t"


@pytest.mark.parametrize(
    "more", [{}, {"residual_by": "model"}, {"likelihood": {"t0": "beta", "default": "student_t"}}]
)
def test_a_new_likelihood_is_one_object(skewed: str, more: dict[str, Any]) -> None:
    built = design(**{"likelihood": skewed, **more})
    assert "skew" in built.priors
    assert names.NU not in built.priors
    density, rng = pymc_engine.density_function(built), np.random.default_rng(1)
    for _ in range(2):
        point = random_point(built, rng)
        ours, theirs = density(point), numpyro_engine.log_density(built, point)
        assert set(ours) == set(theirs) == {*sampled_variables(built), "score"}
        for name in ours:
            assert ours[name] == pytest.approx(theirs[name], rel=1e-8), name
        likelihood = pointwise_log_likelihood(built, to_posterior(built, point)).sum()
        assert ours["score"] == pytest.approx(likelihood, rel=1e-8)


def test_a_new_likelihood_is_fitted_and_read(skewed: str) -> None:
    built = design(likelihood=skewed)
    settings = SamplerSettings(draws=20, tune=30, chains=1, seed=1)
    draws = numpyro_engine.sample(built, settings)
    arrays = read_arrays(to_tree(built, draws, engine="numpyro"))
    np.testing.assert_array_equal(arrays.extra["skew"], draws.posterior["skew"].ravel())
    # Its scale is no sd: what counts as the residual's are the realised ones.
    parts = variance_components(arrays)
    assert dict(zip(parts.labels, parts.kind, strict=True))["residual"] == "realised"
    scores = replicate_scores(arrays, np.random.default_rng(0))
    assert scores.shape == (20, built.n_records)
    assert np.isfinite(scores).all()


def test_a_new_likelihood_is_simulated(skewed: str) -> None:
    spec = load_spec({"name": "x", "likelihood": skewed})
    table = simulate(spec, n_languages=30, n_tasks=10, n_models=10, observed_share=1.0, seed=2)
    assert table.truth["skew"] == 0.5
    index = tuple(table.records.codes(factor) for factor in names.FACTORS)
    error = (table.records.scores - table.expected[index]) / 3.0
    # Of scale / skew up and scale * skew down: mean 2 - 0.5, share above zero 2 / 2.5.
    assert error.mean() == pytest.approx(1.5, abs=5 * np.sqrt((4 + 0.25) / 3000))
    assert (error > 0).mean() == pytest.approx(0.8, abs=5 * np.sqrt(0.16 / 3000))


def test_families_are_the_named_likelihoods_in_their_order() -> None:
    assert tuple(FAMILIES) == names.LIKELIHOODS
    assert [family.name for family in FAMILIES.values()] == list(names.LIKELIHOODS)


@pytest.mark.parametrize("name", [f.name for f in FAMILIES.values() if f.quantity != "count"])
def test_distribution_function_is_the_integral_of_the_density(name: str) -> None:
    family = FAMILIES[name]
    at = At(0.2, 0.6, {parameter.name: parameter.typical for parameter in family.extra})
    least = 0.0 if family.quantity == "share" else -np.inf
    below, _ = integrate.quad(
        lambda x: float(np.exp(family.log_density(np.asarray(x), at))), least, 0.7
    )
    # 1e-8 is what the quadrature promises.
    assert float(family.cdf(np.asarray(0.7), at)) == pytest.approx(below, abs=2e-8)


def test_draws_follow_the_density() -> None:
    items = np.full(20_000, 40)
    for family in FAMILIES.values():
        quantity = family.quantity
        centre = np.full(20_000, {"score": 50.0, "logit": 0.3}.get(quantity, 0.6))
        extra = {parameter.name: 30.0 for parameter in family.extra}
        at = At(centre, 0.3, extra, items if quantity == "count" else None)
        draws = family.draw(np.random.default_rng(3), at)
        wanted = {
            "normal": stats.norm(50.0, 0.3).cdf,
            "student_t": lambda x: stats.t(30.0).cdf((x - 50.0) / 0.3),
            "logit_normal": lambda x: stats.norm(0.3, 0.3).cdf(np.log(x / (1.0 - x))),
            "beta": stats.beta(0.6 / 0.09, 0.4 / 0.09).cdf,
            "binomial": lambda x: stats.binom(40, 0.6).cdf(np.round(40 * x)),
            "beta_binomial": lambda x: stats.betabinom(40, 0.6 / 0.09, 0.4 / 0.09).cdf(
                np.round(40 * x)
            ),
        }[family.name]
        at_quantile = float(np.quantile(draws, 0.3))
        share = float((draws <= at_quantile + 1e-9).mean())
        # Five standard errors of a share of 20,000 draws.
        assert share == pytest.approx(float(wanted(at_quantile)), abs=5 * 0.5 / np.sqrt(20_000))


def test_counts_without_items_are_their_expected_shares() -> None:
    at = At(np.array([0.2, 0.9]), 0.3)
    np.testing.assert_array_equal(
        FAMILIES["binomial"].draw(np.random.default_rng(0), at), at.centre
    )
    drawn = FAMILIES["beta_binomial"].draw(np.random.default_rng(0), at)
    assert ((drawn > 0) & (drawn < 1) & (drawn != at.centre)).all()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (
            {"scale": Parameter("b", {}, 1.0)},
            "scores and logits, and no others, have the scale sd_residual",
        ),
        ({"quantity": "share"}, "scores and logits, and no others, have the scale sd_residual"),
        ({"quantity": "logit"}, "implemented for the kernel normal only"),
    ],
)
def test_what_the_other_rooms_rely_on_is_checked(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(SKEWED, **wrong)


@pytest.mark.parametrize("k", [0.0, 1.0, 13.0, 20.0])
@pytest.mark.parametrize("eta", [-3.0, 0.0, 2.0])
# The last is U-shaped.
@pytest.mark.parametrize("dispersion", [0.0, 0.01, 0.3, 1.5])
def test_distribution_of_counts_is_a_sum_with_half_of_the_last(
    k: float, eta: float, dispersion: float
) -> None:
    mu, each = 1.0 / (1.0 + np.exp(-eta)), np.arange(21.0)
    at = At(np.array([eta]), dispersion, items=np.array([20.0]))
    if dispersion == 0.0:
        family, probability = FAMILIES["binomial"], stats.binom.pmf(each, 20, mu)
    else:
        family = FAMILIES["beta_binomial"]
        shapes = mu * dispersion**-2, (1.0 - mu) * dispersion**-2
        probability = stats.betabinom.pmf(each, 20, *shapes)
    expected = probability[each < k].sum() + 0.5 * probability[int(k)]
    found = family.cdf(np.array([k]), at)[0]
    assert found == pytest.approx(expected, rel=1e-6, abs=1e-12)


# Where "student_t" and "beta" are a prior distribution, or an argument of one.
OF_PRIORS = {
    *("spec/priors.py", "checks/prior.py", "engines/_marginal_prior.py", "engines/_density.py"),
    *("engines/pymc.py", "engines/_numpyro_density.py"),
}


def named(module: str, source: str) -> Iterator[str]:
    """Likelihoods that a module names in its code; the default, ``normal``, may be."""
    known = set(names.LIKELIHOODS) - {"normal"}
    known -= {"student_t", "beta"} if module in OF_PRIORS else set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and node.value in known:
            yield f"{module}:{node.lineno}: {node.value}"


def test_no_other_room_knows_a_likelihood_by_name() -> None:
    paths = {path.relative_to(PACKAGE).as_posix(): path for path in PACKAGE.rglob("*.py")}
    others = {m: p for m, p in paths.items() if m != "names.py" and not m.startswith("families/")}
    found = [hit for m, p in others.items() for hit in named(m, p.read_text(encoding="utf-8"))]
    assert found == []
    assert list(named("design/build.py", 'if family == "beta":\n    pass')) == [
        "design/build.py:1: beta"
    ]
