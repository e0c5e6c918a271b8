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
    NOT_THE_TEST,
    Entry,
    entries,
    name_evaluations,
    several_results,
    without_filter,
)
from bayeseval.readers.items import Items, settle_items
from bayeseval.readers.lm_eval import common_folder, name_notes
from bayeseval.readers.raw import Dropped, object_array
from bayeseval.readers.scores import Score, lower_is_better
from bayeseval.readers.task_names import NamedTask, TaskNames, read_task_names

__all__ = ["EVERY_EVAL_SAMPLES"]

_END: Final = re.compile(r"_samples\.jsonl(\.gz)?$")
_LANGUAGE_KEYS: Final = ("language", "lang", "language_code")
_FAILED: Final = "the item ended in an error"
_NO_RESULT: Final = "the line names no result that its score belongs to"
_AGAIN: Final = "the item's score once more (epochs that were averaged have one score)"
_Line = tuple[int, str, str, float | None]


@dataclass(frozen=True, slots=True)
class _Beside:
    """The record that a file's lines refer to."""

    evaluation_id: str | None
    entries: Sequence[Entry]

    def told_apart(self, several: Collection[tuple[str, ...]]) -> _Beside:
        return replace(self, entries=[entry.told_apart(several) for entry in self.entries])

    def alike(self, of: _Of) -> list[Entry]:
        """The results that lines may belong to."""
        found = [entry for entry in self.entries if entry.result_id == of.result_id]
        if of.result_id is not None and len(found) == 1:
            return found
        return [entry for entry in found if entry.name == of.name]


@dataclass(frozen=True, slots=True)
class _Of:
    """What a line is about: lines that agree in all of it are items of one test set."""

    model: str
    name: str
    result_id: str | None
    language: str | None
    linked: bool


class _Lost:
    """Lines that are left out, by reason."""

    def __init__(self) -> None:
        self.counts: dict[str, Counter[str]] = defaultdict(Counter)
        self.first: dict[str, str] = {}

    def add(self, reason: str, label: str, where: str, number: int = 1) -> None:
        self.counts[reason][label] += number
        self.first.setdefault(reason, where)

    def dropped(self) -> list[Dropped]:
        return [
            Dropped(reason, tuple(sorted(counts.items())), self.first[reason])
            for reason, counts in self.counts.items()
        ]


class _Names:
    """Whether a task's name says its language, looked up once for each."""

    def __init__(self, names: TaskNames) -> None:
        self.names = names
        self.known: dict[str, bool] = {}

    def say(self, task: str) -> bool:
        if task not in self.known:
            try:
                self.known[task] = understand(task) is not None or bool(self.names.parse(task))
            except LookupError:
                self.known[task] = False
            if any(pattern.fullmatch(task) for pattern, _, _ in self.names.lines):
                self.known[task] = True
        return self.known[task]


def _sniff(path: Path, head: Head) -> bool:
    return head.text.startswith("{") and head.has(
        "schema_version", "evaluation_id", "model_id", "evaluation_name", "sample_id"
    )


def _read(paths: Sequence[Path], options: Options) -> Reading:
    names = read_task_names(options.task_names)
    source = common_folder(paths)
    beside = {path: _beside(path) for path in paths}
    several = several_results(e for found in beside.values() if found for e in found.entries)
    beside = {path: found and found.told_apart(several) for path, found in beside.items()}
    lost, known = _Lost(), _Names(names)
    files = {path: _lines(path, beside[path], known, lost) for path in options.each(paths)}
    tests = [
        _Test.found(path, of, beside[path], lines)
        for path, groups in files.items()
        for of, lines in groups.items()
    ]
    tests = _with_metrics(tests)
    for test in tests:
        if test.entry is not None and test.entry.left_out:
            lost.add(NOT_THE_TEST, test.label, test.first, len(test.lines))
    tests = [test for test in tests if test.entry is None or not test.entry.left_out]
    named = name_evaluations((t.task for t in tests if t.language is None), names, source)
    read: dict[str, dict[str, Items]] = defaultdict(dict)
    heads: list[Score] = []
    for test, place in _places(tests):
        name = test.named(named)
        if name is None:
            continue
        head = test.head(name, place)
        read[place][head.key] = test.items(lost)
        heads.append(head)
    notes = name_notes({t.task: named[t.task] for t in tests if t.task in named})
    alone = sum(not any(of.linked for of in groups) for groups in files.values())
    if alone:
        notes.append(
            f"{counted(alone, 'file')} without the results they belong to beside them"
            " (<uuid>.json): dataset and metric are named after the lines alone"
        )
    return settle_items(
        heads,
        read,
        source=source,
        options=options,
        place="line",
        notes=notes,
        dropped=lost.dropped(),
    )


def _beside(path: Path) -> _Beside | None:
    """The record whose name is that of the samples."""
    if not _END.search(path.name):
        return None
    results = path.with_name(_END.sub(".json", path.name))
    if not results.is_file():
        return None
    record = as_mapping(read_json(results), str(results))
    stated = record.get("evaluation_id")
    found = entries(record, str(results))
    return _Beside(stated if isinstance(stated, str) else None, found)


