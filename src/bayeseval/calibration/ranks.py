"""Where a truth lies among the draws of a posterior: rank, z, and whether intervals hold it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from bayeseval._typing import Floats
from bayeseval.calibration.quantities import Levels
from bayeseval.calibration.sets import PROBABILITIES, set_rows
from bayeseval.estimands.arrays import interval_summaries

__all__ = ["outcome_rows", "randomised_rank"]


def randomised_rank(draws: Floats, truth: Floats, uniform: Floats) -> Floats:
    """Rank of the truth among draws and itself, as a share; ties and steps are randomised.

    ``(below + u (equal + 1)) / (n + 1)`` for ``below`` draws smaller than the truth, ``equal``
    draws equal to it, and `u` uniform. If the truth and the draws are exchangeable, it is uniform
    on (0, 1) exactly, for any number of draws, also where values are discrete.

    Parameters
    ----------
    draws : ndarray, shape (n_draws, n_levels)
        NaN draws are left out.
    truth : ndarray, shape (n_levels,)
        NaN has no rank.
    uniform : ndarray, shape (n_levels,)
        Between 0 and 1.

    Returns
    -------
    ndarray, shape (n_levels,)

    References
    ----------
    Talts et al. (2018), arXiv:1804.06788; Modrak et al. (2023), doi:10.1214/23-BA1404, for ties.
    """
    known = ~np.isnan(draws)
    below = ((draws < truth) & known).sum(axis=0)
    equal = ((draws == truth) & known).sum(axis=0)
    rank = (below + uniform * (equal + 1)) / (known.sum(axis=0) + 1)
    return np.where(np.isnan(truth) | ~known.any(axis=0), np.nan, rank)


def outcome_rows(
    joint: dict[str, Levels], fitted: dict[str, Levels], rng: np.random.Generator
) -> pd.DataFrame:
    """One row per quantity and level of one simulation.

    Parameters
    ----------
    joint : dict of str to Levels
        Thinned draws with the truth as the last one.
    fitted : dict of str to Levels
        All draws of the fit, which intervals are made of.
    rng : numpy.random.Generator
        Randomises ranks.

    Returns
    -------
    pandas.DataFrame
        ``quantity``, ``level``, ``truth``, ``mean``, ``sd``, ``z``, ``rank``, ``in_50``,
        ``in_90``, ``in_95`` (1 or 0). Levels that are reported without a value have no row. The
        rows of :func:`set_rows` come last; they have no truth, mean, sd, z and rank.
    """
    parts = []
    for name, levels in joint.items():
        draws, truth = levels.draws[:-1], levels.draws[-1]
        rank = randomised_rank(draws, truth, rng.uniform(size=truth.shape))
        if name not in fitted:
            continue
        own = fitted[name]
        summaries = interval_summaries(own.draws, PROBABILITIES, ranks=name.endswith("_rank"))
        columns: dict[str, Any] = {"quantity": name, "level": own.labels, "truth": truth}
        for probability, summary in zip(PROBABILITIES, summaries, strict=True):
            inside = (summary.lower <= truth) & (truth <= summary.upper)
            columns[f"in_{100 * probability:.0f}"] = inside.astype(np.float64)
        z = (truth - summary.mean) / np.where(summary.sd > 0.0, summary.sd, np.nan)
        columns |= {"mean": summary.mean, "sd": summary.sd, "z": z, "rank": rank}
        part = pd.DataFrame(columns)
        parts.append(part[part[["truth", "mean", "rank"]].notna().all(axis=1)])
    order = ["quantity", "level", "truth", "mean", "sd", "z", "rank"]
    order += [f"in_{100 * probability:.0f}" for probability in PROBABILITIES]
    sets = set_rows(joint, fitted)
    return pd.concat([*parts, sets.reindex(columns=order)], ignore_index=True)[order]
