"""Whether a result folder is as bayeseval wrote it: hashes of files, versions, links out of it."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path, PurePosixPath
from typing import Any, Final

from bayeseval._optional import versions
from bayeseval._special import refuse_special
from bayeseval._text import grouped
from bayeseval.errors import InputError, argument

__all__ = [
    "HASHES",
    "again",
    "check_files",
    "check_inside",
    "check_names",
    "check_seal",
    "check_version",
    "digest_of",
    "file_hashes",
    "files_of_others",
    "hashes_without",
    "sealed",
]

#: The key of the run file under which the SHA-256 of every other file of ours stands.
HASHES: Final = "sha256"
#: The key of its own SHA-256, of all other keys.
SEAL: Final = "run_sha256"
_PACKAGE: Final = "bayeseval"
# Their folders name them as the engine; those of fits name the engine of the fit.
_COMMANDS: Final = ("compare", "sensitivity", "calibrate", "mexa")
# Their files begin with their names.
_ADDING: Final = ("forecast", "plan", "next", "report")
# Bytes that are hashed in seconds, and of a file by byte on the disk.
_LARGE: Final = 1 << 30
_MOST_PER_BYTE: Final = 1000
_VERSION: Final = re.compile(r"(\d+)\.(\d+)")


def _command_of(name: str) -> str:
    """The command that adds a file of this name to the folder of a fit; empty for other files."""
    first = PurePosixPath(name).stem.partition("_")[0]
    return first if first in _ADDING else ""


def files_of_others(run: Mapping[str, Any], command: str) -> list[str]:
    """Files of a run file that a command which adds to the folder does not write again."""
    written = (command, "report") if command else ()
    return [str(name) for name in run.get("files") or () if _command_of(str(name)) not in written]


def again(run: Mapping[str, Any] | None = None, name: str = "") -> str:
    """Which command to run again for whole files, as far as the run file of a folder says it.

    Parameters
    ----------
    run : mapping, optional
        Contents of the run file.
    name : str
        Of the file that is not whole; files of the fit without one.
    """
    if _command_of(name):
        return f"run bayeseval {_command_of(name)} again"
    engine = str((run or {}).get("engine") or "")
    if not engine:
        return "run the command that wrote the folder again"
    command = next((one for one in _COMMANDS if engine.startswith(one)), "fit")
    # It reads what is in the folder to continue it.
    force = f" with {argument('force')}" if command == "calibrate" else ""
    return f"run bayeseval {command} again{force}"


def file_hashes(folder: Path, names: Iterable[str]) -> dict[str, str]:
    """SHA-256 of files of a folder, in hexadecimal digits, by name."""
    hashes = {}
    for name in sorted(names):
        with (folder / name).open("rb") as file:
            hashes[name] = hashlib.file_digest(file, "sha256").hexdigest()
    return hashes


def hashes_without(run: Mapping[str, Any], names: Collection[str]) -> dict[str, str]:
    """The hashes of a run file, without those of some files; none if it has none."""
    known = run.get(HASHES)
    pairs = known.items() if isinstance(known, Mapping) else ()
    return {str(name): str(value) for name, value in pairs if name not in names}


def check_files(folder: Path, run: Mapping[str, Any], names: Collection[str]) -> None:
    """Refuse files of a result folder that were edited, damaged or lie outside of it.

    Parameters
    ----------
    folder : Path
    run : mapping
        Contents of its run file.
    names : collection of str
        Names of files. One that is not there is passed over: a process that is killed while
        it adds a file leaves its name in the run file.

    Raises
    ------
    InputError
        At the first one.
    """
    check_inside(folder, names)
    _check_unchanged(folder, run, [name for name in names if (folder / name).is_file()])


def _check_unchanged(folder: Path, run: Mapping[str, Any], names: Iterable[str]) -> None:
    """Refuse files that are not as they were written.

    Files without a hash are taken as they are: those of earlier versions, and what a
    process that was killed had just added.

    Raises
    ------
    InputError
        At the first one.
    """
    known = hashes_without(run, ())
    hashed = [name for name in names if name in known]
    for name in hashed:
        refuse_special(folder / name)
        _refuse_hollow(folder / name, again(run, name))
    for name, found in file_hashes(folder, hashed).items():
        if found != known[name]:
            raise InputError(
                f"{folder / name} was edited or is damaged: its SHA-256 is not the one that "
                f"run.json lists; put the original back, or {again(run, name)}"
            )


def _refuse_hollow(path: Path, remedy: str) -> None:
    """Refuse a file whose size is made of holes: hashing a terabyte of zeros takes an hour.

    File systems that compress keep fewer bytes than there are, too, but not so few.
    """
    status = path.stat()
    kept = getattr(status, "st_blocks", status.st_size) * 512
    if status.st_size > _LARGE and status.st_size > _MOST_PER_BYTE * kept:
        raise InputError(
            f"{path} was edited or is damaged: most of its {grouped(status.st_size)} bytes were "
            f"never written; put the original back, or {remedy}"
        )


def sealed(run: Mapping[str, Any]) -> dict[str, Any]:
    """A run file's contents with their own SHA-256.

    Parameters
    ----------
    run : mapping
        As JSON has it: texts, numbers, lists and mappings.
    """
    contents = {key: value for key, value in run.items() if key != SEAL}
    return {**contents, SEAL: digest_of(contents)}


def check_seal(path: Path, run: Mapping[str, Any]) -> None:
    """Refuse a run file that was edited; those of earlier versions have no hash of their own.

    Raises
    ------
    InputError
        If its contents are not those that the hash is of.
    """
    if SEAL in run and run[SEAL] != digest_of({k: v for k, v in run.items() if k != SEAL}):
        raise InputError(
            f"{path} was edited or is damaged: its contents have another SHA-256 than "
            f"{SEAL} states; put the original back, or {again(run)}"
        )


def digest_of(contents: Mapping[str, Any]) -> str:
    """SHA-256 of contents as JSON has them, whatever their order and the white space between."""
    text = json.dumps(contents, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def check_version(folder: Path, run: Mapping[str, Any]) -> None:
    """Refuse the results of a later version, which may mean something else by the same name.

    Raises
    ------
    InputError
        With both versions.
    """
    made_by = run.get("versions")
    theirs = str(made_by.get(_PACKAGE, "")) if isinstance(made_by, Mapping) else ""
    ours = versions([_PACKAGE]).get(_PACKAGE, "")
    parts = [_VERSION.match(text) for text in (theirs, ours)]
    if all(parts) and _number(theirs) > _number(ours):
        raise InputError(
            f"{folder} was written by bayeseval {theirs}, which is later than this one, {ours}; "
            "update it: pip install -U bayeseval"
        )


def check_names(folder: Path, names: Collection[str]) -> None:
    """Refuse to write files where links lead out of a result folder, or where folders are.

    Folders are the user's, whatever the run file lists.

    Raises
    ------
    InputError
        At the first one.
    """
    check_inside(folder, names)
    for name in names:
        if (folder / name).is_dir():
            raise InputError(
                f"{folder / name} is a folder, and a file of this name is to be written; rename "
                "or move the folder"
            )


def _number(text: str) -> tuple[int, ...]:
    match = _VERSION.match(text)
    return tuple(map(int, match.groups())) if match else ()


def check_inside(folder: Path, names: Iterable[str]) -> None:
    """Refuse folders inside a result folder that are links out of it.

    Raises
    ------
    InputError
        At the first one.
    """
    root = os.path.realpath(folder)
    for parent in sorted({(folder / name).parent for name in names}):
        place = os.path.realpath(parent)
        if os.path.commonpath([root, place]) != root:
            raise InputError(
                f"{parent} is a link out of the result folder, to {place}; put a folder with the "
                "files in its place"
            )
