"""Which model predicts best: expected log predictive densities of left-out scores."""

from __future__ import annotations

from bayeseval.compare.run import Comparison, compare, find_fits
from bayeseval.compare.scores import GOOD_K

__all__ = ["GOOD_K", "Comparison", "compare", "find_fits"]
