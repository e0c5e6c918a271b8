"""Refuse wide tables that may be read in two ways, or whose header nobody reads."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from bayeseval._text import shorten, show
from bayeseval.errors import InputError, wording
from bayeseval.languages.codes import understand
from bayeseval.readers.aggregates import is_average
from bayeseval.readers.columns import METRIC_NAMES
from bayeseval.readers.grids import Grid
from bayeseval.readers.layout import Layout, is_about_languages
from bayeseval.readers.printed import is_label_column, mostly_scores, without_marks

__all__ = ["has_deep_header", "refuse_deep_header", "refuse_metrics"]

# Lines of a header that are read.
_MOST_LINES: Final = 2


def has_deep_header(rows: Sequence[Sequence[str]]) -> bool:
    """Whether three lines or more stand above the scores, one of them with languages."""
    above, below = rows[: _MOST_LINES + 1], rows[_MOST_LINES + 1 :]
    return (
        bool(below)
        and all(is_label_column(row[1:]) for row in above)
        and mostly_scores([cell for row in below for cell in row[1:]])
        and any(_n_languages(row[1:]) > 1 for row in above)
    )


def _n_languages(cells: Sequence[str]) -> int:
    return len({cell for cell in cells if understand(without_marks(cell)) is not None})


def refuse_deep_header(grid: Grid) -> None:
    """Refuse a header of three lines: which of them has the tasks is not known.

    Raises
    ------
    InputError
        With what is read, and two ways to write it.
    """
    if has_deep_header(grid.rows):
        raise InputError(
            f"{grid.header}: the header has three lines or more, and two are read: one with the "
            "languages, one with the tasks above or below them; join the others into one, such as "
            "'qa:f1', or write one row per score with the columns model, language, task, metric "
            "and score"
        )


def refuse_metrics(grid: Grid, layout: Layout | None) -> None:
    """Refuse columns beside languages of which one is named as a metric: scores or a model.

    Raises
    ------
    InputError
        With the two formats that read one or the other.
    """
    if layout is None or not layout.transposed or "model" not in layout.labels:
        return
    at = layout.labels["model"]
    titles = [without_marks(row[at]) for row in layout.rows[layout.header :]]
    columns = [one for one in titles if one and not is_average(one) and not is_about_languages(one)]
    metrics = [one for one in columns if re.sub(r"[\s_\-.]+", "", one.casefold()) in METRIC_NAMES]
    if not metrics:
        return
    listed = shorten(map(show, metrics))
    others = [one for one in columns if one not in metrics]
    beside = f" beside {shorten(map(show, others))}" if others else ""
    plain, wide = (wording(f"format={name!r}", f"--format {name}") for name in ("table", "wide"))
    raise InputError(
        f"{grid.header}: {listed} may be scores of one model, or models of their own{beside}: "
        f"{'they are' if len(metrics) > 1 else 'it is'} named as metrics are; choose {plain} for "
        f"one row per score, or {wide} for a column per model"
    )
