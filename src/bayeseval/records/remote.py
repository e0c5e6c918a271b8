"""Benchmarks that are not shipped: fetched once into the user's cache, then read from there."""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
import threading
import time
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final
from urllib.parse import urljoin, urlsplit

from pydantic import model_validator

from bayeseval._text import grouped, show
from bayeseval._yaml import FrozenConfig, text_like
from bayeseval.errors import InputError
from bayeseval.readers.base import MAX_BYTES

if TYPE_CHECKING:
    import requests

__all__ = ["CACHE_VARIABLE", "Remote", "cache_folder", "cached_path", "fetch"]

CACHE_VARIABLE: Final = "BAYESEVAL_CACHE"
"""Environment variable that names another folder for downloaded benchmarks."""

# Seconds without a byte, seconds in all, bytes: what a download may take.
_STALL: Final = 30.0
_MAX_SECONDS: Final = 600.0
_MAX_DOWNLOAD: Final = MAX_BYTES
_CHUNK: Final = 1 << 16
_PART: Final = ".part-"
# Of the part of a host's name between two points, by RFC 1035.
_MAX_LABEL: Final = 63
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
        if not _has_host(self.address):
            raise ValueError(
                f"{show(self.address)} is not the URL of a file, https://HOST/FILE: correct the"
                " name or the port of its host"
            )
        return self


def _has_host(address: str) -> bool:
    """Whether the name of the host and its port are valid, as far as that shows."""
    try:
        parts = urlsplit(address)
        # The port is read, and refused, when it is asked for.
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        return False
    return all(0 < len(label) <= _MAX_LABEL for label in host.removesuffix(".").split("."))


def cache_folder() -> Path:
    """The user's cache: the folder that the variable names, else that of the system."""
    import pooch

    given = os.environ.get(CACHE_VARIABLE)
    return Path(given) if given else Path(pooch.os_cache("bayeseval"))


def cached_path(remote: Remote, name: str) -> Path:
    """Where the file is kept: ``CACHE/benchmarks/NAME-KEY/FILE``.

    The key is that of address and hash, so that no other card's file takes its place.
    """
    # Names and addresses are free text; as parts of a path they must not lead anywhere else.
    folder = re.sub(r"[^\w-]+", "_", name)[:60]
    file = re.sub(r"[^\w.-]+", "_", Path(urlsplit(remote.address).path).name)[-60:].lstrip(".")
    key = hashlib.sha256(f"{remote.address} {remote.sha256}".encode()).hexdigest()[:_KEY]
    return cache_folder() / "benchmarks" / f"{folder}-{key}" / (file or "data")


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
    except (requests.RequestException, _RefusedError) as problem:
        raise InputError(
            f"benchmark {name!r} could not be downloaded ({_reason(problem)}): download"
            f" {remote.address} and put it at {target}"
        ) from problem
    except OSError as problem:
        raise InputError(
            f"{part}: cannot be written: {problem.strerror or problem};"
            f" name another folder with {CACHE_VARIABLE}"
        ) from problem
    finally:
        part.unlink(missing_ok=True)


class _RefusedError(Exception):
    """A download that takes too long, is too large, or leads somewhere else."""


def _reason(problem: Exception) -> str:
    """Why a download failed, in words; what a server says is not repeated."""
    from requests import exceptions
    from urllib3.exceptions import MaxRetryError

    match problem:
        case _RefusedError():
            return str(problem)
        case exceptions.SSLError():
            return "the server has no valid certificate"
        case exceptions.ReadTimeout():
            return f"the server sent nothing for {_STALL:g} seconds"
        # What urllib3 tries again is the connection alone.
        case exceptions.ConnectionError(args=(cause, *_)) if not isinstance(cause, MaxRetryError):
            return "the transfer broke off"
        case exceptions.ConnectionError():
            return "no connection"
    return "the transfer broke off"


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
        # Asked before it is told to stop: what it has by then is not the whole file.
        in_time = bool(outcome)
    finally:
        stop.set()
    if not in_time:
        raise _RefusedError(f"it takes more than {_MAX_SECONDS:g} seconds")
    if isinstance(outcome[0], BaseException):
        raise outcome[0]
    return outcome[0]


def _stream(remote: Remote, part: Path, stop: threading.Event) -> str:
    import requests

    digest = hashlib.sha256()
    size = 0
    with (
        requests.Session() as session,
        _answer(session, remote, stop) as response,
        # It was made before, and is gone when nobody waits any more.
        part.open("r+b") as file,
    ):
        for piece in response.iter_content(_CHUNK):
            size += len(piece)
            if size > _MAX_DOWNLOAD:
                raise _RefusedError(f"it has more than {grouped(_MAX_DOWNLOAD)} bytes")
            if stop.is_set():
                break
            digest.update(piece)
            file.write(piece)
    return digest.hexdigest()


def _answer(session: requests.Session, remote: Remote, stop: threading.Event) -> requests.Response:
    """The answer that holds the file, with its body unread; redirects are followed."""
    leads_to: list[str] = []

    def take_location(response: requests.Response, **_: Any) -> None:
        # requests, told to follow it or not, would read the body of the redirect to its end.
        if response.is_redirect:
            leads_to.append(response.headers.pop("location"))

    address = remote.address
    for _ in range(session.max_redirects + 1):
        try:
            response = session.get(
                address, stream=True, timeout=_STALL, hooks={"response": take_location}
            )
        except ValueError as problem:
            raise _RefusedError(f"{show(address)} is no address by http or https") from problem
        if not leads_to:
            if response.status_code != HTTPStatus.OK:
                response.close()
                raise _RefusedError(f"the server answered {response.status_code}")
            return response
        response.close()
        address = _next_address(address, leads_to.pop(), https=remote.sha256 is None)
        if stop.is_set():
            break
    raise _RefusedError(f"the server leads on more than {session.max_redirects} times")


def _next_address(address: str, location: str, *, https: bool) -> str:
    """Where a redirect leads."""
    try:
        # Headers arrive as Latin-1, whatever they are written in.
        found = urljoin(address, location.encode("latin-1").decode("utf-8", errors="replace"))
        scheme = urlsplit(found).scheme
    except ValueError as problem:
        raise _RefusedError(f"the server leads to {show(location)}, no address") from problem
    if https and scheme != "https":
        raise _RefusedError("the server leads to an address without https")
    if scheme not in ("http", "https"):
        raise _RefusedError(f"the server leads to {show(found)}, no address by http or https")
    return found
