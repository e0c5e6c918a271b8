"""Cells of a single run in tasks whose other cells have replicates: which, and their notes."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from bayeseval import names
from bayeseval._text import counted
from bayeseval._typing import Bools
from bayeseval.records import CellTable, Stratum

__all__ = ["notes_of_single_runs", "single_runs"]

# Cells without replicates of a source, and the noise that they lack.
_SINGLE: dict[names.Source, tuple[str, str]] = {
    "seed": ("of a single run", "seed sd"),
    "boot": ("without replicates of the test set", "test-set sd"),
}


def single_runs(cells: CellTable, source: names.Source, stratum: Stratum, measured: Bools) -> Bools:
    """Cells without replicates of a source, in tasks that have some, whose noise includes it."""
    task = cells.codes[names.TASK]
    single = np.isin(task, task[measured]) & ~measured & ~(stratum.df > 0)
    if source == "boot":
        # A standard error, or that of a share of n items, is the noise of the test set.
        single &= ~np.isfinite(cells.se) & ~np.isfinite(cells.n_items)
    elif source == "seed_boot":
        # The error of items and of a given mean includes the interaction.
        single &= ~np.isfinite(cells.se) & (cells.n_boot > 0)
    return np.asarray(single)


def notes_of_single_runs(
    cells: CellTable,
    strata: Mapping[names.Source, Stratum],
    measured: Mapping[names.Source, Bools],
    unknown: Mapping[names.Source, Bools],
) -> list[str]:
    """Cells without replicates that take a typical sd, and those whose noise is not modelled."""
    notes = []
    model = cells.codes[names.MODEL]
    for source, (which, sd) in _SINGLE.items():
        stratum, own = strata[source], measured[source]
        known = own | ((stratum.df > 0) & (stratum.mean_square > 0.0))
        lacking = single_runs(cells, source, stratum, known) & ~unknown[source]
        if lacking.any():
            number = int(lacking.sum())
            notes.append(
                f"{counted(number, 'cell')} {which} {'has' if number == 1 else 'have'} no {sd}: "
                "this noise is part of the residual"
            )
        typical = unknown[source] & ~own
        if typical.any():
            number = int(typical.sum())
            takes = "takes the typical {} of its" if number == 1 else "take the typical {} of their"
            note = f"{counted(number, 'cell')} {which} {takes.format(sd)} model"
            alone = len(set(model[typical]) - set(model[own]))
            if alone:
                takes = "takes" if alone == 1 else "take"
                note += (
                    f"; {counted(alone, 'model')} without replicates {takes} that of the others, "
                    "and how much models differ in it is left out"
                )
            notes.append(note)
    return notes
