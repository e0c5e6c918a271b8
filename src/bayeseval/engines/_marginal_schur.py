"""Schur complement: eliminate one term from the cross-products.

The eliminated block of ``A`` is diagonal, so the correction of the kept block is a sum
over its levels, each a product of the few links that meet in the level.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy import sparse

from bayeseval._typing import Floats, Index
from bayeseval.engines._marginal_layout import Layout
from bayeseval.engines._marginal_stats import Statistics

__all__ = ["ManyClasses", "Meeting", "OneClass", "many_classes", "meeting_links", "one_class"]

# Pairs of links whose products are in memory at the same time.
_PAIRS: Final = 1_000_000

# With more stored entries, a product for each point takes less time than one for all points, whose
# result has to be transposed (0.05 and 0.09 ms for 60,000 entries).
_LARGE: Final = 10_000


@dataclass(frozen=True, eq=False)
class Meeting:
    """Pairs of links that meet in a level, and the entries that their products add to.

    Attributes
    ----------
    first, second : ndarray of int, shape (n_pairs,)
        The links.
    target : ndarray of int, shape (n_targets,)
        Stored entries of the kept block that have pairs, see `Layout`.
    place : ndarray of int, shape (n_pairs,)
        Position of each pair's entry among the targets.
    """

    first: Index
    second: Index
    target: Index
    place: Index


def meeting_links(statistics: Statistics) -> Meeting:
    """Every pair of links in the same level of the eliminated term."""
    first, second = (np.concatenate(part) for part in zip(*_pairs(statistics), strict=True))
    entry = _entries(statistics, first, second)
    target, place = np.unique(entry, return_inverse=True)
    return Meeting(first=first, second=second, target=target, place=place)


def _pairs(statistics: Statistics) -> Iterator[tuple[Index, Index]]:
    """Pairs of links in the same level, the one of the larger column first, in parts."""
    sizes = np.bincount(statistics.link_level, minlength=statistics.eliminated.size)
    starts = np.concatenate([[0], np.cumsum(sizes)])
    # Links of a level are in ascending order of their columns.
    n_pairs = np.concatenate([[0], np.cumsum(sizes * (sizes + 1) // 2)])
    n_parts = 1 + int(n_pairs[-1]) // _PAIRS
    cuts = np.searchsorted(n_pairs, np.linspace(0, n_pairs[-1], n_parts + 1))
    for low, high in zip(cuts[:-1], cuts[1:], strict=True):
        link = np.arange(starts[low], starts[high])
        # A link meets those before it in its level, and itself.
        rank = link - starts[statistics.link_level[link]] + 1
        first = np.repeat(link, rank)
        run = np.arange(len(first)) - np.repeat(np.cumsum(rank) - rank, rank)
        yield first, starts[statistics.link_level[first]] + run


def _entries(statistics: Statistics, first: Index, second: Index) -> Index:
    row = statistics.link_row
    return statistics.layout.position(row[first], row[second])


def _cross_entries(statistics: Statistics) -> Index:
    return statistics.layout.position(statistics.cross_row, statistics.cross_column)


def _link_matrix(statistics: Statistics, values: Floats) -> sparse.csr_array:
    sizes = np.bincount(statistics.link_level, minlength=statistics.eliminated.size)
    starts = np.concatenate([[0], np.cumsum(sizes)])
    shape = (statistics.eliminated.size, statistics.n_kept + 1)
    return sparse.csr_array((values, statistics.link_row, starts), shape=shape)


@dataclass(frozen=True, eq=False)
class OneClass:
    """Elimination with one noise class: the residual precision is a common factor.

    Levels of the eliminated term with the same count form a group; the products of links
    that meet in a level are summed by group once.

    Attributes
    ----------
    layout : Layout
        Where entries of the kept block are stored.
    counts : ndarray, shape (n_groups,)
        Count of each group.
    group : ndarray of int, shape (n_levels,)
        Group of each level.
    matrix : csc_array, shape (layout.size, 1 + n_groups)
        Cross-products before the elimination, without the precision, and minus the sums of
        products by group.
    sums : csr_array, shape (p + 1, n_groups)
        Sums of links.
    links : csr_array, shape (n_levels, p + 1)
        The links themselves.
    zero_sum : bool
        Whether the eliminated coefficients sum to zero. Then none are nested.
    """

    layout: Layout
    counts: Floats
    group: Index
    matrix: sparse.csc_array
    sums: sparse.csr_array
    links: sparse.csr_array
    zero_sum: bool

    def reduce(self, ratio: Floats, precision: Floats, *, out: Floats) -> Floats:
        """Compute the Schur complements at a batch of points.

        Parameters
        ----------
        ratio : ndarray, shape (b,)
            Prior variance of the eliminated coefficients times the precision.
        precision : ndarray, shape (b, 1)
            Residual precision.
        out : ndarray, shape (b, layout.size)
            Array for the results.

        Returns
        -------
        ndarray, shape (b, n_levels)
            Diagonal of the eliminated block of A.
        """
        diagonal = 1.0 + ratio[:, None] * self.counts
        weights = np.concatenate([np.ones((len(ratio), 1)), ratio[:, None] / diagonal], axis=1)
        weights *= precision
        if self.layout.size > _LARGE:
            for i, weight in enumerate(weights):
                out[i] = self.matrix @ weight
        else:
            out[:] = (self.matrix @ weights.T).T
        by_level = diagonal[:, self.group]
        if self.zero_sum:
            # On the contrasts the inverse of the block is smaller by a rank-one matrix.
            total = (self.sums @ (1.0 / diagonal).T).T
            share = precision[:, 0] * ratio / (1.0 / by_level).sum(axis=1)
            self.layout.core(out)[:] += share[:, None, None] * total[:, :, None] * total[:, None, :]
        return np.asarray(by_level)

    def link(self, precision: Floats) -> sparse.csr_array:
        """Links of levels and kept columns (the last for the scores), without the precision."""
        return self.links


@dataclass(frozen=True, eq=False)
class ManyClasses:
    """Elimination with several noise classes: every point needs its own sums."""

    statistics: Statistics
    meeting: Meeting
    cross: Index

    def reduce(self, ratio: Floats, precision: Floats, *, out: Floats) -> Floats:
        """Compute the Schur complements at a batch of points.

        Parameters
        ----------
        ratio : ndarray, shape (b,)
            Prior variance of the eliminated coefficients.
        precision : ndarray, shape (b, n_classes)
            Residual precisions.
        out : ndarray, shape (b, layout.size)
            Array for the results.

        Returns
        -------
        ndarray, shape (b, n_levels)
            Diagonal of the eliminated block of A.
        """
        diagonal = [self._reduce(*at) for at in zip(ratio, precision, out, strict=True)]
        return np.stack(diagonal)

    def _reduce(self, ratio: float, precision: Floats, out: Floats) -> Floats:
        statistics, meeting = self.statistics, self.meeting
        diagonal = 1.0 + ratio * (statistics.count_map @ precision)
        link = statistics.link_map @ precision
        divided = link / diagonal[statistics.link_level]
        out[:] = 0.0
        out[self.cross] = statistics.cross_map @ precision
        products = divided[meeting.first] * link[meeting.second]
        out[meeting.target] -= ratio * np.bincount(meeting.place, products)
        if statistics.eliminated.zero_sum:
            total = np.bincount(statistics.link_row, divided, minlength=statistics.n_kept + 1)
            core = statistics.layout.core(out[None])
            core += ratio / (1.0 / diagonal).sum() * np.outer(total, total)
        return np.asarray(diagonal)

    def link(self, precision: Floats) -> sparse.csr_array:
        """Links of levels and kept columns (the last for the scores), weighted."""
        return _link_matrix(self.statistics, self.statistics.link_map @ precision)


def many_classes(statistics: Statistics) -> ManyClasses:
    """Precompute the elimination of a table with several noise classes."""
    return ManyClasses(
        statistics=statistics,
        meeting=meeting_links(statistics),
        cross=_cross_entries(statistics),
    )


def one_class(statistics: Statistics) -> OneClass:
    """Precompute the elimination of a table with one noise class."""
    counts, group = np.unique(statistics.count_map.toarray()[:, 0], return_inverse=True)
    groups = group[statistics.link_level]
    links = _link_matrix(statistics, statistics.link_map @ np.ones(1))
    width = 1 + len(counts)
    entries, values = [_cross_entries(statistics) * width], [statistics.cross_map @ np.ones(1)]
    for first, second in _pairs(statistics):
        at = _entries(statistics, first, second) * width + 1 + groups[first]
        found, place = np.unique(at, return_inverse=True)
        entries.append(found)
        values.append(-np.bincount(place, links.data[first] * links.data[second]))
    position, column = np.divmod(np.concatenate(entries), width)
    shape = (statistics.layout.size, width)
    matrix = sparse.coo_array((np.concatenate(values), (position, column)), shape=shape)
    sums = sparse.coo_array(
        (links.data, (statistics.link_row, groups)), (statistics.n_kept + 1, len(counts))
    )
    return OneClass(
        layout=statistics.layout,
        counts=counts,
        group=group,
        matrix=matrix.tocsc(),
        sums=sums.tocsr(),
        links=links,
        zero_sum=statistics.eliminated.zero_sum,
    )
