"""Coverage of 95 % intervals over a grid of table shapes, with truths from the priors.

    python perf/calibration_grid.py [--simulations 40] [--spec additive] [--languages 3,20,300]
        [--tasks 1,5,20] [--models 2,10,50] [--shares 0.2,0.5,1] [--jobs 2] [--work FOLDER]

Every shape that can have so few records (each level at least two, all connected) is calibrated; one
row per shape and quantity goes to ``perf/results/calibration_grid.csv``. The intervals of the
coverages hold simultaneously over the whole grid: with probability 95 %, none of calibrated results
is wrong. They count one level of each simulation, drawn at random; ``of_all_values`` is the share
over all levels, which are dependent. A shape and quantity whose interval excludes 95 % ends with
exit code 1. Ranks are left out, because intervals of whole numbers hold the truth more often than
they promise.
"""

from __future__ import annotations

import argparse
import itertools
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from measure import RESULTS, provenance

from bayeseval.calibration import Calibration, prepare_calibration
from bayeseval.calibration.bands import coverage_interval
from bayeseval.calibration.summary import independent_rows
from bayeseval.errors import BayesevalError
from bayeseval.simulation import simulate

OUT = RESULTS / "calibration_grid.csv"
PROMISED = 0.95


def numbers(text: str) -> list[float]:
    """Numbers separated by commas."""
    return [float(part) for part in text.split(",")]


def calibrated(spec: str, shape: dict[str, Any], asked: argparse.Namespace) -> Calibration | None:
    """Calibrate a model on one shape; None, with the reason printed, where there is no table."""
    try:
        like = simulate(spec, seed=0, **shape).records
        prepared = prepare_calibration(spec, like=like, simulations=asked.simulations)
    except BayesevalError as error:
        print(f"{shape}: {error}")
        return None
    return prepared.run(jobs=asked.jobs, work=asked.work)


def main() -> int:
    """Write the table; 1 when a coverage is not 95 %."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--simulations", type=int, default=40)
    parser.add_argument("--spec", default="additive")
    parser.add_argument("--languages", type=numbers, default=[3, 20, 300])
    parser.add_argument("--tasks", type=numbers, default=[1, 5, 20])
    parser.add_argument("--models", type=numbers, default=[2, 10, 50])
    parser.add_argument("--shares", type=numbers, default=[0.2, 0.5, 1.0])
    parser.add_argument("--jobs", type=int, default=None)
    parser.add_argument("--work", type=Path, default=None)
    asked = parser.parse_args()
    said = provenance()
    found: list[tuple[dict[str, Any], pd.DataFrame, dict[str, Any]]] = []
    grid = itertools.product(asked.languages, asked.tasks, asked.models, asked.shares)
    for languages, tasks, models, share in grid:
        sizes = {"n_languages": int(languages), "n_tasks": int(tasks), "n_models": int(models)}
        shape = {**sizes, "observed_share": share}
        begun = time.perf_counter()
        result = calibrated(asked.spec, shape, asked)
        if result is None:
            continue
        counts = result.statuses["status"].value_counts()
        about = {
            "n_records": result.run["n_records"],
            "gates_failed": int(counts.get("gate failed", 0)),
            "not_fitted": int(counts.get("not fitted", 0)),
            "seconds": round(time.perf_counter() - begun, 1),
        }
        print(shape, about, flush=True)
        for quantity, own in result.simulations.groupby("quantity", sort=False):
            if not str(quantity).endswith("_rank"):
                found.append((shape | {"quantity": quantity}, own, about))
    level = 1.0 - (1.0 - PROMISED) / max(len(found), 1)
    rows = []
    for which, own, about in found:
        # Of one level per simulation, so that the number of intervals that hold is binomial.
        one = independent_rows(own, str(which["quantity"]))
        inside, number = (one[name].to_numpy(dtype=np.float64) for name in ("in_95", "simulation"))
        share, lower, upper = coverage_interval(inside, number, probability=level)
        rows.append(
            which
            | {
                "n_simulations": len(one),
                "n_values": len(own),
                "of_all_values": own["in_95"].mean(),
            }
            | {"coverage_95": share, "lower": lower, "upper": upper, "ci_prob": level}
            | about
        )
    table = pd.DataFrame(rows).assign(spec=asked.spec, **said)
    table.to_csv(OUT, index=False, lineterminator="\n")
    wrong = table[(table["upper"] < PROMISED) | (table["lower"] > PROMISED)]
    print(wrong.to_string() if len(wrong) else f"all {len(table)} coverages can be 95 %")
    return int(len(wrong) > 0)


if __name__ == "__main__":
    raise SystemExit(main())
