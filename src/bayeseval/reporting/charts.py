"""Charts of the report as Vega-Lite specs: data and encodings, no colours of the page.

The page's script adds what depends on the reader: width, and light or dark colours. Every number
of a chart stands in a table of the page, too.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pandas as pd

from bayeseval.output.text import shorten_names

__all__ = [
    "Chart",
    "calibration_chart",
    "chart_rows",
    "forest",
    "heat_map",
    "interval_spec",
    "value_axis",
]

Spec = dict[str, Any]

_ROW: Final = 19
# Rows of normal height, and rows that have a label each; more stand side by side, and their labels
# are in the table.
_FEW: Final = 60
MOST_LABELLED: Final = 400
_LOW_ROW: Final = 15
_DIGITS: Final = 5
# Characters of a name at the left of a heat map, and of one below it.
_WIDTH_DOWN: Final = 30
_WIDTH_ACROSS: Final = 20
# Columns of a heat map up to which its numbers are written into it.
_WRITTEN: Final = 16


@dataclass(frozen=True)
class Chart:
    """One chart with its caption.

    Attributes
    ----------
    id : str
        Of the HTML element.
    label : str
        What it shows, in one line, for readers who do not see it.
    caption : str
        How to read it.
    spec : dict
        Vega-Lite.
    """

    id: str
    label: str
    caption: str
    spec: Spec
    kind: str = "chart"


def chart_rows(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows for Vega-Lite: five significant digits, null for what is missing."""
    rows = []
    for row in table.to_dict("records"):
        rows.append(
            {
                str(key): (None if not np.isfinite(value) else float(f"{value:.{_DIGITS}g}"))
                if isinstance(value, float)
                else value
                for key, value in row.items()
            }
        )
    return rows


def value_axis(title: str, **more: Any) -> Spec:
    """An axis of numbers that need not start at zero."""
    return {
        "type": "quantitative",
        "title": title,
        "scale": {"zero": False, "nice": True},
        "axis": {"tickCount": 8},
        **more,
    }


def forest(
    table: pd.DataFrame,
    prefix: str,
    labels: Sequence[str],
    texts: Sequence[str],
    *,
    title: str,
    what: str,
    scale: float = 1.0,
    zero: bool = False,
) -> Spec:
    """Points with intervals, a row each; without labels and side by side when they are over 400.

    Parameters
    ----------
    table : pandas.DataFrame
        With the columns ``<prefix>_{mean,lower,upper}``, in the order of the chart.
    prefix : str
    labels, texts : sequence of str
        Name of every row, and its numbers as the table of the page shows them.
    title : str
        Of the axis of values.
    what : str
        What the rows are.
    scale : float
        Factor, 100 for per cent.
    zero : bool
        Whether the axis starts at zero.
    """
    rows = pd.DataFrame(
        {
            "label": list(labels),
            "text": list(texts),
            "place": np.arange(1, len(table) + 1),
            **{
                end: scale * table[f"{prefix}_{end}"].to_numpy(dtype=float)
                for end in ("mean", "lower", "upper")
            },
        }
    )
    return interval_spec(chart_rows(rows), n=len(rows), title=title, what=what, zero=zero)


def interval_spec(
    rows: Sequence[Mapping[str, Any]], *, n: int, title: str, what: str, zero: bool = False
) -> Spec:
    """The spec of :func:`forest` for rows with ``label``, ``text``, ``place`` and the numbers."""
    values = {"field": "mean", **value_axis(title)}
    values["scale"] = {"zero": zero, "nice": True}
    ends = ({"field": "lower"}, {"field": "upper"})
    tooltip = [
        {"field": "label", "title": what},
        {"field": "text", "title": title},
    ]
    place: Spec
    if n <= MOST_LABELLED:
        place = {
            "field": "label",
            "type": "nominal",
            "sort": {"field": "place"},
            "title": None,
            "axis": {
                "labelLimit": 190,
                "labelOverlap": False,
                "ticks": False,
                "domain": False,
                "grid": False,
            },
        }
        if n > _FEW:
            place["axis"]["labelFontSize"] = 10
            # In sight at the start of a chart that scrolls.
            values["axis"] = {**values["axis"], "orient": "top"}
        across = {"x": {**values, "field": "lower"}, "x2": ends[1], "y": place}
        point = {"x": values, "y": place}
        height: Any = (_ROW if n <= _FEW else _LOW_ROW) * n
    else:
        place = {
            "field": "place",
            "type": "quantitative",
            "title": f"{what}s, in the order of the table",
            "scale": {"domain": [0, n + 1], "nice": False},
            "axis": {"grid": False, "tickMinStep": 1},
        }
        across = {"y": {**values, "field": "lower"}, "y2": ends[1], "x": place}
        point = {"y": values, "x": place}
        height = 320
    return {
        "data": {"name": "rows", "values": list(rows)},
        "height": height,
        "encoding": {"tooltip": tooltip},
        "layer": [
            {"mark": {"type": "rule", "strokeWidth": 2, "opacity": 0.55}, "encoding": across},
            {"mark": {"type": "point", "filled": True, "size": 42}, "encoding": point},
        ],
    }


