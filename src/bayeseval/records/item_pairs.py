"""How cell means vary together through shared items, from sums over the cells of each item.

:func:`bayeseval.records.items.item_variance` needs sums over pairs of cells. For all pairs of a
task, of a language or of a model they are squares of sums over cells, item by item, so that no
pair is formed: with the deviation d, the sum over pairs of d_c d_e is (sum_c d_c)^2. Only the
squared numbers of shared items need pairs, of which cells with the same items count as one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from bayeseval._typing import Floats, Index

__all__ = ["KINDS", "PairSums", "shared_squares", "split_variances"]

#: Which cells are summed over for an item: all of the task, of one language, of one model; and
#: the cell alone.
KINDS: Final = ("all", "language", "model", "cell")

# Item sets times items that are held as numbers at once: 80 MB.
_BLOCK: Final = 10_000_000


@dataclass(frozen=True)
class PairSums:
    """Sums over the pairs of cells of one kind, ordered pairs and pairs of a cell with itself.

    With n_c items of cell c and n_ce in both c and e:

    Parameters
    ----------
    products : float
        Sum of the products of deviations over shared items.
    shared : float
        Sum of n_ce.
    scaled : float
        Sum of n_ce / n_c.
    overlap : float
        Sum of n_ce / (n_c n_e).
    squares : float
        Sum of n_ce^2 / (n_c n_e).
    pairs : float
        Number of pairs.
    """

    products: float
    shared: float
    scaled: float
    overlap: float
    squares: float
    pairs: float

    def __sub__(self, other: PairSums) -> PairSums:
        return PairSums(*(a - b for a, b in zip(self._values, other._values, strict=True)))

    def __add__(self, other: PairSums) -> PairSums:
        return PairSums(*(a + b for a, b in zip(self._values, other._values, strict=True)))

    @property
    def _values(self) -> tuple[float, ...]:
        return (
            self.products,
            self.shared,
            self.scaled,
            self.overlap,
            self.squares,
            self.pairs,
        )

    @property
    def covariance(self) -> float | None:
        """Mean covariance of the cell means of these pairs; None without any pair."""
        if self.pairs < 0.5:
            return None
        known = self.shared - 2.0 * self.scaled + self.squares
        # Rounding leaves specks where pairs share nothing that could tell.
        return 0.0 if known < 0.5 else self.products / known * self.overlap / self.pairs


def split_variances(sums: dict[str, PairSums]) -> Floats:
    """The four variances of one task: task, language, model, record.

    Parameters
    ----------
    sums : dict of str to PairSums
        By kind; those of ``all`` contain those of ``language`` and ``model``, and these
        those of ``cell``.
    """
    both = sums["cell"]

    def above(base: float, value: float | None) -> float:
        return 0.0 if value is None else max(value - base, 0.0)

    task = above(0.0, (sums["all"] - sums["language"] - sums["model"] + both).covariance)
    by_language = above(task, (sums["language"] - both).covariance)
    by_model = above(task, (sums["model"] - both).covariance)
    record = above(task + by_language + by_model, both.covariance)
    return np.array([task, by_language, by_model, record])


def shared_squares(
    items: npt.NDArray[np.uint8], item_set: Index, language: Index, model: Index
) -> dict[str, float]:
    """Sums over pairs of cells of n_ce^2 / (n_c n_e), by kind of pair.

    Parameters
    ----------
    items : array of uint8, shape (n_sets, n_items / 8)
        Which items a set has, eight to a byte.
    item_set : array of int, shape (n_cells,)
        The set of every cell.
    language, model : array of int, shape (n_cells,)
        Of every cell.
    """
    n_sets = len(items)
    size = np.bitwise_count(items).sum(axis=1).astype(np.float64)
    counts = {
        "all": np.bincount(item_set, minlength=n_sets)[None, :].astype(np.float64),
        "language": _counts(language, item_set, n_sets),
        "model": _counts(model, item_set, n_sets),
    }
    sums = dict.fromkeys(counts, 0.0)
    step = max(1, _BLOCK // max(8 * items.shape[1], n_sets, 1))
    for start in range(0, n_sets, step):
        rows = slice(start, start + step)
        both = np.zeros((len(items[rows]), n_sets))
        own = np.unpackbits(items[rows], axis=1).astype(np.float32)
        for other in range(0, n_sets, step):
            columns = slice(other, other + step)
            both[:, columns] = own @ np.unpackbits(items[columns], axis=1).astype(np.float32).T
        ratio = both**2 / np.outer(size[rows], size)
        for kind, count in counts.items():
            sums[kind] += float(((count[:, rows].T @ count) * ratio).sum())
    return {**sums, "cell": float(len(item_set))}


def _counts(group: Index, item_set: Index, n_sets: int) -> Floats:
    """Cells of every group that have each set, shape (n_groups, n_sets)."""
    _, place = np.unique(group, return_inverse=True)
    table = np.zeros((int(place.max()) + 1, n_sets))
    np.add.at(table, (place, item_set), 1.0)
    return table
