"""Groups that ArviZ's predictive and prior plots read: prior, predicted scores, log priors."""

from __future__ import annotations

import numpy as np
import xarray as xr

from bayeseval import names
from bayeseval._random import generator
from bayeseval._typing import Index
from bayeseval.checks.prior import log_priors, prior_tree
from bayeseval.design import Design
from bayeseval.estimands import read_arrays
from bayeseval.estimands.predict import replicate_scores

__all__ = ["predictive_draws", "predictive_groups"]


def predictive_draws(
    n_records: int, n_chains: int, n_draws: int, draws: int | None = None
) -> Index:
    """Posterior draws of each chain at which scores are predicted, evenly spaced.

    Parameters
    ----------
    n_records, n_chains, n_draws : int
        Sizes of the fit.
    draws : int, optional
        Number to take of each chain; None for all of them, as far as no more than
        ``names.MOST_POINTWISE`` scores are predicted.

    Returns
    -------
    ndarray of int
        Positions, at least one.
    """
    room = max(names.MOST_POINTWISE // (n_records * n_chains), 1)
    number = min(room if draws is None else draws, n_draws)
    return np.unique(np.linspace(0, n_draws - 1, number).astype(int))


def predictive_groups(
    tree: xr.DataTree, design: Design, *, draws: int | None = None, seed: int
) -> dict[str, xr.Dataset]:
    """Draw from the prior, predict tables of scores from prior and posterior, and rate draws.

    Parameters
    ----------
    tree : xarray.DataTree
        A fit.
    design : Design
        Design of the fit.
    draws : int, optional
        Number of prior draws, and of posterior draws of each chain (evenly spaced); None for
        as many as a chain has, within the limit of :func:`predictive_draws`.
    seed : int
        The one seed.

    Returns
    -------
    dict of str to xarray.Dataset
        ArviZ's groups ``prior``, ``prior_predictive`` and ``posterior_predictive`` (scores
        on chain, draw, record), and ``log_prior`` of every posterior draw: one variable for
        every parameter, as :func:`bayeseval.checks.prior.log_priors` has them.
    """
    posterior = tree["posterior"].to_dataset()
    n_chains, n_draws = posterior.sizes["chain"], posterior.sizes["draw"]
    kept = predictive_draws(design.n_records, n_chains, n_draws, draws)
    prior = prior_tree(design, generator(seed, "prior"), len(kept) if draws is None else draws)
    some = tree.copy()
    # Thinned before predicting: of a large table, all draws would not fit into memory.
    some["posterior"] = xr.DataTree(posterior.isel(draw=kept))
    variables = {str(name): posterior[name].to_numpy() for name in posterior.data_vars}
    densities = {
        # Without levels it is the joint density of all effects of a term.
        name: posterior[name].copy(data=density)
        if density.ndim == posterior[name].ndim
        else posterior[name].isel({posterior[name].dims[-1]: 0}, drop=True).copy(data=density)
        for name, density in log_priors(design, variables).items()
    }
    return {
        "prior": prior["posterior"].to_dataset(),
        "prior_predictive": _predicted(prior, generator(seed, "prior_predictive")),
        "posterior_predictive": _predicted(some, generator(seed, "posterior_predictive")),
        "log_prior": xr.Dataset(densities),
    }


def _predicted(tree: xr.DataTree, rng: np.random.Generator) -> xr.Dataset:
    """Tables of scores, one for every draw of the group ``posterior``."""
    arrays, sample = read_arrays(tree), tree["posterior"].to_dataset()
    scores = replicate_scores(arrays, rng).reshape(arrays.n_chains, arrays.n_draws, -1)
    return xr.Dataset(
        {names.SCORE: (("chain", "draw", names.RECORD), scores)},
        coords={
            "chain": sample["chain"],
            "draw": sample["draw"],
            names.RECORD: tree["observed_data"][names.RECORD],
        },
    )
