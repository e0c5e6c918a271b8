"""Do bounded likelihoods recover known parameters? Coverage of 95 % intervals.

    python perf/likelihood_recovery.py [--tables 200] [--likelihoods binomial,beta,logit_normal]

Small tables of one shape are drawn with known truth, each fitted by the public `fit`, and
every interval is asked whether it holds the truth: the sds of effects and noise, the
language potentials (the expected score of a model drawn from the population, over all
tasks) and those of pairs. Every draw of a potential has to lie inside the bounds.
NumPyro compiles one program for all tables of a likelihood; `logit_normal` is fitted by the
marginal engine. A coverage outside 92-98 % ends with exit code 1.
"""

from __future__ import annotations

import argparse
import time
from collections import defaultdict
from typing import Any

import numpy as np

from bayeseval import names
from bayeseval.fitting.run import Fit, fit
from bayeseval.simulation import Simulation, simulate
from bayeseval.spec import ModelSpec, load_spec

SHAPE: dict[str, Any] = {"n_languages": 12, "n_tasks": 6, "n_models": 8, "observed_share": 0.5}
LIMITS = (0.92, 0.98)


def spec_of(likelihood: str) -> ModelSpec:
    """Additive, in one form whatever the table, so that all tables share a program."""
    return load_spec(
        {
            "name": f"{likelihood}-recovery",
            "likelihood": likelihood,
            "centring": dict.fromkeys(names.FACTORS, "centred"),
        }
    )


def covered(drawn: Simulation, result: Fit) -> dict[str, list[bool]]:
    """Whether each 95 % interval of one fit holds the truth."""
    posterior = result.data["posterior"].to_dataset()
    answers: dict[str, list[bool]] = defaultdict(list)
    answers["gate"].append(result.gate.status == "pass")
    for name, truth in drawn.truth.items():
        if name in posterior and name.startswith(("sd_", "dispersion_")):
            lower, upper = np.quantile(posterior[name], [0.025, 0.975])
            answers["sds"].append(bool(lower <= float(truth) <= upper))

    levels = ("chain", "draw")
    language = posterior[names.LANGUAGE_POTENTIAL]
    pair = result.data["estimands"].to_dataset()["potential"]
    rows = drawn.records.table
    keys = [names.cell_label(*pair) for pair in zip(rows["language"], rows["task"], strict=True)]
    codes = (drawn.records.codes(factor) for factor in ("language", "task"))
    true = dict(zip(keys, drawn.potential[tuple(codes)], strict=True))
    pair_truth = [true[str(label)] for label in pair["language_task"].to_numpy()]
    for what, values, truths in (
        ("potentials", language, drawn.language_potential),
        ("pairs", pair, np.array(pair_truth)),
    ):
        lower, upper = (values.quantile(q, dim=levels).to_numpy() for q in (0.025, 0.975))
        answers[what] += ((lower <= truths) & (truths <= upper)).tolist()
        inside = (values > 0.0).all() & (values < 100.0).all()
        answers["inside the bounds"].append(bool(inside))
    return answers


def report(likelihood: str, runs: list[dict[str, list[bool]]]) -> bool:
    """Print shares of yes; True when one is outside the limits."""
    outside = False
    for quantity in runs[0]:
        answers = np.concatenate([run[quantity] for run in runs])
        share = answers.mean()
        # Intervals of one table share its errors, so the table is the unit.
        error = np.std([np.mean(run[quantity]) for run in runs], ddof=1) / len(runs) ** 0.5
        if quantity in ("sds", "potentials", "pairs"):
            outside |= not LIMITS[0] <= share <= LIMITS[1]
        if quantity == "inside the bounds":
            outside |= not answers.all()
        print(
            f"{likelihood:14}{quantity:18}{answers.sum():7d}{len(answers):7d}{share:8.3f}"
            f"{error:8.3f}",
            flush=True,
        )
    return outside


def main() -> int:
    """Print coverages; 1 when one is outside the limits."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, default=200)
    parser.add_argument("--likelihoods", default="binomial,beta,logit_normal")
    asked = parser.parse_args()
    outside = False
    print(f"{'likelihood':14}{'quantity':18}{'yes':>7}{'of':>7}{'share':>8}{'se':>8}")
    for likelihood in asked.likelihoods.split(","):
        spec, begun = spec_of(likelihood), time.perf_counter()
        runs: list[dict[str, list[bool]]] = []
        settings: dict[str, Any] = {"tune": 400, "chains": 2}
        if likelihood == "logit_normal":  # the marginal engine has no warm-up
            settings = {}
        for seed in range(asked.tables):
            drawn = simulate(spec, seed=seed, pattern_seed=0, **SHAPE)
            if seed and seed % 20 == 0:
                print(f"so far, {seed} tables in {time.perf_counter() - begun:.0f} s:")
                report(likelihood, runs)
            runs.append(covered(drawn, fit(drawn.records, spec, draws=500, seed=seed, **settings)))
        outside |= report(likelihood, runs)
        print(f"{likelihood:14}{asked.tables} tables in {time.perf_counter() - begun:.0f} s")
    return int(outside)


if __name__ == "__main__":
    raise SystemExit(main())
