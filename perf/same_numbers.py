"""The same seed gives the same numbers, whatever the machine does otherwise.

    python perf/same_numbers.py

Fits a small table and the table with its languages renamed under other hash seeds, thread
counts, limits and numbers of processes, and compares with the first run: tables byte by byte
and draws by their largest difference, relative to the largest draw. Draws may differ by 1e-8
with another number of threads, which sum in another order, and by nothing otherwise.
Renamed languages are shown only: their order changes, and with it the draws, by Monte-Carlo
error. The exit code is 1 if anything else differs by more.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import h5py
import numpy as np
from kill import tables, write_table
from measure import ROOT

LARGEST: Final = 1e-8
_RENAMED: Final = {"deu": "zul", "fin": "afr"}


@dataclass(frozen=True)
class Variant:
    """Another way to run the same command."""

    name: str
    env: Mapping[str, str] = field(default_factory=dict)
    files: int | None = None
    words: tuple[str, ...] = ()
    equal: bool = True
    future: bool = False


COMMANDS: Final = {
    "fit marginal": ("fit", "--model", "additive", "--engine", "marginal", "--draws", "100"),
    "fit numpyro": (
        *("fit", "--model", "additive", "--engine", "numpyro"),
        *("--draws", "100", "--tune", "100"),
    ),
    "sensitivity": ("sensitivity", "--model", "additive", "--drop", "task"),
}
_FIRST: Final = Variant("first", {"OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0"})
VARIANTS: Final = (
    Variant("PYTHONHASHSEED=7", {"OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "7"}),
    Variant("OMP_NUM_THREADS=2", {"OMP_NUM_THREADS": "2"}, equal=False),
    Variant("ulimit -n 32", {"OMP_NUM_THREADS": "1"}, files=32),
    Variant("files of next year", {"OMP_NUM_THREADS": "1"}, future=True),
)
_JOBS: Final = tuple(
    Variant(f"--jobs {jobs}", {"OMP_NUM_THREADS": "1"}, words=("--jobs", jobs)) for jobs in "12"
)


def run(words: tuple[str, ...], table: Path, out: Path, variant: Variant) -> str:
    """Run a command in a process of its own; what it said if it failed."""

    def limit() -> None:
        if variant.files is not None:
            hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
            resource.setrlimit(resource.RLIMIT_NOFILE, (variant.files, hard))

    done = subprocess.run(
        [
            *(sys.executable, "-m", "bayeseval", *words, *variant.words),
            *("--benchmark", str(table), "--out", str(out), "--no-figures", "--quiet"),
            *(("--no-checks", "--no-report") if words[0] == "fit" else ()),
        ],
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=limit,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), **variant.env},
    )
    return "" if done.returncode in (0, 3) else f"exit code {done.returncode}: {done.stderr[-300:]}"


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


def main() -> int:
    """Print one line per command and variant; 1 when one differs."""
    wrong = 0
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch)
        table = place / "scores.csv"
        write_table(table)
        for name, words in COMMANDS.items():
            base = place / f"{name} first".replace(" ", "-")
            failed = run(words, table, base, _FIRST)
            if failed:
                raise SystemExit(f"{name}: {failed}")
            reference, numbers = tables(base), draws(base)
            for variant in _JOBS if name == "sensitivity" else VARIANTS:
                out = place / f"{name} {variant.name}".replace(" ", "-").replace("=", "-")
                if variant.future:
                    out.mkdir()
                    next_year = 2 * table.stat().st_mtime
                    for path in (out, table):
                        os.utime(path, (next_year, next_year))
                failed = run(words, table, out, variant)
                largest = float("inf") if failed else difference(numbers, draws(out))
                same = not failed and tables(out) == reference
                good = largest <= LARGEST if not variant.equal else same and largest == 0.0
                wrong += not good
                print(
                    f"{name}, {variant.name}: tables {'equal' if same else 'differ'}, draws "
                    f"differ by {largest:.2g}{'' if good else ' (too much)'} {failed}".rstrip(),
                    flush=True,
                )
        renamed = place / "renamed.csv"
        text = table.read_text(encoding="utf-8")
        for old, new in _RENAMED.items():
            text = text.replace(f",{old},", f",{new},")
        renamed.write_text(text, encoding="utf-8")
        for name, words in list(COMMANDS.items())[:2]:
            out = place / f"{name} renamed".replace(" ", "-")
            failed = run(words, renamed, out, _FIRST)
            base = place / f"{name} first".replace(" ", "-")
            largest = float("inf") if failed else difference(draws(base), draws(out))
            print(f"{name}, renamed languages: draws differ by {largest:.2g} {failed}".rstrip())
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
