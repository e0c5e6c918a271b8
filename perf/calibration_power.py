"""How often `bayeseval calibrate` finds that ranks have a mean other than 0.5.

    python perf/calibration_power.py [--quantities 13 16 30] [--repetitions 4000]

Ranks are powers of uniform numbers, U^(1 / mean - 1). One row per number of quantities, number of
simulations and mean rank goes to ``perf/results/calibration_power.csv``: the share of repetitions
whose p-value is at most 5 % divided by the number of quantities, for one quantity. The ranks are
the same for every number of quantities. `paper` has 13, `counts` 16 and `replicates` 30;
``perf/results/calibration.csv`` counts those of the others. A few seconds.
"""

from __future__ import annotations

import argparse
import itertools

import numpy as np
from measure import print_table, provenance, write_csv

from bayeseval.calibration.bands import uniformity
from bayeseval.calibration.summary import FALSE_ALARMS


def main() -> None:
    """Simulate ranks and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quantities", type=int, nargs="+", default=[13, 16, 30])
    parser.add_argument("--repetitions", type=int, default=4000)
    asked = parser.parse_args()
    said = provenance()
    rng = np.random.default_rng(0)
    rows = []
    for n, mean in itertools.product((60, 100, 200), (0.53, 0.6, 0.65)):
        null = uniformity(n)
        ranks = rng.uniform(size=(asked.repetitions, n)) ** (1.0 / mean - 1.0)
        p = np.array([null.p_value(one) for one in ranks])
        rows += [
            {
                "quantities": quantities,
                "simulations": n,
                "mean_rank": mean,
                "repetitions": asked.repetitions,
                "found": float((p <= FALSE_ALARMS / quantities).mean()),
            }
            for quantities in asked.quantities
        ]
    print_table(rows)
    write_csv("calibration_power", rows, said)


if __name__ == "__main__":
    main()
