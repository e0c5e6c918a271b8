"""Noise seen in replicates: which standard deviations there are, and what tells of them.

A run of seed s has the score mean + e_s + t + w_s on the test set at hand, with the sds
sigma (seed), tau (boot: the test set) and omega (seed_boot: their interaction). The test
set is one draw; bootstraps b = 1..B, shared by the seeds s = 1..S, resample it and add as
much again, x_sb = mean + e_s + (t + w_s) + (t_b + w_sb). The mean squares of seeds, test
sets and their interaction are independent of each other and of the cell's mean, each a
chi-square with the expectation

    sigma^2 + omega^2 (1 + 1 / B),   tau^2 + omega^2 / S,   omega^2

so that the density of thousands of replicates costs three gamma densities (balanced
two-way layout: Searle, Casella and McCulloch 1992, "Variance components", chapter 4).
The mean of all bootstrapped scores has the variance (sigma^2 + omega^2 (1 + 1 / B)) / S
+ tau^2 (1 + 1 / B) about the expected score; a score on the test set itself (a published
one with sds beside it, or items) that with B infinite. Bootstrapping tells how much a
test set matters; it does not average that away.

Cells in which pairs are missing have the density of all contrasts among their rows. Their
mean counts every seed alike. It has its exact variance here, and is taken as independent
of the contrasts, though the best weights would follow the variances.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import polygamma

from bayeseval import names
from bayeseval._typing import Bools, Floats, Index
from bayeseval.errors import DesignError
from bayeseval.records import CellTable, Stratum, Unbalanced

__all__ = ["Noise", "Replicates", "Source", "build_noise", "note_of_upper_bounds"]


# Samplers draw the cells' log sds themselves where these differ clearly, and unit-scale
# offsets where they hardly do: the variance of the observed log sds within models over
# that of their errors, as for the effects (`forms`).
_CENTRED_F = 3.0

# Replicates that are all equal (greedy decoding, a coarse metric) have no log sd. They
# count as this small against the others.
_LEAST_RATIO = 0.01

# Equal scores have means that differ by rounding: sds this small against the score are 0.
_ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class Source:
    """One source of replicate noise and the cells that tell about it.

    Attributes
    ----------
    name : {"seed", "boot", "seed_boot"}
    record : ndarray of int, shape (n_cells,)
        Record, that is cell mean, of each sd.
    model : ndarray of int, shape (n_cells,)
        Model of each sd.
    labels : tuple of str
        ``language|task|model``, the coordinate of :attr:`dim`.
    of_record : ndarray of int, shape (n_records,)
        Sd of each record; 0 where it has none, which `share` says.
    share : ndarray of float, shape (n_records,)
        Part of this variance that the record's mean has: 1/S for seeds, 1 for test sets
        and 1/S for the interaction, the last two times 1 + 1/B where the mean is that of
        B bootstraps; 0 for a record that has no such sd.
    raw_sd : ndarray of float, shape (n_cells,)
        What the cells' own replicates say; NaN where some pairs of seed and test set
        are missing.
    log_sd : ndarray of float, shape (n_cells,)
        What the cells' own replicates suggest: where samplers start.
    typical_df : float
        Degrees of freedom behind a typical sd.
    centred : bool
        Whether samplers draw the log sds themselves or unit-scale offsets.
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

    @property
    def dim(self) -> str:
        """Dimension name, for example ``seed_cell``."""
        return names.source_cell_dim(self.name)

    @property
    def drawn(self) -> str:
        """Variable that samplers draw for the cells: log sds or their offsets."""
        return f"{names.source_cell_sd(self.name)}_{'log' if self.centred else 'offset'}"

    @property
    def n_cells(self) -> int:
        """Number of sds."""
        return len(self.record)


