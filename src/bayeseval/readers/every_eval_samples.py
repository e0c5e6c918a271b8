"""Items of Every Eval Ever: one per line and result, ``<uuid>_samples.jsonl``.

A line (``instance_level_eval.schema.json``, versions 0.2 and later) holds the score of
one item under one result of the record ``<uuid>.json`` beside it, to which
``evaluation_id`` and ``evaluation_result_id`` refer. What is measured, in which dataset
and whether higher is better are said there only.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from bayeseval._text import counted, plain, show
from bayeseval.errors import InputError
from bayeseval.languages.matching import understand
from bayeseval.readers.base import (
    Head,
    Options,
    Reader,
    Reading,
    as_mapping,
    as_number,
    as_text,
    json_lines,
    read_json,
)
from bayeseval.readers.every_eval import (
    NOT_TEST_SCORES,
    Entry,
    entries,
    name_evaluations,
    several_results,
    without_filter,
)
from bayeseval.readers.items import Items, settle_items
from bayeseval.readers.lm_eval import common_folder, name_notes
from bayeseval.readers.measures import lower_is_better
from bayeseval.readers.raw import Dropped, object_array
from bayeseval.readers.scores import Score
from bayeseval.readers.task_names import NamedTask, TaskNames, read_task_names

__all__ = ["EVERY_EVAL_SAMPLES"]

_END: Final = re.compile(r"_samples\.jsonl(\.gz)?$")
_LANGUAGE_KEYS: Final = ("language", "lang", "language_code")
_FAILED: Final = "the item ended in an error"
_NO_RESULT: Final = "the line names no result that its score belongs to"
_REPEATED: Final = "repeated line of an item, with the same score (averaged epochs have one score)"
_Line = tuple[int, str, str, float | None]


@dataclass(frozen=True, slots=True)
class _ResultRecord:
    """The record that a file's lines refer to."""

    evaluation_id: str | None
    entries: Sequence[Entry]

    def with_distinct_selector(self, several: Collection[tuple[str, ...]]) -> _ResultRecord:
        return replace(
            self, entries=[entry.with_distinct_selector(several) for entry in self.entries]
        )

    def candidates(self, key: _SampleKey) -> list[Entry]:
        """The results that lines may belong to."""
        matches = [entry for entry in self.entries if entry.result_id == key.result_id]
        if key.result_id is not None and len(matches) == 1:
            return matches
        return [entry for entry in matches if entry.name == key.name]


@dataclass(frozen=True, slots=True)
class _SampleKey:
    """What identifies the test set of a line: lines that agree in all of it are its items."""

    model: str
    name: str
    result_id: str | None
    language: str | None
    linked: bool


class _DroppedLines:
    """Lines that are left out, by reason."""

    def __init__(self) -> None:
        self.counts: dict[str, Counter[str]] = defaultdict(Counter)
        self.first: dict[str, str] = {}

    def add(self, reason: str, label: str, where: str, number: int = 1) -> None:
        self.counts[reason][label] += number
        self.first.setdefault(reason, where)

    def update(self, other: _DroppedLines) -> None:
        for reason, counts in other.counts.items():
            self.counts[reason].update(counts)
            self.first.setdefault(reason, other.first[reason])

    def dropped(self) -> list[Dropped]:
        return [
            Dropped(reason, tuple(sorted(counts.items())), self.first[reason])
            for reason, counts in self.counts.items()
        ]


class _LanguageInNames:
    """Whether a task's name says its language, looked up once for each."""

    def __init__(self, names: TaskNames) -> None:
        self.names = names
        self.known: dict[str, bool] = {}

    def has_language(self, task: str) -> bool:
        if task not in self.known:
            try:
                self.known[task] = understand(task) is not None or bool(self.names.parse(task))
            except LookupError:
                self.known[task] = False
            if task in self.names:
                self.known[task] = True
        return self.known[task]


def _sniff(path: Path, head: Head) -> bool:
    return head.text.startswith("{") and head.has(
        "schema_version", "evaluation_id", "model_id", "evaluation_name", "sample_id"
    )


