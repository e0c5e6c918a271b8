"""`perf/kill.py` with a small writer in place of the commands, and with a careless one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import bayeseval as be

ROOT = Path(__file__).parents[1]
# A process of its own: one that has loaded JAX must not be forked.
DRIVER = """
import hashlib, json, os, select, sys
from pathlib import Path
import kill
from forked import Forked
from bayeseval.output.store import write_folder, write_text

place = Path(sys.argv[1])
run = dict.fromkeys(["data_hash", "spec_hash", "engine", "seed", "pairs_hash", "margin"])
text = "x\\n" + "1\\n" * 10

def whole(words):
    names = ["posterior.nc", "tables/a.csv"]
    writers = {name: lambda path: write_text(text, path) for name in names}
    write_folder(words[words.index("--out") + 1], writers, run=run)
    return 0

def careless(words):
    # Other numbers every time, and its litter stays.
    out = Path(words[words.index("--out") + 1])
    out.mkdir(parents=True, exist_ok=True)
    text = "x " + str(os.getpid())
    (out / ".a.csv.part").write_text(text)
    hashes = {"a.csv": hashlib.sha256(text.encode()).hexdigest()}
    (out / "run.json").write_text(json.dumps({"sha256": hashes}))
    (out / "a.csv").write_text(text)
    work = out.with_name("out.unfinished")
    if words[0] == "calibrate":
        for path in work.glob("*.json"):
            path.unlink()
        work.mkdir(exist_ok=True)
        (work / (str(os.getpid()) + ".json")).write_text("{}")
    os.write(written[1], b"x")
    os.read(goes_on[0], 1)
    return 0

written, goes_on = os.pipe(), os.pipe()

class Halted(Forked):
    # Every kill finds it at work, with its files written.
    def wait(self, seconds=None):
        if seconds is None:
            os.write(goes_on[1], b"x")
        while not select.select(written[:1], [], [], 0.02)[0]:
            if super().wait(0.0) is not None:
                return super().wait()
        os.read(written[0], 1)
        return super().wait() if seconds is None else None

def outcome(command, main, kills):
    run = Forked if main is whole else Halted
    scene = kill.Scene(command, place / main.__name__ / command)
    for name in ("results", "tmp"):
        (scene.place / name).mkdir(parents=True)
    start = lambda words: run(words, place / "log", main=main)
    return kill.kill_often(scene, kills, seed=0, start=start, begin=start)

found = [outcome("fit", whole, 4), outcome("fit", careless, 2), outcome("calibrate", careless, 3)]
print(json.dumps([[one.row(), one.faults] for one in found]))
"""


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[dict[str, Any], list[str]]]:
    """Rows and faults of a whole writer and of two careless ones."""
    paths = os.pathsep.join([str(ROOT / "perf"), str(Path(be.__file__).parents[1])])
    done = subprocess.run(
        [sys.executable, "-c", DRIVER, tmp_path_factory.mktemp("kills")],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": paths},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return list(map(tuple, json.loads(done.stdout)))


@pytest.fixture
def kill(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """`perf/kill.py`."""
    monkeypatch.syspath_prepend(str(ROOT / "perf"))
    for name in ("kill", "forked", "measure"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    import kill

    for name in ("kill", "forked", "measure"):
        monkeypatch.delitem(sys.modules, name)
    return kill


def test_a_few_kills_lose_nothing_and_leave_nothing(
    outcomes: list[tuple[dict[str, Any], list[str]]],
) -> None:
    row, faults = outcomes[0]
    assert faults == []
    assert row["left_absent"] + row["left_whole"] == row["kills"] + row["ended_before"] >= 4
    assert row["runs_to_the_end_equal"] >= 1
    assert row["left_broken"] == 0


def test_the_kills_find_a_careless_writer(
    outcomes: list[tuple[dict[str, Any], list[str]]],
) -> None:
    faults = outcomes[1][1]
    assert faults[0] == "a fork writes other tables than a process"
    said = [fault.partition(": ")[2] for fault in faults]
    assert "other numbers" in said
    assert "left .a.csv.part" in said


def test_the_kills_find_work_that_is_lost(
    outcomes: list[tuple[dict[str, Any], list[str]]],
) -> None:
    assert any(": lost " in fault for fault in outcomes[2][1])


def test_a_folder_of_mixed_files_is_broken(kill: ModuleType, tmp_path: Path) -> None:
    out = tmp_path / "run"
    assert kill.state(out) == "absent"
    out.mkdir()
    (out / "a.csv").write_text("1\n")
    digest = "4355a46b19d348dc2f57c046f8ef63d4538ebb936000f3c9ee954a27460dd865"
    (out / "run.json").write_text(json.dumps({"sha256": {"a.csv": digest}}))
    assert kill.state(out) == "whole"
    (out / "a.csv").write_text("x")
    assert kill.state(out) == "broken: a.csv is another file"
    (out / "a.csv").unlink()
    assert kill.state(out).startswith("broken: FileNotFoundError")
