"""Detect the format of a file or folder by content; folders of several formats are refused."""

from __future__ import annotations

import json
import os
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from bayeseval._text import Caution, Note, counted, grouped, one_line, shorten
from bayeseval.errors import InputError, did_you_mean, wording
from bayeseval.readers.archives import refuse_zip_bomb
from bayeseval.readers.base import (
    HEAD_BYTES,
    Head,
    Options,
    Reader,
    Reading,
    decode,
    json_fault,
    unpacked,
)
from bayeseval.readers.compressed import PACKED_SUFFIXES, suffix_of
from bayeseval.readers.euroeval import EUROEVAL
from bayeseval.readers.euroeval_leaderboard import EUROEVAL_LEADERBOARD
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
from bayeseval.readers.model_cards import EVAL_RESULTS, MODEL_CARDS, refuse_card_without_results
from bayeseval.readers.mteb import MTEB
from bayeseval.readers.raw import RawTable
from bayeseval.readers.simple_evals import SIMPLE_EVALS
from bayeseval.readers.tabular import (
    TABULAR_SUFFIXES,
    EmptyTableError,
    parquet_problem,
    read_table,
)
from bayeseval.readers.wide import WIDE

__all__ = [
    "READERS",
    "TABLE",
    "Detected",
    "detect",
    "files_below",
    "notes_on_empty",
    "read_results",
    "read_tables",
]

READERS: Final[tuple[Reader, ...]] = (
    LM_EVAL,
    LM_EVAL_SAMPLES,
    LIGHTEVAL,
    LIGHTEVAL_DETAILS,
    EUROEVAL,
    EUROEVAL_LEADERBOARD,
    EVERY_EVAL,
    EVERY_EVAL_SAMPLES,
    MTEB,
    HELM,
    HELM_INSTANCES,
    INSPECT,
    INSPECT_SAMPLES,
    MODEL_CARDS,
    SIMPLE_EVALS,
    WIDE,
)
"""Formats of evaluation tools, asked in this order; those of other distributions come after."""

TABLE: Final = "table"
"""Name of what is no tool's format: a table with one score per row."""

