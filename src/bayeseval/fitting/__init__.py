"""Fitting: records and a spec in, one frozen :class:`Fit` out."""

from __future__ import annotations

from bayeseval.fitting.fitted import Fit
from bayeseval.fitting.run import fit, run_fit

__all__ = ["Fit", "fit", "run_fit"]
