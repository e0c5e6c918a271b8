"""Every Eval Ever: one record per model and run, ``<collection>/<developer>/<model>/<uuid>.json``.

The schema (``eval.schema.json``, versions 0.2 and later) has no place for the language:
it is the name of an evaluation (``Swahili``), in the name of its task (``belebele_swh_Latn``),
or among the ``additional_details``. EuroEval writes the same records, one per line, with
its own raw scores in them.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from bayeseval._text import show
from bayeseval.errors import InputError
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
    json_lines,
    json_problem,
    read_json,
)
from bayeseval.readers.euroeval import Evaluated, euroeval_scores, variant_of
from bayeseval.readers.helm import scenario_language
from bayeseval.readers.lm_eval import common_folder, name_notes
from bayeseval.readers.raw import Dropped
from bayeseval.readers.scores import Score, settle
from bayeseval.readers.task_names import NamedTask, TaskNames, read_task_names

__all__ = [
    "EVERY_EVAL",
    "NOT_TEST_SCORES",
    "Entry",
    "entries",
    "name_entries",
    "name_evaluations",
    "several_results",
    "without_filter",
]

NOT_TEST_SCORES: Final = "of perturbed inputs or training examples"

_LANGUAGE_KEYS: Final = ("language", "languages", "lang", "language_code")


def _sniff(path: Path, head: Head) -> bool:
    return head.text.startswith("{") and head.has(
        "schema_version", "evaluation_id", "source_metadata", "model_info"
    )


def _read(paths: Sequence[Path], options: Options) -> Reading:
    names = read_task_names(options.task_names)
    source = common_folder(paths)
    euroeval_lines: list[Evaluated] = []
    by_path: dict[Path, list[Entry]] = {}
    for path, (lines, own) in options.attempts(options.each(paths), _read_file):
        euroeval_lines += lines
        by_path[path] = own
    evaluations = [entry for own in by_path.values() for entry in own]
    several = several_results(evaluations)
    kept_by_path = {
        path: [entry.with_distinct_selector(several) for entry in own if not entry.left_out]
        for path, own in by_path.items()
    }
    kept = [entry for own in kept_by_path.values() for entry in own]
    named = name_entries(kept, names, source)
    scores, notes = euroeval_scores(euroeval_lines)

    def scores_of(path: Path) -> list[Score]:
        return [score for entry in kept_by_path[path] for score in entry.scores(named)]

    for _, own_scores in options.attempts(kept_by_path, scores_of):
        scores += own_scores
    by_name = {entry.task: named[entry.task] for entry in kept if entry.task in named}
    return settle(
        scores,
        source=source,
        options=options,
        place="evaluation",
        notes=[*notes, *name_notes(by_name)],
        dropped=_perturbed(evaluations),
    )


def _read_file(path: Path) -> tuple[list[Evaluated], list[Entry]]:
    """The lines of EuroEval in a file, and the evaluations of its other records."""
    lines: list[Evaluated] = []
    evaluations: list[Entry] = []
    for where, record in _records(path):
        own = [line.checked() for line in _euroeval(record, where)]
        lines += own
        if not own:
            evaluations += entries(record, where)
    if not lines and not evaluations:
        raise InputError(f"{path}: evaluation_results: no result")
    return lines, evaluations


def _records(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Records of a file: one document, or one per line."""
    if path.name.casefold().endswith((".jsonl", ".jsonl.gz", ".ndjson")):
        for number, record in json_lines(path):
            yield f"{path}, line {number}", record
        return
    yield str(path), as_mapping(read_json(path), str(path))


