"""The figure of language potential: a forest, in columns where there are many languages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pandas as pd

from bayeseval import names
from bayeseval.output._parts import (
    interval_bars,
    interval_text,
    label_rows,
    language_labels,
    missing_text,
    rank_axis,
    rank_texts,
    split_reported,
)
from bayeseval.output._style import GREY, MAIN, mark_gate, new_figure, styled, whole_figure
from bayeseval.output.numbers import axis_label

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["potential_figure"]

_WIDTH: Final = 8.0
_COLUMN: Final = 5.4
_FEW_ROWS: Final = 30
# Rows of one column, and all that are shown: the first and the last half of more.
_ROWS: Final = 80
_MOST: Final = 240


@styled
def potential_figure(
    table: pd.DataFrame,
    *,
    subtitle: str,
    data: str = "",
    gate_status: str,
    unit: str = "",
    ax: Axes | None = None,
    figsize: tuple[float, float] | None = None,
) -> Figure:
    """Forest of language potential, best language on top.

    Parameters
    ----------
    table : pandas.DataFrame
        ``language_potential.csv``. More than 80 languages stand in columns; of more than
        240 the first and the last 120 are shown.
    subtitle, data, gate_status, unit : str
        See :func:`bayeseval.fitting.report.figures.figure_writers`.
    ax : matplotlib.axes.Axes, optional
        Where to draw all languages in one column, without header and caption.
    figsize : tuple of float, optional
        Width and height in inches.
    """
    known, missing = split_reported(table, ["potential_mean"], names.LANGUAGE)
    n = len(known)
    shown, cut = known, ""
    if n > _MOST:
        shown = pd.concat([known.head(_MOST // 2), known.tail(_MOST // 2)], ignore_index=True)
        cut = f" First and last {_MOST // 2} of {n}; all: tables/language_potential.csv."
    columns = 1 if ax is not None else max(1, -(-len(shown) // _ROWS))
    rows = -(-len(shown) // columns)
    row, size = (0.185, 8.0) if columns == 1 else (0.15, 6.5)
    # Points leave rows apart, and most of their bars in sight.
    area = 80.0 if rows <= _FEW_ROWS else 45.0 if columns == 1 else 16.0
    records = known["n_records"].to_numpy(dtype=float)
    largest = float(records.max(initial=1.0))
    mean = float(known["potential_mean"].mean())
    if ax is not None:
        _column(ax, shown, rows, mean=mean, size=size, area=area / largest, unit=unit)
        mark_gate(ax, gate_status)
        return whole_figure(ax)
    figure = new_figure(
        _WIDTH if columns == 1 else columns * _COLUMN,
        rows * row + 1.3,
        title="Language potential: what models reach in each language, over all tasks",
        subtitle=subtitle,
        data=data,
        caption=(
            f"{interval_text(known, 'potential')} On the right of each language: its "
            + (
                "rank"
                if known["rank_lower"].isna().all()
                else "median rank and the rank's interval"
            )
            + "; 1 is best. The area of a point grows with the number of records of the language. "
            "Dotted line: mean over the languages." + cut + missing_text(missing)
        ),
        gate_status=gate_status,
        labels=language_labels(shown),
        figsize=figsize,
    )
    first: Axes | None = None
    for column in range(columns):
        axes = figure.add_subplot(1, columns, column + 1, sharex=first)
        part = shown.iloc[column * rows : (column + 1) * rows].reset_index(drop=True)
        _column(
            *(axes, part, rows), mean=mean, size=size, area=area / largest, unit=unit, number=column
        )
        first = first or axes
    if n and first is not None:
        _legend(first, records, area / largest)
    return figure


def _column(
    axes: Axes,
    part: pd.DataFrame,
    rows: int,
    *,
    mean: float,
    size: float,
    area: float,
    unit: str,
    number: int = 0,
) -> None:
    _forest(axes, part, area=area, number=number)
    axes.set_xlabel(axis_label("Language potential", unit))
    label_rows(axes, language_labels(part), size)
    # Columns of the same height, the last one with room below.
    axes.set_ylim(rows - 0.4, -0.6)
    if len(part):
        axes.axvline(mean, color=GREY, linewidth=0.8, linestyle=":", zorder=1)
        rank_axis(axes, rank_texts(part), size)


def _area(count: float, area: float) -> float:
    """Square points of a point, with `area` for each record; no point vanishes."""
    return 5.0 + area * count


def _forest(axes: Axes, part: pd.DataFrame, *, area: float, number: int) -> None:
    y = np.arange(len(part), dtype=float)
    label = _numbered("potential", number)
    interval_bars(axes, part, "potential", y, colour=MAIN, label=label, above=True)
    points = axes.scatter(
        part["potential_mean"],
        y,
        s=[_area(count, area) for count in part["n_records"]],
        color=MAIN,
        zorder=3,
        linewidths=0,
    )
    points.set_gid(_numbered("points", number))


def _numbered(name: str, number: int) -> str:
    return name if number == 0 else f"{name} {number + 1}"


def _legend(axes: Axes, records: np.ndarray, area: float) -> None:
    """Points of the smallest, middle and largest size, where these can be told apart."""
    sizes = np.unique(np.quantile(records, [0.0, 0.5, 1.0], method="inverted_cdf"))
    distinct = [sizes[-1]]
    for count in sizes[-2::-1]:
        if _area(count, area) < 0.75 * _area(distinct[-1], area):
            distinct.append(count)
    handles = [
        axes.scatter(
            [],
            [],
            s=_area(count, area),
            color=MAIN,
            linewidths=0,
            label=f"{count:.0f} record{'' if count == 1 else 's'}",
        )
        for count in distinct[::-1]
    ]
    axes.legend(handles=handles, loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=3)