def _read(paths: Sequence[Path], options: Options) -> Reading:
    names = read_task_names(options.task_names)
    source = common_folder(paths)
    results = dict(options.attempts(paths, _result_record))
    ambiguous = several_results(e for record in results.values() if record for e in record.entries)
    results = {
        path: record and record.with_distinct_selector(ambiguous)
        for path, record in results.items()
    }
    dropped_lines, language_in_names = _DroppedLines(), _LanguageInNames(names)

    def read_lines(path: Path) -> tuple[dict[_SampleKey, list[_Line]], _DroppedLines]:
        own = _DroppedLines()
        return _lines(path, results[path], language_in_names, own), own

    files: dict[Path, dict[_SampleKey, list[_Line]]] = {}
    for path, (groups, dropped) in options.attempts(options.each(list(results)), read_lines):
        files[path] = groups
        dropped_lines.update(dropped)
    tests = [
        _TestSet.of_lines(path, key, results[path], lines)
        for path, groups in files.items()
        for key, lines in groups.items()
    ]
    tests = _with_metrics(tests)
    for test in tests:
        if test.entry is not None and test.entry.left_out:
            dropped_lines.add(NOT_TEST_SCORES, test.label, test.first, len(test.lines))
    tests = [test for test in tests if test.entry is None or not test.entry.left_out]
    named = name_evaluations((t.task for t in tests if t.language is None), names, source)
    read: dict[str, dict[str, Items]] = defaultdict(dict)
    heads: list[Score] = []
    for test, place in _places(tests):
        name = test.named_task(named)
        if name is None:
            continue
        head = test.head(name, place)
        read[place][head.key] = test.items(dropped_lines)
        heads.append(head)
    notes = name_notes({t.task: named[t.task] for t in tests if t.task in named})
    without_results = sum(not any(key.linked for key in groups) for groups in files.values())
    if without_results:
        notes.append(
            f"{counted(without_results, 'file')} without their results (<uuid>.json) in the same"
            " folder: dataset and metric are taken from the lines alone"
        )
    return settle_items(
        heads,
        read,
        source=source,
        options=options,
        place="line",
        notes=notes,
        dropped=dropped_lines.dropped(),
    )


def _result_record(path: Path) -> _ResultRecord | None:
    """The record whose name is that of the samples."""
    if not _END.search(path.name):
        return None
    results = path.with_name(_END.sub(".json", path.name))
    if not results.is_file():
        return None
    record = as_mapping(read_json(results), str(results))
    evaluation_id = record.get("evaluation_id")
    evaluations = entries(record, str(results))
    return _ResultRecord(evaluation_id if isinstance(evaluation_id, str) else None, evaluations)


def _lines(
    path: Path, results: _ResultRecord | None, names: _LanguageInNames, dropped_lines: _DroppedLines
) -> dict[_SampleKey, list[_Line]]:
    """The items of a file by the test set that they belong to.

    Raises
    ------
    InputError
        At the first line that is not as the schema has it.
    """
    groups: dict[_SampleKey, list[_Line]] = defaultdict(list)
    with_ids = results is not None and any(e.result_id is not None for e in results.entries)
    for number, record in json_lines(path):
        where = f"{path}, line {number}"
        model = as_text(record.get("model_id"), f"{where}: model_id")
        name = as_text(record.get("evaluation_name"), f"{where}: evaluation_name")
        item = record.get("sample_id")
        if isinstance(item, bool) or not isinstance(item, int | str):
            raise InputError(f"{where}: sample_id: expected text, got {show(item)}")
        result_id = record.get("evaluation_result_id")
        if not isinstance(result_id, str | None):
            raise InputError(f"{where}: evaluation_result_id: expected text, got {show(result_id)}")
        evaluation = as_mapping(record.get("evaluation"), f"{where}: evaluation")
        value = evaluation.get("score")
        value = float(value) if isinstance(value, bool) else value
        score = as_number(value, f"{where}: evaluation: score")
        metadata = record.get("metadata")
        metadata = metadata if isinstance(metadata, dict) else {}
        linked = results is not None and record.get("evaluation_id") == results.evaluation_id
        task, _ = without_filter(name, result_id)
        label = f"{model}, {task}"
        if record.get("error"):
            dropped_lines.add(_FAILED, label, where)
            continue
        if result_id is None and ((linked and with_ids) or _no_number(metadata)):
            dropped_lines.add(_NO_RESULT, label, where)
            continue
        language = None if names.has_language(task) else _language(metadata)
        key = _SampleKey(model, name, result_id or None, language, linked)
        groups[key].append((number, str(item), str(metadata.get("epoch") or "1"), score))
    return groups


def _no_number(metadata: Mapping[str, Any]) -> bool:
    """Whether an item of lm-evaluation-harness has no number: its score was made up.

    The converter writes 0 for items of metrics such as BLEU, which are computed from all
    items together.
    """
    packed = metadata.get("lm_eval_metrics")
    if not isinstance(packed, str):
        return False
    try:
        metrics = json.loads(packed)
    except (ValueError, RecursionError):
        return False
    return isinstance(metrics, dict) and not any(
        isinstance(value, int | float) for value in metrics.values()
    )


def _language(metadata: Mapping[str, Any]) -> str | None:
    """The language in the metadata of an item, if it names one (``python`` is none)."""
    for key in _LANGUAGE_KEYS:
        value = metadata.get(key)
        if isinstance(value, str) and value.strip() and understand(value.strip()) is not None:
            return value.strip()
    return None


