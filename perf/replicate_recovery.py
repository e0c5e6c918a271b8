"""Coverage of known seed, test-set and between-language sds by fits to replicates.

    python perf/replicate_recovery.py [--tables 200] [--jobs 2] [--forms balanced,...]

Tables of 4 models on 8 languages with known sds are drawn by `simulate` and fitted by
the engine `numpyro` in three forms: `balanced` (4 seeds x 20 bootstrapped test sets in
every cell), `unbalanced` (a quarter of the pairs missing) and `summarised` (the score, the
sd of the seeds on one test set and the sd of one seed's bootstrapped test sets, with
their numbers). Every 95 % interval is asked whether it holds the truth. A coverage
outside 92-98 % ends with exit code 1.
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
import numpy.typing as npt
import pandas as pd

from bayeseval import names
from bayeseval.design import build_design
from bayeseval.engines import SamplerSettings, load_engine
from bayeseval.engines.base import to_tree
from bayeseval.estimands import derive
from bayeseval.records import Records
from bayeseval.simulation import Simulation, simulate
from bayeseval.spec import load_spec

SHAPE: dict[str, Any] = {"n_languages": 8, "n_tasks": 1, "n_models": 4, "observed_share": 1.0}
SEEDS, BOOTS = 4, 20
SDS = {"sd_language": 6.0, "sd_residual": 4.0, "sd_model": 8.0}
NOISE = {"sd_seed_model": 1.0, "sd_boot_model": 1.2, "sd_seed_boot_model": 0.5}
SPREAD = {"sd_log_seed": 0.3, "sd_log_boot": 0.3, "sd_log_seed_boot": 0.3}
FORMS = ("balanced", "unbalanced", "summarised")
LIMITS = (0.92, 0.98)


def summarised(seed: int) -> tuple[Simulation, Records]:
    """Seeds on the test set at hand and one seed's bootstraps, each as one sd."""
    sds = {k: v for k, v in (SDS | NOISE | SPREAD).items() if "seed_boot" not in k}
    # No product: the seed sd and the boot sd of a summary hold it both, as one sd each.
    # A published score stands on the test set itself: the mean of very many bootstraps.
    drawn = simulate(
        "additive", seed=seed, sds=sds | {"sd_seed_boot_model": 0.0}, n_seeds=SEEDS,
        n_boot=10 * BOOTS, **SHAPE,
    )  # fmt: skip
    rows = drawn.records.table
    keys = list(names.FACTORS)
    table = rows.groupby(keys, observed=True)["score"].mean().reset_index()
    boot = rows["boot"].astype(str).astype(int)
    at_hand = {"seed": rows[boot == 0], "boot": rows[boot < BOOTS]}
    for source, own in at_hand.items():
        means = own.groupby([*keys, source], observed=True)["score"].mean()
        sds_of = means.groupby(level=keys, observed=True).std().rename(f"{source}_sd")
        table = table.merge(sds_of.reset_index(), on=keys)
    table = table.assign(n_seeds=SEEDS, n_boot=BOOTS)
    return drawn, Records.from_frame(pd.DataFrame(table), name="summarised")


def table_of(form: str, seed: int) -> tuple[Simulation, Records]:
    """One simulated table in one form."""
    if form == "summarised":
        return summarised(seed)
    drop = 0.25 if form == "unbalanced" else 0.0
    drawn = simulate(
        "additive", seed=seed, sds=SDS | NOISE | SPREAD, n_seeds=SEEDS, n_boot=BOOTS,
        drop_share=drop, **SHAPE,
    )  # fmt: skip
    return drawn, drawn.records


def covered(form: str, seed: int, *, draws: int) -> dict[str, list[bool]]:
    """Whether each 95 % interval of one simulated table holds the truth."""
    drawn, records = table_of(form, seed)
    design = build_design(records, load_spec("additive"))
    settings = SamplerSettings(draws=draws, tune=draws, chains=1, seed=seed)
    found = load_engine("numpyro")(design, settings)
    tree = to_tree(design, found, engine="numpyro")
    additions, cells = derive(tree, seed=seed)
    at = tuple(design.factor_index[f] for f in names.FACTORS)
    mean = np.asarray(drawn.truth["cell_mean"])
    answers: dict[str, list[bool]] = defaultdict(list)

    def ask(what: str, values: object, truth: npt.ArrayLike) -> None:
        flat = np.asarray(values).reshape(draws, -1)
        low, high = np.quantile(flat, [0.025, 0.975], axis=0)
        answers[what] += list(map(bool, np.ravel((low <= truth) & (truth <= high))))

    for source in design.sources:
        name = source.name
        typical, spread = names.source_model_sd(name), names.source_log_sd(name)
        truth = np.asarray(drawn.truth[names.source_cell_sd(name)])
        ask(typical, found.posterior[typical], np.full(SHAPE["n_models"], drawn.truth[typical]))
        ask(spread, found.posterior[spread], np.asarray(drawn.truth[spread]))
        cell = names.source_cell_sd(name)
        ask(cell, found.posterior[cell], truth[at][source.record])
        by_model = np.sqrt((truth**2).mean(axis=(0, 1)))
        ask(f"{name}_sd (rms)", additions[f"{name}_sd"], by_model)
    ask("sd_residual", found.posterior["sd_residual"], np.asarray(drawn.truth["sd_residual"]))
    ask("between (at hand)", additions["between_sd"], mean[:, 0].std(axis=0, ddof=1))
    population = np.hypot(SDS["sd_language"], SDS["sd_residual"])
    ask(
        "between (population)",
        additions["between_sd_population"],
        np.full(SHAPE["n_models"], population),
    )
    ask("cell means", cells["cell_mean"], mean[at])
    ask("arithmetic mean", additions["arithmetic_mean"], mean[:, 0].mean(axis=0))
    return answers


def main() -> int:
    """Print coverages; 1 when one is outside the limits."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, default=200)
    parser.add_argument("--draws", type=int, default=500)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--forms", default=",".join(FORMS))
    asked = parser.parse_args()
    outside = False
    print(f"{'form':12}{'quantity':22}{'covered':>9}{'of':>7}{'share':>8}{'se':>8}", flush=True)
    # JAX's threads do not survive a fork.
    spawn = multiprocessing.get_context("spawn")
    for form in asked.forms.split(","):
        begun = time.perf_counter()
        with ProcessPoolExecutor(asked.jobs, mp_context=spawn) as pool:
            runs = list(pool.map(partial(covered, form, draws=asked.draws), range(asked.tables)))
        for quantity in runs[0]:
            answers = np.concatenate([run[quantity] for run in runs])
            share = answers.mean()
            # Intervals of one table share its errors, so the table is the unit.
            error = np.std([np.mean(run[quantity]) for run in runs], ddof=1) / len(runs) ** 0.5
            outside |= not LIMITS[0] <= share <= LIMITS[1]
            print(
                f"{form:12}{quantity:22}{answers.sum():9d}{len(answers):7d}{share:8.3f}{error:8.3f}"
            )
        print(f"{form:12}{asked.tables} tables in {time.perf_counter() - begun:.0f} s", flush=True)
    return int(outside)


if __name__ == "__main__":
    raise SystemExit(main())
