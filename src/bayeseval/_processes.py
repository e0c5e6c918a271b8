"""Independent pieces of work, one after the other or in several processes."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import warnings
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import TypeVar

from bayeseval._arguments import as_whole_number
from bayeseval._typing import Progress
from bayeseval.errors import addresses_command_line, addressing_command_line, argument

__all__ = ["run_all", "sensible_jobs"]

Item = TypeVar("Item")
Result = TypeVar("Result")


@contextlib.contextmanager
def _children_ignore_interrupt() -> Iterator[None]:
    """Processes started meanwhile ignore Ctrl-C; this process receives it and ends them.

    A process inherits the signals that are ignored when it starts. A signal mask is not
    enough: the resource tracker of joblib's processes removes it.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextlib.contextmanager
def _closed(results: Generator[Result]) -> Iterator[None]:
    """End the processes when a progress report raises an exception (Ctrl-C)."""
    try:
        yield
    finally:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*tasks which were still being processed")
            results.close()


def sensible_jobs(jobs: int | None, *, cores_each: int) -> int:
    """Number of processes that keep the cores busy without competing for them.

    Parameters
    ----------
    jobs : int, optional
        The number requested; None for as many as there are cores for.
    cores_each : int
        Cores that one piece of work keeps busy, see
        :func:`bayeseval.engines.cores_of`.

    Raises
    ------
    InputError
        If `jobs` is no whole number, or less than one.
    """
    if jobs is not None:
        return as_whole_number(argument("jobs"), jobs, least=1)
    has_affinity = hasattr(os, "sched_getaffinity")
    cores = len(os.sched_getaffinity(0)) if has_affinity else os.cpu_count() or 1
    return max(1, cores // cores_each)


def _work_for(
    command_line: bool, work: Callable[[Item, Progress | None], Result], item: Item
) -> Result:
    """The work in another process, whose messages are for the same user."""
    with addressing_command_line(command_line):
        return work(item, None)


def run_all(
    work: Callable[[Item, Progress | None], Result],
    items: Sequence[Item],
    *,
    jobs: int,
    stage: str,
    progress: Progress,
    labels: Sequence[str] = (),
) -> list[Result]:
    """Results of ``work(item, beat)`` in the order of the items.

    Parameters
    ----------
    work : callable
        A function of a module, so that other processes can import it. It calls its second
        argument regularly, which handles Ctrl-C; None in another process.
    items : sequence
        What to work on.
    jobs : int
        Processes; 1 works in this one. The results are the same.
    stage : str
        Name of the stage in progress reports.
    progress : callable
        Called as ``progress(stage, done, total, remark)``.
    labels : sequence of str
        The remark after each item; none if left out, and none after the last item.
    """
    remarks = (*labels[:-1], "") if labels else ("",) * len(items)
    progress(stage, 0, len(items), "")
    results: list[Result] = []
    if jobs == 1 or len(items) < 2:
        for item in items:
            done = len(results)

            def beat(inner: str, at: int, total: int, remark: str, done: int = done) -> None:
                progress(stage, done, len(items), inner)

            results.append(work(item, beat))
            progress(stage, len(results), len(items), remarks[done])
        return results
    from joblib import Parallel, delayed

    run = Parallel(n_jobs=min(jobs, len(items)), return_as="generator")
    with _children_ignore_interrupt():
        addressed = addresses_command_line()
        generated = run(delayed(_work_for)(addressed, work, item) for item in items)
    with _closed(generated):
        for result in generated:
            results.append(result)
            progress(stage, len(results), len(items), remarks[len(results) - 1])
    return results
