"""Tables of the report: columns of texts, the numbers they are sorted by, and interval bars."""

from __future__ import annotations

import base64
import gzip
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

import numpy as np
import pandas as pd

from bayeseval._text import grouped
from bayeseval.output._files import to_json
from bayeseval.output.language_names import name_and_code
from bayeseval.output.numbers import (
    NONE,
    interval_texts,
    number_text,
    percent_text,
    probability_text,
    rank_interval_texts,
    value_texts,
)
from bayeseval.output.quantities import quantity_text

__all__ = [
    "MOST_ROWS",
    "Column",
    "Grid",
    "any_grid",
    "counts",
    "intervals",
    "labels",
    "packed",
    "percents",
    "probabilities",
    "ranks",
    "values",
]

#: Rows that stand in the page as text; a longer table is compressed, with a summary before it.
MOST_ROWS: Final = 2_000
#: Columns that fit on paper.
MOST_COLUMNS: Final = 20
# Rows at each end of a table that has more, and no summary of its own.
_ENDS: Final = 10

# Columns that are not shown where every row says the same.
_SAME: Final = frozenset({"drop", "status", "reason", "against", "kind"})
# Columns that say how a table was made; the page says it once.
_HOW: Final = frozenset({"ci_kind", "ci_prob", "gate", "tie_group"})
_HEADINGS: Final[Mapping[str, str]] = {
    "ess": "ESS",
    "k_hat": "k-hat",
    "n_bad_k": "bad k-hats",
    "ecdf": "share below",
    "kendall": "Kendall",
    "n_dropped": "records left out",
    "n_levels": "levels",
    "n_rank_changes": "changed ranks",
    "common_shift": "common change",
    "largest_change": "largest further change",
    "largest_change_sd": "in posterior sds",
    "largest_change_level": "of",
    "n_records": "records",
    "n_tasks": "tasks",
    "n_pairs_left_out": "pairs left out",
    "elpd_diff": "difference",
    "diff_se": "SE of the difference",
    "se": "SE",
    "spearman": "Spearman",
    "spec": "model",
    "p_a_better": "P(A better)",
    "pit": "level",
    "p_within_margin": "P(within margin)",
}
# Columns of running text, which need wide cells.
_SENTENCES: Final = frozenset({"moved", "reason", "note", "sentence", "meaning"})
_PROBABILITIES: Final = frozenset({"p", "p_a_better", "p_within_margin", "p_best", "p_positive"})


@dataclass(frozen=True)
class Column:
    """One column of a table.

    Attributes
    ----------
    name : str
        Heading.
    cells : sequence of str
        Text of every row.
    kind : {"label", "number", "text"}
        Labels come from the user's table: they are kept apart from the text around them,
        whatever direction they are written in. Numbers are aligned to the right.
    order : sequence of float, optional
        What a column of numbers is sorted by; NaN comes last.
    bars : ndarray, shape (n_rows, 3), optional
        Place of the mean and of both ends of the interval, 0 to 100; drawn as small bars.
    note : str
        What the column says, in a few words.
    heading : {"text", "label"}
        Whether the heading is a label from the user's table.
    """

    name: str
    cells: Sequence[str]
    kind: Literal["label", "number", "text"] = "number"
    order: Sequence[float] | None = None
    bars: np.ndarray | None = None
    note: str = ""
    heading: Literal["text", "label"] = "text"