def _lines(
    path: Path, beside: _Beside | None, names: _Names, lost: _Lost
) -> dict[_Of, list[_Line]]:
    """The items of a file by what they are about.

    Raises
    ------
    InputError
        At the first line that is not as the schema has it.
    """
    found: dict[_Of, list[_Line]] = defaultdict(list)
    with_ids = beside is not None and any(e.result_id is not None for e in beside.entries)
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
        said = as_mapping(record.get("evaluation"), f"{where}: evaluation")
        value = said.get("score")
        value = float(value) if isinstance(value, bool) else value
        score = as_number(value, f"{where}: evaluation: score")
        metadata = record.get("metadata")
        metadata = metadata if isinstance(metadata, dict) else {}
        linked = beside is not None and record.get("evaluation_id") == beside.evaluation_id
        task, _ = without_filter(name, result_id)
        label = f"{model}, {task}"
        if record.get("error"):
            lost.add(_FAILED, label, where)
            continue
        if result_id is None and ((linked and with_ids) or _no_number(metadata)):
            lost.add(_NO_RESULT, label, where)
            continue
        language = None if names.say(task) else _language(metadata)
        of = _Of(model, name, result_id or None, language, linked)
        found[of].append((number, str(item), str(metadata.get("epoch") or "1"), score))
    return found


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
    """The language in what else is said about an item, if it is one (``python`` is none)."""
    for key in _LANGUAGE_KEYS:
        value = metadata.get(key)
        if isinstance(value, str) and value.strip() and understand(value.strip()) is not None:
            return value.strip()
    return None


@dataclass(frozen=True, slots=True)
class _Test:
    """The items of one model under one result.

    Parameters
    ----------
    path : Path
    of : _Of
    lines : sequence of _Line
    task, metric, selector : str
    higher : bool or None
    entry : Entry or None
        The result that the scores belong to; None where it is not known.
    about : Entry or None
        One that says dataset and language, the same in all that it could be.
    """

    path: Path
    of: _Of
    lines: Sequence[_Line]
    task: str
    metric: str
    selector: str
    higher: bool | None
    entry: Entry | None
    about: Entry | None

    @classmethod
    def found(cls, path: Path, of: _Of, beside: _Beside | None, lines: Sequence[_Line]) -> _Test:
        """With what the record beside the lines says of them."""
        alike = beside.alike(of) if beside is not None and of.linked else []
        # Several: old versions have one line per item and do not say for which metric.
        entry = alike[0] if len(alike) == 1 else None
        task, selector = without_filter(of.name, of.result_id)
        known = {one.higher for one in alike}
        higher = known.pop() if len(known) == 1 else None
        if not alike and any(map(lower_is_better, (of.result_id or "").split(":"))):
            higher = False
        return cls(
            path=path,
            of=of,
            lines=lines,
            task=task,
            metric="score" if entry is None else entry.metric,
            selector=selector if entry is None else entry.selector,
            higher=higher,
            entry=entry,
            about=alike[0] if alike else None,
        )

    @property
    def label(self) -> str:
        return f"{self.of.model}, {self.task}"

    @property
    def first(self) -> str:
        return f"{self.path}, line {self.lines[0][0]}"

    @property
    def language(self) -> str | None:
        stated = self.about.language if self.about is not None else None
        return stated or self.of.language

    def named(self, named: Mapping[str, NamedTask | None]) -> NamedTask | None:
        """Dataset and language; None for a task to leave out."""
        dataset = self.about.dataset if self.about is not None else ""
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
            model=self.of.model,
            dataset=name.dataset,
            language=name.language,
            metric=self.metric,
            selector=self.selector,
            value=None,
            where=place,
            higher=self.higher,
            variant=self.entry.split if self.entry is not None else "",
            run=self.about.run if self.about is not None else "",
        )

    def items(self, lost: _Lost) -> Items:
        """The items, each once unless its scores differ."""
        scores: dict[str, set[float | None]] = defaultdict(set)
        for _, item, _, value in self.lines:
            scores[item].add(value)
        kept = self.lines
        if len(scores) < len(kept) and all(len(values) == 1 for values in scores.values()):
            once = {line[1]: line for line in reversed(kept)}
            gone = next(line for line in kept if once[line[1]] is not line)
            where = f"{self.path}, line {gone[0]}"
            lost.add(_AGAIN, self.label, where, len(kept) - len(once))
            kept = sorted(once.values())
        value_of = self.entry.value if self.entry is not None else lambda number: number
        return Items(
            np.array([line[0] for line in kept], dtype=np.int64),
            object_array(line[1] for line in kept),
            object_array(value_of(line[3]) for line in kept),
            object_array(line[2] for line in kept),
        )


def _with_metrics(tests: Sequence[_Test]) -> list[_Test]:
    """Metrics of lines without results, named by their ``evaluation_result_id``.

    It may be anything, the language included; it is taken for the metric where it cannot
    be: all lines have the same, or the items of one task have several.
    """
    alone = [test for test in tests if test.about is None]
    ids = {(t.path, t.of.model, t.task, t.selector): set[str]() for t in alone}
    for t in alone:
        ids[t.path, t.of.model, t.task, t.selector].add(t.of.result_id or "")
    several = any(len(found) > 1 for found in ids.values())
    one = len({t.of.result_id for t in alone}) == 1

    def metric(test: _Test) -> str:
        result_id = test.of.result_id
        if test.about is not None or result_id is None:
            return test.metric
        if test.selector:
            return result_id.removesuffix(f":{test.selector}")
        return result_id if several or one else test.metric

    return [replace(test, metric=metric(test)) for test in tests]


def _places(tests: Sequence[_Test]) -> Iterator[tuple[_Test, str]]:
    """Each test with its file, and its task where the file holds several."""
    places: dict[Path, set[tuple[str, ...]]] = defaultdict(set)

    def place(test: _Test) -> tuple[str, ...]:
        split = test.entry.split if test.entry is not None else ""
        return tuple(filter(None, (test.of.model, test.task, split, test.of.language)))

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
    after=("every-eval",),
)
