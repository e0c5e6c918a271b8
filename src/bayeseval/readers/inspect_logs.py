"""Inspect: logs (``.eval`` or ``.json``), by the data frames of ``inspect_ai.analysis``.

``inspect`` reads the metrics of each log, ``inspect-samples`` its samples as test items;
what is repeated in epochs is told apart as seeds. Only logs that ended with success count.
"""

from __future__ import annotations

import json
import re
import shutil
import tempfile
import warnings
import zipfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from bayeseval._optional import require
from bayeseval._text import byte_size, plain, shorten, show
from bayeseval.errors import InputError
from bayeseval.readers.archives import refuse_zip_bomb
from bayeseval.readers.base import MAX_BYTES, Head, Options, Reader, Reading
from bayeseval.readers.items import Items, settle_items
from bayeseval.readers.lm_eval import common_folder, differences, format_settings, name_notes
from bayeseval.readers.raw import Dropped, object_array
from bayeseval.readers.scores import Score, settle
from bayeseval.readers.task_names import NamedTask, TaskNames, read_task_names

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["INSPECT", "INSPECT_SAMPLES"]

_LANGUAGE: Final = (
    *("metadata_language", "metadata_lang", "task_arg_language", "task_arg_lang"),
    *("task_arg_languages", "task_arg_subset"),
)
_VALUES: Final = {"C": 1.0, "I": 0.0, "P": 0.5, "N": 0.0}
_UNCERTAINTY: Final = ("stderr", "std", "var", "bootstrap_stderr", "hierarchical_stderr")
_SOLVER: Final = ("solver", "solver_args")
# How requests were sent to the provider, not how the model was prompted.
_EXECUTION_KEYS: Final = frozenset(
    [
        *("adaptive_connections", "attempt_timeout", "batch", "cache", "cache_prompt"),
        *("extra_headers", "logprobs", "max_connections", "max_retries", "num_choices", "seed"),
        *("timeout", "top_logprobs"),
    ]
)
_TIME: Final = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}[:-]\d{2}[:-]\d{2}")
_FAILED: Final = "log that did not end with success"
_ERROR: Final = "sample that ended in an error"


def _sniff(path: Path, head: Head) -> bool:
    if head.data.startswith(b"PK\x03\x04"):
        try:
            with zipfile.ZipFile(path) as archive:
                names = archive.namelist()
        except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError):
            # An evaluation that was stopped leaves an archive without an end.
            return path.suffix.casefold() == ".eval"
        return "header.json" in names or "_journal/start.json" in names
    return head.text.startswith("{") and head.has("version", "status", "eval")


def _never(path: Path, head: Head) -> bool:
    return False


def _read(paths: Sequence[Path], options: Options) -> Reading:
    source = common_folder(paths)
    logs = _frame("evals_df", paths, options)
    names = read_task_names(options.task_names)
    successful, dropped = _successful(logs)
    named = _named(successful, names, source)
    cells = [(row, name) for row in successful if (name := _named_row(row, named)) is not None]
    labels, notes = _distinct_labels(cells)
    logs_of: dict[Path, list[tuple[Mapping[str, Any], NamedTask, tuple[str, str]]]]
    logs_of = defaultdict(list)
    for (row, name), label in zip(cells, labels, strict=True):
        logs_of[Path(str(row.get("log")))].append((row, name, label))

    def scores_of(path: Path) -> list[Score]:
        own = [
            score for row, name, label in logs_of[path] for score in _log_scores(row, name, *label)
        ]
        if not own:
            raise InputError(f"{path}: the log has no score")
        return own

    scores = [score for _, own in options.attempts(logs_of, scores_of) for score in own]
    return settle(
        scores,
        source=source,
        options=options,
        place="log",
        notes=[*name_notes(named), *notes],
        dropped=dropped,
    )


