"""Results of evaluation tools on the command line."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from bayeseval.cli import main
from bayeseval.cli._shared import Reading
from bayeseval.records import load

RUNS = Path(__file__).parent / "fixtures" / "readers" / "lm_eval" / "v0.4.13"


def test_validate_shows_the_guess_and_saves_the_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = tmp_path / "table.csv"
    assert (
        main(["validate", str(RUNS), "--metric", "xnli=acc_norm", "--save-records", str(table)])
        == 0
    )
    out = capsys.readouterr().out
    for phrase in (
        "lm-evaluation-harness results (2 files)",
        "choose another with --metric",
        str(table),
    ):
        assert phrase in out
    # Files of a tool have none of our columns.
    assert "columns: " not in out
    assert load(table).content_hash == load(RUNS, metric={"xnli": "acc_norm"}).content_hash


@pytest.mark.parametrize(
    ("options", "phrase"),
    [
        (["--metric", "accc"], "did you mean 'acc'?"),
        (["--metric", "acc", "--metric", "acc_norm"], "--metric is given twice for all datasets"),
        (["--metric", "xnli="], "--metric takes METRIC or DATASET=METRIC"),
        (["--format", "lm_eval"], "did you mean 'lm-eval'?"),
        (["--format", "mteb"], "the folder holds no MTEB results"),
        (["--task-names", "nowhere.csv"], "nowhere.csv: cannot be read"),
        (["--save-records", "table.txt"], "tables are written to .csv or .parquet"),
    ],
)
def test_wrong_options_are_one_line(
    options: list[str], phrase: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["validate", str(RUNS), *options]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert phrase in lines[0]


def test_how_a_table_was_read_is_told_as_a_shell_takes_it() -> None:
    one = Reading(["a"], None, None, None, None, None)
    assert one.options == ""
    reading = Reading(
        ["a", "b c.csv"],
        ["score=F1", "seed="],
        Path("m.yaml"),
        ["xnli=em"],
        Path("names.csv"),
        "table",
    )
    assert shlex.split(reading.options) == [
        *("--benchmark", "b c.csv", "--columns", "score=F1", "--columns", "seed="),
        *("--metric", "xnli=em", "--mapping", "m.yaml", "--format", "table"),
        *("--task-names", "names.csv"),
    ]
