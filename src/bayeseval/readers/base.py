"""What readers share: their options, what they return, and reading files within size limits.

A reader is a pair of functions. ``sniff(path, head)`` says from the first bytes of a file whether
it is of the format; ``read(paths, options)`` turns all such files into tables of untouched cells.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final, TypeVar

from bayeseval._special import refuse_special
from bayeseval._text import Note, byte_size, counted, plain, show, two_sizes
from bayeseval._typing import Progress
from bayeseval.errors import InputError, not_utf8
from bayeseval.readers.compressed import unpack, unpacked_pieces, unpacked_start, within
from bayeseval.readers.raw import RawTable

__all__ = [
    "HEAD_BYTES",
    "MAX_BYTES",
    "Head",
    "Options",
    "Reader",
    "Reading",
    "as_list",
    "as_mapping",
    "as_number",
    "as_text",
    "decode",
    "file_bytes",
    "joined_languages",
    "json_fault",
    "json_lines",
    "json_problem",
    "read_json",
    "text_lines",
    "unpacked",
]


MAX_BYTES: Final = 1 << 30
"""Files above this are refused before they are read; so is what grows past it when unpacked."""
HEAD_BYTES: Final = 1 << 14
"""Formats are told apart by as much of a file."""
_MAX_UNPACKED: Final = 4 * MAX_BYTES
_MAX_LINE: Final = 1 << 24
_START_BYTES: Final = 1 << 10
_MANY_FILES: Final = 100
_OTHER_FORMATS: Final = {
    b"PK\x05\x06": "an empty ZIP archive",
    b"PK\x03\x04": "a ZIP archive (unpack it) or an Excel workbook",
    b"\x1f\x8b": "gzip-compressed",
    b"\x28\xb5\x2f\xfd": "zstd-compressed",
    b"BZh": "bzip2-compressed (unpack it)",
    b"\xfd7zXZ": "xz-compressed (unpack it)",
    b"\x89HDF": "an HDF5 or netCDF file",
    b"%PDF": "a PDF document",
    b"SQLite format 3": "an SQLite database",
    b"\xd0\xcf\x11\xe0": "an old or a locked Excel workbook (save it as .xlsx or CSV)",
}
_UTF16: Final = (b"\xff\xfe", b"\xfe\xff")
_Content = TypeVar("_Content")
_TOKEN: Final = re.compile(r'"((?:[^"\\]|\\.)*)"(\s*:)?|[{}\[\]]')


@dataclass(frozen=True)
class Options:
    """How the user wants results of evaluation tools to be read.

    Parameters
    ----------
    metrics : mapping of str to str
        Metric by dataset; the key ``"*"`` stands for all others.
    task_names : Path or None
        Table of the user's own task names; see ``task_names.py``.
    columns : mapping of str to str or None
        The user's choice of columns.
    progress : callable or None
        ``progress(stage, done, total, remark)``.
    format_chosen : bool
        Whether the user named the format.
    refused : dict of Path to InputError
        Files that :meth:`attempts` could not read, and why.
    """

    metrics: Mapping[str, str] = field(default_factory=dict)
    task_names: Path | None = None
    columns: Mapping[str, str | None] = field(default_factory=dict)
    progress: Progress | None = None
    format_chosen: bool = False
    refused: dict[Path, InputError] = field(default_factory=dict)

    def each(self, paths: Sequence[Path]) -> Iterator[Path]:
        """The paths, one after the other, with a report now and then if they are many."""
        report = self.progress if len(paths) >= _MANY_FILES else None
        for done, path in enumerate(paths):
            if report is not None and done % (_MANY_FILES // 2) == 0:
                report("reading files", done, len(paths), path.name)
            yield path
        if report is not None:
            report("reading files", len(paths), len(paths), counted(len(paths), "file"))

    def attempts(
        self, paths: Iterable[Path], read: Callable[[Path], _Content]
    ) -> Iterator[tuple[Path, _Content]]:
        """Files and what `read` makes of each; those that it refuses are kept in `refused`.

        One damaged file of two thousand leaves the others readable: the load report warns of it.
        """
        for path in paths:
            try:
                content = read(path)
            except InputError as problem:
                self.refused[path] = problem
            else:
                yield path, content


@dataclass(frozen=True, slots=True)
class Reading:
    """What a reader read: tables, notes for the load report, and files that cannot be read.

    `title` says what was read where that is not what the reader's own title says.
    """

    tables: tuple[RawTable, ...]
    notes: tuple[Note, ...] = ()
    refused: Mapping[Path, InputError] = field(default_factory=dict)
    title: str | None = None


@dataclass(frozen=True)
class Head:
    """The first bytes of a file, unpacked when they are packed."""

    data: bytes
    size: int

    @classmethod
    def of(cls, path: Path) -> Head:
        """Read the beginning of a file.

        Raises
        ------
        InputError
            If it cannot be read.
        """
        refuse_special(path)
        try:
            size = path.stat().st_size
            with path.open("rb") as file:
                data = file.read(HEAD_BYTES)
        except OSError as problem:
            raise InputError(f"{path}: cannot be read: {problem.strerror or problem}") from problem
        return cls(unpacked_start(data, HEAD_BYTES), size)

    @property
    def is_whole(self) -> bool:
        """Whether this is all that the file holds."""
        return len(self.data) < HEAD_BYTES

    @cached_property
    def text(self) -> str:
        """The beginning as text; what is no UTF-8 is replaced."""
        return self.data.decode("utf-8-sig", errors="replace").lstrip()

    @cached_property
    def keys(self) -> tuple[str, ...]:
        """Keys of the first JSON object, as far as they are seen; none for anything else."""
        return _keys(self.text)

    @cached_property
    def _start_keys(self) -> tuple[str, ...]:
        return _keys(self.text[:_START_BYTES])

    def has(self, *keys: str) -> bool:
        """Whether the first JSON object has all these keys."""
        # Bytes first: they rule out most files at no cost. Most others show what they are
        # in their first lines.
        if not all(f'"{key}"'.encode() in self.data for key in keys):
            return False
        return set(keys) <= set(self._start_keys) or set(keys) <= set(self.keys)


def _keys(text: str) -> tuple[str, ...]:
    """Keys of the object that a text begins with, or of the first one in its list."""
    if text[:1] == "[":
        text = text[1:].lstrip()
    if text[:1] != "{":
        return ()
    keys = []
    depth = 0
    for token in _TOKEN.finditer(text):
        mark = token[0]
        if mark in "{[":
            depth += 1
        elif mark in "}]":
            depth -= 1
            if not depth:
                break
        elif depth == 1 and token[2]:
            keys.append(token[1])
    return tuple(keys)


@dataclass(frozen=True, slots=True)
class Reader:
    """A format that files can have.

    Parameters
    ----------
    name : str
        The format's name, as ``format=`` (``--format``) takes it.
    title : str
        What messages call such files.
    sniff : callable
        ``sniff(path, head) -> bool``: whether a file is of the format.
    read : callable
        ``read(paths, options) -> Reading``.
    details_of : tuple of str
        Formats of which this one holds the details; they are read in its place when both
        are there.
    same_files_as : str
        The format whose files these are, when they are read in another way; such a
        reader is chosen by name only.
    auxiliary_files : tuple of str
        Names of files, or patterns, that the tool writes next to these and that hold no scores.
    suffixes : tuple of str
        How names of such files in a folder end, where no other format has these endings;
        ``".tab"``, for instance. Folders are searched for JSON, Parquet and tables anyhow.
    """

    name: str
    title: str
    sniff: Callable[[Path, Head], bool]
    read: Callable[[Sequence[Path], Options], Reading]
    details_of: tuple[str, ...] = ()
    same_files_as: str = ""
    auxiliary_files: tuple[str, ...] = ()
    suffixes: tuple[str, ...] = ()


def file_bytes(path: Path, *, limit: int = MAX_BYTES) -> bytes:
    """The bytes of a file that is not too large, unpacked if packed with gzip or zstandard.

    Raises
    ------
    InputError
        If it cannot be read, is damaged, or is larger than `limit`.
    """
    refuse_special(path)
    try:
        size = path.stat().st_size
        if size > limit:
            has, most = two_sizes(size, limit)
            raise InputError(f"{path}: the file has {has}; at most {most} are read")
        data = path.read_bytes()
    except OSError as problem:
        raise InputError(f"{path}: cannot be read: {problem.strerror or problem}") from problem
    return unpack(path, data, limit=limit)


def decode(data: bytes, source: str, *, expected: str) -> str:
    """UTF-8 text, with or without a byte order mark.

    Raises
    ------
    InputError
        If it is something else: what, and at which byte.
    """
    for magic, kind in _OTHER_FORMATS.items():
        if data.startswith(magic):
            raise InputError(f"{source}: this is {kind}; {expected}")
    if data.startswith(_UTF16):
        raise InputError(f"{source}: the text is UTF-16; save the file as UTF-8")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        raise InputError(not_utf8(source, data, problem)) from problem
    if "\0" in text:
        position = data.index(b"\0")
        line = data[:position].count(b"\n") + 1
        raise InputError(
            f"{source}, line {line}: not a text file: byte 0x00 at position {position}; {expected}"
        )
    return text


class _DuplicateKeyError(ValueError):
    """A key of an object is given twice."""


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Object hook: json.loads alone would silently keep the last of equal keys."""
    record = dict(pairs)
    if len(record) < len(pairs):
        duplicate = next(
            key for key, count in Counter(key for key, _ in pairs).items() if count > 1
        )
        raise _DuplicateKeyError(f"key {plain(duplicate)!r} is given twice")
    return record


