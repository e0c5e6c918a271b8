"""Where the entries of the kept block of A are stored: effects nested in a factor by group.

If the eliminated term contains a factor (``model:language`` contains ``language``), then the
effects of all other terms that contain it (``language``, ``language:task``) are *nested* in
its levels: after the elimination, and given the remaining *core* coefficients, effects of
different levels are independent of each other. Their block of A is block diagonal, with one
small *group* for each level of the factor, and is eliminated group by group. Only a matrix of
the size of the core is factorised, and neither memory nor time is quadratic in the levels.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from bayeseval import names
from bayeseval._typing import Floats, Index
from bayeseval.design import Term
from bayeseval.design.levels import factor_operations

__all__ = [
    "Elimination",
    "Layout",
    "Run",
    "can_be_eliminated",
    "choose_elimination",
    "eliminations",
    "lay_out",
    "n_coefficients",
]


@dataclass(frozen=True)
class Run:
    """Groups of the same size, stored one after the other.

    Attributes
    ----------
    size : int
        Coefficients in each group.
    n_groups : int
        Number of groups.
    start : int
        First row of the first group.
    offset : int
        Position of its block in storage.
    """

    size: int
    n_groups: int
    start: int
    offset: int

    @property
    def rows(self) -> slice:
        """Rows of these groups."""
        return slice(self.start, self.start + self.size * self.n_groups)


@dataclass(frozen=True, eq=False)
class Layout:
    """Positions of the entries of the kept block of A, bordered by the scores.

    Kept coefficients are ordered: those of the core first, then nested ones by term. Nested
    coefficients have *rows*, ordered by group. Storage consists of the blocks of the groups
    (lower triangles), of the products of nested and core coefficients (one row for each nested
    coefficient, the scores last), and of the core (lower triangle).

    Attributes
    ----------
    n_kept : int
        Number of kept coefficients, p.
    columns : ndarray of int, shape (n_nested,)
        Kept coefficient of each row.
    runs : tuple of Run
        Groups, by size.
    last : ndarray of int, shape (n_groups,), or None
        Rows of the coefficients that sum to zero, of which every group has one, its last.
    """

    n_kept: int
    columns: Index
    runs: tuple[Run, ...]
    last: Index | None

    @property
    def n_nested(self) -> int:
        """Number of nested coefficients."""
        return len(self.columns)

    @property
    def n_core(self) -> int:
        """Number of core coefficients, c."""
        return self.n_kept - self.n_nested

    @property
    def size(self) -> int:
        """Number of stored entries."""
        width = self.n_core + 1
        return self._start_of_rows + (self.n_nested + width) * width

    @property
    def operations(self) -> float:
        """Roughly the multiplications of a factor."""
        sizes = np.repeat([run.size for run in self.runs], [run.n_groups for run in self.runs])
        return factor_operations(self.n_core, sizes)

    @property
    def _start_of_rows(self) -> int:
        return sum(run.n_groups * run.size**2 for run in self.runs)

    def position(self, row: Index, column: Index) -> Index:
        """Positions of entries; ``row >= column`` are kept coefficients, or p for the scores."""
        c, width = self.n_core, self.n_core + 1
        # Scores come after the nested coefficients, but are stored after those of the core.
        scores = row == self.n_kept
        in_core = np.where(scores, c, row) * width + np.where(column == self.n_kept, c, column)
        result = self._start_of_rows + self.n_nested * width + in_core
        if not self.n_nested:
            return np.asarray(result)
        nested = ~scores & (row >= c)
        own = self.row_of[row[nested] - c]
        other = column[nested]
        place = self._start_of_rows + own * width + other
        both = np.flatnonzero(other >= c)
        place[both] = self._in_block(own[both], self.row_of[other[both] - c])
        result[nested] = place
        # Products of nested coefficients and scores belong to the rows of the former.
        border = scores & (column >= c) & (column < self.n_kept)
        result[border] = self._start_of_rows + self.row_of[column[border] - c] * width + c
        return result

    @property
    def row_of(self) -> Index:
        """Row of each nested coefficient, shape (n_nested,)."""
        rows = np.empty(self.n_nested, dtype=np.int64)
        rows[self.columns - self.n_core] = np.arange(self.n_nested)
        return rows

    def _in_block(self, row: Index, column: Index) -> Index:
        """Positions of entries of blocks, with the larger row first."""
        row, column = np.maximum(row, column), np.minimum(row, column)
        known = np.array([(run.start, run.size, run.offset) for run in self.runs])
        run = np.searchsorted(known[:, 0], row, side="right") - 1
        start, size, offset = known[run].T
        group, inner = np.divmod(row - start, size)
        place = offset + (group * size + inner) * size + (column - start - group * size)
        return np.asarray(place, dtype=np.int64)

    def blocks(self, stored: Floats, run: Run) -> Floats:
        """View of the blocks of a run, shape (b, n_groups, size, size)."""
        stop = run.offset + run.n_groups * run.size**2
        return stored[:, run.offset : stop].reshape(-1, run.n_groups, run.size, run.size)

    def rows(self, stored: Floats) -> Floats:
        """View of the rows of nested coefficients, shape (b, n_nested, c + 1)."""
        width = self.n_core + 1
        start = self._start_of_rows
        stop = start + self.n_nested * width
        return stored[:, start:stop].reshape(len(stored), self.n_nested, width)

    def core(self, stored: Floats) -> Floats:
        """View of the core bordered by the scores, shape (b, c + 1, c + 1)."""
        width = self.n_core + 1
        return stored[:, self.size - width * width :].reshape(-1, width, width)


def lay_out(n_core: int, groups: Sequence[Index], *, zero_sum: int | None = None) -> Layout:
    """Order nested coefficients by the size of their group, then by group.

    Parameters
    ----------
    n_core : int
        Number of core coefficients.
    groups : sequence of ndarray of int
        For each nested term, the group of its levels.
    zero_sum : int, optional
        Position of the term whose coefficients sum to zero.
    """
    n_nested = sum(map(len, groups))
    if not n_nested:
        return Layout(n_kept=n_core, columns=np.zeros(0, dtype=np.int64), runs=(), last=None)
    group = np.concatenate(groups)
    is_last = np.repeat(np.arange(len(groups)) == zero_sum, [len(own) for own in groups])
    size = np.bincount(group)
    # Within a group, the coefficient with the constraint comes last.
    order = np.lexsort((is_last, group, size[group]))
    runs = []
    start = offset = 0
    for own, n_groups in zip(*np.unique(size[size > 0], return_counts=True), strict=True):
        runs.append(Run(size=int(own), n_groups=int(n_groups), start=start, offset=offset))
        start, offset = runs[-1].rows.stop, offset + int(n_groups * own**2)
    return Layout(
        n_kept=n_core + n_nested,
        columns=n_core + order,
        runs=tuple(runs),
        last=None if zero_sum is None else np.flatnonzero(is_last[order]),
    )


def can_be_eliminated(term: Term) -> bool:
    """Whether the levels of a term have the same sd and are independent a priori."""
    return not term.is_noise and not term.rank and term.relations is None


@dataclass(frozen=True, eq=False)
class Elimination:
    """What is eliminated first, and what is nested then.

    Attributes
    ----------
    term : Term
        The term that is eliminated first.
    factor : str or None
        The factor in whose levels other terms are nested; None without any.
    nested : tuple of Term
        The nested terms.
    """

    term: Term
    factor: names.Factor | None = None
    nested: tuple[Term, ...] = ()

    @property
    def groups(self) -> list[Index]:
        """For each nested term, the group of its levels."""
        return [] if self.factor is None else [term.members[self.factor] for term in self.nested]

    def n_core(self, terms: Sequence[Term]) -> int:
        """Number of effects among the core coefficients."""
        apart = (self.term, *self.nested)
        return sum(n_coefficients(term) for term in terms if not any(term is t for t in apart))

    def operations(self, terms: Sequence[Term]) -> float:
        """Roughly the multiplications of a factor."""
        sizes = np.bincount(np.concatenate(self.groups)) if self.nested else np.zeros(0)
        return factor_operations(self.n_core(terms), sizes)


def eliminations(terms: Sequence[Term]) -> Iterator[Elimination]:
    """All ways to eliminate effects, those with the most levels first.

    Parameters
    ----------
    terms : sequence of Term
        Terms of a design.
    """
    candidates = [term for term in terms if can_be_eliminated(term)]
    for term in sorted(candidates, key=lambda term: -term.n_levels):
        yield Elimination(term)
        # The constraint of a term that sums to zero relates all groups.
        for factor in () if term.zero_sum else names.FACTORS:
            nested = tuple(t for t in candidates if t is not term and factor in t.factors)
            if nested and factor in term.factors:
                yield Elimination(term, factor, nested)


def choose_elimination(terms: Sequence[Term], *, eliminate: str | None = None) -> Elimination:
    """Choose the elimination that takes the fewest operations.

    Parameters
    ----------
    terms : sequence of Term
        Terms of a design.
    eliminate : str, optional
        Name of the term that is eliminated first, if it is given.
    """
    ways = [way for way in eliminations(terms) if eliminate in (None, way.term.name)]
    return min(ways, key=lambda way: way.operations(terms))


def n_coefficients(term: Term) -> int:
    """Coefficients of a term; those of a low-rank interaction are the loadings of models."""
    return term.rank * term.n_members(names.MODEL) if term.rank else term.n_levels
