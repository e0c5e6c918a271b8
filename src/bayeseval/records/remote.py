"""Benchmarks that are not shipped: fetched once into the user's cache, then read from there."""

from __future__ import annotations

import hashlib
import logging
import os
import re
from pathlib import Path
from typing import Annotated, Final
from urllib.parse import urlsplit

from bayeseval._yaml import FrozenConfig, text_like
from bayeseval.errors import InputError

__all__ = ["CACHE_VARIABLE", "Remote", "cached_path", "fetch"]

CACHE_VARIABLE: Final = "BAYESEVAL_CACHE"
"""Environment variable that names another folder for downloaded benchmarks."""


class Remote(FrozenConfig):
    """Where a benchmark's table is published.

    Parameters
    ----------
    address : str
        URL of the file, ``https://...``.
    sha256 : str or None
        Its SHA-256 as 64 hexadecimal digits. Without one the file is taken as it
        comes and its hash reported.
    """

    address: Annotated[
        str, text_like(r"https?://[^/\s]+/\S*[^/\s]", "the URL of a file, https://HOST/FILE")
    ]
    sha256: Annotated[str, text_like("[0-9a-f]{64}", "64 hexadecimal digits")] | None = None


def cached_path(remote: Remote, name: str) -> Path:
    """Where the file of benchmark `name` is kept: ``CACHE/benchmarks/NAME/FILE``."""
    import pooch

    given = os.environ.get(CACHE_VARIABLE)
    cache = Path(given) if given else Path(pooch.os_cache("bayeseval"))
    # A card's name is free text; as a folder it must not lead anywhere else.
    folder = re.sub(r"[^\w-]+", "_", name)
    return cache / "benchmarks" / folder / Path(urlsplit(remote.address).path).name


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
        What to report: a download, a hash that nothing was compared with.

    Raises
    ------
    InputError
        Without a network: what to download and where to put it. If the file is not the
        one that the card describes: both hashes.
    """
    target = cached_path(remote, name)
    notes = []
    if not target.is_file():
        _download(remote, name, target)
        notes.append(f"downloaded {remote.address} to {target}")
    try:
        digest = hashlib.sha256(target.read_bytes()).hexdigest()
    except OSError as problem:
        raise InputError(f"{target}: cannot be read: {problem.strerror or problem}") from problem
    if remote.sha256 is None:
        notes.append(
            f"{target.name} has SHA-256 {digest}; the benchmark states none to compare it with"
        )
    elif digest != remote.sha256:
        raise InputError(
            f"{target}: not the file of benchmark {name!r}: its SHA-256 is {digest}, not"
            f" {remote.sha256}; delete it to download it again from {remote.address}"
        )
    return target, notes


def _download(remote: Remote, name: str, target: Path) -> None:
    import pooch

    # pooch reports every download on stderr, where our own messages go.
    log = pooch.get_logger()
    level = log.level
    log.setLevel(logging.WARNING)
    try:
        pooch.retrieve(
            remote.address,
            known_hash=None if remote.sha256 is None else f"sha256:{remote.sha256}",
            fname=target.name,
            path=target.parent,
        )
    except OSError as problem:
        if problem.filename is not None:
            raise InputError(
                f"{problem.filename}: cannot be written: {problem.strerror};"
                f" name another folder with {CACHE_VARIABLE}"
            ) from problem
        response = getattr(problem, "response", None)
        reason = (
            "no connection" if response is None else f"the server answered {response.status_code}"
        )
        raise InputError(
            f"benchmark {name!r} could not be downloaded ({reason}): download {remote.address} and"
            f" put it at {target}"
        ) from problem
    except ValueError as problem:
        raise InputError(
            f"benchmark {name!r}: the file at {remote.address} does not have the"
            f" expected SHA-256 {remote.sha256}; it was not kept"
        ) from problem
    finally:
        log.setLevel(level)
