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

# Groups up to which a standard error includes what other parts share: a few seconds.
_MOST_GROUPS: Final = 2000

# A covariance of bootstraps counts from so many of the standard errors that it has where no
# test sets are shared but by the other parts. Equal labels need not mean equal test sets.
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

        Rounding leaves specks where pairs share nothing that could tell. Two cells that share
        something have 0.5 or more, in both orders, so that half of it tells them from specks.
        """
        known = self.shared - 2.0 * self.scaled + self.squares
        return 0.0 if known < 0.25 else known

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


def split_boot_variances(
    sums: dict[str, PairSums], mean_square: Floats, language: Index, model: Index
) -> Floats:
    """The four variances of a test set in one task: task, language, model, record.

    Parameters
    ----------
    sums : dict of str to PairSums
        By kind, of bootstraps in the place of items.
    mean_square : array of float, shape (n_cells,)
        Variance of each cell over its bootstraps.
    language, model : array of int, shape (n_cells,)

    Notes
    -----
    The scores of a cell on B bootstraps are draws about its score, so that their covariance is
    not divided by B. A part is set to 0 unless it is above two of the standard errors that it has
    where nothing but the other parts is shared (:func:`_trace`).
    """
    both = sums["cell"]
    pairs = {
        "task": sums["all"] - sums["language"] - sums["model"] + both,
        "language": sums["language"] - both,
        "model": sums["model"] - both,
    }
    counts = {kind: of_kind.pairs for kind, of_kind in pairs.items()}
    known = {kind: of_kind.known for kind, of_kind in pairs.items()}
    found = {
        kind: of_kind.products / known[kind] if known[kind] else 0.0
        for kind, of_kind in pairs.items()
    }
    sd = np.sqrt(mean_square)
    products = over_pairs(sd, language, model)
    typical = {
        "task": products["all"] - products["language"] - products["model"] + products["cell"],
        "language": products["language"] - products["cell"],
        "model": products["model"] - products["cell"],
    }

    def rho(kind: str, covariance: float) -> float:
        of_pairs = typical[kind] / counts[kind] if counts[kind] > 0.5 else 0.0
        return min(max(covariance, 0.0) / of_pairs, 1.0) if of_pairs > 0.0 else 0.0

    def beyond(kind: str, base: float, others: dict[str, float]) -> float:
        if not known[kind]:
            return 0.0
        weights = {kind: 1.0 / counts[kind]} | ({"task": -1.0 / counts["task"]} if base else {})
        trace = _trace(weights, others, sd, language, model)
        error = np.sqrt(2.0 * max(trace, 0.0) * counts[kind] / known[kind])
        return found[kind] - base if found[kind] - base > _CLEAR * error else 0.0

    alone = {kind: rho(kind, found[kind]) for kind in ("language", "model")}
    task = beyond("task", 0.0, alone)
    shared = {"task": rho("task", task)}
    beside = {kind: rho(kind, found[kind] - task) for kind in ("language", "model")}
    by_language = beyond("language", task, shared | {"model": beside["model"]})
    by_model = beyond("model", task, shared | {"language": beside["language"]})
    total = both.products / both.known if both.known else 0.0
    rest = max(total - task - by_language - by_model, 0.0)
    return np.array([task, by_language, by_model, rest])


def _trace(
    weights: dict[str, float], rho: dict[str, float], sd: Floats, language: Index, model: Index
) -> float:
    """Trace of W S W S: half the variance of x' W x for normal x with the covariance matrix S.

    W has a weight for each pair of cells of a kind (``task``: of different languages and models),
    and the correlation of two cells in S is the sum of those of what they have in common.
    With an indicator column for each group, both are of low rank but for their diagonals.
    """
    n_languages, n_models = int(language.max()) + 1, int(model.max()) + 1
    if 1 + n_languages + n_models > _MOST_GROUPS:
        rho = {}
    cell = np.arange(len(sd))
    place = np.concatenate([0 * cell, 1 + language, 1 + n_languages + model])
    ones = np.ones(len(place)), (np.tile(cell, 3), place)
    groups = sparse.coo_array(ones, shape=(len(sd), 1 + n_languages + n_models)).tocsr()

    def by_group(values: tuple[float, float, float]) -> Floats:
        return np.repeat(values, (1, n_languages, n_models))

    def gram(value: Floats) -> sparse.csr_array:
        return groups.T @ groups.multiply(value[:, None]).tocsr()

    task, of_language, of_model = (weights.get(kind, 0.0) for kind in ("task", "language", "model"))
    # Those of the same cell are in all three groups.
    diagonal = task - of_language - of_model
    within = by_group((task, of_language - task, of_model - task))
    common = by_group((rho.get("task", 0.0), rho.get("language", 0.0), rho.get("model", 0.0)))
    own = sd**2 * max(1.0 - sum(rho.values()), 0.0)
    squares = gram(own).power(2)
    trace = float(within @ (squares @ within))
    trace += diagonal**2 * float((own**2).sum()) + 2.0 * diagonal * float(
        within @ gram(own**2).diagonal()
    )
    if common.any():
        one, two, cross = (gram(value).toarray() for value in (sd, sd**2, own * sd))
        mixed = common[:, None] * (one @ (within[:, None] * one) + diagonal * two)
        trace += float((mixed * mixed.T).sum())
        through = gram(own).toarray() @ (within[:, None] * one) + diagonal * cross
        trace += 2.0 * float((within[:, None] * (through @ (common[:, None] * one))).trace())
        rest = cross @ (within[:, None] * one) + diagonal * gram(own * sd**2).toarray()
        trace += 2.0 * diagonal * float((common[:, None] * rest).trace())
    return trace


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
