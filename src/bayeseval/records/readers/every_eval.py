"""Every Eval Ever: one record per model and run, ``<collection>/<developer>/<model>/<uuid>.json``.

The schema (``eval.schema.json``, versions 0.2 and later) has no place for the language:
it is the name of an evaluation (``Swahili``), in the name of its task (``belebele_swh_Latn``),
or among the ``additional_details``. EuroEval writes the same records, one per line, with
its own raw scores in them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
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
    json_lines,
    json_problem,
    read_json,
)
from bayeseval.records.readers.euroeval import Evaluated, spread
from bayeseval.records.readers.lm_eval import common_folder, name_notes
from bayeseval.records.readers.scores import Score, settle
from bayeseval.records.readers.task_names import NamedTask, TaskNames, read_task_names
from bayeseval.records.report import show

__all__ = ["EVERY_EVAL"]

_LANGUAGE_KEYS: Final = ("language", "languages", "lang", "language_code")


def _sniff(path: Path, head: Head) -> bool:
    return head.text.startswith("{") and head.has(
        "schema_version", "evaluation_id", "source_metadata", "model_info"
    )


def _read(paths: Sequence[Path], options: Options) -> Reading:
    names = read_task_names(options.task_names)
    source = common_folder(paths)
    european: list[Evaluated] = []
    entries: list[_Entry] = []
    for path in options.each(paths):
        for where, record in _records(path):
            lines = list(_euroeval(record, where))
            european += lines
            if not lines:
                entries += [_Entry(*found) for found in _entries(record, where)]
    named = _named(entries, names, source)
    scores, notes = spread(european)
    scores += [score for entry in entries for score in entry.scores(named)]
    by_name = {entry.name: named[entry.key] for entry in entries if entry.key in named}
    return settle(
        scores,
        source=source,
        options=options,
        place="evaluation",
        notes=[*notes, *name_notes(by_name)],
    )


def _records(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Records of a file: one document, or one per line."""
    if path.name.casefold().endswith((".jsonl", ".jsonl.gz", ".ndjson")):
        for number, record in json_lines(path):
            yield f"{path}, line {number}", record
        return
    yield str(path), as_mapping(read_json(path), str(path))


class _Entry:
    """One evaluation of a record, before its name is understood."""

    def __init__(self, entry: Mapping[str, Any], model: str, run: str, where: str) -> None:
        self.entry, self.model, self.run = entry, model, run
        self.name = as_text(entry.get("evaluation_name"), f"{where}: evaluation_name")
        self.where = f"{where}, evaluation {self.name!r}"
        data = entry.get("source_data")
        data = data if isinstance(data, dict) else {}
        name = data.get("dataset_name")
        self.dataset = name if isinstance(name, str) and name.strip() else self.name
        details = entry.get("score_details")
        self.details = as_mapping(details, f"{self.where}: score_details")
        self.config = as_mapping(entry.get("metric_config"), f"{self.where}: metric_config")
        self.language = self._stated(data)

    @property
    def key(self) -> str:
        return self.name

    def _stated(self, data: Mapping[str, Any]) -> str | None:
        """The language where some ``additional_details`` say it."""
        for holder in (data, self.config, self.details):
            for place in ("additional_details", "details"):
                found = holder.get(place)
                if not isinstance(found, dict):
                    continue
                for key in _LANGUAGE_KEYS:
                    languages = _as_languages(found.get(key))
                    if languages:
                        return "-".join(languages)
        return None

    def scores(self, named: Mapping[str, NamedTask | None]) -> Iterator[Score]:
        if self.language is not None:
            task: NamedTask | None = NamedTask(self.dataset, self.language)
        else:
            task = named[self.key]
        if task is None:
            return
        lower_is_better = self.config.get("lower_is_better")
        if not isinstance(lower_is_better, bool | None):
            raise InputError(
                f"{self.where}: lower_is_better is {show(lower_is_better)}; expected true or false"
            )
        value = as_number(self.details.get("score"), f"{self.where}: score")
        if self.config.get("has_unknown_level") is True and value == -1:
            value = None
        uncertainty = self.details.get("uncertainty")
        uncertainty = uncertainty if isinstance(uncertainty, dict) else {}
        error = uncertainty.get("standard_error")
        error = error.get("value") if isinstance(error, dict) else error
        bounds = [
            as_number(self.config.get(name), f"{self.where}: {name}")
            for name in ("min_score", "max_score")
        ]
        yield Score(
            model=self.model,
            dataset=task.dataset or self.dataset,
            language=task.language,
            metric=_metric(self.config),
            value=value,
            where=self.where,
            se=as_number(error, f"{self.where}: standard_error"),
            n=as_number(uncertainty.get("num_samples"), f"{self.where}: num_samples"),
            higher=None if lower_is_better is None else not lower_is_better,
            lower_bound=bounds[0],
            upper_bound=bounds[1],
            run=self.run,
        )


