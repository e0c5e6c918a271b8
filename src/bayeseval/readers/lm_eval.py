"""Results of EleutherAI's lm-evaluation-harness: ``results_<time>.json``, all generations.

- up to 0.3: ``results[task] = {"acc": ..., "acc_stderr": ...}``;
- 0.4: ``results[task] = {"acc,none": ..., "acc_stderr,none": ...}``, metric and filter in
  one key, groups beside their tasks;
- later 0.4: also ``n-samples``, ``higher_is_better``, ``group_subtasks``, ``model_name``.

The language is in the name of the task only (``task_names.py``).
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bayeseval._text import Caution, Note, any_of, counted, shorten, show
from bayeseval.errors import InputError, argument, wording
from bayeseval.readers.base import Head, Options, Reader, Reading, as_mapping, as_number, read_json
from bayeseval.readers.scores import Score, settle
from bayeseval.readers.task_names import NamedTask, read_task_names

__all__ = [
    "LM_EVAL",
    "ModelName",
    "common_folder",
    "differences",
    "folder_notes",
    "format_settings",
    "model_name",
    "models_of_runs",
    "name_notes",
    "no_number_notes",
]

_STDERR: Final = re.compile(r'"\w+_stderr(?:,[^"]*)?"\s*:|"alias"\s*:')
_TIME: Final = re.compile(r"(\d{4}-\d{2}-\d{2}T\d{2}[-:]\d{2}[-:]\d{2}(?:\.\d+)?)")
# Keys of a task's results that are no metric.
_NOT_METRICS: Final = frozenset(["alias", "name", "sample_len", "sample_count", "samples"])
# How a model was run, not what distinguishes it from others.
_EXECUTION_KEYS: Final = frozenset(
    [
        *("batch_size", "data_parallel_size", "device", "device_map", "device_map_option"),
        *("gpu_memory_utilization", "max_batch_size", "max_cpu_memory", "max_memory_per_gpu"),
        *("num_concurrent", "max_retries", "offload_folder", "parallelize", "pretrained"),
        *("model", "base_url", "seed", "tensor_parallel_size", "timeout", "trust_remote_code"),
        *("use_accelerate", "use_fast_tokenizer", "tokenized_requests", "tokenizer_backend"),
    ]
)
# How the same weights are computed: the precision and the kernel of the attention.
_COMPUTED: Final = frozenset(
    [
        *("dtype", "torch_dtype", "kv_cache_dtype", "attn_implementation", "attn_impl"),
        *("attention_backend", "use_flash_attention_2", "flash_attention", "flash_attention_2"),
        "enforce_eager",
    ]
)
# Folders that are named after what is in them, not after a model.
_GENERIC_FOLDERS: Final = frozenset(
    [
        *("", ".", "data", "details", "downloads", "eval", "evals", "evaluation", "evaluations"),
        *("lm-eval", "lm_eval", "lm-eval-results", "log", "logs", "out", "output", "outputs"),
        *("result", "results", "run", "runs", "samples", "temp", "tmp"),
    ]
)


@dataclass(frozen=True, slots=True)
class ModelName:
    """The name of a run's model.

    Parameters
    ----------
    label : str
    folder : Path or None
        The folder that the name is taken from; None where the run names its model.
    """

    label: str
    folder: Path | None = None


@dataclass(frozen=True, slots=True)
class _Run:
    """One file: its model, and what tells it from other runs of that model."""

    path: Path
    model: ModelName
    settings: Mapping[str, str]
    time: str
    tasks: Mapping[str, Mapping[str, Any]]
    items: Mapping[str, Any]
    directions: Mapping[str, Any]
    shots: Mapping[str, Any]
    n_averages: int


def _sniff(path: Path, head: Head) -> bool:
    return (
        head.text.startswith("{")
        and head.has("results")
        and not head.has("config_general")
        and not head.has("dataset")
        and _STDERR.search(head.text) is not None
    )


def _read(paths: Sequence[Path], options: Options) -> Reading:
    names = read_task_names(options.task_names)
    runs = [run for _, run in options.attempts(options.each(paths), _run)]
    source = common_folder(paths)
    named = names.parse_all((task for run in runs for task in run.tasks), source)
    notes: list[Note] = [*name_notes(named), *folder_notes({run.path: run.model for run in runs})]
    labels = _distinct_labels(runs, notes)
    notes += no_number_notes(values for run in runs for values in run.tasks.values())
    averages = sum(run.n_averages for run in runs)
    if averages:
        notes.append(
            f"{counted(averages, 'group or parent task')} left out: averages of tasks that are read"
        )
    labelled = {run.path: (run, label) for run, label in zip(runs, labels, strict=True)}

    def scores_of(path: Path) -> list[Score]:
        run, label = labelled[path]
        return [
            score
            for task, values in run.tasks.items()
            if (name := named[task]) is not None
            for score in _scores(run, label, task, name, values)
        ]

    scores = [score for _, own in options.attempts(labelled, scores_of) for score in own]
    return settle(scores, source=source, options=options, place="task", notes=notes)


def common_folder(paths: Sequence[Path]) -> str:
    """What messages call a set of files: the file, or the folder they share."""
    if len(paths) == 1:
        return str(paths[0])
    parents = [path.parent for path in paths]
    shared = parents[0]
    while not all(shared == parent or shared in parent.parents for parent in parents):
        shared = shared.parent
    return str(shared)


def name_notes(named: Mapping[str, NamedTask | None]) -> list[str]:
    """How the language was found in the names, with examples."""
    read = {task: name for task, name in named.items() if name is not None}
    by_dataset: dict[str, str] = {}
    for task, name in read.items():
        by_dataset.setdefault(name.dataset, f"{task}: {name.language}")
    notes = [
        f"language taken from {counted(len(read), 'task name')}"
        f" ({shorten(by_dataset.values(), limit=4)}); correct it with {argument('task_names')}"
    ]
    skipped = sorted(task for task, name in named.items() if name is None)
    if skipped:
        notes.append(f"left out by the table of task names: {shorten(skipped)}")
    return notes if read else notes[1:]


def no_number_notes(tasks: Iterable[Mapping[str, Any]]) -> list[str]:
    """A note on lists and objects among the values of tasks, which are no scores."""
    counts = Counter(
        key.partition(",")[0]
        for values in tasks
        for key, value in values.items()
        if isinstance(value, dict | list)
    )
    if not counts:
        return []
    number = counted(sum(counts.values()), "list or table", "lists and tables")
    return [f"{number} beside the scores left out: {shorten(sorted(counts))}"]


def _run(path: Path) -> _Run:
    document = as_mapping(read_json(path), str(path))
    where = f"{path}: results"
    results = as_mapping(document.get("results"), where)
    if not results:
        raise InputError(f"{where}: no task")
    averages = _averages(document, results, path)
    tasks = {
        task: as_mapping(values, f"{where}: {task}")
        for task, values in results.items()
        if task not in averages
    }
    config = document.get("config")
    config = config if isinstance(config, dict) else {}
    settings = _arguments(config.get("model_args"))
    stamp = _TIME.search(path.name)
    date = document.get("date")
    return _Run(
        path=path,
        model=model_name(document.get("model_name"), config.get("model"), settings, path),
        settings={k: v for k, v in settings.items() if k not in _EXECUTION_KEYS},
        # Both sort by time; the name's stamp is later than the run's date by its duration.
        time=stamp[1] if stamp else f"{date:.3f}" if isinstance(date, float) else "",
        tasks=tasks,
        items=_optional(document, "n-samples", path),
        directions=_optional(document, "higher_is_better", path),
        shots=_optional(document, "n-shot", path),
        n_averages=len(averages),
    )


def _optional(document: Mapping[str, Any], key: str, path: Path) -> Mapping[str, Any]:
    value = document.get(key)
    return {} if value is None else as_mapping(value, f"{path}: {key}")


def _averages(document: Mapping[str, Any], results: Mapping[str, Any], path: Path) -> set[str]:
    """Entries of `results` that average other entries."""
    parents = {
        name
        for name, members in _optional(document, "group_subtasks", path).items()
        if isinstance(members, list) and members
    }
    return {name for name in results if name in parents | set(_optional(document, "groups", path))}


def _arguments(model_args: Any) -> dict[str, str]:
    """``model_args`` as a mapping: text up to 0.4.8, an object in later versions."""
    if isinstance(model_args, dict):
        return {str(key): str(value) for key, value in model_args.items() if value is not None}
    if not isinstance(model_args, str):
        return {}
    pairs = (part.partition("=") for part in model_args.split(",") if "=" in part)
    return {key.strip(): value.strip() for key, _, value in pairs}


def model_name(name: Any, kind: Any, settings: Mapping[str, str], path: Path) -> ModelName:
    """The model of a run: its name, the argument that names it, or the run's folder."""
    for candidate in (name, settings.get("pretrained"), settings.get("model")):
        if isinstance(candidate, str) and candidate.strip():
            return ModelName(candidate)
    if isinstance(kind, str) and kind.strip() and kind not in ("hf", "vllm", "local-completions"):
        return ModelName(kind)
    folder = path.resolve().parent
    # The harness writes "/" of a model's name as "__" in its folder's name.
    return ModelName(folder.name.replace("__", "/"), folder)


