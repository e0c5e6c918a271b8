"""Wide tables, as papers print them: models down, languages across, or the other way round.

A cell may hold ``12.3 ± 0.4`` (the second number is a standard error), ``84.6/71.7``
(two metrics), marks such as daggers, stars and bold type, and ``-`` where nothing was
measured. A header may have two lines, the upper one naming datasets.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bayeseval._text import counted, date_hint, shorten, show
from bayeseval.errors import InputError, argument, wording
from bayeseval.languages.matching import resolve, understand
from bayeseval.readers.base import Head, Options, Reader, Reading
from bayeseval.readers.columns import is_repeated, is_split, resolve_columns
from bayeseval.readers.compressed import suffix_of
from bayeseval.readers.grids import (
    GRID_SUFFIXES,
    Grid,
    first_rows,
    grid_of_frame,
    grids_of,
    is_workbook,
)
from bayeseval.readers.lm_eval import common_folder
from bayeseval.readers.printed import MAX_CELL, Cell, parse_cell, without_marks
from bayeseval.readers.raw import RawTable, make_table
from bayeseval.readers.scores import Score, settle

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["WIDE", "read_wide_frame"]

# "all" and its like alone or with what they are over; a model may be called all-MiniLM-L6-v2.
_AVERAGES: Final = re.compile(
    r"(?:macro|micro|overall|total|all|unweighted)?[\s\-_.]*(?:avg|average|mean|μ|ø)\.?"
    r"(?:[\s\-_(]+.*)?"
    r"|(?:all|overall|macro|total)(?:[\s\-_]*(?:languages|langs|tasks|datasets|scores?))?"
    r"(?:\s*\(.*\))?",
    re.IGNORECASE,
)
_MODEL: Final = frozenset(["model", "models", "modelname", "system", "method", "llm", "name", ""])
_DATASET: Final = frozenset(["dataset", "task", "benchmark", "testset", "corpus"])
_METRIC: Final = frozenset(["metric", "measure"])
# Columns that describe models beside their scores.
_MODEL_FACTS: Final = frozenset(
    [
        *("size", "params", "parameters", "#params", "rank", "type", "date", "year", "license"),
        *("licence", "url", "link", "release", "released", "#", "no", "shots", "shot", "version"),
        *("open", "context", "organization", "organisation", "org", "developer", "architecture"),
    ]
)
# Rows or columns that describe languages beside their scores.
_LANGUAGE_FACTS: Final = frozenset(
    [
        *("script", "family", "languagefamily", "genus", "branch", "code", "iso", "isocode"),
        *("iso6393", "glottocode", "resource", "resources", "resourcelevel", "class", "tier"),
        *("speakers", "region", "continent", "country", "group", "languagename"),
    ]
)
_COUNT: Final = re.compile(r"\d{1,9}")
_NO_METRIC: Final = "score"
# So many of the headers have to be languages before a table is taken for a wide one.
_SHARE: Final = 0.6


@dataclass(frozen=True, slots=True)
class _Layout:
    """Where things stand in a grid whose languages are across.

    ``groups`` are the datasets named above the columns, empty where there are none.
    """

    labels: Mapping[str, int]
    languages: Mapping[int, str]
    groups: Mapping[int, str]
    header: int
    averages: tuple[str, ...]
    model_facts: tuple[str, ...]
    not_languages: tuple[str, ...]
    repeats: Mapping[str, int]


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
        rows = first_rows(path, text, whole=head.is_whole)
    except InputError:
        # What is wrong is said when it is read.
        return printed
    return bool(rows) and (printed or _find_layout(rows[:40]) is not None)


def _read(paths: Sequence[Path], options: Options) -> Reading:
    scores: list[Score] = []
    tidy: list[RawTable] = []
    notes: dict[str, None] = {}
    source = common_folder(paths)
    by_file = [grids_of(path) for path in options.each(paths)]
    if not any(by_file):
        raise InputError(f"{source}: holds no table with a header and rows")
    for grid in (grid for grids in by_file for grid in _with_scores(grids, notes)):
        table = _tidy(grid)
        if table is not None:
            tidy.append(table)
        else:
            scores += _wide_scores(grid, notes)
    if not scores and not tidy:
        raise InputError(f"{source}: no score left ({'; '.join(notes) or 'no cell has one'})")
    if not scores:
        if options.metrics:
            raise InputError(
                f"{source}: {argument('metric')} is for wide tables; this table has one row per"
                " score"
            )
        return Reading(tuple(tidy), tuple(notes))
    reading = _settled(scores, source, options, notes)
    return Reading((*reading.tables, *tidy), reading.notes)


def _with_scores(grids: Sequence[Grid], notes: dict[str, None]) -> list[Grid]:
    """The tables of a page that have scores by language; all of them where none has."""
    if len(grids) == 1:
        return list(grids)
    read = [g for g in grids if _has_our_columns(g.rows[0]) or _find_layout(g.rows) is not None]
    if read:
        for grid in (grid for grid in grids if grid not in read):
            header = shorten([show(cell) for cell in grid.rows[0] if cell], limit=8)
            notes[f"{grid.header}: a table without scores by language not read ({header})"] = None
    return read or list(grids)


def _settled(
    scores: Sequence[Score], source: str, options: Options, notes: Mapping[str, None]
) -> Reading:
    """One table of all scores; without a column of metrics where no table names any."""
    reading = settle(scores, source=source, options=options, notes=[*notes], place="cell")
    if any(score.metric != _NO_METRIC for score in scores):
        return reading
    (table,) = reading.tables
    columns = {name: cells for name, cells in table.columns.items() if name != "metric"}
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
    if _has_our_columns([str(column) for column in frame.columns]):
        return None
    grid = grid_of_frame(frame, name)
    # Without a column of names the models are not known.
    if not _is_label_column([row[0] for row in grid.rows[1:]]) or _find_layout(grid.rows) is None:
        return None
    notes: dict[str, None] = {
        "read as a wide table (models by languages); "
        + wording("format='table'", "--format table")
        + " reads a plain one": None
    }
    scores = list(_wide_scores(grid, notes))
    return _settled(scores, name, options, notes)


def _tidy(grid: Grid) -> RawTable | None:
    """A grid with one score per row, handed on as it is."""
    header, *body = grid.rows
    if not _has_our_columns(header):
        return None
    columns = ((name, [row[i] or None for row in body]) for i, name in enumerate(header))
    source, _, place = grid.place.rpartition(", ")
    return make_table(source, place, grid.numbers[1:], columns)


def _has_our_columns(header: Sequence[str]) -> bool:
    """Whether model, language and score are columns of their own."""
    names = [name or f"({i})" for i, name in enumerate(header)]
    try:
        resolve_columns(names, source="", explicit={})
    except InputError:
        return False
    return True


def _find_layout(rows: list[list[str]]) -> tuple[_Layout, list[list[str]]] | None:
    """Layout of a wide table and its rows, with the languages across; None for others."""
    if _has_our_columns(rows[0]):
        return None
    layout = _layout_of(rows)
    if layout is not None:
        return layout, rows
    transposed = [list(column) for column in zip(*rows, strict=True)]
    # Models down and languages beside them: a row per score, not a header of two lines.
    if _fold(without_marks(transposed[0][0])) in _MODEL - {""}:
        return None
    layout = _layout_of(transposed)
    return None if layout is None else (layout, transposed)


def _layout_of(rows: list[list[str]]) -> _Layout | None:
    for depth in (1, 2):
        if len(rows) > depth:
            layout = _layout_below(rows, depth)
            if layout is not None:
                return layout
    return None


def _layout_below(rows: list[list[str]], depth: int) -> _Layout | None:
    if depth == 2 and _fold(without_marks(rows[0][0])) not in _DATASET | _MODEL:
        return None
    names = [without_marks(cell) for cell in rows[depth - 1]]
    upper = [without_marks(cell) for cell in rows[0]] if depth == 2 else [""] * len(names)
    # A group's name stands above its first column only; the others are blank.
    for place in range(1, len(upper)):
        upper[place] = upper[place] or upper[place - 1]
    body = [row for row in rows[depth:] if _fold(without_marks(row[0])) not in _LANGUAGE_FACTS]
    repeats = {
        name: place
        for place, name in enumerate(names)
        if (is_repeated(name) or is_split(name)) and _are_repeats([row[place] for row in body])
    }
    lead = 0
    while lead < len(names) and (
        lead in repeats.values() or _is_label_column([row[lead] for row in body])
    ):
        lead += 1
    languages, averages, model_facts, not_languages = {}, [], [], []
    for place in range(max(lead, 1), len(names)):
        name = names[place]
        if not name or place in repeats.values():
            continue
        if _is_average(name):
            averages.append(name)
        elif _fold(name) in _MODEL_FACTS:
            model_facts.append(name)
        elif understand(name) is not None:
            languages[place] = name
        else:
            not_languages.append(name)
    if len(languages) < 2 or len(languages) < _SHARE * (len(languages) + len(not_languages)):
        return None
    groups = {place: upper[place] for place in languages}
    if len({(groups[p], name) for p, name in languages.items()}) < len(languages):
        # A language named again and again is a column of a table with a row per score.
        return None
    if not _mostly_scores([row[place] for row in body for place in languages]):
        return None
    labels = _label_columns(
        {
            place: name or upper[place]
            for place, name in enumerate(names[: max(lead, 1)])
            if place not in repeats.values()
        }
    )
    if labels is None:
        return None
    read = {*labels.values(), *repeats.values()}
    model_facts += [names[i] for i in range(lead) if i not in read and names[i]]
    return _Layout(
        labels=labels,
        languages=languages,
        groups=groups,
        header=depth,
        averages=tuple(dict.fromkeys(averages)),
        model_facts=tuple(dict.fromkeys(model_facts)),
        not_languages=tuple(dict.fromkeys(not_languages)),
        repeats=repeats,
    )


def _are_repeats(cells: Sequence[str]) -> bool:
    """Whether a column holds counts or names, not scores: Rundi's code is ``run``."""
    return all(_COUNT.fullmatch(cell.strip()) for cell in cells) or _is_label_column(cells)


