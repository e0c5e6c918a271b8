"""`bayeseval plan`: the decision study of a result folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bayeseval import names
from bayeseval.cli._numbers import parse_numbers, parse_whole_numbers
from bayeseval.cli._shared import (
    EXIT_GATE_FAILED,
    CiProb,
    FigureFormat,
    Grid,
    NoFigures,
    echo,
    echo_place,
    renew_report,
)

__all__ = ["COSTS", "TARGETS", "CostItem", "CostLanguage", "CostSeed", "TestSize", "plan"]

TARGETS = "Targets"
DESIGNS = "Designs"
COSTS = "Costs"

TestSize = Annotated[
    float | None,
    typer.Option(metavar="N", help="Items in one of the present test sets.", rich_help_panel=COSTS),
]
CostSeed = Annotated[
    float | None,
    typer.Option(
        metavar="COST",
        help="Cost of one run of a model on one task, for all languages.",
        rich_help_panel=COSTS,
    ),
]
CostItem = Annotated[
    float | None,
    typer.Option(
        metavar="COST",
        help="Cost of one item, answered once; without --test-size, of a whole test set.",
        show_default="1 if no cost is given",
        rich_help_panel=COSTS,
    ),
]
CostLanguage = Annotated[
    float | None,
    typer.Option(metavar="COST", help="Cost of adding one language.", rich_help_panel=COSTS),
]


def plan(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Result folder of a fit.")],
    target_sd: Annotated[
        float | None,
        typer.Option(
            metavar="POINTS",
            help="Largest acceptable sd of the difference between two models.",
            rich_help_panel=TARGETS,
        ),
    ] = None,
    target_probability: Annotated[
        float | None,
        typer.Option(
            metavar="P",
            help="Smallest acceptable probability that two models are in the right order.",
            rich_help_panel=TARGETS,
        ),
    ] = None,
    seeds: Grid = None,
    items: Annotated[
        str | None,
        typer.Option(
            metavar="LIST",
            help="Test set sizes to try, relative to the present one; with --test-size, in items.",
            rich_help_panel=DESIGNS,
        ),
    ] = None,
    languages: Grid = None,
    tasks: Grid = None,
    prompts: Grid = None,
    test_size: TestSize = None,
    fixed: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FACTOR",
            help="language or task: treat its levels as fixed, not as a sample; repeatable.",
            rich_help_panel=DESIGNS,
        ),
    ] = None,
    cost_seed: CostSeed = None,
    cost_item: CostItem = None,
    cost_language: CostLanguage = None,
    cost_task: Annotated[
        float | None,
        typer.Option(metavar="COST", help="Cost of adding one task.", rich_help_panel=COSTS),
    ] = None,
    cost_prompt: Annotated[
        float | None,
        typer.Option(metavar="COST", help="Cost of one prompt of one task.", rich_help_panel=COSTS),
    ] = None,
    ci_prob: CiProb = names.CI_PROB,
    no_figures: NoFigures = False,
    figure_format: FigureFormat = "png",
) -> None:
    """Plan the next evaluation: more seeds, items, languages, tasks or prompts."""
    from bayeseval.fitting.run import Fit
    from bayeseval.output.store import check_additions
    from bayeseval.planning.run import plan as make_plan

    fitted = Fit.open(folder)
    check_additions(folder, "plan")
    study = make_plan(
        fitted,
        target_sd=target_sd,
        target_probability=target_probability,
        seeds=parse_whole_numbers("--seeds", seeds),
        items=parse_numbers("--items", items),
        languages=parse_whole_numbers("--languages", languages),
        tasks=parse_whole_numbers("--tasks", tasks),
        prompts=parse_whole_numbers("--prompts", prompts),
        test_size=test_size,
        fixed=fixed or (),
        cost_seed=cost_seed,
        cost_item=cost_item,
        cost_language=cost_language,
        cost_task=cost_task,
        cost_prompt=cost_prompt,
        ci_prob=ci_prob,
    )
    study.save(folder, figures=False if no_figures else figure_format)
    echo(str(study))
    echo_place("All designs", folder / "tables" / "plan.csv")
    renew_report(folder)
    if study.fit.gate.status == "fail":
        raise typer.Exit(EXIT_GATE_FAILED)
