"""Languages without records: their potential from what is known of them, draw by draw."""

from __future__ import annotations

import numpy as np

from bayeseval import names
from bayeseval._typing import Bools, Floats
from bayeseval.errors import InputError
from bayeseval.estimands.completion import model_cells, model_streams, model_terms
from bayeseval.estimands.container import PosteriorArrays
from bayeseval.estimands.related import new_effects
from bayeseval.families import of_quantity

__all__ = ["lowest_quarter", "new_potential", "sample_crps"]


def new_potential(
    arrays: PosteriorArrays,
    by_covariate: Floats,
    *,
    rng: np.random.Generator,
    seed: int,
    relations: Floats | None = None,
) -> Floats:
    """Potential of languages that the table does not have.

    ``mu + x theta + N(0, sd_language**2 (1 + 1/L)) + mean(b)``: the effects of the L
    languages at hand sum to zero, so that the mean of the population they come from is
    known up to ``sd_language / sqrt(L)``. With language:task effects, those of a new
    language average to ``N(0, sd_language_task**2 / T)`` over the T tasks. Where the models
    at hand are the population, effects of models are averaged over the M of them:
    model:language adds ``sd_model_language**2 / M``, and model:task the mean of its effects,
    which all languages share. Where languages are related, the effects of new ones have their
    normal distribution given those at hand (:func:`new_effects`).

    Parameters
    ----------
    arrays : PosteriorArrays
        A fit with pooled language effects.
    by_covariate : ndarray, shape (n_samples, n_new)
        ``x theta``, score units.
    rng : numpy.random.Generator
        Source of the new languages' own effects.
    seed : int
        Seed of the fit, whose draws of cells without a record all languages share.
    relations : ndarray, shape (n_relations, n_languages + n_new, n_languages + n_new), optional
        How related all languages are, those at hand first; needed where the fit relates them.

    Returns
    -------
    ndarray, shape (n_samples, n_new)
        Score units.

    Raises
    ------
    InputError
        If language effects are fixed, or the likelihood has a logit link.
    """
    if arrays.response.link != "identity":
        raise InputError(
            "forecasts are for likelihoods on the score scale "
            f"({', '.join(of_quantity('score'))}); this fit has a logit link"
        )
    if names.LANGUAGE not in arrays.main_sd:
        raise InputError(
            "fixed language effects do not predict further languages; fit a spec with pooled "
            "language effects"
        )
    n_languages, n_tasks = (len(arrays.levels[f]) for f in (names.LANGUAGE, names.TASK))
    sd, effects = arrays.main_sd[names.LANGUAGE], np.zeros_like(by_covariate)
    variance = sd**2 * (1.0 + 1.0 / n_languages)
    related = arrays.related.get(names.LANGUAGE)
    if related is not None and relations is not None:
        variance = np.zeros_like(sd)
        effects = new_effects(related, sd, arrays.main[names.LANGUAGE], relations, rng)
    cells = arrays.term("language:task")
    if cells is not None:
        variance = variance + cells.sd**2 / n_tasks
    common = arrays.intercept + arrays.main[names.TASK].mean(axis=1)
    if arrays.population == "observed":
        n_models = len(arrays.levels[names.MODEL])
        stream = model_streams(arrays, seed, "estimands")
        everything = slice(None)
        for term, drawn in zip(model_terms(arrays), model_cells(arrays), strict=True):
            variance = variance + drawn.sd**2 * term.mean_over_new() / n_models
            if names.LANGUAGE not in drawn.members:
                for model in range(n_models):
                    effect = term.effect(model, everything, stream(term.term, model))
                    common = common + effect.mean(axis=1) / n_models
    own = np.sqrt(variance)[:, None] * rng.standard_normal(by_covariate.shape)
    return np.asarray(common[:, None] + by_covariate + effects + own)


def lowest_quarter(ranks: Floats) -> Bools:
    """Whether a level is among the lowest quarter, given ranks (n_samples, n_levels)."""
    return np.asarray(ranks > 0.75 * ranks.shape[1])


def sample_crps(draws: Floats, target: float) -> float:
    """Continuous ranked probability score of draws: E|X - y| - E|X - X'| / 2; lower is better.

    Parameters
    ----------
    draws : ndarray, shape (n_samples,)
    target : float

    References
    ----------
    Gneiting and Raftery (2007), Strictly proper scoring rules, prediction, and estimation.
    """
    x = np.sort(draws)
    n = len(x)
    weight = 2.0 * np.arange(1, n + 1) - n - 1.0
    return float(np.abs(x - target).mean() - (weight @ x) / n**2)
