"""Which models are strong and weak in the same languages, with low-rank interactions."""

from __future__ import annotations

import numpy as np
import pandas as pd
import xarray as xr

from bayeseval import names
from bayeseval._typing import Floats
from bayeseval.estimands.arrays import interval_summary
from bayeseval.estimands.completion import CompletedTerm, model_streams
from bayeseval.estimands.container import PosteriorArrays
from bayeseval.estimands.frames import finish, summary_columns
from bayeseval.estimands.read import group, read_arrays

__all__ = ["model_correlations", "model_correlations_table"]

_TERM = "model:language"


def model_correlations_table(tree: xr.DataTree, *, ci_prob: float = names.CI_PROB) -> pd.DataFrame:
    """Correlation over languages of the effects of every pair of models.

    Parameters
    ----------
    tree : xarray.DataTree
        A fit with what :func:`bayeseval.estimands.derive` adds.
    ci_prob : float
        Probability inside the equal-tailed intervals.

    Returns
    -------
    pandas.DataFrame
        ``model_a``, ``model_b``, ``correlation_{mean,sd,lower,upper}``, ``p_positive``,
        ``ci_kind``, ``ci_prob``; every pair once, in alphabetical order. Without a low-rank
        interaction of models and languages there are no rows.
    """
    arrays = read_arrays(tree)
    models = np.array(arrays.levels[names.MODEL], dtype=object)
    parts = []
    if arrays.term(names.low_rank_term(_TERM)) is not None:
        seed = int(group(tree, "estimands").attrs["seed"])
        effects = _effects(arrays, seed=seed)
        for first in range(len(models) - 1):
            values = model_correlations(effects, first)
            columns = {"model_a": models[first], "model_b": models[first + 1 :]}
            summary = summary_columns("correlation", interval_summary(values, ci_prob=ci_prob))
            parts.append(
                pd.DataFrame(columns | summary | {"p_positive": (values > 0.0).mean(axis=0)})
            )
    return finish(pd.concat(parts) if parts else pd.DataFrame(), ci_prob)


def model_correlations(effects: Floats, first: int) -> Floats:
    """Correlation over languages of one model with all later ones, draw by draw.

    Parameters
    ----------
    effects : ndarray, shape (n_samples, n_models, n_languages)
        Effects of the models in the languages. What a model adds in all languages alike does
        not matter.
    first : int
        Position of the model.

    Returns
    -------
    ndarray, shape (n_samples, n_models - first - 1)
        0 where the effects of a model are the same in all languages.
    """
    own = effects[:, first:] - effects[:, first:].mean(axis=2, keepdims=True)
    length = np.sqrt((own**2).sum(axis=2))
    product = np.einsum("sl,sml->sm", own[:, 0], own[:, 1:])
    scale = length[:, :1] * length[:, 1:]
    return np.asarray(
        np.divide(product, scale, out=np.zeros_like(product), where=scale > 0.0), dtype=np.float64
    )


def _effects(arrays: PosteriorArrays, *, seed: int) -> Floats:
    """Low-rank effects and those of model:language; shape (n_samples, n_models, n_languages)."""
    shape = (len(arrays.levels[names.MODEL]), len(arrays.levels[names.LANGUAGE]))
    effects = np.zeros((arrays.n_samples, *shape))
    stream = model_streams(arrays, seed, "estimands")
    for name in (_TERM, names.low_rank_term(_TERM)):
        cells = arrays.term(name)
        if cells is not None:
            term = CompletedTerm(arrays, cells)
            for model in range(shape[0]):
                effects[:, model] += term.effect(model, slice(None), stream(name, model))
    return effects
