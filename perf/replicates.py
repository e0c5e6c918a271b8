"""Replicates: from a Parquet file of seeds and bootstrapped test sets to the posterior.

    python perf/replicates.py [--seeds 10] [--boots 100,1000] [--naive 20]

Six models on 61 datasets (the shape of an NER benchmark with ten seeds), every seed on
every bootstrapped test set: 366,000 rows, and ten times as many. Reading and fitting are
timed in a process of its own, whose peak memory is stated; the fit must not care how
many test sets there were. Limits: 60 s and 1.5 GB at 366,000 rows.

The naive way is a NumPyro model of the rows, with an effect for every seed and every test
set of every cell. It has tens of thousands of unknowns; what is compared is the time of
one gradient of the log density, and that of `--naive` iterations of NUTS.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np
from measure import child, print_machine, print_table, reply, write_csv

MODELS, DATASETS = 6, 61
SECONDS: Final = 60.0
MEBIBYTES: Final = 1536.0


def replicates(seeds: int, boots: int, seed: int) -> dict[str, np.ndarray]:
    """Columns of a complete table of replicates."""
    rng = np.random.default_rng(seed)
    shape = (MODELS, DATASETS, seeds, boots)
    mean = 75.0 + rng.normal(0.0, 6.0, (1, DATASETS)) + rng.normal(0.0, 4.0, (MODELS, 1))
    mean = mean + rng.normal(0.0, 2.0, (MODELS, DATASETS))
    sd_seed = 0.6 * np.exp(rng.normal(0.0, 0.3, (MODELS, DATASETS)))
    sd_boot = 1.2 * np.exp(rng.normal(0.0, 0.3, (MODELS, DATASETS)))
    score = mean[..., None, None] + 0.2 * rng.standard_normal(shape)
    score += sd_seed[..., None, None] * rng.standard_normal((*shape[:3], 1))
    score += sd_boot[..., None, None] * rng.standard_normal((*shape[:2], 1, boots))
    model, dataset, s, b = (a.reshape(-1) for a in np.indices(shape))
    return {"model": model, "language": dataset, "seed": s, "boot": b, "score": score.reshape(-1)}


def write(path: Path, seeds: int, boots: int) -> dict[str, Any]:
    """Write the table as Parquet (in a process of its own, as it takes memory)."""
    import pandas as pd

    table = pd.DataFrame(replicates(seeds, boots, seed=1))
    table["model"] = [f"model-{i}" for i in table["model"]]
    table["language"] = [f"set-{i:02d}" for i in table["language"]]
    table["task"] = "ner:f1"
    table.to_parquet(path)
    return {"rows": len(table)}


def ours(path: Path) -> dict[str, Any]:
    """Read and fit."""
    import bayeseval as be

    begun = time.perf_counter()
    records = be.load(path)
    read = time.perf_counter()
    fit = be.fit(records, "replicates", engine="numpyro", seed=0)
    done = time.perf_counter()
    worst = {check["name"]: check["value"] for check in fit.run["gate"]["checks"]}
    return {
        "rows": len(records),
        "read s": read - begun,
        "fit s": done - read,
        "total s": done - begun,
        "gate": fit.gate.status,
        "min bulk ESS": worst["ess_bulk"],
    }


def naive(seeds: int, boots: int, iterations: int) -> dict[str, Any]:
    """One gradient, and some iterations, of the model of all rows."""
    import jax
    import jax.numpy as jnp
    import numpyro
    import numpyro.distributions as dist
    from numpyro.infer import MCMC, NUTS
    from numpyro.infer.util import initialize_model

    jax.config.update("jax_enable_x64", True)
    table = replicates(seeds, boots, seed=1)
    cell = table["model"] * DATASETS + table["language"]
    by_seed, by_boot = cell * seeds + table["seed"], cell * boots + table["boot"]
    n_cells = MODELS * DATASETS

    def model(score: Any) -> None:
        centre = numpyro.sample("intercept", dist.Normal(75.0, 20.0))
        sds = {
            name: numpyro.sample(f"sd_{name}", dist.HalfNormal(8.0))
            for name in ("language", "model", "cell", "seed", "boot", "seed_boot")
        }
        language = numpyro.sample("language", dist.Normal(0, 1).expand([DATASETS]).to_event(1))
        of_model = numpyro.sample("model", dist.Normal(0, 1).expand([MODELS]).to_event(1))
        cells = numpyro.sample("cell", dist.Normal(0, 1).expand([n_cells]).to_event(1))
        e_seed = numpyro.sample("seed", dist.Normal(0, 1).expand([n_cells * seeds]).to_event(1))
        e_boot = numpyro.sample("boot", dist.Normal(0, 1).expand([n_cells * boots]).to_event(1))
        mean = centre + sds["cell"] * cells
        mean += jnp.tile(sds["language"] * language, MODELS)
        mean += jnp.repeat(sds["model"] * of_model, DATASETS)
        eta = mean[cell] + sds["seed"] * e_seed[by_seed] + sds["boot"] * e_boot[by_boot]
        numpyro.sample("score", dist.Normal(eta, sds["seed_boot"]).to_event(1), obs=score)

    score = jnp.asarray(table["score"])
    key = jax.random.PRNGKey(0)
    start, potential, *_ = initialize_model(key, model, model_args=(score,))
    gradient = jax.jit(jax.value_and_grad(potential))
    jax.block_until_ready(gradient(start.z))
    begun = time.perf_counter()
    for _ in range(20):
        jax.block_until_ready(gradient(start.z))
    per_gradient = (time.perf_counter() - begun) / 20
    sampler = MCMC(NUTS(model), num_warmup=iterations, num_samples=1, progress_bar=False)
    begun = time.perf_counter()
    sampler.run(key, score, extra_fields=("num_steps",))
    return {
        "unknowns": int(sum(np.size(value) for value in start.z.values())),
        "gradient ms": 1e3 * per_gradient,
        "iteration s": (time.perf_counter() - begun) / (iterations + 1),
    }


def our_gradient(path: Path) -> dict[str, Any]:
    """One gradient of the density with the rows reduced to cells."""
    import jax
    from numpyro.infer.util import initialize_model

    import bayeseval as be
    from bayeseval.design import build_design
    from bayeseval.engines._numpyro_density import data_of, joint_density, structure_of
    from bayeseval.spec import load_spec

    jax.config.update("jax_enable_x64", True)
    design = build_design(be.load(path), load_spec("replicates"))
    arguments = (structure_of(design), data_of(design))
    start, potential, *_ = initialize_model(
        jax.random.PRNGKey(0), joint_density, model_args=arguments
    )
    gradient = jax.jit(jax.value_and_grad(potential))
    jax.block_until_ready(gradient(start.z))
    begun = time.perf_counter()
    for _ in range(200):
        jax.block_until_ready(gradient(start.z))
    return {
        "unknowns": int(sum(np.size(value) for value in start.z.values())),
        "gradient ms": 1e3 * (time.perf_counter() - begun) / 200,
    }


def main() -> int:
    """Print the table; 1 when a limit is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--boots", default="100,1000")
    parser.add_argument("--naive", type=int, default=20)
    parser.add_argument("--child", type=json.loads, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.child:
        settings = dict(asked.child)
        what = settings.pop("what")
        if "path" in settings:
            settings["path"] = Path(settings["path"])
        ways: dict[str, Callable[..., dict[str, Any]]] = {
            "write": write,
            "ours": ours,
            "naive": naive,
            "gradient": our_gradient,
        }
        reply(ways[what](**settings))
        return 0

    said = print_machine()
    rows: list[dict[str, Any]] = []
    boots = [int(number) for number in asked.boots.split(",")]
    with tempfile.TemporaryDirectory() as folder:
        for number in boots:
            path = str(Path(folder) / f"boots-{number}.parquet")
            child(__file__, what="write", path=path, seeds=asked.seeds, boots=number)
            found = child(__file__, what="ours", path=path)
            rows.append({"way": "bayeseval", "boots": number, **found})
        path = str(Path(folder) / f"boots-{boots[0]}.parquet")
        reduced = child(__file__, what="gradient", path=path)
    raw = child(__file__, what="naive", seeds=asked.seeds, boots=boots[0], iterations=asked.naive)
    rows.append({"way": "density of the cells", "boots": boots[0], **reduced})
    rows.append({"way": "density of the rows", "boots": boots[0], **raw})
    columns = list(dict.fromkeys(key for row in rows for key in row))
    rows = [{key: row.get(key, "") for key in columns} for row in rows]
    print_table(rows)
    ratio = raw["gradient ms"] / reduced["gradient ms"]
    print(f"\none gradient of the rows / one of the cells: {ratio:.0f}")
    write_csv("replicates", rows, said)
    first = rows[0]
    return int(first["total s"] > SECONDS or first["memory_mib"] > MEBIBYTES)


if __name__ == "__main__":
    sys.exit(main())
