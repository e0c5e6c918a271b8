"""Detect the format of a file or folder by content; folders of several formats are refused."""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from bayeseval._text import counted, grouped, shorten
from bayeseval.errors import InputError, did_you_mean, wording
from bayeseval.readers.base import (
    Head,
    Options,
    Reader,
    Reading,
    decode,
    json_problem,
    unpacked,
)
from bayeseval.readers.compressed import PACKED_SUFFIXES, suffix_of
from bayeseval.readers.euroeval import EUROEVAL
from bayeseval.readers.every_eval import EVERY_EVAL
from bayeseval.readers.every_eval_samples import EVERY_EVAL_SAMPLES
from bayeseval.readers.grids import GRID_SUFFIXES
from bayeseval.readers.helm import HELM
from bayeseval.readers.helm_instances import HELM_INSTANCES
from bayeseval.readers.inspect_logs import INSPECT, INSPECT_SAMPLES
from bayeseval.readers.installed import installed_readers
from bayeseval.readers.lighteval import LIGHTEVAL
from bayeseval.readers.lighteval_details import LIGHTEVAL_DETAILS
from bayeseval.readers.lm_eval import LM_EVAL
from bayeseval.readers.lm_eval_samples import LM_EVAL_SAMPLES
from bayeseval.readers.mteb import MTEB
from bayeseval.readers.tabular import TABULAR_SUFFIXES
from bayeseval.readers.wide import WIDE

__all__ = ["READERS", "TABLE", "Detected", "detect", "files_below", "read_results"]

READERS: Final[tuple[Reader, ...]] = (
    LM_EVAL,
    LM_EVAL_SAMPLES,
    LIGHTEVAL,
    LIGHTEVAL_DETAILS,
    EUROEVAL,
    EVERY_EVAL,
    EVERY_EVAL_SAMPLES,
    MTEB,
    HELM,
    HELM_INSTANCES,
    INSPECT,
    INSPECT_SAMPLES,
    WIDE,
)
"""Formats of evaluation tools, asked in this order; those of other distributions come after."""

TABLE: Final = "table"
"""Name of what is no tool's format: a table with one score per row."""

_MAX_FILES: Final = 100_000
# Larger JSON is known by its beginning only.
_MAX_STRUCTURE: Final = 1 << 23
_MAX_HEAD: Final = 1 << 14
_SUFFIXES: Final = (".json", ".jsonl", *PACKED_SUFFIXES, ".eval", ".parquet", *GRID_SUFFIXES)


@dataclass(frozen=True, slots=True)
class Detected:
    """The files of one format, those that hold its details, and the others of the folder.

    Parameters
    ----------
    reader : Reader
    paths : sequence of Path
    details : mapping of Reader to int
        Numbers of files with details.
    others : sequence of Path
        Files of no known format.
    unreadable : mapping of Path to str
        JSON files that cannot be read, and why.
    """

    reader: Reader
    paths: Sequence[Path]
    details: Mapping[Reader, int] = field(default_factory=dict)
    others: Sequence[Path] = ()
    unreadable: Mapping[Path, str] = field(default_factory=dict)


def detect(path: Path, *, format: str | None = None) -> Detected | None:
    """The tool's format of a file or folder; None for a table.

    Parameters
    ----------
    path : Path
        A file, or a folder that is searched with the folders in it.
    format : str, optional
        Name of the format, where the user decides.

    Raises
    ------
    InputError
        If a folder holds files of several kinds, or none of the one asked for.
    """
    readers = _readers(format)
    allowed = [reader.name for reader in readers]
    if format is not None and format not in (*allowed, TABLE):
        raise InputError(
            f"no format {format!r}{did_you_mean(format, [*allowed, TABLE])}"
            f" (formats: {', '.join([TABLE, *allowed])})"
        )
    if format == TABLE:
        return None
    files = [path] if path.is_file() else sorted(files_below(path))
    suffixes = {*_SUFFIXES, *(suffix for reader in readers for suffix in reader.suffixes)}
    groups: dict[str, list[Path]] = defaultdict(list)
    unreadable: dict[Path, str] = {}
    for file in files:
        searched = path.is_file() or file.suffix.casefold() in suffixes
        try:
            reader = _reader_of(file, readers) if searched else None
        except _DamageError as problem:
            reader, unreadable[file] = None, str(problem)
        groups[TABLE if reader is None else reader.name].append(file)
    by_name = {reader.name: reader for reader in readers}
    if format is not None:
        if path.is_file():
            return Detected(by_name[format], [path])
        chosen = by_name[format]
        if chosen.same_files_as in groups:
            groups = {**groups, format: groups.pop(chosen.same_files_as)}
        if format not in groups:
            raise InputError(f"{path}: the folder holds no {chosen.title}")
    else:
        kinds = [by_name[name] for name in groups if name != TABLE]
        kinds = [kind for kind in kinds if not set(kind.details_of) & set(groups)]
        if not kinds:
            return None
        _refuse_mixture(path, kinds, groups)
        chosen = kinds[0]
    details = {
        by_name[name]: len(paths)
        for name, paths in groups.items()
        if name != TABLE and chosen.name in by_name[name].details_of
    }
    chosen_files = {file for reader in (chosen, *details) for file in groups[reader.name]}
    others = [file for file in files if file not in chosen_files and file not in unreadable]
    return Detected(chosen, groups[chosen.name], details, others, unreadable)


