"""One record for the groups of rows of one cell, whatever files and columns they come from."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Final

import numpy as np
import numpy.typing as npt

from bayeseval._typing import Floats
from bayeseval.readers.columns import LABELS, REPLICATES
from bayeseval.records.coded import combined_key
from bayeseval.records.moments import merged_means
from bayeseval.records.stack import Stack

__all__ = ["is_reduced", "merge_groups"]

Ints = npt.NDArray[np.int64]

# Of rows that differ in them, cells take the root of the mean square; of others the smallest.
_ERRORS: Final = ("se", "seed_sd", "boot_sd")


def is_reduced(stack: Stack) -> bool:
    """Whether rows stand for groups of rows, which were reduced while they were read."""
    return "group" in stack.numbers


def merge_groups(stack: Stack, codes: Mapping[str, Ints]) -> tuple[Stack, dict[str, Ints], Ints]:
    """Merge the rows that stand for groups of one cell, seed and so on.

    Groups of one cell are those of files that differ in their columns, of labels that mean the
    same, and of rows that differ in a number beside the score.

    Parameters
    ----------
    stack : Stack
        Its rows stand for groups.
    codes : mapping of str to array of int, shape (n_rows,)
        Level of every key column by row; -1 for a row without it.

    Returns
    -------
    stack : Stack
        With one row for each set of keys, in the place of the first.
    codes : dict of str to array of int
    row_of_group : array of int
        The row of each group; -1 for groups that have none.
    """
    key = combined_key(codes[name] for name in (*LABELS, *REPLICATES) if name in codes)
    _, first, of_key = np.unique(key, return_index=True, return_inverse=True)
    place = np.empty(len(first), dtype=np.int64)
    place[np.argsort(first, kind="stable")] = np.arange(len(first))
    row, first = place[of_key], np.sort(first)
    group = stack.numbers["group"].astype(np.int64)
    row_of_group = np.full(int(group.max(initial=-1)) + 1, -1, dtype=np.int64)
    row_of_group[group] = row
    merged = copy.copy(stack)
    merged.file, merged.row = stack.file[first], stack.row[first]
    merged.labels = {name: coded.take(first) for name, coded in stack.labels.items()}
    merged.written = stack.written.take(first)
    cell = np.unique(combined_key(codes[factor] for factor in LABELS), return_inverse=True)[
        1
    ].astype(np.int64)
    merged.numbers = {
        name: _merged(name, values, stack.numbers, row, cell, first)
        for name, values in stack.numbers.items()
    }
    return merged, {name: values[first] for name, values in codes.items()}, row_of_group


def _merged(
    name: str, values: Floats, numbers: Mapping[str, Floats], row: Ints, cell: Ints, first: Ints
) -> Floats:
    """A number of the merged rows: what all rows of the files would say."""
    size, rows = len(first), numbers["rows"]
    if len(row) == size or name == "group":
        return values[first]
    if name == "rows":
        return np.bincount(row, values, size).astype(np.float64)
    if name == "score":
        return merged_means(row, rows, values, size)
    if name == "highest":
        return -_smallest(row, -values, size)
    if name not in _ERRORS:
        return _smallest(row, values, size)
    # A cell takes the mean of its rows, not of its seeds, which may have more and fewer rows.
    given = np.isfinite(values)
    weight = np.where(given, rows, 0.0)
    total = np.bincount(cell, weight * np.where(given, values, 0.0) ** 2)
    count = np.bincount(cell, weight)
    mean_square = np.where(count > 0.0, total / np.maximum(count, 1.0), np.nan)
    has = np.bincount(row, weight, size) > 0.0
    return np.where(has, np.sqrt(mean_square)[cell[first]], np.nan)


def _smallest(row: Ints, values: Floats, size: int) -> Floats:
    smallest = np.full(size, np.nan)
    np.fmin.at(smallest, row, values)
    return smallest
