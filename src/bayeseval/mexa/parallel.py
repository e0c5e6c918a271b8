"""Parallel sentences: a folder with one text file per language, line i parallel."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

from bayeseval._special import refuse_special
from bayeseval._text import byte_size, grouped
from bayeseval.errors import InputError, did_you_mean
from bayeseval.languages.matching import understand
from bayeseval.readers import TABULAR_SUFFIXES
from bayeseval.readers.base import MAX_BYTES

__all__ = ["Parallel", "read_parallel", "text_hash"]

_UTF16: Final = (b"\xff\xfe", b"\xfe\xff")
# Bytes of one sentence; those of FLORES have a few hundred.
_MAX_LINE: Final = 100_000
_SHOWN: Final = 3


@dataclass(frozen=True)
class Parallel:
    """The same sentences in several languages.

    Attributes
    ----------
    pivot : str
        Label of the language that all others are compared with.
    texts : mapping of str to tuple of str
        Sentences by language, the pivot among them; all of one length.
    notes : tuple of str
        What a reader should know: files left out, duplicate sentences.
    """

    pivot: str
    texts: Mapping[str, tuple[str, ...]]
    notes: tuple[str, ...] = ()

    @property
    def n(self) -> int:
        """Sentences per language."""
        return len(self.texts[self.pivot])


def text_hash(texts: Sequence[str]) -> str:
    """SHA-256 of sentences, as hexadecimal digits."""
    return hashlib.sha256("\n".join(texts).encode("utf-8")).hexdigest()


def read_parallel(
    folder: str | Path,
    *,
    pivot: str = "eng_Latn",
    sentences: int | None = 100,
    keep_blank: bool = False,
) -> Parallel:
    """Read parallel sentences and check that they can be parallel.

    Parameters
    ----------
    folder : str or Path
        One UTF-8 text file per language, named after it up to the first point
        (``eng_Latn.txt``, ``swh_Latn.devtest``). Files that are named after no language
        are left out, with a note.
    pivot : str
        Label of the language that the others are compared with.
    sentences : int or None
        Use this many first lines; all when None. Where every file has fewer, all are
        used.
    keep_blank : bool
        Accept blank lines. Such a sentence cannot score, so it counts against its
        language.

    Returns
    -------
    Parallel

    Raises
    ------
    InputError
        One line with file and line: a missing pivot, files of different lengths, text
        that is not UTF-8, a blank line, two files of one language.
    """
    root = Path(folder)
    if not root.is_dir():
        raise InputError(f"{folder}: no such folder of parallel texts")
    if sentences is not None and sentences < 2:
        raise InputError(f"at least 2 sentences are compared; got {sentences}")
    files, notes = _files(root, pivot)
    lines = {label: _lines(path, sentences) for label, path in files.items()}
    lengths = {label: len(one) for label, one in lines.items()}
    n = lengths[pivot]
    for label, length in lengths.items():
        if length != n:
            short, full = (label, pivot) if length < n else (pivot, label)
            raise InputError(
                f"{files[short]}: it ends after line {lengths[short]}, but {files[full].name} has "
                f"{lengths[full]}{' or more' if lengths[full] == sentences else ''}; line i must "
                "be the same sentence in every file, or use fewer sentences (--sentences)"
            )
    if n < 2:
        raise InputError(f"{files[pivot]}: at least 2 sentences are compared; it has {n}")
    if sentences is not None and n < sentences:
        notes.append(f"every file has {n} lines, fewer than the {sentences} asked for")
    if not keep_blank:
        _refuse_blank(files, lines)
    notes += _duplicates(files, lines, pivot)
    return Parallel(pivot, MappingProxyType(lines), tuple(notes))


def _files(root: Path, pivot: str) -> tuple[dict[str, Path], list[str]]:
    files: dict[str, Path] = {}
    strays: list[str] = []
    for path in sorted(root.iterdir()):
        if path.name.startswith(".") or not path.is_file():
            continue
        label = path.name.partition(".")[0]
        if label != pivot and understand(label) is None:
            strays.append(path.name)
        elif label in files:
            raise InputError(f"{files[label]} and {path.name} are both of {label!r}; keep one")
        else:
            files[label] = path
    if pivot not in files:
        if any(path.suffix.casefold() in TABULAR_SUFFIXES for path in files.values()):
            raise InputError(
                f"{root}: no file of the pivot {pivot!r}, but tables; the folder of parallel texts "
                "(--parallel) must hold one text file per language, named after it, such as "
                f"{pivot}.txt and deu_Latn.txt, with the same sentence on line i of every file"
            )
        inside = [one.name for one in sorted(root.iterdir()) if one.is_dir()]
        hint = f"; folders inside: {_few(inside)}" if inside else ""
        raise InputError(
            f"{root}: no file of the pivot {pivot!r}{did_you_mean(pivot, files)}"
            f" (available: {_few(files) or 'none'}{hint}); choose another pivot (--pivot)"
        )
    if len(files) == 1:
        raise InputError(f"{root}: no language besides the pivot {pivot!r}")
    notes = [f"left out, because not named after a language: {_few(strays)}"] if strays else []
    return dict(sorted(files.items())), notes


def _few(texts: Iterable[str]) -> str:
    all_of_them = list(texts)
    return ", ".join(all_of_them[:_SHOWN]) + (", ..." if len(all_of_them) > _SHOWN else "")


def _lines(path: Path, sentences: int | None) -> tuple[str, ...]:
    refuse_special(path)
    try:
        rows = _rows(path, sentences)
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror})") from error
    texts = []
    for number, row in enumerate(rows, start=1):
        try:
            texts.append(row.decode("utf-8").strip())
        except UnicodeDecodeError as error:
            raise InputError(
                f"{path}, line {number}: byte {error.start + 1} is not UTF-8; save the file as "
                "UTF-8"
            ) from error
    return tuple(texts)


def _rows(path: Path, sentences: int | None) -> list[bytes]:
    """The first lines of a file, which is read no further than that."""
    if path.stat().st_size > MAX_BYTES:
        raise InputError(
            f"{path}: larger than {byte_size(MAX_BYTES)}, the most that is read; keep one "
            "sentence per line, and fewer of them"
        )
    rows: list[bytes] = []
    with path.open("rb") as file:
        while sentences is None or len(rows) < sentences:
            row = file.readline(_MAX_LINE + 1)
            if not rows:
                if row.startswith(_UTF16):
                    raise InputError(f"{path}, line 1: the text is UTF-16; save the file as UTF-8")
                row = row.removeprefix(b"\xef\xbb\xbf")
            if len(row) > _MAX_LINE:
                raise InputError(
                    f"{path}, line {len(rows) + 1}: longer than {grouped(_MAX_LINE)} bytes, the "
                    "most that a sentence may have; keep one sentence per line"
                )
            # What stands behind the last line feed is a line unless it is blank.
            if not row.endswith(b"\n") and not row.strip():
                break
            rows.append(row)
    return rows


def _refuse_blank(files: Mapping[str, Path], lines: Mapping[str, Sequence[str]]) -> None:
    blank = [
        (label, number)
        for label, texts in lines.items()
        for number, text in enumerate(texts, start=1)
        if not text
    ]
    if blank:
        label, number = blank[0]
        others = f" ({len(blank) - 1} more in these files)" if len(blank) > 1 else ""
        raise InputError(
            f"{files[label]}, line {number}: blank{others}; a sentence that is not there cannot "
            "score; --keep-blank counts it against its language"
        )


def _duplicates(
    files: Mapping[str, Path], lines: Mapping[str, Sequence[str]], pivot: str
) -> list[str]:
    """Equal sentences tie with each other, so none of them can score."""
    notes = []
    for label, texts in lines.items():
        first: dict[str, int] = {}
        twice = []
        for number, text in enumerate(texts, start=1):
            if text and text in first:
                twice.append((first[text], number))
            first.setdefault(text, number)
        if twice:
            more = f" and {len(twice) - 1} more" if len(twice) > 1 else ""
            notes.append(
                f"{files[label].name}: line {twice[0][1]} is the same sentence as line "
                f"{twice[0][0]}{more}; sentences that tie cannot score"
            )
        same = sum(a == b != "" for a, b in zip(texts, lines[pivot], strict=True))
        if label != pivot and 2 * same > len(texts):
            notes.append(f"{files[label].name}: {same} of {len(texts)} lines are the pivot's own")
    return notes
