"""Alignment with a pivot language: its folder, its heat map and what the terminal shows."""

from __future__ import annotations

import re
import shutil
import textwrap
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pandas as pd

from bayeseval._typing import Figures
from bayeseval.languages.labels import names_of
from bayeseval.output._parts import language_labels
from bayeseval.output._style import (
    figure_files,
    figure_formats,
    new_figure,
    shorten,
    styled,
)
from bayeseval.output.language_names import add_language_names, name_and_code
from bayeseval.output.store import Writer, write_csv, write_folder
from bayeseval.output.text import text_table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "alignment_figure",
    "alignment_folder",
    "alignment_preamble",
    "format_alignment",
    "write_alignment",
]

_WIDTH: Final = 7.2
_ROW: Final = 0.155
# Languages in the figure, and on the terminal the best and the worst.
_DRAWN: Final = 60
_LISTED: Final = 12
_COLUMNS: Final = 100


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
    """Heat map of alignment over layers and languages, as figure 3 of the paper.

    Parameters
    ----------
    tidy, pooled : pandas.DataFrame
        As for :func:`write_alignment`. Of many languages an even selection along the
        order of the pooled score is drawn.
    """
    order = list(pooled["language"])
    if len(order) > _DRAWN:
        order = [order[i] for i in np.linspace(0, len(order) - 1, _DRAWN).round().astype(int)]
    grid = tidy.pivot(index="language", columns="layer", values="alignment").loc[order]
    n, first = int(tidy["n"].iloc[0]), pooled.iloc[0]
    some = f"{len(order)} of {len(pooled)} languages, " if len(order) < len(pooled) else ""
    kind = {"weighted": "position-weighted average", "last": "last token"}[first["embedding"]]
    figure = new_figure(
        _WIDTH,
        _ROW * len(order) + 1.1,
        title="Cross-lingual alignment by layer",
        subtitle=f"{shorten(str(first['model']), 60)}: {some}{n} sentences, {kind}",
        caption=(
            "Share of sentences that are nearer to their own translation than to any other, in "
            "both directions. Layer 0 is the embedding layer. Languages in the order of the "
            f"{'mean' if first['pooling'] == 'mean' else 'maximum'} over layers, which stands on "
            "the right. Grey: embeddings that are not finite."
        ),
        gate_status="pass",
        labels=order,
    )
    axes = figure.subplots()
    axes.set_facecolor("0.8")
    image = axes.imshow(
        np.ma.masked_invalid(grid.to_numpy(dtype=float)),
        aspect="auto",
        cmap="viridis",
        vmin=0.0,
        vmax=1.0,
        interpolation="nearest",
    )
    labels = language_labels(add_language_names(pd.DataFrame({"language": order}), _names(pooled)))
    axes.set_yticks(np.arange(len(order)), labels, fontsize=7.0)
    scores = pooled.set_index("language")["alignment"]
    for row, label in enumerate(order):
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
    bar = figure.colorbar(image, ax=axes, pad=0.09, fraction=0.05, aspect=30)
    bar.set_label("Alignment")
    bar.ax.spines["outline"].set_visible(False)
    return figure


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
    sentences = [textwrap.fill(f"note: {note}", _COLUMNS) for note in notes]
    return "\n".join([text_table(heading, columns), *sentences])


def _names(pooled: pd.DataFrame) -> dict[str, str]:
    return names_of([str(label) for label in pooled["language"]], {})


def _number(value: float) -> str:
    return "-" if np.isnan(value) else f"{value:.2f}"
