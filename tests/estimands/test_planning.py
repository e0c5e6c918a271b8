"""Decision study: formulas against studies simulated score by score."""

from __future__ import annotations

from dataclasses import fields, replace
from itertools import product

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayeseval.estimands.plan_variances import PlanVariances, Study
from bayeseval.estimands.planning import (
    absolute_variance,
    cheapest_study,
    error_variance,
    p_right_pairs,
    p_right_population,
    reaches_targets,
    study_table,
    universe_variance,
)
from tests.helpers import assert_within_mcse

STUDY = Study(seeds=3.0, items=0.5, languages=5.0, tasks=2.0)
N_STUDIES = 20_000


def variances(**changes: object) -> PlanVariances:
    """One draw of known variances, all different, for two models."""

    def one(value: float) -> np.ndarray:
        return np.full(1, value)

    def each(value: float) -> np.ndarray:
        return np.full((1, 2), value)

    base = PlanVariances(
        model=one(9.0),
        language=one(30.0),
        task=one(20.0),
        language_task=one(7.0),
        model_language=one(4.0),
        model_task=one(2.5),
        three_way=each(3.0),
        noise=each(1.5),
        seed=each(6.0),
        test_set=each(2.0),
        seed_test_set=each(5.0),
        shared_items={"task": 0.7, "language_task": 0.9, "model_task": 0.6},
        model_effect=np.array([[1.0, -1.0]]),
        fixed=frozenset(),
        models=("A", "B"),
        notes=(),
    )
    return replace(base, **changes)


