"""What a model would have scored on the pairs it was not tested on."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, partial

import numpy as np

from bayeseval import names
from bayeseval._random import generator
from bayeseval.estimands.arrays import Bools, Floats, Index
from bayeseval.estimands.container import Cells, PosteriorArrays, draw_blocks
from bayeseval.estimands.potential import pair_potential
from bayeseval.estimands.response import draw_scores, standard_noise

__all__ = [
    "ModelTerm",
    "language_scores",
    "missing_pairs",
    "model_records",
    "predicted_scores",
    "residual_draws",
]


@dataclass(frozen=True, slots=True, eq=False)
class ModelRecords:
    """The records of one model, in pair order (then by score: row order is irrelevant)."""

    rows: Index
    pairs: Index
    has_pair: Bools
    pair_score: Floats

    @property
    def n_pairs(self) -> int:
        return int(self.has_pair.sum())


def model_records(arrays: PosteriorArrays, model: int) -> ModelRecords:
    """Records of the model at a position among the levels."""
    of_record = arrays.pairs.of_record
    rows = np.flatnonzero(arrays.index[names.MODEL] == model)
    rows = rows[np.lexsort((arrays.score[rows], of_record[rows]))]
    pairs = of_record[rows]
    count = np.bincount(pairs, minlength=arrays.n_pairs)
    total = np.bincount(pairs, weights=arrays.score[rows], minlength=arrays.n_pairs)
    return ModelRecords(rows, pairs, count > 0, total / np.maximum(count, 1))


class ModelTerm:
    """An interaction with the model, completed to all pairs of the benchmark.

    For one model the term has one effect per `other` key: the task, the language,
    the pair, or language and dataset. Keys the model has no record on are drawn from N(0, sd).
    """

    def __init__(self, arrays: PosteriorArrays, cells: Cells) -> None:
        self._cells = cells
        factors = tuple(f for f in cells.term.split(":") if f != names.MODEL)
        shape = tuple(len(arrays.levels[f]) for f in factors)
        keys, self._key_of_pair = np.unique(
            np.ravel_multi_index(tuple(arrays.pairs.levels[f] for f in factors), shape),
            return_inverse=True,
        )
        labels = [
            tuple(arrays.levels[f][i] for f, i in zip(factors, key, strict=True))
            for key in zip(*np.unravel_index(keys, shape), strict=True)
        ]
        # Drawn in label order: the order of the levels does not move the numbers.
        self._by_label = np.array(sorted(range(len(keys)), key=labels.__getitem__))
        cell_codes = np.ravel_multi_index(tuple(cells.members[f] for f in factors), shape)
        self._key_of_cell = np.searchsorted(keys, cell_codes)

    def effect(self, model: int, draws: slice, rng: np.random.Generator) -> Floats:
        """Effects of one model on every pair; shape (n_samples, n_pairs)."""
        cells = self._cells
        own = np.flatnonzero(cells.members[names.MODEL] == model)
        missing = self._by_label[~np.isin(self._by_label, self._key_of_cell[own])]
        sd = cells.sd[draws]
        values = np.empty((len(sd), len(self._by_label)))
        values[:, self._key_of_cell[own]] = cells.effect[draws][:, own]
        values[:, missing] = sd[:, None] * rng.standard_normal((len(sd), len(missing)))
        return np.take(values, self._key_of_pair.reshape(-1), axis=1)


def residual_draws(
    arrays: PosteriorArrays,
    model: int,
    pairs: Index,
    draws: slice,
    rng: np.random.Generator,
    *,
    with_errors: bool,
) -> Floats:
    """Residual noise of new records of one model; shape (n_samples, len(pairs)).

    Standard errors belong to records that exist. With `with_errors` a new record on a
    pair is given the mean squared standard error of the records there.
    """
    sd = arrays.residual_sd[draws]
    if arrays.residual_by is not None:
        level = {
            names.LANGUAGE: arrays.pairs.language[pairs],
            names.TASK: arrays.pairs.task[pairs],
            names.MODEL: np.full(len(pairs), model),
        }[arrays.residual_by]
        sd = np.take(sd, level, axis=1)
    if with_errors and arrays.se is not None:
        sd = np.sqrt(sd**2 + _by_pair(arrays, arrays.se**2)[pairs])
    return sd * standard_noise(arrays, arrays.pairs.task[pairs], draws, rng, len(sd))


def predicted_scores(
    arrays: PosteriorArrays,
    model: int,
    pairs: Index,
    eta: Floats,
    draws: slice,
    rng: np.random.Generator,
) -> Floats:
    """Scores that one model would get on some pairs, noise included.

    Parameters
    ----------
    arrays : PosteriorArrays
        From :func:`bayeseval.estimands.read_arrays`.
    model : int
        Its position among the levels.
    pairs : ndarray of int, shape (m,)
        Positions of the pairs.
    eta : ndarray, shape (n_draws, m)
        Linear predictor.
    draws : slice
        Which of the flattened draws `eta` has.
    rng : numpy.random.Generator
        Source of the noise.

    Returns
    -------
    ndarray, shape (n_draws, m)
        Score units. A count has as many items as the records of the pair have on average.
    """
    if arrays.response.link == "identity":
        return eta + residual_draws(arrays, model, pairs, draws, rng, with_errors=True)
    items = arrays.response.n_items
    return draw_scores(
        arrays,
        eta,
        rng,
        language=arrays.pairs.language[pairs],
        task=arrays.pairs.task[pairs],
        model=np.full(len(pairs), model),
        n_items=None if items is None else np.round(_by_pair(arrays, np.nan_to_num(items)))[pairs],
        se=None if arrays.se is None else np.sqrt(_by_pair(arrays, arrays.se**2))[pairs],
        draws=draws,
    )


def _by_pair(arrays: PosteriorArrays, values: Floats) -> Floats:
    """Mean over the records of every pair."""
    of_record = arrays.pairs.of_record
    return np.asarray(np.bincount(of_record, weights=values) / np.bincount(of_record))


def missing_pairs(arrays: PosteriorArrays, own: ModelRecords) -> Index:
    """Pairs a model has no record on, in label order."""
    languages, tasks = arrays.levels[names.LANGUAGE], arrays.levels[names.TASK]
    missing = sorted(
        np.flatnonzero(~own.has_pair),
        key=lambda p: (languages[arrays.pairs.language[p]], tasks[arrays.pairs.task[p]]),
    )
    return np.array(missing, dtype=np.int64)


def language_scores(arrays: PosteriorArrays, cell_mean: Floats, *, seed: int) -> Floats:
    """Mean of every model on every language, over the language's pairs of the benchmark.

    Pairs that a model was not tested on are predicted: its expected score there, with
    residual noise.

    Parameters
    ----------
    arrays : PosteriorArrays
    cell_mean : ndarray, shape (n_samples, n_records)
        Draws of the mean of every record's cell.
    seed : int
        Seed of the predictions.

    Returns
    -------
    ndarray, shape (n_samples, n_models, n_languages)
        Score units.
    """
    models, languages = arrays.levels[names.MODEL], arrays.levels[names.LANGUAGE]
    values = np.empty((arrays.n_samples, len(models), len(languages)))
    terms = [(c.term, ModelTerm(arrays, c)) for c in arrays.cells if names.MODEL in c.term]
    order = np.argsort(arrays.pairs.language, kind="stable")
    first = np.searchsorted(arrays.pairs.language[order], np.arange(len(languages)))
    n_pairs = np.bincount(arrays.pairs.language, minlength=len(languages))
    stream = cache(partial(generator, seed))
    for draws in draw_blocks(arrays.n_samples, 6 * arrays.n_pairs):
        potential = pair_potential(arrays, draws)
        for model in range(len(models)):
            own = model_records(arrays, model)
            # Mean over the records of each pair: rows come in pair order.
            starts = np.flatnonzero(np.diff(own.pairs, prepend=-1))
            counts = np.diff(starts, append=len(own.pairs))
            scores = np.empty_like(potential)
            scores[:, own.pairs[starts]] = (
                np.add.reduceat(cell_mean[draws][:, own.rows], starts, axis=1) / counts
            )
            new = missing_pairs(arrays, own)
            if len(new):
                expected = potential + arrays.model_part(model, draws)
                for term, completed in terms:
                    rng = stream(f"languages: unobserved {term}, model {models[model]}")
                    expected += completed.effect(model, draws, rng)
                rng = stream(f"languages: residual, model {models[model]}")
                scores[:, new] = expected[:, new] + residual_draws(
                    arrays, model, new, draws, rng, with_errors=False
                )
            values[draws, model] = np.add.reduceat(scores[:, order], first, axis=1) / n_pairs
    return values
