"""Labels beside points, without overlaps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from bayeseval._typing import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["place_labels"]


# Distances in points and directions that are tried, near and to the right first.
_RADII = (5.0, 9.0, 15.0, 24.0, 36.0, 50.0, 66.0, 84.0)
_ANGLES = np.deg2rad([0, 25, -25, 180, 155, -155, 90, -90, 50, -50, 130, -130, 70, -70, 110, -110])
# From this distance on a thin line says which point a label belongs to.
_LEADER_FROM = 12.0
_MARKER = 5.0


def place_labels(
    axes: Axes,
    x: Floats,
    y: Floats,
    labels: Sequence[str],
    *,
    lines: Floats,
    size: float,
    colour: str,
    marks: Floats | None = None,
    first: Sequence[bool] | None = None,
) -> list[str]:
    """Write a label beside every point.

    Each label takes the nearest free place around its point: inside the axes, off
    other labels and markers, and off the lines (interval bars) where that is possible.
    Points with the most neighbours choose first. A label lies on other marks only if there is
    no place off them.

    Parameters
    ----------
    axes : matplotlib.axes.Axes
        With final limits and position.
    x, y : ndarray, shape (n_points,)
        Data coordinates.
    labels : sequence of str
    lines : ndarray, shape (n_lines, 4)
        Level and upright lines to keep off, as x0, y0, x1, y1 in data coordinates.
    size : float
        Font size in points.
    colour : str
        Of the leader lines.
    marks : ndarray, shape (n_marks, 2), optional
        Data coordinates of marks without a label.
    first : sequence of bool, optional
        Points that choose before all others.

    Returns
    -------
    list of str
        Labels for which there was no room; they are not written.
    """
    figure = axes.get_figure(root=True)
    if figure is None or len(labels) == 0:
        return []
    per_point = figure.dpi / 72.0
    points = axes.transData.transform(np.column_stack([x, y]))
    frame = axes.get_window_extent()
    ends = axes.transData.transform(lines.reshape(-1, 2)).reshape(-1, 4)
    # Boxes are x0, y0, x1, y1 in pixels.
    strokes = np.column_stack(
        [
            np.minimum(ends[:, :2], ends[:, 2:]) - per_point,
            np.maximum(ends[:, :2], ends[:, 2:]) + per_point,
        ]
    )
    marker = _MARKER * per_point
    occupied = np.column_stack([points - marker, points + marker])
    distance = np.hypot(*(points[:, None] - points[None]).transpose(2, 0, 1))
    crowd = (distance < 60.0 * per_point).sum(axis=1)
    order = np.lexsort((-crowd, ~np.asarray(first if first is not None else crowd < 0, dtype=bool)))
    others = np.empty((0, 4))
    if marks is not None and len(marks):
        centres = axes.transData.transform(marks)
        others = np.column_stack([centres - 0.6 * marker, centres + 0.6 * marker])

    left_out = []
    for i in order:
        text = axes.annotate(
            labels[i],
            (x[i], y[i]),
            xytext=(0, 0),
            textcoords="offset points",
            ha="center",
            va="center",
            size=size,
            annotation_clip=False,
        )
        text.set_in_layout(False)
        extent = text.get_window_extent()
        half = np.array([extent.width, extent.height]) / 2.0 + per_point
        place = (points[i], half)
        offset = _best_offset(*place, np.vstack([occupied, others]), strokes, frame, per_point)
        if offset is None and len(others):
            offset = _best_offset(*place, occupied, strokes, frame, per_point)
        if offset is None:
            text.remove()
            left_out.append(labels[i])
            continue
        centre = points[i] + offset
        occupied = np.vstack([occupied, [*(centre - half), *(centre + half)]])
        text.set_position(tuple(offset / per_point))
        _draw_leader(axes, points[i], centre, half, per_point, colour)
    return left_out


def _best_offset(
    point: Floats, half: Floats, occupied: Floats, strokes: Floats, frame: Any, per_point: float
) -> Floats | None:
    """Pixels from a point to the centre of its label, or None when all is taken."""
    best, least = None, np.inf
    for step, radius in enumerate(_RADII):
        for turn, angle in enumerate(_ANGLES):
            direction = np.array([np.cos(angle), np.sin(angle)])
            # The label's box touches a circle of this radius around the point.
            offset = direction * radius * per_point + np.sign(np.round(direction, 6)) * half
            if abs(direction[0]) > 0.3:
                offset[1] = direction[1] * (radius * per_point + half[1])
            low, high = point + offset - half, point + offset + half
            outside = (
                low[0] < frame.x0 or low[1] < frame.y0 or high[0] > frame.x1 or high[1] > frame.y1
            )
            if outside or _overlaps(low, high, occupied):
                continue
            cost = step + 0.05 * turn + 2.5 * _overlaps(low, high, strokes)
            if cost < least:
                best, least = offset, cost
    return best


def _overlaps(low: Floats, high: Floats, boxes: Floats) -> int:
    hits = (boxes[:, :2] < high).all(axis=1) & (boxes[:, 2:] > low).all(axis=1)
    return int(hits.sum())


def _draw_leader(
    axes: Axes, point: Floats, centre: Floats, half: Floats, per_point: float, colour: str
) -> None:
    # From the point to the nearest edge of the label's box.
    edge = np.clip(point, centre - half, centre + half)
    if np.hypot(*(edge - point)) < _LEADER_FROM * per_point:
        return
    (x0, y0), (x1, y1) = axes.transData.inverted().transform([point, edge])
    axes.plot([x0, x1], [y0, y1], color=colour, linewidth=0.6, zorder=1.5, label="_leader")
