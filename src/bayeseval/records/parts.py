"""One file's cells to clean columns: labels, scores and the task of each row."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from bayeseval._text import counted, shorten, show
from bayeseval.errors import InputError
from bayeseval.readers.aggregates import is_aggregate
from bayeseval.readers.columns import (
    EXTRA_NUMBERS,
    REPLICATES,
    ColumnMap,
    columns_argument,
    missing_columns,
    resolve_columns,
)
from bayeseval.readers.raw import Changed, Column, Dropped, RawTable, ReducedTable, rows_of
from bayeseval.readers.typed import TypedCells
from bayeseval.records.cells import clean_labels, empty_cells, parse_numbers
from bayeseval.records.coded import Coded, combined_key
from bayeseval.records.unread_averages import refuse_averages

__all__ = [
    "NOTED_LABELS",
    "REDUCED",
    "NoLanguageError",
    "Part",
    "read_part",
    "replicate_labels",
    "same_partition",
    "tasks_without_language",
    "without_fraction",
]

#: Numbers of a row that stands for many: of its group, how many, and their range.
REDUCED: Final = ("group", "rows", "lowest", "highest")
#: Labels that a note shows.
NOTED_LABELS: Final = 4
_INTEGRAL: Final = re.compile(r"(-?[0-9]+)\.0+")


class NoLanguageError(InputError):
    """A table has all columns that it needs but that of languages.

    Parameters
    ----------
    message : str
    tasks : sequence of str
        Names of its tasks, whose languages a table of task names could say.
    """

    def __init__(self, message: str, tasks: Sequence[str]) -> None:
        super().__init__(message)
        self.tasks = tuple(tasks)


def tasks_without_language(problem: InputError) -> tuple[str, ...]:
    """Tasks of a table that was refused because it has no column of languages."""
    return problem.tasks if isinstance(problem, NoLanguageError) else ()


def _texts(cells: Column) -> list[str]:
    """The different texts of a column."""
    values = cells.objects() if isinstance(cells, TypedCells) else cells
    texts = (str(value).strip() for value in values if value is not None)
    return list(dict.fromkeys(text for text in texts if text))


@dataclass(frozen=True, slots=True)
class Part:
    """What one file contributes.

    Parameters
    ----------
    table : RawTable
        The rows kept; gives the place of each.
    labels : mapping of str to Coded
        ``model``, ``language``, ``task`` and, where there, ``dataset``, ``metric``,
        ``seed``, ``boot``, ``item``, ``split``; an empty text for a record without one of
        these four.
    numbers : mapping of str to array of float
        ``score`` and the optional numbers, NaN where empty.
    columns : mapping of str to str
        Our column and the file's.
    named_tasks : bool
        The task came from a column of its own, not from ``dataset``.
    n_rows : int
        Rows read, before any were dropped.
    ignored : tuple of str
    dropped : tuple of Dropped
    notes : tuple of str
    """

    table: RawTable
    labels: Mapping[str, Coded]
    numbers: Mapping[str, npt.NDArray[np.float64]]
    columns: Mapping[str, str]
    named_tasks: bool
    n_rows: int
    ignored: tuple[str, ...]
    dropped: tuple[Dropped, ...]
    notes: tuple[str, ...]


class _PartReader:
    """Cleans the columns of one table; collects notes and dropped rows."""

    def __init__(self, table: RawTable, columns: ColumnMap) -> None:
        self.table = table
        self.columns = columns
        self.used: dict[str, str] = {}
        self.notes: list[str] = []
        self.dropped: list[Dropped] = list(table.dropped)

    def has(self, our: str) -> bool:
        """Whether the file has this column, with anything in it."""
        theirs = self.columns.ours.get(our)
        if theirs is None:
            return False
        cells = self.table.columns[theirs]
        # Without any rows left, the column cannot be called empty.
        return not len(cells) or not empty_cells(cells).all()

    def labels(self, our: str, *, rows: npt.NDArray[np.bool_] | None = None) -> Coded:
        theirs = self.columns.ours[our]
        self.used[our] = theirs
        table = self.table if rows is None else self.table.take(rows)
        clean = clean_labels(table.columns[theirs], table=table, column=theirs, name=our)
        stripped, normalised = (
            Changed(len(labels), tuple(sorted(labels)[:NOTED_LABELS]))
            for labels in (clean.stripped, clean.normalised)
        )
        if isinstance(table, ReducedTable):
            stripped, normalised = table.reduced_over.get(our, (stripped, normalised))
        if stripped.n:
            self.notes.append(
                f"blanks stripped from {counted(stripped.n, our + ' label')}:"
                f" {_first_of(map(show, stripped.first), stripped.n)}"
            )
        if normalised.n:
            self.notes.append(
                f"Unicode form made NFC in {counted(normalised.n, our + ' label')}:"
                f" {_first_of(normalised.first, normalised.n)}"
            )
        return clean.values

    def numbers(self, our: str) -> npt.NDArray[np.float64]:
        theirs = self.columns.ours[our]
        self.used[our] = theirs
        return parse_numbers(self.table.columns[theirs], table=self.table, column=theirs, name=our)

    def keep(
        self, mask: npt.NDArray[np.bool_], *, reason: str, labels: Coded | None = None
    ) -> None:
        """Keep the rows of `mask`; report the others by reason and label."""
        excluded = np.flatnonzero(~mask)
        counts: Mapping[str, int] = {reason: int(rows_of(self.table)[excluded].sum())}
        if labels is not None:
            left_out = labels.take(excluded)
            rows = rows_of(self.table)[excluded]
            sums = np.bincount(left_out.codes, rows, len(left_out.levels))
            numbers = sums.astype(np.int64).tolist()
            counts = {t: c for t, c in zip(left_out.levels, numbers, strict=True) if c}
        self.dropped.append(
            Dropped(reason, tuple(sorted(counts.items())), self.table.at(int(excluded[0])))
        )
        self.table = self.table.take(mask)


def read_part(table: RawTable, *, columns: Mapping[str, str | None]) -> Part:
    """Clean one table.

    Empty rows, aggregate rows and rows without a score are dropped and named;
    everything else that is invalid is refused.

    Parameters
    ----------
    table : RawTable
    columns : mapping of str to str or None
        The user's choice of columns; see :func:`resolve_columns`.

    Raises
    ------
    InputError
        With file, row, column and value.
    """
    n_rows = int(rows_of(table).sum()) + sum(group.n_rows for group in table.dropped)
    names = list(table.columns)
    chosen = resolve_columns(names, source=table.source, explicit=columns)
    if chosen.missing:
        problem = missing_columns(chosen, table.columns, source=table.source)
        theirs = chosen.ours.get("task") or chosen.ours.get("dataset")
        if theirs is not None and chosen.missing == ("language",):
            raise NoLanguageError(problem, _texts(table.columns[theirs]))
        raise InputError(problem)
    reader = _PartReader(table, chosen)
    _drop_empty_rows(reader)
    labels = {"language": reader.labels("language")}
    labels = _drop_aggregates(reader, labels)
    labels["model"] = reader.labels("model")
    tasks, named_tasks = _tasks(reader, labels)
    labels |= tasks
    for our in (*REPLICATES, "split"):
        if reader.has(our):
            labels[our] = _replicate(reader, our)
    labels = _drop_missing_scores(reader, labels)
    numbers = {"score": reader.numbers("score")}
    for our in (*EXTRA_NUMBERS, "scale_min", "scale_max"):
        # Bounds count even when empty: an empty pair says "unknown", no column says nothing.
        if reader.has(our) or (our.startswith("scale") and our in chosen.ours):
            numbers[our] = reader.numbers(our)
    if isinstance(reader.table, ReducedTable):
        numbers |= {name: getattr(reader.table, name).astype(float) for name in REDUCED}
    used = set(reader.used.values())
    if "score" not in chosen.explicit:
        theirs = reader.used["score"]
        refuse_averages(reader.table, numbers["score"], theirs=theirs, used=used)
    return Part(
        table=reader.table,
        labels=labels,
        numbers=numbers,
        columns=reader.used,
        named_tasks=named_tasks,
        n_rows=n_rows,
        ignored=tuple(name for name in table.columns if name not in used),
        dropped=tuple(reader.dropped),
        notes=tuple(reader.notes),
    )


def _drop_empty_rows(reader: _PartReader) -> None:
    """Spreadsheets leave rows of separators behind."""
    table = reader.table
    empty = empty_cells(table.columns[reader.columns.ours["language"]])
    for cells in table.columns.values():
        if not empty.any():
            return
        rows = np.flatnonzero(empty)
        empty[rows] = empty_cells(cells[rows])
    if empty.any():
        reader.keep(~empty, reason="empty rows")


def _drop_aggregates(reader: _PartReader, labels: dict[str, Coded]) -> dict[str, Coded]:
    languages = labels["language"]
    names = {label for label in languages.present() if is_aggregate(label)}
    if not names:
        return labels
    keep = ~languages.among(names)
    reader.keep(keep, reason="aggregate rows, not a language", labels=languages)
    return {"language": languages.take(keep)}


def _drop_missing_scores(reader: _PartReader, labels: dict[str, Coded]) -> dict[str, Coded]:
    missing = empty_cells(reader.table.columns[reader.columns.ours["score"]])
    if not missing.any():
        return labels
    names = labels["model"].joined(labels["language"], ", ").joined(labels["task"], ", ")
    for factor in ("model", "language", "task"):
        remaining = labels[factor].take(~missing).present()
        lost = sorted(set(labels[factor].present()) - set(remaining))
        if lost:
            reader.notes.append(f"no score left for {factor} {shorten(lost)}")
    reader.keep(~missing, reason="missing score", labels=names)
    return {name: values.take(~missing) for name, values in labels.items()}


def _first_of(labels: Iterable[str], n: int) -> str:
    """The first of `n` labels."""
    more = f" and {n - NOTED_LABELS} more" if n > NOTED_LABELS else ""
    return shorten(labels) + more


def _replicate(reader: _PartReader, our: str) -> Coded:
    """Labels of a column of replicates or splits, empty where a record has none.

    Whether it may have none is decided over all files: a task has replicates or not.
    """
    filled = ~empty_cells(reader.table.columns[reader.columns.ours[our]])
    return _with_empty(reader.labels(our, rows=filled), filled, our)


def replicate_labels(table: RawTable, column: str, our: str) -> Coded:
    """Labels of a column that was not read as one of ours, empty where a record has none."""
    filled = ~empty_cells(table.columns[column])
    some = table.take(filled)
    clean = clean_labels(some.columns[column], table=some, column=column, name=our)
    return _with_empty(clean.values, filled, our)


def _with_empty(labels: Coded, filled: npt.NDArray[np.bool_], our: str) -> Coded:
    codes = np.full(len(filled), len(labels.levels), dtype=np.int64)
    codes[filled] = labels.codes
    levels = (without_fraction(label, our) for label in labels.levels)
    return Coded.of(codes, [*levels, ""])


def without_fraction(label: str, our: str) -> str:
    """The label of a seed or another replicate, which a spreadsheet may have written as "1.0"."""
    whole = None if our == "item" else _INTEGRAL.fullmatch(label)
    return label if whole is None else whole[1]


def _tasks(reader: _PartReader, labels: Mapping[str, Coded]) -> tuple[dict[str, Coded], bool]:
    """The task of each row, with dataset and metric where the file has them.

    ``task`` alone names the task; ``dataset`` and ``metric`` make ``dataset:metric``.
    With both, the task's own labels are used when the two split the rows in the same
    way; otherwise the user has to choose, because a finer or coarser task is a
    different model.
    """
    explicit = reader.columns.explicit
    n_rows = len(reader.table)
    columns: dict[str, Coded] = {}
    if reader.has("metric"):
        columns["metric"] = reader.labels("metric")
    elif reader.columns.metric is not None:
        columns["metric"] = Coded.constant(reader.columns.metric, n_rows)
        reader.notes.append(f"metric {reader.columns.metric!r} taken from the score column's name")
    has_task, has_dataset = reader.has("task"), reader.has("dataset")
    if has_task and has_dataset and "dataset" in explicit and "task" not in explicit:
        has_task = False
    if has_dataset:
        columns["dataset"] = reader.labels("dataset")
        setups = columns["dataset"]
        if "metric" in columns:
            setups = setups.joined(columns["metric"], ":")
    if has_task:
        columns["task"] = reader.labels("task")
        if has_dataset and "task" not in explicit and not same_partition(columns["task"], setups):
            raise InputError(_task_conflict(reader, labels, columns["task"], setups))
        return columns, True
    if has_dataset:
        return columns | {"task": setups}, False
    if reader.has("metric"):
        reader.notes.append("no task or dataset column: each metric is one task")
        return columns | {"task": columns["metric"]}, True
    name = reader.columns.metric or "score"
    reader.notes.append(f"no task or dataset column: all records belong to one task, {name!r}")
    return columns | {"task": Coded.constant(name, n_rows)}, True


def same_partition(first: Coded, second: Coded) -> bool:
    """Whether two columns of labels group the rows in the same way."""
    return len(first.pairs(second)) == len(first.present()) == len(second.present())


def _task_conflict(
    reader: _PartReader, labels: Mapping[str, Coded], tasks: Coded, setups: Coded
) -> str:
    task, dataset = reader.columns.ours["task"], reader.columns.ours["dataset"]
    by_task: dict[str, str] = {}
    by_setup: dict[str, str] = {}
    example = ""
    for name, setup in tasks.pairs(setups):
        if by_task.setdefault(name, setup) != setup:
            example = f"{task} {name!r} holds {by_task[name]!r} and {setup!r}"
            break
        if by_setup.setdefault(setup, name) != name:
            example = f"{setup!r} is in {task} {by_setup[setup]!r} and {name!r}"
            break
    others = [coded.codes for coded in labels.values()]
    others += [_replicate(reader, o).codes for o in (*REPLICATES, "split") if reader.has(o)]
    # A choice that leaves several scores in a cell would be refused next.
    working = [
        choice
        for choice, names in ((("task", task), tasks), (("dataset", dataset), setups))
        if len(np.unique(combined_key([*others, names.codes]))) == len(names)
    ]
    both = combined_key([*others, tasks.codes, setups.codes])
    is_free = not reader.has("split") and not reader.has("metric")
    if is_free and not working and len(np.unique(both)) == len(both):
        joined = f"{tasks[0]} ({setups[0]})"
        return (
            f"{reader.table.source}: columns {task!r} and {dataset!r} name different tasks"
            f" ({example}); {columns_argument(('split', dataset))} makes tasks of both, such as"
            f" {joined!r}"
        )
    return (
        f"{reader.table.source}: columns {task!r} and {dataset!r} name different tasks ({example});"
        + (
            f" choose {columns_argument(*working)}"
            if working
            else f" neither tells all scores apart, so name the task of each score in one column"
            f" {task!r}, such as {f'{tasks[0]} {setups[0]}'!r}, and leave {dataset!r} out"
        )
    )
