"""How potentials and ranks move from one fit to another: correlations, and who moves most."""

from __future__ import annotations

from typing import Final

import numpy as np
import pandas as pd
import xarray as xr
from scipy.stats import kendalltau, spearmanr

from bayeseval import names
from bayeseval.estimands.frames import draws_of

__all__ = ["agreement", "level_moves", "most_moved"]

_MOVERS: Final = 3


def level_moves(before: xr.DataTree, after: xr.DataTree, quantity: str) -> pd.DataFrame:
    """What a quantity and its ranks are in two fits, for the levels that both have.

    Parameters
    ----------
    before, after : xarray.DataTree
        Two fits with the variables that :func:`bayeseval.estimands.derive` adds.
    quantity : str
        A posterior variable that has ranks: ``language_potential``, ``mean_prr``,
        ``cv_prr``, ...

    Returns
    -------
    pandas.DataFrame
        One row per level, indexed by it: ``mean`` (posterior), ``sd``, and ``lower``,
        ``median`` and ``upper`` of the rank (95 %, equal-tailed, 1 = best), each with
        ``_before`` and ``_after``. NaN where a fit does not report the level.
    """
    old, new = (_summary(tree, quantity) for tree in (before, after))
    return old.add_suffix("_before").join(new.add_suffix("_after"), how="inner")


def agreement(moves: pd.DataFrame) -> tuple[float, float]:
    """Spearman and Kendall correlation of the means; NaN for fewer than two levels."""
    means = moves[["mean_before", "mean_after"]].dropna()
    if len(means) < 2:
        return float("nan"), float("nan")
    before, after = means["mean_before"], means["mean_after"]
    return float(spearmanr(before, after)[0]), float(kendalltau(before, after)[0])


def most_moved(moves: pd.DataFrame, most: int = _MOVERS) -> str:
    """Levels whose median ranks are furthest apart, with 95 % intervals of both ranks."""
    shifts = (moves["median_after"] - moves["median_before"]).abs()
    order = shifts[shifts > 0].sort_values(ascending=False, kind="stable").index[:most]
    return "; ".join(
        f"{label!s} {_rank(moves.loc[label], 'before')} to {_rank(moves.loc[label], 'after')}"
        for label in order
    )


def _summary(tree: xr.DataTree, quantity: str) -> pd.DataFrame:
    posterior = tree["posterior"].to_dataset()
    values, ranks = draws_of(posterior[quantity]), draws_of(posterior[names.rank_name(quantity)])
    dim = str(posterior[quantity].dims[-1])
    rows = []
    for value, rank in zip(values.T, ranks.T, strict=True):
        drawn, ranked = value[~np.isnan(value)], rank[~np.isnan(rank)]
        bounds = (
            np.quantile(ranked, [0.025, 0.5, 0.975], method="inverted_cdf")
            if len(ranked)
            else np.full(3, np.nan)
        )
        sd = drawn.std(ddof=1) if len(drawn) > 1 else np.nan
        rows.append([drawn.mean() if len(drawn) else np.nan, sd, *bounds])
    return pd.DataFrame(
        rows,
        index=pd.Index([str(label) for label in posterior[dim].to_numpy()], name=dim),
        columns=["mean", "sd", "lower", "median", "upper"],
    )


def _rank(row: pd.Series[float], when: str) -> str:
    lower, middle, upper = (int(row[f"{key}_{when}"]) for key in ("lower", "median", "upper"))
    return f"{middle} [{lower}, {upper}]"
