"""Rows of one record that neither an item nor a bootstrapped test set tells apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pandas as pd

from bayeseval.errors import InputError
from bayeseval.readers.columns import LABELS
from bayeseval.readers.raw import RawTable, object_array
from bayeseval.records.coded import Coded
from bayeseval.records.duplicates import refuse_duplicates
from bayeseval.records.parts import Part, without_fraction
from bayeseval.records.report import TableError
from bayeseval.records.row_cells import RowCells, same_group
from bayeseval.records.row_queries import cleaned, keyed_rows, python_cell
from bayeseval.records.stack import Stack, encode

__all__ = ["refuse_repeats"]

# So many labels and rows of repeated scores are looked at for what tells them apart.
_MOST: Final = 10_000
# Numbers of rows of a file are below this.
_BITS: Final = 40


def refuse_repeats(cells: RowCells) -> None:
    """Refuse two rows of one record that no item or bootstrap test set tells apart.

    Raises
    ------
    TableError
        As where the rows are in memory: with both places, and the columns that tell them apart.
    """
    groups = cells.groups
    where = "true" if groups.unit is None else "NOT k.labelled"
    alone = cells.run(
        f"SELECT k.record FROM partial p JOIN kept k ON {same_group(groups, 'p')} WHERE {where} "
        "GROUP BY k.record HAVING sum(p.n) > 1 ORDER BY k.record"
    )
    units = cells.run(
        "SELECT DISTINCT record FROM (SELECT k.record, p.block, sum(p.n) AS n, "
        "bit_count(bit_or(CAST(p.bits AS BIT))) AS units "
        f"FROM partial p JOIN kept k ON {same_group(groups, 'p')} WHERE k.labelled "
        "GROUP BY k.record, p.block) WHERE n > units ORDER BY record"
    )
    doubtful = [*alone["record"], *units["record"]]
    if not doubtful:
        return
    if groups.remote is not None:
        record = int(doubtful[0])
        own = np.flatnonzero(cells.record == record).tolist()
        cell = cells.label(int(cells.cell[record])) + _seed(cells, record)
        groups.remote.refuse_repeat(own, cell, with_unit=not len(alone))
    record = int(doubtful[0])
    refusal = f"{cells.groups.source}: duplicate: {cells.label(int(cells.cell[record]))}"
    refusal += f"{_seed(cells, record)} has several scores; keep one of them"
    try:
        n_cells = _find_repeats(cells, doubtful)
        stack = _repeated_rows(cells) if n_cells else None
    except InputError:
        # That there are repeated rows is known, wherever they are.
        stack = None
    if stack is not None:
        try:
            refuse_duplicates(stack, encode(stack)[1], n_cells=n_cells)
        except InputError as problem:
            refusal = str(problem)
    raise TableError(refusal, cells.records.report, _levels(cells))


def _seed(cells: RowCells, record: int) -> str:
    if "seed" not in cells.records.replicate_columns:
        return ""
    has_one = cells.records.replicate_codes("seed")[record] >= 0
    return f", seed {cells.records.table['seed'].iloc[record]!r}" if has_one else ""


def _find_repeats(cells: RowCells, records: Sequence[int]) -> int:
    """Number of sets of labels with several rows; the first of them are the table `repeats`."""
    engine, source = cells.groups.engine, cells.groups.source
    cells.groups.reading.report("finding repeated rows", 0, 1, "")
    engine.connection.register("given_doubtful", pd.DataFrame({"record": records}))
    engine.execute("CREATE TEMP TABLE doubtful AS SELECT * FROM given_doubtful", source=source)
    pieces = (
        f"SELECT record, CASE WHEN labelled THEN code END AS code, (CAST({place} AS BIGINT) << "
        f"{_BITS}) + n AS place FROM ({_labelled_rows(cells, place)}) "
        "WHERE record IN (SELECT record FROM doubtful)"
        for place in range(len(cells.groups.files))
    )
    engine.execute(
        "CREATE TEMP TABLE repeats AS SELECT record, code, min(place, 2)[2] AS second FROM "
        f"({' UNION ALL '.join(pieces)}) GROUP BY record, code HAVING count(*) > 1",
        source=source,
    )
    n_cells = int(cells.run("SELECT count(*) AS n FROM repeats")["n"][0])
    engine.execute(
        f"CREATE TEMP TABLE shown AS SELECT * FROM repeats ORDER BY second LIMIT {_MOST}",
        source=source,
    )
    return n_cells


def _repeated_rows(cells: RowCells) -> Stack:
    """The first rows of the table `shown`, as a table in memory has them."""
    records, groups = cells.records, cells.groups
    parts, written = [], []
    replicates = {
        name: _labels(records.table[name], records.replicate_codes(name))
        for name in records.replicate_columns
        if name != groups.unit
    }
    used, left = dict(records.report.columns), 2 * _MOST
    for place, one in enumerate(groups.files):
        # Files without a repetition have one row at most of each of the cells that are shown, so
        # that those with the first one are read, however many come after it.
        if not left:
            break
        groups.reading.report("reading repeated rows", place, len(groups.files), one.file.name)
        language = "k_language" if "language" in groups.keys else "NULL"
        rows = cells.run(
            f"SELECT r.n, r.record, r.x, {language} AS written, "
            "CASE WHEN r.labelled THEN r.raw END AS unit "
            f"FROM ({_labelled_rows(cells, place)}) r JOIN shown s ON r.record = s.record "
            "AND s.code IS NOT DISTINCT FROM CASE WHEN r.labelled THEN r.code END "
            f"ORDER BY s.second, r.n LIMIT {left}"
        ).sort_values("n", ignore_index=True)
        left -= len(rows)
        if not len(rows):
            continue
        record = rows["record"].to_numpy(dtype=np.int64)
        labels = {
            factor: Coded.of(records.codes(factor)[record], records.coords[factor])
            for factor in LABELS
        }
        labels |= {name: _coded([texts[i] for i in record]) for name, texts in replicates.items()}
        if groups.unit is not None and cells.labelled.any():
            labels[groups.unit] = _coded(
                [without_fraction(cleaned(text), groups.unit) for text in rows["unit"]]
            )
        table = _raw_rows(cells, place, rows["n"].tolist())
        columns = {**used, **one.ours}
        parts.append(
            Part(
                table=table,
                labels=labels,
                numbers={"score": rows["x"].to_numpy(dtype=np.float64)},
                columns=columns,
                named_tasks=True,
                n_rows=len(rows),
                ignored=tuple(name for name in table.columns if name not in columns.values()),
                dropped=(),
                notes=(),
            )
        )
        written += [cleaned(text) for text in rows["written"]]
    stack = Stack(parts)
    stack.written = _coded(written)
    return stack


def _labels(texts: pd.Series, codes: np.ndarray) -> list[str]:
    pairs = zip(texts, codes, strict=True)
    return [str(text) if code >= 0 else "" for text, code in pairs]


def _coded(labels: Sequence[str]) -> Coded:
    codes, levels = pd.factorize(object_array(labels))
    return Coded.of(codes.astype(np.int64), [str(level) for level in levels])


def _raw_rows(cells: RowCells, place: int, rows: Sequence[int]) -> RawTable:
    """All cells of some rows of a file, which differ where those of the readers in memory do."""
    one = cells.groups.files[place]
    scan = one.scan
    cells.groups.engine.connection.register("given_rows", pd.DataFrame({"n": rows}))
    named = {f"cell_{i}": name for i, name in enumerate(scan.cells)}
    listed = ", ".join(f"{scan.told_apart(name)} AS {our}" for our, name in named.items())
    found = cells.groups.engine.run(
        f"SELECT r.* FROM (SELECT row_number() OVER () AS n, {listed} FROM {scan.relation}) r "
        "JOIN given_rows g USING (n) ORDER BY n",
        source=scan.source,
    )
    columns = {
        name: object_array(python_cell(cell, one, name) for cell in found[our].to_pylist())
        for our, name in named.items()
    }
    numbers = np.array(scan.numbers_in_file(rows), dtype=np.int64)
    return RawTable(scan.source, scan.place, numbers, columns, derived=one.derived)


def _levels(cells: RowCells) -> dict[str, tuple[tuple[str, int], ...]]:
    """Levels of each factor and their numbers of rows, most rows first."""
    levels = {}
    for factor in LABELS:
        labels = cells.records.coords[factor]
        counts = np.bincount(cells.records.codes(factor), cells.n, len(labels)).astype(np.int64)
        pairs = zip(labels, counts.tolist(), strict=True)
        levels[factor] = tuple(sorted(pairs, key=lambda pair: (-pair[1], pair[0])))
    return levels


def _labelled_rows(cells: RowCells, place: int) -> str:
    """Query of the rows of a file that belong to a kept group, with their numbers and cells."""
    groups = cells.groups
    one = groups.files[place]
    rows = keyed_rows(one, groups.keys, groups.unit, groups.missing, coded=False)
    unit = groups.unit if groups.unit in one.ours else None
    code, dictionary = "CAST(NULL AS UINTEGER) AS code", ""
    if unit:
        code, dictionary = "d.code", "LEFT JOIN dictionary d ON r.raw = d.raw"
    numbered = f"SELECT row_number() OVER () AS n, * FROM ({rows})"
    return (
        f"SELECT r.n, r.raw, r.x, {code}, k.* FROM ({numbered}) r JOIN kept k "
        f"ON {same_group(groups, 'r', part=str(one.part))} {dictionary}"
    )
