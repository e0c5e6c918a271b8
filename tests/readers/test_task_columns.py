"""Tables whose tasks are named after languages: read by the names, or warned of."""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path

import pandas as pd
import pytest

from bayeseval import load
from bayeseval.cli import main
from bayeseval.errors import InputError

LANGUAGES = {"de": "German", "en": "English", "sw": "Swahili"}


def frame(pattern: str) -> pd.DataFrame:
    """Scores of three models on a test that has a task for each language."""
    rows = [
        {
            "model": m,
            "language": lang,
            "task": pattern.format(lang),
            "score": 41.0 + 6 * i + j + i * j * j,
        }
        for (i, m), (j, lang) in product(enumerate("ABC"), enumerate(LANGUAGES))
    ]
    return pd.DataFrame(rows)


def beside(pattern: str) -> pd.DataFrame:
    """The same, beside a task of all languages."""
    return pd.concat([frame("qa"), frame(pattern)], ignore_index=True)


def test_languages_of_known_task_names_are_read() -> None:
    records = load(frame("xnli_{}").drop(columns="language"))
    assert records.coords["task"] == ("xnli",)
    assert records.coords["language"] == ("de", "en", "sw")
    assert records.table.query("model == 'B' and language == 'sw'")["score"].tolist() == [53.0]
    assert any("from 3 task names (xnli_de: de)" in note for note in records.report.notes)
    # No column of the file became the language.
    assert "language" not in dict(records.report.columns)
    assert dict(records.report.columns)["task"] == "task"


def test_a_table_is_proposed_even_where_no_name_has_a_language(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, names = tmp_path / "t.csv", tmp_path / "names.csv"
    tests = {"de": "nli", "en": "qa", "sw": "sum"}
    table = frame("quiz").assign(task=lambda f: f["language"].map(tests)).drop(columns="language")
    table.to_csv(path, index=False)
    options = ["validate", str(path), "--propose-task-names", str(names)]
    assert main(options) == 2
    out = capsys.readouterr().out
    assert "3 lines. No name of 3 tasks contains a language; write it into each line." in out
    assert out.splitlines()[-1].endswith(f"check the file, and pass --task-names {names}")
    header, *lines = names.read_text(encoding="utf-8").splitlines()
    assert (header, sorted(lines)) == ("task,dataset,language", ["nli,,", "qa,,", "sum,,"])
    filled = [f"{task},quiz,{language}" for language, task in tests.items()]
    names.write_text("\n".join([header, *filled]), encoding="utf-8")
    assert main([*options[:2], "--task-names", str(names)]) == 0
    records = load(path, task_names=names)
    assert (records.coords["task"], records.coords["language"]) == (("quiz",), ("de", "en", "sw"))
    # A table whose languages are known needs none.
    path.write_text("model,language,task,score\nA,de,t,1\nA,en,t,3\nB,de,t,2\nB,en,t,5\n")
    capsys.readouterr()
    main([*options[:-1], f"{names}2"])
    assert f"{names}2 not written: every task has a language" in capsys.readouterr().out
    assert not names.with_name("names.csv2").exists()


def test_a_table_of_task_names_is_proposed_and_works(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, names = tmp_path / "t.csv", tmp_path / "names.csv"
    table = pd.concat([frame("quiz-{}"), frame("other").head(1)]).drop(columns="language")
    table.to_csv(path, index=False)
    assert main(["validate", str(path)]) == 2
    assert "'bayeseval validate ... --propose-task-names FILE' writes" in capsys.readouterr().err
    assert main(["validate", str(path), "--propose-task-names", str(names)]) == 2
    assert main(["validate", str(path), "--task-names", str(names)]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "1 row: left out by the table of task names (other)" in text
    assert "9 records of 3 models, 3 languages, 1 task" in text
    # Names without a language are what they were: the column is missing.
    with pytest.raises(InputError, match="no column for 'language'"):
        load(frame("quiz").drop(columns="language"))


@pytest.mark.parametrize("named", [False, True])
def test_tasks_named_after_languages_are_warned_of_with_what_helps(
    named: bool, tmp_path: Path
) -> None:
    table = beside("xnli_{}:f1")
    if named:
        table["language"] = table["language"].map(LANGUAGES)
    (warning,) = load(table).report.warnings
    assert warning.startswith(
        "warning: 3 tasks named after a language (xnli_de:f1, xnli_en:f1, xnli_sw:f1) count as"
        " different tests; if they are one test in several languages, name it"
    )
    line = re.search(r"the line (\S+) and give the file as task_names", warning)
    assert line is not None
    path = tmp_path / "names.csv"
    path.write_text(f"task,dataset,language\n{line[1]}\n", encoding="utf-8")
    records = load(table, task_names=path)
    assert records.coords["task"] == ("qa", "xnli:f1")
    assert len(records.coords["language"]) == 3
    assert records.report.warnings == ()
    assert any("(xnli_de:f1: xnli:f1," in note for note in records.report.notes)


def test_other_names_are_not_warned_of() -> None:
    """Words that are codes of other languages, and names of one language."""
    table = beside("t_{}")
    table["task"] = table["task"].map({"t_de": "as", "t_en": "it_no", "t_sw": "t_sw"}).fillna("qa")
    assert load(table).report.warnings == ()


def test_a_column_for_each_language_of_a_task_is_named(tmp_path: Path) -> None:
    table = frame("xnli_{}")
    wide = table.pivot(index="model", columns="task", values="score").reset_index()
    path = tmp_path / "t.csv"
    wide.to_csv(path, index=False)
    with pytest.raises(InputError) as caught:
        load(path)
    assert str(caught.value) == (
        f"{path}: no column for 'language' and 'score': the columns xnli_de, xnli_en, xnli_sw seem"
        " to hold the scores of a task in one language each; write one row per score, with the"
        " columns model, task and score: languages are taken from the names of tasks"
    )
    book = tmp_path / "t.xlsx"
    wide.to_excel(book, index=False)
    with pytest.raises(InputError) as caught:
        load(book)
    assert str(caught.value) == (
        f"{book}, sheet 'Sheet1', row 1: the columns xnli_de, xnli_en, xnli_sw seem to hold the"
        " scores of a task in one language each; write one row per score, with the columns model,"
        " task and score: languages are taken from the names of tasks"
    )
    followed = wide.melt("model", var_name="task", value_name="score")
    assert load(followed).content_hash == load(table.drop(columns="language")).content_hash
