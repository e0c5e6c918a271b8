"""Draw a truth from the priors of a design, and scores on its cells."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bayeseval import names
from bayeseval._typing import Floats, Index
from bayeseval.checks.prior import prior_tree
from bayeseval.design import Design, Replicates, rescore
from bayeseval.design.replicates import build_noise
from bayeseval.errors import DesignError, InputError
from bayeseval.estimands import read_arrays
from bayeseval.estimands.predict import replicate_scores
from bayeseval.estimands.predictor import linear_predictor
from bayeseval.records import Records, average_over_others, reduce_replicates

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["Drawn", "check_drawable", "draw_table"]

_SUMMARIES = ("seed_sd", "boot_sd")


@dataclass(frozen=True, eq=False)
class Drawn:
    """A truth, and a design with scores that were drawn from it.

    Attributes
    ----------
    truth : xarray.DataTree
        One draw from the priors, in the form of a fit.
    design : Design
        The design with the drawn scores.
    """

    truth: xr.DataTree
    design: Design


def check_drawable(design: Design, records: Records) -> None:
    """Refuse a design whose data cannot be drawn from its priors.

    Raises
    ------
    InputError
        If a covariate has measurement errors, the table has prompts or judges, or sds of
        replicates are published in place of the replicates.
    """
    for slope in design.slopes:
        if len(slope.with_error):
            raise InputError(
                "calibrate does not draw measurements of covariates, and "
                f"{slope.name} has standard errors; use a model without it, or the covariate "
                "without its standard errors"
            )
    records, _ = average_over_others(records, design.spec.sources)
    shared = [source.name for source in design.sources if source.by_cell is not None]
    if shared:
        raise InputError(
            f"{records.name}: calibrate does not draw the scores of {shared[0]}s; average the "
            f"scores over the {shared[0]}s of each cell, with a spec whose sources leave out "
            f"{shared[0]}"
        )
    published = [name for name in _SUMMARIES if np.isfinite(records.numbers(name)).any()]
    if design.replicates is not None and published:
        raise InputError(
            f"{records.name}: calibrate draws replicates row by row, and this table has "
            f"{' and '.join(published)} in their place; give one row per replicate (columns seed, "
            "boot)"
        )


def draw_table(
    design: Design, records: Records, rng: np.random.Generator, *, scaled: bool = False
) -> Drawn:
    """Draw parameters from the priors of a design, and scores given the parameters.

    Parameters
    ----------
    design : Design
        The priors, and the cells with their errors, items and covariates.
    records : Records
        The table of the design; replicates are drawn for its rows.
    rng : numpy.random.Generator
        Source of randomness.
    scaled : bool
        Whether the priors of the returned design are scaled to the drawn scores.

    Returns
    -------
    Drawn

    Raises
    ------
    DesignError
        If all drawn scores are at one end of their scale.
    """
    truth = prior_tree(design, rng, 1)
    if design.replicates is None:
        scores = replicate_scores(read_arrays(truth), rng)[0] + _shared_noise(truth, design)
        return Drawn(truth, _with_noise(rescore(design, scores, scaled=scaled)))
    means, replicates = _draw_replicates(truth, design, records, rng)
    return Drawn(truth, rescore(design, means, replicates=replicates, scaled=scaled))


def _with_noise(design: Design) -> Design:
    """Refuse scores without any noise, as a fit to a table does: they have no posterior.

    Priors of logits reach beyond the ends of a scale, where scores count as the same.
    """
    outcome = design.outcome
    if outcome.n is None and np.ptp(outcome.linear) == 0.0:
        raise DesignError(
            "all scores of the drawn table are at one end of the scale, so nothing is left to "
            "estimate the residual from and no posterior exists"
        )
    return design


def _shared_noise(truth: xr.DataTree, design: Design) -> Floats:
    """Errors of test sets that cells share, which expected scores do not include."""
    total = np.zeros(design.n_records)
    for term in design.terms:
        if term.is_noise:
            total += _values(truth, term.effect)[term.index]
    return total


def _draw_replicates(
    truth: xr.DataTree, design: Design, records: Records, rng: np.random.Generator
) -> tuple[Floats, Replicates | None]:
    """Draw every row of the table; return the means of its cells, and their noise.

    A run of seed s has the score mean + e_s + t + w_s on the test set at hand, which is one
    draw itself; bootstrap b of it adds t_b + w_sb of the same variances.
    """
    records, _ = average_over_others(records, design.spec.sources)
    arrays = read_arrays(truth)
    eta = linear_predictor(arrays)[0] + _shared_noise(truth, design)
    residual = arrays.residual_sd[0]
    by = arrays.residual_by
    sd = residual[0] if by is None else residual[arrays.index[by]]
    variance = np.zeros(design.n_records) if design.se is None else design.se**2
    cell_mean = eta + np.sqrt(sd**2 + variance) * rng.standard_normal(design.n_records)
    sds = {source.name: np.zeros(design.n_records) for source in design.sources}
    for source in design.sources:
        sds[source.name][source.record] = _values(truth, names.source_cell_sd(source.name))
    cell, seed, boot = _places(records)

    def noise(source: names.Source, *labels: Index) -> Floats:
        """One draw for each combination of labels within a cell."""
        if source not in sds:
            return np.zeros(len(cell))
        _, level = np.unique(np.stack([cell, *labels]), axis=1, return_inverse=True)
        level = level.reshape(-1)
        return np.asarray(sds[source][cell] * rng.standard_normal(level.max() + 1)[level])

    score = cell_mean[cell] + noise("seed", seed)
    score = score + noise("boot") + noise("seed_boot", seed)
    bootstrapped = boot >= 0
    score = score + np.where(bootstrapped, noise("boot", boot), 0.0)
    score = score + np.where(bootstrapped, noise("seed_boot", seed, boot), 0.0)
    drawn = Records.from_frame(
        records.table.assign(**{names.SCORE: score}),
        name=records.name,
        mixed_scales="allow",
        diverged_runs="allow",
    )
    cells = reduce_replicates(drawn)
    pool = design.spec.replicates.pool
    built = build_noise(cells, drawn.coords, pool=pool, name=records.name)
    return np.asarray(cells.mean), built.replicates


def _places(records: Records) -> tuple[Index, Index, Index]:
    """Cell, seed and bootstrapped test set of every row; -1 where it has none."""
    cells = reduce_replicates(records)
    shape = tuple(len(records.coords[factor]) for factor in names.FACTORS)
    code = np.ravel_multi_index(tuple(records.codes(f) for f in names.FACTORS), shape)
    of_cell = np.ravel_multi_index(tuple(cells.codes[f] for f in names.FACTORS), shape)
    order = np.argsort(of_cell)
    place = order[np.searchsorted(of_cell[order], code)]
    labels = []
    for column in ("seed", "boot"):
        table = records.table
        if column not in table:
            labels.append(np.full(len(table), -1))
            continue
        _, codes = np.unique(table[column].astype(str).to_numpy(), return_inverse=True)
        labels.append(np.where(table[column].isna(), -1, codes.reshape(-1)))
    return place, labels[0], labels[1]


def _values(truth: xr.DataTree, name: str) -> Floats:
    values: Floats = np.asarray(truth["posterior"][name].values, dtype=np.float64)
    first: Floats = values[0, 0]
    return first
