"""Tables whose tasks are named after languages: the test and the language in their names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from bayeseval._text import counted, shorten
from bayeseval.errors import InputError
from bayeseval.readers.columns import find_column
from bayeseval.readers.lm_eval import name_notes
from bayeseval.readers.raw import Column, Dropped, RawTable, object_array, rows_of
from bayeseval.readers.task_names import NamedTask, UnknownTasksError, read_task_names
from bayeseval.readers.typed import TypedCells

__all__ = ["with_task_names"]

_LEFT_OUT: Final = "left out by the table of task names"


def with_task_names(
    table: RawTable, *, columns: Mapping[str, str | None], path: Path | None
) -> tuple[RawTable, list[str]]:
    """Take tests and languages from the names of a table's tasks.

    That is done for a table without a column of languages, and for the tasks that the user's
    table of task names has.

    Parameters
    ----------
    table : RawTable
        One row per score.
    columns : mapping of str to str or None
        The user's choice of columns.
    path : Path or None
        The user's table of task names.

    Returns
    -------
    table : RawTable
        Itself, where there is nothing to take.
    notes : list of str

    Raises
    ------
    InputError
        If the table of task names cannot be read.
    UnknownTasksError
        If a table has no languages, and some of the names seem to have one.
    """
    try:
        found = {
            our: find_column(our, list(table.columns), source=table.source, explicit=columns)
            for our in ("model", "language", "task", "dataset")
        }
    except InputError:
        # It is raised again, with what was read, where all columns are resolved.
        return table, []
    theirs = found["task"] or found["dataset"]
    has_language = found["language"] is not None
    if theirs is None or found["model"] is None or (path is None and has_language):
        return table, []
    cells = table.columns[theirs]
    values = cells.objects() if isinstance(cells, TypedCells) else list(cells)
    texts = [value.strip() if isinstance(value, str) else value for value in values]
    tasks = list(dict.fromkeys(text for text in texts if isinstance(text, str) and text))
    own = read_task_names(path)
    if has_language:
        tasks = [task for task in tasks if task in own]
    try:
        named = own.parse_all(tasks, table.source)
    except UnknownTasksError as unknown:
        n_unknown = sum(len(line.tasks) for line in unknown.proposals)
        no_language = all(line.leaves_out for line in unknown.proposals)
        # Where most names have a language, no other column is to be named for it.
        if path is None and no_language and 2 * n_unknown >= len(tasks):
            return table, []
        raise
    if not named:
        return table, []
    result = _renamed(table, theirs, texts, named, has_language=has_language)
    if not has_language:
        # What is left out is told of with the rows.
        return result, name_notes({task: one for task, one in named.items() if one is not None})
    tests = [f"{task}: {one.dataset}" for task, one in named.items() if one is not None]
    return result, [
        f"name of the test taken from {counted(len(tests), 'task name')}"
        f" ({shorten(tests, limit=4)}), as the table of task names says"
    ]


def _renamed(
    table: RawTable,
    theirs: str,
    texts: list[Any],
    named: Mapping[str, NamedTask | None],
    *,
    has_language: bool,
) -> RawTable:
    rows = [named.get(text) if isinstance(text, str) else None for text in texts]
    out = np.array([text in named and one is None for text, one in zip(texts, rows, strict=True)])
    tests = (text if one is None else one.dataset for text, one in zip(texts, rows, strict=True))
    changed: dict[str, Column] = {**table.columns, theirs: object_array(tests)}
    if not has_language:
        changed["language"] = object_array(None if one is None else one.language for one in rows)
    derived = () if has_language else ("language",)
    result = replace(table, columns=changed, derived=(*table.derived, *derived))
    if not out.any():
        return result
    n_rows = rows_of(table)
    counts = {task: 0 for task, one in named.items() if one is None}
    for place in np.flatnonzero(out):
        counts[texts[place]] += int(n_rows[place])
    first = table.at(int(np.flatnonzero(out)[0]))
    dropped = Dropped(_LEFT_OUT, tuple(sorted(counts.items())), first)
    return replace(result.take(~out), dropped=(*table.dropped, dropped))
