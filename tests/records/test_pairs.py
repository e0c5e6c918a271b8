"""Common pairs: any, shared, or a table of them."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from bayeseval.errors import InputError
from bayeseval.records import Records, choose_pairs, pairs_hash


def table() -> Records:
    rows = [
        ("A", "en", "qa"),
        ("A", "en", "nli"),
        ("A", "de", "qa"),
        ("B", "en", "qa"),
        ("B", "en", "nli"),
        ("B", "sw", "nli"),
    ]
    frame = pd.DataFrame(rows, columns=["model", "language", "task"])
    return Records.from_frame(frame.assign(score=range(10, 16)), name="small")


def labels(records: Records, source: object) -> list[tuple[str, str]]:
    found = choose_pairs(records, source)  # type: ignore[arg-type]
    languages, tasks = records.coords["language"], records.coords["task"]
    return [(languages[i], tasks[j]) for i, j in zip(found.language, found.task, strict=True)]


def test_any_and_shared_pairs() -> None:
    records = table()
    assert labels(records, "any") == [("de", "qa"), ("en", "nli"), ("en", "qa"), ("sw", "nli")]
    assert labels(records, "shared") == [("en", "nli"), ("en", "qa")]


def test_pairs_from_a_file_need_not_have_been_tested_and_count_once(tmp_path: Path) -> None:
    path = tmp_path / "pairs.csv"
    path.write_text("task,language\nnli,de\nqa,en\nqa,en\n", encoding="utf-8")
    assert labels(table(), path) == [("de", "nli"), ("en", "qa")]
    assert labels(table(), str(path)) == [("de", "nli"), ("en", "qa")]
    assert choose_pairs(table(), path).name == str(path)


def test_languages_by_name_and_by_another_code() -> None:
    pairs = pd.DataFrame(
        {"language": ["German", "de", "eng_Latn", "SWAHILI"], "task": ["qa", "nli", "qa", "nli"]}
    )
    assert labels(table(), pairs) == [("de", "nli"), ("de", "qa"), ("en", "qa"), ("sw", "nli")]


def test_names_that_the_user_gave_are_known_and_one_of_two_languages_is_not_taken() -> None:
    rows = [("A", "xa", "qa"), ("B", "zh_Hans", "qa"), ("A", "zh_Hant", "qa")]
    frame = pd.DataFrame(rows, columns=["model", "language", "task"]).assign(score=[1.0, 2.0, 3.0])
    records = Records.from_frame(frame, name="own", language_names={"xa": "Xanaduan"})
    named = pd.DataFrame({"language": ["xanaduan"], "task": ["qa"]})
    assert labels(records, named) == [("xa", "qa")]
    # Both scripts are Chinese, the plain name means the first.
    chinese = pd.DataFrame({"language": ["Chinese (Traditional)", "Chinese"], "task": ["qa", "qa"]})
    assert labels(records, chinese) == [("zh_Hans", "qa"), ("zh_Hant", "qa")]


def test_pairs_are_the_same_by_what_they_hold_not_by_name(tmp_path: Path) -> None:
    records = table()

    def known(source: object) -> str:
        return pairs_hash(records, choose_pairs(records, source))  # type: ignore[arg-type]

    first, second = tmp_path / "a.csv", tmp_path / "b.csv"
    first.write_text("task,language\nqa,en\nnli,en\n", encoding="utf-8")
    second.write_text("language,task\nen,nli\nen,qa\n", encoding="utf-8")
    assert known(first) == known(second) == known("shared")
    assert known("any") != known("shared")
    # The same file name, other pairs.
    before = known(first)
    first.write_text("task,language\nqa,en\nnli,de\n", encoding="utf-8")
    assert known(first) != before


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("language\nde\n", "no column 'task'"),
        ("language,task\nen,qa\nfr,qa\n", "line 3, column 'language': no language 'fr' in small"),
        ("language,task\nFrench,qa\n", "line 2, column 'language': no language 'French' in small"),
        ("language,task\nGermann,qa\n", "no language 'Germann' in small; .* 'German'"),
        ("language,task\nen,qaa\n", "line 2, column 'task': no task 'qaa' in small.*'qa'"),
    ],
)
def test_what_is_wrong_in_a_file_is_said_with_its_place(
    tmp_path: Path, text: str, message: str
) -> None:
    path = tmp_path / "pairs.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=message) as error:
        choose_pairs(table(), path)
    assert "\n" not in str(error.value)


def test_neither_a_choice_nor_a_file() -> None:
    with pytest.raises(InputError, match="did you mean 'shared'"):
        choose_pairs(table(), "sharde")


def test_without_a_shared_pair_the_way_out_is_named() -> None:
    rows = [("A", "en", "qa"), ("B", "de", "qa")]
    frame = pd.DataFrame(rows, columns=["model", "language", "task"]).assign(score=[1.0, 2.0])
    with pytest.raises(InputError, match=r"use pairs='any'$"):
        choose_pairs(Records.from_frame(frame, name="apart"), "shared")
