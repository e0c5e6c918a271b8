"""`bayeseval compare`: models of one table by what they predict."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bayeseval.cli._shared import (
    EXIT_GATE_FAILED,
    Columns,
    CommonPairs,
    Engine,
    Force,
    Format,
    LeftOut,
    Mapping,
    Metric,
    NoFigures,
    Quiet,
    Seed,
    Source,
    TaskNames,
    load_records,
    words,
)

__all__ = ["compare"]


def compare(
    benchmark: Source,
    models: Annotated[
        str, typer.Option(metavar="A,B,...", help="Shipped models' names, auto or spec files.")
    ],
    by: Annotated[
        LeftOut, typer.Option(help="Leave out one score, or all scores of a level together.")
    ] = "record",
    engine: Engine = "auto",
    seed: Seed = 0,
    refits: Annotated[
        int,
        typer.Option(
            help="Most refits per model without closed form: of records with bad k-hats, or levels."
        ),
    ] = 20,
    jobs: Annotated[
        int | None,
        typer.Option(help="Fits at once.", show_default="one per core; NUTS: one per four"),
    ] = None,
    no_figures: NoFigures = False,
    columns: Columns = None,
    mapping: Mapping = None,
    metric: Metric = None,
    task_names: TaskNames = None,
    format: Format = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder.", show_default="results/BENCHMARK/MODELS-by-WHAT-compare-seedN"),
    ] = None,
    force: Force = False,
    pairs: CommonPairs = "any",
    quiet: Quiet = False,
) -> None:
    """Compare models by how well they predict scores that were left out."""
    from bayeseval._progress import progress_bar
    from bayeseval.comparison import compare as run_compare
    from bayeseval.comparison import expected_run, find_fits
    from bayeseval.design import choose_model
    from bayeseval.fitting.report.folder import default_folder
    from bayeseval.output.store import check_target

    records = load_records(
        benchmark,
        columns,
        mapping,
        format=format,
        metric=metric,
        task_names=task_names,
        quiet=quiet,
    )
    specs = [choose_model(name, records, engine=engine).spec for name in words(models)]
    called = "-".join([*(spec.name for spec in specs), "by", by])
    folder = out or default_folder(records.name, called, "compare", seed, pairs=pairs)
    expected = expected_run(records, specs, by=by, seed=seed, pairs=pairs)
    check_target(folder, expected, force=force)
    with progress_bar("", quiet=quiet) as progress:
        found = run_compare(
            records,
            specs,
            by=by,
            engine=engine,
            seed=seed,
            pairs=pairs,
            fits=find_fits(records, specs, engine=engine, seed=seed, pairs=pairs),
            refits=refits,
            jobs=jobs,
            progress=progress,
        )
    # Said before it is saved: a folder that cannot be written by now does not cost the answer.
    typer.echo(str(found))
    found.save(folder, figures=not no_figures, force=force)
    typer.echo(f"\nResults: {folder}")
    if any(one.gate.status == "fail" for one in found.fits.values()):
        raise typer.Exit(EXIT_GATE_FAILED)
