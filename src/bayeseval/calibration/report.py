"""A calibration as a folder and as text."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from bayeseval._typing import Figures
from bayeseval.calibration.summary import ALL, quantity_text
from bayeseval.output._style import figure_files, figure_formats
from bayeseval.output.store import Writer, write_csv, write_folder
from bayeseval.output.text import text_table, wrapped

if TYPE_CHECKING:
    from bayeseval.calibration.container import Calibration

__all__ = ["format_calibration", "write_calibration"]

_HEADING = "Ranks of true values among posterior draws, and coverage of intervals in %"


def write_calibration(
    calibration: Calibration, folder: Path, *, figures: Figures = True, force: bool = False
) -> Path:
    """Write the tables and the figure of a calibration as a folder of its own.

    Raises
    ------
    InputError
        If the folder may not be replaced, or cannot be written.
    """
    writers: dict[str, Writer] = {
        f"tables/{name}.csv": partial(write_csv, table)
        for name, table in calibration.tables.items()
    }
    formats = figure_formats(figures)
    if formats:
        for name, figure in calibration.figures().items():
            writers |= figure_files(name, figure, formats)
    counts = calibration.statuses["status"].value_counts()
    run = {
        **calibration.run,
        "statuses": {str(name): int(count) for name, count in counts.items()},
        "verdict": list(calibration.verdict),
    }
    return write_folder(folder, writers, run=run, force=force)


def format_calibration(table: pd.DataFrame, verdict: Sequence[str]) -> str:
    """Table and verdict as text."""
    said = "\n".join(wrapped(sentence, indent="", further="") for sentence in verdict)
    if not len(table):
        return said
    rows = table[table["simulations"] == ALL]
    columns = {
        "quantity": [quantity_text(str(name)) for name in rows["quantity"]],
        "simulations": [f"{n}" for n in rows["n_simulations"]],
        "mean rank": ["" if np.isnan(r) else f"{r:.2f}" for r in rows["mean_rank"]],
    }
    for probability in (50, 90, 95):
        columns[f"{probability} %"] = [
            "-" if np.isnan(share) else f"{100 * share:.0f} [{100 * lower:.0f}, {100 * upper:.0f}]"
            for share, lower, upper in rows[
                [f"coverage_{probability}{end}" for end in ("", "_lower", "_upper")]
            ].itertuples(index=False)
        ]
    columns["p"] = ["< 0.001" if value < 0.001 else f"{value:.3f}" for value in rows["p_uniform"]]
    columns["band"] = [str(value) for value in rows["verdict"]]
    return f"{text_table(_HEADING, columns)}\n\n{said}"
