"""`Sensitivity`: what changes when part of a table is left out, and the folder of it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from bayeseval import names
from bayeseval._arguments import as_path
from bayeseval.errors import InputError
from bayeseval.estimands.moves import level_moves, read_quantity, reported_quantities
from bayeseval.fitting.fitted import Fit
from bayeseval.fitting.gate import GATE_FAILED, Gate
from bayeseval.fitting.report import run_data, run_title
from bayeseval.output.result import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from bayeseval._typing import Figures

__all__ = ["Sensitivity", "identity"]


@dataclass(frozen=True, eq=False, repr=False)
class Sensitivity(Result):
    """What changes when part of a table is left out.

    Attributes
    ----------
    table : pandas.DataFrame
        One row per refit and quantity: ``drop`` (``language``, ``task``, ``model``,
        ``group`` or ``outliers``), ``without`` (what was left out), ``n_dropped`` and
        ``n_records`` (left), ``status`` (``fitted``, ``gate failed``, ``not identified``
        or ``not fitted``), ``reason``, ``quantity``, ``n_levels`` (in both fits),
        ``spearman`` and ``kendall`` of the posterior means, ``n_rank_changes`` (levels
        whose median rank among the common ones differs; missing of point estimates),
        ``common_shift`` (mean change
        over the levels), ``largest_change`` (the largest change beyond the common one, in
        the quantity's units), ``largest_change_sd`` (in posterior sds) and
        ``largest_change_level``, ``moved`` (the levels whose ranks move most, with
        intervals). A refit that failed has one row, without a quantity;
        ``gate`` if the gate of any fit failed.
    moves : pandas.DataFrame
        Means, sds and rank intervals of every level before and after, by refit.
    outliers : pandas.DataFrame
        The records left out for their residuals: ``model``, ``language``, ``task``,
        ``score``, ``residual``; empty when none were asked for.
    fit : Fit
        The fit to all records.
    groups : dict of str to list of str
        Levels, or patterns, by name of the group.
    gates : dict of str to Gate
        Outcome of the convergence gate by name of the fit: ``all records``, and
        ``without ...`` for every refit that was made.
    sampling : dict of str to dict
        How the marginal engine drew, by name of the fit: ``path``, ``importance`` or ``nuts``,
        and ``path_reason``; empty for other engines.
    """

    table: pd.DataFrame
    moves: pd.DataFrame
    outliers: pd.DataFrame
    fit: Fit
    groups: Mapping[str, Sequence[str]]
    gates: Mapping[str, Gate]
    sampling: Mapping[str, Mapping[str, str]]

    @property
    def verdict(self) -> tuple[str, ...]:
        """The answer in sentences."""
        from bayeseval.leaving_out.report import sensitivity_sentences

        failed = [f"{GATE_FAILED[0].upper()}{GATE_FAILED[1:]}."]
        return (
            *(failed if self.fit.gate.status == "fail" else ()),
            *sensitivity_sentences(self.table, self.fit.run.get("language_names")),
        )

    def save(self, folder: str | Path, *, figures: Figures = True, force: bool = False) -> Path:
        """Write ``run.json``, tables and the figure; the folder appears whole or not at all.

        Parameters
        ----------
        folder : str or Path
            ``tables/sensitivity.csv``, ``tables/moves.csv``, ``tables/outliers.csv`` where
            there are any, ``figures/sensitivity.png``.
        figures : bool, str or sequence of str
            Whether to draw the figure, or in which formats ("pdf", "png,svg"); there is none of
            point estimates, which have no ranks.
        force : bool
            Overwrite the results of a different run.

        Raises
        ------
        InputError
            If the folder holds something else or cannot be written.

        Examples
        --------
        >>> folder = sensitivity.save("results/without", figures=False)
        >>> sorted(path.name for path in (folder / "tables").iterdir())
        ['moves.csv', 'sensitivity.csv']
        """
        from bayeseval.leaving_out.report import write_sensitivity

        return write_sensitivity(
            as_path("folder", folder),
            self.tables,
            ranks=self._ranks() if self._is_posterior() else None,
            run=self._run(),
            subtitle=run_title(self.fit.run),
            data=run_data(self.fit.run),
            language_names=self.fit.run.get("language_names"),
            figures=figures,
            force=force,
        )

    def _ranks(self) -> pd.DataFrame:
        """Median and interval of the ranks in the fit to all records."""
        parts = []
        for name in reported_quantities(self.fit.data):
            quantity = read_quantity(self.fit.data, name)
            same = level_moves(quantity, quantity)
            ranks = same[["lower_before", "median_before", "upper_before"]]
            ranks.columns = pd.Index(["lower", "median", "upper"])
            parts.append(ranks.rename_axis("level").reset_index().assign(quantity=name))
        return pd.concat(parts, ignore_index=True)

    def _run(self) -> dict[str, Any]:
        run = self.fit.run
        return {
            "benchmark": run["benchmark"],
            "citations": run.get("citations", []),
            "covariates": run["covariates"],
            **identity(run, self.table["drop"] + "=" + self.table["without"], self.groups),
            "fitted_with": run["engine"],
            "spec": run["spec"],
            "gate": run["gate"],
            "samplers": {name: dict(one) for name, one in self.sampling.items() if one},
            "groups": _sorted(self.groups),
            "language_names": run.get("language_names") or {},
            "pairs": run["pairs"],
            "verdict": list(self.verdict),
        }

    @property
    def tables(self) -> dict[str, pd.DataFrame]:
        """The tables of the folder: the refits, all moves, and the outliers if there are any."""
        from bayeseval.output.language_names import add_language_names

        known = self.fit.run.get("language_names")
        tables = {"sensitivity": self.table, "moves": self.moves}
        if len(self.outliers):
            tables["outliers"] = self.outliers
        return {name: add_language_names(table, known) for name, table in tables.items()}

    def summary(self) -> str:
        """Refits, outliers and verdict in text.

        Returns
        -------
        str
            What ``print`` shows.

        Examples
        --------
        >>> sensitivity.summary().splitlines()[0]
        'Agreement of the refits with the fit to all records: ...'
        """
        from bayeseval.leaving_out.report import format_sensitivity

        return format_sensitivity(
            self.table,
            self.outliers,
            self.verdict,
            language_names=self.fit.run.get("language_names"),
        )

    def plot(self, *, ax: Axes | None = None, figsize: tuple[float, float] | None = None) -> Figure:
        """Draw ranks in the fit to all records, and where the refits put them.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw the ranks of the models alone, without header and caption.
        figsize : tuple of float, optional
            Width and height in inches; by default, what the table needs.

        Returns
        -------
        matplotlib.figure.Figure
            It is neither shown nor closed.

        Raises
        ------
        InputError
            If the fit is a point estimate, which has no ranks.

        Examples
        --------
        >>> figure = sensitivity.plot()
        """
        from bayeseval.leaving_out.report import sensitivity_figure

        if not self._is_posterior():
            raise InputError("a point estimate (engine ml) has no ranks to draw")
        tables = self.tables
        return sensitivity_figure(
            self._ranks(),
            tables["moves"],
            tables["sensitivity"],
            subtitle=run_title(self.fit.run),
            data=run_data(self.fit.run),
            gate_status=self.fit.gate.status,
            language_names=self.fit.run.get("language_names"),
            ax=ax,
            figsize=figsize,
        )

    def figures(self) -> dict[str, Figure]:
        """Draw the figure of the folder.

        Returns
        -------
        dict of str to matplotlib.figure.Figure
            ``sensitivity``; empty for point estimates.

        Examples
        --------
        >>> list(sensitivity.figures())
        ['sensitivity']
        """
        return {"sensitivity": self.plot()} if self._is_posterior() else {}

    def _is_posterior(self) -> bool:
        return bool(self.fit.run["engine"] != "ml")

    def _title(self) -> str:
        return run_title(self.fit.run)

    def _main_result(self) -> str:
        from bayeseval.leaving_out.report import main_result

        return main_result(self.table)

    def _main(self) -> pd.DataFrame:
        shown = ["without", "n_dropped", "status", "quantity", "spearman", "kendall"]
        shown += ["n_rank_changes", "gate"]
        return self.table[[name for name in shown if name in self.table]]

    def _failed(self) -> bool:
        return self.fit.gate.status == "fail"


def _sorted(groups: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    return {name: sorted(levels) for name, levels in sorted(groups.items())}


def identity(
    run: Mapping[str, Any], asked: Iterable[str], groups: Mapping[str, Sequence[str]]
) -> dict[str, Any]:
    """What makes two analyses the same: that of the fit to all records, and what is left out."""
    dropped = names.cell_label(*sorted(set(asked)))
    content = f"{run['spec_hash']}{run['engine']}{dropped}{_sorted(groups) or ''}"
    return {
        "data_hash": run["data_hash"],
        "spec_hash": hashlib.sha256(content.encode()).hexdigest(),
        "engine": "sensitivity",
        "seed": run["seed"],
        "pairs_hash": run["pairs_hash"],
    }
