"""lighteval's details: one test item per row, ``details_<task>_<time>.parquet``.

Columns are ``doc``, ``metric`` and ``model_response`` (lighteval's documentation has
underscores around them); older versions wrote ``example``, ``full_prompt``, ``gold``,
``metrics`` and more, where the metrics may be the text of a Python dict. The
task is in ``doc.task_name`` or else in the name of the file; the model is in the folders
``details/<model>/<time>``.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from bayeseval._text import grouped, plain, shorten, show
from bayeseval.errors import InputError
from bayeseval.readers.base import Head, Options, Reader, Reading, as_mapping, as_number
from bayeseval.readers.items import Items, settle_items
from bayeseval.readers.lighteval import task_and_shots
from bayeseval.readers.lm_eval import ModelName, common_folder, folder_notes, name_notes
from bayeseval.readers.scores import Score
from bayeseval.readers.tabular import parquet_problem
from bayeseval.readers.task_names import read_task_names

__all__ = ["LIGHTEVAL_DETAILS"]

_TIME: Final = r"\d{4}-\d{2}-\d{2}T[\d.\-+:]+"
_NAME: Final = re.compile(rf"details_(?P<task>.+)_(?P<time>{_TIME})\.parquet")
_FORMS: Final = (
    {"doc", "metric", "model_response"},
    {"__doc__", "__metric__", "__model_response__"},
    {"example", "full_prompt", "gold", "metrics"},
)
_METRICS: Final = ("metric", "__metric__", "metrics")
_DOCS: Final = ("doc", "__doc__")
_MAX_ITEMS: Final = 10_000_000
_MAX_TEXT: Final = 1 << 16


def _sniff(path: Path, head: Head) -> bool:
    if not head.data.startswith(b"PAR1"):
        return False
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        columns = set(pq.read_schema(path).names)
    except (pa.ArrowException, OSError, ValueError):
        # Damaged: said when it is read as a table.
        return False
    return any(form <= columns for form in _FORMS)


def _read(paths: Sequence[Path], options: Options) -> Reading:
    names = read_task_names(options.task_names)
    source = common_folder(paths)
    contents = dict(options.attempts(options.each(paths), _rows))
    keys = dict(options.attempts(contents, lambda path: _key_and_time(path, contents[path])))
    tasks = {path: task_and_shots(key) for path, (key, _) in keys.items()}
    named = names.parse_all((task for task, _ in tasks.values()), source)
    models = {path: _model(path) for path in keys}
    read: dict[str, dict[str, Items]] = {}
    heads: list[Score] = []
    wanted = [path for path in keys if named[tasks[path][0]]]
    for path, items in options.attempts(wanted, lambda path: _items(path, contents[path])):
        task, shots = tasks[path]
        name = named[task]
        if name is None:
            continue
        read[str(path)] = items
        heads += [
            Score(
                model=models[path].label,
                dataset=name.dataset,
                language=name.language,
                metric=metric,
                value=None,
                where=str(path),
                variant=f"{shots}-shot" if shots else "",
                run=keys[path][1],
                rank=rank,
            )
            for rank, metric in enumerate(read[str(path)])
        ]
    notes = [*name_notes(named), *folder_notes(models)]
    return settle_items(heads, read, source=source, options=options, place="row", notes=notes)


def _rows(path: Path) -> dict[str, list[Any]]:
    """Scores, names and tasks of the items; prompts and answers stay on the disk."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            count = file.metadata.num_rows
            if not 0 < count <= _MAX_ITEMS:
                raise InputError(
                    f"{path}: {grouped(count)} rows; from 1 to {grouped(_MAX_ITEMS)} are read"
                )
            columns = file.schema_arrow.names
            metric = next((name for name in _METRICS if name in columns), None)
            if metric is None:
                raise InputError(
                    f"{path}: lighteval's details have a column 'metric' or 'metrics', this file"
                    f" has neither (columns: {shorten(map(plain, columns), limit=8)})"
                )
            doc = next((name for name in _DOCS if name in columns), None)
            wanted = [metric, *((f"{doc}.id", f"{doc}.task_name") if doc else ())]
            table = file.read(columns=wanted)
            docs = table[doc].to_pylist() if doc in table.column_names else [None] * count
            metrics = table[metric].to_pylist()
    except InputError:
        raise
    except (pa.ArrowException, OSError, ValueError, KeyError, OverflowError) as problem:
        raise InputError(f"{path}: damaged Parquet file: {parquet_problem(problem)}") from problem
    known: list[dict[str, Any]] = [cell if isinstance(cell, dict) else {} for cell in docs]
    return {
        "metric": metrics,
        "id": [cell.get("id") for cell in known],
        "task": [cell.get("task_name") for cell in known],
    }


