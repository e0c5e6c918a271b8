"""One table per prompt or seed: the number in the name of a file is a column."""

from __future__ import annotations

import re
from pathlib import Path

import pandas as pd
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


def test_files_with_the_same_cells_are_to_be_numbered(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="name them prompt_1.csv, prompt_2.csv") as caught:
        load(folder(tmp_path, "direct.csv", "cot.csv"))
    names = re.findall(r"prompt_\d\.csv", str(caught.value))
    for name, old in zip(names, ("direct", "cot"), strict=True):
        (tmp_path / f"{old}.csv").rename(tmp_path / name)
    assert "column 'prompt' read as 2 prompts" in " ".join(load(tmp_path).report.notes)


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


WIDE = {
    "prompt_1.csv": "model,en,sw\na,1,3\nb,2,5\n",
    "prompt_2.csv": "model,en,sw\na,2,4\nb,2,6\n",
}
DOWN = {
    "seed 1.md": "| language | a | b |\n|---|---|---|\n| en | 1 | 2 |\n| sw | 3 | 5 |\n",
    "seed 2.md": "| language | a | b |\n|---|---|---|\n| en | 2 | 2 |\n| sw | 4 | 6 |\n",
}


@pytest.mark.parametrize(("files", "word"), [(WIDE, "prompt"), (DOWN, "seed")])
def test_a_wide_table_per_prompt(tmp_path: Path, files: dict[str, str], word: str) -> None:
    """Each prompt became a test of its own, which models seemed to share."""
    folder = tmp_path / "xnli"
    folder.mkdir()
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    records = load(folder)
    assert records.coords["task"] == ("xnli",)
    cells = zip(*(records.table[c] for c in ("model", "language", word, "score")), strict=True)
    assert {(m, la, str(p)): float(y) for m, la, p, y in cells} == {
        ("a", "en", "1"): 1.0,
        ("a", "en", "2"): 2.0,
        ("b", "en", "1"): 2.0,
        ("b", "en", "2"): 2.0,
        ("a", "sw", "1"): 3.0,
        ("a", "sw", "2"): 4.0,
        ("b", "sw", "1"): 5.0,
        ("b", "sw", "2"): 6.0,
    }
    assert any(
        f"column {word!r} taken from the names of 2 files" in n for n in records.report.notes
    )


def test_a_wide_table_per_prompt_with_a_column_of_prompts(tmp_path: Path) -> None:
    """What the table says counts; the files are tests of their own."""
    for name in WIDE:
        (tmp_path / name).write_text("model,prompt,en,sw\na,p,1,3\nb,p,2,5\na,q,1,4\nb,q,3,5\n")
    records = load(tmp_path)
    assert records.coords["task"] == ("prompt_1", "prompt_2")
    assert sorted(set(records.table["prompt"])) == ["p", "q"]


@pytest.mark.parametrize(
    ("suffix", "score"), [("csv", "score"), ("json", "score"), ("csv", "accuracy"), ("csv", "F1")]
)
def test_folders_name_the_models_of_tables_without_any(
    tmp_path: Path, suffix: str, score: str
) -> None:
    """A column of scores was taken for a model, and a JSON file was refused."""
    frame = pd.DataFrame(
        [(lang, task, 0.0) for lang in ("de", "en") for task in ("qa", "nli")],
        columns=["language", "task", "score"],
    )
    for i, name in enumerate(("org__a", "b")):
        path = tmp_path / "runs" / name / f"scores.{suffix}"
        path.parent.mkdir(parents=True)
        own = frame.assign(score=[10.0 * i + j for j in range(4)]).rename(columns={"score": score})
        path.write_text(
            own.to_csv(index=False) if suffix == "csv" else own.to_json(orient="records")
        )
    records = load(tmp_path / "runs")
    assert records.coords["model"] == ("b", "org/a")
    assert records.table.query("model == 'b'")["score"].tolist() == [11.0, 10.0, 13.0, 12.0]
    assert any(
        note.startswith("models named after 2 folders (b, ") for note in records.report.notes
    )
    # One file, and a folder with its tables, do not say whose they are.
    for where in (path, path.parent):
        with pytest.raises(InputError, match="no column for 'model'"):
            load(where)
    mapping = tmp_path / "m.yaml"
    mapping.write_text("constants: {model: c}")
    with pytest.raises(InputError, match="only one model ..c..;"):
        load(tmp_path / "runs", mapping_file=mapping)


def test_tables_of_folders_below_are_named_where_they_are_not_read(tmp_path: Path) -> None:
    rows = "model,language,task,score\na,de,x,1\na,en,x,3\nb,de,x,2\nb,en,x,7\n"
    (tmp_path / "more").mkdir()
    for name in ("top.csv", "more/t.csv"):
        (tmp_path / name).write_text(rows)
    records = load(tmp_path)
    assert len(records) == 4
    assert (
        "1 table in folders below not read (more/t.csv), because this folder has tables itself;"
        " give their folder to read them"
    ) in records.report.notes
