"""Predictions of cells as text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pandas as pd

from bayeseval import names
from bayeseval._text import counted, grouped
from bayeseval.errors import wording
from bayeseval.output.numbers import (
    column_digits,
    interval_texts,
    number_text,
    unit_text,
    value_texts,
)
from bayeseval.output.text import text_table, wrapped

__all__ = ["format_predictions"]

_SHOWN: Final = 1000


def format_predictions(table: pd.DataFrame, title: str, notes: Sequence[str], *, unit: str) -> str:
    """Predictions as the command prints them, one line for each cell.

    Parameters
    ----------
    table : pandas.DataFrame
        What :meth:`bayeseval.Fit.predict` returns.
    title : str
        What was fitted.
    notes : sequence of str
        How the cells were read.
    unit : str
        Unit of the scores; empty where it is not known.
    """
    whole, table = table, table.head(_SHOWN)
    lower, upper = table["measurement_lower"], table["measurement_upper"]
    digits = column_digits(0.5 * (lower + upper), lower, upper)
    ends = [[number_text(value, digits) for value in side] for side in (lower, upper)]
    columns: dict[str, Sequence[str]] = {
        str(factor): list(table[factor]) for factor in (names.MODEL, names.LANGUAGE, names.TASK)
    }
    columns |= {name: value_texts(table[name]) for name in ("n", "se", "seeds") if name in table}
    columns |= {
        "records": [str(number) for number in table["n_records"]],
        "new": [text or "-" for text in table["new"]],
        "expected": interval_texts(table, "expected"),
        "measurement": [f"[{low}, {high}]" for low, high in zip(*ends, strict=True)],
    }
    prob = 100.0 * float(table.attrs["ci_prob"])
    heading = (
        f"Predicted scores{unit_text(unit, before=', ')} ({counted(len(whole), 'cell')}; "
        f"{prob:.4g} % intervals of the expected score and of one new measurement)"
    )
    text = text_table(heading, columns, names=3)
    if len(whole) > len(table):
        all_rows = wording("the table has all", "--out FILE writes all")
        notes = [*notes, f"the first {grouped(_SHOWN)} cells are shown; {all_rows}"]
    lines = [wrapped(f"note: {note}", indent="") for note in notes]
    return "\n\n".join([title, text, *(["\n".join(lines)] if lines else [])])
