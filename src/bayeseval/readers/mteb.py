"""MTEB: one file per model, revision and task, ``<model>/<revision>/<Task>.json``.

``scores`` holds for every split one entry per subset, with its languages as
``639-3-Script`` and its ``main_score``. A subset of two languages is a pair; one that
mixes more is an average over languages and is left out. Further subsets of one language
(``en-ext`` beside ``en``) are datasets of their own.

Before MTEB 1.11, a file had ``mteb_dataset_name``, and its splits beside that, each with its
scores or with those of its subsets; languages were named by multilingual tasks only, as
names of subsets. Other tasks get theirs from newer files of the same task or from the
user's names of tasks, or are left out.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from bayeseval._text import shorten, show
from bayeseval.errors import InputError, argument
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
from bayeseval.readers.lm_eval import common_folder
from bayeseval.readers.raw import Dropped
from bayeseval.readers.scores import Score, settle
from bayeseval.readers.task_names import NamedTask, TaskNames, read_task_names

__all__ = ["MTEB"]

_MAIN: Final = "main_score"
_MIXED: Final = "mixes more than two languages"


# Where older files have no main score: that of retrieval, clustering, reranking, similarity of
# texts, pairs to classify, classification and bitext mining. Reranking has ``map`` and
# retrieval ``map_at_10``; pairs have accuracies and F1 below the names of distances only.
_OLDER_MAIN: Final = (
    ("ndcg_at_10",),
    ("v_measure",),
    ("map",),
    ("cos_sim", "spearman"),
    ("max", "ap"),
    ("cos_sim", "ap"),
    ("accuracy",),
    ("f1",),
)
_DISTANCES: Final = frozenset({"cos_sim", "dot", "euclidean", "manhattan", "max", "similarity"})
_NO_SUBSET: Final = "default"
_ONE: Final = r"[a-z]{2,3}(?:[-_][A-Z][a-z]{3})?"
_PAIR: Final = re.compile(f"({_ONE})-({_ONE})")
_CODE: Final = re.compile(f"{_ONE}(?:[-_][A-Z]{{2}})?")
_REVISION: Final = re.compile(r"[0-9a-f]{7,40}|\d+|no_revision_available|external")
_UNNAMED: Final = (
    "no language in files of MTEB before 1.11; name them in a CSV file with the columns "
    "task,dataset,language"
)


def _sniff(path: Path, head: Head) -> bool:
    return head.text.startswith("{") and (
        head.has("dataset_revision", "mteb_version", "task_name")
        or head.has("mteb_version", "mteb_dataset_name")
    )


def _read(paths: Sequence[Path], options: Options) -> Reading:
    scored: list[tuple[str, Score]] = []
    mixed: list[Score] = []
    older: list[tuple[str, Score]] = []
    names = _models(paths, options)

    def read(path: Path) -> tuple[bool, list[tuple[str, Score]]]:
        document = as_mapping(read_json(path), str(path))
        model = (_older_model(path) if _is_older(document) else None) or names[path]
        newer = _newer(document, path)
        own = list(_scores(newer, model, path, all_metrics=bool(options.metrics)))
        if not own:
            raise InputError(f"{path}: scores: no {_MAIN}")
        return _is_older(document), own

    for _, (is_older, own) in options.attempts(options.each(paths), read):
        for subset, score in own:
            if score.language:
                scored.append((subset, score))
            elif subset == _NO_SUBSET and is_older:
                older.append((subset, score))
            else:
                mixed.append(score)
    named, unnamed = _with_languages(older, scored, read_task_names(options.task_names))
    dropped = [
        Dropped(reason, _by_model_and_task(lost), lost[0].where)
        for reason, lost in (
            (_MIXED, mixed),
            (f"{_UNNAMED}, given as {argument('task_names')}", unnamed),
        )
        if lost
    ]
    if unnamed and not scored and not named:
        raise InputError(
            f"{common_folder(paths)}: {_UNNAMED}, given as {argument('task_names')}: "
            f"{shorten(sorted({score.dataset for score in unnamed}), limit=12)}"
        )
    return settle(
        _name_subsets(scored + named),
        source=common_folder(paths),
        options=options,
        place="subset",
        notes=[f"main_score taken; choose another metric with {argument('metric')}"]
        if not options.metrics
        else [],
        dropped=dropped,
    )


def _by_model_and_task(scores: Sequence[Score]) -> tuple[tuple[str, int], ...]:
    return tuple(sorted(Counter(f"{score.model}, {score.dataset}" for score in scores).items()))


def _is_older(document: Mapping[str, Any]) -> bool:
    return "mteb_dataset_name" in document


def _newer(document: dict[str, Any], path: Path) -> dict[str, Any]:
    """A document of any version in the form of the newer ones."""
    if not _is_older(document):
        return document
    scores: dict[str, list[dict[str, Any]]] = {}
    for split, values in document.items():
        if not isinstance(values, dict):
            continue
        subsets = {
            name: one
            for name, one in values.items()
            if isinstance(one, dict) and name not in _DISTANCES
        }
        scores[split] = [
            {
                "main_score": _older_main(own, f"{path}, {split}, {subset}"),
                **{key: one for key, one in own.items() if not isinstance(one, dict)},
                "hf_subset": subset,
                "languages": _older_languages(subset),
            }
            for subset, own in (subsets or {_NO_SUBSET: values}).items()
        ]
    return {"task_name": document["mteb_dataset_name"], "scores": scores}


def _older_main(values: Mapping[str, Any], where: str) -> Any:
    if _MAIN in values:
        return values[_MAIN]
    for group, *key in _OLDER_MAIN:
        own = values.get(group)
        if key:
            own = own.get(key[0]) if isinstance(own, dict) else None
        if own is not None:
            return own
    raise InputError(
        f"{where}: expected a main score, or one of "
        f"{', '.join('.'.join(names) for names in _OLDER_MAIN)}; got {show(', '.join(values))}"
    )


def _older_languages(subset: str) -> list[str]:
    """Languages that the name of a subset gives: ``de``, ``zh-CN``, or a pair, ``de-en``."""
    pair = _PAIR.fullmatch(subset)
    if pair is not None:
        return [pair[1], pair[2]]
    return [subset] if _CODE.fullmatch(subset) else []


def _with_languages(
    older: Sequence[tuple[str, Score]], newer: Sequence[tuple[str, Score]], names: TaskNames
) -> tuple[list[tuple[str, Score]], list[Score]]:
    """Scores of older files with a language, and those that have none."""
    known: dict[str, set[str]] = defaultdict(set)
    for _, score in newer:
        known[score.dataset].add(score.language)
    named, unnamed = [], []
    for subset, score in older:
        try:
            said = names.parse(score.dataset)
        except LookupError:
            own = known[score.dataset]
            if len(own) != 1:
                unnamed.append(score)
                continue
            said = NamedTask(score.dataset, *own)
        if said is not None:
            named.append((subset, replace(score, dataset=said.dataset, language=said.language)))
    return named, unnamed


def _older_model(path: Path) -> str | None:
    """The model of an older file that lies in the model's own folder, not in a revision's."""
    folder = path.resolve().parent
    return None if _REVISION.fullmatch(folder.name) else folder.name.replace("__", "/")


def _models(paths: Sequence[Path], options: Options) -> dict[Path, str]:
    """Names of the models, with the revision where a model has several."""
    names: dict[Path, tuple[str, str]] = {}
    known: dict[Path, str] = {}
    for path in paths:
        folder = path.resolve().parent
        if folder not in known:
            # Written with "__" for "/".
            known[folder] = _named_model(folder, options) or folder.parent.name.replace("__", "/")
        names[path] = known[folder], folder.name
    revisions: dict[str, set[str]] = defaultdict(set)
    for name, revision in names.values():
        revisions[name].add(revision)
    return {
        path: f"{name} ({revision[:8]})" if len(revisions[name]) > 1 else name
        for path, (name, revision) in names.items()
    }


def _named_model(folder: Path, options: Options) -> str | None:
    """The model that a folder's ``model_meta.json`` names; None where there is no such name."""
    files = [folder / "model_meta.json"] if (folder / "model_meta.json").is_file() else []
    for _, meta in options.attempts(files, lambda path: as_mapping(read_json(path), str(path))):
        name = meta.get("name")
        return name if isinstance(name, str) and name.strip() else None
    return None


