"""Figure of correlations: which models are strong and weak in the same languages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pandas as pd

from bayeseval._typing import Floats
from bayeseval.output._parts import FEW_RANKS, MANY_ROWS, label_width, labels_of
from bayeseval.output._style import FAINT, new_figure, styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["correlations_figure"]

_WIDTH: Final = 7.2
# Models in a figure.
_MOST: Final = 120


@styled
def correlations_figure(
    table: pd.DataFrame, *, subtitle: str, data: str = "", gate_status: str
) -> Figure:
    """Correlations over languages of every pair of models; similar models are neighbours.

    Parameters
    ----------
    table : pandas.DataFrame
        ``model_correlations.csv``.
    subtitle, data, gate_status : str
        See :func:`bayeseval.fitting.report.figures.figure_writers`.
    """
    every = list(dict.fromkeys([*table["model_a"], *table["model_b"]]))
    models = every[:_MOST]
    table = table[table["model_a"].isin(models) & table["model_b"].isin(models)]
    mean, known = (
        _matrix(table, models, values)
        for values in (
            table["correlation_mean"],
            ((table["correlation_lower"] > 0.0) | (table["correlation_upper"] < 0.0)).astype(float),
        )
    )
    order = _neighbours(mean)
    mean, known = (matrix[np.ix_(order, order)] for matrix in (mean, known))
    n, models = len(models), [models[i] for i in order]
    cell = 0.3 if n <= FEW_RANKS else 0.17 if n <= MANY_ROWS else 0.11
    size = 8.0 if n <= FEW_RANKS else 7.0 if n <= MANY_ROWS else 5.0
    labels, side = labels_of(models), max(2.2, n * cell)
    percent = f"{100 * float(table['ci_prob'].iloc[0]):.4g}"
    figure = new_figure(
        max(_WIDTH, side + label_width(labels, size) + 1.6),
        side + 0.8,
        title="Which models are strong and weak in the same languages?",
        subtitle=subtitle,
        data=data,
        caption=(
            "A cell is the posterior mean of the correlation over languages of the effects of two "
            "models: 1 if both are strong and weak in the same languages, compared with the other "
            "models and apart from their levels, -1 if one is strong where the other is weak. "
            + (
                f"Numbers: correlations whose {percent} % interval does not contain 0. "
                if n <= FEW_RANKS
                else ""
            )
            + "Similar models are next to each other; columns carry the numbers of the rows. "
            "Intervals are in tables/model_correlations.csv."
            + (f" The first {_MOST} of {len(every)} models." if len(every) > _MOST else "")
        ),
        gate_status=gate_status,
        labels=models,
    )
    axes = figure.subplots()
    shown = np.where(np.eye(n, dtype=bool), np.nan, mean)
    image = axes.imshow(shown, cmap="RdBu", vmin=-1.0, vmax=1.0, interpolation="nearest")
    image.set_gid("correlations")
    axes.set_facecolor(FAINT)
    if n <= FEW_RANKS:
        for i, j in np.argwhere(known.astype(bool) & ~np.eye(n, dtype=bool)):
            colour = "white" if abs(mean[i, j]) > 0.65 else "black"
            text = f"{mean[i, j]:.1f}".replace("-0.0", "0.0")
            axes.text(j, i, text, size=6.0, ha="center", va="center", color=colour)
    at = [i for i in range(n) if n <= FEW_RANKS or i == 0 or (i + 1) % 5 == 0]
    axes.set_xticks(at, labels=[str(i + 1) for i in at], size=size)
    numbered = [f"{label}  {i + 1}" for i, label in enumerate(labels)]
    axes.set_yticks(range(n), labels=numbered, size=size)
    axes.tick_params(length=0)
    bar = figure.colorbar(image, ax=axes, fraction=0.04, pad=0.02)
    bar.set_label("Correlation over languages", size=8.0)
    return figure


def _matrix(table: pd.DataFrame, models: list[str], values: pd.Series[float]) -> Floats:
    """Symmetric matrix of the values of pairs, with a diagonal of ones."""
    place = {model: i for i, model in enumerate(models)}
    matrix = np.eye(len(models))
    rows, columns = (table[side].map(place).to_numpy() for side in ("model_a", "model_b"))
    matrix[rows, columns] = matrix[columns, rows] = values.to_numpy(dtype=np.float64)
    return matrix


def _neighbours(correlation: Floats) -> list[int]:
    """Order in which models that are correlated are next to each other."""
    from scipy.cluster.hierarchy import leaves_list, linkage
    from scipy.spatial.distance import squareform

    if len(correlation) < 3:
        return list(range(len(correlation)))
    distance = squareform(1.0 - correlation, checks=False)
    return [int(i) for i in leaves_list(linkage(distance, "average", optimal_ordering=True))]
