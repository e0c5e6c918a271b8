"""Which model predicts best: densities and errors of left-out scores."""

from __future__ import annotations

from bayeseval.comparison.held_out import HeldOut
from bayeseval.comparison.holdout import PreparedHoldout, prepare_holdout
from bayeseval.comparison.run import (
    Comparison,
    PreparedComparison,
    compare,
    find_fits,
    prepare_comparison,
)

__all__ = [
    "Comparison",
    "HeldOut",
    "PreparedComparison",
    "PreparedHoldout",
    "compare",
    "find_fits",
    "prepare_comparison",
    "prepare_holdout",
]
