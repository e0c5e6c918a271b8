"""lighteval: ``results/<model>/results_<time>.json``.

Keys of ``results`` are ``suite|task:subset|shots`` in older versions, ``task|shots`` in
newer ones, which write ``:`` for ``|`` when they save. ``all`` and ``..._average`` are
averages. The Open LLM Leaderboard's old files have this form too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bayeseval._text import Note, counted
from bayeseval.errors import InputError
from bayeseval.readers.base import Head, Options, Reader, Reading, as_mapping, as_number, read_json
from bayeseval.readers.lm_eval import (
    ModelName,
    common_folder,
    folder_notes,
    model_name,
    name_notes,
    no_number_notes,
)
from bayeseval.readers.scores import Score, settle
from bayeseval.readers.task_names import NamedTask, read_task_names

__all__ = ["LIGHTEVAL", "task_and_shots"]

_TIME: Final = re.compile(r"results_(.+)\.json")


@dataclass(frozen=True, slots=True)
class _Task:
    """One task of one file."""

    path: Path
    where: str
    model: ModelName
    run: str
    name: str
    shots: str
    values: Mapping[str, Any]
    n: Any


def _sniff(path: Path, head: Head) -> bool:
    return (
        head.text.startswith("{")
        and head.has("config_general")
        and (
            "results" in head.keys
            or '"model_config"' in head.text
            or '"lighteval_sha"' in head.text
        )
    )


def _read(paths: Sequence[Path], options: Options) -> Reading:
    names = read_task_names(options.task_names)
    source = common_folder(paths)
    averages: list[Path] = []
    read = options.attempts(options.each(paths), lambda path: list(_tasks(path, averages)))
    by_path = dict(read)
    tasks = [task for own in by_path.values() for task in own]
    named = names.parse_all((task.name for task in tasks), source)
    notes: list[Note] = [
        *name_notes(named),
        *folder_notes({task.path: task.model for task in tasks}),
    ]
    notes += no_number_notes(task.values for task in tasks)
    n_averages = sum(path in by_path for path in averages)
    if n_averages:
        notes.append(
            f"{counted(n_averages, 'average')} left out (all, ..._average): their tasks are read"
        )

    def scores_of(path: Path) -> list[Score]:
        named_tasks = [(task, named[task.name]) for task in by_path[path]]
        return [score for task, name in named_tasks if name for score in _scores(task, name)]

    scores = [score for _, own in options.attempts(by_path, scores_of) for score in own]
    return settle(scores, source=source, options=options, place="task", notes=notes)


def _tasks(path: Path, averages: list[Path]) -> Iterator[_Task]:
    document = as_mapping(read_json(path), str(path))
    general = as_mapping(document.get("config_general"), f"{path}: config_general")
    config = general.get("model_config")
    config = config if isinstance(config, dict) else {}
    name = general.get("model_name") or config.get("model_name")
    time = _TIME.fullmatch(path.name)
    config_tasks = document.get("config_tasks")
    config_tasks = config_tasks if isinstance(config_tasks, dict) else {}
    results = as_mapping(document.get("results"), f"{path}: results")
    if not results:
        raise InputError(f"{path}: results: no task")
    for key, values in results.items():
        if key == "all" or re.search(r"(?:^|[:_|])_?average(?:[:|]\d+)?$", key):
            averages.append(path)
            continue
        task, shots = task_and_shots(key)
        settings = config_tasks.get(key) or config_tasks.get(key.replace("|", ":"))
        yield _Task(
            path=path,
            where=f"{path}, task {key!r}",
            model=model_name(name, None, {}, path),
            run=time[1] if time else "",
            name=task,
            shots=shots,
            values=as_mapping(values, f"{path}: results: {key}"),
            n=settings.get("effective_num_docs") if isinstance(settings, dict) else None,
        )


def task_and_shots(key: str) -> tuple[str, str]:
    """Task (with subset) and shots of ``suite|task:subset|shots`` in any of its spellings."""
    if "|" in key:
        parts = key.split("|")
        # suite|task|shots|truncation, suite|task|shots, task|shots
        at = 1 if len(parts) > 2 else 0
        return parts[at], parts[at + 1]
    match = re.fullmatch(r"(.+?):(\d+)(?::[01])?", key)
    return (match[1], match[2]) if match else (key, "")


def _scores(task: _Task, name: NamedTask) -> Iterator[Score]:
    n = as_number(task.n, f"{task.where}: effective_num_docs")
    for rank, (metric, value) in enumerate(task.values.items()):
        if metric.endswith("_stderr") or isinstance(value, dict | list):
            continue
        yield Score(
            model=task.model.label,
            dataset=name.dataset,
            language=name.language,
            metric=metric,
            value=as_number(value, f"{task.where}: {metric}"),
            where=task.where,
            se=as_number(task.values.get(f"{metric}_stderr"), f"{task.where}: {metric}_stderr"),
            n=n if n is not None and n > 0 else None,
            variant=f"{task.shots}-shot" if task.shots else "",
            run=task.run,
            rank=rank,
        )


LIGHTEVAL: Final = Reader("lighteval", "lighteval results", _sniff, _read)
