"""Schur complement: eliminate one term from the cross-products.

The eliminated block of ``A`` is diagonal, so the correction of the kept block is a sum
over its levels, each a product of the few links that meet in the level.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from bayeseval._typing import Floats, Index
from bayeseval.engines._marginal_stats import Statistics

__all__ = ["ManyClasses", "Meeting", "OneClass", "meeting_links", "one_class"]


@dataclass(frozen=True, eq=False)
class Meeting:
    """Pairs of links that meet in a level, and the entries that their products add to.

    Attributes
    ----------
    first, second : ndarray of int, shape (n_pairs,)
        The links.
    target : ndarray of int, shape (n_targets,)
        Entries of the flattened (p + 1, p + 1) cross-products that have pairs.
    place : ndarray of int, shape (n_pairs,)
        Position of each pair's entry among the targets.
    """

    first: Index
    second: Index
    target: Index
    place: Index


def meeting_links(statistics: Statistics) -> Meeting:
    """Every ordered pair of links in the same level of the eliminated term."""
    sizes = np.bincount(statistics.link_level, minlength=statistics.eliminated.size)
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    own = sizes[statistics.link_level]
    first = np.repeat(np.arange(len(own)), own)
    # Position of each pair within its first link's run, then within the level.
    run = np.arange(len(first)) - np.repeat(np.cumsum(own) - own, own)
    second = starts[statistics.link_level[first]] + run
    row = statistics.link_row
    entry = row[first] * (statistics.n_kept + 1) + row[second]
    target, place = np.unique(entry, return_inverse=True)
    return Meeting(first=first, second=second, target=target, place=place)


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
    cross : ndarray, shape ((p + 1)**2,)
        Cross-products before the elimination, without the precision.
    counts : ndarray, shape (n_groups,)
        Count of each group.
    group : ndarray of int, shape (n_levels,)
        Group of each level.
    target : ndarray of int, shape (n_targets,)
        Entries that the products add to, see `Meeting`.
    products : csr_array, shape (n_targets, n_groups)
        Sums of products.
    sums : csr_array, shape (p + 1, n_groups)
        Sums of links.
    links : csr_array, shape (n_levels, p + 1)
        The links themselves.
    zero_sum : bool
        Whether the eliminated coefficients sum to zero.
    """

    cross: Floats
    counts: Floats
    group: Index
    target: Index
    products: sparse.csr_array
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
            Not used here.
        out : ndarray, shape (b, p + 1, p + 1)
            Array for the results, which are without the precision.

        Returns
        -------
        ndarray, shape (b, n_levels)
            Diagonal of the eliminated block of A.
        """
        diagonal = 1.0 + ratio[:, None] * self.counts
        correction = (self.products @ (ratio[:, None] / diagonal).T).T
        for flat, values in zip(out.reshape(len(out), -1), correction, strict=True):
            flat[:] = self.cross
            flat[self.target] -= values
        by_level = diagonal[:, self.group]
        if self.zero_sum:
            # On the contrasts the inverse of the block is smaller by a rank-one matrix.
            total = (self.sums @ (1.0 / diagonal).T).T
            share = ratio / (1.0 / by_level).sum(axis=1)
            out += share[:, None, None] * total[:, :, None] * total[:, None, :]
        return np.asarray(by_level)

    def link(self, precision: Floats) -> sparse.csr_array:
        """Links of levels and kept columns (the last for the scores), without the precision."""
        return self.links


@dataclass(frozen=True, eq=False)
class ManyClasses:
    """Elimination with several noise classes: every point needs its own sums."""

    statistics: Statistics
    meeting: Meeting

    def reduce(self, ratio: Floats, precision: Floats, *, out: Floats) -> Floats:
        """Compute the Schur complements at a batch of points.

        Parameters
        ----------
        ratio : ndarray, shape (b,)
            Prior variance of the eliminated coefficients.
        precision : ndarray, shape (b, n_classes)
            Residual precisions.
        out : ndarray, shape (b, p + 1, p + 1)
            Array for the results.

        Returns
        -------
        ndarray, shape (b, n_levels)
            Diagonal of the eliminated block of A.
        """
        return np.stack([self._reduce(*at) for at in zip(ratio, precision, out, strict=True)])

    def _reduce(self, ratio: float, precision: Floats, out: Floats) -> Floats:
        statistics, meeting = self.statistics, self.meeting
        diagonal = 1.0 + ratio * (statistics.count_map @ precision)
        link = statistics.link_map @ precision
        divided = link / diagonal[statistics.link_level]
        flat = out.reshape(-1)
        flat[:] = statistics.cross_map @ precision
        products = divided[meeting.first] * link[meeting.second]
        flat[meeting.target] -= ratio * np.bincount(meeting.place, products)
        if statistics.eliminated.zero_sum:
            total = np.bincount(statistics.link_row, divided, minlength=len(out))
            out += ratio / (1.0 / diagonal).sum() * np.outer(total, total)
        return np.asarray(diagonal)

    def link(self, precision: Floats) -> sparse.csr_array:
        """Links of levels and kept columns (the last for the scores), weighted."""
        return _link_matrix(self.statistics, self.statistics.link_map @ precision)


def one_class(statistics: Statistics) -> OneClass:
    """Precompute the elimination of a table with one noise class."""
    width = statistics.n_kept + 1
    counts, group = np.unique(statistics.count_map.toarray()[:, 0], return_inverse=True)
    groups = group[statistics.link_level]
    links = _link_matrix(statistics, statistics.link_map @ np.ones(1))
    meeting = meeting_links(statistics)
    values = links.data[meeting.first] * links.data[meeting.second]
    products = sparse.coo_array(
        (values, (meeting.place, groups[meeting.first])),
        shape=(len(meeting.target), len(counts)),
    )
    sums = sparse.coo_array((links.data, (statistics.link_row, groups)), (width, len(counts)))
    return OneClass(
        cross=statistics.cross_map.toarray()[:, 0],
        counts=counts,
        group=group,
        target=meeting.target,
        products=products.tocsr(),
        sums=sums.tocsr(),
        links=links,
        zero_sum=statistics.eliminated.zero_sum,
    )
