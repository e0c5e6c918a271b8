"""Finished simulations of a calibration: kept one by one, and found again by a later run."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from bayeseval._progress import notice
from bayeseval._text import counted
from bayeseval.calibration.container import Calibration
from bayeseval.errors import InputError, argument
from bayeseval.output._places import way_out
from bayeseval.output.store import RUN_FILE, read_json, read_run, replace_json

__all__ = ["check_number", "find_earlier", "finished_parts", "store_part"]

_NAME: Final = re.compile(r"(\d{6,})\.json")
_FITTED: Final = ("fitted", "gate failed")


def store_part(part: Mapping[str, Any], folder: Path) -> None:
    """Keep one simulation in the folder of its calibration."""
    replace_json(part, folder / f"{part['simulation']:06d}.json")


def finished_parts(folder: Path) -> dict[int, dict[str, Any]]:
    """The simulations that a folder keeps, by number.

    A damaged file is named on stderr and left out, so that its simulation is made again.
    """
    parts = {}
    for number, path in _kept(folder).items():
        try:
            part = read_json(path)
            _check_part(part, number, path)
        except InputError as error:
            notice(f"{error}; simulation {number} is made again")
        else:
            parts[number] = part
    return parts


def _kept(folder: Path) -> dict[int, Path]:
    names = [path.name for path in folder.iterdir()] if folder.is_dir() else []
    matches = [match for name in sorted(names) if (match := _NAME.fullmatch(name))]
    return {int(match[1]): folder / match[0] for match in matches}


def _check_part(part: Mapping[str, Any], number: int, path: Path) -> None:
    try:
        read = Calibration.from_parts([part], {})
        fitted = part["status"] in _FITTED
        whole = part["simulation"] == number and fitted == bool(len(read.simulations))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise InputError(f"{path} is damaged: it is not what a simulation found") from error
    if not whole or not (fitted or part["status"] == "not fitted"):
        raise InputError(f"{path} is damaged: it is not what simulation {number} found")


def find_earlier(folder: Path, identity: Mapping[str, Any]) -> Calibration | None:
    """The same calibration that an earlier run has saved.

    Raises
    ------
    InputError
        If its files were edited, damaged or removed.
    """
    if not (folder / RUN_FILE).is_file():
        return None
    run = read_run(folder)
    if run.get("command") != "calibrate" or any(run.get(k) != v for k, v in identity.items()):
        return None
    return Calibration.open(folder)


def check_number(simulations: int, folder: Path, earlier: Calibration | None, kept: Path) -> None:
    """Refuse a run of fewer simulations than were finished, which would remove the others.

    Parameters
    ----------
    simulations : int
        How many are asked for.
    folder, earlier
        The result folder, and the calibration in it.
    kept : Path
        Folder of :func:`store_part`.

    Raises
    ------
    InputError
        With the place of the others.
    """
    numbers = [] if earlier is None else earlier.statuses["simulation"].tolist()
    for place, there in ((folder, numbers), (kept, list(_kept(kept)))):
        most = max(there, default=-1) + 1
        if most > simulations:
            raise InputError(
                f"{place} holds {counted(len(there), 'simulation')} of this calibration, and "
                f"{argument('simulations')} {simulations} would remove some; ask for {most} or "
                f"more, or {way_out(force=True)}"
            )
