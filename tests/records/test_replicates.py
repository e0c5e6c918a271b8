"""Replicates reduced to sufficient statistics: against loops and dense normal densities."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import multivariate_normal

from bayeseval.records import (
    CellTable,
    Records,
    describe,
    format_description,
    item_variance,
    load,
    reduce_replicates,
    restricted_log_density,
    unbalanced_quadratics,
)
from tests.replicate_tables import contrasts_log_density

Rows = list[dict[str, Any]]

# Identities hold exactly in every table: a few dozen are as telling as hundreds.
few_examples = settings(max_examples=30)

# Sums of a few dozen numbers near 50, in another order.
ROUNDING = 1e-9


def _records(rows: Rows) -> Records:
    # Columns of matrix factors are no scores: a row of zeros is no diverged run.
    return Records.from_frame(
        pd.DataFrame(rows), name="rows", units=(None, None), diverged_runs="allow"
    )


def _cell(
    model: str, language: str, x: npt.NDArray[np.float64], *, task: str = "a", **more: Any
) -> Rows:
    """Rows of a seed x boot table; NaN is a missing pair."""
    return [
        {"model": model, "language": language, "task": task, "seed": s, "boot": b, "score": v}
        | more
        for (s, b), v in np.ndenumerate(x)
        if np.isfinite(v)
    ]


# Two plain cells, so that a table is never too small to be loaded.
def _others(**more: Any) -> Rows:
    cell = np.array([[50.0, 52.0], [54.0, 59.0]])
    return _cell("z", "zz", cell, **more) + _cell("y", "yy", cell, **more)


def _draw(seed: int, shape: tuple[int, int]) -> npt.NDArray[np.float64]:
    return 50.0 + np.random.default_rng(seed).normal(scale=3.0, size=shape)


def _one(table: CellTable, records: Records, model: str, language: str) -> int:
    """Position of a cell, by its labels."""
    coords = records.coords
    found = [
        i
        for i in range(len(table))
        if coords["model"][table.codes["model"][i]] == model
        and coords["language"][table.codes["language"][i]] == language
    ]
    assert len(found) == 1
    return found[0]


@few_examples
@given(st.integers(0, 1000), st.integers(1, 5), st.integers(1, 6))
def test_a_complete_cell_is_what_a_loop_says(seed: int, n_seeds: int, n_boot: int) -> None:
    x = _draw(seed, (n_seeds, n_boot))
    rows = _cell("gpt", "en", x) + _others()
    shuffled = [rows[i] for i in np.random.default_rng(seed).permutation(len(rows))]
    records = _records(shuffled)
    table = reduce_replicates(records)
    i = _one(table, records, "gpt", "en")
    mean = sum(map(sum, x)) / x.size
    by_seed = [sum(x[s]) / n_boot for s in range(n_seeds)]
    by_boot = [sum(x[:, b]) / n_seeds for b in range(n_boot)]
    ss_seed = sum((m - mean) ** 2 for m in by_seed)
    ss_boot = sum((m - mean) ** 2 for m in by_boot)
    ss_cross = sum(
        (x[s, b] - by_seed[s] - by_boot[b] + mean) ** 2
        for s in range(n_seeds)
        for b in range(n_boot)
    )
    found = (
        *(table.mean[i], table.seed.sum_of_squares[i], table.boot.sum_of_squares[i]),
        table.cross.sum_of_squares[i],
    )
    assert found == pytest.approx((mean, ss_seed, ss_boot, ss_cross), rel=ROUNDING, abs=ROUNDING)
    assert (table.n_seeds[i], table.n_boot[i], table.n_rows[i]) == (n_seeds, n_boot, x.size)
    df = (n_seeds - 1, n_boot - 1, (n_seeds - 1) * (n_boot - 1))
    assert (table.seed.df[i], table.boot.df[i], table.cross.df[i]) == df
    assert table.seed.interaction[i] == pytest.approx(1 + 1 / n_boot)
    assert table.boot.interaction[i] == pytest.approx(1 / n_seeds)
    assert table.boot_square[i] == pytest.approx(1 / n_boot)
    assert table.pair_square[i] == pytest.approx(1 / x.size)
    assert table.unbalanced is None


def _at_hand(
    x: npt.NDArray[np.float64], sigma2: float, tau2: float, omega2: float
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """The rows that are there, and their covariance about the score without noise.

    Seed s on bootstrap b of the test set at hand: e_s, what that test set does to all seeds
    and to this one, what the bootstrap adds to all seeds and to this one.
    """
    s, b = np.nonzero(np.isfinite(x))
    same = (s[:, None] == s, b[:, None] == b)
    on_the_test_set = tau2 + omega2 * same[0]
    of_the_bootstraps = tau2 * same[1] + omega2 * np.eye(len(s))
    return x[s, b], sigma2 * same[0] + on_the_test_set + of_the_bootstraps


def _dense(
    x: npt.NDArray[np.float64], sigma2: float, tau2: float, omega2: float
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """The rows that are there, and their covariance."""
    s, b = np.nonzero(np.isfinite(x))
    same = (s[:, None] == s, b[:, None] == b)
    return x[s, b], sigma2 * same[0] + tau2 * same[1] + omega2 * np.eye(len(s))


@few_examples
@given(
    st.integers(0, 1000),
    st.tuples(st.integers(2, 4), st.integers(2, 5)),
    st.tuples(*[st.floats(0.1, 9.0)] * 3),
)
def test_strata_of_a_complete_cell_carry_its_likelihood(
    seed: int, shape: tuple[int, int], variances: tuple[float, float, float]
) -> None:
    """The contrasts' density is that of three chi-squared strata, exactly."""
    x = _draw(seed, shape)
    records = _records(_cell("gpt", "en", x) + _others())
    table = reduce_replicates(records)
    i = _one(table, records, "gpt", "en")
    sigma2, tau2, omega2 = variances
    n_seeds, n_boot = shape
    # Eigenvalues of the covariance; a mean square times its number of copies has them too.
    log_density = 0.0
    for stratum, variance, copies in (
        (table.seed, sigma2, n_boot),
        (table.boot, tau2, n_seeds),
        (table.cross, 0.0, 1),
    ):
        value = copies * (variance + stratum.interaction[i] * omega2)
        log_density -= 0.5 * stratum.df[i] * np.log(2 * np.pi * value)
        log_density -= 0.5 * copies * stratum.sum_of_squares[i] / value
    values, cov = _at_hand(x, *variances)
    expected = contrasts_log_density(values, cov)
    assert log_density == pytest.approx(expected, rel=1e-8)  # two factorisations in float64


