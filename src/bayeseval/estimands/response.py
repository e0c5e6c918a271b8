"""From the linear predictor to scores: expectations, integrals over models, and draws.

Under a logit link the expected score of an average model is not the score at an average
linear predictor: effects of models, and residuals on the logit scale, are integrated out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, Literal

import numpy as np
from scipy.special import expit

from bayeseval import names
from bayeseval._typing import Floats, Index
from bayeseval.estimands.container import PosteriorArrays
from bayeseval.families import FAMILIES, At, of_quantity

__all__ = [
    "distribution",
    "draw_scores",
    "log_density",
    "logistic_normal_mean",
    "modelled",
    "population_mean",
    "score_mean",
    "standard_noise",
]

_EVERYTHING = slice(None)

# Equally spaced nodes converge geometrically for an integrand that is analytic around the
# real line and falls off like a normal density (Trefethen and Weideman 2014, "The
# exponentially convergent trapezoidal rule"). The logistic function has poles at a
# distance of pi / sd: at means between -4 and 4 these 25 nodes leave at most 2e-8 for an sd
# of 2 and 5e-6 for one of 3, where 25 Gauss-Hermite nodes leave 9e-7 and 7e-5.
_STEP: Final = 0.5
_NODES: Final = _STEP * np.arange(-12, 13)
_WEIGHTS: Final = np.exp(-0.5 * _NODES**2) / np.exp(-0.5 * _NODES**2).sum()


def logistic_normal_mean(eta: Floats, sd: Floats | None) -> Floats:
    """E[expit(eta + sd z)] for a standard normal z.

    Parameters
    ----------
    eta : ndarray
    sd : ndarray or None
        Broadcasts against `eta`; None for no spread.
    """
    if sd is None:
        return np.asarray(expit(eta))
    total = np.zeros(np.broadcast_shapes(eta.shape, sd.shape))
    for node, weight in zip(_NODES, _WEIGHTS, strict=True):
        total += weight * expit(eta + sd * node)
    return total


def score_mean(
    arrays: PosteriorArrays,
    eta: Floats,
    *,
    language: Index,
    task: Index,
    model: Index,
    draws: slice = _EVERYTHING,
    noise_sd: Floats | None = None,
) -> Floats:
    """Expected scores of given models on given pairs.

    Parameters
    ----------
    arrays : PosteriorArrays
        From :func:`bayeseval.estimands.read_arrays`.
    eta : ndarray, shape (n_draws, m)
        Linear predictor.
    language, task, model : ndarray of int, shape (m,)
        Levels of each column.
    draws : slice
        Which of the flattened draws `eta` has.
    noise_sd : ndarray, shape (n_draws,), or None
        Sd of noise of the linear predictor, which is integrated out.

    Returns
    -------
    ndarray, shape (n_draws, m)
        Score units; `eta` itself under the identity link.
    """
    if arrays.response.link == "identity":
        return eta
    level = {names.LANGUAGE: language, names.TASK: task, names.MODEL: model}
    residual = _residual(arrays, level, draws)
    sd = None if noise_sd is None else noise_sd[:, None]
    return _in_units(arrays, _mean_share(arrays, eta, sd, residual, task), task)


def population_mean(
    arrays: PosteriorArrays,
    eta: Floats,
    *,
    language: Index,
    task: Index,
    draws: slice = _EVERYTHING,
) -> Floats:
    """Expected scores on given pairs of a model drawn from the population of models.

    Effects of the model and its interactions are integrated over N(0, sd^2), residuals of
    normal logits likewise. A fixed model effect has no sd: there the models at hand are
    the population; residuals that differ by model are averaged over them too.

    Parameters
    ----------
    arrays : PosteriorArrays
        From :func:`bayeseval.estimands.read_arrays`.
    eta : ndarray, shape (n_draws, m)
        Linear predictor without the terms of the model.
    language, task : ndarray of int, shape (m,)
        Levels of each column.
    draws : slice
        Which of the flattened draws `eta` has.

    Returns
    -------
    ndarray, shape (n_draws, m)
        Score units; `eta` itself under the identity link.
    """
    if arrays.response.link == "identity":
        return eta
    variance = np.zeros(len(eta))
    if names.MODEL in arrays.main_sd:
        variance += arrays.main_sd[names.MODEL][draws] ** 2
    for cells in arrays.cells:
        if names.MODEL in names.factors_of(cells.term):
            variance += cells.sd[draws] ** 2
    sd = np.sqrt(variance)[:, None] if variance.any() else None
    total, count = np.zeros_like(eta), 0
    for shift, model in _models(arrays, language, draws):
        level = {names.LANGUAGE: language, names.TASK: task}
        level[names.MODEL] = np.full(len(task), model)
        residual = _residual(arrays, level, draws)
        total += _mean_share(arrays, eta + shift, sd, residual, task)
        count += 1
    return _in_units(arrays, total / count, task)


def _models(arrays: PosteriorArrays, language: Index, draws: slice) -> Iterator[tuple[Floats, int]]:
    """Effects and levels to average over: one of no effect where models are integrated out."""
    n_models = len(arrays.levels[names.MODEL])
    fixed = names.MODEL not in arrays.main_sd and n_models > 1
    noisy = "logit" in arrays.response.quantities
    by_model = arrays.residual_by == names.MODEL and noisy
    effects = arrays.main[names.MODEL][draws]
    # Covariates of models: those of the models at hand, which add up to nothing.
    slopes = [slope for slope in arrays.slopes if slope.by_model]
    for model in range(n_models if fixed or by_model or slopes else 1):
        shift = effects[:, model, None] if fixed else np.zeros((len(effects), 1))
        for slope in slopes:
            shift = shift + np.take(slope.of_model(model, draws), language, axis=1)
        yield shift, model


def _residual(
    arrays: PosteriorArrays, level: Mapping[str, Index], draws: slice, name: str = "residual"
) -> Floats:
    """Residual sd, or dispersion of a likelihood; shape (n_draws, m) or (n_draws, 1)."""
    values = arrays.residual_sd if name == "residual" else arrays.response.dispersion[name]
    if arrays.residual_by is None:
        return values[draws]
    return np.take(values[draws], level[arrays.residual_by], axis=1)


def _mean_share(
    arrays: PosteriorArrays, eta: Floats, sd: Floats | None, residual: Floats, task: Index
) -> Floats:
    """Expected share of the range, chance level included."""
    response = arrays.response
    chance = None if response.chance is None else response.chance[task]
    own = response.has_quantity(task, "logit")
    if not own.any():
        mean = logistic_normal_mean(eta, sd)
        return mean if chance is None else chance + (1.0 - chance) * mean
    residual = np.broadcast_to(residual, eta.shape)
    share = np.empty_like(eta)
    for mask, noisy in ((own, True), (~own, False)):
        floor = None if chance is None else chance[mask]
        if noisy:
            share[:, mask] = _noisy_share(eta[:, mask], sd, residual[:, mask], floor)
        else:
            mean = logistic_normal_mean(eta[:, mask], sd)
            share[:, mask] = mean if floor is None else floor + (1.0 - floor) * mean
    return share


def _noisy_share(eta: Floats, sd: Floats | None, residual: Floats, chance: Floats | None) -> Floats:
    """Expected share whose logit is normal about that of its median."""
    if chance is None:
        return logistic_normal_mean(eta, residual if sd is None else np.sqrt(sd**2 + residual**2))
    if sd is None:
        return logistic_normal_mean(_with_floor(eta, chance), residual)
    # The floor stands between both sources: an integral inside an integral.
    total = np.zeros_like(eta)
    for node, weight in zip(_NODES, _WEIGHTS, strict=True):
        total += weight * logistic_normal_mean(_with_floor(eta + sd * node, chance), residual)
    return total


def _with_floor(eta: Floats, chance: Floats) -> Floats:
    """Logit of c + (1 - c) expit(eta)."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.logaddexp(eta, np.log(chance)) - np.log1p(-chance))


