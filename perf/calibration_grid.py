"""Coverage of 95 % intervals over table shapes, with truths from the priors.

    python perf/calibration_grid.py [--shapes 64] [--simulations 5] [--spec additive]
        [--draws 500] [--most-records 30000] [--jobs 2] [--work FOLDER]

Shapes fill the space of tables with 3 to 300 languages, 1 to 20 tasks, 2 to 50 models (even on a
log scale) and 20 to 100 % observed cells: a scrambled Sobol sequence. Shapes that cannot have so
few records (each level at least two, all connected) are left out, and so are those with more than
``--most-records`` records, which take long; the numbers of both are printed. Each dimension is cut
into three parts; one row per part and quantity goes to ``perf/results/calibration_grid.csv``, with
the coverage over all shapes of this part. The intervals hold simultaneously over all rows: with
probability 95 %, none of calibrated results is wrong. They
count one level of each simulation, drawn at random; ``of_all_values`` is the share over all levels,
which are dependent. A part and quantity whose interval excludes 95 % ends with exit code 1. Ranks
and sets of them are left out, because intervals of whole numbers hold the truth more often than
they promise.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd
from measure import RESULTS, provenance
from scipy.stats import qmc

from bayeseval.calibration import Calibration, prepare_calibration
from bayeseval.calibration.bands import coverage_interval
from bayeseval.calibration.sets import SET_WORDS
from bayeseval.calibration.summary import independent_rows
from bayeseval.engines import SamplerSettings
from bayeseval.errors import BayesevalError
from bayeseval.simulation import simulate

OUT: Final = RESULTS / "calibration_grid.csv"
PROMISED: Final = 0.95
#: Ends of the parts of every dimension.
PARTS: Final[Mapping[str, tuple[float, ...]]] = {
    "n_languages": (3, 13, 64, 301),
    "n_tasks": (1, 3, 8, 21),
    "n_models": (2, 6, 18, 51),
    "observed_share": (0.2, 0.47, 0.74, 1.01),
}


def shapes(number: int) -> list[dict[str, Any]]:
    """Shapes of tables that fill the space evenly, from the start of one sequence."""
    points = qmc.Sobol(len(PARTS), rng=0).random_base2(max(number - 1, 1).bit_length())[:number]
    found = []
    for languages, tasks, models, share in points:
        found.append(
            {
                "n_languages": int(np.rint(3 * 100**languages)),
                "n_tasks": int(np.rint(20**tasks)),
                "n_models": int(np.rint(2 * 25**models)),
                "observed_share": round(float(0.2 + 0.8 * share), 3),
            }
        )
    return found


def expected_records(shape: Mapping[str, Any]) -> float:
    """How many cells of a shape are observed."""
    return float(np.prod([shape[dimension] for dimension in PARTS]))


def calibrated(
    spec: str, shape: dict[str, Any], seed: int, asked: argparse.Namespace
) -> Calibration | None:
    """Calibrate a model on one shape; None, with the reason printed, where there is no table."""
    try:
        like = simulate(spec, seed=0, **shape).records
        # Equal seeds would draw the same truths for all shapes, in units of their priors.
        prepared = prepare_calibration(
            spec,
            like=like,
            simulations=asked.simulations,
            settings=SamplerSettings(draws=asked.draws, seed=seed),
        )
    except BayesevalError as error:
        print(f"{shape}: {error}", flush=True)
        return None
    return prepared.run(jobs=asked.jobs, work=asked.work)


def run(asked: argparse.Namespace) -> tuple[pd.DataFrame, pd.DataFrame]:
    """One level of every quantity of every simulation, and one row per shape."""
    intervals, tables = [], []
    for number, shape in enumerate(shapes(asked.shapes)):
        begun = time.perf_counter()
        if expected_records(shape) > asked.most_records:
            print(f"{shape}: more than {asked.most_records} records", flush=True)
            continue
        result = calibrated(asked.spec, shape, number, asked)
        if result is None:
            continue
        counts = result.statuses["status"].value_counts()
        about = {
            "n_records": result.run["n_records"],
            "gates_failed": int(counts.get("gate failed", 0)),
            "not_fitted": int(counts.get("not fitted", 0)),
        }
        print(shape, about, round(time.perf_counter() - begun, 1), flush=True)
        tables.append(shape | about)
        for quantity, own in result.simulations.groupby("quantity", sort=False):
            if str(quantity).endswith("_rank") or quantity in SET_WORDS:
                continue
            one = independent_rows(own, str(quantity))[["quantity", "simulation", "in_95"]]
            of_all = own.groupby("simulation")["in_95"].agg(["sum", "size"]).to_numpy()
            one = one.assign(**shape, hits=of_all[:, 0], values=of_all[:, 1])
            # Simulations of different shapes are different ones.
            intervals.append(one.assign(simulation=one["simulation"] + asked.simulations * number))
    if not tables:
        raise SystemExit(
            "error: no shape has a table; ask for more --shapes or for larger --most-records"
        )
    return pd.concat(intervals, ignore_index=True), pd.DataFrame(tables)


def summarised(intervals: pd.DataFrame, tables: pd.DataFrame) -> pd.DataFrame:
    """Coverage by part of every dimension and quantity."""
    cells = []
    for dimension, ends in PARTS.items():
        for start, end in zip(ends[:-1], ends[1:], strict=True):
            inside = tables[tables[dimension].between(start, end, inclusive="left")]
            where = {
                "dimension": dimension,
                "least": inside[dimension].min(),
                "most": inside[dimension].max(),
                "n_shapes": len(inside),
                **inside[["gates_failed", "not_fitted"]].sum().to_dict(),
            }
            own = intervals[intervals[dimension].between(start, end, inclusive="left")]
            cells += [
                (where | {"quantity": quantity}, rows)
                for quantity, rows in own.groupby("quantity", sort=False)
            ]
    level = 1.0 - (1.0 - PROMISED) / max(len(cells), 1)
    found = []
    for where, rows in cells:
        # Of one level per simulation, so that the number of intervals that hold is binomial.
        share, lower, upper = coverage_interval(
            rows["in_95"].to_numpy(dtype=np.float64),
            rows["simulation"].to_numpy(dtype=np.int64),
            probability=level,
        )
        found.append(
            where
            | {
                "n_simulations": len(rows),
                "n_values": int(rows["values"].sum()),
                "of_all_values": rows["hits"].sum() / rows["values"].sum(),
                "coverage_95": share,
                "lower": lower,
                "upper": upper,
                "ci_prob": level,
            }
        )
    return pd.DataFrame(found)


def main() -> int:
    """Write the table; 1 when a coverage is not 95 %."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shapes", type=int, default=64)
    parser.add_argument("--simulations", type=int, default=5)
    parser.add_argument("--spec", default="additive")
    parser.add_argument("--draws", type=int, default=500)
    parser.add_argument("--most-records", type=int, default=30_000)
    parser.add_argument("--jobs", type=int, default=None)
    parser.add_argument("--work", type=Path, default=None)
    asked = parser.parse_args()
    said = provenance()
    begun = time.perf_counter()
    intervals, tables = run(asked)
    too_large = sum(expected_records(one) > asked.most_records for one in shapes(asked.shapes))
    print(f"{len(tables)} of {asked.shapes} shapes have a table; {too_large} are too large")
    table = summarised(intervals, tables)
    table = table.assign(
        spec=asked.spec,
        all_shapes=len(tables),
        shapes_too_large=too_large,
        least_records=tables["n_records"].min(),
        most_records=tables["n_records"].max(),
        seconds=round(time.perf_counter() - begun, 1),
        **said,
    )
    table.to_csv(OUT, index=False, lineterminator="\n")
    wrong = table[(table["upper"] < PROMISED) | (table["lower"] > PROMISED)]
    print(wrong.to_string() if len(wrong) else f"all {len(table)} coverages can be 95 %")
    return int(len(wrong) > 0)


if __name__ == "__main__":
    raise SystemExit(main())
