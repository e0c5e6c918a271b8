"""The same seed gives the same numbers, whatever the machine does otherwise.

    python perf/same_numbers.py [--commands "fit marginal,..."]

Runs commands on a small table under other hash seeds, thread counts, limits, clocks and
numbers of processes, and twice at once into the same folder (where the second may be refused
because the first works there), and compares with the first run:
tables byte by byte and draws by their largest difference, relative to the largest draw. Draws
may differ by 1e-8 with another number of threads, which sum in another order, and by nothing
otherwise. Renamed languages are shown only: their order changes, and with it the draws, by
Monte-Carlo error. Writes ``results/same_numbers.csv``, where rows of other commands stay. The
exit code is 1 if anything else differs by more.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import h5py
import numpy as np
from kill import tables, write_table
from measure import ROOT, print_table, provenance, write_csv

LARGEST: Final = 1e-8
_REFUSED: Final = 2
_AT_WORK: Final = "wait until it has ended"
_RENAMED: Final = {"deu": "zul", "fin": "afr"}
# Every look at the clock of a process is an hour before the last one, from ten years ago.
_BACKWARDS: Final = """
import itertools, time
hours = itertools.count()
start = time.time() - 10 * 365 * 86400
time.time = lambda: start - 3600.0 * next(hours)
time.time_ns = lambda: int(1e9 * time.time())
"""


@dataclass(frozen=True)
class Variant:
    """Another way to run the same command."""

    name: str
    env: Mapping[str, str] = field(default_factory=lambda: {"OMP_NUM_THREADS": "1"})
    files: int | None = None
    words: tuple[str, ...] = ()
    equal: bool = True
    future: bool = False
    clock: bool = False
    writers: int = 1


_PLAIN: Final = ("--no-figures", "--quiet")
_FIT: Final = ("fit", "--model", "additive", "--draws", "100", "--no-checks", "--no-report")
_JOBS: Final = ("--jobs", "1")
COMMANDS: Final = {
    "fit marginal": (*_FIT, "--engine", "marginal"),
    "fit numpyro": (*_FIT, "--engine", "numpyro", "--tune", "100"),
    "sensitivity": ("sensitivity", "--model", "additive", "--drop", "task"),
    "compare": ("compare", "--models", "additive,interaction"),
    "calibrate": ("calibrate", "--model", "additive", "--simulations", "4"),
}
_FIRST: Final = Variant("first", {"OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0"})
_MIXED: Final = Variant(
    "PYTHONHASHSEED=7", {"OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "7"}, words=_JOBS
)
_TWO: Final = Variant("--jobs 2", words=("--jobs", "2"))
_FITS: Final = (
    Variant("PYTHONHASHSEED=7", {"OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "7"}),
    Variant("OMP_NUM_THREADS=2", {"OMP_NUM_THREADS": "2"}, equal=False),
    Variant("ulimit -n 32", files=32),
    Variant("files of next year", future=True),
    Variant("a clock that runs backwards", clock=True),
    Variant("two writers at once", writers=2),
)
_OTHERS: Final = (
    _MIXED,
    _TWO,
    Variant("a clock that runs backwards", clock=True, words=_JOBS),
    Variant("two writers at once", writers=2, words=_JOBS),
)


def run(words: tuple[str, ...], table: Path, out: Path, variant: Variant) -> str:
    """Run a command in processes of their own; what the first one said that failed."""

    def limit() -> None:
        if variant.files is not None:
            hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
            resource.setrlimit(resource.RLIMIT_NOFILE, (variant.files, hard))

    clock = table.parent / "clock"
    paths = [str(clock)] * variant.clock + [str(ROOT / "src")]
    source = "--like" if words[0] == "calibrate" else "--benchmark"
    command = [
        *(sys.executable, "-m", "bayeseval", *words, *variant.words),
        *(source, str(table), "--out", str(out), *_PLAIN),
    ]
    processes = [
        subprocess.Popen(
            command,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=limit,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), **variant.env},
        )
        for _ in range(variant.writers)
    ]
    # All have to be read before one is judged: a failed one must not leave the other running.
    said = [(process.communicate()[1], process.returncode) for process in processes]
    # Of commands that keep finished work in a folder, the second is refused while the first works.
    refused = [code == _REFUSED and _AT_WORK in text for text, code in said]
    if not all(refused):
        said = [one for one, is_refused in zip(said, refused, strict=True) if not is_refused]
    failed = [f"exit code {code}: {text[-300:]}" for text, code in said if code not in (0, 3)]
    return failed[0] if failed else ""


def draws(out: Path) -> dict[str, np.ndarray]:
    """All variables of the posterior that are numbers; none without a posterior."""
    if not (out / "posterior.nc").is_file():
        return {}
    with h5py.File(out / "posterior.nc") as file:
        group = file["posterior"]
        return {name: group[name][...] for name in group if group[name].dtype.kind == "f"}


def difference(first: Mapping[str, np.ndarray], other: Mapping[str, np.ndarray]) -> float:
    """Largest difference of draws relative to the largest draw of the variable."""
    if first.keys() != other.keys():
        return float("inf")
    shares = [
        float(np.max(np.abs(first[name] - other[name])) / np.max(np.abs(first[name])))
        for name in first
    ]
    return max(shares, default=0.0)


def compare(name: str, place: Path, variants: Sequence[Variant]) -> list[dict[str, object]]:
    """Run one command in all ways; a row for each."""
    words, table = COMMANDS[name], place / "scores.csv"
    base = place / f"{name} first".replace(" ", "-")
    first = Variant(_FIRST.name, _FIRST.env, words=_JOBS if variants is _OTHERS else ())
    if failed := run(words, table, base, first):
        raise SystemExit(f"{name}: {failed}")
    reference, numbers = tables(base), draws(base)
    rows: list[dict[str, object]] = []
    for count, variant in enumerate(variants):
        out = place / f"{name} {count}".replace(" ", "-")
        if variant.future:
            out.mkdir()
            next_year = table.stat().st_mtime + 365 * 86400
            for path in (out, table):
                os.utime(path, (next_year, next_year))
        failed = run(words, table, out, variant)
        largest = float("inf") if failed else difference(numbers, draws(out))
        same = not failed and tables(out) == reference
        left = sorted(path.name for path in place.glob(f".{out.name}*"))
        good = (largest <= LARGEST if not variant.equal else same and largest == 0.0) and not left
        rows.append(
            {
                "run": name,
                "variant": variant.name,
                "tables": "equal" if same else "differ",
                "draws_differ_by": largest if numbers else None,
                "as_expected": "yes" if good else "no",
            }
        )
        print_table(rows[-1:])
        for text in filter(None, (failed, *left)):
            print(f"  {text}", flush=True)
    return rows


def renamed(name: str, place: Path) -> dict[str, object]:
    """The command with languages renamed, so that they sort otherwise."""
    table = place / "renamed.csv"
    text = (place / "scores.csv").read_text(encoding="utf-8")
    for old, new in _RENAMED.items():
        text = text.replace(f",{old},", f",{new},")
    table.write_text(text, encoding="utf-8")
    out, base = (place / f"{name} {kind}".replace(" ", "-") for kind in ("renamed", "first"))
    failed = run(COMMANDS[name], table, out, _FIRST)
    row: dict[str, object] = {
        "run": name,
        "variant": "renamed languages",
        "tables": "differ",
        "draws_differ_by": float("inf") if failed else difference(draws(base), draws(out)),
        "as_expected": "no" if failed else "shown",
    }
    print_table([row])
    return row


def main(given: Sequence[str] | None = None) -> int:
    """Print one row per command and variant; 1 when one differs."""
    parser = argparse.ArgumentParser(description="Compare runs of the same seed.")
    parser.add_argument("--commands", default=",".join(COMMANDS))
    asked = parser.parse_args(given)
    said = provenance()
    rows: list[dict[str, object]] = []
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch)
        (place / "clock").mkdir()
        (place / "clock" / "sitecustomize.py").write_text(_BACKWARDS, encoding="utf-8")
        write_table(place / "scores.csv")
        for name in asked.commands.split(","):
            fits = name.startswith("fit")
            rows += compare(name, place, _FITS if fits else _OTHERS)
            if fits:
                rows.append(renamed(name, place))
            write_csv("same_numbers", rows, said, digits=3, key="run")
    return 0 if all(row["as_expected"] != "no" for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
