"""Refuse two scores or two metrics of one cell, and name or read what tells them apart."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from bayeseval._text import counted, plain
from bayeseval.errors import InputError
from bayeseval.readers.columns import (
    LABELS,
    REPEATED,
    REPLICATES,
    SHARED,
    columns_argument,
    columns_together,
    is_repeated,
    named_like,
)
from bayeseval.readers.typed import TypedCells
from bayeseval.records.coded import Coded, combined_key
from bayeseval.records.parts import replicate_labels
from bayeseval.records.stack import Stack

__all__ = [
    "first_conflict",
    "read_shared_columns",
    "refuse_duplicates",
    "refuse_many_metrics",
    "unread_repeats",
]

Codes = npt.NDArray[np.int64]

# Names of columns that say what was tested.
_TESTED: Final = ("dataset", "task", "setting", "variant", "test_set", "testset", "subset", "split")
_SETTINGS: Final = frozenset(["setting", "variant", "split"])
# So many columns are tried in pairs.
_MOST_PAIRED: Final = 20
# More rows than these are not compared.
_MOST_ROWS: Final = 20_000


def read_shared_columns(stack: Stack, chosen: Collection[str], *, tell: bool) -> list[str]:
    """Add the labels of prompts and judges to `stack` where they tell scores of a cell apart.

    A column of that name which tells none apart may hold whole texts, one for each item: it
    stays unread.

    Parameters
    ----------
    stack : Stack
    chosen : collection of str
        Those of our columns that the user has named or left out.
    tell : bool
        Whether to say what was read.

    Returns
    -------
    list of str
        What was read, and how to read it in another way.
    """
    notes = []
    for our in SHARED:
        theirs = named_like(our, _unused(stack))
        if our in chosen or our in stack.labels or theirs is None:
            continue
        codes = [stack.labels[n].codes for n in (*LABELS, *REPLICATES) if n in stack.labels]
        n_without = len(np.unique(combined_key(codes)))
        if n_without == len(stack):
            continue
        labels = Coded.concat([replicate_labels(p.table, theirs, our) for p in stack.parts])
        starts = np.cumsum([0, *(len(part.table) for part in stack.parts)])
        labels = labels.take(starts[stack.file] + stack.row)
        if len(np.unique(combined_key([*codes, labels.codes]))) == n_without:
            continue
        stack.labels[our] = labels
        stack.parts = [
            replace(
                part,
                columns={**part.columns, our: theirs},
                ignored=tuple(name for name in part.ignored if name != theirs),
            )
            for part in stack.parts
        ]
        if not tell:
            continue
        number = counted(len([label for label in labels.present() if label]), our)
        notes.append(
            f"column {plain(theirs)!r} read as {number}, whose effects models share;"
            f" {columns_argument(('seed', theirs))} reads it as repetitions that share nothing"
        )
    return notes


def refuse_duplicates(
    stack: Stack, codes: Mapping[str, Codes], *, n_cells: int | None = None
) -> None:
    """Refuse two scores of one cell, and say so where the files wrote its language in two ways.

    Parameters
    ----------
    stack : Stack
    codes : mapping of str to array of int, shape (n_rows,)
        Level of every key column by row; -1 for a record without it.
    n_cells : int, optional
        Cells with several scores, where the stack does not hold all of their rows.

    Raises
    ------
    InputError
        With both places, and the columns that tell the scores apart.
    """
    written = stack.written
    key = combined_key(codes.values())
    order = np.argsort(key, kind="stable")
    repeats = order[1:][key[order[1:]] == key[order[:-1]]]
    if not repeats.size:
        return
    second = int(repeats.min())
    first = int(np.flatnonzero(key == key[second])[0])
    cells = len(np.unique(key[repeats])) if n_cells is None else n_cells
    cell = ", ".join(
        f"{name} {stack.labels[name][second]!r}" for name in codes if codes[name][second] >= 0
    )
    if written[first] != written[second]:
        cell += f" (written {written[first]!r} and {written[second]!r})"
    scores = stack.numbers["score"]
    more = f"; {cells} cells have more than one score" if cells > 1 else ""
    equal = scores[first] == scores[second]
    told_scores = (
        f"the score {scores[first]:g} twice"
        if equal
        else f"two scores, {scores[first]:g} and {scores[second]:g}"
    )
    raise InputError(
        f"{stack.at(second)}: duplicate of {_short_place(stack, first, second)}: {cell} has"
        f" {told_scores}; {_way_out(stack, codes, key, first, second)}{more}"
    )


def _way_out(stack: Stack, codes: Mapping[str, Codes], key: Codes, first: int, second: int) -> str:
    """What to do about two scores of one cell."""
    if stack.written[first] != stack.written[second]:
        return "keep one of them, or rename one of the two labels"
    told = _telling_apart(stack, codes, key) or _two_telling_apart(stack, codes, key)
    if told:
        return told
    if not _has_no_task(stack) and _are_identical(stack, first, second):
        return "the two rows are identical: remove one of them"
    keep = "keep one of them"
    if not any(name in codes for name in REPLICATES):
        keep += ", or distinguish replicates by a seed, boot or item column"
    if _has_no_task(stack):
        return (
            "the table has no task column: if one of its columns says what was tested, name it "
            f"with {columns_argument(('task', 'NAME'))}; else {keep}"
        )
    if stack.file[first] != stack.file[second] and not any(p.table.where for p in stack.parts):
        keep += (
            "; if each file is of one prompt, seed or run, name them prompt_1.csv, prompt_2.csv"
            " (or seed_1.csv, run_1.csv) and so on"
        )
    return keep


def refuse_many_metrics(stack: Stack, tasks: Coded, metrics: Coded) -> None:
    """Refuse tasks with scores of two metrics, and say how to read them.

    Parameters
    ----------
    stack : Stack
    tasks, metrics : Coded
        Label of every row.

    Raises
    ------
    InputError
        With all columns that the table needs, so that no other refusal follows.
    """
    conflict = first_conflict(tasks, metrics)
    if conflict is None or not any(part.named_tasks for part in stack.parts):
        return
    name, first, second = conflict
    column = next((p.columns["task"] for p in stack.parts if "task" in p.columns), "task")
    codes = {n: stack.labels[n].codes for n in (*LABELS, *REPLICATES) if n in stack.labels}
    told = _columns_telling_apart(stack, combined_key([*codes.values(), metrics.codes]))
    other = told[0][0] if told else ""
    each, choices = "", [("dataset", column)]
    # Prompts and judges are read without being named.
    if other and other not in [named_like(our, _unused(stack)) for our in SHARED]:
        if _may_be_repeated(other):
            choices.append(("seed", other))
        elif not _has_splits(stack):
            each = f" and each value of {plain(other)!r}"
            choices.append(("split", other))
    raise InputError(
        f"{stack.source}: task {name!r} has scores of two metrics, {first!r} and {second!r};"
        f" make each metric{each} a task of its own with {columns_together(*choices)}"
    )


def first_conflict(names: Coded, values: Coded) -> tuple[str, str, str] | None:
    """First name that stands for two values, and these."""
    seen: dict[str, str] = {}
    for name, value in names.pairs(values):
        if seen.setdefault(name, value) != value:
            return name, seen[name], value
    return None


def unread_repeats(stack: Stack) -> list[str]:
    """Notes on columns of repetitions that are not read, and tell no two scores apart."""
    notes = []
    rows = np.arange(min(len(stack), _MOST_ROWS))
    for name in filter(is_repeated, _unused(stack)):
        values = _values(stack, name, rows)
        n_values = 0 if values is None else int(values.max(initial=-1)) + 1
        if n_values == 0:
            # It is empty, or of rows that were reduced, whose unread cells are not known.
            continue
        what = "has one value" if n_values == 1 else "tells no two scores of a cell apart"
        notes.append(
            f"column {plain(name)!r} is not needed: it {what}"
            + (
                f"; {columns_argument(('seed', name))} reads it as repetitions"
                if n_values > 1 and "seed" not in stack.labels
                else ""
            )
        )
    return notes


def _short_place(stack: Stack, position: int, other: int) -> str:
    """The place of a row, without the file when `other` is in the same one."""
    place = stack.at(position)
    if stack.file[position] == stack.file[other]:
        source = stack.parts[stack.file[position]].table.source
        return place.removeprefix(f"{source}, ")
    return place


def _are_identical(stack: Stack, first: int, second: int) -> bool:
    """Whether all cells of two rows are the same."""
    rows = []
    for position in (first, second):
        table = stack.parts[stack.file[position]].table
        cells = {name: column[stack.row[position]] for name, column in table.columns.items()}
        rows.append({name: cell for name, cell in cells.items() if cell is not None})
    return rows[0] == rows[1]


def _telling_apart(stack: Stack, codes: Mapping[str, Codes], key: Codes) -> str:
    """What to do with the column that tells the scores of all cells apart; "" without one."""
    found = _columns_telling_apart(stack, key)
    if not found:
        return ""
    name, values = found[0]
    rows = _rows_of_shared_cells(key)
    choices = []
    # With a dataset, the task column is left unread.
    others = [codes[one][rows] for one in codes if one != "task"]
    is_task = "dataset" not in stack.parts[0].columns and not _may_be_repeated(name)
    if is_task and len(np.unique(np.stack([*others, values]), axis=1).T) == len(rows):
        ours = "task" if _has_no_task(stack) else "dataset"
        choices.append(f"{columns_argument((ours, name))} reads its values as tasks")
    elif not _may_be_repeated(name) and not _has_splits(stack):
        choices.append(f"{columns_argument(('split', name))} makes tasks of its values")
    if "seed" not in codes:
        choices.append(f"{columns_argument(('seed', name))} as repetitions")
    if not choices:
        return f"column {plain(name)!r} tells them apart: keep the rows of one of its values"
    return f"column {plain(name)!r} tells them apart: {', '.join(choices)}"


def _columns_telling_apart(stack: Stack, key: Codes) -> list[tuple[str, Codes]]:
    """Columns that tell the scores of all cells apart, by name, with their values in those rows."""
    cells = key[_rows_of_shared_cells(key)]
    return [one for one in _columns_with_few_values(stack, key) if _are_distinct(cells, one[1])]


def _two_telling_apart(stack: Stack, codes: Mapping[str, Codes], key: Codes) -> str:
    """What to do with two columns that tell the scores of all cells apart; "" without them."""
    cells = key[_rows_of_shared_cells(key)]
    columns = _columns_with_few_values(stack, key)[:_MOST_PAIRED]
    for (one, first), (other, second) in combinations(columns, 2):
        if not _are_distinct(cells, first, second):
            continue
        ours = ["task"] if _has_no_task(stack) else []
        ours += [] if _has_splits(stack) else ["split"]
        repeats = [] if "seed" in codes else ["seed"]
        free = {False: iter(ours), True: iter(repeats)}
        # A test comes before how it was given.
        pair = sorted((one, other), key=lambda name: name.strip().casefold() in _SETTINGS)
        choices = [(next(free[_may_be_repeated(name)], ""), name) for name in pair]
        if all(our for our, _ in choices):
            return (
                f"columns {plain(pair[0])!r} and {plain(pair[1])!r} tell them apart:"
                f" {columns_together(*choices)} reads both"
            )
    return ""


def _columns_with_few_values(stack: Stack, key: Codes) -> list[tuple[str, Codes]]:
    """Columns that are not read, the likeliest first, with their values in rows of shared cells."""
    rows = _rows_of_shared_cells(key)
    if not rows.size:
        return []
    most = int(np.unique(key[rows], return_counts=True)[1].max())
    found = [(name, _values(stack, name, rows)) for name in sorted(_unused(stack), key=_order)]
    # A number of its own for every row, or a score of another kind, tells nothing.
    limit = max(most, len(rows) // 2)
    return [(name, codes) for name, codes in found if codes is not None and codes.max() < limit]


def _are_distinct(*labels: Codes) -> bool:
    """Whether no two rows have the same labels."""
    return bool(np.unique(np.stack(labels), axis=1).shape[1] == len(labels[0]))


def _rows_of_shared_cells(key: Codes) -> npt.NDArray[np.intp]:
    """The first rows whose cell has another score."""
    _, inverse, counts = np.unique(key, return_inverse=True, return_counts=True)
    return np.flatnonzero(counts[inverse] > 1)[:_MOST_ROWS]


def _has_splits(stack: Stack) -> bool:
    return any("split" in part.columns for part in stack.parts)


def _order(name: str) -> int:
    """Place of a column by what its name says; the last for other names."""
    known = (*_TESTED, *REPEATED)
    folded = name.strip().casefold()
    return next((i for i, word in enumerate(known) if word in folded), len(known))


def _has_no_task(stack: Stack) -> bool:
    return not any({"task", "dataset", "metric"} & set(part.columns) for part in stack.parts)


def _may_be_repeated(name: str) -> bool:
    return len(_TESTED) <= _order(name) < len(_TESTED) + len(REPEATED)


def _unused(stack: Stack) -> Sequence[str]:
    """Columns that all files have and that are read as nothing, or as a dataset left out."""
    left_out = [] if "dataset" in stack.labels else ["dataset"]
    first, *others = (
        [*part.ignored, *(part.columns[our] for our in left_out if our in part.columns)]
        for part in stack.parts
    )
    return [name for name in first if all(name in one for one in others)]


def _values(stack: Stack, name: str, rows: npt.NDArray[np.intp]) -> Codes | None:
    """Values of a column as codes; None where some are missing or fractions."""
    cells: list[Any] = []
    for file in np.unique(stack.file[rows]):
        own = stack.parts[file].table.columns[name][stack.row[rows][stack.file[rows] == file]]
        cells += own.objects() if isinstance(own, TypedCells) else list(own)
    if any(cell is None or not str(cell).strip() for cell in cells):
        return None
    texts = pd.Series([str(cell) for cell in cells])
    numbers = pd.to_numeric(texts, errors="coerce")
    if (numbers.notna() & (numbers % 1 != 0)).any():
        return None
    return np.asarray(pd.factorize(texts)[0], dtype=np.int64)
