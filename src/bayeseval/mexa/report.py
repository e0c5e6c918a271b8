"""Alignment with a pivot language: its folder, its heat map and what the terminal shows."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pandas as pd

from bayeseval._text import counted
from bayeseval._typing import Figures
from bayeseval.languages.labels import names_of
from bayeseval.output._parts import language_labels
from bayeseval.output._style import (
    figure_files,
    figure_formats,
    new_figure,
    styled,
)
from bayeseval.output.language_names import add_language_names, name_and_code
from bayeseval.output.store import Writer, write_csv, write_folder
from bayeseval.output.text import shorten_names, text_table, wrapped

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage

__all__ = [
    "alignment_figure",
    "alignment_folder",
    "alignment_preamble",
    "format_alignment",
    "write_alignment",
]

_WIDTH: Final = 7.2
_COLUMN: Final = 5.0
_ROW: Final = 0.155
# Rows of one column of the figure; languages on the terminal, the best and as many of the worst.
_ROWS: Final = 70
_LISTED: Final = 12


def alignment_folder(model: str, embedding: str, pooling: str, sentences: int) -> Path:
    """Result folder named after the inputs, under ``results/`` of the working directory."""
    name = re.sub(r"[^\w.-]+", "_", model.rstrip("/").rpartition("/")[2]).strip("._") or "model"
    return Path("results") / "mexa" / f"{name}-{embedding}-{pooling}-n{sentences}"


def alignment_preamble(languages: int, sentences: int, *, pivot: str, work: Path) -> str:
    """What is about to be done, and that it may be stopped."""
    return (
        f"{languages} languages, {sentences} sentences each, pivot {pivot}. A language that is "
        f"done is kept in {work} until all are: after a stop the same command goes on."
    )


def write_alignment(
    folder: Path,
    tidy: pd.DataFrame,
    pooled: pd.DataFrame,
    *,
    run: Mapping[str, Any],
    embeddings: Mapping[str, Path] | None = None,
    figures: Figures = True,
    force: bool = False,
) -> Path:
    """Write ``alignment.csv``, ``pooled.csv``, the heat map and ``run.json``.

    Parameters
    ----------
    folder : Path
    tidy, pooled : pandas.DataFrame
        One row per language and layer; one row per language.
    run : mapping
        Contents of ``run.json``.
    embeddings : mapping of str to Path, optional
        Files of embeddings by language; copied to ``embeddings/``.
    figures : bool, str or sequence of str
        Whether to draw ``figures/alignment.png``, or in which formats.
    force : bool
        Overwrite the results of a different run.

    Raises
    ------
    InputError
        If the folder may not be replaced, or cannot be written.
    """
    known = _names(pooled)
    writers: dict[str, Writer] = {
        f"{name}.csv": partial(write_csv, add_language_names(table, known, after="language"))
        for name, table in (("alignment", tidy), ("pooled", pooled))
    }
    for label, path in (embeddings or {}).items():
        writers[f"embeddings/{label}{path.suffix}"] = partial(shutil.copyfile, path)
    formats = figure_formats(figures)
    if formats:
        writers |= figure_files("alignment", alignment_figure(tidy, pooled), formats)
    return write_folder(folder, writers, run=run, force=force)


@styled
def alignment_figure(tidy: pd.DataFrame, pooled: pd.DataFrame) -> Figure:
    """Heat map of alignment over layers and languages, as figure 3 of arXiv:2410.05873.

    Parameters
    ----------
    tidy : pandas.DataFrame
        ``alignment.csv`` of a folder that ``bayeseval mexa`` wrote, one row per language and
        layer, with columns ``language``, ``layer``, ``alignment`` (0 to 1, NaN where embeddings
        are not finite) and ``n``, the number of sentences.
    pooled : pandas.DataFrame
        ``pooled.csv``, one row per language, with columns ``language``, ``model``, ``embedding``
        (``weighted`` or ``last``), ``pooling`` (``mean`` or ``max``) and ``alignment``; its order
        is that of the rows. More than 70 languages stand in columns.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    KeyError
        If a column is missing.

    Examples
    --------
    >>> import pandas as pd
    >>> languages = ["deu_Latn", "swh_Latn"]
    >>> tidy = pd.DataFrame(
    ...     {"language": languages * 2, "layer": [0, 0, 1, 1], "alignment": [0.4, 0.1, 0.9, 0.5]}
    ... ).assign(n=100)
    >>> pooled = pd.DataFrame({"language": languages, "alignment": [0.65, 0.3]})
    >>> pooled = pooled.assign(model="org/model", embedding="weighted", pooling="mean")
    >>> alignment_figure(tidy, pooled).axes[0].get_xlabel()
    'Layer'
    """
    order, first = list(pooled["language"]), pooled.iloc[0]
    grid = tidy.pivot(index="language", columns="layer", values="alignment").loc[order]
    n, n_columns = int(tidy["n"].iloc[0]), max(1, -(-len(order) // _ROWS))
    n_rows = -(-len(order) // n_columns)
    kind = {"weighted": "position-weighted average", "last": "last token"}[first["embedding"]]
    figure = new_figure(
        _WIDTH if n_columns == 1 else n_columns * _COLUMN + 1.0,
        _ROW * n_rows + 1.1,
        title="Cross-lingual alignment by layer",
        subtitle=f"{shorten_names([str(first['model'])], 60)[0]}: {n} sentences, {kind}",
        caption=(
            "A row is a language, a column is a layer of the model; layer 0 is the embedding "
            "layer. Colour: alignment, the share of sentences that are nearer to their own "
            "translation than to any other, in both directions. Numbers on the right: "
            f"{'mean' if first['pooling'] == 'mean' else 'maximum'} over layers, from the best "
            f"language to the worst{', column by column' if n_columns > 1 else ''}. Grey: "
            "embeddings that are not finite."
        ),
        data=f"Data: {counted(len(order), 'language')}, {counted(n, 'parallel sentence')} each.",
        gate_status="pass",
        labels=order,
    )
    scores = pooled.set_index("language")["alignment"]
    panels = list(figure.subplots(1, n_columns, squeeze=False)[0])
    for number, axes in enumerate(panels):
        part = grid.iloc[number * n_rows : (number + 1) * n_rows]
        image = _draw_alignment(axes, part, scores, n_rows)
    bar = figure.colorbar(
        image, ax=panels, pad=0.09 / n_columns, fraction=0.05 / n_columns, aspect=30
    )
    bar.set_label("Alignment")
    bar.ax.spines["outline"].set_visible(False)
    return figure


def _draw_alignment(
    axes: Axes, part: pd.DataFrame, scores: pd.Series[float], n_rows: int
) -> AxesImage:
    """One column of languages; all columns have the height of `n_rows`."""
    from matplotlib import colormaps

    image = axes.imshow(
        np.ma.masked_invalid(part.to_numpy(dtype=float)),
        aspect="auto",
        cmap=colormaps["viridis"].with_extremes(bad="0.8"),
        vmin=0.0,
        vmax=1.0,
        interpolation="nearest",
    )
    axes.set_ylim(n_rows - 0.5, -0.5)
    codes = pd.DataFrame({"language": list(part.index)})
    labels = language_labels(add_language_names(codes, _names(codes)))
    axes.set_yticks(np.arange(len(part)), labels, fontsize=7.0)
    for row, label in enumerate(part.index):
        axes.annotate(
            "" if np.isnan(scores[label]) else f"{scores[label]:.2f}",
            (1.0, row),
            xycoords=("axes fraction", "data"),
            xytext=(4, 0),
            textcoords="offset points",
            va="center",
            fontsize=7.0,
        )
    axes.set_xlabel("Layer")
    axes.locator_params(axis="x", integer=True)
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)
    return image


def format_alignment(pooled: pd.DataFrame, notes: Sequence[str], *, pivot: str) -> str:
    """Table of pooled scores as text, the best aligned language first."""
    known = _names(pooled)
    others = pooled[pooled["language"] != pivot]
    shown = others
    if len(others) > 2 * _LISTED:
        shown = pd.concat([others.head(_LISTED), others.tail(_LISTED)])
    columns: dict[str, list[str]] = {
        "language": name_and_code(shown["language"], known),
        "alignment": [_number(value) for value in shown["alignment"]],
        "best layer": ["-" if pd.isna(layer) else str(layer) for layer in shown["best_layer"]],
        "there": [_number(value) for value in shown["best_alignment"]],
        "cosine": [_number(value) for value in shown["cosine"]],
        "of others": [_number(value) for value in shown["cosine_other"]],
    }
    if len(shown) < len(others):
        for name, cells in columns.items():
            cells.insert(_LISTED, "..." if name == "language" else "")
    first = pooled.iloc[0]
    how = "mean" if first["pooling"] == "mean" else "maximum"
    heading = (
        f"Alignment with {name_and_code([pivot], known)[0]}, {how} over layers, "
        f"{first['n']} sentences ({len(others)} languages)"
    )
    sentences = [wrapped(f"note: {note}", indent="", further="") for note in notes]
    return "\n".join([text_table(heading, columns), *sentences])


def _names(pooled: pd.DataFrame) -> dict[str, str]:
    return names_of([str(label) for label in pooled["language"]], {})


def _number(value: float) -> str:
    return "-" if np.isnan(value) else f"{value:.2f}"
