"""The command on 10^8 rows of test items, within a bound of memory, killed and resumed.

    python perf/rows.py [--models 100] [--items 10000] [--peer-rows 10000000] [--memory 2GB]
        [--ways nothing,killed,cached,pandas] [--work FOLDER]

A folder of Parquet files is written to a temporary folder, with a fixed seed: models, 20 languages,
5 tasks, and the same items in all cells of a task. Then

- ``bayeseval fit --benchmark FOLDER --model additive --memory 2GB`` reduces it, fits and writes
  the page;
- the same command with an empty cache is killed (SIGKILL) when half of the files are reduced, and
  run again;
- the fit is repeated with the cache of the first;
- pandas reads a part of the files and groups it, the floor of what that takes in memory.

Peak memory is that of the process (the maximum resident set). Seconds are wall time, and those of
the CPU, user and system, of all threads. Nothing of the folder is left afterwards, unless
``--work`` names one: ways that are measured one by one then share its rows and its cache.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from measure import child, machine, print_table, reply, write_csv

LANGUAGES: Final = 20
TASKS: Final = 5
FILES: Final = 20


def write_rows(folder: Path, models: int, items: int) -> int:
    """Files of test items with the models divided among them; the number of rows."""
    import duckdb

    each = models // FILES
    with duckdb.connect(config={"threads": 2, "memory_limit": "2GB"}) as connection:
        for file in range(FILES):
            # Right more often under some models, and harder items are so for all.
            connection.execute(
                f"""COPY (
                SELECT 'model-' || m AS model, 'l' || l AS language, 'task' || t AS task,
                    'q' || i AS item,
                    CAST((hash(m, l, t, i) % 1000 < 200 + 3 * m + 10 * l + hash(i) % 200)
                        AS INTEGER) AS score
                FROM range({file * each}, {(file + 1) * each}) a(m), range({LANGUAGES}) b(l),
                    range({TASKS}) c(t), range({items}) d(i)
                ) TO '{folder}/part-{file:03d}.parquet' (FORMAT parquet)"""
            )
    return models * LANGUAGES * TASKS * items


def command(folder: Path, out: Path, memory: str) -> list[str]:
    """The whole command, from the rows to the page."""
    options = ["--model", "additive", "--memory", memory, "--out", str(out), "--force"]
    return [sys.executable, "-m", "bayeseval", "fit", "--benchmark", str(folder), *options]


@contextmanager
def started(words: list[str], cache: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process with a cache of its own."""
    process = subprocess.Popen(
        words,
        env={**os.environ, "BAYESEVAL_CACHE": str(cache)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    yield process


def finished(words: list[str], cache: Path) -> dict[str, Any]:
    """Seconds and memory of a command that has to succeed."""
    begun = time.perf_counter()
    with started(words, cache) as process:
        said = process.stderr.read() if process.stderr else b""
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    # The gate of convergence may fail a fit, which is no failure of the command.
    if process.returncode not in (0, 3):
        raise RuntimeError(said.decode(errors="replace"))
    return {
        "seconds": time.perf_counter() - begun,
        "CPU s": usage.ru_utime + usage.ru_stime,
        "peak MiB": usage.ru_maxrss / 1024,
    }


def killed(words: list[str], cache: Path) -> int:
    """Kill the command when half of the files are reduced; how many partial results it left."""
    with started(words, cache) as process:
        while process.poll() is None and len(results(cache)) < FILES + FILES // 2:
            time.sleep(0.05)
        if process.poll() is not None:
            raise RuntimeError("the command ended before it was killed")
        process.send_signal(signal.SIGKILL)
        process.wait()
    return len(results(cache))


def results(cache: Path) -> list[Path]:
    """Partial results of a cache: of every file its items, its groups and its sums."""
    return list((cache / "rows").glob("*.parquet"))


def pandas_groups(folder: Path, files: int) -> dict[str, Any]:
    """Mean and sum of squares by cell, of some of the files, in memory."""
    import pandas as pd

    begun, cpu = time.perf_counter(), time.process_time()
    paths = sorted(folder.glob("*.parquet"))[:files]
    frame = pd.concat([pd.read_parquet(path) for path in paths], ignore_index=True)
    groups = frame.groupby(["model", "language", "task"])["score"]
    table = groups.agg(["count", "mean", "var"])
    return {
        "rows": len(frame),
        "cells": len(table),
        "seconds": time.perf_counter() - begun,
        "CPU s": time.process_time() - cpu,
    }


def measure(arguments: argparse.Namespace, place: Path) -> list[dict[str, Any]]:
    """The ways that were asked for, one after the other."""
    rows, folder = [], place / "rows"
    if not folder.is_dir():
        folder.mkdir(parents=True)
        write_rows(folder, arguments.models, arguments.items)
    n_cells = arguments.models * LANGUAGES * TASKS
    n_rows = n_cells * arguments.items
    said = {"rows": n_rows, "cells": n_cells}
    for way in arguments.ways.split(","):
        words = command(folder, place / f"result-{way}", arguments.memory)
        if way == "nothing":
            rows.append({"way": "from nothing", **said, **finished(words, place / "cache")})
        elif way == "cached":
            done = finished(words, place / "cache")
            rows.append({"way": "again, from the cache", **said, **done})
        elif way == "killed":
            left = killed(words, place / "other")
            done = finished(words, place / "other")
            called = f"killed with {left} of {3 * FILES} steps done, resumed"
            rows.append({"way": called, **said, **done})
        else:
            files = max(1, round(arguments.peer_rows / n_rows * FILES))
            peer = child(__file__, folder=str(folder), files=files)
            rows.append(
                {"way": "pandas, read and grouped"} | peer["row"] | {"peak MiB": peer["memory_mib"]}
            )
    return rows


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--models", type=int, default=100)
    parser.add_argument("--items", type=int, default=10_000)
    parser.add_argument("--peer-rows", type=int, default=10_000_000)
    parser.add_argument("--memory", default="2GB")
    parser.add_argument("--ways", default="nothing,killed,cached,pandas")
    parser.add_argument("--work", type=Path, help="keep rows, cache and results in this folder")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        import json

        given = json.loads(arguments.child)
        reply({"row": pandas_groups(Path(given["folder"]), given["files"])})
        return
    said = machine()
    if arguments.work:
        rows = measure(arguments, arguments.work)
    else:
        with tempfile.TemporaryDirectory() as name:
            rows = measure(arguments, Path(name))
    print_table(rows)
    write_csv("rows", rows, said, digits=4, key="way")


if __name__ == "__main__":
    main()
