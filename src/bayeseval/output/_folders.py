"""What the operating system can do with folders: exchange, flush to disk, copy."""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import sys
from pathlib import Path

__all__ = ["discard", "duplicate", "exchange", "flush", "flush_tree", "leaves", "unfinished"]

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2
_UNSUPPORTED = (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP)


def unfinished(folder: Path) -> Path:
    """Where a long run keeps finished parts of a result folder until all are finished."""
    return folder.with_name(f"{folder.name}.unfinished")


def discard(work: Path) -> None:
    """Remove what a run kept in :func:`unfinished`, once its results are written."""
    shutil.rmtree(work, ignore_errors=True)


def exchange(first: Path, second: Path) -> bool:
    """Exchange two folders in one step, by Linux's ``renameat2(RENAME_EXCHANGE)``.

    Returns
    -------
    bool
        False where the system or the file system cannot, or when one of the two is
        gone; nothing has happened then.

    Raises
    ------
    OSError
        If the system can but refuses, for example for lack of permission.
    """
    if not sys.platform.startswith("linux"):
        return False
    function = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if function is None:  # a C library without it
        return False
    function.argtypes = [
        ctypes.c_int,
        ctypes.c_char_p,
        ctypes.c_int,
        ctypes.c_char_p,
        ctypes.c_uint,
    ]
    function.restype = ctypes.c_int
    result = function(
        _AT_FDCWD, os.fsencode(first), _AT_FDCWD, os.fsencode(second), _RENAME_EXCHANGE
    )
    if result == 0:
        return True
    code = ctypes.get_errno()
    if code in _UNSUPPORTED or code == errno.ENOENT:
        return False
    raise OSError(code, os.strerror(code), str(second))


def flush(path: Path) -> None:
    """Wait until a file, or the entries of a folder, are on disk."""
    if sys.platform == "win32":  # has no descriptors of folders
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        # Some network file systems do not know fsync of a folder.
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(descriptor)


def flush_tree(folder: Path, *, folders_only: bool = False) -> None:
    """:func:`flush` everything in a folder, then the folder itself."""
    for parent, _, files in os.walk(folder, topdown=False):
        for name in () if folders_only else files:
            flush(Path(parent, name))
        flush(Path(parent))


def leaves(folder: Path, prefix: str = "") -> list[str]:
    """Files, links and empty folders below a folder, as relative names."""
    relative = []
    for entry in sorted(os.scandir(folder), key=lambda e: e.name):
        name = prefix + entry.name
        inner = leaves(Path(entry.path), f"{name}/") if entry.is_dir(follow_symlinks=False) else []
        relative += inner or [name]
    return relative


def duplicate(source: Path, copy: Path) -> None:
    """Give a file a second name, at no cost where the file system can."""
    if source.is_dir() and not source.is_symlink():
        copy.mkdir()
        shutil.copymode(source, copy)
        return
    try:
        os.link(source, copy, follow_symlinks=False)
    except (OSError, NotImplementedError):
        shutil.copy2(source, copy, follow_symlinks=False)
