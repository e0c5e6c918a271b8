"""MTEB: one file per model, revision and task, ``<model>/<revision>/<Task>.json``.

``scores`` holds for every split one entry per subset, with its languages as
``639-3-Script`` and its ``main_score``. A subset of two languages is a pair; one that
mixes more is an average over languages and is left out. Further subsets of one language
(``en-ext`` beside ``en``) are datasets of their own.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from bayeseval.errors import argument
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

__all__ = ["MTEB"]

_MAIN: Final = "main_score"
_MIXED: Final = "mixes more than two languages"


def _sniff(path: Path, head: Head) -> bool:
    return head.text.startswith("{") and head.has("dataset_revision", "mteb_version", "task_name")


def _read(paths: Sequence[Path], options: Options) -> Reading:
    scored: list[tuple[str, Score]] = []
    mixed: list[Score] = []
    names = _models(paths)
    for path in options.each(paths):
        document = as_mapping(read_json(path), str(path))
        for subset, score in _scores(
            document, names[path], path, all_metrics=bool(options.metrics)
        ):
            if score.language:
                scored.append((subset, score))
            else:
                mixed.append(score)
    counts: dict[str, int] = defaultdict(int)
    for score in mixed:
        counts[f"{score.model}, {score.dataset}"] += 1
    dropped = [Dropped(_MIXED, tuple(sorted(counts.items())), mixed[0].where)] if mixed else []
    return settle(
        _name_subsets(scored),
        source=common_folder(paths),
        options=options,
        place="subset",
        notes=[f"main_score taken; choose another metric with {argument('metric')}"]
        if not options.metrics
        else [],
        dropped=dropped,
    )


def _models(paths: Sequence[Path]) -> dict[Path, str]:
    """Names of the models, with the revision where a model has several."""
    names: dict[Path, tuple[str, str]] = {}
    known: dict[Path, str] = {}
    for path in paths:
        folder = path.resolve().parent
        if folder not in known:
            known[folder] = _name(folder)
        names[path] = known[folder], folder.name
    revisions: dict[str, set[str]] = defaultdict(set)
    for name, revision in names.values():
        revisions[name].add(revision)
    return {
        path: f"{name} ({revision[:8]})" if len(revisions[name]) > 1 else name
        for path, (name, revision) in names.items()
    }


def _name(folder: Path) -> str:
    meta = folder / "model_meta.json"
    if meta.is_file():
        name = as_mapping(read_json(meta), str(meta)).get("name")
        if isinstance(name, str) and name.strip():
            return name
    # The folder of the revision lies in that of the model, written with "__" for "/".
    return folder.parent.name.replace("__", "/")


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
