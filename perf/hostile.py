"""Small files of strangers: what `bayeseval validate` makes of them, and at what cost.

    python perf/hostile.py [CLASS ...]

Every file of tests/records/hostile.py is validated in a process of its own with limits of time
and memory, in a folder of its own. Reported are tracebacks, files that took longer than 5 s of
CPU time or more than 1 GiB, control characters that reached the terminal, and attempts to write
or to connect. The exit code is 1 if there is any.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import itertools
import os
import re
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bayeseval.cli import main as command
from tests.records.hostile import CLASSES, TIDY, Write

_SECONDS: Final = 5.0
_BYTES: Final = 1 << 30
# Beyond these a process is stopped.
_MAX_CPU: Final = 30
_MAX_WALL: Final = 120
_MAX_ADDRESSES: Final = 16 << 30
_WRITES: Final = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_CALLS: Final = ("socket.connect", "subprocess.Popen", "os.system", "os.exec", "os.remove")
# Line feeds are printed, and joiners (U+200C, U+200D); tabs are not used.
_CONTROL: Final = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff"
    "\U000e0000-\U000e007f]"
)


@dataclass(frozen=True)
class Outcome:
    """How one file fared."""

    seconds: float
    bytes: int
    faults: tuple[str, ...]


def validate(write: Write) -> Outcome:
    """Validate one file in a process of its own."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "case"
        folder.mkdir()
        path = write(folder)
        output = Path(place) / "output"
        process = os.fork()
        if not process:
            _child(path, output)
        usage, status, stopped = _wait(process)
        said = output.read_bytes().decode("utf-8", errors="replace") if output.is_file() else ""
    faults = []
    if stopped:
        faults.append("hang")
    elif os.waitstatus_to_exitcode(status) not in (0, 2):
        faults.append(f"exit code {os.waitstatus_to_exitcode(status)}: {said.strip()[-1500:]}")
    seconds = usage.ru_utime + usage.ru_stime
    size = usage.ru_maxrss * 1024
    faults += [f"{seconds:.1f} s"] if seconds > _SECONDS else []
    faults += [f"{size / 1e9:.2f} GB"] if size > _BYTES else []
    faults += [f"printed {mark!a}" for mark in sorted(set(_CONTROL.findall(said)))]
    faults += [line for line in said.splitlines() if line.startswith("AUDIT")]
    return Outcome(seconds, size, tuple(faults))


def _child(path: Path, output: Path) -> None:
    code = 70
    try:
        handle = os.open(output, os.O_WRONLY | os.O_CREAT)
        os.dup2(handle, 1)
        os.dup2(handle, 2)
        os.chdir(path if path.is_dir() else path.parent)
        resource.setrlimit(resource.RLIMIT_CPU, (_MAX_CPU, _MAX_CPU))
        resource.setrlimit(resource.RLIMIT_AS, (_MAX_ADDRESSES, _MAX_ADDRESSES))
        sys.addaudithook(_audit)
        code = command(["validate", str(path)])
        sys.stdout.flush()
    except BaseException:
        os.write(2, traceback.format_exc().encode("utf-8", errors="replace"))
    finally:
        os._exit(code)


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    """Say so when something is written, removed or asked."""
    writes = event == "open" and isinstance(arguments[2], int) and arguments[2] & _WRITES
    if writes or event in _CALLS:
        os.write(2, f"AUDIT {event} {arguments[0]!a}\n".encode())


def _wait(process: int) -> tuple[resource.struct_rusage, int, bool]:
    end = time.monotonic() + _MAX_WALL
    while True:
        done, status, usage = os.wait4(process, os.WNOHANG)
        if done:
            return usage, status, os.WIFSIGNALED(status) and os.WTERMSIG(status) in (9, 24)
        if time.monotonic() > end:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        time.sleep(0.002)


def main() -> int:
    """Run the classes that are named, or all of them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="classes; all if none")
    parser.add_argument("--every", type=int, default=1, help="only every n-th file of a class")
    parser.add_argument("--scale", type=float, default=1.0, help="of the sizes of the files")
    asked = parser.parse_args()
    # What is imported once is not imported in every process.
    with tempfile.TemporaryDirectory() as place, contextlib.redirect_stdout(io.StringIO()):
        (Path(place) / "t.csv").write_text(TIDY.replace("1.5", "1.75"))
        command(["validate", str(Path(place) / "t.csv")])
    files = faulty = 0
    for name in asked.names or CLASSES:
        counts: Counter[str] = Counter()
        outcomes = []
        for what, write in itertools.islice(CLASSES[name](asked.scale), 0, None, asked.every):
            outcome = validate(write)
            outcomes.append(outcome)
            counts["with faults"] += bool(outcome.faults)
            for fault in outcome.faults[:3]:
                print(f"  {name}, {what!a}: {fault}", flush=True)
        files += len(outcomes)
        faulty += counts["with faults"]
        print(
            f"{name:20} {len(outcomes):5} files, {counts['with faults']} with faults;"
            f" at most {max(one.seconds for one in outcomes):.1f} s,"
            f" {max(one.bytes for one in outcomes) / 1e9:.2f} GB",
            flush=True,
        )
    print(f"{files} files, {faulty} with faults")
    return int(faulty > 0)


if __name__ == "__main__":
    sys.exit(main())