@dataclass(frozen=True, slots=True)
class _TestSet:
    """The items of one model under one result.

    Parameters
    ----------
    path : Path
    key : _SampleKey
    lines : sequence of _Line
    task, metric, selector : str
    higher : bool or None
    entry : Entry or None
        The result that the scores belong to; None where it is not known.
    source_entry : Entry or None
        One that says dataset and language, the same in all that it could be.
    """

    path: Path
    key: _SampleKey
    lines: Sequence[_Line]
    task: str
    metric: str
    selector: str
    higher: bool | None
    entry: Entry | None
    source_entry: Entry | None

    @classmethod
    def of_lines(
        cls, path: Path, key: _SampleKey, results: _ResultRecord | None, lines: Sequence[_Line]
    ) -> _TestSet:
        """With what the record beside the lines says of them."""
        candidates = results.candidates(key) if results is not None and key.linked else []
        # Several: old versions have one line per item and do not say for which metric.
        entry = candidates[0] if len(candidates) == 1 else None
        task, selector = without_filter(key.name, key.result_id)
        known = {one.higher for one in candidates}
        higher = known.pop() if len(known) == 1 else None
        if not candidates and any(map(lower_is_better, (key.result_id or "").split(":"))):
            higher = False
        return cls(
            path=path,
            key=key,
            lines=lines,
            task=task,
            metric="score" if entry is None else entry.metric,
            selector=selector if entry is None else entry.selector,
            higher=higher,
            entry=entry,
            source_entry=candidates[0] if candidates else None,
        )

    @property
    def label(self) -> str:
        return f"{self.key.model}, {self.task}"

    @property
    def first(self) -> str:
        return f"{self.path}, line {self.lines[0][0]}"

    @property
    def language(self) -> str | None:
        stated = self.source_entry.language if self.source_entry is not None else None
        return stated or self.key.language

    def named_task(self, named: Mapping[str, NamedTask | None]) -> NamedTask | None:
        """Dataset and language; None for a task to leave out."""
        dataset = self.source_entry.dataset if self.source_entry is not None else ""
        if self.language is not None:
            bare = re.sub(rf"[_-]{re.escape(self.language)}$", "", self.task)
            return NamedTask(dataset or bare or self.task, self.language)
        name = named[self.task]
        if name is None or name.dataset:
            return name
        # The name is a language; nothing else says what was evaluated.
        return NamedTask(dataset or "every-eval", name.language)

    def head(self, name: NamedTask, place: str) -> Score:
        return Score(
            model=self.key.model,
            dataset=name.dataset,
            language=name.language,
            metric=self.metric,
            selector=self.selector,
            value=None,
            where=place,
            higher=self.higher,
            variant=self.entry.split if self.entry is not None else "",
            run=self.source_entry.run if self.source_entry is not None else "",
        )

    def items(self, dropped_lines: _DroppedLines) -> Items:
        """The items, each once unless its scores differ."""
        scores: dict[str, set[float | None]] = defaultdict(set)
        for _, item, _, value in self.lines:
            scores[item].add(value)
        kept = self.lines
        if len(scores) < len(kept) and all(len(values) == 1 for values in scores.values()):
            once = {line[1]: line for line in reversed(kept)}
            repeated = next(line for line in kept if once[line[1]] is not line)
            where = f"{self.path}, line {repeated[0]}"
            dropped_lines.add(_REPEATED, self.label, where, len(kept) - len(once))
            kept = sorted(once.values())
        value_of = self.entry.value if self.entry is not None else lambda number: number
        return Items(
            np.array([line[0] for line in kept], dtype=np.int64),
            object_array(line[1] for line in kept),
            object_array(value_of(line[3]) for line in kept),
            object_array(line[2] for line in kept),
        )


def _with_metrics(tests: Sequence[_TestSet]) -> list[_TestSet]:
    """Name the metrics of lines without results by their ``evaluation_result_id``.

    It may be anything, the language included; it is taken for the metric where it cannot
    be: all lines have the same, or the items of one task have several.
    """
    without_results = [test for test in tests if test.source_entry is None]
    ids = {(t.path, t.key.model, t.task, t.selector): set[str]() for t in without_results}
    for t in without_results:
        ids[t.path, t.key.model, t.task, t.selector].add(t.key.result_id or "")
    several = any(len(result_ids) > 1 for result_ids in ids.values())
    one = len({t.key.result_id for t in without_results}) == 1

    def metric(test: _TestSet) -> str:
        result_id = test.key.result_id
        if test.source_entry is not None or result_id is None:
            return test.metric
        if test.selector:
            return result_id.removesuffix(f":{test.selector}")
        return result_id if several or one else test.metric

    return [replace(test, metric=metric(test)) for test in tests]


def _places(tests: Sequence[_TestSet]) -> Iterator[tuple[_TestSet, str]]:
    """Each test with its file, and its task where the file holds several."""
    places: dict[Path, set[tuple[str, ...]]] = defaultdict(set)

    def place(test: _TestSet) -> tuple[str, ...]:
        split = test.entry.split if test.entry is not None else ""
        return tuple(filter(None, (test.key.model, test.task, split, test.key.language)))

    for test in tests:
        places[test.path].add(place(test))
    for test in tests:
        one = len(places[test.path]) == 1
        yield test, str(test.path) if one else f"{test.path} ({plain(', '.join(place(test)))})"


EVERY_EVAL_SAMPLES: Final = Reader(
    "every-eval-samples",
    "Every Eval Ever samples",
    _sniff,
    _read,
    details_of=("every-eval",),
)
