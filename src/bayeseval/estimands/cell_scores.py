"""Expected scores and new measurements of any cells, of levels with and without records."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import Final

import numpy as np

from bayeseval import names
from bayeseval._random import generator
from bayeseval._typing import Bools, Floats, Index
from bayeseval.errors import InputError
from bayeseval.estimands.cell_noise import MeasurementNoise
from bayeseval.estimands.completion import CompletedTerm, model_streams
from bayeseval.estimands.container import Loadings, PosteriorArrays, draw_blocks
from bayeseval.estimands.covariates import SlopeDraws
from bayeseval.estimands.related import NewLevels, new_effects
from bayeseval.estimands.response import draw_scores, log_density, score_mean

__all__ = ["AskedCells", "PredictedCells", "predict_cells", "with_new_languages"]

_EVERYTHING: Final = slice(None)
_MAX_BYTES: Final = 300_000_000
# Of the draws of each kind of effect of new levels.
_KEPT_BYTES: Final = 32_000_000


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
    n_prompts : ndarray, shape (n_cells,), or None
        Prompts (or judges) of a new measurement; 1 where it is not given.
    related : dict of str to NewLevels
        How related levels without records are, by factor; needed where the fit relates them.
    """

    labels: Mapping[str, tuple[str, ...]]
    covariates: Mapping[str, tuple[Floats, Floats]]
    n_items: Floats
    se: Floats
    n_seeds: Floats
    observed: Floats | None = None
    n_prompts: Floats | None = None
    related: Mapping[str, NewLevels] = field(default_factory=dict)

    @property
    def n_cells(self) -> int:
        """Number of cells."""
        return len(self.n_items)

    def take(self, rows: Index) -> AskedCells:
        """Some of the cells."""
        return AskedCells(
            {factor: tuple(own[row] for row in rows) for factor, own in self.labels.items()},
            {name: (x[rows], se[rows]) for name, (x, se) in self.covariates.items()},
            self.n_items[rows],
            self.se[rows],
            self.n_seeds[rows],
            None if self.observed is None else self.observed[rows],
            None if self.n_prompts is None else self.n_prompts[rows],
            self.related,
        )

    def label(self, cell: int) -> str:
        """Name of a measurement: its cell with the numbers that are given."""
        numbers = {"n": self.n_items, "se": self.se, "seeds": self.n_seeds}
        given = [f"{name} {own[cell]:g}" for name, own in numbers.items() if own[cell] == own[cell]]
        return ", ".join([names.cell_label(*(self.labels[f][cell] for f in names.FACTORS)), *given])


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
    """Positions of the labels of some cells: levels of the posterior, then new ones."""

    def __init__(
        self, known: Mapping[str, Mapping[str, int]], labels: Mapping[str, tuple[str, ...]]
    ) -> None:
        self.labels = labels
        self.known = {factor: len(places) for factor, places in known.items()}
        self.new: dict[str, tuple[str, ...]] = {}
        self.codes: dict[str, Index] = {}
        for factor, places in known.items():
            unknown = dict.fromkeys(one for one in labels[factor] if one not in places)
            further = {label: len(places) + i for i, label in enumerate(unknown)}
            self.new[factor] = tuple(unknown)
            self.codes[factor] = np.array(
                [places[one] if one in places else further[one] for one in labels[factor]],
                dtype=np.int64,
            )

    def are_known(self, factors: tuple[str, ...]) -> Bools:
        """Whether the levels of all `factors` have records, cell by cell."""
        there = np.ones(len(self.codes[names.MODEL]), dtype=np.bool_)
        for factor in factors:
            there &= self.codes[factor] < self.known[factor]
        return there

    def label(self, factors: tuple[str, ...], cell: int | np.integer) -> str:
        """Label of a cell of an interaction."""
        return names.cell_label(*(self.labels[factor][cell] for factor in factors))


