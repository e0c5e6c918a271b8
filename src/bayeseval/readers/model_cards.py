"""Model cards of the Hugging Face Hub: ``model-index`` of a card, ``.eval_results/*.yaml``.

A card's front matter names models, and for each the data set (``type``, ``name``, ``config``,
``split``, ``args``) and metrics of its results. The newer files are lists of values on tasks of
benchmark data sets; the repository that they lie in is the model. The language is the
configuration of the data set where that is a code (``de``, ``swh_Latn``), a code in brackets at
the end of its name, as MTEB writes them, or what the table of task names says of the data set.
"""

from __future__ import annotations

import os
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from bayeseval._text import Note, counted, shorten, show
from bayeseval._yaml import read_front_matter, read_yaml, unix_lines
from bayeseval.errors import InputError, argument
from bayeseval.languages.codes import is_code
from bayeseval.readers.base import (
    Head,
    Options,
    Reader,
    Reading,
    as_list,
    as_mapping,
    as_number,
    as_text,
)
from bayeseval.readers.lm_eval import ModelName, common_folder, folder_notes, name_notes
from bayeseval.readers.scores import Score, settle
from bayeseval.readers.task_names import NamedTask, TaskNames, read_task_names

__all__ = ["EVAL_RESULTS", "MODEL_CARDS", "refuse_card_without_results"]

EVAL_RESULTS: Final = ".eval_results"
"""Folder of a model's repository with its results."""

_INDEX: Final = re.compile(r"""^(["']?)model-index\1[ \t]*:""", re.MULTILINE)
# As written for cards of models that were not evaluated: one entry, and no other behind it.
_EMPTY: Final = re.compile(
    _INDEX.pattern + r"\s*- name:[^\n]*\n\s*results: \[\][^\n]*(?:\Z|\n(?!(?:\s|#[^\n]*\n)*- ))",
    re.MULTILINE,
)
_LISTED: Final = re.compile(r"^-[ \t]+(?:dataset|value|date|source)[ \t]*:", re.MULTILINE)
_DATASET: Final = re.compile(r"^(?:-| )[ \t]+dataset[ \t]*:", re.MULTILINE)
# A number with what may stand beside it: "20.85", "20.0 ± 1.2", "85.1%".
_NUMBER: Final = re.compile(r"([+-]?\d{1,12}(?:\.\d{1,20})?)\s{0,3}(?:%|(?:±|\+/-).{0,40})?")
_BRACKETS: Final = re.compile(r"(.+?) ?\(([A-Za-z]{2,3}(?:[-_][A-Za-z]{2,4})?)\)")
# Others do not sort from old to new.
_ISO_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d(?![^T ])")
# What the Hub calls the only configuration, and what MTEB calls a model without a name.
_NO_CONFIG: Final = ("", "default")
_NO_NAME: Final = ("no_model_name_available", "model")
_CACHE: Final = "models--"


@dataclass(frozen=True, slots=True)
class _Result:
    """One value of a card or of a file of results."""

    path: Path
    where: str
    model: ModelName
    owner: str
    dataset: str
    config: str
    metric: str
    selector: str
    value: float | None
    split: str
    date: str


def _sniff(path: Path, head: Head) -> bool:
    if path.suffix.casefold() in (".yaml", ".yml"):
        text = unix_lines(head.text)
        return bool(_LISTED.search(text) and _DATASET.search(text) and "value:" in text)
    return _has_index(head) and not _EMPTY.search(unix_lines(head.text))


def _has_index(head: Head) -> bool:
    return head.text.startswith("---") and _INDEX.search(unix_lines(head.text)) is not None


def refuse_card_without_results(path: Path) -> None:
    """Refuse a card that lists no results and has no table on its page.

    Raises
    ------
    InputError
        If the file is such a card.
    """
    head = Head.of(path)
    if _has_index(head) and _EMPTY.search(unix_lines(head.text)) and "|" not in head.text:
        raise InputError(
            f"{path}: a model card without results: its model-index lists none, and the page has no"
            " table; give a card with results, or a folder of cards"
        )


