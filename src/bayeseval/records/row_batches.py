"""Small files with the same columns, whose rows one query reads."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from bayeseval.readers.scans import Scan
from bayeseval.records.row_queries import Batch, TableRows

__all__ = ["in_batches"]

# A larger file is read alone: its result is kept as soon as it is there.
_SMALL: Final = 500_000
_MOST_BYTES: Final = 16_000_000
_MOST_FILES: Final = 256
_PLACE: Final = "place_of_file"
_FILENAME: Final = "filename"
# A function of the engine that reads one file: its name, the path, and what follows.
_ONE_FILE: Final = re.compile(
    r"(read_parquet|read_csv|read_json_objects)\(('(?:[^']|'')*')(.*)\)", re.DOTALL
)


def in_batches(files: Sequence[TableRows]) -> list[Batch]:
    """The files in batches: small ones of the same columns together, others alone.

    Parameters
    ----------
    files : sequence of TableRows
    """
    batches: list[Batch] = []
    open_batches: dict[Any, list[int]] = {}
    for number, one in enumerate(files):
        kind = _kind(one)
        if kind is None:
            batches.append(Batch(one, (number,)))
            continue
        own = open_batches.setdefault(kind, [])
        if own and (len(own) == _MOST_FILES or _size(files, [*own, number]) > _MOST_BYTES):
            batches.append(_together(files, own))
            own.clear()
        own.append(number)
    batches += [_together(files, own) for own in open_batches.values()]
    return sorted(batches, key=lambda batch: batch.files[0])


def _size(files: Sequence[TableRows], numbers: Sequence[int]) -> int:
    return sum(files[number].file.stat().st_size for number in numbers)


def _kind(one: TableRows) -> Any:
    """What the files of a batch have in common; None for a file that is read alone."""
    scan = one.scan
    match = _ONE_FILE.fullmatch(scan.relation)
    names = {name.casefold() for name in scan.cells}
    if match is None or names & {_PLACE, _FILENAME} or one.file.stat().st_size > _SMALL:
        return None
    cells = tuple((name, "" if _is_text(cell) else cell) for name, cell in scan.cells.items())
    kinds, ours = tuple(scan.kinds.items()), tuple(one.ours.items())
    return match[1], match[3], cells, kinds, ours, one.derived


def _is_text(cell: str) -> bool:
    """Whether the cells of a column are one text, such as the number in the name of the file."""
    return cell.startswith("'")


def _together(files: Sequence[TableRows], numbers: Sequence[int]) -> Batch:
    """One batch of files of a kind."""
    own = [files[number] for number in numbers]
    if len(own) == 1:
        return Batch(own[0], tuple(numbers))
    matches = [_ONE_FILE.fullmatch(one.scan.relation) for one in own]
    paths = ", ".join(match[2] for match in matches if match is not None)
    first = matches[0]
    assert first is not None
    # Of files whose numbers have other types, all are read as the wider one.
    by_name = ", union_by_name = true" if first[1] == "read_parquet" else ""
    relation = (
        f"(SELECT * EXCLUDE ({_FILENAME}), list_position([{paths}], {_FILENAME}) - 1 AS {_PLACE} "
        f"FROM {first[1]}([{paths}]{first[3]}{by_name}, {_FILENAME} = true))"
    )
    cells = {
        name: _by_place([one.scan.cells[name] for one in own]) if _is_text(cell) else cell
        for name, cell in own[0].scan.cells.items()
    }
    scan = Scan(own[0].scan.source, relation, cells, own[0].scan.kinds)
    return Batch(replace(own[0], scan=scan, place=_PLACE), tuple(numbers))


def _by_place(texts: Sequence[str]) -> str:
    """SQL of a text for each file."""
    return texts[0] if len(set(texts)) == 1 else f"[{', '.join(texts)}][{_PLACE} + 1]"
