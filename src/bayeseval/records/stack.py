"""The rows of all files one after the other, and their labels as codes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd

from bayeseval.records.columns import LABELS, REPLICATES
from bayeseval.records.parts import Part
from bayeseval.records.raw import Cells, object_array
from bayeseval.records.report import counted

__all__ = ["Stack", "encode", "without_blanks"]


class Stack:
    """All parts' rows, one after the other, and where each stands."""

    def __init__(self, parts: Sequence[Part]) -> None:
        self.parts = parts
        sizes = [len(part.table) for part in parts]
        self.file = np.repeat(np.arange(len(parts)), sizes)
        self.row = np.concatenate([np.arange(size) for size in sizes])
        self.labels = self._common_labels()
        names = dict.fromkeys(name for part in parts for name in part.numbers)
        self.numbers = {
            name: np.concatenate(
                [p.numbers.get(name, np.full(len(p.table), np.nan)) for p in parts]
            )
            for name in names
        }

    def __len__(self) -> int:
        return len(self.file)

    @property
    def source(self) -> str:
        """The file, or how many there are."""
        if len(self.parts) == 1:
            return self.parts[0].table.source
        return f"{self.parts[0].table.source} and {counted(len(self.parts) - 1, 'more file')}"

    def at(self, position: int, our: str | None = None) -> str:
        """File, row and column of a record."""
        part: Part = self.parts[int(self.file[position])]
        column = part.columns.get(our) if our is not None else None
        return part.table.at(int(self.row[position]), column)

    def _common_labels(self) -> dict[str, Cells]:
        common: dict[str, Cells] = {}
        for name in dict.fromkeys(name for part in self.parts for name in part.labels):
            lacking = [part for part in self.parts if name not in part.labels]
            if not lacking:
                common[name] = np.concatenate([part.labels[name] for part in self.parts])
            elif name in REPLICATES:
                none = {id(p): object_array([""] * len(p.table)) for p in lacking}
                common[name] = np.concatenate(
                    [p.labels.get(name, none.get(id(p))) for p in self.parts]
                )
        return common


def encode(
    stack: Stack,
) -> tuple[dict[str, tuple[str, ...]], dict[str, npt.NDArray[np.int64]]]:
    """Sorted levels and the position of each row's level, for every key column."""
    labels: dict[str, tuple[str, ...]] = {}
    codes: dict[str, npt.NDArray[np.int64]] = {}
    for name in (*LABELS, *REPLICATES):
        if name not in stack.labels:
            continue
        cells = stack.labels[name]
        if name in REPLICATES:
            # No label: code -1, which is what factorize gives to missing cells.
            cells = without_blanks(cells)
        found, uniques = pd.factorize(cells)
        numeric = name in REPLICATES and all(u.isascii() and u.isdigit() for u in uniques)
        # Seeds 2 and 10 in that order; ties such as "1" and "01" by their text.
        order = sorted(
            range(len(uniques)),
            key=lambda i: (int(uniques[i]), uniques[i]) if numeric else (0, uniques[i]),
        )
        rank = np.empty(len(uniques), dtype=np.int64)
        rank[order] = np.arange(len(uniques))
        labels[name] = tuple(str(uniques[i]) for i in order)
        codes[name] = np.where(found < 0, -1, rank[found]) if len(rank) else found.astype(np.int64)
    return labels, codes


def without_blanks(cells: Cells) -> Cells:
    """The labels with None for an empty text."""
    result = cells.copy()
    result[cells == ""] = None
    return result