def json_problem(problem: Exception) -> str:
    """What is wrong with a JSON text, in words."""
    if isinstance(problem, json.JSONDecodeError):
        message = problem.msg.removesuffix(" starting at").removesuffix(" at")
        return f"{message[0].lower()}{message[1:]}"
    if isinstance(problem, RecursionError):
        return "nested too deeply"
    if isinstance(problem, _DuplicateKeyError):
        return str(problem)
    # The only other ValueError of the json module: Python's limit on digits of a number.
    return "a number has too many digits"


def json_fault(text: str, problem: Exception, where: str) -> InputError:
    """What is wrong with the JSON of a file, and where."""
    if not isinstance(problem, json.JSONDecodeError):
        return InputError(f"{where}: not valid JSON: {json_problem(problem)}")
    # No text goes over a line's end, so an open one ends with the file.
    is_cut = problem.pos >= len(text.rstrip()) or problem.msg.startswith("Unterminated")
    fault = "the JSON ends too early" if is_cut else "not valid JSON"
    place = f"{where}, line {problem.lineno}, character {problem.colno}"
    return InputError(f"{place}: {fault}: {json_problem(problem)}")


def read_json(path: Path) -> Any:
    """A JSON document; no object may have a key twice.

    Raises
    ------
    InputError
        One line with the place of the damage.
    """
    text = decode(file_bytes(path), str(path), expected="expected JSON")
    try:
        return json.loads(text, object_pairs_hook=_unique)
    except (ValueError, RecursionError) as problem:
        raise json_fault(text, problem, str(path)) from problem


