"""Leaderboards that EuroEval publishes: CSV with links, one table per language, models by datasets.

The first row names the task of each dataset, the second the dataset; both are links, and that
of a dataset contains the language. A cell, ``63.59 ± 0.91 / 75.27 ± 0.64@@63.59``, has the
primary and the secondary metric of the task, and what the page sorts by. What stands behind
``±`` is the ``_se`` of EuroEval's results, as ``generate_dataframe`` of its
``leaderboard_generation.py`` writes it: 1.96 standard errors of a mean over ten bootstraps of
one test set (see ``euroeval.py``). Tables of several languages, and the ``_simplified`` ones,
have ranks of models and no scores.
"""

from __future__ import annotations

import csv
import html
import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bayeseval._text import Note, counted, plain, shorten, show
from bayeseval.errors import InputError
from bayeseval.readers.base import Head, Options, Reader, Reading, decode, file_bytes
from bayeseval.readers.euroeval import Evaluated, euroeval_scores, in_percent
from bayeseval.readers.lm_eval import common_folder
from bayeseval.readers.scores import settle

__all__ = ["EUROEVAL_LEADERBOARD"]

_SIMPLIFIED: Final = re.compile(r"(?:rank,)?model,(?:mean_rank_score,)?generative_type,")
_TASK: Final = re.compile(r"""euroeval\.com/tasks/([\w-]+)/?['"]""")
_DATASET: Final = re.compile(r"""euroeval\.com/datasets/([\w-]+)#([\w-]+)['"]""")
_TAG: Final = re.compile(r"<[^<>]*>")
_NUMBER: Final = r"(-?[\d,]+\.\d+|nan)"
_SCORE: Final = re.compile(rf"{_NUMBER} ± {_NUMBER}")
_METRICS: Final = ("primary", "secondary")
_NO_SCORE: Final = frozenset(["-", "", "?"])


@dataclass(frozen=True, slots=True)
class _Column:
    """A column of scores: a dataset of a language, and where the version of EuroEval stands."""

    at: int
    task: str
    dataset: str
    language: str
    version_at: int | None


def _sniff(path: Path, head: Head) -> bool:
    first = head.text.partition("\n")[0]
    if _SIMPLIFIED.match(first):
        return True
    return first.startswith("<span") and ">Task Type</span>" in first


def _read(paths: Sequence[Path], options: Options) -> Reading:
    found: dict[tuple[str, str, str, str], Evaluated] = {}
    means: dict[str, None] = {}
    repeated = 0
    read = options.attempts(options.each(paths), lambda path: _lines(path, means))
    for _, lines in read:
        for line in lines:
            cell = (line.model, line.dataset, line.languages[0], line.run)
            # Of one language, one table has the tasks of another, and more.
            if cell in found and found[cell].total == line.total:
                repeated += 1
                continue
            other = cell if cell not in found else (*cell[:3], f"{line.run} {line.where}")
            found[other] = line
    scores, own_notes = euroeval_scores(list(found.values()))
    notes: list[Note] = [*own_notes]
    notes.append(
        "metrics are the primary and the secondary one of EuroEval's tasks, in percent; models keep"
        " the names of the leaderboard, where (zero-shot, val) says how one was evaluated"
    )
    if repeated:
        notes.append(f"{counted(repeated, 'cell')} that two leaderboards have read once")
    if means:
        notes.append(f"left out, as no scores of one dataset: {shorten(means)}")
    return settle(
        in_percent(scores),
        source=common_folder(paths),
        options=options,
        place="cell",
        notes=notes,
    )


def _lines(path: Path, means: dict[str, None]) -> list[Evaluated]:
    """The cells of a leaderboard; names of tasks that it has a mean of go to `means`.

    Raises
    ------
    InputError
        If it has no scores, or is damaged.
    """
    text = decode(file_bytes(path), str(path), expected="expected CSV")
    reader = csv.reader(io.StringIO(text, newline=""))
    try:
        rows = list(reader)
    except csv.Error as problem:
        raise InputError(
            f"{path}, line {reader.line_num}: not valid CSV: {plain(str(problem))}"
        ) from problem
    if _SIMPLIFIED.match(text):
        raise InputError(
            f"{path}: a simplified leaderboard, which has ranks of models and no scores"
        )
    if len(rows) < 3:
        raise InputError(f"{path}: a leaderboard without models")
    names = [_plain(name) for name in rows[1]]
    columns = list(_columns(path, rows[0], rows[1], names))
    if not columns:
        raise InputError(
            f"{path}: a leaderboard of several languages, which has ranks of models and no scores;"
            " those of single languages have them"
        )
    means.update(
        dict.fromkeys(n for n, raw in zip(names, rows[1], strict=True) if _TASK.search(raw))
    )
    lines = []
    for number, row in enumerate(rows[2:], start=3):
        where = f"{path}, line {number}"
        if len(row) != len(names):
            raise InputError(
                f"{where}: {counted(len(row), 'cell')}, but the header has {len(names)}"
            )
        model = _plain(row[names.index("Model")])
        for column in columns:
            line = _line(column, row, model, where)
            lines += [] if line is None else [line.checked()]
    return lines


def _columns(
    path: Path, tasks: Sequence[str], raw: Sequence[str], names: Sequence[str]
) -> Iterator[_Column]:
    if "Model" not in names or len(tasks) != len(raw):
        raise InputError(f"{path}, line 2: expected a header with the columns Model, Type, ...")
    task = ""
    for at, (above, cell) in enumerate(zip(tasks, raw, strict=True)):
        named, dataset = _TASK.search(above), _DATASET.search(cell)
        # The second dataset of a task has an empty cell above it.
        task = named[1] if named else task
        if dataset is None:
            continue
        if not task:
            raise InputError(f"{path}, line 1: no task above the dataset {show(names[at])}")
        version = f"{names[at]}_version"
        version_at = names.index(version) if version in names else None
        yield _Column(at, task, dataset[2], dataset[1], version_at)


def _line(column: _Column, row: Sequence[str], model: str, where: str) -> Evaluated | None:
    text, _, _ = row[column.at].partition("@@")
    if text.strip() in _NO_SCORE:
        return None
    total: dict[str, float | None] = {}
    parts = text.split(" / ")
    matches = [_SCORE.fullmatch(part.strip()) for part in parts]
    if len(parts) > len(_METRICS) or not all(matches):
        raise InputError(
            f"{where}, {column.dataset}: expected scores as 57.04 ± 1.20 / 64.31 ± 0.95, got"
            f" {show(text)}"
        )
    for metric, match in zip(_METRICS, filter(None, matches), strict=False):
        score, half = (float(one.replace(",", "")) for one in match.groups())
        total[metric] = score
        # 0.00 is what is left of a small one after rounding.
        total[f"{metric}_se"] = half if half > 0 else None
    version = "" if column.version_at is None else row[column.version_at].rpartition("@@")[2]
    return Evaluated(
        model=model,
        dataset=column.dataset,
        task=column.task,
        languages=(column.language,),
        raw=(),
        total=total,
        where=f"{where}, {column.dataset}",
        run=version.rjust(9, "0") if version.isdigit() else "",
    )


def _plain(cell: str) -> str:
    """A cell without its link."""
    return html.unescape(_TAG.sub("", cell)).strip()


EUROEVAL_LEADERBOARD: Final = Reader(
    "euroeval-leaderboard",
    "EuroEval leaderboards",
    _sniff,
    _read,
    # When a leaderboard was written.
    auxiliary_files=("*.json",),
)
