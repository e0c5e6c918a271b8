"""Interactions and predicted scores of unobserved cells."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial

import numpy as np

from bayeseval import names
from bayeseval._random import generator
from bayeseval._typing import Bools, Floats, Index
from bayeseval.estimands.container import Cells, PosteriorArrays, at_languages, draw_blocks
from bayeseval.estimands.predictor import pair_predictor
from bayeseval.estimands.response import standard_noise

__all__ = [
    "CompletedTerm",
    "ModelRecords",
    "language_scores",
    "missing_pairs",
    "model_cells",
    "model_records",
    "model_streams",
    "model_terms",
    "records_by_model",
    "residual_draws",
]


@dataclass(frozen=True, slots=True, eq=False)
class ModelRecords:
    """The records of one model, in pair order (then by score: row order is irrelevant)."""

    rows: Index
    pairs: Index
    has_pair: Bools

    @property
    def n_pairs(self) -> int:
        """Number of pairs with a record."""
        return int(self.has_pair.sum())


def model_records(arrays: PosteriorArrays, model: int) -> ModelRecords:
    """Records of the model at a position among the levels."""
    pair_of_record = arrays.pairs.of_record
    rows = np.flatnonzero(arrays.index[names.MODEL] == model)
    rows = rows[np.lexsort((arrays.score[rows], pair_of_record[rows]))]
    return _records_of(arrays, rows)


def records_by_model(arrays: PosteriorArrays) -> list[ModelRecords]:
    """:func:`model_records` of every model, in one pass over the records."""
    model = arrays.index[names.MODEL]
    order = np.lexsort((arrays.score, arrays.pairs.of_record, model))
    size = np.bincount(model, minlength=len(arrays.levels[names.MODEL]))
    return [_records_of(arrays, rows) for rows in np.split(order, np.cumsum(size)[:-1])]


def _records_of(arrays: PosteriorArrays, rows: Index) -> ModelRecords:
    pairs = arrays.pairs.of_record[rows]
    return ModelRecords(rows, pairs, np.bincount(pairs, minlength=arrays.n_pairs) > 0)


class CompletedTerm:
    """An interaction on every cell of languages x tasks, and of models where it has them.

    The effects are indexed by key: the levels that the term crosses besides the model, in
    row-major order. Keys without a record are drawn from N(0, sd), once for all pairs that
    share them.
    """

    def __init__(self, arrays: PosteriorArrays, cells: Cells) -> None:
        self.term = cells.term
        self._cells = cells
        self._factors = tuple(f for f in names.factors_of(cells.term) if f != names.MODEL)
        self._shape = tuple(len(arrays.levels[f]) for f in self._factors)
        n_languages, n_tasks = (len(arrays.levels[f]) for f in (names.LANGUAGE, names.TASK))
        level = {
            names.LANGUAGE: np.arange(n_languages)[:, None],
            names.TASK: np.arange(n_tasks)[None],
        }
        if names.DATASET in self._factors:
            level[names.DATASET] = _dataset_of_task(arrays)[None]
        crossed = np.broadcast_arrays(*(level[f] for f in self._factors))
        key = np.ravel_multi_index(tuple(crossed), self._shape)
        self._key = np.broadcast_to(key, (n_languages, n_tasks))
        labels = [
            tuple(arrays.levels[f][i] for f, i in zip(self._factors, place, strict=True))
            for place in np.ndindex(*self._shape)
        ]
        # Drawn in label order, so that the numbers do not depend on the order of the levels.
        self._by_label = np.array(sorted(range(len(labels)), key=labels.__getitem__))
        self._key_of_cell = np.ravel_multi_index(
            tuple(cells.members[f] for f in self._factors), self._shape
        )

    def keys(self, language: Index, task: Index) -> Index:
        """Key of every pair of a language and a task."""
        return np.asarray(self._key[language, task])

    def keys_of(self, levels: Mapping[str, Index]) -> Index:
        """Key of cells by the levels of their factors; a dataset need not have the task."""
        return np.asarray(
            np.ravel_multi_index(tuple(levels[f] for f in self._factors), self._shape)
        )

    def effect(self, model: int | None, draws: slice, rng: np.random.Generator) -> Floats:
        """Effects on every key, of one model where the term has models; shape (n, n_keys)."""
        cells = self._cells
        if names.MODEL in cells.members:
            cells_of_model = np.flatnonzero(cells.members[names.MODEL] == model)
        else:
            cells_of_model = np.arange(cells.effect.shape[1])
        missing = self._by_label[~np.isin(self._by_label, self._key_of_cell[cells_of_model])]
        sd = cells.sd[draws]
        values = np.empty((len(sd), len(self._by_label)))
        values[:, self._key_of_cell[cells_of_model]] = cells.effect[draws][:, cells_of_model]
        values[:, missing] = sd[:, None] * rng.standard_normal((len(sd), len(missing)))
        return values

    def mean_over_new(self) -> float:
        """Variance of the mean over all tasks in a language without records, in units of sd**2.

        For a mean over models, divide also by their number. A term without the language is
        the same for all languages and adds no variance for a new one; loadings sum to zero over
        models.
        """
        if names.LANGUAGE not in self._factors or self.term.startswith(names.LOW_RANK):
            return 0.0
        if self._factors == (names.LANGUAGE,):
            return 1.0
        n_tasks = self._key.shape[1]
        weight = np.bincount(self._key[0] % self._shape[1], minlength=self._shape[1]) / n_tasks
        return float(np.sum(weight**2))

    def task_mean(self, effect: Floats) -> Floats:
        """Mean over all tasks by language, from effects on keys; shape (n, n_languages or 1)."""
        if self._factors == (names.LANGUAGE,):
            return effect
        if self._factors == (names.TASK,):
            return np.asarray(effect.mean(axis=1, keepdims=True))
        n_tasks = self._key.shape[1]
        weight = np.bincount(self._key[0] % self._shape[1], minlength=self._shape[1]) / n_tasks
        return np.asarray(effect.reshape(len(effect), *self._shape) @ weight)


def _dataset_of_task(arrays: PosteriorArrays) -> Index:
    """Dataset of each task: every task has a pair, and a task is of one dataset."""
    dataset = np.zeros(len(arrays.levels[names.TASK]), dtype=np.int64)
    dataset[arrays.pairs.task] = arrays.pairs.levels[names.DATASET]
    return dataset


def model_cells(arrays: PosteriorArrays, *, expected: bool = True) -> tuple[Cells, ...]:
    """Interactions with the models that scores include, in canonical order.

    What the metrics of one set of outputs share is noise, see ``names.SHARED_BY_METRICS``:
    expected scores are without it, scores that are predicted have it.
    """
    return tuple(
        cells
        for cells in arrays.cells
        if names.MODEL in cells.members and not (expected and cells.term == names.SHARED_BY_METRICS)
    )


def model_terms(arrays: PosteriorArrays) -> tuple[CompletedTerm, ...]:
    """Those interactions on all cells."""
    return tuple(CompletedTerm(arrays, cells) for cells in model_cells(arrays))


def model_streams(
    arrays: PosteriorArrays, seed: int, what: str
) -> Callable[[str, int], np.random.Generator]:
    """Random stream of a term and a model, by the model's place in the alphabet.

    A stream goes on where the previous block of draws stopped, so the size of the blocks
    does not change the numbers; nor does the order of the levels.
    """
    place = np.argsort(np.argsort(np.array(arrays.levels[names.MODEL], dtype=object)))
    stream = cache(partial(generator, seed))
    return lambda term, model: stream(f"{what}: unobserved {term}, model {place[model]}")


def residual_draws(
    arrays: PosteriorArrays,
    model: int,
    pairs: Index,
    draws: slice,
    rng: np.random.Generator,
) -> Floats:
    """Residuals of cells of one model without a record; shape (n_samples, len(pairs)).

    Standard errors belong to records that exist.
    """
    sd = arrays.residual_sd[draws]
    if arrays.residual_by is not None:
        level = {
            names.LANGUAGE: arrays.pairs.language[pairs],
            names.TASK: arrays.pairs.task[pairs],
            names.MODEL: np.full(len(pairs), model),
        }[arrays.residual_by]
        sd = np.take(sd, level, axis=1)
    return sd * standard_noise(arrays, arrays.pairs.task[pairs], draws, rng, len(sd))


def missing_pairs(arrays: PosteriorArrays, records: ModelRecords) -> Index:
    """Pairs a model has no record on, in label order."""
    languages, tasks = arrays.levels[names.LANGUAGE], arrays.levels[names.TASK]
    missing = sorted(
        np.flatnonzero(~records.has_pair),
        key=lambda p: (languages[arrays.pairs.language[p]], tasks[arrays.pairs.task[p]]),
    )
    return np.array(missing, dtype=np.int64)


def language_scores(
    arrays: PosteriorArrays, cell_mean: Floats, *, seed: int, expected: bool = False
) -> Floats:
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
    expected : bool
        Leave out what the metrics of one set of outputs share, see
        ``names.SHARED_BY_METRICS``, also of the means of cells.

    Returns
    -------
    ndarray, shape (n_samples, n_models, n_languages)
        Score units.
    """
    models, languages = arrays.levels[names.MODEL], arrays.levels[names.LANGUAGE]
    values = np.empty((arrays.n_samples, len(models), len(languages)))
    shared = arrays.term(names.SHARED_BY_METRICS) if expected else None
    terms = [CompletedTerm(arrays, cells) for cells in model_cells(arrays, expected=expected)]
    pairs = arrays.pairs
    keys = {term.term: term.keys(pairs.language, pairs.task) for term in terms}
    order = np.argsort(arrays.pairs.language, kind="stable")
    first = np.searchsorted(arrays.pairs.language[order], np.arange(len(languages)))
    n_pairs = np.bincount(arrays.pairs.language, minlength=len(languages))
    stream = cache(partial(generator, seed))
    for draws in draw_blocks(arrays.n_samples, 6 * arrays.n_pairs):
        base = pair_predictor(arrays, draws)
        for model in range(len(models)):
            records = model_records(arrays, model)
            # Mean over the records of each pair: rows come in pair order.
            starts = np.flatnonzero(np.diff(records.pairs, prepend=-1))
            counts = np.diff(starts, append=len(records.pairs))
            own = cell_mean[draws][:, records.rows]
            if shared is not None:
                own = own - shared.effect[draws][:, shared.of_record[records.rows]]
            scores = np.empty_like(base)
            scores[:, records.pairs[starts]] = np.add.reduceat(own, starts, axis=1) / counts
            new = missing_pairs(arrays, records)
            if len(new):
                mean = base + at_languages(arrays.model_part(model, draws), pairs.language)
                for term in terms:
                    rng = stream(f"languages: unobserved {term.term}, model {models[model]}")
                    effect = term.effect(model, draws, rng)
                    mean += np.take(effect, keys[term.term], axis=1)
                rng = stream(f"languages: residual, model {models[model]}")
                scores[:, new] = mean[:, new] + residual_draws(arrays, model, new, draws, rng)
            values[draws, model] = np.add.reduceat(scores[:, order], first, axis=1) / n_pairs
    return values
