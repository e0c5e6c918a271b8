"""How cell means vary together through shared items, from sums over the cells of each item.

:func:`bayeseval.records.items.item_variance` needs sums over pairs of cells. For all pairs of a
task, of a language or of a model they are squares of sums over cells, item by item, so that no
pair is formed: with the deviation d, the sum over pairs of d_c d_e is (sum_c d_c)^2. Only the
squared numbers of shared items need pairs, of which cells with the same items count as one.
Bootstrapped test sets are treated alike, with test sets in the place of items.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
from scipy import sparse

from bayeseval._typing import Floats, Index
from bayeseval.records.coded import combined_key

__all__ = [
    "KINDS",
    "PairSums",
    "of_cells",
    "over_pairs",
    "shared_squares",
    "split_boot_variances",
    "split_variances",
    "sums_of_task",
]

#: Which cells are summed over for an item: all of the task, of one language, of one model; and
#: the cell alone.
KINDS: Final = ("all", "language", "model", "cell")

# Item sets times items that are held as numbers at once: 80 MB.
_BLOCK: Final = 10_000_000

# A product of sparse matrices takes about so many times as long as one of full ones, by operation.
_SPARSE: Final = 50.0

# A covariance of bootstraps counts from so many of the standard errors that it has where the
# test sets are independent. Equal labels need not mean equal test sets.
_CLEAR: Final = 2.0


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
    def known(self) -> float:
        """Sum of the factors of the covariance in the expected products.

        Rounding leaves specks where pairs share nothing that could tell: below 0.5 it is 0.
        """
        known = self.shared - 2.0 * self.scaled + self.squares
        return 0.0 if known < 0.5 else known

    @property
    def covariance(self) -> float | None:
        """Mean covariance of the cell means of these pairs; None without any pair."""
        if self.pairs < 0.5:
            return None
        return self.products / self.known * self.overlap / self.pairs if self.known else 0.0


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


def split_boot_variances(sums: dict[str, PairSums], spread: dict[str, float]) -> Floats:
    """The four variances of a test set in one task: task, language, model, record.

    Parameters
    ----------
    sums : dict of str to PairSums
        By kind, of bootstraps in the place of items.
    spread : dict of str to float
        By kind: sum over the pairs of the products of both cells' mean squares.

    Notes
    -----
    The scores of a cell on B bootstraps are draws about its score, so that their covariance is
    not divided by B. A sum of products over independent test sets has the variance
    2 x spread x known / pairs. A part is set to 0 unless it is above two such standard errors.
    """

    def beyond(base: float, pairs: PairSums, products_of_squares: float) -> float:
        if not pairs.known:
            return 0.0
        excess = pairs.products / pairs.known - base
        error = np.sqrt(2.0 * max(products_of_squares, 0.0) / (pairs.pairs * pairs.known))
        return excess if excess > _CLEAR * error else 0.0

    both, alone = sums["cell"], spread["cell"]
    task = beyond(
        0.0,
        sums["all"] - sums["language"] - sums["model"] + both,
        spread["all"] - spread["language"] - spread["model"] + alone,
    )
    by_language = beyond(task, sums["language"] - both, spread["language"] - alone)
    by_model = beyond(task, sums["model"] - both, spread["model"] - alone)
    total = both.products / both.known if both.known else 0.0
    shared = task + by_language + by_model
    return np.array([task, by_language, by_model, max(total - shared, 0.0)])


def over_pairs(values: Floats, language: Index, model: Index) -> dict[str, float]:
    """Sums over the pairs of cells of the products of both cells' values, by kind of pair."""
    sums = {
        kind: float((np.bincount(group, values) ** 2).sum())
        for kind, group in (("language", language), ("model", model))
    }
    return {**sums, "all": float(values.sum() ** 2), "cell": float((values**2).sum())}


def of_cells(square: float, n: Floats, pairs: float) -> PairSums:
    """Sums over the pairs of a cell with itself.

    Parameters
    ----------
    square : float
        Sum of the squared deviations of all items.
    n : array of float, shape (n_cells,)
        Number of items of each cell.
    pairs : float
        Number of these pairs that count.
    """
    n_cells = float(len(n))
    return PairSums(
        products=square,
        shared=float(n.sum()),
        scaled=n_cells,
        overlap=float((1.0 / n).sum()),
        squares=n_cells,
        pairs=pairs,
    )


def sums_of_task(
    cell: Index, unit: Index, centred: Floats, language: Index, model: Index
) -> dict[str, PairSums]:
    """Sums over the pairs of cells of one task, by kind of pair, from the rows of its cells.

    Parameters
    ----------
    cell, unit : array of int, shape (n_rows,)
        Cell (from 0) and item or test set of every row; no two rows have both in common.
    centred : array of float, shape (n_rows,)
        Deviation of each row from the mean of its cell.
    language, model : array of int, shape (n_cells,)
        Of every cell.

    Notes
    -----
    Time and memory grow with the rows, and with the pairs of different item sets that share items.
    """
    order = np.lexsort((unit, cell))
    cell, unit, centred = cell[order], unit[order], centred[order]
    n_cells = len(language)
    n = np.bincount(cell, minlength=n_cells).astype(np.float64)
    item_sets, set_of_cell = _item_sets(cell, unit, n_cells)
    squares = shared_squares(item_sets, set_of_cell, language, model)
    pairs = over_pairs(np.ones(n_cells), language, model)
    weight = 1.0 / n[cell]
    sums = {"cell": of_cells(float((centred**2).sum()), n, pairs["cell"])}
    groups = {"all": np.zeros_like(cell), "language": language[cell], "model": model[cell]}
    for kind, group in groups.items():
        _, both = np.unique(combined_key([group, unit]), return_inverse=True)
        together, weights = np.bincount(both).astype(np.float64), np.bincount(both, weight)
        sums[kind] = PairSums(
            products=float((np.bincount(both, centred) ** 2).sum()),
            shared=float((together**2).sum()),
            scaled=float((together * weights).sum()),
            overlap=float((weights**2).sum()),
            squares=squares[kind],
            pairs=pairs[kind],
        )
    return sums


