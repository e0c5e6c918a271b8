"""Left-out densities where the residual variance is a parameter of every record.

Student-t noise is normal noise with a random factor in the precision of each record,

    y_i = eta_i + s_i / sqrt(lambda_i) e_i,   lambda_i ~ Gamma(nu / 2, nu / 2)

(Andrews and Mallows 1974). Given the effects, these factors are gamma distributed: every
posterior draw is augmented by a draw of all of them, and then the model is normal with
known residual variances. The effects are integrated out in closed form, as is the factor
of the left-out record:

    p(y_i | y_-i, sds, nu, lambda_-i) = int N(eta_i; m_-i, v_-i) t_nu(y_i; eta_i, s_i) d eta_i.

PSIS then only has to correct the sds, nu and the other records' factors, which the
left-out record affects little, instead of all effects. The same method works for normal
noise with sds that differ by the levels of a factor or by cells, and for low-rank
interactions given the loadings of languages or tasks, in which case the loadings of models are
jointly normal.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import gammaincinv, gammaln, logsumexp

from bayeseval import names
from bayeseval._processes import in_threads
from bayeseval._random import stream
from bayeseval._typing import Floats
from bayeseval.design import Design
from bayeseval.engines._leave_out import Point
from bayeseval.engines._marginal_density import (
    Marginal,
    build_marginal,
    one_thread_per_call,
)
from bayeseval.engines.base import linear_predictor, residual_sd
from bayeseval.engines.marginal import why_not_at_once, why_not_slopes

__all__ = ["group_log_density", "leave_out_mixture", "log_convolution", "why_no_mixture"]


_LOG_2_PI: Final = float(np.log(2.0 * np.pi))

# Quadrature nodes on the log of a record's precision factor, and the probability cut off at
# either end. Compared with adaptive quadrature, six digits of the log density are correct.
_NODES: Final = 64
_TAIL: Final = 1e-7

# Iterations of the mean-field approximation of a group's factors, and draws from it for each
# draw of the parameters.
_STEPS: Final = 12
_DRAWS_PER_POINT: Final = 8


def why_no_mixture(design: Design) -> str | None:
    """Reason why the effects of a design cannot be integrated out given the noise, or None.

    Parameters
    ----------
    design : Design
        The model and its table.
    """
    outcome, prior = design.outcome, design.priors[names.INTERCEPT]
    if outcome.kernel is None:
        several = len(outcome.families) > 1
        likelihood = (
            f"its likelihood{'s are' if several else ' is'} {' and '.join(outcome.families)}"
        )
        return likelihood if outcome.chance is None else f"{likelihood} with chance levels"
    if prior.dist != "normal":
        return f"the intercept's prior is {prior.dist}"
    reason = why_not_slopes(design)
    if reason is not None:
        return reason
    return why_not_at_once(design)


def leave_out_mixture(design: Design, posterior: Mapping[str, Floats], *, seed: int = 0) -> Floats:
    """Log density of left-out records given all others, the sds and their noise.

    Parameters
    ----------
    design : Design
        A design for which :func:`why_no_mixture` is None.
    posterior : dict of str to ndarray, shape (n_samples, ...)
        Draws of all parameters and effects, from any engine.
    seed : int
        Seed of the draws of the precision factors.

    Returns
    -------
    ndarray, shape (n_samples, n_records)
        Natural log, score units.
    """
    marginal_at = marginals_at(design, posterior)
    sd = np.broadcast_to(
        residual_sd(design, posterior), (len(posterior[names.INTERCEPT]), design.n_records)
    )
    nu, factor = _precision_factors(design, posterior, sd, seed)
    # The noise classes of `_marginal` are the records, in their order.
    precision = factor / sd**2

    def work(i: int) -> Floats:
        marginal = marginal_at(i)
        prior = prior_at(marginal, posterior, i)
        factored = marginal.factor_at(**prior, precision=precision[i : i + 1], reuse_memory=True)
        at = Point(marginal, factored)
        error, variance = at.without_own(design.outcome.linear)
        if nu is None:
            total = variance + sd[i] ** 2
            return np.asarray(-0.5 * (np.log(total) + _LOG_2_PI + error**2 / total))
        return log_convolution(error, variance, sd[i], float(nu[i]))

    with one_thread_per_call():
        return np.stack(in_threads(work, range(len(sd)))) + design.outcome.log_units


def group_log_density(
    design: Design,
    posterior: Mapping[str, Floats],
    *,
    by: names.Factor,
    level: int,
    seed: int = 0,
) -> tuple[float, float]:
    """Joint log density of the records of a level, from a fit without them.

    Parameters
    ----------
    design : Design
        Design of the whole table, for which :func:`why_no_mixture` is None.
    posterior : dict of str to ndarray, shape (n_samples, ...)
        Draws of all parameters and effects given the other records.
    by : {"language", "task", "model"}
        The factor.
    level : int
        Position of the level in ``design.coords[by]``.
    seed : int
        Seed of the draws of the precision factors.

    Returns
    -------
    log_density : float
        log p(y_g | y_-g), natural log, score units.
    k_hat : float
        Pareto k-hat of the weights that integrate over the group's precision factors; NaN
        for normal noise, which has none.

    Notes
    -----
    Given the other records' noise, the group's expected scores are jointly normal, the
    level's own effects included. The group's factors are drawn from the mean-field
    approximation of their posterior, and weighted.
    """
    marginal_at = marginals_at(design, posterior)
    n = len(posterior[names.INTERCEPT])
    sd = np.broadcast_to(residual_sd(design, posterior), (n, design.n_records))
    nu, factor = _precision_factors(design, posterior, sd, seed)
    records = np.flatnonzero(design.factor_index[by] == level)
    precision = factor / sd**2
    precision[:, records] = 0.0
    streams = stream(seed, "leave-out-group").spawn(n)

    def work(i: int) -> Floats:
        marginal = marginal_at(i)
        cells = marginal.statistics.cells.record[records]
        prior = prior_at(marginal, posterior, i)
        factored = marginal.factor_at(**prior, precision=precision[i : i + 1], reuse_memory=True)
        at = Point(marginal, factored)
        error = design.outcome.linear[records] - marginal.statistics.cells.centre - at.mean[cells]
        covariance, scale = at.covariance(cells), sd[i, records]
        if nu is None:
            return np.array([_log_normal(error, covariance + np.diag(scale**2))])
        rng = np.random.default_rng(streams[i])
        return _weights(error, covariance, scale, float(nu[i]), rng)

    with one_thread_per_call():
        values = np.concatenate(in_threads(work, range(n)))
    log_density = float(logsumexp(values) - np.log(len(values)))
    log_density += float(design.outcome.log_units[records].sum())
    if nu is None:
        return log_density, float("nan")
    from arviz_stats.base import array_stats

    # psislw takes log likelihoods, whose negatives are the log weights.
    return log_density, float(array_stats.psislw(-values)[1])


def _log_normal(error: Floats, covariance: Floats) -> float:
    lower = np.linalg.cholesky(covariance)
    white = solve_triangular(lower, error, lower=True)
    log_root = np.log(np.diagonal(lower)).sum()
    return float(-log_root - 0.5 * (white @ white + len(error) * _LOG_2_PI))


def _weights(
    error: Floats, covariance: Floats, scale: Floats, nu: float, rng: np.random.Generator
) -> Floats:
    """Log weights whose mean is the density of normal plus independent Student-t noise."""
    shape = np.full(len(error), (nu + 1.0) / 2.0)
    rate = np.full(len(error), nu / 2.0)
    for _ in range(_STEPS):
        noise = scale**2 * rate / shape
        gain = np.linalg.solve(covariance + np.diag(noise), covariance).T
        residual = error - gain @ error
        spread = np.diagonal(covariance - gain @ covariance)
        rate = 0.5 * (nu + (residual**2 + spread) / scale**2)
    values = np.empty(_DRAWS_PER_POINT)
    for j in range(_DRAWS_PER_POINT):
        factor = rng.standard_gamma(shape) / rate
        normal = _log_normal(error, covariance + np.diag(scale**2 / factor))
        prior = _log_gamma(factor, nu / 2.0, nu / 2.0)
        values[j] = normal + (prior - _log_gamma(factor, shape, rate)).sum()
    return values


def _log_gamma(value: Floats, shape: Floats | float, rate: Floats | float) -> Floats:
    return np.asarray(
        shape * np.log(rate) - gammaln(shape) + (shape - 1.0) * np.log(value) - rate * value
    )


def log_convolution(error: Floats, variance: Floats, scale: Floats, nu: float) -> Floats:
    """Log density of normal plus Student-t noise, at `error`.

    Parameters
    ----------
    error : ndarray, shape (n,)
        Points at which the density is evaluated.
    variance : ndarray, shape (n,)
        Variance of the normal part.
    scale : ndarray, shape (n,)
        Scale of the Student-t part.
    nu : float
        Degrees of freedom of the Student-t part.

    Notes
    -----
    Computed by the trapezoidal rule over the log of the precision factor, between quantiles
    of its distributions without and with the record. The integrand is smooth and falls off
    exponentially on either side, for which this rule converges fast.
    """
    half = nu / 2.0
    top = np.log(_quantile(half, 1.0 - _TAIL) / half)
    least = np.minimum(
        _quantile(half, _TAIL) / half,
        2.0 * _quantile(half + 0.5, _TAIL) / (nu + (error / scale) ** 2),
    )
    bottom = np.log(least)
    step = (top - bottom) / (_NODES - 1)
    node = bottom[:, None] + step[:, None] * np.arange(_NODES)
    factor = np.exp(node)
    total = variance[:, None] + scale[:, None] ** 2 / factor
    prior = half * np.log(half) - gammaln(half) + half * (node - factor)
    normal = -0.5 * (np.log(total) + _LOG_2_PI + error[:, None] ** 2 / total)
    return np.asarray(logsumexp(prior + normal, axis=1) + np.log(step))


def _quantile(shape: float, probability: float) -> float:
    """Quantile of the gamma distribution with rate one; never zero."""
    return max(float(gammaincinv(shape, probability)), 1e-300)


def _precision_factors(
    design: Design, posterior: Mapping[str, Floats], sd: Floats, seed: int
) -> tuple[Floats | None, Floats]:
    """Draws of nu, and draws of every record's precision factor given all effects."""
    if design.outcome.is_gaussian:
        return None, np.ones(sd.shape)
    nu = posterior[names.NU]
    z = (design.score - linear_predictor(design, posterior)) / sd
    rng = np.random.default_rng(stream(seed, "leave-out-mixture"))
    shape = (nu[:, None] + 1.0) / 2.0
    return nu, rng.standard_gamma(np.broadcast_to(shape, z.shape)) * 2.0 / (nu[:, None] + z**2)


