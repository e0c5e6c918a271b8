"""Results item by item: one metric per dataset and one table per file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from bayeseval._text import Note, shorten
from bayeseval.errors import InputError
from bayeseval.languages.same import one_label_each
from bayeseval.readers.base import Options, Reading
from bayeseval.readers.raw import Cells, Dropped, RawTable, object_array
from bayeseval.readers.scores import Score, choose, metric_argument

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
    seeds : array of object, shape (n,), optional
        Repetition of each item (an epoch, a draw of the examples in the prompt), from
        readers that say it for all their files. Read where a dataset has several.
    """

    numbers: npt.NDArray[np.int64]
    items: Cells
    values: Cells
    seeds: Cells | None = None

    @classmethod
    def of(cls, rows: Sequence[tuple[int, str, float | None]]) -> Items:
        """Rows of number, name and value, in columns."""
        return cls(
            np.array([row[0] for row in rows], dtype=np.int64),
            object_array(row[1] for row in rows),
            object_array(row[2] for row in rows),
        )


def settle_items(
    heads: Iterable[Score],
    read: Mapping[str, Mapping[str, Items]],
    *,
    source: str,
    options: Options,
    place: str,
    notes: Sequence[Note] = (),
    dropped: Sequence[Dropped] = (),
) -> Reading:
    """Tables of the items under the metrics that are chosen.

    Parameters
    ----------
    heads : iterable of Score
        What there is to choose from: one score without a value per file and metric, its
        ``where`` the file (with the task, where a file holds several).
    read : mapping of str to mapping of str to Items
        The items by ``Score.where`` and ``Score.key``.
    source : str
        The file or folder, for messages.
    options : Options
        ``metrics`` overrides the choice of the metric.
    place : str
        What an item's place in its file is called: ``line`` or ``row``.
    notes : sequence of str
        Notes of the reader itself.
    dropped : sequence of Dropped
        Items that the reader left out itself.

    Raises
    ------
    InputError
        If there are no scores, a requested metric is missing, or lower is better for one.
    """
    all_notes, left_out = list(notes), list(dropped)
    with_rows = [replace(head, rows=len(read[head.where][head.key].numbers)) for head in heads]
    chosen = choose(with_rows, source, options, all_notes, left_out)
    lower_is_better = sorted(
        {f"{score.dataset} ({score.key})" for score in chosen if not score.higher}
    )
    if lower_is_better:
        raise InputError(
            f"{source}: lower is better for {shorten(lower_is_better)}; choose another metric with"
            f" {metric_argument()}"
        )
    labels, label_notes = one_label_each((score.dataset, score.language) for score in chosen)
    repeated = {s.dataset for s in chosen if _several_seeds(read[s.where][s.key])}
    tables = [
        _table(
            score,
            labels[score.dataset, score.language],
            read[score.where][score.key],
            place,
            with_seeds=score.dataset in repeated,
        )
        for score in chosen
    ]
    tables[0] = replace(tables[0], dropped=tuple(left_out))
    return Reading(tuple(tables), (*all_notes, *label_notes))


def _several_seeds(items: Items) -> bool:
    return items.seeds is not None and len(set(items.seeds.tolist())) > 1


def _table(score: Score, language: str, items: Items, place: str, *, with_seeds: bool) -> RawTable:
    constants = {
        "model": score.model,
        "language": language,
        "dataset": score.dataset,
        "metric": score.key,
    }
    columns: dict[str, Cells] = {
        **{name: object_array([text] * len(items.numbers)) for name, text in constants.items()},
        "score": items.values,
        "item": items.items,
    }
    if with_seeds and items.seeds is not None:
        columns["seed"] = items.seeds
    return RawTable(source=score.where, place=place, numbers=items.numbers, columns=columns)
