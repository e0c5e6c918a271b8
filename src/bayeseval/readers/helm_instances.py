"""Items of HELM: ``per_instance_stats.json`` or ``display_predictions.json`` of a run's folder.

The first (``PerInstanceStats`` of ``helm/benchmark/metrics/metric.py``) holds an object
per item, training trial and kind of metric, with statistics as in ``stats.json``. The
second, which ``helm-summarize`` writes for its web page (``DisplayPrediction`` of
``helm/benchmark/presentation/run_display.py``), has the numbers alone; the splits of its
items are in ``instances.json``. Where both are there, the first is read.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

from bayeseval._text import any_of, counted, plain, show
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
    read_json,
)
from bayeseval.readers.helm import AUXILIARY_FILES, QUALITY, SPLITS, Run, name_runs, read_run
from bayeseval.readers.items import Items, settle_items
from bayeseval.readers.lm_eval import common_folder, name_notes
from bayeseval.readers.raw import Dropped, object_array
from bayeseval.readers.scores import Score
from bayeseval.readers.task_names import read_task_names

__all__ = ["HELM_INSTANCES"]

_PERTURBED: Final = "of a perturbed input"
_SUB_SPLIT: Final = "of a sub-split"


@dataclass(frozen=True, slots=True)
class _Instance:
    """What is said about an item in one place.

    Parameters
    ----------
    number : int
        Place in the file, from 1.
    item, trial : str
    split : str
        Empty where it is not known.
    reason : str
        Why it is left out; empty for an item of the test.
    copy : str
        Which perturbation of the item it is; empty for the item itself.
    scores : list of (str, float or None)
        Metrics and values.
    """

    number: int
    item: str
    trial: str
    split: str
    reason: str
    copy: str
    scores: Sequence[tuple[str, float | None]]


@dataclass(slots=True)
class _MetricRows:
    """Items of a run and split under one metric, and those that have no value."""

    rows: list[tuple[int, str, str, float | None]] = field(default_factory=list)
    seen: set[tuple[str, str, float | None]] = field(default_factory=set)


def _sniff(path: Path, head: Head) -> bool:
    return head.text.startswith("[") and (
        head.has("instance_id", "train_trial_index", "stats") or _is_display(head)
    )


def _is_display(head: Head) -> bool:
    return head.has("instance_id", "train_trial_index", "predicted_text")


def _read(paths: Sequence[Path], options: Options) -> Reading:
    names = read_task_names(options.task_names)
    source = common_folder(paths)
    display = {path for path in paths if _is_display(Head.of(path))}
    with_stats = {path.parent for path in paths if path not in display}
    redundant = [path for path in display if path.parent in with_stats]
    wanted = options.each([p for p in paths if p not in redundant])
    runs = [run for _, run in options.attempts(wanted, read_run)]
    named = name_runs(runs, names, source)
    read: dict[str, dict[str, Items]] = {}
    heads: list[Score] = []
    dropped: dict[str, Counter[str]] = defaultdict(Counter)
    first: dict[str, str] = {}
    by_path = {run.path: run for run in runs if named[run.name] is not None}

    def instances_of(path: Path) -> list[_Instance]:
        return list((_displayed if path in display else _measured)(by_path[path]))

    for path, instances in options.attempts(by_path, instances_of):
        run, name = by_path[path], named[by_path[path].name]
        if name is None:
            continue
        for reason, where, number in _left_out(run, instances):
            dropped[reason][f"{run.model}, {name.dataset}, {name.language}"] += number
            first.setdefault(reason, where)
        by_split = _by_split(instances, all_metrics=bool(options.metrics))
        for split, metrics in by_split.items():
            where = str(run.path) if len(by_split) == 1 else f"{run.path} ({split})"
            read[where] = metrics
            heads += [
                Score(
                    model=run.model,
                    dataset=name.dataset,
                    language=name.language,
                    metric=metric,
                    value=None,
                    where=where,
                    variant=split,
                    rank=QUALITY.index(metric) if metric in QUALITY else len(QUALITY),
                )
                for metric in metrics
            ]
    notes = name_notes(named)
    if redundant:
        notes.append(
            f"{counted(len(redundant), 'file')} of predictions for display not read:"
            " per_instance_stats.json in the same folder has the same items"
        )
    if not heads:
        raise InputError(
            f"{source}: no item of the splits {any_of(SPLITS)} has a quality metric; name one with"
            f" {argument('metric')}"
        )
    return settle_items(
        heads,
        read,
        source=source,
        options=options,
        place="entry",
        notes=notes,
        dropped=[
            Dropped(reason, tuple(sorted(counts.items())), first[reason])
            for reason, counts in dropped.items()
        ],
    )


def _measured(run: Run) -> Iterator[_Instance]:
    """Entries of ``per_instance_stats.json``."""
    for number, where, entry, item, trial in _entries(run):
        scores = []
        context: tuple[str, str] = "", ""
        for i, one in enumerate(as_list(entry.get("stats"), f"{where}: stats"), start=1):
            at = f"{where}, statistic {i}"
            stat = as_mapping(one, at)
            name = as_mapping(stat.get("name"), f"{at}: name")
            metric = as_text(name.get("name"), f"{at}: name")
            scores.append((metric, as_number(stat.get("mean"), f"{at}: {metric}: mean")))
            split = name.get("split")
            if not isinstance(split, str | None):
                raise InputError(f"{at}: split: expected text, got {show(split)}")
            reason = _reason(split or "", name.get("sub_split"), name.get("perturbation"))
            context = split or context[0], reason or context[1]
        reason = _PERTURBED if entry.get("perturbation") else context[1]
        copy = str(entry.get("perturbation") or "")
        yield _Instance(number, item, trial, context[0], reason, copy, scores)


def _displayed(run: Run) -> Iterator[_Instance]:
    """Entries of ``display_predictions.json``, with the splits of ``instances.json``."""
    splits = _splits(run.path.parent / "instances.json")
    for number, where, entry, item, trial in _entries(run):
        stats = as_mapping(entry.get("stats"), f"{where}: stats")
        scores = [
            (metric, as_number(value, f"{where}: {metric}")) for metric, value in stats.items()
        ]
        split, sub_split = splits.get(item, ("", None))
        reason = _reason(split, sub_split, entry.get("perturbation"))
        copy = str(entry.get("perturbation") or "")
        yield _Instance(number, item, trial, split, reason, copy, scores)


def _entries(run: Run) -> Iterator[tuple[int, str, dict[str, Any], str, str]]:
    for number, one in enumerate(run.content, start=1):
        where = f"{run.path}, entry {number}"
        entry = as_mapping(one, where)
        item, trial = entry.get("instance_id"), entry.get("train_trial_index")
        if isinstance(item, bool) or not isinstance(item, int | str):
            raise InputError(f"{where}: instance_id: expected text, got {show(item)}")
        if isinstance(trial, bool) or not isinstance(trial, int):
            raise InputError(f"{where}: train_trial_index: expected a number, got {show(trial)}")
        yield number, where, entry, str(item), str(trial)


def _splits(path: Path) -> dict[str, tuple[str, str | None]]:
    """Split and sub-split of the items; perturbed copies have the same ones."""
    if not path.is_file():
        return {}
    splits: dict[str, tuple[str, str | None]] = {}
    for number, one in enumerate(as_list(read_json(path), str(path)), start=1):
        where = f"{path}, instance {number}"
        instance = as_mapping(one, where)
        split, sub_split = instance.get("split"), instance.get("sub_split")
        if not isinstance(split, str | None) or not isinstance(sub_split, str | None):
            raise InputError(f"{where}: split: expected text, got {show(split)}")
        splits[str(instance.get("id"))] = split or "", sub_split
    return splits


def _reason(split: str, sub_split: Any, perturbation: Any) -> str:
    if perturbation:
        return _PERTURBED
    if split and split not in SPLITS:
        return f"of the split {plain(split)}"
    return _SUB_SPLIT if sub_split else ""


def _left_out(run: Run, instances: Sequence[_Instance]) -> Iterator[tuple[str, str, int]]:
    """Reasons with the first place and the number of items, each counted once."""
    excluded: dict[str, dict[tuple[str, str, str], int]] = defaultdict(dict)
    for one in instances:
        if one.reason:
            excluded[one.reason].setdefault((one.item, one.trial, one.copy), one.number)
    for reason, items in excluded.items():
        yield reason, f"{run.path}, entry {min(items.values())}", len(items)


def _by_split(
    instances: Sequence[_Instance], *, all_metrics: bool
) -> Mapping[str, dict[str, Items]]:
    """Items by split and metric; an item without a metric of its split has no score."""
    by_split: dict[str, dict[str, _MetricRows]] = defaultdict(lambda: defaultdict(_MetricRows))
    first_number: dict[str, dict[tuple[str, str], int]] = defaultdict(dict)
    for one in instances:
        if one.reason:
            continue
        first_number[one.split].setdefault((one.item, one.trial), one.number)
        for metric, value in one.scores:
            if not all_metrics and metric not in QUALITY:
                continue
            metric_rows = by_split[one.split][metric]
            # HELM names one metric of an item in several places: the same number counts once.
            if (one.item, one.trial, value) not in metric_rows.seen:
                metric_rows.seen.add((one.item, one.trial, value))
                metric_rows.rows.append((one.number, one.item, one.trial, value))
    for split, metrics in by_split.items():
        for metric_rows in metrics.values():
            scored = {(item, trial) for _, item, trial, _ in metric_rows.rows}
            metric_rows.rows += [
                (number, *key, None)
                for key, number in first_number[split].items()
                if key not in scored
            ]
    return {
        split: {metric: _items(metric_rows.rows) for metric, metric_rows in metrics.items()}
        for split, metrics in by_split.items()
    }


def _items(rows: Sequence[tuple[int, str, str, float | None]]) -> Items:
    return Items(
        np.array([row[0] for row in rows], dtype=np.int64),
        object_array(row[1] for row in rows),
        object_array(row[3] for row in rows),
        object_array(row[2] for row in rows),
    )


HELM_INSTANCES: Final = Reader(
    "helm-instances",
    "HELM instances",
    _sniff,
    _read,
    details_of=("helm",),
    auxiliary_files=AUXILIARY_FILES,
)
