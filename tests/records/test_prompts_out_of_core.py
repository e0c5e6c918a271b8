"""Prompts and judges of tables without items are read out of core as they are in memory."""

from __future__ import annotations

from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pytest

import bayeseval as be
from tests.records.reduced_tables import MEMORY
from tests.records.test_same_words import assert_same_words, changed, repeated, rows, said, written

SINGLE, SEEDED = rows(None), rows(None, seeds=(1, 2))
READ = "column 'prompt' read as 2 prompts, whose effects models share"


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BAYESEVAL_CACHE", str(tmp_path / "cache"))


def with_prompts(frame: pd.DataFrame, column: str = "prompt") -> pd.DataFrame:
    """The rows for two prompts, with other scores."""
    frames = [frame.assign(score=frame["score"] + 0.01 * p) for p in (1, 2)]
    both = pd.concat(frames).reset_index(drop=True)
    both[column] = np.repeat(["p1", "p2"], len(frame))
    return both


PROMPTED = with_prompts(SINGLE)
TABLES: dict[str, tuple[pd.DataFrame, str]] = {
    "prompts": (PROMPTED, READ),
    "numbers": (PROMPTED.assign(prompt=PROMPTED["prompt"].str[1:].astype(int)), READ),
    "judges": (with_prompts(SINGLE, "judge_model"), "column 'judge_model' read as 2 judges"),
    "prompts and judges": (with_prompts(PROMPTED, "judge"), "column 'judge' read as 2 judges"),
    "prompts and seeds": (with_prompts(SEEDED), READ),
    "a prompt with blanks": (changed(PROMPTED, ("prompt", 3, " p1")), READ),
    "whole texts": (
        SINGLE.assign(prompt=[f"Question {i}: {'why? ' * 200}" for i in range(len(SINGLE))]),
        "column 'prompt' is not needed: it tells no two scores of a cell apart",
    ),
    "one prompt": (SINGLE.assign(prompt="p"), "column 'prompt' is not needed: it has one value"),
    "no prompts": (SINGLE.assign(prompt=None), ""),
    "some prompts": (PROMPTED.assign(prompt=PROMPTED["prompt"].replace("p1", None)), ""),
    "a score twice": (repeated(PROMPTED, 3, at=30, score=0.9), "prompt 'p1' has two scores"),
    "one prompt twice": (
        repeated(SINGLE.assign(prompt="p"), 3, at=9, score=0.9),
        "has two scores, ",
    ),
    "other spellings of a language": (
        PROMPTED.assign(
            language=PROMPTED["language"].mask(PROMPTED.index % 2 == 0, "English")
        ).query("language == 'English' or language != 'en'"),
        "",
    ),
    "errors that differ": (PROMPTED.assign(se=np.linspace(0.01, 0.02, len(PROMPTED))), READ),
    "no item in a column": (PROMPTED.assign(item=None), READ),
}


@pytest.mark.parametrize("ending", [".csv", ".jsonl", ".parquet"])
@pytest.mark.parametrize("name", TABLES)
def test_prompts_of_single_rows_are_read_as_in_memory(
    tmp_path: Path, name: str, ending: str
) -> None:
    frame, expected = TABLES[name]
    path = written(frame, tmp_path / f"rows{ending}")
    words = assert_same_words(path)
    assert any(expected in one for one in words), words
    if not words[0].startswith("TableError"):
        whole, reduced = be.load(path), be.load(path, memory=MEMORY)
        pd.testing.assert_frame_equal(reduced.table, whole.table)
        assert reduced.content_hash == whole.content_hash


@pytest.mark.parametrize(
    "columns", [{"seed": "prompt"}, {"prompt": "prompt"}, {"split": "prompt"}, {"prompt": None}]
)
def test_a_choice_of_the_column_is_kept(tmp_path: Path, columns: dict[str, str | None]) -> None:
    words = assert_same_words(written(PROMPTED, tmp_path / "rows.csv"), columns=columns)
    assert words[0].startswith("TableError") == (columns == {"prompt": None})


def test_a_database_file_has_the_prompts_of_the_same_csv(tmp_path: Path) -> None:
    whole = be.load(written(PROMPTED, tmp_path / "rows.csv"))
    with duckdb.connect(str(tmp_path / "rows.duckdb")) as connection:
        connection.register("frame", PROMPTED)
        connection.execute("CREATE TABLE scores AS SELECT * FROM frame")
    read = be.load(tmp_path / "rows.duckdb")
    assert "prompt" in read.replicate_columns
    pd.testing.assert_frame_equal(read.table, whole.table)
    assert said(tmp_path / "rows.duckdb", None) == said(tmp_path / "rows.csv", None)


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_files_of_single_prompts_are_read_as_in_memory(tmp_path: Path, ending: str) -> None:
    for number, (_, frame) in enumerate(PROMPTED.groupby("prompt"), 1):
        written(frame.drop(columns="prompt"), tmp_path / f"prompt_{number}{ending}")
    words = assert_same_words(tmp_path)
    assert any(READ in one for one in words), words
    whole, reduced = be.load(tmp_path), be.load(tmp_path, memory=MEMORY)
    pd.testing.assert_frame_equal(reduced.table, whole.table)


def test_a_prompt_that_only_one_file_has_is_not_read(tmp_path: Path) -> None:
    written(PROMPTED, tmp_path / "a.csv")
    written(SINGLE.assign(model="m9"), tmp_path / "b.csv")
    (words,) = assert_same_words(tmp_path)
    assert words.startswith("TableError")


def test_prompts_that_are_no_labels_are_refused_both_ways(tmp_path: Path) -> None:
    frame = PROMPTED.assign(prompt=PROMPTED["prompt"].map(lambda one: [one]))
    path = written(frame, tmp_path / "rows.jsonl")
    for memory in (None, MEMORY):
        assert said(path, memory)[0].startswith("TableError: ")
