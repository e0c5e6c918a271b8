"""Covariates in every engine: the same density, and effects integrated out exactly."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from bayeseval.design import Design, build_design, restore_design
from bayeseval.engines import SamplerSettings, choose_engine, to_tree
from bayeseval.engines import numpyro as numpyro_engine
from bayeseval.engines import pymc as pymc_engine
from bayeseval.engines._density import random_point, sampled_variables, to_posterior
from bayeseval.engines._leave_out import leave_out_log_density
from bayeseval.engines._marginal_density import build_marginal
from bayeseval.engines.base import linear_predictor, pointwise_log_likelihood
from bayeseval.engines.marginal import sample
from bayeseval.engines.ml import sample as maximum_likelihood
from bayeseval.errors import DesignError, EngineError
from bayeseval.records import Covariate
from bayeseval.simulation import simulate
from bayeseval.spec import load_spec
from tests.engines.exact_gaussian import random_sds, write_out

RECORDS = simulate("additive", n_languages=6, n_tasks=3, n_models=4, seed=2).records
LANGUAGES, MODELS = RECORDS.coords["language"], RECORDS.coords["model"]
RAW = np.array([0.9, 0.1, 0.4, 0.7, 0.2, 0.3])

# The two backends order their sums differently; the project's bound.
REL = 1e-8


def language_covariate(**changes: Any) -> Covariate:
    given: dict[str, Any] = {
        "name": "mexa",
        "values": [0.99, *RAW],
        "se": np.array([0.1, 0.0, *[0.05] * 5]),
    }
    # One language without records, and not in the order of the table.
    return Covariate(by="language", labels=("xx", *LANGUAGES), models=(), **(given | changes))


def pair_covariate() -> Covariate:
    values = np.random.default_rng(4).uniform(size=(len(MODELS), len(LANGUAGES)))
    return Covariate("mexa", "model:language", LANGUAGES, MODELS, values)


def model_covariate(**changes: Any) -> Covariate:
    # One model without records, and not in the order of the table.
    given: dict[str, Any] = {"models": ("xx", *MODELS), "values": [40.0, 33.0, 30.1, 36.5, 31.0]}
    return Covariate("mexa", "model", (), **(given | changes))


def design_of(kind: str) -> Design:
    covariate = {"model:language": pair_covariate, "model": model_covariate}.get(
        kind, language_covariate
    )()
    options: dict[str, Any] = {}
    if "missing" in kind:
        covariate = language_covariate(values=np.array([0.99, np.nan, *RAW[1:]]))
        options["missing"] = "model"
    if "error" in kind:
        options["measurement_error"] = True
    if kind == "missing model":
        covariate = model_covariate(values=[40.0, 33.0, np.nan, 36.5, 31.0])
    spec = {"interactions": ["model:language"], "covariates": [{"name": "mexa", **options}]}
    return build_design(RECORDS, load_spec({"name": "x", **spec}), [covariate])


@pytest.mark.parametrize(
    "kind",
    [
        *("language", "model:language", "model"),
        *("missing", "error", "missing error", "missing model"),
    ],
)
def test_backends_agree_and_say_what_was_written_down(kind: str) -> None:
    design = design_of(kind)
    (slope,) = design.slopes
    rng = np.random.default_rng(5)
    point = random_point(design, rng)
    ours = pymc_engine.log_density(design, point)
    theirs = numpyro_engine.log_density(design, point)
    unknown = {"missing": 1, "error": 5, "missing error": 6, "missing model": 1}.get(kind, 0)
    levels = MODELS if slope.by == "model" else LANGUAGES
    assert slope.n_unknown == unknown
    parts = {*sampled_variables(design), "score"} | (
        {"mexa_measured"} if "error" in kind else set()
    )
    assert set(ours) == set(theirs) == parts
    for name in parts:
        assert ours[name] == pytest.approx(theirs[name], rel=REL), name
    posterior = to_posterior(design, point)
    assert ours["score"] == pytest.approx(
        pointwise_log_likelihood(design, posterior).sum(), rel=REL
    )
    # The linear predictor by labels, without the library's arrays.
    values = (slope.raw - slope.mean) / slope.sd
    if unknown:
        values[np.isin(levels, slope.labels)] = point["mexa_unknown"]
        assert ours["mexa_unknown"] == pytest.approx(
            stats.norm.logpdf(point["mexa_unknown"]).sum(), rel=REL
        )
    rows = RECORDS.table
    for i in range(0, len(rows), 5):
        language, model = LANGUAGES.index(rows.language[i]), MODELS.index(rows.model[i])
        place = {"language": (language,), "model": (model,), "model:language": (model, language)}
        x = values[place[slope.by]]
        expected = posterior["intercept"] + point["mexa_slope"] * x
        for term in design.terms:
            expected += posterior[term.effect][term.index[i]]
        assert linear_predictor(design, posterior)[i] == pytest.approx(float(expected), rel=1e-12)
    if "error" in kind:
        there = [i for i, label in enumerate(LANGUAGES) if label in slope.labels]
        there = [i for i in there if np.isfinite(slope.raw[i])]
        true = values[there]
        measured = (slope.raw[there] - slope.mean) / slope.sd
        expected = stats.norm.logpdf(measured, true, 0.05 / slope.sd).sum()
        assert ours["mexa_measured"] == pytest.approx(expected, rel=REL)


def test_the_covariate_is_standardised_over_the_languages_of_the_table() -> None:
    (slope,) = design_of("language").slopes
    assert (slope.mean, slope.sd) == pytest.approx((RAW.mean(), RAW.std(ddof=1)), rel=1e-12)
    assert slope.known == pytest.approx((RAW - RAW.mean()) / RAW.std(ddof=1), rel=1e-12)
    design = design_of("language")
    sd = RECORDS.scores.std(ddof=1)
    assert str(design.priors["mexa_slope"]) == f"normal(loc=0, scale={sd:.4g})"


@pytest.mark.parametrize("kind", ["language", "model:language", "model"])
def test_marginal_density_and_left_out_scores_are_exact(kind: str) -> None:
    design = design_of(kind)
    assert choose_engine("auto", design).name == "marginal"
    dense, marginal = write_out(design), build_marginal(design)
    rng = np.random.default_rng(1)
    for sds in (random_sds(design, rng), random_sds(design, rng)):
        phi = marginal.scales.unconstrained(np.array([[sds[n] for n in marginal.scales.names]]))
        found = marginal.log_likelihood(phi)[0]
        assert found == pytest.approx(dense.log_marginal(sds), rel=1e-10)
        posterior = {name: np.array([value]) for name, value in sds.items()}
        for by in ("record", "language", "model"):
            left_out = leave_out_log_density(design, posterior, by=by)[0]
            index = np.arange(design.n_records) if by == "record" else design.factor_index[by]
            for level in range(0, len(left_out), 3):
                expected = dense.log_marginal(sds) - dense.log_marginal(sds, index != level)
                assert left_out[level] == pytest.approx(expected, rel=1e-8)
        # Effects given the sds: the mean and sd of the slope, by 4,000 exact draws.
        mean, covariance = dense.conditional(sds)
        place = dense.place["mexa_slope"].start
        drawn = marginal.effects(phi, np.array([4000]), seed=np.random.SeedSequence(3))
        slope = drawn["mexa_slope"][:, 0]
        sd = covariance[place, place] ** 0.5
        assert slope.mean() == pytest.approx(mean[place], abs=5 * sd / 4000**0.5)
        assert slope.std() == pytest.approx(sd, rel=5 / 8000**0.5)


def test_what_the_marginal_engine_and_maximum_likelihood_leave_to_others() -> None:
    for kind in ("missing", "error"):
        choice = choose_engine("auto", design_of(kind))
        assert choice.name == "numpyro"
        assert "unknown values of mexa have to be sampled" in choice.reason
    for prior in (
        {"dist": "student_t", "df": 4, "scale": 1},
        {"dist": "normal", "loc": 1, "scale": 1},
    ):
        spec = load_spec({"name": "x", "covariates": "mexa", "priors": {"mexa_slope": prior}})
        choice = choose_engine("auto", build_design(RECORDS, spec, [language_covariate()]))
        assert "must be normal around zero" in choice.reason
    with pytest.raises(EngineError, match="the covariate mexa"):
        maximum_likelihood(design_of("language"), SamplerSettings())


def test_restored_from_a_result_it_is_the_same() -> None:
    for kind in ("language", "model:language", "model"):
        design = design_of(kind)
        tree = to_tree(
            design, sample(design, SamplerSettings(draws=8, chains=1)), engine="marginal"
        )
        restored = restore_design(tree, design.spec)
        (ours,), (theirs,) = design.slopes, restored.slopes
        assert theirs.by == ours.by == kind
        np.testing.assert_allclose(theirs.known, ours.known, rtol=1e-12)
        np.testing.assert_array_equal(theirs.index, ours.index)
        sds = random_sds(design, np.random.default_rng(0))
        assert write_out(restored).log_marginal(sds) == pytest.approx(
            write_out(design).log_marginal(sds), rel=1e-10
        )


@pytest.mark.parametrize(
    ("spec", "covariate", "line"),
    [
        ({}, None, "has the covariate 'mexa', which this table does not have.*covariate='mexa'"),
        (
            {},
            language_covariate(name="mexas"),
            r"does not have; did you mean 'mexas'\? \(available: mexas\)",
        ),
        (
            {},
            language_covariate(values=np.array([0.99, np.nan, *RAW[1:5], np.nan])),
            r"no value for 2 of 6 languages \(l0, l5\).*missing: model",
        ),
        ({}, language_covariate(values=np.array([0.9, *[0.5] * 6])), "does not vary over the 6"),
        (
            {"effects": {"model": "fixed"}},
            model_covariate(),
            "one value per model and is confounded with fixed model effects",
        ),
        (
            {},
            model_covariate(models=("xx", "m0x", *MODELS[1:]), source="f.csv"),
            r"\(m0\) in f.csv; the row 'm0x' matches no model; did you mean 'm0'\?; add them, or",
        ),
        ({}, model_covariate(values=[40.0, *[3.0] * 4]), "does not vary over the 4 models"),
        (
            {"effects": {"language": "fixed"}},
            language_covariate(),
            "confounded with fixed language effects",
        ),
        (
            {"covariates": [{"name": "mexa", "measurement_error": True}]},
            language_covariate(se=None),
            "no standard errors",
        ),
    ],
)
def test_what_is_refused(spec: dict[str, Any], covariate: Covariate | None, line: str) -> None:
    model = load_spec({"name": "x", "covariates": "mexa", **spec})
    with pytest.raises(DesignError, match=line):
        build_design(RECORDS, model, [] if covariate is None else [covariate])
