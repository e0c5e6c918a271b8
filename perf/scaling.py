"""How the marginal engine grows: with the records of a table, and with its languages.

    python perf/scaling.py [--records 1000,...,10000000] [--languages 50,200,800]

Records: simulated scores on the observed cells of MEGA, 10^3 to 10^7 of them, as a
`Design` built from arrays. Aggregation is what passes over the records: it leaves
counts, means and sums of squares per cell, and their cross-products. What follows is
the fit. Its time at 10^7 records may be 1.5 times that at 10^4, no more. Every size is
measured in a process of its own, whose peak memory holds the simulated table as well.

The way from a table of text to a `Design` (`Records.from_frame`, `build_design`) is
measured apart, on a grid of 200 languages, 50 tasks and 120 models, up to `--most-rows`.

Languages: tables of `simulate` with 15 tasks, 13 models and 13 % of the cells observed,
as in MEGA.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from functools import partial
from statistics import median
from typing import TYPE_CHECKING, Any, Final

from measure import child, print_machine, print_table, reply, write_csv

if TYPE_CHECKING:
    from bayeseval.design import Design
    from bayeseval.engines._marginal_density import Marginal

TARGET: Final = 1.5
LOW, HIGH = 10_000, 10_000_000
_EVALUATIONS: Final = 50
# Fits after the first, which imports what it needs.
_FITS: Final = 3


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds and result of one call."""
    begun = time.perf_counter()
    result = work()
    return time.perf_counter() - begun, result


def simulated(n_records: int, model: str, seed: int) -> Design:
    """A design on the observed cells of MEGA with `n_records` simulated scores."""
    from dataclasses import replace

    import numpy as np

    from bayeseval import load, names
    from bayeseval.design import build_design
    from bayeseval.spec import load_spec

    mega = build_design(load("mega"), load_spec(model))
    rng = np.random.default_rng(seed)
    few = n_records < mega.n_records
    if few:
        cell = rng.choice(mega.n_records, n_records, replace=False)
    else:
        # Every cell once, so that no level is without a record.
        more = rng.integers(0, mega.n_records, n_records - mega.n_records)
        cell = np.concatenate([np.arange(mega.n_records), more])
    expected = np.full(mega.n_records, 60.0)
    for term, sd in zip(mega.terms, (10.0, 16.0, 12.0, 7.0, 7.0, 5.5), strict=False):
        expected += rng.normal(0.0, sd, term.n_levels)[term.index]
    score = rng.normal(0.0, 11.0, n_records)
    score += expected[cell]
    factors = {name: index[cell] for name, index in mega.factor_index.items()}
    # Main effects share their array with the factor, as they do in a design.
    terms = tuple(
        replace(t, index=factors[t.name] if t.name in names.FACTORS else t.index[cell])
        for t in mega.terms
    )
    outcome = replace(mega.outcome.take(cell), share=score, linear=score)
    return replace(mega, score=score, outcome=outcome, terms=terms, factor_index=factors)


def engine(design: Design, seed: int) -> dict[str, Any]:
    """Times of the parts of a fit, in seconds; evaluations in milliseconds."""
    import numpy as np

    from bayeseval.engines import SamplerSettings, marginal
    from bayeseval.engines._marginal_density import build_marginal, one_thread_per_call

    refused = marginal.why_not(design)
    if refused is not None:
        return {"refused": refused}
    density = build_marginal(design)
    points = np.random.default_rng(seed).normal(2.0, 0.3, (_EVALUATIONS, density.scales.n))
    with one_thread_per_call():
        density.log_posterior(points[:1])
        single = [timed(partial(density.log_posterior, point[None]))[0] for point in points]
        batch, _ = timed(lambda: density.log_posterior(points))

    aggregation = []

    def aggregate(design: Design) -> Marginal:
        begun = time.perf_counter()
        density = build_marginal(design)
        aggregation.append(time.perf_counter() - begun)
        return density

    # The engine aggregates within its run; this tells how much of it that was.
    vars(marginal)["build_marginal"] = aggregate
    settings = SamplerSettings(seed=seed)
    whole = [timed(lambda: marginal.sample(design, settings)) for _ in range(1 + _FITS)]
    fits = [seconds - a for (seconds, _), a in zip(whole, aggregation, strict=True)]
    return {
        "n_records": design.n_records,
        "kept": density.statistics.n_kept,
        "aggregation_s": median(aggregation),
        "evaluation_ms": 1e3 * median(single),
        "batch_ms": 1e3 * batch / _EVALUATIONS,
        "first_s": fits[0],
        "again_s": median(fits[1:]),
        "path": whole[0][1].attrs["path"],
        "refused": None,
    }


