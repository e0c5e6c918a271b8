"""Simulation-based calibration of the default priors, which scale with the scores.

    python perf/prior_calibration.py [TABLES]

Tables are drawn from the priors of `additive` at a fixed scale and fitted twice: with these
priors, and with the default ones, which take their scale from each table. One row per sd goes to
``perf/results/prior_calibration.csv``: the mean rank of the true sd among its posterior draws
with both (0.5 where priors and tables agree), and their difference on the same tables, each with
its standard error.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import numpy.typing as npt
from measure import print_table, provenance, write_csv

from bayeseval.design import build_design
from bayeseval.engines import SamplerSettings
from bayeseval.engines.marginal import sample
from bayeseval.simulation import simulate
from bayeseval.spec import load_spec

# Small beside the scale of 0 to 100, so that all tables have this scale; priors are relative to the
# sd of the scores, so that ranks do not depend on it.
SCALE = 0.5
LEVELS = {"language": 8, "task": 4, "model": 5}
SDS = (*(f"sd_{factor}" for factor in LEVELS), "sd_residual")


def ranks_of(seed: int) -> npt.NDArray[np.float64]:
    """Ranks of the true sds of one table with fixed and scaled priors; shape (2, n_sds)."""
    fixed = {name: {"dist": "half_normal", "scale": SCALE, "relative": False} for name in SDS}
    fixed["intercept"] = {"dist": "normal", "loc": 50.0, "scale": 2.5 * SCALE, "relative": False}
    rng = np.random.default_rng(seed)
    truth = {name: float(abs(rng.normal(0.0, SCALE))) for name in SDS}
    # Simulated main effects are centred; like the model's they have the variance sd^2
    # (1 - 1 / K).
    records = simulate(
        "additive",
        n_languages=LEVELS["language"],
        n_tasks=LEVELS["task"],
        n_models=LEVELS["model"],
        observed_share=1.0,
        intercept=float(rng.normal(50.0, 2.5 * SCALE)),
        sds=truth,
        seed=seed,
    ).records
    ranks = []
    for spec in (load_spec({"name": "fixed", "priors": fixed}), load_spec("additive")):
        drawn = sample(build_design(records, spec), SamplerSettings(draws=100, seed=seed))
        ranks.append([float((drawn.posterior[sd] < truth[sd]).mean()) for sd in SDS])
    return np.array(ranks)


def main(n_tables: int) -> None:
    """Print and write the mean ranks, their paired differences and standard errors."""
    said = provenance()
    ranks = np.array([ranks_of(seed) for seed in range(n_tables)])
    compared = {
        "fixed": ranks[:, 0],
        "scaled": ranks[:, 1],
        "difference": ranks[:, 1] - ranks[:, 0],
    }
    rows: list[dict[str, Any]] = []
    for place, sd in enumerate(SDS):
        row: dict[str, Any] = {
            "quantity": sd,
            "levels": LEVELS.get(sd.removeprefix("sd_"), ""),
            "tables": n_tables,
        }
        for name, values in compared.items():
            own = values[:, place]
            row[name] = round(float(own.mean()), 5)
            row[f"{name}_se"] = round(float(own.std(ddof=1) / np.sqrt(n_tables)), 5)
        rows.append(row)
    print_table(rows)
    write_csv("prior_calibration", rows, said)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
