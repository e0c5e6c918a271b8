"""Columns and draws that all estimand tables share."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pandas as pd
import xarray as xr

from bayeseval import names
from bayeseval._typing import Floats
from bayeseval.estimands.arrays import Interval, rank_summary
from bayeseval.estimands.ranks import Pairwise

__all__ = [
    "draws_of",
    "finish",
    "pair_rows",
    "rank_columns",
    "summary_columns",
]

_BOUNDS = ("mean", "sd", "lower", "upper")
_RANK = ("mean", "median", "lower", "upper")


def draws_of(variable: xr.DataArray) -> Floats:
    """Draws of a variable, chains one after the other; shape (n_samples, ...)."""
    values = np.asarray(variable.transpose("chain", "draw", ...).values, dtype=np.float64)
    return values.reshape(-1, *values.shape[2:])


def summary_columns(prefix: str, summary: Interval, *, sd: bool = True) -> dict[str, object]:
    """Columns ``<prefix>_{mean,sd,lower,upper}``, without the sd where it is not asked for."""
    parts = _BOUNDS if sd else tuple(part for part in _BOUNDS if part != "sd")
    return {f"{prefix}_{part}": getattr(summary, part) for part in parts}


def rank_columns(prefix: str, ranks: Floats, *, ci_prob: float) -> dict[str, Floats]:
    """Columns ``<prefix>_{mean,median,lower,upper}`` of ranks; shape (n_samples, n_levels)."""
    summary = rank_summary(ranks, ci_prob=ci_prob)
    return {f"{prefix}_{part}": getattr(summary, part) for part in _RANK}


def pair_rows(quantity: str, models: npt.NDArray[np.object_], pairs: Pairwise) -> pd.DataFrame:
    """Rows of one quantity in a table of pairs, a before b in the order of `models`."""
    return pd.DataFrame(
        {
            "quantity": quantity,
            "model_a": models[pairs.first],
            "model_b": models[pairs.second],
        }
        | summary_columns("diff", pairs.difference)
        | {
            "effect_size": pairs.effect_size,
            "p_a_better": pairs.p_a_better,
            "p_within_margin": pairs.p_within_margin,
        }
    )


def finish(table: pd.DataFrame, ci_prob: float) -> pd.DataFrame:
    """Say of a finished table which intervals it holds."""
    return table.assign(ci_kind=names.CI_KIND, ci_prob=ci_prob).reset_index(drop=True)
