"""Charts of the report with two axes of numbers: planes, scatter plots and the map."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import pandas as pd

from bayeseval import names
from bayeseval.output.text import shorten_names
from bayeseval.reporting.charts import Spec, chart_rows, value_axis

__all__ = ["language_map", "plane", "scatter"]

# Points whose names fit beside them.
_NAMED: Final = 20
# Sides of a point where its name can stand, the first ones first.
_SIDES: Final[Mapping[str, Mapping[str, Any]]] = {
    "right above": {"align": "left", "dx": 7, "dy": -7},
    "right below": {"align": "left", "dx": 7, "dy": 8},
    "left above": {"align": "right", "dx": -7, "dy": -7},
    "left below": {"align": "right", "dx": -7, "dy": 8},
}
# Widths of the chart in pixels from which on names are placed for it, and the width and height
# that its data then take at least. Still narrower ones have no names.
_ROOMS: Final[Mapping[int, tuple[float, float]]] = {
    920: (800.0, 330.0),
    600: (500.0, 330.0),
    330: (265.0, 330.0),
}
# The parameter that the page's script sets to the width of the chart.
_ROOM: Final = "room"
# Longer names are cut in the middle, so that different ones stay different: Vega cuts the end.
_WIDEST_NAME: Final = 24
# Width of a character in pixels.
_CHARACTER: Final = 6.4


def plane(
    table: pd.DataFrame, x: str, y: str, texts: Mapping[str, Sequence[str]], titles: tuple[str, str]
) -> Spec:
    """Two quantities of every model against each other, with both intervals.

    Parameters
    ----------
    table : pandas.DataFrame
        With the columns ``model`` and ``<x>_{mean,lower,upper}``, ``<y>_{...}``.
    x, y : str
        Prefixes of the columns.
    texts : mapping of str to sequence of str
        Texts of both quantities, by title.
    titles : tuple of str
        Of both axes.
    """
    parts = {
        f"{axis}_{end}": table[f"{prefix}_{end}"].to_numpy(dtype=float)
        for axis, prefix in (("x", x), ("y", y))
        for end in ("mean", "lower", "upper")
    }
    rows = pd.DataFrame(
        {
            "label": table[names.MODEL].astype(str),
            "short": shorten_names(list(table[names.MODEL].astype(str)), _WIDEST_NAME),
            "tx": list(texts["x"]),
            "ty": list(texts["y"]),
            **parts,
        }
    )
    ax = {"field": "x_mean", **value_axis(titles[0])}
    ay = {"field": "y_mean", **value_axis(titles[1])}
    rule = {"type": "rule", "strokeWidth": 1.4, "opacity": 0.4}
    layer: list[Spec] = [
        {
            "mark": rule,
            "encoding": {"x": {**ax, "field": "x_lower"}, "x2": {"field": "x_upper"}, "y": ay},
        },
        {
            "mark": rule,
            "encoding": {"y": {**ay, "field": "y_lower"}, "y2": {"field": "y_upper"}, "x": ax},
        },
        {"mark": {"type": "point", "filled": True, "size": 60}, "encoding": {"x": ax, "y": ay}},
    ]
    if len(rows) <= _NAMED:
        for least, size in _ROOMS.items():
            rows[f"side_{least}"] = _sides(rows, np.array(size))
        side_now = "".join(f"{_ROOM} >= {least} ? datum.side_{least} : " for least in _ROOMS)
        layer += [
            {
                "mark": {"type": "text", **mark},
                "encoding": {
                    "x": ax,
                    "y": ay,
                    "text": {
                        "condition": {"test": f"({side_now}'') == '{side}'", "field": "short"},
                        "value": "",
                    },
                },
            }
            for side, mark in _SIDES.items()
        ]
    return {
        "params": [{"name": _ROOM, "value": max(_ROOMS)}],
        "data": {"values": chart_rows(rows)},
        "height": 380,
        "encoding": {
            "tooltip": [
                {"field": "label", "title": "model"},
                {"field": "tx", "title": titles[0]},
                {"field": "ty", "title": titles[1]},
            ]
        },
        "layer": layer,
    }


def _sides(rows: pd.DataFrame, size: np.ndarray) -> list[str]:
    """Where the label of every point stands on a plane of this width and height.

    The first side with no other label or point on it; empty where there is none.
    """
    from rich.cells import cell_len

    parts = rows[["x_mean", "y_mean"]].to_numpy(dtype=float)
    ends = [rows[[f"x_{end}", f"y_{end}"]].to_numpy(dtype=float) for end in ("lower", "upper")]
    spans = np.ptp(np.vstack([parts, *ends]), axis=0)
    at = (parts - parts.min(axis=0)) / np.where(spans > 0.0, spans, 1.0) * size * (1.0, -1.0)
    taken = [np.array([x - 5.0, y - 5.0, x + 5.0, y + 5.0]) for x, y in at]
    sides = []
    for (x, y), label in zip(at, rows["short"], strict=True):
        wide = _CHARACTER * cell_len(label)
        boxes = {
            side: np.array(
                [x + 7.0, y + mark["dy"] - 6.0, x + 7.0 + wide, y + mark["dy"] + 6.0]
                if mark["align"] == "left"
                else [x - 7.0 - wide, y + mark["dy"] - 6.0, x - 7.0, y + mark["dy"] + 6.0]
            )
            for side, mark in _SIDES.items()
        }
        # A label that leaves the plane would be cut off.
        free = [
            side
            for side, box in boxes.items()
            if box[0] >= 0.0 and box[2] <= size[0] and not any(_overlap(box, t) for t in taken)
        ]
        sides.append(free[0] if free else "")
        taken += [boxes[side] for side in free[:1]]
    return sides


def _overlap(a: np.ndarray, b: np.ndarray) -> bool:
    return bool((a[:2] < b[2:]).all() and (b[:2] < a[2:]).all())


def scatter(table: pd.DataFrame, titles: tuple[str, str], *, equal: bool = True) -> Spec:
    """Points with vertical intervals against a measured number, and the line of equal values.

    Parameters
    ----------
    table : pandas.DataFrame
        Columns ``label``, ``x``, ``mean``, ``lower``, ``upper``, ``text`` and ``n``.
    titles : tuple of str
        Of both axes.
    equal : bool
        Whether both axes have the same unit.
    """
    x = {"field": "x", **value_axis(titles[0])}
    y = {"field": "mean", **value_axis(titles[1])}
    layer: list[Spec] = []
    if equal:
        known = table[["x", "mean"]].to_numpy(dtype=float)
        ends = [float(np.nanmin(known)), float(np.nanmax(known))]
        layer.append(
            {
                "data": {"values": [{"x": e, "mean": e} for e in ends]},
                "mark": {"type": "line", "strokeDash": [4, 4], "strokeWidth": 1, "opacity": 0.7},
                "encoding": {"x": x, "y": y, "tooltip": {"value": None}},
            }
        )
    layer += [
        {
            "mark": {"type": "rule", "strokeWidth": 1.4, "opacity": 0.4},
            "encoding": {"x": x, "y": {**y, "field": "lower"}, "y2": {"field": "upper"}},
        },
        {"mark": {"type": "point", "filled": True, "size": 46}, "encoding": {"x": x, "y": y}},
    ]
    return {
        "data": {"values": chart_rows(table)},
        "height": 360,
        "encoding": {
            "tooltip": [
                {"field": "label", "title": "language"},
                {"field": "text", "title": titles[1]},
                {"field": "x", "title": titles[0], "format": ".4~g"},
                {"field": "n", "title": "records"},
            ]
        },
        "layer": layer,
    }


def language_map(
    table: pd.DataFrame, land: Sequence[np.ndarray], *, title: str, hollow: bool
) -> Spec:
    """A point where each language is spoken, coloured by its potential.

    Parameters
    ----------
    table : pandas.DataFrame
        Columns ``label``, ``text``, ``mean``, ``longitude``, ``latitude`` and ``seen``, which is
        ``with records`` or ``forecast``.
    land : sequence of ndarray, shape (n_points, 2)
        Outlines, longitude and latitude.
    title : str
        Of the colours.
    hollow : bool
        Whether there are languages without records, which get another shape.
    """
    outline = [
        {"ring": i, "order": j, "longitude": float(x), "latitude": float(y)}
        for i, ring in enumerate(land)
        for j, (x, y) in enumerate([*ring, ring[0]])
    ]
    bounds = {"x": [-128, 192], "y": [-50, 73]}
    x = {
        "field": "longitude",
        "type": "quantitative",
        "axis": None,
        "scale": {"domain": bounds["x"], "nice": False},
    }
    y = {
        "field": "latitude",
        "type": "quantitative",
        "axis": None,
        "scale": {"domain": bounds["y"], "nice": False},
    }
    colour = {
        "field": "mean",
        "type": "quantitative",
        "title": title,
        "scale": {"scheme": "viridis"},
        "legend": {"orient": "top", "gradientLength": 200},
    }
    point: Spec = {
        "x": x,
        "y": y,
        "fill": colour,
        "tooltip": [
            {"field": "label", "title": "language"},
            {"field": "text", "title": title},
            {"field": "seen", "title": "scores"},
        ],
    }
    if hollow:
        point["shape"] = {
            "field": "seen",
            "type": "nominal",
            "title": None,
            "scale": {"domain": ["with records", "forecast"], "range": ["square", "circle"]},
            "legend": {"orient": "top"},
        }
    return {
        "height": {"ratio": 0.44},
        "layer": [
            {
                "data": {"values": outline},
                "mark": {
                    "type": "line",
                    "clip": True,
                    "strokeWidth": 0.8,
                    "opacity": 0.55,
                    "tooltip": None,
                },
                "encoding": {
                    "x": x,
                    "y": y,
                    "detail": {"field": "ring"},
                    "order": {"field": "order"},
                },
            },
            {
                "data": {"values": chart_rows(table)},
                "mark": {"type": "point", "size": 70, "strokeWidth": 0.8, "opacity": 1},
                "encoding": point,
            },
        ],
    }
