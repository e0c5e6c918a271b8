"""Densities of left-out records where the draws of a fit to all records cannot be reweighted.

The records in question are left out together, B, and NUTS draws from the posterior of the others.
For every record i of B, with the effects integrated out given the sds (and loadings),

    p(y_i | all others) = E[p(y_B | phi)] / E[p(y_B without i | phi)],

means over draws of phi, both given the records that are not in B. The densities are bounded, so
that both means have a finite variance. The weights of a record are the densities of the others of
B: their Pareto k-hat tells whether few draws dominate, which they do where B is large.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from arviz_stats.base import array_stats
from scipy.special import logsumexp
from scipy.stats import multivariate_normal

from bayeseval import names
from bayeseval._processes import in_threads
from bayeseval.design import Design
from bayeseval.engines import SamplerSettings, load_engine
from bayeseval.engines._evidence import without
from bayeseval.engines._leave_out import Point
from bayeseval.engines._leave_out_mixture import marginals_at, prior_at
from bayeseval.engines._marginal_density import one_thread_per_call
from bayeseval.engines.base import residual_sd

Floats = npt.NDArray[np.float64]


class LeftOut(NamedTuple):
    """Log densities of records given all others.

    Attributes
    ----------
    elpd : ndarray, shape (n_records,)
        Natural log, score units.
    mcse : float
        Monte-Carlo standard error of their sum.
    k_hat : ndarray, shape (n_records,)
        Of the weights of the others.
    """

    elpd: Floats
    mcse: float
    k_hat: Floats


def left_out_together(
    design: Design, records: Sequence[int], settings: SamplerSettings, *, seed: int
) -> LeftOut:
    """Leave records out together, and add the others of them again by weights.

    Parameters
    ----------
    design : Design
        The whole table; normal noise, `why_no_mixture` is None.
    records : sequence of int
    settings : SamplerSettings
    seed : int
        Of NUTS. Its chains, each by itself, tell the error.
    """
    rest = design
    for record in sorted(records, reverse=True):
        rest = without(rest, by=names.RECORD, unit=record)
    drawn = load_engine("numpyro")(rest, replace(settings, seed=seed)).posterior
    flat = {
        name: np.asarray(values).reshape(-1, *values.shape[2:]) for name, values in drawn.items()
    }
    together = joint_densities(design, flat, records)
    chains = np.split(together, settings.chains or 4)
    each = np.array([_ratios(chain).sum() for chain in chains])
    # psislw takes log likelihoods, whose negatives are the log weights.
    k_hat = np.asarray(array_stats.psislw(-together[:, 1:].T)[1]) if len(records) > 1 else None
    return LeftOut(
        _ratios(together),
        float(each.std(ddof=1) / np.sqrt(len(each))),
        np.full(1, -np.inf) if k_hat is None else k_hat,
    )


def _ratios(densities: Floats) -> Floats:
    mean = logsumexp(densities, axis=0) - np.log(len(densities))
    return np.asarray(mean[0] - mean[1:])


def joint_densities(
    design: Design, posterior: Mapping[str, Floats], records: Sequence[int]
) -> Floats:
    """Log densities of all records together, and of all but one: (n_samples, 1 + n_records).

    Given the records that are not among them, at draws of the sds.
    """
    marginal_at = marginals_at(design, posterior)
    n, chosen = len(posterior[names.INTERCEPT]), np.asarray(records)
    sd = np.broadcast_to(residual_sd(design, posterior), (n, design.n_records))
    precision = 1.0 / sd**2
    precision[:, chosen] = 0.0

    def work(i: int) -> Floats:
        marginal = marginal_at(i)
        prior = prior_at(marginal, posterior, i)
        factored = marginal.factor_at(**prior, precision=precision[i : i + 1], reuse_memory=True)
        at = Point(marginal, factored)
        cells = marginal.statistics.cells.record[chosen]
        error = design.outcome.linear[chosen] - marginal.statistics.cells.centre - at.mean[cells]
        covariance = at.covariance(cells) + np.diag(sd[i, chosen] ** 2)
        units = design.outcome.log_units[chosen]
        subsets = [
            np.arange(len(chosen)),
            *(np.delete(np.arange(len(chosen)), j) for j in range(len(chosen))),
        ]
        return np.array(
            [_log_normal(error[s], covariance[np.ix_(s, s)]) + units[s].sum() for s in subsets]
        )

    with one_thread_per_call():
        return np.stack(in_threads(work, range(n)))


def _log_normal(error: Floats, covariance: Floats) -> float:
    return float(multivariate_normal.logpdf(error, cov=covariance)) if len(error) else 0.0
