"""Broken files for every reader, as long as you like, in search of a traceback.

    python perf/fuzz_readers.py --seconds 60 [NAME ...]
    python perf/fuzz_readers.py --folders 2000 [NAME ...]

Mutations of good files of every format (``tests/records/malformed.py``) are loaded, and what
is read is described as ``bayeseval validate`` does, until the time is up. Whatever is neither
a table nor a one-line ``InputError`` is printed with the file that did it, which is kept; so is
what takes longer than ten seconds. Logs of Inspect are read where Inspect is installed, and
its data frames otherwise.

With ``--folders``, a folder of so many files of every tool is read instead, in which every other
file is damaged or changed (``tests/readers/mixed_folders.py``): whether each is read, refused with
a reason, or counted as another file, and whether the counts of the load report add up to the
files of the folder. A run of all tools with 2,000 files writes perf/results/mixed_folders.csv.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import traceback
import warnings
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.errors import HypothesisWarning

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from measure import provenance, write_csv

from bayeseval.errors import BayesevalError
from bayeseval.records import Records, describe, format_description
from tests.readers.good_files import GOOD, Good, inspect_logs
from tests.readers.mixed_folders import TOOLS, fared, write_mixed
from tests.records.malformed import mutated

_BATCH = 200
_FILES = 2000
_SLOW = 10.0


def loads(good: Good, data: bytes) -> str:
    """How a file fares: ``read``, ``refused``, or the traceback."""
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        try:
            found = good.reader(good.write(Path(folder), data))
            for records in found if isinstance(found, tuple) else (found,):
                if isinstance(records, Records):
                    format_description(describe(records))
        except BayesevalError as problem:
            message = str(problem)
            if len(message.splitlines()) != 1 or not message.isprintable():
                return f"not one line: {message}"
            return "refused" if time.monotonic() < begun + _SLOW else "slow"
        # Anything else is what is looked for.
        except Exception:
            return traceback.format_exc()
    return "read" if time.monotonic() < begun + _SLOW else "slow"


def fuzz(good: Good, seconds: float) -> dict[str, int]:
    """Numbers of files by how they fared."""
    counts: dict[str, int] = {}
    end = time.monotonic() + seconds

    @settings(
        max_examples=_BATCH,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(data=st.data())
    def batch(data: Any) -> None:
        content = data.draw(mutated(good))
        if time.monotonic() > end:
            return
        fared = loads(good, content)
        kind = fared if fared in ("read", "refused") else "FOUND"
        counts[kind] = counts.get(kind, 0) + 1
        if kind == "FOUND" and counts[kind] <= 3:
            kept = Path(tempfile.mkdtemp()) / good.file
            kept.write_bytes(content)
            print(f"{good.name}: {kept}\n{fared}")

    while time.monotonic() < end:
        batch()
    return counts


def folders(names: list[str], files: int) -> int:
    """Read a folder of each tool; 1 if a file did not become what it should."""
    origin = provenance()
    rows = []
    for name in names or TOOLS:
        with tempfile.TemporaryDirectory() as place:
            begun = time.process_time()
            wanted = write_mixed(Path(place), name, files)
            written = time.process_time()
            counts = fared(Path(place), name, wanted)
            seconds = time.process_time() - written
        print(f"{name:18} {counts}, written in {written - begun:.1f} s", flush=True)
        rows.append({"tool": name, "written": files, **counts, "CPU seconds": seconds})
    if not names and files == _FILES:
        write_csv("mixed_folders", rows, origin, digits=3)
    return int(any(row["not as wanted"] or row["in notes"] != row["files"] for row in rows))


def main() -> int:
    """Fuzz the readers that are named, or all of them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="formats; all when left out")
    parser.add_argument("--seconds", type=float, default=60.0, help="for each format")
    parser.add_argument("--folders", type=int, metavar="FILES", help="read folders instead")
    asked = parser.parse_args()
    if asked.folders:
        return folders(asked.names, asked.folders)
    warnings.simplefilter("error")
    # It writes a strategy's arguments out, and a log of Inspect is long.
    warnings.simplefilter("ignore", HypothesisWarning)
    every = (*GOOD, *inspect_logs())
    chosen = [good for good in every if not asked.names or good.name in asked.names]
    found = 0
    for good in chosen:
        counts = fuzz(good, asked.seconds)
        found += counts.get("FOUND", 0)
        print(f"{good.name:18} {sum(counts.values()):7,} files: {counts}", flush=True)
    return int(found > 0)


if __name__ == "__main__":
    sys.exit(main())
