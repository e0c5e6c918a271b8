"""Join the files of a table in canonical order, with the checks that need all of them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd

from bayeseval._text import Caution, Note, counted, shorten
from bayeseval._typing import Bools, Floats
from bayeseval.errors import InputError, setting
from bayeseval.languages.labels import unknown_labels
from bayeseval.readers.columns import LABELS, REPLICATES, TABLE_COLUMNS, UNITS, columns_argument
from bayeseval.readers.raw import Dropped, RawTable, ReducedTable, rows_of
from bayeseval.records.coded import combined_key
from bayeseval.records.doubts import doubts_of_scores, errors_as_scores
from bayeseval.records.duplicates import (
    first_conflict,
    read_shared_columns,
    refuse_duplicates,
    refuse_many_metrics,
    unread_repeats,
)
from bayeseval.records.language_names import tasks_of_languages
from bayeseval.records.left_out import leave_out, merge_dropped
from bayeseval.records.look_alikes import look_alikes, look_alikes_text
from bayeseval.records.merge_groups import is_reduced, merge_groups
from bayeseval.records.merge_labels import merge_labels
from bayeseval.records.moments import means_over_boots
from bayeseval.records.number_columns import check_numbers, doubts_of_numbers, units_in_table
from bayeseval.records.parts import Part, read_part, same_partition, tasks_without_language
from bayeseval.records.placeholders import refuse_placeholders
from bayeseval.records.report import LoadReport, TableError, Units
from bayeseval.records.scales import (
    UnitsLike,
    check_range,
    mixed_scales,
    normalise_units,
    resolve_units,
    stated_units,
)
from bayeseval.records.splits import keep_splits_apart
from bayeseval.records.stack import Stack, encode
from bayeseval.records.suspects import DivergedRuns, replicate_suspects
from bayeseval.records.too_few import refuse_too_few_levels

__all__ = ["Assembled", "DivergedRuns", "MixedScales", "assemble"]

MixedScales = Literal["refuse", "allow"]

_SEPARATOR: Final = "\x1f"
# Of tables that somebody wrote; readers of tools have other names for the place of a score.
_PLACES_OF_TABLES: Final = frozenset(["line", "row", "record", "cell"])


@dataclass(frozen=True, slots=True)
class Assembled:
    """A validated table in canonical order, ready to become ``Records``.

    `record_of_group` is the row of each group of rows, -1 for those that are left out; it is
    empty where rows were not reduced.
    """

    frame: pd.DataFrame
    labels: Mapping[str, tuple[str, ...]]
    codes: Mapping[str, npt.NDArray[np.int64]]
    units: Mapping[str, Units]
    report: LoadReport
    record_of_group: npt.NDArray[np.int64]


def assemble(
    tables: Sequence[RawTable],
    *,
    columns: Mapping[str, str | None],
    units: UnitsLike | Mapping[str, UnitsLike] | None,
    mixed: MixedScales,
    diverged: DivergedRuns = "refuse",
    missing: Sequence[float] = (),
    drop: Mapping[str, Sequence[str]] | None = None,
    named_languages: Mapping[str, str] | None = None,
    notes: Sequence[Note] = (),
    allow_single: bool = False,
    already_checked: bool = False,
) -> Assembled:
    """Validate tables and put them together in canonical order.

    Parameters
    ----------
    tables : sequence of RawTable
    columns : mapping of str to str or None
        The user's choice of columns, ours to theirs; None leaves one out.
    units : Units, pair, mapping or None
        Declared bounds of the scores, for all tasks or by task.
    mixed : {"refuse", "allow"}
        What to do with a task that mixes 0-1 and 0-100 scales, or whose scores of one
        model are in other units.
    diverged : {"refuse", "allow", "drop"}
        What to do with a seed that scored far below its cell's other seeds.
    missing : sequence of float
        Scores that mean that there is no score.
    drop : mapping of str to sequence of str, optional
        Models, languages and tasks to leave out.
    named_languages : mapping of str to str, optional
        Names of language labels; labels that have one need not be in a registry.
    notes : sequence of str
        Notes of the caller on the files.
    allow_single : bool
        Whether a table of one model or one language is accepted, with a warning:
        tools write one file per model, and a single file may be examined.
    already_checked : bool
        Whether these are records that were checked when they were read: errors that only
        input files have are not looked for again.

    Raises
    ------
    InputError
        For an option that is not known.
    TableError
        For any invalid row; one line, with a report of what was read up to there.
    """
    if mixed not in ("refuse", "allow"):
        raise InputError(f"mixed_scales: {mixed!r} is not known (allowed: 'refuse', 'allow')")
    if diverged not in ("refuse", "allow", "drop"):
        raise InputError(
            f"diverged_runs: {diverged!r} is not known (allowed: 'refuse', 'allow', 'drop')"
        )
    try:
        parts = [read_part(table, columns=columns) for table in tables]
    except InputError as problem:
        n_rows = int(sum(rows_of(table).sum() for table in tables))
        files = tuple(table.source for table in tables)
        report = LoadReport(files, n_rows, n_rows, (), (), (), tuple(dict.fromkeys(notes)))
        raise TableError(str(problem), report, tasks=tasks_without_language(problem)) from problem
    stack = Stack(parts)
    all_notes: list[Note] = [*notes, *_part_notes(parts)]
    try:
        return _checked(
            stack,
            all_notes,
            units=units,
            mixed=mixed,
            diverged=diverged,
            missing=missing,
            drop=drop,
            named_languages=named_languages or {},
            allow_single=allow_single,
            already_checked=already_checked,
            chosen=columns,
        )
    except InputError as problem:
        report = _report(stack, [*notes, *_part_notes(parts)], (), n_records=len(stack))
        raise TableError(str(problem), report, stack.level_counts()) from problem


def _checked(
    stack: Stack,
    all_notes: list[Note],
    *,
    units: UnitsLike | Mapping[str, UnitsLike] | None,
    mixed: MixedScales,
    diverged: DivergedRuns,
    missing: Sequence[float],
    drop: Mapping[str, Sequence[str]] | None,
    named_languages: Mapping[str, str],
    allow_single: bool,
    already_checked: bool,
    chosen: Collection[str],
) -> Assembled:
    """The checks of :func:`assemble` that need all rows; `all_notes` gets their notes."""
    if not already_checked:
        stack.labels["language"], merged = merge_labels(
            stack.written, named_languages, n_rows=stack.n_rows
        )
        all_notes += merged
    all_notes += keep_splits_apart(stack, dropped=(drop or {}).get("task", ()))
    stack, left_out, left_notes = leave_out(
        stack, drop=drop or {}, missing=missing, averages=not already_checked
    )
    all_notes += left_notes
    all_notes += refuse_too_few_levels(
        stack, left_out, allow_single=allow_single, is_input=not already_checked
    )
    all_notes += _tidy_setups(stack)
    all_notes += read_shared_columns(stack, chosen, tell=not already_checked)
    labels, codes = encode(stack)
    all_notes += _refuse_half_replicates(stack, codes, labels["task"])
    if not is_reduced(stack):
        refuse_duplicates(stack, codes)
    all_notes += [] if already_checked else unread_repeats(stack)
    resolved, unit_notes = _check_scores(
        stack, codes, labels, units=units, mixed=mixed, already_checked=already_checked
    )
    all_notes += unit_notes
    row_of_group = np.zeros(0, dtype=np.int64)
    if is_reduced(stack):
        stack, codes, row_of_group = merge_groups(stack, codes)
    kept, dropped, seed_notes = replicate_suspects(stack, codes, labels["task"], diverged)
    all_notes += seed_notes
    if not already_checked:
        all_notes += _score_warnings(stack, codes, labels, resolved, kept)
        all_notes += unknown_labels(labels["language"], named_languages)
        if not any(part.table.where for part in stack.parts):
            all_notes += tasks_of_languages(codes, labels)
    for factor in LABELS:
        all_notes += [
            Caution(f"{factor} labels that look alike were kept apart: {look_alikes_text(group)}")
            for group in look_alikes(labels[factor])
        ]
    key = combined_key(codes[name] for name in (*LABELS, *REPLICATES) if name in codes)
    order = np.argsort(key, kind="stable")
    order = order[kept[order]]
    return Assembled(
        frame=_frame(stack, order),
        labels={factor: labels[factor] for factor in LABELS},
        codes={name: values[order] for name, values in codes.items()},
        units=resolved,
        report=_report(stack, all_notes, [*left_out, *dropped], n_records=int(kept.sum())),
        record_of_group=_places(order, len(stack))[row_of_group],
    )


def _places(order: npt.NDArray[np.intp], n_rows: int) -> npt.NDArray[np.int64]:
    """Place of every row in the order, -1 for a row that is not in it; one more -1 for no row."""
    places = np.full(n_rows + 1, -1, dtype=np.int64)
    places[order] = np.arange(len(order))
    return places


def _check_scores(
    stack: Stack,
    codes: Mapping[str, npt.NDArray[np.int64]],
    labels: Mapping[str, tuple[str, ...]],
    *,
    units: UnitsLike | Mapping[str, UnitsLike] | None,
    mixed: MixedScales,
    already_checked: bool,
) -> tuple[Mapping[str, Units], list[Note]]:
    """Bounds of every task's scores, and notes; scores that cannot be on one scale are refused."""
    check_numbers(stack, codes["task"], labels["task"])
    scores, rows = stack.scores
    task = codes["task"][rows]
    declared = normalise_units(units)
    in_table, scale_notes = units_in_table(stack, codes["task"], labels["task"])
    resolved, guess_notes = resolve_units(
        scores,
        task,
        labels["task"],
        source=stack.source,
        declared=declared,
        in_table=in_table,
    )

    def place(position: int) -> str:
        return stack.at(int(rows[position]), "score", float(scores[position]))

    if not already_checked and "item" not in codes:
        refuse_placeholders(
            scores,
            task,
            labels["task"],
            codes["model"][rows],
            labels["model"],
            declared=stated_units(labels["task"], declared, in_table),
            where=place,
        )
    # Mixed scales first: it explains better than "below the bound" would.
    files = tuple(part.table.source for part in stack.parts)
    mixtures, low = mixed_scales(
        scores,
        task,
        labels["task"],
        {"model": (codes["model"][rows], labels["model"]), "file": (stack.file[rows], files)},
        place,
        stated=in_table,
    )
    if mixtures and mixed == "refuse":
        raise InputError(
            f"{mixtures[0]}; convert the scores to one scale, or accept them with"
            f" {setting('mixed_scales', 'allow')}"
        )
    check_range(scores, task, labels["task"], resolved, place, count=not is_reduced(stack))
    wrong = doubts_of_numbers(stack, codes["task"], labels["task"], resolved)
    return resolved, [*mixtures, *low, *wrong, *scale_notes, *guess_notes]


