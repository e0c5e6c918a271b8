"""`bayeseval validate` and `bayeseval list`: what is read of a table, and what is shipped."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bayeseval.cli._shared import (
    EXIT_BAD_INPUT,
    OUTPUT,
    Listing,
    Reading,
    complete_benchmarks,
    echo,
    with_reading,
)

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
) -> None:
    """Show what is read from a table, what is dropped, and whether it can be fitted.

    The last line is "Ready to fit: yes" (exit code 0) or "no, because ..." (exit code 2).
    """
    from bayeseval.design import Readiness, check_ready
    from bayeseval.records import TableError, describe, format_description, format_refused
    from bayeseval.spec import AUTO

    try:
        records = reading.load()
    except TableError as refused:
        echo(f"{format_refused(refused)}\n\n{Readiness(AUTO, str(refused))}")
        raise typer.Exit(EXIT_BAD_INPUT) from refused
    ready = check_ready(records)
    echo(format_description(describe(records), ready.warnings))
    if save_records is not None:
        records.save_table(save_records)
        echo(f"\nTable: {save_records}")
    echo(f"\n{ready}")
    if not ready.is_ready:
        raise typer.Exit(EXIT_BAD_INPUT)


def list_(
    what: Annotated[Listing, typer.Argument(metavar="benchmarks|models", help="What to list.")],
) -> None:
    """List the shipped benchmarks or models."""
    from bayeseval.fitting.report.terminal import format_listing
    from bayeseval.records import list_benchmarks
    from bayeseval.spec import AUTO, AUTO_SUMMARY, list_models

    models = {AUTO: AUTO_SUMMARY, **list_models()}
    echo(format_listing(models if what == "models" else list_benchmarks()))
