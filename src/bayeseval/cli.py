"""The command line: arguments in, calls out, no logic.

Results go to stdout, progress and messages to stderr. Exit codes: 0 done, 2 bad
input or usage (one line), 3 done but the convergence gate failed, 130 interrupted.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from bayeseval import names
from bayeseval.errors import BayesevalError, InputError, did_you_mean

if TYPE_CHECKING:
    from bayeseval.records import Records

__all__ = ["app", "main"]

EXIT_BAD_INPUT = 2
EXIT_GATE_FAILED = 3
EXIT_INTERRUPTED = 130

app = typer.Typer(
    name="bayeseval",
    help="Bayesian multilevel models of multilingual LLM benchmark scores.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


EngineName = Literal["auto", "numpyro", "pymc", "marginal", "ml"]
Listing = Literal["benchmarks", "models"]
LeftOut = Literal["record", "language", "task", "model"]
Source = Annotated[
    str, typer.Option("--benchmark", "-b", help="A shipped benchmark's name, a file or a folder.")
]
Columns = Annotated[
    list[str] | None,
    typer.Option(
        "--columns",
        metavar="OURS=THEIRS",
        help="Which column is which, e.g. score=F1; repeatable. seed= leaves a column out.",
    ),
]
Grid = Annotated[
    str | None,
    typer.Option(metavar="LIST", help="Numbers to try, as in 1,2,5 or 3-6. [default: around now]"),
]
Mapping = Annotated[
    Path | None,
    typer.Option("--mapping", help="A small YAML file with columns, units and language names."),
]


@app.command()
def fit(
    benchmark: Source,
    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            "-m",
            help="A shipped model's name or a spec file. [default: additive; paper with engine ml]",
        ),
    ] = None,
    engine: Annotated[EngineName, typer.Option(help="How to get to the posterior.")] = "auto",
    draws: Annotated[int | None, typer.Option(help="Kept draws per chain. [default: 1000]")] = None,
    tune: Annotated[
        int | None, typer.Option(help="Warm-up of NUTS, per chain. [default: 1000]")
    ] = None,
    chains: Annotated[int | None, typer.Option(help="Number of chains. [default: 4]")] = None,
    seed: Annotated[int, typer.Option(help="The one seed; same seed, same numbers.")] = 0,
    target_accept: Annotated[
        float | None, typer.Option(help="Target acceptance rate of NUTS, between 0 and 1.")
    ] = None,
    nuts_sampler: Annotated[
        str | None,
        typer.Option(help="With --engine pymc: pymc, nutpie, numpyro or blackjax."),
    ] = None,
    ci_prob: Annotated[
        float, typer.Option(help="Probability of the equal-tailed intervals.")
    ] = names.CI_PROB,
    columns: Columns = None,
    mapping: Mapping = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Result folder. [default: results/BENCHMARK/MODEL-ENGINE-seedN]"),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace a folder that holds another run.")
    ] = False,
    no_figures: Annotated[
        bool, typer.Option("--no-figures", help="Leave out the figures.")
    ] = False,
    leave_out: Annotated[
        str | None,
        typer.Option(
            metavar="WHAT,...",
            help="Store the densities of left-out scores for arviz_stats.compare: record, "
            "language, task or model, or several of them.",
        ),
    ] = None,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="No progress and no messages, only results.")
    ] = False,
) -> None:
    """Fit one model to one benchmark and write a result folder."""
    from bayeseval.design import build_design
    from bayeseval.engines import SamplerSettings, choose_engine
    from bayeseval.fit import fit as run_fit
    from bayeseval.output import (
        check_target,
        default_folder,
        format_preamble,
        format_results,
        progress_bar,
        run_identity,
    )
    from bayeseval.spec import load_spec

    if not 0.0 < ci_prob < 1.0:
        raise InputError(f"--ci-prob must lie between 0 and 1, got {ci_prob:g}")
    spec = load_spec(model or ("paper" if engine == "ml" else "additive"))
    records = _load(benchmark, columns, mapping)
    design = build_design(records, spec)
    asked = SamplerSettings(
        draws=draws,
        tune=tune,
        chains=chains,
        seed=seed,
        target_accept=target_accept,
        nuts_sampler=nuts_sampler,
    )
    chosen = choose_engine(engine, design, asked)
    folder = out or default_folder(records.name, spec.name, chosen.name, seed)
    check_target(
        folder,
        run_identity(records.content_hash, spec.content_hash, chosen.name, seed),
        force=force,
    )
    preamble = format_preamble(records, design, engine=str(chosen))
    with progress_bar(preamble, quiet=quiet) as progress:
        # The engine as it was asked for, so that run.json holds the reason too.
        result = run_fit(
            records,
            spec,
            engine=engine,
            leave_out=leave_out.split(",") if leave_out else (),
            progress=progress,
            **asdict(asked),
        )
        progress("writing", 0, 1, str(folder))
        result.save(folder, ci_prob=ci_prob, figures=not no_figures, force=force)
        progress("writing", 1, 1, str(folder))
    typer.echo(format_results(result.data, result.run, folder=folder, ci_prob=ci_prob))
    if result.gate.status == "fail":
        raise typer.Exit(EXIT_GATE_FAILED)


@app.command()
def validate(
    path: Annotated[str, typer.Argument(help="A file, a folder or a shipped benchmark's name.")],
    columns: Columns = None,
    mapping: Mapping = None,
) -> None:
    """Print what the loader understands of a table, and what it drops and why."""
    from bayeseval.records import describe, format_description

    typer.echo(format_description(describe(_load(path, columns, mapping))))


@app.command()
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
            help="Cost of one item, answered once; of a whole test set without --test-size. "
            "[default: 1 when no cost is given]"
        ),
    ] = None,
    cost_language: Annotated[float | None, typer.Option(help="Cost of one language, once.")] = None,
    cost_task: Annotated[float | None, typer.Option(help="Cost of one task, once.")] = None,
    ci_prob: Annotated[
        float, typer.Option(help="Probability of the equal-tailed intervals.")
    ] = names.CI_PROB,
    no_figures: Annotated[bool, typer.Option("--no-figures", help="Leave out the figure.")] = False,
) -> None:
    """Plan the next evaluation: what more seeds, items, languages or tasks would bring."""
    from bayeseval.fit import Fit
    from bayeseval.plan import plan as make_plan

    found = make_plan(
        Fit.open(folder),
        target_sd=target_sd,
        target_probability=target_probability,
        seeds=_whole_numbers("--seeds", seeds),
        items=_numbers("--items", items),
        languages=_whole_numbers("--languages", languages),
        tasks=_whole_numbers("--tasks", tasks),
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


@app.command()
def compare(
    benchmark: Source,
    models: Annotated[
        str, typer.Option(metavar="A,B,...", help="Shipped models' names or spec files.")
    ],
    by: Annotated[
        LeftOut, typer.Option(help="Leave out one score, or all scores of a level together.")
    ] = "record",
    engine: Annotated[EngineName, typer.Option(help="How to get to the posterior.")] = "auto",
    seed: Annotated[int, typer.Option(help="The one seed; same seed, same numbers.")] = 0,
    columns: Columns = None,
    mapping: Mapping = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder. [default: results/BENCHMARK/MODELS-by-WHAT-compare-seedN]"),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace a folder that holds something else.")
    ] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="No progress and no messages, only results.")
    ] = False,
) -> None:
    """Compare models by how well they predict scores that were left out."""
    from bayeseval.compare import compare as run_compare
    from bayeseval.compare import find_fits
    from bayeseval.output import default_folder, progress_bar
    from bayeseval.spec import load_spec

    records = _load(benchmark, columns, mapping)
    specs = [load_spec(name.strip()) for name in models.split(",") if name.strip()]
    called = "-".join([*(spec.name for spec in specs), "by", by])
    folder = out or default_folder(records.name, called, "compare", seed)
    with progress_bar("", quiet=quiet) as progress:
        found = run_compare(
            records,
            specs,
            by=by,
            engine=engine,
            seed=seed,
            fits=find_fits(records, specs, engine=engine, seed=seed),
            progress=progress,
        )
    found.save(folder, force=force)
    typer.echo(str(found))
    typer.echo(f"\nResults: {folder}")
    if any(one.gate.status == "fail" for one in found.fits.values()):
        raise typer.Exit(EXIT_GATE_FAILED)


@app.command(name="list")
def list_(what: Annotated[Listing, typer.Argument(help="What to list.")]) -> None:
    """List the shipped benchmarks or models."""
    from bayeseval.output import format_listing
    from bayeseval.records import list_benchmarks
    from bayeseval.spec import list_models

    typer.echo(format_listing(list_models() if what == "models" else list_benchmarks()))


def _load(source: str, columns: Sequence[str] | None, mapping: Path | None) -> Records:
    from bayeseval.records import load

    return load(source, columns=_pairs(columns or ()), mapping_file=mapping)


def _pairs(columns: Sequence[str]) -> dict[str, str | None]:
    pairs: dict[str, str | None] = {}
    for text in columns:
        ours, equals, theirs = text.partition("=")
        if not (ours and equals):
            raise InputError(f"--columns takes OURS=THEIRS, for example score=F1; got {text!r}")
        if ours in pairs:
            raise InputError(f"--columns names {ours!r} twice")
        pairs[ours] = theirs or None
    return pairs


def _numbers(option: str, text: str | None) -> list[float] | None:
    if text is None:
        return None
    try:
        return [float(part) for part in text.split(",")]
    except ValueError as error:
        raise InputError(
            f"{option} takes numbers with commas, as in 0.5,1,2; got {text!r}"
        ) from error


def _whole_numbers(option: str, text: str | None) -> list[int] | None:
    if text is None:
        return None
    values: list[int] = []
    try:
        for part in text.split(","):
            first, dash, last = part.partition("-")
            values += range(int(first), int(last) + 1) if dash else [int(first)]
    except ValueError as error:
        raise InputError(
            f"{option} takes whole numbers, as in 1,2,5 or 3-6; got {text!r}"
        ) from error
    return values


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    try:
        code = app(args=arguments, standalone_mode=False)
    except BayesevalError as error:
        _complain(str(error))
        return EXIT_BAD_INPUT
    except typer.TyperException as error:
        _complain(_usage(error.format_message()))
        return EXIT_BAD_INPUT
    except BrokenPipeError:
        # The reader of our output went away (`| head`); nothing is left to say,
        # and Python must not try to flush the closed pipe at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    # Typer turns Ctrl-C into this exit code.
    if code == EXIT_INTERRUPTED:
        _complain("interrupted; the results that were there before are untouched")
    return code if isinstance(code, int) else 0


def _usage(message: str) -> str:
    words = message.split("'")
    if message.startswith("No such command") and len(words) > 1:
        commands = ("fit", "list", "plan", "validate")
        message += f" (commands: {', '.join(commands)}){did_you_mean(words[1], commands)}"
    return f"{' '.join(message.split()).rstrip('.')}. Try 'bayeseval --help'."


def _complain(message: str) -> None:
    typer.echo(f"error: {' '.join(message.split())}", err=True)


if __name__ == "__main__":
    sys.exit(main())
