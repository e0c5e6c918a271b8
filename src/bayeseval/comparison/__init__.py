"""Which model predicts best: expected log predictive densities of left-out scores."""

from __future__ import annotations

from bayeseval.comparison.run import (
    Comparison,
    PreparedComparison,
    compare,
    find_fits,
    prepare_comparison,
)

__all__ = ["Comparison", "PreparedComparison", "compare", "find_fits", "prepare_comparison"]