def _refuse_mixture(path: Path, kinds: Sequence[Reader], groups: dict[str, list[Path]]) -> None:
    auxiliary = {name for kind in kinds for name in kind.auxiliary_files}
    tables = [
        file
        for file in groups.get(TABLE, [])
        if file.parent == path
        and suffix_of(file) in TABULAR_SUFFIXES
        and file.name not in auxiliary
    ]
    candidates = [(kind.title, kind.name, groups[kind.name]) for kind in kinds]
    candidates += [("tables", TABLE, tables)] if tables else []
    if len(candidates) > 1:
        listed = " and ".join(
            f"{t} ({shorten([f.name for f in fs], limit=2)})" for t, _, fs in candidates
        )
        choices = " or ".join(_format_argument(name) for _, name, _ in candidates)
        raise InputError(f"{path}: the folder holds {listed}; choose {choices}")


def _format_argument(name: str) -> str:
    return wording(f"format={name!r}", f"--format {name}")


def read_results(detected: Detected, options: Options) -> Reading:
    """Read the files that :func:`detect` returned, with a note on their format."""
    reading = detected.reader.read(detected.paths, options)
    notes = [
        f"read as {detected.reader.title} ({counted(len(detected.paths), 'file')});"
        f" {_format_argument(TABLE)} reads a plain table"
    ]
    for reader, number in detected.details.items():
        notes.append(
            f"{counted(number, 'file')} of {reader.title} not read;"
            f" {_format_argument(reader.name)} reads them instead"
        )
    if detected.others:
        names = shorten([file.name for file in detected.others], limit=4)
        notes.append(
            f"{counted(len(detected.others), 'other file')} in the folder not read: {names}"
        )
    if detected.unreadable:
        causes = shorten(
            [f"{file.name} ({why})" for file, why in detected.unreadable.items()], limit=4
        )
        notes.append(f"{counted(len(detected.unreadable), 'damaged file')} not read: {causes}")
    return Reading(reading.tables, (*notes, *reading.notes))


def _readers(format: str | None) -> tuple[Reader, ...]:
    """Our readers, then those of other distributions, unless a format of ours is asked for."""
    own_formats = [reader.name for reader in READERS]
    if format in (*own_formats, TABLE):
        return READERS
    return (*READERS, *installed_readers([*own_formats, TABLE]))


class _DamageError(Exception):
    """What is wrong with a file of a folder that holds no whole JSON."""


def _reader_of(path: Path, readers: Sequence[Reader]) -> Reader | None:
    """The reader that knows a file by its beginning, else by the values of its first object."""
    head = Head.of(path)
    found = _first(path, head, readers)
    if found is None and head.text[:1] in ("{", "["):
        whole = _values_first(path)
        found = None if whole is None else _first(path, whole, readers)
    return found


def _first(path: Path, head: Head, readers: Sequence[Reader]) -> Reader | None:
    return next((reader for reader in readers if reader.sniff(path, head)), None)


def _values_first(path: Path) -> Head | None:
    """The first JSON object of a file, its shortest values first; None where there is none.

    Tools and people write keys in any order: behind one long value (``scores``, before
    ``task_name`` where keys are sorted), the others lie far from the beginning.
    """
    data = unpacked(path, limit=_MAX_STRUCTURE)
    if data is None:
        return None
    try:
        value, _ = json.JSONDecoder().raw_decode(decode(data, path.name, expected="").lstrip())
    except InputError as problem:
        raise _DamageError(str(problem)) from problem
    except (ValueError, RecursionError) as problem:
        raise _DamageError(f"not valid JSON: {json_problem(problem)}") from problem
    is_list = isinstance(value, list)
    first = value[0] if is_list and value else value
    if not isinstance(first, dict):
        return None
    values = [f"{json.dumps(key)}: {json.dumps(one)}" for key, one in first.items()]
    start = "{" + ", ".join(sorted(values, key=len))
    return Head((f"[{start}" if is_list else start).encode()[:_MAX_HEAD], len(data))


def files_below(folder: Path) -> Iterator[Path]:
    """Files of a folder and of those in it; hidden ones left out, links followed once."""
    top = folder.stat()
    seen = {(top.st_dev, top.st_ino)}
    count = 0

    def refuse(problem: OSError) -> None:
        raise InputError(
            f"{problem.filename}: cannot be read: {problem.strerror or problem}"
        ) from problem

    for root, folders, names in os.walk(folder, onerror=refuse, followlinks=True):
        inside = []
        for name in folders:
            if name.startswith("."):
                continue
            status = (Path(root) / name).stat()
            if (status.st_dev, status.st_ino) not in seen:
                seen.add((status.st_dev, status.st_ino))
                inside.append(name)
        folders[:] = inside
        for name in names:
            path = Path(root) / name
            if not name.startswith(".") and path.is_file():
                count += 1
                if count > _MAX_FILES:
                    raise InputError(
                        f"{folder}: more than {grouped(_MAX_FILES)} files; give a folder inside it"
                    )
                yield path