@few_examples
@given(
    st.integers(0, 1000),
    st.tuples(st.integers(2, 4), st.integers(2, 6)),
    st.tuples(st.floats(0.0, 9.0), st.floats(0.0, 9.0), st.floats(0.1, 9.0)),
)
def test_an_incomplete_cell_keeps_its_exact_likelihood(
    seed: int, shape: tuple[int, int], variances: tuple[float, float, float]
) -> None:
    x = _draw(seed, shape)
    rng = np.random.default_rng(seed)
    x[rng.random(shape) < 0.4] = np.nan
    x[0, 0], x[1, 0], x[0, 1], x[1, 1] = 50.0, 51.0, 53.0, np.nan
    other = _draw(seed + 1, (3, 4))
    other[0, 1] = np.nan
    records = _records(_cell("gpt", "en", x) + _cell("gpt", "sw", other) + _others())
    table = reduce_replicates(records)
    cells = table.unbalanced
    assert cells is not None
    places = [_one(table, records, "gpt", language) for language in ("en", "sw")]
    assert cells.cell.tolist() == places
    two = np.ones(2)
    found = unbalanced_quadratics(cells, *(value * two for value in variances))
    for j, (given_x, place) in enumerate(zip((x, other), places, strict=True)):
        assert table.mean[place] == pytest.approx(
            np.mean([np.nanmean(row) for row in given_x if np.isfinite(row).any()]), rel=ROUNDING
        )
        assert [s.df[place] for s in (table.seed, table.boot, table.cross)] == [0, 0, 0]
        values, cov = _dense(given_x, *variances)
        ones, centred = np.ones(len(values)), values - cells.centre[j]
        expected = (
            np.linalg.slogdet(cov)[1],
            ones @ np.linalg.solve(cov, ones),
            ones @ np.linalg.solve(cov, centred),
            centred @ np.linalg.solve(cov, centred),
        )
        # Solves of matrices with condition numbers up to about 1e3.
        assert [value[j] for value in found] == pytest.approx(expected, rel=1e-8, abs=1e-8)


