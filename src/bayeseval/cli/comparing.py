"""`bayeseval compare`: models of one table by what they predict."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bayeseval.cli._shared import (
    COMPARISON,
    EXIT_GATE_FAILED,
    MODEL,
    OUTPUT,
    SAMPLING,
    Columns,
    CommonPairs,
    Engine,
    FigureFormat,
    Force,
    Format,
    LeftOut,
    Mapping,
    Metric,
    NoFigures,
    Quiet,
    Reading,
    Seed,
    Source,
    TaskNames,
    complete_models,
    words,
)

__all__ = ["compare"]


def compare(
    benchmark: Source,
    models: Annotated[
        str,
        typer.Option(
            metavar="A,B,...",
            help="Shipped models, auto or spec files, with commas between them.",
            autocompletion=complete_models,
            rich_help_panel=MODEL,
        ),
    ],
    by: Annotated[
        LeftOut,
        typer.Option(
            metavar="WHAT",
            help="What to leave out at a time: record (one score), or all scores of a language, "
            "task or model.",
            rich_help_panel=COMPARISON,
        ),
    ] = "record",
    pairs: CommonPairs = "any",
    engine: Engine = "auto",
    seed: Seed = 0,
    refits: Annotated[
        int,
        typer.Option(
            metavar="N",
            help="Refits per model at most, where left-out scores have no closed form.",
            rich_help_panel=SAMPLING,
        ),
    ] = 20,
    jobs: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Fits to run in parallel.",
            show_default="one per core; NUTS: one per four",
            rich_help_panel=SAMPLING,
        ),
    ] = None,
    no_figures: NoFigures = False,
    figure_format: FigureFormat = "png",
    columns: Columns = None,
    mapping: Mapping = None,
    metric: Metric = None,
    task_names: TaskNames = None,
    format: Format = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Result folder.",
            show_default="in results/BENCHMARK/",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Compare models by how well they predict left-out scores."""
    from bayeseval._progress import progress_bar
    from bayeseval.comparison import find_fits, prepare_comparison
    from bayeseval.output.store import check_target

    reading = Reading(benchmark, columns, mapping, metric, task_names, format)
    prepared = prepare_comparison(
        reading.load(quiet=quiet),
        words(models),
        by=by,
        engine=engine,
        seed=seed,
        pairs=pairs,
        refits=refits,
    )
    folder = out or prepared.default_folder
    check_target(folder, prepared.identity, force=force)
    with progress_bar("", quiet=quiet) as progress:
        found = prepared.run(ready=find_fits(prepared.fits), jobs=jobs, progress=progress)
    # Said before it is saved: a folder that cannot be written by now does not cost the answer.
    typer.echo(str(found))
    found.save(folder, figures=False if no_figures else figure_format, force=force)
    typer.echo(f"\nResults: {folder}")
    if any(one.gate.status == "fail" for one in found.fits.values()):
        raise typer.Exit(EXIT_GATE_FAILED)