def _key_and_time(path: Path, rows: dict[str, list[Any]]) -> tuple[str, str]:
    """Task with subset and shots as lighteval writes it, and the time of the run."""
    match = _NAME.fullmatch(path.name)
    time = match["time"] if match else ""
    stated = {str(task) for task in rows["task"] if task is not None and str(task).strip()}
    if len(stated) > 1:
        raise InputError(f"{path}: items of several tasks: {shorten(sorted(map(plain, stated)))}")
    if stated:
        return stated.pop(), time
    if match is None:
        raise InputError(
            f"{path}: the task is neither in doc.task_name nor in the file's name; expected"
            " details_TASK_TIME.parquet, as lighteval writes it"
        )
    return match["task"], time


def _model(path: Path) -> ModelName:
    """The model that the folders are named after: ``details/<model>/<time>``."""
    folder = path.resolve().parent
    if re.fullmatch(_TIME, folder.name):
        folder = folder.parent
    parts = folder.parts
    if "details" in parts[:-1]:
        start = max(i for i, part in enumerate(parts[:-1]) if part == "details")
        return ModelName("/".join(parts[start + 1 :]), folder)
    # The repository that lighteval pushes to: details_<org>__<model>.
    return ModelName(folder.name.removeprefix("details_").replace("__", "/"), folder)


def _items(path: Path, rows: dict[str, list[Any]]) -> dict[str, Items]:
    """The items by metric, in the order of the file."""
    ids = rows["id"]
    # Without names, the order of the rows says which item is which.
    named = all(item is not None and str(item).strip() for item in ids)
    labels = [str(item) for item in ids] if named else [str(i) for i in range(len(ids))]
    by_metric: dict[str, list[tuple[int, str, float | None]]] = {}
    for number, (label, cell) in enumerate(zip(labels, rows["metric"], strict=True), start=1):
        for metric, value in _scores(cell, f"{path}, row {number}"):
            by_metric.setdefault(metric, []).append((number, label, value))
    # What no item of the file has is not one of its metrics.
    by_metric = {m: kept for m, kept in by_metric.items() if any(v is not None for _, _, v in kept)}
    if not by_metric:
        raise InputError(f"{path}: no item has a score of its own")
    return {metric: Items.of(kept) for metric, kept in by_metric.items()}


def _scores(cell: Any, where: str) -> Iterator[tuple[str, float | None]]:
    """Metrics and their values of one item."""
    if isinstance(cell, str):
        cell = _parsed(cell, where)
    for metric, value in as_mapping(cell, f"{where}: metric").items():
        if not isinstance(metric, str):
            raise InputError(f"{where}: metric: expected names, got {show(metric)}")
        # What a metric over the whole corpus is computed from, such as the texts of BLEU.
        if isinstance(value, dict | list | tuple | str | bytes):
            continue
        value = float(value) if isinstance(value, bool) else value
        yield metric, as_number(value, f"{where}: {metric}")


def _parsed(text: str, where: str) -> Any:
    """The dict of which lighteval wrote the text."""
    try:
        if len(text) > _MAX_TEXT:
            raise ValueError("too long")
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError) as problem:
        raise InputError(
            f"{where}: metric: expected names and values, got {show(text)}"
        ) from problem


LIGHTEVAL_DETAILS: Final = Reader(
    "lighteval-details",
    "lighteval details",
    _sniff,
    _read,
    details_of=("lighteval",),
)
