"""Descriptions: shares of the grid, replication, connectivity; and the shipped MEGA."""

from __future__ import annotations

import re
from pathlib import Path

import pandas as pd
import pytest

from bayeseval.cli import main
from bayeseval.errors import InputError
from bayeseval.languages import labels
from bayeseval.records import (
    Component,
    Records,
    Units,
    connected_components,
    describe,
    format_description,
    list_benchmarks,
    load,
    without_language,
)
from bayeseval.records.registry import BenchmarkCard, read_card


def _records(rows: list[tuple[str, str, str]]) -> Records:
    frame = pd.DataFrame(rows, columns=["model", "language", "task"])
    return Records.from_frame(frame.assign(score=range(1, len(rows) + 1)), name="small")


CONNECTED = [("a", "en", "x"), ("a", "sw", "x"), ("b", "en", "x"), ("b", "en", "y")]
SPLIT = [*CONNECTED, ("c", "hi", "z"), ("c", "ta", "z"), ("d", "te", "w"), ("e", "te", "w")]


def test_shares_and_replication_of_a_small_table() -> None:
    description = describe(_records(CONNECTED))
    assert (description.language_task.observed, description.language_task.possible) == (3, 4)
    cover = description.language_task_model
    assert (cover.observed, cover.possible, cover.share) == (4, 8, 0.5)
    assert {(r.factor, r.cell): r.distribution for r in description.replication} == {
        ("model", ("language", "task")): ((1, 2), (2, 1)),
        ("language", ("model", "task")): ((1, 2), (2, 1)),
        ("task", ("model", "language")): ((1, 2), (2, 1)),
    }
    assert description.levels["model"] == (("a", 2), ("b", 2))
    assert description.levels["language"] == (("en", 3), ("sw", 1))
    assert [(t.task, t.lowest, t.median, t.highest) for t in description.tasks] == [
        ("x", 1.0, 2.0, 3.0),
        ("y", 4.0, 4.0, 4.0),
    ]


def test_replicates_count_once_in_the_grid() -> None:
    frame = pd.DataFrame(
        {
            "model": ["a"] * 3 + ["b"] * 3,
            "language": ["en"] * 3 + ["sw"] * 3,
            "task": "x",
            "seed": [0, 1, 2] * 2,
            "score": range(6),
        }
    )
    description = describe(Records.from_frame(frame, name="seeds"))
    assert description.language_task_model.observed == 2
    assert description.replication[0].distribution == ((1, 2),)
    assert description.replicates == ("seed",)


def test_connected_parts_are_named_largest_first() -> None:
    assert connected_components(_records(CONNECTED)) == (
        Component(language=("en", "sw"), task=("x", "y"), model=("a", "b"), n_records=4),
    )
    assert connected_components(_records(SPLIT)) == (
        Component(language=("en", "sw"), task=("x", "y"), model=("a", "b"), n_records=4),
        Component(language=("hi", "ta"), task=("z",), model=("c",), n_records=2),
        Component(language=("te",), task=("w",), model=("d", "e"), n_records=2),
    )


def test_the_text_says_what_the_description_says() -> None:
    text = format_description(describe(_records(SPLIT)))
    assert "small: 8 records of 5 models, 5 languages, 4 tasks" in text
    assert "6 of       20 cells   30.0%" in text
    assert "3 parts that share no language, task or model" in text
    assert "part 3: 2 records" in text
    assert "models per language and task: 1 in 4 cells, 2 in 2 cells" in text
    whole = format_description(describe(_records(CONNECTED)))
    assert "one connected table" in whole


def test_of_many_parts_the_first_are_listed() -> None:
    rows = [(f"m{i}", f"l{i}", f"t{i}") for i in range(23)]
    text = format_description(describe(_records(rows)))
    assert "23 parts that share no language, task or model" in text
    assert "  part 20: 1 record\n" in text
    assert "part 21" not in text
    assert "  and 3 further parts, not larger\n" in text


@pytest.mark.parametrize(
    ("task", "language", "left"),
    [
        ("qa_DE:f1", "de", "qa:f1"),
        ("qa (de)", "DE", "qa"),
        ("model_de", "de", "model"),
        ("mode", "de", "mode"),
        ("qa straße", "STRASSE", "qa straße"),
        ("qa straße", "straße", "qa"),
        ("qa. de", "de", "qa."),
        ("a.b_a+b", "a+b", "a.b"),
    ],
)
def test_a_task_without_its_language(task: str, language: str, left: str) -> None:
    assert without_language(task, language) == left


def test_of_thousands_of_unknown_languages_some_are_compared_with_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compared = []
    monkeypatch.setattr(labels, "nearest_name", lambda label: compared.append(label) or "")
    every = [f"{i:05d}" for i in range(3000)]
    (note,) = labels.unknown_labels(["en", *every], [])
    assert "no registry knows: '00000', '00001', '00002', '00003' and 2996 more" in str(note)
    assert len(compared) == 500


def test_the_text_names_what_was_dropped() -> None:
    rows = [*CONNECTED, ("a", "avg", "x"), ("b", "avg", "x"), ("a", "Mean", "y")]
    text = format_description(describe(_records(rows)))
    assert "dropped: 3 rows: aggregate rows, not a language (Mean, avg x 2)" in text
    assert "first small, row 5" in text