def _read(paths: Sequence[Path], options: Options) -> Reading:
    source = common_folder(paths)
    cards = [path for path in paths if path.suffix.casefold() not in (".yaml", ".yml")]
    lists = [path for path in paths if path not in set(cards)]
    by_card = dict(options.attempts(options.each(cards), lambda path: list(_card(path))))
    models = {path.parent: {one.model for one in own} for path, own in by_card.items()}
    by_list = dict(options.attempts(options.each(lists), lambda path: list(_listed(path, models))))
    results = [one for own in (*by_card.values(), *by_list.values()) for one in own]
    results = _told_apart(results)
    _refuse_two_cards(results)
    names = read_task_names(options.task_names)
    named = _named(results, names, source)
    owners: dict[str, set[str]] = defaultdict(set)
    for one in results:
        task = named[one.dataset, one.config]
        if task is not None and one.owner and _task(one.dataset, one.config) not in names:
            owners[task.dataset].add(one.owner)
    shared = {name: found for name, found in owners.items() if len(found) > 1}
    notes: list[Note] = [
        *name_notes({_task(*key): task for key, task in named.items()}),
        *folder_notes({one.path: one.model for one in results}),
    ]
    if shared:
        listed = [f"{owner}/{name}" for name, own in shared.items() for owner in sorted(own)]
        notes.append(
            f"data sets of one name keep their owners: {shorten(sorted(listed))}; if they are the"
            f" same, name both tasks in {argument('task_names')}"
        )
    empty = sum(not own for own in (*by_card.values(), *by_list.values()))
    if empty:
        notes.append(f"{counted(empty, 'card')} without results")
    scores = [
        Score(
            model=one.model.label,
            dataset=f"{one.owner}/{task.dataset}"
            if one.owner in shared.get(task.dataset, ())
            and _task(one.dataset, one.config) not in names
            else task.dataset,
            language=task.language,
            metric=one.metric,
            selector=one.selector,
            value=one.value,
            where=one.where,
            variant=one.split,
            run=one.date,
        )
        for one in results
        if (task := named[one.dataset, one.config]) is not None
    ]
    return settle(scores, source=source, options=options, place="result", notes=notes)


def _card(path: Path) -> Iterator[_Result]:
    """Results of the ``model-index`` of a card."""
    values = read_front_matter(path)
    if values is None:
        raise InputError(f"{path}: the front matter has no end; close it with a line of ---")
    front = as_mapping(values, f"{path}: front matter")
    for entry in as_list(front.get("model-index"), f"{path}: model-index"):
        index = as_mapping(entry, f"{path}: model-index")
        name = index.get("name")
        is_name = isinstance(name, str) and name.strip().casefold() not in ("", *_NO_NAME)
        model = ModelName(str(name).strip()) if is_name else _of_folder(path.parent)
        for number, item in enumerate(as_list(index.get("results") or [], f"{path}: results"), 1):
            where = f"{path}, result {number} of {model.label}"
            result = as_mapping(item, where)
            dataset = as_mapping(result.get("dataset"), f"{where}: dataset")
            metrics = as_list(result.get("metrics"), f"{where}: metrics")
            yield from _metrics(path, where, model, dataset, metrics)


def _metrics(
    path: Path, where: str, model: ModelName, dataset: Mapping[str, Any], metrics: Sequence[Any]
) -> Iterator[_Result]:
    owner, label, config = _dataset_of(dataset, where)
    split = _scalar(dataset.get("split"), f"{where}: dataset split")
    entries = [as_mapping(metric, f"{where}: metrics") for metric in metrics]
    types = [as_text(metric.get("type"), f"{where}: metric type") for metric in entries]
    # "Validation ROUGE" and "Test ROUGE" of one type are told apart by their names.
    several = Counter(types)
    for kind, metric in zip(types, entries, strict=True):
        called = metric.get("name")
        yield _Result(
            path=path,
            where=f"{where}: {kind}",
            model=model,
            owner=owner,
            dataset=label,
            config=config,
            metric=kind,
            selector=called if several[kind] > 1 and isinstance(called, str) else "",
            value=_number(metric.get("value"), f"{where}: {kind}: value"),
            split=split,
            date="",
        )


def _dataset_of(dataset: Mapping[str, Any], where: str) -> tuple[str, str, str]:
    """Owner of a data set, its name without the language, and its configuration."""
    kind = dataset.get("type") or dataset.get("name")
    owner, _, label = as_text(kind, f"{where}: dataset type").rpartition("/")
    arguments = dataset.get("args")
    named = arguments if isinstance(arguments, dict) else {}
    found = [
        _scalar(dataset.get("config"), f"{where}: dataset config"),
        _scalar(named.get("language"), f"{where}: dataset args language"),
        _scalar(named.get("config"), f"{where}: dataset args config"),
        arguments if isinstance(arguments, str) else "",
    ]
    configs = [text.strip() for text in found if text.strip()]
    config = next((text for text in configs if text not in _NO_CONFIG), "")
    brackets = _BRACKETS.fullmatch(_scalar(dataset.get("name"), f"{where}: dataset name"))
    if not config and brackets is not None and is_code(brackets[2]):
        config = brackets[2]
    return owner, label, config if config != label else ""


