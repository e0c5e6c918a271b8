"""Simulation-based calibration of what is reported, with truths drawn from the priors."""

from __future__ import annotations

from bayeseval.calibration.container import Calibration
from bayeseval.calibration.run import (
    PreparedCalibration,
    calibrate,
    prepare_calibration,
)

__all__ = [
    "Calibration",
    "PreparedCalibration",
    "calibrate",
    "prepare_calibration",
]
