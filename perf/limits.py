"""How large a table `bayeseval fit` can take: seconds, memory, and what stops it.

    python perf/limits.py [--most-seconds 300] [--most-memory 6000] [--ways languages,draws]

Simulated tables that grow in one direction: languages, models, or records. Each is written to a
Parquet file and given to the whole command, `bayeseval fit`, with its checks, figures and page,
in a process of its own. With the way `rows` the table is a folder of Parquet files with answers to
test items, which the command reduces with ``--memory 2GB`` (`rows.py` also kills it and goes on);
a billion of them take ``--most-seconds 1500``. With the way `draws` the largest tables are fitted
with ``--draws 250``, a quarter of the draws.
A command that needs more memory or more CPU time than allowed is stopped, and its row says so:
these are the limits of this measurement, not of the library.
Otherwise `outcome` is ``done``, ``gate failed``, or the line with which the command refuses.

Peak memory is the maximum resident set of the process, looked at every 20 ms while it runs and
reported by the system when it ends. CPU time is user and system time of all threads.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import rows
from measure import machine, print_table, write_csv

_LOOK: Final = 0.02


class Shape(NamedTuple):
    """A grid of cells, and how many of them have a record."""

    languages: int
    tasks: int
    models: int
    records: int


class Case(NamedTuple):
    """One command: the direction in which tables grow, model, engine and shape."""

    way: str
    model: str
    engine: str
    shape: Shape


def cases() -> list[Case]:
    """All commands, small tables first."""
    found = []
    by_languages: dict[tuple[str, str], tuple[int, ...]] = {
        ("additive", "marginal"): (10, 100, 1_000, 10_000),
        ("interaction", "marginal"): (10, 100, 1_000, 10_000),
        ("crossed", "marginal"): (10, 100, 1_000),
        ("additive", "numpyro"): (10, 100, 1_000),
        ("additive", "pymc"): (10, 100, 1_000),
        ("paper", "ml"): (10, 100, 1_000),
    }
    for (model, engine), sizes in by_languages.items():
        for n in sizes:
            found.append(Case("languages", model, engine, Shape(n, 5, 10, 15 * n)))
    by_models: dict[tuple[str, str], tuple[int, ...]] = {
        ("additive", "marginal"): (2, 10, 100, 1_000, 10_000),
        ("crossed", "marginal"): (10, 100, 1_000),
        ("additive", "numpyro"): (10, 100, 1_000),
        ("paper", "ml"): (10, 100, 1_000),
    }
    for (model, engine), sizes in by_models.items():
        for n in sizes:
            found.append(Case("models", model, engine, Shape(20, 3, n, 30 * n)))
    # `many_records.py` measures the engine `marginal`, up to 10^7 records.
    by_records: dict[tuple[str, str], tuple[int, ...]] = {
        ("additive", "numpyro"): (100_000, 1_000_000),
        ("additive", "pymc"): (100_000, 1_000_000),
    }
    for (model, engine), sizes in by_records.items():
        for n in sizes:
            found.append(Case("records", model, engine, Shape(200, 50, max(20, n // 8_000), n)))
    many_languages, many_models = Shape(10_000, 5, 10, 150_000), Shape(20, 3, 10_000, 300_000)
    for model in ("additive", "interaction"):
        found.append(Case("draws", model, "marginal", many_languages))
    found.append(Case("draws", "additive", "marginal", many_models))
    cells = Shape(rows.LANGUAGES, rows.TASKS, 100, 0)
    for items in (10, 100, 1_000, 10_000, 100_000):
        n = cells.languages * cells.tasks * cells.models * items
        found.append(Case("rows", "additive", "marginal", cells._replace(records=n)))
    return found


def write_table(way: str, path: Path, shape: Shape, seed: int) -> None:
    """A table of so many records, or a folder of so many answers to test items."""
    if way == "rows":
        path.mkdir()
        cells = shape.languages * shape.tasks * shape.models
        rows.write_rows(path, shape.models, shape.records // cells)
    else:
        write_scores(path, shape, seed)


def write_scores(path: Path, shape: Shape, seed: int) -> None:
    """Simulated scores of an additive table; every level has a record."""
    import numpy as np
    import pandas as pd

    rng = np.random.default_rng(seed)
    grid = (shape.languages, shape.tasks, shape.models)
    # Two cells at every step: every level has a record, and steps of languages connect the others.
    steps = np.arange(max(grid))
    pairs = [[(steps + move) % grid[0], steps % grid[1], steps % grid[2]] for move in (0, 1)]
    walk = np.unique(np.concatenate([np.ravel_multi_index(at, grid) for at in pairs]))
    others = np.setdiff1d(rng.choice(np.prod(grid), shape.records, replace=False), walk)
    few = max(0, shape.records - len(walk))
    cell = np.unravel_index(np.append(walk, rng.choice(others, few, replace=False)), grid)
    sds = (10.0, 8.0, 6.0)
    score = 50.0 + rng.normal(0.0, 5.0, len(cell[0]))
    labels = {}
    for name, index, size, sd in zip(("language", "task", "model"), cell, grid, sds, strict=True):
        score += rng.normal(0.0, sd, size)[index]
        labels[name] = np.array([f"{name}-{i}" for i in range(size)])[index]
    pd.DataFrame(labels | {"score": score}).to_parquet(path, index=False)


def resident(process: int) -> float:
    """Memory that a process holds now, MiB; 0 when it has ended."""
    try:
        pages = int(Path(f"/proc/{process}/statm").read_text(encoding="ascii").split()[1])
    except (OSError, IndexError):
        return 0.0
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def processor_time(process: int) -> float:
    """CPU seconds of a running process; 0 when it has ended."""
    try:
        text = Path(f"/proc/{process}/stat").read_text(encoding="ascii")
    except OSError:
        return 0.0
    fields = text.rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def finished(
    words: list[str], seconds: float, memory: float, environment: Mapping[str, str]
) -> dict[str, Any]:
    """Time, memory and outcome of a command within limits."""
    begun, stopped = time.perf_counter(), ""
    with tempfile.TemporaryFile("w+") as messages:
        process = subprocess.Popen(
            words, env=environment, stdout=subprocess.DEVNULL, stderr=messages
        )
        while True:
            ended, status, usage = os.wait4(process.pid, os.WNOHANG)
            if ended:
                break
            if not stopped and resident(process.pid) > memory:
                stopped = f"stopped: more than {memory:.0f} MiB"
            if not stopped and processor_time(process.pid) > seconds:
                stopped = f"stopped: more than {seconds:.0f} CPU s"
            if stopped:
                process.kill()
            time.sleep(_LOOK)
        process.returncode = os.waitstatus_to_exitcode(status)
        messages.seek(0)
        lines = [line for line in messages.read().splitlines() if line.startswith("error:")]
    outcomes = {0: "done", 3: "gate failed"}
    code = process.returncode
    return {
        "seconds": time.perf_counter() - begun,
        "CPU s": usage.ru_utime + usage.ru_stime,
        "peak MiB": usage.ru_maxrss / 1024,
        "outcome": stopped or outcomes.get(code, lines[-1] if lines else f"exit status {code}"),
    }


def measured(case: Case, seconds: float, memory: float) -> dict[str, Any]:
    """One row of the results."""
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        table = place / ("rows" if case.way == "rows" else "table.parquet")
        # In a process of its own: a child takes over the peak memory of its parent.
        written = [case.way, str(table), *map(str, case.shape)]
        subprocess.run([sys.executable, __file__, "--write", *written], check=True)
        words = [sys.executable, "-m", "bayeseval", "fit", "--benchmark", str(table)]
        words += ["--model", case.model, "--engine", case.engine, "--out", str(place / "result")]
        if case.way == "rows":
            words += ["--memory", "2GB"]
        if case.way == "draws":
            words += ["--draws", "250"]
        environment = {**os.environ, "BAYESEVAL_CACHE": str(place / "cache")}
        row = {"way": case.way, "model": case.model, "engine": case.engine, **case.shape._asdict()}
        return row | finished(words, seconds, memory, environment)


def main() -> None:
    """Measure all cases, print and write them."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--most-seconds", type=float, default=300.0)
    parser.add_argument("--most-memory", type=float, default=6_000.0, help="MiB")
    parser.add_argument("--ways", default="languages,models,draws,records,rows")
    parser.add_argument("--write", nargs=6, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.write:
        way, path, *shape = arguments.write
        write_table(way, Path(path), Shape(*map(int, shape)), seed=0)
        return
    said = machine()
    found: list[dict[str, Any]] = []
    for way in arguments.ways.split(","):
        too_much: set[tuple[str, str]] = set()
        for case in (case for case in cases() if case.way == way):
            if (case.model, case.engine) in too_much:
                continue
            row = measured(case, arguments.most_seconds, arguments.most_memory)
            # What is stopped at one size is not tried at a larger one.
            if row["outcome"] not in ("done", "gate failed"):
                too_much.add((case.model, case.engine))
            print(row, flush=True)
            found.append(row)
    print_table(found)
    write_csv("limits", found, said, digits=3, key="way")


if __name__ == "__main__":
    main()