def _in_units(arrays: PosteriorArrays, share: Floats, task: Index) -> Floats:
    lower, upper = arrays.response.lower[task], arrays.response.upper[task]
    return np.asarray(lower + (upper - lower) * share)


def standard_noise(
    arrays: PosteriorArrays,
    task: Index,
    draws: slice,
    rng: np.random.Generator,
    n_draws: int,
) -> Floats:
    """Noise of scale one: normal where the likelihood of a task has no other for its scores.

    Parameters
    ----------
    arrays : PosteriorArrays
        From :func:`bayeseval.estimands.read_arrays`.
    task : ndarray of int, shape (m,)
        Task of each column.
    draws : slice
        Which of the flattened draws.
    rng : numpy.random.Generator
        Source of the noise.
    n_draws : int
        Number of those draws.

    Returns
    -------
    ndarray, shape (n_draws, m)
    """
    others = [
        family
        for family in of_quantity("score")
        if FAMILIES[family].kernel != "normal" and family in arrays.response.families
    ]
    if not others:
        return rng.standard_normal((n_draws, len(task)))
    standard = np.zeros((n_draws, len(task)))
    noise, normal = standard, np.ones(len(task), dtype=np.bool_)
    for family in others:
        own = arrays.response.has_likelihood(task, family)
        at = At(standard, 1.0, extra=_extra(arrays, family, draws))
        noise = np.where(own, FAMILIES[family].draw(rng, at), noise)
        normal &= ~own
    return np.where(normal, rng.standard_normal(noise.shape), noise) if normal.any() else noise


