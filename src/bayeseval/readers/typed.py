"""Columns that a reader returns with a type, in Arrow memory rather than as Python cells."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd

__all__ = ["TypedCells", "typed_cells"]

# The spelling of numbers that a table may hold; see cells.py. Others get the slow path.
_NUMBER: Final = r"^-?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?$"
_FIRST_ROWS: Final = 100


@dataclass(frozen=True, eq=False)
class TypedCells:
    """A column of texts, whole numbers, floats or truth values; null is a missing cell.

    Parameters
    ----------
    array : pyarrow.Array, length n
    """

    array: Any

    def __len__(self) -> int:
        return len(self.array)

    def __getitem__(self, place: Any) -> Any:
        """The cell at a row, as a Python value; the column at positions or of a mask."""
        import pyarrow as pa

        if isinstance(place, int | np.integer):
            return self.array[int(place)].as_py()
        if place.dtype == np.bool_:
            return TypedCells(self.array.filter(pa.array(place)))
        return TypedCells(self.array.take(pa.array(place)))

    def objects(self) -> list[Any]:
        """All cells as Python values."""
        cells: list[Any] = self.array.to_pylist()
        return cells

    def factorise(self) -> tuple[npt.NDArray[np.intp], list[Any]]:
        """Codes and distinct cells as Python values, in the order of their first rows."""
        import pyarrow as pa

        array = self.array
        if not pa.types.is_dictionary(array.type):
            array = array.dictionary_encode()
        cells = [*array.dictionary.to_pylist(), None]
        codes = array.indices.fill_null(len(cells) - 1).to_numpy(zero_copy_only=False)
        # In the order of first rows, which decides what a message names.
        ordered, used = pd.factorize(codes)
        return ordered, [cells[place] for place in used]

    def lazily(self) -> tuple[npt.NDArray[np.intp], Iterator[Any]]:
        """Codes, and their cells as Python values that are made one at a time; without nulls.

        Cells of texts may be large, and whoever asks may stop at the first of them.
        """
        import pyarrow as pa

        array = self.array
        if not pa.types.is_dictionary(array.type):
            return np.arange(len(array)), (cell.as_py() for cell in array)
        codes, used = pd.factorize(array.indices.to_numpy(zero_copy_only=False))
        return codes, (array.dictionary[int(place)].as_py() for place in used)

    def missing(self) -> npt.NDArray[np.bool_] | None:
        """Mask of nulls when no cell can be empty otherwise, else None."""
        mask: npt.NDArray[np.bool_] = self.array.is_null().to_numpy(zero_copy_only=False)
        return mask if self.numbers is not None else None

    @cached_property
    def numbers(self) -> npt.NDArray[np.float64] | None:
        """The cells as floats, 0 where null; None when they are not plainly numbers."""
        import pyarrow as pa
        import pyarrow.compute as pc

        array = self.array
        if pa.types.is_integer(array.type) or pa.types.is_floating(array.type):
            values = array.fill_null(0).to_numpy(zero_copy_only=False)
            return np.array(values, dtype=np.float64)
        if not pa.types.is_string(array.type):
            return None
        # A few rows first: most columns of text are no numbers.
        for piece in (array.slice(0, _FIRST_ROWS), array):
            if pc.any(pc.invert(pc.match_substring_regex(piece, _NUMBER))).as_py():
                return None
        try:
            values = array.cast(pa.float64()).fill_null(0.0).to_numpy(zero_copy_only=False)
        except pa.ArrowInvalid:
            return None
        return np.array(values, dtype=np.float64)


def typed_cells(column: Any) -> TypedCells | None:
    """A pyarrow column as typed cells; None for types that only Python cells can hold.

    Raises
    ------
    pyarrow.ArrowInvalid
        If a text is not valid UTF-8.
    """
    import pyarrow as pa

    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if isinstance(array, pa.ChunkedArray):
        # One of several pieces that do not fit into one.
        return None
    kind = array.type
    if pa.types.is_dictionary(kind) and pa.types.is_large_string(kind.value_type):
        array = array.cast(pa.dictionary(kind.index_type, pa.string()))
    elif pa.types.is_large_string(kind):
        array = array.cast(pa.string())
    kind = array.type
    texts = pa.types.is_string(kind) or (
        pa.types.is_dictionary(kind) and pa.types.is_string(kind.value_type)
    )
    if texts:
        array.validate(full=True)
        return TypedCells(array)
    half = pa.types.is_float16(kind)
    if (pa.types.is_integer(kind) or pa.types.is_floating(kind)) and not half:
        return TypedCells(array)
    return None
