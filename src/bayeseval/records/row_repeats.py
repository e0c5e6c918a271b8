"""Refuse an item or a bootstrap test set that is twice in a cell, whose rows were reduced."""

from __future__ import annotations

from typing import Any

import numpy as np

from bayeseval.errors import InputError
from bayeseval.records.row_cells import RowCells, same_group
from bayeseval.records.row_queries import keyed_rows

__all__ = ["refuse_repeats"]


def refuse_repeats(cells: RowCells) -> None:
    """Refuse two rows of one record that no item or bootstrap test set tells apart.

    Raises
    ------
    InputError
        With both places.
    """
    groups = cells.groups
    where = "true" if groups.unit is None else "NOT k.labelled"
    twice = cells.run(
        f"SELECT k.record FROM partial p JOIN kept k ON {same_group(groups, 'p')} WHERE {where} "
        "GROUP BY k.record HAVING sum(p.n) > 1 ORDER BY k.record LIMIT 1"
    )
    if len(twice):
        _refuse(cells, int(twice["record"][0]), "")
    if groups.unit is None:
        return
    twice = cells.run(
        "SELECT record FROM (SELECT k.record, p.block, sum(p.n) AS n, "
        "bit_count(bit_or(CAST(p.bits AS BIT))) AS units "
        f"FROM partial p JOIN kept k ON {same_group(groups, 'p')} WHERE k.labelled "
        "GROUP BY k.record, p.block) WHERE n > units ORDER BY record LIMIT 1"
    )
    if len(twice):
        _refuse(cells, int(twice["record"][0]), groups.unit)


def _refuse(cells: RowCells, record: int, unit: str) -> None:
    """Name two rows with the same labels."""
    groups = cells.groups
    found: list[tuple[str, Any, Any]] = []
    cell = cells.label(int(cells.cell[record]))
    if "seed" in cells.records.replicate_columns:
        code_of_seed = cells.records.replicate_codes("seed")[record]
        seeds = cells.records.table["seed"].iloc[record]
        cell += f", seed {seeds!r}" if code_of_seed >= 0 else ""
    if groups.remote is not None:
        own = np.flatnonzero(cells.record == record).tolist()
        groups.remote.refuse_repeat(own, cell, with_unit=bool(unit))
    code = None
    if unit:
        pieces = [_labelled_rows(cells, place) for place in range(len(groups.files))]
        union = " UNION ALL ".join(f"SELECT record, code FROM ({sql})" for sql in pieces)
        code = int(
            cells.run(
                f"SELECT code FROM ({union}) WHERE record = {record} GROUP BY code "
                "HAVING count(*) > 1 ORDER BY code LIMIT 1"
            )["code"][0]
        )
    for place, one in enumerate(groups.files):
        same = "true" if code is None else f"code = {code}"
        language = "k_language" if "language" in groups.keys else "NULL"
        rows = cells.run(
            f"SELECT n, raw, {language} AS language FROM ({_labelled_rows(cells, place)}) "
            f"WHERE record = {record} AND {same} ORDER BY n LIMIT 2"
        )
        found += [
            (f"{one.scan.source}, row {n}", raw, language)
            for n, raw, language in zip(rows["n"], rows["raw"], rows["language"], strict=True)
        ]
        if len(found) > 1:
            break
    (first, raw, written), (second, _, other) = found[:2]
    cell += f", {unit} {raw!r}" if unit else ""
    hint = "keep one of them"
    if written != other:
        cell += f" (written {written!r} and {other!r})"
        hint += ", or rename one of the two labels"
    elif not unit:
        hint += ", or distinguish replicates by a seed, boot or item column"
    raise InputError(f"{second}: duplicate of {first}: {cell} has two scores; {hint}")


def _labelled_rows(cells: RowCells, place: int) -> str:
    """Query of the rows of a file that belong to a kept group, with their numbers and cells."""
    groups = cells.groups
    one = groups.files[place]
    rows = keyed_rows(one, groups.keys, groups.unit, groups.missing)
    unit = groups.unit if groups.unit in one.ours else None
    code = "r.code" if unit else "CAST(NULL AS UINTEGER) AS code"
    numbered = f"SELECT row_number() OVER () AS n, * FROM ({rows})"
    return (
        f"SELECT r.n, r.raw, r.x, {code}, k.* FROM ({numbered}) r JOIN kept k "
        f"ON {same_group(groups, 'r', part=str(one.part))}"
    )
