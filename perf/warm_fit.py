"""`fit` called from Python, in a process that has imported everything and fitted before.

    python perf/warm_fit.py [--model additive] [--repeats 5] [--engines marginal,numpyro,pymc]

For each engine, in a process of its own: one call of ``fit`` on MEGA, then more with other seeds,
which are timed. A call includes the design, the draws, R-hat and ESS of all quantities and the
gate, but no checks, which are computed when they are asked for, and no files. The ESS is the
smallest over effects of languages, tasks and models and over all standard deviations, and for
``marginal`` at most that of its importance weights. PyTensor finds the code that it compiled in
the first call.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from typing import Any

from measure import child, machine, print_table, reply, write_csv


def timed(engine: str, model: str, repeats: int) -> dict[str, Any]:
    """Measure in this process."""
    import arviz_stats

    from bayeseval import fit, load, names

    records = load("mega")
    fit(records, model, engine=engine, seed=0)
    seconds, rates, least = [], [], []
    for seed in range(1, repeats + 1):
        begun = time.perf_counter()
        fitted = fit(records, model, engine=engine, seed=seed)
        seconds.append(time.perf_counter() - begun)
        posterior = fitted.data["posterior"].to_dataset()
        wanted = [names.effect_name(factor) for factor in names.FACTORS]
        wanted += [str(name) for name in posterior if str(name).startswith("sd_")]
        ess = arviz_stats.ess(posterior[wanted], sample_dims=["chain", "draw"], method="bulk")
        smallest = min(float(ess[name].min()) for name in wanted)
        weights = posterior.attrs.get("importance_ess")
        least.append(smallest if weights is None else min(smallest, float(weights)))
        rates.append(least[-1] / seconds[-1])
    return {
        "seconds": statistics.median(seconds),
        "min s": min(seconds),
        "max s": max(seconds),
        "min ESS": statistics.median(least),
        "ESS/s": statistics.median(rates),
        "runs": repeats,
    }


def main() -> int:
    """Print and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--model", default="additive")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--engines", default="marginal,numpyro,pymc")
    parser.add_argument("--child", type=json.loads, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.child is not None:
        reply(timed(**asked.child))
        return 0
    said = machine()
    rows = []
    for engine in asked.engines.split(","):
        found = child(__file__, engine=engine, model=asked.model, repeats=asked.repeats)
        del found["process_s"], found["memory_mib"]
        rows.append({"model": asked.model, "engine": engine, **found})
    for row in rows:
        row["ours / this"] = rows[0]["ESS/s"] / row["ESS/s"]
    print_table(rows)
    write_csv("warm_fit", rows, said, digits=3, key="engine")
    return 0


if __name__ == "__main__":
    sys.exit(main())
