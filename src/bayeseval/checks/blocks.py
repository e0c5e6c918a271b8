"""Checks of large tables: blocks of numbers that fit into memory, and fewer simulations.

A check compares the table with simulated ones, whose numbers it goes through in blocks. A table
of more than a few hundred thousand records is compared with fewer of them: its checks take as
long as those of a smaller one, and p-values are multiples of one over their number.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from bayeseval._blocks import even_blocks

__all__ = ["fewer", "row_blocks"]

# Numbers of one array at a time: 200 MB.
_AT_ONCE: Final = 25_000_000
_BY_ROW: Final = 8_000_000
# Numbers that a check simulates in all, and least number of tables of them: p-values from 0.01.
_IN_ALL: Final = 200_000_000
_LEAST: Final = 99


def row_blocks(n_rows: int, n_columns: int, *, by_row: bool = False) -> Iterator[slice]:
    """Cut rows into blocks of at most 25 million numbers, or of one row.

    Parameters
    ----------
    n_rows, n_columns : int
        Shape of the numbers.
    by_row : bool
        Whether every row is drawn and looked at by itself, so that smaller blocks, of about 8
        million numbers and two rows at least, have the same numbers. Where random numbers are drawn
        block by block, they are others in other blocks.
    """
    if by_row:
        # NumPy sums a single row in another order.
        n_blocks = max(1, min(-(-n_rows * n_columns // min(_AT_ONCE, _BY_ROW)), n_rows // 2))
        yield from even_blocks(n_rows, n_blocks) if n_rows else ()
        return
    size = max(1, _AT_ONCE // max(1, n_columns))
    for start in range(0, n_rows, size):
        yield slice(start, min(start + size, n_rows))


def fewer(n_tables: int, n_records: int, *, most: int = _IN_ALL, least: int = _LEAST) -> int:
    """Number of tables to simulate of `n_records` each, at most `n_tables`.

    Examples
    --------
    >>> fewer(999, 1_400), fewer(999, 1_000_000), fewer(999, 10_000_000)
    (999, 200, 99)
    """
    return min(n_tables, max(least, most // max(1, n_records)))
