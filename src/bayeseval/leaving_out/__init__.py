"""Refits without parts of a table: how much results depend on them."""

from __future__ import annotations

from bayeseval.leaving_out.run import Sensitivity, sensitivity

__all__ = ["Sensitivity", "sensitivity"]
