"""Partial results of reducing rows, one file each, which survive a process that is killed."""

from __future__ import annotations

import hashlib
import math
import os
import re
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bayeseval.errors import InputError
from bayeseval.readers.compressed import state_of
from bayeseval.readers.scans import SCRATCH

__all__ = ["Partials", "file_digest"]

# What nobody has used for so long is removed, in seconds; and what a process that was killed left
# behind, which may be as large as a whole file's result.
_MAX_AGE: Final = {".parquet": 30 * 24 * 3600.0, ".txt": 30 * 24 * 3600.0, ".tmp": 24 * 3600.0}
_CHUNK: Final = 1 << 22
_DIGITS: Final = 32


@dataclass(frozen=True)
class Partials:
    """A folder of partial results.

    Parameters
    ----------
    folder : Path
    """

    folder: Path

    @classmethod
    def open(cls, cache: Path) -> Partials:
        """The folder below a cache; old results are removed.

        Raises
        ------
        InputError
            If the folder cannot be written.
        """
        folder = cache / "rows"
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as problem:
            raise InputError(
                f"{folder}: cannot be written: {problem.strerror or problem}; name another folder"
                " with BAYESEVAL_CACHE"
            ) from problem
        now = time.time()
        for path in folder.iterdir():
            # Another process may remove it first.
            with suppress(FileNotFoundError):
                age = now - path.stat().st_mtime
                scratch = path.name.startswith(SCRATCH) and path.is_dir()
                if not scratch and age > _MAX_AGE.get(path.suffix, math.inf):
                    path.unlink()
                elif scratch and age > _MAX_AGE[".tmp"]:
                    # Of a reader that was killed: links to files, and what was spilled to disk.
                    shutil.rmtree(path, ignore_errors=True)
        return cls(folder)

    def get(self, file: Path, what: str, make: Callable[[Path], None]) -> Path:
        """The partial result of one file; made and kept if it is not there.

        Parameters
        ----------
        file : Path
            Its path, size and time of change are part of the key.
        what : str
            What is computed of it: the queries, and all that they depend on.
        make : callable
            Writes the result to a path.
        """
        key = f"{state_of(file)}\n{what}"
        name = re.sub(r"[^\w-]+", "_", file.stem)[:40]
        digest = hashlib.sha256(key.encode("utf-8", "surrogateescape")).hexdigest()[:_DIGITS]
        target = self.folder / f"{name}-{digest}.parquet"
        if target.is_file():
            os.utime(target)
            return target
        temporary = target.with_suffix(f".{os.getpid()}.tmp")
        try:
            make(temporary)
            temporary.replace(target)
        finally:
            temporary.unlink(missing_ok=True)
        return target


def file_digest(file: Path) -> str:
    """SHA-256 of the bytes of a file."""
    digest = hashlib.sha256()
    with file.open("rb") as stream:
        while chunk := stream.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()
