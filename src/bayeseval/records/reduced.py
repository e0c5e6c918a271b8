"""What is left of items or bootstrap test sets whose rows were reduced while they were read."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from bayeseval._typing import Bools, Floats
from bayeseval.errors import InputError

__all__ = ["Reduced"]


@dataclass(frozen=True, eq=False)
class Reduced:
    """Sums over the items or bootstrap test sets (units) of each cell, in the records' order.

    Parameters
    ----------
    unit : {"item", "boot"}
        What the rows of a record were averaged over.
    n_rows : int
        Rows of the files.
    digests : tuple of str
        SHA-256 of every file, sorted; and the column that is the score.
    count : array of float, shape (n_cells,)
        Distinct units; 0 for a cell without any.
    square : array of float, shape (n_cells,)
        Sum of the squared deviations of the units' means (over seeds) from the cell's mean.
    seed : array of float, shape (n_cells,)
        Sum of the squared deviations of the seeds' means (over units) from their mean.
    cross : array of float, shape (n_cells,)
        Sum of squares of the product of seeds and units; of items, over their number.
    cross_df : array of float, shape (n_cells,)
        Its degrees of freedom; 0 where it is not known.
    parts : array of float, shape (4, n_tasks)
        The variances of :class:`ItemVariance` or :class:`BootVariance` by task: ``task``,
        ``language_task``, ``model_task``, ``record``; NaN without units.
    """

    unit: Literal["item", "boot"]
    n_rows: int
    digests: tuple[str, ...]
    count: Floats
    square: Floats
    seed: Floats
    cross: Floats
    cross_df: Floats
    parts: Floats

    @property
    def identity(self) -> tuple[str, ...]:
        """What tells the rows from others, as texts."""
        return self.unit, str(self.n_rows), *self.digests

    def of_cells(self, kept: Floats | Bools, tasks: Bools, *, name: str) -> Reduced:
        """The sums of some cells.

        Parameters
        ----------
        kept : array of float, shape (n_cells,)
            Share of its records that each cell keeps.
        tasks : array of bool, shape (n_tasks,)
            Tasks that keep a cell.
        name : str
            Starts the message.

        Raises
        ------
        InputError
            If a cell would lose some of its seeds: its rows are not there to be summed again.

        Notes
        -----
        The variances that cells share stay those of the whole table.
        """
        if ((kept > 0) & (kept < 1)).any():
            raise InputError(
                f"{name}: the rows of this table were reduced to cells while it was read, so a "
                "cell is kept or left out as a whole"
            )
        cells = kept > 0
        return replace(
            self,
            count=self.count[cells],
            square=self.square[cells],
            seed=self.seed[cells],
            cross=self.cross[cells],
            cross_df=self.cross_df[cells],
            parts=self.parts[:, tasks],
        )

    def without_seeds(self) -> Reduced:
        """The sums of scores that are averaged over seeds."""
        nothing = np.zeros_like(self.cross)
        return replace(self, cross=nothing, cross_df=nothing)