@dataclass(frozen=True)
class Grid:
    """One table of the page.

    Attributes
    ----------
    id : str
        Of the HTML element.
    caption : str
        What the table holds.
    columns : tuple of Column
    csv : str
        File of the folder with all digits; empty for none.
    closed : str
        Heading of the element that the reader opens to see the table; empty for a table that
        is always shown.
    summary : Grid, optional
        Shown in the place of a table with more than :data:`MOST_ROWS` rows; left out, its
        first and last rows are.
    further_csv : str
        Another file of the folder, with the digits of the columns that `csv` lacks.
    """

    id: str
    caption: str
    columns: tuple[Column, ...]
    csv: str = ""
    closed: str = ""
    summary: Grid | None = field(default=None)
    kind: str = "grid"
    further_csv: str = ""

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.columns[0].cells) if self.columns else 0

    @property
    def is_long(self) -> bool:
        """Whether the table is compressed, because it has more than :data:`MOST_ROWS` rows."""
        return self.n_rows > MOST_ROWS

    @property
    def is_broad(self) -> bool:
        """Whether the table has more than :data:`MOST_COLUMNS` columns, and is not printed."""
        return len(self.columns) > MOST_COLUMNS

    @property
    def short(self) -> Grid:
        """What stands in the place of a long table: its summary, or its first and last rows."""
        if self.summary is not None:
            return self.summary
        n = self.n_rows
        rows = [*range(min(_ENDS, n)), *range(max(_ENDS, n - _ENDS), n)]
        caption = f"{self.caption} First and last {_ENDS} of {grouped(n)} rows."
        columns = tuple(_part(column, rows) for column in self.columns)
        return Grid(f"{self.id}-ends", caption, columns)

    @property
    def rows(self) -> list[list[Mapping[str, Any]]]:
        """Cells row by row for the template: column, text, order and bar."""
        cells = [_cells(column) for column in self.columns]
        return [list(row) for row in zip(*cells, strict=True)]

    @property
    def payload(self) -> str:
        """All rows, compressed, for the page's script."""
        return packed(
            [
                {
                    "name": column.name,
                    "kind": column.kind,
                    "cells": list(column.cells),
                    "order": None if column.order is None else _rounded(column.order),
                }
                for column in self.columns
            ]
        )


def _part(column: Column, rows: Sequence[int]) -> Column:
    return replace(
        column,
        cells=[column.cells[i] for i in rows],
        order=None if column.order is None else [column.order[i] for i in rows],
        bars=None if column.bars is None else column.bars[list(rows)],
    )


def _cells(column: Column) -> list[Mapping[str, Any]]:
    n = len(column.cells)
    order: Sequence[Any] = [None] * n if column.order is None else column.order
    bars: Sequence[Any] = [None] * n if column.bars is None else list(column.bars)
    return [
        {
            "column": column,
            "text": text,
            "order": None if value is None or np.isnan(value) else f"{value:.7g}",
            "bar": None if bar is None or np.isnan(bar).all() else _bar(bar),
        }
        for text, value, bar in zip(column.cells, order, bars, strict=True)
    ]


def _bar(bar: np.ndarray) -> Mapping[str, str | None]:
    mean, lower, upper = (None if np.isnan(v) else f"{v:.1f}" for v in bar)
    return {"mean": mean, "lower": lower, "upper": upper}


def _rounded(numbers: Iterable[float]) -> list[float | None]:
    return [None if math.isnan(v) else float(f"{v:.7g}") for v in map(float, numbers)]


def packed(value: object) -> str:
    """JSON, compressed by gzip and written as base64; equal for equal values."""
    text = to_json(value).encode("utf-8")
    return base64.b64encode(gzip.compress(text, 9, mtime=0)).decode("ascii")


def labels(name: str, cells: Iterable[object]) -> Column:
    """A column of labels from the user's table."""
    return Column(name, [str(cell) for cell in cells], "label")


def counts(name: str, numbers: Iterable[float], *, note: str = "") -> Column:
    """A column of whole numbers."""
    known = [float(number) for number in numbers]
    return Column(name, [number_text(v, 0) for v in known], order=known, note=note)


def values(
    name: str, numbers: Iterable[float], digits: int | None = None, *, note: str = ""
) -> Column:
    """A column of numbers without intervals."""
    known = [float(number) for number in numbers]
    return Column(name, value_texts(known, digits), order=known, note=note)


def probabilities(name: str, numbers: Iterable[float], *, note: str = "") -> Column:
    """A column of probabilities."""
    known = [float(number) for number in numbers]
    return Column(name, [probability_text(v) for v in known], order=known, note=note)


def percents(name: str, shares: Iterable[float], *, note: str = "") -> Column:
    """A column of shares in per cent."""
    known = [float(share) for share in shares]
    texts = [text if (text := percent_text(v)) == NONE else f"{text} %" for v in known]
    return Column(name, texts, order=known, note=note)


