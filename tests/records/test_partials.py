"""The cache of partial results: what is removed when it is opened."""

from __future__ import annotations

import os
import time
from pathlib import Path

from bayeseval.records.partials import Partials

DAY = 24 * 3600.0


def test_what_is_old_is_removed(tmp_path: Path) -> None:
    folder = tmp_path / "rows"
    folder.mkdir()
    days = {
        "a-1.parquet": 29,
        "b-1.parquet": 31,
        # Of files that are named like the folder of a reader.
        "run-1-0.parquet": 31,
        "run-2-0.parquet": 29,
        "c-1.txt": 31,
        # A killed process left the first; the second may be that of a running one.
        "d-1.77.tmp": 2,
        "e-1.78.tmp": 0.5,
        "notes.md": 400,
    }
    for name, age in days.items():
        (folder / name).write_text("x")
        then = time.time() - age * DAY
        os.utime(folder / name, (then, then))
    for name, age in {"run-killed": 2, "run-at-work": 0.5}.items():
        (folder / name / "spilled").mkdir(parents=True)
        (folder / name / "spilled" / "block").write_text("x")
        then = time.time() - age * DAY
        os.utime(folder / name, (then, then))
    assert Partials.open(tmp_path).folder == folder
    assert sorted(path.name for path in folder.iterdir()) == [
        "a-1.parquet",
        "e-1.78.tmp",
        "notes.md",
        "run-2-0.parquet",
        "run-at-work",
    ]
    assert (folder / "run-at-work" / "spilled" / "block").is_file()
