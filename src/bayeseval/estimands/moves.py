"""How potentials and ranks move from one fit to another: correlations, and who moves most."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr
from scipy.stats import kendalltau, spearmanr

from bayeseval import names
from bayeseval._typing import Floats
from bayeseval.estimands.arrays import interval_summary, rank_summary
from bayeseval.estimands.frames import draws_of
from bayeseval.estimands.ranks import higher_is_better, rank_draws

__all__ = [
    "Quantity",
    "agreement",
    "level_moves",
    "most_moved",
    "read_quantity",
    "reported_quantities",
]


_MOVERS: Final = 3
_DECIMALS: Final = 12


class Quantity(NamedTuple):
    """Joint draws of one reported quantity.

    Attributes
    ----------
    name : str
        For example ``language_potential``.
    levels : tuple of str
        Languages or models.
    draws : ndarray, shape (n_samples, n_levels)
        NaN where the quantity is not reported.
    """

    name: str
    levels: tuple[str, ...]
    draws: Floats


def read_quantity(tree: xr.DataTree, name: str) -> Quantity:
    """Draws of a quantity of a fit, chains one after the other."""
    draws = tree["posterior"].to_dataset()[name]
    levels = tuple(str(label) for label in draws[str(draws.dims[-1])].to_numpy())
    return Quantity(name, levels, draws_of(draws))


def reported_quantities(tree: xr.DataTree) -> tuple[str, ...]:
    """Quantities with ranks that a fit estimates: without model:language no evenness."""
    posterior = tree["posterior"].to_dataset()
    return tuple(name for name in names.REPORTED if not bool(posterior[name].isnull().all()))


def level_moves(before: Quantity, after: Quantity) -> pd.DataFrame:
    """What a quantity and its ranks are in two fits, for the levels that both have.

    Parameters
    ----------
    before, after : Quantity
        The same quantity of two fits.

    Returns
    -------
    pandas.DataFrame
        One row per level that both fits report, indexed by it: ``mean`` (posterior),
        ``sd``, and ``lower``, ``median`` and ``upper`` of the rank among these levels (95 %,
        equal-tailed, 1 = best), each with ``_before`` and ``_after``; a point estimate has
        no sd and ranks nobody.
    """
    there = set(_reported(after))
    common = [label for label in _reported(before) if label in there]
    old, new = (_summary(quantity, common) for quantity in (before, after))
    return old.add_suffix("_before").join(new.add_suffix("_after"))


def agreement(moves: pd.DataFrame) -> tuple[float, float]:
    """Spearman and Kendall correlation of the means; NaN for fewer than two levels."""
    means = moves[["mean_before", "mean_after"]].dropna()
    if len(means) < 2:
        return float("nan"), float("nan")
    before, after = means["mean_before"], means["mean_after"]
    spearman, kendall = spearmanr(before, after)[0], kendalltau(before, after)[0]
    # SciPy's Kendall correlation of 13 levels in the same order is 0.9999999999999998.
    return round(float(spearman), _DECIMALS), round(float(kendall), _DECIMALS)


def most_moved(
    moves: pd.DataFrame,
    most: int = _MOVERS,
    *,
    language_names: Mapping[str, str] | None = None,
) -> str:
    """Levels whose median ranks are furthest apart, with 95 % intervals of both ranks.

    Parameters
    ----------
    moves : pandas.DataFrame
        From :func:`level_moves`.
    most : int
        Number of levels.
    language_names : mapping of str to str, optional
        Where the levels are languages: code to name.
    """
    known = language_names or {}
    shifts = (moves["median_after"] - moves["median_before"]).abs()
    order = shifts[shifts > 0].sort_values(ascending=False, kind="stable").index[:most]
    return "; ".join(
        f"{f'{known[label]} ({label})' if known.get(label, label) != label else label!s} "
        f"{_rank(moves.loc[label], 'before')} to {_rank(moves.loc[label], 'after')}"
        for label in order
    )


def _reported(quantity: Quantity) -> list[str]:
    known = np.flatnonzero(~np.isnan(quantity.draws).all(axis=0))
    return [quantity.levels[i] for i in known]


def _summary(quantity: Quantity, levels: list[str]) -> pd.DataFrame:
    place = {label: i for i, label in enumerate(quantity.levels)}
    values = quantity.draws[:, [place[label] for label in levels]]
    ranks = (
        rank_draws(values, highest_first=higher_is_better(quantity.name))
        if len(values) > 1
        else np.full_like(values, np.nan)
    )
    value = interval_summary(values, ci_prob=names.CI_PROB)
    rank = rank_summary(ranks, ci_prob=names.CI_PROB)
    return pd.DataFrame(
        {
            "mean": value.mean,
            "sd": value.sd,
            "lower": rank.lower,
            "median": rank.median,
            "upper": rank.upper,
        },
        index=levels,
    )


def _rank(row: pd.Series[float], when: str) -> str:
    median, lower, upper = (row[f"{key}_{when}"] for key in ("median", "lower", "upper"))
    return f"{median:.0f} [{lower:.0f}, {upper:.0f}]"
