"""Files packed with gzip or zstandard: unpacked in memory, within bounds."""

from __future__ import annotations

import gzip
import io
import zlib
from pathlib import Path
from typing import Final

from bayeseval._text import plain
from bayeseval.errors import InputError

__all__ = ["PACKED_SUFFIXES", "stem_of", "suffix_of", "unpack", "unpacked_start"]

PACKED_SUFFIXES: Final = (".gz", ".zst")
"""Endings of packed files; that of the table stands before: ``scores.csv.gz``."""

_GZIP: Final = b"\x1f\x8b"
_ZSTD: Final = b"\x28\xb5\x2f\xfd"
# Tables of scores shrink to a fifth or a fiftieth of their size.
_MAX_RATIO: Final = 100
_SMALL: Final = 1 << 24
_CHUNK: Final = 1 << 20


def suffix_of(path: Path) -> str:
    """The ending of a file's name that says its format: ``.csv`` for ``scores.csv.gz``.

    Examples
    --------
    >>> suffix_of(Path("scores.CSV.gz")), suffix_of(Path("scores.csv"))
    ('.csv', '.csv')
    """
    inner = path.suffix.casefold() in PACKED_SUFFIXES
    return (Path(path.stem) if inner else path).suffix.casefold()


def stem_of(path: Path) -> str:
    """The file's name without its endings: ``scores`` for ``scores.csv.gz``."""
    return Path(path.stem).stem if path.suffix.casefold() in PACKED_SUFFIXES else path.stem


def unpack(path: Path, data: bytes, *, limit: int) -> bytes:
    """The content of a packed file; `data` itself if it is not packed.

    Parameters
    ----------
    path : Path
        For messages.
    data : bytes
        The whole file.
    limit : int
        The most bytes that are read; small files may hold 16 MiB, others 100 times their size.

    Raises
    ------
    InputError
        If the file is damaged or too large when unpacked.
    """
    if not data.startswith((_GZIP, _ZSTD)):
        return data
    limit = min(limit, max(_SMALL, _MAX_RATIO * len(data)))
    content = _content(path, data, limit)
    if len(content) > limit:
        raise InputError(
            f"{path}: the unpacked file is larger than {limit / 1e6:.0f} MB, the most that is read"
            " of a packed file of this size"
        )
    return content


def unpacked_start(data: bytes, size: int) -> bytes:
    """The beginning of what a packed file holds, from its own; nothing of a damaged file."""
    try:
        if data.startswith(_GZIP):
            return zlib.decompressobj(31).decompress(data, size)
        if data.startswith(_ZSTD):
            return _zstd_start(data, size)
    except (zlib.error, OSError):
        return b""
    return data


def _content(path: Path, data: bytes, limit: int) -> bytes:
    try:
        if data.startswith(_GZIP):
            return _gunzip(data, limit)
        return _unzstd(data, limit)
    except (zlib.error, EOFError, OSError) as problem:
        raise InputError(
            f"{path}: damaged {'gzip' if data.startswith(_GZIP) else 'zstandard'} file:"
            f" {plain(str(problem))}"
        ) from problem


def _gunzip(data: bytes, limit: int) -> bytes:
    """All members of a gzip file; a byte more than `limit` at most."""
    with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
        return file.read(limit + 1)


def _unzstd(data: bytes, limit: int) -> bytes:
    import pyarrow as pa

    pieces, total = [], 0
    with pa.CompressedInputStream(pa.BufferReader(data), "zstd") as stream:
        while total <= limit:
            piece = stream.read(_CHUNK)
            if not piece:
                break
            pieces.append(piece)
            total += len(piece)
    return b"".join(pieces)


def _zstd_start(data: bytes, size: int) -> bytes:
    import pyarrow as pa

    pieces: list[bytes] = []
    with pa.CompressedInputStream(pa.BufferReader(data), "zstd") as stream:
        try:
            while sum(map(len, pieces)) < size:
                piece = stream.read(1 << 10)
                if not piece:
                    break
                pieces.append(piece)
        except OSError:
            # The data are the beginning of a file, and end in the middle.
            return b"".join(pieces)[:size]
    return b"".join(pieces)[:size]
