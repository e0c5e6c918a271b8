"""Pieces that several figures share: caption sentences, row labels, interval bars."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
import pandas as pd

from bayeseval import names
from bayeseval._typing import Floats
from bayeseval.output._glyphs import drawable, legible
from bayeseval.output._style import ACCENT, DARK, GREY, figure_text
from bayeseval.output.text import shorten_names

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.cm import ScalarMappable
    from matplotlib.figure import Figure

__all__ = [
    "FEW_RANKS",
    "LABEL",
    "MANY_ROWS",
    "heat_map",
    "interval_bars",
    "interval_text",
    "kind_text",
    "label_rows",
    "label_width",
    "labels_of",
    "language_labels",
    "listed",
    "missing_text",
    "plain_log_axis",
    "probability_bar",
    "rank_axis",
    "rank_cells_text",
    "rank_colours",
    "rank_texts",
    "separate_rows",
    "split_reported",
]


# Up to here rows are as high as text of normal size needs; beyond they shrink.
MANY_ROWS: Final = 80
# Up to here probabilities of ranks are written into their cells.
FEW_RANKS: Final = 20
# Characters of a label: longer names are shortened.
LABEL: Final = 42
# Levels that a caption names.
_NAMED: Final = 20

# First digits of the ticks of a log axis, finest first.
_TICKS: Final = (
    (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0),
    (1.0, 2.0, 5.0),
    (1.0, 3.0),
    (1.0,),
)

_KINDS = {
    "fixed": "fixed effects, which have no population: both points are the sd of the levels",
    "realised": "both points are the root mean square of the residuals of the records",
    "known": "standard errors given with the data",
}
_MISSING = "Not reported and therefore not shown: "


def split_reported(
    table: pd.DataFrame, columns: Sequence[str], level: str
) -> tuple[pd.DataFrame, list[str]]:
    """Split off the rows that have no value, whose labels go into the caption."""
    known = table[list(columns)].notna().all(axis=1)
    return table[known].reset_index(drop=True), [str(label) for label in table.loc[~known, level]]


def missing_text(labels: Sequence[str]) -> str:
    """Name what is not shown."""
    return f" {_MISSING}{listed(labels)}." if labels else ""


def listed(labels: Sequence[str]) -> str:
    """Labels as a caption names them: the first 20, and how many more there are."""
    if len(labels) <= _NAMED:
        return ", ".join(labels)
    return f"{', '.join(labels[:_NAMED])} and {len(labels) - _NAMED} others"


def kind_text(table: pd.DataFrame) -> str:
    """Say which components are not parameters of a population."""
    text = ""
    for kind, words in _KINDS.items():
        concerned = [str(label) for label in table.loc[table["kind"] == kind, "component"]]
        text += f" {', '.join(concerned)}: {words}." if concerned else ""
    return text


def interval_text(table: pd.DataFrame, prefix: str) -> str:
    """Say what points and bars are."""
    if table[f"{prefix}_lower"].isna().all():
        return "Points: estimates (this engine gives no intervals)."
    kind, prob = str(table["ci_kind"].iloc[0]), float(table["ci_prob"].iloc[0])
    words = {"eti": "equal-tailed intervals"}.get(kind, f"{kind} intervals")
    return f"Points: posterior means; bars: {100 * prob:.4g} % {words}."


def language_labels(table: pd.DataFrame) -> list[str]:
    """Name and label of every language, the label alone where no name can be drawn."""
    codes = [str(label) for label in table[names.LANGUAGE]]
    known = [str(name) for name in table.get("language_name", codes)]
    return labels_of(
        f"{name} ({code})" if name != code and drawable(name) else code
        for name, code in zip(known, codes, strict=True)
    )


def labels_of(names: Iterable[object], most: int = LABEL) -> list[str]:
    """Names as labels of axes: drawable, and shortened so that different ones stay different."""
    return [
        figure_text(text) for text in shorten_names([legible(str(name)) for name in names], most)
    ]


def label_width(labels: Sequence[str], size: float) -> float:
    """Inches that the longest of some labels needs at a font size in points."""
    from rich.cells import cell_len

    # DejaVu Sans: a character is 0.6 times as wide as the font size, on the safe side.
    return max(map(cell_len, labels), default=0) * 0.6 * size / 72.0


def rank_texts(table: pd.DataFrame) -> list[str]:
    """Median rank and interval of every row."""
    texts = []
    for mean, median, lower, upper in table[
        ["rank_mean", "rank_median", "rank_lower", "rank_upper"]
    ].to_numpy(dtype=float):
        if np.isnan(lower):
            texts.append("" if np.isnan(mean) else f"{mean:.0f}")
        else:
            texts.append(f"{median:.0f}  [{lower:.0f}–{upper:.0f}]")
    return texts


def rank_axis(axes: Axes, texts: Sequence[str], size: float) -> None:
    """Ranks at the right of rows, in grey below their heading."""
    side = axes.secondary_yaxis("right")
    side.set_yticks(np.arange(len(texts)), labels=texts, size=size * 0.9)
    side.tick_params(length=0, labelcolor=GREY)
    side.spines["right"].set_visible(False)
    axes.annotate(
        "rank",
        (1.0, 1.0),
        xycoords="axes fraction",
        xytext=(4, 1),
        textcoords="offset points",
        size=size * 0.9,
        color=GREY,
        style="italic",
    )


def label_rows(axes: Axes, labels: Sequence[str], size: float) -> None:
    """One labelled row per level, first on top."""
    axes.set_yticks(np.arange(len(labels)), labels=labels, size=size)
    axes.set_ylim(len(labels) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.grid(visible=True, axis="x")


def interval_bars(
    axes: Axes,
    table: pd.DataFrame,
    prefix: str,
    y: Floats,
    *,
    colour: str,
    scale: float = 1.0,
    label: str | None = None,
    above: bool = False,
) -> None:
    """Horizontal interval bars at the heights `y`, none where there is no interval.

    `label` tells them from other bars of the same columns. Bars that are shorter than their
    points are seen only `above` these.
    """
    lower, upper = (
        scale * table[f"{prefix}_{end}"].to_numpy(dtype=float) for end in ("lower", "upper")
    )
    known = ~np.isnan(lower)
    lines = axes.hlines(
        y[known],
        lower[known],
        upper[known],
        color=DARK if above else colour,
        alpha=1.0 if above else 0.6,
        linewidth=1.0 if above else 1.4,
        zorder=4 if above else 2,
    )
    lines.set_gid(f"bars {label or prefix}")


def heat_map(
    axes: Axes,
    matrix: pd.DataFrame,
    typical: pd.Series[float],
    size: float,
    *,
    colours: ScalarMappable,
    most: int = LABEL,
) -> None:
    """Rank probabilities, models by ranks, with typical ranks as points.

    Of few models the probabilities are written too. Names have `most` characters.
    """
    if matrix.empty:
        axes.set_axis_off()
        axes.text(0.5, 0.5, "not reported for any model", ha="center", color=GREY)
        return
    n_ranks = matrix.shape[1]
    values = matrix.to_numpy(dtype=float)
    axes.imshow(
        np.nan_to_num(values),
        cmap=colours.cmap,
        norm=colours.norm,
        aspect="auto",
        extent=(0.5, n_ranks + 0.5, len(values) - 0.5, -0.5),
        interpolation="nearest",
    )
    labels = labels_of(matrix.index, most)
    axes.set_yticks(np.arange(len(labels)), labels=labels, size=size)
    every = 1 if n_ranks <= FEW_RANKS else 5 if n_ranks <= MANY_ROWS else 10
    ticks = [rank for rank in range(1, n_ranks + 1) if rank == 1 or rank % every == 0]
    axes.set_xticks(ticks, labels=[str(rank) for rank in ticks], size=size)
    axes.tick_params(length=0)
    axes.set_xlabel("Rank")
    axes.set_xlim(0.5, n_ranks + 0.5)
    few = n_ranks <= FEW_RANKS
    # Below the numbers.
    points = axes.scatter(
        typical,
        np.arange(len(typical)) + 0.29 * few,
        s=(1.3 if few else 2.2) * size,
        color=ACCENT,
        zorder=3,
        linewidths=0,
    )
    points.set_gid("points")
    if not few:
        return
    for i, j in np.argwhere(np.nan_to_num(values) >= 0.05):
        text = axes.text(
            j + 1,
            i - 0.12,
            f"{100 * values[i, j]:.0f}",
            size=6.5,
            ha="center",
            va="center",
            color="white" if values[i, j] > 0.55 else "black",
        )
        text.set_gid("probability")


def rank_colours(matrices: Sequence[pd.DataFrame]) -> ScalarMappable:
    """One colour scale for all heat maps of a figure.

    Colours end at 1; for many models at the largest probability, and no less than 5 %, and
    low probabilities, of which each model has several, get more of them.
    """
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize, PowerNorm

    if max((matrix.shape[1] for matrix in matrices), default=0) <= FEW_RANKS:
        return ScalarMappable(Normalize(0.0, 1.0), cmap="Blues")
    largest = max(float(np.nan_to_num(m.to_numpy(dtype=float)).max(initial=0.0)) for m in matrices)
    return ScalarMappable(PowerNorm(0.5, 0.0, max(0.05, largest)), cmap="Blues")


def probability_bar(
    figure: Figure,
    axes: Sequence[Axes],
    colours: ScalarMappable,
    words: str = "Probability of the rank",
) -> None:
    """Which probabilities the colours stand for, beside all heat maps of a figure."""
    from matplotlib.colors import PowerNorm
    from matplotlib.ticker import FuncFormatter

    top = float(colours.norm.vmax or 1.0)
    # An even scale has no room for labels of low probabilities.
    low = (0.01, 0.05, 0.1) if isinstance(colours.norm, PowerNorm) else ()
    ticks = [p for p in (0.0, *low, 0.25, 0.5, 0.75, 1.0) if p <= top]
    bar = figure.colorbar(
        colours,
        ax=list(axes),
        ticks=ticks,
        format=FuncFormatter(lambda p, _: f"{100 * p:g} %"),
        fraction=0.04,
        pad=0.02,
        # As long in a high figure as in a low one.
        shrink=min(1.0, 3.5 / figure.get_size_inches()[1]),
        aspect=18,
    )
    bar.set_label(words)
    bar.ax.minorticks_off()
    bar.ax.spines["outline"].set_visible(False)


def rank_cells_text(n_ranks: int) -> str:
    """Say what the cells of a heat map of ranks are."""
    text = (
        "A row is a model, a column is a rank, and 1 is the best rank. The darker a cell, the more "
        "probable the rank of the model"
    )
    if n_ranks <= FEW_RANKS:
        return f"{text}; numbers are probabilities in percent, from 5 up."
    return f"{text}; the colour bar holds for the whole figure."


def plain_log_axis(axis: Axis, *, most: int = 8) -> None:
    """Tick labels such as 0.5 and 20 on a log axis, not powers of ten: as many as there is room.

    For axes whose limits are final; `most` is the number of labels that do not collide.
    """
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    low, high = sorted(axis.get_view_interval())
    axis.set_major_locator(FixedLocator(_log_ticks(low, high, most)))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def _log_ticks(low: float, high: float, most: int) -> list[float]:
    """Round values between two positive ones: the finest set that has no more than `most`."""
    from matplotlib.ticker import MaxNLocator

    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for digits in _TICKS:
        values = [float(f"{digit}e{decade}") for decade in decades for digit in digits]
        ticks = [value for value in values if low <= value <= high]
        if len(ticks) <= most:
            break
    ticks = ticks[:: math.ceil(len(ticks) / most)] if ticks else ticks
    # Less than a factor of two or so: the scale is close to linear.
    if len(ticks) < 3:
        ticks = [v for v in MaxNLocator(most // 2).tick_values(low, high) if low <= v <= high]
    return ticks


def separate_rows(axes: Axes, n: int) -> None:
    """Thin lines between rows that hold several points each."""
    for edge in np.arange(n - 1) + 0.5:
        axes.axhline(edge, color=GREY, linewidth=0.4, alpha=0.5, zorder=0)
