"""The command line as a user meets it: exit codes, one-line errors, files."""

from __future__ import annotations

import importlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
import typer

import bayeseval
from bayeseval.cli import app, main
from bayeseval.cli._shared import StoppedError, renew_report
from bayeseval.errors import EngineError, InputError
from tests.records.broken_cases import CASES, BrokenCase

BROKEN = Path(__file__).parent / "fixtures" / "broken"

SMALL = """language,task,model,score
de,qa,A,61.0
de,qa,B,52.5
de,nli,A,70.0
de,nli,B,66.0
en,qa,A,75.5
en,qa,B,71.0
en,nli,A,80.0
en,nli,B,78.5
sw,qa,A,41.0
sw,qa,B,44.0
sw,nli,A,55.0
sw,nli,B,49.0
"""


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "small.csv"
    path.write_text(SMALL, encoding="utf-8")
    return path


def one_figure(*_: object, **__: object) -> dict[str, Callable[[Path], object]]:
    """A figure that takes no time to draw, in the place of all figures."""
    return {"figures/one.png": lambda path: path.write_bytes(b"a picture")}


def one_line(captured: str) -> str:
    assert captured.startswith("error: ")
    assert captured.count("\n") == 1
    return captured


def refused_line(captured: str) -> str:
    """The last line of what validate says of rows that no fit would take."""
    line = captured.splitlines()[-1]
    assert line.startswith("Ready to fit: no, because ")
    assert captured.startswith("Read ")
    return line


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case.file))
def test_a_broken_file_is_one_clear_line_and_exit_code_2(
    case: BrokenCase, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["validate", str(BROKEN / case.file)]) == 2
    captured = capsys.readouterr()
    # Rows that were read have a report; whatever cannot be read has a plain error.
    message = one_line(captured.err) if captured.err else refused_line(captured.out)
    if captured.err:
        assert captured.out == "Ready to fit: no, because the table cannot be read\n"
    for phrase in case.phrases:
        assert phrase in message
    # A fit refuses it in the same words.
    assert main(["fit", "--benchmark", str(BROKEN / case.file)]) == 2
    reason = one_line(capsys.readouterr().err).removeprefix("error: ").strip()
    assert message.strip().endswith(reason)


ROWS = "model,language,task,score\n"
PLACEHOLDERS = "".join(
    f"{m},{one},qa,{score}\n"
    for m, scores in (("A", (50.5, -1, 61.0)), ("B", (40.5, 33.0, -1)))
    for one, score in zip(("de", "en", "sw"), scores, strict=True)
)