def folder_notes(models: Mapping[Path, ModelName]) -> list[Note]:
    """Notes on models that are named after folders, and how to name them otherwise."""
    files = Counter(model for model in models.values() if model.folder is not None)
    doubtful = {
        m: n for m, n in files.items() if m.label.rpartition("/")[2].casefold() in _GENERIC_FOLDERS
    }
    notes: list[Note] = [
        Caution(
            f"{counted(number, 'file')} without the name of a model, and the folder {model.folder}"
            f" is not named after one: the model is called {model.label!r}; put the files of each"
            " model into a folder with its name (org__model)"
        )
        for model, number in sorted(doubtful.items(), key=lambda pair: pair[0].label)
    ]
    named = sorted({model.label for model in files if model not in doubtful})
    if named:
        number = sum(files.values()) - sum(doubtful.values())
        notes.append(
            f"model taken from the folder's name in {counted(number, 'file')}"
            f" ({shorten(named, limit=4)}); correct it by renaming the folder"
        )
    return notes


def models_of_runs(
    runs: Iterable[tuple[Path, str]], options: Options, notes: list[Note]
) -> dict[tuple[Path, str], str]:
    """Models of runs whose results lie in a folder, by this folder and the time of the run.

    The harness gives the files of a run the same time; with ``--output_path x.json`` there
    is no folder with the name of the model.
    """
    wanted = set(runs)
    results: dict[tuple[Path, str], list[Path]] = defaultdict(list)
    for folder in {folder for folder, _ in wanted}:
        for path in sorted(folder.glob("*.json")):
            stamp = _TIME.search(path.name)
            if stamp and (folder, stamp[1]) in wanted and _sniff(path, Head.of(path)):
                results[folder, stamp[1]].append(path)
    # Two results of one time may be of two models that were run at once.
    single = {paths[0]: key for key, paths in results.items() if len(paths) == 1}
    read = options.attempts(single, _run)
    named = {single[path]: run for path, run in read if run.model.folder is None}
    return dict(zip(named, _distinct_labels(list(named.values()), notes), strict=True))


