"""The command on tables of many records: seconds, and memory, from the file to the page.

    python perf/many_records.py [--records 100000,1000000,10000000] [--draws N]

A Parquet file of scores is written to a temporary folder, with a fixed seed: 100 languages, 10
tasks, and as many models as the records need, each with a score in every cell. Then
``bayeseval fit --benchmark FILE --model additive`` fits it with default checks, and writes tables,
figures and the page. ``--draws`` gives it fewer draws of each of its four chains than by default:
time grows with draws times records, and memory does not.

Peak memory is that of the process (the maximum resident set). Seconds are wall time, and those of
the CPU, user and system, of all threads.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

from measure import child, machine, print_table, reply, write_csv
from rows import finished

LANGUAGES: Final = 100
TASKS: Final = 10


def write_table(path: Path, models: int) -> int:
    """A table of scores between 0 and 100; the number of its records."""
    import numpy as np
    import pandas as pd

    rng = np.random.default_rng(1)
    shape = (models, LANGUAGES, TASKS)
    score = rng.normal(0.0, 4.0, shape) + 50.0
    for axis, sd in enumerate((5.0, 6.0, 5.0)):
        size = [1, 1, 1]
        size[axis] = shape[axis]
        score += rng.normal(0.0, sd, size)
    index = [part.reshape(-1) for part in np.indices(shape)]
    labels = [np.array([f"{f}{i}" for i in range(n)]) for f, n in zip("mlt", shape, strict=True)]
    frame = pd.DataFrame(
        {
            name: pd.Categorical.from_codes(codes, pd.Index(own))
            for name, own, codes in zip(("model", "language", "task"), labels, index, strict=True)
        }
    )
    frame["score"] = np.clip(score, 0.0, 100.0).reshape(-1)
    frame.to_parquet(path)
    return len(frame)


def measure(records: int, draws: int | None) -> dict[str, Any]:
    """One size of table."""
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        path, models = place / "scores.parquet", records // (LANGUAGES * TASKS)
        # In a process of its own: who is started takes over the peak memory of who starts it.
        n = child(__file__, path=str(path), models=models)["n"]
        words = [sys.executable, "-m", "bayeseval", "fit", "--model", "additive"]
        words += ["--benchmark", str(path), "--out", str(place / "result")]
        words += [] if draws is None else ["--draws", str(draws)]
        done = finished(words, place / "cache")
        size = sum(f.stat().st_size for f in (place / "result").rglob("*") if f.is_file())
    return {"records": n, "draws": draws or 1000, **done, "result MB": size / 1e6}


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--records", default="100000,1000000,10000000")
    parser.add_argument("--draws", type=int)
    parser.add_argument("--child", type=json.loads, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        reply({"n": write_table(Path(arguments.child["path"]), arguments.child["models"])})
        return
    said = machine()
    rows = [measure(int(n), arguments.draws) for n in arguments.records.split(",")]
    print_table(rows)
    write_csv("many_records", rows, said, digits=4, key="records")


if __name__ == "__main__":
    main()
