"""Checks of residuals, calibration and cells, by hand: given draws, exact values and sentences."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import special, stats

from bayeseval import names
from bayeseval.checks import calibration, realised, residuals
from bayeseval.checks.advice import advised_together
from bayeseval.checks.calibration import calibration_check, influence_check, left_out
from bayeseval.checks.connections import connection_check
from bayeseval.checks.container import Check, p_text
from bayeseval.checks.gaussian import LeaveOneOut
from bayeseval.checks.independence import CELLS, cell_codes, independence_check
from bayeseval.checks.realised import between_groups, has_exact_pit, levene, realised_pit
from bayeseval.checks.residuals import (
    Realised,
    effect_checks,
    is_crowded,
    range_checks,
    residual_checks,
)
from bayeseval.checks.situation import Situation
from bayeseval.checks.uniformity import GRID, counts, distance, independent_counts
from bayeseval.design import build_design, identified_interactions
from bayeseval.errors import addressing_command_line
from bayeseval.estimands import expected_score, mean_residual, read_arrays
from bayeseval.estimands.predict import off_bounds
from bayeseval.records import Records
from bayeseval.simulation import simulate
from bayeseval.spec import load_spec
from tests.estimands.trees import COMPLETE, make_tree

NAN = float("nan")
ROWS = list(product(("de", "en", "fr", "hi"), ("nli", "qa"), ("m1", "m2", "m3")))


def arrays_of(rows: Any = ROWS, **more: Any) -> Any:
    return read_arrays(make_tree(rows, **more))


# Realised residuals -----------------------------------------------------------------------


@pytest.mark.parametrize("by", [None, "task", "language"])
@pytest.mark.parametrize("se", [False, True])
def test_pit_is_that_of_the_error_in_sds_of_its_record(by: str | None, se: bool) -> None:
    arrays = arrays_of(residual_by=by, se=se)
    draws = np.array([2, 7, 29])
    found = realised_pit(arrays, draws, np.random.default_rng(0))
    assert found.shape == (3, len(ROWS))
    for row, draw in zip(found, draws, strict=True):
        for i in range(len(ROWS)):
            level = 0 if by is None else arrays.index[by][i]
            variance = arrays.residual_sd[draw, level] ** 2
            variance += arrays.known_se[i] ** 2 if se else 0.0
            error = arrays.score[i] - expected_score(arrays)[draw, i]
            expected = stats.norm.cdf(error / np.sqrt(variance))
            assert row[i] == pytest.approx(np.clip(expected, 1e-16, 1 - 1e-16), rel=1e-9)
    assert has_exact_pit(arrays)
    assert has_exact_pit(replace(arrays, likelihood="student_t"))
    assert not has_exact_pit(replace(arrays, likelihood="binomial"))
    assert not has_exact_pit(replace(arrays, likelihood="mixed"))


def test_pit_by_rank_breaks_ties_at_random(monkeypatch: pytest.MonkeyPatch) -> None:
    arrays = replace(arrays_of(), likelihood="mixed")
    n = len(ROWS)
    number = iter(range(2 * 99))
    asked = []

    def replicates(arrays: Any, rng: Any, draw: slice) -> np.ndarray:
        asked.append(draw)
        k = next(number) % 99
        # Forty below the score, ten equal to it and 49 above.
        step = -1.0 if k < 40 else 0.0 if k < 50 else 1.0
        return (arrays.score + step)[None]

    monkeypatch.setattr(realised, "replicate_scores", replicates)
    rng = np.random.default_rng(0)
    found = realised_pit(arrays, np.array([4, 9]), rng)
    rng = np.random.default_rng(0)
    expected = [(40 + 11 * rng.uniform(size=n)) / 100 for _ in range(2)]
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    assert asked == [slice(4, 5)] * 99 + [slice(9, 10)] * 99


def with_bounds(arrays: Any, score: np.ndarray) -> Any:
    """The same arrays under a beta likelihood of scores from 0 to 100."""
    n_tasks = len(arrays.levels["task"])
    response = replace(
        arrays.response,
        link="logit",
        families=("beta",),
        family=np.zeros(n_tasks, dtype=int),
        lower=np.zeros(n_tasks),
        upper=np.full(n_tasks, 100.0),
        edge=0.005,
    )
    return replace(arrays, likelihood="beta", response=response, score=score)


def test_scores_that_the_likelihood_moves_are_tied_with_predictions_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    n = len(ROWS)
    score = np.where(np.arange(n) % 2, 0.0, 100.0)
    score[0] = 40.0
    arrays = with_bounds(arrays_of(), score)
    number = iter(range(99))

    def replicates(arrays: Any, rng: Any, draw: slice) -> np.ndarray:
        # Thirty closer to the lower bound than the edge, thirty to the upper one.
        k = next(number)
        return np.full((1, n), 0.2 if k < 30 else 50.0 if k < 69 else 99.8)

    monkeypatch.setattr(realised, "replicate_scores", replicates)
    (found,) = realised_pit(arrays, np.array([4]), np.random.default_rng(0))
    uniform = np.random.default_rng(0).uniform(size=n)
    low, high = uniform * 31 / 100, (69 + uniform * 31) / 100
    np.testing.assert_allclose(found[1:], np.where(score == 0.0, low, high)[1:], rtol=1e-12)
    assert found[0] == pytest.approx((30 + uniform[0]) / 100)
    # Under a normal likelihood they are what they are.
    plain = arrays_of()
    assert off_bounds(plain, plain.score) is plain.score


def test_a_language_at_a_bound_varies_less_than_predicted() -> None:
    arrays = arrays_of()
    labels = arrays.levels["language"]
    own = arrays.index["language"] == 0
    bounds = (np.zeros(len(ROWS)), np.full(len(ROWS), 100.0))
    sds = pd.DataFrame(
        {
            "language": labels[:2],
            "observed": [0.3, 6.0],
            "replicated_mean": [6.0, 5.0],
            "replicated_lower": [4.0, 3.0],
            "replicated_upper": [8.0, 7.0],
        }
    )
    low = replace(arrays, score=np.where(own, 1.0, 50.0))
    assert is_crowded(low, sds, bounds)
    assert is_crowded(replace(arrays, score=np.where(own, 95.0, 50.0)), sds, bounds)
    # Equal scores in the middle of the scale, and more spread than predicted, are neither.
    assert not is_crowded(replace(arrays, score=np.full(len(ROWS), 50.0)), sds, bounds)
    assert not is_crowded(low, sds.assign(observed=[20.0, 5.0]), bounds)
    assert not is_crowded(low, sds.head(0), bounds)


def test_pit_is_strictly_between_zero_and_one() -> None:
    arrays = arrays_of()
    far = replace(arrays, score=np.where(np.arange(len(ROWS)) % 2, 1e6, -1e6))
    found = realised_pit(far, np.array([0]), np.random.default_rng(0))
    assert found.min() == 1e-16
    assert found.max() == 1.0 - 1e-16


def test_analysis_of_variance_and_intraclass_correlation_by_hand() -> None:
    # Groups (1, 3), (2, 4, 9) and one of a single value, which says nothing.
    values, group = np.array([[1.0, 100.0, 3.0, 2.0, 4.0, 9.0]]), np.array([7, 5, 7, 2, 2, 2])
    p, correlation = between_groups(values, group)
    within = (1 + 1 + 9 + 1 + 16) / 3
    between = (2 * (2 - 3.8) ** 2 + 3 * (5 - 3.8) ** 2) / 1
    assert p[0] == pytest.approx(stats.f.sf(between / within, 1, 3))
    typical = 5 - (4 + 9) / 5
    shared = (between - within) / typical
    assert correlation == pytest.approx(shared / (shared + within))
    # Several rows are tested one by one, and their correlations averaged.
    both = np.concatenate([values, values[:, ::-1] ** 2])
    alone = between_groups(both[1:], group)
    together = between_groups(both, group)
    np.testing.assert_allclose(together[0], [p[0], alone[0][0]])
    assert together[1] == pytest.approx((correlation + alone[1]) / 2)
    # Two groups of two are enough, one is not.
    two = np.array([0, 0, 1, 1])
    assert np.isfinite(between_groups(np.array([[1.0, 2.0, 3.0, 5.0]]), two)[0]).all()
    one = between_groups(np.array([[1.0, 2.0, 3.0, 5.0]]), np.array([0, 0, 1, 2]))
    assert np.isnan(one[0]).tolist() == [True]
    assert np.isnan(one[1])


def test_levene_needs_two_groups_and_one_of_three() -> None:
    values = np.array([[1.0, 2.0, 6.0, 3.0, 7.0], [5.0, 1.0, 2.0, 2.0, 9.0]])
    group = np.array([0, 0, 0, 3, 3])
    found = levene(values, group, 4)
    for row, w in zip(values, found, strict=True):
        assert w == pytest.approx(stats.levene(row[:3], row[3:], center="median").statistic)
    assert np.isnan(levene(values[:, :4], np.array([0, 0, 1, 1]), 2)).tolist() == [True, True]
    assert np.isnan(levene(values, np.zeros(5, dtype=int), 2)).tolist() == [True, True]


# Residuals --------------------------------------------------------------------------------


def realised_of(arrays: Any, z: np.ndarray, **more: Any) -> Realised:
    return Realised(arrays, np.arange(len(z)), special.ndtr(z), more.pop("bounds", None), **more)


def test_normality_and_equal_variance_against_scipy() -> None:
    arrays = arrays_of()
    n = len(ROWS)
    z = np.random.default_rng(1).normal(size=(3, n))
    rng, twin = np.random.default_rng(5), np.random.default_rng(5)
    found = {check.name: check for check in residual_checks(realised_of(arrays, z), rng)}
    assert list(found) == [
        "residual_normality", *(f"equal_variance_{f}" for f in ("language", "task", "model")),
    ]  # fmt: skip
    residual = mean_residual(arrays)
    normal = found["residual_normality"]
    p = np.mean([stats.shapiro(row).pvalue for row in z])
    w = stats.shapiro(residual)
    assert normal.p == pytest.approx(p, rel=1e-6)
    assert (normal.value, normal.p_classical) == (float(w.statistic), float(w.pvalue))
    excess = stats.kurtosis(z, axis=1).mean()
    assert f", excess kurtosis {excess:.1f}; Shapiro-Wilk of their means W = " in normal.sentence
    assert normal.sentence.startswith("The residuals look like draws from the model's likelihood: ")
    null = twin.standard_normal((400, n))
    for factor in names.FACTORS:
        check = found[f"equal_variance_{factor}"]
        group = arrays.index[factor]
        labels = range(len(arrays.levels[factor]))

        def w_of(row: np.ndarray, group: Any = group, labels: Any = labels) -> float:
            return float(
                stats.levene(*(row[group == g] for g in labels), center="median").statistic
            )

        simulated = np.array([w_of(row) for row in null])
        above = [(1 + (simulated >= w_of(row)).sum()) / 401 for row in z]
        assert check.p == pytest.approx(np.mean(above))
        classical = stats.levene(*(residual[group == g] for g in labels), center="median")
        assert (check.value, check.p_classical) == pytest.approx(tuple(classical))
        said = f"The residual sd was not found to differ between {factor}s: "
        assert check.sentence == f"{said}{p_text(check.p, simulated=400)}."


def test_unequal_variance_names_the_extremes() -> None:
    arrays = arrays_of()
    group = arrays.index["language"]
    rng = np.random.default_rng(2)
    z = rng.normal(size=(2, len(ROWS))) * np.array([0.01, 5.0, 0.01, 0.02])[group]
    # Sds of residuals: those of the scores about their expectation, which are given here.
    size = np.array([1.0, 9.0, 3.0, 4.0])[group] * np.tile([1.0, -1.0], len(ROWS) // 2)
    moved = replace(arrays, score=expected_score(arrays).mean(axis=0) + size)
    languages = {"de": "German (de)", "en": "English (en)"}
    checks = residual_checks(realised_of(moved, z, languages=languages), rng)
    check = {one.name: one for one in checks}["equal_variance_language"]
    assert check.status == "fail"
    assert check.p == pytest.approx(1 / 401)
    sds = pd.Series(mean_residual(moved)).groupby(group).std()
    assert check.sentence.startswith("The residual sd differs between languages: ")
    assert check.sentence.endswith(
        f"; sd {sds.max():.3g} in English (en), {sds.min():.3g} in German (de)."
    )
    normal = checks[0]
    assert normal.status == "fail"
    assert normal.sentence.startswith(
        "The residuals have heavier tails than the model's likelihood: most are smaller than it "
    )
    # Two values, but for a little.
    two = np.where(np.arange(len(ROWS)) % 2, 1.0, -1.0) + 0.05 * rng.normal(size=(2, len(ROWS)))
    lighter = residual_checks(realised_of(arrays, two), rng)[0]
    assert "have lighter tails than" in lighter.sentence


def test_groups_that_have_no_variance_are_not_compared() -> None:
    rows = [("de", "qa", f"m{i}") for i in range(3)] + [("en", "qa", f"m{i}") for i in range(3)]
    arrays = arrays_of(rows)
    z = np.random.default_rng(0).normal(size=(2, 6))
    found = {c.name: c for c in residual_checks(realised_of(arrays, z), np.random.default_rng(1))}
    assert found["equal_variance_task"].sentence == "There is one task."
    assert found["equal_variance_model"].sentence == (
        "No model has three records or more: there is no variance to compare."
    )
    assert found["equal_variance_model"].status == "not applicable"
    assert found["equal_variance_task"].status == "not applicable"
    assert np.isfinite(found["equal_variance_language"].p)


def test_of_many_records_some_are_tested_for_normality(monkeypatch: pytest.MonkeyPatch) -> None:
    arrays = arrays_of()
    z = np.random.default_rng(1).normal(size=(2, len(ROWS)))
    monkeypatch.setattr(residuals, "_MOST_SHAPIRO", 20)
    found = residual_checks(realised_of(arrays, z), np.random.default_rng(3))[0]
    rows = np.random.default_rng(3).choice(len(ROWS), 20, replace=False)
    own = np.mean([stats.shapiro(row[rows]).pvalue for row in z])
    assert found.p == pytest.approx(own, rel=1e-6)
    assert found.value == pytest.approx(stats.shapiro(mean_residual(arrays)[rows]).statistic)


def test_normality_of_effects_needs_four_levels() -> None:
    arrays = arrays_of()
    draws = np.array([3, 11])
    chosen = Realised(arrays, draws, np.full((2, len(ROWS)), 0.5), None)
    language, task, model = effect_checks(chosen)
    assert [c.name for c in (language, task, model)] == [
        "normality_language", "normality_task", "normality_model",
    ]  # fmt: skip
    for check, factor in ((task, "task"), (model, "model")):
        assert (check.status, check.sentence) == ("not applicable", f"Fewer than four {factor}s.")
    effects = arrays.main["language"]
    assert language.p == pytest.approx(np.mean([stats.shapiro(effects[d]).pvalue for d in draws]))
    classical = stats.shapiro(effects.mean(axis=0))
    assert (language.value, language.p_classical) == pytest.approx(tuple(classical))
    assert language.sentence.startswith("The language effects look normal: p = ")
    # Thirty levels, of which one is far from the others.
    far = np.tile(np.append(np.linspace(-1.0, 1.0, 29), 60.0), (30, 1))
    odd = effect_checks(replace(chosen, arrays=replace(arrays, main={**arrays.main, "task": far})))
    assert odd[1].status == "fail"
    assert odd[1].sentence.startswith("The task effects do not look normal: p < ")


def test_extremes_are_judged_by_the_distribution_of_the_largest_of_all() -> None:
    arrays = arrays_of()
    n = len(ROWS)
    pit = np.full((2, n), 0.5)
    pit[0, 3], pit[1, 5] = 0.99, 0.9
    pit[0, 7], pit[1, 2] = 0.02, 0.3
    checks, _ = range_checks(Realised(arrays, np.arange(2), pit, None), np.random.default_rng(0), 4)
    highest, lowest = checks[:2]
    assert (highest.name, lowest.name) == ("highest_residual", "lowest_residual")
    assert highest.p == pytest.approx(1 - (0.99**n + 0.9**n) / 2)
    assert lowest.p == pytest.approx(1 - (0.98**n + 0.7**n) / 2)
    z = special.ndtri([0.99, 0.9, 0.02, 0.3])
    assert highest.value == pytest.approx(z[:2].mean())
    assert lowest.value == pytest.approx(z[2:].mean())
    assert highest.sentence.startswith(
        f"The highest residual is {z[:2].mean():.1f} sds above zero: p = "
    )
    assert lowest.sentence.startswith(
        f"The lowest residual is {-z[2:].mean():.1f} sds below zero: "
    )
    assert highest.sentence.endswith(f" for the highest of {n} residuals.")


def test_an_outlier_says_what_it_moves() -> None:
    arrays = arrays_of()
    pit = np.full((2, len(ROWS)), 0.5)
    pit[:, 3], pit[:, 7] = 1.0 - 1e-9, 1e-9
    realised = Realised(arrays, np.arange(2), pit, None)
    highest, lowest = range_checks(realised, np.random.default_rng(0), 4)[0][:2]
    assert (highest.status, lowest.status) == ("fail", "fail")
    residual = residuals.mean_residual(arrays)
    for check, row in ((highest, 3), (lowest, 7)):
        for factor in ("model", "language"):
            own = np.flatnonzero(arrays.index[factor] == arrays.index[factor][row])
            others = own[own != row]
            shift = abs(residual[own].mean() - residual[others].mean())
            error = np.sqrt((residual[others] ** 2).sum()) / len(others)
            size = "small against" if shift < error else "more than"
            assert (
                f"moves the mean of the {len(own)} records of its {factor} by {shift:.2g} ({size} "
                f"the standard error {error:.2g})"
            ) in check.sentence


@pytest.mark.parametrize(("n", "step", "times"), [(400, 1, 14), (30, 1, 1), (14, 3, 1), (31, 1, 2)])
def test_as_many_tables_are_predicted_as_asked_for(
    n: int, step: int, times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrays = arrays_of()
    asked: list[slice] = []

    def replicates(arrays: Any, rng: np.random.Generator, draws: slice) -> np.ndarray:
        asked.append(draws)
        return np.full((len(range(30)[draws]), len(ROWS)), 50.0) + rng.normal(size=len(ROWS))

    monkeypatch.setattr(residuals, "replicate_scores", replicates)
    flat = Realised(arrays, np.arange(2), np.full((2, len(ROWS)), 0.5), None)
    with np.errstate(all="ignore"):
        range_checks(flat, np.random.default_rng(0), n)
    assert asked == [slice(None, None, step)] * times


def test_sds_of_languages_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    # Two records of a language are too few: hi is left out.
    arrays = arrays_of([*ROWS[:18], ROWS[18], ROWS[21]])
    group, n = arrays.index["language"], 20
    rng = np.random.default_rng(0)
    drawn = 50.0 + rng.normal(size=(60, n)) * np.array([1.0, 2.0, 3.0, 1.0])[group]
    score = 50.0 + rng.normal(size=n) * np.array([1.0, 6.0, 3.0, 1.0])[group]
    fixed = replace(arrays, n_chains=2, n_draws=30, score=score)
    monkeypatch.setattr(residuals, "replicate_scores", lambda arrays, rng, draws: drawn)
    bounds = (np.full(n, 48.0), np.full(n, np.inf))
    flat = Realised(fixed, np.arange(2), np.full((2, n), 0.5), bounds, {"en": "English (en)"})
    checks, table = range_checks(flat, rng, 60)
    assert [check.name for check in checks] == [
        "highest_residual", "lowest_residual", "sd_by_language", "outside_bounds",
    ]  # fmt: skip
    sds = np.array([[row[group == g].std(ddof=1) for g in range(3)] for row in drawn])
    observed = np.array([score[group == g].std(ddof=1) for g in range(3)])
    assert table["language"].tolist() == ["de", "en", "fr"]
    assert table["n_records"].tolist() == [6, 6, 6]
    np.testing.assert_allclose(table["observed"], observed)
    np.testing.assert_allclose(table["replicated_mean"], sds.mean(axis=0))
    np.testing.assert_allclose(table["replicated_lower"], np.quantile(sds, 0.025, axis=0))
    np.testing.assert_allclose(table["replicated_upper"], np.quantile(sds, 0.975, axis=0))
    above, below = ((1 + (o(sds, observed)).sum(axis=0)) / 61 for o in (np.greater, np.less))
    np.testing.assert_allclose(table["p"], np.minimum(1.0, 2.0 * np.minimum(above, below)))
    total = (((sds - sds.mean(axis=0)) / sds.std(axis=0, ddof=1)) ** 2).sum(axis=1)
    own = (((observed - sds.mean(axis=0)) / sds.std(axis=0, ddof=1)) ** 2).sum()
    check = checks[2]
    assert check.p == pytest.approx((1 + (total >= own).sum()) / 61)
    assert (check.status, check.value) == ("warn", pytest.approx(1 / 3))
    assert check.sentence.startswith(
        "In 1 of 3 languages the sd of the scores is outside the 95 % interval of predicted "
        "tables: "
    )
    assert check.sentence.endswith(
        f"; the largest difference is in English (en), {observed[1]:.3g} observed and "
        f"{sds[:, 1].mean():.3g} predicted."
    )
    share = (drawn < 48.0).mean()
    assert (checks[3].value, checks[3].status) == (pytest.approx(share), "fail")
    assert checks[3].sentence == (
        f"{100 * share:.1f} % of predicted scores are outside the bounds of the scale."
    )
    # Records of tasks without bounds do not count, which the sentence says.
    bounds[0][:3] = -np.inf
    partly = Realised(fixed, np.arange(2), np.full((2, n), 0.5), bounds, {})
    share = (drawn[:, 3:] < 48.0).mean()
    assert range_checks(partly, rng, 60)[0][3].sentence == (
        f"{100 * share:.1f} % of predicted scores are outside the bounds of the scale, apart from "
        "3 records of tasks whose scale is not known."
    )
    few = arrays_of(
        [("de", "qa", "m1"), ("de", "qa", "m2"), ("en", "qa", "m1"), ("en", "qa", "m2")]
    )
    pairs = Realised(few, np.arange(2), np.full((2, 4), 0.5), None)
    monkeypatch.setattr(residuals, "replicate_scores", lambda arrays, rng, draws: drawn[:, :4])
    checks, table = range_checks(pairs, rng, 60)
    assert (checks[2].status, checks[2].sentence) == (
        "not applicable", "No language has 3 records.",
    )  # fmt: skip
    assert len(table) == 0
    assert checks[3].sentence == "The scores have no known bounds."


@pytest.mark.parametrize("seed", range(4))
def test_sds_of_languages_that_are_as_predicted(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    arrays = arrays_of()
    group, n = arrays.index["language"], len(ROWS)
    rng = np.random.default_rng(seed)
    noise = np.array([1.0, 2.0, 30.0, 1.0])[group]
    drawn = rng.normal(size=(60, n)) * noise
    score = rng.normal(size=n) * noise
    sds = np.array([[row[group == g].std(ddof=1) for g in range(4)] for row in drawn])
    # In the middle of the 60 sds of its language: two-sided, twice 31 / 61 is too much.
    first = group == 0
    score[first] *= np.median(sds[:, 0]) / score[first].std(ddof=1)
    observed = np.array([score[group == g].std(ddof=1) for g in range(4)])
    monkeypatch.setattr(residuals, "replicate_scores", lambda arrays, rng, draws: drawn)
    fixed = replace(arrays, n_chains=2, n_draws=30, score=score)
    flat = Realised(fixed, np.arange(2), np.full((2, n), 0.5), None)
    checks, table = range_checks(flat, rng, 60)
    assert table["p"][0] == 1.0
    # Every language counts in units of its own spread.
    centre, spread = sds.mean(axis=0), sds.std(axis=0, ddof=1)
    own, total = (((each - centre) ** 2 / spread**2).sum(axis=-1) for each in (observed, sds))
    assert checks[2].p == pytest.approx((1 + (total >= own).sum()) / 61)
    assert checks[2].status == "pass"
    outside = sum(not lo <= o <= hi for o, lo, hi in zip(
        observed, *np.quantile(sds, [0.025, 0.975], axis=0), strict=True))  # fmt: skip
    assert checks[2].value == outside / 4
    assert checks[2].sentence == (
        f"In {outside} of 4 languages the sd of the scores is outside the 95 % interval of "
        f"predicted tables: {p_text(checks[2].p)}."
    )


@pytest.mark.parametrize(
    ("share", "status"), [(0.01, "pass"), (0.011, "warn"), (0.05, "warn"), (0.051, "fail")]
)
def test_limits_of_impossible_predictions(
    share: float, status: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrays = arrays_of()
    monkeypatch.setattr(residuals, "outside_share", lambda scores, bounds: share)
    bounds = (np.zeros(len(ROWS)), np.ones(len(ROWS)))
    flat = Realised(arrays, np.arange(2), np.full((2, len(ROWS)), 0.5), bounds)
    check = range_checks(flat, np.random.default_rng(0), 30)[0][3]
    assert (check.status, check.value) == (status, share)


# Calibration ------------------------------------------------------------------------------


def test_left_out_predictions_are_mixtures_over_the_sds() -> None:
    table = simulate("crossed", n_languages=3, n_tasks=2, n_models=3, seed=4).records
    one = build_design(table, load_spec("additive"))
    rng = np.random.default_rng(1)
    posterior = {name: rng.uniform(4.0, 9.0, size=45) for name in one.priors}
    posterior["language_effect"] = rng.normal(size=(45, 3))
    found = left_out(one, posterior, np.random.default_rng(2))
    # Forty of 45 draws, evenly spaced.
    draws = np.unique(np.linspace(0, 44, 40).astype(int))
    parts = [LeaveOneOut(one, {k: posterior[k][d] for k in one.priors}) for d in draws]
    z = np.array([part.errors(one.score) for part in parts])
    sd = np.array([1 / np.sqrt(part.precision) for part in parts])
    # One over the density of the left-out score.
    weight = 1.0 / stats.norm.pdf(z * sd, scale=sd)
    weight /= weight.sum(axis=0)
    np.testing.assert_allclose(found.pit, (weight * stats.norm.cdf(z)).sum(axis=0), rtol=1e-9)
    np.testing.assert_allclose(found.expected, (weight * (one.score - z * sd)).sum(axis=0))
    np.testing.assert_allclose(found.error, (weight * z).sum(axis=0), rtol=1e-9)
    assert found.simulated.shape == (999, 99)
    twin = np.random.default_rng(2)
    own = []
    for number, part in enumerate(parts):
        n = len(range(number, 999, len(parts)))
        pit = stats.norm.cdf(part.errors(part.tables(n, twin)).T)
        own.append([[(row <= g).mean() for g in GRID] for row in pit])
    np.testing.assert_allclose(found.simulated, np.concatenate(own), atol=1e-12)


def test_a_record_hundreds_of_sds_away_has_weights_all_the_same() -> None:
    table = simulate("crossed", n_languages=3, n_tasks=2, n_models=3, seed=4).records.table
    table.loc[0, "score"] += 2000.0
    records = Records.from_frame(table, name="far", mixed_scales="allow")
    one = build_design(records, load_spec("additive"))
    rng = np.random.default_rng(1)
    found = left_out(one, {k: rng.uniform(4.0, 9.0, size=3) for k in one.priors}, rng)
    assert np.isfinite([found.pit, found.expected, found.error]).all()
    assert found.error[0] > 100.0
    assert found.pit[0] == 1.0 - 1e-16


@pytest.mark.parametrize(
    ("operations", "n", "expected"), [(1e12, 7, 7), (0.0, 50, 3), (0.0, 2, 2), (1e12, 90, 40)]
)
def test_points_are_as_many_as_are_affordable(
    operations: float, n: int, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = simulate("crossed", n_languages=3, n_tasks=2, n_models=3, seed=4).records
    one = build_design(table, load_spec("additive"))
    asked: list[Any] = []
    monkeypatch.setattr(calibration, "_OPERATIONS", operations)
    monkeypatch.setattr(calibration, "LeftOut", lambda design, points, rng: asked.append(points))
    posterior = {"intercept": np.arange(float(n)), "language_effect": np.zeros((n, 3))}
    left_out(one, posterior, np.random.default_rng(0))
    (points,) = asked
    assert all(set(point) == {"intercept"} for point in points)
    places = np.unique(np.linspace(0, n - 1, expected).astype(int))
    assert [point["intercept"] for point in points] == places.tolist()


def test_affordable_points_shrink_with_the_cube_of_the_effects(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table = simulate("crossed", n_languages=3, n_tasks=2, n_models=3, seed=4).records
    one = build_design(table, load_spec("additive"))
    # Eight effects and the intercept.
    each = 4.0 * 9**3 + 100.0 * one.n_records
    asked: list[Any] = []
    monkeypatch.setattr(calibration, "LeftOut", lambda design, points, rng: asked.append(points))
    for room, number in ((5.01, 5), (4.99, 4)):
        monkeypatch.setattr(calibration, "_OPERATIONS", room * each)
        left_out(one, {"intercept": np.arange(50.0)}, np.random.default_rng(0))
        assert len(asked[-1]) == number


def predictions(pit: np.ndarray, **more: Any) -> Any:
    """Left-out predictions with given PIT; the band is that of independent values."""
    n = len(pit)
    given = {
        "pit": pit,
        "expected": np.full(n, 40.0),
        "error": special.ndtri(pit),
        "simulated": independent_counts(n, 999, np.random.default_rng(8)),
    }
    stub: Any = object.__new__(calibration.LeftOut)
    vars(stub).update(given | more)
    return stub


EVEN = (np.arange(200) + 0.5) / 200


@pytest.mark.parametrize(
    ("pit", "said"),
    [
        (EVEN, "50 % of scores fall into the middle half of their predictions, as often as they "
         "should: "),
        (0.5 + 0.5 * (EVEN - 0.5), "100 % of scores fall into the middle half of their "
         "predictions, more often than they should: predictions are wider than most scores need, "
         "as happens if a few scores lie far from their predictions: "),
        (special.ndtr(2.5 * special.ndtri(EVEN)), "less often than they should: predictions are "
         "too narrow: "),
        # All values too small, and the middle half is what it should be.
        (np.where(EVEN < 0.25, EVEN * 0.5, np.where(EVEN > 0.75, 0.75 + (EVEN - 0.75) * 0.4,
         EVEN)), "as often, but predictions are off to one side: "),
        # Too small, and not as often: to one side alone is not what is said.
        (EVEN**3, "less often than they should: predictions are too narrow: "),
        # As often, and too many at both ends: nothing is off to one side.
        (np.where(EVEN < 0.25, 0.1 * EVEN, np.where(EVEN > 0.75, 1 - 0.1 * (1 - EVEN), EVEN)),
         "less often than they should: predictions are too narrow: "),
    ],
)  # fmt: skip
def test_calibration_is_said_in_words(pit: np.ndarray, said: str) -> None:
    one = predictions(pit)
    check, table = calibration_check(one, np.full((3, 200), 0.5), np.random.default_rng(0))
    assert said in check.sentence
    curve = np.array([(pit <= g).mean() for g in GRID])
    np.testing.assert_allclose(table["ecdf"], curve)
    np.testing.assert_array_equal(table["pit"], GRID)
    assert check.value == pytest.approx(curve[74] - curve[24])
    null = distance(one.simulated, 200)
    own = distance(curve[None], 200)[0]
    assert check.p == pytest.approx((1 + (null >= own).sum()) / 1000)
    width = np.quantile(null, 0.95) * np.sqrt(GRID * (1 - GRID) / 200)
    np.testing.assert_allclose(table["lower"], np.clip(GRID - width, 0, 1))
    np.testing.assert_allclose(table["upper"], np.clip(GRID + width, 0, 1))
    assert set(table["kind"]) == {"leave-one-out PIT, band from tables drawn from the model"}


def test_calibration_at_draws_is_a_mean_over_them() -> None:
    pit = np.random.default_rng(3).uniform(size=(4, 60))
    check, table = calibration_check(None, pit, np.random.default_rng(1))
    simulated = independent_counts(60, 999, np.random.default_rng(1))
    null, own = distance(simulated, 60), distance(counts(pit), 60)
    assert check.p == pytest.approx(np.mean([(1 + (null >= d).sum()) / 1000 for d in own]))
    np.testing.assert_allclose(table["ecdf"], [(pit <= g).mean() for g in GRID])
    assert table["kind"][0] == "PIT at draws of the posterior, independent under the model"


LABELS = pd.DataFrame(
    {
        "model": [f"m{i}" for i in range(12)],
        "language": ["hi", *["de"] * 11],
        "task": "qa",
        "score": np.arange(12.0),
    }
)


def test_records_that_are_predicted_worst_come_first() -> None:
    pit = np.full(12, 0.4)
    pit[[0, 5, 7]] = 1e-5, 1 - 1e-9, 0.001
    one = predictions(pit, expected=np.arange(12.0) + 30.0)
    check, table, n = influence_check(LABELS, one, {"de": "German (de)"})
    p = np.minimum(1.0, 2 * np.minimum(pit, 1 - pit) * 12)
    # Of 12 records: the third has p = 0.024 and counts, beside 1.2e-4 and 2.4e-8.
    assert (n, check.status) == (3, "warn")
    assert table["model"].tolist()[:4] == ["m5", "m0", "m7", "m1"]
    assert len(table) == 10
    assert list(table) == [*LABELS, "expected", "error_sds", "p"]
    np.testing.assert_allclose(table["p"], p[[5, 0, 7, *(i for i in range(12) if i not in
                                                        (0, 5, 7))][:10]])  # fmt: skip
    assert table.index.tolist() == list(range(10))
    error = special.ndtri(pit)
    assert check.value == pytest.approx(abs(error[5]))
    assert check.p == pytest.approx(p[5])
    assert check.sentence == (
        "3 of 12 records are further from their predictions from all other records than expected "
        "by chance; the largest error is that of m5 in German (de) on qa: 5, predicted 35 "
        f"({error[5]:+.1f} sds)."
    )
    calm, table, n = influence_check(LABELS, predictions(np.full(12, 0.4)))
    assert (n, calm.status) == (0, "pass")
    assert calm.sentence.startswith(
        "No record is further from its prediction from all other records than expected by chance; "
        "the largest error is that of m0 in hi on qa: 0, predicted 40 (-0.3 sds)."
    )


# Uniformity, cells, connections and advice ------------------------------------------------


def test_ecdfs_and_their_distance_by_hand() -> None:
    values = np.array([[0.25, 0.5, 0.5, 0.985], [0.0, 1.0, 0.01, 0.3]])
    expected = [[(row <= g).mean() for g in GRID] for row in values]
    np.testing.assert_array_equal(counts(values), expected)
    np.testing.assert_array_equal(counts(values[0]), expected[:1])
    own = [
        max(abs(e - g) / np.sqrt(g * (1 - g) / 4) for e, g in zip(row, GRID, strict=True))
        for row in expected
    ]
    np.testing.assert_allclose(distance(np.array(expected), 4), own)
    drawn = independent_counts(50, 3000, np.random.default_rng(0))
    assert drawn.shape == (3000, 99)
    # Binomial at every point of the grid: five standard errors of mean and variance.
    assert np.abs((drawn.mean(axis=0) - GRID) / np.sqrt(GRID * (1 - GRID) / 50)).max() < 5 / 54
    variance = drawn.var(axis=0) * 50 / (GRID * (1 - GRID))
    assert np.abs(variance[10:-10] - 1).max() < 5 * np.sqrt(2 / 3000)


def test_correlated_cells_are_listed_smallest_p_first() -> None:
    sizes = {"model": 5, "language": 6, "task": 4}
    grid = np.array(list(product(*(range(n) for n in sizes.values())))).T
    index = dict(zip(sizes, grid, strict=True))
    levels = {f: tuple(f"{f}{i}" for i in range(n)) for f, n in sizes.items()}
    rng = np.random.default_rng(0)
    codes = {term: cell_codes(term, index, levels) for term in CELLS if "dataset" not in term}
    assert codes["language:task"][7] == index["language"][7] * 4 + index["task"][7]
    z = rng.normal(size=(3, grid.shape[1]))
    z = z + rng.normal(size=24)[codes["language:task"]]
    z = z + 0.8 * rng.normal(size=30)[codes["model:language"]]
    check, alike = independence_check(z, index, levels)
    found = {term: between_groups(z, own) for term, own in codes.items()}
    order = sorted(found, key=lambda term: found[term][0].mean())
    assert order == ["language:task", "model:language", "model:task"]
    assert alike == ("language:task", "model:language")
    # Three interactions: there are no datasets.
    assert check.p == pytest.approx(min(1.0, 3 * found["language:task"][0].mean()))
    assert check.value == pytest.approx(found["language:task"][1])
    assert check.sentence.startswith(
        "Residuals of the same language and task "
        f"({found['language:task'][1]:.2f}) and same model and language "
        f"({found['model:language'][1]:.2f}) are correlated (correlation in brackets): p < "
    )
    calm, alike = independence_check(rng.normal(size=(3, grid.shape[1])), index, levels)
    assert (calm.status, alike) == ("pass", ())
    assert calm.sentence.startswith(
        "Residuals of records in the same cell (language and task; model and task; model and "
        "language) are not correlated more than by chance: p "
    )
    # Mean p-values of many draws are about one half: three times as much is no probability.
    assert independence_check(rng.normal(size=(60, grid.shape[1])), index, levels)[0].p == 1.0
    # One record in each cell of two factors.
    alone = {f: np.arange(4) for f in sizes}
    check, alike = independence_check(rng.normal(size=(2, 4)), alone, levels)
    assert (check.status, check.sentence, alike) == (
        "not applicable", "No two records share a cell.", (),
    )  # fmt: skip


def connected(rows: list[tuple[str, str, str]]) -> Check:
    frame = pd.DataFrame(rows, columns=["model", "language", "task"])
    levels = {f: tuple(sorted(set(frame[f]))) for f in frame}
    return connection_check({f: np.searchsorted(levels[f], frame[f]) for f in frame}, levels)


def test_connections_are_counted_by_pairs_of_models() -> None:
    full = [(m, lang, t) for m in "abc" for lang in "xy" for t in "st"]
    # A second record of a pair is not a second pair.
    found = connected([*full[:-3], *full[:2], full[-1]])
    assert (found.status, found.value) == ("pass", 2.0)
    assert found.sentence == ("Every two models share at least 2 language-task pairs (a and c).")
    one = connected([*full[:4], ("b", "x", "s"), ("b", "x", "s"), ("b", "y", "u"), ("a", "z", "u"),
                     ("a", "z", "t")])  # fmt: skip
    assert one.sentence == "Every two models share at least 1 language-task pair (a and b)."
    alone = connected(full[:4])
    assert (alone.status, alone.sentence) == ("not applicable", "There is one model.")
    assert np.isnan(alone.value)
    # More than three are counted.
    apart = connected([(m, lang, t) for m, t in zip("abcd", "stuv", strict=True) for lang in "xy"])
    assert (apart.status, apart.value) == ("warn", 0.0)
    assert apart.sentence == (
        "6 of 6 pairs of models share no language-task pair and are compared through others: "
        "a and b, a and c, a and d and 3 more."
    )
    single = connected([*full, ("a", "z", "s")])
    assert (single.status, single.value) == ("warn", 4.0)
    assert single.sentence == "With a single record: language z."


SITUATION = Situation(
    benchmark="t.csv", model="mine", terms=("model:task",),
    identified=("language:task", "model:task", "model:language"), likelihood="normal",
    residual_by=None, bounded=True,
)  # fmt: skip


def test_what_correlated_and_unequal_residuals_mean() -> None:
    def said(name: str, **more: Any) -> tuple[str, str]:
        with addressing_command_line():
            (found,) = advised_together([Check(name, "warn")], replace(SITUATION, **more))
        return found.meaning, found.command

    narrow = (
        "Correlated records are counted as independent evidence: intervals of {} tend to be too "
        "narrow, and probabilities too close to 0 or 1."
    )
    # The shipped model with the term and all others of the fit.
    assert said("independence", alike=("language:task",)) == (
        narrow.format("potentials of languages"),
        "bayeseval fit --benchmark t.csv --model crossed",
    )
    assert said("independence", alike=("model:language",))[0] == narrow.format(
        "scores and ranks of models"
    )
    # None has it: the term is identified, or it is not.
    odd = ("model:language:task",)
    assert said("independence", alike=("model:language:dataset",), likelihood="student_t") == (
        "Several metrics of the same outputs are counted as separate measurements: intervals of a "
        "model in one language, and of untested pairs, have the wrong width. Scores over all "
        "pairs depend on it less. The table has too few records to estimate "
        "model:language:dataset; add tasks or metrics.",
        "",
    )
    assert said("independence", alike=odd, identified=(*SITUATION.identified, *odd)) == (
        narrow.format("scores and ranks of models")
        + " Write a spec with these terms: interactions: [model:task, model:language:task].",
        "bayeseval fit --benchmark t.csv --model robust",
    )
    assert said("independence", alike=("model:task",), terms=(*SITUATION.identified,))[0] == (
        narrow.format("scores and ranks of models")
    )
    one_sd = (
        "One residual sd is used for every {0}: intervals are too narrow for the {0}s with the "
        "larger sds and too wide for the others."
    )
    assert said("equal_variance_task") == (
        one_sd.format("task"), "bayeseval compare --benchmark t.csv --models by_task,robust",
    )  # fmt: skip
    assert said("equal_variance_model") == (
        one_sd.format("model") + " A spec of your own can have residual_by: model.",
        "bayeseval fit --benchmark t.csv --model robust",
    )
    few = {"identified": ("language:task",)}
    assert said("equal_variance_task", **few) == (
        one_sd.format("task") + " A spec of your own can have residual_by: task. Write these lines "
        "to normal_by_task.yaml, and give the file to --model: 'name: normal_by_task', "
        "'likelihood: normal', 'interactions: [model:task]', 'residual_by: task'.",
        "bayeseval fit --benchmark t.csv --model normal_by_task.yaml",
    )  # fmt: skip
    assert said("equal_variance_task", residual_by="task") == (
        "Separate residual sds by task do not explain this: the residuals have another shape than "
        "the model's likelihood.",
        "bayeseval fit --benchmark t.csv --model robust",
    )
    for name in ("calibration", "sd_by_language"):
        assert said(name)[1] == "bayeseval compare --benchmark t.csv --models crossed,robust"
    assert said("residual_normality")[0].startswith(
        "The few records far from their predictions distort"
    )
    assert said("residual_normality", likelihood="student_t")[0] == (
        "Intervals of single scores have the wrong width."
    )
    assert said("influential_records", outliers=0)[1].endswith("--model crossed --drop outliers=1")
    assert said("influential_records", outliers=7)[1].endswith("--drop outliers=7")
    assert said("connectivity", unconnected=0.05) == (
        "Differences between models without a common language-task pair, and estimates for a "
        "language, task or model with a single record, depend more on the model's terms than on "
        "measurements.",
        "bayeseval sensitivity --benchmark t.csv --model crossed --drop model",
    )
    # One refit for each of 60 models would be too many for 1 of 1770 pairs.
    assert said("connectivity", unconnected=1 / 1770)[1] == ""
    # No shipped model has more terms.
    own = said("connectivity", unconnected=0.5, terms=("model:dataset",))
    assert own[1].endswith("additive --drop model")
    assert said("outside_bounds", bounded=False)[1] == "bayeseval validate t.csv"
    assert said("normality_language")[0] == (
        "A language far from the others is shrunk towards them too strongly, and predictions for "
        "a new language have the wrong width; ranks change little."
    )


def test_the_next_model_is_the_smallest_with_what_residuals_indicate() -> None:
    fit = replace(SITUATION, terms=())
    assert replace(fit, alike=("model:task",)).next_model() == "crossed"
    # No shipped model has the term: the smallest with more terms than the fit.
    assert replace(fit, alike=("model:language:task",)).next_model() == "interaction"
    assert fit.next_model() == "interaction"
    assert replace(fit, terms=SITUATION.identified).next_model() is None


def test_a_situation_is_read_off_a_fit() -> None:
    arrays = arrays_of(COMPLETE, interactions=("model:language",), residual_by="task")
    found = Situation.of(
        arrays, benchmark="b", model="auto", bounded=False, alike=["language:task"], outliers=2,
        options="--x y",
    )  # fmt: skip
    assert found == Situation(
        benchmark="b", model="auto", terms=("model:language",),
        identified=identified_interactions(
            arrays.index, {f: len(labels) for f, labels in arrays.levels.items()}
        ),
        likelihood="normal",
        residual_by="task", bounded=False, alike=("language:task",), outliers=2, options="--x y",
    )  # fmt: skip
    with addressing_command_line():
        assert found.fit("robust") == "bayeseval fit --benchmark b --x y --model robust"
    assert (
        Situation.of(
            arrays, benchmark="b", model="auto", bounded=True, alike=(), outliers=0
        ).options
        == ""
    )


def test_predictions_that_have_seen_the_scores_are_said_to_have() -> None:
    rng = np.random.default_rng(3)
    pit = np.tile(EVEN, (3, 1))
    check, table = calibration_check(None, pit, rng)
    assert check.sentence.startswith(
        "50 % of scores fall into the middle half of their predictions by a fit that has seen "
        "them, as often as they should: "
    )
    assert set(table["kind"]) == {"PIT at draws of the posterior, independent under the model"}
    left_out, _ = calibration_check(predictions(EVEN), pit, rng)
    assert "seen" not in left_out.sentence