def _distinct_labels(runs: Sequence[_Run], notes: list[Note]) -> list[str]:
    """Labels of the runs' models, with the arguments in which runs of one name differ.

    Those that say how the same weights are computed count only where two runs have the same
    task. What differed goes to `notes`.
    """
    by_name: dict[str, list[_Run]] = defaultdict(list)
    for run in runs:
        by_name[run.model.label].append(run)
    labels: dict[Path, str] = {}
    for name, group in by_name.items():
        differing = differences(run.settings for run in group)
        computed = [key for key in differing if key in _COMPUTED]
        told_apart = [key for key in differing if key not in _COMPUTED]
        models: dict[str, list[_Run]] = defaultdict(list)
        for run in group:
            models[format_settings(run.settings, told_apart)].append(run)
        if any(_has_one_task_twice(same, computed) for same in models.values()):
            told_apart = differing
        elif computed:
            notes.append(
                f"runs of {name} differ in {', '.join(computed)}"
                f" ({_values(group, computed)}) and are read as one model, because"
                " no two of them have the same task"
            )
        own = {
            run.path: f"{name} ({listed})"
            if (listed := format_settings(run.settings, told_apart))
            else name
            for run in group
        }
        labels |= own
        if told_apart:
            one_name = ", or give them one name in the table that {} writes".format(
                wording("Records.to_csv", "validate --save-records")
            )
            notes.append(
                f"runs of {name} differ in {', '.join(told_apart)} and are read as several models"
                f" ({shorten(dict.fromkeys(own.values()), limit=4)}); to have one, leave out the"
                " files of the others"
                # Two runs of one task are two scores of one cell.
                + ("" if _has_one_task_twice(group, told_apart) else one_name)
            )
    return [labels[run.path] for run in runs]