def _listed(path: Path, models: Mapping[Path, set[ModelName]]) -> Iterator[_Result]:
    """Results of a file of ``.eval_results``; the model has the name of its card, if any."""
    repository = path.parent.parent if path.parent.name == EVAL_RESULTS else path.parent
    of_card = models.get(repository, set())
    model = next(iter(of_card)) if len(of_card) == 1 else _of_folder(repository)
    for number, item in enumerate(as_list(read_yaml(path), str(path)), 1):
        where = f"{path}, result {number}"
        result = as_mapping(item, where)
        dataset = as_mapping(result.get("dataset"), f"{where}: dataset")
        owner, _, label = as_text(dataset.get("id"), f"{where}: dataset id").rpartition("/")
        date = _scalar(result.get("date"), f"{where}: date")
        # Files of 2025 called it `config`.
        config = _scalar(dataset.get("task_id"), f"{where}: dataset task_id") or _scalar(
            dataset.get("config"), f"{where}: dataset config"
        )
        config = config if config not in (*_NO_CONFIG, label) else ""
        yield _Result(
            path=path,
            where=where,
            model=model,
            owner=owner,
            dataset=label,
            config=config,
            metric="score",
            selector="",
            value=_number(result.get("value"), f"{where}: value"),
            split=_scalar(result.get("notes"), f"{where}: notes")
            or _scalar(dataset.get("split"), f"{where}: dataset split"),
            date=date if _ISO_DATE.match(date) else "",
        )


def _of_folder(folder: Path) -> ModelName:
    """The model that a repository's folder is named after, also within the cache of the Hub."""
    folder = folder.resolve()
    for part in reversed(folder.parts):
        if part.startswith(_CACHE):
            return ModelName(part.removeprefix(_CACHE).replace("--", "/"), folder)
    return ModelName(folder.name.replace("__", "/"), folder)


def _told_apart(results: Sequence[_Result]) -> list[_Result]:
    """The results, with longer names for models whose folders have one name: ``o1/m``, ``o2/m``."""
    folders: dict[str, set[Path]] = defaultdict(set)
    for one in results:
        # With an owner, the name is whole: two folders of it are two copies.
        if one.model.folder is not None and "/" not in one.model.label:
            folders[one.model.label].add(one.model.folder)
    models: dict[ModelName, ModelName] = {}
    for label, found in folders.items():
        shared = Path(os.path.commonpath(found))
        above = shared.parent if shared in found else shared
        for folder in found if len(found) > 1 else ():
            longer = folder.relative_to(above).as_posix()
            models[ModelName(label, folder)] = ModelName(longer, folder)
    return [replace(one, model=models.get(one.model, one.model)) for one in results]


def _refuse_two_cards(results: Sequence[_Result]) -> None:
    """Refuse one model with one result in the cards of two folders."""
    first: dict[_Result, _Result] = {}
    for one in results:
        # What a result is of, without its place and value.
        key = replace(one, path=Path(), where="", value=None, model=ModelName(one.model.label))
        other = first.setdefault(key, one)
        if other.path != one.path:
            raise InputError(
                f"{one.path} and {other.path} both have results of the model {one.model.label!r}"
                f" (the first on both: {_task(one.dataset, one.config)}, {one.metric}); take one of"
                " the files out of the folder, or give the two models different names"
            )


def _scalar(value: Any, where: str) -> str:
    """Text, also of a number or a date; empty where there is none."""
    if isinstance(value, list | dict | set | bytes):
        raise InputError(f"{where}: expected text or a number, got {show(value)}")
    return str(value or "")


def _number(value: Any, where: str) -> float | None:
    """A number, also one in quotes; what stands behind a ± is not known, and not used."""
    if isinstance(value, str) and (match := _NUMBER.fullmatch(value.strip())):
        value = float(match[1])
    if isinstance(value, str) and value.strip().casefold() not in ("n/a", "na", ""):
        raise InputError(f"{where}: expected a number, got {show(value)}")
    return as_number(value, where)


def _task(dataset: str, config: str) -> str:
    """Name of a task as evaluation tools write it: ``xnli_sw``, whose config may be all of it."""
    if config.casefold().startswith(dataset.casefold()):
        return config
    return f"{dataset}_{config}" if config else dataset


def _named(
    results: Sequence[_Result], names: TaskNames, source: str
) -> dict[tuple[str, str], NamedTask | None]:
    """Data set and language by data set and configuration; None for those to leave out.

    Three letters alone may be a code by chance (``all``, ``nli``): they are a language where
    all configurations of the data set are codes, and there are several.
    """
    configs: dict[str, set[str]] = defaultdict(set)
    for one in results:
        configs[one.dataset].add(one.config)
    named: dict[tuple[str, str], NamedTask | None] = {}
    tasks: dict[tuple[str, str], str] = {}
    for dataset, found in configs.items():
        codes = all(map(is_code, found)) and len(found) > 1
        for config in found:
            task = _task(dataset, config)
            is_language = is_code(config) and (len(config) != 3 or codes)
            if is_language and task not in names:
                named[dataset, config] = NamedTask(dataset, config)
            else:
                tasks[dataset, config] = task
    by_task = names.parse_all(tasks.values(), source)
    return named | {key: by_task[task] for key, task in tasks.items()}


MODEL_CARDS: Final = Reader(
    "model-card",
    "results of model cards",
    _sniff,
    _read,
    suffixes=(".yaml", ".yml"),
)
