"""`bayeseval forecast`: languages without records."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bayeseval import names
from bayeseval.cli._shared import EXIT_GATE_FAILED, CiProb, NoFigures, Quiet, Seed, words

__all__ = ["forecast"]


def forecast(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A result folder of `fit`.")],
    languages: Annotated[
        str | None,
        typer.Option(
            metavar="CODES", help="Which languages to print, with commas.", show_default="all"
        ),
    ] = None,
    covariate: Annotated[
        Path | None,
        typer.Option(help="File of the covariate.", show_default="the one the fit was made with"),
    ] = None,
    seed: Seed = 0,
    ci_prob: CiProb = names.CI_PROB,
    no_check: Annotated[
        bool,
        typer.Option("--no-check", help="Do not leave out each language to see how it would do."),
    ] = False,
    no_figures: NoFigures = False,
    quiet: Quiet = False,
) -> None:
    """Forecast the potential of languages that have a covariate but no records."""
    from bayeseval._progress import progress_bar
    from bayeseval.fitting.run import Fit
    from bayeseval.forecasting.run import forecast as make_forecast
    from bayeseval.output.store import check_additions

    fitted = Fit.open(folder)
    check_additions(folder)
    with progress_bar(f"Forecasts of {folder}", quiet=quiet) as progress:
        found = make_forecast(
            fitted,
            covariate=covariate,
            languages=words(languages) or None,
            check=not no_check,
            seed=seed,
            ci_prob=ci_prob,
            progress=progress,
        )
    found.save(folder, figures=not no_figures)
    typer.echo(str(found))
    typer.echo(f"\nAll languages: {folder / 'tables' / 'forecast.csv'}")
    if fitted.gate.status == "fail":
        raise typer.Exit(EXIT_GATE_FAILED)
