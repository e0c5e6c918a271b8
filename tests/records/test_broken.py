"""Broken inputs: one clear line each, never a traceback, never a silent guess."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayeseval.errors import InputError
from bayeseval.records import Records, load
from tests.records.broken_cases import BROKEN, CASES, BrokenCase


def test_every_broken_file_has_its_case() -> None:
    assert sorted(case.file for case in CASES) == sorted(path.name for path in BROKEN.iterdir())


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.file)
def test_a_broken_input_gives_one_clear_line(case: BrokenCase) -> None:
    with pytest.raises(InputError) as caught:
        load(case.path)
    message = str(caught.value)
    assert len(message.splitlines()) == 1
    assert [phrase for phrase in case.phrases if phrase not in message] == []


def test_the_smallest_good_table_is_not_refused(tmp_path: Path) -> None:
    """The control of the table above: the rows that its files were broken from."""
    path = tmp_path / "good.csv"
    path.write_text(
        "model,language,task,score\ngpt,en,xnli,80.1\ngpt,sw,xnli,60.5\n"
        "bloom,en,xnli,55.0\nbloom,sw,xnli,48.25\n",
        encoding="utf-8",
    )
    records = load(path)
    assert records.table.to_dict("list") == {
        "model": ["bloom", "bloom", "gpt", "gpt"],
        "language": ["en", "sw", "en", "sw"],
        "task": ["xnli"] * 4,
        "score": [55.0, 48.25, 80.1, 60.5],
    }


@pytest.mark.parametrize(
    ("source", "phrases"),
    [
        ("mgea", ["no benchmark named 'mgea'", "did you mean 'mega'?"]),
        ("nowhere.csv", ["nowhere.csv: no such file"]),
        ("nowhere/mega", ["nowhere/mega: no such file"]),
        ("", ["no benchmark was named"]),
    ],
)
def test_a_path_that_is_not_there(source: str, phrases: list[str]) -> None:
    with pytest.raises(InputError) as caught:
        load(source)
    assert [phrase for phrase in phrases if phrase not in str(caught.value)] == []


def test_a_misspelt_file_is_suggested() -> None:
    with pytest.raises(InputError, match=r"did you mean 'duplicates\.csv'\?"):
        load(BROKEN / "duplicate.csv")


@pytest.mark.parametrize("keep", [4, 30, 100, 250])
def test_a_parquet_file_cut_anywhere_is_one_line(tmp_path: Path, keep: int) -> None:
    whole = (BROKEN / "infinite.parquet").read_bytes()
    path = tmp_path / "cut.parquet"
    path.write_bytes(whole[:keep] + b"PAR1")
    with pytest.raises(InputError, match="Parquet") as caught:
        load(path)
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize("position", range(8, 300, 13))
def test_a_parquet_file_with_a_wrong_byte_never_shows_a_traceback(
    tmp_path: Path, position: int
) -> None:
    data = bytearray((BROKEN / "infinite.parquet").read_bytes())
    data[position] ^= 0xFF
    path = tmp_path / "damaged.parquet"
    path.write_bytes(bytes(data))
    # The infinite score is refused wherever the damage itself goes unnoticed.
    with pytest.raises(InputError) as caught:
        load(path)
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize("key", ["model", "language", "task", "score", "seed"])
def test_half_a_character_in_json_is_one_line(tmp_path: Path, key: str) -> None:
    """A lone surrogate is valid JSON, and not valid text anywhere else."""
    row = {"model": "gpt", "language": "en", "task": "a", "seed": "0", "score": "1"}
    path = tmp_path / "t.json"
    path.write_text(json.dumps([row | {key: "\ud800"}]), encoding="utf-8")
    with pytest.raises(InputError, match=rf"record 1, column '{key}': {key} '\\ud800'"):
        load(path)


@pytest.mark.parametrize("name", ["a\nb", "\ud800", "\u2028"])
def test_odd_column_names_stay_on_one_line(tmp_path: Path, name: str) -> None:
    path = tmp_path / "t.json"
    path.write_text(json.dumps([{"model": "gpt", name: "x"}]), encoding="utf-8")
    with pytest.raises(InputError, match="no column for 'language'") as caught:
        load(path)
    assert len(str(caught.value).splitlines()) == 1
    assert str(caught.value).isprintable()


_PIECES = st.sampled_from(
    [
        *(b"model", b"language", b"task", b"score", b"dataset", b"seed", b"n", b"scale_max", b"F1"),
        *(b"gpt", b"en", b"avg", b"1", b"0.5", b"-1", b"1e999", b"nan", b"true", b"null", b" "),
        *(b",", b"\t", b";", b"\n", b"\r", b'"', b"{", b"}", b"[", b"]", b":", b"\\", b"\\ud800"),
        *(b"\xff", b"\x00", b"\xef\xbb\xbf", b"\xc3\xa9", b"\xe2\x80\xa8", b"PAR1"),
    ]
)


@given(
    st.lists(_PIECES, max_size=40).map(b"".join) | st.binary(max_size=60),
    st.sampled_from(["", "model,language,task,score\n", '[{"model": "gpt", "language": "en", ']),
    st.sampled_from(["t.csv", "t.tsv", "t.json", "t.jsonl", "t.parquet", "t"]),
)
def test_whatever_the_bytes_there_is_a_table_or_one_line(
    data: bytes, start: str, file: str
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / file
        path.write_bytes(start.encode() + data)
        try:
            assert isinstance(load(path), Records)
        except InputError as problem:
            assert len(str(problem).splitlines()) == 1
