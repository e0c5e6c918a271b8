"""`bayeseval report` and `bayeseval cite`: a result folder for readers."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from bayeseval._text import for_terminal
from bayeseval.cli._shared import EXIT_GATE_FAILED, OUTPUT, echo_place
from bayeseval.cli._targets import refuse_results
from bayeseval.errors import InputError

if TYPE_CHECKING:
    from bayeseval.reporting import SavedResults

__all__ = ["cite", "report"]

Folder = Annotated[
    Path,
    typer.Argument(metavar="DIR", help="Result folder of a fit, comparison or sensitivity."),
]
Out = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="Write to a file.", show_default="print", rich_help_panel=OUTPUT
    ),
]
PageOut = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Write to a file.",
        show_default="DIR/report.html; other formats print",
        rich_help_panel=OUTPUT,
    ),
]
ReportFormat = Literal["html", "latex", "typst", "markdown", "csv", "json"]


def report(
    folder: Folder,
    to: Annotated[
        ReportFormat | None,
        typer.Option(
            metavar="FORMAT",
            help="html: one page to look at and to send. latex, typst, markdown: tables for a "
            "paper. csv, json: a leaderboard; json is one record per line (JSON Lines).",
            show_default="html",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    out: PageOut = None,
    against: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="An older result: say what changed, and whether by more than the uncertainty. "
            "--to csv writes the differences as a table.",
            show_default="none",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    csv_safe: Annotated[
        bool,
        typer.Option(
            "--csv-safe",
            help="With --to csv: put an apostrophe before names that a spreadsheet would take for "
            "formulas.",
            rich_help_panel=OUTPUT,
        ),
    ] = False,
) -> None:
    """Show a result as a page, tables for a paper, a leaderboard, or what changed in it."""
    from bayeseval.reporting import read_saved
    from bayeseval.reporting.export import export
    from bayeseval.reporting.page import REPORT_FILE, write_page

    if csv_safe and to != "csv":
        raise InputError("--csv-safe is about CSV files: add --to csv, or leave it out")
    if against is not None:
        _write_changes(folder, against, to, out, csv_safe=csv_safe)
        return
    if to == "json" and out is not None and out.suffix == ".json":
        raise InputError(
            f"--to json writes one record per line: call the file {out.with_suffix('.jsonl').name}"
        )
    refuse_results(folder, out, page=to in (None, "html"))
    results = read_saved(folder)
    if to is None or to == "html":
        echo_place("Report", write_page(results, out or folder / REPORT_FILE))
    else:
        _write(export(results, to, csv_safe=csv_safe), out)
    _exit(results)


def _write_changes(
    folder: Path, against: Path, to: ReportFormat | None, out: Path | None, *, csv_safe: bool
) -> None:
    """What changed between two results, in text or as a table."""
    from bayeseval.output._files import csv_text
    from bayeseval.reporting import read_saved
    from bayeseval.reporting.changes import changes_between
    from bayeseval.reporting.observed import read_observed

    if to not in (None, "csv"):
        raise InputError(f"--against has no format {to}: leave --to out for text, or take --to csv")
    for one in (folder, against):
        refuse_results(one, out)
    new, old = read_saved(folder), read_saved(against)
    for results in (new, old):
        # Damage that a report of the folder would refuse.
        read_observed(results.path, results.run)
    changes = changes_between(new, old)
    _write(
        for_terminal(changes.text) if to is None else csv_text(changes.table, safe=csv_safe), out
    )
    _exit(new)


def cite(folder: Folder, out: Out = None) -> None:
    """Print BibTeX of exactly the methods and data that a result used."""
    from bayeseval.reporting.citations import cite as entries_of

    refuse_results(folder, out)
    _write(entries_of(folder), out)


def _write(text: str, out: Path | None) -> None:
    from bayeseval.output.store import replace_file, write_text
    from bayeseval.output.text import is_terminal

    if out is None:
        # A file that is made of it keeps every character of the names.
        typer.echo(for_terminal(text) if is_terminal() else text, nl=False)
        return
    replace_file(partial(write_text, text), out)
    echo_place("Written", out, err=True)


def _exit(results: SavedResults) -> None:
    """Exit code 3 where a fit of the result failed the convergence gate."""
    if results.gate_failed:
        raise typer.Exit(EXIT_GATE_FAILED)
