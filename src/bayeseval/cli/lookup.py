"""`bayeseval validate` and `bayeseval list`: what is read of a table, and what is shipped."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bayeseval._text import one_line
from bayeseval.cli._faults import drop_unwritable
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
    from collections.abc import Sequence

    from bayeseval.readers import Proposal

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
    from bayeseval.errors import BayesevalError
    from bayeseval.output.text import paragraph_width
    from bayeseval.readers import UnknownTasksError, propose
    from bayeseval.records import TableError, describe, format_description, format_refused
    from bayeseval.spec import AUTO

    try:
        records = reading.load()
    except BayesevalError as refused:
        proposals: Sequence[Proposal] = ()
        if isinstance(refused, UnknownTasksError):
            proposals = refused.proposals
        elif isinstance(refused, TableError):
            proposals = propose(refused.tasks)
        if propose_task_names is not None and proposals:
            echo(_propose(proposals, propose_task_names, own=reading.task_names))
            raise typer.Exit(EXIT_BAD_INPUT) from refused
        if isinstance(refused, TableError):
            echo(format_refused(refused, width=paragraph_width()))
            echo(f"\n{one_line(Readiness(AUTO, str(refused)))}")
            raise typer.Exit(EXIT_BAD_INPUT) from refused
        try:
            echo(one_line(Readiness(AUTO, "the table cannot be read")))
        except BrokenPipeError:
            # Nobody reads stdout, but the reason goes to stderr, as of every command.
            drop_unwritable()
        raise
    ready = check_ready(records)
    echo(format_description(describe(records), ready.warnings, width=paragraph_width()))
    if save_records is not None:
        records.save_table(save_records)
        echo_place("\nTable", save_records)
    if propose_task_names is not None:
        echo(f"\n{one_line(propose_task_names)} not written: every task has a language")
    echo(f"\n{one_line(ready)}")
    if not ready.is_ready:
        raise typer.Exit(EXIT_BAD_INPUT)


def _propose(proposals: Sequence[Proposal], path: Path, *, own: Path | None) -> str:
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
    replace_file(partial(write_text, proposed_table(proposals, own)), path)
    named = sum(len(line.tasks) for line in proposals if not line.leaves_out)
    n_lost = sum(len(line.tasks) for line in proposals if line.leaves_out)
    words = f"They give {counted(named, 'task')} a language"
    if not named:
        words = f"No name of {counted(n_lost, 'task')} contains a language; write it into each line"
    elif n_lost:
        words += (
            f" and leave out {counted(n_lost, 'task')} without one in the name; give those a"
            " language where they have one"
        )
    return (
        f"Proposed: {path}, {counted(len(proposals), 'line')}. {words}.\n\n"
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
