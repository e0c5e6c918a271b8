"""Independent pieces of work, one after the other or in several processes."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import warnings
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Final, TypeVar

from bayeseval.errors import InputError

__all__ = ["ended", "run_all", "sensible_jobs", "unheard_by_children"]

# As engines report it: stage, done, total, remark.
Progress = Callable[[str, int, int, str], None]
Item = TypeVar("Item")
Result = TypeVar("Result")

# A fit runs its chains in threads, four of them unless asked otherwise.
_CORES_PER_FIT: Final = 4


@contextlib.contextmanager
def unheard_by_children() -> Iterator[None]:
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
def ended(results: Generator[Result]) -> Iterator[None]:
    """End the processes when a report raises (Ctrl-C): what they work at is not wanted."""
    try:
        yield
    finally:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*tasks which were still being processed")
            results.close()


def sensible_jobs(jobs: int | None) -> int:
    """Processes that keep the cores busy without getting in each other's way.

    Parameters
    ----------
    jobs : int, optional
        As asked for; None is one per four cores, as every fit has four chains.

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
    return max(1, cores // _CORES_PER_FIT)


def run_all(
    work: Callable[[Item, Progress | None], Result],
    items: Sequence[Item],
    *,
    jobs: int,
    stage: str,
    progress: Progress,
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
    """
    progress(stage, 0, len(items), "")
    results: list[Result] = []
    if jobs == 1 or len(items) < 2:
        for item in items:
            done = len(results)

            def beat(inner: str, at: int, total: int, remark: str, done: int = done) -> None:
                progress(stage, done, len(items), inner)

            results.append(work(item, beat))
            progress(stage, len(results), len(items), "")
        return results
    from joblib import Parallel, delayed

    run = Parallel(n_jobs=min(jobs, len(items)), return_as="generator")
    with unheard_by_children():
        found = run(delayed(work)(item, None) for item in items)
    with ended(found):
        for result in found:
            results.append(result)
            progress(stage, len(results), len(items), "")
    return results
