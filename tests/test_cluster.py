"""A real Dask cluster on this machine: the same results, workers that die, and what is refused."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from distributed import Client, LocalCluster, Status, WorkerPlugin, get_worker

import bayeseval as be
from bayeseval import _cluster
from bayeseval._cluster import Cluster, find_cluster
from bayeseval._processes import run_all, sensible_jobs
from bayeseval._typing import Progress
from bayeseval.cli import main
from bayeseval.errors import EngineError, InputError
from bayeseval.records import Records

# No limit on memory: it would depend on that of the machine.
LOCAL: dict[str, Any] = {"host": "127.0.0.1", "dashboard_address": ":0", "memory_limit": 0}


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time for a busy machine."""
    monkeypatch.setattr(_cluster, "_CONNECT", 300.0)
    monkeypatch.setattr(_cluster, "_PATIENCE", 300.0)


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    """Two workers, each a process with one thread."""
    with LocalCluster(n_workers=2, threads_per_worker=1, **LOCAL) as cluster:
        yield cluster


@pytest.fixture
def address(cluster: LocalCluster) -> str:
    return str(cluster.scheduler_address)


@pytest.fixture
def client(address: str) -> Iterator[Client]:
    """Who looks at the cluster from outside."""
    with Client(address, set_as_default=False) as client:
        client.wait_for_workers(2, timeout=600)
        yield client


@pytest.fixture(scope="module")
def records() -> Records:
    return be.simulate(
        "additive", n_languages=5, n_tasks=3, n_models=4, observed_share=0.9, seed=4
    ).records


def quiet(*report: object) -> None:
    """Progress that nobody reads."""


