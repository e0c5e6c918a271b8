"""Summaries of plain arrays."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays as array_strategy

from bayeseval.errors import InputError
from bayeseval.estimands.arrays import (
    drop_meaningless,
    finite_sd,
    interval_summary,
    rank_summary,
    root_mean_square,
)
from tests.helpers import assert_within_mcse


def test_interval_summary_by_hand():
    draws = np.array([1.0, 2.0, 3.0, 4.0, 10.0])
    summary = interval_summary(draws, ci_prob=0.5)
    # mean 4, deviations -3 -2 -1 0 6: variance 50 / 4
    assert [float(x) for x in summary] == [4.0, 3.0, pytest.approx(12.5**0.5), 2.0, 4.0]


@given(array_strategy(float, (9, 2, 3), elements=st.floats(-1e3, 1e3)), st.floats(0.05, 0.99))
def test_interval_summary_matches_numpy_column_by_column(draws, ci_prob):
    summary = interval_summary(draws, ci_prob=ci_prob)
    for i in np.ndindex(2, 3):
        column = draws[(slice(None), *i)]
        tail = (1 - ci_prob) / 2
        expected = [
            column.mean(),
            np.median(column),
            column.std(ddof=1),
            *np.quantile(column, [tail, 1 - tail]),
        ]
        # atol: rounding of sums of numbers up to 1000
        np.testing.assert_allclose([part[i] for part in summary], expected, rtol=1e-9, atol=1e-9)
        assert summary.lower[i] <= summary.median[i] <= summary.upper[i]


@given(array_strategy(float, st.tuples(st.integers(2, 40), st.just(2))), st.floats(0.05, 0.99))
def test_quantiles_are_those_of_numpy_to_the_last_bit(draws, ci_prob):
    draws = np.nan_to_num(np.clip(draws, -1e9, 1e9))
    tail = (1.0 - ci_prob) / 2.0
    summary = interval_summary(draws, ci_prob=ci_prob)
    ordered = np.sort(draws, axis=0)
    found = np.array([summary.lower, summary.median, summary.upper])
    expected = np.quantile(ordered, [tail, 0.5, (1.0 + ci_prob) / 2.0], axis=0)
    np.testing.assert_array_equal(found, expected)


def test_nan_draws_are_left_out_per_column():
    draws = np.array([[1.0, 5.0, np.nan], [np.nan, 6.0, np.nan], [3.0, 7.0, np.nan]])
    summary = interval_summary(draws, ci_prob=0.95)
    np.testing.assert_array_equal(summary.mean, [2.0, 6.0, np.nan])
    np.testing.assert_allclose(summary.sd, [2**0.5, 1.0, np.nan], rtol=1e-15)
    alone = interval_summary(np.array([1.0, 3.0]), ci_prob=0.95)
    assert (summary.lower[0], summary.upper[0]) == (alone.lower, alone.upper)


def test_a_single_draw_has_no_uncertainty_to_report():
    summary = interval_summary(np.array([[4.0, -1.0]]), ci_prob=0.95)
    np.testing.assert_array_equal(summary.mean, [4.0, -1.0])
    np.testing.assert_array_equal(summary.median, [4.0, -1.0])
    for part in (summary.sd, summary.lower, summary.upper):
        assert np.isnan(part).all()


@pytest.mark.parametrize("ci_prob", [0.0, 1e-320, 0.00999, 0.99991, 1.0, 95, 99.995, float("nan")])
def test_impossible_probability_is_refused(ci_prob):
    with pytest.raises(InputError, match=r"ci_prob must lie between 0.01 and 0.9999, got"):
        interval_summary(np.zeros((3, 1)), ci_prob=ci_prob)


def test_rank_quantiles_are_ranks_that_occur():
    ranks = np.array([1.0, 1.0, 4.0, 4.0])
    summary = rank_summary(ranks, ci_prob=0.95)
    assert [float(x) for x in summary] == [2.5, 1.0, pytest.approx(3**0.5), 1.0, 4.0]
    # The interpolated median is a rank nobody had.
    assert interval_summary(ranks, ci_prob=0.95).median == 2.5


def test_sds_of_levels_and_of_cells_divide_by_their_degrees_of_freedom():
    values = np.array([[3.0, -3.0, 0.0], [1.0, 1.0, 1.0], [1.0, 2.0, 6.0]])
    # 18 / 2, 0, and (4 + 1 + 9) / 2 about the mean of 3.
    np.testing.assert_allclose(finite_sd(values), [3.0, 0.0, 7**0.5])
    # 18 / 3, 3 / 3 and 41 / 3 about zero.
    np.testing.assert_allclose(root_mean_square(values), [6**0.5, 1.0, (41 / 3) ** 0.5])


def test_they_estimate_the_parameter_that_effects_were_drawn_with():
    rng = np.random.default_rng(2)
    free = 5.0 * rng.standard_normal((40_000, 4))
    zero_sum = free - free.mean(axis=1, keepdims=True)
    assert_within_mcse(finite_sd(zero_sum) ** 2, 25.0)
    assert_within_mcse(root_mean_square(free) ** 2, 25.0)
    # Negative control: divided by K, effects that sum to zero have 3/4 of the variance.
    assert_within_mcse(root_mean_square(zero_sum) ** 2, 0.75 * 25.0)


def test_drop_meaningless_keeps_exactly_one_percent():
    values = np.ones((200, 3))
    values[:2, 1] = np.nan
    values[:3, 2] = np.nan
    guarded, excluded, dropped = drop_meaningless(values)
    np.testing.assert_array_equal(excluded, [0, 2, 3])
    np.testing.assert_array_equal(dropped, [False, False, True])
    np.testing.assert_array_equal(np.isnan(guarded).sum(axis=0), [0, 2, 200])
    assert np.isnan(values).sum() == 5
