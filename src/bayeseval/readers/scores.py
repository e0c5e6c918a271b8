"""Reduce the numbers that a tool wrote to one score per cell: metric, direction, re-runs.

Evaluation tools write several metrics per task, some better when lower, and a folder often
holds several runs. The load report names what was chosen and what was left out.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from bayeseval._text import Note, shorten
from bayeseval.errors import InputError, argument, did_you_mean, wording
from bayeseval.languages.same import one_label_each
from bayeseval.readers.base import Options, Reading
from bayeseval.readers.item_counts import with_item_counts
from bayeseval.readers.measures import lower_is_better
from bayeseval.readers.raw import Column, Dropped, RawTable, object_array
from bayeseval.readers.score import Score

__all__ = ["Score", "choose", "metric_argument", "settle"]

# In this order where a task has several; others come after, as the files have them.
_METRIC_ORDER: Final = (
    *("acc", "accuracy", "exact_match", "em", "macro_f1", "f1", "mcc", "ndcg_at_10", "main_score"),
    *("chrf++", "chrf", "comet", "bleu", "rougeL", "acc_norm"),
)
_FILTERS: Final = ("none", "", "strict-match", "flexible-extract")


def settle(
    scores: Iterable[Score],
    *,
    source: str,
    options: Options,
    place: str = "score",
    notes: Sequence[Note] = (),
    dropped: Sequence[Dropped] = (),
) -> Reading:
    """One table from all that was read; `source` is the file or folder, for messages.

    Parameters
    ----------
    scores : iterable of Score
    source : str
    options : Options
        ``metrics`` overrides the choice of the metric.
    place : str
        What one score is called in messages.
    notes, dropped
        Notes and omissions of the reader itself.

    Raises
    ------
    InputError
        If there are no scores, a requested metric is missing, or a metric for which lower
        is better has no bounds.
    """
    all_notes = list(notes)
    left_out = list(dropped)
    chosen = choose(scores, source, options, all_notes, left_out)
    chosen = _mirror_lower_is_better(chosen, source, all_notes)
    chosen = with_item_counts(chosen, all_notes)
    labels, label_notes = one_label_each((score.dataset, score.language) for score in chosen)
    all_notes += label_notes
    return Reading((_table(chosen, labels, source, place, left_out),), tuple(all_notes))


def choose(
    scores: Iterable[Score],
    source: str,
    options: Options,
    notes: list[Note],
    left_out: list[Dropped],
) -> list[Score]:
    """Scores of one metric per dataset and of the newest run per cell.

    What was chosen goes to `notes`, what was left out to `left_out`.

    Raises
    ------
    InputError
        If there are no scores, or a requested metric is missing.
    """
    chosen = [_with_direction(score) for score in scores]
    if not chosen:
        raise InputError(f"{source}: no scores to read")
    chosen = _named_variants(chosen)
    chosen = _chosen_metric(chosen, source, options, notes, left_out)
    return _newest(chosen, left_out)


def _with_direction(score: Score) -> Score:
    if score.higher is None:
        return replace(score, higher=not lower_is_better(score.metric))
    return score


def _named_variants(scores: list[Score]) -> list[Score]:
    """Settings become part of the dataset's name where it has several."""
    variants: dict[str, set[str]] = defaultdict(set)
    for score in scores:
        variants[score.dataset].add(score.variant)
    several = {dataset for dataset, names in variants.items() if len(names) > 1}
    return [
        replace(score, dataset=f"{score.dataset} ({score.variant})")
        if score.dataset in several and score.variant
        else score
        for score in scores
    ]


