"""`bayeseval fit`: one model, one benchmark, one result folder."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bayeseval import names
from bayeseval._arguments import split_names
from bayeseval.cli._keeping import naming_removed
from bayeseval.cli._shared import (
    COMPARISON,
    EXIT_GATE_FAILED,
    OUTPUT,
    SAMPLING,
    Chains,
    CiProb,
    CommonPairs,
    CovariateFile,
    Draws,
    Engine,
    FigureFormat,
    Force,
    Model,
    NoFigures,
    Out,
    Quiet,
    Reading,
    Seed,
    StoppedError,
    Tune,
    echo,
    echo_place,
    with_reading,
    write_report,
)

if TYPE_CHECKING:
    from bayeseval._typing import Figures, Progress
    from bayeseval.checks import Checks
    from bayeseval.fitting import Fit

__all__ = ["fit"]


@with_reading()
def fit(
    reading: Reading,
    model: Model = "auto",
    engine: Engine = "auto",
    draws: Draws = None,
    tune: Tune = None,
    chains: Chains = None,
    seed: Seed = 0,
    target_accept: Annotated[
        float | None,
        typer.Option(
            metavar="P",
            help="Target acceptance rate of NUTS, between 0 and 1.",
            rich_help_panel=SAMPLING,
        ),
    ] = None,
    nuts_sampler: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Sampler of --engine pymc: pymc, nutpie, numpyro or blackjax.",
            rich_help_panel=SAMPLING,
        ),
    ] = None,
    pairs: CommonPairs = "any",
    margin: Annotated[
        float | None,
        typer.Option(
            metavar="POINTS",
            help="Difference between models that is too small to matter, in score units.",
            show_default="1 % of the range of the scores",
            rich_help_panel=COMPARISON,
        ),
    ] = None,
    ci_prob: CiProb = names.CI_PROB,
    out: Out = None,
    force: Force = False,
    no_figures: NoFigures = False,
    figure_format: FigureFormat = "png",
    leave_out: Annotated[
        str | None,
        typer.Option(
            metavar="LIST",
            help="Store log densities of left-out scores for arviz_stats.compare: record, "
            "language, task, model, or several separated by commas.",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    predictive: Annotated[
        bool,
        typer.Option(
            "--predictive",
            help="Store predicted scores, prior draws and log prior densities for ArviZ.",
            rich_help_panel=OUTPUT,
        ),
    ] = False,
    no_checks: Annotated[
        bool, typer.Option("--no-checks", help="Do not check the model.", rich_help_panel=OUTPUT)
    ] = False,
    no_report: Annotated[
        bool, typer.Option("--no-report", help="Do not write the page.", rich_help_panel=OUTPUT)
    ] = False,
    covariate: CovariateFile = None,
    quiet: Quiet = False,
) -> None:
    """Fit one model to one benchmark and write a result folder."""
    from bayeseval._progress import progress_bar
    from bayeseval._second_process import second_process
    from bayeseval.engines import SamplerSettings
    from bayeseval.estimands.arrays import as_ci_prob
    from bayeseval.fitting.prepared import Origin, prepare
    from bayeseval.output._style import load_drawing
    from bayeseval.output.store import check_target
    from bayeseval.spec import AUTO, load_spec

    as_ci_prob(ci_prob)
    settings = SamplerSettings(
        draws=draws,
        tune=tune,
        chains=chains,
        seed=seed,
        target_accept=target_accept,
        nuts_sampler=nuts_sampler,
    )
    # An invalid spec is refused before the table is read.
    spec = model if model == AUTO else load_spec(model)
    prepared = prepare(
        reading.load(quiet=quiet),
        spec,
        engine=engine,
        settings=settings,
        leave_out=split_names(leave_out, name="--leave-out"),
        predictive=predictive,
        covariate=covariate,
        pairs=pairs,
        margin=margin,
        source=Origin(reading.first, reading.options),
    )
    folder = out or prepared.default_folder
    check_target(folder, prepared.identity, force=force)
    with (
        naming_removed(folder),
        contextlib.nullcontext() if no_figures else second_process(load_drawing),
        progress_bar(str(prepared), quiet=quiet) as progress,
    ):
        fitted = prepared.run(progress)
        saved = _save(
            fitted,
            folder,
            with_checks=not no_checks,
            with_report=not no_report,
            ci_prob=ci_prob,
            figures=False if no_figures else figure_format,
            force=force,
            progress=progress,
        )
    _report(fitted, folder, saved, ci_prob=ci_prob)


@dataclass(frozen=True)
class _Saved:
    """The outcome of saving: checks and page, if any, and the error that ended it."""

    checks: Checks | None
    page: Path | None
    problem: Exception | KeyboardInterrupt | None


def _save(
    fitted: Fit,
    folder: Path,
    *,
    with_checks: bool,
    with_report: bool,
    ci_prob: float,
    figures: Figures,
    force: bool,
    progress: Progress | None,
) -> _Saved:
    computed: list[Checks] = []

    def checks() -> Checks:
        computed.append(fitted.checks())
        return computed[0]

    page: Path | None = None
    problem: Exception | KeyboardInterrupt | None = None
    try:
        fitted.save(
            folder,
            checks=checks if with_checks else None,
            ci_prob=ci_prob,
            figures=figures,
            force=force,
            progress=progress,
        )
        if with_report:
            page = write_report(folder, progress)
    except (Exception, KeyboardInterrupt) as error:
        # Raised again by the report, after the results of the fit are shown.
        problem = error
    return _Saved(computed[0] if computed else None, page, problem)


def _report(fitted: Fit, folder: Path, saved: _Saved, *, ci_prob: float) -> None:
    from bayeseval.fitting.report.terminal import format_results
    from bayeseval.output.store import results_saved

    problem = saved.problem
    text = format_results(
        fitted.data,
        fitted.run,
        folder=folder if problem is None else None,
        ci_prob=ci_prob,
        checks=None if saved.checks is None else str(saved.checks),
    )
    # The output may take nothing (/dev/full), and then says nothing of what was saved.
    with results_saved(folder, [], "") if problem is None else contextlib.nullcontext():
        echo(text)
        if saved.page is not None:
            echo_place("Report", saved.page)
    if isinstance(problem, KeyboardInterrupt):
        raise StoppedError("; ".join(getattr(problem, "__notes__", ()))) from problem
    if problem is not None:
        raise problem
    if fitted.gate.status == "fail":
        # The last line, for those who look at the end only.
        echo("Convergence gate: FAILED; do not rely on these results")
        raise typer.Exit(EXIT_GATE_FAILED)
