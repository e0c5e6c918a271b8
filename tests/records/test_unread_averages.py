"""Scores that are averages of unread columns are known in memory and out of core alike."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bayeseval as be
from bayeseval.errors import InputError
from bayeseval.readers.raw import RawTable, object_array
from bayeseval.readers.scans import Engine, open_engine
from bayeseval.readers.tabular import read_table
from bayeseval.records.unread_averages import (
    ScannedRows,
    refuse_averages,
    refuse_averages_of,
    unread_columns,
)
from tests.records.reduced_tables import MEMORY, WRITERS

REFUSED = "these are the averages of"


def test_a_long_text_in_many_rows_is_not_held_once_for_each(tmp_path: Path) -> None:
    n, score = 2_000, np.linspace(0.0, 1.0, 2_000)
    columns = {
        "prompt": pa.array(["x" * 50_000] * n),
        "answer": pa.array([str(i) if i < n - 1 else "x" * 50_000 for i in range(n)]),
        "a": pa.array(score - 0.125),
        "b": pa.array([str(float(value) + 0.125) for value in score]),
        "score": pa.array(score),
    }
    pq.write_table(pa.table(columns), tmp_path / "rows.parquet")
    table = read_table(tmp_path / "rows.parquet")
    tracemalloc.start()
    try:
        with pytest.raises(InputError, match=f"{REFUSED} 'a', 'b', which"):
            refuse_averages(table, score, theirs="score", used={"score"})
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 10_000_000


@pytest.mark.parametrize("cell", ["x", "", None, True, "nan", "inf", float("nan"), float("inf")])
def test_a_column_with_a_cell_that_is_no_number_is_no_part_of_an_average(cell: Any) -> None:
    score = np.linspace(0.0, 1.0, 20)
    columns = {name: object_array(score + by) for name, by in (("a", -0.1), ("b", 0.1), ("c", 0.4))}
    columns["c"][-1] = cell
    table = RawTable("rows", "row", np.arange(20), columns)
    with pytest.raises(InputError, match=f"{REFUSED} 'a', 'b', which"):
        refuse_averages(table, score, theirs="score", used=set())


def _large() -> pd.DataFrame:
    """More rows than are looked at first, with two columns whose averages are the scores."""
    rng, n = np.random.default_rng(0), 1_200
    score = rng.uniform(size=n).round(3)
    apart = rng.uniform(size=n)
    return pd.DataFrame(
        {
            "model": [f"m{i % 3}" for i in range(n)],
            "language": [("de", "en")[i % 2] for i in range(n)],
            "item": [f"i{i // 6}" for i in range(n)],
            "a": score - apart,
            "b": score + apart,
            "score": score,
        }
    )


def _one_empty(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.assign(c=[*range(len(frame) - 1), None])


def _one_constant_at_first(frame: pd.DataFrame) -> pd.DataFrame:
    # The averages of three columns; a fourth has one value in all rows.
    late = np.arange(len(frame)) > 1_100
    c = np.where(late, frame["b"], 0.5)
    mean = (frame["a"] + frame["b"] + c) / 3
    return frame.assign(c=c, version=2, score=mean)


def _truth_values(frame: pd.DataFrame) -> pd.DataFrame:
    exact = frame["score"] < 0.5
    return frame.drop(columns=["a", "b"]).assign(exact=exact, relaxed=~exact, score=0.5)


def _truth_beside(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.assign(exact=frame["score"] < 0.5)


def _later_apart(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.assign(score=[*frame["score"][:-1], frame["score"].iloc[-1] + 0.1])


def _small_at_first(frame: pd.DataFrame) -> pd.DataFrame:
    # Averages that are rounded to tenths of a percent, most of them small.
    small = np.where(np.arange(len(frame)) < 1_100, 0.01, 1.0)
    frame[["a", "b", "score"]] = frame[["a", "b", "score"]].mul(small, axis=0)
    return frame.assign(score=frame["score"].round(3))


@pytest.mark.parametrize("ending", [".csv", ".jsonl", ".parquet"])
@pytest.mark.parametrize(
    ("change", "refused"),
    [
        (_one_empty, "'a', 'b', which"),
        (_one_constant_at_first, "'a', 'b', 'c', which"),
        (_truth_values, None),
        (_truth_beside, "'a', 'b', which"),
        (_later_apart, None),
        (_small_at_first, "'a', 'b', which"),
    ],
)
def test_averages_are_known_out_of_core_as_in_memory(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    change: Callable[[pd.DataFrame], pd.DataFrame],
    refused: str | None,
    ending: str,
) -> None:
    monkeypatch.setenv("BAYESEVAL_CACHE", str(tmp_path / "cache"))
    path = tmp_path / f"rows{ending}"
    WRITERS[ending](change(_large()), path)
    for memory in (None, MEMORY):
        if refused is None:
            be.load(path, memory=memory)
            continue
        with pytest.raises(InputError, match=f"{REFUSED} {refused}"):
            be.load(path, memory=memory)


def test_a_table_is_not_read_for_columns_that_say_nothing_of_its_scores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng, frame = np.random.default_rng(1), _large()
    frame = frame.assign(score=rng.integers(0, 2, len(frame)), n_words=rng.uniform(size=1_200))
    frame.to_parquet(tmp_path / "rows.parquet")
    queries: list[str] = []
    run = Engine.run

    def counted(engine: Engine, sql: str, *, source: str) -> Any:
        queries.append(sql)
        return run(engine, sql, source=source)

    with open_engine(
        [tmp_path / "rows.parquet"], memory=10**9, folder=tmp_path / "scratch"
    ) as engine:
        monkeypatch.setattr(Engine, "run", counted)
        used = ["model", "language", "item", "score"]
        (scan,) = engine.scans
        rows = ScannedRows(engine, scan, "score", unread_columns(scan.cells, used))
        refuse_averages_of(rows, theirs="score")
    assert len(queries) == 1
