"""ZIP archives within bounds: Excel workbooks and logs of Inspect."""

from __future__ import annotations

import struct
import zipfile
import zlib
from pathlib import Path
from typing import Final

from bayeseval._text import byte_size, plain, two_sizes
from bayeseval.errors import InputError
from bayeseval.readers.base import MAX_BYTES

__all__ = ["is_workbook", "refuse_zip_bomb"]

_ZSTD: Final = 93
_CHUNK: Final = 1 << 20
# What any archive may unpack to, however well it is packed.
_SMALL: Final = 4 << 20
# Local header of a member: its signature, and the lengths of its name and of its extra field.
_HEADER: Final = struct.Struct("<4s22xHH")


def is_workbook(path: Path) -> bool:
    """Whether a file is an Excel workbook of the kind that openpyxl reads."""
    try:
        with zipfile.ZipFile(path) as archive:
            return "xl/workbook.xml" in archive.namelist()
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError):
        return False


def refuse_zip_bomb(
    path: Path, *, limit: int = MAX_BYTES, most_times: int | None = None, unpack: bool = False
) -> None:
    """Refuse an archive that would unpack to more than `limit` bytes.

    The sizes are those that the archive states; Python's zipfile reads no more than them.
    With `unpack` they are proven, for readers that read on: it takes time, but no memory.
    `most_times` is how many times the file's own size they may have beyond a few MB.

    Raises
    ------
    InputError
        If it is too large, or no archive.
    """
    mismatch = None
    try:
        with zipfile.ZipFile(path) as archive:
            packed = path.stat().st_size
            size = sum(entry.file_size for entry in archive.infolist())
            if unpack and size <= limit:
                mismatch = _first_mismatch(path, archive)
    except (
        *(zipfile.BadZipFile, zlib.error, OSError, ValueError, EOFError),
        *(NotImplementedError, RuntimeError, struct.error),
    ) as problem:
        raise InputError(f"{path}: damaged ZIP archive: {plain(str(problem))[:200]}") from problem
    if size > limit:
        has, most = two_sizes(size, limit)
        raise InputError(f"{path}: the unpacked file has {has}; at most {most} are read")
    if most_times is not None and size > _SMALL + most_times * packed:
        raise InputError(
            f"{path}: the unpacked file has {byte_size(size)}, more than "
            f"{most_times} times as much as the file itself; it consists of the same cells over "
            "and over, such as empty ones: save the table without them"
        )
    if mismatch is not None:
        raise InputError(
            f"{path}: damaged ZIP archive: the size of {plain(mismatch)} is not the one it states"
        )


def _first_mismatch(path: Path, archive: zipfile.ZipFile) -> str | None:
    """Name of the first member whose size is not the one that the archive states."""
    for entry in archive.infolist():
        # Python knows zstd from 3.14 on.
        size = _unpacked_size_zstd if entry.compress_type == _ZSTD else _unpacked_size
        if size(path, archive, entry) != entry.file_size:
            return entry.filename
    return None


def _unpacked_size(path: Path, archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> int:
    """The size of a member; one that goes on has another checksum, and counts as -1."""
    size = 0
    try:
        with archive.open(entry) as member:
            while piece := member.read(_CHUNK):
                size += len(piece)
    except zipfile.BadZipFile:
        return -1
    return size


def _unpacked_size_zstd(path: Path, archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> int:
    """The size of a member, or some number above the size that the archive states."""
    import pyarrow as pa

    with pa.memory_map(str(path)) as file:
        header = file.read_at(_HEADER.size, entry.header_offset)
        mark, names, extra = _HEADER.unpack(header)
        if mark != b"PK\x03\x04":
            raise zipfile.BadZipFile(f"no member at byte {entry.header_offset}")
        start = entry.header_offset + _HEADER.size + names + extra
        packed = pa.CompressedInputStream(file.get_stream(start, entry.compress_size), "zstd")
        size = 0
        while size <= entry.file_size and (piece := packed.read(_CHUNK)):
            size += len(piece)
    return size
