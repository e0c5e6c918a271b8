"""EuroEval (once ScandEval): ``euroeval_benchmark_results.jsonl``, one dataset per line.

Every dataset is evaluated on ten bootstrapped test sets, the same for all models; their
ten scores are in ``results.raw`` on the scale 0-1, their mean in ``results.total`` on the
scale 0-100. The ``_se`` beside it is 1.96 standard errors of the mean, as ``aggregate_scores``
of EuroEval's ``scores.py`` returns it, and as the ten scores that are quoted in its issues
615 and 617 show to 6 and to 16 digits. That is the error of a mean over bootstraps of one test
set, ``1.96 sd / sqrt(10)``. The error of this mean over test sets is ``sd sqrt(1 + 1/10)``, eleven
times as large in variance, because all bootstraps share the test set that they resample.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from bayeseval._text import counted, shorten, show
from bayeseval.errors import InputError
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
    json_lines,
)
from bayeseval.readers.lm_eval import common_folder
from bayeseval.readers.scores import Score, settle

__all__ = ["EUROEVAL", "Evaluated", "euroeval_scores", "in_percent"]

_NORMAL_95: Final = 1.96
_ITERATIONS: Final = 10
_PERCENT: Final = 100.0
_SE_OF_MEAN: Final = math.sqrt(_ITERATIONS + 1) / _NORMAL_95
# A macro language beside its varieties, which EuroEval lists together.
_VARIETIES: Final = {
    "no": frozenset(["no", "nb", "nn"]),
    "pt": frozenset(["pt", "pt-pt", "pt-br"]),
}
_TOLERANCE: Final = 1e-6


@dataclass(frozen=True)
class Evaluated:
    """One line: a model on a dataset.

    Parameters
    ----------
    model, dataset, task : str
    languages : tuple of str
    raw : list
        Scores of the bootstrap iterations, by metric; empty when there are none.
    total : mapping
        Means and their half intervals.
    where : str
    run : str
        Sorts the runs of one cell from old to new.
    variant : str
        How the model was prompted.
    """

    model: str
    dataset: str
    task: str
    languages: tuple[str, ...]
    raw: Sequence[Any]
    total: Mapping[str, Any]
    where: str
    run: str
    variant: str = ""

    @cached_property
    def results(self) -> list[tuple[Score, list[Score]]]:
        """By metric, the mean and the bootstrap iterations; none where they do not fit the mean."""
        return list(_means_and_iterations(self))

    def checked(self) -> Evaluated:
        """The same line; called while its file is read.

        Raises
        ------
        InputError
            If a score is no number.
        """
        _ = self.results
        return self


def _sniff(path: Path, head: Head) -> bool:
    if not head.text.startswith("{") or not head.has("dataset", "task", "model", "results"):
        return False
    return bool({"dataset_languages", "languages"} & set(head.keys)) and '"total"' in head.text


def _read(paths: Sequence[Path], options: Options) -> Reading:
    read = options.attempts(options.each(paths), lambda path: _newest_last(list(_lines(path))))
    lines = [line for _, own in read for line in own]
    scores, notes = euroeval_scores(lines)
    return settle(in_percent(scores), source=common_folder(paths), options=options, notes=notes)


def _lines(path: Path) -> Iterator[Evaluated]:
    for number, record in json_lines(path):
        where = f"{path}, line {number}"
        results = as_mapping(record.get("results"), f"{where}: results")
        raw = results.get("raw", [])
        if isinstance(raw, dict):
            raw = raw.get("test", raw.get("val", []))
        languages = record.get("dataset_languages", record.get("languages"))
        yield Evaluated(
            model=as_text(record.get("model"), f"{where}: model"),
            dataset=as_text(record.get("dataset"), f"{where}: dataset"),
            task=as_text(record.get("task"), f"{where}: task"),
            languages=tuple(
                as_text(one, f"{where}: languages")
                for one in as_list(languages, f"{where}: languages")
            ),
            raw=as_list(raw, f"{where}: results: raw"),
            total=as_mapping(results.get("total"), f"{where}: results: total"),
            where=where,
            run="",
            variant=variant_of(record),
        )


def _newest_last(lines: Sequence[Evaluated]) -> list[Evaluated]:
    """The lines of one file, to which new results are appended.

    Only the file itself says which is newer: two files with one cell have no order.
    """
    newest = {(line.model, line.dataset, line.variant): line.where for line in lines}

    def rank(line: Evaluated) -> str:
        last = newest[line.model, line.dataset, line.variant] == line.where
        return "newest" if last else ""

    return [replace(line, run=rank(line)).checked() for line in lines]


def variant_of(settings: Mapping[str, Any]) -> str:
    """How the model was prompted; truth values may be texts, as Every Eval Ever wants them."""
    few, validation = (
        {"true": True, "false": False}.get(str(settings.get(name)).casefold())
        for name in ("few_shot", "validation_split")
    )
    shots = [] if few is None else ["few-shot" if few else "zero-shot"]
    return ", ".join([*shots, "validation split"] if validation else shots)


def euroeval_scores(lines: Sequence[Evaluated]) -> tuple[list[Score], list[str]]:
    """Scores of all lines, one for each bootstrap iteration where all have them, and notes.

    EuroEval's task (``sentiment-classification``) is what languages share and becomes
    our dataset; where a language has several datasets for it, they are kept apart.
    """
    if not lines:
        return [], []
    datasets: dict[tuple[str, str], set[str]] = defaultdict(set)
    for line in lines:
        datasets[line.task, _language(line)].add(line.dataset)
    several_datasets = {task for (task, _), names in datasets.items() if len(names) > 1}
    results: list[tuple[Score, list[Score]]] = []
    for line in lines:
        name = (
            f"{line.task}/{_dataset_without_language(line)}"
            if line.task in several_datasets
            else line.task
        )
        results += [
            (replace(mean, dataset=name), [replace(one, dataset=name) for one in iterations])
            for mean, iterations in line.results
        ]
    # The records of a task are all replicated, or none is.
    without_iterations = {
        (mean.dataset, mean.metric) for mean, iterations in results if not iterations
    }
    scores: list[Score] = []
    for mean, iterations in results:
        scores += [mean] if (mean.dataset, mean.metric) in without_iterations else iterations
    notes = ["EuroEval's tasks are read as datasets, because languages share them"]
    if several_datasets:
        notes.append(
            f"several datasets of one language kept apart for {shorten(sorted(several_datasets))}"
        )
    if any(score.boot is not None for score in scores):
        notes.append("raw scores of the bootstrap iterations read as boot, in percent")
    if without_iterations:
        means = len({score.where for score in scores if score.boot is None})
        notes.append(
            f"the mean was read for {counted(means, 'result')} of datasets without all raw scores:"
            f" se is the file's _se times {_SE_OF_MEAN:.4g}: _se is {_NORMAL_95} standard errors of"
            f" a mean over {_ITERATIONS} bootstraps of one test set, sd / sqrt({_ITERATIONS}), and "
            f"over test sets it is sd sqrt(1 + 1/{_ITERATIONS})"
        )
    return scores, notes


def in_percent(scores: Sequence[Score]) -> list[Score]:
    """The scores with the bounds of their metrics: percentages, below zero for a correlation."""
    values: dict[tuple[str, str], list[float]] = defaultdict(list)
    for score in scores:
        values[score.dataset, score.metric] += [] if score.value is None else [score.value]
    bounds = {
        # Speeds are no percentages.
        key: (-_PERCENT if min(own) < 0.0 else 0.0, _PERCENT)
        for key, own in values.items()
        if own and max(map(abs, own)) <= _PERCENT
    }
    unknown = (None, None)
    stated = [(score, bounds.get((score.dataset, score.metric), unknown)) for score in scores]
    return [replace(one, lower_bound=low, upper_bound=high) for one, (low, high) in stated]


def _dataset_without_language(line: Evaluated) -> str:
    """The dataset's name without a language at its end: scala of scala-nb."""
    head, dash, end = line.dataset.rpartition("-")
    return head if dash and end in line.languages else line.dataset


