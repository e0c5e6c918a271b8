"""`bayeseval compare`: models of one table by what they predict."""

from __future__ import annotations

from typing import Annotated

import typer

from bayeseval.cli._shared import (
    COMPARISON,
    EXIT_GATE_FAILED,
    MODEL,
    SAMPLING,
    CommonPairs,
    CovariateFile,
    Engine,
    FigureFormat,
    Force,
    Jobs,
    LeftOut,
    NoFigures,
    Out,
    Quiet,
    Reading,
    Seed,
    complete_models,
    echo,
    echo_place,
    parse_names,
    with_reading,
)

__all__ = ["compare"]


@with_reading()
def compare(
    reading: Reading,
    models: Annotated[
        str,
        typer.Option(
            metavar="A,B,...",
            help="Shipped models, auto or spec files, separated by commas.",
            autocompletion=complete_models,
            rich_help_panel=MODEL,
        ),
    ],
    by: Annotated[
        LeftOut,
        typer.Option(
            metavar="WHAT",
            help="What to leave out each time: record (one score), or all scores of a language, "
            "task or model.",
            rich_help_panel=COMPARISON,
        ),
    ] = "record",
    covariate: CovariateFile = None,
    pairs: CommonPairs = "any",
    engine: Engine = "auto",
    seed: Seed = 0,
    refits: Annotated[
        int,
        typer.Option(
            metavar="N",
            help="Maximum number of refits per model, where left-out scores have no closed form.",
            rich_help_panel=SAMPLING,
        ),
    ] = 20,
    jobs: Jobs = None,
    no_figures: NoFigures = False,
    figure_format: FigureFormat = "png",
    out: Out = None,
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Compare models by how well they predict left-out scores."""
    from bayeseval._progress import progress_bar
    from bayeseval.comparison import find_fits, prepare_comparison
    from bayeseval.output.store import check_target

    prepared = prepare_comparison(
        reading.load(quiet=quiet),
        parse_names(models),
        by=by,
        engine=engine,
        seed=seed,
        pairs=pairs,
        covariate=covariate,
        refits=refits,
    )
    folder = out or prepared.default_folder
    check_target(folder, prepared.identity, force=force)
    with progress_bar("", quiet=quiet) as progress:
        comparison = prepared.run(ready=find_fits(prepared.fits), jobs=jobs, progress=progress)
    # Printed before it is saved: an error of writing the folder does not lose the results.
    echo(str(comparison))
    comparison.save(folder, figures=False if no_figures else figure_format, force=force)
    echo_place("\nResults", folder)
    if any(one.gate.status == "fail" for one in comparison.fits.values()):
        raise typer.Exit(EXIT_GATE_FAILED)
