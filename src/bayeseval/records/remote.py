"""Benchmarks that are not shipped: fetched once into the user's cache, then read from there."""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
import threading
import time
from pathlib import Path
from typing import Annotated, Any, Final
from urllib.parse import urlsplit

from pydantic import model_validator

from bayeseval._text import grouped
from bayeseval._yaml import FrozenConfig, text_like
from bayeseval.errors import InputError
from bayeseval.readers.base import MAX_BYTES

__all__ = ["CACHE_VARIABLE", "Remote", "cached_path", "fetch"]

CACHE_VARIABLE: Final = "BAYESEVAL_CACHE"
"""Environment variable that names another folder for downloaded benchmarks."""

# Seconds without a byte, seconds in all, bytes: what a download may take.
_STALL: Final = 30.0
_MAX_SECONDS: Final = 600.0
_MAX_DOWNLOAD: Final = MAX_BYTES
_CHUNK: Final = 1 << 16
_PART: Final = ".part-"
# Enough of a SHA-256 to tell addresses apart.
_KEY: Final = 12


class Remote(FrozenConfig):
    """Where a benchmark's table is published.

    Parameters
    ----------
    address : str
        URL of the file, ``https://...``; ``http://...`` only with `sha256`.
    sha256 : str or None
        Its SHA-256 as 64 hexadecimal digits. Without one the hash of the first download is
        recorded beside the file, and every later one is compared with it.
    """

    address: Annotated[
        str, text_like(r"https?://[!-.0-~]+/[!-~]*[!-.0-~]", "the URL of a file, https://HOST/FILE")
    ]
    sha256: Annotated[str, text_like("[0-9a-f]{64}", "64 hexadecimal digits")] | None = None

    @model_validator(mode="after")
    def _is_protected(self) -> Remote:
        if self.sha256 is None and not self.address.startswith("https://"):
            raise ValueError("anybody on the way can change a file sent by http; state its sha256")
        return self


def cached_path(remote: Remote, name: str) -> Path:
    """Where the file is kept: ``CACHE/benchmarks/NAME-KEY/FILE``.

    The key is that of address and hash, so that no other card's file takes its place.
    """
    import pooch

    given = os.environ.get(CACHE_VARIABLE)
    cache = Path(given) if given else Path(pooch.os_cache("bayeseval"))
    # Names and addresses are free text; as parts of a path they must not lead anywhere else.
    folder = re.sub(r"[^\w-]+", "_", name)[:60]
    file = re.sub(r"[^\w.-]+", "_", Path(urlsplit(remote.address).path).name)[-60:].lstrip(".")
    key = hashlib.sha256(f"{remote.address} {remote.sha256}".encode()).hexdigest()[:_KEY]
    return cache / "benchmarks" / f"{folder}-{key}" / (file or "data")


def fetch(remote: Remote, name: str) -> tuple[Path, list[str]]:
    """The benchmark's file in the cache; downloaded when it is not there.

    Parameters
    ----------
    remote : Remote
    name : str
        Name of the benchmark; its folder in the cache.

    Returns
    -------
    path : Path
    notes : list of str
        What to report: a download, a hash that was recorded rather than compared.

    Raises
    ------
    InputError
        Without a network: what to download and where to put it. If the file is not the
        one that the card describes, or that was downloaded first: both hashes.
    """
    target = cached_path(remote, name)
    notes = []
    if not target.is_file():
        _download(remote, name, target)
        notes.append(f"downloaded {remote.address} to {target}")
    try:
        with target.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as problem:
        raise InputError(f"{target}: cannot be read: {problem.strerror or problem}") from problem
    expected = remote.sha256
    if expected is None:
        expected, noted = _recorded(target, digest)
        notes += noted
    if digest != expected:
        raise InputError(
            f"{target}: not the file of benchmark {name!r}: its SHA-256 is {digest}, not"
            f" {expected}; delete it to download it again from {remote.address}"
        )
    return target, notes


def _recorded(target: Path, digest: str) -> tuple[str, list[str]]:
    """The hash of the first download, recorded now if this is it; what to report."""
    record = target.with_name(f"{target.name}.sha256")
    try:
        if record.is_file():
            with record.open(encoding="ascii", errors="replace") as file:
                return file.read(64), []
        record.write_text(f"{digest}  {target.name}\n", encoding="ascii", errors="replace")
    except OSError as problem:
        raise InputError(
            f"{record}: cannot be read or written: {problem.strerror or problem}"
        ) from problem
    return digest, [
        f"{target.name} has SHA-256 {digest}; the benchmark states none, so this one is"
        f" recorded in {record.name} and required from now on (remote: sha256: {digest})"
    ]


