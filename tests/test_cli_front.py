"""The front door of the command line: help, version, completion, figure formats."""

from __future__ import annotations

import gc
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import typer

import bayeseval
from bayeseval.cli import app, main
from tests.test_cli import SMALL, one_line

COMMANDS = (
    *(
        "fit",
        "validate",
        "list",
        "compare",
        "sensitivity",
        "calibrate",
        "predict",
        "forecast",
        "plan",
        "next",
        "report",
        "cite",
        "mexa",
    ),
)


def module(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """`python -m bayeseval ARGUMENTS` as a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "bayeseval", *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
    )


def test_the_module_and_the_version() -> None:
    done = module("--version")
    assert (done.returncode, done.stdout, done.stderr) == (
        0,
        f"bayeseval {bayeseval.__version__}\n",
        "",
    )


@pytest.mark.parametrize("arguments", [[], ["--help"], ["-h"]])
def test_without_a_command_the_help_is_shown(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    assert "Usage: bayeseval [OPTIONS] COMMAND" in captured.out
    for command in COMMANDS:
        assert re.search(rf"│ {command} ", captured.out)


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("command", COMMANDS)
def test_help_is_not_clipped(
    command: str, width: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    assert main([command, "--help"]) == 0
    out = capsys.readouterr().out
    assert "…" not in out
    # What a parameter takes is named, as FILE is, and no type of Python such as <list[str]>.
    assert "<" not in out
    assert max(map(len, out.splitlines())) <= width
    for option in typer.main.get_command(app).commands[command].params:  # type: ignore[attr-defined]
        if option.param_type_name == "option":
            # On one line: the name, and what it takes where the text says it.
            line = next(text for text in out.splitlines() if f" {option.opts[0]} " in text)
            assert option.metavar is None or option.metavar in line


def test_commands_that_read_a_table_take_the_same_options() -> None:
    reading = {"columns", "mapping", "metric", "task_names", "format"}
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    with_reading = {
        name for name, command in commands.items() if reading <= {p.name for p in command.params}
    }
    assert with_reading == {"fit", "compare", "sensitivity", "calibrate", "validate"}
    required = {name: commands[name].params[0] for name in with_reading}
    assert {p.name for p in required.values()} == {"benchmark"}
    kinds = {name: p.param_type_name for name, p in required.items()}
    assert kinds == dict.fromkeys(("fit", "compare", "sensitivity", "calibrate"), "option") | {
        "validate": "argument"
    }
    assert all("reading" not in {p.name for p in one.params} for one in commands.values())


def test_options_stand_in_panels_by_topic(capsys: pytest.CaptureFixture[str]) -> None:
    main(["fit", "--help"])
    panels = re.findall(r"╭─ (.+?) ─", capsys.readouterr().out)
    assert panels == ["Options", "Data", "Model", "Sampling", "Comparison of models", "Output"]


def complete(line: str) -> list[str]:
    """What bash is told when TAB is pressed at the end of a line."""
    words = line.split(" ")
    done = module(
        COMP_WORDS=line,
        COMP_CWORD=str(len(words) - 1),
        _BAYESEVAL_COMPLETE="complete_bash",
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.mark.parametrize(
    ("line", "completed"),
    [
        ("bayeseval co", ["compare"]),
        ("bayeseval fit --benchmark me", ["mega"]),
        ("bayeseval validate xq", ["xquad"]),
        ("bayeseval fit --model cr", ["crossed"]),
        ("bayeseval compare --models additive,in", ["additive,interaction"]),
        ("bayeseval fit --model nothing", []),
    ],
)
def test_names_of_what_is_shipped_complete(line: str, completed: list[str]) -> None:
    assert complete(line) == completed


def test_completion_can_be_shown_and_installed(tmp_path: Path) -> None:
    pytest.importorskip("shellingham")
    shell = {"HOME": str(tmp_path), "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    shown = module("--show-completion", "bash", **shell)
    assert shown.returncode == 0
    assert "complete -o default -F _bayeseval_completion bayeseval" in shown.stdout
    installed = module("--install-completion", "bash", **shell)
    assert installed.returncode == 0
    script = tmp_path / ".bash_completions" / "bayeseval.sh"
    assert script.read_text(encoding="utf-8").strip() == shown.stdout.strip()


HEADS = {".png": b"\x89PNG", ".pdf": b"%PDF", ".svg": b"<?xml"}


def figures(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (folder / "figures").iterdir()}


def test_figures_are_written_in_every_format_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    table = tmp_path / "small.csv"
    table.write_text(SMALL, encoding="utf-8")
    run = ["fit", "--benchmark", str(table), "--model", "additive", "--draws", "200", "--quiet"]
    folder = tmp_path / "r"
    assert main([*run, "--out", str(folder), "--figure-format", "pdf,svg"]) == 0
    first = figures(folder)
    assert {"potential.pdf", "potential.svg", "checks.pdf", "checks.svg"} <= set(first)
    assert {Path(name).suffix for name in first} == {".pdf", ".svg"}
    for name, content in first.items():
        assert content.startswith(HEADS[Path(name).suffix]), name
    # Text of a PDF can be searched and is taken by journals: no Type 3 fonts.
    assert b"/Type3" not in first["potential.pdf"]
    # What is added to a folder replaces its own earlier figure only.
    assert main(["plan", str(folder)]) == 0
    assert {name for name in figures(folder) if name.startswith("plan")} == {"plan.png"}
    assert main(["plan", str(folder), "--figure-format", "svg"]) == 0
    assert {name for name in figures(folder) if name.startswith("plan")} == {"plan.svg"}
    assert set(first) < set(figures(folder))
    assert capsys.readouterr().err == ""


def test_an_unknown_figure_format_is_refused_before_any_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["fit", "--benchmark", "mega", "--figure-format", "png,jpeg"]) == 2
    assert one_line(capsys.readouterr().err) == (
        "error: --figure-format: figure formats are png, pdf, svg, or several of them with commas "
        "between; got 'jpeg'\n"
    )
    assert list(tmp_path.iterdir()) == []


def test_an_interrupt_before_the_command_begins_is_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def building(*arguments: object, **settings: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("bayeseval.cli.app", building)
    assert main(["engines"]) == 130
    assert capsys.readouterr().err == "error: interrupted; nothing was saved\n"


def test_a_command_looks_for_circular_garbage_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def failing(*arguments: object, **settings: object) -> None:
        seen.append(gc.get_threshold())
        raise KeyboardInterrupt

    before = gc.get_threshold()
    monkeypatch.setattr("bayeseval.cli.app", failing)
    assert main(["list"]) == 130
    assert seen == [(50_000, *before[1:])]
    # Whoever calls it from Python has the same settings after it, whatever ended it.
    assert gc.get_threshold() == before
