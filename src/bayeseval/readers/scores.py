"""Reduce the numbers that a tool wrote to one score per cell: metric, direction, re-runs.

Evaluation tools write several metrics per task, some better when lower, and a folder often
holds several runs. The load report names what was chosen and what was left out.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from bayeseval._text import Note, counted, shorten
from bayeseval.errors import InputError, argument, did_you_mean, wording
from bayeseval.languages.same import one_label_each
from bayeseval.readers.base import Options, Reading
from bayeseval.readers.raw import Column, Dropped, RawTable, object_array

__all__ = ["Score", "choose", "lower_is_better", "metric_argument", "settle"]

# In this order where a task has several; others come after, as the files have them.
_METRIC_ORDER: Final = (
    *("acc", "accuracy", "exact_match", "em", "macro_f1", "f1", "mcc", "ndcg_at_10", "main_score"),
    *("chrf++", "chrf", "comet", "bleu", "rougeL", "acc_norm"),
)
_FILTERS: Final = ("none", "", "strict-match", "flexible-extract")
_LOWER_IS_BETTER: Final = frozenset(
    [
        *("perplexity", "word_perplexity", "byte_perplexity", "bits_per_byte", "bpb", "ppl"),
        *("ter", "wer", "cer", "brier_score", "ece", "loss", "mse", "mae", "rmse", "error"),
        *("error_rate", "likelihood_diff", "pct_stereotype", "toxicity"),
    ]
)
# Metrics of items that are right or wrong, for cells where no standard error can show it.
_RIGHT_OR_WRONG: Final = frozenset(["acc", "acc_norm", "accuracy", "exact_match", "em"])
# Standard errors are written with 16 digits, scores that were rounded with fewer.
_TOLERANCE: Final = 1e-9


@dataclass(frozen=True, slots=True)
class Score:
    """One number that a tool wrote.

    Parameters
    ----------
    model, dataset, language, metric : str
    value : float or None
        None where the tool wrote that there is none.
    where : str
        File and place, for messages.
    selector : str
        What else is in the tool's key: the filter of lm-evaluation-harness.
    se, n, k : float or None
        Standard error, number of items, number of right ones.
    higher : bool or None
        Whether higher is better; None when the tool does not say.
    lower_bound, upper_bound : float or None
        Where the tool gives both.
    variant : str
        A setting such as ``5-shot`` that makes another task of the dataset.
    run : str
        Sorts the runs of one cell from old to new.
    boot : str or None
        Name of the bootstrap test set.
    rank : int
        Place among the task's metrics where the tool has an order of its own.
    rows : int
        Rows of the table that it represents.
    extra : tuple of (str, str)
        Further columns of its row, such as a seed, with their cells.
    """

    model: str
    dataset: str
    language: str
    metric: str
    value: float | None
    where: str
    selector: str = ""
    se: float | None = None
    n: float | None = None
    k: float | None = None
    higher: bool | None = None
    lower_bound: float | None = None
    upper_bound: float | None = None
    variant: str = ""
    run: str = ""
    boot: str | None = None
    rank: int = 0
    rows: int = 1
    extra: tuple[tuple[str, str], ...] = ()

    @property
    def key(self) -> str:
        """The metric as the user may name it: ``acc``, or ``exact_match,strict-match``."""
        plain = self.selector in ("", "none")
        return self.metric if plain else f"{self.metric},{self.selector}"


def lower_is_better(metric: str) -> bool:
    """Whether a metric of this name is an error or a loss."""
    return metric.casefold() in _LOWER_IS_BETTER


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
    chosen = _with_item_counts(chosen, all_notes)
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
    notes += _bring_to_one_scale(taken, by_dataset, taken.keys() - asked)
    kept: list[Score] = []
    choices: dict[tuple[str, tuple[str, ...]], list[str]] = defaultdict(list)
    for dataset, group in by_dataset.items():
        keys = {score.key for score in group}
        kept += [score for score in group if score.key == taken[dataset]]
        if len(keys) > 1:
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
    """Cells that have other metrics only."""
    cell = {(s.model, s.language): s for s in reversed(scores)}
    for score in scores:
        if score.key == chosen:
            cell.pop((score.model, score.language), None)
    if not cell:
        return []
    return [_dropped(f"no {chosen}, but another metric", list(cell.values()))]


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


def _with_item_counts(scores: list[Score], notes: list[Note]) -> list[Score]:
    """Number of items and of right ones, where the numbers leave no other possibility."""
    with_items = [_with_items(score) for score in scores]
    # One cell whose items were not all right or wrong speaks for its whole dataset.
    confirmed: set[tuple[str, str]] = set()
    refuted: set[tuple[str, str]] = set()
    for score in with_items:
        share = _share(score)
        if share is not None and 0.0 < share < 1.0:
            (refuted if score.k is None else confirmed).add((score.dataset, score.key))
    binary = {
        (s.dataset, s.key)
        for s in with_items
        if s.metric in _RIGHT_OR_WRONG or (s.dataset, s.key) in confirmed
    } - refuted
    result = [s if (s.dataset, s.key) in binary else replace(s, k=None) for s in with_items]
    certain = sum(map(_has_no_spread, result))
    if certain:
        notes.append(
            f"a standard error of 0 was not used in {counted(certain, 'cell')} where all items"
            " are right or all are wrong: it does not measure the uncertainty of the score"
        )
        result = [replace(s, se=None) if _has_no_spread(s) else s for s in result]
    with_k = sum(s.k is not None for s in result)
    if with_k and any(a.k is None and b.k is not None for a, b in zip(scores, result, strict=True)):
        notes.append(
            f"numbers of items and of right answers recovered for {counted(with_k, 'cell')}: exact,"
            " because the scores, standard errors and metrics allow no others"
        )
    return result


def _scale_width(score: Score) -> float:
    """What a score of 1 is in the score's own units: 100 where the tool says 0 to 100."""
    upper = score.upper_bound if score.lower_bound == 0.0 else None
    return 1.0 if upper is None or upper <= 0.0 else upper


