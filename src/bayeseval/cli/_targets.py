"""Files that commands write at the user's wish: never over a file of a result folder."""

from __future__ import annotations

import os
from pathlib import Path

from bayeseval.errors import InputError
from bayeseval.output.store import RUN_FILE, read_json

__all__ = ["refuse_no_place", "refuse_results", "resolved"]


def resolved(path: Path) -> Path:
    """The path without links; Path.resolve() raises for a link to itself, up to Python 3.12."""
    return Path(os.path.realpath(path))


def refuse_no_place(folder: Path) -> None:
    """Refuse an output folder that is none, or whose path changes when it is made."""
    if not (folder.parts and str(folder).strip()):
        raise InputError(
            "--out is blank or the current folder, which cannot be replaced as a whole; "
            "give the path of another folder, or leave the option out"
        )
    for place, part in enumerate(folder.parts):
        before = Path(*folder.parts[:place])
        if part == os.pardir and not before.is_dir():
            raise InputError(
                f"--out {folder}: {before} is no folder, so that {os.pardir} after it leads "
                "nowhere; give the path without it"
            )


def refuse_results(folder: Path, target: Path | None, *, page: bool = False) -> None:
    """Refuse to write over a file of any result folder.

    Parameters
    ----------
    folder : Path
        The result folder that is read.
    target : Path or None
        What is to be written.
    page : bool
        Whether it is the page of `folder`, which may be written again.
    """
    results = None if target is None else _results_with(resolved(target))
    if results is None:
        return
    own = results == resolved(folder)
    if not (page and own and str(target).endswith(".html")):
        where = folder if own else results
        raise InputError(f"{target} is part of the results in {where}; write to another file")


def _results_with(place: Path) -> Path | None:
    """The result folder that lists a file, if there is one."""
    for folder in place.parents:
        try:
            run = read_json(folder / RUN_FILE) if (folder / RUN_FILE).is_file() else {}
        except InputError:
            # Of others, or damaged, which is said where it is read.
            continue
        listed = run.get("files")
        files = listed if isinstance(listed, list) else []
        if files and place.relative_to(folder).as_posix() in (RUN_FILE, *files):
            return folder
    return None
