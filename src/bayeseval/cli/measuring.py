"""`bayeseval next`: the cells to measure next."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bayeseval._arguments import split_names
from bayeseval.cli._shared import (
    DATA,
    EXIT_GATE_FAILED,
    FigureFormat,
    NoFigures,
    echo,
    echo_place,
    renew_report,
)
from bayeseval.cli.planning import (
    COSTS,
    TARGETS,
    CostItem,
    CostLanguage,
    CostSeed,
    TestSize,
)

__all__ = ["next_"]


def next_(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Result folder of a fit.")],
    target: Annotated[
        str,
        typer.Option(
            "--for",
            metavar="TARGET",
            help="What is to become precise: ranking, potential, table or 'A > B' (two models).",
            rich_help_panel=TARGETS,
        ),
    ] = "ranking",
    target_sd: Annotated[
        float | None,
        typer.Option(
            metavar="POINTS",
            help="Stop when the sd of the target is at most this.",
            rich_help_panel=TARGETS,
        ),
    ] = None,
    target_probability: Annotated[
        float | None,
        typer.Option(
            metavar="P",
            help="Stop when models are in the right order with at least this probability.",
            rich_help_panel=TARGETS,
        ),
    ] = None,
    cells: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Cells that can be measured: columns model, language and task.",
            show_default="all without records on the table's pairs",
            rich_help_panel=DATA,
        ),
    ] = None,
    languages: Annotated[
        str | None,
        typer.Option(
            metavar="LIST",
            help="Languages without records that can be measured too, separated by commas.",
            show_default="none",
            rich_help_panel=DATA,
        ),
    ] = None,
    covariate: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Covariate of these languages.",
            show_default="that of the fit",
            rich_help_panel=DATA,
        ),
    ] = None,
    budget: Annotated[
        float | None,
        typer.Option(
            metavar="COST",
            help="Largest sum of costs.",
            show_default="20 cells without a target",
            rich_help_panel=COSTS,
        ),
    ] = None,
    cost: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="What a cell costs: columns cost and model, language or task.",
            rich_help_panel=COSTS,
        ),
    ] = None,
    test_size: TestSize = None,
    cost_item: CostItem = None,
    cost_seed: CostSeed = None,
    cost_language: CostLanguage = None,
    no_figures: NoFigures = False,
    figure_format: FigureFormat = "png",
) -> None:
    """List the cells to measure next: those that make an answer most precise per cost."""
    from bayeseval.fitting.run import Fit
    from bayeseval.output.store import check_additions
    from bayeseval.planning import next_cells

    fitted = Fit.open(folder)
    check_additions(folder, "next")
    chosen = next_cells(
        fitted,
        target=target,
        cells=cells,
        languages=split_names(languages, name="--languages") or None,
        covariate=covariate,
        budget=budget,
        target_sd=target_sd,
        target_probability=target_probability,
        cost=cost,
        test_size=test_size,
        cost_item=cost_item,
        cost_seed=cost_seed,
        cost_language=cost_language,
    )
    chosen.save(folder, figures=False if no_figures else figure_format)
    echo(str(chosen))
    echo_place("\nAll cells", folder / "tables" / "next.csv")
    renew_report(folder)
    if fitted.gate.status == "fail":
        raise typer.Exit(EXIT_GATE_FAILED)
