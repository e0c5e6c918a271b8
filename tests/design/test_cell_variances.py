"""Variances of cells from those of their language and model: values, chance, and bias."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from bayeseval._typing import Bools, Floats, Index
from bayeseval.design.cell_variances import _n_effects, by_margins, of_items
from bayeseval.design.fitted_shares import fitted_shares
from bayeseval.records import CellTable, Records, item_variance, reduce_replicates

LANGUAGES, TASKS = 10, 3
# Shares of correct items of six models, alike in all languages and tasks.
SHARES = np.array([0.6, 0.7, 0.8, 0.85, 0.9, 0.92])
ITEMS = 50


def grid(n_models: int) -> tuple[Index, Index, Index]:
    """Model, language and task of every cell."""
    shape = (n_models, LANGUAGES, TASKS)
    model, language, task = (index.ravel() for index in np.indices(shape, dtype=np.int64))
    return model, language, task


def everywhere(like: Index) -> Bools:
    return np.ones(len(like), dtype=np.bool_)


def test_products_of_effects_are_found_in_incomplete_tables() -> None:
    rng = np.random.default_rng(0)
    model, language, task = grid(6)
    of_language = rng.uniform(0.5, 2.0, (TASKS, LANGUAGES))[task, language]
    exact = 10.0 * (1 + task) * of_language * rng.uniform(0.3, 3.0, (TASKS, 6))[task, model]
    use = rng.random(len(task)) < 0.8
    known = np.where(use, exact, 0.0)
    df = np.full(len(task), 1e7)
    levels = [10 * task + language, 10 * task + model]
    found = by_margins(known, df, task, levels, use)
    np.testing.assert_allclose(found, exact, rtol=1e-3)
    # Negative control: with effects of languages alone, models are not told apart.
    alone = by_margins(np.where(use, exact, 0.0), df * 1e-6, task, levels[:1], use)
    assert np.abs(alone / exact - 1.0).max() > 0.5


def test_levels_of_tasks_have_effects_of_their_own_and_the_mean_stays() -> None:
    rng = np.random.default_rng(1)
    model, language, task = grid(4)
    df = rng.integers(5, 200, len(task)).astype(np.float64)
    square = (1 + 9 * (task == 1) * (model == 2)) * rng.chisquare(df) / df
    levels = [10 * task + language, 10 * task + model]
    found = by_margins(square, df, task, levels, everywhere(task))
    for t in range(TASKS):
        assert found[task == t].mean() == pytest.approx(square[task == t].mean(), rel=1e-12)
    typical = np.array([[found[(task == t) & (model == m)].mean() for m in (0, 2)] for t in (0, 1)])
    assert typical[0, 1] / typical[0, 0] < 1.5
    assert typical[1, 1] / typical[1, 0] > 5.0


def test_cells_that_differ_by_chance_have_one_variance() -> None:
    rng = np.random.default_rng(0)
    task, use, df = np.zeros(200, dtype=np.int64), np.ones(200, dtype=np.bool_), np.full(200, 7.0)
    # One model, so that every cell has a language of its own.
    others = [np.arange(200), np.zeros(200, dtype=np.int64)]
    alike = rng.chisquare(df) / df
    drawn = by_margins(alike, df, task, others, use)
    assert drawn.mean() == pytest.approx(alike.mean(), rel=1e-12)
    assert drawn.std() < 0.5 * alike.std()
    # Negative control: variances from 1 to 25 stay apart, and 0 does not remain 0.
    different = np.where(np.arange(200) < 100, 1.0, 25.0) * alike
    different[0] = 0.0
    apart = by_margins(different, df, task, others, use)
    assert apart[100:].mean() > 10 * apart[1:100].mean()
    assert 0.0 < apart[0] < 5.0
    # A cell without replicates has about the mean of its task.
    use[5] = False
    without = by_margins(alike, np.where(use, df, 0.0), task, others, use)
    assert without[5] == pytest.approx(alike[use].mean(), rel=0.01)


@pytest.mark.parametrize("unknown", [np.nan, np.inf, 1e9])
def test_what_cells_out_of_use_hold_changes_nothing(unknown: float) -> None:
    rng = np.random.default_rng(6)
    model, language, task = grid(4)
    df, use = np.full(len(task), 20.0), np.arange(len(task)) % 4 > 0
    square = rng.chisquare(df) / df
    found = by_margins(np.where(use, square, unknown), df, task, [language, model], use)
    expected = by_margins(np.where(use, square, 1.0), df, task, [language, model], use)
    np.testing.assert_array_equal(found, expected)
    assert (found > 0.0).all()


def test_tables_without_variance_have_none() -> None:
    model, language, task = grid(2)
    nothing = np.zeros(len(task))
    df = np.full(len(task), 9.0)
    found = by_margins(nothing, df, task, [language, model], everywhere(task))
    assert (found == 0.0).all()
    unknown = by_margins(nothing, nothing, task, [language, model], everywhere(task))
    assert (unknown == 0.0).all()


def errors_of_means(*, n_tables: int, pooled: bool) -> Floats:
    """Errors of weighted means over languages and tasks, in standard errors, by model."""
    rng = np.random.default_rng(2)
    model, language, task = grid(len(SHARES))
    found = []
    for _ in range(n_tables):
        share = rng.binomial(ITEMS, SHARES[model]) / ITEMS
        square = share * (1 - share) * ITEMS / (ITEMS - 1)
        df = np.full(len(task), ITEMS - 1.0)
        if pooled:
            variance = by_margins(square, df, task, [language, model], everywhere(task))
        else:
            variance = np.maximum(square, 2 / ITEMS * square.mean())
        weight = ITEMS / variance
        total = np.bincount(model, weight)
        found.append((np.bincount(model, weight * share) / total - SHARES) * np.sqrt(total))
    return np.array(found)


def test_weights_do_not_follow_the_chance_of_scores() -> None:
    error = errors_of_means(n_tables=200, pooled=True)
    assert np.abs(error.mean(axis=0)).max() < 0.7
    assert np.mean(np.abs(error) < 1.96) > 0.91
    # Negative control: with the variance of its own items, the best model is 3 errors too high.
    own = errors_of_means(n_tables=200, pooled=False)
    assert own.mean(axis=0)[-1] > 3.0
    assert np.mean(np.abs(own) < 1.96) < 0.7


def table_of_items(right: float, *, half: float = 0.0) -> tuple[CellTable, Floats]:
    """Cells and standard errors of right and wrong answers, of which some are half right."""
    rng = np.random.default_rng(4)
    labels = [(m, one, i) for m in "abcd" for one in "vwxyz" for i in range(40)]
    frame = pd.DataFrame(labels, columns=["model", "language", "item"]).assign(task="t")
    share = np.repeat(np.repeat([0.6, 0.8, 0.9, 0.95], 5), 40)
    score = np.where(rng.random(len(frame)) < share, right, 0.0)
    score[0] = half if half else score[0]
    records = Records.from_frame(frame.assign(score=score), name="t", units=(0.0, right))
    cells = reduce_replicates(records)
    items = item_variance(records, cells)
    assert items is not None
    return cells, items.se


@pytest.mark.parametrize("right", [1.0, 100.0])
def test_right_and_wrong_answers_have_the_errors_of_fitted_shares(right: float) -> None:
    cells, se = table_of_items(right)
    found = of_items(cells, se, everywhere(cells.mean))
    factors = [cells.codes[factor] for factor in ("task", "language", "model")]
    p = fitted_shares(cells.mean / right, cells.n_items, factors)
    expected = p * (1.0 - p) * (se**2).mean() / (p * (1.0 - p)).mean()
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    assert found.std() / se.mean() ** 2 > 0.1


def test_other_scores_of_items_have_the_errors_of_their_language_and_model() -> None:
    cells, se = table_of_items(1.0, half=0.5)
    use, n = everywhere(cells.mean), cells.n_items
    task, language, model = (cells.codes[factor] for factor in ("task", "language", "model"))
    expected = by_margins(se**2 * n, n - 1.0, task, [language, model], use) / n
    np.testing.assert_allclose(of_items(cells, se, use), expected, rtol=1e-12)
    # Negative control: without the one answer that is half right, it would be another estimate.
    cells, se = table_of_items(1.0)
    other = by_margins(se**2 * n, n - 1.0, task, [language, model], use) / n
    assert np.abs(of_items(cells, se, use) / other - 1.0).max() > 0.02


def test_effects_are_counted_as_a_design_matrix_has_columns() -> None:
    model, language, task = grid(3)
    for levels in ([language, model], [10 * task + language, 10 * task + model]):
        columns = [np.eye(int(one.max()) + 1)[one] for one in (task, *levels)]
        assert _n_effects(task, levels) == np.linalg.matrix_rank(np.hstack(columns))


def test_a_task_without_a_wrong_answer_has_the_errors_of_its_fitted_shares() -> None:
    cells, se = table_of_items(1.0)
    found = of_items(replace(cells, mean=np.ones(len(cells))), np.zeros(len(se)), se > -1.0)
    p = 0.5 / 41
    np.testing.assert_allclose(found, p * (1 - p) / 40, rtol=1e-9)
