"""Folders with a table per prompt, seed or model: what names of files and folders say."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from bayeseval._text import shorten
from bayeseval.errors import InputError
from bayeseval.readers.columns import resolve_columns
from bayeseval.readers.compressed import stem_of
from bayeseval.readers.raw import RawTable, with_constants

__all__ = ["file_numbers", "with_file_numbers", "with_models_of_folders"]

_NUMBERED: Final = re.compile(r"(prompt|seed|run)[ _-]?(\d{1,6})", re.IGNORECASE)


def file_numbers(files: Sequence[Path]) -> tuple[str, tuple[str, ...], str] | None:
    """The number in the names of files such as ``prompt_1.csv``, ``prompt_2.csv``.

    Parameters
    ----------
    files : sequence of Path

    Returns
    -------
    (str, tuple of str, str) or None
        ``prompt``, ``seed`` or ``run``, the number of each file, and a note for the user; None
        unless two files or more are named so, all of them, with different numbers.
    """
    matches = [_NUMBERED.fullmatch(stem_of(file)) for file in files]
    words = {"" if match is None else match[1].casefold() for match in matches}
    numbers = tuple(str(int(match[2])) for match in matches if match is not None)
    if len(files) < 2 or len(words) > 1 or len(set(numbers)) < len(files):
        return None
    (word,) = words
    note = (
        f"column {word!r} taken from the names of {len(files)} files"
        f" ({files[0].name}, ..., {files[-1].name})"
    )
    return word, numbers, note


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
        With the column of :func:`file_numbers`, if none has a column of this name.
    notes : list of str
        What was added.
    """
    found = file_numbers(files)
    taken = {name.casefold() for table in tables for name in table.columns}
    if found is None or found[0] in taken:
        return list(tables), []
    word, numbers, note = found
    return [
        with_constants(table, {word: number}) for table, number in zip(tables, numbers, strict=True)
    ], [note]


def with_models_of_folders(
    tables: Sequence[RawTable],
    files: Sequence[Path],
    *,
    folder: Path | None,
    columns: Mapping[str, str | None],
) -> tuple[list[RawTable], list[str]]:
    """Add the folder of each table as its model, as in ``gpt/scores.csv``, ``aya/scores.csv``.

    Parameters
    ----------
    tables : sequence of RawTable
    files : sequence of Path
        The file of each.
    folder : Path or None
        The folder of the folders; None for a file.
    columns : mapping of str to str or None
        The user's choice of columns.

    Returns
    -------
    tables : list of RawTable
        With a column ``model``, if all tables lie in two folders or more below `folder`, and
        none has a column of models, but all have tasks and scores.
    notes : list of str
        What was added.
    """
    below = [() if folder is None else file.relative_to(folder).parts[:-1] for file in files]
    models = [parts[0].replace("__", "/") if parts else "" for parts in below]
    named = list(dict.fromkeys(models))
    if len(named) < 2 or not all(models) or "model" in columns:
        return list(tables), []
    for table in tables:
        try:
            ours = resolve_columns([*table.columns], source=table.source, explicit=columns).ours
        except InputError:
            # It is raised again, with what was read, where all columns are resolved.
            return list(tables), []
        if "model" in ours or "score" not in ours or not {"task", "dataset"} & set(ours):
            return list(tables), []
    added = [
        replace(with_constants(table, {"model": model}), derived=(*table.derived, "model"))
        for table, model in zip(tables, models, strict=True)
    ]
    return added, [
        f"models named after {len(named)} folders ({shorten(named, limit=4)}), because the tables"
        " have no column of models"
    ]
