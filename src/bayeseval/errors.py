"""Error types and the did-you-mean helper.

Every error a user can cause derives from :class:`BayesevalError` and carries a
one-line message: what is wrong, where, what is allowed, what to do. The command
line prints it and exits with code 2; library callers catch a ``ValueError``.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

__all__ = [
    "BayesevalError",
    "ConvergenceWarning",
    "DesignError",
    "EngineError",
    "InputError",
    "MissingDependencyError",
    "SpecError",
    "argument",
    "did_you_mean",
    "not_utf8",
]


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


def argument(name: str) -> str:
    """An argument and its option: ``target_sd (--target-sd)``."""
    return f"{name} (--{name.replace('_', '-')})"


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
