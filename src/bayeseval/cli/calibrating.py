"""`bayeseval calibrate`: simulated tables with known truth, fitted and compared."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from bayeseval.cli._keeping import keeping, naming_removed
from bayeseval.cli._shared import (
    DATA,
    OUTPUT,
    Chains,
    Dask,
    Draws,
    Engine,
    FigureFormat,
    Jobs,
    NoFigures,
    Out,
    Quiet,
    Reading,
    Seed,
    Tune,
    complete_benchmarks,
    complete_models,
    echo,
    echo_place,
    with_reading,
)
from bayeseval.errors import InputError

__all__ = ["calibrate"]

SIMULATION = "Simulation"

Like = Annotated[
    list[str] | None,
    typer.Option(
        "--like",
        metavar="NAME|PATH",
        help="Table whose cells, errors, items, replicates and prior scales the simulated tables "
        "have: shipped benchmark, file or folder.",
        show_default="8 languages, 4 tasks, 6 models",
        autocompletion=complete_benchmarks,
        rich_help_panel=DATA,
    ),
]


@with_reading(benchmark=Like, default=None)
def calibrate(
    reading: Reading,
    model: Annotated[
        str,
        typer.Option(
            "--model",
            "-m",
            metavar="NAME|FILE",
            help="Shipped model or spec file; auto needs --like.",
            autocompletion=complete_models,
            rich_help_panel=SIMULATION,
        ),
    ],
    simulations: Annotated[
        int,
        typer.Option(
            metavar="N",
            help="Tables to simulate and fit. More of them continue an earlier run.",
            rich_help_panel=SIMULATION,
        ),
    ] = 100,
    priors: Annotated[
        Literal["fixed", "scaled"],
        typer.Option(
            metavar="fixed|scaled",
            help="fixed: fits have the priors that truths are drawn from, which is exact. scaled: "
            "priors are scaled to each table, as in a fit to real scores.",
            rich_help_panel=SIMULATION,
        ),
    ] = "fixed",
    engine: Engine = "auto",
    draws: Draws = None,
    tune: Tune = None,
    chains: Chains = None,
    seed: Seed = 0,
    jobs: Jobs = None,
    dask: Dask = None,
    out: Out = None,
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            help="Replace any calibration in the folder and simulate again; without it the same "
            "calibration is continued, and another one refused.",
            rich_help_panel=OUTPUT,
        ),
    ] = False,
    no_figures: NoFigures = False,
    figure_format: FigureFormat = "png",
    quiet: Quiet = False,
) -> None:
    """Check by simulation how often intervals contain the true values."""
    from bayeseval._progress import progress_bar
    from bayeseval.calibration import prepare_calibration
    from bayeseval.calibration.parts import check_number, find_earlier
    from bayeseval.engines import SamplerSettings
    from bayeseval.output.store import check_target, unfinished
    from bayeseval.spec import AUTO, load_spec

    reading.refuse_without_table("--like")
    # An invalid spec is refused before the table is read.
    spec = model if model == AUTO else load_spec(model)
    prepared = prepare_calibration(
        spec,
        like=reading.load(quiet=quiet) if reading.benchmark else None,
        simulations=simulations,
        engine=engine,
        priors=priors,
        settings=SamplerSettings(draws=draws, tune=tune, chains=chains, seed=seed),
    )
    folder = out or prepared.default_folder
    check_target(folder, prepared.identity, force=force)
    ready = None if force else find_earlier(folder, prepared.identity)
    work = unfinished(folder)
    own = prepared.kept_in(work)
    if not force:
        check_number(simulations, folder, ready, own)
    with keeping(own, "simulations") as discard, progress_bar("", quiet=quiet) as progress:
        calibration = prepared.run(jobs=jobs, dask=dask, work=work, ready=ready, progress=progress)
    # Printed before it is saved: an error of writing the folder does not lose the results.
    echo(str(calibration))
    try:
        with naming_removed(folder):
            calibration.save(folder, figures=False if no_figures else figure_format, force=force)
    except InputError as error:
        kept = f"the simulations are kept in {own}, and this command continues from them"
        raise InputError(f"{error}; {kept}") from error
    discard()
    echo_place("\nResults", folder)