def test_mega_is_the_published_table() -> None:
    """Counts: Hu, Vulić and Korhonen, section 4 (1,364 records, 13 models, 11 datasets)."""
    records = load("mega")
    assert len(records) == records.report.n_rows_read == 1364
    assert {factor: len(labels) for factor, labels in records.coords.items()} == {
        "language": 53,
        "task": 15,
        "model": 13,
    }
    assert records.table["dataset"].nunique() == 11
    assert set(records.units.values()) == {Units(0, 100)}
    assert records.report.dropped == ()
    assert records.report.ignored_columns == ("appendix_table",)
    assert records.report.notes == ()
    one = records.table.query("model == 'BLOOMZ' and language == 'ar' and task == 'xnli:accuracy'")
    assert one["score"].tolist() == [60.7]


def test_mega_coverage_and_connectivity() -> None:
    description = describe(load("mega"))
    assert (description.language_task.observed, description.language_task.possible) == (216, 795)
    cover = description.language_task_model
    assert (cover.observed, cover.possible) == (1364, 13 * 53 * 15)
    models, languages, tasks = description.replication
    assert (models.n_cells, models.least, models.most) == (216, 4, 11)
    assert (languages.n_cells, languages.least) == (111, 7)
    assert sum(levels * cells for levels, cells in tasks.distribution) == 1364
    (part,) = description.components
    assert (len(part.language), len(part.task), len(part.model)) == (53, 15, 13)
    text = format_description(description)
    assert max(map(len, text.splitlines())) <= 100
    assert "216 of      795 cells   27.2%" in text


def test_every_mega_language_has_its_name() -> None:
    records = load("mega")
    assert tuple(sorted(records.language_names)) == records.coords["language"]
    assert records.language_names["ht"] == "Haitian Creole"
    assert records.language_names["or"] == "Oriya"
    assert len(set(records.language_names.values())) == 53


def test_the_mega_hash_is_the_same_everywhere() -> None:
    """Worked out by this package on Python 3.11 and 3.13; the data has not changed since."""
    assert load("mega").content_hash == (
        "5db4a0a0da33aa1de37d52d5af244012667e99b6a3ed516082385adc6c12a0d3"
    )


def test_the_shipped_benchmarks_are_listed_with_their_shapes() -> None:
    listed = {summary.name: summary for summary in list_benchmarks()}
    assert listed["mega"].title.startswith("MEGA")
    assert listed["mega"].shape == "1364 records, 13 models, 53 languages, 15 tasks"


def test_a_card_in_a_folder_of_the_user(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "a.csv").write_text("m,language,task,score\ngpt,no,a,8\nb,en,a,9\n", encoding="utf-8")
    (folder / "b.csv").write_text("nothing to do with it", encoding="utf-8")
    card = folder / "benchmark.yaml"
    card.write_text(
        "name: mine\ntitle: Mine\nfiles: [a.csv]\ncolumns: {model: m}\n"
        "units: {lower: 0, upper: 10, tasks: {a: {lower: 1, upper: 10}}}\n"
        "language_names: {no: Norwegian}\n",
        encoding="utf-8",
    )
    records = load(folder)
    assert records.name == "mine"
    assert records.units == {"a": Units(1, 10)}
    assert records.language_names == {"en": "English", "no": "Norwegian"}
    assert load(card).content_hash == records.content_hash
    assert read_card(card) == BenchmarkCard.model_validate(
        {
            "name": "mine",
            "title": "Mine",
            "files": ["a.csv"],
            "columns": {"model": "m"},
            "units": {"lower": 0, "upper": 10, "tasks": {"a": {"lower": 1, "upper": 10}}},
            "language_names": {"no": "Norwegian"},
        }
    )
    with pytest.raises(InputError, match="score 9 is above the declared bound 8"):
        load(folder, units=(0, 8))


def test_a_shipped_name_wins_over_a_folder_of_that_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "mega"
    folder.mkdir()
    (folder / "a.csv").write_text(
        "model,language,task,score\ngpt,no,a,8\nb,en,a,9\n", encoding="utf-8"
    )
    monkeypatch.chdir(folder.parent)
    assert len(load("mega")) == 1364
    assert len(load("./mega")) == 2


def test_of_very_many_tasks_the_first_ones_are_listed() -> None:
    rows = [
        (m, lang, f"t{i:03}", 11 + i + 2 * (m == "b") + (lang == "de"))
        for m in "ab"
        for lang in ("de", "sw")
        for i in range(302)
    ]
    frame = pd.DataFrame(rows, columns=["model", "language", "task", "score"])
    text = format_description(describe(load(frame)))
    levels, _, scores = text.partition("Scores, in each task's own units")
    assert re.findall(r"t\d{3} 4", levels)[-1] == "t299 4"
    assert "and 2 more" in levels
    lines = scores.split("\n")
    assert (lines[-2].split()[0], lines[-1]) == ("t099", "  and 202 further tasks")
    few = format_description(describe(load(frame[frame["task"] < "t100"])))
    assert "further" not in few
    assert few.split("\n")[-1].split()[0] == "t099"


def test_line_feeds_in_names_of_files_are_escaped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "a\nb"
    folder.mkdir()
    (folder / "x.csv").write_text("model,language,task,score\nA,en,t,1\nA,en,t,2\nB,sw,t,3\n")
    (folder / "y.csv").write_text("model,language,task,score\nC,en,t,1\nC,sw,t,\n")
    assert main(["validate", str(folder)]) == 2
    out = capsys.readouterr().out
    assert "first" in out
    assert "a\\nb/y.csv, line 3" in " ".join(out.split())
    assert "a\\nb/x.csv, line 3: duplicate of line 2" in out
    assert "a\nb" not in out
    assert "a b/" not in " ".join(out.split())
