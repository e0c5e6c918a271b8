"""Sums over items or bootstrap test sets of reduced rows: what a model needs besides the means."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np
import pandas as pd

from bayeseval._text import grouped
from bayeseval._typing import Bools, Floats, Index, Progress
from bayeseval.errors import InputError, argument
from bayeseval.records.item_pairs import (
    PairSums,
    of_cells,
    over_pairs,
    shared_squares,
    split_boot_variances,
    split_variances,
)
from bayeseval.records.reduced import Reduced
from bayeseval.records.row_cells import RowCells, same_group
from bayeseval.records.row_reading import listed
from bayeseval.records.row_repeats import refuse_repeats
from bayeseval.records.row_tables import RowGroups

if TYPE_CHECKING:
    from bayeseval.records.table import Records

__all__ = ["with_sums"]

# Item sets of one task may take this share of the memory that is allowed.
_SHARE: Final = 8


def with_sums(
    records: Records, groups: RowGroups | None, record_of_group: Index, *, progress: Progress | None
) -> Records:
    """Records with what the rows behind them say of items or bootstrap test sets.

    Parameters
    ----------
    records : Records
    groups : RowGroups or None
        None where rows were not reduced: then there is nothing to add.
    record_of_group : array of int
        The record of each group; -1 for a group that is left out, as are those beyond its end.
    progress : callable, optional

    Raises
    ------
    InputError
        If an item or a bootstrap test set is twice in a record, or some seeds of a cell lack
        bootstrap test sets of others.
    """
    if groups is None:
        return records
    cells = RowCells.of(records, groups, record_of_group, progress)
    refuse_repeats(cells)
    if groups.unit is None:
        return records
    unit: Literal["item", "boot"] = "item" if groups.unit == "item" else "boot"
    return replace(records, _reduced=_unit_sums(cells, unit, progress))


@dataclass(frozen=True, eq=False)
class _Squares:
    """Sums of squares of each cell.

    Parameters
    ----------
    unit, cross : array of float, shape (n_cells,)
        Of the units' means over seeds, and of the product of seeds and units.
    sums : pandas.DataFrame
        Sums over units of products, by task and kind of pair.
    """

    unit: Floats
    cross: Floats
    sums: pd.DataFrame


def _n_units(cells: RowCells) -> Floats:
    """Distinct units of each cell."""
    table = cells.run(
        "SELECT cell, sum(units) AS units FROM (SELECT k.cell AS cell, p.block, "
        "bit_count(bit_or(CAST(p.bits AS BIT))) AS units "
        f"FROM partial p JOIN kept k ON {same_group(cells.groups, 'p')} WHERE k.labelled "
        "GROUP BY k.cell, p.block) GROUP BY cell"
    )
    count = np.zeros(len(cells.first))
    count[table["cell"].to_numpy(dtype=np.int64)] = table["units"].to_numpy(dtype=np.float64)
    return count


def _kept(cells: RowCells) -> pd.DataFrame:
    """Cell, its mean and labels of every group of a database, by the database's number of it."""
    return cells.run(
        "SELECT l.gid, k.cell, k.centre, k.weight, k.task, k.language, k.model FROM labels l "
        f"JOIN kept k ON {same_group(cells.groups, 'l')} WHERE k.labelled"
    )


def _squares(
    cells: RowCells, count: Floats, *, crossed: bool, progress: Progress | None
) -> _Squares:
    """Read the rows again, less the means of their cells."""
    remote = cells.groups.remote
    if remote is not None:
        square, cross = cells.total(cells.square), np.zeros(len(count))
        if crossed:
            table = remote.margin_squares(_kept(cells), progress=progress)
            square, within = _by_cell(cells, table, "square"), square
            cross = np.maximum(within - cells.n_seeds * square, 0.0)
        sums = remote.sums(_kept(cells), crossed=crossed, progress=progress)
        return _Squares(square, cross, sums)
    if crossed:
        table = _margin(cells)
        sums = cells.run(_summed(_of_margin()))
        return _Squares(_by_cell(cells, table, "square"), _by_cell(cells, table, "product"), sums)
    table, sums = _sums_of_files(cells)
    return _Squares(_by_cell(cells, table, "square"), np.zeros(len(count)), sums)


def _by_cell(cells: RowCells, table: pd.DataFrame, column: str) -> Floats:
    values = np.zeros(len(cells.first))
    values[table["cell"].to_numpy(dtype=np.int64)] = table[column].to_numpy(dtype=np.float64)
    return values


def _with_all_digits(cells: RowCells) -> RowCells:
    """The cells with means of more than 16 digits, where their scores differ in the last ones."""
    if cells.groups.remote is not None or not cells.far_from_zero:
        return cells
    paths = cells.reduced(
        "SELECT record, fsum(x - own) AS d, count(*) AS n FROM ({rows}) GROUP BY record",
        stage="reading means again",
    )
    table = cells.run(
        f"SELECT record, fsum(d) / sum(n) AS low FROM {listed(paths)} GROUP BY record"
    )
    low = np.zeros(len(cells.records))
    low[table["record"].to_numpy(dtype=np.int64)] = table["low"].to_numpy(dtype=np.float64)
    return cells.with_low(low)