@dataclass(frozen=True, eq=False)
class Replicates:
    """What replicates tell, in arrays.

    Attributes
    ----------
    sources : tuple of Source
        Sources with unknown sds.
    squares : ndarray of float, shape (n_squares,)
        Sums of squares, score units squared.
    df : ndarray of float, shape (n_squares,)
        Their degrees of freedom.
    cell : dict of str to ndarray of int, shape (n_squares,)
        By source: which of its sds is in the expected mean square.
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
        """The same with the means of some records only; all sds and sums of squares stay."""
        sources = tuple(
            replace(source, of_record=source.of_record[kept], share=source.share[kept])
            for source in self.sources
        )
        return replace(self, sources=sources)


@dataclass(frozen=True, eq=False)
class Noise:
    """Unknown and known noise of the cells' means.

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
    from_items : bool
        Whether some known standard errors are computed from numbers of test items.
    """

    replicates: Replicates | None
    known_variance: Floats | None
    known_sds: Mapping[str, Floats]
    notes: tuple[str, ...]
    from_items: bool = False


def build_noise(
    cells: CellTable, coords: Mapping[str, tuple[str, ...]], *, pool: bool, name: str
) -> Noise:
    """Sort the cells' replicates into unknown and known standard deviations.

    Parameters
    ----------
    cells : CellTable
        From :func:`bayeseval.records.reduce_replicates`.
    coords : dict of str to tuple of str
        Labels of the three factors.
    pool : bool
        False: all sds are known, from the cell's own replicates.
    name : str
        The table, for messages.

    Raises
    ------
    DesignError
        If sds are to be taken from cells in which pairs of seed and test set are missing.
    """
    strata: dict[names.Source, Stratum] = {
        "seed": _without_rounding(cells.seed, cells.mean),
        "boot": _without_rounding(cells.boot, cells.mean),
        "seed_boot": _without_rounding(cells.cross, cells.mean),
    }
    if cells.unbalanced is not None and not pool:
        raise DesignError(
            f"{name}: {len(cells.unbalanced)} cells lack some pairs of seed and test set, from "
            "which no sd of their own can be read off; leave out replicates: {pool: false}, or "
            "complete the replicates"
        )
    notes = list(cells.notes)
    cells = replace(cells, unbalanced=_with_least_squares(cells.unbalanced, notes))
    incomplete = np.zeros(len(cells), dtype=np.bool_)
    if cells.unbalanced is not None:
        incomplete[cells.unbalanced.cell] = True
    of_test_set = (cells.boot.df > 0) | np.isfinite(cells.se)
    both = (cells.seed.df > 0) & of_test_set & ~(cells.cross.df > 0) & ~incomplete
    if both.any():
        notes.append(note_of_upper_bounds(int(both.sum())))
    unknown = {
        source: (np.isfinite(s.df) & (s.df > 0) & pool) | incomplete for source, s in strata.items()
    }
    for source, s in strata.items():
        if unknown[source].any() and _floor(s, cells.unbalanced) == 0.0:
            unknown[source] = np.zeros_like(incomplete)
            notes.append(f"{source}: the replicates of all cells are equal; their sd counts as 0")
    known: dict[str, Floats] = {
        source: np.sqrt(
            np.where((s.df > 0) & ~unknown[source], _own_variance(strata, source), np.nan)
        )
        for source, s in strata.items()
    }
    known = {source: sd for source, sd in known.items() if not np.isnan(sd).all()}
    share = _shares(cells)
    parts = [share[source] * np.nan_to_num(sd) ** 2 for source, sd in known.items()]
    if not np.isnan(cells.se).all():
        known["se"] = np.array(cells.se)
        parts.append(np.nan_to_num(cells.se) ** 2)
    return Noise(
        replicates=_replicates(cells, coords, strata, unknown, share, notes),
        known_variance=np.asarray(np.sum(parts, axis=0)) if parts else None,
        known_sds=known,
        notes=tuple(notes),
    )


def note_of_upper_bounds(n_cells: int) -> str:
    """What to say of cells whose interaction of seeds and test sets is not known apart."""
    return (
        f"sds of seeds and of test sets both hold what a seed does to one test set in {n_cells} "
        "cells, so the noise of one run and of means is an upper bound there, and what is left for "
        "other terms a lower one"
    )


def _shares(cells: CellTable) -> dict[str, Floats]:
    """Part of each source's variance that a cell's mean has."""
    seed = 1.0 / np.maximum(cells.n_seeds, 1.0)
    # A standard error given with the mean holds what its seeds and test set do together.
    interaction = np.where(np.isfinite(cells.se), 0.0, seed + cells.pair_square)
    return {"seed": seed, "boot": 1.0 + cells.boot_square, "seed_boot": interaction}


def _own_variance(strata: Mapping[names.Source, Stratum], source: names.Source) -> Floats:
    """Moment estimate of a variance component from the cell's own mean squares."""
    own, cross = strata[source], strata["seed_boot"]
    if source == "seed_boot":
        return own.mean_square
    product = np.where(cross.df > 0, own.interaction * cross.mean_square, 0.0)
    return np.maximum(own.mean_square - product, 0.0)


def _replicates(
    cells: CellTable,
    coords: Mapping[str, tuple[str, ...]],
    strata: Mapping[names.Source, Stratum],
    unknown: Mapping[names.Source, Bools],
    share: Mapping[str, Floats],
    notes: list[str],
) -> Replicates | None:
    model = cells.codes[names.MODEL]
    floors = {source: _floor(stratum, cells.unbalanced) for source, stratum in strata.items()}
    sources = [
        _source(source, cells, coords, strata, floors[source], unknown[source], share, notes)
        for source in names.SOURCES
        if unknown[source].any()
    ]
    if not sources:
        return None
    blocks = {
        source.name: source.record[strata[source.name].df[source.record] > 0] for source in sources
    }

    def stacked(part: Callable[[names.Source, Index], Floats]) -> Floats:
        return np.concatenate([part(name, record) for name, record in blocks.items()])

    def weight(of: Source) -> Floats:
        # Where the interaction has no sd of its own its variance is in that of seeds and test sets.
        there = unknown[of.name].astype(np.float64)
        zero = np.zeros(len(model))
        return stacked(
            lambda name, record: (
                there
                if name == of.name
                else there * strata[name].interaction
                if of.name == "seed_boot"
                else zero
            )[record]
        )

    lost = cells.unbalanced
    return Replicates(
        sources=tuple(sources),
        squares=stacked(
            lambda name, record: (
                strata[name].df[record] * np.maximum(strata[name].mean_square[record], floors[name])
            )
        ),
        df=stacked(lambda name, record: strata[name].df[record]),
        cell={
            s.name: np.concatenate([s.of_record[record] for record in blocks.values()])
            for s in sources
        },
        weight={s.name: weight(s) for s in sources},
        unbalanced=lost,
        unbalanced_cell={} if lost is None else {s.name: s.of_record[lost.cell] for s in sources},
    )