def _name_subsets(scored: Sequence[tuple[str, Score]]) -> list[Score]:
    """Of several subsets of one language, all but that of the shortest name are variants.

    The choice is the same for all models, whichever subsets each was evaluated on.
    """
    subsets: dict[tuple[str, str, str], set[str]] = defaultdict(set)
    for subset, score in scored:
        subsets[score.dataset, score.variant, score.language].add(subset)
    main = {key: min(names, key=lambda name: (len(name), name)) for key, names in subsets.items()}
    return [
        score
        if subset == main[score.dataset, score.variant, score.language]
        else replace(score, variant=f"{score.variant}, {subset}")
        for subset, score in scored
    ]


def _scores(
    document: dict[str, Any], model: str, path: Path, *, all_metrics: bool
) -> Iterator[tuple[str, Score]]:
    """Every score with the name of its subset."""
    task = as_text(document.get("task_name"), f"{path}: task_name")
    splits = as_mapping(document.get("scores"), f"{path}: scores")
    for split, entries in splits.items():
        for i, entry in enumerate(as_list(entries, f"{path}: scores: {split}"), start=1):
            where = f"{path}, {split}, entry {i}"
            values = as_mapping(entry, where)
            languages = [
                as_text(one, f"{where}: languages")
                for one in as_list(values.get("languages"), f"{where}: languages")
            ]
            subset = str(values.get("hf_subset"))
            label = _language(languages)
            for metric, value in values.items():
                if metric != _MAIN and not (all_metrics and isinstance(value, int | float)):
                    continue
                if isinstance(value, bool) and metric != _MAIN:
                    continue
                score = Score(
                    model=model,
                    dataset=task,
                    language=label,
                    metric=metric,
                    value=as_number(value, f"{where}: {metric}"),
                    where=f"{where} ({subset})",
                    variant=split,
                    rank=0 if metric == _MAIN else 1,
                    higher=True if metric == _MAIN else None,
                )
                yield subset, score


def _language(languages: Sequence[str]) -> str:
    """The label of one language or a pair; empty for more."""
    codes = [code.replace("-", "_") for code in languages]
    return joined_languages(codes) if len(set(codes)) <= 2 else ""


MTEB: Final = Reader("mteb", "MTEB results", _sniff, _read, auxiliary_files=("model_meta.json",))
