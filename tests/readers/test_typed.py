"""The quick ways for typed columns and large files say what the slow ways say."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayeseval.errors import InputError
from bayeseval.readers import tabular
from bayeseval.readers.raw import RawTable, object_array
from bayeseval.readers.typed import TypedCells, typed_cells
from bayeseval.records import load
from bayeseval.records.cells import clean_labels, empty_cells, parse_numbers
from bayeseval.records.coded import Coded, combined_key
from tests.records.broken_cases import CASES, BrokenCase

_TEXTS = st.sampled_from(
    [
        *("1", "1.5", "-2.", ".5", "+5", "1e3", "1e400", "1e-400", "1_000", "0x1", "nan", "inf"),
        *(
            "",
            " ",
            " 7 ",
            "\u00a0",
            "\x1f",
            "no",
            "na",
            "1,5",
            "50%",
            "\u0661",
            "e\u0301",
            "\u00e9",
        ),
        *("a\nb", "-0", "123456789012345678901234567890", "0.1", "5e-324"),
    ]
)
_COLUMNS = st.one_of(
    st.lists(st.none() | _TEXTS, min_size=1).map(lambda v: pa.array(v, pa.string())),
    st.lists(st.none() | _TEXTS, min_size=1).map(
        lambda v: pa.array(v, pa.string()).dictionary_encode()
    ),
    st.lists(st.none() | _TEXTS, min_size=1).map(lambda v: pa.array(v, pa.large_string())),
    st.lists(st.none() | st.floats(), min_size=1).map(lambda v: pa.array(v, pa.float64())),
    st.lists(st.none() | st.floats(width=32), min_size=1).map(lambda v: pa.array(v, pa.float32())),
    st.lists(st.none() | st.integers(-(2**63), 2**63 - 1), min_size=1).map(
        lambda v: pa.array(v, pa.int64())
    ),
)


def _outcome(work: Any, column: Any) -> Any:
    """What comes out, as plain values; or the message."""
    table = RawTable("t", "row", np.arange(1, len(column) + 1), {"c": column})
    try:
        found = work(column, table)
    except InputError as problem:
        return str(problem)
    if isinstance(found, np.ndarray):
        # The bytes tell -0.0 and NaN apart, as == does not.
        return found.tobytes()
    return [found.values[row] for row in range(len(column))], found.stripped, found.normalised


@given(_COLUMNS, st.randoms())
def test_typed_cells_give_what_python_cells_give(array: pa.Array, random: Any) -> None:
    typed = typed_cells(pa.chunked_array([array]))
    assert typed is not None
    rows = [row for row in range(len(array)) if random.random() < 0.7] or [0]
    mask = np.isin(np.arange(len(array)), rows)
    for column in (typed, typed[np.array(rows)], typed[mask]):
        cells = object_array(column.objects())
        for work in (
            lambda c, t: empty_cells(c),
            lambda c, t: parse_numbers(c, table=t, column="c", name="score"),
            lambda c, t: clean_labels(c, table=t, column="c", name="model"),
        ):
            assert _outcome(work, column) == _outcome(work, cells)
    assert typed[0] == array[0].as_py() or typed[0] != typed[0]


def test_a_column_of_plain_numbers_takes_the_quick_way() -> None:
    """Without it the comparison above would compare the slow way with itself."""
    for array in (pa.array(["1", None, "2.5e1"]), pa.array([1.0, None, 25.0])):
        typed = typed_cells(array)
        assert isinstance(typed, TypedCells)
        assert typed.numbers is not None
        assert typed.numbers.tolist() == [1.0, 0.0, 25.0]
        assert typed.missing() is not None
    slow = typed_cells(pa.array(["1", "x"]))
    assert slow is not None
    assert slow.numbers is None
    assert typed_cells(pa.array([[1], [2]])) is None
    assert typed_cells(pa.array([True, False])) is None


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.file)
def test_large_files_are_explained_alike(case: BrokenCase, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError) as slow:
        load(case.path)
    monkeypatch.setattr(tabular, "_LARGE", -1)
    with pytest.raises(InputError) as quick:
        load(case.path)
    assert str(quick.value) == str(slow.value)


_LINES = st.lists(
    st.sampled_from(
        [
            *("gpt,en,a,80.1", "gpt,sw,a, 60 ", "b,en,a,70", "b,sw,a,", "b,sw,a,-", "b,avg,a,5"),
            *("", "  ", ",,,", "b,sw,a", "b,sw,a,1,2", 'b,"sw",a,3', "b,\u00e9,a,4", "b,fr,a,1e2"),
        ]
    ),
    max_size=8,
)


@given(_LINES, st.sampled_from(["\n", "\r\n", "\r"]), st.booleans())
def test_large_files_are_read_alike(lines: list[str], end: str, closed: bool) -> None:
    text = end.join(["model,language,task,score", *lines]) + (end if closed else "")
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        path = Path(folder) / "t.csv"
        path.write_text(text, encoding="utf-8", newline="")
        outcomes = []
        for large in (1_000_000, -1):
            patch.setattr(tabular, "_LARGE", large)
            try:
                records = load(path)
                outcomes.append((records.content_hash, records.report))
            except InputError as problem:
                outcomes.append(str(problem))
    assert outcomes[0] == outcomes[1]


def test_a_large_file_does_take_the_quick_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t.csv"
    path.write_text("model,language,score\r\ngpt,en,1\r\nb,sw,2\r\n", newline="")
    monkeypatch.setattr(tabular, "_LARGE", -1)
    table = tabular.read_table(path)
    assert all(isinstance(column, TypedCells) for column in table.columns.values())
    assert table.at(1, "score") == f"{path}, line 3, column 'score'"


@pytest.mark.parametrize("kind", ["int64", "float32", "Int64", "category", "str"])
def test_typed_columns_of_a_frame(kind: str, tmp_path: Path) -> None:
    """The same records from objects, from typed columns and from Parquet."""
    frame = pd.DataFrame({"model": ["a", "b"], "language": ["en", "sw"], "score": [1, 2]})
    column = "model" if kind in ("category", "str") else "score"
    typed = frame.astype({column: kind})
    typed.to_parquet(tmp_path / "t.parquet")
    hashes = {load(tmp_path / "t.parquet").content_hash}
    for given_frame in (frame.astype(object), typed):
        given_frame.to_parquet(tmp_path / "u.parquet")
        hashes.add(load(tmp_path / "u.parquet").content_hash)
    assert len(hashes) == 1


_CODES = st.lists(st.tuples(st.integers(-1, 3), st.integers(-1, 2), st.integers(-1, 5)), min_size=1)


@given(_CODES, st.sampled_from([1, 2**40]))
def test_a_combined_key_orders_as_its_columns_do(rows: list[tuple[int, ...]], scale: int) -> None:
    columns = [np.array(c, dtype=np.int64) for c in zip(*rows, strict=True)]
    # Scaled, the product of the ranges does not fit into 64 bits.
    columns = [np.where(c > 0, c * scale, c) for c in columns]
    key = combined_key(columns)
    order = np.argsort(key, kind="stable")
    assert order.tolist() == np.lexsort(columns[::-1]).tolist()
    assert len(np.unique(key)) == len(set(rows))


def test_labels_in_codes() -> None:
    column = Coded.of(np.array([0, 1, 2, 0]), ["x", "y", "x"])
    assert [column[row] for row in range(4)] == ["x", "y", "x", "x"]
    other = Coded.concat([Coded.constant("p", 2), Coded.of(np.array([0, 1]), ["q", "p"])])
    assert [other[row] for row in range(4)] == ["p", "p", "q", "p"]
    both = column.joined(other, ":")
    assert [both[row] for row in range(4)] == ["x:p", "y:p", "x:q", "x:p"]
    assert column.pairs(other) == [("x", "p"), ("y", "p"), ("x", "q")]
    assert column.take(np.array([False, True, False, False])).present() == ["y"]
    assert column.among({"y", "z"}).tolist() == [False, True, False, False]
