"""Performance potential of language-task pairs and of languages."""

from __future__ import annotations

import numpy as np

from bayeseval import names
from bayeseval.estimands.arrays import Floats
from bayeseval.estimands.container import Cells, PosteriorArrays, draw_blocks
from bayeseval.estimands.response import population_mean, score_mean

__all__ = [
    "expected_score",
    "language_potential",
    "linear_predictor",
    "mean_residual",
    "pair_potential",
    "pair_predictor",
]

_EVERYTHING = slice(None)


def pair_potential(arrays: PosteriorArrays, draws: slice = _EVERYTHING) -> Floats:
    """Potential of every language-task pair that occurs in the benchmark.

    PP = intercept + language + task (+ language:task, + covariates, those of models
    averaged over the models at hand). Under the identity link the expectation over the
    population of models leaves the model terms out, whether the models are the population
    (their effects sum to zero) or a sample of it (their expectation is zero). Under a logit
    link it is the expected score of a model whose effects are drawn from that population.

    Parameters
    ----------
    arrays : PosteriorArrays
        From :func:`bayeseval.estimands.read_arrays`.
    draws : slice
        Which of the flattened draws to compute.

    Returns
    -------
    ndarray, shape (n_samples, n_pairs)
        Score units.

    References
    ----------
    Quantifying Language Disparities in Multilingual Large Language Models,
    Eq. 2, and Eq. 6 for the interaction (paper 000).
    """
    pairs = arrays.pairs
    eta = pair_predictor(arrays, draws)
    return population_mean(arrays, eta, language=pairs.language, task=pairs.task, draws=draws)


def pair_predictor(arrays: PosteriorArrays, draws: slice = _EVERYTHING) -> Floats:
    """Linear predictor of every pair of the benchmark, without the terms of the model.

    Parameters
    ----------
    arrays : PosteriorArrays
        From :func:`bayeseval.estimands.read_arrays`.
    draws : slice
        Which of the flattened draws to compute.

    Returns
    -------
    ndarray, shape (n_samples, n_pairs)
    """
    pairs = arrays.pairs
    values: Floats = np.take(arrays.language_part(draws), pairs.language, axis=1)
    values += np.take(arrays.main[names.TASK][draws], pairs.task, axis=1)
    values += arrays.intercept[draws, None]
    cells = arrays.term("language:task")
    if cells is not None:
        # Every record has its cell, so every pair has: ask one record of each.
        _, first_record = np.unique(pairs.of_record, return_index=True)
        values += np.take(cells.effect[draws], cells.of_record[first_record], axis=1)
    return values


def language_potential(arrays: PosteriorArrays, *, rng: np.random.Generator) -> Floats:
    """Potential of every language: mean of its PP over all tasks of the benchmark.

    Tasks that a language lacks count too. With a language:task interaction their
    cells are drawn from N(0, sd_language_task), which is their posterior given
    the sd. Only their sum enters, so it is drawn as one normal per language.

    Parameters
    ----------
    arrays : PosteriorArrays
        From :func:`bayeseval.estimands.read_arrays`.
    rng : numpy.random.Generator
        Source of the unobserved cells; untouched when there are none.

    Returns
    -------
    ndarray, shape (n_samples, n_languages)
        Score units.

    References
    ----------
    Paper 000, Eq. 3. Its reference code averages over one task less, which
    shifts all languages by the same constant.
    """
    if arrays.response.link == "logit":
        return _language_mean(arrays, rng)
    task = arrays.main[names.TASK]
    values: Floats = arrays.language_part() + (arrays.intercept + task.mean(axis=1))[:, None]
    cells = arrays.term("language:task")
    if cells is None:
        return values
    n_languages, n_tasks = values.shape[1], task.shape[1]
    member = np.zeros((cells.effect.shape[1], n_languages))
    member[np.arange(len(member)), cells.members[names.LANGUAGE]] = 1.0
    values += cells.effect @ member / n_tasks
    missing = n_tasks - member.sum(axis=0)
    # By label, so that the order of the levels does not change anybody's numbers.
    labels = arrays.levels[names.LANGUAGE]
    order = [i for i in sorted(range(n_languages), key=labels.__getitem__) if missing[i] > 0]
    if order:
        draw = rng.standard_normal((len(values), len(order)))
        values[:, order] += cells.sd[:, None] * draw * (np.sqrt(missing[order]) / n_tasks)
    return values


