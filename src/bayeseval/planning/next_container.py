"""`NextCells`: cells to measure in their order, with what they gain and cost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from bayeseval import names
from bayeseval.fitting.addition import Addition
from bayeseval.fitting.fitted import Fit
from bayeseval.fitting.report import run_data, run_title
from bayeseval.output.numbers import in_unit, in_units, score_unit
from bayeseval.planning.choosing import CHOSEN, RANDOM

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


__all__ = ["NextCells"]

# Columns in score units.
_SCORES: Final = ("expected", "gain_alone", "gain", "gain_together", "sd_target")
# Rows that the terminal shows.
_SHOWN: Final = 20


@dataclass(frozen=True, eq=False, repr=False)
class NextCells(Addition):
    """Cells to measure, the first one first.

    Attributes
    ----------
    table : pandas.DataFrame
        One row per cell: ``order``, ``model``, ``language``, ``language_name``, ``task``;
        ``expected``, the posterior mean of its expected score; ``cost`` and ``cost_together``;
        ``gain_alone`` (by how much the sd of the target would fall if this were the only cell),
        ``gain`` (by how much it falls after the cells above) and ``gain_together`` (with the cells
        above); ``sd_target``, which is left; for models ``p_correct``; ``reaches_target``.
        Score units.
    comparison : pandas.DataFrame
        ``choice`` (``chosen``, ``random``, ``largest variance``), ``cost`` and ``sd_target``:
        the sd that other choices of cells leave for the same cost.
    target : str
        ``ranking``, ``potential``, ``table`` or ``A > B``.
    sd_now, p_now : float
        Before any measurement.
    notes : tuple of str
        How cells were read, and what the list leaves out.
    n_cells : int
        Number of cells that could be measured.
    target_sd, target_probability, budget : float or None
    fit : Fit
    """

    table: pd.DataFrame
    comparison: pd.DataFrame
    target: str
    sd_now: float
    p_now: float
    notes: tuple[str, ...]
    n_cells: int
    target_sd: float | None
    target_probability: float | None
    budget: float | None
    fit: Fit
    _table_names: ClassVar = ("next", "next_comparison")
    _figure_names: ClassVar = ("next",)

    @property
    def tables(self) -> dict[str, pd.DataFrame]:
        """The cells as ``next`` and the comparison as ``next_comparison``, with the gate."""
        gate = self.fit.gate.status
        return {
            "next": self.table.assign(target=self.target, gate=gate),
            "next_comparison": self.comparison.assign(target=self.target, gate=gate),
        }

    @property
    def sentence(self) -> str:
        """The answer in words."""
        from bayeseval.planning.next_report import answer

        return answer(
            self._shown(),
            self._comparison(),
            target=self.target,
            sd_now=in_unit(self.sd_now, self._exponent),
            p_now=self.p_now,
            target_sd=None if self.target_sd is None else in_unit(self.target_sd, self._exponent),
            target_probability=self.target_probability,
            unit=score_unit(None, self._exponent),
        )

    def _shown(self) -> pd.DataFrame:
        return in_units(self.table, self._exponent, _SCORES)

    def _comparison(self) -> pd.DataFrame:
        return in_units(self.comparison, self._exponent, ["sd_target"])

    def plot(self, *, ax: Axes | None = None, figsize: tuple[float, float] | None = None) -> Figure:
        """Draw the sd of the target against the cost, for these cells and for other choices.

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

        Examples
        --------
        >>> figure = chosen.plot(figsize=(6.0, 4.0))
        """
        from bayeseval.planning.next_report import next_figure

        return next_figure(
            self._comparison(),
            target=self.target,
            target_sd=None if self.target_sd is None else in_unit(self.target_sd, self._exponent),
            subtitle=run_title(self.fit.run),
            data=run_data(self.fit.run),
            gate_status=self.fit.gate.status,
            unit=score_unit(self.fit.run.get("bounds"), self._exponent),
            ax=ax,
            figsize=figsize,
        )

    def figures(self) -> dict[str, Figure]:
        """Draw the figure of the folder.

        Returns
        -------
        dict of str to matplotlib.figure.Figure
            ``next``.

        Examples
        --------
        >>> list(chosen.figures())
        ['next']
        """
        return {"next": self.plot()}

    def _main_result(self) -> str:
        return self.sentence.rstrip(".")

    def _main(self) -> pd.DataFrame:
        shown = ["order", names.MODEL, names.LANGUAGE, names.TASK, "cost", "gain", "sd_target"]
        shown += ["p_correct", "gate"]
        return self.table[[name for name in shown if name in self.table]].head(_SHOWN)

    def summary(self) -> str:
        """The first cells and the answer.

        Returns
        -------
        str
            What ``print`` shows.

        Examples
        --------
        >>> chosen.summary().splitlines()[0]
        'table, model additive, engine marginal'
        """
        from bayeseval.planning.next_report import format_next

        return format_next(
            self._shown(),
            target=self.target,
            n_cells=self.n_cells,
            n_shown=_SHOWN,
            sentence=self.sentence,
            notes=self.notes,
            heading=run_title(self.fit.run),
            unit=score_unit(self.fit.run.get("bounds"), self._exponent),
        )

    def cost_of(self, choice: str = RANDOM) -> float:
        """Cost at which the chosen cells reach what another choice reaches with all its cost.

        Parameters
        ----------
        choice : str
            Of :attr:`comparison`.

        Returns
        -------
        float
            NaN without any cell.
        """
        curves = dict(iter(self.comparison.groupby("choice")))
        if not len(self.table):
            return float("nan")
        reached = curves[CHOSEN]["sd_target"] <= curves[choice]["sd_target"].iloc[-1]
        return float(curves[CHOSEN]["cost"][reached].iloc[0]) if reached.any() else float("nan")
