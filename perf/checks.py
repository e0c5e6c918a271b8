"""How often the checks warn of a table that the model fits.

    python perf/checks.py [--tables 200] [--pairs additive:additive,crossed:crossed,dataset:crossed]

Tables of 8 languages, 4 tasks (two metrics of each of two datasets) and 6 models, 80 % observed,
are drawn from the first model of a pair and fitted with the second, 250 draws in each of 4 chains;
those of `replicates` with 3 seeds on 3 bootstrapped test sets. Tables of models that need NUTS
have the same cells, so that JAX compiles once (with ``JAX_COMPILATION_CACHE_DIR`` set).

One row per pair and check goes to ``perf/results/checks.csv``, in the place of earlier rows of the
pair: how many tables it warned of or failed, as a share with a Clopper-Pearson interval, and
whether it has a p-value or a fixed limit. A p-value below 0.025 warns, below 0.005 fails; a mean
p-value over draws stays below these shares.

The negative control are tables of `dataset`, whose metrics share an effect of sd 12 beside
residuals of sd 6 (on MEGA: 6.2 and 2.3), fitted with `crossed`: `independence` has to see it.
"""

from __future__ import annotations

import argparse
import time
import warnings

import pandas as pd
from measure import RESULTS, provenance
from scipy.stats import binomtest

from bayeseval import fit
from bayeseval.simulation import simulate

OUT = RESULTS / "checks.csv"
NUTS = ("robust", "by_task", "counts", "bounded", "replicates")
N_REPLICATES = 3


def outcomes(drawn_from: str, fitted_with: str, tables: int) -> pd.DataFrame:
    """Status and p-value of every check of every table."""
    rows = []
    control = drawn_from != fitted_with
    sds = {"sd_model_language_dataset": 12.0} if control else {}
    for seed in range(tables):
        table = simulate(
            "additive" if drawn_from == "replicates" else drawn_from,
            n_languages=8,
            n_tasks=4,
            n_models=6,
            observed_share=0.8,
            n_metrics=2,
            sds=sds,
            seed=seed,
            pattern_seed=0 if drawn_from in NUTS else None,
            n_seeds=N_REPLICATES if drawn_from == "replicates" else 0,
            n_boot=N_REPLICATES if drawn_from == "replicates" else 0,
        ).records
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            checks = fit(table, fitted_with, seed=seed, draws=250).checks()
        rows.append(checks.table[["check", "status", "p"]].assign(table=seed))
        if seed % 20 == 19:
            print(f"{drawn_from} fitted with {fitted_with}: {seed + 1} of {tables}", flush=True)
    return pd.concat(rows, ignore_index=True)


def shares(found: pd.DataFrame) -> pd.DataFrame:
    """One row per check: how many tables it warned of or failed."""
    rows = []
    for check, own in found.groupby("check", sort=False):
        flagged = int(own["status"].isin(["warn", "fail"]).sum())
        interval = binomtest(flagged, len(own)).proportion_ci(0.95)
        rows.append(
            {
                "check": check,
                "limit": "p-value" if own["p"].notna().any() else "fixed",
                "tables": len(own),
                "flagged": flagged,
                "failed": int((own["status"] == "fail").sum()),
                "share": flagged / len(own),
                "lower": interval.low,
                "upper": interval.high,
            }
        )
    return pd.DataFrame(rows)


def main() -> None:
    """Write the shares of every pair."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, default=200)
    parser.add_argument("--pairs", default="additive:additive,crossed:crossed,dataset:crossed")
    asked = parser.parse_args()
    said = provenance()
    for pair in asked.pairs.split(","):
        drawn_from, fitted_with = pair.split(":")
        begun = time.perf_counter()
        rows = shares(outcomes(drawn_from, fitted_with, asked.tables))
        seconds = round(time.perf_counter() - begun, 1)
        rows = rows.assign(drawn_from=drawn_from, fitted_with=fitted_with, seconds=seconds, **said)
        print(rows.iloc[:, :8].to_string())
        if OUT.is_file():
            earlier = pd.read_csv(OUT)
            same = (earlier["drawn_from"] == drawn_from) & (earlier["fitted_with"] == fitted_with)
            rows = pd.concat([earlier[~same], rows], ignore_index=True)
        rows.to_csv(OUT, index=False, lineterminator="\n")


if __name__ == "__main__":
    main()
