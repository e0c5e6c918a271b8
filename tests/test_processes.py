"""Work one after the other and in several processes: the same results, in order."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from joblib.externals.loky import get_reusable_executor

import bayeseval
from bayeseval._processes import run_all, sensible_jobs
from bayeseval.engines import ENGINES, cores_of
from bayeseval.errors import InputError

ROOT = Path(__file__).resolve().parents[1]
DRIVER = ROOT / "tests" / "second_process_driver.py"


def test_the_results_do_not_depend_on_the_number_of_processes() -> None:
    told: list[tuple[str, int, int, str]] = []

    def work(shared: None, item: int, beat: object) -> tuple[int, int, bool]:
        return item**2, os.getpid(), beat is None

    def tell(*report: object) -> None:
        told.append(report)  # type: ignore[arg-type]

    here = run_all(work, [3, 1, 2], shared=None, jobs=1, stage="work", progress=tell)
    there = run_all(work, [3, 1, 2], shared=None, jobs=2, stage="work", progress=tell)
    assert [square for square, _, _ in here] == [9, 1, 4]
    assert [square for square, _, _ in there] == [9, 1, 4]
    assert {pid for _, pid, _ in here} == {os.getpid()}
    # Only this process is there to be told of Ctrl-C.
    assert os.getpid() not in {pid for _, pid, _ in there}
    assert [alone for _, _, alone in here + there] == [False] * 3 + [True] * 3
    assert told[:4] == told[4:] == [("work", i, 3, "") for i in range(4)]


def test_what_a_piece_of_work_reports_is_passed_on() -> None:
    told = []

    def work(shared: None, item: int, beat: object) -> int:
        beat("sampling", 1, 2, "")  # type: ignore[operator]
        return item

    run_all(
        work, [7], shared=None, jobs=1, stage="fits", progress=lambda *report: told.append(report)
    )
    assert told == [("fits", 0, 1, ""), ("fits", 0, 1, "sampling"), ("fits", 1, 1, "")]


def test_pieces_that_are_done_are_named() -> None:
    def work(shared: None, item: int, beat: object) -> int:
        return item

    for jobs in (1, 2):
        told: list[tuple[object, ...]] = []
        run_all(
            work,
            [3, 1],
            shared=None,
            jobs=jobs,
            stage="work",
            progress=lambda *report, told=told: told.append(report[1:]),
            labels=["a", "b"],
        )
        # In a log file the last remark would stand for the whole.
        assert (told[0], told[2]) == ((0, 2, ""), (2, 2, ""))
        # Of two processes either may be the first.
        assert told[1] in [(1, 2, name) for name in ("a", "b")[:jobs]]


def test_jobs_are_a_positive_number() -> None:
    assert sensible_jobs(3, cores_each=4) == 3
    with pytest.raises(InputError, match=r"jobs must be at least 1, got 0"):
        sensible_jobs(0, cores_each=1)


def test_as_many_jobs_as_there_are_cores_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(10)), raising=False)
    found = {engine: sensible_jobs(None, cores_each=cores_of(engine)) for engine in ENGINES}
    assert found == {"numpyro": 2, "pymc": 2, "marginal": 10, "ml": 10}
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0}, raising=False)
    assert sensible_jobs(None, cores_each=4) == 1


@pytest.fixture(scope="module")
def second(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What a program of its own says of a second process."""
    folder = tmp_path_factory.mktemp("second")
    rows = [
        f"{language},{task},{model},{50 + 7 * i + 3 * j + 2 * k + (i * j + k) % 4}"
        for i, language in enumerate(("de", "en", "sw", "yo"))
        for j, task in enumerate(("nli", "qa"))
        for k, model in enumerate("ABC")
    ]
    (folder / "table.csv").write_text("\n".join(["language,task,model,score", *rows]))
    source = Path(bayeseval.__file__).parents[1]
    done = subprocess.run(
        [sys.executable, str(DRIVER), str(folder)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join((str(source), str(ROOT)))},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    # Neither what the second process warned of nor a death of it is for the user.
    assert "Traceback" not in done.stderr
    found: dict[str, Any] = json.loads((folder / "found.json").read_text())
    return found


needs_linux = pytest.mark.skipif(
    sys.platform != "linux", reason="no copy of a process is made elsewhere"
)


@needs_linux
def test_a_second_process_is_prepared_once_and_answers_in_any_order(second: dict[str, Any]) -> None:
    assert second["another process"]
    assert second["first"] == [1, 10]
    assert second["last"] == [1, 7]
    assert second["length"] == second["large"] == 5_000_000
    # Ctrl-C is for the process that shows results.
    assert second["interrupt is ignored"]
    assert second["prepared here"] == 0


@needs_linux
def test_what_fails_or_warns_there_is_left_to_be_done_here(second: dict[str, Any]) -> None:
    assert second["warned"] is second["failed"] is second["after death"] is None
    assert second["after a late result"] == [None, None]


def test_there_is_no_second_process_where_none_is_safe(second: dict[str, Any]) -> None:
    assert second["outside"] is second["beside a thread"] is None


@needs_linux
def test_figures_that_another_process_draws_are_the_same_files(second: dict[str, Any]) -> None:
    (code, here), (again, elsewhere) = second["here"], second["elsewhere"]
    assert second["drawn here"] == ["here"]
    assert code == again
    assert {Path(name).suffix for name in here} == {".csv", ".nc", ".png", ".svg"}
    assert "figures/checks.svg" in here
    assert here == elsewhere


def test_a_worker_that_is_replaced_is_not_reported_and_other_warnings_are() -> None:
    def work(shared: None, item: int, beat: object) -> int:
        from joblib.externals.loky import process_executor as loky

        # As if its memory had grown beyond what joblib allows: this worker stops after the piece.
        loky._USE_PSUTIL = True
        loky._MEMORY_LEAK_CHECK_DELAY = -1.0
        loky._get_memory_usage = lambda pid, force_gc=False: 1e12 * time.monotonic()
        time.sleep(0.02)
        return os.getpid()

    def tell(stage: str, done: int, total: int, remark: str) -> None:
        warnings.warn(f"A worker said {done}", UserWarning, stacklevel=1)

    before = list(warnings.filters)
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        pids = run_all(work, range(8), shared=None, jobs=2, stage="work", progress=tell)
        get_reusable_executor().shutdown()
    assert len(set(pids)) > 2
    assert [str(one.message) for one in shown] == [f"A worker said {i}" for i in range(9)]
    assert warnings.filters == before


def test_what_is_there_already_is_not_done_again() -> None:
    def work(shared: int, item: int, beat: object) -> int:
        return shared + item

    told: list[tuple[object, ...]] = []
    kept: dict[int, int] = {}
    found = run_all(
        work,
        [1, 2, 3],
        shared=10,
        jobs=1,
        stage="work",
        progress=lambda *report: told.append(report[1:3]),
        keep=kept.__setitem__,
        done={1: 70},
    )
    assert found == [11, 70, 13]
    assert kept == {0: 11, 2: 13}
    assert told == [(1, 3), (2, 3), (3, 3)]


WORK_FOREVER = """
import os, sys, time
from collections.abc import Callable
from pathlib import Path

from bayeseval._processes import run_all


def work(folder, item, beat):
    Path(folder, str(os.getpid())).touch()
    time.sleep(600.0)


def tell(*report):
    pass


run_all(work, [0, 1], shared=sys.argv[1], jobs=2, stage="work", progress=tell)
"""


@needs_linux
def test_workers_end_with_a_process_that_was_killed(tmp_path: Path) -> None:
    source = Path(bayeseval.__file__).parents[1]
    command = [sys.executable, "-c", WORK_FOREVER, str(tmp_path)]
    parent = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": str(source)})
    try:
        workers = _wait_for(lambda: [int(path.name) for path in tmp_path.iterdir()], at_least=2)
        assert all(map(_runs, workers))
    finally:
        parent.kill()
        parent.wait()
    left = _wait_for(lambda: [one for one in workers if not _runs(one)], at_least=2)
    assert sorted(left) == sorted(workers)


# A process whose child begins its work when it is told to.
WORK_LATE = """
import os, subprocess, sys

CHILD = '''
import sys
from pathlib import Path

from bayeseval._processes import _work_for


def work(folder, item, beat):
    Path(folder, item).touch()


Path(sys.argv[1], "waiting").touch()
sys.stdin.readline()
_work_for(False, int(sys.argv[2]), work, sys.argv[1], "worked", 0)
'''

subprocess.run([sys.executable, "-c", CHILD, sys.argv[1], str(os.getpid())], check=False)
"""


@needs_linux
@pytest.mark.parametrize("killed", [True, False])
def test_a_worker_ends_where_its_parent_is_gone_before_it_begins(
    tmp_path: Path, killed: bool
) -> None:
    source = Path(bayeseval.__file__).parents[1]
    command = [sys.executable, "-c", WORK_LATE, str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": str(source)}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, env=environment, **pipes) as parent:
        assert parent.stdin is not None and parent.stdout is not None
        waiting = tmp_path / "waiting"
        _wait_for(lambda: [1] * waiting.exists(), at_least=1)
        if killed:
            parent.kill()
            parent.wait()
        parent.stdin.write(b"begin\n")
        parent.stdin.close()
        # The output ends with the last of the two processes.
        assert parent.stdout.read() == b""
    assert (tmp_path / "worked").exists() != killed


def _wait_for(listed: Callable[[], list[int]], *, at_least: int) -> list[int]:
    """What is listed as soon as it is enough, or after a minute."""
    for _ in range(600):
        if len(listed()) >= at_least:
            break
        time.sleep(0.1)
    return listed()


def _runs(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text(encoding="ascii").rpartition(")")[2]
    except OSError:
        return False
    # One that has ended may wait for its new parent to ask.
    return state.split()[0] != "Z"
