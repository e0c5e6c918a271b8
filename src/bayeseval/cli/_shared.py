"""What the commands share: exit codes, common options, and how their texts are read."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from bayeseval.errors import InputError

if TYPE_CHECKING:
    from bayeseval.records import Records

__all__ = [
    "EXIT_BAD_INPUT",
    "EXIT_GATE_FAILED",
    "EXIT_INTERRUPTED",
    "CiProb",
    "Columns",
    "CommonPairs",
    "Engine",
    "EngineName",
    "Force",
    "Format",
    "Grid",
    "LeftOut",
    "Listing",
    "Mapping",
    "Metric",
    "Model",
    "NoFigures",
    "Quiet",
    "Seed",
    "Source",
    "StoppedError",
    "TaskNames",
    "load_records",
    "metrics",
    "numbers",
    "pairs",
    "reading_options",
    "whole_numbers",
    "words",
]


class StoppedError(Exception):
    """Ctrl-C; its text says what was saved and where, and is empty where nothing was."""


EXIT_BAD_INPUT = 2
EXIT_GATE_FAILED = 3
EXIT_INTERRUPTED = 130

EngineName = Literal["auto", "numpyro", "pymc", "marginal", "ml"]
Listing = Literal["benchmarks", "models"]
LeftOut = Literal["record", "language", "task", "model"]
Source = Annotated[
    list[str],
    typer.Option(
        "--benchmark",
        "-b",
        help="A shipped benchmark's name, a file or a folder; repeated, they become one table.",
    ),
]
Seed = Annotated[int, typer.Option(help="The one seed; same seed, same numbers.")]
Model = Annotated[
    str,
    typer.Option(
        "--model",
        "-m",
        help="A shipped model's name or a spec file; auto: the fullest that the table identifies.",
        show_default="auto; paper with engine ml",
    ),
]
Engine = Annotated[EngineName, typer.Option(help="How to get to the posterior.")]
Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", help="No progress and no messages, only results.")
]
CiProb = Annotated[float, typer.Option(help="Probability of the equal-tailed intervals.")]
NoFigures = Annotated[bool, typer.Option("--no-figures", help="Leave out the figures.")]
Force = Annotated[bool, typer.Option("--force", help="Replace a folder that holds something else.")]
Columns = Annotated[
    list[str] | None,
    typer.Option(
        "--columns",
        metavar="OURS=THEIRS",
        help="Which column is which, e.g. score=F1; repeatable. seed= leaves a column out.",
    ),
]
CommonPairs = Annotated[
    str,
    typer.Option(
        metavar="any|shared|FILE",
        help="Language-task pairs that models are compared on: any that a model was tested "
        "on, those shared by two models, or a file with the columns language and task.",
    ),
]
Grid = Annotated[
    str | None,
    typer.Option(
        metavar="LIST", help="Numbers to try, as in 1,2,5 or 3-6.", show_default="around now"
    ),
]
Mapping = Annotated[
    Path | None,
    typer.Option("--mapping", help="A small YAML file with columns, units and language names."),
]


Format = Annotated[
    str | None,
    typer.Option(
        "--format",
        help="What the files are, where their content should not decide: table, lm-eval, ...",
    ),
]
Metric = Annotated[
    list[str] | None,
    typer.Option(
        "--metric",
        metavar="[DATASET=]METRIC",
        help="Which metric of a tool's results is the score; repeatable.",
    ),
]
TaskNames = Annotated[
    Path | None,
    typer.Option(
        "--task-names",
        metavar="FILE",
        help="CSV file task,dataset,language for names of tasks that are not known.",
    ),
]


def load_records(
    source: Sequence[str],
    columns: Sequence[str] | None,
    mapping: Path | None,
    *,
    format: str | None = None,
    metric: Sequence[str] | None = None,
    task_names: Path | None = None,
    quiet: bool = False,
) -> Records:
    """Records of what --benchmark and the options on reading it say."""
    from bayeseval._progress import progress_bar
    from bayeseval.records import load

    with progress_bar(quiet=quiet) as progress:
        return load(
            source,
            columns=pairs(columns or ()),
            mapping_file=mapping,
            format=format,
            metric=metrics(metric or ()),
            task_names=task_names,
            progress=progress,
        )


def reading_options(
    source: Sequence[str],
    columns: Sequence[str] | None,
    mapping: Path | None,
    *,
    format: str | None = None,
    metric: Sequence[str] | None = None,
    task_names: Path | None = None,
) -> str:
    """All that was given on reading the table but the first source, as a shell takes it."""
    words = [word for name in source[1:] for word in ("--benchmark", name)]
    words += [word for text in columns or () for word in ("--columns", text)]
    words += [word for text in metric or () for word in ("--metric", text)]
    for option, value in (
        ("--mapping", mapping),
        ("--format", format),
        ("--task-names", task_names),
    ):
        words += [] if value is None else [option, str(value)]
    return shlex.join(words)


def metrics(given: Sequence[str]) -> dict[str, str]:
    """Metrics given as METRIC (for all datasets) or DATASET=METRIC."""
    found: dict[str, str] = {}
    for text in given:
        dataset, equals, metric = text.rpartition("=")
        dataset = dataset if equals else "*"
        if not (dataset and metric):
            raise InputError(f"--metric takes METRIC or DATASET=METRIC, got {text!r}")
        if dataset in found:
            raise InputError(f"--metric is given twice for {dataset!r}")
        found[dataset] = metric
    return found


def pairs(columns: Sequence[str]) -> dict[str, str | None]:
    """Columns given as OURS=THEIRS; an empty right side leaves a column out."""
    found: dict[str, str | None] = {}
    for text in columns:
        ours, equals, theirs = text.partition("=")
        if not (ours and equals):
            raise InputError(f"--columns takes OURS=THEIRS, for example score=F1; got {text!r}")
        if ours in found:
            raise InputError(f"--columns names {ours!r} twice")
        found[ours] = theirs or None
    return found


def numbers(option: str, text: str | None) -> list[float] | None:
    """Numbers with commas between them; None stays None."""
    if text is None:
        return None
    try:
        return [float(part) for part in text.split(",")]
    except ValueError as error:
        raise InputError(
            f"{option} takes numbers with commas, as in 0.5,1,2; got {text!r}"
        ) from error


def words(text: str | None) -> list[str]:
    """Names with commas between them, without the blanks around; empty for None."""
    return [part.strip() for part in (text or "").split(",") if part.strip()]


def whole_numbers(option: str, text: str | None) -> list[int] | None:
    """Whole numbers with commas, and ranges such as 3-6; None stays None."""
    if text is None:
        return None
    values: list[int] = []
    try:
        for part in text.split(","):
            first, dash, last = part.partition("-")
            values += range(int(first), int(last) + 1) if dash else [int(first)]
    except ValueError as error:
        raise InputError(
            f"{option} takes whole numbers, as in 1,2,5 or 3-6; got {text!r}"
        ) from error
    return values
