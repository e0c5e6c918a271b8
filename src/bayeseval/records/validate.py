"""What a table can tell: levels, coverage, replication, connectivity; data, then text."""

from __future__ import annotations

import statistics
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bayeseval._text import Caution, Note, counted, grouped, one_line, shorten
from bayeseval.names import FACTORS, SHARED_SOURCES, Factor
from bayeseval.records.averages import average_over_others, sources_of
from bayeseval.records.coded import by_level
from bayeseval.records.connectivity import Component, connected_components
from bayeseval.records.replicates import CellTable, reduce_replicates
from bayeseval.records.report import LoadReport, TableError, Units
from bayeseval.records.table import Records

__all__ = [
    "Coverage",
    "Description",
    "Replication",
    "TaskScores",
    "describe",
    "format_description",
    "format_refused",
]

# A table may have as many parts that share nothing as rows.
_SHOWN_PARTS = 20
# More than there are languages in any collection of parallel texts.
_SHOWN_LEVELS = 300
_SHOWN_TASKS = 100
# Stands for a blank where a line must not break; no label can hold it.
_GLUE = "\x1f"
_REPLICATION: tuple[tuple[Factor, tuple[Factor, Factor]], ...] = (
    ("model", ("language", "task")),
    ("language", ("model", "task")),
    ("task", ("model", "language")),
)


@dataclass(frozen=True, slots=True)
class Coverage:
    """Observed cells of a full grid."""

    observed: int
    possible: int

    @property
    def share(self) -> float:
        """Observed cells over possible cells, 0 to 1."""
        return self.observed / self.possible


@dataclass(frozen=True, slots=True)
class Replication:
    """How many levels of one factor the observed cells of the two others have.

    Parameters
    ----------
    factor : str
        What is counted, for example ``model``.
    cell : tuple of str
        The two factors of the cells, for example ``("language", "task")``.
    distribution : tuple of (int, int)
        Number of levels, and of cells with that many; ascending.
    """

    factor: Factor
    cell: tuple[Factor, Factor]
    distribution: tuple[tuple[int, int], ...]

    @property
    def n_cells(self) -> int:
        """Number of observed cells."""
        return sum(cells for _, cells in self.distribution)

    @property
    def least(self) -> int:
        """Fewest levels in an observed cell."""
        return self.distribution[0][0]

    @property
    def most(self) -> int:
        """Most levels in a cell."""
        return self.distribution[-1][0]


@dataclass(frozen=True, slots=True)
class TaskScores:
    """Scores of one task, in its own units."""

    task: str
    n_records: int
    lowest: float
    median: float
    highest: float
    units: Units


@dataclass(frozen=True, slots=True)
class Description:
    """What was understood of a table; the content of ``bayeseval validate``.

    Parameters
    ----------
    name, content_hash : str
    n_records : int
    levels : mapping of str to tuple of (str, int)
        For each factor its levels and their numbers of records, most records first.
    language_names : mapping of str to str
    language_task, language_task_model : Coverage
        Observed share of the grid.
    replication : tuple of Replication
        Models per language and task, languages per model and task, tasks per model
        and language.
    components : tuple of Component
        Connected parts; one when everything can be compared.
    tasks : tuple of TaskScores
    replicates : tuple of str
        Replicate columns (``seed``, ``boot``, ``item``) of the table.
    replicated : tuple of str
        What is known about seeds, test sets and errors, cell by cell, in sentences.
    report : LoadReport
    """

    name: str
    content_hash: str
    n_records: int
    levels: Mapping[str, tuple[tuple[str, int], ...]]
    language_names: Mapping[str, str]
    language_task: Coverage
    language_task_model: Coverage
    replication: tuple[Replication, ...]
    components: tuple[Component, ...]
    tasks: tuple[TaskScores, ...]
    replicates: tuple[str, ...]
    replicated: tuple[str, ...]
    report: LoadReport


def describe(records: Records) -> Description:
    """Levels, observed share of the grid, replication and connectivity of a table.

    Parameters
    ----------
    records : Records

    Returns
    -------
    Description
        Plain data; :func:`format_description` makes it text.
    """
    coords = records.coords
    codes = {factor: records.codes(factor) for factor in FACTORS}
    sizes = {factor: len(coords[factor]) for factor in FACTORS}
    cells = np.unique(np.stack([codes[f] for f in FACTORS]), axis=1)
    by_factor = dict(zip(FACTORS, cells, strict=True))
    language_task = len(np.unique(np.stack([cells[0], cells[1]]), axis=1).T)
    grid = sizes["language"] * sizes["task"]
    return Description(
        name=records.name,
        content_hash=records.content_hash,
        n_records=len(records),
        levels={factor: _levels(coords[factor], codes[factor]) for factor in FACTORS},
        language_names=records.language_names,
        language_task=Coverage(language_task, grid),
        language_task_model=Coverage(cells.shape[1], grid * sizes["model"]),
        replication=tuple(_replication(by_factor, f, cell) for f, cell in _REPLICATION),
        components=connected_components(records),
        tasks=_task_scores(records),
        replicates=records.replicate_columns,
        replicated=(*dict.fromkeys(_replicated_by_source(records)), *_standard_errors(records)),
        report=records.report,
    )


