"""Draw a truth from the priors of a design, and scores on its cells."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from bayeseval import names
from bayeseval._typing import Floats, Index
from bayeseval.checks.prior import prior_tree
from bayeseval.design import Design, Replicates, rescore
from bayeseval.design.noise import Source
from bayeseval.design.prompt_noise import add_prompts
from bayeseval.design.replicates import build_noise
from bayeseval.errors import DesignError, InputError, argument
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
        If a covariate has measurement errors, the sds between prompts are taken as known, or
        sds of replicates are published in place of the replicates.
    """
    for slope in design.slopes:
        if len(slope.with_error):
            raise InputError(
                "calibrate does not draw measurements of covariates, and "
                f"{slope.name} has standard errors; use a model without it, or the covariate "
                "without its standard errors"
            )
    records, _ = average_over_others(records, design.spec.sources)
    known = [source for source in names.SHARED_SOURCES if source in design.known_sds]
    if known:
        raise InputError(
            f"{records.name}: calibrate does not draw sds between {known[0]}s that are not pooled; "
            f"set pool: true, or average the scores over the {known[0]}s of each cell"
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
    draw itself; bootstrap b of it adds t_b + w_sb of the same variances. Each prompt adds its
    effects, the same ones for all runs of a cell.
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
    cell, labels = _places(records)
    seed, boot = labels["seed"], labels["boot"]

    def noise(source: names.Source, *of: Index) -> Floats:
        """One draw for each combination of labels within a cell."""
        if source not in sds:
            return np.zeros(len(cell))
        _, level = np.unique(np.stack([cell, *of]), axis=1, return_inverse=True)
        level = level.reshape(-1)
        return np.asarray(sds[source][cell] * rng.standard_normal(level.max() + 1)[level])

    score = cell_mean[cell] + noise("seed", seed)
    own = _own_part_of_test_sets(design, records)
    score = score + np.sqrt(own)[cell] * noise("boot") + noise("seed_boot", seed)
    bootstrapped = boot >= 0
    score = score + np.where(bootstrapped, np.sqrt(own)[cell] * noise("boot", boot), 0.0)
    if (own < 1.0).any():
        sd = sds["boot"] * np.sqrt(1.0 - own)
        score = score + sd[cell] * _shared_bootstraps(design, cell, boot, rng)
    score = score + np.where(bootstrapped, noise("seed_boot", seed, boot), 0.0)
    for shared in (one for one in design.sources if one.name in names.SHARED_SOURCES):
        score = score + noise(shared.name, labels[shared.name])
        score = score + _shared_by_prompts(truth, shared, cell, labels[shared.name])
    drawn = Records.from_frame(
        records.table.assign(**{names.SCORE: score}),
        name=records.name,
        mixed_scales="allow",
        diverged_runs="allow",
    )
    cells = reduce_replicates(drawn)
    pool = design.spec.replicates.pool
    built = build_noise(cells, drawn.coords, pool=pool, name=records.name)
    built = add_prompts(built, cells, drawn.coords, pool=pool)
    if built.replicates is None:
        return np.asarray(cells.mean), None
    sources = tuple(
        replace(source, share=own * source.share) if source.name == "boot" else source
        for source in built.replicates.sources
    )
    return np.asarray(cells.mean), replace(built.replicates, sources=sources)


def _own_part_of_test_sets(design: Design, records: Records) -> Floats:
    """Part of a test set's variance that no other cell shares, of every record."""
    source = next((s for s in design.sources if s.name == "boot"), None)
    if source is None:
        return np.ones(design.n_records)
    unknown = source.share > 0.0
    unknown[source.record] = True
    # Where a mean is that of bootstraps, all of their variance counts so much.
    whole = 1.0 + reduce_replicates(records).boot_square
    return np.where(unknown, source.share / whole, 1.0)


def _shared_bootstraps(
    design: Design, cell: Index, boot: Index, rng: np.random.Generator
) -> Floats:
    """Deviations of the rows' bootstraps, the same in cells that share a test set; unit sd.

    Their mean over a cell is 0: that of the shared test sets is among their effects.
    """
    shared = [term for term in design.terms if term.is_noise]
    largest = max(shared, key=lambda term: float(np.mean(term.known_sd)))  # type: ignore[arg-type]
    rows = np.flatnonzero(boot >= 0)
    drawn = rng.standard_normal((largest.n_levels, int(boot.max()) + 1))
    values = np.zeros(len(cell))
    values[rows] = drawn[largest.index[cell[rows]], boot[rows]]
    mean = np.bincount(cell[rows], values[rows], design.n_records)
    count = np.bincount(cell[rows], minlength=design.n_records)
    values[rows] -= (mean / np.maximum(count, 1))[cell[rows]]
    return values


def _shared_by_prompts(truth: xr.DataTree, source: Source, cell: Index, prompt: Index) -> Floats:
    """What the prompt of every row does to several cells; 0 for a row without a prompt."""
    if source.by_cell is None:
        return np.zeros(len(cell))
    sums = source.by_cell.sums([_values(truth, one.effect) for one in source.shared])
    has = np.isin(cell, source.record) & (prompt >= 0)
    # The prompts of a cell are in the order of their codes, as in the design.
    pairs, level = np.unique(np.stack([cell[has], prompt[has]]), axis=1, return_inverse=True)
    place = level.reshape(-1) - np.searchsorted(pairs[0], cell[has])
    total = np.zeros(len(cell))
    total[has] = sums[np.searchsorted(source.record, cell[has]), place]
    return total


def _places(records: Records) -> tuple[Index, dict[str, Index]]:
    """Cell of every row, and its seed, bootstrapped test set, prompt and judge; -1 without."""
    if records.reduced is not None and records.reduced.unit == "boot":
        raise InputError(
            f"{records.name}: its bootstrap test sets were reduced to cells while it was read, and"
            " are needed one by one to draw tables like it; take fewer of them, and read them"
            f" without {argument('memory')}"
        )
    cells = reduce_replicates(records)
    shape = tuple(len(records.coords[factor]) for factor in names.FACTORS)
    code = np.ravel_multi_index(tuple(records.codes(f) for f in names.FACTORS), shape)
    of_cell = np.ravel_multi_index(tuple(cells.codes[f] for f in names.FACTORS), shape)
    order = np.argsort(of_cell)
    place = order[np.searchsorted(of_cell[order], code)]
    columns = ("seed", "boot", *names.SHARED_SOURCES)
    return place, {column: records.replicate_codes(column) for column in columns}


def _values(truth: xr.DataTree, name: str) -> Floats:
    values: Floats = np.asarray(truth["posterior"][name].values, dtype=np.float64)
    first: Floats = values[0, 0]
    return first