def test_the_dense_density_of_an_incomplete_cell_from_its_quadratics() -> None:
    """The formula in the docstring, constants included; a wrong variance must not fit."""
    x = _draw(5, (3, 4))
    x[0, 0] = x[2, 3] = np.nan
    records = _records(_cell("gpt", "en", x) + _others())
    cells = reduce_replicates(records).unbalanced
    assert cells is not None
    values, cov = _dense(x, 2.0, 3.0, 0.5)
    m = 48.5
    expected = multivariate_normal(np.full(len(values), m), cov).logpdf(values)

    def density(sigma2: float, tau2: float, omega2: float) -> float:
        q = unbalanced_quadratics(cells, *(np.array([v]) for v in (sigma2, tau2, omega2)))
        shifted = m - cells.centre
        inside = cells.n_pairs * np.log(2 * np.pi) + q.log_det + q.square
        return float((-(inside - 2 * shifted * q.score + shifted**2 * q.weight) / 2)[0])

    assert density(2.0, 3.0, 0.5) == pytest.approx(expected, rel=1e-10)
    assert abs(density(3.0, 2.0, 0.5) - expected) > 0.01


def _expectations(
    pattern: npt.NDArray[np.float64], sigma2: float, tau2: float, omega2: float, **more: Any
) -> CellTable:
    """Cells whose squares add up to expectations under the covariance of `_at_hand`.

    With V = L L', a quadratic form has the expectation tr(A V), the sum of its values at
    the columns of L: each becomes one cell.
    """
    _, cov = _at_hand(pattern, sigma2, tau2, omega2)
    rows: Rows = []
    for j, column in enumerate(np.linalg.cholesky(cov).T):
        x = np.full(pattern.shape, np.nan)
        x[np.isfinite(pattern)] = column
        rows += _cell(f"m{j}", f"l{j}", x, **more)
    return reduce_replicates(_records(rows))


@pytest.mark.parametrize("shape", [(5, 20), (2, 3), (4, 2)])
def test_expected_mean_squares_and_the_variance_of_the_mean(shape: tuple[int, int]) -> None:
    """One test set at hand: what its bootstraps resample is in every seed's mean already."""
    sigma2, tau2, omega2 = 0.25, 2.5, 3.7
    n_seeds, n_boot = shape
    table = _expectations(np.zeros(shape), sigma2, tau2, omega2)
    found = [stratum.mean_square.sum() for stratum in (table.seed, table.boot, table.cross)]
    between = sigma2 + omega2 * (1 + 1 / n_boot)
    # Traces of float64 factors.
    assert found == pytest.approx([between, tau2 + omega2 / n_seeds, omega2], rel=1e-9)
    of_mean = between / n_seeds + tau2 * (1 + 1 / n_boot)
    assert (table.mean**2).sum() == pytest.approx(of_mean, rel=1e-9)
    # Negative controls: bootstraps as draws from the population of test sets.
    assert found[0] > 1.3 * (sigma2 + omega2 / n_boot)
    assert of_mean != pytest.approx((sigma2 + omega2) / n_seeds + tau2, rel=0.01)
    for stratum, variance, square in zip(
        (table.seed, table.boot, table.cross), (sigma2, tau2, 0.0), found, strict=True
    ):
        assert variance + stratum.interaction[0] * omega2 == pytest.approx(square, rel=1e-9)


@few_examples
@given(st.integers(0, 1000), st.tuples(st.integers(2, 5), st.integers(2, 6)))
def test_the_mean_of_an_incomplete_cell_has_its_exact_variance(
    seed: int, shape: tuple[int, int]
) -> None:
    sigma2, tau2, omega2 = 0.25, 2.5, 3.7
    pattern = np.zeros(shape)
    pattern[np.random.default_rng(seed).random(shape) < 0.4] = np.nan
    pattern[:, 0], pattern[0, :], pattern[-1, -1] = 0.0, 0.0, np.nan
    table = _expectations(pattern, sigma2, tau2, omega2)
    assert table.unbalanced is not None
    found = (table.mean**2).sum()
    by_boot, by_pair = table.boot_square[0], table.pair_square[0]
    expected = (sigma2 + omega2) / shape[0] + tau2 + tau2 * by_boot + omega2 * by_pair
    assert found == pytest.approx(expected, rel=1e-9)
    # Negative control: as if no pair were missing.
    complete = (sigma2 + omega2 * (1 + 1 / shape[1])) / shape[0] + tau2 * (1 + 1 / shape[1])
    assert found > complete * (1 + 1e-6)


