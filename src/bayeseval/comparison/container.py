"""`Comparison`: models of one table by what they predict, and the folder it is saved in."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from bayeseval import names
from bayeseval._arguments import as_path
from bayeseval._text import counted
from bayeseval.fitting.fitted import Fit
from bayeseval.fitting.gate import Gate
from bayeseval.fitting.provenance import sampling_path
from bayeseval.fitting.report import run_data
from bayeseval.output.result import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from bayeseval._typing import Figures

__all__ = ["Comparison", "identity"]


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(Result):
    """Statistical models of one table, the best predictions first.

    Attributes
    ----------
    table : pandas.DataFrame
        ``spec``, ``elpd``, ``se``, ``elpd_diff`` and ``diff_se`` (model less the best one:
        zero for the best, negative for the others), ``p_eff`` (log density of the
        scores within the sample less `elpd`: how much better a model describes scores that
        it has seen; with effects of single cells it can exceed the number of records, so it
        is no number of parameters), ``n_bad_k`` (left-out units whose `k_hats` are above
        0.7), ``method``; ``gate`` of each model's fit if that of any failed. A model with a
        unit that was not computed has no elpd. Natural logarithms, score units. Where models
        move scores at a bound, also ``n_moved`` and, of records, ``elpd_unmoved``,
        ``unmoved_diff`` and ``unmoved_diff_se``: the same over the scores that no model moves.
    pointwise : pandas.DataFrame
        Elpd of every left-out unit (row) under every model (column).
    k_hats : pandas.DataFrame
        Pareto k-hat behind each; NaN where nothing was importance-sampled, infinite where
        a refit or a bridge cannot be relied on. A record above 0.7 that no refit was allowed
        for has no elpd.
    routes : pandas.DataFrame
        For records: elpd as in `table` beside that of plain PSIS over all parameters,
        ``elpd_psis``, and how many of its k-hats are above 0.7, ``n_bad_k_psis``.
        Empty for groups.
    moves : pandas.DataFrame
        What changes between the first model named and every other: ``spec``,
        ``quantity`` (``language_potential``, ``standardised_score`` and, where both models have
        a model:language term, ``gap_sd_languages``), ``spearman``, ``kendall``, ``moved`` (the
        levels that move most, with both ranks).
    verdict : tuple of str
        The answer in sentences.
    by : str
        What was left out at a time.
    fits : dict of str to Fit
        By name, in the order in which they were named.
    """

    table: pd.DataFrame
    pointwise: pd.DataFrame
    k_hats: pd.DataFrame
    routes: pd.DataFrame
    moves: pd.DataFrame
    verdict: tuple[str, ...]
    by: names.LeftOut
    fits: Mapping[str, Fit]

    def save(self, folder: str | Path, *, figures: Figures = True, force: bool = False) -> Path:
        """Write ``run.json``, the tables and the figure; the folder appears whole or not at all.

        Parameters
        ----------
        folder : str or Path
            ``tables/comparison.csv``, ``tables/pointwise.csv``, ``tables/k_hats.csv``,
            ``tables/moves.csv``, for records ``tables/routes.csv``, and
            ``figures/comparison.png``.
        figures : bool, str or sequence of str
            Whether to draw the figure, or in which formats ("pdf", "png,svg").
        force : bool
            Overwrite the results of a different run.

        Raises
        ------
        InputError
            If the folder holds something else or cannot be written.

        Examples
        --------
        >>> folder = comparison.save("results/comparison", figures=False)
        >>> sorted(path.name for path in (folder / "tables").iterdir())
        ['comparison.csv', 'k_hats.csv', 'moves.csv', 'pointwise.csv', 'routes.csv']
        """
        from bayeseval.comparison.report import write_comparison

        return write_comparison(
            as_path("folder", folder),
            self.tables,
            run=self._run(),
            subtitle=self._title(),
            data=run_data(next(iter(self.fits.values())).run),
            figures=figures,
            force=force,
        )

    def _run(self) -> dict[str, Any]:
        runs = [one.run for one in self.fits.values()]
        first = runs[0]
        return {
            "benchmark": first["benchmark"],
            "citations": first.get("citations", []),
            "covariates": {k: v for run in runs for k, v in run["covariates"].items()},
            **identity(runs, self.by),
            "by": self.by,
            "pairs": first["pairs"],
            "models": {name: one.run["engine"] for name, one in self.fits.items()},
            "gates": {name: one.gate.status for name, one in self.fits.items()},
            "samplers": {
                name: path for name, one in self.fits.items() if (path := sampling_path(one.run))
            },
            "verdict": list(self.verdict),
        }

    @property
    def tables(self) -> dict[str, pd.DataFrame]:
        """The tables of the folder: the comparison, pointwise densities, k-hats and moves."""
        from bayeseval.output.language_names import add_language_names

        known = next(iter(self.fits.values())).run.get("language_names")
        gates = {name: one.gate.status for name, one in self.fits.items()}
        tables = {
            "comparison": self.table.assign(gate=self.table["spec"].map(gates)),
            "pointwise": add_language_names(self.pointwise.reset_index(), known),
            "k_hats": add_language_names(self.k_hats.reset_index(), known),
            "moves": self.moves,
        }
        if len(self.routes):
            tables["routes"] = self.routes
        return tables

    def summary(self) -> str:
        """The table and the verdict in text.

        Returns
        -------
        str
            What ``print`` shows.

        Examples
        --------
        >>> comparison.summary().splitlines()[0]
        'Expected log predictive density (elpd), one record left out at a time (higher is better)'
        """
        from bayeseval.comparison.report import format_comparison

        return format_comparison(self.table, self.verdict, by=self.by)

    def plot(self, *, ax: Axes | None = None, figsize: tuple[float, float] | None = None) -> Figure:
        """Draw differences in elpd, and how far the order of levels is kept.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw the differences in elpd alone, without header and caption.
        figsize : tuple of float, optional
            Width and height in inches; by default, what the table needs.

        Returns
        -------
        matplotlib.figure.Figure
            It is neither shown nor closed.

        Examples
        --------
        >>> figure = comparison.plot()
        """
        from bayeseval.comparison.figure import comparison_figure

        return comparison_figure(
            self.table,
            self.moves,
            by=self.by,
            subtitle=self._title(),
            data=run_data(next(iter(self.fits.values())).run),
            gate_status="fail" if self._failed() else "pass",
            ax=ax,
            figsize=figsize,
        )

    def figures(self) -> dict[str, Figure]:
        """Draw the figure of the folder.

        Returns
        -------
        dict of str to matplotlib.figure.Figure
            ``comparison``.

        Examples
        --------
        >>> list(comparison.figures())
        ['comparison']
        """
        return {"comparison": self.plot()}

    @property
    def named_gates(self) -> dict[str, Gate]:
        """Convergence gates of the fits, by name of the model."""
        return {name: one.gate for name, one in self.fits.items()}

    def _title(self) -> str:
        return f"{self._run()['benchmark']}, {counted(len(self.table), 'model')}"

    def _main_result(self) -> str:
        return self.verdict[0].rstrip(".")

    def _main(self) -> pd.DataFrame:
        shown = ["spec", "elpd", "se", "elpd_diff", "diff_se", "n_bad_k", "gate"]
        return self.table[[name for name in shown if name in self.table]]

    def _failed(self) -> bool:
        return any(one.gate.status == "fail" for one in self.fits.values())


def identity(runs: Sequence[Mapping[str, Any]], by: names.LeftOut) -> dict[str, Any]:
    """What makes two comparisons the same: the first fit's table and pairs, all specs, `by`."""
    first = runs[0]
    spec_hashes = "".join(str(run["spec_hash"]) for run in runs)
    return {
        "data_hash": first["data_hash"],
        "spec_hash": hashlib.sha256(f"{by}{spec_hashes}".encode()).hexdigest(),
        "engine": "compare",
        "seed": first["seed"],
        "pairs_hash": first["pairs_hash"],
    }
