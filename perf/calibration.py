"""Simulation-based calibration of the shipped models: `bayeseval calibrate` for each of them.

    python perf/calibration.py [--simulations 100] [--specs additive,crossed]
                               [--priors fixed,scaled] [--draws 500] [--tune 500]
                               [--jobs 2] [--work FOLDER]

Tables have the cells of a simulated one: 8 languages, 4 tasks and 6 models, 80 % observed; those of
`dataset` two metrics of each of 2 datasets, those of `mexa` one covariate of languages, those of
`replicates` 3 seeds and 3 bootstrapped test sets. Results are written after every model, in the
place of earlier rows of the same model and priors: to ``perf/results/calibration.csv`` one row per
quantity, with the seconds that the simulations took (those of this run alone, if it continued an
earlier one); to ``perf/results/calibration_ranks.csv`` the ranks, as numbers of simulations below
every hundredth, which the figures are drawn from. With ``--work`` an interrupted run continues.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd
from measure import RESULTS, provenance

from bayeseval.calibration import Calibration, calibrate
from bayeseval.calibration.bands import uniformity
from bayeseval.calibration.summary import independent_ranks
from bayeseval.records import Records, load
from bayeseval.simulation import simulate

OUT: Final = RESULTS / "calibration.csv"
RANKS: Final = RESULTS / "calibration_ranks.csv"
_SIZES: Final[Mapping[str, Any]] = {"n_languages": 8, "n_tasks": 4, "n_models": 6}
_REPLICATES: Final[Mapping[str, Any]] = {"n_seeds": 3, "n_boot": 3}
_CARD: Final = """\
name: simulated-mexa
title: A simulated table with a covariate
files: [records.csv]
columns: {model: model, language: language, task: task, score: score}
mixed_scales: allow
covariates: {mexa: mexa.csv}
source: simulated
licence: none
"""


def table(spec: str, folder: Path) -> Records | None:
    """The table whose shape simulated ones have; None for that of `calibrate` itself."""
    if spec == "dataset":
        return simulate(spec, **_SIZES, observed_share=0.8, n_metrics=2).records
    if spec == "replicates":
        return simulate("additive", **_SIZES, observed_share=0.8, **_REPLICATES).records
    if spec != "mexa":
        return None
    records = simulate("additive", **_SIZES, observed_share=0.8).records
    values = np.random.default_rng(0).normal(size=_SIZES["n_languages"])
    values = {"language": records.coords["language"], "mexa": values}
    pd.DataFrame(values).to_csv(folder / "mexa.csv", index=False)
    records.table.to_csv(folder / "records.csv", index=False)
    (folder / "benchmark.yaml").write_text(_CARD, encoding="utf-8")
    return load(folder)


def curves(result: Calibration) -> pd.DataFrame:
    """How many ranks lie at or below the points where a band is tested, by quantity."""
    parts = []
    ranked = result.table[result.table["mean_rank"].notna()]
    for quantity in ranked["quantity"].drop_duplicates():
        ranks = independent_ranks(result.simulations, quantity)
        null = uniformity(len(ranks))
        counts = null.counts(ranks).astype(int)
        parts.append(pd.DataFrame({"quantity": quantity, "point": null.points, "count": counts}))
    return pd.concat(parts, ignore_index=True)


def store(path: Path, rows: pd.DataFrame) -> None:
    """Write rows in the place of earlier ones of the same model and priors."""
    if path.is_file():
        earlier = pd.read_csv(path)
        spec, priors = rows["spec"].iloc[0], rows["priors"].iloc[0]
        same = (earlier["spec"] == spec) & (earlier["priors"] == priors)
        rows = pd.concat([earlier[~same], rows], ignore_index=True)
    rows.to_csv(path, index=False, lineterminator="\n")


def main() -> None:
    """Calibrate and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--simulations", type=int, default=100)
    parser.add_argument("--specs", default="additive,crossed")
    parser.add_argument("--priors", default="fixed,scaled")
    parser.add_argument("--draws", type=int, default=None)
    parser.add_argument("--tune", type=int, default=None)
    parser.add_argument("--jobs", type=int, default=None)
    parser.add_argument("--work", type=Path, default=None)
    asked = parser.parse_args()
    said = provenance()
    for spec in asked.specs.split(","):
        for priors in asked.priors.split(","):
            begun = time.perf_counter()
            with tempfile.TemporaryDirectory() as folder:
                result = calibrate(
                    spec,
                    like=table(spec, Path(folder)),
                    simulations=asked.simulations,
                    priors=priors,
                    draws=asked.draws,
                    tune=asked.tune,
                    jobs=asked.jobs,
                    work=asked.work,
                    progress=True,
                )
            print(result)
            seconds = time.perf_counter() - begun
            counts = result.statuses["status"].value_counts().to_dict()
            about = {"spec": spec, "engine": result.run["fitted_with"], "priors": priors}
            failures = {
                "gates_failed": counts.get("gate failed", 0),
                "not_fitted": counts.get("not fitted", 0),
                "seconds": round(seconds, 1),
            }
            store(OUT, result.table.assign(**about, **failures, **said))
            store(RANKS, curves(result).assign(**about, **said))


if __name__ == "__main__":
    main()
