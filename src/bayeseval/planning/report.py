"""What a decision study looks like: files in the result folder, figure, terminal text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
import pandas as pd

from bayeseval.output._style import (
    ACCENT,
    FAINT,
    GREY,
    MAIN,
    mark_gate,
    new_figure,
    styled,
    whole_figure,
)
from bayeseval.output.numbers import axis_label, interval_texts, unit_text, value_texts
from bayeseval.output.text import text_table, wrapped

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["format_plan", "plan_figure"]


_FACETS: Final[Mapping[str, str]] = {
    "languages": "Languages",
    "seeds": "Seeds per cell",
    "items": "Size of the test sets",
    "tasks": "Tasks",
    "prompts": "Prompts of a task",
}
_LEVELS = 9
_WIDTH = 7.0
_ORDINALS: Final = ("", "1st", "2nd", "3rd", "4th", "5th", "6th", "7th")


@styled
def plan_figure(
    table: pd.DataFrame,
    *,
    best: int | None,
    target_sd: float | None,
    subtitle: str,
    data: str = "",
    gate_status: str,
    unit: str = "",
    ax: Axes | None = None,
    figsize: tuple[float, float] | None = None,
) -> Figure:
    """Sd of the difference of two models over the two facets that vary most.

    Parameters
    ----------
    table : pandas.DataFrame
        Of :class:`bayeseval.planning.Plan`.
    best : int or None
        Row of the cheapest design.
    target_sd : float or None
        Drawn as a line.
    subtitle, data : str
        Title of the fit, and what was fitted.
    gate_status : str
        ``fail`` stamps the figure.
    unit : str
        Unit of the scores; empty where it is not known.
    ax : matplotlib.axes.Axes, optional
        Where to draw, without header and caption.
    figsize : tuple of float, optional
        Width and height in inches.
    """
    grid = table[table["in_grid"]]
    present = table[table["present"]].iloc[0]
    # The other facets are held where the answer is: at the best design.
    anchor = table.iloc[best] if best is not None else _anchor(grid, present)
    varied = [f for f in _FACETS if grid[f].nunique() > 1]
    shown = sorted(varied, key=lambda f: -grid[f].nunique())[:2]
    held = [f for f in _FACETS if f not in shown and not np.isnan(anchor[f])]
    part = grid[[bool((row[held] == anchor[held]).all()) for _, row in grid.iterrows()]]
    marks = [(present, "X", GREY)] + ([(anchor, "*", ACCENT)] if best is not None else [])
    if ax is not None:
        _draw_designs(ax, part, shown, marks, target_sd, unit)
        mark_gate(ax, gate_status)
        return whole_figure(ax)
    kept = ", ".join(f"{anchor[f]:g} {_unit(f, anchor[f])}" for f in held)
    # The other facets are not always held where they are now.
    here = "the present design"
    if not bool((present[held] == anchor[held]).all()):
        here = f"the present number of {' and '.join(_FACETS[f].lower() for f in shown)}"
    bounds = part["sd_difference_lower"].notna().all()
    interval = f" and {100 * float(table['ci_prob'].iloc[0]):.4g} % interval" if bounds else ""
    figure = new_figure(
        _WIDTH,
        4.2,
        title="Decision study: sd of the difference between two models",
        subtitle=subtitle,
        data=data,
        caption=(
            "Sd of the difference by chance between the means of two equal models"
            f"{unit_text(unit, before=', ')}, posterior mean"
            f"{interval if len(shown) < 2 else ''}; every task in every language. "
            f"{f'Held at {kept}. ' if kept else ''}"
            f"{'Darker: more precise. ' if len(shown) == 2 else ''}Dots: the designs of the grid. "
            f"Cross: {here}"
            + (". Star: the cheapest design that reaches the target." if best is not None else ".")
        ),
        gate_status=gate_status,
        figsize=figsize,
    )
    _draw_designs(figure.add_subplot(), part, shown, marks, target_sd, unit)
    return figure


def _draw_designs(
    axes: Axes,
    part: pd.DataFrame,
    facets: Sequence[str],
    marks: Sequence[tuple[pd.Series, str, str]],
    target_sd: float | None,
    unit: str,
) -> None:
    """Contours over two facets or a line over one, with marks (design, marker and colour)."""
    if len(facets) == 2:
        _contours(axes, part, facets, target_sd, unit)
    else:
        facets = facets or ["languages"]
        _line(axes, part, facets[0], target_sd, unit)
    for row, marker, colour in marks:
        inside = len(facets) < 2 or all(
            part[f].min() <= row[f] <= part[f].max() for f in facets if not np.isnan(row[f])
        )
        y = row[facets[1]] if len(facets) == 2 else row["sd_difference_mean"]
        if inside and not np.isnan(row[facets[0]]):
            axes.plot(
                row[facets[0]],
                y,
                marker,
                color=colour,
                # Seen on every colour of the contours.
                markeredgecolor="white",
                markersize=13,
                zorder=5,
                clip_on=False,
            )


def _anchor(grid: pd.DataFrame, present: pd.Series) -> pd.Series:
    """Of the grid, the design nearest to the present one on the scale of ratios."""
    facets = [f for f in _FACETS if not np.isnan(present[f])]
    here = present[facets].to_numpy(dtype=float)
    away = np.abs(np.log(grid[facets].to_numpy(dtype=float) / here)).sum(axis=1)
    return grid.iloc[int(np.argmin(away))]


def _unit(facet: str, number: float) -> str:
    if facet == "items":
        return "times the present test sets"
    return facet if number != 1.0 else facet[:-1]


def _contours(
    axes: Axes,
    part: pd.DataFrame,
    facets: Sequence[str],
    target: float | None,
    unit: str,
) -> None:
    x, y = facets
    values = part.pivot(index=y, columns=x, values="sd_difference_mean")
    low, high = float(values.min().min()), float(values.max().max())
    # Equal sds everywhere have no contours.
    edges = np.geomspace(max(low, 1e-9), max(high, 1.001 * max(low, 1e-9)), _LEVELS)
    across, up, z = values.columns.to_numpy(), values.index.to_numpy(), values.to_numpy()
    filled = axes.contourf(across, up, z, levels=edges, cmap="Blues_r")
    if target is not None and low < target < high:
        line = axes.contour(across, up, z, levels=[target], colors=[ACCENT], linewidths=1.6)
        # Above the axes: on the line the marks of the designs can cover it.
        handles, _ = line.legend_elements()
        axes.legend(handles, [f"target {target:g}"], loc="lower left", bbox_to_anchor=(0.0, 1.0))
    dots = axes.scatter(part[x], part[y], s=14, color=GREY, zorder=4, edgecolor="white")
    dots.set(linewidth=0.6, clip_on=False)
    bar = whole_figure(axes).colorbar(filled, ax=axes, format="%.2g")
    bar.set_label(axis_label("Sd of a difference", unit))
    _log_axis(axes, "x", x, across)
    _log_axis(axes, "y", y, up)


def _line(axes: Axes, part: pd.DataFrame, facet: str, target: float | None, unit: str) -> None:
    part = part.sort_values(facet)
    x = part[facet].to_numpy(dtype=float)
    axes.fill_between(
        x, part["sd_difference_lower"], part["sd_difference_upper"], color=FAINT, linewidth=0
    )
    axes.plot(x, part["sd_difference_mean"], "o-", color=MAIN)
    if target is not None:
        axes.axhline(target, color=ACCENT, linewidth=1.2)
    axes.set_ylim(bottom=0.0)
    axes.set_ylabel(axis_label("Sd of a difference", unit))
    _log_axis(axes, "x", facet, x)


def _log_axis(axes: Axes, direction: str, facet: str, values: np.ndarray) -> None:
    from matplotlib.ticker import NullLocator

    axis = axes.xaxis if direction == "x" else axes.yaxis
    (axes.set_xscale if direction == "x" else axes.set_yscale)("log")
    axis.set_ticks(list(values), labels=[f"{value:g}" for value in values])
    axis.set_minor_locator(NullLocator())
    text = _FACETS[facet] + (" (1: as now)" if facet == "items" else "")
    (axes.set_xlabel if direction == "x" else axes.set_ylabel)(text)


def format_plan(
    table: pd.DataFrame,
    *,
    rows: Sequence[int],
    sentence: str,
    notes: Sequence[str],
    heading: str,
    digits: int,
    targeted: bool,
    test_size: float | None = None,
    unit: str = "",
) -> str:
    """Say what a plan found: chosen rows of its table, the answer, what is not known.

    Parameters
    ----------
    table : pandas.DataFrame
        Of :class:`bayeseval.planning.container.Plan`.
    rows : sequence of int
        The rows to show, in order.
    sentence : str
        The answer.
    notes : sequence of str
        What the fit cannot tell.
    heading : str
        Which fit.
    digits : int
        Of the sds, after the decimal point.
    targeted : bool
        Whether there is a target, by which the rows are in the order of their costs.
    test_size : float, optional
        Items of the present test sets, which turns ratios into counts.
    unit : str
        Unit of the scores; empty where it is not known.
    """
    part = table.loc[list(rows)].reset_index(drop=True)
    columns = {"design": _row_names(part, targeted=targeted)}
    for facet in ("languages", "tasks", "prompts", "seeds", "items"):
        if part[facet].isna().any():
            continue
        size = test_size if facet == "items" else 1.0
        sign = "x " if size is None else ""
        columns[facet] = [f"{sign}{value:g}" for value in part[facet] * (size or 1.0)]
    columns |= {
        "cost": [f"{cost:.6g}" for cost in part["cost"]],
        "sd of difference": interval_texts(part, "sd_difference", digits=digits),
        "P(right order)": value_texts(part["p_correct_mean"], 3),
        "generalisability": value_texts(part["generalisability_mean"], 3),
    }
    legend = [
        _which_rows(part, targeted=targeted),
        "cost: of evaluating one model; without costs, "
        f"{'an answer' if test_size else 'a test set'} costs 1",
        "sd of difference: standard deviation of the error in the difference between the mean "
        f"scores of two models{unit_text(unit, before=', ')}",
        "P(right order): probability that two models of the population are put in their true order",
        "generalisability: share of the variance of models' mean scores that is due to the models, "
        "not to error",
    ]
    title = "\n".join(
        [
            "Decision study: how precisely other designs would compare two models",
            *(wrapped(line) for line in legend),
        ]
    )
    lines = [heading, "", text_table(title, columns), "", wrapped(sentence, indent="", further="")]
    lines += [wrapped(f"note: {note}", indent="") for note in notes]
    return "\n".join(lines)


def _which_rows(part: pd.DataFrame, *, targeted: bool) -> str:
    """Say which designs of the grid a table shows, and in which order."""
    if not targeted:
        return "rows: the present design, then designs that differ from it in one number"
    if part["best"].any():
        return "rows: the present design, then the cheapest ones that reach the target"
    return "rows: the present design, then the most precise ones; none reaches the target"


def _row_names(part: pd.DataFrame, *, targeted: bool) -> list[str]:
    """What each row of a table is."""
    present, rest = part.iloc[0], part.iloc[1:]
    by = "by cost" if part["best"].any() else "by sd"
    first = "cheapest" if part["best"].any() else "most precise"
    names = ["present, cheapest" if present["best"] else "present"]
    # The present design may itself be the cheapest one.
    place = 2 if present["best"] else 1
    for _, row in rest.iterrows():
        if targeted:
            names.append(first if place == 1 else f"{_ORDINALS[place]} {by}")
            place += 1
            continue
        facet = next(f for f in _FACETS if row[f] != present[f] and not np.isnan(row[f]))
        more = bool(row[facet] > present[facet])
        if facet == "items":
            names.append("larger test sets" if more else "smaller test sets")
        else:
            names.append(f"{'more' if more else 'fewer'} {facet}")
    return names