def _chosen_metric(
    scores: list[Score],
    source: str,
    options: Options,
    notes: list[Note],
    left_out: list[Dropped],
) -> list[Score]:
    by_dataset: dict[str, list[Score]] = defaultdict(list)
    for score in scores:
        by_dataset[score.dataset].append(score)
    unused = set(options.metrics) - {"*"} - set(by_dataset)
    if unused:
        name = min(unused)
        raise InputError(
            f"{source}: {argument('metric')} names the dataset {name!r}, which the results lack"
            f"{did_you_mean(name, by_dataset)} (datasets: {shorten(sorted(by_dataset), limit=12)})"
        )
    named = {d: options.metrics.get(d) or options.metrics.get("*", "") for d in by_dataset}
    asked = {dataset: name for dataset, name in named.items() if name}
    taken = {dataset: _main_metric(group) for dataset, group in by_dataset.items()}
    taken |= {d: _requested_metric(name, by_dataset[d], d, source) for d, name in asked.items()}
    before = dict(taken)
    notes += _bring_to_one_scale(taken, by_dataset, taken.keys() - asked)
    kept: list[Score] = []
    choices: dict[tuple[str, tuple[str, ...]], list[str]] = defaultdict(list)
    for dataset, group in by_dataset.items():
        keys = {score.key for score in group}
        kept += [score for score in group if score.key == taken[dataset]]
        # Of a metric that was changed for its scale, it has been told.
        if len(keys) > 1 and taken[dataset] == before[dataset]:
            choices[taken[dataset], tuple(sorted(keys - {taken[dataset]}))].append(dataset)
        left_out += _cells_without(group, taken[dataset])
    for (key, others), datasets in choices.items():
        notes.append(
            f"metric {key} taken for {shorten(datasets, limit=6)}"
            f" (also there: {shorten(others, limit=6)}); choose another with {argument('metric')}"
        )
    return kept


def metric_argument(dataset: str | None = None) -> str:
    """How messages name the choice of a metric for one dataset."""
    python = "DATASET" if dataset is None else repr(dataset)
    return wording(f"metric={{{python}: METRIC}}", f"--metric {dataset or 'DATASET'}=METRIC")


def _requested_metric(requested: str, scores: Sequence[Score], dataset: str, source: str) -> str:
    keys = list(dict.fromkeys(score.key for score in scores))
    wanted = requested.removesuffix(",none")
    matching = [key for key in keys if key == wanted] or [
        key for key in keys if key.partition(",")[0] == wanted
    ]
    if not matching:
        raise InputError(
            f"{source}: dataset {dataset!r} has no metric {requested!r}"
            f"{did_you_mean(requested, keys)} (metrics: {shorten(sorted(keys), limit=12)});"
            f" choose one for it with {metric_argument(dataset)}"
        )
    return min(matching, key=lambda key: _rank_in(_FILTERS, key.partition(",")[2]))


def _cells(scores: Sequence[Score]) -> dict[str, set[tuple[str, str]]]:
    """The cells with a value, by metric."""
    cells: dict[str, set[tuple[str, str]]] = {score.key: set() for score in scores}
    for score in (own for own in scores if own.value is not None):
        cells[score.key].add((score.model, score.language))
    return cells


def _main_metric(scores: Sequence[Score]) -> str:
    """The metric that most cells have, higher-is-better first, then in our order."""
    cells, first = _cells(scores), {score.key: score for score in reversed(scores)}

    def order(key: str) -> tuple[bool, int, int, int, int]:
        score = first[key]
        return (
            not (score.higher and cells[key]),
            -len(cells[key]),
            score.rank,
            _rank_in(_METRIC_ORDER, score.metric),
            _rank_in(_FILTERS, score.selector),
        )

    return min(cells, key=order)


def _bring_to_one_scale(
    taken: dict[str, str], groups: Mapping[str, Sequence[Score]], free: Collection[str]
) -> list[str]:
    """Change metrics in `taken` that are on another scale than most, where all can be on one.

    Scores from 0 to 1 and from 0 to 100 cannot be added up, and the table could not be fitted.
    """
    widths = {d: _width([s for s in groups[d] if s.key == key]) for d, key in taken.items()}
    counts = Counter(width for width in widths.values() if width)
    for width, _ in sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])):
        others = [d for d, own in widths.items() if own not in (None, width)]
        better = {d: _on_scale(groups[d], taken[d], width) for d in others if d in free}
        found = {dataset: key for dataset, key in better.items() if key}
        if found and len(found) == len(others):
            changes = [f"{key} for {d}, not {taken[d]}" for d, key in found.items()]
            taken |= found
            return [
                f"metric {shorten(changes)}: it is on the scale of the others (0-{width}); choose"
                f" another with {argument('metric')}"
            ]
    return []


def _on_scale(scores: Sequence[Score], chosen: str, width: int) -> str | None:
    """The main one of the metrics of a dataset on a scale that have all cells of `chosen`."""
    cells = _cells(scores)
    fitting: list[Score] = []
    for key, own in cells.items():
        group = [score for score in scores if score.key == key and score.higher]
        if own >= cells[chosen] and _width(group) == width:
            fitting += group
    return _main_metric(fitting) if fitting else None


