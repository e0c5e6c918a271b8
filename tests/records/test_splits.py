"""Splits of a test are kept apart; a score without a seed is one run."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from bayeseval.design import check_ready
from bayeseval.errors import InputError
from bayeseval.records import Records, load, reduce_replicates

MODELS, LANGUAGES = ("gpt", "b", "c"), ("en", "sw")


def _rows(split: str, offset: float, seeds: tuple[str, ...] = ("",)) -> list[dict[str, object]]:
    return [
        {"model": m, "language": lang, "task": "qa", "split": split, "seed": seed}
        | {"score": 50.0 + 7 * i + 3 * j + 2 * i * j + offset + 0.5 * k}
        for i, m in enumerate(MODELS)
        for j, lang in enumerate(LANGUAGES)
        for k, seed in enumerate(seeds)
    ]


def _both() -> pd.DataFrame:
    return pd.DataFrame([*_rows("test", 0.0), *_rows("dev", 1.25)]).drop(columns="seed")


def test_splits_become_tasks_of_their_own_and_one_can_be_kept() -> None:
    frame = _both()
    records = Records.from_frame(frame, name="t")
    assert records.coords["task"] == ("qa (dev)", "qa (test)")
    table = records.table.set_index(["model", "language", "task"])["score"]
    assert table["gpt", "en", "qa (dev)"] - table["gpt", "en", "qa (test)"] == 1.25
    assert records.report.ignored_columns == ()
    (note,) = [note for note in records.report.notes if "split" in note]
    assert note == (
        "split: scores of dev, test are kept apart as tasks of their own (qa (dev), qa (test));"
        """ drop={'task': ["qa (dev)"]} keeps test only"""
    )
    kept = Records.from_frame(frame, name="t", drop={"task": ["qa (dev)"]})
    assert kept.coords["task"] == ("qa (test)",)
    assert len(kept) == 6
    assert not [note for note in kept.report.notes if "split" in note]


def test_one_split_per_language_compares_models_on_the_same_items() -> None:
    frame = _both()
    one = frame[(frame["split"] == "test") == (frame["language"] == "en")]
    records = Records.from_frame(one, name="t")
    assert records.coords["task"] == ("qa",)
    assert (
        "split (dev, test): every language of a task has scores of one split only, so that all"
        " models are compared on the same items, and tasks keep their names"
    ) in records.report.notes
    # No two scores of a cell, and yet the models would be compared on different items.
    mixed = frame[(frame["split"] == "test") == (frame["model"] == "gpt")]
    assert Records.from_frame(mixed, name="t").coords["task"] == ("qa (dev)", "qa (test)")


def test_a_split_does_not_get_the_name_of_another_task() -> None:
    other = pd.DataFrame(_rows("test", 3.0)).drop(columns="seed").assign(language="yo")
    frame = pd.concat([_both(), other.assign(task="qa (dev)").drop_duplicates("model")])
    with pytest.raises(InputError) as caught:
        Records.from_frame(frame, name="t")
    assert str(caught.value) == (
        "t: the tasks 'qa', 'qa (dev)' would both be named 'qa (dev)', because splits are kept"
        " apart as tasks of their own; give one of the tasks or the split another name"
    )
    frame["task"] = frame["task"].replace("qa (dev)", "qa dev")
    assert Records.from_frame(frame, name="t").coords["task"] == ("qa (dev)", "qa (test)", "qa dev")


def test_only_tasks_with_several_splits_get_a_name(tmp_path: Path) -> None:
    other = pd.DataFrame(_rows("test", 3.0)).drop(columns="seed").assign(task="nli")
    unnamed = pd.DataFrame(_rows("", 5.0)).drop(columns="seed")
    records = Records.from_frame(pd.concat([_both(), other, unnamed]), name="t")
    assert records.coords["task"] == ("nli", "qa", "qa (dev)", "qa (test)")
    # Read back as the same records, from a file and with datasets and metrics, too.
    frame = _both().rename(columns={"task": "dataset"}).assign(metric="f1")
    named = Records.from_frame(frame, name="t")
    assert named.coords["task"] == ("qa:f1 (dev)", "qa:f1 (test)")
    assert named.datasets == {"qa:f1 (dev)": "qa (dev)", "qa:f1 (test)": "qa (test)"}
    named.save_table(tmp_path / "t.csv")
    again = load(tmp_path / "t.csv")
    assert again.table.equals(named.table)
    assert again.datasets == named.datasets


def test_a_split_of_one_file_and_none_of_another(tmp_path: Path) -> None:
    _both().query("split == 'dev'").to_csv(tmp_path / "dev.csv", index=False)
    _both().query("split == 'test'").drop(columns="split").to_csv(tmp_path / "t.csv", index=False)
    assert load(tmp_path).coords["task"] == ("qa", "qa (dev)")


def test_without_the_column_two_splits_are_two_scores() -> None:
    with pytest.raises(InputError, match="row 7: duplicate of row 1"):
        Records.from_frame(_both(), name="t", columns={"split": None})


def test_an_empty_seed_of_a_development_split_stops_nothing() -> None:
    frame = pd.DataFrame([*_rows("test", 0.0, ("1", "2", "3")), *_rows("dev", 1.0)[:5]])
    records = Records.from_frame(frame, name="t")
    assert len(records) == 23
    assert not [note for note in records.report.notes if note.startswith("seed is empty")]
    assert check_ready(records).is_ready


def test_a_score_without_a_seed_is_one_run_where_its_cell_has_no_other() -> None:
    frame = pd.DataFrame(_rows("test", 0.0, ("1", "2", "3"))).drop(columns="split")
    alone = frame.drop(index=[1, 2]).reset_index(drop=True)
    labelled = reduce_replicates(Records.from_frame(alone, name="t"))
    alone.loc[0, "seed"] = ""
    records = Records.from_frame(alone, name="t")
    assert (
        "seed is empty in 1 record, each the only one of its cell, and each counts as one run;"
        " first t, row 1"
    ) in records.report.notes
    cells = reduce_replicates(records)
    # What is known about seeds is what a labelled single run says.
    assert cells.mean.tolist() == labelled.mean.tolist()
    assert cells.seed.df.tolist() == labelled.seed.df.tolist()
    assert cells.seed.mean_square.tolist() == labelled.seed.mean_square.tolist()
    assert check_ready(records).is_ready
    frame.loc[0, "seed"] = ""
    with pytest.raises(InputError, match="row 1, column 'seed': seed is empty beside records of"):
        Records.from_frame(frame, name="t")
    # Without the column its cell would have two scores, so that this is not proposed.
    with pytest.raises(InputError, match="its seed, or remove the records without one$"):
        Records.from_frame(frame, name="t")
