"""What the operating system can do with folders: exchange, flush to disk, copy."""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import sys
from collections.abc import Collection
from contextlib import suppress
from itertools import count
from pathlib import Path

__all__ = [
    "beside",
    "carry_over",
    "discard",
    "exchange",
    "flush",
    "flush_tree",
    "leaves",
    "unfinished",
]

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2
_UNSUPPORTED = (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP)


def unfinished(folder: Path) -> Path:
    """Where a long run keeps finished parts of a result folder until all are finished."""
    return folder.with_name(f"{folder.name}.unfinished")


def discard(work: Path, *names: str) -> None:
    """Remove what a run kept in :func:`unfinished`, once its results are written.

    These are folders whose names match patterns; files of the user in it stay, and it with them.
    """
    for name in names:
        for place in work.glob(name):
            shutil.rmtree(place, ignore_errors=True)
    with suppress(OSError):
        work.rmdir()


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


def beside(path: Path, taken: Collection[Path] = ()) -> Path:
    """A free name next to a file: with ``.orig`` added, then ``.orig.2`` and so on.

    Parameters
    ----------
    path : Path
    taken : collection of Path
        Names that are not free, besides those that exist.
    """
    names = (f"{path.name}.orig" + (f".{n}" if n > 1 else "") for n in count(1))
    candidates = (path.with_name(name) for name in names)
    return next(one for one in candidates if one not in taken and not os.path.lexists(one))


def carry_over(
    old: Path, new: Path, *, ours_old: Collection[str], ours_new: Collection[str]
) -> list[str]:
    """Give a new result folder the user's files of the old one.

    A file whose name is needed gets the name of :func:`beside`.

    Parameters
    ----------
    old, new : Path
    ours_old : collection of str
        Names of files of the old folder that stay behind: results, and what was carried before.
    ours_new : collection of str
        Names of the results in the new folder.

    Returns
    -------
    list of str
        Names of the files, in the old folder.
    """
    theirs = [name for name in leaves(old) if name not in ours_old]
    taken = {new / name for name in theirs}
    for name in theirs:
        copy = new / name
        if name in ours_new or (copy.is_dir() and not (old / name).is_dir()):
            copy = beside(copy, taken)
        if not os.path.lexists(copy):
            copy.parent.mkdir(parents=True, exist_ok=True)
            _duplicate(old / name, copy)
    return theirs


def _duplicate(source: Path, copy: Path) -> None:
    """Give a file a second name, at no cost where the file system can."""
    if source.is_dir() and not source.is_symlink():
        copy.mkdir()
        shutil.copymode(source, copy)
        return
    try:
        os.link(source, copy, follow_symlinks=False)
    except (OSError, NotImplementedError):
        shutil.copy2(source, copy, follow_symlinks=False)
