"""Tables that may be read in two ways, and headers of three lines, are refused with what to do."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from bayeseval.errors import InputError, addressing_command_line
from bayeseval.records import load

ROWS = "language,task,accuracy,{}\nde,qa,51.2,1\nen,qa,62.5,2\nsw,qa,33.1,4\n"


@pytest.mark.parametrize("other", ["foo", "num_fewshot", "gpt"])
def test_a_metric_beside_an_unknown_column_is_scores_or_a_model(tmp_path: Path, other: str) -> None:
    """Two models 'accuracy' and 'foo' were read, without a question."""
    path = tmp_path / "t.csv"
    path.write_text(ROWS.format(other))
    with addressing_command_line(), pytest.raises(InputError) as caught:
        load(path)
    assert str(caught.value) == (
        f"{path}, line 1: 'accuracy' may be scores of one model, or models of their own beside "
        f"'{other}': it is named as metrics are; choose --format table for one row per score, or "
        "--format wide for a column per model"
    )
    with pytest.raises(InputError, match="'accuracy' may be scores of one model, or models"):
        load(pd.read_csv(path))
    assert load(path, format="wide").coords["model"] == ("accuracy", other)
    assert load(pd.read_csv(path), format="wide").coords["model"] == ("accuracy", other)
    with pytest.raises(InputError, match="no column for 'model'"):
        load(path, format="table")


def test_the_choice_of_a_row_per_score_reads_folders_as_models(tmp_path: Path) -> None:
    for k, model in enumerate(("A", "B")):
        (tmp_path / model).mkdir()
        text = ROWS.format("foo").replace("51.2", str(51.2 + k))
        (tmp_path / model / "t.csv").write_text(text)
    with pytest.raises(InputError, match="choose format='table' for one row per score"):
        load(tmp_path)
    records = load(tmp_path, format="table")
    assert records.coords["model"] == ("A", "B")
    assert records.scores.tolist() == [51.2, 62.5, 33.1, 52.2, 62.5, 33.1]


def test_several_metrics_are_no_models(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("language,f1,em\nde,51,40\nen,62,50\nsw,33,20\n")
    with pytest.raises(InputError, match="'f1', 'em' may be scores of .*: they are named as"):
        load(path)
    with pytest.raises(InputError, match="'f1', 'em' could each be the score column"):
        load(path, format="table")


def test_other_wide_tables_are_read_as_before(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("language,gpt,llama,Average\nde,51,40,45.5\nen,62,50,56\nsw,33,20,26.5\n")
    assert load(path).coords["model"] == ("gpt", "llama")


HEADERS = {
    "languages last": ",qa,,nli,\n,f1,em,f1,em\nmodel,de,en,de,en\n",
    "metrics last": ",qa,qa,nli,nli\n,de,de,en,en\nmodel,f1,em,f1,em\n",
    "languages first": "model,de,en,fr,it\n,qa,qa,nli,nli\n,f1,em,f1,em\n",
}


@pytest.mark.parametrize("name", HEADERS)
def test_a_header_of_three_lines_is_refused(tmp_path: Path, name: str) -> None:
    """Its second or third line was refused as a row without scores, or its columns as doubled."""
    path = tmp_path / "t.csv"
    path.write_text(HEADERS[name] + "a,1.5,2.5,3.5,4.5\nb,5.5,6.5,7.5,8.5\n")
    with pytest.raises(InputError) as caught:
        load(path)
    assert str(caught.value) == (
        f"{path}, line 1: the header has three lines or more, and two are read: one with the "
        "languages, one with the tasks above or below them; join the others into one, such as "
        "'qa:f1', or write one row per score with the columns model, language, task, metric and "
        "score"
    )


def test_a_header_of_two_lines_is_read(tmp_path: Path) -> None:
    """What the refusal proposes: tasks and metrics in one line."""
    path = tmp_path / "t.csv"
    path.write_text("model,qa:f1,,nli:em,\n,de,en,de,en\na,1.5,2.5,3.5,4.5\nb,5.5,6.5,7.5,8.5\n")
    assert load(path).coords["task"] == ("nli:em", "qa:f1")
