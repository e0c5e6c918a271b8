"""Finished simulations of a calibration: kept one by one, and found again by a later run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from bayeseval._text import counted
from bayeseval.calibration.container import Calibration
from bayeseval.errors import InputError, argument
from bayeseval.output._kept import Kept, positions
from bayeseval.output._places import way_out
from bayeseval.output.store import RUN_FILE, read_run

__all__ = ["check_number", "find_earlier", "kept_parts"]

Part = dict[str, Any]

_FITTED: Final = ("fitted", "gate failed")


def kept_parts(folder: Path, simulations: int) -> Kept[Part]:
    """What a folder keeps of so many simulations, each as it is stored without its number."""
    names = tuple(f"simulation {number}" for number in range(simulations))
    return Kept(folder, names, _without_number, _read_part)


def _without_number(part: Part) -> Part:
    return {key: value for key, value in part.items() if key != "simulation"}


def _read_part(value: Mapping[str, Any]) -> Part:
    part = dict(value)
    read = Calibration.from_parts([part | {"simulation": 0}], {})
    fitted = part["status"] in _FITTED
    if fitted != bool(len(read.simulations)) or not (fitted or part["status"] == "not fitted"):
        raise ValueError(part["status"])
    return part


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
        Folder of :func:`kept_parts`.

    Raises
    ------
    InputError
        With the place of the others.
    """
    numbers = [] if earlier is None else earlier.statuses["simulation"].tolist()
    for place, there in ((folder, numbers), (kept, list(positions(kept)))):
        most = max(there, default=-1) + 1
        if most > simulations:
            raise InputError(
                f"{place} holds {counted(len(there), 'simulation')} of this calibration, and "
                f"{argument('simulations')} {simulations} would remove some; ask for {most} or "
                f"more, or {way_out(force=True)}"
            )
