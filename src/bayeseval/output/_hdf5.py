"""HDF5 files within bounds: no links elsewhere, no arrays without end."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, Final

from bayeseval.errors import InputError

__all__ = ["refuse_unbounded"]

#: Groups and arrays of a file; a posterior has some hundreds.
_MAX_OBJECTS: Final = 10_000
# Bytes of arrays: of a small file, and by byte of the file. Draws hardly compress, and what
# was never written takes no place at all.
_SMALL: Final = 1 << 28
_PER_BYTE: Final = 100
# Of a text in memory: its place, and what Python keeps of it.
_PER_TEXT: Final = 64
_NUMBERS: Final = "biuf"
# HDF5 takes kilobytes of memory for each chunk that is read; those of a posterior are larger.
_FEW_CHUNKS: Final = 1000
_CHUNK: Final = 4096


def refuse_unbounded(path: str | Path) -> None:
    """Refuse an HDF5 file that would be read without end, or that reads other files.

    Raises
    ------
    InputError
        If it has links other than those of its tree, arrays in other files, or arrays that
        are much larger than the file.
    OSError, KeyError, RuntimeError
        What h5py raises for a file that it cannot read; the caller knows what to do about it.
    """
    import h5py

    limit = max(_SMALL, _PER_BYTE * Path(path).stat().st_size)
    with h5py.File(path, "r") as file:
        problem = _problem(h5py, file, limit)
    if problem:
        raise InputError(f"{path} is not read: {problem}")


def _problem(h5py: Any, file: Any, limit: int) -> str:
    seen = {h5py.h5o.get_info(file.id).addr}
    groups, size = [file], 0
    while groups:
        group = groups.pop()
        for name in group:
            if not isinstance(group.get(name, getlink=True), h5py.HardLink):
                return f"{name!r} is a link to another place"
            one = group[name]
            place = h5py.h5o.get_info(one.id).addr
            if place in seen:
                return f"{name!r} is linked twice"
            seen.add(place)
            if len(seen) > _MAX_OBJECTS:
                return f"it has more than {_MAX_OBJECTS} groups and arrays"
            if isinstance(one, h5py.Group):
                groups.append(one)
            elif isinstance(one, h5py.Dataset):
                if one.is_virtual or one.external:
                    return f"the array {name!r} is in other files"
                texts = h5py.check_string_dtype(one.dtype) is not None
                if not texts and (one.dtype.kind not in _NUMBERS or one.shape is None):
                    return f"the array {name!r} holds neither numbers nor texts"
                if (chunks := _n_chunks(one)) > max(_FEW_CHUNKS, one.nbytes // _CHUNK):
                    return f"the array {name!r} is in {chunks} chunks, which are too small"
                size += one.size * (one.dtype.itemsize + texts * _PER_TEXT)
                if size > limit:
                    return f"with {name!r} its arrays have {size} bytes, more than {limit}"
            else:
                return f"{name!r} is neither a group nor an array"
    return ""


def _n_chunks(array: Any) -> int:
    if array.chunks is None:
        return 1
    return math.prod(
        -(-side // chunk) for side, chunk in zip(array.shape, array.chunks, strict=True)
    )
