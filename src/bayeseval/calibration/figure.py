"""The figure of a calibration: ECDFs of ranks less the uniform one, with simultaneous bands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pandas as pd

from bayeseval._typing import Floats
from bayeseval.calibration.bands import uniformity
from bayeseval.calibration.summary import ALL, FALSE_ALARMS, independent_ranks, quantity_text
from bayeseval.errors import InputError, did_you_mean
from bayeseval.output._style import (
    FAINT,
    GREY,
    MAIN,
    WARNING,
    figure_text,
    mark_gate,
    new_figure,
    styled,
    whole_figure,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["calibration_figure"]

_COLUMNS: Final = 4
_PANEL: Final = 1.75
_WIDTH: Final = 9.0


@styled
def calibration_figure(
    simulations: pd.DataFrame,
    table: pd.DataFrame,
    *,
    subtitle: str,
    gate_status: str,
    quantity: str | None = None,
    ax: Axes | None = None,
    figsize: tuple[float, float] | None = None,
) -> Figure:
    """One panel per quantity: the ECDF of the ranks less the uniform one, and its band.

    Parameters
    ----------
    simulations, table : pandas.DataFrame
        Of :class:`bayeseval.calibration.Calibration`.
    subtitle : str
        What was simulated.
    gate_status : str
        ``fail`` stamps the figure.
    quantity : str, optional
        Draw this one alone.
    ax : matplotlib.axes.Axes, optional
        Where to draw one quantity, without header and caption.
    figsize : tuple of float, optional
        Width and height in inches.

    Raises
    ------
    InputError
        If there is no such quantity, or nothing to draw.
    """
    # Sets have no ranks.
    ranked = table if table.empty else table[table["mean_rank"].notna()]
    known = [] if ranked.empty else list(ranked.loc[ranked["simulations"] == ALL, "quantity"])
    if not known:
        raise InputError("no simulation was fitted, so there are no ranks to draw")
    if quantity is not None and quantity not in known:
        hint = did_you_mean(quantity, known)
        raise InputError(f"no quantity {quantity!r}{hint} (allowed: {', '.join(known)})")
    if ax is not None and quantity is None:
        raise InputError("ax shows one quantity; name it (quantity=)")
    rows = table[table["simulations"] == ALL].set_index("quantity")
    shown = known if quantity is None else [quantity]
    probability = float(rows["band_prob"].iloc[0])
    curves = {name: independent_ranks(simulations, name) for name in shown}
    if ax is not None:
        name = shown[0]
        outside = rows.loc[name, "verdict"] == "outside"
        _panel(ax, curves[name], probability, outside=bool(outside))
        mark_gate(ax, gate_status)
        return whole_figure(ax)
    n_columns = min(_COLUMNS, len(shown))
    n_rows = -(-len(shown) // n_columns)
    figure = new_figure(
        _WIDTH,
        _PANEL * n_rows + 0.4,
        title="Are the reported quantities calibrated?",
        subtitle=subtitle,
        caption=_caption(rows, len(known), probability),
        gate_status=gate_status,
        figsize=figsize,
    )
    panels = np.atleast_1d(figure.subplots(n_rows, n_columns, sharex=True, sharey=True)).reshape(-1)
    for axes, name in zip(panels, shown, strict=False):
        outside = rows.loc[name, "verdict"] == "outside"
        ranks = curves[name]
        _panel(axes, ranks, probability, outside=bool(outside))
        title = f"{quantity_text(name)}: outside" if outside else quantity_text(name)
        axes.set_title(
            figure_text(title), size=8.5, color=WARNING if outside else "black", loc="left"
        )
    for axes in panels[len(shown) :]:
        axes.set_visible(False)
    for place, axes in enumerate(panels[: len(shown)]):
        # Below an empty place the axis of the panel above is the last one.
        if place + n_columns >= len(shown):
            axes.tick_params(labelbottom=True)
            axes.set_xlabel("Rank of the truth", size=8.5)
        if place % n_columns == 0:
            axes.set_ylabel("ECDF - uniform", size=8.5)
    return figure


def _caption(rows: pd.DataFrame, n_known: int, probability: float) -> str:
    least, most = int(rows["n_simulations"].min()), int(rows["n_simulations"].max())
    number = f"{most}" if least == most else f"{least} to {most}"
    return (
        f"Every curve has one rank from each of {number} simulations (of a level drawn at random, "
        "where a quantity has several): parameters are drawn from the priors, a table from the "
        "parameters, and the true value is ranked among the draws of the fit to it (0: below all, "
        "1: above all). The curve is the ECDF of the ranks less that of uniform ranks. Calibrated "
        "results stay inside the grey bands, at all points and in all "
        f"{n_known} panels together, with probability {100 * (1.0 - FALSE_ALARMS):.0f} % "
        f"(each band: {100 * probability:.1f} %). A curve above zero on the left and below on the "
        "right: intervals are too narrow; below, then above: too wide; above throughout: "
        "estimates are too high; below throughout: too low."
    )


def _panel(axes: Axes, ranks: Floats, probability: float, *, outside: bool) -> None:
    null = uniformity(len(ranks))
    points = null.points
    lower, upper = null.band(probability)
    at = np.concatenate([[0.0], points, [1.0]])
    low, high = (np.concatenate([[0.0], end - points, [0.0]]) for end in (lower, upper))
    axes.fill_between(at, low, high, color=FAINT, linewidth=0, zorder=0)
    axes.axhline(0.0, color=GREY, linewidth=0.6, zorder=1)
    curve = np.concatenate([[0.0], null.counts(ranks) / null.n - points, [0.0]])
    line = axes.plot(at, curve, color=WARNING if outside else MAIN, linewidth=1.3)
    line[0].set_gid("ecdf")
    axes.set_xlim(0.0, 1.0)
    axes.set_xticks([0.0, 0.5, 1.0], labels=["0", "0.5", "1"])
