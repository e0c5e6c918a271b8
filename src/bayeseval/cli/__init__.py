"""The command line: arguments in, calls out, no logic.

Results go to stdout, progress and messages to stderr. Exit codes: 0 done, 2 bad
input or usage, or a machine that lacks memory or disk (one line), 3 done but the
convergence gate failed, 130 interrupted.
"""

from __future__ import annotations

import contextlib
import gc
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, Any, Final

import typer
from typer.core import TyperCommand, TyperGroup

from bayeseval._arguments import LEAST
from bayeseval._optional import versions
from bayeseval._progress import interruptible
from bayeseval._text import show
from bayeseval.cli._faults import (
    check_address_space,
    drop_unwritable,
    fault_text,
    prepare_streams,
)
from bayeseval.cli._shared import EXIT_BAD_INPUT, EXIT_INTERRUPTED, StoppedError, echo
from bayeseval.cli.aligning import mexa
from bayeseval.cli.calibrating import calibrate
from bayeseval.cli.comparing import compare
from bayeseval.cli.fitting import fit
from bayeseval.cli.forecasting import forecast
from bayeseval.cli.leaving_out import sensitivity
from bayeseval.cli.lookup import list_, validate
from bayeseval.cli.measuring import next_
from bayeseval.cli.planning import plan
from bayeseval.cli.predicting import predict
from bayeseval.cli.reporting import cite, report
from bayeseval.errors import (
    BayesevalError,
    ConvergenceWarning,
    InputError,
    addressing_command_line,
    did_you_mean,
)

__all__ = ["app", "main"]

# By the panels of `--help`, in its order.
_PANELS: Final[dict[str, dict[str, Callable[..., None]]]] = {
    "Read and fit": {"fit": fit, "validate": validate, "list": list_},
    "Check and compare": {
        "compare": compare,
        "sensitivity": sensitivity,
        "calibrate": calibrate,
    },
    "Predict and plan": {
        "predict": predict,
        "forecast": forecast,
        "plan": plan,
        "next": next_,
    },
    "Publish": {"report": report, "cite": cite},
    "Measure a covariate": {"mexa": mexa},
}

# What runs without the numerical libraries.
_LIGHT: Final = {"list", "--help", "-h", "--version"}

_UNSAVED: Final = "nothing was saved"

# New objects after which circular garbage is looked for; Python's own number is 700 or 2,000.
_NEW_OBJECTS: Final = 50_000

# What the shell calls it; `python -m bayeseval` shows and completes the same name.
_PROGRAM: Final = "bayeseval"

# What Typer says of a value that is none of the allowed ones.
_CHOICE: Final = re.compile(r": '(?P<given>.*)' is not one of (?P<allowed>'.*')$")

# What it says of a text that is no number.
_NO_NUMBER: Final = re.compile(
    r"Invalid value for '(?P<option>--[a-z-]+)'.*(?:be a|is not a) valid (?P<kind>\w+)"
)


class _Command(TyperCommand):
    """A command whose flags and arguments are listed in `--help` without types of Python."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _without_types(super().get_params(ctx))


class _Group(TyperGroup):
    """The same for the options of `bayeseval` itself."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _without_types(super().get_params(ctx))


def _without_types(params: list[Any]) -> list[Any]:
    for param in params:
        if getattr(param, "is_flag", False) and param.metavar is None:
            param.metavar = ""
        if param.param_type_name == "argument":
            # Its name says what it takes; ``<list[str]>`` does not.
            param.display_type_rich = lambda ctx: None
    return params


app = typer.Typer(
    name=_PROGRAM,
    cls=_Group,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
)
for panel, commands in _PANELS.items():
    for name, command in commands.items():
        app.command(name=name, cls=_Command, rich_help_panel=panel)(command)


def _print_version(asked: bool) -> None:
    if asked:
        echo(f"bayeseval {versions([_PROGRAM]).get(_PROGRAM, '(not installed)')}")
        raise typer.Exit