def _score_warnings(
    stack: Stack,
    codes: Mapping[str, npt.NDArray[np.int64]],
    labels: Mapping[str, tuple[str, ...]],
    units: Mapping[str, Units],
    kept: npt.NDArray[np.bool_],
) -> list[Caution]:
    """Warnings of scores that may be slips; items are right or wrong and have none.

    Of bootstrapped test sets, the score of a cell and seed is their mean, as models see it.
    """
    if "item" in codes:
        return []
    at = np.flatnonzero(kept)
    scores, of_boots = stack.numbers["score"][at], np.zeros(len(at), dtype=np.bool_)
    if "boot" in codes:
        key = combined_key(
            codes[n][at] for n in (*LABELS, *REPLICATES) if n in codes and n != "boot"
        )
        scores, first = means_over_boots(scores, key)
        at = at[first]
        of_boots = codes["boot"][at] >= 0
    others = [n for n in ("language", "task", *REPLICATES) if n in codes and n != "boot"]
    return [
        *doubts_of_scores(
            scores,
            {factor: codes[factor][at] for factor in LABELS},
            labels,
            combined_key(codes[n][at] for n in others),
            units=units,
            where=lambda position: (
                stack.at(int(at[position]), "score")
                + (", the mean over its bootstrapped test sets" if of_boots[position] else "")
            ),
        ),
        # Readers of tools know the direction of a measure, and have reversed or refused it.
        *(
            errors_as_scores(scores, codes["task"][at], labels["task"], units)
            if all(part.table.place in _PLACES_OF_TABLES for part in stack.parts)
            else ()
        ),
    ]


