"""The reference posteriors of `perf/results/reference/`, and how far a fit is from them."""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bayeseval import Fit

FOLDER = Path(__file__).parents[1] / "perf" / "results" / "reference"

ESTIMATES = {"mean": None, "sd": None, "q5": 0.05, "q50": 0.5, "q95": 0.95}
MIN_ESS = 400.0
N_MCSE = 5.0


def reference(table: str, model: str) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Quantities and description of one reference posterior."""
    path = FOLDER / table / model
    quantities = pd.read_csv(path.with_suffix(".csv"), keep_default_na=False)
    return quantities, json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))


def distances(
    fit: Fit, table: str, model: str, *, estimates: Collection[str] = tuple(ESTIMATES)
) -> pd.DataFrame:
    """Differences of a fit to the reference in combined Monte-Carlo standard errors.

    One row per quantity and label, one column per estimate. Quantities with fewer than 400
    effective draws fail: a comparison that cannot see anything must not pass.
    """
    from arviz_stats.base import array_stats

    quantities, _ = reference(table, model)
    posterior = fit.data["posterior"].to_dataset()
    values = np.stack(
        [
            _draws(posterior[quantity], label)
            for quantity, label in zip(quantities["quantity"], quantities["label"], strict=True)
        ]
    )
    axes = {"chain_axis": 1, "draw_axis": 2}
    ess = array_stats.ess(values, method="bulk", **axes)
    most = fit.run["sampling"].get("importance_ess", np.inf)
    assert min(ess.min(), most) >= MIN_ESS, f"only {min(ess.min(), most):.0f} effective draws"
    widened = np.sqrt(np.maximum(ess / most, 1.0))
    found = {}
    for name in estimates:
        prob = ESTIMATES[name]
        if name == "mean":
            own, error = values.mean(axis=(1, 2)), array_stats.mcse(values, method="mean", **axes)
        elif prob is None:
            own = values.std(axis=(1, 2), ddof=1)
            squares = (values - values.mean(axis=(1, 2), keepdims=True)) ** 2
            error = array_stats.mcse(squares, method="mean", **axes) / (2.0 * own)
        else:
            own = np.quantile(values, prob, axis=(1, 2))
            error = array_stats.mcse(values, method="quantile", prob=prob, **axes)
        combined = np.hypot(widened * error, quantities[f"{name}_mcse"])
        found[name] = (own - quantities[name]) / combined
    index = pd.MultiIndex.from_frame(quantities[["quantity", "label"]])
    return pd.DataFrame({name: np.asarray(z) for name, z in found.items()}, index=index)


def far(table: pd.DataFrame) -> pd.DataFrame:
    """Rows with a difference of more than 5 standard errors."""
    return table[~(table.abs() < N_MCSE).all(axis=1)]


def _draws(variable: Any, label: str) -> np.ndarray:
    extra = [dim for dim in variable.dims if dim not in ("chain", "draw")]
    chosen = variable.sel(dict.fromkeys(extra, label))
    return np.asarray(chosen.transpose("chain", "draw").to_numpy(), dtype=np.float64)