def _frame(kind: str, paths: Sequence[Path], options: Options) -> pd.DataFrame:
    """A data frame of ``inspect_ai.analysis``, of the logs that Inspect can read."""
    good = [path for path, _ in options.attempts(options.each(paths), _refuse_too_large)]
    if not good:
        return _concatenated([])
    require("inspect_ai", "inspect")
    read = getattr(require("inspect_ai.analysis", "inspect"), kind)
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        # What Inspect warns of in its own frames is no matter of the table's.
        warnings.simplefilter("ignore")
        known = {_known_name(path, Path(folder), i): path for i, path in enumerate(good)}
        frames = list(_read_in_parts(read, known, options, one_row_each=kind == "evals_df"))
        frame: pd.DataFrame = frames[0] if len(frames) == 1 else _concatenated(frames)
    if "log" in frame:
        frame["log"] = [str(known.get(str(log), log)) for log in frame["log"]]
    return frame


def _refuse_too_large(path: Path) -> None:
    with path.open("rb") as file:
        packed = file.read(2) == b"PK"
    if packed or path.suffix.casefold() == ".eval":
        # Inspect unpacks on past the size that an entry states.
        refuse_zip_bomb(path, unpack=True)
    elif path.stat().st_size > MAX_BYTES:
        raise InputError(
            f"{path}: the log is larger than {byte_size(MAX_BYTES)}, the most that is read"
        )


def _known_name(path: Path, folder: Path, number: int) -> str:
    """A name under which Inspect reads a log: it knows JSON logs by the time in their names."""
    if path.suffix.casefold() == ".eval" or (path.suffix == ".json" and _TIME.match(path.name)):
        return str(path)
    link = folder / f"2000-01-01T00-00-00_{number}.json"
    try:
        link.symlink_to(path.resolve())
    except OSError:
        shutil.copyfile(path, link)
    return str(link)


