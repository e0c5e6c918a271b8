"""The rows of all files one after the other, and their labels as codes."""

from __future__ import annotations

import copy
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from bayeseval._text import counted
from bayeseval.readers.columns import LABELS, REPLICATES
from bayeseval.readers.raw import ReducedTable
from bayeseval.records.coded import Coded
from bayeseval.records.parts import Part

__all__ = ["Stack", "encode"]


class Stack:
    """All parts' rows, one after the other, and where each stands.

    Attributes
    ----------
    parts : sequence of Part
        What was read, file by file.
    file, row : ndarray of int, shape (n_rows,)
        Part of each row, and its place there.
    labels : dict of str to Coded
        Labels of the rows by column; the checks may give languages other ones.
    written : Coded
        Language labels as the files have them, for messages.
    numbers : dict of str to ndarray of float, shape (n_rows,)
        The score, and numbers beside it; NaN where there is none.
    """

    def __init__(self, parts: Sequence[Part]) -> None:
        self.parts = parts
        sizes = [len(part.table) for part in parts]
        self.file = np.repeat(np.arange(len(parts)), sizes)
        self.row = np.concatenate([np.arange(size) for size in sizes])
        self.labels = self._common_labels()
        self.written = self.labels["language"]
        names = dict.fromkeys(name for part in parts for name in part.numbers)
        self.numbers = {
            name: np.concatenate(
                [p.numbers.get(name, np.full(len(p.table), np.nan)) for p in parts]
            )
            for name in names
        }

    def __len__(self) -> int:
        return len(self.file)

    def take(self, rows: npt.NDArray[np.bool_]) -> Stack:
        """The rows of this mask, which keep their places."""
        subset = copy.copy(self)
        subset.file, subset.row = self.file[rows], self.row[rows]
        subset.labels = {name: coded.take(rows) for name, coded in self.labels.items()}
        subset.written = self.written.take(rows)
        subset.numbers = {name: values[rows] for name, values in self.numbers.items()}
        return subset

    @property
    def n_rows(self) -> npt.NDArray[np.float64]:
        """How many rows of the files each row stands for, shape (n_rows,)."""
        return self.numbers.get("rows", np.ones(len(self)))

    @property
    def scores(self) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
        """Scores that bounds are checked on, and their rows: of many rows, also the extremes."""
        own = np.arange(len(self))
        score = self.numbers["score"]
        if "lowest" not in self.numbers:
            return score, own
        many = np.flatnonzero(self.n_rows > 1)
        extremes = self.numbers["lowest"][many], self.numbers["highest"][many]
        return np.concatenate([*extremes, score]), np.concatenate([many, many, own])

    @property
    def source(self) -> str:
        """The file, or how many there are."""
        if len(self.parts) == 1:
            return self.parts[0].table.source
        return f"{self.parts[0].table.source} and {counted(len(self.parts) - 1, 'more file')}"

    def at(self, position: int, our: str | None = None, value: float | None = None) -> str:
        """File, row and column of a record; of many rows, of the first with this score."""
        part: Part = self.parts[int(self.file[position])]
        column = part.columns.get(our) if our is not None else None
        if value is not None and isinstance(part.table, ReducedTable):
            return part.table.at_score(int(self.row[position]), column, value)
        return part.table.at(int(self.row[position]), column)

    def level_counts(self) -> dict[str, tuple[tuple[str, int], ...]]:
        """Levels of each factor and their numbers of rows, most rows first."""
        levels = {}
        for factor in LABELS:
            coded = self.labels[factor]
            sums = np.bincount(coded.codes, self.n_rows, len(coded.levels))
            counts = sums.astype(np.int64).tolist()
            pairs = [(label, n) for label, n in zip(coded.levels, counts, strict=True) if n]
            levels[factor] = tuple(sorted(pairs, key=lambda pair: (-pair[1], pair[0])))
        return levels

    def _common_labels(self) -> dict[str, Coded]:
        common: dict[str, Coded] = {}
        for name in dict.fromkeys(name for part in self.parts for name in part.labels):
            by_part = [part.labels.get(name) for part in self.parts]
            if name in (*REPLICATES, "split"):
                # A file without the column: its tasks have no such replicates, or one split.
                by_part = [
                    Coded.constant("", len(part.table)) if labels is None else labels
                    for part, labels in zip(self.parts, by_part, strict=True)
                ]
            if all(labels is not None for labels in by_part):
                common[name] = Coded.concat([labels for labels in by_part if labels is not None])
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
        coded = stack.labels[name]
        uniques = [label for label in coded.present() if label or name not in REPLICATES]
        numeric = name in REPLICATES and all(u.isascii() and u.isdigit() for u in uniques)
        # Seeds 2 and 10 in that order; ties such as "1" and "01" by their text.
        ordered = sorted(uniques, key=lambda text: (int(text), text) if numeric else (0, text))
        rank = {text: place for place, text in enumerate(ordered)}
        # No label, and levels that have no rows: -1.
        places = np.array([rank.get(text, -1) for text in coded.levels], dtype=np.int64)
        labels[name] = tuple(ordered)
        codes[name] = places[coded.codes]
    return labels, codes
