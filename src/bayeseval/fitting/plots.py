"""Figures of a fit as matplotlib objects, drawn when they are asked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from bayeseval import names
from bayeseval.output.numbers import in_units, score_unit

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from bayeseval.checks import Checks

__all__ = ["Plots"]

Size = tuple[float, float]


class Plots:
    """The figures of a fit; nothing is shown or written, and pyplot is not touched."""

    data: xr.DataTree
    run: Mapping[str, Any]

    def _drawn(self, name: str, ci_prob: float) -> pd.DataFrame:
        """A table of the result folder in the units of the figures."""
        from bayeseval.fitting.report.model_tables import shown_exponent
        from bayeseval.fitting.report.tables import result_tables

        known = self.run.get("language_names")
        status = self.run["gate"]["status"]
        tables = result_tables(self.data, gate_status=status, ci_prob=ci_prob, language_names=known)
        return in_units(tables[f"tables/{name}.csv"], shown_exponent(self.data))

    def _which(self) -> dict[str, str]:
        """What stands in every figure: which fit, whether it converged."""
        run = self.run
        return {
            "subtitle": f"{run['benchmark']}, model {run['spec']['name']}, engine {run['engine']}",
            "gate_status": str(run["gate"]["status"]),
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
            Width and height in inches; as the table needs when left out.
        ci_prob : float
            Probability of the equal-tailed intervals.

        Returns
        -------
        matplotlib.figure.Figure
            Neither shown nor closed.

        Examples
        --------
        >>> figure = fit.plot_ranking(figsize=(7.0, 4.0))
        >>> figure.get_size_inches().tolist()
        [7.0, 4.0]
        """
        from bayeseval.fitting.report.model_figures import models_figure

        table = self._drawn("model_ranking", ci_prob)
        return models_figure(table, **self._which(), unit=self._unit(), ax=ax, figsize=figsize)

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
            Width and height in inches; as the table needs when left out.
        ci_prob : float
            Probability of the equal-tailed intervals.

        Returns
        -------
        matplotlib.figure.Figure
            Neither shown nor closed.

        Examples
        --------
        >>> figure = fit.plot_potential()
        >>> figure.savefig("potential.pdf")
        """
        from bayeseval.fitting.report.potential_figure import potential_figure

        table = self._drawn("language_potential", ci_prob)
        return potential_figure(table, **self._which(), unit=self._unit(), ax=ax, figsize=figsize)

    def plot_disparity(
        self, *, figsize: Size | None = None, ci_prob: float = names.CI_PROB
    ) -> Figure:
        """Draw the published description: Mean-PRR against CV-PRR.

        Parameters
        ----------
        figsize : tuple of float, optional
            Width and height in inches; as the table needs when left out.
        ci_prob : float
            Probability of the equal-tailed intervals.

        Returns
        -------
        matplotlib.figure.Figure
            Neither shown nor closed.

        Examples
        --------
        >>> figure = fit.plot_disparity()
        """
        from bayeseval.fitting.report.figures import disparity_figure

        table = self._drawn("model_disparity", ci_prob)
        return disparity_figure(table, **self._which(), figsize=figsize)

    def plot_components(
        self, *, figsize: Size | None = None, ci_prob: float = names.CI_PROB
    ) -> Figure:
        """Draw variance components and their shares of the variance.

        Parameters
        ----------
        figsize : tuple of float, optional
            Width and height in inches; as the table needs when left out.
        ci_prob : float
            Probability of the equal-tailed intervals.

        Returns
        -------
        matplotlib.figure.Figure
            Neither shown nor closed.

        Examples
        --------
        >>> len(fit.plot_components().axes)
        2
        """
        from bayeseval.fitting.report.figures import components_figure

        table = self._drawn("variance_components", ci_prob)
        return components_figure(table, **self._which(), unit=self._unit(), figsize=figsize)

    def plot_ranks(self) -> Figure:
        """Draw the probability of every rank of the models.

        Returns
        -------
        matplotlib.figure.Figure
            Neither shown nor closed.

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

        ranking = self._drawn("model_ranking", names.CI_PROB)
        if ranking["rank_mean"].isna().all():
            raise InputError("a point estimate (engine ml) has no ranks to draw")
        probabilities = self._drawn("rank_probabilities", names.CI_PROB)
        return ranks_figure(probabilities, ranking, **self._which())

    def plot_checks(self, checks: Checks | None = None) -> Figure:
        """Draw the checks of the model: calibration, and sds by language.

        Parameters
        ----------
        checks : Checks, optional
            Of :meth:`Fit.checks`, which is asked when they are left out.

        Returns
        -------
        matplotlib.figure.Figure
            Neither shown nor closed.

        Examples
        --------
        >>> figure = fit.plot_checks()
        """
        return (self.checks() if checks is None else checks).plot()

    def checks(self) -> Checks:
        """Ask whether the model fits; see :meth:`Fit.checks`."""
        raise NotImplementedError

    def figures(self, *, ci_prob: float = names.CI_PROB) -> dict[str, Figure]:
        """Draw the figures of the result folder but the checks, which :meth:`plot_checks` draws.

        Parameters
        ----------
        ci_prob : float
            Probability of the equal-tailed intervals.

        Returns
        -------
        dict of str to matplotlib.figure.Figure
            ``potential``, ``models``, ``components``, ``ranks`` and what else the fit has.

        Examples
        --------
        >>> sorted(fit.figures())
        ['components', 'models', 'potential', 'ranks']
        """
        from bayeseval.fitting.report.figures import result_figures
        from bayeseval.fitting.report.model_tables import describes, shown_exponent
        from bayeseval.fitting.report.tables import result_tables

        exponent = shown_exponent(self.data)
        status = self.run["gate"]["status"]
        known = self.run.get("language_names")
        tables = result_tables(self.data, gate_status=status, ci_prob=ci_prob, language_names=known)
        made = result_figures(
            {path: in_units(table, exponent) for path, table in tables.items()},
            subtitle=self._which()["subtitle"],
            gate_status=status,
            unit=self._unit(),
            description=describes(self.run),
        )
        return {name: make() for name, make in made.items()}
