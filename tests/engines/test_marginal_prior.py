"""Priors of the log standard deviations."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate, stats

from bayeseval.engines._marginal_prior import Scales, log_prior_density
from bayeseval.spec import Prior

PRIORS = {
    "half_normal": (Prior(dist="half_normal", scale=7.0), stats.halfnorm(scale=7.0)),
    "half_student_t": (Prior(dist="half_student_t", df=3.0, scale=5.0), stats.t(3.0, scale=5.0)),
    "exponential": (Prior(dist="exponential", scale=4.0), stats.expon(scale=4.0)),
    "gamma": (Prior(dist="gamma", shape=2.5, rate=0.4), stats.gamma(2.5, scale=2.5)),
}


@pytest.mark.parametrize("name", PRIORS)
def test_density_is_that_of_scipy(name: str) -> None:
    prior, reference = PRIORS[name]
    sd = np.array([0.3, 2.0, 11.0])
    # A Student-t that is cut at zero is twice as dense.
    expected = reference.logpdf(sd) + (np.log(2.0) if name == "half_student_t" else 0.0)
    np.testing.assert_allclose(log_prior_density(prior)(sd), expected, rtol=1e-12)


@pytest.mark.parametrize("low", [0.0, 2.0])
@pytest.mark.parametrize("name", PRIORS)
def test_density_of_a_log_sd_integrates_to_one(name: str, low: float) -> None:
    prior = PRIORS[name][0].model_copy(update={"low": low or None})
    scales = Scales(names=("sd",), priors=(prior,), low=np.array([low]))

    def density(phi: float) -> float:
        return float(np.exp(scales.log_prior(np.array([phi]))))

    total, _ = integrate.quad(density, -25.0, 12.0, limit=400)
    # quad's own error; the tails beyond the limits hold less than exp(-25).
    assert total == pytest.approx(1.0, abs=1e-6)

    def without_jacobian(phi: float) -> float:
        return density(phi) * np.exp(-phi)

    wrong, _ = integrate.quad(without_jacobian, -25.0, 12.0, limit=400)
    assert wrong != pytest.approx(1.0, abs=0.05)


def test_log_sds_and_sds_map_onto_each_other() -> None:
    scales = Scales(names=("a", "b"), priors=(), low=np.array([0.0, 3.0]))
    phi = np.array([[-1.0, 0.5], [2.0, -4.0]])
    sd = scales.natural(phi)
    assert (sd > scales.low).all()
    np.testing.assert_allclose(scales.unconstrained(sd), phi, rtol=1e-12)
    assert scales.natural(np.array([-800.0, -800.0])).tolist() == [0.0, 3.0]
