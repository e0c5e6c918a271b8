"""Simulation-based calibration of what is reported, with truths drawn from the priors."""

from __future__ import annotations

from bayeseval.calibration.container import Calibration
from bayeseval.calibration.run import (
    PreparedCalibration,
    calibrate,
    discard,
    prepare_calibration,
    unfinished,
)

__all__ = [
    "Calibration",
    "PreparedCalibration",
    "calibrate",
    "discard",
    "prepare_calibration",
    "unfinished",
]