def _part_notes(parts: Sequence[Part]) -> list[str]:
    """Notes on the files; what is noted of several is said once, with their names."""
    sources: dict[str, list[str]] = {}
    for part in parts:
        for note in dict.fromkeys(part.notes):
            sources.setdefault(note, []).extend(_files(part))
    n_files = sum(len(_files(part)) for part in parts)
    if n_files == 1:
        return list(sources)
    return [f"{_of_sources(files, n_files)}: {note}" for note, files in sources.items()]


def _files(part: Part) -> tuple[str, ...]:
    """The files of a part, of which one that was reduced may have several."""
    table = part.table
    return (isinstance(table, ReducedTable) and table.files) or (str(table.source),)


def _of_sources(files: Sequence[str], n: int) -> str:
    if len(files) == 1:
        return files[0]
    every = f"all {n} files" if len(files) == n else f"{len(files)} of {n} files"
    return f"{every} ({shorten(files, limit=3)})"


def _tidy_setups(stack: Stack) -> list[str]:
    """Keep ``dataset`` and ``metric`` only where they say the same as the task.

    A saved table then reads back to itself, whatever the user had to choose.
    """
    labels = stack.labels
    tasks = labels["task"]
    if "metric" in labels:
        refuse_many_metrics(stack, tasks, labels["metric"])
    if "dataset" not in labels:
        return []
    setups = labels["dataset"]
    if "metric" in labels:
        # No label can hold this character, so two pairs cannot read the same.
        setups = setups.joined(labels["metric"], _SEPARATOR)
    if same_partition(tasks, setups):
        return []
    if any(part.named_tasks for part in stack.parts):
        del labels["dataset"]
        return ["the dataset column does not match the tasks and was left out"]
    conflict = first_conflict(tasks, setups)
    if conflict is None:
        # The same setup under two names cannot come out of dataset:metric.
        return []
    name, first, second = conflict
    raise InputError(
        f"{stack.source}: two dataset and metric pairs would both be called {name!r}:"
        f" {_pair(first)} and {_pair(second)};"
        " rename one, or give a task column"
    )