def by_records(n: int, model: str, seed: int) -> dict[str, Any]:
    """One size of table, built from arrays."""
    build, design = timed(lambda: simulated(n, model, seed))
    return engine(design, seed) | {"build_s": build}


def by_languages(n: int, model: str, seed: int) -> dict[str, Any]:
    """One number of languages."""
    from bayeseval.design import build_design
    from bayeseval.simulation import simulate
    from bayeseval.spec import load_spec

    shape = {"n_languages": n, "n_tasks": 15, "n_models": 13, "observed_share": 0.13}
    drawn = simulate(model, **shape, seed=seed)  # type: ignore[arg-type]
    return engine(build_design(drawn.records, load_spec(model)), seed)


def front(n: int, model: str, seed: int) -> dict[str, Any]:
    """Times of the way from a data frame to a design."""
    import numpy as np
    import pandas as pd

    from bayeseval import Records, names
    from bayeseval.design import build_design
    from bayeseval.spec import load_spec

    shape = (200, 50, 120)
    rng = np.random.default_rng(seed)
    cell = np.unravel_index(rng.choice(np.prod(shape), n, replace=False), shape)
    labels = [
        np.array([f"{factor}-{i}" for i in range(size)])
        for factor, size in zip(names.FACTORS, shape, strict=True)
    ]
    frame = pd.DataFrame(
        {f: label[at] for f, label, at in zip(names.FACTORS, labels, cell, strict=True)}
    )
    frame[names.SCORE] = rng.normal(60.0, 20.0, n)
    reading, records = timed(
        lambda: Records.from_frame(frame, name="simulated", mixed_scales="allow")
    )
    building, built = timed(lambda: build_design(records, load_spec(model)))
    return {"n_records": built.n_records, "records_s": reading, "design_s": building}


def main() -> int:
    """Print the tables, write the CSV files; 1 when the target is missed."""
    parser = argparse.ArgumentParser(description="Growth of the marginal engine.")
    parser.add_argument("--records", default="1000,10000,100000,1000000,10000000")
    parser.add_argument("--languages", default="50,200,800")
    parser.add_argument("--models", default="additive,crossed", help="for records")
    parser.add_argument("--language-models", default="additive,interaction,crossed")
    parser.add_argument("--most-rows", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--child", type=json.loads, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.child is not None:
        kinds = {"records": by_records, "languages": by_languages, "front": front}
        reply(kinds[asked.child.pop("what")](**asked.child))
        return 0
    said = print_machine()
    sizes = [int(n) for n in asked.records.split(",") if n]

    def measured(what: str, n: int, model: str) -> dict[str, Any]:
        return child(__file__, what=what, n=n, model=model, seed=asked.seed)

    rows, late = [], False
    for model in asked.models.split(",") if sizes else ():
        table = [row_of(model, n, measured("records", n, model)) for n in sizes]
        fits = {n: row["fit s"] for n, row in zip(sizes, table, strict=True)}
        if LOW in fits and HIGH in fits:
            ratio = fits[HIGH] / fits[LOW]
            late = late or ratio > TARGET
            print(f"{model}: fit at 10^7 records / fit at 10^4, aggregation apart: {ratio:.2f}")
        print_table(table)
        rows += table
        write_csv("scaling_records", rows, said)

    levels = [
        row_of(model, int(n), measured("languages", int(n), model), languages=True)
        for model in asked.language_models.split(",")
        for n in asked.languages.split(",")
        if n
    ]
    if levels:
        print_table(levels)
        write_csv("scaling_languages", levels, said)

    ways = [
        {
            "records": found["n_records"],
            "Records.from_frame s": found["records_s"],
            "build_design s": found["design_s"],
            "peak MiB": found["memory_mib"],
        }
        for found in (measured("front", n, "additive") for n in sizes if n <= asked.most_rows)
    ]
    if ways:
        print_table(ways)
        write_csv("scaling_front", ways, said)
    return int(late)


def row_of(model: str, n: int, found: dict[str, Any], *, languages: bool = False) -> dict[str, Any]:
    """A child's answer under readable names; empty where the engine refuses."""

    def value(key: str) -> Any:
        return found.get(key)

    refused = found["refused"] is not None
    return {
        "model": model,
        **({"languages": n} if languages else {}),
        "records": value("n_records"),
        "kept": value("kept"),
        "aggregation s": value("aggregation_s"),
        "evaluation ms": value("evaluation_ms"),
        "in batches ms": value("batch_ms"),
        "fit s": value("again_s"),
        "first fit s": value("first_s"),
        "peak MiB": value("memory_mib"),
        "path": "refused" if refused else value("path"),
    }


if __name__ == "__main__":
    sys.exit(main())
