"""Result folders that are whole or not there at all.

Everything is written into a temporary sibling folder and swapped in at once, so that a run killed
at any point leaves the previous results as they were. Writers are plain functions of a path.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

from bayeseval._optional import versions
from bayeseval._special import refuse_impossible
from bayeseval.errors import BayesevalError, InputError
from bayeseval.output._files import (
    as_input_errors,
    plain,
    read_json,
    read_tree,
    replace_file,
    replace_json,
    write_csv,
    write_json,
    write_text,
    write_tree,
)
from bayeseval.output._folders import (
    beside,
    carry_over,
    discard,
    exchange,
    flush,
    flush_tree,
    unfinished,
)
from bayeseval.output._hdf5 import refuse_unbounded
from bayeseval.output._identity import RUN_ID, ReplacedError, differing_identity
from bayeseval.output._integrity import (
    HASHES,
    again,
    check_files,
    check_inside,
    check_names,
    check_seal,
    check_version,
    file_hashes,
    files_of_others,
    hashes_without,
    sealed,
)
from bayeseval.output._locks import locked, try_lock
from bayeseval.output._places import check_permission, check_place, check_writable, way_out
from bayeseval.output._run_file import check_fit_run, check_run

__all__ = [
    "RUN_FILE",
    "RUN_ID",
    "Writer",
    "add_files",
    "check_additions",
    "check_files",
    "check_fit_run",
    "check_inside",
    "check_target",
    "discard",
    "read_json",
    "read_run",
    "read_tree",
    "refuse_unbounded",
    "replace_file",
    "replace_json",
    "restore_folder",
    "results_saved",
    "unfinished",
    "write_csv",
    "write_folder",
    "write_json",
    "write_text",
    "write_tree",
]

Writer = Callable[[Path], None]

#: The file that makes a folder a result folder.
RUN_FILE = "run.json"


def check_target(folder: str | Path, run: Mapping[str, Any], *, force: bool = False) -> None:
    """Refuse a folder that the results of a run cannot or may not go to; call it before sampling.

    A temporary folder is made where the results will be and removed again: not all that stops
    writing shows in permissions. Allowed are a folder that does not exist or is empty, the folder
    of the same run (all of :data:`RUN_ID` equal) and, with `force`, the folder of any other run.
    A previous result that a killed process left under its backup name is restored.

    Parameters
    ----------
    folder : str or Path
        May be a symbolic link to a folder.
    run : mapping
        The keys of :data:`RUN_ID`; one that is not known yet is left out and not compared.
    force : bool
        Allow the results of another run to be replaced. A folder without a run file is
        not ours and is refused all the same.

    Raises
    ------
    InputError
        One line: what stands in the way and what to do.
    """
    with as_input_errors(folder):
        target = _resolve(folder)
        with locked(target.parent):
            _check_target(folder, target, run, force=force)
        check_writable(folder, target, longest=_sibling(target, "tmp").name)


def check_additions(folder: str | Path, command: str = "") -> None:
    """Refuse a folder that a command cannot add to; call it before long work.

    Raises
    ------
    InputError
        If it is not a result folder, cannot be written, or a file that stays was edited.
    """
    run = read_run(folder)
    target = _resolve(folder)
    with as_input_errors(folder):
        check_files(target, run, files_of_others(run, command))
        check_permission(folder, target, replaced=False)
        check_writable(folder, target, longest=_sibling(target, "tmp").name, replaced=False)


def _check_target(folder: str | Path, target: Path, run: Mapping[str, Any], *, force: bool) -> None:
    if target.is_symlink():  # all others are resolved
        raise InputError(f"{folder} is a link that leads to itself; {way_out()}")
    if target.exists() and not target.is_dir():
        raise InputError(f"{folder} is a file, not a folder; {way_out()}")
    check_place(folder, target)
    _restore(folder, target)
    if _is_absent(target):
        return
    if not (target / RUN_FILE).is_file():
        raise InputError(
            f"{folder} is not empty and holds no {RUN_FILE}, so it is not a result folder; "
            f"{way_out()}"
        )
    if force:
        return
    try:
        previous = read_json(target / RUN_FILE)
    except InputError as error:
        raise InputError(f"{error}; {way_out(force=True)}") from error
    if differing := differing_identity(previous, run):
        theirs, ours = differing
        raise InputError(
            f"{folder} holds a run with {theirs}, this one has {ours}; {way_out(force=True)}"
        )


def write_folder(
    folder: str | Path,
    writers: Mapping[str, Writer],
    *,
    run: Mapping[str, Any],
    force: bool = False,
) -> Path:
    """Write a result folder as a whole, or leave what was there.

    Parameters
    ----------
    folder : str or Path
        Made with its parents if need be; replaced when :func:`check_target` allows it.
    writers : mapping of str to callable
        Path inside the folder (``"tables/x.csv"``) to the function that writes it.
    run : mapping
        Contents of ``run.json``: at least :data:`RUN_ID`. ``files`` is added, and so are
        ``sha256``, the hashes of these files, ``run_sha256``, that of the other contents, and
        the version of bayeseval under ``versions`` where `run` has none.
    force : bool
        See :func:`check_target`.

    Returns
    -------
    Path
        The folder, symbolic links resolved.

    Raises
    ------
    InputError
        If the folder may not be replaced, or the disk refuses to take the files.

    Notes
    -----
    Files in the previous folder that its run file does not list are the user's and stay; one whose
    name is needed gets ``.orig`` added, or ``.orig.2`` where that is taken. Of two processes the
    last one to finish stays, whole.
    """
    target = _resolve(folder)
    written = [_checked_name(name) for name in writers]
    with as_input_errors(folder):
        with locked(target.parent):
            _check_target(folder, target, run, force=force)
        target.parent.mkdir(parents=True, exist_ok=True)
        work, lock = _make_work_folder(target)
        try:
            _write_into(work, writers)
            contents = {
                "versions": versions(["bayeseval"]),
                **run,
                "files": sorted([*written, RUN_FILE]),
                HASHES: file_hashes(work, written),
            }
            write_json(sealed(plain(contents)), work / RUN_FILE)
            flush_tree(work)
            with locked(target.parent):
                _check_target(folder, target, run, force=force)
                _install(work, target)
        finally:
            shutil.rmtree(work, ignore_errors=True)
            if lock is not None:
                os.close(lock)
    return target


def add_files(
    folder: str | Path,
    writers: Mapping[str, Writer],
    *,
    run: Mapping[str, Any],
    without: Collection[str] = (),
) -> Path:
    """Add files to a result folder, each one whole or not there.

    Parameters
    ----------
    folder : str or Path
        A result folder.
    writers : mapping of str to callable
        As for :func:`write_folder`; files of earlier calls are replaced.
    run : mapping
        Run file of the results that they belong to; another process may have replaced these.
    without : collection of str
        Names of files to delete that an earlier call wrote and this one does not.

    Returns
    -------
    Path
        The folder, symbolic links resolved.

    Raises
    ------
    InputError
        If it is not a result folder, holds another run, or the disk refuses to take the files.

    Notes
    -----
    The run file lists them. A user's file of the same name stays as by :func:`write_folder`.
    """
    read_run(folder)
    target = _resolve(folder)
    written = [_checked_name(name) for name in writers]
    check_names(target, [*written, *without])
    with as_input_errors(folder):
        work, lock = _make_work_folder(target)
        try:
            _write_into(work, writers)
            with locked(target.parent):
                there = read_json(target / RUN_FILE)
                if differing := differing_identity(there, run):
                    raise ReplacedError(
                        f"{folder} holds a run with {differing[0]} by now, and what was to be "
                        f"added is of one with {differing[1]}; another process has replaced it"
                    )
                ours = {str(name) for name in there.get("files") or ()}
                # Listed first: a file of ours without its name would be taken for the user's.
                stale = (ours & set(without)) - set(written)
                listed = sorted((ours | set(written)) - stale)
                kept = hashes_without(there, stale.union(written))
                # A hash before its file would call the file of an earlier call edited.
                hashes = file_hashes(work, written) | kept
                first = sealed({**there, "files": listed, HASHES: kept})
                write_json(first, work / RUN_FILE)
                final = work / f"{RUN_FILE}.final"
                write_json(sealed({**first, HASHES: hashes}), final)
                flush_tree(work)
                for name in written:
                    place = target / name
                    if name not in ours and os.path.lexists(place):
                        place.rename(beside(place))
                for name in stale:
                    (target / name).unlink(missing_ok=True)
                (work / RUN_FILE).replace(target / RUN_FILE)
                for name in written:
                    (target / name).parent.mkdir(parents=True, exist_ok=True)
                    (work / name).replace(target / name)
                final.replace(target / RUN_FILE)
                flush_tree(target, folders_only=True)
        finally:
            shutil.rmtree(work, ignore_errors=True)
            if lock is not None:
                os.close(lock)
    return target


@contextmanager
def results_saved(
    folder: Path, lacking: Sequence[str], remedy: str, *, refuses_again: bool = False
) -> Iterator[None]:
    """Say with whatever ends this step that the results are saved, and how to get the rest.

    Parameters
    ----------
    folder : Path
        Where the results are.
    lacking : sequence of str
        What an end of this step leaves out.
    remedy : str
        How to add that.
    refuses_again : bool
        Whether the remedy fails, too, where this step refuses something: then it is not said.
    """
    try:
        yield
    except ReplacedError:
        raise
    except BaseException as error:
        note = f"the results are saved in {folder}"
        if lacking:
            helps = not (refuses_again and isinstance(error, BayesevalError))
            note += f", without {' and '.join(lacking)}" + (f"; {remedy}" if helps else "")
        if isinstance(error, BayesevalError):
            # Shown in one line, without notes.
            raise type(error)(f"{error}; {note}") from error
        error.add_note(note)
        raise


def _write_into(work: Path, writers: Mapping[str, Writer]) -> None:
    for name, writer in writers.items():
        path = work / name
        path.parent.mkdir(parents=True, exist_ok=True)
        writer(path)
        if not path.is_file():
            raise RuntimeError(f"the writer of {name} wrote nothing")


def read_run(folder: str | Path) -> dict[str, Any]:
    """Return the run file of a result folder, restoring the folder if need be.

    Raises
    ------
    InputError
        If there is no such folder, its run file is not readable or was edited, or a later
        version of bayeseval wrote it.
    """
    target = _resolve(folder)
    restore_folder(target)
    if not target.is_dir():
        raise InputError(f"{folder}: no such result folder")
    if not (target / RUN_FILE).is_file():
        raise InputError(f"{folder} holds no {RUN_FILE}, so it is not a result folder")
    run = read_json(target / RUN_FILE, remedy=f"; restore the file, or {again()}")
    check_version(target, run)
    check_run(target / RUN_FILE, run)
    check_seal(target / RUN_FILE, run)
    return run


def restore_folder(folder: str | Path) -> None:
    """Put a previous result back that a killed process left under its backup name.

    Needed only where the file system cannot exchange two folders in one step: there a
    kill between two renames leaves the name empty for the moment.
    """
    target = _resolve(folder)
    if not os.path.lexists(target):
        with locked(target.parent):
            _restore(folder, target)


def _restore(folder: str | Path, target: Path) -> None:
    backups = _siblings(target, "old")
    if not backups or os.path.lexists(target):
        return
    try:
        backups[0].rename(target)
    except OSError as error:
        raise InputError(f"{folder}: cannot restore {backups[0]} ({error.strerror})") from error


def _resolve(folder: str | Path) -> Path:
    refuse_impossible(folder)
    # realpath, because Path.resolve raises on a symbolic link to itself in some versions.
    return Path(os.path.realpath(folder))


def _is_absent(target: Path) -> bool:
    return not target.exists() or not any(target.iterdir())


def _checked_name(name: str) -> str:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or str(path) in (".", RUN_FILE):
        raise ValueError(f"{name!r} cannot be the name of a result file")
    return str(path)


def _sibling(target: Path, kind: str) -> Path:
    return target.parent / f".{target.name}.{kind}-{os.getpid()}-{secrets.token_hex(4)}"


def _siblings(target: Path, kind: str) -> list[Path]:
    """Temporary folders of a target; newest first, so that the latest result is restored."""
    pattern = re.compile(re.escape(f".{target.name}.{kind}-") + r"\d+-[0-9a-f]{8}")
    if not target.parent.is_dir():
        return []
    siblings = [path for path in target.parent.iterdir() if pattern.fullmatch(path.name)]
    return sorted(
        (path for path in siblings if path.is_dir()), key=lambda p: p.lstat().st_mtime, reverse=True
    )


def _make_work_folder(target: Path) -> tuple[Path, int | None]:
    """Make a temporary folder and lock it; the lock tells others that we are alive.

    What the dead left is removed first.
    """
    # Under the lock of the parent nobody takes the folder for a leftover before it is locked.
    with locked(target.parent):
        _remove_leftovers(target)
        work = _sibling(target, "tmp")
        work.mkdir()
        return work, try_lock(work)


def _remove_leftovers(target: Path) -> None:
    """Delete temporary folders whose process is dead (the kernel drops its locks)."""
    leftovers = _siblings(target, "tmp")
    if os.path.lexists(target):
        leftovers += _siblings(target, "old")
    for leftover in leftovers:
        lock = try_lock(leftover)
        if lock is not None:
            shutil.rmtree(leftover, ignore_errors=True)
            os.close(lock)


def _install(work: Path, target: Path) -> None:
    if _is_absent(target):
        # Replaces an empty folder, fails on any other.
        work.rename(target)
        flush(target.parent)
        return
    carried = _carry_over(target, work)
    shutil.copymode(target, work)
    flush_tree(work, folders_only=True)
    old = _swap(work, target)
    flush(target.parent)
    # What was put there while we were writing.
    _carry_over(old, target, carried)
    shutil.rmtree(old, ignore_errors=True)


def _swap(work: Path, target: Path) -> Path:
    """Put `work` in the place of `target`; return where the old folder is now."""
    if exchange(work, target):
        return work
    backup = _sibling(target, "old")
    target.rename(backup)
    try:
        work.rename(target)
    except OSError:
        if not os.path.lexists(target):
            backup.rename(target)
        raise
    return backup


def _manifest(folder: Path) -> set[str] | None:
    """Names of our own files in a result folder; None when the run file does not say."""
    try:
        files = read_json(folder / RUN_FILE).get("files")
    except InputError:
        return None
    return {str(name) for name in files} if isinstance(files, list) else None


def _carry_over(old: Path, new: Path, carried: Sequence[str] = ()) -> list[str]:
    """Give the new folder the files of the old one that are not ours, and return their names."""
    ours_new = _manifest(new) or set()
    ours_old = _manifest(old)
    ours_old = ours_new if ours_old is None else ours_old
    return carry_over(old, new, ours_old=ours_old.union(carried), ours_new=ours_new)
