"""`Calibration`: where truths lie among the draws of fits to simulated tables, and its folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from bayeseval._arguments import as_path
from bayeseval._text import counted
from bayeseval.calibration.stored import (
    FILES,
    NUMBERS,
    STATUS,
    TEXTS,
    advice,
    read_simulations,
    read_statuses,
)
from bayeseval.calibration.summary import sentences, summarise
from bayeseval.errors import InputError
from bayeseval.output._run_file import check_calibration_run
from bayeseval.output.result import Result
from bayeseval.output.store import RUN_FILE, check_files, read_run

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from bayeseval._typing import Figures

__all__ = ["Calibration"]


@dataclass(frozen=True, eq=False, repr=False)
class Calibration(Result):
    """Ranks of true values among the draws of fits to simulated tables.

    Attributes
    ----------
    simulations : pandas.DataFrame
        One row per simulation, quantity and level: ``simulation``, ``quantity``, ``level``,
        ``truth``, ``mean`` and ``sd`` of the posterior, ``z`` (truth less mean, in posterior
        sds), ``rank`` (of the truth among draws, between 0 and 1, ties randomised), ``in_50``,
        ``in_90``, ``in_95`` (1 if the interval holds the truth, else 0).
    statuses : pandas.DataFrame
        One row per simulation: ``simulation``, ``status`` (``fitted``, ``gate failed`` or ``not
        fitted``), ``reason``, ``path`` (how the marginal engine drew).
    run : dict
        Contents of ``run.json``: model, priors, engine, seed, versions.
    """

    simulations: pd.DataFrame
    statuses: pd.DataFrame
    run: Mapping[str, Any]

    @classmethod
    def from_parts(cls, parts: Sequence[Mapping[str, Any]], run: Mapping[str, Any]) -> Calibration:
        """Put together what single simulations found.

        Parameters
        ----------
        parts : sequence of mapping
            As :func:`bayeseval.calibration.run.simulate_one` returns them, in order.
        run : mapping
            Contents of ``run.json``.
        """
        columns: dict[str, list[Any]] = {name: [] for name in ("simulation", *TEXTS, *NUMBERS)}
        for part in parts:
            rows = part["rows"]
            columns["simulation"] += [part["simulation"]] * len(rows.get("quantity", ()))
            for name in (*TEXTS, *NUMBERS):
                columns[name] += rows.get(name, [])
        simulations = pd.DataFrame(
            {
                # Numbers that JSON has no word for are missing.
                name: np.array(values, dtype=np.float64) if name in NUMBERS else values
                for name, values in columns.items()
            }
        )
        statuses = pd.DataFrame([{name: part[name] for name in STATUS} for part in parts])
        return cls(simulations, statuses, run)

    def parts(self) -> dict[int, dict[str, Any]]:
        """The inverse of :meth:`from_parts`, by number of the simulation."""
        groups = dict(iter(self.simulations.groupby("simulation")))
        parts = {}
        for status in self.statuses.to_dict("records"):
            number = int(status["simulation"])
            rows = groups.get(number)
            own = {} if rows is None else {n: rows[n].tolist() for n in (*TEXTS, *NUMBERS)}
            texts = {name: str(status[name]) for name in STATUS[1:]}
            parts[number] = {"simulation": number, **texts, "rows": own}
        return parts

    @cached_property
    def table(self) -> pd.DataFrame:
        """One row per quantity.

        Returns
        -------
        pandas.DataFrame
            ``quantity``, ``simulations`` (``all``, and where the convergence gate of some fits
            failed also ``gate passed``), ``n_simulations`` that report it, ``n_values`` (levels
            of all simulations), ``mean_rank`` and ``mean_rank_se`` (0.5 is expected),
            ``coverage_{50,90,95}`` with ``_lower`` and ``_upper`` (of 95 % intervals with the
            simulation as the unit), ``p_uniform`` (of the test of uniform ranks, one level per
            simulation; of sets, which have no ranks, that they hold the truth as often as they
            promise), ``verdict`` (``inside`` or ``outside`` the band of probability
            ``band_prob``, so that all bands together are left by calibrated results with
            probability 5 %), ``ci_kind`` and ``ci_prob`` of the intervals of coverage.
        """
        if not len(self.simulations):
            return pd.DataFrame()
        return summarise(self.simulations, self.statuses)

    @property
    def verdict(self) -> tuple[str, ...]:
        """The answer in sentences."""
        return sentences(self.table, self.statuses, self.run)

    def save(self, folder: str | Path, *, figures: Figures = True, force: bool = False) -> Path:
        """Write ``run.json``, tables and the figure; the folder appears whole or not at all.

        Parameters
        ----------
        folder : str or Path
            ``tables/calibration.csv``, ``tables/simulations.csv``, ``tables/statuses.csv`` and
            ``figures/calibration.png``.
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
        >>> folder = calibration.save("results/calibration", figures=False)
        >>> sorted(path.name for path in (folder / "tables").iterdir())
        ['calibration.csv', 'simulations.csv', 'statuses.csv']
        """
        from bayeseval.calibration.report import write_calibration

        return write_calibration(self, as_path("folder", folder), figures=figures, force=force)

    @classmethod
    def open(cls, folder: str | Path) -> Calibration:
        """Read a folder that :meth:`save` wrote.

        Parameters
        ----------
        folder : str or Path
            Its folder.

        Raises
        ------
        InputError
            If it holds no calibration, or a table was edited or is damaged.

        Examples
        --------
        >>> folder = calibration.save("results/calibration", figures=False)
        >>> type(calibration).open(folder).verdict == calibration.verdict
        True
        """
        place = as_path("folder", folder)
        run = read_run(place)
        if run.get("command") != "calibrate":
            raise InputError(f"{folder} is not a folder of bayeseval calibrate")
        check_calibration_run(place / RUN_FILE, run)
        files = {name: place / file for name, file in FILES.items()}
        for file in files.values():
            if not file.is_file():
                raise InputError(f"{file}: no such file; {advice()}")
        check_files(place, run, [*FILES.values()])
        simulations = read_simulations(files["simulations"], run)
        statuses = read_statuses(files["statuses"], run)
        kept = {key: value for key, value in run.items() if key not in ("files", "verdict")}
        return cls(simulations, statuses, kept)

    @property
    def tables(self) -> dict[str, pd.DataFrame]:
        """The tables of the folder: quantities, simulations, statuses."""
        return {
            "calibration": self.table,
            "simulations": self.simulations,
            "statuses": self.statuses,
        }

    def summary(self) -> str:
        """The table and the answer in text.

        Returns
        -------
        str
            What ``print`` shows.

        Examples
        --------
        >>> calibration.summary().splitlines()[0]
        'Ranks of true values among posterior draws, and coverage of intervals in %'
        """
        from bayeseval.calibration.report import format_calibration

        return format_calibration(self.table, self.verdict)

    def plot(
        self,
        quantity: str | None = None,
        *,
        ax: Axes | None = None,
        figsize: tuple[float, float] | None = None,
    ) -> Figure:
        """Draw how far the ECDF of the ranks is from uniform, with simultaneous bands.

        Parameters
        ----------
        quantity : str, optional
            Draw this one alone; all when left out.
        ax : matplotlib.axes.Axes, optional
            Where to draw one quantity, without header and caption.
        figsize : tuple of float, optional
            Width and height in inches.

        Returns
        -------
        matplotlib.figure.Figure
            It is neither shown nor closed.

        Raises
        ------
        InputError
            If there is no such quantity, or no simulation was fitted.

        Examples
        --------
        >>> figure = calibration.plot("sd_language")
        """
        from bayeseval.calibration.figure import calibration_figure

        return calibration_figure(
            self.simulations,
            self.table,
            subtitle=self._title(),
            gate_status="fail" if self._failed() else "pass",
            quantity=quantity,
            ax=ax,
            figsize=figsize,
        )

    def figures(self) -> dict[str, Figure]:
        """Draw the figure of the folder.

        Returns
        -------
        dict of str to matplotlib.figure.Figure
            ``calibration``; empty where no simulation was fitted.

        Examples
        --------
        >>> list(calibration.figures())
        ['calibration']
        """
        return {"calibration": self.plot()} if len(self.simulations) else {}

    def _title(self) -> str:
        run, priors = self.run, self.run["priors_of_fits"]
        return (
            f"{counted(len(self.statuses), 'table')} like {run['benchmark']}, model "
            f"{run['spec']['name']}, engine {run['fitted_with']}, {priors} priors"
        )

    def _main_result(self) -> str:
        return self.verdict[0].rstrip(".")

    def _main(self) -> pd.DataFrame:
        shown = ["quantity", "n_simulations", "mean_rank", "coverage_50", "coverage_90"]
        shown += ["coverage_95", "p_uniform", "verdict"]
        if not len(self.table):
            return self.table
        return self.table.loc[self.table["simulations"] == "all", shown]

    def _failed(self) -> bool:
        """Failed gates are counted, and the results are given without these fits too."""
        return False
