"""Checks of large tables: the same numbers in blocks, and fewer simulated tables."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import bayeseval as be
from bayeseval.checks import blocks, calibration, connections, realised
from bayeseval.checks.blocks import fewer, row_blocks
from bayeseval.checks.connections import connection_check
from bayeseval.simulation import simulate


@pytest.fixture(scope="module")
def fit() -> be.Fit:
    table = simulate("additive", n_languages=6, n_tasks=3, n_models=4, seed=1).records
    return be.fit(table, "additive", draws=150, chains=2)


def tables(fit: be.Fit) -> dict[str, pd.DataFrame]:
    return fit.checks().tables


def test_blocks_give_the_same_numbers(fit: be.Fit, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = tables(fit)
    sizes = []

    def counted(n_rows: int, n_columns: int) -> list[slice]:
        cut = list(row_blocks(n_rows, n_columns))
        sizes.append(len(cut))
        return cut

    # Eleven rows of a table at a time, of what has several arrays five or fewer.
    monkeypatch.setattr(blocks, "_AT_ONCE", 11 * fit.run["n_records"])
    for module in (realised, calibration):
        monkeypatch.setattr(module, "row_blocks", counted)
    cut = tables(fit)
    assert max(sizes) > 1
    assert whole.keys() == cut.keys()
    for name in set(whole) - {"checks", "calibration", "influential_records"}:
        pd.testing.assert_frame_equal(cut[name], whole[name], rtol=1e-12)
    # Tables of the leave-one-out band are drawn block by block, so they are others.
    other = whole["checks"]["check"] == "calibration"
    pd.testing.assert_frame_equal(
        cut["checks"][~other], whole["checks"][~other], rtol=1e-12, check_exact=False
    )
    assert abs(cut["checks"]["p"][other] - whole["checks"]["p"][other]).item() < 0.1


def test_rows_are_cut_without_gaps() -> None:
    assert list(row_blocks(5, 10**12)) == [slice(i, i + 1) for i in range(5)]
    assert list(row_blocks(0, 3)) == []
    cut = list(row_blocks(1_000, 70_000))
    assert [s.start for s in cut[1:]] == [s.stop for s in cut[:-1]]
    assert (cut[0].start, cut[-1].stop) == (0, 1_000)
    assert all((s.stop - s.start) * 70_000 <= 25_000_000 for s in cut)


def test_small_tables_are_compared_with_all_simulated_ones() -> None:
    assert fewer(400, 500_000) == 400
    assert fewer(400, 600_000) == 333
    assert fewer(40, 10**9, least=5) == 5
    assert fewer(3, 10**9) == 3


def test_members_are_those_of_the_group() -> None:
    group = np.random.default_rng(0).integers(0, 7, 50)
    group[group == 3] = 4
    found = realised.members_of(group, 8)
    assert len(found) == 8
    for g, rows in enumerate(found):
        np.testing.assert_array_equal(rows, np.flatnonzero(group == g))


def test_pairs_of_too_many_models_are_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    index = {"model": np.arange(4), "language": np.zeros(4, int), "task": np.zeros(4, int)}
    levels = {"model": ("a", "b", "c", "d"), "language": ("en",), "task": ("t",)}
    assert connection_check(index, levels).value == 1.0
    monkeypatch.setattr(connections, "_MOST_MODELS", 3)
    check = connection_check(index, levels)
    assert (check.status, check.sentence) == (
        "not applicable",
        "Not checked: the table has 4 models, and pairs of at most 3 are counted.",
    )


def test_models_that_share_no_pair_are_counted_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(5)
    n_models, n_pairs = 400, 30
    index = {
        "model": np.concatenate([np.arange(n_models), rng.integers(0, n_models, 300)]),
        "language": rng.integers(0, n_pairs, n_models + 300),
        "task": np.zeros(n_models + 300, int),
    }
    sizes = {"model": n_models, "language": n_pairs, "task": 1}
    tested = np.zeros((n_models, n_pairs))
    tested[index["model"], index["language"]] = 1.0
    shared = (tested @ tested.T)[np.triu_indices(n_models, 1)]
    assert 0.5 < (shared == 0.0).mean() < 0.99
    levels = {name: tuple(f"{name}{i}" for i in range(size)) for name, size in sizes.items()}
    whole = connection_check(index, levels)
    first, second = (side[shared == 0.0][:2] for side in np.triu_indices(n_models, 1))
    named = [f"model{a} and model{b}" for a, b in zip(first, second, strict=True)]
    assert f"compared through others: {named[0]}, {named[1]}, " in whole.sentence
    assert whole.sentence.count(f"{(shared == 0.0).sum()} of {len(shared)} pairs of models") == 1
    monkeypatch.setattr(connections, "_COUNTS", 7 * n_models)
    # The check has no p-values, and NaN equals nothing.
    in_blocks = connection_check(index, levels)
    assert replace(in_blocks, p=None, p_classical=None) == replace(whole, p=None, p_classical=None)
    connections.unconnected_share(index, sizes)
    tracemalloc.start()
    try:
        assert connections.unconnected_share(index, sizes) == (shared == 0.0).mean()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # All pairs at once took six times the memory of a matrix of models by models.
    assert peak < 0.5 * 8 * n_models**2
    assert (
        connections.unconnected_share({**index, "model": index["model"] * 0}, {**sizes, "model": 1})
        == 0.0
    )


@pytest.mark.parametrize(("n_rows", "n_columns"), [(399, 9_000_000), (400, 20_000), (3, 10**9)])
def test_rows_that_are_drawn_by_themselves_are_in_smaller_blocks(
    n_rows: int, n_columns: int
) -> None:
    cut = list(row_blocks(n_rows, n_columns, by_row=True))
    assert [s.start for s in cut[1:]] == [s.stop for s in cut[:-1]]
    assert (cut[0].start, cut[-1].stop) == (0, n_rows)
    assert all(s.stop - s.start >= 2 for s in cut)
    assert all((s.stop - s.start) * n_columns <= max(8_000_000, 3 * n_columns) for s in cut)
    assert list(row_blocks(1, 10, by_row=True)) == [slice(0, 1)]
    assert list(row_blocks(0, 10, by_row=True)) == []


def test_replicates_are_drawn_in_small_blocks_where_the_numbers_are_the_same(
    fit: be.Fit, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = tables(fit)
    monkeypatch.setattr(blocks, "_BY_ROW", 11 * fit.run["n_records"])
    cut = tables(fit)
    assert whole.keys() == cut.keys()
    for name, table in whole.items():
        pd.testing.assert_frame_equal(cut[name], table, check_exact=True)
