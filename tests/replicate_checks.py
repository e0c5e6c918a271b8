"""What a fit to replicates has to agree with: plain sds, raw sds, parametric resampling."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pandas as pd

from bayeseval.estimands import pairwise_table, within_language_table
from bayeseval.fitting.run import Fit

AGGREGATES = ("arithmetic_mean", "median", "geometric_mean")


def resampled(
    table: pd.DataFrame, pair: tuple[str, str], *, n: int = 200_000, boots: float = 1.0
) -> dict[str, float]:
    """P(first above second) from x + N(0, sigma^2 + boots tau^2), by aggregate."""
    rng = np.random.default_rng(7)
    draws: dict[str, list[npt.NDArray[np.float64]]] = {name: [] for name in AGGREGATES}
    for model in pair:
        own = table[table["model"].astype(str) == model]
        sd = np.sqrt(own["seed_sd"] ** 2 + boots * own["boot_sd"] ** 2).to_numpy()
        x = own["score"].to_numpy() + sd * rng.standard_normal((n, len(own)))
        draws["arithmetic_mean"].append(x.mean(axis=1))
        draws["median"].append(np.median(x, axis=1))
        draws["geometric_mean"].append(np.exp(np.log(np.where(x > 0, x, np.nan)).mean(axis=1)))
    return {name: float((first > second).mean()) for name, (first, second) in draws.items()}


def p_above(fit: Fit, pair: tuple[str, str]) -> dict[str, float]:
    """Return P(first above second) of one run on the languages at hand, by aggregate."""
    found = {}
    for name in AGGREGATES:
        table = pairwise_table(fit.data, [f"{name}_run"])
        for a, b, sign in ((*pair, 1), (*pair[::-1], -1)):
            row = table[(table["model_a"] == a) & (table["model_b"] == b)]
            if len(row):
                p = float(row["p_a_better"].iloc[0])
                found[name] = p if sign == 1 else 1.0 - p
    return found


def between(fit: Fit, table: pd.DataFrame) -> pd.DataFrame:
    """Finite-population sds between languages beside the plain sds, by model."""
    posterior = fit.data["posterior"].to_dataset()["between_sd"].mean(("chain", "draw"))
    ours = pd.Series(posterior.values, index=[str(m) for m in posterior["model"].values])
    plain = table.groupby(table["model"].astype(str))["score"].std()
    return pd.DataFrame({"ours": ours, "plain": plain}).assign(gap=lambda t: t["ours"] - t["plain"])


def shrunken(fit: Fit, table: pd.DataFrame) -> pd.DataFrame:
    """Seed sds of the cells: ours, raw, and the model's average (its component `seed`)."""
    ours = within_language_table(fit.data)[["model", "language", "seed_sd_mean"]]
    raw = table[["model", "language", "seed_sd"]].astype({"model": str, "language": str})
    both = ours.astype({"model": str, "language": str}).merge(raw, on=["model", "language"])
    component = fit.data["posterior"].to_dataset()["seed_sd"].mean(("chain", "draw"))
    average = dict(zip(component["model"].values.astype(str), component.values, strict=True))
    return both.assign(average=both["model"].map(average))


def outside(cells: pd.DataFrame, *, slack: float) -> pd.DataFrame:
    """Return cells whose sd is not between their raw one and the average, by more than `slack`."""
    low = cells[["seed_sd", "average"]].min(axis=1) - slack
    high = cells[["seed_sd", "average"]].max(axis=1) + slack
    return cells[(cells["seed_sd_mean"] < low) | (cells["seed_sd_mean"] > high)]