def _replicated_by_source(records: Records) -> Iterator[str]:
    """Lines of :func:`_replicated`; of prompts and of judges apart, as models take one of them."""
    there = sources_of(records)
    shared = [source for source in there if source in SHARED_SOURCES]
    if len(shared) < 2:
        yield from _replicated(reduce_replicates(records))
        return
    for one in shared:
        kept = [source for source in there if source == one or source not in shared]
        yield from _replicated(reduce_replicates(average_over_others(records, kept)[0]))


def _replicated(cells: CellTable) -> tuple[str, ...]:
    """Numbers of seeds, boots, items and prompts over the cells that have any."""
    lines = []
    for what, numbers in (
        ("seeds", cells.n_seeds),
        ("bootstrap test sets", cells.n_boot),
        ("items", cells.n_items),
        (f"{cells.by_prompt.source}s" if cells.by_prompt else "prompts", cells.n_prompts),
    ):
        known = numbers[numbers > 0]
        if known.size:
            least, most = known.min(), known.max()
            spread = " to ".join(grouped(round(v)) for v in dict.fromkeys((least, most)))
            share = f"{grouped(known.size)} of {grouped(len(cells))} cells"
            lines.append(f"{what} per cell: {spread} (in {share})")
    if cells.unbalanced is not None:
        lines.append(
            f"{counted(len(cells.unbalanced), 'cell')} where some seeds lack some bootstrap test"
            " sets"
        )
    return (*lines, *cells.notes)


def _standard_errors(records: Records) -> list[str]:
    """The range of the column ``se``, which shows its unit."""
    errors = records.numbers("se")
    known = errors[np.isfinite(errors)]
    if not known.size:
        return []
    spread = " to ".join(dict.fromkeys(f"{value:.3g}" for value in (known.min(), known.max())))
    share = f"{grouped(known.size)} of {counted(len(records), 'record')}"
    return [f"standard errors (se): {spread}, median {np.median(known):.3g} (in {share})"]


def _levels(labels: tuple[str, ...], codes: npt.NDArray[np.int64]) -> tuple[tuple[str, int], ...]:
    counts = np.bincount(codes, minlength=len(labels)).tolist()
    return tuple(sorted(zip(labels, counts, strict=True), key=lambda pair: (-pair[1], pair[0])))


def _replication(
    cells: Mapping[Factor, npt.NDArray[np.int64]], factor: Factor, cell: tuple[Factor, Factor]
) -> Replication:
    """Count distinct levels per cell; `cells` holds each observed triple once."""
    pairs = np.stack([cells[name] for name in cell])
    _, counts = np.unique(pairs, axis=1, return_counts=True)
    values, cells_with = np.unique(counts, return_counts=True)
    pairs_of = zip(values.tolist(), cells_with.tolist(), strict=True)
    return Replication(factor, cell, tuple(pairs_of))


def _task_scores(records: Records) -> tuple[TaskScores, ...]:
    by_task = []
    tasks, units = records.coords["task"], records.units
    each = by_level(records.scores, records.codes("task"), len(tasks))
    for task, values in zip(tasks, each, strict=True):
        ordered = sorted(values.tolist())
        lowest, median, highest = ordered[0], statistics.median(ordered), ordered[-1]
        by_task.append(TaskScores(task, len(values), lowest, median, highest, units[task]))
    return tuple(by_task)


def format_description(
    description: Description, warnings: Sequence[Note] = (), *, width: int = 100
) -> str:
    """A :class:`Description` as plain text.

    Warnings, each a line of any length, come last.

    Parameters
    ----------
    description : Description
        From :func:`describe`.
    warnings : sequence of Note
        Warnings beside those of the report.
    width : int
        Columns; longer labels and names of files take more.
    """
    blocks = [
        _head(description),
        _report_lines(description.report, width),
        _level_lines(description.levels, description.language_names, width),
        _coverage_lines(description),
        _replication_lines(description, width),
        _component_lines(description, width),
        _task_lines(description),
        [*description.report.warnings, *map(str, warnings)],
    ]
    return "\n\n".join("\n".join(block) for block in blocks if block)


def format_refused(refused: TableError, *, width: int = 100) -> str:
    """What was understood of rows before they were refused, as plain text.

    Parameters
    ----------
    refused : TableError
        From :func:`bayeseval.records.load`. Its message is not repeated.
    width : int
        Columns; longer labels and names of files take more.
    """
    if refused.report is None:
        return ""
    blocks = [
        _report_lines(refused.report, width, whole=False),
        _level_lines(refused.levels, {}, width) if refused.levels else [],
        [one_line(warning) for warning in refused.report.warnings],
    ]
    return "\n\n".join("\n".join(block) for block in blocks if block)


def _head(description: Description) -> list[str]:
    shape = ", ".join(counted(len(description.levels[f]), f) for f in ("model", "language", "task"))
    return [
        f"{description.name}: {counted(description.n_records, 'record')} of {shape}",
        f"content hash {description.content_hash}",
    ]


