"""Scores of predictions: squared and absolute errors, CRPS, log score and coverage."""

from __future__ import annotations

from typing import Final

import numpy as np
import pandas as pd
from scipy.special import logsumexp, ndtr, ndtri

from bayeseval._typing import Floats, Index
from bayeseval.estimands.forecast import sample_crps

__all__ = [
    "COVERAGE",
    "clustered_se",
    "normal_scores",
    "sampled_scores",
    "summarised",
]

#: Probability of the equal-tailed intervals whose coverage is reported.
COVERAGE: Final = 0.9
_TAIL: Final = (1.0 - COVERAGE) / 2.0


def sampled_scores(
    draws: Floats,
    log_density: Floats,
    observed: Floats,
    limits: tuple[Floats, Floats] | None = None,
) -> pd.DataFrame:
    """Scores of predictions that are draws.

    Parameters
    ----------
    draws : ndarray, shape (n_samples, m)
        New measurements.
    log_density : ndarray, shape (n_samples, m)
        Of what was measured, given each draw of the parameters.
    observed : ndarray, shape (m,)
        What was measured.
    limits : pair of ndarray, shape (m,), optional
        Beyond these the model does not tell values from each other: it moves such scores there.

    Returns
    -------
    pandas.DataFrame
        ``mean``, ``median``, ``lower``, ``upper`` (90 %), ``crps``, ``log_score``, the log of
        the mean of the density over the draws, and ``in_90``: whether the score is inside its
        interval. A score beyond its limit is equal to all draws there, and inside as far as
        these are: for a calibrated model 0.9 on average, as for other scores.
    """
    lower, median, upper = np.quantile(draws, [_TAIL, 0.5, 1.0 - _TAIL], axis=0)
    return pd.DataFrame(
        {
            "mean": draws.mean(axis=0),
            "median": median,
            "lower": lower,
            "upper": upper,
            "crps": [sample_crps(draws[:, i], float(y)) for i, y in enumerate(observed)],
            "log_score": logsumexp(log_density, axis=0) - np.log(len(log_density)),
            "in_90": _inside(draws, observed, lower, upper, limits),
        }
    )


def _inside(
    draws: Floats,
    observed: Floats,
    lower: Floats,
    upper: Floats,
    limits: tuple[Floats, Floats] | None,
) -> Floats:
    """Whether scores are inside 90 % intervals; of a score beyond its limit, how much of it."""
    inside = ((lower <= observed) & (observed <= upper)).astype(np.float64)
    if limits is None:
        return inside
    low, high = limits
    for beyond, equal in ((observed < low, draws <= low), (observed > high, draws >= high)):
        share = equal[:, beyond].mean(axis=0)
        # Ranks of the tied draws spread over (0, share), of which (0.05, 0.95) is inside.
        part = np.clip(share, _TAIL, 1.0 - _TAIL) - _TAIL
        inside[beyond] = part / np.where(share > 0.0, share, 1.0)
    return inside


def normal_scores(mean: Floats, sd: float, observed: Floats) -> pd.DataFrame:
    """Scores of normal predictions; the columns of :func:`sampled_scores`.

    Parameters
    ----------
    mean : ndarray, shape (m,)
    sd : float
    observed : ndarray, shape (m,)

    References
    ----------
    Gneiting and Raftery (2007), Strictly proper scoring rules, prediction, and estimation, Eq. 21.
    """
    z = (observed - mean) / sd
    density = np.exp(-0.5 * z**2) / np.sqrt(2.0 * np.pi)
    half = sd * ndtri(1.0 - _TAIL)
    return pd.DataFrame(
        {
            "mean": mean,
            "median": mean,
            "lower": mean - half,
            "upper": mean + half,
            "crps": sd * (z * (2.0 * ndtr(z) - 1.0) + 2.0 * density - 1.0 / np.sqrt(np.pi)),
            "log_score": -0.5 * z**2 - np.log(sd) - 0.5 * np.log(2.0 * np.pi),
            "in_90": (np.abs(observed - mean) <= half).astype(np.float64),
        }
    )


def clustered_se(values: Floats, cluster: Index) -> float:
    """Standard error of a mean of values that are dependent within clusters.

    ``sqrt(G / (G - 1) sum_g (sum_{i in g} (x_i - mean))^2) / n`` over G clusters; NaN of one.

    Parameters
    ----------
    values : ndarray, shape (n,)
    cluster : ndarray of int, shape (n,)
    """
    _, place = np.unique(cluster, return_inverse=True)
    sums = np.bincount(place, weights=values - values.mean())
    n = len(sums)
    if n < 2:
        return float("nan")
    return float(np.sqrt(n / (n - 1) * (sums**2).sum()) / len(values))


def summarised(predictions: pd.DataFrame) -> pd.DataFrame:
    """One row for each model, the lowest CRPS first.

    Parameters
    ----------
    predictions : pandas.DataFrame
        ``spec``, ``repeat``, ``unit``, ``score`` and the columns of :func:`sampled_scores`; the
        same scores in the same order for every spec.

    Returns
    -------
    pandas.DataFrame
        ``spec``, ``rmse`` (of the mean), ``mae`` (of the median), ``crps``, ``crps_diff`` (less
        that of the best), ``crps_diff_se`` (units are clusters, over all repeats),
        ``log_score``, ``coverage_90``, ``n`` (scores predicted) and ``n_units`` (different
        units among them).
    """
    parts = {str(spec): part for spec, part in predictions.groupby("spec", sort=False)}
    crps = {spec: part["crps"].to_numpy(dtype=np.float64) for spec, part in parts.items()}
    best = min(crps, key=lambda spec: float(crps[spec].mean()))
    rows = []
    for spec, part in parts.items():
        score, unit = part["score"].to_numpy(), part["unit"].to_numpy()
        difference = crps[spec] - crps[best]
        rows.append(
            {
                "spec": spec,
                "rmse": float(np.sqrt(np.mean((score - part["mean"]) ** 2))),
                "mae": float(np.mean(np.abs(score - part["median"]))),
                "crps": float(crps[spec].mean()),
                "crps_diff": float(difference.mean()),
                "crps_diff_se": 0.0 if spec == best else clustered_se(difference, unit),
                "log_score": float(part["log_score"].mean()),
                "coverage_90": float(part["in_90"].mean()),
                "n": len(part),
                "n_units": len(np.unique(unit)),
            }
        )
    table = pd.DataFrame(rows).sort_values("crps", kind="stable")
    return table.reset_index(drop=True)