@dataclass(frozen=True, slots=True)
class Entry:
    """One evaluation of a record, before its name is understood.

    Parameters
    ----------
    model, run : str
        Model and time of the record.
    where : str
        File and line of the record, and the evaluation.
    name, task : str
        ``evaluation_name``, and the same without the filter that the converter for
        lm-evaluation-harness appends to it.
    result_id : str or None
        What the record's items refer to.
    metric, selector : str
        The metric, and what tells results of one task and metric apart.
    dataset : str
    language : str or None
        None where only the name can say it.
    split, perturbation : str
        Of what HELM measured; empty elsewhere.
    config, details : mapping
        ``metric_config`` and ``score_details``.
    """

    model: str
    run: str
    where: str
    name: str
    task: str
    result_id: str | None
    metric: str
    selector: str
    dataset: str
    language: str | None
    split: str
    perturbation: str
    config: Mapping[str, Any]
    details: Mapping[str, Any]

    @classmethod
    def of(cls, entry: Mapping[str, Any], model: str, run: str, where: str) -> Entry:
        """An object of ``evaluation_results``, in the record of `model` and `run` at `where`.

        Raises
        ------
        InputError
            If it is not as the schema has it.
        """
        name = as_text(entry.get("evaluation_name"), f"{where}: evaluation_name")
        where = f"{where}, evaluation {name!r}"
        data = _mapping_or_empty(entry.get("source_data"))
        dataset = data.get("dataset_name")
        details = as_mapping(entry.get("score_details"), f"{where}: score_details")
        config = as_mapping(entry.get("metric_config"), f"{where}: metric_config")
        stated_id = entry.get("evaluation_result_id")
        result_id = stated_id if isinstance(stated_id, str) and stated_id else None
        task, selector = without_filter(name, result_id)
        result_details = _mapping_or_empty(details.get("details"))
        return cls(
            model=model,
            run=run,
            where=where,
            name=name,
            task=task,
            result_id=result_id,
            metric=_metric(config, result_id),
            selector=selector,
            dataset=dataset if isinstance(dataset, str) and dataset.strip() else name,
            language=_stated_language(data, config, details),
            split=str(result_details.get("split") or ""),
            perturbation=str(result_details.get("perturbation") or ""),
            config=config,
            details=details,
        )

    @property
    def left_out(self) -> bool:
        """Whether it is about changed inputs or training examples."""
        return bool(self.perturbation) or self.split == "train"

    @property
    def place(self) -> tuple[str, ...]:
        """Task, metric, selector and split: where one record should have one result."""
        return self.task, self.metric, self.selector, self.split

    def with_distinct_selector(self, several: Collection[tuple[str, ...]]) -> Entry:
        """With what ``evaluation_result_id`` says beside the metric, if `several` has its place."""
        if self.left_out or self.place not in several:
            return self
        parts = (self.result_id or "").split(":")
        rest = [part for part in parts if part not in (self.metric, self.selector, self.split)]
        return replace(self, selector=":".join(filter(None, [self.selector, *rest])))

    @property
    def higher(self) -> bool | None:
        """Whether higher is better; None where the record does not say."""
        lower_is_better = self.config.get("lower_is_better")
        if not isinstance(lower_is_better, bool | None):
            raise InputError(
                f"{self.where}: lower_is_better is {show(lower_is_better)}; expected true or false"
            )
        return None if lower_is_better is None else not lower_is_better

    def value(self, number: float | None) -> float | None:
        """A score, None where -1 stands for a level that is not known."""
        unknown = self.config.get("has_unknown_level") is True and number == -1
        return None if unknown else number

    def named_task(self, named: Mapping[str, NamedTask | None]) -> NamedTask | None:
        """Dataset and language; None for a task to leave out."""
        if self.language is not None:
            return NamedTask(self.dataset, self.language)
        task = named[self.task]
        # A name that is a language: the dataset is that of the entry.
        return task if task is None or task.dataset else NamedTask(self.dataset, task.language)

    def scores(self, named: Mapping[str, NamedTask | None]) -> Iterator[Score]:
        """The score, unless its task is to be left out."""
        task = self.named_task(named)
        if task is None:
            return
        uncertainty = _mapping_or_empty(self.details.get("uncertainty"))
        error = uncertainty.get("standard_error")
        error = error.get("value") if isinstance(error, dict) else error
        lower, upper = (self._bound(name) for name in ("min_score", "max_score"))
        yield Score(
            model=self.model,
            dataset=task.dataset,
            language=task.language,
            metric=self.metric,
            selector=self.selector,
            value=self.value(as_number(self.details.get("score"), f"{self.where}: score")),
            where=self.where,
            se=as_number(error, f"{self.where}: standard_error"),
            n=as_number(uncertainty.get("num_samples"), f"{self.where}: num_samples"),
            higher=self.higher,
            lower_bound=lower,
            upper_bound=upper,
            variant=self.split,
            run=self.run,
        )

    def _bound(self, name: str) -> float | None:
        """A bound; the schema writes "Infinity" where there is none."""
        value = self.config.get(name)
        if isinstance(value, str) and value in ("Infinity", "-Infinity"):
            return None
        return as_number(value, f"{self.where}: {name}")


def without_filter(name: str, result_id: str | None) -> tuple[str, str]:
    """Task and filter of ``mgsm_direct_sw/strict-match`` with ``exact_match:strict-match``."""
    task, slash, last = name.rpartition("/")
    if slash and task and last and result_id is not None and result_id.endswith(f":{last}"):
        return task, last
    return name, ""


def several_results(evaluations: Iterable[Entry]) -> set[tuple[str, ...]]:
    """Places at which some record has more than one result, for `Entry.with_distinct_selector`."""
    counts = Counter((e.place, e.model, e.where) for e in evaluations if not e.left_out)
    return {place for (place, _, _), number in counts.items() if number > 1}


