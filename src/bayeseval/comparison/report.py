"""A comparison of models: its folder and what the terminal shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from bayeseval._typing import Figures
from bayeseval.comparison.figure import comparison_figure
from bayeseval.output._style import figure_files, figure_formats
from bayeseval.output.store import Writer, write_csv, write_folder
from bayeseval.output.text import text_table, wrapped

__all__ = ["format_comparison", "write_comparison"]

_COLUMNS = (
    ("elpd", "elpd", "{:.1f}"),
    ("SE", "se", "{:.1f}"),
    ("difference", "elpd_diff", "{:.1f}"),
    # A blank keeps the two columns of one name apart.
    ("SE ", "diff_se", "{:.1f}"),
    ("seen - left out", "p_eff", "{:.0f}"),
    ("bad k-hats", "n_bad_k", "{:d}"),
)
# A single model differs from nobody.
_OF_TWO = ("elpd_diff", "diff_se")


def write_comparison(
    folder: Path,
    tables: Mapping[str, pd.DataFrame],
    *,
    run: Mapping[str, Any],
    subtitle: str,
    data: str = "",
    figures: Figures = True,
    force: bool = False,
) -> Path:
    """Write the tables and the figure of a comparison as a folder of its own.

    Raises
    ------
    InputError
        If the folder may not be replaced, or cannot be written.
    """
    writers: dict[str, Writer] = {
        f"tables/{name}.csv": partial(write_csv, table) for name, table in tables.items()
    }
    formats = figure_formats(figures)
    if formats:
        figure = comparison_figure(
            tables["comparison"],
            tables["moves"],
            by=str(run["by"]),
            subtitle=subtitle,
            data=data,
            gate_status="fail" if "fail" in run["gates"].values() else "pass",
        )
        writers |= figure_files("comparison", figure, formats)
    return write_folder(folder, writers, run=run, force=force)


def format_comparison(table: pd.DataFrame, verdict: Sequence[str], *, by: str) -> str:
    """Table and verdict as text, best model first."""
    columns = {"model": [str(name) for name in table["spec"]]}
    for heading, key, form in _COLUMNS:
        if len(table) == 1 and key in _OF_TWO:
            continue
        columns[heading] = ["-" if pd.isna(v) else form.format(v) for v in table[key]]
    heading = (
        f"Expected log predictive density (elpd), one {by} left out at a time (higher is better)"
    )
    methods = [
        f"  {name}: {method}" for name, method in zip(table["spec"], table["method"], strict=True)
    ]
    methods.append(
        "  seen - left out: log density of the scores when they are part of the fit, less elpd"
    )
    sentences = [wrapped(sentence, indent="", further="") for sentence in verdict]
    return "\n".join([text_table(heading, columns), *methods, "", *sentences])
