"""Whether results can be written to a place at all, found out before sampling."""

from __future__ import annotations

import errno
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from bayeseval.errors import InputError, by_option, wording
from bayeseval.output._locks import locked

__all__ = ["check_permission", "check_place", "check_writable", "way_out"]

_TRIAL: Final = re.compile(r"\.trial-\d+-[0-9a-f]{8}")
# Spaces, tabs, line feeds and backslashes of the kernel's list.
_OCTAL: Final = re.compile(rb"\\([0-7]{3})")


def way_out(*, force: bool = False) -> str:
    """What to do about a folder that results cannot go to, or that holds others (`force`)."""
    another = f"choose another folder{by_option('--out')}"
    return (
        f"{another} or overwrite it with {wording('force=True', '--force')}" if force else another
    )


def check_place(folder: str | Path, target: Path) -> None:
    """Refuse what cannot be replaced as a whole: mount points, the current folder, no folders.

    Raises
    ------
    InputError
        One line with what to do.
    """
    mounts = _mounts()
    if os.path.ismount(target) or str(target) in mounts:
        raise InputError(
            f"{folder} is a mount point and cannot be replaced as a whole; "
            f"choose a folder inside it{by_option('--out')}"
        )
    inner = [place for place in mounts if Path(place).is_relative_to(target)]
    if inner:
        raise InputError(
            f"{folder} cannot be replaced as a whole, because {inner[0]} is a mount point; "
            f"{way_out()}"
        )
    # Whoever stands in a folder that is replaced is left in the old, deleted one.
    if _current_folder().is_relative_to(target):
        raise InputError(
            f"{folder} is the current folder or above it and cannot be replaced as a whole; "
            f"choose a folder inside it{by_option('--out')}, or change to another folder first"
        )
    nearest = _nearest(target)
    if not nearest.is_dir():
        raise InputError(f"{folder}: {nearest} is a file, not a folder; {way_out()}")
    check_permission(folder, target)


def _advice(*, replaced: bool) -> str:
    """What to do about a place that takes no files; additions go where the results are."""
    return way_out() if replaced else "allow writing there, or copy the result folder elsewhere"


def check_permission(folder: str | Path, target: Path, *, replaced: bool = True) -> None:
    """Refuse a folder that may not be read and written, itself or in its first parent.

    Parameters
    ----------
    folder, target : str or Path
        As given, and resolved.
    replaced : bool
        Whether another folder will take the place of the target, or files are added to it.

    Raises
    ------
    InputError
        One line with the place.
    """
    nearest = _nearest(target)
    for place in (target, nearest) if target.exists() else (nearest,):
        if not os.access(place, os.R_OK | os.W_OK | os.X_OK):
            raise InputError(
                f"{folder} cannot be written: no permission to read and write {place};"
                f" {_advice(replaced=replaced)}"
            )


def check_writable(
    folder: str | Path, target: Path, *, longest: str, replaced: bool = True
) -> None:
    """Refuse a place that does not take a folder, whatever its permissions say.

    Parameters
    ----------
    folder, target : str or Path
        As given, and resolved.
    longest : str
        The longest name that will be needed in the place of the target's.
    replaced : bool
        Whether another folder will take the place of the target.

    Raises
    ------
    InputError
        With the reason of the operating system: full, read-only, a name too long.
    """
    nearest = _nearest(target)
    try:
        with _trial(nearest, *target.relative_to(nearest).parts[:-1], longest) as inner:
            if replaced and _is_overlay(target) and target.is_dir() and any(target.iterdir()):
                _check_movable(folder, target, inner)
    except OSError as error:
        raise InputError(
            f"{folder} cannot be written: {nearest} takes no new folder ({error.strerror}); "
            f"{_advice(replaced=replaced)}"
        ) from error


def _mounts() -> dict[str, str]:
    """Mount points and types of their file systems, as far as the system tells.

    `os.path.ismount` does not know a folder that is mounted from the same file system.
    """
    try:
        lines = Path("/proc/self/mountinfo").read_bytes().splitlines()
    except OSError:
        return {}
    mounts = {}
    for line in lines:
        own, _, source = line.partition(b" - ")
        fields = own.split(b" ")
        if len(fields) > 4 and source:
            place = _OCTAL.sub(lambda match: bytes([int(match[1], 8)]), fields[4])
            mounts[os.fsdecode(place)] = os.fsdecode(source.split(b" ")[0])
    return mounts


def _is_overlay(target: Path) -> bool:
    mounts = _mounts()
    below = next((mounts[str(place)] for place in target.parents if str(place) in mounts), "")
    return below == "overlay"


def _check_movable(folder: str | Path, target: Path, full: Path) -> None:
    """Refuse a folder in a lower layer of an overlay, which cannot be renamed.

    Renaming it to a folder that is not empty fails in any case, and says why.
    """
    try:
        target.rename(full)
    except OSError as error:
        if error.errno == errno.EXDEV:
            raise InputError(
                f"{folder} is part of a lower layer of an overlay file system (the image of a "
                "container) and cannot be replaced as a whole; "
                f"{way_out()}"
            ) from error
    else:
        full.rename(target)


def _nearest(target: Path) -> Path:
    """The first parent that exists."""
    return next(parent for parent in target.parents if os.path.lexists(parent))


def _current_folder() -> Path:
    try:
        return Path.cwd()
    except FileNotFoundError:  # deleted under our feet, so it is not below the target
        return Path(os.devnull)


@contextmanager
def _trial(place: Path, *names: str) -> Iterator[Path]:
    """Make folders of these names below a place, with a file, and remove them again.

    Yields
    ------
    Path
        The innermost one.

    Raises
    ------
    OSError
        If the place does not take them.
    """
    with locked(place) as alone:
        if alone:
            # Trials are made under the lock, so these are of processes that were killed.
            for path in list(place.iterdir()):
                if _TRIAL.fullmatch(path.name):
                    shutil.rmtree(path, ignore_errors=True)
        trial = place / f".trial-{os.getpid()}-{secrets.token_hex(4)}"
        try:
            inner = trial.joinpath(*names)
            inner.mkdir(parents=True)
            (inner / "file").write_bytes(b"trial")
            yield inner
        finally:
            shutil.rmtree(trial, ignore_errors=True)
