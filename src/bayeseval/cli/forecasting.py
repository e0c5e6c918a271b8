"""`bayeseval forecast`: languages without records."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bayeseval import names
from bayeseval._arguments import split_names
from bayeseval.cli._shared import (
    DATA,
    EXIT_GATE_FAILED,
    OUTPUT,
    SAMPLING,
    CiProb,
    Dask,
    FigureFormat,
    NoFigures,
    Quiet,
    Seed,
    echo,
    echo_place,
    renew_report,
)

__all__ = ["forecast"]


def forecast(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Result folder of a fit.")],
    covariate: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Covariate, by language.",
            show_default="that of the fit",
            rich_help_panel=DATA,
        ),
    ] = None,
    seed: Seed = 0,
    languages: Annotated[
        str | None,
        typer.Option(
            metavar="LIST",
            help="Languages to print: codes or English names, separated by commas.",
            show_default="all",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    ci_prob: CiProb = names.CI_PROB,
    no_check: Annotated[
        bool,
        typer.Option(
            "--no-check",
            help="Skip the forecasts of left-out languages that measure the error.",
            rich_help_panel=OUTPUT,
        ),
    ] = False,
    jobs: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Refits of this check to run in parallel.",
            show_default="1",
            rich_help_panel=SAMPLING,
        ),
    ] = None,
    dask: Dask = None,
    no_figures: NoFigures = False,
    figure_format: FigureFormat = "png",
    quiet: Quiet = False,
) -> None:
    """Forecast the potential of languages that have a covariate but no records."""
    from bayeseval._progress import progress_bar
    from bayeseval.fitting.run import Fit
    from bayeseval.forecasting.run import forecast as make_forecast
    from bayeseval.output.store import check_additions

    fitted = Fit.open(folder)
    check_additions(folder, "forecast")
    with progress_bar(f"Forecasts of {folder}", quiet=quiet) as progress:
        forecasts = make_forecast(
            fitted,
            covariate=covariate,
            languages=split_names(languages, name="--languages") or None,
            check=not no_check,
            seed=seed,
            ci_prob=ci_prob,
            jobs=jobs,
            dask=dask,
            progress=progress,
        )
    forecasts.save(folder, figures=False if no_figures else figure_format)
    echo(str(forecasts))
    echo_place("\nAll languages", folder / "tables" / "forecast.csv")
    renew_report(folder)
    if fitted.gate.status == "fail":
        raise typer.Exit(EXIT_GATE_FAILED)
