"""Noise of replicates: known and unknown standard deviations, and the data on them.

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
+ tau^2 (1 + 1 / B) around the expected score; a score on the test set itself (a published
one with sds, or one from items) has this variance with B infinite. Bootstrapping estimates
the noise of the test set; it does not average it away.

Cells in which pairs are missing have the density of all contrasts among their rows. Their
mean weights all seeds equally. Its variance here is exact, and it is taken as independent
of the contrasts, although optimal weights would depend on the variances.

A cell of a single run, in a task whose other cells have replicates, has this noise too. It has
no mean square, so its log sd has the distribution of its model's log sds; in a model without
any mean square, their centre is the mean over the other models. In a task without replicates
the noise is part of the residual: nothing measures it there, and it concerns all models.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
from scipy.special import polygamma

from bayeseval import names
from bayeseval._typing import Bools, Floats, Index
from bayeseval.design.noise import Noise, Replicates, Source, mean_by_model
from bayeseval.design.single_runs import notes_of_single_runs, single_runs
from bayeseval.errors import DesignError
from bayeseval.records import CellTable, Stratum, Unbalanced

__all__ = ["LEAST_RATIO", "build_noise", "note_of_upper_bounds", "over_models"]


# Replicates that are all equal (greedy decoding, a coarse metric) have no log sd. Their sd
# counts as this share of the median one.
LEAST_RATIO = 0.01

# Means of equal scores differ by rounding: an sd this small relative to the score is 0.
_ROUNDING = 1e-9


def build_noise(
    cells: CellTable, coords: Mapping[str, tuple[str, ...]], *, pool: bool, name: str
) -> Noise:
    """Find the unknown and known standard deviations of the cells' replicates.

    Parameters
    ----------
    cells : CellTable
        From :func:`bayeseval.records.reduce_replicates`.
    coords : dict of str to tuple of str
        Labels of the three factors.
    pool : bool
        False: all sds are taken as known, from the cell's own replicates.
    name : str
        Name of the table, for messages.

    Raises
    ------
    DesignError
        If `pool` is false and cells lack pairs of seed and test set.
    """
    strata: dict[names.Source, Stratum] = {
        "seed": _without_rounding(cells.seed, cells.mean),
        "boot": _without_rounding(cells.boot, cells.mean),
        "seed_boot": _without_rounding(cells.cross, cells.mean),
    }
    if cells.unbalanced is not None and not pool:
        raise DesignError(
            f"{name}: {len(cells.unbalanced)} cells lack some pairs of seed and test set, so their "
            "own sds cannot be computed; remove replicates: {pool: false} from the spec, or add "
            "the missing pairs"
        )
    notes = list(cells.notes)
    cells = replace(cells, unbalanced=_with_least_squares(cells.unbalanced, notes))
    incomplete = np.zeros(len(cells), dtype=np.bool_)
    if cells.unbalanced is not None:
        incomplete[cells.unbalanced.cell] = True
    of_test_set = (cells.boot.df > 0) | np.isfinite(cells.se)
    unknown = {
        source: (np.isfinite(stratum.df) & (stratum.df > 0) & pool) | incomplete
        for source, stratum in strata.items()
    }
    for source, stratum in strata.items():
        if unknown[source].any() and _floor(stratum, cells.unbalanced) == 0.0:
            unknown[source] = np.zeros_like(incomplete)
            notes.append(f"{source}: the replicates of every cell are equal; their sd is set to 0")
    measured = unknown
    unknown = {
        source: own | single_runs(cells, source, strata[source], own)
        for source, own in measured.items()
    }
    notes += notes_of_single_runs(cells, strata, measured, unknown)
    of_seed = (cells.seed.df > 0) | unknown["seed"]
    of_both = (cells.cross.df > 0) | unknown["seed_boot"]
    unseparated = of_seed & of_test_set & ~of_both
    if unseparated.any():
        notes.append(note_of_upper_bounds(int(unseparated.sum())))
    known: dict[str, Floats] = {
        source: np.sqrt(
            np.where((stratum.df > 0) & ~unknown[source], _own_variance(strata, source), np.nan)
        )
        for source, stratum in strata.items()
    }
    known = {source: sd for source, sd in known.items() if not np.isnan(sd).all()}
    share = _shares(cells)
    parts = [share[source] * np.nan_to_num(sd) ** 2 for source, sd in known.items()]
    if not np.isnan(cells.se).all():
        known["se"] = np.array(cells.se)
        parts.append(np.nan_to_num(cells.se) ** 2)
    return Noise(
        replicates=_replicates(cells, coords, strata, measured, unknown, share, notes),
        known_variance=np.asarray(np.sum(parts, axis=0)) if parts else None,
        known_sds=known,
        notes=tuple(notes),
    )


def note_of_upper_bounds(n_cells: int) -> str:
    """Note on cells whose seed x test-set interaction cannot be separated."""
    return (
        f"in {n_cells} cells the sds of seeds and of test sets both include the seed x test-set "
        "interaction, so the noise of one run and of means is an upper bound there, and the "
        "variance left for other terms a lower bound"
    )


def _shares(cells: CellTable) -> dict[str, Floats]:
    """Coefficient of each source's variance in the variance of a cell's mean."""
    seed = 1.0 / np.maximum(cells.n_seeds, 1.0)
    # A standard error given with the mean already includes the interaction.
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
    measured: Mapping[names.Source, Bools],
    unknown: Mapping[names.Source, Bools],
    share: Mapping[str, Floats],
    notes: list[str],
) -> Replicates | None:
    model = cells.codes[names.MODEL]
    floors = {source: _floor(stratum, cells.unbalanced) for source, stratum in strata.items()}
    sources = [
        _source(
            source,
            cells,
            coords,
            strata,
            floors[source],
            measured[source],
            unknown[source],
            share,
            notes,
        )
        for source in names.RUN_SOURCES
        if unknown[source].any()
    ]
    if not sources:
        return None
    blocks = {
        source.name: source.record[strata[source.name].df[source.record] > 0] for source in sources
    }

    def stacked(part: Callable[[names.Source, Index], Floats]) -> Floats:
        return np.concatenate([part(name, record) for name, record in blocks.items()])

    def weight(source: Source) -> Floats:
        # Without an sd of its own, the interaction's variance is part of the other two.
        has_sd = unknown[source.name].astype(np.float64)
        zero = np.zeros(len(model))
        return stacked(
            lambda name, record: (
                has_sd
                if name == source.name
                else has_sd * strata[name].interaction
                if source.name == "seed_boot"
                else zero
            )[record]
        )

    unbalanced = cells.unbalanced
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
        unbalanced=unbalanced,
        unbalanced_cell={}
        if unbalanced is None
        else {s.name: s.of_record[unbalanced.cell] for s in sources},
    )


def _source(
    source: names.Source,
    cells: CellTable,
    coords: Mapping[str, tuple[str, ...]],
    strata: Mapping[names.Source, Stratum],
    least: float,
    measured: Bools,
    unknown: Bools,
    share: Mapping[str, Floats],
    notes: list[str],
) -> Source:
    """Unknown sds of one source, with start values whose variance is at least `least`."""
    model = cells.codes[names.MODEL]
    record = np.flatnonzero(unknown)
    df = strata[source].df[record]
    own = _own_variance(strata, source)[record]
    variance = np.maximum(own, least)
    n_models = len(coords[names.MODEL])
    if (df > 0).any():
        typical = mean_by_model(variance[df > 0], model[record][df > 0], n_models)
        variance = np.where(df > 0, variance, typical[model[record]])
    elif cells.unbalanced is not None:
        variance[:] = _spread(cells.unbalanced)
    has_square = df > 0
    tiny = int((has_square & (strata[source].mean_square[record] < least)).sum())
    if tiny:
        notes.append(
            f"{source}: the replicates of {tiny} of {has_square.sum()} cells are equal or nearly "
            f"equal; their sd is set to {LEAST_RATIO:g} times the median one"
        )
    of_record = np.zeros(len(model), dtype=np.int64)
    of_record[record] = np.arange(len(record))
    mean_square = np.maximum(strata[source].mean_square[record], least)
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
        log_sd=0.5 * np.log(variance),
        typical_df=float(np.median(df[df > 0])) if (df > 0).any() else 1.0,
        centred=_clearly_differ(
            mean_square[df > 0], own[df > 0], df[df > 0], model[record][df > 0]
        ),
        over_models=over_models(model[measured], model[unknown], n_models),
    )


def over_models(measured: Index, unknown: Index, n_models: int) -> Floats | None:
    """Weights of :attr:`Source.over_models`."""
    own = np.isin(np.arange(n_models), measured)
    if own[unknown].all():
        return None
    return np.where(own, np.eye(n_models), own[:, None] / own.sum())


def _without_rounding(stratum: Stratum, mean: Floats) -> Stratum:
    """Set mean squares that are rounding errors of equal scores to zero."""
    rounding = stratum.mean_square < (_ROUNDING * mean) ** 2
    return replace(stratum, mean_square=np.where(rounding, 0.0, stratum.mean_square))


def _floor(stratum: Stratum, unbalanced: Unbalanced | None) -> float:
    """Least mean square that is used; 0 when no cell has one above zero."""
    positive = stratum.mean_square[(stratum.df > 0) & (stratum.mean_square > 0.0)]
    if len(positive):
        return float(LEAST_RATIO**2 * np.median(positive))
    return 0.0 if unbalanced is None else LEAST_RATIO**2 * _spread(unbalanced)


def _spread(unbalanced: Unbalanced) -> float:
    """Mean variance of the replicates of incomplete cells."""
    return float((unbalanced.square / unbalanced.n_pairs).mean())


def _with_least_squares(unbalanced: Unbalanced | None, notes: list[str]) -> Unbalanced | None:
    """Raise sums of squares of incomplete cells to the least one used; None if all are zero."""
    if unbalanced is None:
        return None
    variance = unbalanced.square / unbalanced.n_pairs
    variance[variance < (_ROUNDING * unbalanced.centre) ** 2] = 0.0
    if not (variance > 0.0).any():
        notes.append(f"the replicates of all {len(unbalanced)} incomplete cells are equal")
        return None
    least = LEAST_RATIO**2 * float(np.median(variance[variance > 0.0]))
    tiny = int((variance < least).sum())
    if tiny:
        notes.append(
            f"the replicates of {tiny} of {len(unbalanced)} incomplete cells are equal or nearly "
            f"equal; their sd is set to {LEAST_RATIO:g} times the median one"
        )
    return replace(unbalanced, square=np.maximum(unbalanced.square, least * unbalanced.n_pairs))


def _clearly_differ(mean_square: Floats, own: Floats, df: Floats, model: Index) -> bool:
    """Whether a component's log sds differ within models by more than their errors.

    The criterion is the variance of the logs of mean squares within models over that of their
    errors. Estimates of a component from a difference of mean squares do not serve: near zero
    their logs differ, whether or not the sds do. With a share r of the component in the expected
    mean squares, the log of a mean square moves by r times that of the component.
    """
    counts = np.bincount(model)
    free = len(model) - int((counts > 0).sum())
    if free < 1:
        return False
    log_root = 0.5 * np.log(mean_square)
    means = np.bincount(model, log_root) / np.maximum(counts, 1)
    variance = float(((log_root - means[model]) ** 2).sum()) / free
    # Variance of half the log of a chi-square variable.
    error = float((polygamma(1, df / 2.0) / 4.0).mean())
    share = min(float((df * own).sum() / (df * mean_square).sum()), 1.0)
    return share**2 * (variance - error) >= (names.CENTRED_F - 1.0) * error
