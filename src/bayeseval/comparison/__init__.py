"""Which model predicts best: expected log predictive densities of left-out scores."""

from __future__ import annotations

from bayeseval.comparison.run import Comparison, compare, expected_run, find_fits

__all__ = ["Comparison", "compare", "expected_run", "find_fits"]
