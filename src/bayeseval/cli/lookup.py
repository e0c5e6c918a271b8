"""`bayeseval validate` and `bayeseval list`: what is read of a table, and what is shipped."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bayeseval._text import one_line
from bayeseval.cli._shared import (
    EXIT_BAD_INPUT,
    OUTPUT,
    Listing,
    Reading,
    complete_benchmarks,
    echo,
    echo_place,
    with_reading,
)

if TYPE_CHECKING:
    from bayeseval.readers import UnknownTasksError

__all__ = ["list_", "validate"]


Tables = Annotated[
    list[str],
    typer.Argument(
        metavar="PATH|NAME",
        help="File, folder or shipped benchmark; or several.",
        autocompletion=complete_benchmarks,
    ),
]


@with_reading(benchmark=Tables)
def validate(
    reading: Reading,
    save_records: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write the table, one row per score, to a .csv or .parquet file.",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    propose_task_names: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Propose a CSV file for --task-names, for task names without a known language.",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
) -> None:
    """Show what is read from a table, what is dropped, and whether it can be fitted.

    The last line is "Ready to fit: yes" (exit code 0) or "no, because ..." (exit code 2).
    """
    from bayeseval.design import Readiness, check_ready
    from bayeseval.readers import UnknownTasksError
    from bayeseval.records import TableError, describe, format_description, format_refused
    from bayeseval.spec import AUTO

    try:
        records = reading.load()
    except UnknownTasksError as unknown:
        if propose_task_names is None:
            raise
        echo(_propose(unknown, propose_task_names, own=reading.task_names))
        raise typer.Exit(EXIT_BAD_INPUT) from unknown
    except TableError as refused:
        echo(f"{format_refused(refused)}\n\n{one_line(Readiness(AUTO, str(refused)))}")
        raise typer.Exit(EXIT_BAD_INPUT) from refused
    ready = check_ready(records)
    echo(format_description(describe(records), ready.warnings))
    if save_records is not None:
        records.save_table(save_records)
        echo_place("\nTable", save_records)
    echo(f"\n{one_line(ready)}")
    if not ready.is_ready:
        raise typer.Exit(EXIT_BAD_INPUT)


def _propose(unknown: UnknownTasksError, path: Path, *, own: Path | None) -> str:
    """Write the proposed table, behind the user's own lines, and say what to check."""
    from functools import partial

    from bayeseval._text import counted
    from bayeseval.errors import InputError
    from bayeseval.output.store import replace_file, write_text
    from bayeseval.readers import proposed_table

    if path.exists():
        raise InputError(
            f"{path}: the file exists, and may hold lines that you have edited; give another name"
            " for --propose-task-names, or remove it"
        )
    replace_file(partial(write_text, proposed_table(unknown.proposals, own)), path)
    lost = [line for line in unknown.proposals if line.leaves_out]
    named = sum(len(line.tasks) for line in unknown.proposals if not line.leaves_out)
    n_lost = sum(len(line.tasks) for line in lost)
    return (
        f"Proposed: {path}, {counted(len(unknown.proposals), 'line')}. They give"
        f" {counted(named, 'task')} a language"
        + (
            f" and leave out {counted(n_lost, 'task')} without one in the name; give those a"
            " language where they have one."
            if n_lost
            else "."
        )
        + "\n\n"
        "Ready to fit: no, because task names have no known language; check the file, and pass"
        f" --task-names {path}"
    )


def list_(
    what: Annotated[Listing, typer.Argument(metavar="benchmarks|models", help="What to list.")],
) -> None:
    """List the shipped benchmarks or models."""
    from bayeseval.fitting.report.terminal import format_listing
    from bayeseval.records import list_benchmarks
    from bayeseval.spec import AUTO, AUTO_SUMMARY, list_models

    models = {AUTO: AUTO_SUMMARY, **list_models()}
    echo(format_listing(models if what == "models" else list_benchmarks()))
