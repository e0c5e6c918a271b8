"""How long a user waits before anything happens: imports and `--help`.

    python perf/import_time.py [--runs 7]

Every measurement is the median wall time of fresh interpreters, after one warm-up
run that fills the disk cache. The limits are 0.5 s for `import bayeseval`, 1 s for
`bayeseval --help` and 1.2 s for a loaded benchmark; a measurement past its limit ends with exit
code 1. The peer is `import pandas`, which every user of the library loads sooner or later.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence

from measure import machine, print_table, write_csv

CASES: dict[str, tuple[Sequence[str], float | None]] = {
    "python -c pass": (("-c", "pass"), None),
    "import pandas": (("-c", "import pandas"), None),
    "import bayeseval": (("-c", "import bayeseval"), 0.5),
    "bayeseval --help": (("-m", "bayeseval.cli", "--help"), 1.0),
    "bayeseval.load('mega')": (("-c", "import bayeseval; bayeseval.load('mega')"), 1.2),
}


def seconds(arguments: Sequence[str]) -> float:
    """Wall time of one fresh interpreter.

    Raises
    ------
    subprocess.CalledProcessError
        If the command fails: a failure is not a measurement.
    """
    begun = time.perf_counter()
    subprocess.run([sys.executable, *arguments], check=True, capture_output=True)
    return time.perf_counter() - begun


def main() -> int:
    """Print the table; 1 when a limit is passed."""
    parser = argparse.ArgumentParser(description="Measure import and start-up times.")
    parser.add_argument("--runs", type=int, default=7)
    runs = parser.parse_args().runs
    said = machine()
    times: dict[str, list[float]] = {}
    for name, (arguments, _) in CASES.items():
        seconds(arguments)
        times[name] = [seconds(arguments) for _ in range(runs)]
    peer = statistics.median(times["import pandas"])
    rows, late = [], False
    for name, (_, limit) in CASES.items():
        median = statistics.median(times[name])
        late = late or (limit is not None and median > limit)
        rows.append(
            {
                "what": name,
                "median s": median,
                "limit s": limit,
                "min s": min(times[name]),
                "max s": max(times[name]),
                "times pandas": median / peer,
                "runs": runs,
            }
        )
    print_table(rows)
    write_csv("import_time", rows, said, digits=3)
    return 1 if late else 0


if __name__ == "__main__":
    sys.exit(main())