def _pair(setup: str) -> str:
    return " + ".join(repr(label) for label in setup.split(_SEPARATOR))


def _refuse_half_replicates(
    stack: Stack, codes: Mapping[str, npt.NDArray[np.int64]], tasks: tuple[str, ...]
) -> list[str]:
    """Tasks may differ in what replicates they have; the records of one task may not.

    A score without a seed counts as one run, which has no other records in its cell.
    """
    notes = []
    for name in REPLICATES:
        if name not in codes:
            continue
        with_replicates = np.zeros(len(tasks), dtype=np.bool_)
        with_replicates[codes["task"][codes[name] >= 0]] = True
        lacking = (codes[name] < 0) & with_replicates[codes["task"]]
        if name == "seed" and lacking.any():
            alone = lacking & _are_alone(codes, stack.n_rows) & _have_column(stack, name)
            if alone.any():
                notes.append(
                    f"seed is empty in {counted(int(alone.sum()), 'record')}, each the only one of"
                    f" its cell, and each counts as one run; first"
                    f" {stack.at(int(np.flatnonzero(alone)[0]))}"
                )
            lacking &= ~alone
        if not lacking.any():
            continue
        row = int(np.flatnonzero(lacking)[0])
        task = codes["task"][row]
        part = stack.parts[stack.file[row]]
        hint = _ways_out(codes, name, stack.n_rows)
        if name in part.columns:
            beside = " beside records of the same cell that have one" if name == "seed" else ""
            raise InputError(
                f"{stack.at(row, name)}: {name} is empty{beside}; give every record of task"
                f" {tasks[task]!r} its {name}{hint}"
            )
        other = int(np.flatnonzero((codes[name] >= 0) & (codes["task"] == task))[0])
        raise InputError(
            f"{part.table.source}: no {name} column, but"
            f" {stack.parts[stack.file[other]].table.source} has one for task {tasks[task]!r};"
            f" give every record of the task its {name}{hint}"
        )
    return notes


