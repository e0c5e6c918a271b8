"""`perf/kill.py` with a small writer in place of the commands, and with a careless one."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

import pytest

import bayeseval as be

ROOT = Path(__file__).parents[1]
WRITER = """
import sys
from pathlib import Path
from bayeseval.output.store import write_folder, write_text
run = dict.fromkeys(["data_hash", "spec_hash", "engine", "seed", "pairs_hash", "margin"])
text = "x\\n" + "1\\n" * 10
names = ["posterior.nc", "tables/a.csv"]
write_folder(sys.argv[1], {n: lambda path: write_text(text, path) for n in names}, run=run)
"""
# Other numbers every time, and its litter stays.
CARELESS = """
import hashlib, json, os, sys
from pathlib import Path
out = Path(sys.argv[1])
out.mkdir(parents=True, exist_ok=True)
text = "x " + str(os.getpid())
(out / ".a.csv.part").write_text(text)
hashes = {"a.csv": hashlib.sha256(text.encode()).hexdigest()}
(out / "run.json").write_text(json.dumps({"sha256": hashes}))
if not (out / "a.csv").exists():
    (out / "a.csv").write_text(text)
"""


@pytest.fixture
def kill(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """`perf/kill.py`."""
    monkeypatch.syspath_prepend(str(ROOT / "perf"))
    monkeypatch.delitem(sys.modules, "kill", raising=False)
    import kill

    monkeypatch.delitem(sys.modules, "kill")
    return kill


def runs(script: str, kill: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the kills meet a script that writes to the folder after ``--out``."""

    def start(words: Sequence[str]) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-c", script, words[list(words).index("--out") + 1]],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
            env={**os.environ, "PYTHONPATH": str(Path(be.__file__).parents[1])},
        )

    monkeypatch.setattr(kill, "start", start)


def test_a_few_kills_lose_nothing_and_leave_nothing(
    kill: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs(WRITER, kill, monkeypatch)
    outcome = kill.kill_often("fit", 4, seed=0)
    assert outcome.faults == []
    assert outcome.kills + outcome.ended == 4
    assert set(outcome.states) <= {"absent", "whole"}


def test_the_kills_find_a_careless_writer(
    kill: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs(CARELESS, kill, monkeypatch)
    outcome = kill.kill_often("fit", 2, seed=0)
    assert "after kill 2: other numbers" in outcome.faults
    assert "after kill 2: left .a.csv.part" in outcome.faults


def test_a_folder_of_mixed_files_is_broken(kill: ModuleType, tmp_path: Path) -> None:
    assert kill.state(tmp_path / "run") == "absent"
    subprocess.run([sys.executable, "-c", CARELESS, tmp_path / "run"], check=True)
    assert kill.state(tmp_path / "run") == "whole"
    (tmp_path / "run" / "a.csv").write_text("x")
    assert kill.state(tmp_path / "run") == "broken: a.csv is another file"
    (tmp_path / "run" / "a.csv").unlink()
    assert kill.state(tmp_path / "run").startswith("broken: FileNotFoundError")
