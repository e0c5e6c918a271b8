"""Records predicted from all others by importance sampling, against integrals over a grid."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy import special, stats

from bayeseval.checks import importance
from bayeseval.checks.calibration import influence_check
from bayeseval.checks.importance import reweighted
from bayeseval.estimands import read_arrays
from bayeseval.estimands.container import PosteriorArrays, Response
from bayeseval.families import FAMILIES, link
from tests.estimands.trees import make_tree

N, CHAINS, DRAWS, ITEMS = 12, 2, 1000, 40
ROWS = [("de", "qa", f"m{i:02d}") for i in range(N)]
LABELS = pd.DataFrame({"model": [row[2] for row in ROWS], "language": "de", "task": "qa"})
# Counts of 40 items in shares of 100; the fifth is the record that stands out.
ORDINARY = np.array([60.0, 57.5, 70, 65, 62.5, 55, 67.5, 60, 72.5, 52.5, 65, 57.5])
GROSS = np.where(np.arange(N) == 4, 7.5, ORDINARY)
SCALE = {"normal": 6.0, "student_t": 3.0, "logit_normal": 0.3, "beta": 0.12, "beta_binomial": 0.05}
NU = 4.0


def frozen(likelihood: str, eta: np.ndarray) -> tuple[Any, bool]:
    """SciPy's distribution of each likelihood at linear predictors; whether it is of counts."""
    scale, mu = SCALE.get(likelihood), special.expit(eta)
    if likelihood in ("normal", "logit_normal"):
        return stats.norm(eta, scale), False
    if likelihood == "student_t":
        return stats.t(NU, eta, scale), False
    if likelihood == "binomial":
        return stats.binom(ITEMS, mu), True
    a, b = mu * scale**-2, (1.0 - mu) * scale**-2
    return (stats.beta(a, b), False) if likelihood == "beta" else (
        stats.betabinom(ITEMS, a, b), True)  # fmt: skip


def observed(likelihood: str, score: np.ndarray) -> np.ndarray:
    share = score / 100.0
    return {"score": score, "logit": special.logit(share), "share": share,
            "count": np.rint(share * ITEMS)}[FAMILIES[likelihood].quantity]  # fmt: skip


def made_up(likelihood: str, score: np.ndarray) -> tuple[xr.DataTree, PosteriorArrays, np.ndarray]:
    """A posterior of the intercept alone, and the exact leave-one-out PIT of every record."""
    score_link = link([likelihood])
    grid = np.linspace(0.0, 100.0, 1001) if score_link == "identity" else np.linspace(-4, 4, 1001)
    values = observed(likelihood, score)

    def density(eta: np.ndarray) -> np.ndarray:
        kind, is_count = frozen(likelihood, eta[:, None])
        return kind.logpmf(values) if is_count else kind.logpdf(values)

    of_records = density(grid)
    total = of_records.sum(axis=1)
    without = total[:, None] - of_records
    weight = np.exp(without - without.max(axis=0))
    weight /= weight.sum(axis=0)
    kind, is_count = frozen(likelihood, grid[:, None])
    if is_count:
        each = kind.pmf(np.arange(ITEMS + 1.0))
        k = values.astype(int)
        below = np.cumsum(each, axis=1)[:, k] - 0.5 * each[:, k]
    else:
        below = kind.cdf(values)
    mass = np.exp(total - total.max())
    cumulative = np.cumsum(mass) - 0.5 * mass
    even = (np.arange(CHAINS * DRAWS) + 0.5) / (CHAINS * DRAWS)
    intercept = np.interp(even, cumulative / mass.sum(), grid)

    n = CHAINS * DRAWS
    arrays = read_arrays(make_tree(ROWS, chains=CHAINS, draws=DRAWS))
    ends = np.array([np.nan if score_link == "identity" else end for end in (0.0, 100.0)])
    scale = np.full((n, 1), SCALE.get(likelihood, 0.0))
    response = Response(
        link=score_link,
        families=(likelihood,),
        family=np.array([0]),
        lower=ends[:1],
        upper=ends[1:],
        chance=None,
        edge=0.001,
        n_items=np.full(N, float(ITEMS)) if is_count else None,
        dispersion={likelihood: scale},
    )
    arrays = replace(
        arrays,
        score=score,
        intercept=intercept,
        main={factor: np.zeros_like(effect) for factor, effect in arrays.main.items()},
        residual_sd=scale,
        extra={"nu": np.full(n, NU)},
        likelihood=likelihood,
        response=response,
    )
    likelihoods = density(intercept).reshape(CHAINS, DRAWS, N)
    tree = xr.DataTree.from_dict(
        {"log_likelihood": xr.Dataset({"score": (("chain", "draw", "record"), likelihoods)})}
    )
    return tree, arrays, (weight * below).sum(axis=0)