def _is_label_column(cells: Sequence[str]) -> bool:
    """Whether a column holds names rather than scores."""
    return any(cell.strip() for cell in cells) and not _mostly_scores(cells)


def _mostly_scores(cells: Sequence[str]) -> bool:
    """Whether half of the cells that are filled hold numbers, or say that there is none."""
    filled = [cell for cell in cells if cell.strip()]
    scores = 0
    for cell in filled:
        try:
            parse_cell(cell)
        except ValueError:
            continue
        scores += 1
    return bool(filled) and scores >= 0.5 * len(filled)


def _is_average(name: str) -> bool:
    return len(name) <= MAX_CELL and _AVERAGES.fullmatch(name) is not None


def _label_columns(names: Mapping[int, str]) -> dict[str, int] | None:
    """Which of the leading columns is the model's, the dataset's and the metric's."""
    labels: dict[str, int] = {}
    for place, name in names.items():
        for kind, known in (("model", _MODEL), ("dataset", _DATASET), ("metric", _METRIC)):
            if _fold(name) in known and kind not in labels:
                labels[kind] = place
                break
    if "model" not in labels:
        rest = [place for place in names if place not in labels.values()]
        # The first column of languages or of models has any name.
        labels |= {"model": rest[0]} if rest else {}
    return labels if "model" in labels else None


