"""Test whether probability integral transforms are uniform: ECDF on a grid, simultaneous band.

The statistic is the largest distance of the ECDF from the diagonal over the grid, in
standard deviations of independent values. Its distribution, and the simultaneous band of
the figure, come from simulated tables: of independent values, or of the dependent ones
that leaving one out of a fitted table gives.
"""

from __future__ import annotations

import numpy as np

from bayeseval._typing import Floats

__all__ = ["GRID", "counts", "distance", "independent_counts"]


#: Grid of the ECDF.
GRID: Floats = np.linspace(0.01, 0.99, 99)


def counts(values: Floats) -> Floats:
    """ECDF of every row at :data:`GRID`.

    Parameters
    ----------
    values : ndarray, shape (n_rows, n)
        Between 0 and 1.

    Returns
    -------
    ndarray, shape (n_rows, 99)
    """
    ordered = np.sort(np.atleast_2d(values), axis=1)
    below = [np.searchsorted(row, GRID, side="right") for row in ordered]
    return np.asarray(np.array(below) / ordered.shape[1], dtype=np.float64)


def independent_counts(n: int, n_rows: int, rng: np.random.Generator) -> Floats:
    """ECDFs of `n` independent uniform values; shape (n_rows, 99)."""
    widths = np.diff(np.concatenate([[0.0], GRID, [1.0]]))
    binned = rng.multinomial(n, widths, size=n_rows)[:, :-1]
    return np.asarray(np.cumsum(binned, axis=1) / n)


def distance(ecdf: Floats, n: int) -> Floats:
    """Largest standardised distance from the diagonal; shape (n_rows,)."""
    return np.asarray((np.abs(ecdf - GRID) / np.sqrt(GRID * (1.0 - GRID) / n)).max(axis=1))
