"""Independent pieces of work: one after the other, in several processes, or beside other work."""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Generator, Iterator, Sequence
from contextvars import ContextVar
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Final, TypeVar

from bayeseval._arguments import as_whole_number
from bayeseval._typing import Progress
from bayeseval.errors import addresses_command_line, addressing_command_line, argument

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

__all__ = ["begin", "run_all", "second_process", "sensible_jobs"]

Item = TypeVar("Item")
Result = TypeVar("Result")

# Threads of these libraries do not survive a fork, and may hold a lock at that moment.
_THREADED: Final = ("jax", "torch")
# Seconds after which a result is not waited for any longer: something must have gone wrong.
_LONGEST: Final = 600.0


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


@contextlib.contextmanager
def second_process(prepare: Callable[[], object]) -> Iterator[None]:
    """Have a second process for what :func:`begin` is given meanwhile, where that is safe.

    It is a copy of this process, so that nothing is imported twice. There is none where the
    system is not Linux, this process has one core or several threads of Python, or a library is
    loaded whose threads a copy would lack.

    Parameters
    ----------
    prepare : callable
        Called in the second process before it is given anything: imports of what it will need.
    """
    second = _start(prepare)
    token = _SECOND.set(second)
    try:
        yield
    finally:
        _SECOND.reset(token)
        if second is not None:
            second.end()


def begin(work: Callable[[], Result]) -> Callable[[], Result | None]:
    """Begin a piece of work in the second process, if there is one.

    Parameters
    ----------
    work : callable
        Can be pickled, and so can its result.

    Returns
    -------
    callable
        Waits for the result. None if there is no second process, or if the work warned or failed
        there: then it is for the caller to do the work, and to warn or fail.
    """
    second = _SECOND.get()
    if second is None:
        return lambda: None
    number = second.give(work)
    return lambda: second.take(number)


class _Second:
    """A process that works on one thing after the other, from the side of the one that asks."""

    def __init__(self, process: Any, connection: Connection) -> None:
        self._process, self._connection = process, connection
        self._given = 0
        self._results: list[Any] = []

    def give(self, work: Callable[[], object]) -> int:
        """Hand over work; its number."""
        self._given += 1
        with contextlib.suppress(BrokenPipeError):
            self._connection.send_bytes(pickle.dumps(work))
        return self._given - 1

    def take(self, number: int) -> Any:
        """Result of the work with this number; None if it has none."""
        while len(self._results) <= number:
            try:
                result = self._connection.recv() if self._connection.poll(_LONGEST) else None
            except (EOFError, ConnectionError):
                # The process has died, for lack of memory for example.
                result = None
            self._results.append(result)
        return self._results[number]

    def end(self) -> None:
        """End the process, whatever it is working on."""
        self._process.kill()
        self._process.join()
        self._connection.close()


_SECOND: Final[ContextVar[_Second | None]] = ContextVar("second", default=None)


def _start(prepare: Callable[[], object]) -> _Second | None:
    import multiprocessing

    if not _can_be_copied() or multiprocessing.current_process().daemon:
        return None
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(ours, theirs, prepare), daemon=True)
    with _children_ignore_interrupt(), warnings.catch_warnings():
        # The threads are those of BLAS, which ends them before a fork and starts them again.
        warnings.filterwarnings("ignore", ".*use of fork", DeprecationWarning)
        try:
            process.start()
        except OSError:
            # No process is allowed, or no memory is left for one; the work is done here.
            ours.close()
            theirs.close()
            return None
    theirs.close()
    return _Second(process, ours)


def _can_be_copied() -> bool:
    """Whether a copy of this process works, and has a core to work on."""
    return (
        sys.platform == "linux"
        and sensible_jobs(None, cores_each=1) > 1
        and threading.active_count() == 1
        and not any(name in sys.modules for name in _THREADED)
    )


def _serve(ours: Connection, theirs: Connection, prepare: Callable[[], object]) -> None:
    """Work on what the other process sends until it closes the connection, or is no more."""
    # Otherwise this process would wait for itself.
    ours.close()
    waiting: SimpleQueue[bytes | None] = SimpleQueue()

    def receive() -> None:
        # In a thread of its own: the other process must not wait until a piece of work is done.
        with contextlib.suppress(EOFError, ConnectionError):
            while True:
                waiting.put(theirs.recv_bytes())
        waiting.put(None)

    threading.Thread(target=receive, daemon=True).start()
    _quietly(prepare)
    with contextlib.suppress(ConnectionError):
        while (given := waiting.get()) is not None:
            theirs.send(_quietly(pickle.loads(given)))


def _quietly(work: Callable[[], Result]) -> Result | None:
    """Result of work; None if it warned or failed: the other process repeats it, and says so."""
    with warnings.catch_warnings(record=True) as warned:
        try:
            result = work()
        except Exception:
            return None
    return None if warned else result
