"""Refits of MEGA without the ten largest residuals, for the page on checks.

    python perf/mega_outliers.py

`be.sensitivity` under `additive` and `crossed`, with the default settings and seed 0. One row
per model and quantity: rank correlation with the fit to all records, how many levels have
another median rank, and how many of the left-out records both models leave out.
"""

from __future__ import annotations

from typing import Any

from measure import print_table, provenance, write_csv

import bayeseval as be

MODELS = ("additive", "crossed")
DROP = 10


def main() -> None:
    """Refit, compare, print and write."""
    said = provenance()
    found = {
        model: be.sensitivity("mega", model, drop=[f"outliers={DROP}"], seed=0) for model in MODELS
    }
    record = ["model", "language", "task"]
    common = found["additive"].outliers.merge(found["crossed"].outliers, on=record)
    columns = ("quantity", "n_levels", "spearman", "kendall", "n_rank_changes", "moved")
    rows: list[dict[str, Any]] = [
        {
            "spec": model,
            **{column: row[column] for column in columns},
            "dropped": DROP,
            "dropped under both": len(common),
        }
        for model, result in found.items()
        for _, row in result.table.iterrows()
    ]
    print_table(rows)
    write_csv("mega_outliers", rows, said, digits=6)


if __name__ == "__main__":
    main()
