"""Coverage of differences between models if prompts are read as seeds: a negative control.

    python perf/prompts_as_seeds.py [--tables 60]

Tables of 5 models on 12 languages and 2 tasks with 4 prompts, the same ones for all models, are
drawn by `simulate`. In `shared` a prompt does the same to all models of a task, in `by_model` it
does so to one model in all languages. They are fitted with the prompts as seeds and the sds
between them taken as known (`pool: false`, engine `marginal`): noise that every cell has for
itself. ``perf/results/prompts_as_seeds.csv`` has one row for each kind of noise: how many of the
95 % intervals of differences between two models contain the true one, with a standard error
between tables, and the mean width of the intervals.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import pandas as pd
from measure import RESULTS, provenance

import bayeseval as be
from bayeseval.estimands.frames import draws_of

SHAPE: Final[Mapping[str, Any]] = {
    "n_languages": 12,
    "n_tasks": 2,
    "n_models": 5,
    "observed_share": 1.0,
}
PROMPTS: Final = 4
SDS: Final = {"sd_residual": 1.0, "sd_model": 5.0, "sd_prompt_language_task": 0.5}
KINDS: Final[Mapping[str, Mapping[str, float]]] = {
    "shared": {"sd_prompt_task": 6.0, "sd_prompt_model_task": 0.1},
    "by_model": {"sd_prompt_task": 0.1, "sd_prompt_model_task": 3.0},
}
SPEC: Final = {"name": "as_seeds", "replicates": {"pool": False}}


def one_table(kind: str, seed: int) -> tuple[float, float]:
    """Share of the intervals of one table that hold the true difference, and their width."""
    sds = SDS | {"sd_prompt_model": 0.5} | dict(KINDS[kind])
    drawn = be.simulate("additive", seed=seed, sds=sds, n_prompts=PROMPTS, **SHAPE)
    records = be.Records.from_frame(
        drawn.records.table, columns={"seed": "prompt"}, mixed_scales="allow"
    )
    fit = be.fit(records, SPEC, engine="marginal", draws=500, chains=2, seed=seed)
    scores = draws_of(fit.data["posterior"].to_dataset()["standardised_score"])
    truth = drawn.expected.mean(axis=(0, 1))
    a, b = np.triu_indices(len(truth), k=1)
    lower, upper = np.quantile(scores[:, a] - scores[:, b], [0.025, 0.975], axis=0)
    true = truth[a] - truth[b]
    return float(np.mean((lower <= true) & (true <= upper))), float(np.mean(upper - lower))


def main() -> None:
    """Draw, fit and count."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, default=60)
    asked = parser.parse_args()
    said = provenance()
    rows = []
    for kind in KINDS:
        found = np.array([one_table(kind, seed) for seed in range(asked.tables)])
        error = found[:, 0].std(ddof=1) / np.sqrt(len(found))
        rows.append(
            {
                "noise": kind,
                "tables": asked.tables,
                "coverage_95": round(found[:, 0].mean(), 4),
                "standard_error": round(error, 4),
                "mean_width": round(found[:, 1].mean(), 3),
            }
        )
        print(rows[-1], flush=True)
    table = pd.DataFrame(rows).assign(**said)
    table.to_csv(RESULTS / "prompts_as_seeds.csv", index=False, lineterminator="\n")


if __name__ == "__main__":
    main()
