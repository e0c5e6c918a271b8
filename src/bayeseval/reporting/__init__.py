"""Saved results for readers: a page, tables for papers, citations, changes between results."""

from __future__ import annotations

from bayeseval.reporting.citations import cite
from bayeseval.reporting.folder import SavedResults, read_saved

__all__ = ["SavedResults", "cite", "read_saved"]