def _item_sets(cell: Index, unit: Index, n_cells: int) -> tuple[sparse.csr_array, Index]:
    """The different sets of items, (n_sets, n_items), and the set of each cell; rows sorted."""
    bounds = np.searchsorted(cell, np.arange(n_cells + 1))
    numbers: dict[bytes, int] = {}
    set_of_cell = np.zeros(n_cells, dtype=np.int64)
    first: list[slice] = []
    for i in range(n_cells):
        own = slice(bounds[i], bounds[i + 1])
        set_of_cell[i] = numbers.setdefault(unit[own].tobytes(), len(numbers))
        if len(numbers) > len(first):
            first.append(own)
    items = np.concatenate([unit[own] for own in first])
    starts = np.cumsum([0, *(own.stop - own.start for own in first)])
    shape = len(first), int(unit.max()) + 1
    return sparse.csr_array((np.ones(len(items)), items, starts), shape=shape), set_of_cell


def shared_squares(
    items: npt.NDArray[np.uint8] | sparse.csr_array, item_set: Index, language: Index, model: Index
) -> dict[str, float]:
    """Sums over pairs of cells of n_ce^2 / (n_c n_e), by kind of pair.

    Parameters
    ----------
    items : array of uint8, shape (n_sets, n_items / 8), or sparse array, shape (n_sets, n_items)
        Which items a set has, eight to a byte or with a 1 for each.
    item_set : array of int, shape (n_cells,)
        The set of every cell.
    language, model : array of int, shape (n_cells,)
        Of every cell.
    """
    n_sets = items.shape[0]
    counts = {
        "all": _counts(np.zeros_like(item_set), item_set, n_sets),
        "language": _counts(language, item_set, n_sets),
        "model": _counts(model, item_set, n_sets),
    }
    sums = dict.fromkeys(counts, 0.0)
    for rows, ratio in _ratios(items):
        for kind, count in counts.items():
            sums[kind] += float(count.multiply(count[:, rows] @ ratio).sum())
    return sums


def _ratios(
    items: npt.NDArray[np.uint8] | sparse.csr_array,
) -> Iterator[tuple[slice, Floats | sparse.csr_array]]:
    """Squared numbers of items that sets share, over the product of their sizes: some rows."""
    packed = isinstance(items, np.ndarray)
    n_sets, n_items = items.shape[0], items.shape[1] * (8 if packed else 1)
    few = max(1, _BLOCK // max(n_items, n_sets))
    if packed and int(np.bitwise_count(items).sum(dtype=np.int64)) <= _BLOCK:
        blocks = [_unpacked(items, slice(i, i + few)) for i in range(0, n_sets, few)]
        items = sparse.vstack(blocks, format="csr")
    if isinstance(items, sparse.csr_array):
        shared = float((np.bincount(items.indices).astype(np.float64) ** 2).sum())
        if shared * _SPARSE < float(n_sets) ** 2 * n_items:
            size = np.asarray(items.sum(axis=1)).reshape(-1)
            step = max(1, int(_BLOCK // max(1.0, shared / n_sets)))
            for start in range(0, n_sets, step):
                both = (items[start : start + step] @ items.T).tocoo()
                row, column = both.coords
                value = both.data**2 / (size[start + row] * size[column])
                yield (
                    slice(start, start + step),
                    sparse.csr_array((value, (row, column)), shape=both.shape),
                )
            return
    for start in range(0, n_sets, few):
        rows = slice(start, start + few)
        own = _unpacked(items, rows).toarray().astype(np.float32)
        both = np.zeros((len(own), n_sets))
        size = np.zeros(n_sets)
        for other in range(0, n_sets, few):
            columns = slice(other, other + few)
            others = _unpacked(items, columns).toarray().astype(np.float32)
            both[:, columns] = own @ others.T
            size[columns] = others.sum(axis=1)
        yield rows, both**2 / np.outer(size[rows], size)


def _unpacked(items: npt.NDArray[np.uint8] | sparse.csr_array, rows: slice) -> sparse.csr_array:
    """Some rows with a 1 for every item."""
    if isinstance(items, np.ndarray):
        return sparse.csr_array(np.unpackbits(items[rows], axis=1).astype(np.float64))
    return items[rows]


def _counts(group: Index, item_set: Index, n_sets: int) -> sparse.csr_array:
    """Cells of every group that have each set, shape (n_groups, n_sets)."""
    _, place = np.unique(group, return_inverse=True)
    shape = int(place.max()) + 1, n_sets
    return sparse.coo_array((np.ones(len(place)), (place, item_set)), shape=shape).tocsr()
