"""Variance of the noise of measurements that were not made."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from bayeseval import names
from bayeseval._random import generator
from bayeseval._typing import Floats, Index
from bayeseval.estimands.cell_noise import MeasurementNoise
from bayeseval.estimands.cell_scores import AskedCells
from bayeseval.estimands.container import draw_blocks
from bayeseval.estimands.effects import Effects
from bayeseval.estimands.response import draw_scores
from bayeseval.families import FAMILIES

__all__ = ["measurement_variance"]


def measurement_variance(
    effects: Effects,
    noise: MeasurementNoise,
    place: Mapping[str, Index],
    given: AskedCells | None,
) -> Floats:
    """Variance of the noise of one new measurement of each cell, score units.

    What prompts of the table do to several cells is among the effects, so only their noise in
    the cell itself counts.

    A Student-t measurement with scale s tells as much as a normal one with the variance
    ``s**2 (nu + 3) / (nu + 1)``: the inverse of its Fisher information.

    Parameters
    ----------
    effects : Effects
    noise : MeasurementNoise
        From :func:`bayeseval.estimands.cell_noise.read_measurement_noise`.
    place : dict of str to ndarray of int, shape (n_cells,)
        Level of each cell under each factor.
    given : AskedCells or None
        Items, standard errors and seeds of the measurements.
    """
    arrays = effects.arrays
    n, n_samples = len(place[names.TASK]), arrays.n_samples
    unknown = np.full(n, np.nan)
    n_items, se, n_seeds = (
        (unknown,) * 3 if given is None else (given.n_items, given.se, given.n_seeds)
    )
    n_prompts = None
    if effects.prompts is not None:
        noise = noise.without_shared(effects.prompts.source)
        used = effects.prompts.of(place[names.MODEL], place[names.TASK])
        n_prompts = np.array([max(len(one), 1) for one in used], dtype=np.float64)
    rng = generator(0, "next: noise of measurements")
    variance = np.empty(n)
    for part in draw_blocks(n, 6 * n_samples):
        here = {factor: codes[part] for factor, codes in place.items()}
        model, language, task = (here[f] for f in (names.MODEL, names.LANGUAGE, names.TASK))
        shape = (n_samples, len(task))
        errors = noise.standard_error(
            arrays,
            here,
            np.broadcast_to(effects.scores(model, language, task), shape),
            n_items=n_items[part],
            se=se[part],
            n_seeds=n_seeds[part],
            n_prompts=None if n_prompts is None else n_prompts[part],
            seed=0,
        )
        if arrays.response.link == "identity":
            variance[part] = _of_scores(effects, here, errors, shape)
            continue
        # Drawn about one expected score, so that nothing but noise varies.
        drawn = draw_scores(
            arrays,
            np.broadcast_to(effects.predictor(model, language, task), shape),
            rng,
            language=language,
            task=task,
            model=model,
            n_items=noise.items(arrays, task, n_items[part]),
            se=errors,
        )
        variance[part] = drawn.var(axis=0)
    return variance


def _of_scores(
    effects: Effects, here: Mapping[str, Index], errors: Floats | None, shape: tuple[int, int]
) -> Floats:
    """Mean variance over the draws, or what stands in its place where tails are heavy."""
    arrays = effects.arrays
    sd = arrays.residual_sd
    if arrays.residual_by is not None:
        sd = np.take(sd, here[arrays.residual_by], axis=1)
    total = np.broadcast_to(sd**2 + (0.0 if errors is None else errors**2), shape)
    tailed = [
        family
        for family in arrays.response.families
        if any(parameter.name == names.NU for parameter in FAMILIES[family].extra)
    ]
    heavy = arrays.response.has_likelihood(here[names.TASK], *tailed)
    if not heavy.any():
        return np.asarray(total.mean(axis=0))
    nu = arrays.extra[names.NU][:, None]
    tails = total * (nu + 3.0) / (nu + 1.0)
    return np.asarray(np.where(heavy, tails, total).mean(axis=0))
