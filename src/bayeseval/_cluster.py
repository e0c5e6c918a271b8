"""Pieces of work at the workers of a Dask cluster: sent, watched, fetched as they finish.

joblib's own Dask backend waits for ever when all workers are lost and leaves tasks that nobody
waits for running, so that the cluster is addressed through `distributed` itself.
"""

from __future__ import annotations

import logging
import os
import platform
import queue
import socket
import struct
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit
from uuid import uuid4

from bayeseval._optional import require, versions
from bayeseval._text import counted, show
from bayeseval._typing import Progress
from bayeseval.errors import (
    BayesevalError,
    EngineError,
    InputError,
    addresses_command_line,
    addressing_command_line,
    argument,
)

__all__ = ["Cluster", "at_all_workers", "completed", "find_cluster", "this_worker"]

Shared = TypeVar("Shared")
Item = TypeVar("Item")
Result = TypeVar("Result")

# Seconds until a scheduler that does not answer is given up.
_CONNECT: Final = 10.0
# Seconds without any worker: that many a nanny needs to start one again, and to spare.
_PATIENCE: Final = 30.0
# Seconds between two looks at Ctrl-C and at the workers while nothing finishes.
_BEAT: Final = 0.5
# Seconds after which a result that cannot be fetched is asked for again.
_FETCH: Final = 60.0
# How often everything unfinished is sent again after the workers lost what was sent to them.
_SENDINGS: Final = 4
# How a greeting begins, and the most bytes that it has.
_LENGTH: Final = struct.Struct("Q")
_MOST_GREETING: Final = 1_000_000
_ENDED: Final = "give workers more memory, or see in their logs what ended them"
# What decides the numbers, and whether objects can be sent.
_DECISIVE: Final = ("bayeseval", "numpy", "scipy", "jax", "numpyro", "pymc", "pandas", "xarray")


@dataclass(frozen=True)
class Cluster:
    """A Dask cluster, by the address of its scheduler: ``tcp://host:port``."""

    address: str


@dataclass(frozen=True, eq=False)
class _Piece:
    """What is sent for one piece of work; Dask does not look into it."""

    work: Callable[..., Any]
    item: Any
    addressed: bool
    expected: Mapping[str, str]


class _StoppedError(Exception):
    """The piece was cancelled while it ran."""


class _ForgottenError(Exception):
    """The workers lost what was sent to them, and it has to be sent again."""


def find_cluster(address: str) -> Cluster:
    """The cluster at an address, after a look at its workers.

    Parameters
    ----------
    address : str
        Of the scheduler: ``tcp://host:port``.

    Raises
    ------
    InputError
        If that is no such address.
    EngineError
        If no scheduler answers or it has no workers, or if workers have several threads or
        other versions than this process.
    MissingDependencyError
        If distributed is not installed.
    """
    cluster = Cluster(_checked(address))
    with _connected(cluster) as client:
        _check_workers(cluster, client)
    return cluster


def at_all_workers(cluster: Cluster, work: Callable[[], None]) -> None:
    """Let every worker tidy up. One that does not answer any more has nothing to tidy."""
    with suppress(EngineError, OSError, TimeoutError), _connected(cluster) as client:
        client.run(work, on_error="ignore", wait=True)


def this_worker() -> str:
    """The worker that runs the present piece of work, as messages name it."""
    return f"worker {require('distributed', 'dask').get_worker().address}"


def _checked(address: object) -> str:
    if isinstance(address, str):
        with suppress(ValueError):
            parts = urlsplit(address)
            rest = parts.path.strip("/") + parts.query + parts.fragment
            if parts.scheme == "tcp" and parts.hostname and parts.port and not rest:
                return address.rstrip("/")
    raise InputError(
        f"{argument('dask')} is the address of a Dask scheduler, tcp://host:port, as in "
        f"tcp://10.0.0.5:8786; got {show(address)}"
    )


def completed(
    cluster: Cluster,
    work: Callable[[Shared, Item, Progress | None], Result],
    items: Sequence[Item],
    shared: Shared,
) -> Iterator[tuple[int, Result] | None]:
    """Positions and results of the items in the order in which they are finished.

    Parameters
    ----------
    cluster : Cluster
        Where.
    work : callable
        Called as ``work(shared, item, beat)``. A piece that was cancelled ends at its next beat.
    items : sequence
        What to work on; each is sent to the worker that does it.
    shared : object
        What all pieces need; it is sent to each worker once.

    Yields
    ------
    tuple of int and object, or None
        None about twice a second while nothing is finished.

    Raises
    ------
    EngineError
        If the scheduler or all workers are lost, or a piece ends its workers again and again.
    """
    expected, addressed = _facts(), addresses_command_line()
    left = {i: _Piece(work, item, addressed, expected) for i, item in enumerate(items)}
    with _connected(cluster) as client:
        for sending in range(_SENDINGS):
            try:
                for found in _sent(cluster, client, left, shared):
                    if found is not None:
                        del left[found[0]]
                    yield found
            except _ForgottenError:
                if sending + 1 == _SENDINGS:
                    raise _lost(cluster, f"its workers ended {_SENDINGS} times; {_ENDED}") from None
            else:
                return