@app.callback()
def _bayeseval(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """Bayesian multilevel models of multilingual LLM benchmark scores.

    Start with: bayeseval fit --benchmark mega
    """


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    prepare_streams()
    try:
        code = _run(arguments)
        # Writing the rest of the buffer may fail on a closed pipe, too.
        if sys.stdout is not None:
            sys.stdout.flush()
    except BrokenPipeError:
        return _end_quietly()
    except SystemExit as stop:
        # Typer turns a closed pipe into exit code 1.
        if not isinstance(stop.__context__, BrokenPipeError):
            raise
        return _end_quietly()
    except Exception as error:
        message = fault_text(error)
        if message is None:
            raise
        return _end_in_one_line(message)
    _flush_log()
    return code


def _flush_log() -> None:
    """Let Python's end not fail on lines of progress that a full disk did not take."""
    if sys.stderr is not None:
        try:
            sys.stderr.flush()
        except OSError:
            drop_unwritable()


def _run(arguments: Sequence[str] | None) -> int:
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        _refuse_empty(words)
        if not {*words} & _LIGHT:
            check_address_space()
        with (
            _fewer_collections(),
            warnings.catch_warnings(),
            addressing_command_line(),
            interruptible(),
        ):
            # Every command reports it in its text and by its exit code.
            warnings.simplefilter("ignore", ConvergenceWarning)
            code = app(args=words or ["--help"], prog_name=_PROGRAM, standalone_mode=False)
    except StoppedError as stop:
        _print_error(f"interrupted; {str(stop) or _UNSAVED}")
        return EXIT_INTERRUPTED
    except KeyboardInterrupt:
        # Pressed before the command began, while Typer builds its parser.
        code = EXIT_INTERRUPTED
    except BayesevalError as error:
        _print_error(str(error))
        return EXIT_BAD_INPUT
    except typer.TyperException as error:
        _print_error(_usage_error(error.format_message(), words))
        return EXIT_BAD_INPUT
    # Typer turns Ctrl-C into this exit code.
    if code == EXIT_INTERRUPTED:
        _print_error(f"interrupted; {_UNSAVED}")
    return code if isinstance(code, int) else 0


def _refuse_empty(words: Sequence[str]) -> None:
    """Refuse an empty argument, which as a path would mean the current folder."""
    if "" in words:
        place = words.index("")
        before = f" (after {show(words[place - 1])})" if place else ""
        raise InputError(
            f"argument {place + 1}{before} is empty, as one from a shell variable that is not set "
            "is; give a value, or leave it out"
        )


@contextlib.contextmanager
def _fewer_collections() -> Iterator[None]:
    """Look for circular garbage less often: imports and figures make many objects that stay.

    Hundreds of searches took a tenth of the processor time of a fit.
    """
    before = gc.get_threshold()
    gc.set_threshold(_NEW_OBJECTS, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


def _end_quietly() -> int:
    """End without a message: the reader of the output has closed it (`| head`)."""
    drop_unwritable()
    return 0


def _end_in_one_line(message: str) -> int:
    """Say what the machine lacked; where stderr takes nothing either, the exit code says it."""
    with contextlib.suppress(OSError):
        _print_error(message)
    drop_unwritable()
    return EXIT_BAD_INPUT


def _usage_error(message: str, arguments: Sequence[str]) -> str:
    """One line for a wrong call, naming the help of the command that was called."""
    commands = sorted(name for panel in _PANELS.values() for name in panel)
    # Pydantic checks the values for Typer, and names the class of its own error.
    message = message.replace("Value error, ", "", 1)
    words = message.split("'")
    if message.startswith("No such command") and len(words) > 1:
        # Some versions of typer add a suggestion of their own.
        problem = message.split(". ")[0].rstrip(".")
        hint = did_you_mean(words[1], commands)
        message = f"{problem} (commands: {', '.join(commands)}){hint}"
    text = " ".join(message.split()).rstrip(".")
    number = _NO_NUMBER.match(text)
    if number is not None:
        text = _no_number(number["option"], number["kind"], arguments)
    choice = _CHOICE.search(text)
    if choice is not None:
        text += did_you_mean(choice["given"], re.findall("'([^']*)'", choice["allowed"]))
    called = [name for name in arguments[:1] if name in commands]
    command = " ".join([_PROGRAM, *called])
    return f"{text}{'' if text.endswith('?') else '.'} Try '{command} --help'."


def _no_number(option: str, kind: str, arguments: Sequence[str]) -> str:
    """What was given to an option that takes a number, and what is allowed."""
    allowed = "a number"
    if kind == "integer":
        least = LEAST.get(option.removeprefix("--").replace("-", "_"), 1)
        allowed = f"a whole number, {least} or more"
    values = [
        word.removeprefix(f"{option}=") if word.startswith(f"{option}=") else following
        for word, following in zip(arguments, [*arguments[1:], ""], strict=True)
        if word.partition("=")[0] == option
    ]
    # Of an option that is given twice the last one counts.
    return f"{option} is {show(values[-1])}; give {allowed}" if values else f"give {allowed}"


def _print_error(message: str) -> None:
    echo(f"error: {' '.join(message.split())}", err=True)
