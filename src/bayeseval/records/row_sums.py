"""Sums over items or bootstrap test sets of reduced rows: what a model needs besides the means."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np
import pandas as pd

from bayeseval._text import grouped
from bayeseval._typing import Bools, Floats, Index, Progress
from bayeseval.errors import InputError, argument
from bayeseval.names import FACTORS
from bayeseval.readers.scans import literal
from bayeseval.records.item_pairs import (
    PairSums,
    of_cells,
    over_pairs,
    shared_squares,
    split_boot_variances,
    split_variances,
)
from bayeseval.records.partials import file_digest
from bayeseval.records.reduced import Reduced
from bayeseval.records.row_groups import RowGroups, partial_of
from bayeseval.records.row_queries import keyed_rows

if TYPE_CHECKING:
    from bayeseval.records.table import Records

__all__ = ["with_sums"]

# Item sets of one task may take this share of the memory that is allowed.
_SHARE: Final = 8


def with_sums(
    records: Records, groups: RowGroups, of_record: Index, *, progress: Progress | None
) -> Records:
    """Records with what the rows behind them say of items or bootstrap test sets.

    Parameters
    ----------
    records : Records
        One for each group that is kept.
    groups : RowGroups
    of_record : array of int, shape (n_records,)
        The group of each.
    progress : callable, optional

    Raises
    ------
    InputError
        If an item or a bootstrap test set is twice in a group, or some seeds of a cell lack
        bootstrap test sets of others.
    """
    cells = _Cells.of(records, groups, of_record)
    _refuse_repeats(cells)
    if groups.unit is None:
        return records
    unit: Literal["item", "boot"] = "item" if groups.unit == "item" else "boot"
    return replace(records, _reduced=_unit_sums(cells, unit, progress))


@dataclass(frozen=True, eq=False)
class _Cells:
    """The cells of the records, and the groups of rows of each."""

    records: Records
    groups: RowGroups
    of_record: Index
    cell: Index
    first: Index
    n_seeds: Floats
    labelled: Bools

    @classmethod
    def of(cls, records: Records, groups: RowGroups, of_record: Index) -> _Cells:
        codes = np.stack([records.codes(factor) for factor in FACTORS])
        new = np.ones(len(records), dtype=np.bool_)
        new[1:] = (codes[:, 1:] != codes[:, :-1]).any(axis=0)
        cell = np.cumsum(new) - 1
        labelled = np.zeros(len(records), dtype=np.bool_)
        if groups.unit is not None:
            labelled = records.replicate_codes(groups.unit) >= 0
        cells = cls(
            records,
            groups,
            of_record,
            cell,
            np.flatnonzero(new).astype(np.int64),
            np.bincount(cell).astype(np.float64),
            labelled,
        )
        table = pd.DataFrame(
            {
                "g": of_record,
                "cell": cell,
                "centre": cells.mean[cell],
                "weight": 1.0 / np.maximum(groups.n[of_record], 1.0),
                "labelled": labelled,
                **{str(factor): records.codes(factor) for factor in FACTORS},
            }
        )
        groups.engine.connection.register("kept_groups", table)
        groups.engine.execute(
            "CREATE OR REPLACE TEMP TABLE kept AS SELECT r.*, k.* EXCLUDE (g) FROM raw_groups r "
            "JOIN kept_groups k USING (g)",
            source=groups.source,
        )
        return cells

    @property
    def mean(self) -> Floats:
        """Mean over the seeds of each cell."""
        means = self.groups.mean[self.of_record]
        return np.asarray(np.bincount(self.cell, means) / np.bincount(self.cell))

    def total(self, values: Floats) -> Floats:
        """Sum of the values of the groups of each cell, of those with units."""
        own = np.where(self.labelled, values[self.of_record], 0.0)
        return np.asarray(np.bincount(self.cell, own, len(self.first)), dtype=np.float64)

    def codes(self, factor: str) -> Index:
        """The level of each cell."""
        return self.records.codes(factor)[self.first]  # type: ignore[arg-type]

    def label(self, cell: int) -> str:
        """Model, language and task."""
        return ", ".join(
            f"{factor} {self.records.coords[factor][self.codes(factor)[cell]]!r}"
            for factor in ("model", "language", "task")
        )

    def fingerprint(self) -> str:
        """What tells these cells and their means from others."""
        digest = hashlib.sha256()
        for array in (self.of_record, self.cell, self.mean, self.groups.n, self.labelled):
            digest.update(np.ascontiguousarray(array).tobytes())
        for factor in FACTORS:
            digest.update("\0".join(self.records.coords[factor]).encode())
        return digest.hexdigest()

    def digests(self, progress: Progress | None) -> tuple[str, ...]:
        """SHA-256 of every file, and the columns of the scores."""
        if self.groups.remote is not None:
            return self.groups.remote.digests()
        files = self.groups.files
        digests = []
        for done, one in enumerate(files):
            if progress is not None:
                progress("hashing files", done, len(files), one.file.name)
            digests.append(file_digest(one.file))
        columns = sorted({one.ours["score"] for one in files})
        return (*sorted(digests), *columns)

    def run(self, sql: str) -> pd.DataFrame:
        """The rows of a query."""
        table: pd.DataFrame = self.groups.engine.run(sql, source=self.groups.source).to_pandas()
        return table


def _on(groups: RowGroups, name: str, *, part: int | None = None) -> str:
    """SQL that finds the kept group of a row or of a piece by its labels."""
    same = [f"{name}.k_{key} IS NOT DISTINCT FROM k.k_{key}" for key in groups.keys]
    same += [f"{name}.{one} = k.{one}" for one in ("blank", "no_unit", "empty")]
    same.append(f"{name}.missing IS NOT DISTINCT FROM k.missing")
    same.append(f"k.part = {name}.part" if part is None else f"k.part = {part}")
    return " AND ".join(same)


def _refuse_repeats(cells: _Cells) -> None:
    """Refuse two rows of one group that no item or bootstrap test set tells apart."""
    groups = cells.groups
    where = "true" if groups.unit is None else "NOT k.labelled"
    twice = cells.run(
        f"SELECT k.g AS g FROM partial p JOIN kept k ON {_on(groups, 'p')} WHERE {where} "
        "GROUP BY k.g HAVING sum(p.n) > 1 ORDER BY k.g LIMIT 1"
    )
    if len(twice):
        _refuse(cells, int(twice["g"][0]), "")
    if groups.unit is None:
        return
    twice = cells.run(
        "SELECT g FROM (SELECT k.g AS g, p.block, sum(p.n) AS n, "
        "bit_count(bit_or(CAST(p.bits AS BIT))) AS units "
        f"FROM partial p JOIN kept k ON {_on(groups, 'p')} WHERE k.labelled "
        "GROUP BY k.g, p.block) WHERE n > units ORDER BY g LIMIT 1"
    )
    if len(twice):
        _refuse(cells, int(twice["g"][0]), groups.unit)


def _refuse(cells: _Cells, group: int, unit: str) -> None:
    """Name two rows with the same labels."""
    groups = cells.groups
    found: list[tuple[str, Any]] = []
    record = int(np.flatnonzero(cells.of_record == group)[0])
    cell = cells.label(int(cells.cell[record]))
    if "seed" in cells.records.replicate_columns:
        code_of_seed = cells.records.replicate_codes("seed")[record]
        seeds = cells.records.table["seed"].iloc[record]
        cell += f", seed {seeds!r}" if code_of_seed >= 0 else ""
    if groups.remote is not None:
        groups.remote.refuse_repeat(group, cell, with_unit=bool(unit))
    code = None
    if unit:
        pieces = [_labelled_rows(groups, place) for place in range(len(groups.files))]
        union = " UNION ALL ".join(f"SELECT g, code FROM ({sql})" for sql in pieces)
        code = int(
            cells.run(
                f"SELECT code FROM ({union}) WHERE g = {group} GROUP BY code HAVING count(*) > 1 "
                "ORDER BY code LIMIT 1"
            )["code"][0]
        )
    for place, one in enumerate(groups.files):
        same = "true" if code is None else f"code = {code}"
        rows = cells.run(
            f"SELECT n, raw FROM ({_labelled_rows(groups, place)}) WHERE g = {group} AND {same} "
            "ORDER BY n LIMIT 2"
        )
        found += [
            (f"{one.scan.source}, row {n}", raw)
            for n, raw in zip(rows["n"], rows["raw"], strict=True)
        ]
        if len(found) > 1:
            break
    (first, raw), (second, _) = found[:2]
    cell += f", {unit} {raw!r}" if unit else ""
    hint = "keep one of them"
    if not unit:
        hint += ", or distinguish replicates by a seed, boot or item column"
    raise InputError(f"{second}: duplicate of {first}: {cell} has two scores; {hint}")


def _labelled_rows(groups: RowGroups, place: int) -> str:
    """Query of the rows of a file that belong to a kept group, with their cells."""
    one = groups.files[place]
    rows = keyed_rows(one, groups.keys, groups.unit, groups.missing)
    unit = groups.unit if groups.unit in one.ours else None
    code = "r.code" if unit else "CAST(NULL AS UINTEGER) AS code"
    numbered = f"SELECT row_number() OVER () AS n, * FROM ({rows})"
    return (
        f"SELECT r.n, r.raw, r.x, {code}, k.* FROM ({numbered}) r JOIN kept k "
        f"ON {_on(groups, 'r', part=one.part)}"
    )


def _unit_rows(groups: RowGroups, place: int) -> str:
    """As :func:`_labelled_rows`, of rows with a unit and without their numbers, which cost time."""
    one = groups.files[place]
    rows = keyed_rows(one, groups.keys, groups.unit, groups.missing)
    return (
        f"SELECT r.x, r.code, k.* FROM ({rows}) r JOIN kept k "
        f"ON {_on(groups, 'r', part=one.part)} WHERE r.code IS NOT NULL"
    )


def _unit_files(groups: RowGroups) -> list[int]:
    return [i for i, one in enumerate(groups.files) if groups.unit in one.ours]


def _n_units(cells: _Cells) -> Floats:
    """Distinct units of each cell."""
    table = cells.run(
        "SELECT cell, sum(units) AS units FROM (SELECT k.cell AS cell, p.block, "
        "bit_count(bit_or(CAST(p.bits AS BIT))) AS units "
        f"FROM partial p JOIN kept k ON {_on(cells.groups, 'p')} WHERE k.labelled "
        "GROUP BY k.cell, p.block) GROUP BY cell"
    )
    count = np.zeros(len(cells.first))
    count[table["cell"].to_numpy(dtype=np.int64)] = table["units"].to_numpy(dtype=np.float64)
    return count


def _kept(cells: _Cells) -> pd.DataFrame:
    """Cell, its mean and labels of every group of a database, by the database's number of it."""
    return cells.run(
        "SELECT l.gid, k.cell, k.centre, k.weight, k.task, k.language, k.model FROM labels l "
        f"JOIN kept k ON {_on(cells.groups, 'l')} WHERE k.labelled"
    )


