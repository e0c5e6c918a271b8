"""Write `estimands_mega.csv`: posterior means of the joint density by NUTS, with their errors.

    python tests/reference/make_estimands.py

Four chains of 2,000 draws by the engine ``numpyro`` for each Gaussian spec on MEGA, about
three minutes on two idle cores. Effects of interaction cells are left out: no table reports
them one by one.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import xarray as xr
from arviz_stats.base import array_stats

from bayeseval import load
from bayeseval.fitting.run import fit

SPECS = ("additive", "interaction", "crossed", "paper")
DRAWS = 2000
SEED = 20


def scalars(posterior: xr.Dataset) -> dict[tuple[str, str], np.ndarray]:
    """Draws (chain, draw) of every scalar quantity, by variable and label."""
    found = {}
    for name, variable in posterior.data_vars.items():
        extra = [dim for dim in variable.dims if dim not in ("chain", "draw")]
        values = variable.transpose("chain", "draw", *extra).to_numpy().astype(np.float64)
        if not extra:
            found[str(name), ""] = values
        elif set(extra) <= {"language", "task", "model"}:
            labels = posterior[extra[0]].to_numpy()
            found |= {(str(name), str(x)): values[..., i] for i, x in enumerate(labels)}
    return {key: filled(values) for key, values in found.items() if np.isfinite(values).any()}


def filled(values: np.ndarray) -> np.ndarray:
    """Draws with the few that the guard of a ratio withheld at the mean of the others."""
    finite = np.isfinite(values)
    return np.where(finite, values, values[finite].mean())


def summarise(posterior: xr.Dataset) -> pd.DataFrame:
    """Mean, Monte-Carlo standard error and effective sample size of every scalar quantity."""
    draws = scalars(posterior)
    stacked = np.stack(list(draws.values()))
    axes = {"chain_axis": 1, "draw_axis": 2}
    return pd.DataFrame(
        {
            "variable": [variable for variable, _ in draws],
            "label": [label for _, label in draws],
            "mean": stacked.mean(axis=(1, 2)),
            "mcse": array_stats.mcse(stacked, method="mean", **axes),
            "ess": array_stats.ess(stacked, method="mean", **axes),
        }
    )


def main() -> None:
    """Fit every spec and write the file beside this one."""
    parts = []
    for spec in SPECS:
        result = fit(load("mega"), spec, engine="numpyro", draws=DRAWS, seed=SEED)
        if result.gate.status != "pass" or result.run["retried"]:
            raise SystemExit(f"{spec}: the convergence gate did not pass at once")
        parts.append(summarise(result.data["posterior"].to_dataset()).assign(spec=spec))
    table = pd.concat(parts)[["spec", "variable", "label", "mean", "mcse", "ess"]]
    table.to_csv(
        Path(__file__).with_name("estimands_mega.csv"),
        index=False,
        float_format="%.6g",
        lineterminator="\n",
    )


if __name__ == "__main__":
    main()