def _margin(cells: RowCells) -> pd.DataFrame:
    """Table `margin`: mean over seeds of each unit of a cell, as deviation from the cell's mean.

    With y_su the score of unit u less the mean of its seed s, `q` is sum_s (y_su - y_.u)^2: in a
    cell whose seeds have the same units, its sum over them is that of the product of seeds and
    units. A file has n_j of these rows, with mean e_j and sum of squares q_j.

    Returns
    -------
    pandas.DataFrame
        The sums of squares of each cell.
    """
    paths = cells.reduced(
        "SELECT cell, code, fsum(d) AS d, count(*) AS n, favg(e) AS e, "
        "var_pop(e) * count(*) AS q FROM (SELECT cell, code, x - centre - centre_low AS d, "
        "x - own - own_low AS e FROM ({rows})) GROUP BY cell, code",
        stage=f"averaging {cells.groups.unit}s over seeds",
    )
    between = (
        "CASE WHEN count(*) = 1 THEN 0 WHEN min(n) = max(n) THEN min(n) * var_pop(e) * count(*) "
        "ELSE greatest(fsum(n * e * e) - fsum(n * e) ** 2 / sum(n), 0) END"
    )
    cells.groups.engine.execute(
        "CREATE OR REPLACE TEMP TABLE margin AS SELECT cell, code, fsum(d) / sum(n) AS d, "
        f"fsum(q) + {between} AS q FROM {listed(paths)} GROUP BY cell, code",
        source=cells.groups.source,
    )
    return cells.run(
        "SELECT cell, var_pop(d) * count(*) AS square, fsum(q) AS product FROM margin GROUP BY cell"
    )


def _cross(cells: RowCells, cross: Floats, count: Floats) -> tuple[Floats, Floats, Bools]:
    """Sums of squares of seeds x units, their degrees of freedom, and which cells are complete."""
    complete = cells.total(cells.n) == cells.n_seeds * count
    known = complete & (cells.n_seeds > 1) & (count > 1)
    df = np.where(known, (cells.n_seeds - 1.0) * (count - 1.0), 0.0)
    return np.where(known, cross, 0.0), df, complete


def _unit_sums(
    cells: RowCells, unit: Literal["item", "boot"], progress: Progress | None
) -> Reduced:
    count = _n_units(cells)
    crossed = bool(cells.n_seeds.max() > 1)
    complete = _cross(cells, np.zeros(len(count)), count)[2]
    lacking = np.flatnonzero(~complete & (count > 0))
    if unit == "boot" and len(lacking):
        raise InputError(
            f"{cells.groups.source}: {cells.label(int(lacking[0]))}: some seeds lack bootstrap "
            f"test sets that others have ({grouped(len(lacking))} such cells), which needs all "
            f"rows at once: leave {argument('memory')} out, or give all seeds of a cell the same "
            "boots"
        )
    cells = _with_all_digits(cells)
    squares = _squares(cells, count, crossed=crossed, progress=progress)
    cross, df, _ = _cross(cells, squares.cross, count)
    parts = _parts(cells, count, squares)
    if unit == "item":
        cross = cross / np.maximum(count, 1.0)
    return Reduced(
        unit=unit,
        n_rows=int(cells.n.sum()),
        digests=cells.digests(),
        count=count,
        square=squares.unit,
        seed=cells.seed_square,
        cross=cross,
        cross_df=df,
        parts=parts,
    )


def _parts(cells: RowCells, count: Floats, squares: _Squares) -> Floats:
    """Variances by task of what cells share of their units."""
    parts = np.full((4, len(cells.records.coords["task"])), np.nan)
    task_of_cell, least = cells.codes("task"), 1 if cells.groups.unit == "boot" else 0
    for task in np.unique(task_of_cell[count > least]):
        own = np.flatnonzero((task_of_cell == task) & (count > 0))
        parts[:, task] = _parts_of_task(cells, int(task), own, count, squares.unit, squares.sums)
    return parts


def _of_margin() -> str:
    """Sums over cells of each unit from the table of means over seeds."""
    centred = (
        "SELECT m.cell, m.code, m.d - avg(m.d) OVER (PARTITION BY m.cell) AS d, "
        "1.0 / count(*) OVER (PARTITION BY m.cell) AS weight FROM margin m"
    )
    cells = "SELECT DISTINCT cell, task, language, model FROM kept"
    return (
        "SELECT task, language, model, code, fsum(d) AS d, count(*) AS k, fsum(weight) AS w "
        f"FROM (SELECT * FROM ({centred}) JOIN ({cells}) USING (cell)) "
        f"GROUP BY {_SETS}"
    )


_BY_UNIT: Final = "(task, code), (task, language, code), (task, model, code)"
_SETS: Final = f"GROUPING SETS ({_BY_UNIT})"
_SETS_AND_CELLS: Final = f"GROUPING SETS ({_BY_UNIT}, (cell))"


