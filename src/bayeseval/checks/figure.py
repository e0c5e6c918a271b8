"""The figure of the model checks: calibration, and sds by language against predicted tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from bayeseval.checks.residuals import LEAST_RECORDS
from bayeseval.output._parts import label_rows, language_labels
from bayeseval.output._style import ACCENT, FAINT, GREY, MAIN, new_figure, styled
from bayeseval.output.numbers import axis_label

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["checks_figure"]

_MANY = 60
# Inches: a row of a language, the panel of the calibration, ticks and label of an axis.
_ROW = 0.14
_CURVE = 3.4
_AXIS = 0.8
# Fewer languages than this are not worth a panel of their own.
_FEW = 5


@styled
def checks_figure(
    tables: Mapping[str, pd.DataFrame],
    *,
    subtitle: str,
    data: str = "",
    gate_status: str,
    unit: str = "",
    figsize: tuple[float, float] | None = None,
) -> Figure:
    """ECDF of the PIT with its band, and the sd of every language's scores.

    Parameters
    ----------
    tables : mapping of str to pandas.DataFrame
        ``calibration`` and, where languages have enough records, ``sd_by_language``.
    subtitle, data, gate_status : str
        Which fit, what was fitted, and whether it converged.
    unit : str
        Unit of the scores; empty where it is not known.
    figsize : tuple of float, optional
        Width and height in inches.
    """
    ecdf, sds = tables["calibration"], tables.get("sd_by_language", pd.DataFrame())
    shown = _furthest(sds) if len(sds) else sds
    rows = len(shown)
    # Languages begin below the calibration and go on at the right, from the top.
    height = max(3.8, 0.5 * (_ROW * rows + _CURVE + 2 * _AXIS))
    right = min(rows, int((height - _AXIS) / _ROW))
    below = rows - right
    if below < _FEW:
        right, below = rows, 0
        height = max(3.8, _ROW * rows + _AXIS)
    figure = new_figure(
        9.0,
        height,
        title="Does the model predict scores like these?",
        subtitle=subtitle,
        data=data,
        caption=(
            f"{'Curve' if rows else 'Blue'}: share of scores that fall below each level of their "
            f"prediction, less that level. {_predictions_text(str(ecdf['kind'].iloc[0]))} If the "
            "model holds, the curve stays in the grey band in 95 % of tables (the "
            "check warns beyond 97.5 %); where it leaves the band, it is orange. A curve that is "
            "above zero on the left and below zero on the right says that predictions are too "
            "narrow, one below zero on the left and above zero on the right that they are too wide."
            + (_languages_text(rows, len(sds), wrapped=below > 0) if rows else "")
        ),
        gate_status=gate_status,
        labels=language_labels(shown) if rows else (),
        figsize=figsize,
    )
    grid = figure.add_gridspec(
        2 if below else 1,
        2 if rows else 1,
        height_ratios=[_CURVE, height - _CURVE] if below else [1.0],
    )
    _calibration(figure.add_subplot(grid[0, 0]), ecdf)
    if rows:
        first = figure.add_subplot(grid[1, 0]) if below else None
        if first is not None:
            _language_sds(first, shown.head(below), unit)
        last = figure.add_subplot(grid[:, 1], sharex=first)
        _language_sds(last, shown.tail(right).reset_index(drop=True), unit)
    return figure


def _predictions_text(kind: str) -> str:
    """Which predictions the scores are held against, and where the band comes from."""
    if kind.startswith("leave-one-out"):
        return (
            "Each score is predicted from all the others; the grey band comes from tables that "
            "were drawn from the model."
        )
    return (
        "Scores are predicted by draws of the posterior, which has seen them; the grey band takes "
        "them as independent."
    )


def _languages_text(shown: int, total: int, *, wrapped: bool) -> str:
    """What points and bars of the languages are, and which languages there are."""
    text = (
        " Points: sd of the scores of a language; bars: 95 % equal-tailed intervals of this sd in "
        "tables that the posterior predicts; orange points lie outside. "
    )
    if shown < total:
        text += (
            f"Of the {total} languages with at least {LEAST_RECORDS} records, the {shown} with the "
            "smallest p-values are drawn; all are in tables/sd_by_language.csv. "
        )
    text += "The language with the highest predicted sd is on top"
    return text + (
        " of the left column, which goes on at the top of the right one." if wrapped else "."
    )


def _furthest(sds: pd.DataFrame) -> pd.DataFrame:
    kept = sds.sort_values("p", kind="stable").head(_MANY)
    return kept.sort_values("replicated_mean", ascending=False, kind="stable").reset_index(
        drop=True
    )


def _calibration(axes: Axes, ecdf: pd.DataFrame) -> None:
    x = ecdf["pit"].to_numpy(dtype=float)
    lower, upper, curve = (
        ecdf[key].to_numpy(dtype=float) - x for key in ("lower", "upper", "ecdf")
    )
    axes.fill_between(x, lower, upper, color=FAINT, linewidth=0).set_gid("band")
    axes.axhline(0.0, color=GREY, linewidth=0.8, linestyle=":")
    outside = (curve < lower) | (curve > upper)
    axes.plot(x, curve, color=MAIN, linewidth=1.4, gid="ecdf")
    axes.scatter(x[outside], curve[outside], s=7, color=ACCENT, zorder=3, linewidths=0).set_gid(
        "outside"
    )
    axes.set_xlabel("PIT: where in its prediction a score falls")
    axes.set_ylabel("Share of scores below, less expected")
    axes.set_xlim(0.0, 1.0)


def _language_sds(axes: Axes, sds: pd.DataFrame, unit: str) -> None:
    y = np.arange(len(sds), dtype=float)
    lower, upper, observed = (
        sds[key].to_numpy(dtype=float)
        for key in ("replicated_lower", "replicated_upper", "observed")
    )
    axes.hlines(y, lower, upper, color=GREY, alpha=0.45, linewidth=2.4).set_gid("bars")
    outside = (observed < lower) | (observed > upper)
    for part, colour in ((~outside, MAIN), (outside, ACCENT)):
        axes.scatter(observed[part], y[part], s=13, color=colour, zorder=3, linewidths=0)
    label_rows(axes, language_labels(sds), 6.5)
    axes.set_xlabel(axis_label("Sd of the scores of a language", unit))
