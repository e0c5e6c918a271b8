"""Leave-one-out in closed form against brute force: refits without what is left out.

    python perf/leave_one_out.py [--records 25] [--languages 5] [--models additive,crossed]

On MEGA, random records and languages. A refit is a run of the engine `marginal` on the
table without the record, and its estimate the mean of the record's density over the draws
of all effects; without a language, the mean of the joint density of its records over the
refit's standard deviations. `compare` takes neither way: it has the sds of the one fit to
all records. A difference beyond five Monte-Carlo errors (of both) and 0.02 ends with exit
code 1. Figures are written to perf/results/leave_one_out.csv.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import numpy.typing as npt
import pandas as pd
from measure import provenance, write_csv

from bayeseval import load
from bayeseval.comparison.scores import exact_elpd
from bayeseval.design import Design, build_design
from bayeseval.engines import SamplerSettings
from bayeseval.engines._evidence import without
from bayeseval.engines._leave_out import leave_out_log_density
from bayeseval.engines.base import pointwise_log_likelihood
from bayeseval.engines.marginal import sample
from bayeseval.fitting.run import fit
from bayeseval.spec import load_spec

Floats = npt.NDArray[np.float64]


def log_mean(log_density: Floats) -> tuple[float, float]:
    """Log of the mean of a density over four independent chains, and its error."""
    chains = np.log(np.exp(log_density).mean(axis=1))
    mean = np.exp(log_density).mean()
    return float(np.log(mean)), float(np.exp(chains).std(ddof=1) / mean / len(chains) ** 0.5)


def brute(design: Design, by: str, unit: int, seed: int) -> tuple[float, float]:
    """Log density of a left-out unit from a refit without it, and its Monte-Carlo error."""
    rest = without(design, by=by, unit=unit)  # type: ignore[arg-type]
    drawn = sample(rest, SamplerSettings(seed=seed, draws=1000)).posterior
    if by == "record":
        return log_mean(pointwise_log_likelihood(design, drawn)[..., unit])
    some = {name: values[:, ::5] for name, values in drawn.items()}
    return log_mean(leave_out_log_density(design, some, by=by)[..., unit])


def main() -> int:
    """Print differences; 1 when one is beyond its error."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=25)
    parser.add_argument("--languages", type=int, default=5)
    parser.add_argument("--models", default="additive,crossed")
    asked = parser.parse_args()
    said = provenance()
    table = load("mega")
    rng = np.random.default_rng(0)
    rows = []
    for model in asked.models.split(","):
        design = build_design(table, load_spec(model))
        fitted = fit(table, model, seed=0)
        for by, n in (("record", asked.records), ("language", asked.languages)):
            whole = design.n_records if by == "record" else len(design.coords[by])
            exact = exact_elpd(design, fitted, by)  # type: ignore[arg-type]
            begun = time.perf_counter()
            for unit in sorted(rng.choice(whole, n, replace=False).tolist()):
                value, error = brute(design, by, unit, seed=1000 + unit)
                rows.append(
                    {
                        "model": model,
                        "by": by,
                        "unit": unit,
                        "closed_form": exact[0][unit],
                        "k_hat": exact[1][unit],
                        "refit": value,
                        "refit_error": error,
                        "difference": exact[0][unit] - value,
                    }
                )
            part = pd.DataFrame([r for r in rows if r["model"] == model and r["by"] == by])
            print(
                f"{model:12}{by:10}{n:3d} refits: largest difference "
                f"{part['difference'].abs().max():.3f}, root mean square "
                f"{(part['difference'] ** 2).mean() ** 0.5:.3f}, Monte-Carlo error of a refit "
                f"{part['refit_error'].mean():.3f} ({time.perf_counter() - begun:.0f} s)",
                flush=True,
            )
    write_csv("leave_one_out", rows, said, digits=6)
    found = pd.DataFrame(rows)
    limit = 5.0 * found["refit_error"] + 0.02
    return int((found["difference"].abs() > limit).any())


if __name__ == "__main__":
    raise SystemExit(main())
