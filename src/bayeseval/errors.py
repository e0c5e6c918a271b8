"""Error types and the did-you-mean helper.

Every error a user can cause derives from :class:`BayesevalError` and carries a
one-line message: what is wrong, where, what is allowed, what to do. The command
line prints it and exits with code 2; library callers catch a ``ValueError``.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

__all__ = [
    "BayesevalError",
    "ConvergenceWarning",
    "DesignError",
    "EngineError",
    "InputError",
    "MissingDependencyError",
    "SpecError",
    "addresses_command_line",
    "addressing_command_line",
    "argument",
    "by_option",
    "did_you_mean",
    "not_utf8",
    "setting",
    "wording",
]

# Whose words messages use. Set where commands start, and again in processes that they start.
_COMMAND_LINE: Final = ContextVar("command_line", default=False)


class BayesevalError(ValueError):
    """Base of all errors that a user can cause.

    Examples
    --------
    >>> import bayeseval as be
    >>> try:
    ...     be.load("megga")
    ... except be.BayesevalError as error:
    ...     print(type(error).__name__)
    InputError
    """


class ConvergenceWarning(UserWarning):
    """A fit that failed its convergence gate; its results are not reliable."""


class InputError(BayesevalError):
    """A file, a table or an argument that cannot be used as it is."""


class SpecError(BayesevalError):
    """A model specification with an unknown key or an invalid value."""


class DesignError(BayesevalError):
    """A model that the data at hand cannot identify."""


class EngineError(BayesevalError):
    """A request that an engine does not support, or that failed in it."""


class MissingDependencyError(BayesevalError, ImportError):
    """An optional package is not installed; the message names the extra."""


@contextmanager
def addressing_command_line(addressed: bool = True) -> Iterator[None]:
    """Let messages name the options of the command line meanwhile, not Python's arguments."""
    token = _COMMAND_LINE.set(addressed)
    try:
        yield
    finally:
        _COMMAND_LINE.reset(token)


def addresses_command_line() -> bool:
    """Whether messages are read by a user of the command line, and not of Python."""
    return _COMMAND_LINE.get()


def wording(python: str, command: str) -> str:
    """The one of two wordings that the reader of a message can act on.

    Parameters
    ----------
    python : str
        What a user of Python writes: ``pairs='any'``.
    command : str
        What a user of the command line writes: ``--pairs any``.
    """
    return command if addresses_command_line() else python


def argument(name: str) -> str:
    """An argument, or its option on the command line: ``target_sd`` or ``--target-sd``."""
    return wording(name, f"--{name.replace('_', '-')}")


def setting(name: str, value: object) -> str:
    """A setting as an argument of `load`, or as the mapping file of the command line has it."""
    return wording(f"{name}={value!r}", f"{name}: {value} in a --mapping file")


def by_option(option: str) -> str:
    """`` (--out)`` on the command line, and nothing in Python, behind what an option sets."""
    return wording("", f" ({option})")


def did_you_mean(word: str, options: Iterable[str]) -> str:
    """Return ``"; did you mean 'x'?"``, or an empty string when nothing is near.

    The comparison ignores case, because column and level names rarely agree on it.
    """
    by_fold = {str(option).casefold(): str(option) for option in options}
    near = difflib.get_close_matches(str(word).casefold(), list(by_fold), n=1, cutoff=0.6)
    return f"; did you mean {by_fold[near[0]]!r}?" if near else ""


def not_utf8(source: object, data: bytes, problem: UnicodeDecodeError) -> str:
    """Say where a file stops being UTF-8 text; `problem` is of decoding all of `data`."""
    # With a byte order mark the codec counts from behind it.
    start = problem.start + (len(data) - len(problem.object))
    line = data[:start].count(b"\n") + 1
    return (
        f"{source}, line {line}: not UTF-8 text: byte 0x{data[start]:02x} at position {start};"
        " save the file as UTF-8"
    )
