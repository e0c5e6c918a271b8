"""Ranks, probabilities, tie groups and pairwise differences on plain arrays."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays as array_strategy
from scipy.stats import binom, rankdata

from bayeseval.errors import InputError
from bayeseval.estimands import (
    higher_is_better,
    may_be_best,
    p_top_k,
    pairwise_differences,
    rank_draws,
    rank_probabilities,
    rank_sets,
    ranks,
    tie_groups,
)
from bayeseval.estimands.ranks import p_better

NAN = np.nan
VALUES = np.array([[3.0, 1.0, 2.0], [1.0, 2.0, 3.0], [9.0, 8.0, 7.0], [5.0, 4.0, 6.0]])


def naive_ranks(values, highest_first):
    return [
        [1 + sum((w > v) if highest_first else (w < v) for w in row) for v in row] for row in values
    ]


def test_rank_draws_by_hand():
    np.testing.assert_array_equal(
        rank_draws(VALUES, highest_first=True), [[1, 3, 2], [3, 2, 1], [1, 2, 3], [2, 3, 1]]
    )
    np.testing.assert_array_equal(
        rank_draws(VALUES, highest_first=False), [[3, 1, 2], [1, 2, 3], [3, 2, 1], [2, 1, 3]]
    )


@given(
    array_strategy(float, (5, 4), elements=st.integers(-3, 3).map(float)),
    st.booleans(),
)
def test_rank_draws_match_counting_and_ties_share_the_best_rank(values, highest_first):
    ranks = rank_draws(values, highest_first=highest_first)
    np.testing.assert_array_equal(ranks, naive_ranks(values, highest_first))


@given(array_strategy(float, (6, 4), elements=st.floats(-1e3, 1e3), unique=True))
def test_ranks_are_permutations_and_follow_their_levels(values):
    ranks = rank_draws(values, highest_first=True)
    np.testing.assert_array_equal(np.sort(ranks, axis=1), np.tile([1, 2, 3, 4], (6, 1)))
    order = np.array([2, 0, 3, 1])
    np.testing.assert_array_equal(rank_draws(values[:, order], highest_first=True), ranks[:, order])


def test_missing_levels_and_draws_have_no_rank():
    values = VALUES.copy()
    values[:, 1] = NAN
    values[2, 0] = NAN
    np.testing.assert_array_equal(
        rank_draws(values, highest_first=True),
        [[1, NAN, 2], [2, NAN, 1], [NAN, NAN, NAN], [2, NAN, 1]],
    )
    assert np.isnan(rank_draws(np.full((3, 2), NAN), highest_first=True)).all()


def test_rank_probabilities_by_hand():
    probabilities = rank_probabilities(rank_draws(VALUES, highest_first=True))
    np.testing.assert_array_equal(
        probabilities, [[0.5, 0.25, 0.25], [0, 0.5, 0.5], [0.5, 0.25, 0.25]]
    )
    np.testing.assert_array_equal(
        p_top_k(rank_draws(VALUES, highest_first=True), 2), [0.75, 0.5, 0.75]
    )


@given(array_strategy(float, (7, 5), elements=st.floats(-1e3, 1e3), unique=True))
def test_rank_probabilities_sum_to_one_both_ways(values):
    probabilities = rank_probabilities(rank_draws(values, highest_first=False))
    # sums of at most seven sevenths
    np.testing.assert_allclose(probabilities.sum(axis=0), 1.0, rtol=1e-14)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0, rtol=1e-14)


def test_probabilities_of_unranked_levels_and_point_estimates_are_missing():
    values = VALUES.copy()
    values[:, 1] = NAN
    probabilities = rank_probabilities(rank_draws(values, highest_first=True))
    assert np.isnan(probabilities[1]).all()
    np.testing.assert_array_equal(probabilities[[0, 2], :].sum(axis=1), 1.0)
    assert np.isnan(rank_probabilities(rank_draws(VALUES[:1], highest_first=True))).all()


@pytest.mark.parametrize(("k", "column"), [(1, 0), (3, slice(None))])
def test_p_top_k_takes_one_level_and_all(k, column):
    ranks = rank_draws(VALUES, highest_first=True)
    expected = rank_probabilities(ranks)[:, column].reshape(3, -1).sum(axis=1)
    np.testing.assert_allclose(p_top_k(ranks, k), expected)


@pytest.mark.parametrize("k", [0, 4])
def test_p_top_k_refuses_impossible_k(k):
    with pytest.raises(InputError, match="k must lie between 1 and 3"):
        p_top_k(rank_draws(VALUES, highest_first=True), k)


def test_p_better_counts_ties_half_and_respects_direction():
    first, second = np.array([1.0, 2.0, 3.0, NAN]), np.array([0.0, 2.0, 4.0, 0.0])
    assert p_better(first, second, highest_first=True) == 0.5
    first[0] = 5.0
    second[2] = 3.0
    assert p_better(first, second, highest_first=True) == pytest.approx(2 / 3)
    assert p_better(first, second, highest_first=False) == pytest.approx(1 / 3)
    assert np.isnan(p_better(first[:1], second[:1], highest_first=True))


def test_tie_groups_by_hand():
    # P(A > B) = 0.9, P(A > C) = 1, P(B > C) = 0.9, D far below all, in 10 draws.
    a, c = np.full(10, 10.0), np.full(10, 8.0)
    b = np.array([11.0, 7.0] + [9.0] * 8)
    d = np.zeros(10)
    values = np.stack([d, c, b, a], axis=1)
    np.testing.assert_array_equal(tie_groups(values, highest_first=True), [3, 2, 1, 1])
    # A lower bar tells A and B apart, and then B and C too.
    np.testing.assert_array_equal(tie_groups(values, highest_first=True, prob=0.9), [4, 3, 2, 1])
    # Upside down the group starts from D, then C (P(C < B) = 0.9).
    np.testing.assert_array_equal(tie_groups(values, highest_first=False), [1, 2, 2, 3])


def test_tie_groups_of_missing_levels_and_point_estimates():
    values = VALUES.copy()
    values[:, 1] = NAN
    assert tie_groups(values, highest_first=True)[1] == 0
    np.testing.assert_array_equal(tie_groups(VALUES[:1], highest_first=True), [0, 0, 0])


@pytest.mark.parametrize("at_a_time", [ranks._DIFFERENCES, 600])
@pytest.mark.parametrize("highest_first", [True, False])
def test_pairwise_matches_a_naive_loop(highest_first, at_a_time, monkeypatch):
    monkeypatch.setattr(ranks, "_DIFFERENCES", at_a_time)
    values = np.random.default_rng(0).normal([1.0, 1.3, 0.2, 1.1], 0.5, size=(300, 4))
    values[3, 1] = NAN
    result = pairwise_differences(values, highest_first=highest_first, ci_prob=0.8)
    row = 0
    for a in range(4):
        for b in range(a + 1, 4):
            difference = [x - y for x, y in values[:, [a, b]] if not np.isnan(x - y)]
            assert (result.first[row], result.second[row]) == (a, b)
            mean, sd = np.mean(difference), np.std(difference, ddof=1)
            wins = np.mean([(x > 0) if highest_first else (x < 0) for x in difference])
            got = [part[row] for part in result.difference]
            expected = [mean, np.median(difference), sd, *np.quantile(difference, [0.1, 0.9])]
            # the same few hundred float64 numbers, summed in another order
            np.testing.assert_allclose(got, expected, rtol=1e-12)
            assert result.effect_size[row] == pytest.approx(mean / sd, rel=1e-12)
            assert result.p_a_better[row] == pytest.approx(wins, rel=1e-12)
            row += 1
    assert row == len(result.first)


def test_pairwise_is_nan_safe():
    values = VALUES.copy()
    values[:, 1] = NAN
    result = pairwise_differences(values, highest_first=True, ci_prob=0.95)
    np.testing.assert_array_equal(np.isnan(result.p_a_better), [True, False, True])
    np.testing.assert_array_equal(np.isnan(result.effect_size), [True, False, True])
    point = pairwise_differences(VALUES[:1], highest_first=True, ci_prob=0.95)
    np.testing.assert_array_equal(point.difference.mean, [2.0, 1.0, -1.0])
    for missing in (point.difference.sd, point.difference.lower, point.effect_size):
        assert np.isnan(missing).all()
    assert np.isnan(point.p_a_better).all()


def test_direction_of_every_quantity():
    for quantity in ("language_potential", "standardised_score", "model_effect"):
        assert higher_is_better(quantity)
    assert not higher_is_better("gap_sd_languages")
    with pytest.raises(InputError, match="did you mean 'standardised_score'"):
        higher_is_better("standardized_score")


@pytest.mark.parametrize("quantity", ["mean_prr", "cv_prr_latent_common", "std_prr"])
def test_the_published_description_ranks_nobody(quantity):
    with pytest.raises(InputError, match="takes its scores as exact, so it cannot be ranked"):
        higher_is_better(quantity)


def slow_boxes(ranks, prob):
    """Depth of every rank by counting in one half, boxes that hold enough of the other half."""
    n, k = ranks.shape
    measured, held = ranks[: n // 2], ranks[n // 2 :]

    def depth(level, rank):
        own = measured[:, level]
        if not own.min() <= rank <= own.max():
            return -max(own.min() - rank, rank - own.max())
        return min((own <= rank).sum(), (own >= rank).sum())

    deepest = sorted((min(depth(j, r[j]) for j in range(k)) for r in held), reverse=True)
    place = math.ceil(prob * (len(held) + 1))
    cut = deepest[place - 1] if place <= len(held) else -math.inf
    boxes = [[r for r in range(1, k + 1) if depth(j, r) >= cut] for j in range(k)]
    low, high = np.quantile(ranks, [(1 - prob) / 2, (1 + prob) / 2], axis=0, method="inverted_cdf")
    return (
        np.minimum([min(box) for box in boxes], low),
        np.maximum([max(box) for box in boxes], high),
    )


def spanned_boxes(ranks, prob):
    """Boxes that span the deepest draws, chosen among the draws that measure depth."""
    depth = np.full(len(ranks), np.inf)
    for own in ranks.T:
        least = np.minimum(rankdata(own, method="max"), rankdata(-own, method="max"))
        depth = np.minimum(depth, least)
    kept = ranks[depth >= np.sort(depth)[::-1][math.ceil(prob * len(ranks)) - 1]]
    return kept.min(axis=0), kept.max(axis=0)


@pytest.mark.parametrize("prob", [0.5, 0.8, 0.95])
def test_simultaneous_rank_sets_are_those_of_counting_and_hold_their_share(prob):
    rng = np.random.default_rng(4)
    values = np.array([0.0, 0.5, 1.0, 4.0]) + rng.standard_normal((400, 4))
    ranks = rank_draws(values, highest_first=True)
    lower, upper = rank_sets(ranks, prob=prob)
    expected = slow_boxes(ranks, prob)
    np.testing.assert_array_equal(lower, expected[0])
    np.testing.assert_array_equal(upper, expected[1])
    inside = ((ranks >= lower) & (ranks <= upper)).all(axis=1)
    assert inside.mean() >= prob
    assert (lower[3], upper[3]) == (1.0, 1.0) if prob < 0.95 else lower[3] == 1.0


def test_rank_sets_of_few_draws_hold_the_truth_as_often_as_they_promise():
    """120 draws of 30 levels; the truth is one more draw."""
    rng = np.random.default_rng(11)
    held = {"own": [], "spanned": []}
    for _ in range(250):
        values = 2.0 * rng.standard_normal(30) + rng.standard_normal((121, 30))
        *ranks, truth = rank_draws(values, highest_first=True)
        ranks = np.array(ranks)
        for which, boxes in (
            ("own", rank_sets(ranks, prob=0.9)),
            ("spanned", spanned_boxes(ranks, 0.9)),
        ):
            held[which].append(((boxes[0] <= truth) & (truth <= boxes[1])).all())
    assert binom.cdf(sum(held["own"]), 250, 0.9) > 0.01
    assert binom.cdf(sum(held["spanned"]), 250, 0.9) < 1e-4


def test_intervals_level_by_level_do_not_hold_all_levels_at_once():
    values = np.linspace(0.0, 3.0, 12) + np.random.default_rng(0).standard_normal((2000, 12))
    ranks = rank_draws(values, highest_first=True)
    lower, upper = rank_sets(ranks, prob=0.8)
    assert ((ranks >= lower) & (ranks <= upper)).all(axis=1).mean() >= 0.8
    low, high = np.quantile(ranks, [0.1, 0.9], axis=0, method="inverted_cdf")
    assert ((ranks >= low) & (ranks <= high)).all(axis=1).mean() < 0.6


def test_rank_sets_of_fewer_than_37_draws_span_all_ranks():
    same = np.tile(np.arange(1.0, 5.0), (37, 1))
    np.testing.assert_array_equal(rank_sets(same, prob=0.95), [[1, 2, 3, 4]] * 2)
    np.testing.assert_array_equal(rank_sets(same[:36], prob=0.95), [[1] * 4, [4] * 4])


def test_rank_sets_of_a_point_estimate_and_of_levels_without_ranks_are_missing():
    one = np.array([[1.0, 2.0]])
    assert np.isnan(rank_sets(one, prob=0.95)).all()
    ranks = np.array([[1.0, np.nan, 2.0], [2.0, np.nan, 1.0]])
    lower, upper = rank_sets(ranks, prob=0.95)
    np.testing.assert_array_equal(lower, [1.0, np.nan, 1.0])
    np.testing.assert_array_equal(upper, [2.0, np.nan, 2.0])


def test_may_be_best_is_the_smallest_set_with_the_joint_probability():
    # First in 50, 44, 4 and 2 of 100 draws: three levels hold 0.98, two 0.94.
    first = np.repeat([0, 1, 2, 3], [50, 44, 4, 2])
    ranks = np.full((100, 5), 2.0)
    ranks[np.arange(100), first] = 1.0
    np.testing.assert_array_equal(may_be_best(ranks), [True, True, True, False, False])
    np.testing.assert_array_equal(may_be_best(ranks, prob=0.94), [True, True, False, False, False])
    np.testing.assert_array_equal(may_be_best(ranks, prob=1.0), [True, True, True, True, False])
    assert not may_be_best(ranks[:1]).any()


def test_probability_of_a_difference_within_the_margin():
    values = np.array([[1.0, 0.0], [1.0, 0.5], [1.0, 3.0], [1.0, 1.0]])
    pairs = pairwise_differences(values, highest_first=True, ci_prob=0.9, margin=0.9)
    np.testing.assert_array_equal(pairs.p_within_margin, [0.5])
    without = pairwise_differences(values, highest_first=True, ci_prob=0.9)
    assert np.isnan(without.p_within_margin).all()
