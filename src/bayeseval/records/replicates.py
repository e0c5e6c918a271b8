"""Replicate rows and their summaries reduced to one cell per model, language and task."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

import numpy as np
import numpy.typing as npt

from bayeseval._text import counted
from bayeseval._typing import Floats
from bayeseval.names import FACTORS, Factor
from bayeseval.records.coded import combined_key
from bayeseval.records.reduced import Reduced
from bayeseval.records.strata import Stratum, frozen
from bayeseval.records.table import Records
from bayeseval.records.unbalanced import Unbalanced, collect_unbalanced, sums
from bayeseval.records.with_prompts import ByPrompt, scores_by_prompt

__all__ = ["CellTable", "reduce_replicates"]

Ints = npt.NDArray[np.int64]

_NO_VALUE: Final = -1


@dataclass(frozen=True, eq=False)
class CellTable:
    """One entry per model, language and task that has a score, in the records' order.

    Parameters
    ----------
    codes : mapping of str to array of int, shape (n_cells,)
        Position of each cell's ``language``, ``task`` and ``model`` in ``Records.coords``.
    first : array of int, shape (n_cells,)
        Position of the cell's first record.
    n_rows : array of int, shape (n_cells,)
        Records of the cell.
    mean : array of float, shape (n_cells,)
        The plain mean over seeds of the score averaged over boots (over items first).
    n_seeds : array of float, shape (n_cells,)
        Seeds that `mean` averages; 0 where nothing is known about seeds.
    n_boot : array of float, shape (n_cells,)
        Bootstrap test sets that `mean` averages; 0 where it stands on the test set itself.
    boot_square, pair_square : array of float, shape (n_cells,)
        Sums of the squared weights that `mean` gives to the boots, and to the pairs of
        seed and boot: 1 / B and 1 / (S B) in a complete cell; 0 without boots.
    n_items : array of float, shape (n_cells,)
        Test items: distinct ``item`` labels, else the column ``n``; NaN where unknown.
    se : array of float, shape (n_cells,)
        Known standard error (root mean square over the cell's records); NaN where none
        is given or where boots say the same.
    seed, boot, cross : Stratum
        Mean squares between seeds, between boots, and of their product.
    unbalanced : Unbalanced or None
        Sums for cells where some (seed, boot) pairs are missing. Their strata are empty.
    notes : tuple of str
        Where one of two statements of the same thing was used, and where a standard
        deviation was taken as exact.
    by_prompt : ByPrompt or None
        Scores by prompt or judge, over which the mean and the strata are averages.
    """

    codes: Mapping[Factor, Ints]
    first: Ints
    n_rows: Ints
    mean: Floats
    n_seeds: Floats
    n_boot: Floats
    boot_square: Floats
    pair_square: Floats
    n_items: Floats
    se: Floats
    seed: Stratum
    boot: Stratum
    cross: Stratum
    unbalanced: Unbalanced | None
    notes: tuple[str, ...]
    by_prompt: ByPrompt | None = None

    def __len__(self) -> int:
        return len(self.mean)

    @property
    def n_prompts(self) -> Floats:
        """Prompts (or judges) that the mean of each cell averages; NaN where it has none."""
        if self.by_prompt is None:
            return np.full(len(self), np.nan)
        count = np.bincount(self.by_prompt.cell, minlength=len(self))
        return np.where(count > 0, count, np.nan)

    @property
    def has_replicates(self) -> bool:
        """Whether anything is known about seeds or test sets, beyond a known ``se``."""
        known = any(bool((s.df > 0).any()) for s in (self.seed, self.boot, self.cross))
        return known or self.unbalanced is not None or self.by_prompt is not None


def reduce_replicates(records: Records) -> CellTable:
    """Reduce replicates to sufficient statistics; the result's size is that of the cells.

    A test set moves all seeds by a common amount (variance tau^2) and each seed by its own
    (omega^2). That holds for the test set at hand, one draw from those that might have
    been, and again for its bootstraps, which resample it. So the score of seed s on the
    bootstrap b (shared by the seeds) is

        x_sb = m + e_s + (t + w_s) + (t_b + w_sb),

    with the variances sigma^2 of e_s, tau^2 of t and t_b, omega^2 of w_s and w_sb. A
    complete cell of S seeds and B boots is summed up by its mean and by

        SS_seed  = sum_s  (x_s. - x..)^2               on S-1 degrees of freedom,
        SS_boot  = sum_b  (x_.b - x..)^2               on B-1,
        SS_cross = sum_sb (x_sb - x_s. - x_.b + x..)^2  on (S-1)(B-1),

    whose expected mean squares are sigma^2 + omega^2 (1 + 1/B), tau^2 + omega^2/S and
    omega^2. The variance of the mean is (sigma^2 + omega^2 (1 + 1/B)) / S
    + tau^2 (1 + 1/B).

    Parameters
    ----------
    records : Records
        Tasks may differ in what they have: replicate rows, summaries, a known ``se``,
        or a score alone.

    Returns
    -------
    CellTable
        All arrays are read-only.

    Notes
    -----
    - Items are the test set itself: on n of them, the same for S seeds, the seeds' mean
      square is sigma^2 + omega^2, and omega^2 is the seed x item mean square over n, on
      (S-1)(n-1). Where seeds have different items omega^2 stays in the seeds' part.
    - Seeds without boots: the mean square between seeds holds sigma^2 + omega^2 (the test
      set at hand), which is what the weight 1 in ``seed.interaction`` says.
    - Boots of one run: their mean square holds tau^2 + omega^2; boots of the mean of S
      seeds, with S in ``n_seeds`` alone: tau^2 + omega^2 / S.
    - ``seed_sd`` on ``n_seeds`` is a mean square on n_seeds - 1 degrees of freedom, and
      exact without ``n_seeds``; ``boot_sd`` likewise with ``n_boot``. On several records
      of a cell (a ``boot_sd`` for each seed) the mean of the squares is used, on the
      degrees of freedom of one, because the seeds share the bootstrap test sets.
    - Two or more replicates win over a summary, boots win over ``se``.

    The variance decomposition is that of "From tests to effect sizes" (section 3.2); the
    product e_sb, which it leaves in both parts, has a name of its own here.
    """
    rows = _Rows.of(records)
    cells = rows.cells
    notes: list[str] = []
    n = len(rows.first)
    seeds = _Groups.of(cells, rows.seed, n)
    boots = _Groups.of(cells, rows.boot, n)
    n_pairs = np.bincount(cells, minlength=n)
    crossed = (seeds.count > 0) & (boots.count > 0)
    complete = ~crossed | (seeds.count * boots.count == n_pairs)

    # Scores are less the first one of their cell here, so that sums keep their digits.
    centre = sums(cells, rows.score, n) / n_pairs
    centred = rows.score - centre[cells]
    seed_mean = seeds.means(centred)
    # Cells without seeds (or whose rows are complete) have the plain mean.
    shift = np.where(seeds.count > 0, seeds.sum(seed_mean) / np.maximum(seeds.count, 1), 0.0)
    mean = centre + np.where(complete, 0.0, shift)

    column = _Columns(records, rows)
    given_seeds = column.smallest("n_seeds")
    n_seeds = np.where(seeds.count > 0, seeds.count, np.nan_to_num(given_seeds))
    boot_square, pair_square = _squared_weights(cells, seeds, boots, n_seeds, complete)
    weights = 1.0 + boot_square, 1.0 / np.maximum(n_seeds, 1.0)
    seed, boot, cross = _strata(rows, centred, seed_mean, seeds, boots, complete, weights)
    by_rows = (seed.df > 0) | ~complete, (boot.df > 0) | ~complete
    seed = _with_summary(seed, column, "seed_sd", given_seeds, by_rows[0], notes, what="seed rows")
    boot = _with_summary(
        boot, column, "boot_sd", column.smallest("n_boot"), by_rows[1], notes, what="boot rows"
    )
    se = column.root_mean_square("se")
    doubled = np.isfinite(se) & ((boot.df > 0) | ~complete)
    if doubled.any():
        notes.append(
            f"se not used in {counted(int(doubled.sum()), 'cell')} whose boots measure it already"
        )
    unbalanced = collect_unbalanced(
        np.flatnonzero(~complete), cells, seeds.position, boots.of_row, rows.score, mean
    )
    if unbalanced is not None:
        at = unbalanced.cell
        unbalanced = replace(unbalanced, centre=frozen(rows.origin[at] + unbalanced.centre))
    table = CellTable(
        codes=MappingProxyType({f: frozen(records.codes(f)[rows.first]) for f in FACTORS}),
        first=frozen(rows.first),
        n_rows=frozen(rows.n_rows),
        mean=frozen(rows.origin + mean),
        n_seeds=frozen(n_seeds.astype(np.float64)),
        n_boot=frozen(boots.count.astype(np.float64)),
        boot_square=frozen(boot_square),
        pair_square=frozen(pair_square),
        n_items=frozen(np.where(rows.n_items > 0, rows.n_items, column.smallest("n"))),
        se=frozen(np.where(doubled, np.nan, se)),
        seed=seed,
        boot=boot,
        cross=cross,
        unbalanced=unbalanced,
        by_prompt=scores_by_prompt(records, rows.cell_of_record),
        notes=tuple(notes),
    )
    return table if records.reduced is None else _with_reduced(table, records.reduced)


def _with_reduced(table: CellTable, reduced: Reduced) -> CellTable:
    """What rows say that were reduced before they became records, each with one label for all."""
    has, count = reduced.count > 0, np.maximum(reduced.count, 1.0)
    per_seed = np.maximum(table.n_seeds, 1.0)
    cross = Stratum.of(
        np.where(has, reduced.cross, table.cross.sum_of_squares),
        np.where(has, reduced.cross_df, table.cross.df),
        np.ones(len(table)),
    )
    # The scores of seeds have fewer digits than their sum of squares has.
    of_seeds = reduced.seed / np.maximum(table.seed.df, 1.0)
    mean_square = np.where(has & (table.n_rows > 1), of_seeds, table.seed.mean_square)
    seed = replace(table.seed, mean_square=frozen(mean_square))
    if reduced.unit == "item":
        n_items = np.where(has, reduced.count, table.n_items)
        return replace(table, n_items=frozen(n_items), seed=seed, cross=cross)
    boot = Stratum.of(
        np.where(has, reduced.square, table.boot.sum_of_squares),
        np.where(has, reduced.count - 1.0, table.boot.df),
        np.where(has, 1.0 / per_seed, table.boot.interaction),
    )
    # A published sd of seeds, whose weight is 1, is that of one test set.
    of_rows = has & (table.seed.interaction != 1.0)
    weight = np.where(of_rows, 1.0 + 1.0 / count, table.seed.interaction)
    return replace(
        table,
        n_boot=frozen(np.where(has, reduced.count, table.n_boot)),
        boot_square=frozen(np.where(has, 1.0 / count, table.boot_square)),
        pair_square=frozen(np.where(has, 1.0 / count / per_seed, table.pair_square)),
        seed=replace(seed, interaction=frozen(weight)),
        boot=boot,
        cross=cross,
    )


@dataclass(frozen=True, eq=False)
class _Rows:
    """One row per cell, seed and boot (prompts, then items averaged out), in canonical order.

    `score` is less `origin`, the first score of the cell.
    """

    cells: Ints
    seed: Ints
    boot: Ints
    score: Floats
    origin: Floats
    first: Ints
    n_rows: Ints
    n_items: Floats
    cell_of_record: Ints
    items: _Items | None

    @classmethod
    def of(cls, records: Records) -> _Rows:
        """Records are sorted by cell, seed, boot, item and prompt, so groups are runs of rows."""
        keys = [records.codes(factor) for factor in FACTORS]
        starts = _starts(keys)
        cell_of_record = np.cumsum(starts) - 1
        first = np.flatnonzero(starts).astype(np.int64)
        labels = [records.replicate_codes(name) for name in ("seed", "boot", "item")]
        origin = records.scores[first]
        beyond = records.scores - origin[cell_of_record]
        cell, score, (seed, boot, item) = _averaged([cell_of_record, *labels], beyond)
        n_items, items = np.zeros(len(first)), None
        if "item" in records.replicate_columns:
            n_items = _Groups.of(cell, item, len(first)).count.astype(np.float64)
            row = np.cumsum(_starts([cell, seed, boot])) - 1
            items = _Items(cell, item, row, score)
            cell, score, (seed, boot) = _averaged([cell, seed, boot], score)
        return cls(
            cells=cell,
            seed=seed,
            boot=boot,
            score=score,
            origin=origin,
            first=first,
            n_rows=np.diff(first, append=len(records)).astype(np.int64),
            n_items=n_items,
            cell_of_record=cell_of_record,
            items=items,
        )

    def item_squares(self, seeds: _Groups, boots: _Groups) -> tuple[Floats, Floats] | None:
        """Seed x item sums of squares over n, with their degrees of freedom, by cell."""
        if self.items is None or (seeds.count < 2).all():
            return None
        n = len(self.first)
        complete = np.flatnonzero((seeds.count > 1) & (boots.count == 0) & (self.n_items > 1))
        size = seeds.count * self.n_items
        n_rows = np.bincount(self.items.cell, minlength=n)
        complete = complete[n_rows[complete] == size[complete]]
        chosen = np.zeros(n, dtype=np.bool_)
        chosen[complete] = True
        at = np.flatnonzero(chosen[self.items.cell] & (self.items.item >= 0))
        cell, row = self.items.cell[at], self.items.row[at]
        # Off the seed's mean first: what is left of an item is its mean over seeds.
        value = self.items.score[at] - self.score[row]
        _, item = np.unique(combined_key([cell, self.items.item[at]]), return_inverse=True)
        mean = sums(item, value, int(item.max(initial=-1)) + 1) / np.maximum(np.bincount(item), 1)
        squares = sums(cell, (value - mean[item]) ** 2, n)
        df = np.where(chosen, (seeds.count - 1.0) * (self.n_items - 1.0), 0.0)
        return squares / np.maximum(self.n_items, 1.0), df


@dataclass(frozen=True, eq=False)
class _Items:
    """Outcomes of test items: their cell and item, and the row that each is averaged into."""

    cell: Ints
    item: Ints
    row: Ints
    score: Floats


def _averaged(keys: list[Ints], score: Floats) -> tuple[Ints, Floats, list[Ints]]:
    """Mean of each run of equal keys; the first key of each run, the means, the other keys."""
    starts = _starts(keys)
    if starts.all():
        return keys[0], score, keys[1:]
    run, picked = np.cumsum(starts) - 1, np.flatnonzero(starts)
    cell, *others = (key[picked] for key in keys)
    return cell, np.bincount(run, score) / np.bincount(run), others


def _starts(keys: list[Ints]) -> npt.NDArray[np.bool_]:
    """Mask of rows where any of the keys differs from the row before."""
    new = np.zeros(len(keys[0]), dtype=np.bool_)
    new[:1] = True
    for key in keys:
        new[1:] |= key[1:] != key[:-1]
    return new


@dataclass(frozen=True, eq=False)
class _Groups:
    """Levels of one replicate column within each cell.

    `of_row` is the group of each row (0 where it has no level, never used there),
    `cell` the cell of each group, `count` the groups of each cell, and `position` the
    place of each row's group within its cell.
    """

    of_row: Ints
    cell: Ints
    count: Ints
    position: Ints
    labelled: npt.NDArray[np.bool_]

    @classmethod
    def of(cls, cells: Ints, level: Ints, n_cells: int) -> _Groups:
        labelled = level != _NO_VALUE
        width = int(level.max(initial=0)) + 1
        key = cells[labelled] * width + level[labelled]
        groups, inverse = np.unique(key, return_inverse=True)
        of_row = np.zeros(len(cells), dtype=np.int64)
        of_row[labelled] = inverse
        cell = groups // width
        count = np.bincount(cell, minlength=n_cells)
        start = np.cumsum(count) - count
        position = of_row - start[cells]
        return cls(of_row, cell, count, np.where(labelled, position, _NO_VALUE), labelled)

    def means(self, values: Floats) -> Floats:
        """Mean of `values` in each group."""
        picked = self.of_row[self.labelled]
        size = len(self.cell)
        total = sums(picked, values[self.labelled], size)
        return total / np.maximum(np.bincount(picked, minlength=size), 1)

    def sum(self, values: Floats) -> Floats:
        """Sum over the groups of each cell."""
        return sums(self.cell, values, len(self.count))


class _Columns:
    """Optional numbers of the records, cell by cell."""

    def __init__(self, records: Records, rows: _Rows) -> None:
        self._records = records
        self._cell = rows.cell_of_record
        self._n = len(rows.first)

    def _given(self, name: str) -> tuple[Ints, Floats]:
        values = self._records.numbers(name)
        is_given = np.isfinite(values)
        return self._cell[is_given], values[is_given]

    def smallest(self, name: str) -> Floats:
        """The smallest value given in each cell; NaN where there is none."""
        smallest_value = np.full(self._n, np.inf)
        cell, values = self._given(name)
        np.minimum.at(smallest_value, cell, values)
        return np.where(np.isinf(smallest_value), np.nan, smallest_value)

    def root_mean_square(self, name: str) -> Floats:
        """Root of the mean square of the values given in each cell; NaN where none is."""
        cell, values = self._given(name)
        total = sums(cell, values**2, self._n)
        count = np.bincount(cell, minlength=self._n)
        return np.sqrt(np.where(count > 0, total / np.maximum(count, 1), np.nan))


def _squared_weights(
    cells: Ints, seeds: _Groups, boots: _Groups, n_seeds: Floats, complete: npt.NDArray[np.bool_]
) -> tuple[Floats, Floats]:
    """Sums of squared weights of boots and of pairs in the mean of each cell."""
    n = len(n_seeds)
    by_boot = np.where(boots.count > 0, 1.0 / np.maximum(boots.count, 1.0), 0.0)
    by_pair = by_boot / np.maximum(n_seeds, 1.0)
    rows = np.flatnonzero(~complete[cells])
    if len(rows):
        # Every seed counts alike, and so do the boots that a seed has.
        size = np.bincount(seeds.of_row[seeds.labelled], minlength=len(seeds.cell))
        weight = 1.0 / (seeds.count[cells[rows]] * size[seeds.of_row[rows]])
        of_boot = sums(boots.of_row[rows], weight, len(boots.cell))
        by_boot = np.where(complete, by_boot, boots.sum(of_boot**2))
        by_pair = np.where(complete, by_pair, sums(cells[rows], weight**2, n))
    return by_boot, by_pair


def _strata(
    rows: _Rows,
    centred: Floats,
    seed_mean: Floats,
    seeds: _Groups,
    boots: _Groups,
    complete: npt.NDArray[np.bool_],
    weights: tuple[Floats, Floats],
) -> tuple[Stratum, Stratum, Stratum]:
    """Mean squares of seeds, boots and their product; `weights` of omega^2 in the first two."""
    cells, n = rows.cells, len(rows.first)
    boot_mean = boots.means(centred)
    two_way = complete & (seeds.count > 1) & (boots.count > 1)
    residual = np.zeros(len(centred))
    picked = two_way[cells]
    residual[picked] = (
        centred[picked] - seed_mean[seeds.of_row[picked]] - boot_mean[boots.of_row[picked]]
    )
    ss_cross = sums(cells, residual**2, n)
    seed_df = np.where(complete, np.maximum(seeds.count - 1.0, 0.0), 0.0)
    boot_df = np.where(complete, np.maximum(boots.count - 1.0, 0.0), 0.0)
    cross_df = np.where(two_way, seed_df * boot_df, 0.0)
    by_item = rows.item_squares(seeds, boots)
    if by_item is not None:
        ss_cross, cross_df = ss_cross + by_item[0], cross_df + by_item[1]
    return (
        Stratum.of(seeds.sum(seed_mean**2), seed_df, weights[0]),
        Stratum.of(boots.sum(boot_mean**2), boot_df, weights[1]),
        Stratum.of(ss_cross, cross_df, np.ones(n)),
    )


def _with_summary(
    stratum: Stratum,
    column: _Columns,
    name: str,
    replicates: Floats,
    by_rows: npt.NDArray[np.bool_],
    notes: list[str],
    *,
    what: str,
) -> Stratum:
    """Standard deviations given as such, where the rows have no replicates of their own."""
    sd = column.root_mean_square(name)
    doubled = np.isfinite(sd) & by_rows
    if doubled.any():
        notes.append(f"{name} not used in {counted(int(doubled.sum()), 'cell')} that have {what}")
    use = np.isfinite(sd) & ~by_rows
    exact = use & np.isnan(replicates)
    if exact.any():
        number = {"seed_sd": "n_seeds", "boot_sd": "n_boot"}[name]
        notes.append(
            f"{name} taken as exact in {counted(int(exact.sum()), 'cell')} without {number}"
        )
    df = np.where(np.isnan(replicates), np.inf, replicates - 1.0)
    return Stratum(
        mean_square=frozen(np.where(use & (df > 0), sd**2, stratum.mean_square)),
        df=frozen(np.where(use, df, stratum.df)),
        # The SD of one test set's seeds, and the SD of one seed's test sets.
        interaction=frozen(np.where(use, 1.0, stratum.interaction)),
    )