@few_examples
@given(
    st.integers(0, 1000),
    st.tuples(st.integers(2, 4), st.integers(2, 6)),
    st.tuples(*[st.floats(0.1, 9.0)] * 3),
)
def test_contrasts_of_an_incomplete_cell_on_one_test_set(
    seed: int, shape: tuple[int, int], variances: tuple[float, float, float]
) -> None:
    x = _draw(seed, shape)
    x[np.random.default_rng(seed).random(shape) < 0.4] = np.nan
    x[:, 0], x[0, :], x[-1, -1] = 50.0 + np.arange(shape[0]) ** 2, 51.0, np.nan
    cells = reduce_replicates(_records(_cell("gpt", "en", x) + _others())).unbalanced
    assert cells is not None
    found = restricted_log_density(cells, *(np.array([value]) for value in variances))[0]
    values, cov = _at_hand(x, *variances)
    expected = contrasts_log_density(values, cov)
    # The reference's contrasts are an orthonormal basis: the Jacobian of 1'x is sqrt(n).
    assert found + 0.5 * np.log(len(values)) == pytest.approx(expected, rel=1e-8)
    _, without = _dense(x, *variances)
    assert contrasts_log_density(values, without) != pytest.approx(expected, rel=1e-6)


def test_items_are_the_test_set_itself() -> None:
    """S seeds on the same n items: expectations of all squares, exactly."""
    sigma2, tau2, omega2 = 0.25, 2.5, 3.7
    n_seeds, n = 3, 6
    seed, item = np.divmod(np.arange(n_seeds * n), n)
    same_seed, same_item = seed[:, None] == seed, item[:, None] == item
    cov = sigma2 * same_seed + n * tau2 * same_item + n * omega2 * np.eye(len(seed))
    rows: Rows = []
    for j, column in enumerate(np.linalg.cholesky(cov).T):
        labels = {"model": f"m{j}", "language": f"l{j}", "task": "a"}
        rows += [
            labels | {"seed": s, "item": i, "score": value}
            for s, i, value in zip(seed, item, column, strict=True)
        ]
    records = _records(rows)
    table = reduce_replicates(records)
    assert table.seed.mean_square.sum() == pytest.approx(sigma2 + omega2, rel=1e-9)
    assert set(table.seed.interaction) == {1.0}
    assert table.cross.mean_square.sum() == pytest.approx(omega2, rel=1e-9)
    assert set(table.cross.df) == {2 * 5.0}
    assert (table.mean**2).sum() == pytest.approx((sigma2 + omega2) / n_seeds + tau2, rel=1e-9)
    items = item_variance(records, table)
    assert items is not None
    # The standard error of seed averages holds a share of the interaction.
    assert (items.se**2).sum() == pytest.approx(tau2 + omega2 / n_seeds, rel=1e-9)
    # Seeds on items of their own: nothing tells the interaction apart.
    apart = [row | {"item": row["item"] + 10 * row["seed"]} for row in rows]
    assert set(reduce_replicates(_records(apart)).cross.df) == {0.0}


def test_boots_of_the_mean_of_stated_seeds() -> None:
    """One row per boot, the mean of n_seeds runs on it: tau^2 + omega^2 / n_seeds."""
    sigma2, tau2, omega2 = 0.25, 2.5, 3.7
    shape = (5, 4)
    # Averaging over seeds is linear, so the columns of the factor are averaged.
    _, cov = _at_hand(np.zeros(shape), sigma2, tau2, omega2)
    rows: Rows = []
    for j, column in enumerate(np.linalg.cholesky(cov).T):
        for b, score in enumerate(column.reshape(shape).mean(axis=0)):
            labels = {"model": f"m{j}", "language": f"l{j}", "task": "a"}
            rows.append(labels | {"boot": b, "score": score, "n_seeds": shape[0]})
    table = reduce_replicates(_records(rows))
    found = table.boot.mean_square.sum()
    assert set(table.boot.interaction) == {1 / 5}
    assert found == pytest.approx(tau2 + table.boot.interaction[0] * omega2, rel=1e-9)
    assert set(table.n_seeds) == {5.0}
    assert set(table.boot_square) == {1 / 4}
    assert table.pair_square == pytest.approx(np.full(len(table), 1 / 20))
    of_mean = (sigma2 + omega2) / 5 + tau2 + tau2 / 4 + omega2 / 20
    assert (table.mean**2).sum() == pytest.approx(of_mean, rel=1e-9)
    # Negative control: without the stated number the weight is that of one run.
    alone = reduce_replicates(_records([{k: v for k, v in r.items() if k != "n_seeds"} for r in
                                        rows]))  # fmt: skip
    assert set(alone.boot.interaction) == {1.0}