class _Draws:
    """Standard normal draws of everything that has a name; of each kind the last are kept."""

    def __init__(
        self, n_samples: int, seed: int, related: Mapping[str, Mapping[str, Floats]]
    ) -> None:
        self.n_samples, self.seed = n_samples, seed
        # Effects of new levels by factor, which depend on each other.
        self.related = related
        self._kept: dict[str, Callable[..., Floats]] = {}

    def __call__(self, kind: str, label: str, *inner: int) -> Floats:
        """Draws of a label, shape (n_samples, *inner)."""
        if kind not in self._kept:
            most = max(16, _KEPT_BYTES // (8 * self.n_samples * math.prod(inner)))
            self._kept[kind] = lru_cache(maxsize=most)(partial(self._draw, kind))
        return self._kept[kind](label, *inner)

    def _draw(self, kind: str, label: str, *inner: int) -> Floats:
        stream = generator(self.seed, f"predict: {kind} {label}")
        return stream.standard_normal((self.n_samples, *inner))


def predict_cells(
    arrays: PosteriorArrays, cells: AskedCells, noise: MeasurementNoise, *, seed: int
) -> Iterator[PredictedCells]:
    """Predict cells, known models one by one and then all new ones.

    A level that has no record gets an effect from its population: ``N(0, sd**2 (1 + 1/L))``
    where the effects of the L levels at hand sum to zero, as the mean of their population is
    known up to ``sd / sqrt(L)``, which all new levels share; ``N(0, sd_model**2)`` for models
    that are a sample. So do cells of interactions, and loadings of low-rank interactions. Draws
    belong to labels: cells that share a new level or a cell of an interaction share its draws,
    whatever else is asked for; those of levels that a fit relates depend on which new
    levels there are. Cells of known levels without a record have the draws of
    :func:`bayeseval.estimands.expected.expected_scores`. The noise of a measurement belongs to
    its cell with its items, standard error and seeds.

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
    known = {f: {one: i for i, one in enumerate(own)} for f, own in arrays.levels.items()}
    draws = _Draws(arrays.n_samples, seed, _related_effects(arrays, cells, seed))
    first = {
        f: (next((one for one in cells.labels[f] if one not in places), arrays.levels[f][0]),)
        for f, places in known.items()
    }
    # What has no population is refused before the first cell is predicted.
    _with_new_levels(arrays, _Levels(known, first), noise, draws)
    terms = {one.term: CompletedTerm(arrays, one) for one in arrays.cells if one.loadings is None}
    stream = model_streams(arrays, seed, "estimands")
    shared = None
    if "language:task" in terms:
        rng = generator(seed, "estimands: unobserved language:task")
        shared = terms["language:task"].effect(None, _EVERYTHING, rng)
    places = known[names.MODEL]
    model_of = np.array([places.get(one, len(places)) for one in cells.labels[names.MODEL]])
    order = np.argsort(model_of, kind="stable")
    for own in np.split(order, np.flatnonzero(np.diff(model_of[order])) + 1):
        model = int(model_of[own[0]])
        effects = {} if shared is None else {"language:task": shared}
        if model < len(places):
            effects |= {
                name: term.effect(model, _EVERYTHING, stream(name, model))
                for name, term in terms.items()
                if names.MODEL in names.factors_of(name)
            }
        for part in draw_blocks(len(own), 8 * arrays.n_samples, max_bytes=_MAX_BYTES):
            rows = own[part]
            some = cells.take(rows)
            levels = _Levels(known, some.labels)
            yield _predict(arrays, rows, some, levels, terms, effects, noise, draws)


def with_new_languages(
    arrays: PosteriorArrays, cells: AskedCells, noise: MeasurementNoise, *, seed: int
) -> PosteriorArrays:
    """The posterior with languages that it lacks behind its own, as for :func:`predict_cells`.

    `cells` are those of every model in every one of these languages, on one task.
    """
    known = {f: {one: i for i, one in enumerate(own)} for f, own in arrays.levels.items()}
    draws = _Draws(arrays.n_samples, seed, _related_effects(arrays, cells, seed))
    levels = _Levels(known, cells.labels)
    wide = _with_new_levels(arrays, levels, noise, draws)
    at = levels.codes[names.MODEL], levels.codes[names.LANGUAGE]
    slopes, n = [], len(wide.levels[names.LANGUAGE])
    for slope in arrays.slopes:
        if slope.by == names.MODEL:
            # The same in every language.
            slopes.append(replace(slope, standardised=slope.standardised[..., :1].repeat(n, -1)))
            continue
        old = np.broadcast_to(slope.standardised, (arrays.n_samples, *slope.standardised.shape[1:]))
        values = np.concatenate([old, np.empty((*old.shape[:-1], n - old.shape[-1]))], axis=-1)
        drawn = _covariate(slope, cells, levels, draws)
        values[(slice(None), *(at if slope.by_model else at[1:]))] = drawn
        slopes.append(replace(slope, standardised=values))
    return replace(wide, slopes=tuple(slopes))


def _predict(
    arrays: PosteriorArrays,
    rows: Index,
    cells: AskedCells,
    levels: _Levels,
    terms: Mapping[str, CompletedTerm],
    effects: Mapping[str, Floats],
    noise: MeasurementNoise,
    draws: _Draws,
) -> PredictedCells:
    """Expected scores and measurements of cells of one model, or of new models.

    The draws of a cell lie next to each other, as its random streams return them.
    """
    wide = _with_new_levels(arrays, levels, noise, draws)
    place: dict[str, Index] = {f: levels.codes[f] for f in names.FACTORS}
    eta, of_outputs = _predictor(wide, cells, levels, terms, effects, draws)
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
    n_items = noise.items(arrays, task, cells.n_items)
    se = noise.standard_error(
        wide,
        place,
        expected,
        n_items=cells.n_items,
        se=cells.se,
        n_seeds=cells.n_seeds,
        n_prompts=cells.n_prompts,
        seed=draws.seed,
    )
    measured = np.empty_like(eta)
    for cell in range(cells.n_cells):
        at = [cell]
        measured[:, at] = draw_scores(
            wide,
            eta[:, at],
            generator(draws.seed, f"predict: measurement of {cells.label(cell)}"),
            language=language[at],
            task=task[at],
            model=model[at],
            n_items=None if n_items is None else n_items[at],
            se=None if se is None else se[:, at],
        )
    if cells.observed is None:
        return PredictedCells(rows, expected, measured)
    density = log_density(
        wide,
        eta,
        cells.observed,
        language=language,
        task=task,
        model=model,
        n_items=n_items,
        se=se,
    )
    return PredictedCells(rows, expected, measured, density)


def _predictor(
    wide: PosteriorArrays,
    cells: AskedCells,
    levels: _Levels,
    terms: Mapping[str, CompletedTerm],
    effects: Mapping[str, Floats],
    draws: _Draws,
) -> tuple[Floats, Floats | None]:
    """Linear predictor, and what the metrics of one set of outputs share beside it."""
    eta = np.repeat(wide.intercept[None], cells.n_cells, axis=0).T
    for factor in names.FACTORS:
        eta += _columns(wide.main[factor], levels.codes[factor])
    for slope in wide.slopes:
        eta += slope.slope[:, None] * _covariate(slope, cells, levels, draws)
    of_outputs = None
    for one in wide.cells:
        effect = (
            _interaction(one.sd, terms[one.term], levels, effects, draws)
            if one.loadings is None
            else _low_rank(one.term, one.loadings, levels, draws)
        )
        if one.term == names.SHARED_BY_METRICS:
            of_outputs = effect
        else:
            eta += effect
    return eta, of_outputs


def _columns(values: Floats, at: Index) -> Floats:
    """Some columns, with the draws of each next to each other."""
    return np.take(np.ascontiguousarray(values.T), at, axis=0).T


def _interaction(
    sd: Floats,
    term: CompletedTerm,
    levels: _Levels,
    effects: Mapping[str, Floats],
    draws: _Draws,
) -> Floats:
    """Effects of one interaction, drawn by label where a level has no records."""
    factors = names.factors_of(term.term)
    known = levels.are_known(factors)
    values = np.empty((len(known), len(sd)))
    if known.any():
        keys = term.keys_of({f: levels.codes[f][known] for f in factors})
        values[known] = np.take(effects[term.term], keys, axis=1).T
    for cell in np.flatnonzero(~known):
        values[cell] = sd * draws(term.term, levels.label(factors, cell))
    return values.T


def _low_rank(term: str, loadings: Loadings, levels: _Levels, draws: _Draws) -> Floats:
    """Sums of products of the loadings, of which those of new levels are drawn by label."""
    product, rank = np.ones(1), loadings.sd.shape[1]
    for factor, known in loadings.by_factor.items():
        sd = loadings.sd if factor == names.MODEL else np.ones_like(loadings.sd)
        common = np.zeros_like(sd)
        if factor == names.MODEL and levels.new[factor]:
            # As for effects that sum to zero over the models at hand.
            mean = draws(f"{term} mean of all", f"{factor}s", rank)
            common = mean / np.sqrt(levels.known[factor])
        new = [
            sd * (common + draws(f"{term} {factor}", label, rank)) for label in levels.new[factor]
        ]
        every = np.concatenate([known, *(one[..., None] for one in new)], axis=2)
        product = product * np.take(every, levels.codes[factor], axis=2)
    return np.asarray(product.sum(axis=1))


def _covariate(slope: SlopeDraws, cells: AskedCells, levels: _Levels, draws: _Draws) -> Floats:
    """Standardised values, (n_samples, m): those of the fit, or given ones of new levels."""
    factors = names.factors_of(slope.by)
    known = levels.are_known(factors)
    values = np.empty((len(known), len(slope.slope)))
    at: tuple[slice | Index, ...] = (_EVERYTHING, *(levels.codes[f][known] for f in factors))
    values[known] = slope.of_cells[at].T
    x, se = cells.covariates.get(slope.name, (np.full(cells.n_cells, np.nan),) * 2)
    for cell in np.flatnonzero(~known):
        # Of a value that is not known at all the standard error is infinite.
        share = 0.0 if np.isnan(x[cell]) else 1.0 / (1.0 + se[cell] ** 2)
        values[cell] = 0.0 if share == 0.0 else share * x[cell]
        if share < 1.0:
            drawn = draws(f"{slope.name} of", levels.label(factors, cell))
            values[cell] += np.sqrt(1.0 - share) * drawn
    return values.T


def _with_new_levels(
    arrays: PosteriorArrays, levels: _Levels, noise: MeasurementNoise, draws: _Draws
) -> PosteriorArrays:
    """The posterior with main effects, noise and bounds of the new levels behind the others."""
    main: dict[str, Floats] = {
        factor: np.concatenate(
            [arrays.main[factor], _new_main(arrays, factor, levels.new[factor], draws)], axis=1
        )
        for factor in names.FACTORS
    }
    every = {f: (*arrays.levels[f], *levels.new[f]) for f in arrays.levels}
    wide = replace(arrays, main=main, levels=every)
    if arrays.residual_by is not None:
        wide = noise.with_new_levels(wide, levels.new[arrays.residual_by], draws.seed)
    return _with_new_tasks(wide, levels.new[names.TASK])


def _related_effects(
    arrays: PosteriorArrays, cells: AskedCells, seed: int
) -> dict[str, dict[str, Floats]]:
    """Effects of levels without records, by factor and label, where the fit relates levels."""
    found = {}
    for factor, new in cells.related.items():
        values = new_effects(
            arrays.related[factor],
            arrays.main_sd[factor],
            arrays.main[factor],
            new.matrices,
            generator(seed, f"predict: related {factor}s"),
        )
        found[factor] = dict(zip(new.labels, values.T, strict=True))
    return found


def _new_main(arrays: PosteriorArrays, factor: str, new: tuple[str, ...], draws: _Draws) -> Floats:
    """Effects of levels that the table does not have; shape (n_samples, n_new)."""
    values = np.empty((len(new), arrays.n_samples))
    if not new:
        return values.T
    n_known = len(arrays.levels[factor])
    if factor not in arrays.main_sd:
        why = f"the table has one {factor}" if n_known == 1 else f"{factor} effects are fixed"
        raise InputError(
            f"{factor} {new[0]!r} is not in the table, and cannot be predicted: {why}, so how much "
            f"{factor}s differ is not known"
        )
    if factor in draws.related:
        return np.stack([draws.related[factor][label] for label in new], axis=1)
    sd = arrays.main_sd[factor]
    common = np.zeros(arrays.n_samples)
    if not (factor == names.MODEL and arrays.population == "models"):
        common = draws("mean of all", f"{factor}s") / np.sqrt(n_known)
    for column, label in enumerate(new):
        values[column] = sd * (common + draws(factor, label))
    return values.T


def _with_new_tasks(arrays: PosteriorArrays, new: tuple[str, ...]) -> PosteriorArrays:
    """New tasks have the likelihood, bounds and chance level that all others have."""
    if not new:
        return arrays
    response = arrays.response
    if len(response.families) > 1:
        raise _unlike_tasks(new[0], "likelihoods")
    parts = {"bounds": (response.lower, response.upper), "chance levels": (response.chance,)}
    for what, sides in parts.items():
        if response.link == "logit" and any(one is not None and np.ptp(one) > 0.0 for one in sides):
            raise _unlike_tasks(new[0], what)

    def longer(values: Floats) -> Floats:
        return np.concatenate([values, np.repeat(values[:1], len(new))])

    wide = replace(
        response,
        family=np.concatenate([response.family, np.zeros(len(new), dtype=np.int64)]),
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
