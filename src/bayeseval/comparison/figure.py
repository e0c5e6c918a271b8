"""Figures of comparisons: differences in elpd or CRPS, and what moves with the model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pandas as pd

from bayeseval import names
from bayeseval.output._parts import label_rows, labels_of
from bayeseval.output._style import (
    ACCENT,
    FAINT,
    GREY,
    MAIN,
    WARNING,
    mark_gate,
    new_figure,
    styled,
    whole_figure,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["comparison_figure", "holdout_figure"]

_WIDTH: Final = 8.4
_MOST: Final = 80
_QUANTITIES: Final = (
    (names.LANGUAGE_POTENTIAL, "language potential", MAIN, "o"),
    (names.STANDARDISED_SCORE, "score", ACCENT, "D"),
    (names.GAP_SD, "sd of gaps", GREY, "s"),
)


@styled
def comparison_figure(
    table: pd.DataFrame,
    moves: pd.DataFrame,
    *,
    by: str,
    subtitle: str,
    data: str = "",
    gate_status: str,
    ax: Axes | None = None,
    figsize: tuple[float, float] | None = None,
) -> Figure:
    """Elpd differences with their errors, and how far the order of levels is kept.

    Parameters
    ----------
    table, moves : pandas.DataFrame
        Of :class:`bayeseval.comparison.container.Comparison`.
    by : str
        What was left out at a time.
    subtitle, data : str
        Which benchmark, and what is in its table.
    gate_status : str
        ``fail`` stamps the figure.
    ax : matplotlib.axes.Axes, optional
        Where to draw the differences alone, without header and caption.
    figsize : tuple of float, optional
        Width and height in inches.
    """
    everything, table = table, table.head(_MOST)
    labels = labels_of(table["spec"])
    row, size = (
        (0.42, 9.0) if len(table) <= 12 else (0.25, 8.5) if len(table) <= 40 else (0.17, 7.0)
    )
    if ax is not None:
        _differences(ax, table)
        label_rows(ax, labels, size)
        mark_gate(ax, gate_status)
        return whole_figure(ax)
    # A single model has nobody to keep its order from.
    first = str(moves["against"].iloc[0]) if len(moves) else ""
    unknown = table.loc[table["elpd_diff"].isna(), "spec"]
    bad = table[table["n_bad_k"] > 0]
    caption = (
        f"{'Left: e' if first else 'E'}xpected log predictive density (elpd, natural log), one "
        f"{by} left out at a time, "
        "less that of the best model; thick bars: one standard error of the difference, thin bars: "
        f"two. Grey band: differences under {names.LEAST_DIFFERENCE:g}, too small to prefer a "
        "model."
    )
    if first:
        caption += (
            " Right: Kendall correlation of the posterior means of languages (potential) and "
            f"models (score, sd of gaps over languages) with those of {first}."
        )
    if len(bad):
        caption += (
            " Hollow points: some left-out densities are unreliable (Pareto k-hat above "
            f"{names.K_HAT_MAX:g}, or chains of a refit or bridge that disagree)."
        )
    if "unmoved_diff" in table and len(table) > 1:
        caption += (
            " Scores at a bound of their scale, which models move before they predict them, are "
            "part of these differences; tables/comparison.csv has differences without them."
        )
    if len(unknown):
        caption += f" Not computed: {', '.join(str(name) for name in unknown)}."
    if len(everything) > len(table):
        caption += f" The best {_MOST} of {len(everything)} models; all: tables/comparison.csv."
    figure = new_figure(
        _WIDTH,
        0.9 + row * len(table),
        title=f"Which model predicts a left-out {by} best?",
        subtitle=subtitle,
        data=data,
        caption=caption,
        labels=list(table["spec"]),
        gate_status=gate_status,
        figsize=figsize,
    )
    if not first:
        only = figure.add_subplot()
        _differences(only, table)
        label_rows(only, labels, size)
        return figure
    left, right = figure.subplots(1, 2, sharey=True, width_ratios=(3, 2))
    _differences(left, table)
    _orders(right, table, moves)
    label_rows(left, labels, size)
    right.tick_params(axis="y", length=0)
    right.spines["left"].set_visible(False)
    return figure


@styled
def holdout_figure(
    table: pd.DataFrame,
    *,
    asked: str,
    subtitle: str,
    data: str = "",
    gate_status: str,
    ax: Axes | None = None,
    figsize: tuple[float, float] | None = None,
) -> Figure:
    """Differences in CRPS with their errors.

    Parameters
    ----------
    table : pandas.DataFrame
        Of :class:`bayeseval.comparison.held_out.HeldOut`.
    asked : str
        How much of what was left out.
    subtitle, data : str
        Which benchmark, and what is in its table.
    gate_status : str
        ``fail`` stamps the figure.
    ax : matplotlib.axes.Axes, optional
        Where to draw the differences alone, without header and caption.
    figsize : tuple of float, optional
        Width and height in inches.
    """
    everything, table = table, table.head(_MOST)
    labels, size = labels_of(table["spec"]), 9.0 if len(table) <= 12 else 7.0
    caption = (
        f"Continuous ranked probability score (CRPS, score units) of left-out scores, {asked}, "
        "less that of the best; lower is better. Thick bars: one standard error of the "
        "difference, thin bars: two."
    )
    if len(everything) > len(table):
        caption += f" The best {_MOST} of {len(everything)}; all: tables/holdout.csv."
    if ax is None:
        figure = new_figure(
            _WIDTH,
            0.9 + (0.42 if len(table) <= 12 else 0.17) * len(table),
            title="Which model predicts left-out scores best?",
            subtitle=subtitle,
            data=data,
            caption=caption,
            labels=list(table["spec"]),
            gate_status=gate_status,
            figsize=figsize,
        )
        axes = figure.add_subplot()
    else:
        axes = ax
        mark_gate(ax, gate_status)
    value, error = (table[key].to_numpy(dtype=float) for key in ("crps_diff", "crps_diff_se"))
    y = np.arange(len(table))
    axes.hlines(y, value - 2 * error, value + 2 * error, color=MAIN, alpha=0.6, linewidth=1.2)
    axes.hlines(y, value - error, value + error, color=MAIN, linewidth=3.0)
    axes.scatter(value, y, s=34, color=MAIN, zorder=3)
    axes.set_xlabel("CRPS less that of the best (score units)")
    axes.grid(visible=True, axis="x")
    label_rows(axes, labels, size)
    return figure if ax is None else whole_figure(ax)


def _differences(axes: Axes, table: pd.DataFrame) -> None:
    y = np.arange(len(table))
    value, error = (table[key].to_numpy(dtype=float) for key in ("elpd_diff", "diff_se"))
    # A model without an elpd has a row and no mark.
    lowest = float(np.nanmin([*(value - 2.0 * error), 0.0]))
    axes.axvspan(-names.LEAST_DIFFERENCE, 0.0, color=FAINT, alpha=0.7, linewidth=0, zorder=0)
    axes.hlines(y, value - 2 * error, value + 2 * error, color=MAIN, alpha=0.6, linewidth=1.2)
    axes.hlines(y, value - error, value + error, color=MAIN, linewidth=3.0)
    bad = table["n_bad_k"].to_numpy() > 0
    axes.scatter(value[~bad], y[~bad], s=34, color=MAIN, zorder=3)
    axes.scatter(
        value[bad], y[bad], s=34, facecolor="white", edgecolor=WARNING, linewidth=1.4, zorder=3
    )
    axes.set_xlabel("Elpd less that of the best model")
    axes.locator_params(axis="x", nbins=6)
    # Room on the right for a bar that reaches beyond the best one.
    highest = float(np.nanmax([*(value + 2.0 * error), 0.0]))
    margin = 0.06 * max(highest - lowest, 2.0 * names.LEAST_DIFFERENCE)
    axes.set_xlim(min(lowest, -names.LEAST_DIFFERENCE) - margin, highest + margin)


def _orders(axes: Axes, table: pd.DataFrame, moves: pd.DataFrame) -> None:
    place = {name: i for i, name in enumerate(table["spec"])}
    drawn = [one for one in _QUANTITIES if (moves["quantity"] == one[0]).any()]
    for k, (quantity, label, colour, marker) in enumerate(drawn):
        part = moves[(moves["quantity"] == quantity) & moves["kendall"].notna()]
        part = part[part["spec"].isin(place)]
        y = np.array([place[name] for name in part["spec"]], dtype=float)
        axes.scatter(
            part["kendall"],
            y + 0.12 * (2 * k - len(drawn) + 1),
            s=30,
            color=colour,
            marker=marker,
            label=label,
            zorder=3,
        )
    axes.scatter([1.0], [place[str(moves["against"].iloc[0])]], s=30, color=GREY, marker="|")
    axes.grid(visible=True, axis="x")
    axes.set_xlabel("Order kept (Kendall correlation)")
    lowest = float(np.nanmin([moves["kendall"].min(), 0.9]))
    axes.set_xlim(lowest - 0.06 * (1.0 - lowest), 1.0 + 0.06 * (1.0 - lowest))
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=len(drawn))
