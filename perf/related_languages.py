"""Forecasts of left-out languages of MEGA by what is known of them, for docs/forecast.md.

`python perf/related_languages.py`: every language with records is left out in turn, the model is
refitted without it and the language is forecast, with main effects and what each row says.
"""

from __future__ import annotations

from typing import Any

from measure import print_table, provenance, write_csv

import bayeseval as be
from bayeseval.design import build_design
from bayeseval.fitting.covariates import find_covariates
from bayeseval.forecasting.check import check_forecasts
from bayeseval.spec import load_spec

_MEXA: dict[str, Any] = {"covariates": ["mexa"]}
_PLACE: dict[str, Any] = {"place": "1000 km"}
_SCRIPT: dict[str, Any] = {"script": True}
_FAMILY: dict[str, Any] = {"family": "glottolog"}
KNOWN: dict[str, dict[str, Any]] = {
    "MEXA": _MEXA,
    "MEXA, place": _MEXA | {"languages": _PLACE},
    "MEXA, place, script (`related`)": _MEXA | {"languages": _PLACE | _SCRIPT},
    "MEXA, place, family, script": _MEXA | {"languages": _PLACE | _FAMILY | _SCRIPT},
    "place, family, script": {"languages": _PLACE | _FAMILY | _SCRIPT},
}


def main() -> None:
    """Leave out, forecast, print and write."""
    said = provenance()
    records = be.load("mega")
    rows = []
    for known, parts in KNOWN.items():
        spec = load_spec({"name": "forecast", **parts})
        design = build_design(records, spec, find_covariates(records, spec))
        check = check_forecasts(design)
        for with_it, part in check.groupby("with_covariate", sort=False):
            if with_it or known == "MEXA":
                rows.append({"known": known if with_it else "nothing", **_accuracy(part)})
    order = ["nothing", *KNOWN]
    rows.sort(key=lambda row: order.index(str(row["known"])))
    print_table(rows)
    write_csv("related_languages", rows, said, digits=6)


def _accuracy(part: Any) -> dict[str, Any]:
    return {
        "languages": len(part),
        "rmse": float((part["error"] ** 2).mean() ** 0.5),
        "crps": float(part["crps"].mean()),
        "covered 90": int(part["covered_90"].sum()),
        "covered 95": int(part["covered_95"].sum()),
        "elpd": float(part["elpd"].sum()),
    }


if __name__ == "__main__":
    main()
