"""Containers of the noise of records: sources of replicates, known and unknown sds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from bayeseval import names
from bayeseval._typing import Bools, Floats, Index
from bayeseval.design.prompts import ByCell, SharedEffect
from bayeseval.records import Unbalanced

__all__ = ["Noise", "Replicates", "Source", "mean_by_model"]


@dataclass(frozen=True, eq=False)
class Source:
    """One source of replicate noise, and the cells with an unknown sd of it.

    Attributes
    ----------
    name : {"seed", "boot", "seed_boot", "prompt", "judge"}
    record : ndarray of int, shape (n_cells,)
        Record (cell mean) of each sd.
    model : ndarray of int, shape (n_cells,)
        Model of each sd.
    labels : tuple of str
        ``language|task|model``, the coordinate of :attr:`dim`.
    of_record : ndarray of int, shape (n_records,)
        Position of each record's sd; 0 for records without one, whose `share` is 0.
    share : ndarray of float, shape (n_records,)
        Coefficient of this variance in the variance of the record's mean: 1/S for seeds, 1
        for test sets and 1/S for the interaction, the last two times 1 + 1/B where the mean
        is that of B bootstraps; 0 for a record without such an sd.
    raw_sd : ndarray of float, shape (n_cells,)
        Estimate from the cell's own replicates; NaN where some pairs of seed and test set
        are missing, and for a single run.
    log_sd : ndarray of float, shape (n_cells,)
        Start values of samplers, from the cells' own replicates.
    typical_df : float
        Median degrees of freedom of an sd.
    centred : bool
        Whether samplers draw the log sds themselves or unit-scale offsets.
    over_models : ndarray of float, shape (n_models, n_models), or None
        Weights of the models' log typical sds (rows) in the centre of each model's cells
        (columns): a model of single runs has the mean of those with replicates. None
        where every model with such cells has replicates.
    by_cell : ByCell or None
        Of prompts and judges: their scores, and what cells share. The sds are those of what
        is a cell's own.
    """

    name: names.Source
    record: Index
    model: Index
    labels: tuple[str, ...]
    of_record: Index
    share: Floats
    raw_sd: Floats
    log_sd: Floats
    typical_df: float
    centred: bool
    over_models: Floats | None = None
    by_cell: ByCell | None = None

    @property
    def shared(self) -> tuple[SharedEffect, ...]:
        """Effects that several cells have in common; empty for seeds and test sets."""
        return () if self.by_cell is None else self.by_cell.shared

    @property
    def dim(self) -> str:
        """Dimension name, for example ``seed_cell``."""
        return names.source_cell_dim(self.name)

    @property
    def drawn(self) -> str:
        """Name of the variable that samplers draw: log sds or their offsets."""
        return f"{names.source_cell_sd(self.name)}_{'log' if self.centred else 'offset'}"

    @property
    def n_cells(self) -> int:
        """Number of sds."""
        return len(self.record)

    def typical_sd(self, drawn: Floats) -> Floats:
        """Typical sds by model from those that samplers draw, shape (..., n_models)."""
        if self.over_models is None:
            return drawn
        return np.asarray(np.exp(np.log(drawn) @ self.over_models))

    def typical_log_sd(self, n_models: int) -> Floats:
        """Log of the root mean square of the cells' own sds by model, shape (n_models,).

        A model without such a cell has that of all cells.
        """
        mean = mean_by_model(np.exp(2.0 * self.log_sd), self.model, n_models)
        return np.asarray(0.5 * np.log(mean))


@dataclass(frozen=True, eq=False)
class Replicates:
    """Sums of squares of replicates, and the sds in their expectations.

    Attributes
    ----------
    sources : tuple of Source
        Sources with unknown sds.
    squares : ndarray of float, shape (n_squares,)
        Sums of squares, score units squared.
    df : ndarray of float, shape (n_squares,)
        Their degrees of freedom.
    cell : dict of str to ndarray of int, shape (n_squares,)
        By source: position of the sd in the expected mean square.
    weight : dict of str to ndarray of float, shape (n_squares,)
        By source: coefficient of its variance in the expected mean square.
    unbalanced : Unbalanced or None
        Sums for cells in which some pairs of seed and test set are missing; their
        density is that of all contrasts among the replicates (restricted likelihood).
    unbalanced_cell : dict of str to ndarray of int, shape (n_unbalanced,)
        By source: the sd of each such cell.
    """

    sources: tuple[Source, ...]
    squares: Floats
    df: Floats
    cell: Mapping[str, Index]
    weight: Mapping[str, Floats]
    unbalanced: Unbalanced | None
    unbalanced_cell: Mapping[str, Index]

    def take(self, kept: Bools) -> Replicates:
        """Keep the means of some records only, with all sds and sums of squares."""
        sources = tuple(
            replace(source, of_record=source.of_record[kept], share=source.share[kept])
            for source in self.sources
        )
        return replace(self, sources=sources)


@dataclass(frozen=True, eq=False)
class Noise:
    """Unknown and known noise of the cell means.

    Attributes
    ----------
    replicates : Replicates or None
        None when no sd is unknown.
    known_variance : ndarray, shape (n_records,), or None
        Variance of the means by known sds; None when there are none.
    known_sds : dict of str to ndarray, shape (n_records,)
        Known sds of one run by source, and given standard errors as ``se``; NaN where
        there are none.
    notes : tuple of str
        Remarks for the user.
    from_items : bool
        Whether some known standard errors are computed from numbers of test items.
    """

    replicates: Replicates | None
    known_variance: Floats | None
    known_sds: Mapping[str, Floats]
    notes: tuple[str, ...]
    from_items: bool = False


def mean_by_model(values: Floats, model: Index, n_models: int) -> Floats:
    """Mean of the values of each model; of all values for a model without any."""
    count = np.bincount(model, minlength=n_models)
    total = np.bincount(model, values, minlength=n_models)
    return np.where(count > 0, total / np.maximum(count, 1), values.mean())
