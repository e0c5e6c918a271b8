"""Exact checks of the joint density: PyMC, NumPyro, NumPy and SciPy say the same.

No sampling. Every sampled variable has its prior and the scores their likelihood;
the parts are compared one by one in float64 on the constrained space.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from bayeseval import load
from bayeseval.design import Design, build_design, choose_model
from bayeseval.engines import numpyro as numpyro_engine
from bayeseval.engines import pymc as pymc_engine
from bayeseval.engines._density import random_point, sampled_variables, to_posterior
from bayeseval.engines.base import pointwise_log_likelihood
from bayeseval.fitting.covariates import find_covariates
from bayeseval.records import Records
from bayeseval.simulation import simulate
from bayeseval.spec import list_models, load_spec

# The two backends order their sums differently; 1e-8 relative is the project's
# bound, and the differences seen are a few units in the last place.
REL = 1e-8

PRIORS: dict[str, dict[str, Any]] = {
    "student_t and exponential": {
        "intercept": {"dist": "student_t", "df": 4, "loc": 0.2, "scale": 2},
        "sd_task": {"dist": "exponential", "scale": 0.5},
    },
    "half_student_t and gamma": {
        "sd_language": {"dist": "half_student_t", "df": 3, "scale": 0.5},
        "sd_residual": {"dist": "gamma", "shape": 2, "rate": 0.1},
    },
    "truncated": {
        "sd_language": {"dist": "half_student_t", "df": 3, "scale": 1, "low": 0.1},
        "sd_task": {"dist": "exponential", "scale": 1, "low": 0.2},
        "sd_model": {"dist": "gamma", "shape": 2, "rate": 0.1, "low": 0.5},
        "sd_residual": {"dist": "half_normal", "scale": 1, "low": 0.05},
    },
}


def small(spec: dict[str, Any], *, se: bool = False) -> Design:
    model = load_spec({"name": "x", **spec})
    records = simulate("additive", n_languages=5, n_tasks=4, n_models=4, seed=2).records
    if se:
        frame = records.table.assign(se=np.linspace(0.5, 3.0, len(records)))
        records = Records.from_frame(frame, name="with-se", mixed_scales="allow")
    return build_design(records, model)


def both(design: Design, point: dict[str, Any]) -> tuple[dict[str, float], dict[str, float]]:
    return (
        pymc_engine.log_density(design, point),
        numpyro_engine.log_density(design, point),
    )


def mega(spec: str) -> Design:
    records = load("mega")
    model = choose_model(spec, records).spec
    return build_design(records, model, find_covariates(records, model))


# Those with a logit link have tests of their own, on a small table.
ON_MEGA = [name for name in list_models() if name not in ("bounded", "counts", "logit")]


@pytest.mark.parametrize("spec", ON_MEGA)
def test_backends_agree_on_mega_at_20_points(spec: str) -> None:
    design = mega(spec)
    rng = np.random.default_rng(20)
    expected = {*sampled_variables(design), "score"}
    density = pymc_engine.density_function(design)
    for _ in range(20):
        point = random_point(design, rng)
        ours, theirs = density(point), numpyro_engine.log_density(design, point)
        assert set(ours) == set(theirs) == expected
        for name in expected:
            assert ours[name] == pytest.approx(theirs[name], rel=REL), name
        likelihood = pointwise_log_likelihood(design, to_posterior(design, point)).sum()
        assert ours["score"] == pytest.approx(likelihood, rel=REL)


@pytest.mark.parametrize(
    "spec",
    [
        *({"priors": priors} for priors in PRIORS.values()),
        *({"residual_by": factor} for factor in ("language", "task", "model")),
        {"likelihood": "student_t", "residual_by": "task", "interactions": ["model:task"]},
        {"population": "models", "effects": {"model": "fixed"}},
        {"centring": {"language": "non_centred", "task": "non_centred"}},
        {"effects": {"task": "fixed"}, "centring": {"task": "non_centred"}},
    ],
    ids=str,
)
@pytest.mark.parametrize("se", [False, True])
def test_backends_agree_on_every_option(spec: dict[str, Any], se: bool) -> None:
    design = small(spec, se=se)
    rng = np.random.default_rng(1)
    density = pymc_engine.density_function(design)
    for _ in range(3):
        point = random_point(design, rng)
        ours, theirs = density(point), numpyro_engine.log_density(design, point)
        for name in ours:
            # PyMC gets the tail of a truncated prior by 1 - cdf, good to some 1e-9.
            assert ours[name] == pytest.approx(theirs[name], rel=1e-7, abs=1e-8), name
        likelihood = pointwise_log_likelihood(design, to_posterior(design, point)).sum()
        assert ours["score"] == pytest.approx(likelihood, rel=REL)


def test_a_hand_made_density_confirms_both() -> None:
    design = build_design(load("mega"), load_spec("robust"))
    point = random_point(design, np.random.default_rng(7))
    ours, theirs = both(design, point)
    sd_score = design.score.std(ddof=1)
    language = point["language_effect"]
    k = len(language)
    # A zero-sum normal has K - 1 degrees of freedom.
    expected = {
        "intercept": stats.norm(design.score.mean(), 2.5 * sd_score).logpdf(point["intercept"]),
        "sd_language_task": stats.halfnorm(scale=sd_score / 2).logpdf(point["sd_language_task"]),
        "nu": stats.gamma(2, scale=10).logpdf(point["nu"]) - stats.gamma(2, scale=10).logsf(1.0),
        "language_effect": -0.5 * (language**2).sum() / point["sd_language"] ** 2
        - (k - 1) * (np.log(point["sd_language"]) + 0.5 * np.log(2 * np.pi)),
    }
    rows = load("mega").table
    posterior = to_posterior(design, point)
    by_label = {
        term.name: dict(zip(term.labels, posterior[term.effect], strict=True))
        for term in design.terms
    }
    eta = np.full(len(rows), point["intercept"])
    for term in design.terms:
        labels = rows[list(term.factors)].agg("|".join, axis=1)
        eta = eta + labels.map(by_label[term.name]).to_numpy()
    expected["score"] = stats.t(point["nu"], eta, point["sd_residual"]).logpdf(rows["score"]).sum()
    for name, value in expected.items():
        assert ours[name] == pytest.approx(float(value), rel=REL), name
        assert theirs[name] == pytest.approx(float(value), rel=REL), name


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ("sd_language", "language_effect"),
        ("sd_residual", "score"),
        ("model_effect", "score"),
    ],
)
def test_the_comparison_sees_a_wrong_density(change: str, name: str) -> None:
    """Negative control: move one value in one backend and the parts disagree."""
    design = build_design(load("mega"), load_spec("additive"))
    point = random_point(design, np.random.default_rng(3))
    moved = dict(point)
    moved[change] = point[change] * 1.001
    ours = pymc_engine.log_density(design, point)
    theirs = numpyro_engine.log_density(design, moved)
    assert ours[name] != pytest.approx(theirs[name], rel=REL)


def test_row_order_changes_nothing_and_new_names_permute() -> None:
    records = load("mega")
    design = build_design(records, load_spec("crossed"))
    point = random_point(design, np.random.default_rng(4))
    reference = numpyro_engine.log_density(design, point)

    shuffled = records.table.sample(frac=1.0, random_state=1)
    again = build_design(
        Records.from_frame(shuffled, name="mega", units=(0, 100)), load_spec("crossed")
    )
    assert numpyro_engine.log_density(again, point) == reference

    # Names in the reverse order: every level moves to another place.
    table = records.table
    for factor in ("language", "task", "model"):
        levels = sorted(set(table[factor]))
        new = {level: f"{len(levels) - i:03d}" for i, level in enumerate(levels)}
        table[factor] = table[factor].map(new)
    renamed = build_design(
        Records.from_frame(table[["model", "language", "task", "score"]], name="r", units=(0, 100)),
        load_spec("crossed"),
    )
    moved = {name: value for name, value in point.items() if np.ndim(value) == 0}
    for term, new_term in zip(design.terms, renamed.terms, strict=True):
        sizes = [len(records.coords[f]) for f in term.factors]
        old_labels = [
            "|".join(
                f"{size - records.coords[f].index(part):03d}"
                for f, part, size in zip(term.factors, label.split("|"), sizes, strict=True)
            )
            for label in term.labels
        ]
        variable = term.effect if term.centred else term.offset
        values = pd.Series(point[variable], index=old_labels)
        moved[variable] = values.loc[list(new_term.labels)].to_numpy()
    permuted = numpyro_engine.log_density(renamed, moved)
    for name, value in reference.items():
        # The same terms, added in another order.
        assert permuted[name] == pytest.approx(value, rel=1e-12), name