def _ways_out(codes: Mapping[str, npt.NDArray[np.int64]], name: str, n_rows: Floats) -> str:
    """What else to do about records without a replicate label."""
    others = combined_key(values for other, values in codes.items() if other != name)
    # Only the column over which rows were reduced tells those of one group apart.
    unit = next((one for one in UNITS if one in codes), None)
    if len(np.unique(others)) < (n_rows.sum() if name == unit else len(n_rows)):
        # Without the column, the records that it tells apart are two scores of a cell.
        return ", or remove the records without one"
    return f", or leave the column out with {columns_argument((name, None))}"


def _are_alone(codes: Mapping[str, npt.NDArray[np.int64]], n_rows: Floats) -> Bools:
    """Mask of the rows that are the only ones of their cells."""
    _, cells = np.unique(combined_key(codes[factor] for factor in LABELS), return_inverse=True)
    return np.asarray(np.bincount(cells, n_rows)[cells] == 1)


def _have_column(stack: Stack, name: str) -> Bools:
    """Mask of the rows whose file has a column."""
    return np.array([name in part.columns for part in stack.parts])[stack.file]


def _frame(stack: Stack, order: npt.NDArray[np.intp]) -> pd.DataFrame:
    columns: dict[str, pd.Series] = {}
    for name in TABLE_COLUMNS:
        if name in stack.labels:
            # Codes, not texts: a table of millions of rows names few things.
            coded = stack.labels[name]
            levels = sorted(text for text in coded.levels if text)
            rank = {text: place for place, text in enumerate(levels)}
            places = np.array([rank.get(text, -1) for text in coded.levels], dtype=np.int64)
            values = pd.Categorical.from_codes(
                places[coded.codes[order]], categories=pd.Index(levels)
            )
            columns[name] = pd.Series(values)
        elif name in stack.numbers:
            columns[name] = pd.Series(stack.numbers[name][order], dtype=np.float64)
    return pd.DataFrame(columns)


def _report(
    stack: Stack, notes: Sequence[Note], dropped: Sequence[Dropped], *, n_records: int
) -> LoadReport:
    """What was read, and what of it was dropped by the checks of all rows."""
    columns: dict[str, dict[str, None]] = {}
    # Readers of results and of wide tables name the columns of their tables themselves.
    for part in (part for part in stack.parts if not part.table.where):
        for our, theirs in part.columns.items():
            if theirs not in part.table.derived:
                columns.setdefault(our, {})[theirs] = None
    order = [*TABLE_COLUMNS, "split", "scale_min", "scale_max"]
    return LoadReport(
        sources=tuple(file for part in stack.parts for file in _files(part)),
        n_rows_read=sum(part.n_rows for part in stack.parts),
        n_records=n_records,
        columns=tuple((our, " / ".join(columns[our])) for our in order if our in columns),
        ignored_columns=tuple(dict.fromkeys(n for part in stack.parts for n in part.ignored)),
        dropped=merge_dropped([*(g for part in stack.parts for g in part.dropped), *dropped]),
        remarks=tuple(dict.fromkeys(notes)),
    )