def _margin(cells: _Cells, progress: Progress | None) -> None:
    """Table `margin`: mean over seeds of each unit of a cell, as deviation from the cell's mean."""
    groups = cells.groups
    listed = _by_file(
        cells,
        "SELECT cell, code, fsum(x - centre) AS d, count(*) AS n FROM ({rows}) GROUP BY cell, code",
        progress,
        f"averaging {groups.unit}s over seeds",
    )
    groups.engine.execute(
        "CREATE OR REPLACE TEMP TABLE margin AS SELECT cell, code, sum(d) / sum(n) AS d "
        f"FROM {listed} GROUP BY cell, code",
        source=groups.source,
    )


def _by_file(cells: _Cells, query: str, progress: Progress | None, stage: str) -> str:
    """A query of the rows with a unit, file by file; what reads all the partial results."""
    groups, paths = cells.groups, list[Path]()
    fingerprint = cells.fingerprint()
    places = _unit_files(groups)
    for done, place in enumerate(places):
        one = groups.files[place]
        if progress is not None:
            progress(stage, done, len(places), one.file.name)
        sql = query.format(rows=_unit_rows(groups, place))
        paths.append(partial_of(groups.engine, groups.partials, one, sql, depends_on=fingerprint))
    return f"read_parquet([{', '.join(literal(str(path)) for path in paths)}])"