def _perturbed(evaluations: Iterable[Entry]) -> list[Dropped]:
    """Evaluations left out, as the reader of HELM's own results leaves them out."""
    excluded = [entry for entry in evaluations if entry.left_out]
    if not excluded:
        return []
    labels = Counter(f"{entry.model}, {entry.task}" for entry in excluded)
    return [Dropped(NOT_TEST_SCORES, tuple(sorted(labels.items())), excluded[0].where)]


def _mapping_or_empty(value: Any) -> Mapping[str, Any]:
    """A JSON object that may be missing."""
    return value if isinstance(value, dict) else {}


def _stated_language(*holders: Mapping[str, Any]) -> str | None:
    """The language where some ``additional_details`` say it."""
    for holder in holders:
        for place in ("additional_details", "details"):
            details = _mapping_or_empty(holder.get(place))
            for key in _LANGUAGE_KEYS:
                languages = _as_languages(details.get(key))
                if languages:
                    return joined_languages(languages)
            language = _scenario_arguments_language(details.get("scenario_args"))
            if language is not None:
                return language
    return None


def _scenario_arguments_language(value: Any) -> str | None:
    """The language among a HELM scenario's arguments, which are JSON within a text."""
    if not isinstance(value, str) or not value.lstrip().startswith("{"):
        return None
    try:
        arguments = json.loads(value)
    except (ValueError, RecursionError):
        return None
    if not isinstance(arguments, dict):
        return None
    return scenario_language({k: v for k, v in arguments.items() if isinstance(v, str)})[0]


def _metric(config: Mapping[str, Any], result_id: str | None = None) -> str:
    """The metric's name, in the tool's own words where results are referred to in these."""
    metric_name = config.get("metric_name")
    # Converters refer to results by the tool's own name: exact_match where the id is exact-match.
    if (
        isinstance(metric_name, str)
        and metric_name.strip()
        and metric_name in (result_id or "").split(":")
    ):
        return metric_name
    for key in ("metric_id", "metric_name", "metric_kind"):
        name = config.get(key)
        if isinstance(name, str) and name.strip():
            # Identifiers are paths in newer versions: "lm_eval/acc".
            return name.rpartition("/")[2] or name
    return "score"


def name_entries(
    evaluations: Sequence[Entry], names: TaskNames, source: str
) -> dict[str, NamedTask | None]:
    """Dataset and language of evaluations by name; a name may be a language itself.

    Raises
    ------
    InputError
        If names do not give a language; the message lists them.
    """
    return name_evaluations((e.task for e in evaluations if e.language is None), names, source)


def name_evaluations(
    tasks: Iterable[str], names: TaskNames, source: str
) -> dict[str, NamedTask | None]:
    """The same for the names alone; an empty dataset where the name is a language."""
    named: dict[str, NamedTask | None] = {}
    unknown: list[str] = []
    for task in dict.fromkeys(tasks):
        if task in names:
            named[task] = names.parse(task)
        elif understand(task) is None:
            unknown.append(task)
        else:
            named[task] = NamedTask("", task)
    return named | names.parse_all(unknown, source)


def entries(record: Mapping[str, Any], where: str) -> list[Entry]:
    """The evaluations of a record.

    Raises
    ------
    InputError
        If the record is not as the schema has it.
    """
    info = as_mapping(record.get("model_info"), f"{where}: model_info")
    model = as_text(info.get("id", info.get("name")), f"{where}: model_info: id")
    time = record.get("evaluation_timestamp") or record.get("retrieved_timestamp") or ""
    results = as_list(record.get("evaluation_results"), f"{where}: evaluation_results")
    return [
        Entry.of(as_mapping(entry, f"{where}: evaluation_results: {i}"), model, str(time), where)
        for i, entry in enumerate(results, start=1)
    ]


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
        total[f"{name}_se"] = _half_interval(score, f"{where}: evaluation_results: {i}")
    yield Evaluated(
        model=as_text(info.get("id", info.get("name")), f"{where}: model_info: id"),
        dataset=as_text(details.get("dataset"), f"{at}: dataset"),
        task=as_text(details.get("task"), f"{at}: task"),
        languages=tuple(_as_languages(details.get("languages"))),
        raw=as_list(raw, f"{at}: raw_results"),
        total=total,
        where=where,
        run=str(record.get("evaluation_timestamp") or record.get("retrieved_timestamp") or ""),
        variant=variant_of(details),
    )


def _half_interval(score: Mapping[str, Any], where: str) -> float | None:
    """EuroEval's ``_se``, of which it makes the ends of an interval."""
    uncertainty = score.get("uncertainty")
    interval = uncertainty.get("confidence_interval") if isinstance(uncertainty, dict) else None
    if not isinstance(interval, dict):
        return None
    ends = [as_number(interval.get(end), f"{where}: {end}") for end in ("lower", "upper")]
    return None if ends[0] is None or ends[1] is None else (ends[1] - ends[0]) / 2


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
