"""The map of a forecast: a mark where each language is spoken, coloured by its potential."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from bayeseval import names
from bayeseval._typing import Floats
from bayeseval.languages.matching import understand
from bayeseval.output._labels import place_labels
from bayeseval.output._parts import language_labels, listed
from bayeseval.output._style import ACCENT, FAINT, GREY, MAIN, new_figure, styled
from bayeseval.output.language_names import LANGUAGE_NAME, name_and_code
from bayeseval.output.numbers import axis_label, column_digits, value_texts

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.cm import ScalarMappable
    from matplotlib.figure import Figure

__all__ = ["land", "map_figure", "place", "places"]

_FOLDER: Final = Path(__file__).resolve().parent.parent / "languages" / "geography"
_CUT: Final = -169.0  # west of it places are drawn at the right, with the rest of the Pacific
_TAIL: Final = 0.02  # share of languages at either end that have the last colour
_FEW: Final = 20  # languages, up to which the colours reach the lowest and the highest
_WORTH: Final = 5  # languages, with fewer a part of the world is not enlarged


class _View(NamedTuple):
    title: str
    extent: tuple[float, float, float, float]  # west, east, south and north in degrees
    stretch: float  # height of a degree of latitude by the width of one of longitude
    size: float  # of a mark, square points
    step: float  # its width in degrees


_WORLD: Final = _View("", (-128.0, 192.0, -50.0, 73.0), 1.15, 9.0, 2.4)
_PARTS: Final = (
    _View("Europe", (-12.0, 46.0, 34.0, 69.0), 1.5, 15.0, 1.5),
    _View("Africa", (-26.0, 53.0, -35.5, 36.0), 1.0, 13.0, 2.0),
    _View("South and South-East Asia", (60.0, 128.0, -12.0, 43.7), 1.1, 13.0, 1.7),
)


@lru_cache(maxsize=1)
def places() -> dict[str, tuple[float, float]]:
    """Latitude and longitude by ISO 639-3 code; ``geography/README.md`` has the sources."""
    with (_FOLDER / "languages.csv").open(encoding="utf-8", newline="") as lines:
        rows = list(csv.DictReader(lines))
    return {row["iso639_3"]: (float(row["latitude"]), float(row["longitude"])) for row in rows}


def place(labels: Iterable[str]) -> pd.DataFrame:
    """Say where the languages are that labels mean.

    Parameters
    ----------
    labels : iterable of str
        Codes or names, as :func:`bayeseval.languages.matching.resolve` knows them.

    Returns
    -------
    pandas.DataFrame
        ``latitude`` and ``longitude`` in degrees, one row per label; NaN where the label is
        not understood or its language has no place.
    """
    codes = [getattr(understand(label), "standard", "") for label in labels]
    coordinates = [places().get(code, (np.nan, np.nan)) for code in codes]
    return pd.DataFrame(coordinates, columns=["latitude", "longitude"], dtype=float)


@lru_cache(maxsize=1)
def land() -> tuple[npt.NDArray[np.float64], ...]:
    """Outlines of land, each of shape (n_points, 2): longitude and latitude in degrees."""
    lines = (_FOLDER / "land.txt").read_text(encoding="utf-8").splitlines()
    rings = [np.array([p.split(",") for p in line.split()], dtype=float) for line in lines]
    return tuple(ring + [360.0 * bool((ring[:, 0] < _CUT).all()), 0.0] for ring in rings)


@styled
def map_figure(
    table: pd.DataFrame,
    *,
    covariate: str,
    subtitle: str,
    data: str = "",
    gate_status: str,
    languages: Sequence[str] = (),
    unit: str = "",
    figsize: tuple[float, float] | None = None,
) -> Figure | None:
    """Potentials where languages are spoken, crowded parts enlarged; None if nothing has a place.

    Parameters
    ----------
    table, covariate, subtitle, data, gate_status, languages, unit
        See :func:`bayeseval.forecasting.report.forecast_figure`.
    figsize : tuple of float, optional
        Width and height in inches.
    """
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    where = place(table["source_label"]).fillna(place(table[names.LANGUAGE])).set_axis(table.index)
    known = where["latitude"].notna()
    lost = table.loc[~known, "source_label"]
    called = dict(zip(lost, table.loc[~known].get(LANGUAGE_NAME, lost), strict=True))
    nowhere = name_and_code(lost, called)
    if not known.any():
        return None
    shown = table.join(where)[known]
    shown["x"] = shown["longitude"].where(shown["longitude"] >= _CUT, shown["longitude"] + 360.0)
    west, east, south, north = _WORLD.extent
    x, y = shown["x"].to_numpy(dtype=float), shown["latitude"].to_numpy(dtype=float)
    extent = (min(west, x.min() - 4), max(east, x.max() + 4), min(south, y.min() - 4), north)
    parts = [part for part in _PARTS if int(_inside(shown, part).sum()) >= _WORTH]
    figure = new_figure(
        7.0,
        5.05 if parts else 2.75,
        title="Language potential on the map",
        subtitle=subtitle,
        data=data,
        caption=_caption(table, nowhere, covariate, asked=bool(languages)),
        gate_status=gate_status,
        figsize=figsize,
    )
    # A language far from all others would take most of the colours.
    ends = shown["potential_mean"].quantile([_TAIL, 1.0 - _TAIL] if len(shown) > _FEW else [0, 1])
    colours = ScalarMappable(Normalize(*ends), cmap="viridis")
    rows = [2.8, 2.3] if parts else [1.0]
    grid = figure.add_gridspec(len(rows), len(parts) or 1, height_ratios=rows)
    drawn = [(figure.add_subplot(grid[0, :]), _WORLD._replace(extent=extent))]
    drawn += [(figure.add_subplot(grid[1, i]), part) for i, part in enumerate(parts)]
    for axes, view in drawn:
        _draw(axes, view, _spread(shown, view), colours, languages)
    bar = figure.colorbar(
        colours,
        ax=[axes for axes, _ in drawn],
        shrink=0.6,
        aspect=28,
        pad=0.015,
        extend=_extend(shown, ends),
    )
    bar.set_label(axis_label("Language potential", unit), size=7.5)
    bar.ax.tick_params(labelsize=7)
    legend = drawn[0][0].legend(loc="lower left", fontsize=7, handletextpad=0.1)
    handles = filter(None, legend.legend_handles)
    for handle, colour in zip(handles, (GREY, GREY, "white"), strict=True):
        handle.set(facecolor=colour, edgecolor=GREY)
    figure.canvas.draw()
    # Each name once, in the part where its mark is farthest from the edge.
    margins = np.array([_margin(shown, view) for _, view in drawn])
    margins[0] = np.where(margins[1:].max(axis=0, initial=-1.0) > 0.0, -1.0, margins[0])
    asked = shown[names.LANGUAGE].isin(languages).to_numpy()
    for number, (axes, view) in enumerate(drawn):
        marks = _spread(shown, view)
        x, at = marks["x"].to_numpy(dtype=float), asked & (margins.argmax(axis=0) == number)
        other = np.column_stack([x, y])[~at]
        labels, nothing = language_labels(marks[at]), np.empty((0, 4))
        place_labels(axes, x[at], y[at], labels, lines=nothing, size=6.5, colour=MAIN, marks=other)
    return figure


def _margin(shown: pd.DataFrame, view: _View) -> Floats:
    """Distance from the nearest edge in shares of a view; below 0 outside."""
    west, east, south, north = view.extent
    x, y = shown["x"].to_numpy(dtype=float), shown["latitude"].to_numpy(dtype=float)
    across = np.minimum(x - west, east - x) / (east - west)
    return np.minimum(across, np.minimum(y - south, north - y) / (north - south))


def _extend(shown: pd.DataFrame, ends: pd.Series[float]) -> str:
    """Which ends of the colour bar stand for more than their number."""
    low = float(shown["potential_mean"].min()) < float(ends.iloc[0])
    high = float(shown["potential_mean"].max()) > float(ends.iloc[-1])
    return {(True, True): "both", (True, False): "min", (False, True): "max"}.get(
        (low, high), "neither"
    )


def _inside(shown: pd.DataFrame, view: _View) -> pd.Series[bool]:
    west, east, south, north = view.extent
    return shown["x"].between(west, east) & shown["latitude"].between(south, north)


def _spread(shown: pd.DataFrame, view: _View) -> pd.DataFrame:
    """Put marks of one place side by side, around it."""
    group = shown.groupby(["latitude", "longitude"], sort=False)["x"]
    rank = group.cumcount() - (group.transform("size") - 1) / 2
    return shown.assign(x=shown["x"] + view.step * rank)


def _draw(
    axes: Axes, view: _View, shown: pd.DataFrame, colours: ScalarMappable, languages: Sequence[str]
) -> None:
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path as Outline

    path = Outline.make_compound_path(*(Outline(ring) for ring in land()))
    axes.add_patch(PathPatch(path, facecolor="#EDEDED", edgecolor="#B5B5B5", linewidth=0.4))
    axes.set(xlim=view.extent[:2], ylim=view.extent[2:], aspect=view.stretch, xticks=[], yticks=[])
    axes.set_title(view.title, size=8, color=GREY, pad=3)
    axes.spines[:].set(visible=True, color=FAINT)
    shown = shown[_inside(shown, view)]
    records, outside = shown["observed"], shown["extrapolation"] & ~shown["observed"]
    for label, part, marker in (
        ("has records", shown[records], "s"),
        ("forecast", shown[~records & ~outside], "o"),
        ("extrapolation", shown[outside], "o"),
    ):
        hollow = label == "extrapolation"
        colour = colours.to_rgba(part["potential_mean"].to_numpy(dtype=float))
        face, edge = ("white", colour) if hollow else (colour, "white")
        marks = axes.scatter(part["x"], part["latitude"], s=view.size, marker=marker, label=label)
        marks.set(facecolor=face, edgecolor=edge, linewidth=1.1 if hollow else 0.4, zorder=3)
    asked = shown[shown[names.LANGUAGE].isin(languages)]
    rings = axes.scatter(asked["x"], asked["latitude"], s=4.5 * view.size, label="_asked")
    rings.set(facecolor="none", edgecolor=ACCENT, linewidth=1.2, zorder=4)


def _caption(table: pd.DataFrame, nowhere: list[str], covariate: str, *, asked: bool) -> str:
    width = (table["potential_upper"] - table["potential_lower"]).groupby(table["observed"])
    kinds = ("forecasts", "with records")
    medians = width.median()
    texts = value_texts(medians, max(0, column_digits(medians, 0.0 * medians, medians) - 1))
    widths = ", ".join(
        f"{text} ({kinds[bool(k)]})" for k, text in zip(medians.index, texts, strict=True)
    )
    hollow = (
        f" Hollow: extrapolations, whose {covariate} is outside the range of the languages with "
        "records."
    )
    shown = "; the figure 'forecast' shows them all" if covariate else ""
    text = (
        "Each mark is a language at one point of where it is spoken; marks of one place stand side "
        f"by side.{hollow if covariate else ''} Median widths of "
        f"{100 * float(table['ci_prob'].iloc[0]):.4g} % intervals: "
        f"{widths}{shown}. Places: WALS and Glottolog; land: "
        f"Natural Earth.{' Orange rings: the languages that were asked for.' if asked else ''}"
    )
    if len(table) - len(nowhere) > _FEW:
        text += f" Colours end at the {100 * _TAIL:g} % lowest and highest potentials."
    return f"{text} Not placed, no coordinates: {listed(nowhere)}." if nowhere else text
