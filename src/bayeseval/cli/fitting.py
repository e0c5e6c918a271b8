"""`bayeseval fit`: one model, one benchmark, one result folder."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bayeseval import names
from bayeseval.cli._shared import (
    COMPARISON,
    EXIT_GATE_FAILED,
    MODEL,
    OUTPUT,
    SAMPLING,
    CiProb,
    Columns,
    CommonPairs,
    Engine,
    FigureFormat,
    Force,
    Format,
    Mapping,
    Metric,
    Model,
    NoFigures,
    Quiet,
    Seed,
    Source,
    StoppedError,
    TaskNames,
    load_records,
    reading_options,
    words,
)
from bayeseval.errors import InputError

if TYPE_CHECKING:
    from bayeseval.checks import Checks

__all__ = ["fit"]


def fit(
    benchmark: Source,
    model: Model = "auto",
    engine: Engine = "auto",
    draws: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Draws to keep, per chain.",
            show_default="1000",
            rich_help_panel=SAMPLING,
        ),
    ] = None,
    tune: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Warm-up draws of NUTS, per chain.",
            show_default="1000",
            rich_help_panel=SAMPLING,
        ),
    ] = None,
    chains: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="Number of chains.", show_default="4", rich_help_panel=SAMPLING
        ),
    ] = None,
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
    columns: Columns = None,
    mapping: Mapping = None,
    metric: Metric = None,
    task_names: TaskNames = None,
    format: Format = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Result folder.",
            show_default="results/BENCHMARK/MODEL-ENGINE-seedN",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    force: Force = False,
    no_figures: NoFigures = False,
    figure_format: FigureFormat = "png",
    leave_out: Annotated[
        str | None,
        typer.Option(
            metavar="LIST",
            help="Store log densities of left-out scores for arviz_stats.compare: record, "
            "language, task, model, or several with commas.",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    no_checks: Annotated[
        bool, typer.Option("--no-checks", help="Do not check the model.", rich_help_panel=OUTPUT)
    ] = False,
    covariate: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Covariate of the model, by language.",
            show_default="the benchmark's own",
            rich_help_panel=MODEL,
        ),
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Fit one model to one benchmark and write a result folder."""
    from bayeseval._progress import progress_bar
    from bayeseval.design import build_design, choose_model
    from bayeseval.engines import SamplerSettings, choose_engine
    from bayeseval.fitting.covariates import covariate_names, data_hash, find_covariates
    from bayeseval.fitting.report.folder import default_folder, run_identity
    from bayeseval.fitting.report.terminal import format_preamble, format_results
    from bayeseval.fitting.run import run_fit
    from bayeseval.output.store import check_target
    from bayeseval.records import choose_pairs, pairs_hash, warn_of_sole_pairs
    from bayeseval.spec import AUTO, load_spec

    if not 0.0 < ci_prob < 1.0:
        raise InputError(f"--ci-prob must lie between 0 and 1, got {ci_prob:g}")
    # What is no spec is said before the table is read.
    source = model if model == AUTO else load_spec(model)
    records = load_records(
        benchmark,
        columns,
        mapping,
        format=format,
        metric=metric,
        task_names=task_names,
        quiet=quiet,
    )
    picked = choose_model(source, records, covariates=covariate_names(covariate), engine=engine)
    spec = picked.spec
    found = find_covariates(records, spec, covariate)
    design = build_design(records, spec, found)
    asked = SamplerSettings(
        draws=draws,
        tune=tune,
        chains=chains,
        seed=seed,
        target_accept=target_accept,
        nuts_sampler=nuts_sampler,
    )
    chosen = choose_engine(engine, design, asked)
    common = choose_pairs(records, pairs)
    folder = out or default_folder(records.name, spec.name, chosen.name, seed, pairs=pairs)
    check_target(
        folder,
        run_identity(
            data_hash(records, found),
            design.spec.content_hash,
            chosen.name,
            seed,
            pairs_hash(records, common),
            margin,
        ),
        force=force,
    )
    preamble = format_preamble(
        records,
        design,
        engine=str(chosen),
        reasons=picked.reasons,
        warnings=warn_of_sole_pairs(records, common),
    )
    with progress_bar(preamble, quiet=quiet) as progress:
        # Model and engine as they were asked for, so that run.json holds the reasons too.
        result = run_fit(
            records,
            source,
            engine=engine,
            leave_out=words(leave_out),
            covariate=found or None,
            settings=asked,
            pairs=pairs,
            margin=margin,
            progress=progress,
        )
        options = reading_options(
            benchmark,
            columns,
            mapping,
            format=format,
            metric=metric,
            task_names=task_names,
        )
        # For the commands that are named under the checks.
        result = replace(
            result, run={**result.run, "source": benchmark[0], "source_options": options}
        )
        made: list[Checks] = []

        def checks() -> Checks:
            made.append(result.checks())
            return made[0]

        problem: Exception | KeyboardInterrupt | None = None
        try:
            result.save(
                folder,
                checks=None if no_checks else checks,
                ci_prob=ci_prob,
                figures=False if no_figures else figure_format,
                force=force,
                progress=progress,
            )
        except (Exception, KeyboardInterrupt) as error:
            # Raised again below: what was fitted is shown all the same.
            problem = error
    typer.echo(
        format_results(
            result.data,
            result.run,
            folder=folder if problem is None else None,
            ci_prob=ci_prob,
            checks=str(made[0]) if made else None,
        )
    )
    if isinstance(problem, KeyboardInterrupt):
        raise StoppedError("; ".join(getattr(problem, "__notes__", ()))) from problem
    if problem is not None:
        raise problem
    if result.gate.status == "fail":
        raise typer.Exit(EXIT_GATE_FAILED)
