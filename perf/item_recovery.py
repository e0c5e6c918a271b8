"""Sds of one run and of the mean of five runs, from simulated items, against exact values.

    python -m perf.item_recovery [--tables 12] [--forms boots,items,summaries,old] [--cells 2,8,32]

Two models with five seeds on test sets of 400 items, right or wrong by run
(`tests/simulated_items.py`), fitted by the engine `numpyro` in one of these forms:
`boots` (20 bootstraps of the test set, shared by seeds and models), `items`, `summaries`
(means, the sd of the seeds, the boot sd of one seed) and `old` (as `boots`, with the
seeds' mean square taken as sigma^2 + omega^2 / B). Printed is the posterior mean of
the root mean square over a model's cells, over its exact value.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pandas as pd

from bayeseval import names
from bayeseval.design import Design, build_design
from bayeseval.engines import SamplerSettings, load_engine
from bayeseval.spec import load_spec
from tests.simulated_items import ItemBench, records_of

Floats = npt.NDArray[np.float64]

FORMS = ("boots", "items", "summaries", "old")
BOOTS = 20
DRAWS = 400


def table(bench: ItemBench, form: str, answers: Floats, rng: np.random.Generator) -> pd.DataFrame:
    """The answers in one form."""
    if form == "items":
        return bench.rows_by_item(answers)
    if form == "summaries":
        return bench.summaries(answers, BOOTS, rng)
    return bench.rows_by_boot(answers, BOOTS, rng)


def prepared(design: Design, form: str) -> Design:
    """One parametrisation for all tables, which compiles once; `old` with the old weight."""
    assert design.replicates is not None
    sources = tuple(replace(s, centred=s.name != "seed") for s in design.sources)
    weight = dict(design.replicates.weight)
    if form == "old":
        seeds = weight["seed"] > 0.0
        weight["seed_boot"] = np.where(seeds, 1.0 / BOOTS, weight["seed_boot"])
    return replace(design, replicates=replace(design.replicates, sources=sources, weight=weight))


def ratios(form: str, cells: int, seed: int) -> Floats:
    """Of one run and of five, by model; shape (2, 2)."""
    bench, rng = ItemBench(n_languages=cells), np.random.default_rng(seed)
    ability = bench.ability(rng)
    frame = table(bench, form, bench.answers(ability, rng), rng)
    design = prepared(build_design(records_of(frame), load_spec("additive")), form)
    settings = SamplerSettings(draws=DRAWS, tune=DRAWS, chains=1, seed=seed)
    posterior = load_engine("numpyro")(design, settings).posterior
    part = {}
    for source in names.SOURCES:
        variance = np.zeros((DRAWS, design.n_records))
        known = design.known_sds.get(source)
        if known is not None:
            variance += np.nan_to_num(known) ** 2
        if source in {s.name for s in design.sources}:
            variance += posterior[names.source_cell_sd(source)][0] ** 2
        part[source] = variance
    exact = bench.variances(ability)
    found = []
    for five in (False, True):
        share = 1.0 / bench.n_seeds if five else 1.0
        total = share * (part["seed"] + part["seed_boot"]) + part["boot"]
        true = (share * (exact["seed"] + exact["seed_boot"]) + exact["boot"]).mean(axis=1)
        own = [total[:, design.factor_index["model"] == m].mean(axis=1) for m in (0, 1)]
        found.append([np.sqrt(o).mean() / np.sqrt(t) for o, t in zip(own, true, strict=True)])
    return np.array(found)


def main() -> int:
    """Print a line per form and number of cells."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, default=12)
    parser.add_argument("--forms", default=",".join(FORMS))
    parser.add_argument("--cells", default="2,8,32")
    asked = parser.parse_args()
    print(f"{'form':12}{'cells':>6}{'one run':>10}{'se':>8}{'five':>8}{'se':>8}", flush=True)
    for form in asked.forms.split(","):
        for cells in map(int, asked.cells.split(",")):
            begun = time.perf_counter()
            found = np.array([ratios(form, cells, seed) for seed in range(asked.tables)])
            by_table = found.mean(axis=2)
            mean, se = by_table.mean(axis=0), by_table.std(axis=0, ddof=1) / asked.tables**0.5
            print(
                f"{form:12}{cells:6d}{mean[0]:10.3f}{se[0]:8.3f}{mean[1]:8.3f}{se[1]:8.3f}"
                f"   {time.perf_counter() - begun:.0f} s",
                flush=True,
            )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
