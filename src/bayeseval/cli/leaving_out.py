"""`bayeseval sensitivity`: the same fit without parts of the table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from bayeseval._arguments import split_names
from bayeseval.cli._keeping import keeping, naming_removed
from bayeseval.cli._shared import (
    EXIT_GATE_FAILED,
    CommonPairs,
    CovariateFile,
    Dask,
    Engine,
    FigureFormat,
    Force,
    Jobs,
    Model,
    NoFigures,
    Out,
    Quiet,
    Reading,
    Seed,
    echo,
    echo_place,
    with_reading,
)
from bayeseval.errors import InputError

__all__ = ["sensitivity"]

LEFT_OUT = "What to leave out"


@with_reading()
def sensitivity(
    reading: Reading,
    drop: Annotated[
        list[str] | None,
        typer.Option(
            metavar="WHAT",
            help="language, task or model: leave out each level in turn; outliers=N: leave out "
            "the N records with the largest residuals; repeatable.",
            show_default="language, task and model, if no group is given",
            rich_help_panel=LEFT_OUT,
        ),
    ] = None,
    drop_group: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=LEVELS",
            help="Leave out several languages, tasks or models together, as in "
            "'OpenAI=gpt-*,text-davinci-*'; repeatable.",
            rich_help_panel=LEFT_OUT,
        ),
    ] = None,
    pairs: CommonPairs = "any",
    model: Model = "auto",
    covariate: CovariateFile = None,
    engine: Engine = "auto",
    seed: Seed = 0,
    jobs: Jobs = None,
    dask: Dask = None,
    out: Out = None,
    force: Force = False,
    no_figures: NoFigures = False,
    figure_format: FigureFormat = "png",
    quiet: Quiet = False,
) -> None:
    """Refit without each level, a group of levels or the largest residuals."""
    from bayeseval._progress import progress_bar
    from bayeseval.leaving_out import prepare_sensitivity
    from bayeseval.output.store import check_target, unfinished
    from bayeseval.spec import AUTO, load_spec

    groups = _groups(drop_group or ())
    # An invalid spec is refused before the table is read.
    spec = model if model == AUTO else load_spec(model)
    prepared = prepare_sensitivity(
        reading.load(quiet=quiet),
        spec,
        drop=drop or ([] if groups else ["language", "task", "model"]),
        groups=groups,
        engine=engine,
        seed=seed,
        covariate=covariate,
        pairs=pairs,
    )
    folder = out or prepared.default_folder
    check_target(folder, prepared.identity, force=force)
    work = unfinished(folder)
    own = prepared.kept_in(work)
    with keeping(own, "refits") as discard, progress_bar("", quiet=quiet) as progress:
        analysis = prepared.run(jobs=jobs, dask=dask, work=work, progress=progress)
    # Printed before it is saved: an error of writing the folder does not lose the results.
    echo(str(analysis))
    with naming_removed(folder):
        analysis.save(folder, figures=False if no_figures else figure_format, force=force)
    discard()
    echo_place("\nResults", folder)
    if analysis.fit.gate.status == "fail":
        raise typer.Exit(EXIT_GATE_FAILED)


def _groups(texts: Sequence[str]) -> dict[str, list[str]]:
    groups: dict[str, list[str]] = {}
    for text in texts:
        name, equals, levels = text.partition("=")
        if not (name and equals and levels):
            raise InputError(
                f"--drop-group takes NAME=LEVEL,LEVEL, as in OpenAI=gpt-*; got {text!r}"
            )
        if name in groups:
            raise InputError(f"--drop-group names {name!r} twice")
        groups[name] = split_names(levels, name="--drop-group")
    return groups
