"""Choice of models: `compare` picks the one that made the data, or says that it cannot tell.

    python perf/model_choice.py [--tables 100] [--models additive,interaction,crossed] [--by record]
                                [--draws 250]

For each of `additive`, `interaction` and `crossed`, with normal and with Student-t noise,
tables of one shape are drawn from known truth and the three models (normal likelihood,
engine `marginal`) are compared by the public `compare`. A table is answered well when the
verdict names the model that made it or says "No clear winner". 4 chains of 250 draws stand
in for the usual 1000: draws of the engine `marginal` are nearly independent. Counts per
cell are printed and written to perf/results/model_choice.csv; fewer than 95 of 100 in a
cell end with exit code 1.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import pandas as pd
from measure import provenance, write_csv

from bayeseval.comparison import compare
from bayeseval.fitting.run import fit
from bayeseval.simulation import simulate
from bayeseval.spec import ModelSpec, load_spec

SHAPE: dict[str, Any] = {"n_languages": 12, "n_tasks": 5, "n_models": 6, "observed_share": 0.6}
LEAST = 0.95
# Three degrees of freedom: one score in 40 is more than three scales off, as on MEGA.
NU = 3.0


def truth(name: str, noise: str) -> tuple[ModelSpec, dict[str, float]]:
    """Model that data are drawn from, and its sds where they are not the usual ones."""
    spec = load_spec(name)
    if noise == "normal":
        return spec, {}
    heavy = spec.to_dict() | {"name": f"{name}-heavy", "likelihood": "student_t"}
    # The scale that gives Student-t noise the sd of the normal noise, 6.
    return load_spec(heavy), {"nu": NU, "sd_residual": 6.0 * ((NU - 2.0) / NU) ** 0.5}


def answer(
    name: str, noise: str, models: list[str], by: Any, draws: int, seed: int
) -> dict[str, Any]:
    """What `compare` says of one table."""
    spec, sds = truth(name, noise)
    drawn = simulate(spec, sds=sds, seed=seed, pattern_seed=0, **SHAPE)
    fits = {
        one: fit(drawn.records, one, engine="marginal", draws=draws, seed=seed) for one in models
    }
    found = compare(drawn.records, models, by=by, engine="marginal", seed=seed, fits=fits)
    first, second = found.table.iloc[0], found.table.iloc[1]
    unclear = found.verdict[0].startswith("No clear winner")
    return {
        "truth": name,
        "noise": noise,
        "seed": seed,
        "answer": "unclear" if unclear else first["spec"],
        "best": first["spec"],
        "second": second["spec"],
        "lead": -second["elpd_diff"],
        "lead_se": second["diff_se"],
        "bad_k": int(found.table["n_bad_k"].max()),
        "gates": ",".join(sorted({one.gate.status for one in found.fits.values()})),
    }


def report(rows: pd.DataFrame) -> bool:
    """Print counts per cell; whether one falls short."""
    short = False
    for (noise, name), part in rows.groupby(["noise", "truth"], sort=False):
        right, unclear = (int((part["answer"] == said).sum()) for said in (name, "unclear"))
        wrong = len(part) - right - unclear
        short |= right + unclear < LEAST * len(part)
        print(
            f"{noise:10}{name:12} picked {right:3d}, no clear winner {unclear:3d}, "
            f"wrong {wrong:3d} of {len(part)}"
        )
    return short


def main() -> int:
    """Compare table by table, all cells in turn; 1 when one falls short."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, default=100)
    parser.add_argument("--models", default="additive,interaction,crossed")
    parser.add_argument("--by", default="record")
    parser.add_argument("--draws", type=int, default=250)
    asked = parser.parse_args()
    said = provenance()
    models = asked.models.split(",")
    rows: list[dict[str, Any]] = []
    begun = time.perf_counter()
    for seed in range(asked.tables):
        for noise in ("normal", "student_t"):
            for name in ("additive", "interaction", "crossed"):
                rows.append(answer(name, noise, models, asked.by, asked.draws, seed))
        # Written as it goes: a run that is stopped has told what it found.
        write_csv("model_choice", rows, said, digits=6)
    short = report(pd.DataFrame(rows))
    print(f"{len(rows)} tables in {time.perf_counter() - begun:.0f} s")
    return int(short)


if __name__ == "__main__":
    raise SystemExit(main())
