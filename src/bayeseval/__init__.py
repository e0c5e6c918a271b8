"""Bayesian multilevel models of incomplete multilingual evaluation tables.

>>> import bayeseval as be
>>> records = be.load("mega")
>>> fit = be.fit(records.table, "additive", draws=100, chains=2)
>>> fit.potential()["language"].iloc[0]
'en'

Importing the package loads nothing heavy: each public name is imported from its
module when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bayeseval.calibration import calibrate
    from bayeseval.comparison import compare
    from bayeseval.errors import BayesevalError
    from bayeseval.fitting import Fit, fit, pymc_model
    from bayeseval.forecasting import forecast
    from bayeseval.leaving_out import sensitivity
    from bayeseval.planning import Costs, next_cells, plan
    from bayeseval.records import Covariate, Records, list_benchmarks
    from bayeseval.records.load import load
    from bayeseval.reporting import cite
    from bayeseval.simulation import simulate
    from bayeseval.spec import ModelSpec, list_models

__all__ = [
    "BayesevalError",
    "Costs",
    "Covariate",
    "Fit",
    "ModelSpec",
    "Records",
    "calibrate",
    "cite",
    "compare",
    "fit",
    "forecast",
    "list_benchmarks",
    "list_models",
    "load",
    "next_cells",
    "plan",
    "pymc_model",
    "sensitivity",
    "simulate",
]

__version__ = "0.1.0"

_HOME = {
    "BayesevalError": "bayeseval.errors",
    "Costs": "bayeseval.planning",
    "Covariate": "bayeseval.records",
    "Fit": "bayeseval.fitting",
    "ModelSpec": "bayeseval.spec",
    "Records": "bayeseval.records",
    "calibrate": "bayeseval.calibration",
    "cite": "bayeseval.reporting",
    "compare": "bayeseval.comparison",
    "fit": "bayeseval.fitting",
    "forecast": "bayeseval.forecasting",
    "list_benchmarks": "bayeseval.records",
    "list_models": "bayeseval.spec",
    "load": "bayeseval.records",
    "next_cells": "bayeseval.planning",
    "plan": "bayeseval.planning",
    "pymc_model": "bayeseval.fitting",
    "sensitivity": "bayeseval.leaving_out",
    "simulate": "bayeseval.simulation",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