def _language_mean(arrays: PosteriorArrays, rng: np.random.Generator) -> Floats:
    """Mean over all tasks of potentials that are not linear in the effects, task by task."""
    n_languages, n_tasks = (len(arrays.levels[f]) for f in (names.LANGUAGE, names.TASK))
    language = np.arange(n_languages)
    cells = arrays.term("language:task")
    total = np.zeros((arrays.n_samples, n_languages))
    # By label, so that the order of the levels does not change anybody's numbers.
    tasks = sorted(range(n_tasks), key=arrays.levels[names.TASK].__getitem__)
    for task in tasks:
        eta = (
            arrays.language_part() + (arrays.intercept + arrays.main[names.TASK][:, task])[:, None]
        )
        if cells is not None:
            eta += _cells_of_task(arrays, cells, task, rng)
        index = np.full(n_languages, task)
        for draws in draw_blocks(arrays.n_samples, 4 * n_languages):
            total[draws] += population_mean(
                arrays, eta[draws], language=language, task=index, draws=draws
            )
    return total / n_tasks


def _cells_of_task(
    arrays: PosteriorArrays, cells: Cells, task: int, rng: np.random.Generator
) -> Floats:
    """Effects of all languages with one task: those sampled, the others drawn."""
    n_languages = len(arrays.levels[names.LANGUAGE])
    own = np.flatnonzero(cells.members[names.TASK] == task)
    there = cells.members[names.LANGUAGE][own]
    values = np.empty((arrays.n_samples, n_languages))
    values[:, there] = cells.effect[:, own]
    order = sorted(range(n_languages), key=arrays.levels[names.LANGUAGE].__getitem__)
    new = [i for i in order if i not in set(there.tolist())]
    values[:, new] = cells.sd[:, None] * rng.standard_normal((arrays.n_samples, len(new)))
    return values


def expected_score(arrays: PosteriorArrays, draws: slice = _EVERYTHING) -> Floats:
    """Expected score of every record, all terms of the linear predictor in it.

    Parameters
    ----------
    arrays : PosteriorArrays
        From :func:`bayeseval.estimands.read_arrays`.
    draws : slice
        Which of the flattened draws to compute.

    Returns
    -------
    ndarray, shape (n_samples, n_records)
        Score units.
    """
    return score_mean(
        arrays,
        linear_predictor(arrays, draws),
        language=arrays.index[names.LANGUAGE],
        task=arrays.index[names.TASK],
        model=arrays.index[names.MODEL],
        draws=draws,
    )


def mean_residual(arrays: PosteriorArrays) -> Floats:
    """Observed score less posterior mean of the expected one, shape (n_records,)."""
    expected = np.zeros(len(arrays.score))
    for draws in draw_blocks(arrays.n_samples, 4 * len(arrays.score)):
        expected += expected_score(arrays, draws).sum(axis=0)
    return np.asarray(arrays.score - expected / arrays.n_samples)


def linear_predictor(arrays: PosteriorArrays, draws: slice = _EVERYTHING) -> Floats:
    """Linear predictor of every record: all terms.

    Parameters
    ----------
    arrays : PosteriorArrays
        From :func:`bayeseval.estimands.read_arrays`.
    draws : slice
        Which of the flattened draws to compute.

    Returns
    -------
    ndarray, shape (n_samples, n_records)
    """
    values = np.take(pair_predictor(arrays, draws), arrays.pairs.of_record, axis=1)
    values += np.take(arrays.main[names.MODEL][draws], arrays.index[names.MODEL], axis=1)
    if any(slope.by_model for slope in arrays.slopes):
        for model in range(len(arrays.levels[names.MODEL])):
            own = np.flatnonzero(arrays.index[names.MODEL] == model)
            language = arrays.index[names.LANGUAGE][own]
            for slope in arrays.slopes:
                if slope.by_model:
                    values[:, own] += np.take(slope.of_model(model, draws), language, axis=1)
    for cells in arrays.cells:
        if cells.term != "language:task":
            values += np.take(cells.effect[draws], cells.of_record, axis=1)
    return values
