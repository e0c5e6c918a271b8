"""Readers: one file in, one :class:`~bayeseval.records.raw.RawTable` out."""

from __future__ import annotations

from bayeseval.records.readers.tabular import TABULAR_SUFFIXES, read_table

__all__ = ["TABULAR_SUFFIXES", "read_table"]