def _source(
    source: names.Source,
    cells: CellTable,
    coords: Mapping[str, tuple[str, ...]],
    strata: Mapping[names.Source, Stratum],
    least: float,
    unknown: Bools,
    share: Mapping[str, Floats],
    notes: list[str],
) -> Source:
    """The unknown sds of one source, with start values whose variance is at least `least`."""
    model = cells.codes[names.MODEL]
    record = np.flatnonzero(unknown)
    df = strata[source].df[record]
    own = _own_variance(strata, source)[record]
    variance = np.maximum(own, least)
    if (df == 0).any() and cells.unbalanced is not None:
        there = variance[df > 0]
        variance[df == 0] = np.median(there) if len(there) else _spread(cells.unbalanced)
    tiny = int(((df > 0) & (strata[source].mean_square[record] < least)).sum())
    if tiny:
        notes.append(
            f"{source}: the replicates of {tiny} of {len(record)} cells are equal or nearly "
            f"so; their sd counts as {_LEAST_RATIO:g} of the median one"
        )
    of_record = np.zeros(len(model), dtype=np.int64)
    of_record[record] = np.arange(len(record))
    log_sd = 0.5 * np.log(variance)
    return Source(
        name=source,
        record=record,
        model=model[record],
        labels=tuple(
            names.cell_label(*(coords[f][cells.codes[f][i]] for f in names.FACTORS)) for i in record
        ),
        of_record=of_record,
        share=np.where(unknown, share[source], 0.0),
        raw_sd=np.sqrt(np.where(df > 0, own, np.nan)),
        log_sd=log_sd,
        typical_df=float(np.median(df[df > 0])) if (df > 0).any() else 1.0,
        centred=_clearly_differ(log_sd[df > 0], df[df > 0], model[record][df > 0]),
    )


def _without_rounding(stratum: Stratum, mean: Floats) -> Stratum:
    """Mean squares of equal scores are zero."""
    rounding = stratum.mean_square < (_ROUNDING * mean) ** 2
    return replace(stratum, mean_square=np.where(rounding, 0.0, stratum.mean_square))


def _floor(stratum: Stratum, lost: Unbalanced | None) -> float:
    """Least mean square that counts; 0 when no cell has one above zero."""
    positive = stratum.mean_square[(stratum.df > 0) & (stratum.mean_square > 0.0)]
    if len(positive):
        return float(_LEAST_RATIO**2 * np.median(positive))
    return 0.0 if lost is None else _LEAST_RATIO**2 * _spread(lost)


def _spread(lost: Unbalanced) -> float:
    """Mean variance of the replicates of incomplete cells."""
    return float((lost.square / lost.n_pairs).mean())


def _with_least_squares(lost: Unbalanced | None, notes: list[str]) -> Unbalanced | None:
    """Incomplete cells with the least sum of squares that counts; None when all have none."""
    if lost is None:
        return None
    variance = lost.square / lost.n_pairs
    variance[variance < (_ROUNDING * lost.centre) ** 2] = 0.0
    if not (variance > 0.0).any():
        notes.append(f"the replicates of all {len(lost)} cells that lack some are equal")
        return None
    least = _LEAST_RATIO**2 * float(np.median(variance[variance > 0.0]))
    tiny = int((variance < least).sum())
    if tiny:
        notes.append(
            f"the replicates of {tiny} of {len(lost)} cells that lack some are equal or nearly "
            f"so; their sd counts as {_LEAST_RATIO:g} of the median one"
        )
    return replace(lost, square=np.maximum(lost.square, least * lost.n_pairs))


def _clearly_differ(log_sd: Floats, df: Floats, model: Index) -> bool:
    """Whether log sds differ within models by more than their errors."""
    counts = np.bincount(model)
    free = len(model) - int((counts > 0).sum())
    if free < 1:
        return False
    means = np.bincount(model, log_sd) / np.maximum(counts, 1)
    variance = float(((log_sd - means[model]) ** 2).sum()) / free
    # Variance of half the log of a chi-square.
    error = float((polygamma(1, df / 2.0) / 4.0).mean())
    return variance >= _CENTRED_F * error
