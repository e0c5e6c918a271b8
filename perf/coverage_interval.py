"""How often the interval of a coverage holds the true coverage, with dependent values.

    python perf/coverage_interval.py [--repetitions 400]

The levels of a simulation have normal errors with a common part; their intervals hold the truth
with the promised probability. One row per number of simulations, number of levels, correlation and
promise goes to ``perf/results/coverage_interval.csv``: the share of 95 % intervals of the coverage
that hold the promise, and their mean width. Half a minute.
"""

from __future__ import annotations

import argparse

import numpy as np
from measure import print_table, provenance, write_csv
from scipy.stats import binomtest, norm

from bayeseval.calibration.bands import coverage_interval

SETTINGS = (
    (20, 40, 0.7, 0.95),
    (20, 40, 0.7, 0.9),
    (20, 40, 0.3, 0.95),
    (20, 8, 0.5, 0.95),
    (20, 8, 0.5, 0.5),
    (100, 15, 0.7, 0.95),
    (100, 15, 0.3, 0.9),
    (500, 8, 0.5, 0.95),
)


def main() -> None:
    """Simulate and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=400)
    asked = parser.parse_args()
    said = provenance()
    rng = np.random.default_rng(0)
    rows = []
    for simulations, levels, correlation, promised in SETTINGS:
        simulation = np.repeat(np.arange(simulations), levels)
        widths, hold = [], 0
        for _ in range(asked.repetitions):
            common = rng.normal(size=(simulations, 1))
            own = rng.normal(size=(simulations, levels))
            errors = np.sqrt(correlation) * common + np.sqrt(1.0 - correlation) * own
            inside = (np.abs(errors) < norm.ppf((1.0 + promised) / 2.0)).astype(np.float64)
            _, lower, upper = coverage_interval(inside.reshape(-1), simulation)
            hold += int(lower <= promised <= upper)
            widths.append(upper - lower)
        interval = binomtest(hold, asked.repetitions).proportion_ci(0.95)
        rows.append(
            {
                "simulations": simulations,
                "levels": levels,
                "correlation": correlation,
                "promised": promised,
                "repetitions": asked.repetitions,
                "held": hold / asked.repetitions,
                "lower": interval.low,
                "upper": interval.high,
                "mean_width": float(np.mean(widths)),
            }
        )
    print_table(rows)
    write_csv("coverage_interval", rows, said, digits=4)


if __name__ == "__main__":
    main()
