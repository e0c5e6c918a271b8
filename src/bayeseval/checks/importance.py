"""Records predicted from all others by weighing the draws of a fit, where there is no closed form.

The posterior without record i is proportional to the full posterior divided by the density
p(y_i | draw). Draws of the full posterior with Pareto-smoothed weights (PSIS; Vehtari, Simpson,
Gelman, Yao and Gabry 2024) therefore predict the record from all others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import xarray as xr
from scipy import special

from bayeseval import names
from bayeseval._typing import Floats
from bayeseval.estimands import expected_score
from bayeseval.estimands.container import PosteriorArrays
from bayeseval.estimands.frames import draws_of
from bayeseval.estimands.predictor import linear_predictor
from bayeseval.estimands.response import distribution

__all__ = ["Reweighted", "reweighted"]


# Fewer draws of a chain do not have the tail that is smoothed.
_FEWEST_DRAWS: Final = 100
_MOST_DRAWS: Final = 2000
# Most operations of all distribution functions: about a hundred each, and up to as many as there
# are items for a count.
_OPERATIONS: Final = 1e9


@dataclass(frozen=True, eq=False)
class Reweighted:
    """Every record predicted from all others, by importance sampling.

    Attributes
    ----------
    pit : ndarray, shape (n_records,)
        Probability of a lower score, given all other records; of counts, mid-p.
    expected : ndarray, shape (n_records,)
        Predicted score.
    error : ndarray, shape (n_records,)
        Normal score of `pit`.
    k_hat : ndarray, shape (n_records,)
        Pareto k-hat of the weights.
    """

    pit: Floats
    expected: Floats
    error: Floats
    k_hat: Floats


def reweighted(tree: xr.DataTree, arrays: PosteriorArrays) -> Reweighted | None:
    """Predict every record of a fit from all others; None where the fit has too few draws.

    Parameters
    ----------
    tree : xarray.DataTree
        A fit; its ``log_likelihood`` has the densities of all records.
    arrays : PosteriorArrays
        The same fit as arrays.
    """
    from arviz_stats.base import array_stats

    if "log_likelihood" not in tree.children or arrays.n_draws < _FEWEST_DRAWS:
        return None
    items = arrays.response.n_items
    each = 100.0 * len(arrays.score) + (0.0 if items is None else float(np.nansum(items)))
    most = min(_MOST_DRAWS, max(_FEWEST_DRAWS, int(_OPERATIONS / each)))
    draws = slice(None, None, max(1, arrays.n_samples // most))
    density = draws_of(tree["log_likelihood"].to_dataset()[names.SCORE])[draws]
    # psislw takes log likelihoods, whose negatives are the log weights.
    log_weight, k_hat = array_stats.psislw(density.T)
    weight = np.exp(log_weight - log_weight.max(axis=1, keepdims=True)).T
    weight /= weight.sum(axis=0)
    errors, shift = arrays.error_variance(draws), arrays.shared_error(draws)
    below = distribution(
        arrays,
        linear_predictor(arrays, draws),
        se=None if errors is None else np.sqrt(errors),
        shift=shift,
        draws=draws,
    )
    expected = expected_score(arrays, draws)
    if shift is not None:
        expected = expected + shift
    pit = np.clip((weight * below).sum(axis=0), 1e-16, 1.0 - 1e-16)
    return Reweighted(
        pit=pit,
        expected=(weight * expected).sum(axis=0),
        error=np.asarray(special.ndtri(pit)),
        k_hat=np.asarray(k_hat, dtype=np.float64),
    )
