"""The result folder: posterior, provenance, tables and figures of one fit."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import xarray as xr

from bayeseval import names
from bayeseval.output._style import save_figure
from bayeseval.output.check_figure import checks_figure
from bayeseval.output.figures import figure_writers
from bayeseval.output.language_names import add_language_names
from bayeseval.output.numbers import score_unit
from bayeseval.output.store import (
    RUN_ID,
    Writer,
    read_run,
    read_tree,
    write_csv,
    write_folder,
    write_tree,
)
from bayeseval.output.tables import result_tables

__all__ = ["POSTERIOR_FILE", "default_folder", "read_results", "run_identity", "write_results"]

#: The DataTree of a fit, netCDF-4.
POSTERIOR_FILE = "posterior.nc"


def run_identity(data_hash: str, spec_hash: str, engine: str, seed: int) -> dict[str, Any]:
    """What makes two runs the same run; a result folder is only replaced by the same."""
    return dict(zip(RUN_ID, (data_hash, spec_hash, engine, seed), strict=True))


def default_folder(benchmark: str, model: str, engine: str, seed: int) -> Path:
    """Result folder named after the inputs, under ``results/`` of the working directory."""
    safe = re.sub(r"[^\w.-]+", "_", benchmark).strip("._") or "benchmark"
    return Path("results") / safe / f"{model}-{engine}-seed{seed}"


def write_results(
    tree: xr.DataTree,
    run: Mapping[str, Any],
    folder: Path,
    *,
    checks: Mapping[str, pd.DataFrame] | None = None,
    ci_prob: float = names.CI_PROB,
    figures: bool = True,
    force: bool = False,
) -> Path:
    """Write a result folder as a whole, or leave what was there.

    Parameters
    ----------
    tree : xarray.DataTree
        All groups of a fit.
    run : mapping
        Its provenance.
    folder : Path
        Where to.
    checks : mapping of str to pandas.DataFrame, optional
        Checks of the model: ``checks`` and the tables that they are drawn from, each
        ``tables/<name>.csv``.
    ci_prob : float
        Probability of the equal-tailed intervals of tables and figures.
    figures : bool
        Whether to draw the figures.
    force : bool
        Replace a folder that holds another run.

    Raises
    ------
    InputError
        If the folder may not be replaced, or cannot be written.
    """
    status = run["gate"]["status"]
    language_names = run["language_names"]
    unit = score_unit(run.get("bounds"))
    writers: dict[str, Writer] = {POSTERIOR_FILE: partial(write_tree, tree)}
    tables = result_tables(tree, gate_status=status, ci_prob=ci_prob, language_names=language_names)
    if checks is not None:
        checks = {name: add_language_names(table, language_names) for name, table in checks.items()}
        tables |= {f"tables/{name}.csv": table for name, table in checks.items()}
    writers |= {path: partial(write_csv, table) for path, table in tables.items()}
    if figures:
        subtitle = f"{run['benchmark']}, model {run['spec']['name']}, engine {run['engine']}"
        writers |= figure_writers(tables, subtitle=subtitle, gate_status=status, unit=unit)
        if checks is not None:
            figure = checks_figure(checks, subtitle=subtitle, gate_status=status, unit=unit)
            writers["figures/checks.png"] = partial(save_figure, figure)
    said = {**run, "ci_kind": names.CI_KIND, "ci_prob": ci_prob}
    return write_folder(folder, writers, run=said, force=force)


def read_results(folder: Path) -> tuple[xr.DataTree, dict[str, Any]]:
    """Read back the tree and the provenance of a result folder.

    Raises
    ------
    InputError
        If it is not a result folder, or a file of it is damaged.
    """
    run = read_run(folder)
    return read_tree(folder / POSTERIOR_FILE), run
