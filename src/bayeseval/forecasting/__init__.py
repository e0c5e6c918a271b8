"""Forecasts: potentials of languages without records."""

from __future__ import annotations

from bayeseval.forecasting.check import check_forecasts
from bayeseval.forecasting.run import Forecast, forecast

__all__ = ["Forecast", "check_forecasts", "forecast"]
