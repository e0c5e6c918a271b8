"""Files packed with gzip or zstandard: unpacked in memory, within bounds."""

from __future__ import annotations

import contextlib
import gzip
import io
import re
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, Final

from bayeseval._text import byte_size, plain
from bayeseval.errors import InputError

__all__ = [
    "PACKED_SUFFIXES",
    "packing_of",
    "sound_pieces",
    "stem_of",
    "suffix_of",
    "unpack",
    "unpacked_pieces",
    "unpacked_start",
    "within",
]

PACKED_SUFFIXES: Final = (".gz", ".zst")
"""Endings of packed files; that of the table stands before: ``scores.csv.gz``."""

_GZIP: Final = b"\x1f\x8b"
_ZSTD: Final = b"\x28\xb5\x2f\xfd"
# A frame that holds no data: pzstd and others write one first.
_SKIPPED: Final = re.compile(rb"[\x50-\x5f]\x2a\x4d\x18")
_MARK: Final = 4
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
    if not _packing(data):
        return data
    pieces, most = unpacked_pieces(path, io.BytesIO(data), data[:_MARK]), _most_of(len(data))
    if most < limit:
        return b"".join(within(most, path, pieces, of_its_size=True))
    return b"".join(within(limit, path, pieces))


def sound_pieces(path: Path) -> Iterator[bytes]:
    """What a file of any size holds, piece by piece; a packed one is refused as in :func:`unpack`.

    Raises
    ------
    InputError
        If the file is damaged, or more than 16 MiB and 100 times its size when unpacked.
    """
    with path.open("rb") as file:
        mark = file.read(_MARK)
        file.seek(0)
        pieces = unpacked_pieces(path, file, mark)
        if _packing(mark):
            pieces = within(_most_of(path.stat().st_size), path, pieces, of_its_size=True)
        yield from pieces


def packing_of(path: Path) -> str:
    """``gzip`` or ``zstandard`` if the first bytes of a file say so, whatever its name; or ""."""
    with path.open("rb") as file:
        return _packing(file.read(_MARK))


def _most_of(packed: int) -> int:
    """How many bytes a packed file of so many may hold."""
    return max(_SMALL, _MAX_RATIO * packed)


def within(
    limit: int, path: Path, pieces: Iterable[bytes], *, of_its_size: bool = False
) -> Iterator[bytes]:
    """The pieces of an unpacked file, up to so many bytes in all.

    Parameters
    ----------
    limit : int
    path : Path
        For messages.
    pieces : iterable of bytes
    of_its_size : bool
        Whether the limit follows from the size of the packed file.

    Raises
    ------
    InputError
        If there are more bytes.
    """
    total = 0
    for piece in pieces:
        total += len(piece)
        if total > limit:
            advice = (
                " of a packed file of this size; unpack it and read that file"
                if of_its_size
                else ""
            )
            raise InputError(
                f"{path}: the unpacked file is larger than {byte_size(limit)}, the most that "
                f"is read{advice}"
            )
        yield piece


def unpacked_start(data: bytes, size: int) -> bytes:
    """The beginning of what a packed file holds, from its own; nothing of a damaged file."""
    packing = _packing(data)
    try:
        if packing == "gzip":
            return zlib.decompressobj(31).decompress(data, size)
    except zlib.error:
        return b""
    if not packing:
        return data
    content = b""
    # The data are the beginning of a file, and end in the middle.
    with contextlib.suppress(OSError):
        for piece in _pieces(io.BytesIO(data), packing, 1 << 10):
            content += piece
            if len(content) >= size:
                break
    return content[:size]


def unpacked_pieces(path: Path, file: BinaryIO, mark: bytes) -> Iterator[bytes]:
    """What an open file holds, piece by piece, unpacked if its first bytes say that it is packed.

    Raises
    ------
    InputError
        If it is packed and damaged.
    """
    packing = _packing(mark)
    try:
        yield from _pieces(file, packing, _CHUNK)
    except (zlib.error, EOFError, OSError) as problem:
        # One of the system has a number.
        if not packing or getattr(problem, "errno", None) is not None:
            raise
        if "too much memory" in str(problem):
            raise InputError(
                f"{path}: compressed by zstd with a window of more than 128 MiB, which takes too"
                " much memory; compress it again with a smaller window"
            ) from problem
        raise InputError(f"{path}: damaged {packing} file: {plain(str(problem))}") from problem


def _packing(data: bytes) -> str:
    """What a file that begins so is packed with; "" if it is not."""
    if data.startswith(_GZIP):
        return "gzip"
    return "zstandard" if data.startswith(_ZSTD) or _SKIPPED.match(data) else ""


def _pieces(file: BinaryIO, packing: str, size: int) -> Iterator[bytes]:
    stream: Any = file
    if packing == "gzip":
        stream = gzip.GzipFile(fileobj=file)
    elif packing:
        import pyarrow as pa

        stream = pa.CompressedInputStream(file, "zstd")
    while piece := stream.read(size):
        yield piece