def _metric(config: Mapping[str, Any]) -> str:
    """The metric's name; EuroEval puts the split before it."""
    for key in ("metric_id", "metric_name", "metric_kind"):
        name = config.get(key)
        if isinstance(name, str) and name.strip():
            # Identifiers are paths in newer versions: "lm_eval/acc".
            return name.rpartition("/")[2] or name
    return "score"


def _named(entries: Sequence[_Entry], names: TaskNames, source: str) -> dict[str, NamedTask | None]:
    """What the names of evaluations say, those that are languages themselves first."""
    named: dict[str, NamedTask | None] = {}
    unknown: dict[str, None] = {}
    for entry in entries:
        if entry.language is not None or entry.key in named:
            continue
        if any(pattern.fullmatch(entry.name) for pattern, _, _ in names.lines):
            named[entry.key] = names.parse(entry.name)
            continue
        if understand(entry.name) is None:
            unknown[entry.name] = None
        else:
            # An empty dataset: that of each entry.
            named[entry.key] = NamedTask("", entry.name)
    return named | names.parse_all(unknown, source)


def _entries(
    record: Mapping[str, Any], where: str
) -> Iterator[tuple[Mapping[str, Any], str, str, str]]:
    info = as_mapping(record.get("model_info"), f"{where}: model_info")
    model = as_text(info.get("id", info.get("name")), f"{where}: model_info: id")
    time = record.get("evaluation_timestamp") or record.get("retrieved_timestamp") or ""
    for i, entry in enumerate(
        as_list(record.get("evaluation_results"), f"{where}: evaluation_results"), start=1
    ):
        yield as_mapping(entry, f"{where}: evaluation_results: {i}"), model, str(time), where


def _euroeval(record: Mapping[str, Any], where: str) -> Iterator[Evaluated]:
    """The line of EuroEval that a record holds, if it does."""
    library = record.get("eval_library")
    details = library.get("additional_details") if isinstance(library, dict) else None
    if not isinstance(details, dict) or "raw_results" not in details:
        return
    at = f"{where}: eval_library: additional_details"
    info = as_mapping(record.get("model_info"), f"{where}: model_info")
    raw = _unpacked(details["raw_results"], f"{at}: raw_results")
    if isinstance(raw, dict):
        raw = raw.get("test", raw.get("raw", []))
    total: dict[str, Any] = {}
    for i, entry in enumerate(
        as_list(record.get("evaluation_results"), f"{where}: evaluation_results"), start=1
    ):
        result = as_mapping(entry, f"{where}: evaluation_results: {i}")
        config = as_mapping(result.get("metric_config"), f"{where}: metric_config")
        name = _metric(config)
        if name == "score":
            name = as_text(result.get("evaluation_name"), f"{where}: evaluation_name")
            name = name.rpartition("/")[2]
        score = as_mapping(result.get("score_details"), f"{where}: score_details")
        total[name] = score.get("score")
    yield Evaluated(
        model=as_text(info.get("id", info.get("name")), f"{where}: model_info: id"),
        dataset=as_text(details.get("dataset"), f"{at}: dataset"),
        task=as_text(details.get("task"), f"{at}: task"),
        languages=tuple(_as_languages(details.get("languages"))),
        raw=as_list(raw, f"{at}: raw_results"),
        total=total,
        where=where,
        run=str(record.get("evaluation_timestamp") or record.get("retrieved_timestamp") or ""),
    )


def _unpacked(value: Any, where: str) -> Any:
    """A value that is JSON within a text, as the schema wants it."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError) as problem:
        raise InputError(f"{where}: not valid JSON: {json_problem(problem)}") from problem


def _as_languages(value: Any) -> list[str]:
    """Languages of a text such as ``"sw"`` or ``'["nb", "no"]'``, or of a list."""
    if isinstance(value, str) and value.lstrip().startswith("["):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return []
    if isinstance(value, str):
        return [value.strip()] if value.strip() else []
    return [one for one in value if isinstance(one, str)] if isinstance(value, list) else []


EVERY_EVAL: Final = Reader("every-eval", "Every Eval Ever records", _sniff, _read)
