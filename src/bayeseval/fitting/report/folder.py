"""The result folder: posterior, provenance, tables and figures of one fit."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import xarray as xr

from bayeseval import names
from bayeseval._second_process import begin
from bayeseval._typing import Figures, Progress
from bayeseval.checks.figure import checks_figure
from bayeseval.errors import InputError
from bayeseval.estimands.read import refuse_infinite
from bayeseval.fitting.report import run_data, run_title
from bayeseval.fitting.report.figures import figure_writers
from bayeseval.fitting.report.model_tables import describes, shown_exponent
from bayeseval.fitting.report.tables import result_tables
from bayeseval.output._style import (
    FigureWriter,
    figure_contents,
    figure_files,
    figure_formats,
)
from bayeseval.output.language_names import add_language_names
from bayeseval.output.numbers import in_units, score_unit
from bayeseval.output.store import (
    RUN_FILE,
    Writer,
    add_files,
    check_files,
    check_fit_run,
    read_run,
    read_tree,
    results_saved,
    write_csv,
    write_folder,
    write_tree,
)

__all__ = ["POSTERIOR_FILE", "default_folder", "read_results", "write_results"]

#: The DataTree of a fit, netCDF-4.
POSTERIOR_FILE = "posterior.nc"
# What the run file of a fit has and that of another result has not.
_NEEDED = ("gate", "spec")


def default_folder(
    benchmark: str, model: str, engine: str, seed: int, *, pairs: str = "any"
) -> Path:
    """Result folder named after the inputs, under ``results/`` of the working directory."""
    name = f"{model}-{engine}-seed{seed}"
    if pairs != "any":
        name += f"-{_safe(Path(pairs).stem) or 'pairs'}"
    return Path("results") / (_safe(benchmark) or "benchmark") / name


def _safe(text: str) -> str:
    return re.sub(r"[^\w.-]+", "_", text).strip("._")


def write_results(
    tree: xr.DataTree,
    run: Mapping[str, Any],
    folder: Path,
    *,
    checks: Callable[[], Mapping[str, pd.DataFrame]] | None = None,
    ci_prob: float = names.CI_PROB,
    figures: Figures = True,
    force: bool = False,
    progress: Progress | None = None,
) -> Path:
    """Write a result folder: posterior and tables as a whole, then checks, then figures.

    Parameters
    ----------
    tree : xarray.DataTree
        All groups of a fit.
    run : mapping
        Its provenance.
    folder : Path
        Where to.
    checks : callable, optional
        Called when the posterior is saved; returns the checks of the model, ``checks`` and
        the tables that they are drawn from, each to become ``tables/<name>.csv``.
    ci_prob : float
        Probability of the equal-tailed intervals of tables and figures.
    figures : bool, str or sequence of str
        Whether to draw the figures, or in which formats.
    force : bool
        Overwrite the results of a different run.
    progress : callable, optional
        Called as ``progress(stage, done, total, remark)``.

    Raises
    ------
    InputError
        If the folder may not be replaced, or cannot be written.

    Notes
    -----
    The first step is written as a whole or not at all; what a later one adds is whole or
    not there. Whatever ends a later step, an interruption too, leaves a result folder
    that can be opened, and the exception says so.
    """
    tell: Progress = progress or (lambda stage, done, total, remark: None)
    status = run["gate"]["status"]
    formats = figure_formats(figures)
    tell("writing results", 0, 1, str(folder))
    language_names = run["language_names"]
    exponent = shown_exponent(tree)
    unit = score_unit(run.get("bounds"), exponent)
    tables = result_tables(tree, gate_status=status, ci_prob=ci_prob, language_names=language_names)
    writers: dict[str, Writer] = {POSTERIOR_FILE: partial(write_tree, tree), **_csv(tables)}
    stored_run = {**run, "ci_kind": names.CI_KIND, "ci_prob": ci_prob}
    label = {"subtitle": run_title(run), "data": run_data(run), "gate_status": status, "unit": unit}
    drawing = _Drawing(exponent, formats, label, describes(run))
    # In a second process, if there is one, while this one writes and checks.
    drawn = begin(partial(drawing.figures, tables)) if formats else None
    drawn_checks = None
    target = write_folder(folder, writers, run=stored_run, force=force)
    checked: Mapping[str, pd.DataFrame] = {}
    options = ["checks=fit.checks"] if checks is not None else []
    if formats != figure_formats(True):
        options.append(f"figures={','.join(formats)!r}" if formats else "figures=False")
    options += [] if ci_prob == names.CI_PROB else [f"ci_prob={ci_prob:g}"]
    again = (
        f"in Python, fit = bayeseval.Fit.open({str(folder)!r}); "
        f"fit.save({', '.join([repr(str(folder)), *options])}) adds them"
    )
    wanted = {"checks": checks is not None, "figures": bool(formats)}
    with results_saved(folder, [name for name, asked in wanted.items() if asked], again):
        tell("writing results", 1, 1, str(folder))
        if checks is not None:
            tell("checking the model", 0, 1, "")
            checked = {
                name: add_language_names(table, language_names) for name, table in checks().items()
            }
            if formats and checked:
                drawn_checks = begin(partial(drawing.checks, checked))
            tables_of_checks = _csv({f"tables/{name}.csv": t for name, t in checked.items()})
            add_files(folder, tables_of_checks, run=run)
    if checks is not None:
        # A report raises when Ctrl-C was pressed before it: the checks are there by now.
        with results_saved(folder, ["figures"] if formats else [], again):
            tell("checking the model", 1, 1, "")
    if drawn is not None:
        with results_saved(folder, ["figures"], again):
            tell("drawing figures", 0, 1, "")
            pictures = _as_writers(drawn()) or drawing.figure_writers(tables)
            if drawn_checks is not None:
                pictures |= _as_writers(drawn_checks()) or drawing.check_writers(checked)
            add_files(folder, pictures, run=run)
        with results_saved(folder, [], again):
            tell("drawing figures", 1, 1, "")
    return target


@dataclass(frozen=True)
class _Drawing:
    """How the figures of a fit are drawn; goes to a second process with the tables."""

    exponent: int
    formats: tuple[str, ...]
    label: Mapping[str, Any]
    description: bool

    def figures(self, tables: Mapping[str, pd.DataFrame]) -> dict[str, bytes]:
        """Contents of the files of :meth:`figure_writers`."""
        return figure_contents(self.figure_writers(tables))

    def checks(self, tables: Mapping[str, pd.DataFrame]) -> dict[str, bytes]:
        """Contents of the files of :meth:`check_writers`."""
        return figure_contents(self.check_writers(tables))

    def figure_writers(self, tables: Mapping[str, pd.DataFrame]) -> dict[str, FigureWriter]:
        """Functions that draw the figures of the tables."""
        return figure_writers(
            self._in_units(tables),
            **self.label,
            description=self.description,
            formats=self.formats,
        )

    def check_writers(self, tables: Mapping[str, pd.DataFrame]) -> dict[str, FigureWriter]:
        """Functions that write the figure of the checks."""
        figure = checks_figure(self._in_units(tables), **self.label)
        return figure_files("checks", figure, self.formats)

    def _in_units(self, tables: Mapping[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
        return {name: in_units(table, self.exponent) for name, table in tables.items()}


def _as_writers(contents: Mapping[str, bytes] | None) -> dict[str, Writer]:
    def write(content: bytes, path: Path) -> None:
        path.write_bytes(content)

    return {path: partial(write, content) for path, content in (contents or {}).items()}


def _csv(tables: Mapping[str, pd.DataFrame]) -> dict[str, Writer]:
    return {path: partial(write_csv, table) for path, table in tables.items()}


def read_results(folder: Path) -> tuple[xr.DataTree, dict[str, Any]]:
    """Read back the tree and the provenance of a result folder.

    Raises
    ------
    InputError
        If it is not a result folder, or a file of it is damaged.
    """
    run = read_run(folder)
    lacking = [name for name in _NEEDED if not isinstance(run.get(name), Mapping)]
    if lacking:
        raise InputError(
            f"{folder / RUN_FILE} is damaged, or not that of a fit: it has no {lacking[0]!r}; "
            "give the folder of a fit, or run bayeseval fit again"
        )
    check_fit_run(folder / RUN_FILE, run)
    check_files(folder, run, [POSTERIOR_FILE])
    tree = read_tree(folder / POSTERIOR_FILE)
    refuse_infinite(tree, str(folder / POSTERIOR_FILE))
    return tree, run
