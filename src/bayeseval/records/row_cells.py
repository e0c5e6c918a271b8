"""Cells of records, and the groups of rows behind each: what queries of rows are joined with."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from bayeseval._typing import Bools, Floats, Index, Progress
from bayeseval.names import FACTORS
from bayeseval.records.moments import deviations, merged_pieces
from bayeseval.records.partials import file_digest
from bayeseval.records.row_queries import TableRows, keyed_rows
from bayeseval.records.row_reading import Reading
from bayeseval.records.row_tables import RowGroups

if TYPE_CHECKING:
    from bayeseval.records.table import Records

__all__ = ["RowCells", "same_group"]


@dataclass(frozen=True, eq=False)
class RowCells:
    """The cells of the records, and the groups of rows of each.

    Parameters
    ----------
    records : Records
    groups : RowGroups
    reading : Reading
        The files, and how they are read again.
    record : array of int, shape (n_groups,)
        The record of each group; -1 for a group that is left out.
    cell : array of int, shape (n_records,)
    first : array of int, shape (n_cells,)
        The first record of each cell.
    n_seeds : array of float, shape (n_cells,)
        Records of each cell.
    labelled : array of bool, shape (n_records,)
        Whether the rows of a record have a unit.
    n, square : array of float, shape (n_records,)
        Rows of each record, and the sum of squared deviations of their scores.
    low : array of float, shape (n_records,)
        What the mean of a record's rows has beyond its score, which has 16 digits.
    """

    records: Records
    groups: RowGroups
    reading: Reading
    record: Index
    cell: Index
    first: Index
    n_seeds: Floats
    labelled: Bools
    n: Floats
    square: Floats
    low: Floats

    @classmethod
    def of(
        cls, records: Records, groups: RowGroups, record_of_group: Index, progress: Progress | None
    ) -> RowCells:
        """The cells of records; groups beyond the end of `record_of_group` have none."""
        codes = np.stack([records.codes(factor) for factor in FACTORS])
        new = np.ones(len(records), dtype=np.bool_)
        new[1:] = (codes[:, 1:] != codes[:, :-1]).any(axis=0)
        cell = np.cumsum(new) - 1
        labelled = np.zeros(len(records), dtype=np.bool_)
        if groups.unit is not None:
            labelled = records.replicate_codes(groups.unit) >= 0
        record = np.full(len(groups.n), -1, dtype=np.int64)
        record[: len(record_of_group)] = record_of_group
        kept = record >= 0
        n, _, square = merged_pieces(
            record[kept], groups.n[kept], groups.mean[kept], groups.square[kept], len(records)
        )
        cells = cls(
            records,
            groups,
            replace(groups.reading, progress=progress),
            record,
            cell,
            np.flatnonzero(new).astype(np.int64),
            np.bincount(cell).astype(np.float64),
            labelled,
            n,
            square,
            np.zeros(len(records)),
        )
        cells.put_in_place()
        return cells

    def put_in_place(self) -> None:
        """Table `kept`: labels of every group that is kept, its record and its cell."""
        kept = np.flatnonzero(self.record >= 0)
        record = self.record[kept]
        cell = self.cell[record]
        high, low = self.centre
        table = pd.DataFrame(
            {
                "g": kept,
                "record": record,
                "cell": cell,
                "own": self.records.scores[record],
                "own_low": self.low[record],
                "centre": high[cell],
                "centre_low": low[cell],
                "weight": 1.0 / np.maximum(self.n[record], 1.0),
                "labelled": self.labelled[record],
                **{str(factor): self.records.codes(factor)[record] for factor in FACTORS},
            }
        )
        self.groups.engine.connection.register("kept_groups", table)
        self.groups.engine.execute(
            "CREATE OR REPLACE TEMP TABLE kept AS SELECT r.*, k.* EXCLUDE (g) FROM raw_groups r "
            "JOIN kept_groups k USING (g)",
            source=self.groups.source,
        )

    def with_low(self, low: Floats) -> RowCells:
        """The cells with what means have beyond the scores of the records."""
        cells = replace(self, low=low)
        cells.put_in_place()
        return cells

    @property
    def centre(self) -> tuple[Floats, Floats]:
        """Mean over the seeds of each cell, and what it has beyond its 16 digits."""
        n = len(self.first)
        first, beyond, _ = deviations(self.cell, self.records.scores, n)
        high = first + beyond
        # What a sum of two numbers has lost (Knuth).
        part = high - first
        lost = (first - (high - part)) + (beyond - part)
        return high, lost + np.bincount(self.cell, self.low, n) / self.n_seeds

    @property
    def seed_square(self) -> Floats:
        """Sum of squared deviations of the seeds' means from their mean, by cell."""
        n = len(self.first)
        high, low = self.centre
        apart = (self.records.scores - high[self.cell]) - low[self.cell] + self.low
        centred = deviations(self.cell, apart, n)[2]
        return np.asarray(np.bincount(self.cell, centred**2, n))

    @property
    def far_from_zero(self) -> bool:
        """Whether scores differ in so late digits that means lack some of them."""
        groups = self.groups
        kept = self.record >= 0
        spread = (groups.highest - groups.lowest)[kept]
        far = np.abs(groups.mean[kept]) > _FAR * spread
        return bool((far & (spread > 0.0)).any())

    def total(self, values: Floats) -> Floats:
        """Sum of the values of the records of each cell, of those with units."""
        own = np.where(self.labelled, values, 0.0)
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
        for array in (self.record, self.cell, self.records.scores, self.low, self.n, self.labelled):
            digest.update(np.ascontiguousarray(array).tobytes())
        for factor in FACTORS:
            digest.update("\0".join(self.records.coords[factor]).encode())
        return digest.hexdigest()

    def digests(self) -> tuple[str, ...]:
        """SHA-256 of every file, and the columns of the scores."""
        if self.groups.remote is not None:
            return self.groups.remote.digests()
        files = self.groups.files
        digests = []
        for done, one in enumerate(files):
            self.reading.report("hashing files", done, len(files), one.file.name)
            digests.append(file_digest(one.file))
        self.reading.report("hashing files", len(files), len(files), "")
        columns = sorted({one.ours["score"] for one in files})
        return (*sorted(digests), *columns)

    def run(self, sql: str) -> pd.DataFrame:
        """The rows of a query."""
        table: pd.DataFrame = self.groups.engine.run(sql, source=self.groups.source).to_pandas()
        return table

    def reduced(self, query: str, *, stage: str) -> list[Path]:
        """Partial results of a query of the rows with a unit, which are its ``{rows}``."""
        unit = self.groups.unit
        queries = {
            batch: query.format(rows=self._unit_rows(batch.rows, batch.files))
            for batch in self.reading.batches
            if unit in batch.rows.ours
        }
        return self.reading.reduced(queries, stage=stage, depends_on=self.fingerprint())

    def _unit_rows(self, one: TableRows, files: tuple[int, ...]) -> str:
        """Query of the rows with a unit that belong to a kept group, with their cells."""
        groups = self.groups
        rows = keyed_rows(one, groups.keys, groups.unit, groups.missing)
        parts = [groups.files[file].part for file in files]
        part = str(parts[0]) if len(set(parts)) == 1 else f"{parts}[r.place + 1]"
        return (
            f"SELECT r.x, r.code, k.* FROM ({rows}) r JOIN kept k "
            f"ON {same_group(groups, 'r', part=part)} WHERE r.code IS NOT NULL"
        )


# Of a mean so many times as large as the range of its scores, 12 digits are those of the scores.
_FAR = 1e4


def same_group(groups: RowGroups, name: str, *, part: str = "") -> str:
    """SQL that finds the kept group of a row or of a piece by its labels.

    Parameters
    ----------
    groups : RowGroups
    name : str
        The relation of the rows.
    part : str
        SQL of the part of the row's file, where the relation has no such column.
    """
    same = [f"{name}.k_{key} IS NOT DISTINCT FROM k.k_{key}" for key in groups.keys]
    same += [f"{name}.{one} = k.{one}" for one in ("blank", "no_unit", "empty")]
    same.append(f"{name}.missing IS NOT DISTINCT FROM k.missing")
    same.append(f"k.part = {part or f'{name}.part'}")
    return " AND ".join(same)
