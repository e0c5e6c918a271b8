"""Readers: files of a table or of an evaluation tool in, raw tables out."""

from __future__ import annotations

from bayeseval.records.readers.base import Options, Progress, Reading
from bayeseval.records.readers.detect import READERS, TABLE, detect, read_results
from bayeseval.records.readers.tabular import TABULAR_SUFFIXES, read_table

__all__ = [
    "READERS",
    "TABLE",
    "TABULAR_SUFFIXES",
    "Options",
    "Progress",
    "Reading",
    "detect",
    "read_results",
    "read_table",
]
