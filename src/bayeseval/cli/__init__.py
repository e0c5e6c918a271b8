"""The command line: arguments in, calls out, no logic.

Results go to stdout, progress and messages to stderr. Exit codes: 0 done, 2 bad
input or usage (one line), 3 done but the convergence gate failed, 130 interrupted.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Sequence
from typing import Final

import typer

from bayeseval.cli._shared import EXIT_BAD_INPUT, EXIT_INTERRUPTED, StoppedError
from bayeseval.cli.aligning import mexa
from bayeseval.cli.comparing import compare
from bayeseval.cli.fitting import fit
from bayeseval.cli.forecasting import forecast
from bayeseval.cli.leaving_out import sensitivity
from bayeseval.cli.lookup import list_, validate
from bayeseval.cli.planning import plan
from bayeseval.errors import BayesevalError, ConvergenceWarning, did_you_mean

__all__ = ["app", "main"]

# In the order of `--help`.
COMMANDS: Final[dict[str, Callable[..., None]]] = {
    "fit": fit,
    "validate": validate,
    "compare": compare,
    "sensitivity": sensitivity,
    "forecast": forecast,
    "plan": plan,
    "mexa": mexa,
    "list": list_,
}

_UNSAVED: Final = "nothing was saved"

app = typer.Typer(
    name="bayeseval",
    help="Bayesian multilevel models of multilingual LLM benchmark scores.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
for name, command in COMMANDS.items():
    app.command(name=name)(command)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    try:
        code = _run(arguments)
        # What is still in the buffer may find the pipe closed, too.
        sys.stdout.flush()
    except BrokenPipeError:
        return _without_reader()
    except SystemExit as stop:
        # Typer turns a closed pipe into exit code 1.
        if not isinstance(stop.__context__, BrokenPipeError):
            raise
        return _without_reader()
    return code


def _run(arguments: Sequence[str] | None) -> int:
    try:
        with warnings.catch_warnings():
            # Every command says it in its text and with its exit code.
            warnings.simplefilter("ignore", ConvergenceWarning)
            code = app(args=arguments, standalone_mode=False)
    except StoppedError as stop:
        _complain(f"interrupted; {str(stop) or _UNSAVED}")
        return EXIT_INTERRUPTED
    except BayesevalError as error:
        _complain(str(error))
        return EXIT_BAD_INPUT
    except typer.TyperException as error:
        _complain(_usage(error.format_message()))
        return EXIT_BAD_INPUT
    # Typer turns Ctrl-C into this exit code.
    if code == EXIT_INTERRUPTED:
        _complain(f"interrupted; {_UNSAVED}")
    return code if isinstance(code, int) else 0


def _without_reader() -> int:
    """End quietly: the reader of our output went away (`| head`), and nothing is left to say.

    Python flushes both streams at exit and must not find a closed pipe again.
    """
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in filter(None, (sys.__stdout__, sys.__stderr__)):
        try:
            stream.flush()
        except BrokenPipeError:
            os.dup2(nowhere, stream.fileno())
    return 0


def _usage(message: str) -> str:
    words = message.split("'")
    if message.startswith("No such command") and len(words) > 1:
        commands = sorted(COMMANDS)
        # Some versions of typer add a suggestion of their own.
        problem = message.split(". ")[0].rstrip(".")
        hint = did_you_mean(words[1], commands)
        message = f"{problem} (commands: {', '.join(commands)}){hint}"
    said = " ".join(message.split()).rstrip(".")
    return f"{said}{'' if said.endswith('?') else '.'} Try 'bayeseval --help'."


def _complain(message: str) -> None:
    typer.echo(f"error: {' '.join(message.split())}", err=True)
