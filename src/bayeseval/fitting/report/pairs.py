"""Numbers of pairs of models in words: of all models, or of the best ones alone."""

from __future__ import annotations

import math

from bayeseval._text import grouped

__all__ = ["paired_models", "pairs_of_models", "pairs_text"]


def paired_models(n_pairs: int) -> int:
    """Number of models that make so many pairs.

    Examples
    --------
    >>> paired_models(6), paired_models(0)
    (4, 1)
    """
    return (1 + math.isqrt(1 + 8 * n_pairs)) // 2


def pairs_of_models(n_pairs: int, n_models: int) -> str:
    """What is counted: all pairs of models, or those of the best ones.

    Examples
    --------
    >>> pairs_of_models(6, 4)
    '6 pairs of models'
    >>> pairs_of_models(6, 1_000)
    '6 pairs of the best 4 of 1,000 models'
    """
    compared = paired_models(n_pairs)
    if compared >= n_models:
        return f"{pairs_text(n_pairs)} of models"
    return f"{pairs_text(n_pairs)} of the best {compared} of {grouped(n_models)} models"


def pairs_text(number: int) -> str:
    """Number of pairs."""
    return f"{grouped(number)} {'pair' if number == 1 else 'pairs'}"
