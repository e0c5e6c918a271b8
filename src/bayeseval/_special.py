"""Files that are no files: pipes, devices and those of /proc, refused before they are opened."""

from __future__ import annotations

import errno
import os
import stat
from functools import lru_cache
from pathlib import Path

from bayeseval._text import show
from bayeseval.errors import BayesevalError, InputError

__all__ = ["refuse_impossible", "refuse_special"]


def refuse_impossible(path: str | Path, *, error: type[BayesevalError] = InputError) -> None:
    """Refuse a path that no file can have, which the system says in errors of several kinds.

    Raises
    ------
    BayesevalError
        Of the type `error`.
    """
    try:
        os.lstat(path)
    except ValueError:
        raise error(f"{show(str(path))} is no path: it has a character that none has") from None
    except OSError as problem:
        if problem.errno == errno.ENAMETOOLONG:
            raise error(
                f"{show(str(path))} is no path: a name in it is longer than the system allows"
            ) from None


def refuse_special(
    path: str | Path,
    *,
    error: type[BayesevalError] = InputError,
    remedy: str = "save its contents to a file and give that",
) -> None:
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
    remedy : str
        What to do; of a path that the user gave by default.

    Raises
    ------
    BayesevalError
        Of the type `error`: what the path is, and what to do.
    """
    refuse_impossible(path, error=error)
    try:
        status = os.stat(path)  # noqa: PTH116
    except OSError:
        return
    kind = _kind(status)
    if kind:
        raise error(f"{path} is {kind}, not a regular file; {remedy}")


def _kind(status: os.stat_result) -> str:
    """What a path is that is neither a file nor a folder; "" for these."""
    mode = status.st_mode
    if stat.S_ISDIR(mode):
        return ""
    if stat.S_ISREG(mode):
        return "made by the kernel while it is read" if status.st_dev in _of_kernel() else ""
    if stat.S_ISFIFO(mode):
        return "a pipe"
    return "a socket" if stat.S_ISSOCK(mode) else "a device"


@lru_cache(maxsize=1)
def _of_kernel() -> frozenset[int]:
    """The file systems that hold no files, such as ``/proc``; none on other systems."""
    folders = filter(os.path.ismount, ("/proc", "/sys"))
    return frozenset(os.stat(folder).st_dev for folder in folders)  # noqa: PTH116
