"""How often the checks warn of a table that the model fits: `python perf/checks.py [TABLES]`.

Tables of 10 languages, 4 tasks and 6 models are drawn from `additive` and `crossed` and
fitted with the same model by the engine `marginal`. Printed by check: the share of tables
that pass, warn and fail. A p-value below 0.025 warns, below 0.005 fails; a mean p-value over
draws stays below these shares.
"""

from __future__ import annotations

import sys
import warnings

import pandas as pd

from bayeseval import fit
from bayeseval.simulate import simulate


def outcomes(model: str, tables: int) -> pd.DataFrame:
    """Status of every check (column) of every table (row)."""
    rows = []
    for seed in range(tables):
        table = simulate(model, n_languages=10, n_tasks=4, n_models=6, seed=seed).records
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            checks = fit(table, model, seed=seed, draws=500).checks()
        rows.append(checks.table.set_index("check")["status"])
    return pd.DataFrame(rows)


def main(tables: int) -> None:
    """Print the shares."""
    for model in ("additive", "crossed"):
        found = outcomes(model, tables)
        shares = pd.DataFrame(
            {status: (found == status).mean() for status in ("pass", "warn", "fail")}
        )
        print(f"{model}, {tables} tables")
        print(shares.round(3).to_string())


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100)
