"""Locks of folders: held until closed or the process is dead, never waited for in silence."""

from __future__ import annotations

import errno
import os
import re
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from bayeseval._progress import notice
from bayeseval._text import one_line
from bayeseval.errors import InputError, by_option

__all__ = ["alone_in", "locked", "try_lock"]

# Seconds. Our own processes hold a lock for moments, while they swap two folders.
_SILENT: Final = 0.5
_PATIENCE: Final = 60.0
_LONGEST_NAP: Final = 0.05
# "1: FLOCK  ADVISORY  WRITE 5307 fe:00:2162841 0 EOF"; one that waits has "->" in it.
_HELD: Final = re.compile(
    r"^\d+: FLOCK +ADVISORY +\w+ +(?P<pid>-?\d+) +(?P<major>[0-9a-f]+):(?P<minor>[0-9a-f]+):"
    r"(?P<inode>\d+) ",
    re.MULTILINE,
)


@contextmanager
def locked(parent: Path) -> Iterator[bool]:
    """Let one process at a time look at and swap the folders of a parent.

    Nothing slow happens under the lock: results are written before. Where a file
    system has no locks, two processes that finish in the same instant may disturb
    each other, and one of them then says so.

    Yields
    ------
    bool
        Whether the lock is ours; False where there are no locks, or no such folder.

    Raises
    ------
    InputError
        If another process does not release the lock. That it is waited for is said on stderr.
    """
    lock = _wait(parent)
    try:
        yield lock is not None
    finally:
        if lock is not None:
            os.close(lock)


def _wait(folder: Path) -> int | None:
    start = time.monotonic()
    nap = 0.001
    told = False
    while True:
        lock, busy = _attempt(folder)
        if not busy:
            return lock
        waited = time.monotonic() - start
        if waited >= _PATIENCE:
            raise InputError(
                f"{folder} has been locked by {_holder(folder)} for {waited:.0f} s; end that "
                "process, or choose a folder elsewhere"
            )
        if not told and waited >= _SILENT:
            told = True
            notice(
                f"waiting for {_holder(folder)}, which has locked {one_line(folder)}; "
                f"giving up after {_PATIENCE:.0f} s"
            )
        time.sleep(nap)
        nap = min(2 * nap, _LONGEST_NAP)


def try_lock(path: Path) -> int | None:
    """Lock a folder or a file until the descriptor is closed or the process is dead.

    Returns
    -------
    int or None
        File descriptor to close; None when another process holds the lock, the
        path is gone or the file system has no locks.
    """
    return _attempt(path)[0]


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Make a folder and let one process at a time work in it, for as long as that takes.

    A folder in which nothing is left at the end is removed.

    Raises
    ------
    InputError
        If another process works in it; that may take hours, so it is not waited for.
    """
    while True:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(
                f"{folder} cannot be made: {error.strerror}; choose another folder"
                f"{by_option('--out')}"
            ) from error
        lock, busy = _attempt(folder)
        if busy:
            raise InputError(
                f"{_holder(folder)} works in {folder}; wait until it has ended, or choose "
                f"another folder{by_option('--out')}"
            )
        if _is_of(lock, folder):
            break
        # The process before us has removed the folder in the meantime.
        if lock is not None:
            os.close(lock)
    try:
        yield
    finally:
        with suppress(OSError):
            folder.rmdir()
        if lock is not None:
            os.close(lock)


def _is_of(lock: int | None, folder: Path) -> bool:
    try:
        status = folder.stat()
    except FileNotFoundError:
        return False
    return lock is None or os.path.samestat(os.fstat(lock), status)


def _attempt(path: Path) -> tuple[int | None, bool]:
    """The descriptor if the lock is ours, and whether another process holds it."""
    if sys.platform == "win32":
        return None, False
    import fcntl

    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return None, False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        return None, error.errno in (errno.EWOULDBLOCK, errno.EACCES)
    return descriptor, False


def _holder(folder: Path) -> str:
    """The process that holds the lock of a folder, as far as the system tells."""
    try:
        status = folder.stat()
        table = Path("/proc/locks").read_text(encoding="ascii", errors="replace")
    except OSError:
        return "another process"
    place = (os.major(status.st_dev), os.minor(status.st_dev), status.st_ino)
    for held in _HELD.finditer(table):
        theirs = (int(held["major"], 16), int(held["minor"], 16), int(held["inode"]))
        # Of a process in another container no number is known.
        if theirs == place and int(held["pid"]) > 0:
            return f"process {held['pid']}{_command(int(held['pid']))}"
    return "another process"


def _command(pid: int) -> str:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return ""
    # Of another user, who may have put anything into it.
    text = " ".join(word.decode("utf-8", "backslashreplace") for word in words if word)
    return f" ({one_line(text[:80])})" if text else ""