def _margin_squares(cells: _Cells, progress: Progress | None) -> Floats:
    """Sum of squared deviations of the units' means from their mean, by cell."""
    remote = cells.groups.remote
    if remote is not None:
        table = remote.margin_squares(_kept(cells), progress=progress)
    else:
        _margin(cells, progress)
        table = cells.run("SELECT cell, var_pop(d) * count(*) AS square FROM margin GROUP BY cell")
    square = np.zeros(len(cells.first))
    square[table["cell"].to_numpy(dtype=np.int64)] = table["square"].to_numpy()
    return square


def _cross(cells: _Cells, square: Floats, count: Floats) -> tuple[Floats, Floats, Bools]:
    """Sums of squares of seeds x units, their degrees of freedom, and which cells are complete."""
    n_rows = cells.total(cells.groups.n)
    complete = n_rows == cells.n_seeds * count
    known = complete & (cells.n_seeds > 1) & (count > 1)
    within = cells.total(cells.groups.square)
    cross = np.where(known, np.maximum(within - cells.n_seeds * square, 0.0), 0.0)
    return cross, np.where(known, (cells.n_seeds - 1.0) * (count - 1.0), 0.0), complete


def _unit_sums(cells: _Cells, unit: Literal["item", "boot"], progress: Progress | None) -> Reduced:
    count = _n_units(cells)
    crossed = bool(cells.n_seeds.max() > 1)
    square = _margin_squares(cells, progress) if crossed else cells.total(cells.groups.square)
    cross, df, complete = _cross(cells, square, count)
    lacking = np.flatnonzero(~complete & (count > 0))
    if unit == "boot" and len(lacking):
        raise InputError(
            f"{cells.groups.source}: {cells.label(int(lacking[0]))}: some seeds lack bootstrap "
            f"test sets that others have ({grouped(len(lacking))} such cells), which needs all "
            f"rows at once: leave {argument('memory')} out, or give all seeds of a cell the same "
            "boots"
        )
    parts = _parts(cells, crossed, count, square, progress)
    if unit == "item":
        cross = cross / np.maximum(count, 1.0)
    n_rows = int(cells.groups.n[cells.of_record].sum())
    return Reduced(unit, n_rows, cells.digests(progress), count, square, cross, df, parts)


