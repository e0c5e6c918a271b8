"""Pointwise log densities of scores under every likelihood, in NumPy.

Every density is one of the score in score units, so that models with different
likelihoods can be compared: those of shares, or of logits of shares, include the Jacobian,
and the probability of a count k of n items is spread over the interval of scores nearest
to it, of width (upper - lower) / n (`Outcome.log_units`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
from scipy.special import expit

from bayeseval import names
from bayeseval._processes import in_threads
from bayeseval._typing import Floats, Index
from bayeseval.design import Design
from bayeseval.families import FAMILIES, At

__all__ = [
    "items",
    "linear_predictor",
    "log_floor",
    "logit_mean",
    "noise_scale",
    "noise_variance",
    "observed",
    "pointwise_log_likelihood",
    "residual_sd",
    "score_site",
    "shared_noise",
    "with_units",
]

# Densities at a time: arrays of a megabyte.
_AT_ONCE: Final = 125_000


def score_site(design: Design, likelihood: str) -> str:
    """Name of the observed variable of a likelihood: ``score``, or ``score_beta`` of several."""
    several = len(design.outcome.families) > 1
    return f"{names.SCORE}_{likelihood}" if several else names.SCORE


def with_units(design: Design, parts: Mapping[str, float]) -> dict[str, float]:
    """Replace the log densities of the observed variables by one of the scores in score units.

    Parameters
    ----------
    design : Design
        The model and its table.
    parts : dict of str to float
        Log densities by variable, those of the observed ones as the model has them.
    """
    sites = {score_site(design, family) for family in design.outcome.families}
    others = {name: value for name, value in parts.items() if name not in sites}
    score = sum(value for name, value in parts.items() if name in sites)
    return others | {names.SCORE: float(score + design.outcome.log_units.sum())}


def linear_predictor(design: Design, posterior: Mapping[str, Floats]) -> Floats:
    """Linear predictor of every record, draw by draw: under the identity link its expected score.

    Parameters
    ----------
    design : Design
        The model and its table.
    posterior : dict of str to ndarray, shape (..., levels)
        ``intercept`` and every term's effects with the same leading axes.

    Returns
    -------
    ndarray, shape (..., n_records)
        mu + a_l + b_t + u_m + interactions (arXiv:2508.17162, Eq. 1 and 6) + covariates.
    """
    eta = np.repeat(posterior[names.INTERCEPT][..., None], design.n_records, axis=-1)
    for term in design.terms:
        eta += np.take(posterior[term.effect], term.index, axis=-1)
    for slope in design.slopes:
        values = np.take(slope.values(posterior), slope.index, axis=-1)
        eta += posterior[slope.slope][..., None] * values
    return eta


def logit_mean(design: Design, eta: Floats) -> Floats:
    """Logit of the expected share of the range, for normal logits of its median.

    Parameters
    ----------
    design : Design
        With a logit link.
    eta : ndarray, shape (..., n_records)
        Linear predictor.

    Returns
    -------
    ndarray, shape (..., n_records)
        ``eta`` without chance levels; else logit(c + (1 - c) expit(eta)).
    """
    if design.outcome.chance is None:
        return eta
    chance = design.outcome.chance[design.factor_index[names.TASK]]
    return np.asarray(np.logaddexp(eta, log_floor(chance)) - np.log1p(-chance))


def log_floor(chance: Floats) -> Floats:
    """Log chance levels; without one a finite value below any predictor, for finite gradients."""
    return np.where(chance > 0.0, np.log(np.where(chance > 0.0, chance, 1.0)), -1e4)


def noise_scale(design: Design, posterior: Mapping[str, Floats], name: str, rows: Index) -> Floats:
    """A noise parameter for some records, by level under ``residual_by``.

    Returns
    -------
    ndarray, shape (..., len(rows)) or (..., 1)
    """
    factor = design.spec.residual_by
    if factor is None or design.residual_index is None:
        return posterior[name][..., None]
    return np.asarray(posterior[f"{name}_{factor}"][..., design.residual_index[rows]])


def residual_sd(
    design: Design, posterior: Mapping[str, Floats], rows: Index | None = None
) -> Floats:
    """Residual scale of records; known errors and replicate noise add in quadrature.

    Parameters
    ----------
    design : Design
        The model and its table.
    posterior : dict of str to ndarray, shape (..., levels)
        The sds with the same leading axes.
    rows : ndarray of int, optional
        The records; all by default.

    Returns
    -------
    ndarray, shape (..., n_records) or (..., 1)
        In the units of the score; on the logit scale for normal logits.
    """
    at_rows = np.arange(design.n_records) if rows is None else rows
    sd = noise_scale(design, posterior, names.SD_RESIDUAL, at_rows)
    if design.se is None and design.replicates is None:
        return sd
    known = 0.0 if design.se is None else design.se[at_rows] ** 2
    if design.replicates is not None:
        known = known + noise_variance(design, posterior)[..., at_rows]
    return np.asarray(np.sqrt(sd**2 + known))


def noise_variance(design: Design, posterior: Mapping[str, Floats]) -> Floats:
    """Variance of every record's mean due to seeds and test sets with unknown sds.

    Returns
    -------
    ndarray, shape (..., n_records)
        (sigma^2 + omega^2) / S + tau^2, with omega^2 and tau^2 times 1 + 1/B where scores
        are means of B bootstraps; score units squared.
    """
    parts = [
        source.share * posterior[names.source_cell_sd(source.name)][..., source.of_record] ** 2
        for source in design.sources
    ]
    return np.asarray(np.sum(parts, axis=0))


def shared_noise(design: Design, posterior: Mapping[str, Floats]) -> Floats | None:
    """What the prompts (or judges) of every record do that other records share.

    Returns
    -------
    ndarray, shape (..., n_records), or None
        Score units; None for a table without prompts.
    """
    for source in design.sources:
        if source.by_cell is not None:
            sums = source.by_cell.sums([posterior[one.effect] for one in source.shared])
            means: Floats = source.by_cell.means(sums)[..., source.of_record]
            return means * (source.share > 0.0)
    return None


def pointwise_log_likelihood(design: Design, posterior: Mapping[str, Floats]) -> Floats:
    """Log density of every record under every draw.

    Returns
    -------
    ndarray, shape (..., n_records)
        Natural log, of the score in score units, whatever the likelihood.
    """
    shape = posterior[names.INTERCEPT].shape
    flat = {
        name: np.asarray(values).reshape(-1, *values.shape[len(shape) :])
        for name, values in posterior.items()
    }
    found = np.empty((len(flat[names.INTERCEPT]), design.n_records))

    def work(draws: slice) -> None:
        found[draws] = _pointwise(design, {name: values[draws] for name, values in flat.items()})

    # In blocks that the cache holds: each has several arrays of its size.
    step = max(1, _AT_ONCE // max(1, design.n_records))
    in_threads(work, [slice(at, at + step) for at in range(0, len(found), step)])
    return found.reshape(*shape, design.n_records)


def _pointwise(design: Design, posterior: Mapping[str, Floats]) -> Floats:
    eta = linear_predictor(design, posterior)
    outcome = design.outcome
    centre = eta if outcome.link == "identity" else logit_mean(design, eta)
    if len(outcome.families) == 1:
        rows = np.arange(design.n_records)
        values = _one_family(design, posterior, outcome.families[0], rows, centre)
        return values + outcome.log_units if outcome.log_units.any() else values
    values = np.empty_like(eta)
    for family in outcome.families:
        rows = outcome.rows(family)
        values[..., rows] = _one_family(design, posterior, family, rows, centre[..., rows])
    return np.asarray(values + outcome.log_units)


def _one_family(
    design: Design, posterior: Mapping[str, Floats], family: str, rows: Index, centre: Floats
) -> Floats:
    """Log densities of the modelled quantity: score, logit of share, share or count."""
    outcome, kind = design.outcome, FAMILIES[family]
    scale = None
    if kind.quantity == "score":
        scale = residual_sd(design, posterior, rows)
        if outcome.link == "logit":
            task = design.factor_index[names.TASK][rows]
            span = (outcome.upper - outcome.lower)[task]
            centre = outcome.lower[task] + span * expit(centre)
        shift = shared_noise(design, posterior)
        if shift is not None:
            centre = centre + shift[..., rows]
    elif kind.scale is not None:
        scale = noise_scale(design, posterior, kind.scale.name, rows)
    at = At(
        centre,
        scale,
        extra={parameter.name: posterior[parameter.name][..., None] for parameter in kind.extra},
        items=items(design, family),
    )
    return kind.log_density(observed(design, family), at)


def observed(design: Design, likelihood: str) -> Floats:
    """Observed values of a likelihood: scores, logits of shares, shares or counts.

    Returns
    -------
    ndarray, shape (n_records of this likelihood,)
    """
    outcome, rows = design.outcome, design.outcome.rows(likelihood)
    quantity = FAMILIES[likelihood].quantity
    if quantity == "score":
        return design.score[rows]
    if quantity == "count":
        return _not_none(outcome.k)[rows]
    share = outcome.share[rows]
    return np.log(share) - np.log1p(-share) if quantity == "logit" else share


def items(design: Design, likelihood: str) -> Floats | None:
    """Items behind each record of a likelihood of counts; None for the others."""
    if FAMILIES[likelihood].quantity != "count":
        return None
    return _not_none(design.outcome.n)[design.outcome.rows(likelihood)]


def _not_none(values: Floats | None) -> Floats:
    if values is None:  # Outcome has items and counts where a likelihood is one of counts.
        raise AssertionError("counts without items")
    return values
