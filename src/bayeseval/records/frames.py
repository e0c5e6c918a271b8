"""Data frames as readers hand tables over."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from bayeseval.errors import InputError
from bayeseval.readers.raw import Column, Nested, RawTable, make_table
from bayeseval.readers.typed import typed_cells

__all__ = ["raw_from_frame"]


def raw_from_frame(frame: pd.DataFrame, name: str) -> RawTable:
    """A data frame as a reader would hand it over; NA of every kind is a missing cell.

    Raises
    ------
    InputError
        If it is no frame, is empty, or has several header levels.
    """
    if not isinstance(frame, pd.DataFrame):
        raise InputError(f"{name}: expected a pandas DataFrame, got {type(frame).__name__}")
    if isinstance(frame.columns, pd.MultiIndex):
        raise InputError(f"{name}: the frame has several header levels; make it one row per score")
    if frame.empty:
        raise InputError(f"{name}: the frame is empty")
    names = [str(column) for column in frame.columns]
    columns = ((label, _cells(frame.iloc[:, i])) for i, label in enumerate(names))
    return make_table(name, "row", range(1, len(frame) + 1), columns)


def _cells(column: pd.Series[Any]) -> Column:
    """A frame's column; every kind of NA becomes a missing cell."""
    if column.dtype != object:
        import pyarrow as pa

        try:
            typed = typed_cells(pa.array(column, from_pandas=True))
        except pa.ArrowException:
            # What Arrow has no type for: as Python cells.
            typed = None
        if typed is not None:
            return typed
    cells = column.to_numpy(dtype=object, copy=True)
    if column.dtype == object:
        for row, cell in enumerate(cells):
            if isinstance(cell, np.generic):
                cells[row] = cell.item()
            elif isinstance(cell, list | tuple | dict | set | np.ndarray):
                cells[row] = Nested("a nested value")
    cells[column.isna().to_numpy(dtype=np.bool_)] = None
    return cells
