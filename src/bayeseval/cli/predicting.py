"""`bayeseval predict`: scores of any cells, measured or not."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from bayeseval import names
from bayeseval.cli._shared import DATA, EXIT_GATE_FAILED, OUTPUT, CiProb, Quiet, echo, echo_place
from bayeseval.cli._targets import refuse_results, resolved
from bayeseval.errors import InputError

__all__ = ["predict"]


def predict(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Result folder of a fit.")],
    cells: Annotated[
        Path,
        typer.Argument(
            metavar="CELLS",
            help="File with the columns model, language and task; n, se and seeds of a new "
            "measurement are optional.",
        ),
    ],
    new: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FACTOR",
            help="language, task or model: allow labels that the table of the fit lacks; "
            "repeatable.",
            rich_help_panel=DATA,
        ),
    ] = None,
    covariate: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Covariates of new languages and models.",
            show_default="that of the fit",
            rich_help_panel=DATA,
        ),
    ] = None,
    ci_prob: CiProb = names.CI_PROB,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write the table as CSV.",
            show_default="print only",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    draws: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write all draws as netCDF.",
            show_default="none",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Predict scores of any model on any language and task, measured or not."""
    from xarray import DataTree

    from bayeseval._progress import progress_bar
    from bayeseval.fitting.predictions import prepare_predictions
    from bayeseval.fitting.report import run_title
    from bayeseval.fitting.report.predictions import format_predictions
    from bayeseval.fitting.run import Fit
    from bayeseval.output.numbers import score_unit
    from bayeseval.output.store import replace_file, write_csv, write_tree

    _check_targets(folder, cells, [path for path in (out, draws) if path is not None])
    fitted = Fit.open(folder)
    ready = prepare_predictions(fitted.data, fitted.run, cells, new=new or (), covariate=covariate)
    with progress_bar(f"Predictions of {folder}", quiet=quiet) as progress:
        table, drawn = ready.predict(ci_prob=ci_prob, draws=draws is not None, progress=progress)
    if out is not None:
        shared = {name: table.attrs[name] for name in ("ci_kind", "ci_prob", "gate")}
        replace_file(partial(write_csv, table.assign(**shared)), out)
    if draws is not None:
        replace_file(partial(write_tree, DataTree(drawn)), draws)
    unit = score_unit(fitted.run.get("bounds"))
    echo(format_predictions(table, run_title(fitted.run), table.attrs["notes"], unit=unit))
    if out is not None:
        echo_place("\nPredictions", out)
    if draws is not None:
        echo_place("Draws", draws)
    if fitted.gate.status == "fail":
        raise typer.Exit(EXIT_GATE_FAILED)


def _check_targets(folder: Path, cells: Path, targets: Sequence[Path]) -> None:
    """Refuse to write over what is read or is part of results, or twice to one file."""
    places = [resolved(path) for path in targets]
    for path, place in zip(targets, places, strict=True):
        if place == resolved(cells):
            raise InputError(f"{path}: the cells are read from this file; write to another one")
        refuse_results(folder, path)
        if place.exists() and place.is_relative_to(resolved(folder)):
            raise InputError(f"{path} is part of the results in {folder}; write to another file")
    if len(set(places)) < len(places):
        raise InputError(f"{targets[0]}: the table and the draws need a file each; name two")