def _parts(
    cells: _Cells, crossed: bool, count: Floats, square: Floats, progress: Progress | None
) -> Floats:
    """Variances by task of what cells share of their units."""
    remote = cells.groups.remote
    if remote is not None:
        sums = remote.sums(_kept(cells), crossed=crossed, progress=progress)
    else:
        sums = cells.run(_summed(_of_margin())) if crossed else _sums_of_files(cells, progress)
    parts = np.full((4, len(cells.records.coords["task"])), np.nan)
    task_of_cell, least = cells.codes("task"), 1 if cells.groups.unit == "boot" else 0
    for task in np.unique(task_of_cell[count > least]):
        own = np.flatnonzero((task_of_cell == task) & (count > 0))
        parts[:, task] = _parts_of_task(cells, int(task), own, count, square, sums)
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


_SETS: Final = "GROUPING SETS ((task, code), (task, language, code), (task, model, code))"


def _summed(sums: str) -> str:
    """Sums over items of products, by task and kind of pair."""
    return (
        "SELECT task, CASE WHEN language IS NOT NULL THEN 'language' WHEN model IS NOT NULL THEN "
        "'model' ELSE 'all' END AS kind, fsum(d * d) AS products, CAST(sum(k * k) AS DOUBLE) AS "
        f"shared, fsum(k * w) AS scaled, fsum(w * w) AS overlap FROM ({sums}) GROUP BY ALL"
    )


def _sums_of_files(cells: _Cells, progress: Progress | None) -> pd.DataFrame:
    """As :func:`_of_margin`, from the rows of every file."""
    listed = _by_file(
        cells,
        "SELECT task, language, model, code, fsum(x - centre) AS d, count(*) AS k, "
        f"fsum(weight) AS w FROM ({{rows}}) GROUP BY {_SETS}",
        progress,
        f"summing over cells of each {cells.groups.unit}",
    )
    return cells.run(
        _summed(
            "SELECT task, language, model, code, sum(d) AS d, sum(k) AS k, sum(w) AS w "
            f"FROM {listed} GROUP BY task, language, model, code"
        )
    )


def _parts_of_task(
    cells: _Cells, task: int, own: Index, count: Floats, square: Floats, sums: pd.DataFrame
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


def _item_sets(cells: _Cells, task: int, own: Index) -> tuple[Any, Index]:
    """The different sets of items of a task's cells, as bits, and the set of each cell."""
    merged = (
        "SELECT k.cell AS cell, p.block AS block, "
        "CAST(bit_or(CAST(p.bits AS BIT)) AS BLOB) AS bits "
        f"FROM partial p JOIN kept k ON {_on(cells.groups, 'p')} "
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
