"""The posterior of a model with two free parameters, by quadrature over both."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from scipy import stats

from bayeseval.design import Design, build_design
from bayeseval.engines import Draws
from bayeseval.simulation import simulate
from bayeseval.spec import load_spec
from tests.engines.exact_gaussian import write_out
from tests.helpers import assert_within_mcse


def two_sds(sd_model: float, *, seed: int = 5) -> Design:
    """A small table whose model has two free parameters, sd_model and sd_residual."""
    truth = {"sd_model": sd_model, "sd_residual": 5.0}
    table = simulate("paper", n_languages=5, n_tasks=3, n_models=6, sds=truth, seed=seed).records
    return build_design(table, load_spec("paper"))


@dataclass(frozen=True)
class Quadrature:
    """Posterior means over a fine grid of log-sds, from dense matrices only."""

    sd_model: float
    sd_residual: float
    sd_model_squared: float
    language_effect: float
    model_effect_squared: float
    log_evidence: float
    sd_model_without_jacobian: float


def quadrature(design: Design) -> Quadrature:
    """Trapezoidal rule over both log-sds, which is exact to many digits on smooth peaks."""
    dense = write_out(design)
    log_model, log_residual = np.linspace(-9.0, 5.0, 71), np.linspace(0.6, 2.8, 45)
    language = dense.place["language"]
    effect = dense.contrast["language"][0]
    model = dense.place["model"].start
    rows = []
    for a in log_model:
        for b in log_residual:
            sds = {"sd_model": float(np.exp(a)), "sd_residual": float(np.exp(b))}
            value = dense.log_marginal(sds)
            for name, sd in sds.items():
                value += stats.halfnorm.logpdf(sd, scale=design.priors[name].scale)
            mean, covariance = dense.conditional(sds)
            rows.append(
                (value, a, b, mean[language] @ effect, mean[model] ** 2 + covariance[model, model])
            )
    value, a, b, language_effect, squared = np.array(rows).T
    value_phi = value + a + b  # the Jacobian of both logs
    top = value_phi.max()
    weight = np.exp(value_phi - top)
    flat = np.exp(value - value.max())
    area = (log_model[1] - log_model[0]) * (log_residual[1] - log_residual[0])

    def mean(values: np.ndarray, w: np.ndarray = weight) -> float:
        return float((w * values).sum() / w.sum())

    return Quadrature(
        sd_model=mean(np.exp(a)),
        sd_residual=mean(np.exp(b)),
        sd_model_squared=mean(np.exp(2 * a)),
        language_effect=mean(language_effect),
        model_effect_squared=mean(squared),
        log_evidence=float(top + np.log(weight.sum() * area)),
        sd_model_without_jacobian=mean(np.exp(a), flat),
    )


def check_against_quadrature(draws: Draws, exact: Quadrature) -> None:
    """Posterior means of sds and effects, and a control that must fail."""
    posterior = draws.posterior
    assert_within_mcse(posterior["sd_model"], exact.sd_model)
    assert_within_mcse(posterior["sd_model"] ** 2, exact.sd_model_squared)
    assert_within_mcse(posterior["sd_residual"], exact.sd_residual)
    assert_within_mcse(posterior["language_effect"][..., 0], exact.language_effect)
    assert_within_mcse(posterior["model_effect"][..., 0] ** 2, exact.model_effect_squared)
    with pytest.raises(AssertionError, match="MCSE away"):
        assert_within_mcse(posterior["sd_model"], exact.sd_model_without_jacobian)
