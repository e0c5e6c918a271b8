"""Refits without parts of a table: how much results depend on them."""

from __future__ import annotations

from bayeseval.leaving_out.run import (
    PreparedSensitivity,
    Sensitivity,
    prepare_sensitivity,
    sensitivity,
)

__all__ = ["PreparedSensitivity", "Sensitivity", "prepare_sensitivity", "sensitivity"]