def _sent(
    cluster: Cluster, client: Any, pieces: Mapping[int, _Piece], shared: object
) -> Iterator[tuple[int, Any] | None]:
    """Send all pieces, and yield what :func:`completed` does."""
    run = uuid4().hex
    ended: queue.SimpleQueue[Any] = queue.SimpleQueue()
    # In a list, because Dask takes the elements of a tuple or a dict one by one.
    try:
        (everywhere,) = client.scatter([shared], broadcast=True, hash=False, timeout=_PATIENCE)
    except TimeoutError:
        raise _without_workers(cluster) from None
    waiting: dict[Any, int] = {}
    try:
        for i, piece in pieces.items():
            future = client.submit(_work, piece, everywhere, key=f"bayeseval-{run}-{i}")
            waiting[future] = i
            future.add_done_callback(ended.put)
        alone_since: float | None = None
        while waiting:
            try:
                future = ended.get(timeout=_BEAT)
            except queue.Empty:
                alone_since = _watched(cluster, client, alone_since)
                yield None
                continue
            try:
                result = _fetched(cluster, client, future)
            except TimeoutError:
                ended.put(future)
                yield None
                continue
            yield waiting.pop(future), result
            alone_since = None
    finally:
        # Nothing is left to cancel when all went well. A scheduler that is gone cancels nothing.
        if waiting and client.status == "running":
            with suppress(OSError, TimeoutError):
                client.cancel(list(waiting), force=True)


def _watched(cluster: Cluster, client: Any, alone_since: float | None) -> float | None:
    """When the last worker was lost; EngineError when that is too long ago."""
    if client.status != "running":
        raise _lost(cluster, "its scheduler does not answer any more")
    try:
        if client.nthreads():
            return None
    except OSError:
        raise _lost(cluster, "its scheduler does not answer any more") from None
    now = time.monotonic()
    if alone_since is not None and now - alone_since > _PATIENCE:
        raise _without_workers(cluster)
    return now if alone_since is None else alone_since


def _fetched(cluster: Cluster, client: Any, future: Any) -> Any:
    """The result of a piece that has ended."""
    distributed = require("distributed", "dask")
    if future.status in ("cancelled", "lost"):
        _watched(cluster, client, None)
        raise _ForgottenError
    try:
        return future.result(timeout=_FETCH)
    except distributed.KilledWorker as error:
        ended = int(error.allowed_failures) + 1
        raise EngineError(
            f"{cluster.address}: a piece of work ended {counted(ended, 'worker')} that tried it; "
            f"{_ENDED}"
        ) from None
    except TimeoutError:
        raise
    except distributed.client.FutureCancelledError:
        _watched(cluster, client, None)
        raise _ForgottenError from None
    except Exception as error:
        if not _lacks_bayeseval(error):
            raise
        raise _not_installed(cluster, "a worker") from None


def _lost(cluster: Cluster, how: str) -> EngineError:
    return EngineError(f"the Dask cluster {cluster.address} was lost: {how}")


def _greets(cluster: Cluster) -> bool:
    """Whether a Dask server listens at the address: it sends the length of a greeting first.

    Dask would wait for the greeting of another server for ever.
    """
    parts = urlsplit(cluster.address)
    try:
        with socket.create_connection((parts.hostname, parts.port), _CONNECT) as connection:
            connection.settimeout(_CONNECT)
            sent = connection.recv(_LENGTH.size, socket.MSG_WAITALL)
    except OSError:
        return False
    return len(sent) == _LENGTH.size and _LENGTH.unpack(sent)[0] <= _MOST_GREETING


def _without_workers(cluster: Cluster) -> EngineError:
    return _lost(cluster, f"it has had no worker for {_PATIENCE:g} s")


