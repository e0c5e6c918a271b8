"""Simulation-based calibration of the shipped models: `bayeseval calibrate` for each of them.

    python perf/calibration.py [--simulations 100] [--specs additive,crossed]
                               [--priors fixed,scaled] [--jobs 2] [--work FOLDER]

Tables have the cells of a simulated one: 8 languages, 4 tasks and 6 models, 80 % observed. One row
per model, priors and quantity goes to ``perf/results/calibration.csv``, in the place of earlier
rows of the same model and priors, with the seconds that the simulations took. With ``--work`` an
interrupted run continues.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import pandas as pd
from measure import RESULTS, provenance

from bayeseval.calibration import calibrate

OUT = RESULTS / "calibration.csv"


def main() -> None:
    """Calibrate and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--simulations", type=int, default=100)
    parser.add_argument("--specs", default="additive,crossed")
    parser.add_argument("--priors", default="fixed,scaled")
    parser.add_argument("--jobs", type=int, default=None)
    parser.add_argument("--work", type=Path, default=None)
    asked = parser.parse_args()
    said = provenance()
    for spec in asked.specs.split(","):
        for priors in asked.priors.split(","):
            begun = time.perf_counter()
            result = calibrate(
                spec,
                simulations=asked.simulations,
                priors=priors,
                jobs=asked.jobs,
                work=asked.work,
                progress=True,
            )
            print(result)
            seconds = time.perf_counter() - begun
            counts = result.statuses["status"].value_counts().to_dict()
            rows = result.table.assign(
                spec=spec,
                engine=result.run["fitted_with"],
                priors=priors,
                gates_failed=counts.get("gate failed", 0),
                not_fitted=counts.get("not fitted", 0),
                seconds=round(seconds, 1),
                **said,
            )
            if OUT.is_file():
                earlier = pd.read_csv(OUT)
                same = (earlier["spec"] == spec) & (earlier["priors"] == priors)
                rows = pd.concat([earlier[~same], rows], ignore_index=True)
            rows.to_csv(OUT, index=False, lineterminator="\n")


if __name__ == "__main__":
    main()