def marginals_at(design: Design, posterior: Mapping[str, Floats]) -> Callable[[int], Marginal]:
    """The marginal density at a draw, with a noise class for every record, in their order.

    It is the same at all draws, unless loadings that it takes as given differ.
    """
    distinct = np.arange(1.0, design.n_records + 1.0)
    low_rank = [term for term in design.terms if term.rank]
    coefficients = {names.INTERCEPT, *(slope.slope for slope in design.slopes)}
    of_loadings = {names.sd_name(term.name) for term in low_rank}
    priors = {
        k: v
        for k, v in design.priors.items()
        if k in coefficients or (v.positive and k not in of_loadings)
    }
    by_record = replace(design, se=distinct, priors=priors, residual_index=None)
    if not low_rank:
        marginal = build_marginal(by_record)
        return lambda _: marginal

    def at(i: int) -> Marginal:
        loadings = {
            term.name: (posterior[names.sd_name(term.name)][i], posterior[term.loadings[1]][i])
            for term in low_rank
        }
        return build_marginal(by_record, loadings=loadings)

    return at


def prior_at(marginal: Marginal, posterior: Mapping[str, Floats], i: int) -> dict[str, Any]:
    """What `factor_at` needs to know of the effects' prior, at a draw."""
    statistics = marginal.statistics

    def of(name: str) -> Floats:
        return np.asarray(posterior[name])[i : i + 1]

    kept, eliminated = statistics.prior_sds(1, of)
    return {"kept_sd": kept, "eliminated_sd": eliminated, "roots": statistics.prior_roots(of)}