def text_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Lines of a text file with their numbers, packed or not, within bounds; no blank ones.

    Raises
    ------
    InputError
        If the file cannot be read, is damaged, or grows without end when unpacked.
    """
    number = 0
    for number, data in enumerate(_byte_lines(path), start=1):
        if number == 1:
            data = data.removeprefix(b"\xef\xbb\xbf")
            for magic, kind in _OTHER_FORMATS.items():
                if data.startswith(magic):
                    raise InputError(f"{path}: this is {kind}; expected lines of JSON")
        if not data.strip():
            continue
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError as problem:
            raise InputError(
                f"{path}, line {number}: not UTF-8 text: byte 0x{data[problem.start]:02x};"
                " save the file as UTF-8"
            ) from problem
        yield number, text


def _byte_lines(path: Path) -> Iterator[bytes]:
    pieces: list[bytes] = []
    length = 0
    for chunk in _chunks(path):
        first, *lines = chunk.split(b"\n")
        pieces.append(first)
        length += len(first)
        if length > _MAX_LINE:
            raise InputError(
                f"{path}: a line is longer than {_MAX_LINE >> 20} MiB; expected one record per line"
            )
        if lines:
            yield b"".join(pieces)
            yield from lines[:-1]
            pieces, length = [lines[-1]], len(lines[-1])
    if length:
        yield b"".join(pieces)


def _chunks(path: Path) -> Iterator[bytes]:
    """The bytes of a file, unpacked if packed, up to the bound."""
    refuse_special(path)
    try:
        if path.stat().st_size > MAX_BYTES:
            raise InputError(
                f"{path}: the file is larger than {byte_size(MAX_BYTES)}, the most that is read"
            )
        with path.open("rb") as file:
            yield from within(_MAX_UNPACKED, path, unpacked_pieces(path, file, file.peek(4)))
    except OSError as problem:
        raise InputError(f"{path}: cannot be read: {problem.strerror or problem}") from problem


def unpacked(path: Path, *, limit: int) -> bytes | None:
    """The bytes of a file, unpacked if packed; None if they are more than `limit`.

    Raises
    ------
    InputError
        If it cannot be read.
    """
    pieces = []
    total = 0
    for piece in _chunks(path):
        total += len(piece)
        if total > limit:
            return None
        pieces.append(piece)
    return b"".join(pieces)


def json_lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """The objects of a JSON Lines file with their line numbers.

    Raises
    ------
    InputError
        At the first line that is no object.
    """
    for number, line in text_lines(path):
        try:
            record = json.loads(line, object_pairs_hook=_unique)
        except (ValueError, RecursionError) as problem:
            raise InputError(
                f"{path}, line {number}: not valid JSON: {json_problem(problem)}"
                " (one whole object per line)"
            ) from problem
        yield number, as_mapping(record, f"{path}, line {number}")


def as_mapping(value: Any, where: str) -> dict[str, Any]:
    """`value`, which must be a JSON object."""
    if not isinstance(value, dict):
        raise InputError(f"{where}: expected an object with keys and values, got {show(value)}")
    return value


def as_list(value: Any, where: str) -> list[Any]:
    """`value`, which must be a JSON list."""
    if not isinstance(value, list):
        raise InputError(f"{where}: expected a list, got {show(value)}")
    return value


def as_text(value: Any, where: str) -> str:
    """`value`, which must be text that is not blank."""
    if not isinstance(value, str) or not value.strip():
        raise InputError(f"{where}: expected text, got {show(value)}")
    return value


def joined_languages(languages: Iterable[str]) -> str:
    """One label for what is in several languages, such as a source and a target: ``ar+de``.

    No code of a language has a plus sign; ``ar-de`` would be Arabic as it is in Germany.
    """
    return "+".join(dict.fromkeys(languages))


def as_number(value: Any, where: str) -> float | None:
    """A number, or None where a tool wrote that there is none (null, NaN, ``"N/A"``).

    Raises
    ------
    InputError
        For anything else, infinity included.
    """
    if value is None or (isinstance(value, str) and value.strip().casefold() in ("n/a", "na", "")):
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InputError(f"{where}: expected a number, got {show(value)}")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if math.isinf(number):
        raise InputError(f"{where}: {number} is not finite (too large for a number)")
    return None if math.isnan(number) else number