class Noted:
    """Writes a line to a file whenever it is received."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.data = bytes(100_000)

    def __reduce__(self) -> tuple[Any, ...]:
        return receive, (self.path,)


def receive(path: Path) -> Noted:
    with path.open("a") as file:
        file.write(f"{os.getpid()}\n")
    return Noted(path)


def square(shared: Noted, item: int, beat: Progress | None) -> tuple[int, int]:
    assert len(shared.data) == 100_000
    return item**2, os.getpid()


def test_what_all_share_is_sent_to_each_worker_once(address: str, tmp_path: Path) -> None:
    kept: dict[int, Any] = {}
    told: list[tuple[object, ...]] = []
    found = run_all(
        square,
        [3, 1, 2, 5, 4, 6],
        shared=Noted(tmp_path / "received"),
        jobs=find_cluster(address),
        stage="work",
        progress=lambda *report: told.append(report[1:3]),
        keep=kept.__setitem__,
    )
    assert [value for value, _ in found] == [9, 1, 4, 25, 16, 36]
    assert os.getpid() not in {pid for _, pid in found}
    assert kept == dict(enumerate(found))
    assert list(dict.fromkeys(told)) == [(done, 6) for done in range(7)]
    received = (tmp_path / "received").read_text().split()
    assert len(received) == len(set(received)) <= 2


class KillOnce(WorkerPlugin):
    """Ends the first worker that begins a second piece, in the midst of its work."""

    def __init__(self, note: Path) -> None:
        self.note = note
        self.begun = 0

    def transition(self, key: Any, start: str, finish: str, **_: Any) -> None:
        self.begun += finish == "executing"
        if self.begun < 2:
            return
        # The other worker, or the one that replaces this one, finds the note and goes on.
        with suppress(FileExistsError), self.note.open("x") as file:
            file.write(str(os.getpid()))
            file.flush()
            os.kill(os.getpid(), signal.SIGKILL)


def test_a_worker_killed_half_way_changes_nothing(
    records: Records, address: str, client: Client, tmp_path: Path
) -> None:
    alone = be.compare(records, "additive", holdout=0.3, repeats=4, jobs=1)
    before = set(client.run(os.getpid).values())
    client.register_plugin(KillOnce(tmp_path / "killed"), name="kill once")
    try:
        found = be.compare(records, "additive", holdout=0.3, repeats=4, dask=address)
    finally:
        client.unregister_worker_plugin("kill once")
    killed = int((tmp_path / "killed").read_text())
    assert killed in before
    pd.testing.assert_frame_equal(found.predictions, alone.predictions, check_exact=True)
    pd.testing.assert_frame_equal(found.table, alone.table, check_exact=True)
    assert killed not in client.run(os.getpid).values()


def test_refits_and_simulations_are_the_same_as_here(records: Records, address: str) -> None:
    there, here = (
        be.sensitivity(records, "additive", drop=[], groups={"g": "m1"}, **where).moves
        for where in ({"dask": address}, {"jobs": 1})
    )
    pd.testing.assert_frame_equal(there, here, check_exact=True)
    there, here = (
        be.calibrate("additive", like=records, simulations=1, draws=200, **where).simulations
        for where in ({"dask": address}, {"jobs": 1})
    )
    pd.testing.assert_frame_equal(there, here, check_exact=True)


def end_worker(shared: Path, item: int, beat: Progress | None) -> int:
    if item == 1:
        # It is the last one that a worker gets, so that the others can be fetched before.
        deadline = time.monotonic() + 300
        while len(list(shared.iterdir())) < 2 and time.monotonic() < deadline:
            time.sleep(0.02)
        os.kill(os.getpid(), signal.SIGKILL)
    return item


def test_a_piece_that_ends_every_worker_is_named(
    cluster: LocalCluster, client: Client, tmp_path: Path
) -> None:
    scheduler = cluster.scheduler
    before, scheduler.allowed_failures = scheduler.allowed_failures, 0
    try:
        with pytest.raises(EngineError, match="a piece of work ended 1 worker that tried it; give"):
            run_all(
                end_worker,
                [0, 2, 1],
                shared=tmp_path,
                jobs=Cluster(cluster.scheduler_address),
                stage="work",
                progress=quiet,
                keep=lambda i, result: (tmp_path / str(result)).touch(),
            )
    finally:
        scheduler.allowed_failures = before
    assert {path.name for path in tmp_path.iterdir()} == {"0", "2"}


def wait_for_ever(shared: Path, item: int, beat: Progress | None) -> int:
    assert beat is not None
    (shared / f"begun{item}").touch()
    try:
        while True:
            time.sleep(0.02)
            beat("waiting", 0, 1, "")
    finally:
        (shared / f"ended{item}").touch()


def test_ctrl_c_ends_the_pieces_at_the_workers(
    address: str, client: Client, tmp_path: Path
) -> None:
    def pieces(state: str) -> set[str]:
        return {path.name.removeprefix(state) for path in tmp_path.glob(f"{state}*")}

    def interrupt(*report: object) -> None:
        if len(pieces("begun")) >= 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_all(
            wait_for_ever,
            [1, 2, 3],
            shared=tmp_path,
            jobs=Cluster(address),
            stage="work",
            progress=interrupt,
        )
    # Which of the three pieces have begun is for the scheduler; all of those end.
    deadline = time.monotonic() + 300
    while (begun := pieces("begun")) != pieces("ended") and time.monotonic() < deadline:
        time.sleep(0.05)
    assert len(begun) >= 2
    assert pieces("ended") == begun
    while any(client.processing().values()) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(client.processing().values())


def test_other_versions_are_named(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    own = _cluster._facts()
    assert {"Python", "bayeseval", "numpy", "jax"} <= set(own)
    monkeypatch.setattr(_cluster, "_facts", lambda: {**own, "numpy": "1.0", "jax": "0.1"})
    said = (
        rf"numpy {own['numpy']} \(here 1.0\), jax {own['jax']} \(here 0.1\); results would differ"
    )
    with pytest.raises(EngineError, match=said):
        find_cluster(address)
    # A worker that comes later is met by the first piece it is given.
    with pytest.raises(EngineError, match=said):
        run_all(square, [1], shared=None, jobs=Cluster(address), stage="work", progress=quiet)


def test_a_worker_without_bayeseval_is_named(address: str, client: Client) -> None:
    code = (
        "import sys; sys.modules['bayeseval'] = None\n"
        "from distributed.cli.dask_worker import main\n"
        f"main(['{address}', '--no-nanny', '--nthreads', '1', '--no-dashboard', '--name', 'bare'])"
    )
    bare = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        client.wait_for_workers(3, timeout=600)
        with pytest.raises(EngineError, match="cannot import bayeseval as it is here"):
            find_cluster(address)
    finally:
        bare.terminate()
        bare.wait(300)
    deadline = time.monotonic() + 300
    while len(client.nthreads()) > 2 and time.monotonic() < deadline:
        time.sleep(0.05)


@pytest.mark.parametrize(
    "given",
    ["", "localhost:8786", "tcp://host", "tcp://h:x", "http://h:80", "tcp://h:1/a", 7],
)
def test_an_address_is_that_of_a_scheduler(given: Any) -> None:
    with pytest.raises(InputError, match=r"dask is the address of a Dask scheduler, tcp://host:po"):
        find_cluster(given)


def test_jobs_and_a_cluster_exclude_each_other() -> None:
    with pytest.raises(InputError, match="jobs counts processes of this machine, and dask names"):
        sensible_jobs(2, cores_each=1, dask="tcp://127.0.0.1:1")


def test_a_scheduler_that_does_not_answer_ends_the_command(
    records: Records, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Any
) -> None:
    monkeypatch.setattr(_cluster, "_CONNECT", 0.5)
    table = tmp_path / "table.csv"
    records.table[["model", "language", "task", "score"]].to_csv(table, index=False)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"tcp://127.0.0.1:{silent.getsockname()[1]}"
        call = ["sensitivity", "--benchmark", str(table), "--model", "additive", "--quiet"]
        assert main([*call, "--out", str(tmp_path / "out"), "--dask", address]) == 2
    said = capfd.readouterr().err
    assert said == (
        f"error: no Dask scheduler answers at {address} within 0.5 s; start one there (dask "
        "scheduler), or correct the address\n"
    )


@contextmanager
def in_this_process(threads: int) -> Iterator[LocalCluster]:
    """A cluster of one worker, without another process."""
    more: dict[str, Any] = {"processes": False, "protocol": "tcp://", **LOCAL}
    with LocalCluster(n_workers=1, threads_per_worker=threads, **more) as cluster:
        yield cluster


def test_workers_with_threads_are_refused() -> None:
    with (
        in_this_process(threads=2) as cluster,
        pytest.raises(EngineError, match="has 2 threads, and pieces of work need a process each"),
    ):
        find_cluster(cluster.scheduler_address)


def end_with_the_worker(shared: None, item: int, beat: Progress | None) -> int:
    """The first piece ends at once."""
    worker = get_worker()
    while item > 0 and worker.status == Status.running:
        time.sleep(0.01)
    return item


def test_a_cluster_without_workers_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_cluster, "_PATIENCE", 0.3)
    monkeypatch.setattr(_cluster, "_BEAT", 0.1)
    kept: dict[int, int] = {}
    with in_this_process(threads=1) as cluster:

        def lose_all(stage: str, done: int, total: int, remark: str) -> None:
            if done == 1:
                cluster.scale(0)

        where = find_cluster(cluster.scheduler_address)
        with pytest.raises(EngineError, match=r"was lost: it has had no worker for 0.3 s"):
            run_all(
                end_with_the_worker,
                list(range(10)),
                shared=None,
                jobs=where,
                stage="work",
                progress=lose_all,
                keep=kept.__setitem__,
            )
        assert kept[0] == 0
        with pytest.raises(EngineError, match="has no workers; start some"):
            find_cluster(cluster.scheduler_address)
