"""Files of strangers, of every class of defect: what the commands make of them, at what cost.

    python perf/hostile.py [CLASS ...]

Every file of tests/records/hostile.py is read in a process of its own, with limits of time and
memory, in a folder of its own: tables by `validate`, those of rows with `--memory`, models by
`fit`, cells by `predict` and `next`, result folders by `report`, `cite`, `plan` and `forecast`,
one after the other. Reported are tracebacks, files that took longer than 5 s of CPU time or more
than 1 GiB, control characters that reached the terminal, and attempts to write elsewhere or to
connect. The exit code is 1 if there is any. Rows of
classes that were read whole go to perf/results/hostile.csv, in the place of earlier ones.

The peak of a process counts what it shares with the one that started it, about 0.2 GiB.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import gc
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
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from measure import provenance, write_csv

from bayeseval.cli import main as command
from tests.records.hostile import CLASSES, COMMANDS
from tests.records.hostile_results import copy
from tests.records.hostile_texts import TIDY, Write

_SECONDS: Final = 5.0
_BYTES: Final = 1 << 30
# Beyond these a process is stopped.
_MAX_CPU: Final = 30
_MAX_WALL: Final = 120
_MAX_ADDRESSES: Final = 16 << 30
_WRITES: Final = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_FILES: Final = ("open", "os.remove")
_READ: Final = 0
_REFUSED: Final = 2
_CALLS: Final = ("socket.connect", "subprocess.Popen", "os.system", "os.exec", "os.remove")
# Line feeds are printed, and joiners (U+200C, U+200D); tabs are not used.
_CONTROL: Final = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff"
    "\U000e0000-\U000e007f]"
)


@dataclass(frozen=True)
class Outcome:
    """How one file fared; `refused` by one of the commands at least."""

    seconds: float
    bytes: int
    refused: bool
    faults: tuple[str, ...]


def outcome_of(name: str, write: Write) -> Outcome:
    """Read one file of a class in a process of its own."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "case"
        folder.mkdir()
        path = write(folder)
        output = Path(place) / "output"
        words = {"path": str(path), "folder": str(folder)}
        commands = [
            [word.format(**words) for word in one]
            for one in COMMANDS.get(name, (("validate", "{path}"),))
        ]
        process = os.fork()
        if not process:
            _child(path, folder if name in COMMANDS else None, commands, output)
        usage, status, stopped = _wait(process)
        said = output.read_bytes().decode("utf-8", errors="replace") if output.is_file() else ""
        more = sorted(one.name for one in Path(place).iterdir() if one not in (folder, output))
    code = os.waitstatus_to_exitcode(status)
    faults = [f"wrote {name}" for name in more]
    if stopped:
        faults.append("hang")
    elif code not in (_READ, _REFUSED):
        faults.append(f"exit code {code}: {said.strip()[-1500:]}")
    seconds = usage.ru_utime + usage.ru_stime
    size = usage.ru_maxrss * 1024
    faults += [f"{seconds:.1f} s"] if seconds > _SECONDS else []
    faults += [f"{size / 2**30:.2f} GiB"] if size > _BYTES else []
    faults += [f"printed {mark!a}" for mark in sorted(set(_CONTROL.findall(said)))]
    faults += [line for line in said.splitlines() if line.startswith("AUDIT")]
    return Outcome(seconds, size, code == _REFUSED, tuple(faults))


def _child(path: Path, own: Path | None, commands: list[list[str]], output: Path) -> None:
    """Call the commands; only in the folder `own` may they write."""
    code = 70
    try:
        handle = os.open(output, os.O_WRONLY | os.O_CREAT)
        os.dup2(handle, 1)
        os.dup2(handle, 2)
        os.chdir(own or (path if path.is_dir() else path.parent))
        if any("--memory" in one for one in commands):
            # What is kept of rows that were reduced.
            os.environ["BAYESEVAL_CACHE"] = str(output.parent / "case" / "cache")
        resource.setrlimit(resource.RLIMIT_CPU, (_MAX_CPU, _MAX_CPU))
        resource.setrlimit(resource.RLIMIT_AS, (_MAX_ADDRESSES, _MAX_ADDRESSES))
        sys.addaudithook(functools.partial(_audit, os.path.realpath(own) if own else None))
        # 3: of a result whose gate failed.
        codes = {command(one) for one in commands} - {0, 3}
        sys.stdout.flush()
        code = min(codes, default=_READ)
    except BaseException:
        os.write(2, traceback.format_exc().encode("utf-8", errors="replace"))
    finally:
        os._exit(code)


def _audit(own: str | None, event: str, arguments: tuple[Any, ...]) -> None:
    """Say so when something is written or removed elsewhere, or asked."""
    writes = event == "open" and isinstance(arguments[2], int) and arguments[2] & _WRITES
    if not writes and event not in _CALLS:
        return
    if event == "open" and arguments[0] == os.devnull:
        return
    if own and event in _FILES and isinstance(arguments[0], str | os.PathLike):
        where = os.path.realpath(Path(arguments[0]).parent)
        if os.path.commonpath([where, own]) == own:
            return
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


def _warm_up() -> None:
    """Import what the commands need: what is imported once is not imported in every process."""
    with tempfile.TemporaryDirectory() as place, contextlib.redirect_stdout(io.StringIO()):
        table = Path(place) / "t.csv"
        table.write_text(TIDY.replace("1.5", "1.75"))
        result = copy(Path(place))
        words = {"path": str(result), "folder": place}
        for one in (("validate", str(table)), *COMMANDS["run_files"], *COMMANDS["result_tables"]):
            command([word.format(**words) for word in one])
    # What is imported is not collected, and so not copied, in every process again.
    gc.freeze()


def main() -> int:
    """Run the classes that are named, or all of them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="classes; all if none")
    parser.add_argument("--every", type=int, default=1, help="only every n-th file of a class")
    parser.add_argument("--scale", type=float, default=1.0, help="of the sizes of the files")
    asked = parser.parse_args()
    origin = provenance()
    _warm_up()
    rows: list[dict[str, Any]] = []
    for name in asked.names or CLASSES:
        outcomes = []
        for what, write in itertools.islice(CLASSES[name](asked.scale), 0, None, asked.every):
            outcome = outcome_of(name, write)
            outcomes.append(outcome)
            for fault in outcome.faults[:3]:
                print(f"  {name}, {what!a}: {fault}", flush=True)
        rows.append(
            {
                "class": name,
                "files": len(outcomes),
                "read": sum(not one.refused for one in outcomes),
                "refused": sum(one.refused for one in outcomes),
                "with faults": sum(bool(one.faults) for one in outcomes),
                "worst seconds": max(one.seconds for one in outcomes),
                "worst GiB": max(one.bytes for one in outcomes) / 2**30,
                "CPU seconds": sum(one.seconds for one in outcomes),
            }
        )
        print(
            "{:18} {:5} files, {} read, {} refused, {} with faults; at most {:.1f} s, {:.2f} GiB;"
            " {:.0f} s in all".format(*rows[-1].values()),
            flush=True,
        )
    files, faulty = (sum(row[column] for row in rows) for column in ("files", "with faults"))
    if asked.every == 1 and asked.scale == 1.0:
        write_csv("hostile", rows, origin, digits=3, key="class" if asked.names else None)
    print(f"{files} files, {faulty} with faults")
    return int(faulty > 0)


if __name__ == "__main__":
    sys.exit(main())
