"""Replicated scores: what the records might have been under every draw of the posterior."""

from __future__ import annotations

import numpy as np

from bayeseval.estimands.arrays import Floats
from bayeseval.estimands.container import PosteriorArrays
from bayeseval.estimands.potential import expected_score

__all__ = ["replicate_scores"]

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
        Score units. Known standard errors, and what replicates add to the error of a
        record, are part of its noise.

    References
    ----------
    Gelman et al. (2013), Bayesian Data Analysis, section 6.3.
    """
    mean = expected_score(arrays, draws)
    sd = arrays.residual_sd[draws]
    if arrays.residual_by is not None:
        sd = sd[:, arrays.index[arrays.residual_by]]
    if arrays.se is not None:
        sd = np.sqrt(sd**2 + arrays.se**2)
    if arrays.nu is None:
        return np.asarray(mean + sd * rng.standard_normal(mean.shape))
    nu = np.broadcast_to(arrays.nu[draws, None], mean.shape)
    return np.asarray(mean + sd * rng.standard_t(nu))
