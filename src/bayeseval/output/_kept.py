"""Finished pieces of a long run: kept one by one in a folder, and found again by a later run."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

import pandas as pd

from bayeseval._arguments import as_path
from bayeseval._optional import versions
from bayeseval._progress import notice
from bayeseval.errors import InputError, by_option, wording
from bayeseval.output._files import plain, read_json, replace_json
from bayeseval.output._integrity import HASHES, digest_of
from bayeseval.output._locks import alone_in

__all__ = [
    "Kept",
    "discard_pieces",
    "folder_of",
    "frame_from_json",
    "frame_to_json",
    "positions",
    "work_folder",
]

Result = TypeVar("Result")

# Enough of a SHA-256 for the name of a folder.
_SHORT: Final = 12
_NAME: Final = re.compile(r"(\d{6,})\.json")


@dataclass(frozen=True, eq=False)
class Kept(Generic[Result]):
    """One JSON file for each finished piece of one run.

    Attributes
    ----------
    folder : Path
        Of this run alone: its name tells runs with other inputs apart.
    names : sequence of str
        What each piece is, as its file says too: a file of another piece is not taken.
    to_json, from_json : callable
        From a result to a mapping, and back without any loss.
    """

    folder: Path
    names: tuple[str, ...]
    to_json: Callable[[Result], Mapping[str, Any]]
    from_json: Callable[[Mapping[str, Any]], Result]

    def store(self, position: int, result: Result) -> None:
        """Keep one piece, as a whole or not at all."""
        # The digest is of what the file will hold, where NaN is null.
        value = plain({"piece": self.names[position], "result": dict(self.to_json(result))})
        replace_json({**value, HASHES: digest_of(value)}, self.folder / f"{position:06d}.json")

    def find(self) -> dict[int, Result]:
        """The pieces that are there, by position.

        A damaged file is named on stderr and left out, so that its piece is made again.
        """
        found = {}
        for position, path in positions(self.folder).items():
            if position >= len(self.names):
                continue
            try:
                found[position] = self._read(path, self.names[position])
            except InputError as error:
                notice(f"{error}; {self.names[position]} is made again")
        return found

    def _read(self, path: Path, name: str) -> Result:
        value = read_json(path)
        try:
            is_own = value["piece"] == name
            if is_own and value.pop(HASHES) == digest_of(value):
                return self.from_json(value["result"])
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise InputError(f"{path} is damaged: it is not what {name} found") from error
        if is_own:
            raise InputError(f"{path} was edited or is damaged: its contents have another SHA-256")
        raise InputError(f"{path} is of another piece than {name}")


def positions(folder: Path) -> dict[int, Path]:
    """The files of pieces that a folder has, by position, whatever is in them."""
    names = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
    matches = [match for name in names if (match := _NAME.fullmatch(name))]
    return {int(match[1]): folder / match[0] for match in matches}


def frame_to_json(table: pd.DataFrame) -> dict[str, Any]:
    """Columns of floats as lists that give the same floats again; labels of rows are texts."""
    is_labelled = not isinstance(table.index, pd.RangeIndex)
    return {
        "index": [str(label) for label in table.index] if is_labelled else None,
        # As texts: JSON has no NaN and no infinity.
        "columns": {
            str(name): [repr(float(value)) for value in column] for name, column in table.items()
        },
    }


def frame_from_json(value: Mapping[str, Any]) -> pd.DataFrame:
    """Inverse of :func:`frame_to_json`."""
    columns = {name: [float(one) for one in texts] for name, texts in value["columns"].items()}
    return pd.DataFrame(columns, index=value["index"])


def discard_pieces(folder: Path) -> None:
    """Remove the pieces of one run once its results are saved; those of others stay."""
    # Otherwise another process has just begun the same run, and removes them in its turn.
    with suppress(InputError), alone_in(folder):
        shutil.rmtree(folder, ignore_errors=True)


def work_folder(work: object) -> Path | None:
    """The argument `work`, checked before any work: None, or a folder that may not exist yet.

    Raises
    ------
    InputError
        If it is no path, or a file is in its place.
    """
    if work is None:
        return None
    folder = as_path("work", work)
    for place in (folder, *folder.parents):
        # Unlike those of Path, it takes a name that is too long for one of no file.
        if os.path.lexists(place):
            if not os.path.isdir(place):  # noqa: PTH112
                raise InputError(
                    f"{wording('work: ', '')}{place} is a file, not a folder; choose another folder"
                    f"{by_option('--out')}"
                )
            break
    return folder


def folder_of(work: Path, identity: Mapping[str, Any]) -> Path:
    """Folder of one run in that of all: runs of other inputs or versions have others."""
    content = json.dumps([versions(["bayeseval"]), identity], sort_keys=True, default=str)
    return work / hashlib.sha256(content.encode("utf-8")).hexdigest()[:_SHORT]
