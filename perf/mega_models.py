"""What `bayeseval compare` finds on MEGA, for the pages: `python perf/mega_models.py`.

The shipped models of normal likelihood are fitted with the default settings and seed 0, and
compared by leaving out one record at a time. One row per model is written to
perf/results/mega_models.csv: elpds, plain PSIS beside them, log marginal likelihoods and
standard deviations.
"""

from __future__ import annotations

from typing import Any

from measure import provenance, write_csv

import bayeseval as be

MODELS = ("additive", "interaction", "crossed", "dataset")


def main() -> None:
    """Fit, compare and write."""
    said = provenance()
    records = be.load("mega")
    fits = {name: be.fit(records, name, seed=0) for name in MODELS}
    comparison = be.compare(records, list(MODELS), fits=fits, seed=0)
    table = comparison.tables["comparison"].set_index("spec")
    routes = comparison.tables["routes"].set_index("spec")
    rows: list[dict[str, Any]] = []
    for name, fit in fits.items():
        row: dict[str, Any] = {"spec": name}
        row.update({str(key): value for key, value in table.loc[name].items()})
        row.update({f"route_{key}": value for key, value in routes.loc[name].items()})
        row["log_marginal"] = fit.data["posterior"].attrs.get("log_marginal_likelihood")
        for _, part in fit.components(detail=True).iterrows():
            for column in ("mean", "lower", "upper"):
                row[f"sd {part['component']} {column}"] = part[f"sd_{column}"]
        rows.append(row)
    write_csv("mega_models", rows, said, digits=6)


if __name__ == "__main__":
    main()
