"""Levels of a table under sets of factors, and the rank of their indicators: counts, no matrix."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from bayeseval import names
from bayeseval._typing import Floats, Index
from bayeseval.records import Records

__all__ = ["LevelTable", "Levels", "atoms_of", "factor_operations"]

# Up to this many combinations, a lookup table is faster than sorting.
_TABLE_SIZE: Final = 10_000_000


@dataclass(frozen=True, eq=False)
class Levels:
    """Level of every record under a combination of factors, and the number of such levels."""

    index: Index
    n: int


class LevelTable:
    """Levels of a table under any set of factors, cached.

    A set with ``task`` also holds ``dataset``, which tasks are nested in, so that the common
    margin of two terms is the intersection of their sets.
    """

    def __init__(self, base: Mapping[str, Index], sizes: Mapping[str, int]) -> None:
        self._base, self._sizes = base, sizes
        self._cache: dict[frozenset[str], Levels] = {}
        self._by_member: dict[tuple[str, str], Index] = {}

    @classmethod
    def from_records(cls, records: Records, codes: Mapping[names.Factor, Index]) -> LevelTable:
        """Cells of a table, with the level of each under every factor."""
        datasets = records.datasets
        dataset = [datasets[task] for task in records.coords[names.TASK]]
        position = {label: i for i, label in enumerate(dict.fromkeys(dataset))}
        dataset_of_task = np.array([position[label] for label in dataset], dtype=np.int64)
        sizes: dict[str, int] = {f: len(records.coords[f]) for f in names.FACTORS}
        base: dict[str, Index] = {names.DATASET: dataset_of_task[codes[names.TASK]]}
        base |= {factor: codes[factor] for factor in names.FACTORS}
        return cls(base, sizes | {names.DATASET: len(position)})

    @property
    def n_records(self) -> int:
        """Number of cells."""
        return len(self._base[names.TASK])

    def size(self, factor: str) -> int:
        """Number of levels of a factor."""
        return self._sizes[factor]

    def levels(self, atoms: frozenset[str]) -> Levels:
        """Combinations of the factors' levels that occur."""
        if atoms not in self._cache:
            self._cache[atoms] = self._count(atoms)
        return self._cache[atoms]

    def _count(self, atoms: frozenset[str]) -> Levels:
        factors = sorted(atoms - {names.DATASET} if names.TASK in atoms else atoms)
        key, size = np.zeros(self.n_records, dtype=np.int64), 1
        for factor in factors:
            key = key * self._sizes[factor] + self._base[factor]
            size *= self._sizes[factor]
        index, n = _renumber(key, size)
        return Levels(index, n)

    def of_term(self, term: str) -> Levels:
        """Cells of a term that occur."""
        return self.levels(atoms_of(term))

    def levels_by_member(self, term: str, factor: str) -> Index:
        """Cells of a term in each level of one of its factors."""
        if (term, factor) not in self._by_member:
            levels = self.of_term(term)
            member = np.empty(levels.n, dtype=np.int64)
            member[levels.index] = self._base[factor]
            counts = np.bincount(member, minlength=self.size(factor))
            self._by_member[term, factor] = counts
        return self._by_member[term, factor]

    def rank(self, parts: Sequence[frozenset[str]]) -> int:
        """Rank of the indicators of at most two sets of factors, neither within the other."""
        if not parts:
            return 1
        first = self.levels(parts[0])
        if len(parts) == 1:
            return first.n
        second = self.levels(parts[1])
        edges, n_edges = _renumber(first.index * second.n + second.index, first.n * second.n)
        edge = np.zeros(n_edges, dtype=np.int64)
        edge[edges] = np.arange(len(edges))
        shape = (first.n + second.n,) * 2
        graph = sparse.coo_array(
            (np.ones(n_edges), (first.index[edge], first.n + second.index[edge])), shape=shape
        )
        return first.n + second.n - int(connected_components(graph, directed=False)[0])


def _renumber(key: Index, size: int) -> tuple[Index, int]:
    """Renumber keys below `size` as 0..n-1, keeping their order; also return n."""
    if size <= _TABLE_SIZE:
        occurs = np.zeros(size, dtype=bool)
        occurs[key] = True
        return (np.cumsum(occurs) - 1)[key], int(occurs.sum())
    values, index = np.unique(key, return_inverse=True)
    return index.reshape(-1).astype(np.int64), len(values)


def atoms_of(term: str) -> frozenset[str]:
    """Factors of a term, with ``dataset`` wherever there is ``task``."""
    factors = set(term.split(":"))
    return frozenset(factors | {names.DATASET} if names.TASK in factors else factors)


def factor_operations(n_core: int, sizes: Index | Floats) -> float:
    """Roughly the multiplications of a factor: nested groups, then their effect on the core.

    Parameters
    ----------
    n_core : int
        Coefficients of the core.
    sizes : ndarray, shape (n_groups,)
        Nested coefficients of each group.
    """
    width, sizes = n_core + 2.0, np.asarray(sizes, dtype=np.float64)
    groups = (2.0 * sizes**3 + sizes**2 * width).sum()
    return float(groups + sizes.sum() * width**2 + width**3 / 3.0)