@pytest.mark.parametrize(
    ("rows", "understood", "reason"),
    [
        (PLACEHOLDERS, "2 models: A 3, B 3", "it looks like a placeholder for a missing score"),
        (
            "A,de,qa,50\nA,de,qa,60\nB,en,qa,61\n",
            "2 models: A 2, B 1",
            "line 3: duplicate of line 2",
        ),
        ("A,de,qa,50\nA,en,qa,60\n", "2 languages: de 1, en 1", "only one model ('A')"),
        ("A,de,qa,50\nB,de,qa,60\n", "1 language: de 2", "only one language ('de')"),
        ("A,de,qa,50\nB,de,qa,inf\n", "Read 2 rows from", "line 3, column 'score'"),
    ],
)
def test_rows_that_are_no_table_have_a_report_and_the_reason_last(
    rows: str, understood: str, reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, saved = tmp_path / "t.csv", tmp_path / "saved.csv"
    path.write_text(ROWS + rows, encoding="utf-8")
    assert main(["validate", str(path), "--save-records", str(saved)]) == 2
    captured = capsys.readouterr()
    assert captured.err == ""
    assert understood in captured.out
    assert reason in refused_line(captured.out)
    assert captured.out.count(reason) == 1
    assert not saved.exists()


@pytest.mark.parametrize(
    ("arguments", "phrases"),
    [
        (["fit", "--benchmark", "mgea"], ("'mgea'", "did you mean 'mega'?")),
        (["fit", "--benchmark", "mega", "--model", "aditive"], ("did you mean 'additive'?",)),
        (["fit", "--benchmark", "mega", "--engine", "numpyr"], ("'numpyr'", "'numpyro'")),
        (
            ["fit", "--benchmark", "mega", "--ci-prob", "95"],
            ("error: --ci-prob must lie between 0.01 and 0.9999, got 95; 95 % is 0.95\n",),
        ),
        (
            ["fit", "--benchmark", "mega", "--ci-prob", "1e-320"],
            ("error: --ci-prob must lie between 0.01 and 0.9999, got 1e-320\n",),
        ),
        (
            ["fit", "--benchmark", "mega", "--draws", "0"],
            ("--draws must be at least 1, got 0",),
        ),
        (
            ["fit", "--benchmark", "mega", "--draws", "many"],
            ("error: --draws is 'many'; give a whole number, 1 or more. Try 'bayeseval fit -",),
        ),
        (
            ["fit", "--benchmark", "mega", "--seed=2.5"],
            ("error: --seed is '2.5'; give a whole number, 0 or more. Try",),
        ),
        (
            ["plan", "results", "--target-sd", "small"],
            ("error: --target-sd is 'small'; give a number. Try 'bayeseval plan --help'.",),
        ),
        (
            ["fit", "--benchmark", "mega", "--engine", "ml", "--draws", "10"],
            ("engine ml does not take draws",),
        ),
        (
            ["fit", "--benchmark", "mega", "--engine", "ml", "--model", "additive"],
            ("engine ml", "paper"),
        ),
        (
            ["fit", "--benchmark", "mega", "--engine", "numpiro"],
            ("'--engine': 'numpiro' is not one of 'auto', ", "; did you mean 'numpyro'? Try"),
        ),
        (
            ["report", "results", "--to", "lattex"],
            ("'lattex' is not one of", "'json'; did you mean 'latex'? Try 'bayeseval report -"),
        ),
        (["fit"], ("--benchmark", "Try 'bayeseval fit --help'.")),
        (["fit", "-b"], ("'-b' requires an argument. Try 'bayeseval fit --help'.",)),
        (["fit", "--modle", "mega"], ("--modle", "--model", "Try 'bayeseval fit --help'.")),
        (["fitt"], ("'fitt'", "did you mean 'fit'? Try 'bayeseval --help'.")),
        (["validate"], ("Missing argument", "Try 'bayeseval validate --help'.")),
        (["list"], ("'benchmarks|models'", "Try 'bayeseval list --help'.")),
        (["list", "model"], (": 'model' is not one of", "; did you mean 'models'? Try")),
        (["fit", "--benchmark", "mega", "--columns", "score"], ("OURS=THEIRS", "'score'")),
        (["validate", "no/such/file.csv"], ("no/such/file.csv",)),
    ],
)
def test_bad_usage_is_one_clear_line_and_exit_code_2(
    arguments: list[str],
    phrases: tuple[str, ...],
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    message = one_line(capsys.readouterr().err)
    for phrase in phrases:
        assert phrase in message
    # A word of pydantic, which checks the values of the options.
    assert "Value error" not in message
    assert list(tmp_path.iterdir()) == []


def test_validate_fits_the_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["validate", "mega"]) == 0
    assert 80 < max(map(len, capsys.readouterr().out.splitlines())) <= 100
    monkeypatch.setattr("bayeseval.output.text.terminal_width", lambda: 80)
    assert main(["validate", "mega"]) == 0
    levels = capsys.readouterr().out.partition("Levels")[2].partition("Observed share")[0]
    assert 60 < max(map(len, levels.splitlines())) <= 80


def test_validate_says_what_was_understood(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", "mega"]) == 0
    out = capsys.readouterr().out
    for fact in ("1364", "53", "15", "13", "216", "795"):
        assert fact in out


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["validate", "mega"], 0),
        (["list", "models"], 0),
        (["--help"], 0),
        (["fit", "--help"], 0),
        # An error goes to stderr, which is read to its end.
        (["validate", "no/such/file.csv"], 2),
    ],
)
def test_a_reader_that_goes_away_ends_a_command_quietly(arguments: list[str], code: int) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as closed:
        done = subprocess.run(
            [sys.executable, "-m", "bayeseval.cli", *arguments],
            stdout=closed,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == code
    assert done.stderr.count("\n") == (code == 2)
    assert "Broken" not in done.stderr


@pytest.mark.parametrize(("choice", "told"), [("drop", "it was dropped"), ("allow", "it was kept")])
def test_the_error_of_a_diverged_run_says_what_to_write(
    choice: str, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = str(BROKEN / "diverged_run.csv")
    assert main(["validate", table]) == 2
    message = refused_line(capsys.readouterr().out)
    line = f"diverged_runs: {choice}"
    assert f" with {line} in a --mapping file" in message
    assert "diverged_runs=" not in message
    (tmp_path / "choice.yaml").write_text(line, encoding="utf-8")
    # It is read now, but the two models have no language in common.
    assert main(["validate", table, "--mapping", str(tmp_path / "choice.yaml")]) == 2
    out = " ".join(capsys.readouterr().out.split())
    assert told in out
    # Of two groups of levels the smaller is told of.
    group = {"drop": "language en and model gpt", "allow": "language sw and model bloom"}[choice]
    assert f"Ready to fit: no, because {group} always occur together" in out


def test_help_says_what_happens_by_default(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    for command, default in (
        ("fit", "[default: (auto; paper with engine ml)]"),
        ("fit", "[default: (in results/, named after the data and the settings)]"),
        ("plan", "[default: (around the present number)]"),
        ("mexa", "[default: (in results/, named after the data and the settings)]"),
    ):
        assert main([command, "--help"]) == 0
        assert default in capsys.readouterr().out
    # Square brackets in a text are taken for a style, and swallowed.
    texts = [
        str(option.help)
        for command in typer.main.get_command(app).commands.values()  # type: ignore[attr-defined]
        for option in command.params
        if option.help
    ]
    assert len(texts) > 50
    assert [text for text in texts if "[" in text] == []


def test_lists_name_what_is_shipped(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "models"]) == 0
    models = capsys.readouterr().out
    for name in ("auto ", "additive", "interaction", "crossed", "robust", "by_task", "paper"):
        assert name in models
    assert main(["list", "benchmarks"]) == 0
    assert "mega" in capsys.readouterr().out


def test_fit_leaves_the_contract_s_folder_and_prints_results_on_stdout(
    small: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["fit", "--benchmark", str(small), "--draws", "300", "--chains", "2"])
    captured = capsys.readouterr()
    folder = Path("results/small/additive-marginal-seed0")
    assert code in (0, 3)
    assert "Models by expected score" in captured.out
    assert str(folder) in captured.out
    assert "sd_language" in captured.err
    assert "engine marginal (auto: all effects can be integrated out exactly)" in captured.err
    # 12 records of 6 cells of language and task.
    why = "model auto -> additive: main effects only; at least 7 degrees of freedom are left"
    assert why in captured.err
    assert why in captured.out
    assert (
        "language:task: 6 of 12 records repeat one of its 6 cells, and at least 10 are needed"
        in captured.err
    )
    assert "sds drawn by importance sampling: k-hat" in captured.out
    assert "log marginal likelihood -" in captured.out
    assert {p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()} >= {
        "posterior.nc",
        "run.json",
        "tables/language_potential.csv",
        "tables/model_disparity.csv",
        "tables/variance_components.csv",
        "tables/pairwise_models.csv",
        "tables/rank_probabilities.csv",
        "figures/potential.png",
    }
    potential = pd.read_csv(folder / "tables/language_potential.csv")
    assert sorted(potential["language"]) == ["de", "en", "sw"]
    assert potential["language"].iloc[0] == "en"
    run = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    assert run["settings"]["chains"] == 2
    assert run["engine"] == "marginal"
    assert run["engine_reason"] == "all effects can be integrated out exactly"
    assert run["spec"]["name"] == "additive"
    assert run["model_reasons"][0].startswith(why)
    assert run["sampling"]["path"] == "importance"
    assert run["sampling"]["k_hat"] <= 0.7
    assert 0.0 < run["sampling"]["log_marginal_likelihood_se"] < 1.0
    status = run["gate"]["status"]
    assert (status == "pass") == (code == 0)
    assert set(potential["gate"]) == {status}


def test_auto_takes_numpyro_when_its_settings_are_given(
    small: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["-m", "additive", "--draws", "20", "--tune", "20", "--chains", "2"]
    arguments += ["--no-figures"]
    assert main(["fit", "-b", str(small), *arguments]) in (0, 3)
    captured = capsys.readouterr()
    assert "engine numpyro (auto: tune is a setting of NUTS)" in captured.err
    # Nothing of the marginal engine's path.
    assert "sds drawn by" not in captured.out
    run = json.loads(Path("results/small/additive-numpyro-seed0/run.json").read_text("utf-8"))
    assert run["engine_reason"] == "tune is a setting of NUTS"
    assert run["sampling"] == {}


@pytest.mark.parametrize("folder", [".", " "])
@pytest.mark.parametrize("command", ["fit", "compare", "sensitivity", "calibrate", "mexa"])
def test_results_need_a_folder_of_their_own(
    command: str, folder: str, small: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    needed = {
        "fit": ["-b", str(small)],
        "compare": ["-b", str(small), "--models", "additive"],
        "sensitivity": ["-b", str(small)],
        "calibrate": ["--model", "additive"],
        "mexa": ["--model", "m", "--parallel", "p"],
    }
    assert main([command, *needed[command], "--out", folder]) == 2
    assert one_line(capsys.readouterr().err) == (
        "error: --out is blank or the current folder, which cannot be replaced as a whole; "
        "give the path of another folder, or leave the option out\n"
    )


@pytest.mark.parametrize("command", [["cite"], ["report"], ["fit", "--out"], ["validate"]])
def test_an_empty_argument_is_not_the_current_folder(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command, ""]) == 2
    assert one_line(capsys.readouterr().err) == (
        f"error: argument {len(command) + 1} (after '{command[-1]}') is empty, as one from a shell "
        "variable that is not set is; give a value, or leave it out\n"
    )


def test_another_run_is_not_overwritten_unless_forced(
    small: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    base = ["fit", "-b", str(small), "--engine", "ml", "--no-figures", "-q", "--out", "here"]
    assert main(base) == 0
    before = Path("here/run.json").read_text(encoding="utf-8")
    capsys.readouterr()
    assert main([*base, "--seed", "1"]) == 2
    message = one_line(capsys.readouterr().err)
    assert "seed 0" in message
    assert "seed 1" in message
    assert "--force" in message
    assert Path("here/run.json").read_text(encoding="utf-8") == before
    assert main([*base, "--seed", "1", "--force"]) == 0
    assert json.loads(Path("here/run.json").read_text(encoding="utf-8"))["seed"] == 1


def test_files_of_an_earlier_run_that_go_are_named(
    small: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    base = ["fit", "-b", str(small), "--engine", "ml", "-q", "--out", "here", "--no-report"]
    assert main([*base, "--no-figures"]) == 0
    before = {path.as_posix() for path in Path("here").rglob("*") if path.is_file()}
    run = json.loads(Path("here/run.json").read_text(encoding="utf-8"))
    assert len(run["files"]) == len(before)
    assert capsys.readouterr().err == ""
    assert main([*base, "--no-figures"]) == 0
    assert capsys.readouterr().err == ""
    assert main([*base, "--no-figures", "--no-checks"]) == 0
    message = capsys.readouterr().err
    after = {path.as_posix() for path in Path("here").rglob("*") if path.is_file()}
    gone = sorted(path.removeprefix("here/") for path in before - after)
    assert "tables/checks.csv" in gone
    assert message == (
        f"removed: {len(gone)} files of the earlier result in here that this run does not write "
        f"({', '.join(gone)})\n"
    )


def test_other_pairs_or_another_margin_are_another_run(
    small: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = small.read_text(encoding="utf-8")
    small.write_text(f"{table}sw,sum,A,30.0\nen,sum,A,70.0\n", encoding="utf-8")
    base = ["fit", "-b", str(small), "-m", "additive", "--no-figures", "--no-checks", "-q"]
    base += ["--draws", "20", "--engine", "marginal", "--out", "here"]
    Path("two.csv").write_text("language,task\nde,qa\nen,qa\n", encoding="utf-8")

    def ranking() -> list[float]:
        return list(pd.read_csv("here/tables/model_ranking.csv")["score_mean"])

    assert main([*base, "--pairs", "shared"]) in (0, 3)
    shared = ranking()
    for other, phrase in (
        (["--pairs", "any"], "pairs"),
        (["--pairs", "two.csv"], "pairs"),
        (["--pairs", "shared", "--margin", "3"], "margin default, this one has margin 3.0"),
    ):
        capsys.readouterr()
        assert main([*base, *other]) == 2
        message = one_line(capsys.readouterr().err)
        assert message.startswith(f"error: here holds a run with {phrase}")
        assert message.endswith("choose another folder (--out) or overwrite it with --force\n")
        assert ranking() == shared
    assert main([*base, "--pairs", "shared"]) in (0, 3)
    assert ranking() == shared
    assert main([*base, "--pairs", "two.csv", "--margin", "3", "--force"]) in (0, 3)
    run = json.loads(Path("here/run.json").read_text(encoding="utf-8"))
    assert (run["pairs"], run["margin"]) == ("two.csv", 3.0)
    assert ranking() != shared
    # The same file name with other pairs in it.
    again = [*base, "--pairs", "two.csv", "--margin", "3"]
    assert main(again) in (0, 3)
    Path("two.csv").write_text("language,task\nde,qa\nen,nli\n", encoding="utf-8")
    assert main(again) == 2
    # From Python too.
    fitted = bayeseval.fit(
        str(small), "additive", engine="marginal", draws=20, pairs="shared", margin=3.0
    )
    with pytest.raises(InputError, match="here holds a run with pairs"):
        fitted.save("here")


def test_quiet_leaves_stderr_empty(small: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fit", "-b", str(small), "--engine", "ml", "--no-figures", "-q"]) == 0
    assert capsys.readouterr().err == ""


def test_a_failed_gate_is_exit_code_3_and_said_everywhere(
    small: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # A warm-up of 20 was compiled for the test above.
    arguments = [
        "fit",
        "-b",
        str(small),
        "-m",
        "additive",
        "--draws",
        "5",
        "--tune",
        "20",
        "--chains",
        "2",
    ]
    assert main([*arguments, "--no-figures", "--out", "short"]) == 3
    captured = capsys.readouterr()
    assert "Convergence gate: FAILED; do not rely on the results below" in captured.out
    assert captured.out.endswith("\nConvergence gate: FAILED; do not rely on these results\n")
    (advice,) = re.findall(r"What to do: .*?\.(?=\n)", captured.out, re.DOTALL)
    assert " ".join(advice.split()).startswith("What to do: fit again with ")
    assert "retry" in captured.err
    assert set(pd.read_csv("short/tables/model_disparity.csv")["gate"]) == {"fail"}
    run = json.loads(Path("short/run.json").read_text(encoding="utf-8"))
    assert run["retried"] is True


@pytest.mark.parametrize(
    "command",
    [
        ["fit"],
        ["compare", "--models", "additive,interaction"],
        ["sensitivity", "--drop", "model"],
    ],
)
@pytest.mark.parametrize("place", ["taken/run", "/proc/run"])
def test_a_folder_that_cannot_be_written_is_found_before_sampling(
    place: str,
    command: list[str],
    small: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def sample(*_: object, **__: object) -> None:
        raise AssertionError("sampled before the folder was looked at")

    monkeypatch.setattr("bayeseval.fitting.prepared.load_engine", sample)
    Path("taken").write_text("a file")
    assert main([*command, "-b", str(small), "--out", place, "-q"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    (line,) = captured.err.splitlines()
    assert line.startswith(f"error: {place}")
    assert line.endswith("choose another folder (--out)")


def test_results_are_shown_and_saved_when_checks_or_figures_raise(
    small: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise EngineError("no closed form")

    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    arguments = ["fit", "-b", str(small), "--engine", "ml", "--out", "kept", "-q"]
    monkeypatch.setattr("bayeseval.checks.run_checks", fail)
    assert main(arguments) == 2
    failed = capsys.readouterr()
    monkeypatch.setattr("bayeseval.checks.run_checks", stop)
    assert main(arguments) == 130
    stopped = capsys.readouterr()
    saved = "the results are saved in kept, without checks and figures; in Python, fit = "
    assert failed.err.startswith(f"error: no closed form; {saved}")
    assert stopped.err.startswith(f"error: interrupted; {saved}")
    for captured in (failed, stopped):
        assert len(captured.err.splitlines()) == 1
        assert "Language potential" in captured.out
        assert "Results: kept" not in captured.out
    assert Path("kept/tables/language_potential.csv").is_file()
    again = bayeseval.Fit.open("kept")
    assert again.run["engine"] == "ml"


AT = {
    "sampling": ("bayeseval.fitting.prepared", "load_engine"),
    "writing": ("bayeseval.fitting.report.folder", "result_tables"),
    "checks": ("bayeseval.checks", "run_checks"),
    "figures": ("bayeseval.fitting.report.folder", "figure_writers"),
}


@pytest.mark.parametrize(
    ("phase", "options", "presses", "saved", "lacking"),
    [
        ("sampling", [], 1, False, ""),
        ("writing", [], 1, True, "checks and figures"),
        ("writing", ["--no-figures"], 1, True, "checks"),
        ("writing", ["--no-checks"], 1, True, "figures"),
        ("writing", ["--no-checks", "--no-figures"], 1, True, ""),
        # Pressed once, the checks come to their end; twice, it stops at once.
        ("checks", [], 1, True, "figures"),
        ("checks", ["--no-figures"], 1, True, ""),
        ("checks", [], 2, True, "checks and figures"),
        ("checks", ["--no-figures"], 2, True, "checks"),
        ("figures", [], 1, True, ""),
        ("figures", [], 2, True, "figures"),
        ("figures", ["--no-checks"], 2, True, "figures"),
    ],
)
def test_ctrl_c_says_what_is_there_in_every_phase(
    phase: str,
    options: list[str],
    presses: int,
    saved: bool,
    lacking: str,
    small: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("bayeseval.fitting.report.folder.figure_writers", one_figure)
    module = importlib.import_module(AT[phase][0])
    original = getattr(module, AT[phase][1])

    def pressed(*args: object, **kwargs: object) -> object:
        for _ in range(presses):
            signal.raise_signal(signal.SIGINT)
        return original(*args, **kwargs)

    monkeypatch.setattr(module, AT[phase][1], pressed)
    arguments = ["fit", "-b", str(small), "--engine", "ml", "--out", "kept", "-q", *options]
    assert main(arguments) == 130
    captured = capsys.readouterr()
    message = one_line(captured.err)
    assert Path("kept").exists() == saved
    assert ("Language potential" in captured.out) == saved
    if not saved:
        assert message == "error: interrupted; nothing was saved\n"
        return
    assert message.startswith("error: interrupted; the results are saved in kept")
    assert message.partition(", without ")[2].partition(";")[0] == lacking
    assert ("adds them" in message) == bool(lacking)
    assert bayeseval.Fit.open("kept").run["engine"] == "ml"
    there = {"checks": "kept/tables/checks.csv", "figures": "kept/figures/one.png"}
    asked = {"checks": "--no-checks" not in options, "figures": "--no-figures" not in options}
    for what, path in there.items():
        assert Path(path).is_file() == (asked[what] and what not in lacking), what


@pytest.mark.parametrize(
    ("module", "function", "written"),
    [
        ("bayeseval.reporting.page", "save_page", True),
        ("bayeseval.fitting.report.folder", "write_results", False),
    ],
)
def test_ctrl_c_at_the_report_says_that_the_results_are_saved(
    module: str,
    function: str,
    written: bool,
    small: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    original = getattr(importlib.import_module(module), function)

    def pressed(*args: object, **kwargs: object) -> object:
        made = original(*args, **kwargs)
        signal.raise_signal(signal.SIGINT)
        return made

    monkeypatch.setattr(f"{module}.{function}", pressed)
    arguments = ["fit", "-b", str(small), "--engine", "ml", "--out", "kept", "-q"]
    assert main([*arguments, "--no-figures", "--no-checks"]) == 130
    message = one_line(capsys.readouterr().err)
    assert message.startswith("error: interrupted; the results are saved in kept")
    assert ("bayeseval report kept writes it" in message) != written
    assert Path("kept/report.html").is_file() == written


def test_ctrl_c_when_nothing_can_be_told_leaves_the_earlier_results(
    small: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ["fit", "-b", str(small), "--engine", "ml", "--out", "kept", "-q"]
    arguments += ["--no-figures", "--no-checks"]
    assert main(arguments) == 0
    before = Path("kept/run.json").read_text(encoding="utf-8")
    module = importlib.import_module("bayeseval.fitting.prepared")
    original = module.load_engine

    def pressed(name: str) -> object:
        signal.raise_signal(signal.SIGINT)
        return original(name)

    monkeypatch.setattr(module, "load_engine", pressed)
    capsys.readouterr()
    assert main(arguments) == 130
    captured = capsys.readouterr()
    assert captured.err == "error: interrupted; nothing was saved\n"
    assert captured.out == ""
    assert Path("kept/run.json").read_text(encoding="utf-8") == before


@pytest.mark.parametrize("how", [signal.SIGINT])
def test_ctrl_c_is_exit_code_130_and_leaves_nothing(how: signal.Signals, small: Path) -> None:
    command = [sys.executable, "-m", "bayeseval.cli", "fit", "-b", str(small), "-m", "additive"]
    process = subprocess.Popen(
        [*command, "--draws", "200000", "--out", "never"],
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        text=True,
    )
    assert process.stderr is not None
    # The first words mean that the imports are done and the work has begun.
    first = process.stderr.readline()
    time.sleep(1.0)
    process.send_signal(how)
    _, rest = process.communicate(timeout=300)
    assert process.returncode == 130, first + rest
    assert rest.endswith("error: interrupted; nothing was saved\n")
    assert "Traceback" not in rest
    assert not Path("never").exists()
    assert [p.name for p in small.parent.iterdir()] == ["small.csv"]


def test_an_interrupt_of_the_report_says_that_the_tables_are_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    (tmp_path / "report.html").touch()
    monkeypatch.setattr("bayeseval.reporting.read_saved", stop)
    with pytest.raises(StoppedError, match=r"results are saved in .*, without the report; bayes"):
        renew_report(tmp_path)


def test_what_report_refuses_is_not_sent_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table that is damaged is so again; a page that cannot be written may be so later."""
    (tmp_path / "report.html").touch()
    with pytest.raises(InputError, match=r"; the results are saved in \S+, without the report$"):
        renew_report(tmp_path)
    reporting = "bayeseval.reporting"
    monkeypatch.setattr(f"{reporting}.read_saved", lambda folder: None)
    monkeypatch.setattr(f"{reporting}.page.render_page", lambda results: "")

    def full(*_: object) -> None:
        raise InputError("no space")

    monkeypatch.setattr(f"{reporting}.page.save_page", full)
    with pytest.raises(InputError, match=r"^no space; .*, without the report; bayeseval report"):
        renew_report(tmp_path)


def test_an_output_folder_behind_a_missing_one_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["fit", "--benchmark", "mega", "--out", "none/../result"]) == 2
    assert capsys.readouterr().err.endswith(
        "error: --out none/../result: none is no folder, so that .. after it leads nowhere; give "
        "the path without it\n"
    )
    assert not list(tmp_path.iterdir())
