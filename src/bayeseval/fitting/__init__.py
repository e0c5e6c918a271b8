"""Fitting: a table and a spec are prepared, run, and become one frozen :class:`Fit`."""

from __future__ import annotations

from bayeseval.fitting.fitted import Fit
from bayeseval.fitting.in_pymc import pymc_model
from bayeseval.fitting.prepared import Prepared, prepare
from bayeseval.fitting.run import fit

__all__ = ["Fit", "Prepared", "fit", "prepare", "pymc_model"]
