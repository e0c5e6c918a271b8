"""Labels of many rows as codes and levels: what repeats is held and looked at once."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

__all__ = ["Coded", "by_level", "combined_key"]

Codes = npt.NDArray[np.int64]
T = TypeVar("T", bound=np.generic)


def by_level(values: npt.NDArray[T], codes: Codes, n: int) -> list[npt.NDArray[T]]:
    """The values of each of `n` levels, in their order, at the cost of one sort.

    Examples
    --------
    >>> by_level(np.array([1.0, 2.0, 3.0]), np.array([1, 0, 1]), 2)
    [array([2.]), array([1., 3.])]
    """
    order = np.argsort(codes, kind="stable")
    return np.split(values[order], np.searchsorted(codes[order], np.arange(1, n)))


@dataclass(frozen=True, eq=False)
class Coded:
    """A column of labels.

    Parameters
    ----------
    codes : array of int, shape (n,)
        Position of each row's label in `levels`.
    levels : tuple of str
        Distinct labels; some may be without rows.
    """

    codes: Codes
    levels: tuple[str, ...]

    @classmethod
    def of(cls, codes: npt.NDArray[np.integer], texts: Iterable[str]) -> Coded:
        """From codes into texts that need not be distinct."""
        index: dict[str, int] = {}
        places = [index.setdefault(text, len(index)) for text in texts]
        return cls(np.array(places, dtype=np.int64)[codes], tuple(index))

    @classmethod
    def constant(cls, text: str, n: int) -> Coded:
        """The same label in `n` rows."""
        return cls(np.zeros(n, dtype=np.int64), (text,))

    @classmethod
    def concat(cls, parts: Sequence[Coded]) -> Coded:
        """One column after the other."""
        offsets = np.cumsum([0, *(len(part.levels) for part in parts)])
        codes = [part.codes + offset for part, offset in zip(parts, offsets, strict=False)]
        return cls.of(np.concatenate(codes), (text for part in parts for text in part.levels))

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, row: int | np.integer) -> str:
        return self.levels[int(self.codes[row])]

    def take(self, rows: npt.NDArray[np.bool_] | npt.NDArray[np.integer]) -> Coded:
        """The rows at these positions, or of this mask."""
        return Coded(self.codes[rows], self.levels)

    def present(self) -> list[str]:
        """Labels that have rows, in the order of the levels."""
        counts = np.bincount(self.codes, minlength=len(self.levels))
        return [text for text, count in zip(self.levels, counts, strict=True) if count]

    def among(self, texts: Collection[str]) -> npt.NDArray[np.bool_]:
        """Mask of the rows whose label is one of `texts`."""
        chosen = np.fromiter((t in texts for t in self.levels), np.bool_, len(self.levels))
        return chosen[self.codes]

    def joined(self, other: Coded, separator: str) -> Coded:
        """Labels of two columns put together, row by row."""
        width = len(other.levels)
        pairs, codes = np.unique(self.codes * width + other.codes, return_inverse=True)
        texts = (self.levels[p // width] + separator + other.levels[p % width] for p in pairs)
        return Coded.of(codes, texts)

    def pairs(self, other: Coded) -> list[tuple[str, str]]:
        """Distinct pairs of labels, in the order of their first rows."""
        width = len(other.levels)
        pairs, first = np.unique(self.codes * width + other.codes, return_index=True)
        ordered = pairs[np.argsort(first)]
        return [(self.levels[p // width], other.levels[p % width]) for p in ordered]


def combined_key(columns: Iterable[Codes]) -> Codes:
    """One number per row that orders and tells apart rows as the columns together do.

    Codes count from -1 (no label).
    """
    key: Codes | None = None
    for column in columns:
        width = int(column.max(initial=-1)) + 2
        if key is None:
            key = column + 1
            continue
        if int(key.max(initial=0)) > np.iinfo(np.int64).max // width - 1:
            # Too many for one number: ranks of what there is.
            key = np.unique(key, return_inverse=True)[1].astype(np.int64)
        key = key * width + (column + 1)
    if key is None:
        raise ValueError("no columns")
    return key
