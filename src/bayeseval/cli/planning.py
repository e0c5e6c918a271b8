"""`bayeseval plan`: the decision study of a result folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bayeseval import names
from bayeseval.cli._shared import (
    EXIT_GATE_FAILED,
    CiProb,
    Grid,
    NoFigures,
    numbers,
    whole_numbers,
)

__all__ = ["plan"]


def plan(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A result folder of `fit`.")],
    target_sd: Annotated[
        float | None,
        typer.Option(help="Largest sd of the difference of two models by chance, score points."),
    ] = None,
    target_probability: Annotated[
        float | None,
        typer.Option(help="Smallest probability of the right order of two models."),
    ] = None,
    seeds: Grid = None,
    items: Annotated[
        str | None,
        typer.Option(
            metavar="LIST",
            help="Sizes of a test set relative to the present one; numbers with --test-size.",
        ),
    ] = None,
    languages: Grid = None,
    tasks: Grid = None,
    test_size: Annotated[
        float | None, typer.Option(help="Number of items in one of the present test sets.")
    ] = None,
    fixed: Annotated[
        list[str] | None,
        typer.Option(
            help="language or task: its present levels are meant, they are no sample; repeatable."
        ),
    ] = None,
    cost_seed: Annotated[
        float | None, typer.Option(help="Cost of one seed on one task, for all languages.")
    ] = None,
    cost_item: Annotated[
        float | None,
        typer.Option(
            help="Cost of one item, answered once; of a whole test set without --test-size.",
            show_default="1 when no cost is given",
        ),
    ] = None,
    cost_language: Annotated[float | None, typer.Option(help="Cost of one language, once.")] = None,
    cost_task: Annotated[float | None, typer.Option(help="Cost of one task, once.")] = None,
    ci_prob: CiProb = names.CI_PROB,
    no_figures: NoFigures = False,
) -> None:
    """Plan the next evaluation: what more seeds, items, languages or tasks would bring."""
    from bayeseval.fitting.run import Fit
    from bayeseval.planning.run import plan as make_plan

    found = make_plan(
        Fit.open(folder),
        target_sd=target_sd,
        target_probability=target_probability,
        seeds=whole_numbers("--seeds", seeds),
        items=numbers("--items", items),
        languages=whole_numbers("--languages", languages),
        tasks=whole_numbers("--tasks", tasks),
        test_size=test_size,
        fixed=fixed or (),
        cost_seed=cost_seed,
        cost_item=cost_item,
        cost_language=cost_language,
        cost_task=cost_task,
        ci_prob=ci_prob,
    )
    found.save(folder, figures=not no_figures)
    typer.echo(str(found))
    typer.echo(f"All designs: {folder / 'tables' / 'plan.csv'}")
    if found.fit.gate.status == "fail":
        raise typer.Exit(EXIT_GATE_FAILED)
