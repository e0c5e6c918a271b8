"""The whole command, from a cold start to the last file, beside a script with bambi.

    python perf/whole_command.py [--repeats 3] [--model additive]

`python scripts/fit.py --benchmark mega --engine marginal`, first with `--no-figures` and then
with all files (tables, checks, figures and the page), the latter for the model `dataset` too, and
with PyMC's NUTS in the place of our engine (`--engine pymc`, all files);
and `bambi_fit.py`, which fits the effects of `additive` with bambi's defaults, that is with
PyMC, and writes the posterior and simple tables; each in fresh processes, in turns. PyMC finds
PyTensor's compiled code on disk, because one run goes before that does not count. Processor
time is that of all processes of a command.
The targets are a third of bambi's wall time without figures, and 6 and 15 seconds with all files.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Final

from measure import ROOT, Run, print_machine, print_table, run, write_csv

TARGET: Final = 1 / 3
# Seconds of a command that writes all files.
LIMITS: Final = {"additive": 6.0, "dataset": 15.0}


def commands(model: str, engine: str, draws: int) -> dict[str, list[str]]:
    """Contestants without their ``--out``."""
    fit = [str(ROOT / "scripts" / "fit.py"), "--benchmark", "mega", "--engine", engine, "--quiet"]
    named = {
        f"fit.py {one}, all files": [*fit, "--model", one]
        for one in dict.fromkeys([model, *LIMITS])
    }
    by_pymc = ["pymc" if word == engine else word for word in fit]
    return {
        f"fit.py {model}": [*fit, "--model", model, "--no-figures"],
        **named,
        f"fit.py {model}, engine pymc": [*by_pymc, "--model", model],
        "bambi_fit.py": [str(ROOT / "perf" / "bambi_fit.py"), "--draws", str(draws)],
    }


def main() -> int:
    """Print the table, write the CSV file; 1 when the target is missed."""
    parser = argparse.ArgumentParser(description="Wall time of the whole command.")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--model", default="additive")
    parser.add_argument("--engine", default="marginal")
    parser.add_argument("--draws", type=int, default=1000, help="of bambi, for a trial")
    asked = parser.parse_args()
    said = print_machine()
    runs: dict[str, list[Run]] = {}
    with tempfile.TemporaryDirectory() as scratch:
        for turn in range(asked.repeats + 1):
            for name, command in commands(asked.model, asked.engine, asked.draws).items():
                out = Path(scratch) / f"{turn}-{name.replace(' ', '-')}"
                done = run([sys.executable, *command, "--out", str(out)])
                runs.setdefault(name, [])
                if turn:
                    runs[name].append(done)
    medians = {name: statistics.median(r.seconds for r in done) for name, done in runs.items()}
    ours, *_, peer = medians.values()
    limits = {f"fit.py {model}, all files": limit for model, limit in LIMITS.items()}
    rows = [
        {
            "what": name,
            "median s": medians[name],
            "limit s": limits.get(name, ""),
            "min s": min(r.seconds for r in done),
            "max s": max(r.seconds for r in done),
            "processor s": statistics.median(r.cpu for r in done),
            "peak MiB": max(r.memory for r in done),
            "runs": len(done),
            "share of bambi": medians[name] / peer,
        }
        for name, done in runs.items()
    ]
    print_table(rows)
    write_csv("whole_command", rows, said)
    late = [name for name, limit in limits.items() if medians[name] > limit]
    return int(ours > TARGET * peer or bool(late))


if __name__ == "__main__":
    sys.exit(main())
