"""One table per prompt or seed: the number in the name of a file is a column."""

from __future__ import annotations

from pathlib import Path

import pytest

from bayeseval.errors import InputError
from bayeseval.records import load, reduce_replicates

ROWS = "model,language,task,score\na,en,t,1\nb,en,t,2\na,sw,t,3\nb,sw,t,5\n"
MORE = "model,language,task,score\na,en,t,2\nb,en,t,2\na,sw,t,4\nb,sw,t,6\n"


def folder(path: Path, first: str, second: str, *, more: str = MORE) -> Path:
    (path / first).write_text(ROWS, encoding="utf-8")
    (path / second).write_text(more, encoding="utf-8")
    return path


@pytest.mark.parametrize("names", [("seed_1.csv", "seed_02.csv"), ("Seed1.csv", "Seed2.csv")])
def test_a_file_per_seed(tmp_path: Path, names: tuple[str, str]) -> None:
    records = load(folder(tmp_path, *names))
    table = records.table
    scores = zip(table["model"], table["language"], table["seed"], table["score"], strict=True)
    assert {(m, la, str(s)): float(y) for m, la, s, y in scores} == {
        ("a", "en", "1"): 1.0,
        ("a", "en", "2"): 2.0,
        ("b", "en", "1"): 2.0,
        ("b", "en", "2"): 2.0,
        ("a", "sw", "1"): 3.0,
        ("a", "sw", "2"): 4.0,
        ("b", "sw", "1"): 5.0,
        ("b", "sw", "2"): 6.0,
    }
    assert any("column 'seed' taken from the names of 2 files" in n for n in records.report.notes)


def test_a_file_per_seed_with_a_column_that_others_lack(tmp_path: Path) -> None:
    """The files were duplicates of each other."""
    more = "model,language,task,score,remark\na,en,t,2,late\nb,en,t,4,\n"
    cells = reduce_replicates(load(folder(tmp_path, "seed_1.csv", "seed_2.csv", more=more)))
    assert cells.n_seeds.tolist() == [2.0, 1.0, 2.0, 1.0]
    assert cells.mean.tolist() == [1.5, 3.0, 3.0, 5.0]


def test_a_file_per_prompt_is_read_as_prompts(tmp_path: Path) -> None:
    folder(tmp_path, "prompt_1.csv", "prompt_2.csv")
    records = load(tmp_path)
    other_way = "columns={'seed': 'prompt'} reads it as repetitions that share nothing"
    assert (
        "column 'prompt' read as 2 prompts, whose effects models share; " + other_way
    ) in records.report.notes
    by_prompt = reduce_replicates(records).by_prompt
    assert by_prompt is not None
    assert (by_prompt.source, by_prompt.labels) == ("prompt", ("1", "2"))
    assert by_prompt.cell.tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    cells = reduce_replicates(load(tmp_path, columns={"seed": "prompt"}))
    assert cells.n_seeds.tolist() == [2.0] * 4
    assert sorted(cells.mean) == [1.5, 2.0, 3.5, 5.5]


@pytest.mark.parametrize(
    ("first", "second", "more"),
    [
        ("prompt_1.csv", "seed_1.csv", MORE),
        ("prompt_1.csv", "prompt_01.csv", MORE),
        ("prompt_1.csv", "prompt_x.csv", MORE),
        ("part_1.csv", "part_2.csv", MORE),
    ],
    ids=["two words", "one number", "no number", "another word"],
)
def test_other_names_add_nothing(tmp_path: Path, first: str, second: str, more: str) -> None:
    with pytest.raises(InputError) as refusal:
        load(folder(tmp_path, first, second, more=more))
    assert "tells them apart" not in str(refusal.value)