def _width(scores: Sequence[Score]) -> int | None:
    """1 or 100, for scores from 0 to that; None for others, and where there is no value."""
    values = [score.value for score in scores if score.value is not None]
    largest = max((*values, *(score.upper_bound or 0.0 for score in scores)), default=0.0)
    if not values or min(values) < 0.0:
        return None
    return 1 if largest <= 1.0 else 100 if largest <= 100.0 else None


def _rank_in(order: Sequence[str], name: str) -> int:
    return order.index(name) if name in order else len(order)


def _cells_without(scores: Sequence[Score], chosen: str) -> list[Dropped]:
    """Cells that have other metrics only, or nothing but nulls in them."""
    cell = {(s.model, s.language): s for s in reversed(scores)}
    cell |= {(s.model, s.language): s for s in reversed(scores) if s.value is not None}
    for score in scores:
        if score.key == chosen:
            cell.pop((score.model, score.language), None)
    others = [score for score in cell.values() if score.value is not None]
    empty = [score for score in cell.values() if score.value is None]
    reasons = {f"no {chosen}, but another metric": others, "missing score": empty}
    return [_dropped(reason, own) for reason, own in reasons.items() if own]


def _dropped(reason: str, scores: Sequence[Score]) -> Dropped:
    counts: Counter[str] = Counter()
    for score in scores:
        counts[f"{score.model}, {score.language}, {score.dataset}"] += score.rows
    return Dropped(reason, tuple(sorted(counts.items())), scores[0].where)


def _mirror_lower_is_better(scores: list[Score], source: str, notes: list[Note]) -> list[Score]:
    """Scores that are better when lower, mirrored in their bounds."""
    lower_is_better = [score for score in scores if not score.higher]
    if not lower_is_better:
        return scores
    unbounded = {
        f"{score.dataset} ({score.key})"
        for score in lower_is_better
        if score.lower_bound is None or score.upper_bound is None
    }
    if unbounded:
        raise InputError(
            f"{source}: lower is better for {shorten(sorted(unbounded))}, and the scores cannot be"
            " turned round without bounds; choose another metric with"
            f" {metric_argument()}, or leave the task out"
        )
    notes.append(
        "turned round, because lower is better (score = lower bound + upper bound - value): "
        + shorten(sorted({f"{score.dataset}:{score.key}" for score in lower_is_better}))
    )
    return [score if score.higher else _mirrored(score) for score in scores]


def _mirrored(score: Score) -> Score:
    if score.value is None or score.lower_bound is None or score.upper_bound is None:
        return replace(score, higher=True)
    turned = score.lower_bound + score.upper_bound - score.value
    name = f"{score.metric} (turned round)"
    return replace(score, metric=name, value=turned, higher=True, k=None)


def _newest(scores: list[Score], left_out: list[Dropped]) -> list[Score]:
    """Of several runs of a cell, the newest."""
    newest: dict[tuple[str, str, str], str] = {}
    for score in scores:
        cell = (score.model, score.dataset, score.language)
        newest[cell] = max(newest.get(cell, ""), score.run)
    kept: list[Score] = []
    old: list[Score] = []
    for score in scores:
        current = newest[score.model, score.dataset, score.language] == score.run
        (kept if current else old).append(score)
    if old:
        left_out.append(_dropped("older run of the same cell", old))
    return kept


def _table(
    scores: Sequence[Score],
    labels: Mapping[tuple[str, str], str],
    source: str,
    place: str,
    left_out: Sequence[Dropped],
) -> RawTable:
    columns: dict[str, Column] = {
        "model": object_array(s.model for s in scores),
        "language": object_array(labels[s.dataset, s.language] for s in scores),
        "dataset": object_array(s.dataset for s in scores),
        "metric": object_array(s.key for s in scores),
        "score": object_array(s.value for s in scores),
    }
    for name in ("n", "k", "se", "boot"):
        values = [getattr(s, name) for s in scores]
        if any(value is not None for value in values):
            columns[name] = object_array(values)
    for name in dict.fromkeys(name for s in scores for name, _ in s.extra):
        columns[name] = object_array(dict(s.extra).get(name) for s in scores)
    bounds = [(s.lower_bound, s.upper_bound) for s in scores]
    if any(b != (None, None) for b in bounds):
        columns["scale_min"] = object_array(b[0] for b in bounds)
        columns["scale_max"] = object_array(b[1] for b in bounds)
    return RawTable(
        source=source,
        place=place,
        numbers=np.arange(1, len(scores) + 1),
        columns=columns,
        where=tuple(s.where for s in scores),
        dropped=tuple(left_out),
    )
