"""Are known parameters recovered? Coverage of 95 % intervals over simulated tables.

    python perf/recovery.py [--tables 300] [--engine marginal] [--jobs 2]

Tables are drawn from `additive` and `crossed` with known truth, all of one shape,
each fitted by the public `fit`, and every interval is asked whether it holds the
truth: standard deviations, language potentials (means over the models at hand), and the
scores of the models on the common pairs. A coverage outside 90-99 % ends with exit code 1.
"""

from __future__ import annotations

import argparse
import multiprocessing
import time
from collections import defaultdict
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import Any

import numpy as np

from bayeseval import names
from bayeseval.fitting.run import fit
from bayeseval.simulation import simulate
from bayeseval.spec import load_spec

SDS = {"sd_language": 6.0, "sd_task": 8.0, "sd_language_task": 4.0}
SHAPE: dict[str, Any] = {"n_languages": 14, "n_tasks": 8, "n_models": 10, "observed_share": 0.5}
LIMITS = (0.90, 0.99)


def covered(spec: str, seed: int, engine: str) -> dict[str, list[bool]]:
    """Whether each 95 % interval of one simulated table holds the truth."""
    known = {names.sd_name(term) for term in load_spec(spec).terms}
    sds = {name: sd for name, sd in SDS.items() if name in known}
    drawn = simulate(spec, seed=seed, pattern_seed=0, sds=sds, **SHAPE)
    result = fit(drawn.records, spec, engine=engine, seed=seed)
    answers: dict[str, list[bool]] = defaultdict(list)
    answers["gate"].append(result.gate.status == "pass")

    components = result.components(detail=True).set_index("component")
    for component in components.index:
        truth = drawn.truth[f"sd_{component.replace(':', '_')}"]
        row = components.loc[component]
        answers["sds"].append(bool(row["sd_lower"] <= truth <= row["sd_upper"]))

    potential = result.potential(detail=True).set_index("language")
    potentials = drawn.expected.mean(axis=(1, 2))
    for label, truth in zip(drawn.records.coords["language"], potentials, strict=True):
        row = potential.loc[label]
        answers["potentials"].append(
            bool(row["potential_lower"] <= truth <= row["potential_upper"])
        )

    asked = np.zeros(drawn.potential.shape, dtype=bool)
    asked[drawn.records.codes("language"), drawn.records.codes("task")] = True
    scores = drawn.expected[asked].mean(axis=0)
    ranking = result.ranking(detail=True).set_index("model")
    for label, truth in zip(drawn.records.coords["model"], scores, strict=True):
        row = ranking.loc[label]
        answers["scores"].append(bool(row["score_lower"] <= truth <= row["score_upper"]))
    return answers


def main() -> int:
    """Print coverages; 1 when one is outside the limits."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, default=300)
    parser.add_argument("--engine", default="marginal")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--specs", default="additive,crossed")
    asked = parser.parse_args()
    outside = False
    print(f"{'spec':12}{'quantity':12}{'covered':>9}{'of':>7}{'share':>8}{'se':>8}")
    # JAX's threads do not survive a fork.
    spawn = multiprocessing.get_context("spawn")
    for spec in asked.specs.split(","):
        begun = time.perf_counter()
        one = partial(covered, spec, engine=asked.engine)
        with ProcessPoolExecutor(asked.jobs, mp_context=spawn) as pool:
            runs = list(pool.map(one, range(asked.tables)))
        for quantity in ("gate", "sds", "potentials", "scores"):
            answers = np.concatenate([run[quantity] for run in runs])
            share = answers.mean()
            # Intervals of one table share its errors, so the table is the unit.
            error = np.std([np.mean(run[quantity]) for run in runs], ddof=1) / len(runs) ** 0.5
            outside |= (
                quantity in ("sds", "potentials", "scores") and not LIMITS[0] <= share <= LIMITS[1]
            )
            print(
                f"{spec:12}{quantity:12}{answers.sum():9d}{len(answers):7d}{share:8.3f}{error:8.3f}"
            )
        print(f"{spec:12}{asked.tables} tables in {time.perf_counter() - begun:.0f} s")
    return int(outside)


if __name__ == "__main__":
    raise SystemExit(main())
