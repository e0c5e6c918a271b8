"""Results item by item: one metric per dataset and one table per file, from what readers found."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from bayeseval.errors import InputError
from bayeseval.records.raw import Cells, RawTable, object_array
from bayeseval.records.readers.base import Options, Reading
from bayeseval.records.readers.same_language import one_label_each
from bayeseval.records.readers.scores import Score, choose
from bayeseval.records.report import Dropped, shorten

__all__ = ["Items", "settle_items"]


@dataclass(frozen=True, slots=True)
class Items:
    """The items of a file under one metric.

    Parameters
    ----------
    numbers : array of int, shape (n,)
        The line or row of each item, from 1.
    items : array of object, shape (n,)
        Names of the items.
    values : array of object, shape (n,)
        Score of each item, None where there is none.
    """

    numbers: npt.NDArray[np.int64]
    items: Cells
    values: Cells


def settle_items(
    heads: Iterable[Score],
    read: Mapping[str, Mapping[str, Items]],
    *,
    source: str,
    options: Options,
    place: str,
    notes: Sequence[str] = (),
) -> Reading:
    """Tables of the items under the metrics that are chosen.

    Parameters
    ----------
    heads : iterable of Score
        What there is to choose from: one score without a value per file and metric, its
        ``where`` the file.
    read : mapping of str to mapping of str to Items
        The items by file and ``Score.key``.
    source : str
        The file or folder, for messages.
    options : Options
        ``metrics`` overrides the choice of the metric.
    place : str
        What an item's place in its file is called: ``line`` or ``row``.
    notes : sequence of str
        What the reader has to report itself.

    Raises
    ------
    InputError
        If there is nothing, a metric asked for is not there, or one is better when lower.
    """
    said, left_out = list(notes), list[Dropped]()
    chosen = choose(heads, source, options, said, left_out)
    down = sorted({f"{score.dataset} ({score.key})" for score in chosen if not score.higher})
    if down:
        raise InputError(
            f"{source}: lower is better for {shorten(down)}; choose another metric with"
            " --metric DATASET=METRIC"
        )
    labels, matched = one_label_each((score.dataset, score.language) for score in chosen)
    tables = [
        _table(score, labels[score.dataset, score.language], read[score.where], place)
        for score in chosen
    ]
    tables[0] = replace(tables[0], dropped=_in_items(left_out, read))
    return Reading(tuple(tables), (*said, *matched))


def _in_items(
    groups: Sequence[Dropped], read: Mapping[str, Mapping[str, Items]]
) -> tuple[Dropped, ...]:
    """What was left out, counted in items rather than files."""
    some = {path: len(next(iter(found.values())).numbers) for path, found in read.items()}
    return tuple(
        Dropped(g.reason, tuple((name, count * some[g.first]) for name, count in g.counts), g.first)
        for g in groups
    )


def _table(score: Score, language: str, found: Mapping[str, Items], place: str) -> RawTable:
    items = found[score.key]
    same = {
        "model": score.model,
        "language": language,
        "dataset": score.dataset,
        "metric": score.key,
    }
    return RawTable(
        source=score.where,
        place=place,
        numbers=items.numbers,
        columns={
            **{name: object_array([text] * len(items.numbers)) for name, text in same.items()},
            "score": items.values,
            "item": items.items,
        },
    )