def _summed(sums: str) -> str:
    """Sums over items of products, by task and kind of pair."""
    return (
        "SELECT task, CASE WHEN language IS NOT NULL THEN 'language' WHEN model IS NOT NULL THEN "
        "'model' ELSE 'all' END AS kind, fsum(d * d) AS products, CAST(sum(k * k) AS DOUBLE) AS "
        f"shared, fsum(k * w) AS scaled, fsum(w * w) AS overlap FROM ({sums}) GROUP BY ALL"
    )


def _sums_of_files(cells: RowCells) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Sums of squares of each cell; and as :func:`_of_margin`, from the rows of every file."""
    paths = cells.reduced(
        "SELECT cell, task, language, model, code, fsum(d) AS d, count(*) AS k, "
        "fsum(weight) AS w, fsum(d * d) AS q FROM (SELECT cell, task, language, model, code, "
        f"weight, x - centre - centre_low AS d FROM ({{rows}})) GROUP BY {_SETS_AND_CELLS}",
        stage=f"summing over cells of each {cells.groups.unit}",
    )
    squares = cells.run(
        "SELECT cell, fsum(q) - fsum(d) ** 2 / sum(k) AS square "
        f"FROM {listed(paths)} WHERE cell IS NOT NULL GROUP BY cell"
    )
    sums = cells.run(
        _summed(
            "SELECT task, language, model, code, fsum(d) AS d, sum(k) AS k, fsum(w) AS w "
            f"FROM {listed(paths)} WHERE cell IS NULL GROUP BY task, language, model, code"
        )
    )
    return squares, sums


def _parts_of_task(
    cells: RowCells, task: int, own: Index, count: Floats, square: Floats, sums: pd.DataFrame
) -> Floats:
    language, model = cells.codes("language")[own], cells.codes("model")[own]
    items, item_set = _item_sets(cells, task, own)
    squares = shared_squares(items, item_set, language, model)
    is_boot = cells.groups.unit == "boot"
    # A single bootstrap tells nothing of its noise.
    pairs = over_pairs(np.where(is_boot & (count[own] < 2), 0.0, 1.0), language, model)
    rows = sums[sums["task"] == task].set_index("kind")
    by_kind = {
        kind: PairSums(
            products=float(rows["products"][kind]),
            shared=float(rows["shared"][kind]),
            scaled=float(rows["scaled"][kind]),
            overlap=float(rows["overlap"][kind]),
            squares=squares[kind],
            pairs=pairs[kind],
        )
        for kind in ("all", "language", "model")
    }
    by_kind["cell"] = of_cells(float(square[own].sum()), count[own], pairs["cell"])
    if not is_boot:
        return split_variances(by_kind)
    mean_square = square[own] / np.maximum(count[own] - 1.0, 1.0)
    return split_boot_variances(by_kind, mean_square, language, model)


def _item_sets(cells: RowCells, task: int, own: Index) -> tuple[Any, Index]:
    """The different sets of items of a task's cells, as bits, and the set of each cell."""
    merged = (
        "SELECT k.cell AS cell, p.block AS block, "
        "CAST(bit_or(CAST(p.bits AS BIT)) AS BLOB) AS bits "
        f"FROM partial p JOIN kept k ON {same_group(cells.groups, 'p')} "
        f"WHERE k.labelled AND k.task = {task} GROUP BY k.cell, p.block"
    )
    table = cells.run(
        "SELECT cell, md5(string_agg(concat(block, ':', md5(bits)), ',' ORDER BY block)) AS items "
        f"FROM ({merged}) GROUP BY cell ORDER BY cell"
    )
    names, item_set = np.unique(table["items"].to_numpy(dtype=str), return_inverse=True)
    first = table.drop_duplicates("items")
    chosen = ", ".join(str(int(one)) for one in first["cell"])
    bits = cells.run(f"SELECT * FROM ({merged}) WHERE cell IN ({chosen})")
    blocks, column = np.unique(bits["block"].to_numpy(dtype=np.int64), return_inverse=True)
    # The strings of a table have one length: that of a block of files, or of a database.
    width = len(bits["bits"].iloc[0])
    size = len(names) * len(blocks) * width
    if size > cells.groups.engine.memory // _SHARE:
        raise InputError(
            f"{cells.groups.source}: the cells of task {cells.records.coords['task'][task]!r} have "
            f"{grouped(len(names))} different sets of items, more than fit into "
            f"{argument('memory')}; allow more"
        )
    items = np.zeros((len(names), len(blocks), width), dtype=np.uint8)
    place = {int(cell): int(i) for cell, i in zip(table["cell"], item_set, strict=True)}
    for cell, at, text in zip(bits["cell"], column, bits["bits"], strict=True):
        items[place[int(cell)], at] = np.frombuffer(text, dtype=np.uint8)
    return items.reshape(len(names), -1), np.array([place[int(cell)] for cell in own])
