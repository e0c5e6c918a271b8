"""Folders in which files are damaged: the others are read, and each is accounted for."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from bayeseval.cli import main
from bayeseval.errors import InputError
from bayeseval.readers import detect
from bayeseval.readers.base import Head
from bayeseval.records import load
from tests.readers.good_files import FIXTURES
from tests.readers.mixed_folders import OTHER, READ, REFUSED, TOOLS, fared, write_mixed


@pytest.mark.parametrize("name", TOOLS)
def test_every_file_is_read_refused_or_named_as_another(tmp_path: Path, name: str) -> None:
    wanted = write_mixed(tmp_path, name, 24)
    counts = fared(tmp_path, name, wanted)
    assert counts["not as wanted"] == 0
    assert counts[READ] + counts[REFUSED] + counts[OTHER] == len(wanted)
    assert counts["in notes"] == counts["files"]
    # At least one of each kind of damage, and files that were changed and are whole.
    assert counts[REFUSED] >= 4
    assert counts[REFUSED] + counts[OTHER] >= 7
    assert counts[READ] >= 12


def test_the_command_warns_and_goes_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(FIXTURES / "lighteval" / "results", tmp_path / "results")
    cut = tmp_path / "results" / "org-c" / "cut" / "results_2026-03-01T10-00-00.000000.json"
    cut.parent.mkdir(parents=True)
    good = next((tmp_path / "results" / "org-a").rglob("*.json")).read_bytes()
    cut.write_bytes(good[:-40])
    assert main(["validate", str(tmp_path)]) == 0
    said = "".join(capsys.readouterr())
    line = "1 file of 3 cannot be read, and scores that only they hold are missing: results/org-c/c"
    assert said.count(line) == 1
    # One that is damaged too, and none is left.
    for path in tmp_path.rglob("*.json"):
        path.write_bytes(good[:-40])
    assert main(["validate", str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert "none of 3 files of lighteval results can be read: results/org-a/small/results_" in said


def test_a_damaged_file_beside_names_no_model(tmp_path: Path) -> None:
    """MTEB's model_meta.json and the results beside samples: the folder's name is taken."""
    shutil.copytree(FIXTURES / "mteb", tmp_path / "mteb")
    meta = next(path for path in (tmp_path / "mteb").rglob("model_meta.json"))
    meta.write_text('{"name": ', encoding="utf-8")
    report = load(tmp_path / "mteb").report
    assert "model_meta.json (line 1, character 10: the JSON ends too early" in report.warnings[0]
    source = FIXTURES / "lm_eval" / "v0.4.13"
    shutil.copytree(next(source.glob("org-a*")), tmp_path / "samples" / "org__folder")
    results = next((tmp_path / "samples").rglob("results*.json"))
    assert load(tmp_path / "samples", format="lm-eval-samples").coords["model"] != ("org/folder",)
    results.write_text(results.read_text(encoding="utf-8")[:-30], encoding="utf-8")
    records = load(tmp_path / "samples", format="lm-eval-samples")
    assert records.coords["model"] == ("org/folder",)
    assert results.name in records.report.warnings[0]


def test_a_file_without_a_score_is_no_file_that_was_read(tmp_path: Path) -> None:
    shutil.copytree(FIXTURES / "mteb", tmp_path / "mteb")
    path = next((tmp_path / "mteb").rglob("Massive*.json"))
    text = path.read_text(encoding="utf-8").replace('"main_score"', '"another_score"')
    path.write_text(text, encoding="utf-8")
    assert f"{path.name} (scores: no main_score)" in load(tmp_path / "mteb").report.warnings[0]


def test_a_file_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(FIXTURES / "lighteval" / "results", tmp_path / "results")
    closed = min(tmp_path.rglob("*.json"))
    begin = Head.of

    def of(path: Path) -> Head:
        if path == closed:
            raise InputError(f"{path}: cannot be read: Permission denied")
        return begin(path)

    monkeypatch.setattr(Head, "of", of)
    said = load(tmp_path).report.warnings[0]
    assert f"{closed.name} (cannot be read: Permission denied); restore" in said


def test_files_side_by_side_are_no_tables(tmp_path: Path) -> None:
    """Of a damaged file at the top of a folder, only its name says that it could be a table."""
    good = (FIXTURES / "lm_eval" / "v0.3.0").glob("*.json")
    shutil.copy(next(good), tmp_path / "a.json")
    (tmp_path / "b.json").write_bytes(bytes(1000))
    (tmp_path / "c.json").write_text("", encoding="utf-8")
    report = load(tmp_path).report
    assert report.warnings[0] == (
        "warning: 2 files of 3 cannot be read, and scores that only they hold are missing: b.json ("
        "line 1: not a text file: byte 0x00 at position 0; expected JSON); c.json (the file is"
        " empty); restore them, or take them out of the folder"
    )


def test_empty_tables_of_a_folder_are_left_out(tmp_path: Path) -> None:
    """An empty CSV file stopped the folder; a table that is damaged still does."""
    scores = "model,language,score\nA,de,51\nB,de,49\n"
    empty = {"a.csv": "", "b.csv": "model,language,score\n", "c.json": "[]"}
    files = {**empty, "d.csv": scores, "e.csv": scores.replace(",de,", ",fr,"), "README.md": "-"}
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    records = load(tmp_path)
    assert sorted(zip(records.table["language"], records.scores, strict=True)) == [
        *[("de", 49), ("de", 51)],
        *[("fr", 49), ("fr", 51)],
    ]
    (warning,) = records.report.warnings
    assert "3 files of 6 cannot be read, and scores that only they hold are missing: " in warning
    for cause in (
        "a.csv (the file is empty (0 bytes)",
        "b.csv (the file has a header line and no data)",
        "c.json (the list of records is empty)",
    ):
        assert cause in warning
    assert "1 other file in the folder not read: README.md" in records.report.notes
    (tmp_path / "e.csv").write_text("model,language\nA,de,51\n", encoding="utf-8")
    with pytest.raises(InputError, match="e.csv, line 2: 3 fields where the header has 2"):
        load(tmp_path)
    for name in ("d.csv", "e.csv"):
        (tmp_path / name).unlink()
    with pytest.raises(InputError, match="none of 3 tables has scores: a.csv"):
        load(tmp_path)
    with pytest.raises(InputError, match=r"b.csv: the file has a header line and no data$"):
        load(tmp_path / "b.csv")


@pytest.mark.parametrize("data", ['{"a": {"b": 1', '  [\n{"a": [1, 2'])
def test_json_of_an_unknown_tool_that_ends_too_early_says_where(tmp_path: Path, data: str) -> None:
    path = tmp_path / "t.json"
    path.write_text(data)
    said = f"line {1 + data.count(chr(10))}, character {len(data.splitlines()[-1]) + 1}:"
    with pytest.raises(InputError) as caught:
        load(path)
    assert str(caught.value) == f"{path}, {said} the JSON ends too early: expecting ',' delimiter"
    (tmp_path / "m.json").write_text(
        '{"task_name": "t", "mteb_version": "1.12.0", "dataset_revision": "1", "scores": {}}'
    )
    found = detect(tmp_path)
    assert found is not None
    assert [str(one) for one in found.unreadable.values()] == [str(caught.value)]
