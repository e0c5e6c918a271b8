"""Rows of one cell that nothing tells apart are refused out of core, with a part of them read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pytest

import bayeseval as be
from bayeseval.errors import InputError
from bayeseval.readers.sql_texts import kind_of
from bayeseval.records import row_repeats
from tests.records.reduced_tables import MEMORY, WRITERS


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BAYESEVAL_CACHE", str(tmp_path / "cache"))


def items(n: int = 8) -> pd.DataFrame:
    cells = [
        {
            "model": model,
            "language": language,
            "task": "t",
            "item": f"i{item}",
            "score": float(item % 2),
        }
        for model in ("m1", "m2")
        for language in ("de", "en")
        for item in range(n)
    ]
    return pd.DataFrame(cells)


def refusal(path: Path, memory: str | None = MEMORY) -> str:
    with pytest.raises(InputError) as caught:
        be.load(path, memory=memory)
    return str(caught.value)


def test_few_rows_of_many_copies_are_read_for_the_refusal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "rows"
    folder.mkdir()
    for copy in range(12):
        WRITERS[".parquet"](items().assign(version=copy), folder / f"copy{copy}.parquet")
    in_memory = refusal(folder, None)
    tables = []
    read = row_repeats._raw_rows

    def counted(*arguments: Any) -> Any:
        tables.append(read(*arguments))
        return tables[-1]

    monkeypatch.setattr(row_repeats, "_MOST", 40)
    monkeypatch.setattr(row_repeats, "_raw_rows", counted)
    assert refusal(folder) == in_memory
    assert "'version' tells them apart" in in_memory
    assert sum(map(len, tables)) == 80


@pytest.mark.parametrize("same", [False, True])
@pytest.mark.parametrize("ending", [".csv", ".jsonl", ".parquet"])
def test_long_texts_are_compared_and_not_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str, same: bool
) -> None:
    frame = items().assign(question="x" * 5_000)
    again = frame.iloc[[3]].assign(question="x" * 5_000 + "y" * (not same))
    WRITERS[ending](pd.concat([frame, again]), tmp_path / f"rows{ending}")
    cells: list[Any] = []
    python_cell = row_repeats.python_cell
    monkeypatch.setattr(
        row_repeats,
        "python_cell",
        lambda cell, *where: (cells.append(cell), python_cell(cell, *where))[1],
    )
    words = refusal(tmp_path / f"rows{ending}")
    assert words == refusal(tmp_path / f"rows{ending}", None)
    assert "duplicate of" in words and ("column 'question' tells them apart" in words) == (not same)
    assert cells and max(len(str(cell)) for cell in cells) < 200


def test_rows_may_hold_what_python_has_not(tmp_path: Path) -> None:
    path = tmp_path / "rows.duckdb"
    frame = pd.concat([items(), items().iloc[[3]]])
    with duckdb.connect(str(path)) as connection:
        connection.register("frame", frame)
        connection.execute(
            "CREATE TABLE scores AS SELECT *, DATE '12000-01-01' AS added, [1, 2] AS lists, "
            "{'a': 1} AS objects, TIMESTAMP '290000-01-01' AS seen, '\\xAA'::BLOB AS bytes "
            "FROM frame"
        )
    assert "the two rows are identical: remove one of them" in refusal(path)


@pytest.mark.parametrize("failing", ["_find_repeats", "_repeated_rows"])
def test_a_repetition_is_refused_where_its_rows_cannot_be_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    def fail(*_: Any) -> None:
        raise InputError("rows.csv: the memory does not suffice")

    WRITERS[".csv"](pd.concat([items(), items().iloc[[3]]]), tmp_path / "rows.csv")
    monkeypatch.setattr(row_repeats, failing, fail)
    assert refusal(tmp_path / "rows.csv").endswith(
        "rows.csv: duplicate: model 'm1', language 'de', task 't' has several scores; keep one"
        " of them"
    )


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("ENUM('a]')", "text"),
        ("ENUM('a')[]", "nested"),
        ("DECIMAL(4,2)[3]", "nested"),
        ("STRUCT(a INTEGER)", "nested"),
        ("MAP(VARCHAR, INTEGER)", "nested"),
        ("DATE", "other"),
    ],
)
def test_types_of_the_engine_are_told_apart(name: str, kind: str) -> None:
    assert kind_of(name) == kind
