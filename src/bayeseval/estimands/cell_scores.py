"""Expected scores and new measurements of any cells, of levels with and without records."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from bayeseval import names
from bayeseval._random import generator
from bayeseval._typing import Floats, Index
from bayeseval.errors import InputError
from bayeseval.estimands.cell_noise import MeasurementNoise
from bayeseval.estimands.completion import CompletedTerm, model_streams
from bayeseval.estimands.container import Loadings, PosteriorArrays, draw_blocks
from bayeseval.estimands.covariates import SlopeDraws
from bayeseval.estimands.response import draw_scores, log_density, score_mean

__all__ = ["AskedCells", "PredictedCells", "predict_cells"]

_EVERYTHING: Final = slice(None)
_MAX_BYTES: Final = 300_000_000


@dataclass(frozen=True, slots=True, eq=False)
class AskedCells:
    """Cells of a model, a language and a task, which need not be in the table.

    Attributes
    ----------
    labels : dict of str to tuple of str
        For each factor of the posterior (``dataset`` too, where it has some), the label of
        every cell.
    covariates : dict of str to (ndarray, ndarray), each of shape (n_cells,)
        Standardised values of covariates and their standard errors; used for languages and
        models without records. NaN values are drawn from N(0, 1).
    n_items, se, n_seeds : ndarray, shape (n_cells,)
        Items, standard error (score units) and seeds of a new measurement; NaN where not given.
    observed : ndarray, shape (n_cells,), or None
        Measured values whose log density is asked for, as in
        :func:`bayeseval.estimands.response.log_density`.
    """

    labels: Mapping[str, tuple[str, ...]]
    covariates: Mapping[str, tuple[Floats, Floats]]
    n_items: Floats
    se: Floats
    n_seeds: Floats
    observed: Floats | None = None

    @property
    def n_cells(self) -> int:
        """Number of cells."""
        return len(self.n_items)


@dataclass(frozen=True, slots=True, eq=False)
class PredictedCells:
    """Predictions of some of the cells that were asked for.

    Attributes
    ----------
    cells : ndarray of int, shape (m,)
        Which.
    expected, measurement : ndarray, shape (n_samples, m)
        Expected scores, and scores of one new measurement; score units.
    log_density : ndarray, shape (n_samples, m), or None
        Of the observed values, where there are some.
    """

    cells: Index
    expected: Floats
    measurement: Floats
    log_density: Floats | None = None


class _Levels:
    """Positions of the labels that were asked for: those of the posterior, then new ones."""

    def __init__(self, arrays: PosteriorArrays, cells: AskedCells) -> None:
        self.labels = cells.labels
        self.known = {factor: len(levels) for factor, levels in arrays.levels.items()}
        self.new: dict[str, tuple[str, ...]] = {}
        self.codes: dict[str, Index] = {}
        for factor, levels in arrays.levels.items():
            own = set(levels)
            self.new[factor] = tuple(
                dict.fromkeys(one for one in cells.labels[factor] if one not in own)
            )
            place = {label: i for i, label in enumerate([*levels, *self.new[factor]])}
            self.codes[factor] = np.array(
                [place[label] for label in cells.labels[factor]], dtype=np.int64
            )

    def are_known(self, factors: tuple[str, ...], rows: Index) -> Index:
        """Positions among `rows` of the cells whose levels of all `factors` have records."""
        there = np.ones(len(rows), dtype=np.bool_)
        for factor in factors:
            there &= self.codes[factor][rows] < self.known[factor]
        return np.flatnonzero(there)

    def label(self, factors: tuple[str, ...], row: int) -> str:
        """Label of a cell of an interaction."""
        return names.cell_label(*(self.labels[factor][row] for factor in factors))


def predict_cells(
    arrays: PosteriorArrays, cells: AskedCells, noise: MeasurementNoise, *, seed: int
) -> Iterator[PredictedCells]:
    """Predict cells, model by model.

    A level that has no record gets an effect from its population: ``N(0, sd**2 (1 + 1/L))``
    where the effects of the L levels at hand sum to zero, as the mean of their population is
    known up to ``sd / sqrt(L)``, which all new levels share; ``N(0, sd_model**2)`` for models
    that are a sample. So do cells of interactions, and loadings of low-rank interactions. Draws
    belong to labels: cells that share a new level or a cell of an interaction share its draws,
    whatever else is asked for. Cells of known levels without a record have the draws of
    :func:`bayeseval.estimands.expected.expected_scores`.

    What the metrics of one set of outputs share (``names.SHARED_BY_METRICS``) is a part of the
    measurement only: that of the measured outputs where there are some.

    Parameters
    ----------
    arrays : PosteriorArrays
        From :func:`bayeseval.estimands.read_arrays`.
    cells : AskedCells
    noise : MeasurementNoise
        From :func:`bayeseval.estimands.cell_noise.read_measurement_noise`.
    seed : int
        Seed of the fit.

    Raises
    ------
    InputError
        If a new level's effect has no known population: fixed effects, one level, or a task
        whose bounds or likelihood are not those of all others.
    """
    levels = _Levels(arrays, cells)
    wide = _with_new_levels(arrays, levels, noise, seed)
    n_models = levels.known[names.MODEL]
    terms = {one.term: CompletedTerm(arrays, one) for one in arrays.cells if one.loadings is None}
    stream = model_streams(arrays, seed, "estimands")
    shared = None
    if "language:task" in terms:
        rng = generator(seed, "estimands: unobserved language:task")
        shared = terms["language:task"].effect(None, _EVERYTHING, rng)
    for model in np.unique(levels.codes[names.MODEL]):
        effects = {} if shared is None else {"language:task": shared}
        if model < n_models:
            effects |= {
                name: term.effect(int(model), _EVERYTHING, stream(name, int(model)))
                for name, term in terms.items()
                if names.MODEL in names.factors_of(name)
            }
        own = np.flatnonzero(levels.codes[names.MODEL] == model)
        rng = generator(seed, f"predict: scores of {wide.levels[names.MODEL][model]}")
        for part in draw_blocks(len(own), 8 * arrays.n_samples, max_bytes=_MAX_BYTES):
            rows = own[part]
            yield _predict(wide, arrays, cells, levels, rows, terms, effects, noise, rng, seed)


def _predict(
    wide: PosteriorArrays,
    arrays: PosteriorArrays,
    cells: AskedCells,
    levels: _Levels,
    rows: Index,
    terms: Mapping[str, CompletedTerm],
    effects: Mapping[str, Floats],
    noise: MeasurementNoise,
    rng: np.random.Generator,
    seed: int,
) -> PredictedCells:
    """Cells of one model."""
    place: dict[str, Index] = {f: levels.codes[f][rows] for f in names.FACTORS}
    eta = np.repeat(arrays.intercept[:, None], len(rows), axis=1)
    for factor in names.FACTORS:
        eta += np.take(wide.main[factor], place[factor], axis=1)
    for slope in arrays.slopes:
        eta += slope.slope[:, None] * _covariate(slope, cells, levels, rows, seed)
    of_outputs = None
    for one in arrays.cells:
        effect = (
            _interaction(one.sd, terms[one.term], levels, rows, effects, seed)
            if one.loadings is None
            else _low_rank(one.term, one.loadings, levels, rows, seed)
        )
        if one.term == names.SHARED_BY_METRICS:
            of_outputs = effect
        else:
            eta += effect
    outputs = arrays.term(names.SHARED_BY_METRICS)
    language, task, model = (place[factor] for factor in names.FACTORS)
    expected = score_mean(
        wide,
        eta,
        language=language,
        task=task,
        model=model,
        noise_sd=None if outputs is None else outputs.sd,
    )
    if of_outputs is not None:
        eta = eta + of_outputs
    n_items = noise.items(arrays, task, cells.n_items[rows])
    se = noise.standard_error(
        wide,
        place,
        expected,
        n_items=cells.n_items[rows],
        se=cells.se[rows],
        n_seeds=cells.n_seeds[rows],
        seed=seed,
    )
    measurement = draw_scores(
        wide, eta, rng, language=language, task=task, model=model, n_items=n_items, se=se
    )
    if cells.observed is None:
        return PredictedCells(rows, expected, measurement)
    density = log_density(
        wide,
        eta,
        cells.observed[rows],
        language=language,
        task=task,
        model=model,
        n_items=n_items,
        se=se,
    )
    return PredictedCells(rows, expected, measurement, density)


def _interaction(
    sd: Floats,
    term: CompletedTerm,
    levels: _Levels,
    rows: Index,
    effects: Mapping[str, Floats],
    seed: int,
) -> Floats:
    """Effects of one interaction, drawn by label where a level has no records."""
    factors = names.factors_of(term.term)
    values = np.empty((len(sd), len(rows)))
    known = levels.are_known(factors, rows)
    if len(known):
        keys = term.keys_of({f: levels.codes[f][rows[known]] for f in factors})
        values[:, known] = np.take(effects[term.term], keys, axis=1)
    drawn: dict[str, Floats] = {}
    for column in np.setdiff1d(np.arange(len(rows)), known):
        label = levels.label(factors, rows[column])
        if label not in drawn:
            drawn[label] = _standard(seed, f"{term.term} {label}", len(sd))
        values[:, column] = sd * drawn[label]
    return values


def _low_rank(term: str, loadings: Loadings, levels: _Levels, rows: Index, seed: int) -> Floats:
    """Sums of products of the loadings, of which those of new levels are drawn by label."""
    product = np.ones(1)
    for factor, known in loadings.by_factor.items():
        sd = loadings.sd if factor == names.MODEL else np.ones_like(loadings.sd)
        common = np.zeros_like(sd)
        if factor == names.MODEL and levels.new[factor]:
            # As for effects that sum to zero over the models at hand.
            mean = _standard(seed, f"{term} mean of all {factor}s", *sd.shape)
            common = mean / np.sqrt(levels.known[factor])
        new = [
            sd * (common + _standard(seed, f"{term} {factor} {label}", *sd.shape))
            for label in levels.new[factor]
        ]
        every = np.concatenate([known, *(one[..., None] for one in new)], axis=2)
        product = product * np.take(every, levels.codes[factor][rows], axis=2)
    return np.asarray(product.sum(axis=1))


def _covariate(
    slope: SlopeDraws, cells: AskedCells, levels: _Levels, rows: Index, seed: int
) -> Floats:
    """Standardised values, (n_samples, m): those of the fit, or given ones of new levels."""
    n_samples = len(slope.slope)
    factors = (names.MODEL, names.LANGUAGE) if slope.by_model else (names.LANGUAGE,)
    values = np.empty((n_samples, len(rows)))
    known = levels.are_known(factors, rows)
    at = [levels.codes[factor][rows[known]] for factor in factors]
    values[:, known] = (
        slope.standardised[:, at[0], at[1]]
        if slope.by_model
        else np.take(slope.standardised, at[0], axis=1)
    )
    x, se = cells.covariates.get(slope.name, (np.full(cells.n_cells, np.nan),) * 2)
    drawn: dict[str, Floats] = {}
    for column in np.setdiff1d(np.arange(len(rows)), known):
        row = rows[column]
        # Of a value that is not known at all the standard error is infinite.
        share = 0.0 if np.isnan(x[row]) else 1.0 / (1.0 + se[row] ** 2)
        label = levels.label(factors, row)
        if share < 1.0 and label not in drawn:
            drawn[label] = _standard(seed, f"{slope.name} of {label}", n_samples)
        noise = np.sqrt(1.0 - share) * drawn[label] if share < 1.0 else 0.0
        values[:, column] = (0.0 if share == 0.0 else share * x[row]) + noise
    return values


def _standard(seed: int, what: str, *shape: int) -> Floats:
    return generator(seed, f"predict: {what}").standard_normal(shape)


def _with_new_levels(
    arrays: PosteriorArrays, levels: _Levels, noise: MeasurementNoise, seed: int
) -> PosteriorArrays:
    """The posterior with main effects, noise and bounds of the new levels behind the others."""
    main: dict[str, Floats] = {
        factor: np.concatenate(
            [arrays.main[factor], _new_main(arrays, factor, levels.new[factor], seed)], axis=1
        )
        for factor in names.FACTORS
    }
    every = {f: (*arrays.levels[f], *levels.new[f]) for f in arrays.levels}
    wide = replace(arrays, main=main, levels=every)
    if arrays.residual_by is not None:
        wide = noise.with_new_levels(wide, levels.new[arrays.residual_by], seed)
    return _with_new_tasks(wide, levels.new[names.TASK])


def _new_main(arrays: PosteriorArrays, factor: str, new: tuple[str, ...], seed: int) -> Floats:
    """Effects of levels that the table does not have; shape (n_samples, n_new)."""
    values = np.empty((arrays.n_samples, len(new)))
    if not new:
        return values
    n_known = len(arrays.levels[factor])
    if factor not in arrays.main_sd:
        why = f"the table has one {factor}" if n_known == 1 else f"{factor} effects are fixed"
        raise InputError(
            f"{factor} {new[0]!r} is not in the table, and cannot be predicted: {why}, so how much "
            f"{factor}s differ is not known"
        )
    sd = arrays.main_sd[factor]
    common = np.zeros(arrays.n_samples)
    if not (factor == names.MODEL and arrays.population == "models"):
        common = _standard(seed, f"mean of all {factor}s", arrays.n_samples) / np.sqrt(n_known)
    for column, label in enumerate(new):
        values[:, column] = sd * (common + _standard(seed, f"{factor} {label}", arrays.n_samples))
    return values


def _with_new_tasks(arrays: PosteriorArrays, new: tuple[str, ...]) -> PosteriorArrays:
    """New tasks have the likelihood, bounds and chance level that all others have."""
    if not new:
        return arrays
    response = arrays.response
    if len(set(response.task_likelihoods)) > 1:
        raise _unlike_tasks(new[0], "likelihoods")
    parts = {"bounds": (response.lower, response.upper), "chance levels": (response.chance,)}
    for what, sides in parts.items():
        if response.link == "logit" and any(one is not None and np.ptp(one) > 0.0 for one in sides):
            raise _unlike_tasks(new[0], what)

    def longer(values: Floats) -> Floats:
        return np.concatenate([values, np.repeat(values[:1], len(new))])

    wide = replace(
        response,
        task_likelihoods=response.task_likelihoods + response.task_likelihoods[:1] * len(new),
        lower=longer(response.lower),
        upper=longer(response.upper),
        chance=None if response.chance is None else longer(response.chance),
    )
    same = (arrays.bounds == arrays.bounds[:, :1]).all()
    added = np.repeat(arrays.bounds[:, :1] if same else np.full((2, 1), np.nan), len(new), axis=1)
    return replace(arrays, response=wide, bounds=np.concatenate([arrays.bounds, added], axis=1))


def _unlike_tasks(task: str, what: str) -> InputError:
    return InputError(
        f"task {task!r} is not in the table, and cannot be predicted: the tasks of the table have "
        f"different {what}, so those of a new task are not known"
    )
