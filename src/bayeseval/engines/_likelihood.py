"""Densities of scores under every likelihood, in NumPy: what is stored record by record.

Every density is one of the score in score units, so that models with different
likelihoods can be compared: scores that are modelled as shares or logits of shares bring
the Jacobian, and a count k of n items has its probability spread over the scores that
are nearest to it, (upper - lower) / n wide (`Outcome.log_units`).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from scipy.special import betaln, expit, gammaln, log_expit

from bayeseval import names
from bayeseval._typing import Floats, Index
from bayeseval.design import Design

__all__ = [
    "linear_predictor",
    "log_floor",
    "logit_mean",
    "noise_scale",
    "noise_variance",
    "pointwise_log_likelihood",
    "residual_sd",
    "score_site",
    "with_units",
]


def score_site(design: Design, likelihood: str) -> str:
    """Name of the observed variable of a likelihood: ``score``, or ``score_beta`` of several."""
    several = len(design.outcome.families) > 1
    return f"{names.SCORE}_{likelihood}" if several else names.SCORE


def with_units(design: Design, parts: Mapping[str, float]) -> dict[str, float]:
    """Log densities of the parts of a model, with one of the scores in score units.

    Parameters
    ----------
    design : Design
        The model and its table.
    parts : dict of str to float
        Under the names of the variables; the scores as the model has them.
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
        Which levels each record has.
    posterior : dict of str to ndarray, shape (..., levels)
        ``intercept`` and every term's effects with the same leading axes.

    Returns
    -------
    ndarray, shape (..., n_records)
        mu + a_l + b_t + u_m + interactions (paper 000, Eq. 1 and 6) + covariates.
    """
    eta = np.repeat(posterior[names.INTERCEPT][..., None], design.n_records, axis=-1)
    for term in design.terms:
        eta += posterior[term.effect][..., term.index]
    for slope in design.slopes:
        eta += posterior[slope.slope][..., None] * slope.values(posterior)[..., slope.index]
    return eta


def logit_mean(design: Design, eta: Floats) -> Floats:
    """Logit of the expected share of the range, for ``logit_normal`` of its median.

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
    """Log chance levels; without a floor finite, so that gradients are, and below any predictor."""
    return np.where(chance > 0.0, np.log(np.where(chance > 0.0, chance, 1.0)), -1e4)


def noise_scale(design: Design, posterior: Mapping[str, Floats], name: str, rows: Index) -> Floats:
    """A parameter of the noise for some records, by level where ``residual_by`` says so.

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
        Which records; all when left out.

    Returns
    -------
    ndarray, shape (..., n_records) or (..., 1)
        In the units of the score; on the logit scale for ``logit_normal``.
    """
    chosen = np.arange(design.n_records) if rows is None else rows
    sd = noise_scale(design, posterior, names.SD_RESIDUAL, chosen)
    if design.se is None and design.replicates is None:
        return sd
    known = 0.0 if design.se is None else design.se[chosen] ** 2
    if design.replicates is not None:
        known = known + noise_variance(design, posterior)[..., chosen]
    return np.asarray(np.sqrt(sd**2 + known))


def noise_variance(design: Design, posterior: Mapping[str, Floats]) -> Floats:
    """Variance that seeds and test sets with unknown sds give the mean of every record.

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


def pointwise_log_likelihood(design: Design, posterior: Mapping[str, Floats]) -> Floats:
    """Log density of every record under every draw.

    Returns
    -------
    ndarray, shape (..., n_records)
        Natural log, of the score in score units, whatever the likelihood.
    """
    eta = linear_predictor(design, posterior)
    outcome = design.outcome
    centre = eta if outcome.link == "identity" else logit_mean(design, eta)
    if len(outcome.families) == 1:
        rows = np.arange(design.n_records)
        found = _one_family(design, posterior, outcome.families[0], rows, centre)
        return np.asarray(found + outcome.log_units)
    found = np.empty_like(eta)
    for family in outcome.families:
        rows = outcome.rows(family)
        found[..., rows] = _one_family(design, posterior, family, rows, centre[..., rows])
    return np.asarray(found + outcome.log_units)


def _location_scale(score: Floats, location: Floats, sd: Floats, nu: Floats | None) -> Floats:
    z = (score - location) / sd
    if nu is None:
        return np.asarray(-0.5 * z**2 - np.log(sd) - 0.5 * np.log(2.0 * np.pi))
    constant = gammaln((nu + 1.0) / 2.0) - gammaln(nu / 2.0) - 0.5 * np.log(nu * np.pi)
    return np.asarray(constant - np.log(sd) - (nu + 1.0) / 2.0 * np.log1p(z**2 / nu))


def _one_family(
    design: Design, posterior: Mapping[str, Floats], family: str, rows: Index, centre: Floats
) -> Floats:
    """Log densities of the modelled quantity: score, logit of share, share or count."""
    outcome, share = design.outcome, design.outcome.share[rows]
    task = design.factor_index[names.TASK][rows]
    if family == "logit_normal":
        sd = noise_scale(design, posterior, names.SD_RESIDUAL, rows)
        return _location_scale(np.log(share) - np.log1p(-share), centre, sd, None)
    if family in names.IDENTITY_LINK:
        sd = residual_sd(design, posterior, rows)
        nu = posterior[names.NU][..., None] if family == "student_t" else None
        if outcome.link == "logit":
            span = (outcome.upper - outcome.lower)[task]
            centre = outcome.lower[task] + span * expit(centre)
        return _location_scale(design.score[rows], centre, sd, nu)
    if family == "beta":
        a, b = _shapes(design, posterior, family, rows, centre)
        return np.asarray((a - 1.0) * np.log(share) + (b - 1.0) * np.log1p(-share) - betaln(a, b))
    n, k = _counts(design, rows)
    ways = gammaln(n + 1.0) - gammaln(k + 1.0) - gammaln(n - k + 1.0)
    if family == "binomial":
        return np.asarray(ways + k * log_expit(centre) + (n - k) * log_expit(-centre))
    a, b = _shapes(design, posterior, family, rows, centre)
    return np.asarray(ways + betaln(k + a, n - k + b) - betaln(a, b))


def _shapes(
    design: Design, posterior: Mapping[str, Floats], family: str, rows: Index, centre: Floats
) -> tuple[Floats, Floats]:
    """Both shape parameters of a beta with precision 1 / dispersion^2."""
    precision = noise_scale(design, posterior, names.DISPERSIONS[family], rows) ** -2
    return np.asarray(expit(centre) * precision), np.asarray(expit(-centre) * precision)


def _counts(design: Design, rows: Index) -> tuple[Floats, Floats]:
    n, k = design.outcome.n, design.outcome.k
    if n is None or k is None:  # Outcome has both where there is a count.
        raise AssertionError("counts without items")
    return n[rows], k[rows]
