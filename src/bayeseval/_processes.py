"""Independent pieces of work: one after the other, in several processes, or on a Dask cluster."""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from bayeseval._arguments import as_whole_number
from bayeseval._cluster import Cluster, completed, find_cluster
from bayeseval._typing import Progress
from bayeseval.errors import (
    InputError,
    addresses_command_line,
    addressing_command_line,
    argument,
)

__all__ = ["children_ignore_interrupt", "in_threads", "own_cores", "run_all", "sensible_jobs"]

Shared = TypeVar("Shared")
Item = TypeVar("Item")
Result = TypeVar("Result")

# What the processes that watch over semaphores say begins with it.
_QUIET: Final = "ignore:resource_tracker"
# Seconds between two looks at whether the parent process still runs.
_LOOK: Final = 1.0


@contextlib.contextmanager
def children_ignore_interrupt() -> Iterator[None]:
    """Processes started meanwhile do not receive Ctrl-C; this process does, and ends them.

    A process inherits the signals that are blocked when it starts. One that arrives meanwhile is
    kept for this process until the end of the block; if it were ignored, it would be lost.
    """
    can_block = hasattr(signal, "pthread_sigmask")
    if not can_block or threading.current_thread() is not threading.main_thread():
        yield
        return
    # Other threads do not block it, and this one has to handle what they receive.
    kept: list[int] = []
    handler = signal.signal(signal.SIGINT, lambda number, _: kept.append(number))
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        signal.signal(signal.SIGINT, signal.SIG_DFL if handler is None else handler)
        if kept:
            signal.raise_signal(signal.SIGINT)


def _start_trackers() -> None:
    """Start the processes that joblib starts before all others: that unblocks Ctrl-C.

    They remove the semaphores and folders that are left when a command ends, and say so on
    stderr. After Ctrl-C they may find some that another thread has just removed. Neither is of
    use to a user, and a process takes its filters of warnings from `sys.warnoptions`.
    """
    if hasattr(signal, "pthread_sigmask"):
        from multiprocessing import resource_tracker

        from joblib.externals.loky.backend import resource_tracker as of_joblib

        sys.warnoptions.append(_QUIET)
        try:
            resource_tracker.ensure_running()
            of_joblib.ensure_running()
        finally:
            sys.warnoptions.remove(_QUIET)


@contextlib.contextmanager
def _joblib_is_quiet() -> Iterator[None]:
    """Hide the two warnings of joblib that tell a user nothing; all others are shown.

    joblib replaces a worker that waited too long for work, or whose memory has grown, and no
    result depends on it. The other warning is of pieces that Ctrl-C ends. A thread of joblib
    warns too, therefore the filter is that of this process, and the generator that joblib
    returns has to be closed inside.
    """
    with warnings.catch_warnings():
        for message in ("A worker stopped while some jobs", ".*tasks which were still being"):
            warnings.filterwarnings("ignore", message=message, category=UserWarning)
        yield


