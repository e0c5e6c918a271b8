"""Folders with one table per prompt or seed: the number in a file's name as a column."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from bayeseval.readers.compressed import stem_of
from bayeseval.readers.raw import RawTable, with_constants

__all__ = ["with_file_numbers"]

_NUMBERED: Final = re.compile(r"(prompt|seed|run)[ _-]?(\d{1,6})", re.IGNORECASE)


def with_file_numbers(
    tables: Sequence[RawTable], files: Sequence[Path]
) -> tuple[list[RawTable], list[str]]:
    """Add the number in the names of files such as ``prompt_1.csv``, ``prompt_2.csv``.

    Parameters
    ----------
    tables : sequence of RawTable
    files : sequence of Path
        The file of each.

    Returns
    -------
    tables : list of RawTable
        With a column ``prompt``, ``seed`` or ``run``, if all files of two or more are named
        so, with different numbers, and have no column of this name.
    notes : list of str
        What was added.
    """
    found = [_NUMBERED.fullmatch(stem_of(file)) for file in files]
    matches = [match for match in found if match is not None]
    words = {match[1].casefold() for match in matches}
    if len(matches) < len(files) or len(files) < 2 or len(words) > 1:
        return list(tables), []
    (word,) = words
    numbers = [str(int(match[2])) for match in matches]
    taken = {name.casefold() for table in tables for name in table.columns}
    if len(set(numbers)) < len(numbers) or word in taken:
        return list(tables), []
    numbered = [
        with_constants(table, {word: number}) for table, number in zip(tables, numbers, strict=True)
    ]
    return numbered, [
        f"column {word!r} taken from the names of {len(files)} files"
        f" ({files[0].name}, ..., {files[-1].name})"
    ]
