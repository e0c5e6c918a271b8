"""Replicated scores: what the records might have been under every draw of the posterior."""

from __future__ import annotations

import numpy as np

from bayeseval import names
from bayeseval._typing import Floats
from bayeseval.estimands.container import PosteriorArrays
from bayeseval.estimands.predictor import linear_predictor
from bayeseval.estimands.response import draw_scores

__all__ = ["draws_by_row", "off_bounds", "replicate_scores"]

_EVERYTHING = slice(None)


def replicate_scores(
    arrays: PosteriorArrays, rng: np.random.Generator, draws: slice = _EVERYTHING
) -> Floats:
    """Scores of the same records drawn anew: same languages, tasks and models, new noise.

    Parameters
    ----------
    arrays : PosteriorArrays
        From :func:`bayeseval.estimands.read_arrays`.
    rng : numpy.random.Generator
        Source of the noise.
    draws : slice
        Which of the flattened draws to predict from.

    Returns
    -------
    ndarray, shape (n_draws, n_records)
        Score units, under the likelihood of each record's task. Known standard
        errors, and what replicates add to the error of a record, are part of its noise;
        prompts that cells share are the same as in the table.

    References
    ----------
    Gelman et al. (2013), Bayesian Data Analysis, section 6.3.
    """
    errors, shared = arrays.error_variance(draws), arrays.shared_error(draws)
    scores = draw_scores(
        arrays,
        linear_predictor(arrays, draws),
        rng,
        language=arrays.index[names.LANGUAGE],
        task=arrays.index[names.TASK],
        model=arrays.index[names.MODEL],
        n_items=arrays.response.n_items,
        se=None if errors is None else np.sqrt(errors),
        draws=draws,
    )
    return scores if shared is None else scores + shared


def draws_by_row(arrays: PosteriorArrays) -> bool:
    """Whether :func:`replicate_scores` draws the noise of one draw after that of the other.

    Then the scores do not depend on how many draws are predicted from at a time.
    """
    return arrays.response.families == ("normal",)


def off_bounds(arrays: PosteriorArrays, scores: Floats) -> Floats:
    """Scores as the likelihoods take them: moved off a bound where these have no density there.

    Scores that a likelihood does not tell from each other become equal, those of the table and
    replicated ones alike.

    Parameters
    ----------
    arrays : PosteriorArrays
        From :func:`bayeseval.estimands.read_arrays`.
    scores : ndarray, shape (..., n_records)

    Returns
    -------
    ndarray, the same shape
    """
    response, task = arrays.response, arrays.index[names.TASK]
    own = response.has_quantity(task, "logit", "share")
    if not own.any():
        return scores
    lower, upper = response.lower[task[own]], response.upper[task[own]]
    distance = response.edge * (upper - lower)
    moved = scores.astype(np.float64)
    moved[..., own] = np.clip(scores[..., own], lower + distance, upper - distance)
    return moved
