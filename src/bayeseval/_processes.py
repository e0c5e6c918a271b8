"""Independent pieces of work, one after the other or in several processes."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import warnings
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import TypeVar

from bayeseval._typing import Progress
from bayeseval.errors import InputError

__all__ = ["run_all", "sensible_jobs"]

Item = TypeVar("Item")
Result = TypeVar("Result")


@contextlib.contextmanager
def _unheard_by_children() -> Iterator[None]:
    """Processes started meanwhile do not hear of Ctrl-C: it is for this one, which ends them.

    What is ignored when a process starts is ignored in it. A mask would not do: the
    resource tracker of joblib's processes takes it off.
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
def _ended(results: Generator[Result]) -> Iterator[None]:
    """End the processes when a report raises (Ctrl-C): what they work at is not wanted."""
    try:
        yield
    finally:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*tasks which were still being processed")
            results.close()


def sensible_jobs(jobs: int | None, *, cores_each: int) -> int:
    """Processes that keep the cores busy without getting in each other's way.

    Parameters
    ----------
    jobs : int, optional
        As asked for; None is as many as there are cores for.
    cores_each : int
        Cores that one piece of work keeps busy, see
        :func:`bayeseval.engines.cores_of`.

    Raises
    ------
    InputError
        If `jobs` is less than one.
    """
    if jobs is not None:
        if jobs < 1:
            raise InputError(f"--jobs must be at least 1, got {jobs}")
        return jobs
    there = hasattr(os, "sched_getaffinity")
    cores = len(os.sched_getaffinity(0)) if there else os.cpu_count() or 1
    return max(1, cores // cores_each)


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
        A function of a module, so that other processes find it. Its second argument is
        to be called now and then within this process, for Ctrl-C; None in another.
    items : sequence
        What to work on.
    jobs : int
        Processes; 1 is this one. The results are the same.
    stage : str
        What the progress is called.
    progress : callable
        Called as ``progress(stage, done, total, remark)``.
    labels : sequence of str
        The remark when a piece is done, one per item; nothing when left out, nor when all
        are done.
    """
    said = (*labels[:-1], "") if labels else ("",) * len(items)
    progress(stage, 0, len(items), "")
    results: list[Result] = []
    if jobs == 1 or len(items) < 2:
        for item in items:
            done = len(results)

            def beat(inner: str, at: int, total: int, remark: str, done: int = done) -> None:
                progress(stage, done, len(items), inner)

            results.append(work(item, beat))
            progress(stage, len(results), len(items), said[done])
        return results
    from joblib import Parallel, delayed

    run = Parallel(n_jobs=min(jobs, len(items)), return_as="generator")
    with _unheard_by_children():
        found = run(delayed(work)(item, None) for item in items)
    with _ended(found):
        for result in found:
            results.append(result)
            progress(stage, len(results), len(items), said[len(results) - 1])
    return results