def ranks(name: str, table: pd.DataFrame, prefix: str, *, note: str = "") -> Column:
    """A column of median ranks with their intervals."""
    order = table[f"{prefix}_mean"].astype(float).tolist()
    return Column(name, rank_interval_texts(table, prefix), order=order, note=note)


def intervals(
    name: str,
    table: pd.DataFrame,
    prefix: str,
    *,
    scale: float = 1.0,
    digits: int | None = None,
    bars: bool = True,
    note: str = "",
) -> Column:
    """A column of values with their intervals, and bars that share one scale."""
    columns = [f"{prefix}_{end}" for end in ("mean", "lower", "upper")]
    numbers = scale * table[columns].to_numpy(dtype=float)
    return Column(
        name,
        interval_texts(table, prefix, scale=scale, digits=digits),
        order=numbers[:, 0].tolist(),
        bars=_places(numbers) if bars and len(table) > 1 else None,
        note=note,
    )


def _places(numbers: np.ndarray) -> np.ndarray | None:
    """Means and ends of intervals on a scale of 2 to 98 that holds them all."""
    known = numbers[np.isfinite(numbers)]
    if not len(known) or np.ptp(known) == 0.0:
        return None
    low, high = float(known.min()), float(known.max())
    return np.asarray(2.0 + 96.0 * (numbers - low) / (high - low))


def any_grid(
    id: str,
    table: pd.DataFrame,
    caption: str,
    *,
    csv: str,
    closed: str = "",
    language_names: Mapping[str, str] | None = None,
    leave_out: Sequence[str] = (),
) -> Grid:
    """A table of the folder as it is: intervals in one column, languages with their names.

    Parameters
    ----------
    id : str
        See :class:`Grid`.
    table : pandas.DataFrame
        Any table of a result folder.
    caption, csv, closed : str
        See :class:`Grid`.
    language_names : mapping of str to str, optional
        Code to name.
    leave_out : sequence of str
        Columns that are not shown.
    """
    skipped = {*_HOW, *leave_out}
    columns: list[Column] = []
    for name in map(str, table.columns):
        stem, _, end = name.rpartition("_")
        if name in skipped or (end == "name" and stem in table):
            continue
        if name in _SAME and table[name].nunique(dropna=False) < 2:
            continue
        if {f"{stem}_lower", f"{stem}_upper"} <= set(table.columns):
            if end == "mean" and f"{stem}_median" in table:
                columns.append(ranks(_heading(stem), table, stem))
            elif end == "mean":
                columns.append(intervals(_heading(stem), table, stem))
            if end in ("mean", "sd", "median", "lower", "upper") and f"{stem}_mean" in table:
                continue
        known = dict(language_names or {})
        if f"{name}_name" in table:
            known |= dict(zip(table[name], table[f"{name}_name"], strict=True))
        columns.append(_any_column(name, table[name], known))
    kept = tuple(c for c in columns if set(c.cells) - {NONE, ""})
    return Grid(id, caption, kept, csv=csv, closed=closed)


def _any_column(name: str, cells: pd.Series[Any], language_names: Mapping[str, str]) -> Column:
    heading = _heading(name)
    if pd.api.types.is_bool_dtype(cells):
        return Column(heading, ["yes" if cell else "no" for cell in cells], "text")
    if not pd.api.types.is_numeric_dtype(cells):
        texts = ["" if pd.isna(cell) else str(cell) for cell in cells]
        if name in _SENTENCES:
            return Column(heading, texts, "text")
        if name in ("language", "level", "without", "worst_language", "largest_change_level"):
            texts = name_and_code(texts, language_names)
        if name == "quantity":
            texts = [quantity_text(text) for text in texts]
        return Column(heading, texts, "label")
    if name in _PROBABILITIES:
        return probabilities(heading, cells)
    if pd.api.types.is_integer_dtype(cells):
        return counts(heading, cells)
    known = cells.dropna()
    if len(known) and (known == known.round()).all():
        return counts(heading, cells)
    return values(heading, cells)


def _heading(name: str) -> str:
    return _HEADINGS.get(name, name.replace("_", " "))
