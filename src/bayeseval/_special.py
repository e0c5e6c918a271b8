"""Files that are no files: pipes, terminals and devices, refused before they are opened."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from bayeseval.errors import BayesevalError, InputError

__all__ = ["refuse_special"]


def refuse_special(path: str | Path, *, error: type[BayesevalError] = InputError) -> None:
    """Refuse what is neither a regular file nor a folder.

    A pipe may never give anything, a device may never end, and both can be read only once,
    where files are looked at more than once. A path that does not exist is left to whoever
    opens it.

    Parameters
    ----------
    path : str or Path
        Links are followed: ``/dev/stdin`` that is a redirected file is that file.
    error : type of BayesevalError
        What is raised.

    Raises
    ------
    BayesevalError
        Of the type `error`: what the path is, and what to give in its place.
    """
    try:
        mode = os.stat(path).st_mode  # noqa: PTH116
    except (OSError, ValueError):
        return
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise error(
            f"{path} is {_kind(mode)}, not a regular file; save its contents to a file and give "
            "that"
        )


def _kind(mode: int) -> str:
    if stat.S_ISFIFO(mode):
        return "a pipe"
    return "a socket" if stat.S_ISSOCK(mode) else "a device"