def _not_a_language(name: str) -> str:
    try:
        resolve(name)
    except InputError as problem:
        # What is allowed is known to who has written the other headers.
        return str(problem).partition(" (allowed: ")[0]
    return f"{name!r} is not a language"


def _fold(name: str) -> str:
    return re.sub(r"[\s_\-.]+", "", name.casefold())


def _wide_scores(grid: Grid, notes: dict[str, None]) -> Iterator[Score]:
    oriented = _find_layout(grid.rows)
    if oriented is None:
        header = [cell for cell in grid.rows[0] if cell]
        raise InputError(
            f"{grid.header}: expected one row per score, or languages as columns"
            f" or rows; the header is {shorten(map(show, header), limit=8)}"
        )
    layout, rows = oriented
    transposed = rows is not grid.rows
    if layout.not_languages:
        raise InputError(
            f"{grid.header}: {_not_a_language(layout.not_languages[0])} (all other"
            " headers are languages); rename it, or remove it from the table"
        )
    for what, names in (("averages", layout.averages), ("about the models", layout.model_facts)):
        if names:
            notes[f"{'rows' if transposed else 'columns'} not read, {what}: {shorten(names)}"] = (
                None
            )
    counts: Counter[str] = Counter()
    labels_above: dict[str, str] = {}
    for number, row in enumerate(rows[layout.header :], start=layout.header):
        labels = _row_labels(row, layout, labels_above)
        if labels is None:
            continue
        if _is_average(labels["model"]):
            notes[
                f"{'columns' if transposed else 'rows'} not read, averages: {labels['model']}"
            ] = None
            continue
        if _fold(labels["model"]) in _LANGUAGE_FACTS:
            what = "columns" if transposed else "rows"
            notes[f"{what} not read, about the languages: {labels['model']}"] = None
            continue
        extra = tuple((name, row[place].strip()) for name, place in layout.repeats.items())
        for place, language in layout.languages.items():
            # Places are told in the grid as it stands in the file.
            at = (place, number) if transposed else (number, place)
            where = f"{grid.place} {grid.numbers[at[0]]}, column {at[1] + 1}"
            try:
                cell = parse_cell(row[place])
            except ValueError:
                raise InputError(
                    f"{where}: {show(row[place])} is not a score{date_hint(row[place])}"
                ) from None
            if cell is None:
                counts["missing"] += 1
                continue
            counts["marked"] += cell.marked
            counts["se"] += cell.se is not None
            dataset = labels.get("dataset") or layout.groups[place] or grid.name
            yield from _cell_scores(cell, labels, dataset, language, where, extra)
    for what, text in (
        ("missing", "without a score (empty, -)"),
        ("se", "with a standard error (the number behind ±)"),
    ):
        if counts[what]:
            notes[f"{grid.name}: {counted(counts[what], 'cell')} {text}"] = None


def _row_labels(
    row: Sequence[str], layout: _Layout, labels_above: dict[str, str]
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