def _report_lines(report: LoadReport, width: int, *, whole: bool = True) -> list[str]:
    sources = shorten(map(one_line, report.sources), limit=3)
    lines = [f"Read {counted(report.n_rows_read, 'row')} from {sources}"]
    used = _listed(f"{our} <- {theirs}" for our, theirs in report.columns)
    lines += _wrapped("columns", used, width) if report.columns else []
    if report.ignored_columns:
        lines += _wrapped("ignored columns", ", ".join(report.ignored_columns), width)
    if not report.dropped:
        lines.append(f"  dropped: nothing{'' if whole else ' before the fault'}")
    for group in report.dropped:
        named = shorten(
            [label if count == 1 else f"{label} x {count}" for label, count in group.counts],
            limit=10,
        )
        labels = "" if named.startswith(group.reason) else f" ({named})"
        lines += _wrapped(
            "dropped",
            f"{counted(group.n_rows, 'row')}: {group.reason}{labels}; first {group.first}",
            width,
        )
    for note in report.remarks:
        if not isinstance(note, Caution):
            lines += _wrapped("note", note, width)
    return lines


def _level_lines(
    levels: Mapping[str, tuple[tuple[str, int], ...]], language_names: Mapping[str, str], width: int
) -> list[str]:
    lines = ["Levels, with numbers of records"]
    for factor in ("model", "language", "task"):
        names = language_names if factor == "language" else {}
        labels = (
            f"{label} ({names[label]}) {count}" if label in names else f"{label} {count}"
            for label, count in levels[factor][:_SHOWN_LEVELS]
        )
        further = len(levels[factor]) - _SHOWN_LEVELS
        more = f", and {grouped(further)} more" if further > 0 else ""
        lines += _wrapped(counted(len(levels[factor]), factor), _listed(labels) + more, width)
    return lines


def _coverage_lines(description: Description) -> list[str]:
    rows = (
        ("language x task", description.language_task),
        ("language x task x model", description.language_task_model),
    )
    lines = ["Observed share of the grid"]
    lines += [
        f"  {name:<25}{cover.observed:>8,} of {cover.possible:>8,} cells  {cover.share:6.1%}"
        for name, cover in rows
    ]
    if description.replicates:
        lines.append(f"  replicates told apart by: {', '.join(description.replicates)}")
    lines += [f"  {line}" for line in description.replicated]
    return lines


def _replication_lines(description: Description, width: int) -> list[str]:
    lines = ["Replication"]
    for entry in description.replication:
        name = f"{entry.factor}s per {' and '.join(entry.cell)}"
        # A cell is a language and task, and so on.
        spread = _listed(
            f"{levels} in {counted(cells, 'cell')}" for levels, cells in entry.distribution
        )
        lines += _wrapped(name, spread, width)
    return lines


def _component_lines(description: Description, width: int) -> list[str]:
    parts = description.components
    if len(parts) == 1:
        return ["Connectivity: one connected table"]
    lines = [
        f"Connectivity: {len(parts)} parts that share no language, task or model;"
        " levels of different parts",
        "cannot be compared",
    ]
    for number, part in enumerate(parts[:_SHOWN_PARTS], start=1):
        lines.append(f"  part {number}: {counted(part.n_records, 'record')}")
        for factor in ("model", "language", "task"):
            labels = getattr(part, factor)
            lines += _wrapped(f"  {factor}", shorten(labels, limit=20), width)
    if len(parts) > _SHOWN_PARTS:
        lines.append(f"  and {counted(len(parts) - _SHOWN_PARTS, 'further part')}, not larger")
    return lines


def _task_lines(description: Description) -> list[str]:
    shown, further = description.tasks[:_SHOWN_TASKS], len(description.tasks) - _SHOWN_TASKS
    width = max(len("task"), *(len(entry.task) for entry in shown))
    lines = [
        "Scores, in each task's own units; higher must be better"
        " (an error: bound - error, or -error)",
        f"  {'task':<{width}}  {'records':>8}  {'lowest':>9}  {'median':>9}  {'highest':>9}  units",
    ]
    lines += [
        f"  {entry.task:<{width}}  {entry.n_records:>8,}  {entry.lowest:>9.4g}"
        f"  {entry.median:>9.4g}  {entry.highest:>9.4g}  {entry.units}"
        for entry in shown
    ]
    return [*lines, f"  and {counted(further, 'further task')}"] if further > 0 else lines


def _listed(items: Iterable[str]) -> str:
    """Items with commas between them and no line break inside them."""
    return ", ".join(item.replace(" ", _GLUE) for item in items)


def _wrapped(name: str, text: str, width: int) -> list[str]:
    lines = textwrap.wrap(
        # The name of a file may hold a line feed, which would become a blank.
        f"{name}: {text}".replace("\n", "\\n"),
        width=width,
        initial_indent="  ",
        subsequent_indent="      ",
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [line.replace(_GLUE, " ") for line in lines]
