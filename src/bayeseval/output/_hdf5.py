"""HDF5 files within bounds: no links elsewhere, no arrays without end."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, Final

from bayeseval.errors import InputError

__all__ = ["refuse_unbounded"]

#: Groups and arrays of a file; a posterior has ten and some hundreds. xarray takes milliseconds
#: for each, and HDF5 looks at all groups above one.
_MAX_GROUPS: Final = 100
_MAX_OBJECTS: Final = 2000
# Bytes of arrays: of a small file, and by byte of the file. Draws hardly compress, and what
# was never written takes no place at all. Commands hold several copies of what they read.
_SMALL: Final = 1 << 26
_PER_BYTE: Final = 100
# Of a text in memory: its place, and what Python keeps of it.
_PER_TEXT: Final = 64
_NUMBERS: Final = "biuf"
# Attributes by which arrays of netCDF know their dimensions.
_DIMENSIONS: Final = "DIMENSION_LIST"
_REFERENCES: Final = "REFERENCE_LIST"
# HDF5 takes kilobytes of memory for each chunk that is read; those of a posterior are larger.
_FEW_CHUNKS: Final = 1000
_CHUNK: Final = 4096


def refuse_unbounded(path: str | Path) -> None:
    """Refuse an HDF5 file that would be read without end, or that reads other files.

    Raises
    ------
    InputError
        If it has links other than those of its tree, arrays in other files, arrays that are
        much larger than the file, or attributes that HDF5 would follow to what is no object.
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
    groups, n_groups, size = [file], 0, 0
    problem = _attribute_problem(h5py, "/", file)
    while groups and not problem:
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
                n_groups += 1
                if n_groups > _MAX_GROUPS:
                    return f"it has more than {_MAX_GROUPS} groups"
            elif isinstance(one, h5py.Dataset):
                size += _n_bytes(h5py, one)
                problem = _array_problem(h5py, name, one)
                if not problem and size > limit:
                    problem = f"with {name!r} its arrays have {size} bytes, more than {limit}"
            else:
                return f"{name!r} is neither a group nor an array"
            if problem := problem or _attribute_problem(h5py, name, one):
                return problem
    return problem


def _array_problem(h5py: Any, name: str, array: Any) -> str:
    if array.is_virtual or array.external:
        return f"the array {name!r} is in other files"
    if not _is_plain(h5py, array.dtype) or array.shape is None:
        return f"the array {name!r} holds neither numbers nor texts"
    if (chunks := _n_chunks(array)) > max(_FEW_CHUNKS, array.nbytes // _CHUNK):
        return f"the array {name!r} is in {chunks} chunks, which are too small"
    return ""


def _attribute_problem(h5py: Any, name: str, one: Any) -> str:
    """HDF5 itself follows the references of a list of dimensions, whatever it is made of."""
    for key in one.attrs:
        dtype = one.attrs.get_id(key).dtype
        if key == _DIMENSIONS:
            inner = h5py.check_vlen_dtype(dtype)
            known = inner is not None and h5py.check_ref_dtype(inner) is not None
        elif key == _REFERENCES:
            first = dtype[0] if dtype.names else None
            known = first is not None and h5py.check_ref_dtype(first) is not None
        else:
            known = _is_plain(h5py, dtype)
        if not known:
            return f"the attribute {key!r} of {name!r} is of another type than netCDF gives it"
    return ""


def _is_plain(h5py: Any, dtype: Any) -> bool:
    return dtype.kind in _NUMBERS or h5py.check_string_dtype(dtype) is not None


def _n_bytes(h5py: Any, array: Any) -> int:
    texts = h5py.check_string_dtype(array.dtype) is not None
    return int(array.size or 0) * int(array.dtype.itemsize + texts * _PER_TEXT)


def _n_chunks(array: Any) -> int:
    if array.chunks is None:
        return 1
    return math.prod(
        -(-side // chunk) for side, chunk in zip(array.shape, array.chunks, strict=True)
    )
