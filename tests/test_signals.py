"""Signals that end a command: as Ctrl-C does, and with the processes that work for it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

import bayeseval as be
from bayeseval._processes import children_ignore_interrupt
from bayeseval._progress import interruptible

DRIVER = """
import os, sys, time
from pathlib import Path
from bayeseval._processes import run_all
from bayeseval._progress import interruptible

def work(shared, item, beat):
    half = Path(shared) / f"{item}.half"
    half.write_text(str(os.getpid()))
    # Whoever sees the name finds the number in it.
    half.rename(half.with_suffix(".pid"))
    time.sleep(3600)

try:
    with interruptible():
        run_all(work, [0, 1], shared=sys.argv[1], jobs=2, stage="s", progress=lambda *now: None)
except KeyboardInterrupt:
    sys.exit(130)
"""

# As after Ctrl-C, when a thread removes a semaphore and has no time left to say so.
LEAVING = """
import os
from bayeseval._processes import run_all

def work(shared, item, beat):
    return item

run_all(work, [0, 1], shared=None, jobs=2, stage="s", progress=lambda *now: None)
from joblib.externals.loky.backend import resource_tracker
resource_tracker.register(f"/loky-{os.getpid()}-removed", "semlock")
"""


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGHUP])
def test_signals_that_end_a_command_are_interrupts_unless_they_are_ignored(
    ending: signal.Signals,
) -> None:
    before = signal.getsignal(ending)
    try:
        signal.signal(ending, signal.SIG_DFL)
        with pytest.raises(KeyboardInterrupt), interruptible():
            signal.raise_signal(ending)
        with pytest.raises(KeyboardInterrupt), interruptible(), children_ignore_interrupt():
            signal.raise_signal(ending)
        assert signal.getsignal(ending) == signal.SIG_DFL
        # As by nohup.
        signal.signal(ending, signal.SIG_IGN)
        with interruptible():
            signal.raise_signal(ending)
            assert signal.getsignal(ending) == signal.SIG_IGN
    finally:
        signal.signal(ending, before)


@pytest.mark.parametrize("receiver", ["this thread", "another thread"])
def test_an_interrupt_while_processes_are_started_is_kept_for_this_one(receiver: str) -> None:
    """Whichever thread the system gives it to, as that of a numerical library."""
    done = threading.Event()
    other = threading.Thread(target=done.wait)
    other.start()
    thread = threading.main_thread() if receiver == "this thread" else other
    assert thread.ident is not None
    before = signal.getsignal(signal.SIGINT)
    reached = []
    try:
        with pytest.raises(KeyboardInterrupt), interruptible():
            with children_ignore_interrupt():
                signal.pthread_kill(thread.ident, signal.SIGINT)
                inherited = signal.pthread_sigmask(signal.SIG_BLOCK, ())
                time.sleep(0.2)
                reached.append("end of the block")
            reached.append("what follows")
    finally:
        done.set()
        other.join()
    assert reached == ["end of the block"]
    assert signal.SIGINT in inherited
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())
    assert signal.getsignal(signal.SIGINT) == before


def _is_alive(pid: int) -> bool:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    # One that has ended and that nobody has waited for.
    return "\nState:\tZ" not in status


@pytest.mark.skipif(sys.platform != "linux", reason="needs Python on Linux for /proc")
def test_processes_end_with_the_command_that_is_told_to(tmp_path: Path) -> None:
    path = str(Path(be.__file__).parents[1])
    with subprocess.Popen(
        [sys.executable, "-c", DRIVER, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": path},
        stderr=subprocess.PIPE,
        start_new_session=True,
    ) as command:
        try:
            limit = time.monotonic() + 300.0
            while len(list(tmp_path.glob("*.pid"))) < 2 and time.monotonic() < limit:
                time.sleep(0.05)
            workers = [int(file.read_text()) for file in tmp_path.glob("*.pid")]
            assert len({*workers, command.pid}) == 3
            # Ctrl-C on a terminal is for them, too, and they leave it to the command.
            for worker in workers:
                os.kill(worker, signal.SIGINT)
            command.terminate()
            assert command.wait(timeout=300.0) == 130
            limit = time.monotonic() + 300.0
            while any(map(_is_alive, workers)) and time.monotonic() < limit:
                time.sleep(0.05)
            assert [pid for pid in workers if _is_alive(pid)] == []
            assert command.stderr is not None
            assert command.stderr.read() == b""
        finally:
            with suppress(ProcessLookupError):
                os.killpg(command.pid, signal.SIGKILL)


@pytest.mark.skipif(sys.platform != "linux", reason="needs Python on Linux for semaphores")
def test_a_semaphore_that_is_gone_is_not_reported_to_the_user() -> None:
    path = str(Path(be.__file__).parents[1])
    # Its watching process ends last, and holds stderr open until then.
    done = subprocess.run(
        [sys.executable, "-c", LEAVING],
        env={**os.environ, "PYTHONPATH": path},
        stderr=subprocess.PIPE,
        check=True,
    )
    assert done.stderr == b""
