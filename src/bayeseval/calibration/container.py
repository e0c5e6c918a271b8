"""`Calibration`: where truths lie among the draws of fits to simulated tables, and its folder."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pandas as pd

from bayeseval._arguments import as_path
from bayeseval._text import counted
from bayeseval.calibration.summary import sentences, summarise
from bayeseval.errors import InputError
from bayeseval.output._files import refuse_unbounded_csv
from bayeseval.output.result import Result
from bayeseval.output.store import check_files, read_run

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from bayeseval._typing import Figures

__all__ = ["Calibration"]

_TEXTS: Final = ("quantity", "level")
_NUMBERS: Final = ("truth", "mean", "sd", "z", "rank", "in_50", "in_90", "in_95")
_STATUS: Final = ("simulation", "status", "reason", "path")
# Of a table: 500 simulations of 300 languages and 50 models have two million rows.
_MAX_BYTES: Final = 1 << 30
_MAX_ROWS: Final = 10_000_000


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
        columns: dict[str, list[Any]] = {name: [] for name in ("simulation", *_TEXTS, *_NUMBERS)}
        for part in parts:
            rows = part["rows"]
            columns["simulation"] += [part["simulation"]] * len(rows.get("quantity", ()))
            for name in (*_TEXTS, *_NUMBERS):
                columns[name] += rows.get(name, [])
        simulations = pd.DataFrame(
            {
                # Numbers that JSON has no word for are missing.
                name: np.array(values, dtype=np.float64) if name in _NUMBERS else values
                for name, values in columns.items()
            }
        )
        statuses = pd.DataFrame([{name: part[name] for name in _STATUS} for part in parts])
        return cls(simulations, statuses, run)

    def parts(self) -> dict[int, dict[str, Any]]:
        """The inverse of :meth:`from_parts`, by number of the simulation."""
        groups = dict(iter(self.simulations.groupby("simulation")))
        parts = {}
        for status in self.statuses.to_dict("records"):
            number = int(status["simulation"])
            rows = groups.get(number)
            own = {} if rows is None else {n: rows[n].tolist() for n in (*_TEXTS, *_NUMBERS)}
            texts = {name: str(status[name]) for name in _STATUS[1:]}
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
        columns = {"simulations": (*_TEXTS, *_NUMBERS), "statuses": _STATUS}
        files = {name: f"tables/{name}.csv" for name in columns}
        for file in files.values():
            if not (place / file).is_file():
                raise InputError(f"{place / file}: no such file")
        check_files(place, run, list(files.values()))
        frames = []
        for name, wanted in columns.items():
            numbers = [column for column in wanted if column in _NUMBERS]
            try:
                frames.append(_read_table(place / files[name], wanted, numbers))
            except (OSError, ValueError, KeyError) as error:
                raise InputError(
                    f"{place / files[name]} is damaged ({' '.join(str(error).split())}); "
                    "put the original back, or run the command again"
                ) from error
        kept = {key: value for key, value in run.items() if key not in ("files", "verdict")}
        return cls(frames[0], frames[1], kept)

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


def _read_table(path: Path, columns: Sequence[str], numbers: Sequence[str]) -> pd.DataFrame:
    with path.open("rb") as file:
        data = file.read(_MAX_BYTES + 1)
    refuse_unbounded_csv(data, most_bytes=_MAX_BYTES, most_rows=_MAX_ROWS)
    # Python reads back every digit, whatever the version of pandas.
    texts = pd.read_csv(io.BytesIO(data), encoding="utf-8", dtype=str, keep_default_na=False)
    lacking = [name for name in ("simulation", *columns) if name not in texts]
    if lacking:
        raise ValueError(f"no column {lacking[0]}")
    return texts.assign(
        simulation=lambda table: [int(text) for text in table["simulation"]],
        **{name: partial(_as_numbers, name=name) for name in numbers},
    )


def _as_numbers(table: pd.DataFrame, *, name: str) -> list[float]:
    return [float(text or "nan") for text in table[name]]
