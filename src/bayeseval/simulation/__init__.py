"""Simulated tables with known parameters, for recovery tests and calibration."""

from __future__ import annotations

from bayeseval.simulation.draw import Simulation, simulate

__all__ = ["Simulation", "simulate"]