def _extra(arrays: PosteriorArrays, family: str, draws: slice) -> dict[str, Floats]:
    return {p.name: arrays.extra[p.name][draws, None] for p in FAMILIES[family].extra}


def draw_scores(
    arrays: PosteriorArrays,
    eta: Floats,
    rng: np.random.Generator,
    *,
    language: Index,
    task: Index,
    model: Index,
    n_items: Floats | None,
    se: Floats | None,
    draws: slice = _EVERYTHING,
) -> Floats:
    """Scores drawn under the likelihoods of their tasks.

    Parameters
    ----------
    arrays : PosteriorArrays
        From :func:`bayeseval.estimands.read_arrays`.
    eta : ndarray, shape (n_draws, m)
        Linear predictor.
    rng : numpy.random.Generator
        Source of the noise.
    language, task, model : ndarray of int, shape (m,)
        Levels of each column.
    n_items : ndarray, shape (m,), or None
        Items behind each column, for counts.
    se : ndarray, shape (m,), (1, m) or (n_draws, m), or None
        Standard errors, for likelihoods of scores.
    draws : slice
        Which of the flattened draws `eta` has.

    Returns
    -------
    ndarray, shape (n_draws, m)
        Score units.
    """
    response = arrays.response
    level = {names.LANGUAGE: language, names.TASK: task, names.MODEL: model}
    centre = eta
    if response.link == "logit" and response.chance is not None:
        centre = _with_floor(eta, response.chance[task])
    smooth = response.has_quantity(task, "score")
    # No copies where all columns are alike: of a large table they are hundreds of MB.
    values = eta if smooth.all() else np.empty_like(eta)
    if smooth.any():
        columns: Index | slice = slice(None) if smooth.all() else np.flatnonzero(smooth)
        mean = centre[:, columns]
        if response.link == "logit":
            mean = _in_units(arrays, expit(mean), task[columns])
        sd = _residual(arrays, {f: index[columns] for f, index in level.items()}, draws)
        if se is not None:
            sd = np.sqrt(sd**2 + se[..., columns] ** 2)
        noise = standard_noise(arrays, task[columns], draws, rng, len(eta))
        noise *= sd
        noise += mean
        if smooth.all():
            return noise
        values[:, columns] = noise
    for family in of_quantity("logit", "share", "count"):
        columns = np.flatnonzero(response.has_likelihood(task, family))
        if not columns.size:
            continue
        here = {f: index[columns] for f, index in level.items()}
        kind = FAMILIES[family]
        scale = None
        if kind.scale is not None:
            name = "residual" if kind.has_residual else family
            scale = _residual(arrays, here, draws, name)
        at = At(
            centre[:, columns] if kind.quantity == "logit" else expit(centre[:, columns]),
            scale,
            extra=_extra(arrays, family, draws),
            items=None if n_items is None else n_items[columns],
        )
        share = kind.draw(rng, at)
        values[:, columns] = _in_units(arrays, share, task[columns])
    return values


