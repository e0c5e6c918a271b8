"""Effective draws per second: the marginal engine beside what users would otherwise run.

    python perf/ess_per_second.py [--models additive,crossed,dataset] [--draws 1000] [--repeats 1]

For every contestant the smallest bulk ESS over language, task and model effects and
all standard deviations of MEGA, over the wall time of the call that samples, its
compilation included. Every run is a process of its own; imports are stated apart, and
so is `setup s`, the time of the same call for a single draw: compilation and whatever
else does not grow with the draws. `CPU s` is the processor time of all cores, which
says more than wall time does where other work disturbs.

What is done so that the comparison is fair to the others:

- The target acceptance is 0.8, the libraries' own default; 0.9, which is ours, is
  slower.
- PyTensor keeps its compiled C code on disk. The single-draw run comes first, so the
  measured one finds that code there.
- `numpyro` is NumPyro as its tutorials use it; `our numpyro` is this package's engine, whose
  warm-up and parametrisation were worked on, and which is no peer but stands beside it.
- bambi, the slowest on `crossed`, is left out of `dataset`.
- Raw effects of bambi share their mean with its intercept and mix badly for it; its
  effects are centred draw by draw first, which is what ours are.
- Resampled points look independent to ArviZ when they are not, so the marginal engine
  gets the smaller of ArviZ's number and its importance ESS.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from typing import Any, Final

from measure import child, print_machine, print_table, reply, write_csv

OURS: Final = "marginal"
PYMC: Final = "pymc"
# Name: (engine, NUTS implementation, packages that it will need).
ENGINES: Final[dict[str, tuple[str, str | None, tuple[str, ...]]]] = {
    OURS: ("marginal", None, ("scipy.sparse", "scipy.linalg", "threadpoolctl")),
    "our numpyro": ("numpyro", None, ("jax", "numpyro.infer")),
    "nutpie": ("pymc", "nutpie", ("nutpie", "numba")),
    PYMC: ("pymc", "pymc", ("pymc",)),
}
FORMULAS: Final = {
    "additive": "score ~ (1|language) + (1|task) + (1|model)",
    "crossed": "score ~ (1|language) + (1|task) + (1|model)"
    " + (1|language:task) + (1|model:task) + (1|model:language)",
}
CONTESTANTS: Final = (*ENGINES, "numpyro", "bambi")
TARGET_ACCEPT: Final = 0.8


def cpu_seconds() -> float:
    """Processor time of this process and of those it has waited for."""
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


def by_engine(name: str, model: str, draws: int, tune: int, seed: int) -> dict[str, Any]:
    """One run of one of our engines."""
    from importlib import import_module

    begun = time.perf_counter()
    engine, nuts, packages = ENGINES[name]
    for package in packages:
        import_module(package)
    import arviz_stats

    from bayeseval import load, names
    from bayeseval.design import build_design
    from bayeseval.engines import SamplerSettings, load_engine, to_tree
    from bayeseval.spec import load_spec

    sample = load_engine(engine)
    imports = time.perf_counter() - begun

    design = build_design(load("mega"), load_spec(model))
    settings = SamplerSettings(
        draws=draws,
        chains=4,
        seed=seed,
        tune=None if engine == OURS else tune,
        target_accept=None if engine == OURS else TARGET_ACCEPT,
        nuts_sampler=nuts,
    )
    begun, busy = time.perf_counter(), cpu_seconds()
    result = sample(design, settings)
    answer: dict[str, Any] = {
        "import_s": imports,
        "seconds": time.perf_counter() - begun,
        "cpu_s": cpu_seconds() - busy,
    }
    if draws < 4:
        return answer
    posterior = to_tree(design, result, engine=engine)["posterior"].to_dataset()
    wanted = [names.effect_name(f) for f in names.FACTORS]
    wanted += [str(v) for v in posterior if str(v).startswith("sd_")]
    ess = arviz_stats.ess(posterior[wanted], sample_dims=["chain", "draw"], method="bulk")
    answer["ess_arviz"] = min(float(ess[v].min()) for v in wanted)
    answer["path"] = result.attrs.get("path", "nuts")
    if answer["path"] == "importance":
        answer["ess_importance"] = float(result.attrs["importance_ess"])
    stats = result.sample_stats
    answer["divergences"] = int(stats["diverging"].sum()) if "diverging" in stats else None
    return answer


def by_bambi(model: str, draws: int, tune: int, seed: int) -> dict[str, Any]:
    """One run of bambi with its own priors and its own way to write the effects."""
    begun = time.perf_counter()
    import arviz_stats
    import bambi

    from bayeseval import load
    from bayeseval._compat import to_datatree

    imports = time.perf_counter() - begun

    table = load("mega").table
    begun, busy = time.perf_counter(), cpu_seconds()
    fitted = bambi.Model(FORMULAS[model], table).fit(
        draws=draws,
        tune=tune,
        chains=4,
        random_seed=seed,
        target_accept=TARGET_ACCEPT,
        progressbar=False,
    )
    answer: dict[str, Any] = {
        "import_s": imports,
        "seconds": time.perf_counter() - begun,
        "cpu_s": cpu_seconds() - busy,
    }
    if draws < 4:
        return answer
    tree = to_datatree(fitted)
    posterior = tree["posterior"].to_dataset()
    worst = []
    for name in map(str, posterior):
        values = posterior[name]
        levels = [dim for dim in values.dims if dim not in ("chain", "draw")]
        main = name in {f"1|{factor}" for factor in ("language", "task", "model")}
        if main or name.endswith("_sigma") or name == "sigma":
            values = values - values.mean(levels) if main else values
            found = arviz_stats.ess(values, sample_dims=["chain", "draw"], method="bulk")
            worst.append(float(found.min()))
    answer["ess_arviz"] = min(worst)
    answer["path"] = "nuts"
    answer["divergences"] = int(tree["sample_stats"]["diverging"].sum())
    return answer


def by_numpyro(model: str, draws: int, tune: int, seed: int) -> dict[str, Any]:
    """One run of NumPyro as its tutorials use it: a model, NUTS and MCMC, a chain per device."""
    begun = time.perf_counter()
    import numpyro

    numpyro.set_host_device_count(4)
    numpyro.enable_x64()
    import arviz_stats
    import jax
    import jax.numpy as jnp
    import numpyro.distributions as dist
    import xarray as xr
    from numpyro.infer import MCMC, NUTS

    from bayeseval import load
    from bayeseval.design import build_design
    from bayeseval.spec import load_spec

    imports = time.perf_counter() - begun
    design = build_design(load("mega"), load_spec(model))
    spread, centre = float(design.score.std()), float(design.score.mean())

    def density(score: Any) -> None:
        eta = numpyro.sample("intercept", dist.Normal(centre, 2.5 * spread))
        for term in design.terms:
            sd = numpyro.sample(f"sd_{term.dim}", dist.HalfNormal(spread))
            levels = numpyro.sample(
                f"{term.dim}_effect", dist.Normal(0.0, sd).expand([term.n_levels]).to_event(1)
            )
            eta = eta + levels[term.index]
        noise = numpyro.sample("sd_residual", dist.HalfNormal(spread))
        numpyro.sample("score", dist.Normal(eta, noise).to_event(1), obs=score)

    begun, busy = time.perf_counter(), cpu_seconds()
    sampler = MCMC(
        NUTS(density, target_accept_prob=TARGET_ACCEPT),
        num_warmup=tune,
        num_samples=draws,
        num_chains=4,
        progress_bar=False,
    )
    sampler.run(jax.random.PRNGKey(seed), jnp.asarray(design.score), extra_fields=("diverging",))
    jax.block_until_ready(sampler.get_samples())
    answer: dict[str, Any] = {
        "import_s": imports,
        "seconds": time.perf_counter() - begun,
        "cpu_s": cpu_seconds() - busy,
    }
    if draws < 4:
        return answer
    worst = []
    for name, values in sampler.get_samples(group_by_chain=True).items():
        array = xr.DataArray(values, dims=["chain", "draw", "level"][: values.ndim])
        main = name in {f"{factor}_effect" for factor in ("language", "task", "model")}
        if main or name.startswith("sd_"):
            # Its effects share their mean with the intercept, as bambi's do.
            array = array - array.mean("level") if main else array
            found = arviz_stats.ess(array, sample_dims=["chain", "draw"], method="bulk")
            worst.append(float(found.min()))
    answer["ess_arviz"] = min(worst)
    answer["path"] = "nuts"
    answer["divergences"] = int(sampler.get_extra_fields()["diverging"].sum())
    return answer


def one(contestant: str, model: str, draws: int, tune: int, seed: int) -> dict[str, Any]:
    """Measure in this process."""
    if contestant == "bambi":
        return by_bambi(model, draws, tune, seed)
    if contestant == "numpyro":
        return by_numpyro(model, draws, tune, seed)
    return by_engine(contestant, model, draws, tune, seed)


def measured(contestant: str, model: str, *, draws: int, tune: int, seeds: range) -> dict[str, Any]:
    """The row of a contestant: medians over fresh processes."""
    brief = child(__file__, contestant=contestant, model=model, draws=1, tune=1, seed=0)
    runs = [
        child(__file__, contestant=contestant, model=model, draws=draws, tune=tune, seed=seed)
        for seed in seeds
    ]

    def median(key: str) -> float | None:
        values = [run[key] for run in runs if run.get(key) is not None]
        return statistics.median(values) if values else None

    for run in runs:
        run["min_ess"] = min(run["ess_arviz"], run.get("ess_importance", run["ess_arviz"]))
        run["rate"] = run["min_ess"] / run["seconds"]
    seconds = median("seconds") or 0.0
    beyond = seconds - brief["seconds"]
    return {
        "model": model,
        "contestant": contestant,
        "path": runs[0]["path"],
        "ESS (ArviZ)": median("ess_arviz"),
        "ESS (importance)": median("ess_importance"),
        "min ESS": median("min_ess"),
        "seconds": seconds,
        "CPU s": median("cpu_s"),
        "setup s": brief["seconds"],
        "import s": median("import_s"),
        "ESS/s": median("rate"),
        "ESS/s without setup": (median("min_ess") or 0.0) / beyond if beyond > 0.0 else None,
        "divergences": median("divergences"),
        "runs": len(runs),
    }


def main() -> int:
    """Print the tables and the ratios, write the CSV file."""
    parser = argparse.ArgumentParser(description="Effective draws per second on MEGA.")
    parser.add_argument("--models", default="additive,crossed,dataset")
    parser.add_argument("--contestants", default=",".join(CONTESTANTS))
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--tune", type=int, default=1000)
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--child", type=json.loads, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.child is not None:
        reply(one(**asked.child))
        return 0
    said = print_machine()
    print(f"4 chains x {asked.draws} draws; seconds include setup (compilation), not imports\n")
    rows = []
    for model in asked.models.split(","):
        table = []
        for name in asked.contestants.split(","):
            if name == "bambi" and model not in FORMULAS:
                continue
            row = measured(
                name, model, draws=asked.draws, tune=asked.tune, seeds=range(asked.repeats)
            )
            print(f"{model}, {name}: {row['seconds']:.3g} s", file=sys.stderr, flush=True)
            table.append(row)
        ours = next((row["ESS/s"] for row in table if row["contestant"] == OURS), None)
        for row in table:
            row["ours / this"] = None if ours is None else ours / row["ESS/s"]
        print_table(table)
        rows += table
        # After each model: whoever stops the next one keeps this one.
        write_csv("ess_per_second", rows, said)
    return 0


if __name__ == "__main__":
    sys.exit(main())
