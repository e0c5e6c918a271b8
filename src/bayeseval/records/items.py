"""What items and bootstraps say about test sets: how cell means vary together, and why."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bayeseval._typing import Floats, Index
from bayeseval.records.coded import combined_key
from bayeseval.records.item_pairs import (
    split_boot_variances,
    split_variances,
    sums_of_task,
)
from bayeseval.records.moments import deviations, first_values
from bayeseval.records.reduced import Reduced
from bayeseval.records.replicates import CellTable
from bayeseval.records.table import Records

__all__ = ["BootVariance", "ItemVariance", "boot_variance", "item_variance"]


@dataclass(frozen=True, eq=False)
class ItemVariance:
    """Variances of cell means that come from the choice of test items.

    Parameters
    ----------
    se : array of float, shape (n_cells,)
        Standard error of each cell's mean by its own items alone (their standard
        deviation with ddof 1 over the root of their number); NaN without items.
    task : array of float, shape (n_tasks,)
        Variance of what all cells of a task share: some test sets are harder for all.
    language_task : array of float, shape (n_tasks,)
        What the cells of one language share beyond that (item x language).
    model_task : array of float, shape (n_tasks,)
        What the cells of one model share beyond that (item x model).
    record : array of float, shape (n_tasks,)
        What is left to each cell alone. All four are in squared score units, already
        divided by the number of items, and NaN for a task without items.

    Notes
    -----
    The covariance of the means of two cells of a task is ``task``, plus
    ``language_task`` when their language is the same, plus ``model_task`` when their
    model is, plus ``record`` for a cell with itself.
    """

    se: Floats
    task: Floats
    language_task: Floats
    model_task: Floats
    record: Floats


@dataclass(frozen=True, eq=False)
class BootVariance:
    """Variances of scores that come from the choice of a test set, from its bootstraps.

    Parameters
    ----------
    task, language_task, model_task, record : array of float, shape (n_tasks,)
        As in :class:`ItemVariance`, of a score on one test set, squared score units; NaN for
        a task without bootstraps. ``record`` includes what a test set does to single seeds.
    """

    task: Floats
    language_task: Floats
    model_task: Floats
    record: Floats


def boot_variance(records: Records, cells: CellTable) -> BootVariance | None:
    """Split the variance between bootstraps by what cells share of their test sets.

    The same ``boot`` label is the same resampled test set in every language and model of a
    task. The score of model m in language l on bootstrap b, averaged over seeds, is

        x_blm = mean_lm + a_b + b_bl + c_bm + d_blm,

    and the covariance between cells of equal labels estimates the variances of a, b and c,
    as :func:`item_variance` does of items.

    Parameters
    ----------
    records : Records
    cells : CellTable
        Of the same records. Cells that lack pairs of seed and bootstrap are left out.

    Returns
    -------
    BootVariance or None
        None when the records have no ``boot`` column. A part is 0 unless its estimate exceeds
        two of the standard errors that it has where all test sets are independent: equal
        labels are often mere numbers of independent resamples.
    """
    if "boot" not in records.replicate_columns:
        return None
    if records.reduced is not None:
        return BootVariance(*records.reduced.parts) if records.reduced.unit == "boot" else None
    cell_of_record = np.repeat(np.arange(len(cells)), cells.n_rows)
    boots = records.replicate_codes("boot")
    balanced = cells.boot.df > 0
    if cells.unbalanced is not None:
        balanced[cells.unbalanced.cell] = False
    used = np.flatnonzero((boots >= 0) & balanced[cell_of_record])
    key = combined_key([cell_of_record[used], boots[used]])
    _, first, group = np.unique(key, return_index=True, return_inverse=True)
    value = _averaged(cell_of_record[used], group, records.scores[used], len(cells))
    cell, boot = cell_of_record[used][first], boots[used][first]
    n = np.bincount(cell, minlength=len(cells))
    *_, centred = deviations(cell, value, len(cells))
    parts = np.full((4, len(records.coords["task"])), np.nan)
    task_of_row = cells.codes["task"][cell]
    for task in np.unique(task_of_row):
        rows = np.flatnonzero(task_of_row == task)
        own, local = np.unique(cell[rows], return_inverse=True)
        _, number = np.unique(boot[rows], return_inverse=True)
        language, model = cells.codes["language"][own], cells.codes["model"][own]
        sums = sums_of_task(local, number, centred[rows], language, model)
        mean_square = np.bincount(local, centred[rows] ** 2) / (n[own] - 1.0)
        parts[:, task] = split_boot_variances(sums, mean_square, language, model)
    parts.flags.writeable = False
    return BootVariance(*parts)


def item_variance(records: Records, cells: CellTable) -> ItemVariance | None:
    """Split the sampling variance of cell means by what cells share of their items.

    The outcome of item i in language l by model m (averaged over seeds) is

        x_ilm = mean_lm + a_i + b_il + c_im + d_ilm,

    a generalisability study of items x languages x models with the means fixed. The same
    label is the same item in every language and model of a task. Item effects are not
    assumed normal: only covariances are used. With n_c items in cell c and n_cd in both c
    and d, the products of deviations from the cells' own means have expectation

        E sum_i (x_ic - x_c)(x_id - x_d) = C n_cd (1 - 1/n_c - 1/n_d + n_cd / (n_c n_d)),

    where C is var(a) for two cells that differ in language and model, var(a) + var(b)
    for one language, var(a) + var(c) for one model, and the sum of all four for a cell
    with itself. Each C is estimated by the pooled products over the pooled factors (with
    complete data: the estimates from the mean squares of the analysis of variance), and
    cov(x_c, x_d) = C n_cd / (n_c n_d), averaged over the pairs of each kind.

    Parameters
    ----------
    records : Records
    cells : CellTable
        Of the same records.

    Returns
    -------
    ItemVariance or None
        None when the records have no ``item`` column. Negative estimates are set to 0.

    Notes
    -----
    Languages with items of their own share none: their part then stands in
    ``language_task``, and ``task`` is 0. Without a second model in any language,
    ``language_task`` cannot be told from ``record`` and is 0; likewise ``model_task``.
    """
    if "item" not in records.replicate_columns:
        return None
    if records.reduced is not None:
        return _of_reduced(records.reduced) if records.reduced.unit == "item" else None
    cell_of_record = np.repeat(np.arange(len(cells)), cells.n_rows)
    items = records.replicate_codes("item")
    has_item = np.flatnonzero(items >= 0)
    # One value per cell and item, in order of cell, then item.
    key = combined_key([cell_of_record[has_item], items[has_item]])
    _, first, group = np.unique(key, return_index=True, return_inverse=True)
    value = _averaged(cell_of_record[has_item], group, records.scores[has_item], len(cells))
    cell, item = cell_of_record[has_item][first], items[has_item][first]
    n = np.bincount(cell, minlength=len(cells)).astype(np.float64)
    *_, centred = deviations(cell, value, len(cells))
    square = np.bincount(cell, centred**2, minlength=len(cells))
    several = n > 1
    se = np.full(len(cells), np.nan)
    se[several] = np.sqrt(square[several] / (n[several] - 1.0) / n[several])

    n_tasks = len(records.coords["task"])
    parts = np.full((4, n_tasks), np.nan)
    task_of_row = cells.codes["task"][cell]
    for task in np.unique(task_of_row):
        rows = np.flatnonzero(task_of_row == task)
        used, local = np.unique(cell[rows], return_inverse=True)
        _, item_in_task = np.unique(item[rows], return_inverse=True)
        language, model = cells.codes["language"][used], cells.codes["model"][used]
        sums = sums_of_task(local, item_in_task, centred[rows], language, model)
        parts[:, task] = split_variances(sums)
    for array in (se, parts):
        array.flags.writeable = False
    return ItemVariance(se, *parts)


def _averaged(cell: Index, unit: Index, scores: Floats, n_cells: int) -> Floats:
    """Mean over seeds of each unit of a cell, less the first score of the cell."""
    beyond = scores - first_values(cell, scores, n_cells)[cell]
    return np.asarray(np.bincount(unit, beyond) / np.bincount(unit))


def _of_reduced(reduced: Reduced) -> ItemVariance:
    """Of items whose rows were summed while they were read."""
    n = reduced.count
    se = np.full(len(n), np.nan)
    several = n > 1
    se[several] = np.sqrt(reduced.square[several] / (n[several] - 1.0) / n[several])
    se.flags.writeable = False
    return ItemVariance(se, *reduced.parts)
