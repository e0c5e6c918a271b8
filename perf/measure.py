"""What the measurements share: fresh processes, tables, CSV files, the machine, their origin.

Standard library only. A process that is started takes over its parent's peak memory
on Linux, so whoever measures memory has to stay small itself.
"""

from __future__ import annotations

import csv
import datetime
import json
import os
import platform
import resource
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

__all__ = [
    "RESULTS",
    "ROOT",
    "Run",
    "child",
    "cores",
    "machine",
    "print_machine",
    "print_table",
    "provenance",
    "reply",
    "run",
    "write_csv",
]

Row = Mapping[str, Any]

ROOT: Final = Path(__file__).resolve().parent.parent
RESULTS: Final = ROOT / "perf" / "results"

_PACKAGES: Final = ("pymc", "nutpie", "numpyro", "jax", "bambi", "statsmodels", "numpy")
# What a run of measurements writes itself: a change of these does not change what is measured.
_WRITTEN: Final = ("perf/results", "perf/README.md", "docs/images")
# Options with a value that change no result: a folder of this machine, a number of processes.
_UNSAID: Final = ("--work", "--jobs")
# What a child prints before its answer; libraries may print too.
_MARK: Final = "measured: "


@dataclass(frozen=True)
class Run:
    """One finished process: wall time, peak memory in MiB, output, processor time; in seconds."""

    seconds: float
    memory: float
    output: str
    cpu: float = 0.0


def run(command: Sequence[str], *, environment: Mapping[str, str] | None = None) -> Run:
    """Run a command in a fresh process, from start to exit.

    Raises
    ------
    subprocess.CalledProcessError
        If it fails: a failure is not a measurement.
    """
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as complaints:
        begun = time.perf_counter()
        process = subprocess.Popen(
            command,
            stdout=out,
            stderr=complaints,
            env={**os.environ, **(environment or {})},
            cwd=ROOT,
        )
        # Popen.wait does not tell the resources that were used.
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - begun
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        complaints.seek(0)
        output, said = out.read(), complaints.read()
    if process.returncode:
        print(said, file=sys.stderr)
        raise subprocess.CalledProcessError(process.returncode, command, output, said)
    cpu = usage.ru_utime + usage.ru_stime
    return Run(seconds=seconds, memory=_mib(usage), output=output, cpu=cpu)


def child(script: str, **settings: Any) -> dict[str, Any]:
    """What `script` measures with these settings when started anew with ``--child``.

    Returns
    -------
    dict
        The child's answer, and ``process_s`` and ``memory_mib`` of its whole process.
    """
    done = run([sys.executable, script, "--child", json.dumps(settings)])
    answers = [line for line in done.output.splitlines() if line.startswith(_MARK)]
    answer: dict[str, Any] = json.loads(answers[-1].removeprefix(_MARK))
    return answer | {"process_s": done.seconds, "memory_mib": done.memory}


def reply(answer: Mapping[str, Any]) -> None:
    """Print what a child measured, for :func:`child` to read."""
    print(_MARK + json.dumps(answer), flush=True)


def _mib(usage: resource.struct_rusage) -> float:
    unit = 1 if sys.platform == "darwin" else 1024
    return usage.ru_maxrss * unit / 2**20


def cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def provenance() -> dict[str, str]:
    """Command, commit and date of this run: the last columns of every file of results.

    Call it before the measurement: the commit is the one whose code is measured. It ends
    with ``+changes`` if the working tree differs from it (other than in what measurements
    write), and ``tests/test_perf.py`` refuses a file of results with that mark. The command
    is said without ``--work`` and ``--jobs``, which name this machine's folders and cores.

    Raises
    ------
    subprocess.CalledProcessError
        Outside a git checkout, where a result would have no commit.
    """
    changed = _git("status", "--porcelain", "--", ".", *(f":!{path}" for path in _WRITTEN))
    script = Path(sys.argv[0]).resolve().relative_to(ROOT)
    return {
        "command": shlex.join(["python", script.as_posix(), *_said(sys.argv[1:])]),
        "commit": _git("rev-parse", "HEAD") + ("+changes" if changed else ""),
        "date": datetime.date.today().isoformat(),
    }


def _said(arguments: Sequence[str]) -> list[str]:
    kept, rest = [], iter(arguments)
    for argument in rest:
        name, equals, _ = argument.partition("=")
        if name not in _UNSAID:
            kept.append(argument)
        elif not equals:
            next(rest, None)
    return kept


def _git(*arguments: str) -> str:
    command = ["git", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def machine() -> dict[str, Any]:
    """Cores, processor, load before the measurement, versions, and :func:`provenance`."""
    versions = {}
    for package in _PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            # A peer that is not installed cannot be measured, nor has it a version.
            continue
    return {
        "cores": cores(),
        "processor": _processor(),
        "load": round(os.getloadavg()[0], 2),
        "python": platform.python_version(),
        **versions,
        **provenance(),
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.machine()


def print_machine() -> dict[str, Any]:
    """Print and return :func:`machine`."""
    said = machine()
    print(", ".join(f"{key} {value}" for key, value in said.items()))
    return said


def print_table(rows: Sequence[Row]) -> None:
    """Print rows with the same keys as a table; numbers with three significant digits."""
    cells = [[_shown(value) for value in row.values()] for row in rows]
    head = list(rows[0])
    width = [max(len(line[i]) for line in [head, *cells]) for i in range(len(head))]
    for line in [head, *cells]:
        print("  ".join(cell.rjust(w) for cell, w in zip(line, width, strict=True)))
    print(flush=True)


def _shown(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    return str(value)


def write_csv(
    name: str,
    rows: Sequence[Row],
    said: Mapping[str, Any],
    *,
    digits: int | None = None,
    key: str | None = None,
) -> Path:
    """Write rows to ``perf/results/NAME.csv``, each with what was said of its measurement.

    Parameters
    ----------
    name
        Name of the file, without its suffix.
    rows
        Rows; one that lacks a column of another row has an empty cell there.
    said
        :func:`machine` of a timing, :func:`provenance` of anything else.
    digits
        Significant digits of the numbers of `rows`; None for all.
    key
        Column whose values name a measurement: rows of the file with other values of it stay,
        as they are, before the new ones. None to write the file anew.

    Raises
    ------
    ValueError
        If a column of `rows` has a name of `said`.
    """
    columns = dict.fromkeys(column for row in rows for column in row)
    if both := sorted(columns.keys() & said.keys()):
        raise ValueError(f"rows of {name}.csv use names that the writer uses: {', '.join(both)}")
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.csv"
    earlier: list[dict[str, str]] = []
    if key is not None and path.is_file():
        measured = {str(row[key]) for row in rows}
        with path.open(encoding="utf-8", newline="") as file:
            earlier = [row for row in csv.DictReader(file) if row[key] not in measured]
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, [*columns, *said], lineterminator="\n")
        writer.writeheader()
        writer.writerows(earlier)
        for row in rows:
            rounded = {key: _rounded(value, digits) for key, value in row.items()}
            writer.writerow({**rounded, **said})
    print(f"written: {path.relative_to(ROOT)}", flush=True)
    return path


def _rounded(value: Any, digits: int | None) -> Any:
    # NumPy's floats are floats too; their text is that of a Python float only as one.
    if not isinstance(value, float):
        return value
    return float(value) if digits is None else f"{value:.{digits}g}"
