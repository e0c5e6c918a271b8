"""Simulation-based calibration of the default priors, which scale with the scores.

    python perf/prior_calibration.py [TABLES]

Tables are drawn from the priors of `additive` at a fixed scale and fitted twice: with these
priors, and with the default ones, which take their scale from each table. Printed is the mean
rank of the true sds among their posterior draws: 0.5 where priors and tables agree.
"""

from __future__ import annotations

import sys

import numpy as np

from bayeseval.design import build_design
from bayeseval.engines import SamplerSettings
from bayeseval.engines.marginal import sample
from bayeseval.simulation import simulate
from bayeseval.spec import load_spec

SCALE = 15.0
SDS = ("sd_language", "sd_task", "sd_model", "sd_residual")


def main(n_tables: int) -> None:
    """Print the mean ranks and their standard errors."""
    fixed = {name: {"dist": "half_normal", "scale": SCALE, "relative": False} for name in SDS}
    fixed["intercept"] = {"dist": "normal", "loc": 50.0, "scale": 2.5 * SCALE, "relative": False}
    specs = {
        "priors that tables were drawn from": load_spec({"name": "fixed", "priors": fixed}),
        "default priors": load_spec("additive"),
    }
    ranks: dict[str, list[list[float]]] = {name: [] for name in specs}
    for seed in range(n_tables):
        rng = np.random.default_rng(seed)
        truth = {name: float(abs(rng.normal(0.0, SCALE))) for name in SDS}
        # Simulated main effects are centred; like the model's they have the variance sd^2
        # (1 - 1 / K).
        records = simulate(
            "additive",
            n_languages=8,
            n_tasks=4,
            n_models=5,
            observed_share=1.0,
            intercept=float(rng.normal(50.0, 2.5 * SCALE)),
            sds=truth,
            seed=seed,
        ).records
        for name, spec in specs.items():
            drawn = sample(build_design(records, spec), SamplerSettings(draws=100, seed=seed))
            ranks[name].append([float((drawn.posterior[sd] < truth[sd]).mean()) for sd in SDS])
    for name, rows in ranks.items():
        mean = np.mean(rows, axis=0)
        error = np.std(rows, axis=0, ddof=1) / np.sqrt(n_tables)
        print(f"{name}, {n_tables} tables")
        for sd, value, se in zip(SDS, mean, error, strict=True):
            print(f"  {sd:<12} {value:.3f} (SE {se:.3f})")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 200)
