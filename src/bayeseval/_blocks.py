"""Rows or columns in blocks of the same size, or nearly so."""

from __future__ import annotations

__all__ = ["even_blocks"]


def even_blocks(n: int, n_blocks: int) -> list[slice]:
    """Cut `n` things into blocks whose sizes differ by one at most.

    Examples
    --------
    >>> even_blocks(5, 2)
    [slice(0, 2, None), slice(2, 5, None)]
    """
    cuts = [n * i // n_blocks for i in range(n_blocks + 1)]
    return [slice(*ends) for ends in zip(cuts[:-1], cuts[1:], strict=True)]
