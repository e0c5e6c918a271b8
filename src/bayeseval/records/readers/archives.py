"""ZIP archives within bounds: Excel workbooks and logs of Inspect."""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path

from bayeseval.errors import InputError
from bayeseval.records.readers.base import MAX_BYTES
from bayeseval.records.report import plain

__all__ = ["refuse_zip_bomb"]


def refuse_zip_bomb(path: Path, *, limit: int = MAX_BYTES, unpack: bool = False) -> None:
    """Refuse an archive that would unpack to more than `limit` bytes.

    The sizes are those that the archive states; Python's zipfile reads no more than them.
    With `unpack` they are proven, for readers that read on: it takes time, but no memory.

    Raises
    ------
    InputError
        If it is too large, or no archive.
    """
    bad = None
    try:
        with zipfile.ZipFile(path) as archive:
            size = sum(entry.file_size for entry in archive.infolist())
            if unpack and size <= limit:
                bad = _differs(archive)
    except (
        *(zipfile.BadZipFile, zlib.error, OSError, ValueError, EOFError),
        *(NotImplementedError, RuntimeError),
    ) as problem:
        raise InputError(f"{path}: damaged ZIP archive: {plain(str(problem))[:200]}") from problem
    if size > limit:
        raise InputError(
            f"{path}: unpacked, the file has {size / 1e9:.1f} GB; at most {limit / 1e9:.1f} GB"
            " are read"
        )
    if bad is not None:
        raise InputError(f"{path}: damaged ZIP archive: {plain(bad)} is not what its entry says")


def _differs(archive: zipfile.ZipFile) -> str | None:
    """The first member that is not what its entry says, as far as Python can unpack them."""
    try:
        return archive.testzip()
    except NotImplementedError:
        # Inspect may pack with zstd, which Python knows from 3.14 on.
        return None
