"""Tables with known truth: the ground of recovery tests and calibration."""

from __future__ import annotations

from bayeseval.simulation.draw import Simulation, simulate

__all__ = ["Simulation", "simulate"]
