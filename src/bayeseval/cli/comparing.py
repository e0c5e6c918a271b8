"""`bayeseval compare`: models of one table by what they predict."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from bayeseval._arguments import split_names
from bayeseval.cli._keeping import keeping, naming_removed
from bayeseval.cli._shared import (
    COMPARISON,
    EXIT_GATE_FAILED,
    MODEL,
    SAMPLING,
    CommonPairs,
    CovariateFile,
    Dask,
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
    holdout: Annotated[
        float | None,
        typer.Option(
            metavar="SHARE",
            help="Leave out a share at once, as in 0.3, of the cells or, with --by, of the "
            "levels, and score the predictions of it beside two-way means.",
            show_default="one at a time",
            rich_help_panel=COMPARISON,
        ),
    ] = None,
    repeats: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="How many times --holdout leaves out a random share.",
            show_default="5",
            rich_help_panel=COMPARISON,
        ),
    ] = None,
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
    dask: Dask = None,
    no_figures: NoFigures = False,
    figure_format: FigureFormat = "png",
    out: Out = None,
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Compare models by how well they predict left-out scores."""
    from bayeseval._progress import progress_bar
    from bayeseval.comparison import (
        PreparedHoldout,
        find_fits,
        prepare_comparison,
        prepare_holdout,
    )
    from bayeseval.comparison.models import check_asked
    from bayeseval.output.store import check_target, unfinished

    check_asked(by, holdout=holdout, repeats=repeats)
    records = reading.load(quiet=quiet)
    asked: dict[str, Any] = {"by": by, "engine": engine, "seed": seed}
    asked |= {"pairs": pairs, "covariate": covariate}
    wanted = split_names(models, name="--models")
    prepared = (
        prepare_comparison(records, wanted, refits=refits, **asked)
        if holdout is None
        else prepare_holdout(records, wanted, holdout=holdout, repeats=repeats, **asked)
    )
    folder = out or prepared.default_folder
    check_target(folder, prepared.identity, force=force)
    work = unfinished(folder)
    own = prepared.kept_in(work)
    what = "refits" if holdout is None else "fits"
    with keeping(own, what) as discard, progress_bar("", quiet=quiet) as progress:
        where: dict[str, Any] = {"jobs": jobs, "dask": dask, "work": work, "progress": progress}
        compared = (
            prepared.run(**where)
            if isinstance(prepared, PreparedHoldout)
            else prepared.run(ready=find_fits(prepared.fits), **where)
        )
    # Printed before it is saved: an error of writing the folder does not lose the results.
    echo(str(compared))
    with naming_removed(folder):
        compared.save(folder, figures=False if no_figures else figure_format, force=force)
    discard()
    echo_place("\nResults", folder)
    if any(gate.status == "fail" for gate in compared.named_gates.values()):
        raise typer.Exit(EXIT_GATE_FAILED)