# Files of these are no plain tables, whatever is in them.
_NO_PLAIN_TABLES: Final = frozenset([".xlsx", ".eval", ".md", ".tex"])
_MAX_FILES: Final = 100_000
# Larger JSON is known by its beginning only.
_MAX_STRUCTURE: Final = 1 << 23
_SUFFIXES_OF_TOOLS: Final = (".json", ".jsonl", ".eval", ".parquet")
_SUFFIXES: Final = (*_SUFFIXES_OF_TOOLS, *PACKED_SUFFIXES, *GRID_SUFFIXES)
# In a message, of each cause of damage, and of causes.
_MAX_NAMES: Final = 12
_VALUE: Final = re.compile(r"\d+|'[^']*'|0x\w+")


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
    unreadable : mapping of Path to InputError
        Files that are of no format because they are damaged, and how.
    folder : Path or None
        Where they lie; None for one file.
    """

    reader: Reader
    paths: Sequence[Path]
    details: Mapping[Reader, int] = field(default_factory=dict)
    others: Sequence[Path] = ()
    unreadable: Mapping[Path, InputError] = field(default_factory=dict)
    folder: Path | None = None


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
    unreadable: dict[Path, InputError] = {}
    for file in files:
        searched = path.is_file() or file.suffix.casefold() in suffixes
        reader = _reader_of(file, readers, unreadable) if searched else None
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
            if path.is_file():
                refuse_card_without_results(path)
            return None
        _refuse_mixture(path, kinds, groups, unreadable)
        chosen = kinds[0]
    details = {
        by_name[name]: len(paths)
        for name, paths in groups.items()
        if name != TABLE and chosen.name in by_name[name].details_of
    }
    chosen_files = {file for reader in (chosen, *details) for file in groups[reader.name]}
    others = [file for file in files if file not in chosen_files and file not in unreadable]
    return Detected(chosen, groups[chosen.name], details, others, unreadable, path)


def _refuse_mixture(
    path: Path,
    kinds: Sequence[Reader],
    groups: Mapping[str, list[Path]],
    unreadable: Mapping[Path, InputError],
) -> None:
    auxiliary = {name for kind in kinds for name in kind.auxiliary_files}
    tables = [
        file
        for file in groups.get(TABLE, [])
        if file.parent == path
        and suffix_of(file) in TABULAR_SUFFIXES
        and file not in unreadable
        and not any(file.match(name) for name in auxiliary)
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
    """Read the files that :func:`detect` returned, with a note on their format.

    Files of a folder that cannot be read are left out with a warning.

    Raises
    ------
    InputError
        If none can be read, or what was read is no result.
    """
    paths = detected.paths
    try:
        reading = detected.reader.read(paths, options)
    except InputError as problem:
        refused = [options.refused[path] for path in paths if path in options.refused]
        if not refused or len(paths) == 1 or detected.folder is None:
            raise (refused or [problem])[0] from problem
        failed = {**detected.unreadable, **options.refused}
        causes = _grouped_by_cause(detected.folder, failed)
        if len(refused) == len(paths):
            files = counted(len(failed), "file")
            raise InputError(
                f"{detected.folder}: none of {files} of {detected.reader.title} can be read: "
                f"{causes}"
            ) from problem
        # It stays what it is: unknown tasks carry proposals.
        problem.args = (f"{problem}; {counted(len(failed), 'file')} cannot be read: {causes}",)
        raise
    if detected.folder is None and options.refused:
        raise next(iter(options.refused.values()))
    failed = {**detected.unreadable, **options.refused}
    instead = ""
    if reading.title is None and {suffix_of(path) for path in paths} - _NO_PLAIN_TABLES:
        instead = f"; {_format_argument(TABLE)} reads a plain table"
    notes: list[Note] = [
        f"read as {reading.title or detected.reader.title}"
        f" ({counted(sum(path not in failed for path in paths), 'file')}){instead}"
    ]
    for reader, number in detected.details.items():
        notes.append(
            f"{counted(number, 'file')} of {reader.title} not read;"
            f" {_format_argument(reader.name)} reads them instead"
        )
    others = [file for file in detected.others if file not in failed]
    if others:
        names = shorten([_name_in(detected.folder, file) for file in others], limit=4)
        notes.append(f"{counted(len(others), 'other file')} in the folder not read: {names}")
    if failed:
        assert detected.folder is not None
        total = len({*paths, *detected.others, *failed}) + sum(detected.details.values())
        notes.insert(0, _caution(detected.folder, failed, total))
    return replace(reading, notes=(*notes, *reading.notes), refused=failed)


def read_tables(
    files: Sequence[Path], *, folder: Path | None, others: int
) -> tuple[dict[Path, RawTable], list[Note]]:
    """Read plain tables; of a folder, the empty ones are left out with a warning.

    Parameters
    ----------
    files : sequence of Path
    folder : Path or None
        Where they lie; None where each file has to be read.
    others : int
        Files of the folder that are no tables.

    Returns
    -------
    tables : dict of Path to RawTable
    notes : list of Note

    Raises
    ------
    InputError
        If a table is damaged, or all are empty.
    """
    tables: dict[Path, RawTable] = {}
    empty: dict[Path, InputError] = {}
    for file in files:
        try:
            tables[file] = read_table(file)
        except EmptyTableError as problem:
            if folder is None or len(files) == 1:
                raise
            empty[file] = problem
    return tables, notes_on_empty(empty, folder=folder, n_files=len(files), others=others)


def notes_on_empty(
    empty: Mapping[Path, InputError], *, folder: Path | None, n_files: int, others: int
) -> list[Note]:
    """What to say of the empty tables of a folder, which are left out.

    Parameters
    ----------
    empty : mapping of Path to InputError
        What is wrong with each.
    folder : Path or None
        None where no table may be empty.
    n_files : int
        All tables of the folder.
    others : int
        Files of the folder that are no tables.

    Raises
    ------
    InputError
        If all are empty.
    """
    if folder is None or not empty:
        return []
    if len(empty) == n_files:
        causes = _grouped_by_cause(folder, empty)
        raise InputError(f"{folder}: none of {counted(n_files, 'table')} has scores: {causes}")
    return [_caution(folder, empty, n_files + others)]


def _caution(folder: Path, failed: Mapping[Path, InputError], total: int) -> Caution:
    return Caution(
        f"{counted(len(failed), 'file')} of {grouped(total)} cannot be read, and scores that only"
        f" they hold are missing: {_grouped_by_cause(folder, failed)}; restore them, or take them"
        " out of the folder"
    )


def _grouped_by_cause(folder: Path, refused: Mapping[Path, InputError]) -> str:
    """Names of files, those with the same damage together: ``a.json, b.json (empty file)``."""
    groups: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for path, problem in sorted(refused.items()):
        cause = str(problem).removeprefix(str(path)).lstrip(":, ").replace(f"{folder}{os.sep}", "")
        name = _name_in(folder, path)
        # What differs is the place of the damage, and what stands there.
        groups[_VALUE.sub("#", cause)].append((name, cause))
    texts = []
    for found in groups.values():
        names = shorten([name for name, _ in found], limit=_MAX_NAMES)
        first = "" if len({cause for _, cause in found}) == 1 else "the first: "
        texts.append(f"{names} ({first}{found[0][1]})")
    return "; ".join(texts[:_MAX_NAMES]) + (
        f"; and {len(texts) - _MAX_NAMES} other causes" if len(texts) > _MAX_NAMES else ""
    )


def _name_in(folder: Path | None, path: Path) -> str:
    inside = folder is not None and folder in path.parents
    return one_line(path.relative_to(folder).as_posix() if folder and inside else path.name)


def _readers(format: str | None) -> tuple[Reader, ...]:
    """Our readers, then those of other distributions, unless a format of ours is asked for."""
    own_formats = [reader.name for reader in READERS]
    if format in (*own_formats, TABLE):
        return READERS
    return (*READERS, *installed_readers([*own_formats, TABLE]))


def _reader_of(
    path: Path, readers: Sequence[Reader], unreadable: dict[Path, InputError]
) -> Reader | None:
    """The reader that knows a file by its beginning, else by the values of its first object.

    If none does, because the file is damaged, `unreadable` gets it.
    """
    try:
        head = Head.of(path)
    except InputError as problem:
        unreadable[path] = problem
        return None
    found = _first(path, head, readers)
    if found is None:
        try:
            whole = _values_first(path, head)
        except InputError as problem:
            unreadable[path] = problem
            return None
        found = None if whole is None else _first(path, whole, readers)
    return found


def _first(path: Path, head: Head, readers: Sequence[Reader]) -> Reader | None:
    return next((reader for reader in readers if reader.sniff(path, head)), None)


def _values_first(path: Path, head: Head) -> Head | None:
    """The first JSON object of a file, its shortest values first; None where there is none.

    Tools and people write keys in any order: behind one long value (``scores``, before
    ``task_name`` where keys are sorted), the others lie far from the beginning.

    Raises
    ------
    InputError
        If the file is damaged: it ends too early, or is not what its name says.
    """
    suffix = suffix_of(path)
    if not head.size and suffix in (*_SUFFIXES_OF_TOOLS, *TABULAR_SUFFIXES):
        raise InputError(f"{path}: the file is empty")
    if suffix == ".parquet":
        _refuse_damaged_parquet(path)
    elif suffix == ".eval":
        refuse_zip_bomb(path)
    elif suffix in (".json", ".jsonl") or head.text[:1] in ("{", "["):
        return _first_object(path)
    return None


def _first_object(path: Path) -> Head | None:
    data = unpacked(path, limit=_MAX_STRUCTURE)
    if data is None:
        return None
    text = decode(data, str(path), expected="expected JSON")
    start = len(text) - len(text.lstrip())
    # Of a list, the first object is enough.
    if text[start : start + 1] == "[":
        start = len(text) - len(text[start + 1 :].lstrip())
    try:
        first, _ = json.JSONDecoder().raw_decode(text, start)
    except (ValueError, RecursionError) as problem:
        if text[start : start + 1] == "]":
            return None
        raise json_fault(text, problem, str(path)) from problem
    if not isinstance(first, dict):
        return None
    values = [f"{json.dumps(key)}: {json.dumps(one)}" for key, one in first.items()]
    beginning = text[:start].lstrip() + "{" + ", ".join(sorted(values, key=len))
    return Head(beginning.encode()[:HEAD_BYTES], len(data))


def _refuse_damaged_parquet(path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        pq.read_schema(path)
    except (pa.ArrowException, OSError, ValueError) as problem:
        raise InputError(f"{path}: damaged Parquet file: {parquet_problem(problem)}") from problem


def files_below(folder: Path) -> Iterator[Path]:
    """Files of a folder and of those in it, each folder once and by its own name before a link's.

    Hidden folders are left out, but not those in which model cards have their results.
    """
    seen: set[tuple[int, int]] = set()
    count = 0

    def refuse(problem: OSError) -> None:
        raise InputError(
            f"{problem.filename}: cannot be read: {problem.strerror or problem}"
        ) from problem

    def is_new(path: Path) -> bool:
        status = path.stat()
        known = (status.st_dev, status.st_ino) in seen
        seen.add((status.st_dev, status.st_ino))
        return not known

    # Links wait until all folders have been seen: which name a folder gets depends on no order.
    waiting = [folder]
    for start in waiting:
        if not is_new(start):
            continue
        for root, folders, names in os.walk(start, onerror=refuse):
            shown = [Path(root, n) for n in sorted(folders) if n[0] != "." or n == EVAL_RESULTS]
            waiting += [path for path in shown if path.is_symlink()]
            folders[:] = [path.name for path in shown if not path.is_symlink() and is_new(path)]
            for name in sorted(names):
                path = Path(root) / name
                if not name.startswith(".") and path.is_file():
                    count += 1
                    if count > _MAX_FILES:
                        raise InputError(
                            f"{folder}: more than {grouped(_MAX_FILES)} files; give a folder"
                            " inside it"
                        )
                    yield path
