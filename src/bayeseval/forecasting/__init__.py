"""Forecasts: potentials of languages without records."""

from __future__ import annotations

from bayeseval.forecasting.run import Forecast, check_forecasts, forecast

__all__ = ["Forecast", "check_forecasts", "forecast"]