def _language(line: Evaluated) -> str:
    codes = list(dict.fromkeys(code.casefold() for code in line.languages))
    for macro, family in _VARIETIES.items():
        if set(codes) <= family and len(codes) > 1:
            varieties = [code for code in codes if code != macro]
            return varieties[0] if len(varieties) == 1 else macro
    if not codes:
        raise InputError(f"{line.where}: the list of languages is empty")
    return joined_languages(line.languages)


def _means_and_iterations(line: Evaluated) -> Iterator[tuple[Score, list[Score]]]:
    """By metric, the mean and the bootstrap iterations; none where they do not fit the mean."""
    metrics = [
        name.removeprefix("test_").removeprefix("val_")
        for name in line.total
        if not name.endswith("_se") and not name.startswith("num_failed")
    ]
    for rank, metric in enumerate(dict.fromkeys(metrics)):
        half = _total(line, metric, "_se")
        mean = Score(
            model=line.model,
            dataset=line.task,
            language=_language(line),
            metric=metric,
            value=_total(line, metric, ""),
            where=line.where,
            se=None if half is None else half * _SE_OF_MEAN,
            variant=line.variant,
            run=line.run,
            rank=rank,
        )
        raw = _iterations(line, metric, mean.value)
        yield (
            mean,
            [
                replace(
                    mean, value=v, se=None, boot=str(i), where=f"{line.where}, iteration {i + 1}"
                )
                for i, v in enumerate(raw or ())
            ],
        )


def _total(line: Evaluated, metric: str, ending: str) -> float | None:
    for prefix in ("test_", "val_", ""):
        name = f"{prefix}{metric}{ending}"
        if name in line.total:
            return as_number(line.total[name], f"{line.where}: results: total: {name}")
    return None


def _iterations(line: Evaluated, metric: str, total: float | None) -> list[float] | None:
    """Scores of the iterations on the scale of their mean `total`; None if they do not fit."""
    values = []
    for i, entry in enumerate(line.raw, start=1):
        where = f"{line.where}: results: raw: {i}"
        if not isinstance(entry, dict):
            raise InputError(f"{where}: expected an object with metrics, got {show(entry)}")
        score = next((entry[n] for n in (metric, f"test_{metric}") if n in entry), None)
        values.append(as_number(score, f"{where}: {metric}"))
    known = [value for value in values if value is not None]
    if total is None or len(known) < 2 or len(known) < len(values):
        return None
    mean = math.fsum(known) / len(known)
    for factor in (100.0, 1.0):
        if math.isclose(factor * mean, total, rel_tol=_TOLERANCE, abs_tol=_TOLERANCE):
            return [factor * value for value in known]
    return None


EUROEVAL: Final = Reader("euroeval", "EuroEval results", _sniff, _read)