def sensible_jobs(jobs: int | None, *, cores_each: int, dask: str | None = None) -> int | Cluster:
    """Number of processes that keep the cores busy without competing for them, or a cluster.

    Parameters
    ----------
    jobs : int, optional
        The number requested; None for as many as there are cores for.
    cores_each : int
        Cores that one piece of work keeps busy, see
        :func:`bayeseval.engines.cores_of`.
    dask : str, optional
        Address of the scheduler of a Dask cluster that does the work instead.

    Raises
    ------
    InputError
        If `jobs` is no whole number, or less than one, or both are given.
    EngineError
        If the cluster cannot be used, see :func:`bayeseval._cluster.find_cluster`.
    """
    if dask is not None:
        if jobs is not None:
            raise InputError(
                f"{argument('jobs')} counts processes of this machine, and {argument('dask')} "
                "names a cluster; give one of them"
            )
        return find_cluster(dask)
    if jobs is not None:
        return as_whole_number(argument("jobs"), jobs, least=1)
    return max(1, own_cores() // cores_each)


def own_cores() -> int:
    """Number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def in_threads(work: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """Results of short independent calls, in order, on as many cores as this process may use."""
    cores = own_cores()
    if len(items) < 2 or cores == 1:
        return [work(item) for item in items]
    with ThreadPoolExecutor(cores) as pool:
        return list(pool.map(work, items))


@functools.cache
def _end_with(parent: int) -> None:
    """End this process soon after its parent, which may have been killed.

    A worker of joblib would finish its piece of work and then wait minutes for another. The
    parent of a process changes when it ends.
    """

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_LOOK)
        os._exit(1)

    if os.getppid() == parent:
        threading.Thread(target=watch, daemon=True).start()
    elif not _is_there(parent):
        # It ended before its first piece of work was begun.
        os._exit(1)


def _is_there(process: int) -> bool:
    """Whether a process runs. Between it and this one there may be others."""
    if os.name != "posix":
        # No signal is without effect there.
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def _work_for(
    command_line: bool,
    parent: int,
    work: Callable[[Shared, Item, Progress | None], Result],
    shared: Shared,
    item: Item,
    position: int,
) -> tuple[int, Result]:
    """The work in another process, whose messages are for the same user."""
    _end_with(parent)
    with addressing_command_line(command_line):
        return position, work(shared, item, None)


def _pieces(
    work: Callable[[Shared, Item, Progress | None], Result],
    items: Sequence[Item],
    shared: Shared,
    jobs: int | Cluster,
    beat: Progress,
) -> Generator[tuple[int, Result] | None]:
    """Positions and results as they are finished; None now and then on a cluster."""
    if isinstance(jobs, Cluster):
        yield from completed(jobs, work, items, shared)
    elif jobs == 1 or len(items) < 2:
        for position, item in enumerate(items):
            yield position, work(shared, item, beat)
    else:
        from joblib import Parallel, delayed

        _start_trackers()
        run = Parallel(n_jobs=min(jobs, len(items)), return_as="generator_unordered")
        addressed = addresses_command_line()
        with _joblib_is_quiet(), contextlib.ExitStack() as stack:
            with children_ignore_interrupt():
                generated = run(
                    delayed(_work_for)(addressed, os.getpid(), work, shared, item, position)
                    for position, item in enumerate(items)
                )
                stack.callback(generated.close)
            yield from generated


def run_all(
    work: Callable[[Shared, Item, Progress | None], Result],
    items: Sequence[Item],
    *,
    shared: Shared,
    jobs: int | Cluster,
    stage: str,
    progress: Progress,
    labels: Sequence[str] = (),
    keep: Callable[[int, Result], None] | None = None,
    done: Mapping[int, Result] | None = None,
) -> list[Result]:
    """Results of ``work(shared, item, beat)`` in the order of the items.

    Parameters
    ----------
    work : callable
        A function of a module, so that other processes can import it. It calls its last
        argument regularly, which handles Ctrl-C; None in another process of this machine.
    items : sequence
        What to work on.
    shared : object
        What all pieces need, as large as it may be: workers of a cluster get it once.
    jobs : int or Cluster
        As :func:`sensible_jobs` returns it: processes, where 1 works in this one, or a
        cluster. The results are the same.
    stage : str
        Name of the stage in progress reports.
    progress : callable
        Called as ``progress(stage, done, total, remark)``.
    labels : sequence of str
        The remark after each item; none if left out, and none after the last item.
    keep : callable, optional
        Called in this process as ``keep(position, result)`` for each piece as soon as it is
        finished, whatever the order, to store what an interruption must not lose.
    done : mapping of int to object, optional
        Results by position that are there already, as `keep` stored them.
    """
    total = len(items)
    results: dict[int, Result] = dict(done or {})
    left = [i for i in range(total) if i not in results]
    progress(stage, len(results), total, "")
    if not left:
        return [results[i] for i in range(total)]

    def beat(inner: str, at: int, of: int, remark: str) -> None:
        progress(stage, len(results), total, inner)

    # Closed, so that what is running ends when a progress report raises an exception (Ctrl-C).
    made = _pieces(work, [items[i] for i in left], shared, jobs, beat)
    with contextlib.closing(made) as pieces:
        for piece in pieces:
            if piece is None:
                # Nothing is finished, but Ctrl-C may have been pressed.
                progress(stage, len(results), total, "")
                continue
            position, result = left[piece[0]], piece[1]
            results[position] = result
            if keep is not None:
                keep(position, result)
            is_last = len(results) == total
            progress(stage, len(results), total, labels[position] if labels and not is_last else "")
    return [results[i] for i in range(total)]