def heat_map(
    matrix: pd.DataFrame,
    *,
    columns: str,
    value: str,
    texts: pd.DataFrame,
    diverging: bool = False,
    top: float = 1.0,
) -> Spec:
    """Probabilities in rows and columns.

    Parameters
    ----------
    matrix : pandas.DataFrame
        Numbers, missing ones as NaN; rows are models.
    columns : str
        What the columns are.
    value : str
        What the numbers are.
    texts : pandas.DataFrame
        Texts of the numbers.
    diverging : bool
        Colours that part at one half, for probabilities of an order.
    top : float
        Number of the last colour.
    """
    numbers = matrix.to_numpy(dtype=float)
    rows = [
        {"row": str(a), "column": str(b), "p": float(f"{p:.3g}"), "text": str(texts.iloc[i, j])}
        for i, a in enumerate(matrix.index)
        for j, b in enumerate(matrix.columns)
        if np.isfinite(p := numbers[i, j])
        if diverging or p > 0.0
    ]
    wide = len(matrix.columns)
    # Names with a dollar sign are colours that the page's script knows, light and dark.
    scale: Spec = {"domain": [0, top], "range": ["$least", "$most"]}
    if diverging:
        scale = {"domain": [0, 0.5, 1], "range": ["$worse", "$even", "$better"]}
    order = [str(one) for one in matrix.index]
    axis = {"ticks": False, "domain": False}
    x: Spec = {
        "field": "column",
        "type": "ordinal",
        "sort": [str(one) for one in matrix.columns],
        "title": columns,
        "axis": {
            **axis,
            **_cut_names(matrix.columns, _WIDTH_ACROSS),
            "labelAngle": 0 if not diverging else -60 if wide <= _WRITTEN else -90,
            **({"labelFontSize": 9} if diverging and wide > _WRITTEN else {}),
            "labelOverlap": not diverging,
        },
        "scale": {"domain": [str(one) for one in matrix.columns]},
    }
    y: Spec = {"field": "row", "type": "ordinal", "sort": order, "title": None}
    y["axis"] = {**axis, **_cut_names(matrix.index, _WIDTH_DOWN)}
    y["scale"] = {"domain": order}
    layer: list[Spec] = [
        {
            "mark": {"type": "rect"},
            "encoding": {
                "color": {
                    "field": "p",
                    "type": "quantitative",
                    "title": value,
                    "scale": scale,
                    "legend": {"orient": "top", "gradientLength": 160},
                }
            },
        }
    ]
    if wide <= _WRITTEN:
        strong = "datum.p > 0.8 || datum.p < 0.2" if diverging else f"datum.p > {0.5 * top:g}"
        layer.append(
            {
                "transform": [{"filter": "datum.p >= 0.005"}],
                "mark": {"type": "text", "fontSize": 10},
                "encoding": {
                    "text": {"field": "p", "type": "quantitative", "format": ".2f"},
                    "color": {"condition": {"test": strong, "value": "$strong"}, "value": "$weak"},
                },
            }
        )
    return {
        "data": {"values": rows},
        "usermeta": {
            # Names below the columns are as high as their letters.
            "least": 150 + (36 if wide <= _WRITTEN else 11 if diverging else 9) * wide,
            "diverging": diverging,
        },
        "height": (22 if len(matrix) <= 30 else 14) * len(matrix),
        "encoding": {
            "x": x,
            "y": y,
            "tooltip": [
                {"field": "row", "title": "model"},
                {"field": "column", "title": columns},
                {"field": "text", "title": value},
            ],
        },
        "layer": layer,
    }


def _cut_names(names: Iterable[Any], width: int) -> Spec:
    """Labels of an axis that are cut in their middle, as in the figures, and stay different."""
    whole = [str(name) for name in names]
    short = shorten_names(whole, width)
    # A limit of 0: the browser does not cut them again, at their end.
    cut = {name: text for name, text in zip(whole, short, strict=True) if name != text}
    if not cut:
        return {"labelLimit": 0}
    return {
        "labelLimit": 0,
        "labelExpr": f"({json.dumps(cut)})[datum.label] || datum.label",
    }


def calibration_chart(table: pd.DataFrame) -> Spec:
    """Share of scores below each level of their prediction less that level, with its band."""
    rows = pd.DataFrame(
        {
            "level": table["pit"].astype(float),
            "difference": table["ecdf"].astype(float) - table["pit"].astype(float),
            "low": table["lower"].astype(float) - table["pit"].astype(float),
            "high": table["upper"].astype(float) - table["pit"].astype(float),
        }
    )
    x = {"field": "level", "type": "quantitative", "title": "level of the prediction"}
    title = "share of scores below it, less the level"
    y = {"type": "quantitative", "title": title}
    return {
        "data": {"values": chart_rows(rows)},
        "height": 240,
        "encoding": {"x": x},
        "layer": [
            {
                "mark": {"type": "area", "opacity": 0.25},
                "encoding": {"y": {**y, "field": "low"}, "y2": {"field": "high"}},
            },
            {
                "mark": {"type": "line", "strokeWidth": 1.8, "tooltip": None},
                "encoding": {
                    "y": {**y, "field": "difference"},
                    "tooltip": [
                        {"field": "level", "title": "level"},
                        {"field": "difference", "title": title, "format": ".3f"},
                    ],
                },
            },
        ],
    }
