"""`pymc_model`: the density of a fit, with and without terms of the user's own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pymc as pm
import pytest
from pymc.model.transform.conditioning import remove_value_transforms
from scipy import stats

import bayeseval as be
from bayeseval.errors import InputError
from bayeseval.simulation import simulate


@pytest.fixture(scope="module")
def table() -> be.Records:
    return simulate("additive", n_languages=6, n_tasks=3, n_models=4, seed=2).records


def point(table: be.Records) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    effects = {
        f"{factor}_effect": rng.normal(size=len(table.coords[factor]))
        for factor in ("language", "task", "model")
    }
    effects = {name: 5.0 * (values - values.mean()) for name, values in effects.items()}
    sds = {"sd_language": 4.0, "sd_task": 5.0, "sd_model": 6.0, "sd_residual": 7.0}
    return {"intercept": 48.0, **sds, **effects}


def linear_predictor(table: be.Records, at: dict[str, Any]) -> np.ndarray:
    return at["intercept"] + sum(
        at[f"{factor}_effect"][table.codes(factor)] for factor in ("language", "task", "model")
    )


def test_the_density_is_that_of_the_model(table: be.Records) -> None:
    model, at = be.pymc_model(table, "additive"), point(table)
    assert model.named_vars_to_dims["model_effect"] == ("model",)
    parts = remove_value_transforms(model).point_logps(at, round_vals=10)
    score = table.table["score"]
    expected = stats.norm(linear_predictor(table, at), 7.0).logpdf(score).sum()
    assert parts["score"] == pytest.approx(expected, rel=1e-10)
    assert parts["sd_task"] == pytest.approx(
        stats.halfnorm(scale=score.std(ddof=1)).logpdf(5.0), rel=1e-8
    )


def test_a_term_of_the_users_own_is_added_to_the_linear_predictor(table: be.Records) -> None:
    rows = np.arange(len(table)) % 2

    def extend(eta: Any) -> Any:
        assert pm.modelcontext(None).coords["model"] == tuple(table.coords["model"])
        return eta + pm.Normal("own_effect", 0.0, 3.0, shape=2)[rows]

    model, at = be.pymc_model(table, "additive", extend=extend), point(table)
    own = np.array([-2.0, 5.0])
    parts = remove_value_transforms(model).point_logps(at | {"own_effect": own}, round_vals=10)
    eta, score = linear_predictor(table, at), table.table["score"]
    expected = stats.norm(eta + own[rows], 7.0).logpdf(score).sum()
    assert parts["score"] == pytest.approx(expected, rel=1e-10)
    assert abs(expected - stats.norm(eta, 7.0).logpdf(score).sum()) > 1.0
    assert parts["own_effect"] == pytest.approx(stats.norm(0.0, 3.0).logpdf(own).sum())


@pytest.mark.parametrize(
    ("extend", "said"),
    [
        (lambda eta: None, "extend must return one value for each of the .* records, got None$"),
        (lambda eta: eta.sum(), r"extend must return one value for .*, got the shape \(\)$"),
        (lambda eta: np.zeros(3), r"extend must return one value for .*, got the shape \(3,\)$"),
        (3, "extend must be a function, got int$"),
    ],
)
def test_what_is_no_linear_predictor_is_refused(table: be.Records, extend: Any, said: str) -> None:
    with pytest.raises(InputError, match=said):
        be.pymc_model(table, "additive", extend=extend)
