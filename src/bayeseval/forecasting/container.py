"""`Forecast`: potentials of languages without records, and what is made of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

import pandas as pd

from bayeseval import names
from bayeseval._text import counted
from bayeseval.errors import InputError
from bayeseval.fitting.addition import Addition
from bayeseval.fitting.fitted import Fit
from bayeseval.fitting.report import run_data, run_title
from bayeseval.forecasting.words import known_by, what_helps
from bayeseval.output.numbers import in_units, potential_bounds, score_unit

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["Forecast"]

# Columns in score units: of the table and the line, and of the check.
_POTENTIALS: Final = tuple(f"potential_{part}" for part in ("mean", "lower", "upper"))
_CHECKED: Final = ("error", "crps")


@dataclass(frozen=True, eq=False, repr=False)
class Forecast(Addition):
    """Potentials of languages with records and of those that are forecast.

    Attributes
    ----------
    table : pandas.DataFrame
        One row per language, highest potential first: ``language``, ``source_label``,
        ``observed`` (it has records), the covariate's raw value if there is one,
        ``potential_{mean,sd,lower,upper}`` (score units),
        ``rank_{mean,median,lower,upper}`` among all, ``p_lowest_quarter``, ``extrapolation``
        (the value of the covariate is outside the range of the languages with records),
        ``ci_kind``, ``ci_prob``; ``gate`` if that of the fit failed.
    check : pandas.DataFrame
        Errors of forecasts of left-out languages, see
        :func:`bayeseval.forecasting.check_forecasts`; empty when that was not asked for or has
        no closed form.
    line : pandas.DataFrame
        ``covariate``, ``potential_{mean,lower,upper}``: the expected potential over the
        covariate's range, without a language's own effect; empty without a covariate.
    covariate : str
        Its name; empty where languages are forecast from several, or from their relations alone.
    notes : tuple of str
    fit : Fit
    languages : tuple of str
        Those that were asked for, as in the table: printed, and marked in the figures.
        Empty when all were.
    """

    table: pd.DataFrame
    check: pd.DataFrame
    line: pd.DataFrame
    covariate: str
    notes: tuple[str, ...]
    fit: Fit
    languages: tuple[str, ...] = ()
    _table_names: ClassVar = ("forecast", "forecast_check")
    _figure_names: ClassVar = ("forecast", "forecast_by_script", "forecast_map")

    @property
    def tables(self) -> dict[str, pd.DataFrame]:
        """The tables of the folder with the gate of the fit."""
        tables = {"forecast": self.table}
        if len(self.check):
            tables["forecast_check"] = self.check
        gate = self.fit.gate.status
        return {name: table.assign(gate=gate) for name, table in tables.items()}

    def summary(self) -> str:
        """Forecasts and how such forecasts did, in text.

        Returns
        -------
        str
            What ``print`` shows.

        Examples
        --------
        >>> forecast.summary().splitlines()[3]
        'Forecast potential, score points (2 languages without records)'
        """
        from bayeseval.forecasting.report import format_forecast

        return format_forecast(
            self._shown(),
            in_units(self.check, self._exponent, [c for c in _CHECKED if c in self.check]),
            self.covariate,
            run_title(self.fit.run),
            self.notes,
            helps=what_helps(self.fit.run.get("spec", {})),
            languages=self.languages,
            unit=score_unit(self.fit.run.get("bounds"), self._exponent),
            scale=self._scale,
        )

    @property
    def known_by(self) -> str:
        """What is known of the languages, in words."""
        return known_by(self.fit.run.get("spec", {}))

    @property
    def _scale(self) -> tuple[float, float] | None:
        return potential_bounds(self.fit.run.get("bounds"), self._exponent)

    def _shown(self) -> pd.DataFrame:
        """The table in the units that are shown."""
        return in_units(self.table, self._exponent, _POTENTIALS)

    def _label(self) -> dict[str, Any]:
        """What all figures say: covariate, fit, gate, unit, and the languages to mark."""
        new = counted(int((~self.table["observed"].astype(bool)).sum()), "language")
        return {
            "covariate": self.covariate,
            "subtitle": run_title(self.fit.run),
            "data": f"{run_data(self.fit.run)} Forecasts: {new} without records.",
            "gate_status": self.fit.gate.status,
            "languages": self.languages,
            "unit": score_unit(self.fit.run.get("bounds"), self._exponent),
        }

    def plot(self, *, ax: Axes | None = None, figsize: tuple[float, float] | None = None) -> Figure:
        """Draw potentials against the covariate.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw, without header and caption.
        figsize : tuple of float, optional
            Width and height in inches.

        Returns
        -------
        matplotlib.figure.Figure
            It is neither shown nor closed.

        Raises
        ------
        InputError
            If the model has no covariate or several.

        Examples
        --------
        >>> figure = forecast.plot()
        """
        from bayeseval.forecasting.report import forecast_figure

        if not self.covariate:
            raise InputError(
                f"the model {self.fit.spec.name} has not exactly one covariate to draw potentials "
                "against; plot_map() draws them where languages are spoken"
            )
        line = in_units(self.line, self._exponent, [c for c in _POTENTIALS if c in self.line])
        return forecast_figure(self._shown(), line, **self._label(), ax=ax, figsize=figsize)

    def plot_map(self, *, figsize: tuple[float, float] | None = None) -> Figure | None:
        """Draw potentials where languages are spoken.

        Parameters
        ----------
        figsize : tuple of float, optional
            Width and height in inches.

        Returns
        -------
        matplotlib.figure.Figure or None
            Neither shown nor closed; None if no language has a known place.

        Examples
        --------
        >>> figure = forecast.plot_map()
        """
        from bayeseval.forecasting.map import map_figure

        return map_figure(self._shown(), **self._label(), figsize=figsize)

    def figures(self) -> dict[str, Figure]:
        """Draw the figures of the folder.

        Returns
        -------
        dict of str to matplotlib.figure.Figure
            ``forecast`` of a covariate and, where scripts and places are known,
            ``forecast_by_script`` and ``forecast_map``.

        Examples
        --------
        >>> list(forecast.figures())[:2]
        ['forecast', 'forecast_map']
        """
        from bayeseval.forecasting.report import script_figure

        made = {
            "forecast": self.plot() if self.covariate else None,
            "forecast_by_script": script_figure(self._shown(), **self._label()),
            "forecast_map": self.plot_map(),
        }
        return {name: figure for name, figure in made.items() if figure is not None}

    def _main_result(self) -> str:
        from bayeseval.forecasting.report import main_result

        unit = score_unit(self.fit.run.get("bounds"), self._exponent) if self._exponent else ""
        return main_result(self._shown(), self.known_by, unit, self._scale)

    def _main(self) -> pd.DataFrame:
        table = self.table
        rows = (
            table[table[names.LANGUAGE].isin(self.languages)]
            if self.languages
            else table[~table["observed"].astype(bool)]
        )
        ends = [f"potential_{end}" for end in ("mean", "lower", "upper")]
        ranks = [f"rank_{part}" for part in ("median", "lower", "upper")]
        shown = [names.LANGUAGE, "language_name"]
        shown += [*(term.name for term in self.fit.spec.covariates), *ends, *ranks]
        shown += ["p_lowest_quarter", "extrapolation", "gate"]
        return rows[[name for name in shown if name in rows]]
