"""What the commands share: exit codes, common options and the parsing of their values."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from bayeseval._text import for_terminal, one_line, shell_quoted
from bayeseval.errors import InputError

if TYPE_CHECKING:
    from bayeseval._typing import Progress
    from bayeseval.records import Records

__all__ = [
    "COMPARISON",
    "DATA",
    "EXIT_BAD_INPUT",
    "EXIT_GATE_FAILED",
    "EXIT_INTERRUPTED",
    "MODEL",
    "OUTPUT",
    "SAMPLING",
    "Chains",
    "CiProb",
    "CommonPairs",
    "Dask",
    "Draws",
    "Engine",
    "EngineName",
    "FigureFormat",
    "Force",
    "Grid",
    "Jobs",
    "LeftOut",
    "Listing",
    "Model",
    "NoFigures",
    "Out",
    "Quiet",
    "Reading",
    "Seed",
    "StoppedError",
    "Tune",
    "complete_benchmarks",
    "complete_models",
    "echo",
    "echo_place",
    "parse_columns",
    "parse_metrics",
    "renew_report",
    "with_reading",
    "write_report",
]


class StoppedError(Exception):
    """Ctrl-C; the text says what was saved and where, and is empty if nothing was saved."""


EXIT_BAD_INPUT = 2
EXIT_GATE_FAILED = 3
EXIT_INTERRUPTED = 130

# Panels of `--help`.
DATA = "Data"
MODEL = "Model"
SAMPLING = "Sampling"
COMPARISON = "Comparison of models"
OUTPUT = "Output"

Command = Callable[..., None]
EngineName = Literal["auto", "numpyro", "pymc", "marginal", "ml"]
Listing = Literal["benchmarks", "models"]
LeftOut = Literal["record", "language", "task", "model"]


def echo(text: str, *, nl: bool = True, err: bool = False) -> None:
    """Print text whose names come from files: what a terminal acts on is escaped."""
    typer.echo(for_terminal(text), nl=nl, err=err)


def echo_place(words: str, place: object, *, err: bool = False) -> None:
    """Print in one line where something was written, whatever the path is called."""
    echo(f"{words}: {one_line(place)}", err=err)


def complete_benchmarks(incomplete: str) -> list[str]:
    """Shipped benchmarks for the shell, which completes files itself."""
    from bayeseval._resources import resource_names

    return [name for name in resource_names("benchmarks") if name.startswith(incomplete)]


def complete_models(incomplete: str) -> list[str]:
    """Shipped models for the shell; of a list with commas, the last one."""
    from bayeseval._resources import resource_names

    before, comma, last = incomplete.rpartition(",")
    known = ["auto", *resource_names("models")]
    return [f"{before}{comma}{name}" for name in known if name.startswith(last)]


def _checked_formats(text: str) -> str:
    from bayeseval.output._style import figure_formats

    try:
        figure_formats(text)
    except InputError as error:
        raise InputError(f"--figure-format: {error}") from error
    return text


def _checked_out(folder: Path | None) -> Path | None:
    from bayeseval.cli._targets import refuse_no_place

    if folder is not None:
        refuse_no_place(folder)
    return folder


Source = Annotated[
    list[str],
    typer.Option(
        "--benchmark",
        "-b",
        metavar="NAME|PATH",
        help="Shipped benchmark, file or folder of scores, or address of a table in a database. "
        "Repeat to join several.",
        autocompletion=complete_benchmarks,
        rich_help_panel=DATA,
    ),
]
Columns = Annotated[
    list[str] | None,
    typer.Option(
        "--columns",
        metavar="OURS=THEIRS",
        help="Name a column, as in score=F1; repeatable. seed= ignores the column seed.",
        rich_help_panel=DATA,
    ),
]
Mapping = Annotated[
    Path | None,
    typer.Option(
        "--mapping",
        metavar="FILE",
        help="YAML file with columns, units and language names.",
        rich_help_panel=DATA,
    ),
]
Metric = Annotated[
    list[str] | None,
    typer.Option(
        "--metric",
        metavar="METRIC",
        help="Metric of a tool's results to use as the score; repeatable, with DATASET=METRIC for "
        "one dataset.",
        rich_help_panel=DATA,
    ),
]
TaskNames = Annotated[
    Path | None,
    typer.Option(
        "--task-names",
        metavar="FILE",
        help="CSV file with the columns task, dataset and language, for a tool's task names.",
        rich_help_panel=DATA,
    ),
]
Format = Annotated[
    str | None,
    typer.Option(
        "--format",
        metavar="NAME",
        help="File format: table, lm-eval, helm, ...",
        show_default="detected",
        rich_help_panel=DATA,
    ),
]
Memory = Annotated[
    str | None,
    typer.Option(
        metavar="SIZE",
        help="Reduce rows of items or bootstraps while reading, within a size such as 2GB; done "
        "files are kept.",
        show_default="2GB for .duckdb",
        rich_help_panel=DATA,
    ),
]
Model = Annotated[
    str,
    typer.Option(
        "--model",
        "-m",
        metavar="NAME|FILE",
        help="Shipped model or spec file. auto: the fullest model that the table identifies.",
        show_default="auto; paper with engine ml",
        autocompletion=complete_models,
        rich_help_panel=MODEL,
    ),
]
CovariateFile = Annotated[
    Path | None,
    typer.Option(
        "--covariate",
        metavar="FILE|NAME",
        help="Covariates of languages or models, for specs with some and auto: a file, or mexa.",
        show_default="the benchmark's own",
        rich_help_panel=MODEL,
    ),
]
Engine = Annotated[
    EngineName,
    typer.Option(
        metavar="ENGINE",
        help="auto, marginal (normal likelihoods, effects integrated out), numpyro or pymc "
        "(NUTS), or ml (maximum likelihood).",
        rich_help_panel=SAMPLING,
    ),
]
Draws = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        help="Draws to keep, per chain.",
        show_default="1000",
        rich_help_panel=SAMPLING,
    ),
]
Tune = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        help="Warm-up draws of NUTS, per chain.",
        show_default="1000",
        rich_help_panel=SAMPLING,
    ),
]
Chains = Annotated[
    int | None,
    typer.Option(metavar="N", help="Number of chains.", show_default="4", rich_help_panel=SAMPLING),
]
Seed = Annotated[
    int,
    typer.Option(
        metavar="N",
        help="Random seed; the same seed gives the same numbers.",
        rich_help_panel=SAMPLING,
    ),
]
Jobs = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        help="Fits to run in parallel.",
        show_default="one per core; NUTS: one per four",
        rich_help_panel=SAMPLING,
    ),
]
Dask = Annotated[
    str | None,
    typer.Option(
        metavar="tcp://HOST:PORT",
        help="Run the fits at the workers of the Dask cluster that has this scheduler.",
        show_default="processes of this machine",
        rich_help_panel=SAMPLING,
    ),
]
CommonPairs = Annotated[
    str,
    typer.Option(
        metavar="any|shared|FILE",
        help="Language-task pairs to compare models on: tested by any model, shared by at least "
        "two, or listed in a file with the columns language and task.",
        rich_help_panel=COMPARISON,
    ),
]
CiProb = Annotated[
    float,
    typer.Option(
        metavar="P",
        help="Probability of the equal-tailed intervals, 0.01 to 0.9999.",
        rich_help_panel=OUTPUT,
    ),
]
Out = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="Result folder.",
        show_default="in results/, named after the data and the settings",
        callback=_checked_out,
        rich_help_panel=OUTPUT,
    ),
]
Force = Annotated[
    bool,
    typer.Option(
        "--force",
        help="Replace what a run with other data, model or settings has written to the same "
        "folder; without it the folder is refused.",
        rich_help_panel=OUTPUT,
    ),
]
NoFigures = Annotated[
    bool, typer.Option("--no-figures", help="Do not draw figures.", rich_help_panel=OUTPUT)
]
FigureFormat = Annotated[
    str,
    typer.Option(
        metavar="LIST",
        help="png, pdf or svg; several as in png,pdf.",
        callback=_checked_formats,
        rich_help_panel=OUTPUT,
    ),
]
Quiet = Annotated[
    bool,
    typer.Option("--quiet", "-q", help="Print results only, no progress.", rich_help_panel=OUTPUT),
]
Grid = Annotated[
    str | None,
    typer.Option(
        metavar="LIST",
        help="Numbers to try, as in 1,2,5 or 3-6.",
        show_default="around the present number",
        rich_help_panel="Designs",
    ),
]


@dataclass(frozen=True)
class Reading:
    """The options of reading a table, which :func:`with_reading` gives to a command."""

    benchmark: Source
    columns: Columns = None
    mapping: Mapping = None
    metric: Metric = None
    task_names: TaskNames = None
    format: Format = None
    memory: Memory = None

    def load(self, *, quiet: bool = False) -> Records:
        """Read the table."""
        from bayeseval._progress import progress_bar
        from bayeseval.records import load

        with progress_bar(quiet=quiet) as progress:
            return load(
                self.benchmark,
                columns=parse_columns(self.columns or ()),
                mapping_file=self.mapping,
                format=self.format,
                metric=parse_metrics(self.metric or ()),
                task_names=self.task_names,
                memory=self.memory,
                progress=progress,
            )

    def refuse_without_table(self, option: str) -> None:
        """Refuse options of reading a table where the option that names it is left out."""
        given = self.options.split(" ", 1)[0]
        if not self.benchmark and given:
            raise InputError(
                f"{given} is about the table of {option}, which is left out; name a table with "
                f"{option}, or leave {given} out"
            )

    @property
    def first(self) -> str:
        """The first benchmark, of an address without password and options."""
        from bayeseval.readers.databases import shown

        return shown(self.benchmark[0])

    @property
    def options(self) -> str:
        """The options except the first benchmark, quoted for a shell; without passwords."""
        from bayeseval.readers.databases import shown

        others = map(shown, (self.benchmark or ())[1:])
        words = [word for name in others for word in ("--benchmark", name)]
        words += [word for text in self.columns or () for word in ("--columns", text)]
        words += [word for text in self.metric or () for word in ("--metric", text)]
        for option, value in (
            ("--mapping", self.mapping),
            ("--format", self.format),
            ("--task-names", self.task_names),
            ("--memory", self.memory),
        ):
            words += [] if value is None else [option, str(value)]
        return " ".join(map(shell_quoted, words))


def with_reading(
    *, benchmark: Any = Source, default: Any = inspect.Parameter.empty
) -> Callable[[Command], Command]:
    """Give a command the options of :class:`Reading`; it takes them as one, `reading`.

    Typer makes options of the parameters of a function. Those of `Reading` stand in the
    signature in place of `reading`, so that they are declared once for all commands.

    Parameters
    ----------
    benchmark : type
        How the command line takes the tables; :data:`Source` by default.
    default : list of str or None
        Tables where none are given; they are required without a default.
    """

    def decorate(command: Command) -> Command:
        options = dict(inspect.signature(Reading, eval_str=True).parameters)
        options["benchmark"] = options["benchmark"].replace(annotation=benchmark, default=default)

        @functools.wraps(command)
        def run(**values: Any) -> None:
            reading = Reading(**{name: values.pop(name) for name in options})
            command(reading=reading, **values)

        command_parameters = inspect.signature(command, eval_str=True).parameters
        parameters = [
            parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
            for name in command_parameters
            for parameter in (options.values() if name == "reading" else [command_parameters[name]])
        ]
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {one.name: one.annotation for one in parameters}
        return run

    return decorate


def parse_metrics(texts: Sequence[str]) -> dict[str, str]:
    """Metrics given as METRIC (for all datasets) or DATASET=METRIC."""
    metrics: dict[str, str] = {}
    for text in texts:
        dataset, equals, metric = text.rpartition("=")
        dataset = dataset if equals else "*"
        if not (dataset and metric):
            raise InputError(f"--metric takes METRIC or DATASET=METRIC, got {text!r}")
        if dataset in metrics:
            what = "all datasets" if dataset == "*" else repr(dataset)
            raise InputError(f"--metric is given twice for {what}, and only one metric is read")
        metrics[dataset] = metric
    return metrics


def parse_columns(texts: Sequence[str]) -> dict[str, str | None]:
    """Columns given as OURS=THEIRS; an empty right side leaves a column out."""
    columns: dict[str, str | None] = {}
    for text in texts:
        ours, equals, theirs = text.partition("=")
        if not (ours and equals):
            raise InputError(f"--columns takes OURS=THEIRS, for example score=F1; got {text!r}")
        if ours in columns:
            raise InputError(f"--columns names {ours!r} twice")
        columns[ours] = theirs or None
    return columns


def write_report(folder: Path, progress: Progress | None = None) -> Path:
    """Write the page of a result folder into it; an error says how to write it later."""
    from bayeseval.output.store import results_saved

    remedy = f"bayeseval report {shell_quoted(str(folder))} writes it"
    with results_saved(folder, ["the report"], remedy, refuses_again=True):  # Ctrl-C in imports
        from bayeseval.reporting import read_saved
        from bayeseval.reporting.page import REPORT_FILE, render_page, save_page

        if progress is not None:
            progress("writing the report", 0, 1, "")
        saved = read_saved(folder)
        html = render_page(saved)
    with results_saved(folder, ["the report"], remedy):
        page = save_page(saved, html, folder / REPORT_FILE)
    if progress is not None:
        with results_saved(folder, [], ""):
            progress("writing the report", 1, 1, "")
    return page


def renew_report(folder: Path) -> None:
    """Write the page of a folder again after tables were added to it, if it has one."""
    from bayeseval.reporting.page import REPORT_FILE

    if (folder / REPORT_FILE).is_file():
        try:
            page = write_report(folder)
        except KeyboardInterrupt as problem:
            # Its note says that the tables are saved; Typer would drop it.
            raise StoppedError("; ".join(getattr(problem, "__notes__", ()))) from problem
        echo_place("Report", page)