@contextmanager
def _connected(cluster: Cluster) -> Iterator[Any]:
    """A client, which says nothing of its own on stderr."""
    distributed = require("distributed", "dask")
    logger = logging.getLogger("distributed")
    levels = {logger: logger.level} | {
        one: one.level
        for name, one in logging.Logger.manager.loggerDict.items()
        if isinstance(one, logging.Logger) and name.startswith("distributed.")
    }
    for one in levels:
        one.setLevel(logging.CRITICAL + 1)
    try:
        with warnings.catch_warnings():
            # Of other versions bayeseval tells in one line, and of large inputs nothing is new.
            warnings.filterwarnings("ignore", module="distributed")
            try:
                if not _greets(cluster):
                    raise TimeoutError
                client = distributed.Client(
                    cluster.address, timeout=_CONNECT, set_as_default=False, name="bayeseval"
                )
            except (OSError, TimeoutError, ValueError, RuntimeError) as error:
                raise EngineError(
                    f"no Dask scheduler answers at {cluster.address} within {_CONNECT:g} s; start "
                    "one there (dask scheduler), or correct the address"
                ) from error
            try:
                yield client
            finally:
                with suppress(OSError, TimeoutError):
                    client.close(timeout=_BEAT if client.status != "running" else _CONNECT)
    finally:
        for one, level in levels.items():
            one.setLevel(level)


def _check_workers(cluster: Cluster, client: Any) -> None:
    """Refuse workers that cannot do the work, or would find other numbers."""
    try:
        client.wait_for_workers(1, timeout=_PATIENCE)
    except TimeoutError:
        raise EngineError(
            f"{cluster.address} has no workers; start some with one thread each "
            f"(dask worker {cluster.address})"
        ) from None
    expected = _facts()
    for worker, found in client.run(_worker_facts, on_error="return").items():
        if isinstance(found, Exception) and _lacks_bayeseval(found):
            raise _not_installed(cluster, f"worker {worker}")
        if isinstance(found, OSError):
            # It has just gone; others do its work.
            continue
        if isinstance(found, Exception):
            raise EngineError(f"worker {worker} cannot say its versions: {found}") from found
        versions_there, threads = found
        _check_facts(worker, versions_there, threads, expected)


def _lacks_bayeseval(error: Exception) -> bool:
    """Whether a worker could not read what was sent; Dask turns some errors into texts."""
    text = f"{type(error).__name__}: {error}"
    marks = ("No module named 'bayeseval", "from 'bayeseval", "module 'bayeseval")
    return not isinstance(error, BayesevalError) and any(mark in text for mark in marks)


def _not_installed(cluster: Cluster, where: str) -> EngineError:
    own = versions(["bayeseval"]).get("bayeseval", "of this source tree")
    return EngineError(
        f"{cluster.address}: {where} cannot import bayeseval as it is here; install bayeseval "
        f"{own} in the Python of all workers, and start them again"
    )


def _facts() -> dict[str, str]:
    """Versions on which numbers depend."""
    python = ".".join(platform.python_version_tuple()[:2])
    return {"Python": python, **versions(_DECISIVE)}


def _worker_facts(dask_worker: Any) -> tuple[dict[str, str], int]:
    """Versions of a worker, and its threads; Dask passes the worker by the argument's name."""
    return _facts(), dask_worker.state.nthreads


def _check_facts(
    worker: str, found: Mapping[str, str], threads: int, expected: Mapping[str, str]
) -> None:
    if threads != 1:
        raise EngineError(
            f"worker {worker} has {threads} threads, and pieces of work need a process each; "
            "start workers with one thread"
        )
    names = [name for name in {**expected, **found} if found.get(name) != expected.get(name)]
    if names:
        said = ", ".join(
            f"{name} {found.get(name, 'missing')} (here {expected.get(name, 'missing')})"
            for name in names
        )
        raise EngineError(
            f"worker {worker} has {said}; results would differ: install the same versions there "
            "as here"
        )


def _work(piece: _Piece, shared: Any) -> Any:
    """One piece of work, at a worker."""
    worker = require("distributed", "dask").get_worker()
    _check_facts(worker.address, _facts(), worker.state.nthreads, piece.expected)
    _compile_apart(worker.local_directory)
    key = worker.get_current_task()

    def beat(stage: str, done: int, total: int, remark: str) -> None:
        task = worker.state.tasks.get(key)
        if task is None or task.state == "cancelled":
            raise _StoppedError

    with addressing_command_line(piece.addressed):
        return piece.work(shared, piece.item, beat)


def _compile_apart(folder: str) -> None:
    """Give PyTensor a folder of this worker: workers of several machines may share a home.

    One that the user has set stays. PyTensor reads the variable when it is first imported.
    """
    flags = os.environ.get("PYTENSOR_FLAGS", "")
    if "compiledir" in flags:
        return
    own = f"base_compiledir={Path(folder) / 'pytensor'}"
    os.environ["PYTENSOR_FLAGS"] = f"{flags},{own}" if flags else own
