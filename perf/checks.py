"""How often the checks warn of a table that the model fits: `python perf/checks.py [TABLES]`.

Tables of 10 languages, 6 tasks (two metrics for each of three datasets) and 6 models are
drawn from `additive`, `crossed` and `dataset`, and fitted with the same model by the engine
`marginal`. Printed by check: the share of tables that pass, warn and fail. A p-value below
0.025 warns, below 0.005 fails; a mean p-value over draws stays below these shares. The
negative control are tables of `dataset`, whose metrics share an effect of sd 12 beside
residuals of sd 6 (on MEGA: 6.2 and 2.3), fitted with `crossed`: `independence` has to see it.
"""

from __future__ import annotations

import sys
import warnings

import pandas as pd

from bayeseval import fit
from bayeseval.simulation import simulate


def outcomes(drawn_from: str, fitted_with: str, tables: int) -> pd.DataFrame:
    """Status of every check (column) of every table (row)."""
    rows = []
    sds = {"sd_model_language_dataset": 12.0} if drawn_from == "dataset" else {}
    for seed in range(tables):
        table = simulate(
            drawn_from, n_languages=10, n_tasks=6, n_models=6, n_metrics=2, sds=sds, seed=seed
        ).records
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            checks = fit(table, fitted_with, seed=seed, draws=250).checks()
        rows.append(checks.table.set_index("check")["status"])
    return pd.DataFrame(rows)


def main(tables: int) -> None:
    """Print the shares."""
    same = ("additive", "crossed", "dataset")
    for drawn_from, fitted_with in (*((name, name) for name in same), ("dataset", "crossed")):
        found = outcomes(drawn_from, fitted_with, tables)
        shares = pd.DataFrame(
            {status: (found == status).mean() for status in ("pass", "warn", "fail")}
        )
        print(f"tables of {drawn_from} fitted with {fitted_with}: {tables}")
        print(shares.round(3).to_string(), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100)