def _download(remote: Remote, name: str, target: Path) -> None:
    """Put the file at `target`: as a whole, within limits, with the hash of the card."""
    import requests

    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        _remove_stale_parts(target.parent)
        handle, part_name = tempfile.mkstemp(prefix=_PART, dir=target.parent)
        os.close(handle)
    except OSError as problem:
        raise InputError(
            f"{problem.filename}: cannot be written: {problem.strerror};"
            f" name another folder with {CACHE_VARIABLE}"
        ) from problem
    part = Path(part_name)
    try:
        digest = _within_time(remote, part)
        if remote.sha256 is not None and digest != remote.sha256:
            raise InputError(
                f"benchmark {name!r}: the file at {remote.address} does not have the"
                f" expected SHA-256 {remote.sha256}; it was not kept"
            )
        part.replace(target)
    except (requests.RequestException, _LimitError) as problem:
        response = getattr(problem, "response", None)
        broken = (
            requests.exceptions.ChunkedEncodingError,
            requests.exceptions.ContentDecodingError,
        )
        reason = "the transfer broke off" if isinstance(problem, broken) else "no connection"
        if response is not None:
            reason = f"the server answered {response.status_code}"
        reason = str(problem) if isinstance(problem, _LimitError) else reason
        raise InputError(
            f"benchmark {name!r} could not be downloaded ({reason}): download {remote.address} and"
            f" put it at {target}"
        ) from problem
    except OSError as problem:
        raise InputError(
            f"{part}: cannot be written: {problem.strerror or problem};"
            f" name another folder with {CACHE_VARIABLE}"
        ) from problem
    finally:
        part.unlink(missing_ok=True)


_NO_HTTPS: Final = "the server leads to an address without https"


class _LimitError(Exception):
    """A download that takes too long, is too large, or leaves https."""


def _remove_stale_parts(folder: Path) -> None:
    """Remove what killed downloads have left; no other one is older than its limit."""
    for part in folder.glob(f"{_PART}*"):
        if part.stat().st_mtime < time.time() - 2 * _MAX_SECONDS:
            part.unlink(missing_ok=True)


def _within_time(remote: Remote, part: Path) -> str:
    """Download to `part` and return its SHA-256, or give up when the time is over.

    A server that sends a byte now and then never lets a read time out, neither of the body
    nor of the headers. The download therefore runs in a thread that is not waited for.
    """
    outcome: list[str | BaseException] = []
    stop = threading.Event()

    def work() -> None:
        try:
            outcome.append(_stream(remote, part, stop))
        # Raised again below, in the thread that waits.
        except BaseException as problem:
            outcome.append(problem)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        thread.join(_MAX_SECONDS)
    finally:
        stop.set()
    if not outcome:
        raise _LimitError(f"it takes more than {_MAX_SECONDS:g} seconds")
    if isinstance(outcome[0], BaseException):
        raise outcome[0]
    return outcome[0]


def _stream(remote: Remote, part: Path, stop: threading.Event) -> str:
    import requests

    def stay_with_https(response: requests.Response, **_: Any) -> None:
        scheme = urlsplit(response.headers.get("location", "")).scheme
        if remote.sha256 is None and response.is_redirect and scheme == "http":
            response.close()
            raise _LimitError(_NO_HTTPS)

    digest = hashlib.sha256()
    size = 0
    hooks = {"response": stay_with_https}
    with (
        requests.get(remote.address, stream=True, timeout=_STALL, hooks=hooks) as response,
        # It was made before, and is gone when nobody waits any more.
        part.open("r+b") as file,
    ):
        response.raise_for_status()
        for step in (*response.history, response):
            if remote.sha256 is None and not step.url.startswith("https://"):
                raise _LimitError(_NO_HTTPS)
        for piece in response.iter_content(_CHUNK):
            size += len(piece)
            if size > _MAX_DOWNLOAD:
                raise _LimitError(f"it has more than {grouped(_MAX_DOWNLOAD)} bytes")
            if stop.is_set():
                break
            digest.update(piece)
            file.write(piece)
    return digest.hexdigest()
