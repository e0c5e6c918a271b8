"""Binomial variances do not follow the chance of the score that they belong to."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit, logit

from bayeseval import fit, load
from bayeseval._typing import Floats, Index
from bayeseval.design import share_errors
from bayeseval.design.fitted_shares import fitted_shares

LANGUAGES = ("ar", "de", "en", "fr", "hi", "ja", "ru", "sw", "th", "zh")
SHAPE = (10, 3, 8)
FACTORS: list[Index] = [one.ravel() for one in np.indices(SHAPE)]


def of_the_score(share: Floats, n: Floats, factors: Sequence[Index]) -> Floats:
    """The mean under Jeffreys' prior given one score only, which errors were computed from."""
    return np.asarray((share * n + 0.5) / (n + 1.0))


def pulled(shares: Callable[..., Floats], p: Floats, n: float, n_tables: int) -> float:
    """Mean over tables of the mean score with weights 1 / (p (1 - p)), less the truth."""
    rng = np.random.default_rng(0)
    size = np.full(p.size, n)
    found = []
    for _ in range(n_tables):
        share = rng.binomial(int(n), p) / n
        fitted = shares(share, size, FACTORS)
        weight = 1.0 / (fitted * (1.0 - fitted))
        found.append((weight * (share - p)).sum() / weight.sum())
    return float(np.mean(found))


def test_weighted_means_are_not_drawn_away_from_one_half() -> None:
    p = np.full(FACTORS[0].size, 0.8)
    assert pulled(of_the_score, p, 50, 200) == pytest.approx((2 * 0.8 - 1) / 50, rel=0.1)
    # Of the 240 scores, 19 effects take up a share of 0.08, in which each has its own chance.
    assert abs(pulled(fitted_shares, p, 50, 200)) < 0.15 * (2 * 0.8 - 1) / 50


def test_nor_are_those_of_models_and_languages_at_different_levels() -> None:
    rng = np.random.default_rng(1)
    effects = [rng.normal(0.0, 0.6, size) for size in SHAPE]
    p = expit(1.0 + sum(effect[level] for effect, level in zip(effects, FACTORS, strict=True)))
    assert abs(pulled(fitted_shares, p, 100, 200)) < 0.15 * pulled(of_the_score, p, 100, 200)
    # The share itself is found, too: the additive model holds.
    share = rng.binomial(100, p) / 100
    size = np.full(p.size, 100.0)
    errors = [
        np.sqrt(np.mean((one - p) ** 2)) for one in (fitted_shares(share, size, FACTORS), share)
    ]
    assert errors[0] < 0.5 * errors[1]


def test_shares_that_differ_in_earnest_are_kept() -> None:
    rng = np.random.default_rng(2)
    p = rng.uniform(0.05, 0.95, FACTORS[0].size)
    share = rng.binomial(10_000, p) / 10_000
    found = fitted_shares(share, np.full(p.size, 10_000.0), FACTORS)
    # A cell keeps what is more than three standard errors from the others.
    assert found == pytest.approx(share, abs=3.5 * 0.5 / np.sqrt(10_000))


def test_scores_with_effects_of_their_own_have_the_mean_under_jeffreys_prior() -> None:
    share, n = np.array([0.0, 0.3, 1.0]), np.array([10.0, 20.0, 50.0])
    own = np.arange(3)
    assert fitted_shares(share, n, [own, np.zeros(3, dtype=np.int64)]) == pytest.approx(
        of_the_score(share, n, [])
    )
    assert fitted_shares(share[:1], n[:1], [own[:1]]) == pytest.approx([0.5 / 11])


@pytest.mark.parametrize("right", [0.0, 1.0])
def test_shares_at_a_bound_have_a_variance(right: float) -> None:
    n = np.full(FACTORS[0].size, 20.0)
    found = fitted_shares(np.full(len(n), right), n, FACTORS)
    assert found == pytest.approx(np.full(len(n), abs(right - 0.5 / 21)))


def test_the_fit_is_that_of_least_squares() -> None:
    rng = np.random.default_rng(3)
    kept = np.flatnonzero(rng.random(FACTORS[0].size) < 0.4)
    factors, n = [level[kept] for level in FACTORS], np.full(len(kept), 40.0)
    share = rng.binomial(40, 0.7, len(kept)) / 40
    columns = np.hstack([np.eye(size)[level] for size, level in zip(SHAPE, factors, strict=True)])
    own = logit(of_the_score(share, n, []))
    fitted = columns @ np.linalg.lstsq(columns, own, rcond=None)[0]
    found = logit(fitted_shares(share, n, factors))
    # Each lies between its own logit and its fit, nearer to the fit.
    kept_of_distance = (found - fitted) @ (own - fitted) / ((own - fitted) @ (own - fitted))
    assert -1e-9 < kept_of_distance < 0.5
    between = np.clip(found, np.minimum(own, fitted), np.maximum(own, fitted))
    assert found == pytest.approx(between, abs=1e-3)


def test_scores_of_few_items_are_inside_their_intervals(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(4)
    cells = [(f"m{m}", one, f"acc{t}") for m in range(8) for one in LANGUAGES for t in range(3)]
    tables = [
        pd.DataFrame(cells, columns=["model", "language", "task"]).assign(
            n=50, k=lambda f: rng.binomial(50, 0.8, len(f)), score=lambda f: f["k"] / f["n"]
        )
        for _ in range(6)
    ]

    def covered() -> float:
        inside = []
        for table in tables:
            ranking = fit(load(table), "additive", draws=500, chains=2, seed=0).ranking()
            inside += list(ranking["score_lower"].le(0.8) & ranking["score_upper"].ge(0.8))
        return float(np.mean(inside))

    assert covered() > 0.9
    monkeypatch.setattr(share_errors, "fitted_shares", of_the_score)
    assert covered() < 0.85