def log_density(
    arrays: PosteriorArrays,
    eta: Floats,
    observed: Floats,
    *,
    language: Index,
    task: Index,
    model: Index,
    n_items: Floats | None,
    se: Floats | None,
) -> Floats:
    """Log density of observed values under the likelihoods of their tasks.

    Parameters
    ----------
    arrays : PosteriorArrays
        From :func:`bayeseval.estimands.read_arrays`.
    eta : ndarray, shape (n_samples, m)
        Linear predictor.
    observed : ndarray, shape (m,)
        What the likelihood of each column's task is of: scores, logits of shares, shares or
        counts.
    language, task, model : ndarray of int, shape (m,)
        Levels of each column.
    n_items, se : ndarray or None
        As for :func:`draw_scores`.

    Returns
    -------
    ndarray, shape (n_samples, m)
        Natural log, of the modelled quantity.
    """
    level = {names.LANGUAGE: language, names.TASK: task, names.MODEL: model}
    return _by_family(arrays, eta, observed, level, n_items, se, _EVERYTHING, "log_density")


def distribution(
    arrays: PosteriorArrays, eta: Floats, *, se: Floats | None, shift: Floats | None, draws: slice
) -> Floats:
    """Distribution function of the scores of all records, at the observed ones.

    Parameters
    ----------
    arrays : PosteriorArrays
        From :func:`bayeseval.estimands.read_arrays`.
    eta : ndarray, shape (n_draws, n_records)
        Linear predictor.
    se : ndarray, shape (1, n_records) or (n_draws, n_records), or None
        Standard errors, for likelihoods of scores.
    shift : ndarray, shape (n_draws, n_records), or None
        What is added to the expected scores of such likelihoods.
    draws : slice
        Which of the flattened draws `eta` has.

    Returns
    -------
    ndarray, shape (n_draws, n_records)
        Of counts, the probability of fewer and half of that of as many (mid-p).
    """
    observed = modelled(arrays)
    if shift is not None:
        observed = observed - shift
    return _by_family(
        arrays, eta, observed, arrays.index, arrays.response.n_items, se, draws, "cdf"
    )


def modelled(arrays: PosteriorArrays) -> Floats:
    """What the likelihood of each record is of: its score, logit of share, share or count.

    Parameters
    ----------
    arrays : PosteriorArrays
        From :func:`bayeseval.estimands.read_arrays`.

    Returns
    -------
    ndarray, shape (n_records,)
    """
    response, task = arrays.response, arrays.index[names.TASK]
    values = arrays.score.astype(np.float64)
    bounded = ~response.has_quantity(task, "score")
    lower, upper = response.lower[task], response.upper[task]
    values[bounded] = ((values - lower) / (upper - lower))[bounded]
    inside = response.has_quantity(task, "logit", "share")
    values[inside] = np.clip(values[inside], response.edge, 1.0 - response.edge)
    logits = response.has_quantity(task, "logit")
    values[logits] = np.log(values[logits]) - np.log1p(-values[logits])
    if response.n_items is not None:
        counts = response.has_quantity(task, "count")
        values[counts] = np.rint((values * response.n_items)[counts])
    return values


def _by_family(
    arrays: PosteriorArrays,
    eta: Floats,
    observed: Floats,
    level: Mapping[str, Index],
    n_items: Floats | None,
    se: Floats | None,
    draws: slice,
    function: Literal["log_density", "cdf"],
) -> Floats:
    """A function of the likelihood of each column's task, at the observed values."""
    response, task = arrays.response, level[names.TASK]
    values = np.empty_like(eta)
    centre = eta
    if response.link == "logit" and response.chance is not None:
        centre = _with_floor(eta, response.chance[task])
    for family in response.families:
        columns = np.flatnonzero(response.has_likelihood(task, family))
        kind, mean = FAMILIES[family], centre[:, columns]
        here = {f: index[columns] for f, index in level.items()}
        scale = None
        if kind.scale is not None:
            scale = _residual(arrays, here, draws, "residual" if kind.has_residual else family)
        if kind.quantity == "score":
            if response.link == "logit":
                mean = _in_units(arrays, expit(mean), task[columns])
            if se is not None and scale is not None:
                scale = np.sqrt(scale**2 + se[..., columns] ** 2)
        at = At(
            mean,
            scale,
            extra=_extra(arrays, family, draws),
            items=None if n_items is None else n_items[columns],
        )
        values[:, columns] = getattr(kind, function)(observed[..., columns], at)
    return values