def _read_in_parts(
    read: Callable[..., pd.DataFrame],
    known: Mapping[str, Path],
    options: Options,
    *,
    one_row_each: bool,
) -> Iterator[pd.DataFrame]:
    """Frames of the logs; where Inspect refuses a set of them, of its halves, to find which."""
    names = list(known)
    if not names:
        return
    try:
        frame = read(names, quiet=True)
        if one_row_each and len(frame) < len(names):
            raise ValueError("Inspect does not recognise this file as a log")
    # Inspect lets whatever its readers and validators raise through.
    except Exception as problem:
        if len(names) > 1:
            for half in (names[: len(names) // 2], names[len(names) // 2 :]):
                part = {name: known[name] for name in half}
                yield from _read_in_parts(read, part, options, one_row_each=one_row_each)
            return
        cause: BaseException = problem
        while cause.__cause__ is not None:
            cause = cause.__cause__
        reason = plain(str(cause).strip().partition("\n")[0])[:200]
        path = known[names[0]]
        options.refused[path] = InputError(f"{path}: Inspect cannot read the log: {reason}")
        return
    yield frame


def _concatenated(frames: Sequence[pd.DataFrame]) -> pd.DataFrame:
    import pandas as pd

    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()


def _rows(frame: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """Rows with None for every kind of missing value."""
    names = [str(name) for name in frame.columns]
    columns = [frame.iloc[:, i] for i in range(len(names))]
    cells = [
        [None if gone else value for value, gone in zip(c.tolist(), c.isna(), strict=True)]
        for c in columns
    ]
    for values in zip(*cells, strict=True):
        yield dict(zip(names, values, strict=True))


def _successful(logs: pd.DataFrame) -> tuple[list[dict[str, Any]], list[Dropped]]:
    rows = list(_rows(logs))
    successful = [row for row in rows if row.get("status") == "success"]
    failed = [row for row in rows if row.get("status") != "success"]
    if not failed:
        return successful, []
    counts: dict[str, int] = {}
    for row in failed:
        label = f"{row.get('model')}, {row.get('task_name')}"
        counts[label] = counts.get(label, 0) + 1
    first = Path(str(failed[0].get("log"))).name
    return successful, [Dropped(_FAILED, tuple(sorted(counts.items())), first)]


def _named(
    rows: Sequence[Mapping[str, Any]], names: TaskNames, source: str
) -> dict[str, NamedTask | None]:
    """What the names of tasks say, without the package before them."""
    tasks = {_task(row) for row in rows if _stated_language(row) is None}
    return names.parse_all(sorted(tasks), source)


def _task(row: Mapping[str, Any]) -> str:
    return str(row.get("task_name") or row.get("dataset_name") or "").rpartition("/")[2]


def _stated_language(row: Mapping[str, Any]) -> str | None:
    """The language in a sample's metadata or a task's arguments."""
    for name in _LANGUAGE:
        value = row.get(name)
        if isinstance(value, str) and value.strip():
            return value.strip()
    return None


def _named_row(row: Mapping[str, Any], named: Mapping[str, NamedTask | None]) -> NamedTask | None:
    language = _stated_language(row)
    if language is None:
        return named[_task(row)]
    task = _task(row)
    # A task of one language is often named after it: xnli_sw.
    return NamedTask(re.sub(rf"[_-]{re.escape(language)}$", "", task) or task, language)


def _distinct_labels(
    cells: Sequence[tuple[Mapping[str, Any], NamedTask]],
) -> tuple[list[tuple[str, str]], list[str]]:
    """Model and variant of each log, with the settings in which logs of one cell differ; notes.

    Only within a cell: an argument that goes with the language tells no tasks apart.
    """
    settings = [(_task_settings(row), _model_settings(row)) for row, _ in cells]
    same_cell: dict[tuple[str, NamedTask], list[int]] = defaultdict(list)
    for i, (row, name) in enumerate(cells):
        same_cell[str(row.get("model")), name].append(i)
    task_differences: dict[str, set[str]] = defaultdict(set)
    model_differences: dict[str, set[str]] = defaultdict(set)
    for (model, name), members in same_cell.items():
        task_differences[name.dataset].update(differences(settings[i][0] for i in members))
        model_differences[model].update(differences(settings[i][1] for i in members))
    labels = []
    for (row, name), (task_settings, model_settings) in zip(cells, settings, strict=True):
        model = str(row.get("model"))
        listed = format_settings(model_settings, sorted(model_differences[model]))
        variant = format_settings(task_settings, sorted(task_differences[name.dataset]))
        labels.append((f"{model} ({listed})" if listed else model, variant))
    return labels, [
        f"logs of the same cell that differ in {what} are read as separate {whose}: "
        + shorten(f"{name} ({', '.join(sorted(keys))})" for name, keys in differing if keys)
        for what, whose, differing in (
            ("task arguments", "tasks", task_differences.items()),
            ("settings of the model", "models", model_differences.items()),
        )
        if any(keys for _, keys in differing)
    ]


def _task_settings(row: Mapping[str, Any]) -> dict[str, str]:
    """Arguments of the task, the solver that was given instead of its own, and its arguments."""
    settings = {
        column.removeprefix("task_arg_"): _text(value)
        for column, value in row.items()
        if value is not None and (column.startswith("task_arg_") or column in _SOLVER)
    }
    return {key: value for key, value in settings.items() if key not in _EXECUTION_KEYS}


def _model_settings(row: Mapping[str, Any]) -> dict[str, str]:
    """Settings of generation: temperature, reasoning effort, ..."""
    config = row.get("model_generate_config")
    if isinstance(config, str):
        try:
            config = json.loads(config)
        except (ValueError, RecursionError):
            return {}
    if not isinstance(config, dict):
        return {}
    return {
        str(key): _text(value)
        for key, value in config.items()
        if value is not None and key not in _EXECUTION_KEYS
    }


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str)


def _log_scores(
    row: Mapping[str, Any], name: NamedTask, model: str, variant: str
) -> Iterator[Score]:
    where = Path(str(row.get("log"))).name
    headline = row.get("score_headline_name"), row.get("score_headline_metric")
    items = _number(row.get("total_samples"), f"{where}: total_samples")
    epochs = _number(row.get("epochs"), f"{where}: epochs") or 1.0
    for column, value in row.items():
        match = re.fullmatch(r"score_(.+)_([^_]+)", column)
        if match is None or match[1] == "headline" or value is None:
            continue
        scorer, metric = match[1], match[2]
        if column.endswith(_UNCERTAINTY):
            continue
        yield Score(
            model=model,
            dataset=name.dataset,
            language=name.language,
            metric=metric,
            selector=scorer,
            value=_number(value, f"{where}: {column}"),
            where=f"{where}, {column}",
            se=_number(row.get(f"score_{scorer}_stderr"), f"{where}: score_{scorer}_stderr"),
            # Logs of the first version do not have it: Inspect reads them with 0.
            n=items / epochs if items else None,
            variant=variant,
            run=str(row.get("created") or ""),
            rank=0 if (scorer, metric) == headline else 1,
        )


def _number(value: Any, where: str) -> float | None:
    if value is None:
        return None
    if isinstance(value, str):
        if value in _VALUES:
            return _VALUES[value]
        try:
            value = json.loads(value)
        except ValueError:
            value = None
    if isinstance(value, bool):
        return float(value)
    if not isinstance(value, int | float | np.number) or not np.isfinite(float(value)):
        raise InputError(f"{where}: expected a number, got {show(value)}")
    return float(value)


def _read_samples(paths: Sequence[Path], options: Options) -> Reading:
    source = common_folder(paths)
    successful, dropped = _successful(_frame("evals_df", paths, options))
    by_log = {str(row.get("log")): row for row in successful}
    readable = [path for path in paths if path not in options.refused]
    samples = list(_rows(_frame("samples_df", readable, options)))
    of_successful = [row for row in samples if str(row.get("log")) in by_log]
    rows = [{**by_log[str(row["log"])], **row} for row in of_successful if not row.get("error")]
    if len(rows) < len(of_successful):
        first = next(row for row in of_successful if row.get("error"))
        where = plain(f"{Path(str(first['log'])).name}, sample {first.get('id')}")
        dropped.append(Dropped(_ERROR, ((_ERROR, len(of_successful) - len(rows)),), where))
    named = _named(rows, read_task_names(options.task_names), source)
    groups: dict[tuple[str, NamedTask], list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        name = _named_row(row, named)
        if name is not None:
            groups[str(row["log"]), name].append(row)
    read: dict[str, dict[str, Items]] = {}
    heads: list[Score] = []
    labels, notes = _distinct_labels([(group[0], name) for (_, name), group in groups.items()])
    for ((log, name), group), (model, variant) in zip(groups.items(), labels, strict=True):
        # The samples of one log may be in several languages.
        where = plain(f"{Path(log).name}, {name.dataset}, {name.language}")
        where = f"{where} ({plain(log)})" if where in read else where
        headline = group[0].get("score_headline_name")
        read[where] = _items(group, where, headline)
        heads += [
            Score(
                model=model,
                dataset=name.dataset,
                language=name.language,
                metric=scorer,
                value=None,
                where=where,
                variant=variant,
                run=str(group[0].get("created") or ""),
                rank=0 if scorer == headline else 1,
            )
            for scorer in read[where]
        ]
    return settle_items(
        heads,
        read,
        source=source,
        options=options,
        place="sample",
        notes=[*name_notes(named), *notes],
        dropped=dropped,
    )


def _items(rows: Sequence[Mapping[str, Any]], where: str, headline: Any) -> dict[str, Items]:
    """The samples of a log by scorer; without those, but the headline's, that give no numbers."""
    by_scorer: dict[str, Items] = {}
    for column in _scorers(rows[0]):
        scorer = column.removeprefix("score_")
        try:
            values = [_number(r.get(column), f"{where}, sample {r.get('id')}") for r in rows]
        except InputError:
            if scorer == headline:
                raise
            continue
        if any(value is not None for value in values):
            by_scorer[scorer] = Items(
                np.arange(1, len(rows) + 1),
                object_array(str(row.get("id")) for row in rows),
                object_array(values),
                object_array(str(row.get("epoch")) for row in rows),
            )
    return by_scorer


def _scorers(names: Iterable[str]) -> list[str]:
    """Columns that hold a scorer's values of samples, not a metric of the log."""
    scores = [name for name in names if name.startswith("score_")]
    return [
        name
        for name in scores
        if not name.startswith("score_headline_")
        and any(other.startswith(f"{name}_") for other in scores)
    ]


# Lists of logs that Inspect writes beside them.
_LISTS: Final = ("logs.json", "listing.json", "eval-set.json")
INSPECT: Final = Reader("inspect", "Inspect logs", _sniff, _read, auxiliary_files=_LISTS)
INSPECT_SAMPLES: Final = Reader(
    "inspect-samples", "samples of Inspect logs", _never, _read_samples, same_files_as="inspect"
)