def test_seeds_alone_boots_alone_and_a_single_seed() -> None:
    seeds = [
        {"model": m, "language": lang, "task": "a", "seed": s, "score": v}
        for m, lang in (("gpt", "en"), ("b", "sw"))
        for s, v in enumerate([1.0, 2.0, 6.0])
    ]
    table = reduce_replicates(_records(seeds))
    assert table.mean.tolist() == [3.0, 3.0]
    assert table.seed.sum_of_squares.tolist() == [14.0, 14.0]
    assert table.seed.interaction.tolist() == [1.0, 1.0]
    assert (table.n_seeds.tolist(), table.n_boot.tolist()) == ([3.0, 3.0], [0.0, 0.0])
    assert (table.boot.df.tolist(), table.cross.df.tolist()) == ([0.0, 0.0], [0.0, 0.0])
    boots = [{"boot" if k == "seed" else k: v for k, v in row.items()} for row in seeds]
    table = reduce_replicates(_records(boots))
    assert table.boot.mean_square.tolist() == [7.0, 7.0]
    assert table.boot.interaction.tolist() == [1.0, 1.0]
    assert (table.n_seeds.tolist(), table.n_boot.tolist()) == ([0.0, 0.0], [3.0, 3.0])
    assert table.seed.df.tolist() == [0.0, 0.0]
    table = reduce_replicates(_records([row | {"seed": 7} for row in boots]))
    assert table.n_seeds.tolist() == [1.0, 1.0]
    assert (table.seed.df.tolist(), table.boot.df.tolist()) == ([0.0, 0.0], [2.0, 2.0])


def test_summaries_and_known_errors() -> None:
    frame = pd.DataFrame(
        {
            "model": ["a", "a", "b", "b"],
            "language": ["en", "sw", "en", "sw"],
            "score": [1.0, 2.0, 3.0, 4.0],
            "seed_sd": [0.5, 0.25, np.nan, 2.0],
            "n_seeds": [5, np.nan, np.nan, 1],
            "boot_sd": [0.1, 0.2, np.nan, np.nan],
            "n_boot": [100, np.nan, np.nan, np.nan],
            "se": [np.nan, 9.0, 0.3, np.nan],
            "n": [10, 20, np.nan, 30],
        }
    )
    table = reduce_replicates(Records.from_frame(frame, name="t"))
    assert table.mean.tolist() == [1.0, 2.0, 3.0, 4.0]
    assert table.seed.mean_square.tolist() == [0.25, 0.0625, 0.0, 0.0]
    assert table.seed.df.tolist() == [4.0, np.inf, 0.0, 0.0]
    assert table.seed.sum_of_squares.tolist() == [1.0, np.inf, 0.0, 0.0]
    assert table.boot.df.tolist() == [99.0, np.inf, 0.0, 0.0]
    assert table.boot.mean_square.tolist() == pytest.approx([0.01, 0.04, 0.0, 0.0])
    assert table.n_seeds.tolist() == [5.0, 0.0, 0.0, 1.0]
    assert table.n_boot.tolist() == [0.0] * 4
    np.testing.assert_array_equal(table.se, [np.nan, np.nan, 0.3, np.nan])
    np.testing.assert_array_equal(table.n_items, [10, 20, np.nan, 30])
    assert table.notes == (
        "seed_sd taken as exact in 1 cell without n_seeds",
        "boot_sd taken as exact in 1 cell without n_boot",
        "se not used in 1 cell whose boots measure it already",
    )
    assert table.has_replicates
    for array in (table.mean, table.seed.df, table.codes["model"], table.se):
        assert not array.flags.writeable


def test_a_boot_sd_for_each_seed_is_pooled_without_more_degrees_of_freedom() -> None:
    rows = [
        {"model": m, "language": lang, "seed": s, "score": s, "boot_sd": s + 1.0, "n_boot": 50}
        for m, lang in (("gpt", "en"), ("b", "sw"))
        for s in (0, 1)
    ]
    table = reduce_replicates(_records(rows))
    assert table.boot.mean_square.tolist() == pytest.approx([2.5, 2.5])
    assert table.boot.df.tolist() == [49.0, 49.0]
    assert table.seed.df.tolist() == [1.0, 1.0]


def test_of_several_stated_numbers_the_smallest_counts() -> None:
    """Rows of a cell that disagree: fewer seeds claim less precision."""
    rows = [
        {"model": m, "language": lang, "boot": b, "score": 50.0 + b, "seed_sd": 2.0, "n_seeds": n}
        for m, lang in (("gpt", "en"), ("b", "sw"))
        for b, n in enumerate((7, np.nan, 4, 9))
    ]
    table = reduce_replicates(_records(rows))
    assert table.n_seeds.tolist() == [4.0, 4.0]
    assert table.seed.df.tolist() == [3.0, 3.0]
    assert table.boot.interaction.tolist() == [1 / 4, 1 / 4]


