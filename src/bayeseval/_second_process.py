"""A second process for work beside this one, a copy of it where that is safe."""

from __future__ import annotations

import contextlib
import pickle
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Final, TypeVar

from bayeseval._processes import children_ignore_interrupt, own_cores

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

__all__ = ["begin", "second_process"]

Result = TypeVar("Result")

# Threads of these libraries do not survive a fork, and may hold a lock at that moment.
_THREADED: Final = ("jax", "torch")
# Seconds after which a result is not waited for any longer: something must have gone wrong.
_LONGEST: Final = 600.0


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
        self._given, self._lost = 0, False
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
            self._results.append(self._next())
        return self._results[number]

    def _next(self) -> Any:
        """The next result that arrives; None if it is None, or if none is waited for any more."""
        if not self._lost:
            # EOF or a broken connection: the process has died, for lack of memory for example.
            with contextlib.suppress(EOFError, ConnectionError):
                if self._connection.poll(_LONGEST):
                    return self._connection.recv()
            # One that comes later must not be taken for that of the next work.
            self._lost = True
            self._process.kill()
        return None

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
    with children_ignore_interrupt(), warnings.catch_warnings():
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
        and own_cores() > 1
        and threading.active_count() == 1
        and not any(name in sys.modules for name in _THREADED)
    )


def _serve(ours: Connection, theirs: Connection, prepare: Callable[[], object]) -> None:
    """Work on what the other process sends until it closes the connection, or is no more."""
    # Ctrl-C is for the other process, and a command takes the second signal for it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
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
