"""The linear predictor of pairs and records, and expected scores of records."""

from __future__ import annotations

import numpy as np

from bayeseval import names
from bayeseval._typing import Floats
from bayeseval.estimands.container import PosteriorArrays, draw_blocks
from bayeseval.estimands.response import score_mean

__all__ = [
    "expected_score",
    "linear_predictor",
    "mean_residual",
    "pair_predictor",
]

_EVERYTHING = slice(None)


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


def mean_residual(arrays: PosteriorArrays, *, step: int = 1) -> Floats:
    """Observed score less posterior mean of the expected one, shape (n_records,).

    What prompts that cells share did to it is subtracted, too.

    Parameters
    ----------
    arrays : PosteriorArrays
        From :func:`bayeseval.estimands.read_arrays`.
    step : int
        Every how many draws the mean goes through.
    """
    expected, n_draws = np.zeros(len(arrays.score)), len(range(0, arrays.n_samples, step))
    for block in draw_blocks(n_draws, 4 * len(arrays.score)):
        draws = slice(block.start * step, block.stop * step, step)
        expected += expected_score(arrays, draws).sum(axis=0)
        shared = arrays.shared_error(draws)
        expected += 0.0 if shared is None else shared.sum(axis=0)
    return np.asarray(arrays.score - expected / n_draws)


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
