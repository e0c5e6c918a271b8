"""Readers: files of a table or of an evaluation tool in, raw tables out."""

from __future__ import annotations

from bayeseval.readers.base import Options, Reading
from bayeseval.readers.detect import READERS, TABLE, detect, files_below, read_results, read_tables
from bayeseval.readers.proposals import Proposal, propose
from bayeseval.readers.tabular import TABULAR_SUFFIXES
from bayeseval.readers.task_columns import with_task_names
from bayeseval.readers.task_names import UnknownTasksError, proposed_table
from bayeseval.readers.wide import read_wide_frame

__all__ = [
    "READERS",
    "TABLE",
    "TABULAR_SUFFIXES",
    "Options",
    "Proposal",
    "Reading",
    "UnknownTasksError",
    "detect",
    "files_below",
    "propose",
    "proposed_table",
    "read_results",
    "read_tables",
    "read_wide_frame",
    "with_task_names",
]
