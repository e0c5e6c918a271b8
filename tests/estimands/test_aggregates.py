"""Aggregates over languages against loops, and populations of languages."""

from __future__ import annotations

import math
import statistics

import numpy as np
import pytest

from bayeseval.errors import InputError
from bayeseval.estimands.aggregates import (
    AGGREGATES,
    aggregate,
    aggregate_name,
    aggregate_variants,
    choose_languages,
    default_subset,
)
from bayeseval.estimands.arrays import drop_meaningless

LOOPS = {
    "arithmetic_mean": statistics.fmean,
    "geometric_mean": statistics.geometric_mean,
    "median": statistics.median,
}


@pytest.mark.parametrize("n_languages", [1, 2, 5, 6])
def test_aggregates_are_what_a_loop_says(n_languages: int) -> None:
    values = np.random.default_rng(0).uniform(1.0, 90.0, size=(3, 2, n_languages))
    for kind in AGGREGATES:
        found = aggregate(kind, values)
        assert found.shape == (3, 2)
        for at in np.ndindex(3, 2):
            assert found[at] == pytest.approx(LOOPS[kind](values[at].tolist()), rel=1e-12)


@pytest.mark.parametrize("bad", [0.0, -3.0])
def test_a_geometric_mean_of_a_score_at_or_below_zero_is_no_number(bad: float) -> None:
    values = np.full((200, 2, 4), 20.0)
    values[0, 1, 2] = bad
    found = aggregate("geometric_mean", values)
    assert math.isnan(found[0, 1])
    assert np.isfinite(np.delete(found.ravel(), 1)).all()
    assert np.isfinite(aggregate("arithmetic_mean", values)).all()
    # One draw of 200 is left out and counted; one of 50 is too many to report the rest.
    kept, excluded, dropped = drop_meaningless(found)
    assert excluded.tolist() == [0, 1]
    assert dropped.tolist() == [False, False]
    kept, excluded, dropped = drop_meaningless(found[:50])
    assert excluded.tolist() == [0, 1]
    assert dropped.tolist() == [False, True]
    assert np.isnan(kept[:, 1]).all()


def test_names_are_told_apart() -> None:
    variants = list(aggregate_variants())
    assert len({name for name, *_ in variants}) == len(variants) == 18
    assert aggregate_name("median") == "median"
    assert aggregate_name("median", population="subset", of="run") == "median_subset_run"
    with pytest.raises(InputError, match="unknown aggregate 'mode'"):
        aggregate("mode", np.ones((1, 1)))  # type: ignore[arg-type]


def test_populations_of_languages() -> None:
    values = np.broadcast_to(np.arange(7.0), (4000, 2, 7)) + np.array([0.0, 100.0])[:, None]
    rng = np.random.default_rng(1)
    assert choose_languages(values, "fixed", rng=rng) is values
    new = choose_languages(values, "resampled", rng=rng)
    some = choose_languages(values, "subset", rng=rng, k=3)
    assert (new.shape, some.shape) == ((4000, 2, 7), (4000, 2, 3))
    for chosen in (new, some):
        # The same languages for both models in every draw, other ones in other draws.
        assert (chosen[:, 1] - chosen[:, 0] == 100.0).all()
        counts = np.bincount(chosen[:, 0].astype(int).ravel(), minlength=7)
        share = counts / counts.sum()
        # Five standard errors of a share of 1/7.
        assert np.abs(share - 1 / 7).max() < 5.0 * np.sqrt(1 / 7 / counts.sum())
    repeated = [len(set(row)) < 7 for row in new[:200, 0]]
    assert any(repeated)
    assert all(len(set(row)) == 3 for row in some[:200, 0])
    assert choose_languages(values, "subset", rng=rng).shape[2] == default_subset(7) == 4
    for k in (0, 8):
        with pytest.raises(InputError, match="k must be between 1 and 7 languages"):
            choose_languages(values, "subset", rng=rng, k=k)


def test_means_of_resampled_languages_vary_as_they_should() -> None:
    values = np.broadcast_to(np.array([1.0, 4.0, 6.0, 9.0]), (20_000, 1, 4))
    rng = np.random.default_rng(2)
    plain = values[0, 0].var()
    new = aggregate("arithmetic_mean", choose_languages(values, "resampled", rng=rng))
    some = aggregate("arithmetic_mean", choose_languages(values, "subset", rng=rng, k=2))
    # Without replacement the variance has the factor (L - k) / (L - 1); errors of 20,000 draws.
    assert new.var() == pytest.approx(plain / 4, rel=0.05)
    assert some.var() == pytest.approx(plain / 2 * (4 - 2) / (4 - 1), rel=0.05)
