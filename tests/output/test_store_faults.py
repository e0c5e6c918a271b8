"""What kills, refusals and a second writer leave of a result folder, at every step of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bayeseval.output import store

DRIVER = Path(__file__).with_name("kill_driver.py")
SOURCE = Path(store.__file__).parents[2]


def drive(folder: Path, scenario: str) -> dict[str, Any]:
    """Run the kill driver in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-W", "error", str(DRIVER), str(folder / "kill"), scenario],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def test_a_kill_at_any_step_leaves_old_or_new_results_whole(tmp_path: Path) -> None:
    result = drive(tmp_path, "replace")
    assert result["finished"]
    # Every operation on files was a place to die at; both ends of the swap were seen.
    assert result["steps"] > 50
    assert set(result["opened"]) == {"old results", "new results"}
    assert result["leftovers"] == []
    if sys.platform.startswith("linux"):
        # Nobody, not even a plain `ls`, ever sees anything else.
        assert set(result["seen"]) == {"old results", "new results"}


def test_a_kill_between_two_renames_is_repaired(tmp_path: Path) -> None:
    result = drive(tmp_path, "two renames")
    assert result["finished"]
    assert result["seen"]["absent"] == 1
    assert set(result["seen"]) == {"old results", "absent", "new results"}
    assert set(result["opened"]) == {"old results", "new results"}
    assert result["leftovers"] == []


def test_a_kill_of_the_first_run_leaves_all_or_nothing(tmp_path: Path) -> None:
    result = drive(tmp_path, "fresh")
    assert result["finished"]
    assert set(result["seen"]) == {"absent", "new results"}
    assert result["leftovers"] == []


def test_a_kill_at_any_step_of_adding_a_table_leaves_the_old_or_the_new_one(tmp_path: Path) -> None:
    result = drive(tmp_path, "additions")
    assert result["finished"]
    assert result["steps"] > 20
    # Each with a hash of its own or with none, never with that of the other.
    assert set(result["seen"]) == {"old plan", "new plan"}
    assert result["left"] == []


@pytest.mark.parametrize("scenario", ["refused", "refused from there on"])
def test_permission_that_is_lost_midway_is_one_line(tmp_path: Path, scenario: str) -> None:
    result = drive(tmp_path, scenario)
    assert result["steps"] > 80
    # 3 is the one run that was not refused. Some steps are not needed: locks, cleaning up.
    assert set(result["seen"]) <= {
        *("2: old results", "2: new results", "0: new results", "3: new results")
    }
    assert result["seen"]["2: old results"] > 15
    assert result["seen"]["3: new results"] == 1
    assert set(result["said"]) <= {"/run could not be written", "/run/run.json cannot be read"}
    assert result["left"] == []


def test_the_kill_driver_sees_a_careless_writer(tmp_path: Path) -> None:
    """Negative control: files written one by one are found mixed."""
    result = drive(tmp_path, "careless")
    assert any(key.startswith("mixed") for key in result["seen"])


@pytest.mark.parametrize("scenario", ["race", "race two renames"])
def test_two_processes_at_once_do_not_corrupt(tmp_path: Path, scenario: str) -> None:
    result = drive(tmp_path, scenario)
    assert result["codes"] == [0, 0]
    # The last turn of one of the two, whole, with the user's files; nothing lies about.
    assert result["seen"] in {f"results 39 of {number}" for number in range(2)}
    assert result["leftovers"] == []
