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

from bayeseval._text import any_of
from bayeseval.errors import InputError, argument
from bayeseval.languages.matching import understand
from bayeseval.readers.base import (
    Head,
    Options,
    Reader,
    Reading,
    as_list,
    as_mapping,
    as_number,
    as_text,
    joined_languages,
    read_json,
)
from bayeseval.readers.lm_eval import common_folder, name_notes
from bayeseval.readers.scores import Score, settle
from bayeseval.readers.task_names import NamedTask, TaskNames, read_task_names

__all__ = [
    "AUXILIARY_FILES",
    "HELM",
    "QUALITY",
    "SPLITS",
    "Run",
    "name_runs",
    "read_run",
    "scenario_language",
]

SPLITS: Final = ("test", "valid")
# Arguments of a run that say how it was run, not what was asked.
_EXECUTION_KEYS: Final = frozenset(
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
# A run may be named after the pair, and its scenario told source and target (WMT-14).
_PAIR_KEYS: Final = ("source_language", "target_language", "language_pair")
# Metrics of quality; HELM writes dozens of others (runtimes, log probabilities, ...). First those
# that a scenario asks for where the answer has to be found in the text: the exact matches, which
# nearly every run has, are then of the whole text (schema_lite.yaml names the same ones).
QUALITY: Final = (
    *("final_number_exact_match", "chain_of_thought_correctness", "math_equiv_chain_of_thought"),
    *("math_equiv", "omni_math_accuracy", "ifeval_strict_accuracy"),
    *("quasi_exact_match", "exact_match", "quasi_prefix_exact_match", "prefix_exact_match"),
    *("accuracy", "classification_macro_f1", "classification_micro_f1", "f1_score", "rouge_l"),
    *("rouge_2", "bleu_4", "bleu", "chrf", "comet", "squad_f1_score", "squad_exact_match_score"),
    *("iou_set_match", "safety_score"),
)


@dataclass(frozen=True, slots=True)
class Run:
    """A run as its ``run_spec.json`` names it, and the content of a file beside it.

    Parameters
    ----------
    path : Path
        The file.
    name : str
        Name of the run without what does not tell tasks apart, such as the model.
    model, dataset : str
    language : str or None
        None where no argument of the scenario says it.
    content : sequence
        The list in the file.
    """

    path: Path
    name: str
    model: str
    dataset: str
    language: str | None
    content: Sequence[Any]


def _sniff(path: Path, head: Head) -> bool:
    return (
        head.text.startswith("[")
        and b'"sum_squared"' in head.data
        and {"name", "count"} <= set(head.keys)
    )


def _read(paths: Sequence[Path], options: Options) -> Reading:
    names = read_task_names(options.task_names)
    source = common_folder(paths)
    runs = dict(options.attempts(options.each(paths), read_run))
    named = name_runs(list(runs.values()), names, source)
    tasks = {path: task for path, run in runs.items() if (task := named[run.name]) is not None}

    def scores_of(path: Path) -> list[Score]:
        own = list(_scores(runs[path], tasks[path], all_metrics=bool(options.metrics)))
        if not own:
            raise InputError(
                f"{path}: no metric of quality of the splits {any_of(SPLITS)}; name one with"
                f" {argument('metric')}"
            )
        return own

    scores = [score for _, own in options.attempts(tasks, scores_of) for score in own]
    return settle(
        scores, source=source, options=options, place="statistic", notes=name_notes(named)
    )


def name_runs(runs: Sequence[Run], names: TaskNames, source: str) -> dict[str, NamedTask | None]:
    """Dataset and language of the runs by their names.

    Raises
    ------
    InputError
        If runs do not give a language; the message lists them.
    """
    stated = {
        run.name: NamedTask(run.dataset, run.language) for run in runs if run.language is not None
    }
    user_named = {run.name: names.parse(run.name) for run in runs if run.name in names}
    rest = [run.name for run in runs if run.name not in stated | user_named]
    return {**stated, **names.parse_all(rest, source), **user_named}


def read_run(path: Path) -> Run:
    """A file of a run, with what ``run_spec.json`` beside it says.

    Raises
    ------
    InputError
        If there is none, or either is not as HELM writes it.
    """
    spec_path = path.parent / "run_spec.json"
    if not spec_path.is_file():
        raise InputError(
            f"{path}: no run_spec.json in the same folder; it names the model and the scenario"
        )
    spec = as_mapping(read_json(spec_path), str(spec_path))
    name = as_text(spec.get("name"), f"{spec_path}: name")
    scenario, _, text = name.partition(":")
    arguments = dict(_pairs(text))
    adapter = spec.get("adapter_spec")
    model = adapter.get("model") if isinstance(adapter, dict) else None
    scenario_spec = spec.get("scenario_spec")
    args = scenario_spec.get("args") if isinstance(scenario_spec, dict) else None
    args = args if isinstance(args, dict) else {}
    known = {key: value for key, value in args.items() if isinstance(value, str)}
    language, language_keys = scenario_language(known | arguments)
    settings = {key: value for key, value in arguments.items() if key not in _EXECUTION_KEYS}
    # Runs that differ in the language only need other names, also where these do not say it.
    unnamed = (
        {}
        if set(language_keys) & set(arguments)
        else {k: known[k] for k in language_keys if k in known}
    )
    return Run(
        path=path,
        # Without the model: runs of several models are one task.
        name=_run_name(scenario, settings | unnamed),
        model=as_text(model or arguments.get("model"), f"{spec_path}: adapter_spec: model"),
        dataset=_run_name(scenario, {k: v for k, v in settings.items() if k not in language_keys}),
        language=language,
        content=as_list(read_json(path), str(path)),
    )


def _run_name(scenario: str, arguments: Mapping[str, str]) -> str:
    listed = ",".join(f"{key}={value}" for key, value in arguments.items())
    return f"{scenario}:{listed}" if listed else scenario


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    for part in text.split(","):
        key, equals, value = part.partition("=")
        if equals:
            yield key.strip(), value.strip()


def scenario_language(arguments: Mapping[str, str]) -> tuple[str | None, Sequence[str]]:
    """The language among a scenario's arguments (None if none is one), and which say it."""
    pair = arguments.get("source_language"), arguments.get("target_language")
    if pair[0] and pair[1]:
        return joined_languages([pair[0], pair[1]]), _PAIR_KEYS
    for key in _LANGUAGE_KEYS:
        value = arguments.get(key)
        if value is None:
            continue
        pair_of = re.fullmatch(r"([a-z]{2,3})[-_]([a-z]{2,3})", value)
        if key == "language_pair" and pair_of:
            return joined_languages(pair_of.groups()), [key]
        if understand(value) is not None:
            return value, [key]
    return None, []


def _scores(run: Run, task: NamedTask, *, all_metrics: bool) -> Iterator[Score]:
    wanted: list[tuple[str, str, float | None]] = []
    items: dict[str, float | None] = {}
    for i, entry in enumerate(run.content, start=1):
        where = f"{run.path}, statistic {i}"
        stat = as_mapping(entry, where)
        name = as_mapping(stat.get("name"), f"{where}: name")
        metric = as_text(name.get("name"), f"{where}: name")
        split = name.get("split")
        if split not in SPLITS or name.get("perturbation") or name.get("sub_split"):
            continue
        mean = as_number(stat.get("mean"), f"{where}: mean")
        if metric == "num_instances":
            items[str(split)] = mean
        elif all_metrics or metric in QUALITY:
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
            rank=QUALITY.index(metric) if metric in QUALITY else len(QUALITY),
        )


AUXILIARY_FILES: Final = (
    *("run_spec.json", "scenario.json", "scenario_state.json", "instances.json"),
    "display_requests.json",
)
HELM: Final = Reader("helm", "HELM runs", _sniff, _read, auxiliary_files=AUXILIARY_FILES)
