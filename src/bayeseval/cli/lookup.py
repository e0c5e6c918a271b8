"""`bayeseval validate` and `bayeseval list`: what is there and what is understood."""

from __future__ import annotations

from typing import Annotated

import typer

from bayeseval.cli._shared import Columns, Listing, Mapping, load_records

__all__ = ["list_", "validate"]


def validate(
    path: Annotated[str, typer.Argument(help="A file, a folder or a shipped benchmark's name.")],
    columns: Columns = None,
    mapping: Mapping = None,
) -> None:
    """Print what the loader understands of a table, and what it drops and why."""
    from bayeseval.records import describe, format_description

    typer.echo(format_description(describe(load_records(path, columns, mapping))))


def list_(what: Annotated[Listing, typer.Argument(help="What to list.")]) -> None:
    """List the shipped benchmarks or models."""
    from bayeseval.output import format_listing
    from bayeseval.records import list_benchmarks
    from bayeseval.spec import list_models

    typer.echo(format_listing(list_models() if what == "models" else list_benchmarks()))
