"""Kill commands at random moments, and look at what is left.

    python perf/kill.py [--kills 100] [--commands fit,compare,sensitivity,report] [--seed 0]
    python perf/kill.py --commands mexa --mexa-model PATH --parallel DIR

Every command runs once to its end, which gives the reference and its wall time. Then it is
started again and again and receives SIGKILL, with all processes that it has started, after a
random time: half of the times lie anywhere in the run, half in its last third, where files
are written. Even kills find no earlier result, odd ones the whole earlier result. After every
kill the folder has to be absent, or whole: every file that `run.json` lists with a hash has
that hash. At the end, and after every tenth kill, the command runs to its end; then its
tables have to equal the reference byte by byte, and nothing else may lie in the folder around
the results. The exit code is 1 if anything else was found.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
COMMANDS: Final = ("fit", "compare", "sensitivity", "report")
# Kills between two runs to the end.
_BLOCK: Final = 10


@dataclass
class Outcome:
    """What the kills of one command have left."""

    command: str
    seconds: float
    kills: int = 0
    ended: int = 0
    states: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        states = ", ".join(f"{count} {name}" for name, count in sorted(self.states.items()))
        return (
            f"{self.command}: {self.kills} kills in runs of {self.seconds:.1f} s "
            f"({self.ended} had ended before), then {states}; {len(self.faults)} faults"
        )


def write_table(path: Path) -> None:
    """A small table with an effect of every factor."""
    draw = random.Random(1)
    rows = [
        f"m{i},{language},t{k},{50 + 4 * i - 3 * j + 2 * k + draw.gauss(0.0, 2.0):.3f}"
        for i in range(3)
        for j, language in enumerate(("deu", "fra", "spa", "swe", "fin"))
        for k in range(3)
    ]
    path.write_text("\n".join(["model,language,task,score", *rows, ""]), encoding="utf-8")


def arguments(command: str, place: Path, extra: Sequence[str]) -> list[str]:
    """The command line that writes ``place/out``."""
    table, out = str(place / "scores.csv"), str(place / "results" / "out")
    data = ["--benchmark", table, "--out", out, "--no-figures", "--quiet"]
    if command == "fit":
        return ["fit", *data, "--model", "additive", "--draws", "100"]
    if command == "compare":
        return ["compare", *data, "--models", "additive,interaction"]
    if command == "sensitivity":
        return ["sensitivity", *data, "--model", "additive", "--drop", "task", "--jobs", "2"]
    if command == "report":
        return ["report", out]
    return ["mexa", *extra, "--out", out]


def start(words: Sequence[str]) -> subprocess.Popen[bytes]:
    """Start a command in a session of its own, so that a kill reaches all its processes."""
    return subprocess.Popen(
        [sys.executable, "-m", "bayeseval", *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"},
    )


def finish(words: Sequence[str]) -> float:
    """Run a command to its end; its wall time."""
    begun = time.perf_counter()
    process = start(words)
    _, said = process.communicate()
    if process.returncode not in (0, 3):
        raise SystemExit(f"{' '.join(words)}: exit code {process.returncode}: {said.decode()}")
    return time.perf_counter() - begun


def kill(words: Sequence[str], after: float) -> bool:
    """Start a command and kill it; whether it had not ended by itself."""
    process = start(words)
    try:
        process.communicate(timeout=after)
        return False
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return True


def state(out: Path) -> str:
    """Whether a result folder is absent or whole; otherwise what is wrong with it."""
    if not out.exists():
        return "absent"
    try:
        run = json.loads((out / "run.json").read_text(encoding="utf-8"))
        for name, known in run["sha256"].items():
            if hashlib.sha256((out / name).read_bytes()).hexdigest() != known:
                return f"broken: {name} is another file"
    except (OSError, ValueError, KeyError) as error:
        return f"broken: {error!r}"
    return "whole"


def tables(out: Path) -> dict[str, bytes]:
    """All tables of a folder."""
    return {
        path.relative_to(out).as_posix(): path.read_bytes() for path in sorted(out.rglob("*.csv"))
    }


def litter(place: Path) -> list[str]:
    """What lies around the results besides them."""
    inside = {path.name for path in (place / "results").iterdir()} - {"out"}
    hidden = {path.name for path in (place / "results" / "out").iterdir() if path.name[0] == "."}
    return sorted(inside | hidden | ({path.name for path in place.iterdir()} - EXPECTED))


EXPECTED: Final = {"scores.csv", "results"}


def kill_often(command: str, kills: int, *, seed: int, extra: Sequence[str] = ()) -> Outcome:
    """Kill one command many times."""
    draw = random.Random(f"{seed} {command}")
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch)
        out = place / "results" / "out"
        write_table(place / "scores.csv")
        words = arguments(command, place, extra)
        adds = command == "report"
        if adds:
            finish(arguments("fit", place, ()) + ["--no-report", "--no-checks"])
        # The first run may fill caches; the second one gives the time.
        finish(words)
        outcome = Outcome(command, finish(words))
        reference = tables(out)
        for number in range(kills):
            if number % 2 == 0 and not adds:
                shutil.rmtree(out, ignore_errors=True)
            elif not out.exists():
                finish(words)
            low = 0.0 if draw.random() < 0.5 else 0.67
            if kill(words, draw.uniform(low, 1.0) * outcome.seconds):
                outcome.kills += 1
            else:
                outcome.ended += 1
            found = state(out)
            outcome.states[found.partition(":")[0]] += 1
            if found.startswith("broken") or (found == "absent" and (number % 2 or adds)):
                outcome.faults.append(f"kill {number + 1}: {found}")
            if number % _BLOCK == _BLOCK - 1 or number == kills - 1:
                finish(words)
                if tables(out) != reference:
                    outcome.faults.append(f"after kill {number + 1}: other numbers")
                if left := litter(place):
                    outcome.faults.append(f"after kill {number + 1}: left {', '.join(left)}")
    return outcome


def main(given: Sequence[str] | None = None) -> int:
    """Print one line per command; 1 when something was lost, left or different."""
    parser = argparse.ArgumentParser(description="Kill commands at random moments.")
    parser.add_argument("--kills", type=int, default=100, help="of every command")
    parser.add_argument("--commands", default=",".join(COMMANDS))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--mexa-model", help="folder of a small model")
    parser.add_argument("--parallel", help="folder of parallel text")
    asked = parser.parse_args(given)
    extra = ["--model", asked.mexa_model or "", "--parallel", asked.parallel or ""]
    faults = 0
    for command in asked.commands.split(","):
        outcome = kill_often(command, asked.kills, seed=asked.seed, extra=extra)
        print(outcome, flush=True)
        for fault in outcome.faults:
            print(f"  {fault}", flush=True)
        faults += len(outcome.faults)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
