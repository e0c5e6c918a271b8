"""Figures of a fit as matplotlib objects, drawn when they are asked for."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from bayeseval import names
from bayeseval.fitting.report import run_data, run_title
from bayeseval.output.numbers import in_units, score_unit

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from bayeseval.checks import Checks

__all__ = ["Plots"]

Size = tuple[float, float]


class Plots(ABC):
    """The figures of a fit; nothing is shown or written, and pyplot is not touched."""

    data: xr.DataTree
    run: Mapping[str, Any]

    @abstractmethod
    def checks(self) -> Checks:
        """Ask whether the model fits the table."""

    def _drawn_tables(self, ci_prob: float = names.CI_PROB) -> dict[str, pd.DataFrame]:
        """All tables of the result folder by path, in the units of the figures."""
        from bayeseval.fitting.report.model_tables import shown_exponent
        from bayeseval.fitting.report.tables import result_tables

        exponent = shown_exponent(self.data)
        tables = result_tables(
            self.data,
            gate_status=self.run["gate"]["status"],
            ci_prob=ci_prob,
            language_names=self.run.get("language_names"),
        )
        return {path: in_units(table, exponent) for path, table in tables.items()}

    def _label(self) -> dict[str, str]:
        """What stands in every figure: title and data of the fit, outcome of its gate."""
        return {
            "subtitle": run_title(self.run),
            "data": run_data(self.run),
            "gate_status": str(self.run["gate"]["status"]),
        }

    def _unit(self) -> str:
        from bayeseval.fitting.report.model_tables import shown_exponent

        return score_unit(self.run.get("bounds"), shown_exponent(self.data))

    def plot_ranking(
        self,
        *,
        ax: Axes | None = None,
        figsize: Size | None = None,
        ci_prob: float = names.CI_PROB,
    ) -> Figure:
        """Draw expected scores of the models, and their evenness where it is known.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw the scores, without header and caption.
        figsize : tuple of float, optional
            Width and height in inches; by default, what the table needs.
        ci_prob : float
            Probability of the equal-tailed intervals.

        Returns
        -------
        matplotlib.figure.Figure
            It is neither shown nor closed.

        Examples
        --------
        >>> figure = fit.plot_ranking(figsize=(7.0, 4.0))
        >>> figure.get_size_inches().tolist()
        [7.0, 4.0]
        """
        from bayeseval.fitting.report.model_figures import models_figure

        table = self._drawn_tables(ci_prob)["tables/model_ranking.csv"]
        return models_figure(table, **self._label(), unit=self._unit(), ax=ax, figsize=figsize)

    def plot_potential(
        self,
        *,
        ax: Axes | None = None,
        figsize: Size | None = None,
        ci_prob: float = names.CI_PROB,
    ) -> Figure:
        """Draw language potentials with their intervals and ranks.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw all languages in one column, without header and caption.
        figsize : tuple of float, optional
            Width and height in inches; by default, what the table needs.
        ci_prob : float
            Probability of the equal-tailed intervals.

        Returns
        -------
        matplotlib.figure.Figure
            It is neither shown nor closed.

        Examples
        --------
        >>> figure = fit.plot_potential()
        >>> figure.savefig("potential.pdf")
        """
        from bayeseval.fitting.report.potential_figure import potential_figure

        table = self._drawn_tables(ci_prob)["tables/language_potential.csv"]
        return potential_figure(table, **self._label(), unit=self._unit(), ax=ax, figsize=figsize)

    def plot_disparity(
        self,
        *,
        ax: Axes | None = None,
        figsize: Size | None = None,
        ci_prob: float = names.CI_PROB,
    ) -> Figure:
        """Draw the published description: Mean-PRR against CV-PRR.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw, without header, caption and key of many models.
        figsize : tuple of float, optional
            Width and height in inches; by default, what the table needs.
        ci_prob : float
            Probability of the equal-tailed intervals.

        Returns
        -------
        matplotlib.figure.Figure
            It is neither shown nor closed.

        Examples
        --------
        >>> figure = fit.plot_disparity()
        """
        from bayeseval.fitting.report.figures import disparity_figure

        table = self._drawn_tables(ci_prob)["tables/model_disparity.csv"]
        return disparity_figure(table, **self._label(), ax=ax, figsize=figsize)

    def plot_components(
        self,
        *,
        ax: Axes | None = None,
        figsize: Size | None = None,
        ci_prob: float = names.CI_PROB,
    ) -> Figure:
        """Draw variance components and their shares of the variance.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw the standard deviations alone, without header and caption.
        figsize : tuple of float, optional
            Width and height in inches; by default, what the table needs.
        ci_prob : float
            Probability of the equal-tailed intervals.

        Returns
        -------
        matplotlib.figure.Figure
            It is neither shown nor closed.

        Examples
        --------
        >>> len(fit.plot_components().axes)
        2
        """
        from bayeseval.fitting.report.figures import components_figure

        table = self._drawn_tables(ci_prob)["tables/variance_components.csv"]
        return components_figure(table, **self._label(), unit=self._unit(), ax=ax, figsize=figsize)

    def plot_ranks(self, *, ax: Axes | None = None, figsize: Size | None = None) -> Figure:
        """Draw the probability of every rank of the models.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw the ranks by expected score alone, without header and caption.
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
        >>> figure = fit.plot_ranks()
        """
        from bayeseval.errors import InputError
        from bayeseval.fitting.report.model_figures import ranks_figure

        tables = self._drawn_tables()
        ranking = tables["tables/model_ranking.csv"]
        if ranking["rank_mean"].isna().all():
            raise InputError("a point estimate (engine ml) has no ranks to draw")
        probabilities = tables["tables/rank_probabilities.csv"]
        return ranks_figure(probabilities, ranking, **self._label(), ax=ax, figsize=figsize)

    def plot_checks(self, checks: Checks | None = None, *, figsize: Size | None = None) -> Figure:
        """Draw the checks of the model: calibration, and sds by language.

        Parameters
        ----------
        checks : Checks, optional
            Of :meth:`Fit.checks`, which is called when they are left out.
        figsize : tuple of float, optional
            Width and height in inches; by default, what the checks need.

        Returns
        -------
        matplotlib.figure.Figure
            It is neither shown nor closed.

        Examples
        --------
        >>> figure = fit.plot_checks()
        """
        return (self.checks() if checks is None else checks).plot(figsize=figsize)

    def figures(self, *, ci_prob: float = names.CI_PROB) -> dict[str, Figure]:
        """Draw the figures of the result folder, except that of the checks (:meth:`plot_checks`).

        Parameters
        ----------
        ci_prob : float
            Probability of the equal-tailed intervals.

        Returns
        -------
        dict of str to matplotlib.figure.Figure
            ``potential``, ``models``, ``components``, ``ranks`` and others, by the data of the
            fit.

        Examples
        --------
        >>> sorted(fit.figures())
        ['components', 'models', 'potential', 'ranks']
        """
        from bayeseval.fitting.report.figures import result_figures
        from bayeseval.fitting.report.model_tables import describes

        made = result_figures(
            self._drawn_tables(ci_prob),
            subtitle=run_title(self.run),
            data=run_data(self.run),
            gate_status=self.run["gate"]["status"],
            unit=self._unit(),
            description=describes(self.run),
        )
        return {name: make() for name, make in made.items()}