def test_rows_win_over_a_summary_and_say_so() -> None:
    table = reduce_replicates(_records(_others(seed_sd=99.0, n_seeds=5, boot_sd=77.0)))
    assert table.notes == (
        "seed_sd not used in 2 cells that have seed rows",
        "boot_sd not used in 2 cells that have boot rows",
    )
    assert table.seed.mean_square.max() < 99.0
    assert table.boot.df.tolist() == [1.0, 1.0]


def test_a_plain_table_has_one_cell_per_record() -> None:
    frame = pd.DataFrame({"model": ["a", "b"], "language": ["en", "sw"], "score": [1.0, 2.0]})
    records = Records.from_frame(frame, name="t")
    table = reduce_replicates(records)
    assert len(table) == len(records)
    assert table.mean.tolist() == records.scores.tolist()
    assert not table.has_replicates
    assert np.isnan(table.se).all()


def test_items_are_averaged_before_anything_else() -> None:
    rows = [
        {"model": m, "language": lang, "seed": s, "item": i, "score": float(v)}
        for m, lang in (("gpt", "en"), ("b", "sw"))
        for s, values in enumerate([[0, 1, 1, 1], [0, 0, 1, 0]])
        for i, v in enumerate(values)
    ]
    table = reduce_replicates(_records(rows))
    assert table.mean.tolist() == [0.5, 0.5]
    assert table.seed.sum_of_squares.tolist() == [0.125, 0.125]
    assert table.n_items.tolist() == [4.0, 4.0]
    assert table.n_rows.tolist() == [8, 8]


def test_tasks_may_differ_in_what_they_have(tmp_path: Path) -> None:
    """One table, three tasks: seeds and boots, seeds, a score alone; saved and read back."""
    plain = [
        {"model": m, "language": lang, "task": "p", "score": v, "se": 0.5}
        for m, lang, v in (("y", "yy", 4.0), ("z", "zz", 5.0))
    ]
    seeds = [
        {"model": m, "language": "yy", "task": "s", "seed": s, "score": 10.0 + s}
        for m in ("y", "z")
        for s in (0, 1, 2)
    ]
    records = _records(plain + seeds + _others())
    path = tmp_path / "t.csv"
    records.to_csv(path)
    again = load(path)
    assert again.content_hash == records.content_hash
    pd.testing.assert_frame_equal(again.table, records.table)
    table = reduce_replicates(again)
    task = [again.coords["task"][code] for code in table.codes["task"]]
    assert sorted(task) == ["a", "a", "p", "p", "s", "s"]
    by_task = {
        name: [(table.n_seeds[i], table.n_boot[i]) for i in range(6) if task[i] == name]
        for name in ("a", "p", "s")
    }
    assert by_task == {"a": [(2, 2)] * 2, "p": [(0, 0)] * 2, "s": [(3, 0)] * 2}
    assert sorted(table.se[np.isfinite(table.se)].tolist()) == [0.5, 0.5]


def test_a_folder_with_seeds_for_one_task_only(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(
        "model,language,task,seed,score\ngpt,en,a,0,80\ngpt,en,a,1,82\nb,sw,a,1,5\n"
    )
    (tmp_path / "b.csv").write_text("model,language,task,score\ngpt,sw,b,70\n")
    records = load(tmp_path)
    assert records.replicate_codes("seed").tolist() == [1, 0, 1, -1]
    assert records.replicate_codes("boot").tolist() == [-1] * 4
    assert reduce_replicates(records).n_seeds.tolist() == [1.0, 2.0, 0.0]


def test_a_description_says_what_is_known_of_replicates() -> None:
    x = _draw(1, (3, 2))
    x[0, 0] = np.nan
    text = format_description(describe(_records(_cell("gpt", "en", x) + _others())))
    for line in (
        "  replicates told apart by: seed, boot",
        "  seeds per cell: 2 to 3 (in 3 of 3 cells)",
        "  bootstrap test sets per cell: 2 (in 3 of 3 cells)",
        "  1 cell where some seeds lack some bootstrap test sets",
    ):
        assert line in text.splitlines()
    plain = [{"model": m, "language": lang, "score": 1.0} for m, lang in ("ab", "cd")]
    assert "per cell" not in format_description(describe(_records(plain)))
