"""The figures of a result folder, drawn from its tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import numpy as np
import pandas as pd

from bayeseval import names
from bayeseval._typing import Floats
from bayeseval.fitting.report.correlation_figure import correlations_figure
from bayeseval.fitting.report.model_figures import models_figure, ranks_figure
from bayeseval.fitting.report.potential_figure import potential_figure
from bayeseval.fitting.report.replicate_figures import replicate_figures
from bayeseval.fitting.report.tables import GateStatus
from bayeseval.output._labels import place_labels
from bayeseval.output._parts import (
    interval_bars,
    interval_text,
    kind_text,
    label_rows,
    labels_of,
    missing_text,
    split_reported,
)
from bayeseval.output._style import (
    ACCENT,
    DARK,
    FIGURE_FORMATS,
    GREY,
    MAIN,
    FigureWriter,
    figure_text,
    mark_gate,
    new_figure,
    save_figure,
    styled,
    whole_figure,
)
from bayeseval.output.numbers import axis_label

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "components_figure",
    "disparity_figure",
    "figure_writers",
    "result_figures",
]


_MANY_POINTS = 25
# Labels of points in one figure; the leader lines of more cross each other.
_MOST_POINTS = 80
# Inches.
_KEY_ROW = 0.115
_KEY_WIDTH = 2.4
_WIDTH = 8.0


def figure_writers(
    tables: Mapping[str, pd.DataFrame],
    *,
    subtitle: str,
    data: str = "",
    gate_status: GateStatus,
    unit: str = "",
    description: bool = False,
    formats: Sequence[str] = FIGURE_FORMATS[:1],
) -> dict[str, FigureWriter]:
    """Functions that draw the figures of :func:`result_figures` into files or streams.

    Parameters
    ----------
    tables, subtitle, data, gate_status, unit, description
        As for :func:`result_figures`.
    formats : sequence of str
        Endings of the files; a figure is drawn anew for each.

    Returns
    -------
    dict of str to callable
        Path inside the result folder to a function that writes it there.
    """
    figures = result_figures(
        tables,
        subtitle=subtitle,
        data=data,
        gate_status=gate_status,
        unit=unit,
        description=description,
    )

    def write(make: Callable[[], Figure], format: str, path: Path | BinaryIO) -> None:
        save_figure(make(), path, format=format)

    return {
        f"figures/{key}.{format}": partial(write, make, format)
        for key, make in figures.items()
        for format in formats
    }


def result_figures(
    tables: Mapping[str, pd.DataFrame],
    *,
    subtitle: str,
    data: str = "",
    gate_status: GateStatus,
    unit: str = "",
    description: bool = False,
) -> dict[str, Callable[[], Figure]]:
    """Functions that draw the figures of a result folder.

    Parameters
    ----------
    tables : mapping of str to pandas.DataFrame
        From :func:`bayeseval.fitting.report.tables.result_tables`.
    subtitle : str
        Which fit: benchmark, model, engine.
    data : str
        What was fitted, for the end of captions: :func:`bayeseval.fitting.report.run_data`.
    gate_status : {"pass", "fail", "not applicable"}
        ``fail`` stamps every figure.
    unit : str
        Unit of the scores for the axes, as :func:`bayeseval.output.numbers.score_unit`
        names it; empty where it is not known.
    description : bool
        Whether to draw the published description, Mean-PRR against CV-PRR.

    Returns
    -------
    dict of str to callable
        Name of the file without its ending to a function that draws it.
    """
    figures: dict[str, Callable[[], Figure]] = {
        "potential": partial(
            potential_figure,
            tables["tables/language_potential.csv"],
            unit=unit,
            subtitle=subtitle,
            data=data,
            gate_status=gate_status,
        ),
        "models": partial(
            models_figure,
            tables["tables/model_ranking.csv"],
            unit=unit,
            subtitle=subtitle,
            data=data,
            gate_status=gate_status,
        ),
        "components": partial(
            components_figure,
            tables["tables/variance_components.csv"],
            unit=unit,
            subtitle=subtitle,
            data=data,
            gate_status=gate_status,
        ),
    }

    # A point estimate ranks nobody.
    if tables["tables/model_ranking.csv"]["rank_mean"].notna().any():
        figures["ranks"] = partial(
            ranks_figure,
            tables["tables/rank_probabilities.csv"],
            tables["tables/model_ranking.csv"],
            subtitle=subtitle,
            data=data,
            gate_status=gate_status,
        )
    if description:
        figures["disparity"] = partial(
            disparity_figure,
            tables["tables/model_disparity.csv"],
            subtitle=subtitle,
            data=data,
            gate_status=gate_status,
        )
    if "tables/model_correlations.csv" in tables:
        figures["correlations"] = partial(
            correlations_figure,
            tables["tables/model_correlations.csv"],
            subtitle=subtitle,
            data=data,
            gate_status=gate_status,
        )
    figures |= replicate_figures(
        tables, subtitle=subtitle, data=data, gate_status=gate_status, unit=unit
    )

    return figures


@styled
def disparity_figure(
    table: pd.DataFrame,
    *,
    subtitle: str,
    data: str = "",
    gate_status: str,
    ax: Axes | None = None,
    figsize: tuple[float, float] | None = None,
) -> Figure:
    """Mean-PRR against CV-PRR of every model, on the pairs it was tested on.

    Parameters
    ----------
    table : pandas.DataFrame
        ``model_disparity.csv``.
    subtitle, data, gate_status : str
        See :func:`figure_writers`.
    ax : matplotlib.axes.Axes, optional
        Where to draw, without header, caption and key.
    figsize : tuple of float, optional
        Width and height in inches.
    """
    rows = table[table["support"] == "observed"]
    shown, missing = split_reported(rows, ["mean_prr_mean", "cv_prr_mean"], names.MODEL)
    labels = labels_of(shown[names.MODEL])
    if ax is not None:
        bars = _draw_disparity(ax, shown)
        whole_figure(ax).draw_without_rendering()
        _label_models(ax, shown, dict(enumerate(labels)), bars)
        mark_gate(ax, gate_status)
        return whole_figure(ax)
    n = len(shown)
    # Many names cannot stand beside their points: numbers there, names in a key.
    keyed = n > _MANY_POINTS
    points = _outermost(shown)
    height = 8.0 if keyed else 5.6 if n else 0.8
    per_column = int(height / _KEY_ROW) - 4
    columns = -(-len(points) // per_column) if keyed else 0
    figure = new_figure(
        _WIDTH + columns * _KEY_WIDTH,
        height,
        title="Published description: level and evenness over languages and tasks",
        subtitle=subtitle,
        data=data,
        caption=(
            "PRR: score over the potential of its language and task. Mean-PRR and CV-PRR: mean and "
            "coefficient of variation of a model's PRRs over the language-task pairs it was tested "
            "on; models tested on different pairs are not comparable."
            + (
                f" {interval_text(shown, 'mean_prr')} Dotted line: scores at the potential."
                if n
                else ""
            )
            + (" Numbers of points stand for the models in the key." if keyed else "")
            + (
                f" Numbered: the {_MOST_POINTS} of {n} models that lie farthest from the middle; "
                "all are in tables/model_disparity.csv."
                if n > _MOST_POINTS
                else ""
            )
            + missing_text(missing)
        ),
        gate_status=gate_status,
        labels=list(shown[names.MODEL]),
        figsize=figsize,
    )
    axes, *keys = figure.subplots(
        1, 1 + columns, squeeze=False, width_ratios=[_WIDTH, *[_KEY_WIDTH] * columns]
    )[0]
    bars = _draw_disparity(axes, shown)
    numbers = {point: str(i + 1) for i, point in enumerate(points)}
    lines = [f"{number:>3}  {labels[point]}" for point, number in numbers.items()]
    for i, key in enumerate(keys):
        _draw_key(key, lines[i * per_column : (i + 1) * per_column])
    # Positions are final from here on: labels are placed in pixels.
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    _label_models(axes, shown, numbers if keyed else dict(enumerate(labels)), bars)
    return figure


def _outermost(shown: pd.DataFrame) -> list[int]:
    """Rows of the models farthest from the middle, as many as can be numbered, in their order."""
    place = shown[["mean_prr_mean", "cv_prr_mean"]].astype(float)
    spread = (place - place.median()) / place.std().replace(0.0, 1.0)
    distance = (spread**2).sum(axis=1).to_numpy()
    return sorted(np.argsort(-distance, kind="stable")[:_MOST_POINTS].tolist())


def _draw_disparity(axes: Axes, shown: pd.DataFrame) -> Floats:
    """Points with their bars; returns the ends of the bars, which labels keep off."""
    x = shown["mean_prr_mean"].to_numpy(dtype=float)
    y = shown["cv_prr_mean"].to_numpy(dtype=float)
    bars = _cross_bars(shown, x, y)
    for x0, y0, x1, y1 in bars:
        axes.plot([x0, x1], [y0, y1], color=DARK, linewidth=0.8, zorder=4)
    size = 30 if len(shown) <= _MANY_POINTS else 14
    points = axes.scatter(x, y, s=size, color=MAIN, zorder=3, linewidths=0)
    points.set_gid("points")
    if not len(shown):
        axes.set_axis_off()
        axes.text(
            *(0.5, 0.5, "not reported for any model"),
            transform=axes.transAxes,
            ha="center",
            color=GREY,
        )
        return bars
    axes.set_xlabel("Mean-PRR  (higher is better →)")
    axes.set_ylabel("CV-PRR  (← lower is better: more even)")
    axes.grid(visible=True)
    if len(shown):
        _frame(axes, bars)
        axes.axvline(1.0, color=GREY, linewidth=0.9, linestyle=":", zorder=1)
        axes.text(
            0.99,
            0.012,
            "better ↘",
            transform=axes.transAxes,
            ha="right",
            va="bottom",
            color=GREY,
            style="italic",
        )
    return bars


def _draw_key(axes: Axes, rows: Sequence[str]) -> None:
    """Numbers of the points and the models that they stand for."""
    axes.set_axis_off()
    axes.text(
        0.0,
        1.0,
        "\n".join(rows),
        size=6.5,
        va="top",
        transform=axes.transAxes,
    ).set_in_layout(False)


def _label_models(axes: Axes, shown: pd.DataFrame, labels: dict[int, str], bars: Floats) -> None:
    """Write the labels of rows beside their points, where there is room."""
    n, points = len(shown), list(labels)
    size = 8.5 if n <= _MANY_POINTS else 6.5
    lines = np.vstack([bars, [1.0, axes.get_ylim()[0], 1.0, axes.get_ylim()[1]]])
    x, y = (shown[f"{q}_mean"].to_numpy(dtype=float) for q in ("mean_prr", "cv_prr"))
    other = np.delete(np.column_stack([x, y]), points, axis=0)
    left_out = place_labels(
        *(axes, x[points], y[points], list(labels.values())),
        lines=lines,
        size=size,
        colour=GREY,
        marks=other,
    )
    if left_out:
        axes.set_title(
            f"no room for {len(left_out)} of {n} labels: see tables/model_disparity.csv",
            size=8.0,
            color=ACCENT,
            loc="right",
            pad=2.0,
        )


@styled
def components_figure(
    table: pd.DataFrame,
    *,
    subtitle: str,
    data: str = "",
    gate_status: str,
    unit: str = "",
    ax: Axes | None = None,
    figsize: tuple[float, float] | None = None,
) -> Figure:
    """Standard deviations of the model's parts and their shares of the variance.

    Parameters
    ----------
    table : pandas.DataFrame
        ``variance_components.csv``; components of single models are not shown.
    subtitle, data, gate_status, unit : str
        See :func:`figure_writers`.
    ax : matplotlib.axes.Axes, optional
        Where to draw the standard deviations alone, without header and caption.
    figsize : tuple of float, optional
        Width and height in inches.
    """
    whole = table[table[names.MODEL] == ""]
    shown, missing = split_reported(whole, ["sd_mean"], "component")
    if ax is not None:
        _draw_sds(ax, shown, unit)
        mark_gate(ax, gate_status)
        return whole_figure(ax)
    figure = new_figure(
        _WIDTH,
        0.34 * len(shown) + 1.3,
        title="Variance components: what makes scores differ",
        subtitle=subtitle,
        data=data,
        caption=(
            f"{interval_text(shown, 'sd')} Filled: sd of the population the levels come from "
            "(the model's parameter); hollow: sd of the observed levels. "
            "Shares are of the sum of squared sds." + kind_text(shown) + missing_text(missing)
        ),
        gate_status=gate_status,
        figsize=figsize,
        # A line of text each, with the legend above and the axis below.
        least_height=0.17 * len(shown) + 0.9,
    )
    left, right = figure.subplots(1, 2, width_ratios=[1.35, 1.0], sharey=True)
    _draw_sds(left, shown, unit)
    _draw_component(right, shown, "share", MAIN, scale=100.0)
    right.set_xlim(left=0.0)
    right.set_xlabel("Share of the variance (%)")
    right.tick_params(axis="y", length=0)
    right.spines["left"].set_visible(False)
    right.grid(visible=True, axis="x")
    return figure


def _draw_sds(axes: Axes, shown: pd.DataFrame, unit: str) -> None:
    """Both kinds of sd of every component, with a legend."""
    _draw_component(axes, shown, "finite_sd", ACCENT, shift=0.14, label="observed levels")
    _draw_component(axes, shown, "sd", MAIN, shift=-0.14, label="population")
    axes.set_xlim(left=0.0)
    label_rows(axes, [figure_text(str(label)) for label in shown["component"]], 9.0)
    logit = "scale" in shown and (shown["scale"] == "logit").any()
    axes.set_xlabel(axis_label("Standard deviation", "logit scale" if logit else unit))
    axes.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=2, reverse=True)


def _draw_component(
    axes: Axes,
    shown: pd.DataFrame,
    column: str,
    colour: str,
    *,
    scale: float = 1.0,
    shift: float = 0.0,
    label: str | None = None,
) -> None:
    y = np.arange(len(shown), dtype=float) + shift
    interval_bars(axes, shown, column, y, colour=colour, scale=scale)
    points = axes.scatter(
        scale * shown[f"{column}_mean"],
        y,
        s=26,
        facecolor="white" if column == "finite_sd" else colour,
        edgecolor=colour,
        linewidths=1.1,
        zorder=3,
        label=label,
    )
    points.set_gid(f"points {column}")


def _cross_bars(table: pd.DataFrame, x: Floats, y: Floats) -> Floats:
    """Ends of the horizontal and vertical bars, a point where there is no interval."""
    ends = {
        f"{quantity}_{end}": table[f"{quantity}_{end}"].to_numpy(dtype=float)
        for quantity in ("mean_prr", "cv_prr")
        for end in ("lower", "upper")
    }
    across = [ends["mean_prr_lower"], y, ends["mean_prr_upper"], y]
    upright = [x, ends["cv_prr_lower"], x, ends["cv_prr_upper"]]
    bars = np.concatenate([np.column_stack(across), np.column_stack(upright)])
    points = np.column_stack([x, y, x, y])
    return np.where(np.isnan(bars), np.concatenate([points, points]), bars)


def _frame(axes: Axes, bars: Floats) -> None:
    """Limits that hold all bars, with room for labels; the potential (1) is in sight."""
    x = np.append(bars[:, [0, 2]].ravel(), 1.0)
    y = bars[:, [1, 3]].ravel()
    for low, high, setter in (
        (x.min(), x.max(), axes.set_xlim),
        (y.min(), y.max(), axes.set_ylim),
    ):
        room = 0.1 * (high - low) if high > low else 0.1 * max(abs(high), 1.0)
        setter(low - room, high + room)