def _share(score: Score) -> float | None:
    """The share of right items that a score would be; None if it can be none."""
    share = None if score.value is None else score.value / _scale_width(score)
    return share if share is not None and 0.0 <= share <= 1.0 else None


def _has_no_spread(score: Score) -> bool:
    """Whether the error is zero only because all items are right, or all are wrong."""
    return score.se == 0 and (_share(score) in (0.0, 1.0) or score.value == 100.0)


def _with_items(score: Score) -> Score:
    """``n`` and ``k`` of a mean of zeros and ones.

    The standard error s/sqrt(n) of a mean p of zeros and ones (s on n - 1 degrees of
    freedom) is sqrt(p (1 - p) / (n - 1)); any other values between 0 and 1 with that
    mean have a smaller one. So an equal one shows that all items were right or wrong.
    """
    p, n = _share(score), score.n
    se = None if score.se is None else score.se / _scale_width(score)
    if score.k is not None or p is None:
        return score
    if p in (0.0, 1.0):
        return score if n is None else replace(score, k=float(round(p * n)))
    right = round(p * n) if n is not None else 0
    if se is None and n is not None and score.metric in _RIGHT_OR_WRONG:
        # Nothing to check it with but the name; at least it has to be a whole number.
        return replace(score, k=float(right)) if abs(right - p * n) <= _TOLERANCE * n else score
    if se is None or not se > 0.0:
        return score
    # Divided twice: the square of an absurd error is out of a number's range.
    implied = p * (1.0 - p) / se / se + 1.0
    if math.isinf(implied):
        return score
    items = float(round(implied)) if n is None else n
    right = round(p * items)
    fits = (
        math.isclose(implied, items, rel_tol=1e-6)
        and items >= 2
        and abs(right - p * items) <= _TOLERANCE * items
    )
    return replace(score, n=items, k=float(right)) if fits else score


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
