"""The comparison helper itself must be able to fail."""

from __future__ import annotations

import numpy as np
import pytest

from tests.helpers import assert_within_mcse


@pytest.fixture
def draws() -> np.ndarray:
    return np.random.default_rng(1).normal(3.0, 2.0, size=(4, 1000))


@pytest.mark.parametrize("flatten", [True, False])
def test_true_mean_passes_and_wrong_mean_fails(draws, flatten):
    values = draws.reshape(-1) if flatten else draws
    assert_within_mcse(values, 3.0)
    # 2 / sqrt(4000) = 0.032 per MCSE, so 0.3 is more than nine of them away.
    with pytest.raises(AssertionError, match="MCSE away"):
        assert_within_mcse(values, 3.3)


def test_too_few_draws_fail(draws):
    with pytest.raises(AssertionError, match="effective draws"):
        assert_within_mcse(draws[0, :100], 3.0)


def test_sticky_chains_fail_where_independent_draws_would_pass(draws):
    sticky = np.repeat(draws[:, :20], 50, axis=1)
    assert sticky.shape == draws.shape
    with pytest.raises(AssertionError, match="effective draws"):
        assert_within_mcse(sticky, 3.0)


def test_nan_fails():
    with pytest.raises(AssertionError, match="finite"):
        assert_within_mcse(np.array([np.nan] * 1000), 0.0)
