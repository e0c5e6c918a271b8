"""Figures of replicate noise: within languages, and the sds of cells."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np
import pandas as pd

from bayeseval import names
from bayeseval.estimands import run_text, sources_text
from bayeseval.fitting.report.aggregate_figures import (
    aggregate_ranks_figure,
    aggregates_figure,
    by_value,
    pairwise_figure,
)
from bayeseval.output._parts import (
    MANY_ROWS,
    interval_bars,
    interval_text,
    label_rows,
    label_width,
    labels_of,
    missing_text,
    plain_log_axis,
    separate_rows,
)
from bayeseval.output._style import (
    ACCENT,
    GREEN,
    GREY,
    MAIN,
    PURPLE,
    new_figure,
    styled,
)
from bayeseval.output.numbers import axis_label

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "cell_sds_figure",
    "replicate_figures",
    "within_figure",
]


_WIDTH = 8.0
# Panels in a row, of few models and of many.
_PANELS = (4, 8)
# Models that are drawn: more make sheets of several square metres.
_MOST = 60
_TABLES = (
    "tables/variance_components.csv",
    "tables/rank_probabilities.csv",
    "tables/aggregates.csv",
    "tables/pairwise_models.csv",
    "tables/within_language.csv",
)
# Labels that fit below a panel.
_PANEL_TICKS = 5
# Models up to which rows have room for points of normal size.
_FEW_MODELS = 20

# Component: how it is called, its colour, whether its points are hollow.
_COMPONENTS: Final[Mapping[str, tuple[str, str, bool]]] = {
    "between": ("between languages, those at hand", MAIN, True),
    "between_population": ("between languages, their population", MAIN, False),
    "seed": ("seeds", ACCENT, False),
    "boot": ("test sets", GREEN, False),
    "seed_boot": ("seed x test set", PURPLE, False),
    "prompt": ("prompts", PURPLE, True),
    "prompt_own": ("prompts, without what models share", ACCENT, True),
    "judge": ("judges", GREEN, True),
    "judge_own": ("judges, without what models share", ACCENT, True),
    "given_se": ("given standard errors", GREY, False),
    "within": ("within languages: one run", "black", True),
}
_SOURCES: Final[Mapping[str, str]] = {
    "seed": "seed",
    "boot": "test-set",
    "seed_boot": "seed x test-set",
    "prompt": "prompt",
    "judge": "judge",
}


def replicate_figures(
    tables: Mapping[str, pd.DataFrame],
    *,
    subtitle: str,
    gate_status: str,
    data: str = "",
    unit: str = "",
) -> dict[str, Callable[[], Figure]]:
    """Functions that make the figures of a fit that knows about noise within languages.

    Parameters
    ----------
    tables : mapping of str to pandas.DataFrame
        From :func:`bayeseval.fitting.report.tables.result_tables`.
    subtitle, gate_status, data, unit : str
        See :func:`bayeseval.fitting.report.figures.figure_writers`.

    Returns
    -------
    dict of str to callable
        Name of the figure to a function that makes it; empty without replicates.
    """
    if "tables/aggregates.csv" not in tables:
        return {}
    models = by_value(tables["tables/aggregates.csv"])
    if len(models) > _MOST:
        data = (
            f"Of {len(models)} models, the {_MOST} with the highest arithmetic mean are drawn; all "
            f"are in the tables of the folder. {data}"
        ).strip()
    drawn = {name: _rows_of(tables[name], models[:_MOST]) for name in _TABLES}
    components, probabilities, aggregates, pairs, cells = drawn.values()
    sources = set(components["component"])
    common = {"subtitle": subtitle, "data": data, "gate_status": gate_status}
    figures: dict[str, Callable[[], Figure]] = {
        "within": partial(within_figure, components, unit=unit, **common),
        "aggregates": partial(aggregates_figure, aggregates, unit=unit, sources=sources, **common),
        "aggregate_ranks": partial(
            aggregate_ranks_figure, probabilities, aggregates, sources=sources, **common
        ),
        "pairwise": partial(pairwise_figure, pairs, aggregates, sources=sources, **common),
    }
    for source in _SOURCES:
        # A known sd is its own raw value: there is nothing to compare.
        if f"{source}_sd_lower" in cells and cells[f"{source}_sd_lower"].notna().any():
            figures[f"{source}_sds"] = partial(
                cell_sds_figure, cells, source=source, unit=unit, **common
            )
    return figures


def _rows_of(table: pd.DataFrame, models: Sequence[str]) -> pd.DataFrame:
    """Rows about these models, of pairs those about two of them."""
    columns = [c for c in (names.MODEL, "level", "model_a", "model_b") if c in table]
    return table[table[columns].isin([*models, ""]).all(axis=1)]


@styled
def within_figure(
    table: pd.DataFrame, *, subtitle: str, gate_status: str, data: str = "", unit: str = ""
) -> Figure:
    """Standard deviations between languages and within them, by model, on a log scale.

    Parameters
    ----------
    table : pandas.DataFrame
        ``variance_components.csv``; rows of single models are shown.
    subtitle, gate_status, data, unit : str
        See :func:`replicate_figures`.
    """
    table = table[table[names.MODEL] != ""]
    models = list(dict.fromkeys(table[names.MODEL]))
    positive = table["sd_mean"] > 0.0
    shown = table[positive]
    kinds = [kind for kind in _COMPONENTS if (shown["component"] == kind).any()]
    known = shown[shown["sd_lower"].isna()]
    without = "" if known["component"].nunique() == len(kinds) else _known_text(known)
    zero = [
        f"{component} of {model}"
        for component, model in table.loc[~positive, ["component", names.MODEL]].to_numpy()
    ]
    noise = sources_text(set(table["component"]))
    few = len(models) <= _FEW_MODELS
    row = 0.11 * len(kinds) + 0.08 if few else 0.06 * len(kinds) + 0.06
    figure = new_figure(
        max(_WIDTH, label_width(labels_of(models), 8.5) + _WIDTH - 2.5),
        max(1.2, len(models) * row) + 1.1,
        title="Between languages and within them: what makes a model's scores differ",
        subtitle=subtitle,
        data=data,
        caption=(
            f"{interval_text(shown, 'sd')}{without} The scale is logarithmic. {noise[0].upper()}"
            f"{noise[1:]}: root mean square over the model's cells. One run is "
            f"{run_text(set(table['component']))}.{missing_text(zero)}"
        ),
        gate_status=gate_status,
        labels=models,
    )
    axes = figure.add_subplot()
    for place, kind in enumerate(kinds):
        words, colour, hollow = _COMPONENTS[kind]
        rows = shown[shown["component"] == kind]
        shift = 0.8 * (place / max(1, len(kinds) - 1) - 0.5) if len(kinds) > 1 else 0.0
        y = np.array([models.index(model) for model in rows[names.MODEL]]) + shift
        interval_bars(axes, rows, "sd", y, colour=colour, label=kind)
        points = axes.scatter(
            rows["sd_mean"],
            y,
            s=22 if few else 11,
            facecolor="white" if hollow else colour,
            edgecolor=colour,
            linewidths=1.1,
            zorder=3,
            label=words,
        )
        points.set_gid(f"points {kind}")
    axes.set_xscale("log")
    plain_log_axis(axes.xaxis, most=10)
    label_rows(axes, labels_of(models), 8.5)
    separate_rows(axes, len(models))
    axes.set_xlabel(axis_label("Standard deviation", unit))
    axes.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=2)
    return figure


@styled
def cell_sds_figure(
    table: pd.DataFrame,
    *,
    source: str,
    subtitle: str,
    gate_status: str,
    data: str = "",
    unit: str = "",
) -> Figure:
    """Sd of every cell: its own replicates against the posterior, one panel per model.

    Parameters
    ----------
    table : pandas.DataFrame
        ``within_language.csv``.
    source : {"seed", "boot", "seed_boot", "prompt", "judge"}
    subtitle, gate_status, data, unit : str
        See :func:`replicate_figures`.
    """
    raw = f"{source}_sd_raw"
    shown = table[table[f"{source}_sd_lower"].notna() & table[raw].notna()]
    zero = shown[raw] <= 0.0
    models = list(dict.fromkeys(shown[names.MODEL]))
    low, high = _limits(shown, source)
    rows = max(1, -(-len(models) // _PANELS[len(models) > _FEW_MODELS]))
    columns = max(1, -(-len(models) // rows))
    words = _SOURCES[source]
    figure = new_figure(
        max(_WIDTH, 2.0 * columns + 0.6) if columns > 2 else _WIDTH,
        2.05 * rows + 0.3,
        title=f"The {words} sd of every cell: its own replicates against the posterior",
        subtitle=subtitle,
        data=data,
        caption=(
            f"{interval_text(shown, f'{source}_sd')} Both scales are logarithmic. A panel is a "
            "model, a point is one of its cells (a language and a task). On the dashed line, "
            "posterior and raw sd are equal: no shrinkage. Dotted line: geometric mean of the "
            "model's posterior means."
            + (
                f" Cells whose replicates are all equal (raw sd 0) lie on the left edge: "
                f"{int(zero.sum())}."
                if zero.any()
                else ""
            )
        ),
        gate_status=gate_status,
        labels=models,
    )
    titles = labels_of(models, 30)
    panels = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    for axes in panels.ravel()[len(models) :]:
        axes.set_axis_off()
    for number, (axes, model) in enumerate(zip(panels.ravel(), models, strict=False)):
        own = shown[shown[names.MODEL] == model]
        _cell_panel(axes, own, source, low=low, high=high)
        axes.set_title(titles[number], loc="left", size=8.0)
        if number % columns == 0:
            axes.set_ylabel("Posterior sd", size=8.0)
        # Also where the last row has no panel below.
        if number + columns >= len(models):
            axes.tick_params(labelbottom=True)
            axes.set_xlabel(axis_label("Raw sd", unit), size=8.0)
    return figure


def _cell_panel(axes: Axes, own: pd.DataFrame, source: str, *, low: float, high: float) -> None:
    """Cells of one model, on log scales from `low` to `high`; raw sds of zero lie at `low`."""
    raw, mean, model = f"{source}_sd_raw", f"{source}_sd_mean", own[names.MODEL].iloc[0]
    x = np.maximum(own[raw].to_numpy(dtype=float), low)
    faint = 0.6 if len(own) <= MANY_ROWS else 0.25
    bars = axes.vlines(
        x,
        own[f"{source}_sd_lower"],
        own[f"{source}_sd_upper"],
        color=MAIN,
        alpha=faint,
        linewidth=1.0,
    )
    bars.set_gid(f"bars {model}")
    points = axes.scatter(
        x,
        own[mean],
        s=14 if len(own) <= MANY_ROWS else 6,
        color=MAIN,
        zorder=3,
        linewidths=0,
        # Whole points on the edge.
        clip_on=False,
    )
    points.set_gid(f"points {model}")
    axes.axline((1.0, 1.0), (2.0, 2.0), color=GREY, linewidth=0.8, linestyle="--", zorder=1)
    typical = float(np.exp(np.log(own[mean]).mean()))
    axes.axhline(typical, color=GREY, linewidth=0.8, linestyle=":", zorder=1)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set(xlim=(low, high), ylim=(low, high))
    axes.tick_params(labelsize=7.5)
    for axis in (axes.xaxis, axes.yaxis):
        plain_log_axis(axis, most=_PANEL_TICKS)


def _known_text(known: pd.DataFrame) -> str:
    """Name the components that are taken as given, if some are."""
    kinds = [kind for kind in _COMPONENTS if (known["component"] == kind).any()]
    words = ", ".join(_COMPONENTS[kind][0] for kind in kinds)
    return f" Without a bar: taken as given ({words})." if kinds else ""


def _limits(cells: pd.DataFrame, source: str) -> tuple[float, float]:
    """Common limits of raw and posterior sds on log scales, which show no sd of zero."""
    columns = [f"{source}_sd_{part}" for part in ("raw", "mean", "lower", "upper")]
    values = cells[columns].to_numpy(dtype=float)
    positive = values[values > 0.0]
    return (positive.min() / 1.2, positive.max() * 1.2) if positive.size else (0.1, 1.0)
