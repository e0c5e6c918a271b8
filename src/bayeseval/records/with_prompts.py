"""Scores of cells by prompt or by judge: what the prompts of a task do to its cells."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bayeseval import names
from bayeseval._text import any_of
from bayeseval._typing import Floats
from bayeseval.errors import InputError, wording
from bayeseval.records.coded import combined_key
from bayeseval.records.moments import deviations
from bayeseval.records.table import Records

__all__ = ["ByPrompt", "scores_by_prompt"]

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class ByPrompt:
    """The mean score of each cell with each of its prompts, or by each of its judges.

    Attributes
    ----------
    source : {"prompt", "judge"}
    cell : ndarray of int, shape (n_rows,)
        Cell of each mean, in ascending order.
    prompt : ndarray of int, shape (n_rows,)
        Its prompt: a position in `labels`.
    labels : tuple of str
    score : ndarray of float, shape (n_rows,)
    """

    source: names.Source
    cell: Ints
    prompt: Ints
    labels: tuple[str, ...]
    score: Floats


def scores_by_prompt(records: Records, cell: Ints) -> ByPrompt | None:
    """Average the seeds, bootstraps and items of every cell and prompt.

    Parameters
    ----------
    records : Records
    cell : ndarray of int, shape (n_records,)
        Cell of each record.

    Returns
    -------
    ByPrompt or None
        None for a table without prompts and judges.

    Raises
    ------
    InputError
        If the table has prompts and judges, or the prompts of a cell differ in their seeds,
        bootstraps or items.
    """
    there = [source for source in names.SHARED_SOURCES if source in records.replicate_columns]
    if not there:
        return None
    if len(there) > 1:
        others = [source for source in names.NAMED_SOURCES if source not in there]
        named = [*(one for one in others if one in records.replicate_columns), there[0]]
        raise InputError(
            f"{records.name}: {' and '.join(there)} columns: the noise of one of them is modelled"
            f" at a time; name it in the spec, as sources: [{', '.join(named)}], which averages"
            " the scores over the other, or read the judges as repetitions with "
            + wording("columns={'seed': 'judge'}", "--columns seed=judge")
        )
    (source,) = there
    label = records.replicate_codes(source)
    at = np.flatnonzero(label >= 0)
    key, row = np.unique(combined_key([cell[at], label[at]]), return_inverse=True)
    row = row.reshape(-1)
    first = np.full(len(key), len(at), dtype=np.int64)
    np.minimum.at(first, row, np.arange(len(at)))
    count = np.bincount(row)
    mean, beyond, _ = deviations(row, records.scores[at], len(key))
    codes, example = np.unique(label[at], return_index=True)
    texts = records.table[source].astype(str).to_numpy()[at[example]]
    _refuse_incomplete(records, source, cell, at, count[row])
    return ByPrompt(
        source=source,
        cell=cell[at][first],
        prompt=np.searchsorted(codes, label[at][first]),
        labels=tuple(map(str, texts)),
        score=mean + beyond,
    )


def _refuse_incomplete(
    records: Records, source: names.Source, cell: Ints, at: Ints, n_of_prompt: Ints
) -> None:
    """Refuse a cell one prompt of which has other seeds, bootstraps or items than another."""
    others = [records.replicate_codes(c)[at] for c in ("seed", "boot", "item")]
    n_cells = int(cell.max(initial=-1)) + 1
    key = np.unique(combined_key([cell[at], *others]), return_index=True)[1]
    n_runs = np.bincount(cell[at][key], minlength=n_cells)
    wrong = np.flatnonzero(n_of_prompt != n_runs[cell[at]])
    if not wrong.size:
        return
    row = at[wrong[0]]
    where = ", ".join(f"{f} {records.coords[f][records.codes(f)[row]]!r}" for f in names.FACTORS)
    kinds = [c for c in ("seed", "boot", "item") if c in records.replicate_columns]
    raise InputError(
        f"{records.name}: {where}: its {source}s have not the same {any_of(kinds)} labels; give"
        f" every {source} of a cell the same ones, or average over them with a spec of"
        f" sources: [{source}]"
    )