@pytest.mark.parametrize("likelihood", list(FAMILIES))
def test_ordinary_records_have_their_exact_pit_and_none_stands_out(likelihood: str) -> None:
    tree, arrays, exact = made_up(likelihood, ORDINARY)
    found = reweighted(tree, arrays)
    assert found is not None
    # Importance sampling with 2000 even draws; unweighted draws are off by up to 0.1.
    np.testing.assert_allclose(found.error, special.ndtri(exact), atol=0.01)
    np.testing.assert_allclose(found.pit, special.ndtr(found.error), rtol=1e-9)
    assert found.k_hat.max() < 0.7
    # From eleven others: their mean, about which the expectations of some likelihoods are not.
    np.testing.assert_allclose(found.expected, (ORDINARY.sum() - ORDINARY) / 11, atol=1.0)
    assert np.corrcoef(found.expected, ORDINARY)[0, 1] < -0.9
    check, table, n = influence_check(LABELS.assign(score=ORDINARY), found)
    assert (n, check.status) == (0, "pass")
    assert list(table)[-4:] == ["expected", "error_sds", "p", "k_hat"]
    np.testing.assert_array_equal(table["k_hat"], found.k_hat[np.argsort(-abs(found.error))[:10]])


@pytest.mark.parametrize("likelihood", list(FAMILIES))
def test_a_gross_outlier_is_found_whatever_its_k_hat(likelihood: str) -> None:
    tree, arrays, exact = made_up(likelihood, GROSS)
    found = reweighted(tree, arrays)
    assert found is not None
    check, table, n = influence_check(LABELS.assign(score=GROSS), found)
    assert (n, check.status, table["model"][0]) == (1, "warn", "m04")
    assert check.p == pytest.approx(2 * N * found.pit[4])
    # Also where the draws do not reach the posterior without it, with a k-hat up to 1.2.
    assert found.pit[4] == pytest.approx(max(exact[4], 1e-16), rel=0.1)
    assert 2 * N * exact[4] < 0.01


def test_few_draws_and_many_items(monkeypatch: pytest.MonkeyPatch) -> None:
    tree, arrays, _ = made_up("binomial", ORDINARY)
    asked: list[slice] = []

    def noted(*_: Any, draws: slice, **__: Any) -> np.ndarray:
        asked.append(draws)
        return np.full((len(range(CHAINS * DRAWS)[draws]), N), 0.5)

    monkeypatch.setattr(importance, "distribution", noted)
    for items, step in ((ITEMS, 1), (2e5, 4), (1e9, 20)):
        response = replace(arrays.response, n_items=np.full(N, items))
        reweighted(tree, replace(arrays, response=response))
        assert asked[-1] == slice(None, None, step)
    assert reweighted(tree, replace(arrays, n_draws=99)) is None
    assert reweighted(tree, replace(arrays, n_draws=100)) is not None
    assert reweighted(xr.DataTree(), arrays) is None
    check, table, n = influence_check(LABELS, None)
    assert (check.name, check.status, n, len(table)) == (
        "influential_records", "not applicable", 0, 0,
    )  # fmt: skip
    assert check.sentence == "The fit has too few draws of the log likelihood."
