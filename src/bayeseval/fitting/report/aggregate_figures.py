"""Figures of aggregates over languages: intervals, ranks, and pairs of models."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
import pandas as pd

from bayeseval import estimands, names
from bayeseval._typing import Floats
from bayeseval.estimands import run_text, sources_text
from bayeseval.fitting.report.sentences import geometric_mean_sentence
from bayeseval.output._parts import (
    FEW_RANKS,
    MANY_ROWS,
    heat_map,
    interval_bars,
    interval_text,
    label_rows,
    label_width,
    labels_of,
    missing_text,
    probability_bar,
    rank_cells_text,
    rank_colours,
    separate_rows,
    split_reported,
)
from bayeseval.output._style import (
    ACCENT,
    FAINT,
    GREEN,
    MAIN,
    new_figure,
    styled,
)
from bayeseval.output.numbers import axis_label

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["aggregate_ranks_figure", "aggregates_figure", "by_value", "pairwise_figure"]


_WIDTH = 8.0
# Models up to which rows have room for points of normal size.
_FEW_MODELS = 20
# Inches of the longest title of a panel; characters of a name where it stands in every panel.
_TITLE = 1.3
_SHORT = 34
_AGGREGATES: Final[Mapping[str, str]] = {
    "arithmetic_mean": "Arithmetic mean",
    "geometric_mean": "Geometric mean",
    "median": "Median",
}
_POPULATIONS: Final[Mapping[str, tuple[str, str]]] = {
    "fixed": ("the languages at hand", MAIN),
    "resampled": ("new languages", ACCENT),
    "subset": ("half of the languages", GREEN),
}


@styled
def aggregates_figure(
    table: pd.DataFrame,
    *,
    subtitle: str,
    gate_status: str,
    data: str = "",
    unit: str = "",
    sources: Collection[str] = (),
) -> Figure:
    """Aggregates over languages of every model, in all populations.

    Parameters
    ----------
    table : pandas.DataFrame
        ``aggregates.csv``.
    subtitle, gate_status, data, unit : str
        See :func:`bayeseval.fitting.report.replicate_figures.replicate_figures`.
    sources : collection of str
        Sources of noise within cells.
    """
    models, kinds = by_value(table), _kinds(table)
    variants = [(population, of) for population in _POPULATIONS for of in ("expected", "run")]
    missing = _not_reported(table, models)
    few = len(models) <= _FEW_MODELS
    row = 0.075 * len(variants) + 0.1 if few else 0.045 * len(variants) + 0.06
    room = max(1.2, len(models) * row) + 0.9
    figure = new_figure(
        max(_WIDTH + 1.5, label_width(labels_of(models), 8.5) + _WIDTH - 1.0),
        room + 0.25,
        title="Aggregates over languages, in three populations of languages",
        subtitle=subtitle,
        data=data,
        caption=(
            f"{interval_text(table, 'value')} Filled: expected scores, free of the noise of "
            f"{sources_text(sources)}; hollow: scores of one run, that is {run_text(sources)}. New "
            "languages are drawn with replacement from those at hand, half of the languages "
            "without. Models are in the order of the first column."
            + missing_text(missing)
            + _left_out(table)
        ),
        gate_status=gate_status,
        labels=models,
    )
    grid = figure.add_gridspec(2, len(kinds), height_ratios=[0.25, room])
    panels = [figure.add_subplot(grid[1, i]) for i in range(len(kinds))]
    for axes, (kind, heading) in zip(panels, kinds.items(), strict=True):
        for place, (population, of) in enumerate(variants):
            words, colour = _POPULATIONS[population]
            rows, _ = split_reported(
                _variant(table, kind, population, of), ["value_mean"], names.MODEL
            )
            y = np.array([models.index(model) for model in rows[names.MODEL]], dtype=float)
            y += 0.75 * (place / (len(variants) - 1) - 0.5)
            label = f"{kind} {population} {of}"
            interval_bars(axes, rows, "value", y, colour=colour, label=label)
            points = axes.scatter(
                rows["value_mean"],
                y,
                s=16 if few else 7,
                facecolor=colour if of == "expected" else "white",
                edgecolor=colour,
                linewidths=1.0,
                zorder=3,
                label=words if of == "expected" else None,
            )
            points.set_gid(f"points {label}")
        axes.set_title(heading, loc="left", size=9.5)
        label_rows(axes, labels_of(models), 8.5)
        separate_rows(axes, len(models))
        axes.tick_params(axis="x", labelsize=8.0)
        if axes is not panels[0]:
            axes.sharex(panels[0])
            axes.tick_params(labelleft=False)
    panels[0].autoscale_view()
    panels[len(panels) // 2].set_xlabel(axis_label("Aggregate", unit))
    key = figure.add_subplot(grid[0, :])
    key.set_axis_off()
    key.legend(*panels[0].get_legend_handles_labels(), loc="center left", ncols=3)
    return figure


@styled
def aggregate_ranks_figure(
    probabilities: pd.DataFrame,
    aggregates: pd.DataFrame,
    *,
    subtitle: str,
    gate_status: str,
    data: str = "",
    sources: Collection[str] = (),
) -> Figure:
    """Rank probabilities of the models: aggregates across, populations down.

    Parameters
    ----------
    probabilities : pandas.DataFrame
        ``rank_probabilities.csv``.
    aggregates : pandas.DataFrame
        ``aggregates.csv``, for the mean ranks.
    subtitle, gate_status, data : str
        See :func:`bayeseval.fitting.report.replicate_figures.replicate_figures`.
    sources : collection of str
        Sources of noise within cells.
    """
    models, kinds = list(aggregates[names.MODEL].unique()), _kinds(aggregates)
    n = len(models)
    cell, size = _cell_size(n)
    side = max(1.1, n * cell)
    names_width = label_width(labels_of(models, _SHORT), size)
    rows = (("fixed", "expected"), ("fixed", "run"), ("resampled", "expected"))
    headings = ("expected", "one run", "new languages")
    figure = new_figure(
        max(_WIDTH + 1.5, len(kinds) * (max(side, _TITLE) + names_width + 0.35)),
        len(rows) * (side + 0.75),
        title="Ranks of the models by aggregates over languages",
        subtitle=subtitle,
        data=data,
        caption=(
            f"{rank_cells_text(n)} Orange points: mean ranks. Top: expected scores on the "
            "languages at hand; middle: scores of one run, that is "
            f"{run_text(sources)}; bottom: expected scores on new languages, drawn with "
            "replacement from those at hand. Each panel has its own order of models."
            + (
                " Point estimates: there are no probabilities."
                if aggregates["value_lower"].isna().all()
                else ""
            )
            + _left_out(aggregates)
        ),
        gate_status=gate_status,
        labels=models,
    )
    quantities: dict[tuple[str, str, str], str] = {
        (kind, population, of): name
        for name, kind, population, of in estimands.aggregate_variants()
    }
    panels = figure.subplots(len(rows), len(kinds), squeeze=False)
    matrices = {
        variant: probabilities[probabilities["quantity"] == name].pivot(
            index="level", columns="rank", values="probability"
        )
        for variant, name in quantities.items()
    }
    drawn = [matrices[kind, *row] for row in rows for kind in kinds]
    colours = rank_colours(drawn)
    for line, (population, of), heading in zip(panels, rows, headings, strict=True):
        for axes, kind in zip(line, kinds, strict=True):
            own = _variant(aggregates, kind, population, of).set_index(names.MODEL)
            mean = own["rank_mean"].dropna().sort_values(kind="stable")
            matrix = _ranks_that_occur(matrices[kind, population, of].reindex(mean.index))
            heat_map(axes, matrix, mean, size, colours=colours, most=_SHORT)
            axes.set_title(f"{_AGGREGATES[kind]},\n{heading}", loc="left", size=8.5)
    if n > FEW_RANKS:
        probability_bar(figure, list(panels.ravel()), colours)
    return figure


@styled
def pairwise_figure(
    pairs: pd.DataFrame,
    aggregates: pd.DataFrame,
    *,
    subtitle: str,
    gate_status: str,
    data: str = "",
    sources: Collection[str] = (),
) -> Figure:
    """Probability that one model is better than another, by aggregates over languages.

    Parameters
    ----------
    pairs : pandas.DataFrame
        ``pairwise_models.csv``.
    aggregates : pandas.DataFrame
        ``aggregates.csv``, for the order of the models.
    subtitle, gate_status, data : str
        See :func:`bayeseval.fitting.report.replicate_figures.replicate_figures`.
    sources : collection of str
        Sources of noise within cells.
    """
    models, kinds = by_value(aggregates), _kinds(aggregates)
    n = len(models)
    cell, size = _cell_size(n)
    side = max(1.4, n * cell)
    figure = new_figure(
        max(_WIDTH, len(kinds) * side + label_width(labels_of(models), size) + 1.0),
        side + 0.8,
        title="P(row better than column) by aggregates over the languages at hand",
        subtitle=subtitle,
        data=data,
        caption=(
            "A cell is the probability that the model of its row has a higher aggregate than the "
            "model of its column, from expected scores, free of the noise of "
            f"{sources_text(sources)}"
            + ("; numbers: percent" if n <= FEW_RANKS else "; the colour bar holds for all panels")
            + ". Models are in the order of the arithmetic mean, and columns carry the numbers of "
            "the rows. Grey: the diagonal, and what is not reported. Probabilities for single "
            "languages, one run and new languages are in tables/pairwise_models.csv."
            + _left_out(aggregates)
        ),
        gate_status=gate_status,
        labels=models,
    )
    panels = figure.subplots(1, len(kinds), sharey=True, squeeze=False)[0]
    for axes, (kind, heading) in zip(panels, kinds.items(), strict=True):
        values = _pair_matrix(pairs[pairs["quantity"] == kind], models)
        image = axes.imshow(
            values, cmap="Blues", vmin=0.0, vmax=1.0, aspect="auto", interpolation="nearest"
        )
        image.set_gid(f"pairs {kind}")
        axes.set_facecolor(FAINT)
        if n <= FEW_RANKS:
            _write_percent(axes, values)
        numbers = [str(i + 1) for i in range(n)]
        labels = [f"{label}  {i + 1}" for i, label in enumerate(labels_of(models))]
        shown = [i for i in range(n) if n <= FEW_RANKS or i == 0 or (i + 1) % 5 == 0]
        axes.set_xticks(shown, labels=[numbers[i] for i in shown], size=size)
        axes.set_yticks(range(n), labels=labels, size=size)
        axes.tick_params(length=0)
        axes.set_title(heading, loc="left", size=9.5)
    if n > FEW_RANKS:
        probability_bar(figure, panels, image, "P(row better than column)")
    return figure


def _variant(table: pd.DataFrame, kind: str, population: str, of: str) -> pd.DataFrame:
    return table[
        (table["aggregate"] == kind) & (table["population"] == population) & (table["of"] == of)
    ]


def _ranks_that_occur(matrix: pd.DataFrame) -> pd.DataFrame:
    """Without the ranks at the end that none of the models has, where not all are drawn."""
    occurs = np.flatnonzero(matrix.fillna(0.0).gt(0.0).any(axis=0))
    last = max(len(matrix), int(occurs[-1]) + 1 if len(occurs) else 1)
    return matrix.iloc[:, :last]


def _kinds(aggregates: pd.DataFrame) -> dict[str, str]:
    """Headings of the aggregates that a model has."""
    known = set(aggregates.loc[aggregates["value_mean"].notna(), "aggregate"])
    return {kind: heading for kind, heading in _AGGREGATES.items() if kind in known}


def _left_out(aggregates: pd.DataFrame) -> str:
    """Why there is no panel of the geometric mean, where there is none."""
    if "geometric_mean" in _kinds(aggregates):
        return ""
    return f" {geometric_mean_sentence(aggregates)}"


def _not_reported(aggregates: pd.DataFrame, models: Sequence[str]) -> list[str]:
    """Aggregates without a value, and in how many of the variants where not in all."""
    labels = []
    for kind, words in _kinds(aggregates).items():
        for model in models:
            own = (aggregates["aggregate"] == kind) & (aggregates[names.MODEL] == model)
            lost = aggregates.loc[own, "value_mean"].isna()
            if lost.any():
                part = "" if lost.all() else f" ({lost.sum()} of {len(lost)} variants)"
                labels.append(f"{words.lower()} of {model}{part}")
    return labels


def by_value(aggregates: pd.DataFrame) -> list[str]:
    """Models by the expected arithmetic mean on the languages at hand, highest first."""
    own = _variant(aggregates, "arithmetic_mean", "fixed", "expected")
    return [str(m) for m in own.sort_values("value_mean", ascending=False)[names.MODEL]]


def _cell_size(n: int) -> tuple[float, float]:
    """Height of a row in inches and its font size."""
    return (0.27, 7.5) if n <= FEW_RANKS else (0.125, 6.5) if n <= MANY_ROWS else (0.095, 5.0)


def _pair_matrix(pairs: pd.DataFrame, models: Sequence[str]) -> Floats:
    values = np.full((len(models), len(models)), np.nan)
    position = {model: i for i, model in enumerate(models)}
    for a, b, p in pairs[["model_a", "model_b", "p_a_better"]].itertuples(index=False):
        values[position[a], position[b]] = p
        values[position[b], position[a]] = 1.0 - p
    return values


def _write_percent(axes: Axes, values: Floats) -> None:
    for i, j in np.argwhere(~np.isnan(values)):
        p = float(values[i, j])
        text = axes.text(
            j,
            i,
            f"{100 * p:.0f}",
            size=6.5,
            ha="center",
            va="center",
            color="white" if p > 0.55 else "black",
        )
        text.set_gid("probability")