def _has_one_task_twice(runs: Sequence[_Run], keys: Sequence[str]) -> bool:
    """Whether runs that differ in these settings have results of one task."""
    seen: dict[tuple[str, str], str] = {}
    return any(
        seen.setdefault((task, str(run.shots.get(task))), how) != how
        for run in runs
        for how in [format_settings(run.settings, keys)]
        for task in run.tasks
    )


def _values(runs: Sequence[_Run], keys: Sequence[str]) -> str:
    return any_of(sorted({format_settings(run.settings, keys) or "not given" for run in runs})[:4])


def differences(settings: Iterable[Mapping[str, str]]) -> list[str]:
    """Names of the settings in which some of the runs differ."""
    runs = list(settings)
    keys = sorted({key for run in runs for key in run})
    return [key for key in keys if len({run.get(key) for run in runs}) > 1]


def format_settings(settings: Mapping[str, str], keys: Iterable[str]) -> str:
    """``revision=step0, dtype=float16``: those of the settings that `keys` names."""
    return ", ".join(f"{key}={settings[key]}" for key in keys if key in settings)


def _scores(
    run: _Run, model: str, task: str, name: NamedTask, values: Mapping[str, Any]
) -> Iterable[Score]:
    where = f"{run.path}, task {task!r}"
    items = run.items.get(task)
    items = items.get("effective") if isinstance(items, dict) else items
    n = as_number(items, f"{where}: n-samples")
    directions = run.directions.get(task)
    shots = run.shots.get(task)
    variant = f"{shots}-shot" if isinstance(shots, int | str) else ""
    for key, value in values.items():
        metric, _, selector = key.partition(",")
        if metric in _NOT_METRICS or metric.endswith("_stderr"):
            continue
        if isinstance(value, dict | list):
            # Some tasks keep confusion matrices and the like beside their scores.
            continue
        stderr = f"{metric}_stderr,{selector}" if selector else f"{metric}_stderr"
        higher = directions.get(metric) if isinstance(directions, dict) else None
        if higher is not None and not isinstance(higher, bool):
            raise InputError(
                f"{where}: higher_is_better of {metric} is {show(higher)}; expected true or false"
            )
        yield Score(
            model=model,
            dataset=name.dataset,
            language=name.language,
            metric=metric,
            value=as_number(value, f"{where}: {key}"),
            where=where,
            selector=selector,
            se=as_number(values.get(stderr), f"{where}: {stderr}"),
            n=n,
            higher=higher,
            variant=variant,
            run=run.time,
        )


LM_EVAL: Final = Reader("lm-eval", "lm-evaluation-harness results", _sniff, _read)