def simulate(v: PlanVariances, study: Study, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Means of two models over every score of many studies, and what they truly are.

    Every score is drawn: one number per model, language, task and seed.
    """
    seeds, languages, tasks = int(study.seeds), int(study.languages), int(study.tasks)
    n = N_STUDIES

    def effect(variance: float, *shape: int) -> np.ndarray:
        return np.sqrt(variance) * rng.standard_normal((n, *shape))

    model = effect(v.model[0], 2, 1, 1, 1)
    ml = effect(v.model_language[0], 2, languages, 1, 1)
    mt = effect(v.model_task[0], 2, 1, tasks, 1)
    mlt = effect(v.three_way[0, 0], 2, languages, tasks, 1)
    level = effect(v.language[0], 1, languages, 1, 1)
    level = level + effect(v.task[0], 1, 1, tasks, 1)
    level = level + effect(v.language_task[0], 1, languages, tasks, 1)
    items = study.items
    scores = model + ml + mt + mlt + level
    scores = scores + effect(v.noise[0, 0], 2, languages, tasks, 1)
    scores = scores + effect(v.seed[0, 0], 2, languages, tasks, seeds)
    scores = scores + effect(v.test_set[0, 0] / items, 2, languages, tasks, 1)
    scores = scores + effect(v.seed_test_set[0, 0] / items, 2, languages, tasks, seeds)
    scores = scores + effect(v.shared_items["model_task"] / items, 2, 1, tasks, 1)
    scores = scores + effect(v.shared_items["language_task"] / items, 1, languages, tasks, 1)
    scores = scores + effect(v.shared_items["task"] / items, 1, 1, tasks, 1)
    truth = model.mean(axis=(2, 3, 4))
    constant = np.zeros((n, 1))
    if "language" in v.fixed:
        truth = truth + ml.mean(axis=(2, 3, 4))
    if "task" in v.fixed:
        truth = truth + mt.mean(axis=(2, 3, 4))
    if len(v.fixed) == 2:
        truth = truth + mlt.mean(axis=(2, 3, 4))
        constant = level.mean(axis=(2, 3, 4))
    return {"mean": scores.mean(axis=(2, 3, 4)), "truth": truth, "level": constant}


FIXED = [frozenset(), frozenset({"language"}), frozenset({"task"}), frozenset({"language", "task"})]


@pytest.mark.parametrize("fixed", FIXED, ids=lambda f: "+".join(sorted(f)) or "random")
def test_sd_and_probability_are_those_of_simulated_studies(fixed: frozenset[str]) -> None:
    v = variances(fixed=fixed)
    drawn = simulate(v, STUDY, np.random.default_rng(1))
    seen = drawn["mean"][:, 0] - drawn["mean"][:, 1]
    true = drawn["truth"][:, 0] - drawn["truth"][:, 1]
    error = error_variance(v, STUDY)
    table = study_table(v, [STUDY])
    assert_within_mcse((seen - true) ** 2, float(table["sd_difference_mean"].iloc[0]) ** 2)
    assert_within_mcse(true**2, 2.0 * float(universe_variance(v, STUDY)[0]))
    right = (np.sign(seen) == np.sign(true)).astype(float)
    assert_within_mcse(right, float(table["p_correct_mean"].iloc[0]))
    # Squared correlation of what is seen with what is true, over models.
    universe = float(universe_variance(v, STUDY)[0])
    assert table["generalisability_mean"].iloc[0] == pytest.approx(
        universe / (universe + float(error[0, 0]))
    )
    slope = (seen * true).mean() / (seen * seen).mean()
    assert slope == pytest.approx(float(table["generalisability_mean"].iloc[0]), abs=0.02)


@pytest.mark.parametrize(
    "wrong",
    [
        {"model_language": np.full(1, 2.0)},
        {"seed": np.full((1, 2), 18.0)},
        {"seed_test_set": None},
        {"shared_items": {}},
        {"fixed": frozenset({"language"})},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_wrong_variance_is_caught(wrong: dict[str, object]) -> None:
    drawn = simulate(variances(), STUDY, np.random.default_rng(2))
    seen = drawn["mean"][:, 0] - drawn["mean"][:, 1]
    true = drawn["truth"][:, 0] - drawn["truth"][:, 1]
    error = 2.0 * float(error_variance(variances(**wrong), STUDY)[0, 0])
    with pytest.raises(AssertionError, match="MCSE away"):
        assert_within_mcse((seen - true) ** 2, error)


def test_swapped_facets_are_caught() -> None:
    swapped = STUDY._replace(languages=STUDY.tasks, tasks=STUDY.languages)
    v = variances(model_task=np.full(1, 0.1))
    drawn = simulate(v, STUDY, np.random.default_rng(3))
    seen = drawn["mean"][:, 0] - drawn["mean"][:, 1]
    true = drawn["truth"][:, 0] - drawn["truth"][:, 1]
    with pytest.raises(AssertionError, match="MCSE away"):
        assert_within_mcse((seen - true) ** 2, 2.0 * float(error_variance(v, swapped)[0, 0]))


@pytest.mark.parametrize("fixed", [FIXED[0], FIXED[3]], ids=["random", "fixed"])
def test_absolute_error_is_that_of_simulated_studies(fixed: frozenset[str]) -> None:
    v = variances(fixed=fixed)
    drawn = simulate(v, STUDY, np.random.default_rng(4))
    missed = drawn["mean"] - drawn["truth"] - drawn["level"]
    absolute = float(absolute_variance(v, STUDY)[0])
    assert_within_mcse(missed[:, 0] ** 2, absolute)
    assert absolute > float(error_variance(v, STUDY)[0, 0])


def test_probability_over_the_pairs_at_hand() -> None:
    rng = np.random.default_rng(5)
    effects, error = np.array([[0.0, 1.0, 3.0]]), np.array([[1.0, 0.5, 2.0]])
    seen = effects + np.sqrt(error) * rng.standard_normal((50_000, 3))
    pairs = [(0, 1), (0, 2), (1, 2)]
    right = np.mean([seen[:, a] < seen[:, b] for a, b in pairs], axis=0)
    assert_within_mcse(right, float(p_right_pairs(effects, error)[0]))
    with pytest.raises(AssertionError, match="MCSE away"):
        assert_within_mcse(right, float(p_right_pairs(effects, 1.5 * error)[0]))


def test_without_error_the_order_is_right_and_ties_are_a_coin_s_throw() -> None:
    nothing = np.zeros((1, 2))
    assert p_right_pairs(np.array([[0.0, 1.0]]), nothing) == pytest.approx([1.0])
    assert p_right_pairs(nothing, nothing) == pytest.approx([0.5])
    assert p_right_population(np.array([4.0]), np.array([0.0])) == pytest.approx([1.0])
    assert p_right_population(np.array([0.0]), np.array([4.0])) == pytest.approx([0.5])
    # As much noise as signal: a correlation of sqrt(1/2), an orthant of 3/8 twice.
    assert p_right_population(np.array([2.0]), np.array([2.0])) == pytest.approx([0.75])


def test_one_score_by_hand() -> None:
    study = Study(seeds=2.0, items=4.0, languages=3.0, tasks=1.0)
    by_hand = 4.0 / 3 + 2.5 + (3.0 + 1.5 + 6.0 / 2 + 2.0 / 4 + 5.0 / 8) / 3 + 0.6 / 4
    assert error_variance(variances(), study) == pytest.approx(np.full((1, 2), by_hand))
    level = 30.0 / 3 + 20.0 + 7.0 / 3 + (0.9 / 3 + 0.7) / 4
    assert absolute_variance(variances(), study) == pytest.approx([by_hand + level])


def test_models_may_differ_in_noise() -> None:
    v = variances(noise=np.array([[1.0, 5.0]]))
    error = error_variance(v, STUDY)
    assert error[0, 1] - error[0, 0] == pytest.approx(4.0 / 10.0)
    assert study_table(v, [STUDY])["sd_difference_mean"].iloc[0] == pytest.approx(
        np.sqrt(error.sum())
    )


def test_what_is_not_known_does_not_count() -> None:
    v = variances(seed=None, test_set=None, seed_test_set=None, shared_items={})
    unknown = Study(np.nan, np.nan, 5.0, 2.0)
    expected = 4.0 / 5 + 2.5 / 2 + (3.0 + 1.5) / 10
    assert error_variance(v, unknown) == pytest.approx(np.full((1, 2), expected))


VARIANCE = st.floats(0.0, 100.0)
COUNT = st.integers(1, 50)


@given(
    parts=st.lists(VARIANCE, min_size=8, max_size=8),
    study=st.tuples(COUNT, st.floats(0.05, 20.0), COUNT, COUNT),
    facet=st.sampled_from(Study._fields),
    factor=st.floats(1.0, 10.0),
    fixed=st.sampled_from(FIXED),
)
def test_more_of_anything_is_never_less_precise(
    parts: list[float],
    study: tuple[int, float, int, int],
    facet: str,
    factor: float,
    fixed: frozenset[str],
) -> None:
    one = dict(zip(("model", "model_language", "model_task"), parts[:3], strict=True))
    each = dict(
        zip(("three_way", "noise", "seed", "test_set", "seed_test_set"), parts[3:], strict=True)
    )
    v = variances(
        **{name: np.full(1, value + 1e-6) for name, value in one.items()},
        **{name: np.full((1, 2), value) for name, value in each.items()},
        fixed=fixed,
    )
    small = Study(*map(float, study))
    large = small._replace(**{facet: getattr(small, facet) * factor})
    less, more = (study_table(v, [s]).iloc[0] for s in (small, large))
    slack = 1e-9  # rounding
    assert more["sd_difference_mean"] <= less["sd_difference_mean"] + slack
    # With fixed facets the truth itself narrows, so only sds are ordered.
    if not fixed:
        for name in ("p_correct_mean", "p_correct_pairs_mean", "generalisability_mean"):
            assert more[name] >= less[name] - slack
        assert more["dependability_mean"] >= less["dependability_mean"] - slack


ROW = st.tuples(
    st.integers(1, 4).map(float), st.integers(1, 5).map(float), st.floats(0.5, 1.0, width=16)
)


@given(
    rows=st.lists(ROW, min_size=1, max_size=12),
    target_sd=st.none() | st.floats(0.5, 5.5),
    target_probability=st.none() | st.floats(0.5, 1.0),
)
def test_cheapest_is_that_of_an_exhaustive_search(
    rows: list[tuple[float, float, float]],
    target_sd: float | None,
    target_probability: float | None,
) -> None:
    table = pd.DataFrame(rows, columns=["cost", "sd_difference_mean", "p_correct_mean"])
    reached = reaches_targets(table, target_sd=target_sd, target_probability=target_probability)
    found = cheapest_study(table, reached)
    best = None
    for place, (cost, sd, p) in enumerate(rows):
        if target_sd is None and target_probability is None:
            continue
        if target_sd is not None and sd > target_sd:
            continue
        if target_probability is not None and p < target_probability:
            continue
        if best is None or (cost, sd) < rows[best][:2]:
            best = place
    assert found == best


def test_intervals_are_those_of_the_draws() -> None:
    draws = np.linspace(1.0, 9.0, 401)
    v = variances(
        **dict.fromkeys(("model", "language", "task", "language_task", "model_task"), draws),
        model_language=np.zeros(401),
        **{name: np.zeros((401, 2)) for name in ("three_way", "noise", "seed", "test_set")},
        seed_test_set=None,
        shared_items={},
        model_effect=np.tile([[1.0, -1.0]], (401, 1)),
    )
    studies = [Study(1.0, 1.0, *map(float, pair)) for pair in product((1, 2), (1, 4))]
    table = study_table(v, studies, ci_prob=0.9)
    assert list(table["tasks"]) == [1.0, 4.0, 1.0, 4.0]
    for row, (_, _, _, tasks, _) in zip(table.itertuples(), studies, strict=True):
        sds = np.sqrt(2.0 * draws / tasks)
        assert row.sd_difference_mean == pytest.approx(sds.mean())
        assert row.sd_difference_sd == pytest.approx(sds.std(ddof=1))
        assert row.sd_difference_lower == pytest.approx(np.quantile(sds, 0.05))
        assert row.sd_difference_upper == pytest.approx(np.quantile(sds, 0.95))
    assert set(table["ci_kind"]) == {"eti"}
    assert set(table["ci_prob"]) == {0.9}


def test_every_draw_has_a_precision_of_its_own() -> None:
    """Of two draws of all variances, and of models that differ, each gives what it gives alone."""
    rng = np.random.default_rng(3)
    base = variances(fixed=frozenset({"language", "task"}))
    numbers = [f.name for f in fields(base) if isinstance(getattr(base, f.name), np.ndarray)]
    two = replace(
        base,
        **{
            name: rng.uniform(1.0, 9.0, size=(2, *getattr(base, name).shape[1:]))
            for name in numbers
        },
    )
    for formula in (universe_variance, absolute_variance, error_variance):
        found = formula(two, STUDY)
        for i in range(2):
            alone = replace(two, **{name: getattr(two, name)[i : i + 1] for name in numbers})
            np.testing.assert_allclose(found[i], formula(alone, STUDY)[0], rtol=1e-12)
        assert (found[0] != found[1]).all()
    # By hand: models, and interactions with fixed facets over five languages and two tasks.
    three_way = two.three_way.mean(axis=1)
    expected = two.model + two.model_language / 5.0 + two.model_task / 2.0 + three_way / 10.0
    np.testing.assert_allclose(universe_variance(two, STUDY), expected, rtol=1e-12)
