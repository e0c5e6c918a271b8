"""Add the noise of prompts, or of judges, to that of the other replicates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from bayeseval import names
from bayeseval._text import counted
from bayeseval.design.noise import Noise, Replicates, Source, mean_by_model
from bayeseval.design.prompts import prompts_by_cell
from bayeseval.design.replicates import LEAST_RATIO, over_models
from bayeseval.records import CellTable

__all__ = ["add_prompts"]


def add_prompts(
    noise: Noise, cells: CellTable, coords: Mapping[str, tuple[str, ...]], *, pool: bool
) -> Noise:
    """Add the noise of prompts or judges, in tasks that have cells with several of them.

    Parameters
    ----------
    noise : Noise
        Of seeds and test sets, from the averages over prompts.
    cells : CellTable
        From :func:`bayeseval.records.reduce_replicates`.
    coords : dict of str to tuple of str
        Labels of the three factors.
    pool : bool
        False: the sd between the prompts of each cell is taken as known, as independent noise
        of the cell.
    """
    scores = cells.by_prompt
    if scores is None:
        return noise
    task, model = cells.codes[names.TASK], cells.codes[names.MODEL]
    count = np.bincount(scores.cell, minlength=len(cells))
    record = np.flatnonzero((count > 0) & np.isin(task, task[count > 1]))
    if not len(record):
        return noise
    count = count[record]
    used = np.isin(scores.cell, record)
    by_cell, own = prompts_by_cell(
        scores.source,
        {factor: codes[record] for factor, codes in cells.codes.items()},
        coords,
        np.searchsorted(record, scores.cell[used]),
        scores.prompt[used],
        scores.labels,
        scores.score[used],
    )
    square = (by_cell.deviation**2).sum(axis=1)
    raw = np.sqrt(np.where(count > 1, square / np.maximum(count - 1, 1), np.nan))
    notes = [*noise.notes, *_notes(scores.source, count, model[record])]
    share = np.zeros(len(cells))
    share[record] = 1.0 / count
    if not pool or not (own > 0.0).any():
        known = np.full(len(cells), np.nan)
        known[record] = raw
        variance = np.zeros(len(cells)) if noise.known_variance is None else noise.known_variance
        return replace(
            noise,
            known_variance=variance + share * np.nan_to_num(known) ** 2,
            known_sds={**noise.known_sds, scores.source: known},
            notes=tuple(notes),
        )
    n_models, of_model = len(coords[names.MODEL]), model[record]
    least = LEAST_RATIO**2 * float(np.median(own[own > 0.0]))
    variance = np.maximum(np.nan_to_num(own), least)
    measured = count > 1
    typical = mean_by_model(variance[measured], of_model[measured], n_models)
    variance = np.where(measured, variance, typical[of_model])
    of_record = np.zeros(len(cells), dtype=np.int64)
    of_record[record] = np.arange(len(record))
    source = Source(
        name=scores.source,
        record=record,
        model=of_model,
        labels=tuple(
            names.cell_label(*(coords[f][cells.codes[f][i]] for f in names.FACTORS)) for i in record
        ),
        of_record=of_record,
        share=share,
        raw_sd=raw,
        log_sd=0.5 * np.log(variance),
        typical_df=float(np.median(count[measured] - 1)),
        centred=False,
        over_models=over_models(of_model[measured], of_model, n_models),
        by_cell=by_cell,
    )
    none = Replicates((), np.empty(0), np.empty(0), {}, {}, None, {})
    others = noise.replicates or none
    return replace(
        noise,
        replicates=replace(others, sources=(*others.sources, source)),
        notes=tuple(notes),
    )


def _notes(source: names.Source, count: np.ndarray, model: np.ndarray) -> list[str]:
    single = count == 1
    if not single.any():
        return []
    number = int(single.sum())
    return [
        f"{counted(number, 'cell')} of a single {source} {'takes' if number == 1 else 'take'} the "
        f"sd between {source}s from the other cells"
    ]
