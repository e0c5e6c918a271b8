"""Scores that are averages of unread columns are known in memory and out of core alike."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bayeseval.errors import InputError
from bayeseval.readers.raw import RawTable, object_array
from bayeseval.readers.tabular import read_table
from bayeseval.records.unread_averages import refuse_averages

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
