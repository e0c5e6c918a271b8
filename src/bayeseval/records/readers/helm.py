"""HELM: one folder per run, ``runs/<suite>/<run>/stats.json`` with ``run_spec.json`` beside it.

``stats.json`` lists statistics by metric, split, sub-split and perturbation; ``mean`` is
over trials, and so are ``count`` and ``stddev``. The number of items is the statistic
``num_instances``. The language is an argument of the scenario.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bayeseval.errors import InputError
from bayeseval.records.languages import understand
from bayeseval.records.readers.base import (
    Head,
    Options,
    Reader,
    Reading,
    as_list,
    as_mapping,
    as_number,
    as_text,
    read_json,
)
from bayeseval.records.readers.lm_eval import common_folder, name_notes
from bayeseval.records.readers.scores import Score, settle
from bayeseval.records.readers.task_names import NamedTask, TaskNames, read_task_names

__all__ = ["HELM", "scenario_language"]

_SPLITS: Final = ("test", "valid")
# Arguments of a run that say how it was run, not what was asked.
_MACHINERY: Final = frozenset(
    [
        *("model", "model_deployment", "method", "data_augmentation", "max_train_instances"),
        *("num_train_trials", "max_eval_instances", "stop", "temperature", "num_outputs"),
        *("instructions", "groups", "output_format_instructions", "global_prefix"),
    ]
)
_LANGUAGE_KEYS: Final = (
    "language",
    "lang",
    "target_language",
    "subset",
    "subject",
    "language_pair",
)
# Metrics of quality; HELM writes dozens of others (runtimes, log probabilities, ...).
_QUALITY: Final = (
    *("quasi_exact_match", "exact_match", "quasi_prefix_exact_match", "prefix_exact_match"),
    *("accuracy", "classification_macro_f1", "classification_micro_f1", "f1_score", "rouge_l"),
    *("rouge_2", "bleu_4", "bleu", "chrf", "comet", "squad_f1_score", "squad_exact_match_score"),
    *(
        "iou_set_match",
        "math_equiv",
        "chain_of_thought_correct",
        "safety_score",
        "ifeval_strict_accuracy",
    ),
)


@dataclass(frozen=True, slots=True)
class _Run:
    path: Path
    name: str
    model: str
    dataset: str
    language: str | None
    stats: Sequence[Any]


def _sniff(path: Path, head: Head) -> bool:
    return (
        head.text.startswith("[")
        and b'"sum_squared"' in head.data
        and {"name", "count"} <= set(head.keys)
    )


def _read(paths: Sequence[Path], options: Options) -> Reading:
    names = read_task_names(options.task_names)
    source = common_folder(paths)
    runs = [_run(path) for path in options.each(paths)]
    named = _named(runs, names, source)
    scores = [
        score
        for run in runs
        if (task := named[run.name]) is not None
        for score in _scores(run, task, every=bool(options.metrics))
    ]
    return settle(
        scores, source=source, options=options, place="statistic", notes=name_notes(named)
    )


def _named(runs: Sequence[_Run], names: TaskNames, source: str) -> dict[str, NamedTask | None]:
    stated = {
        run.name: NamedTask(run.dataset, run.language) for run in runs if run.language is not None
    }
    own = {
        run.name: names.parse(run.name)
        for run in runs
        if any(pattern.fullmatch(run.name) for pattern, _, _ in names.lines)
    }
    rest = [run.name for run in runs if run.name not in stated | own]
    return {**stated, **names.parse_all(rest, source), **own}


def _run(path: Path) -> _Run:
    beside = path.parent / "run_spec.json"
    if not beside.is_file():
        raise InputError(f"{path}: no run_spec.json beside it, which says the model and scenario")
    spec = as_mapping(read_json(beside), str(beside))
    name = as_text(spec.get("name"), f"{beside}: name")
    scenario, _, text = name.partition(":")
    arguments = dict(_pairs(text))
    adapter = spec.get("adapter_spec")
    model = adapter.get("model") if isinstance(adapter, dict) else None
    given = spec.get("scenario_spec")
    given = given.get("args") if isinstance(given, dict) else None
    known = (
        {k: v for k, v in (given or {}).items() if isinstance(v, str)}
        if isinstance(given, dict)
        else {}
    )
    language, key = scenario_language(known | arguments)
    said = [f"{k}={v}" for k, v in arguments.items() if k not in _MACHINERY and k != key]
    kept = scenario + (":" + ",".join(said) if said else "")
    return _Run(
        path=path,
        # Without the model: runs of several models are one task.
        name=scenario
        + (":" + ",".join(f"{k}={v}" for k, v in arguments.items() if k not in _MACHINERY))
        if arguments
        else scenario,
        model=as_text(model or arguments.get("model"), f"{beside}: adapter_spec: model"),
        dataset=kept,
        language=language,
        stats=as_list(read_json(path), str(path)),
    )


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    for part in text.split(","):
        key, equals, value = part.partition("=")
        if equals:
            yield key.strip(), value.strip()


def scenario_language(arguments: Mapping[str, str]) -> tuple[str | None, str]:
    """The language among a scenario's arguments, and which of them says it."""
    pair = arguments.get("source_language"), arguments.get("target_language")
    if pair[0] and pair[1]:
        return f"{pair[0]}-{pair[1]}", "source_language"
    for key in _LANGUAGE_KEYS:
        value = arguments.get(key)
        if value is None:
            continue
        pair_of = re.fullmatch(r"([a-z]{2,3})[-_]([a-z]{2,3})", value)
        if key == "language_pair" and pair_of:
            return f"{pair_of[1]}-{pair_of[2]}", key
        if understand(value) is not None:
            return value, key
    return None, ""


def _scores(run: _Run, task: NamedTask, *, every: bool) -> Iterator[Score]:
    wanted: list[tuple[str, str, float | None]] = []
    items: dict[str, float | None] = {}
    for i, entry in enumerate(run.stats, start=1):
        where = f"{run.path}, statistic {i}"
        stat = as_mapping(entry, where)
        name = as_mapping(stat.get("name"), f"{where}: name")
        metric = as_text(name.get("name"), f"{where}: name")
        split = name.get("split")
        if split not in _SPLITS or name.get("perturbation") or name.get("sub_split"):
            continue
        mean = as_number(stat.get("mean"), f"{where}: mean")
        if metric == "num_instances":
            items[str(split)] = mean
        elif every or metric in _QUALITY:
            wanted.append((metric, str(split), mean))
    for metric, split, mean in wanted:
        yield Score(
            model=run.model,
            dataset=task.dataset,
            language=task.language,
            metric=metric,
            value=mean,
            where=f"{run.path}, {metric}, {split}",
            n=items.get(split),
            variant=split,
            rank=_QUALITY.index(metric) if metric in _QUALITY else len(_QUALITY),
        )


HELM: Final = Reader("helm", "HELM runs", _sniff, _read)
