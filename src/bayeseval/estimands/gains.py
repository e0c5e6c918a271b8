"""How much measuring a cell reduces the variance of what is asked, one cell after the other.

What is asked is a list of sums of effects t, each with a weight. A new measurement y of a cell is
its expected score plus noise, and given y the variance of t falls by ``Cov(t, y)**2 / Var(y)``,
whatever y will be. After a cell is chosen, the covariances of everything else are those given its
measurement. This is exact for jointly normal effects with known standard deviations and linear
otherwise.

References
----------
Krause, Singh and Guestrin (2008), Near-optimal sensor placements in Gaussian processes, Journal
of Machine Learning Research 9, section 3; Chaloner and Verdinelli (1995), Bayesian experimental
design: a review, Statistical Science 10, section 2.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence

import numpy as np
from scipy import sparse
from scipy.linalg import cholesky, solve_triangular
from scipy.special import owens_t

from bayeseval._typing import Floats, Index
from bayeseval.estimands.container import draw_blocks
from bayeseval.estimands.effects import Effects, Rows

__all__ = ["Gains", "p_right_order"]


class Gains:
    """Variances of what is asked and of new measurements, given those chosen so far.

    Parameters
    ----------
    effects : Effects
    cells : Rows, shape (n_cells, n_effects)
        Of new measurements, without their noise.
    noise : ndarray, shape (n_cells,)
        Variance of the noise of a new measurement.
    asked : Rows, shape (n_asked, n_effects)
        What is asked; the sum of their variances is to fall.
    """

    def __init__(self, effects: Effects, cells: Rows, noise: Floats, asked: Rows) -> None:
        self.effects, self.cells, self.noise, self.asked = effects, cells, noise, asked
        n, prior = effects.n_drawn, effects.prior
        drawn, rest = effects.draws_of(asked), asked[:, n:]
        #: Variance of each of what is asked.
        self.variance = (drawn**2).sum(axis=1) + _squares(rest) @ prior
        #: Variance of the expected score of each cell.
        self.cell_variance = np.empty(cells.shape[0])
        # Squared length of each cell's covariances with what is asked.
        self._squared = np.empty(cells.shape[0])
        for part in draw_blocks(cells.shape[0], 2 * (len(effects.centred) + asked.shape[0])):
            own = cells[part]
            values = effects.draws_of(own)
            covariance = drawn @ values.T + rest.multiply(prior) @ own[:, n:].T
            self.cell_variance[part] = (values**2).sum(axis=1) + _squares(own[:, n:]) @ prior
            self._squared[part] = (np.asarray(covariance) ** 2).sum(axis=0)
        self._of_cells = np.empty((0, cells.shape[0]))
        self._of_asked = np.empty((0, asked.shape[0]))

    def copy(self) -> Gains:
        """The present state, on which further measurements of this one have no effect."""
        other = copy.copy(self)
        other.cell_variance, other._squared = self.cell_variance.copy(), self._squared.copy()
        return other

    @property
    def total(self) -> float:
        """Sum of the variances of what is asked."""
        return float(self.variance.sum())

    def reductions(self) -> Floats:
        """How much each cell would reduce this sum, shape (n_cells,)."""
        return np.asarray(np.maximum(self._squared, 0.0) / (self.cell_variance + self.noise))

    def measure(self, cell: int) -> Floats:
        """Take a cell as measured.

        Returns
        -------
        ndarray, shape (n_asked,)
            By whose squares the variances of what is asked fall.
        """
        effects = self.effects
        weights = effects.times_covariance(self.cells[[cell]].toarray()[0])
        own = self._of_cells[:, cell]
        of_cells = self.cells @ weights - self._of_cells.T @ own
        of_asked = self.asked @ weights - self._of_asked.T @ own
        root = np.sqrt(of_cells[cell] + self.noise[cell])
        of_cells, of_asked = of_cells / root, of_asked / root
        along = self.cells @ effects.times_covariance(self.asked.T @ of_asked)
        along -= self._of_cells.T @ (self._of_asked @ of_asked)
        self._squared += of_cells**2 * (of_asked @ of_asked) - 2.0 * of_cells * along
        self.cell_variance -= of_cells**2
        self.variance = self.variance - of_asked**2
        self._of_cells = np.vstack([self._of_cells, of_cells])
        self._of_asked = np.vstack([self._of_asked, of_asked])
        return np.asarray(of_asked)

    def in_order(self, order: Sequence[int] | Index) -> Floats:
        """What :meth:`measure` returns for cells in a given order, from the present state on.

        Returns
        -------
        ndarray, shape (len(order), n_asked)
        """
        n, at = self.effects.n_drawn, np.asarray(order)
        own, asked, prior = self.cells[at], self.asked, self.effects.prior
        values = self.effects.draws_of(own)
        past = self._of_cells[:, at]
        joint = values @ values.T + (own[:, n:].multiply(prior) @ own[:, n:].T).toarray()
        joint += np.diag(self.noise[at]) - past.T @ past
        shared = values @ self.effects.draws_of(asked).T
        shared += (own[:, n:].multiply(prior) @ asked[:, n:].T).toarray() - past.T @ self._of_asked
        return np.asarray(solve_triangular(cholesky(joint, lower=True), shared, lower=True))


def _squares(rows: Rows) -> Rows:
    return sparse.csr_array(rows.multiply(rows))


def p_right_order(difference: Floats, variance: Floats, explained: Floats) -> Floats:
    """Probability that the posterior mean of a difference will have the sign of the difference.

    Parameters
    ----------
    difference, variance : ndarray
        Its present posterior mean and variance.
    explained : ndarray
        By how much measurements reduce the variance: the variance of its later posterior mean.

    Returns
    -------
    ndarray
        ``1 - 2 T(difference / sd, sqrt((variance - explained) / explained))`` with the function T
        of Owen: with nothing explained, the probability of the present order.
    """
    sd = np.sqrt(np.maximum(variance, np.finfo(float).tiny))
    left = np.maximum(variance - explained, 0.0)
    with np.errstate(divide="ignore"):
        ratio = np.sqrt(left / np.maximum(explained, 0.0))
    return np.asarray(1.0 - 2.0 * owens_t(difference / sd, ratio))
