"""Figures of models: expected scores and evenness with intervals, and rank probabilities.

Order, ranks and intervals are those of ``model_ranking.csv``, which the terminal shows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pandas as pd

from bayeseval import names
from bayeseval.output._parts import (
    FEW_RANKS,
    MANY_ROWS,
    heat_map,
    interval_bars,
    interval_text,
    label_rows,
    label_width,
    labels_of,
    probability_bar,
    rank_axis,
    rank_cells_text,
    rank_colours,
    rank_texts,
)
from bayeseval.output._style import (
    ACCENT,
    MAIN,
    mark_gate,
    new_figure,
    styled,
    whole_figure,
)
from bayeseval.output.numbers import axis_label

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.cm import ScalarMappable
    from matplotlib.figure import Figure

__all__ = ["models_figure", "ranks_figure"]


_WIDTH: Final = 9.5
# Characters of a name: these figures grow with it.
_LABEL: Final = 60
# Models in a figure: the first and the last half of more.
_MOST: Final = 120
_MOSTLY: Final = 0.5
_UNKNOWN_EVENNESS: Final = (
    " Ranks by evenness are not drawn: every model's interval covers more than half of all ranks, "
    "see tables/model_ranking.csv."
)
# Inches of a heat map: of many models, cells are higher than they are wide.
_PANEL: Final = 6.0


class _Panel(NamedTuple):
    """What models are ranked by: a quantity, and its columns in ``model_ranking.csv``."""

    quantity: str
    value: str
    rank: str
    lowest_first: bool
    heading: str


_BY_SCORE: Final = _Panel(
    names.STANDARDISED_SCORE, "score_mean", "rank", lowest_first=False, heading="Expected score"
)
_BY_EVENNESS: Final = _Panel(
    names.GAP_SD, f"{names.GAP_SD}_mean", "gap_sd_rank", lowest_first=True, heading="Evenness"
)


def _shown(ranking: pd.DataFrame) -> tuple[pd.DataFrame, str]:
    """Rows that a figure has room for, and what to say of the others."""
    n = len(ranking)
    if n <= _MOST:
        return ranking.reset_index(drop=True), ""
    half = _MOST // 2
    kept = pd.concat([ranking.head(half), ranking.tail(half)], ignore_index=True)
    return kept, f" First and last {half} of {n} models; all: tables/model_ranking.csv."


def _font_size(n: int) -> float:
    """Points, of the names beside n rows of ranks."""
    return 8.5 if n <= 20 else 7.0 if n <= MANY_ROWS else 5.0


def _labels(models: pd.Series[str]) -> list[str]:
    return labels_of(models, _LABEL)


@styled
def models_figure(
    ranking: pd.DataFrame,
    *,
    subtitle: str,
    data: str = "",
    gate_status: str,
    unit: str = "",
    ax: Axes | None = None,
    figsize: tuple[float, float] | None = None,
) -> Figure:
    """Expected scores on the common pairs, and evenness between languages where it is known.

    Parameters
    ----------
    ranking : pandas.DataFrame
        ``model_ranking.csv``, best first.
    subtitle, data, gate_status, unit : str
        See :func:`bayeseval.fitting.report.figures.figure_writers`.
    ax : matplotlib.axes.Axes, optional
        Where to draw the scores alone, without header and caption.
    figsize : tuple of float, optional
        Width and height in inches.
    """
    shown, cut = _shown(ranking)
    n = len(shown)
    row, size = (0.22, 8.5) if n <= 40 else (0.165, 7.0)
    if ax is not None:
        _forest(ax, shown, "score", "rank", size)
        ax.set_xlabel(axis_label("Expected score", unit))
        label_rows(ax, _labels(shown[names.MODEL]), size)
        mark_gate(ax, gate_status)
        return whole_figure(ax)
    even = not shown["gap_sd_languages_mean"].isna().all()
    wide = label_width(_labels(shown[names.MODEL]), size)
    figure = new_figure(
        max(_WIDTH, wide + _WIDTH - 2.4),
        max(1.0, n * row) + 1.3,
        title="Models: expected score" + (" and evenness between languages" if even else ""),
        subtitle=subtitle,
        data=data,
        caption=(
            f"{interval_text(shown, 'score')} All models are on the same language-task pairs. "
            "Hollow points: more than half of the model's pairs have no record and are predicted."
            + (
                ""
                if shown["rank_lower"].isna().all()
                else " Grey numbers: median rank and the rank's interval; 1 is best."
            )
            + (
                " Evenness: sd over languages of the gap between the model's mean score and the "
                "language potential; the smaller, the more even."
                if even
                else ""
            )
            + cut
        ),
        gate_status=gate_status,
        labels=_labels(shown[names.MODEL]),
        figsize=figsize,
    )
    panels = figure.subplots(1, 2 if even else 1, squeeze=False, sharey=True)[0]
    _forest(panels[0], shown, "score", "rank", size)
    panels[0].set_xlabel(axis_label("Expected score", unit))
    if even:
        _forest(panels[1], shown, names.GAP_SD, "gap_sd_rank", size)
        panels[1].set_xlabel(axis_label("Sd of the gap over languages", unit))
        panels[1].tick_params(axis="y", left=False, labelleft=False)
        panels[1].spines["left"].set_visible(False)
        panels[1].grid(visible=True, axis="x")
    label_rows(panels[0], _labels(shown[names.MODEL]), size)
    return figure


def _forest(axes: Axes, table: pd.DataFrame, prefix: str, rank: str, size: float) -> None:
    y = np.arange(len(table), dtype=float)
    interval_bars(axes, table, prefix, y, colour=MAIN, above=True)
    mostly = table["share_predicted"].to_numpy(dtype=float) > _MOSTLY
    points = axes.scatter(
        table[f"{prefix}_mean"],
        y,
        s=3.2 * size,
        facecolor=["white" if hollow else MAIN for hollow in mostly],
        edgecolor=MAIN,
        linewidths=1.0,
        zorder=3,
    )
    points.set_gid(f"points {prefix}")
    ranks = table[[f"{rank}_{part}" for part in ("mean", "median", "lower", "upper")]]
    if ranks.isna().all(axis=None):
        return
    texts = rank_texts(ranks.set_axis([str(c).replace(rank, "rank") for c in ranks], axis=1))
    rank_axis(axes, texts, size)


@styled
def ranks_figure(
    probabilities: pd.DataFrame,
    ranking: pd.DataFrame,
    *,
    subtitle: str,
    data: str = "",
    gate_status: str,
    ax: Axes | None = None,
    figsize: tuple[float, float] | None = None,
) -> Figure:
    """Rank probabilities of the models by expected score, and by evenness where it is known.

    A point estimate has no ranks, and none of this.

    Parameters
    ----------
    probabilities : pandas.DataFrame
        ``rank_probabilities.csv``.
    ranking : pandas.DataFrame
        ``model_ranking.csv``, for the order, the median ranks and their intervals.
    subtitle, data, gate_status : str
        See :func:`bayeseval.fitting.report.figures.figure_writers`.
    ax : matplotlib.axes.Axes, optional
        Where to draw the ranks by expected score alone, without header and caption.
    figsize : tuple of float, optional
        Width and height in inches.
    """
    shown, cut = _shown(ranking)
    if len(ranking) > names.MOST_RANKED:
        # The probabilities are those of the best models by score, and of the most even ones.
        shown = ranking.head(_MOST).reset_index(drop=True)
        cut = f" The best {_MOST} of {len(ranking)} models."
    if ax is not None:
        matrix = _matrix(probabilities, names.STANDARDISED_SCORE)
        _draw_ranks(ax, shown, matrix, _BY_SCORE, rank_colours([matrix]))
        mark_gate(ax, gate_status)
        return whole_figure(ax)
    n = max(1, len(shown))
    cell = 0.3 if n <= 20 else 0.17 if n <= MANY_ROWS else 0.11
    side = max(2.2, n * cell)
    panels, unknown = [_BY_SCORE], ""
    if not shown["gap_sd_rank_mean"].isna().all():
        if _tells_apart(ranking, _BY_EVENNESS):
            panels.append(_BY_EVENNESS)
        else:
            unknown = _UNKNOWN_EVENNESS
    # Each panel has the names: they are sorted differently.
    wide = label_width(_labels(shown[names.MODEL]), _font_size(len(shown))) + 0.4
    matrices = [_matrix(probabilities, panel.quantity) for panel in panels]
    figure = new_figure(
        max(_WIDTH if len(panels) > 1 else 8.0, len(panels) * (min(side, _PANEL) + wide)),
        side + 1.2,
        title="Ranks of the models: probability of every rank, from joint draws",
        subtitle=subtitle,
        data=data,
        caption=_caption(shown, len(panels), n_ranks=len(ranking)) + unknown + cut,
        gate_status=gate_status,
        labels=_labels(shown[names.MODEL]),
        figsize=figsize,
    )
    every, colours = figure.subplots(1, len(panels), squeeze=False)[0], rank_colours(matrices)
    for axes, panel, matrix in zip(every, panels, matrices, strict=True):
        _draw_ranks(axes, shown, matrix, panel, colours)
        axes.set_title(panel.heading, loc="left", size=9.5)
    if len(ranking) > FEW_RANKS:
        probability_bar(figure, every, colours)
    return figure


def _draw_ranks(
    axes: Axes,
    shown: pd.DataFrame,
    matrix: pd.DataFrame,
    panel: _Panel,
    colours: ScalarMappable,
) -> None:
    """Probability of every rank; of many models the rank intervals as well."""
    n = len(shown)
    size = _font_size(n)
    rows = shown.sort_values(panel.value, ascending=panel.lowest_first, kind="stable")
    rows = rows.reset_index(drop=True)
    matrix = matrix.reindex(rows[names.MODEL])
    median = rows[f"{panel.rank}_median"]
    heat_map(axes, matrix, median, size, colours=colours, most=_LABEL)
    if matrix.shape[1] > FEW_RANKS:
        lines = axes.hlines(
            np.arange(n),
            rows[f"{panel.rank}_lower"],
            rows[f"{panel.rank}_upper"],
            color=ACCENT,
            alpha=0.5,
            linewidth=0.7,
        )
        lines.set_gid(f"intervals {panel.quantity}")


def _tells_apart(ranking: pd.DataFrame, panel: _Panel) -> bool:
    """Whether there is more to see than that any of many models may have any rank."""
    covered = 1.0 + ranking[f"{panel.rank}_upper"] - ranking[f"{panel.rank}_lower"]
    return len(ranking) <= FEW_RANKS or bool((covered <= 0.5 * len(ranking)).any())


def _matrix(probabilities: pd.DataFrame, quantity: str) -> pd.DataFrame:
    long = probabilities[probabilities["quantity"] == quantity]
    return long.pivot(index="level", columns="rank", values="probability")


def _caption(shown: pd.DataFrame, n_panels: int, *, n_ranks: int) -> str:
    text = rank_cells_text(n_ranks)
    if n_ranks > FEW_RANKS:
        percent = f"{100 * float(shown['ci_prob'].iloc[0]):.4g}"
        text += f" Orange points: median ranks; orange lines: their {percent} % intervals."
    else:
        text += " Orange points: median ranks."
    text += (
        f" {'Left: e' if n_panels > 1 else 'E'}xpected scores of all models on the same "
        "language-task pairs, with predictions for unobserved pairs."
    )
    if n_panels > 1:
        text += (
            " Right: evenness, the sd over languages of the gap between the model's mean score "
            "and the language potential; the smallest has rank 1. Each side has its own order of "
            "models."
        )
    return text
