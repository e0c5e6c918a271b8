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

from bayeseval.readers.engine_errors import writing
from bayeseval.readers.scans import SCRATCH
from bayeseval.readers.text_facts import digest_of, forget_digests

__all__ = ["Partials", "file_digest"]

# What nobody has used for so long is removed, in seconds; and what a process that was killed left
# behind, which may be as large as a whole file's result.
_MONTH: Final = 30 * 24 * 3600.0
_MAX_AGE: Final = {".parquet": _MONTH, ".sha256": _MONTH, ".txt": _MONTH, ".tmp": 24 * 3600.0}
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
        """The folder below a cache; old results are removed, and a run begins.

        Raises
        ------
        InputError
            If the folder cannot be written.
        """
        folder = cache / "rows"
        with writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
        forget_digests()
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
            Its content is part of the key.
        what : str
            What is computed of it: the queries, and all that they depend on.
        make : callable
            Writes the result to a path.
        """
        key = f"{file_digest(file)}\n{what}"
        name = re.sub(r"[^\w-]+", "_", file.stem)[:40]
        digest = hashlib.sha256(key.encode("utf-8", "surrogateescape")).hexdigest()[:_DIGITS]
        target = self.folder / f"{name}-{digest}.parquet"
        known = target.with_suffix(".sha256")
        if _is_whole(target, known):
            return target
        temporary = target.with_suffix(f".{os.getpid()}.tmp")
        try:
            with writing(self.folder):
                make(temporary)
                # First what it must be: without it, a result is made anew.
                known.write_text(_sha256(temporary), encoding="ascii")
                temporary.replace(target)
        finally:
            temporary.unlink(missing_ok=True)
        return target


def _is_whole(target: Path, known: Path) -> bool:
    """Whether a result is there, and is what was written."""
    try:
        whole = known.read_text(encoding="ascii") == _sha256(target)
        for path in (target, known):
            os.utime(path)
    except (OSError, ValueError):
        return False
    return whole


def _sha256(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def file_digest(file: Path) -> str:
    """SHA-256 of the bytes of a file, which is read for it once per run."""
    return digest_of(file)
