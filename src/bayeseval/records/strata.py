"""Mean squares of one source of variation, cell by cell."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self, TypeVar

import numpy as np
import numpy.typing as npt

from bayeseval._typing import Floats

__all__ = ["Stratum", "frozen"]

Number = TypeVar("Number", bound=np.generic)


def frozen(array: npt.NDArray[Number]) -> npt.NDArray[Number]:
    """A copy that cannot be written to."""
    array = np.array(array)
    array.flags.writeable = False
    return array


@dataclass(frozen=True, eq=False)
class Stratum:
    """Mean squares of one source of variation, cell by cell.

    Parameters
    ----------
    mean_square : array of float, shape (n_cells,)
        In squared score units; 0 where nothing is known.
    df : array of float, shape (n_cells,)
        Degrees of freedom: 0 where nothing is known, ``inf`` where the mean square is
        taken as exact (a standard deviation given without its number of replicates).
    interaction : array of float, shape (n_cells,)
        Weight of omega^2, the variance of the seed x test-set interaction, in the expected
        mean square: for seeds ``sigma^2 + interaction * omega^2``, for boots
        ``tau^2 + interaction * omega^2``, and for the interaction itself 1 times omega^2.

    Notes
    -----
    Under the normal model of :func:`reduce_replicates`, ``df * mean_square`` over its
    expectation is chi-squared with ``df`` degrees of freedom, independent of the other
    strata and of the cell's mean.
    """

    mean_square: Floats
    df: Floats
    interaction: Floats

    @classmethod
    def of(cls, square: Floats, df: Floats, interaction: Floats) -> Self:
        """From sums of squares, which count where there are degrees of freedom."""
        return cls(
            mean_square=frozen(np.where(df > 0, square / np.maximum(df, 1.0), 0.0)),
            df=frozen(df),
            interaction=frozen(interaction),
        )

    @property
    def sum_of_squares(self) -> Floats:
        """``df * mean_square``; infinite where the mean square is exact, shape (n_cells,)."""
        known = self.df > 0
        # Not a plain product: infinity times an exact zero is no number.
        product = np.zeros_like(self.mean_square)
        np.multiply(self.df, self.mean_square, out=product, where=known & np.isfinite(self.df))
        product[np.isinf(self.df)] = np.inf
        return product
