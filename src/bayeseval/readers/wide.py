"""Wide tables, as papers print them: models down, languages across, or the other way round.

A cell may hold ``12.3 ± 0.4`` (the second number is a standard error), ``84.6/71.7``
(two metrics), marks such as daggers, stars and bold type, and ``-`` where nothing was
measured. A header may have two lines, the upper one naming datasets.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bayeseval._text import brief, counted, score_hint, shorten, show
from bayeseval.errors import InputError, argument, wording
from bayeseval.languages.matching import resolve
from bayeseval.readers.aggregates import is_average
from bayeseval.readers.archives import is_workbook
from bayeseval.readers.base import Head, Options, Reader, Reading
from bayeseval.readers.columns import columns_argument
from bayeseval.readers.compressed import stem_of, suffix_of
from bayeseval.readers.grids import (
    GRID_SUFFIXES,
    Grid,
    first_rows,
    grid_of_frame,
    grids_of,
)
from bayeseval.readers.layout import (
    Layout,
    find_layout,
    has_our_columns,
    is_about_languages,
)
from bayeseval.readers.lm_eval import common_folder
from bayeseval.readers.numbered import file_numbers
from bayeseval.readers.printed import (
    Cell,
    are_repeated,
    is_label_column,
    parse_cell,
    without_marks,
)
from bayeseval.readers.proposals import advice_on_columns
from bayeseval.readers.raw import RawTable, make_table, with_constants
from bayeseval.readers.scores import Score, settle
from bayeseval.readers.unclear import has_deep_header, refuse_deep_header, refuse_metrics

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["WIDE", "read_wide_frame"]

_NO_METRIC: Final = "score"
_MAX_CHOICES: Final = 4
_MAX_NAMED: Final = 8


def _sniff(path: Path, head: Head) -> bool:
    if head.data.startswith(b"PK\x03\x04"):
        return is_workbook(path)
    text = head.text
    if not text or text[0] in "[{<" or "\0" in text:
        return False
    if suffix_of(path) not in (*GRID_SUFFIXES, ""):
        return False
    printed = text.lstrip().startswith("|") or "\\begin{tab" in text
    # A Markdown page holds tables between its paragraphs.
    printed |= suffix_of(path) == ".md" and "|" in text
    try:
        rows = first_rows(path, head)
    except InputError:
        # What is wrong is said when it is read.
        return printed
    if not rows:
        return False
    return printed or find_layout(rows[:40], {}) is not None or has_deep_header(rows[:40])


def _read(paths: Sequence[Path], options: Options) -> Reading:
    scores: list[Score] = []
    tidy: list[RawTable] = []
    notes: dict[str, None] = {}
    source = common_folder(paths)
    by_file = [grids_of(path) for path in options.each(paths)]
    if not any(by_file):
        raise InputError(f"{source}: holds no table with a header and rows")
    chosen: dict[str, str] = {}
    for grids, numbers in _numbered(paths, by_file, notes):
        for grid, layout in _with_scores(grids, options.columns, notes):
            if layout is None and has_our_columns(grid.rows[0], options.columns):
                tidy.append(with_constants(_tidy(grid), numbers))
            else:
                _refuse_unclear(grid, layout, options)
                scores += _wide_scores(grid, layout, notes, numbers)
                chosen |= layout.chosen if layout is not None else {}
    if not scores and not tidy:
        raise InputError(f"{source}: no score left ({'; '.join(notes) or 'no cell has one'})")
    if not scores:
        if options.metrics:
            raise InputError(
                f"{source}: {argument('metric')} is for wide tables; this table has one row per"
                " score"
            )
        return Reading(tuple(tidy), tuple(notes), title="tables with one row per score")
    reading = _settled(scores, source, options, notes, chosen)
    return Reading((*reading.tables, *tidy), reading.notes)


def _numbered(
    paths: Sequence[Path], by_file: Sequence[Sequence[Grid]], notes: dict[str, None]
) -> Iterator[tuple[Sequence[Grid], dict[str, str]]]:
    """The tables of each file, and the number in its name, as of ``prompt_1.csv``.

    A table that is called by the name of such a file is called by that of its folder instead.
    """
    found = file_numbers(paths)
    header = {cell.strip().casefold() for grids in by_file for g in grids for cell in g.rows[0]}
    if found is None or found[0] in header:
        yield from ((grids, {}) for grids in by_file)
        return
    word, numbers, note = found
    notes[note] = None
    folder = Path(common_folder(paths)).resolve().name
    for path, number, grids in zip(paths, numbers, by_file, strict=True):
        own = stem_of(path)
        renamed = [replace(g, name=folder if g.name == own else g.name) for g in grids]
        yield renamed, {word: number}


def _with_scores(
    grids: Sequence[Grid], columns: Mapping[str, str | None], notes: dict[str, None]
) -> list[tuple[Grid, Layout | None]]:
    """The tables of a page that have scores by language; all of them where none has."""
    found = [(grid, find_layout(grid.rows, columns, source=grid.header)) for grid in grids]
    read = [
        (grid, layout)
        for grid, layout in found
        if layout is not None or has_our_columns(grid.rows[0], columns)
    ]
    if read:
        for grid in (grid for grid, layout in found if (grid, layout) not in read):
            header = shorten([show(cell) for cell in grid.rows[0] if cell], limit=8)
            notes[f"{grid.header}: a table without scores by language not read ({header})"] = None
    return read or found


def _settled(
    scores: Sequence[Score],
    source: str,
    options: Options,
    notes: Mapping[str, None],
    chosen: Mapping[str, str],
) -> Reading:
    """One table of all scores; without a column of metrics where no table names any."""
    reading = settle(scores, source=source, options=options, notes=[*notes], place="cell")
    (table,) = reading.tables
    has_metric = any(score.metric != _NO_METRIC for score in scores)
    # What the user chose keeps the name by which it was chosen.
    names = {"dataset" if our == "task" else our: theirs for our, theirs in chosen.items()}
    columns = {
        names.get(name, name): cells
        for name, cells in table.columns.items()
        if has_metric or name != "metric"
    }
    return replace(reading, tables=(replace(table, columns=columns),))


def read_wide_frame(frame: pd.DataFrame, name: str, options: Options) -> Reading | None:
    """Scores of a wide data frame, as of a file; None for a frame that is not wide.

    Parameters
    ----------
    frame : pandas.DataFrame
        Models by languages, or the other way round; its index may hold the labels.
    name : str
        What messages call it, and the dataset where the frame names none.
    options : Options

    Raises
    ------
    InputError
        With row and column, if a cell holds no score or a header no language.
    """
    if has_our_columns([str(column) for column in frame.columns], options.columns):
        return None
    grid = grid_of_frame(frame, name)
    layout = find_layout(grid.rows, options.columns, source=grid.header)
    # Without a column of names the models are not known.
    if layout is None or not (layout.candidates or "model" in layout.labels):
        return None
    _refuse_unclear(grid, layout, options)
    notes: dict[str, None] = {
        "read as a wide table (models by languages); "
        + wording("format='table'", "--format table")
        + " reads a plain one": None
    }
    scores = list(_wide_scores(grid, layout, notes, {}))
    return _settled(scores, name, options, notes, layout.chosen)


def _refuse_unclear(grid: Grid, layout: Layout | None, options: Options) -> None:
    """Refuse a table whose header is not read, or whose columns may be scores or models."""
    refuse_deep_header(grid)
    if not options.format_chosen and not options.columns:
        refuse_metrics(grid, layout)


def _tidy(grid: Grid) -> RawTable:
    """A grid with one score per row, handed on as it is."""
    header, *body = grid.rows
    columns = ((name, [row[i] or None for row in body]) for i, name in enumerate(header))
    source, _, place = grid.place.rpartition(", ")
    return make_table(source, place, grid.numbers[1:], columns)


def _not_a_language(name: str) -> str:
    try:
        resolve(brief(name))
    except InputError as problem:
        # What is allowed is known to who has written the other headers.
        return str(problem).partition(" (allowed: ")[0]
    return f"{show(name)} is not a language"


def _wide_scores(
    grid: Grid, layout: Layout | None, notes: dict[str, None], constants: Mapping[str, str]
) -> Iterator[Score]:
    layout = _readable(grid, layout)
    rows, across, down = layout.rows, "columns", "rows"
    if layout.transposed:
        across, down = down, across
    for what, names in (("averages", layout.averages), ("about the models", layout.model_facts)):
        if names:
            notes[f"{across} not read, {what}: {shorten(names)}"] = None
    if layout.indices:
        notes[f"columns not read, numbers of rows: {shorten(layout.indices)}"] = None
    counts: Counter[str] = Counter()
    labels_above: dict[str, str] = {}
    for number, row in enumerate(rows[layout.header :], start=layout.header):
        labels = _row_labels(row, layout, labels_above)
        if labels is None:
            continue
        if is_average(labels["model"]):
            notes[f"{down} not read, averages: {labels['model']}"] = None
            continue
        if is_about_languages(labels["model"]):
            notes[f"{down} not read, about the languages: {labels['model']}"] = None
            continue
        repeats = {name: row[place].strip() for name, place in layout.repeats.items()}
        extra = (*repeats.items(), *constants.items())
        for place, language in layout.languages.items():
            # Places are told in the grid as it stands in the file.
            line, column = (place, number) if layout.transposed else (number, place)
            column = layout.places[column] + 1
            where = f"{grid.place} {grid.numbers[line]}, column {column}"
            try:
                cell = parse_cell(row[place])
            except ValueError:
                hint = score_hint(row[place]) or _no_scores(row, layout)
                raise InputError(f"{where}: {show(row[place])} is not a score{hint}") from None
            if cell is None:
                counts["missing"] += 1
                continue
            counts["marked"] += cell.marked
            counts["se"] += cell.se is not None
            dataset = labels.get("dataset") or layout.groups[place] or grid.name
            if place in layout.metrics:
                labels["metric"] = layout.metrics[place]
            yield from _cell_scores(cell, labels, dataset, language, where, extra)
    for what, text in (
        ("missing", "without a score (empty, -)"),
        ("se", "with a standard error (the number behind ±)"),
    ):
        if counts[what]:
            notes[f"{grid.name}: {counted(counts[what], 'cell')} {text}"] = None


def _no_scores(row: Sequence[str], layout: Layout) -> str:
    """What to do about the row of a model, or its column, that has texts only; else ""."""
    if not is_label_column([row[place] for place in layout.languages]):
        return ""
    what = "column" if layout.transposed else "row"
    name = show(row[layout.labels["model"]])
    return f"; the {what} {name} has no scores: remove it from the table"


def _readable(grid: Grid, layout: Layout | None) -> Layout:
    """The layout, if it is one and it is known where the models and which headers languages are."""
    if layout is None:
        header = [cell for cell in grid.rows[0] if cell]
        raise InputError(
            f"{grid.header}: "
            + (
                advice_on_columns(header)
                or "expected one row per score, or languages as columns or rows; the header is"
                f" {shorten(map(show, header), limit=8)}"
            )
        )
    if layout.not_languages:
        first, *further = layout.not_languages
        where, others = grid.header, "headers"
        if layout.transposed:
            rows = zip(grid.numbers, grid.rows, strict=True)
            line = next(number for number, row in rows if first in map(without_marks, row))
            where, others = f"{grid.place} {line}", "rows"
        listed = shorten([_not_a_language(name) for name in layout.not_languages], limit=_MAX_NAMED)
        it = "them" if further else "it"
        told = ""
        can_tell = not further and not layout.transposed and "dataset" not in layout.labels
        if can_tell and are_repeated(layout.rows[layout.header :], layout.labels):
            told = (
                f"; if it tells the rows of a model apart, {columns_argument(('dataset', first))}"
                " reads its values as tasks"
            )
        raise InputError(
            f"{where}: {listed} (all other {others} are languages); rename {it}, or remove {it}"
            f" from the table{told}"
        )
    if "model" not in layout.labels:
        choices = [("model", name) for name in layout.candidates[:_MAX_CHOICES]]
        way_out = f"choose {columns_argument(*choices)}" if choices else "add a column 'model'"
        raise InputError(f"{grid.header}: no column is known to name the models; {way_out}")
    return layout


def _row_labels(
    row: Sequence[str], layout: Layout, labels_above: dict[str, str]
) -> dict[str, str] | None:
    """Labels of a row; a blank repeats the one above it. None for a row without scores."""
    if not any(row[place].strip() for place in layout.languages):
        # A line that names the models below it, or is blank.
        return None
    labels = {}
    for kind, place in layout.labels.items():
        text = without_marks(row[place])
        labels[kind] = labels_above[kind] = text or labels_above.get(kind, "")
    return labels


def _cell_scores(
    cell: Cell,
    labels: Mapping[str, str],
    dataset: str,
    language: str,
    where: str,
    extra: tuple[tuple[str, str], ...],
) -> Iterator[Score]:
    metric = labels.get("metric") or ""
    names = [metric or _NO_METRIC]
    if len(cell.values) > 1:
        listed = re.search(r"\(?([\w.+-]+(?:\s*/\s*[\w.+-]+)+)\)?\s*$", metric or dataset)
        names = [name.strip() for name in listed[1].split("/")] if listed else []
        if len(names) != len(cell.values):
            names = [f"value {i}" for i in range(1, len(cell.values) + 1)]
        elif not metric:
            dataset = dataset[: listed.start()].strip() or dataset if listed else dataset
    for name, value in zip(names, cell.values, strict=True):
        yield Score(
            model=labels["model"],
            dataset=dataset,
            language=language,
            metric=name,
            value=value,
            where=where,
            # One error beside two values belongs to neither for certain.
            se=cell.se if len(cell.values) == 1 else None,
            extra=extra,
        )


WIDE: Final = Reader("wide", "wide tables (models by languages)", _sniff, _read)
