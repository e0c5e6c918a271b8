"""What all answers of the library share: tables, a text, figures, a folder, a short form."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import pandas as pd

from bayeseval._html import html_table
from bayeseval.output.numbers import (
    interval_texts,
    probability_text,
    rank_interval_texts,
    value_texts,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["NOT_CONVERGED", "Result", "shown_columns"]

#: What stands before everything that a fit with a failed gate has made.
NOT_CONVERGED: Final = "NOT CONVERGED"
_UNRELIABLE: Final = f"{NOT_CONVERGED}: do not rely on these numbers"
_ENDS: Final = ("mean", "lower", "upper")


class Result(ABC):
    """An answer: its numbers as tables, the main one in words, and figures.

    ``print(result)`` shows :meth:`summary`, a notebook the main table.
    """

    @property
    @abstractmethod
    def tables(self) -> dict[str, pd.DataFrame]:
        """All tables by name, as in the folder that ``save`` writes."""

    @abstractmethod
    def summary(self) -> str:
        """Say the main answer in text."""

    @abstractmethod
    def figures(self) -> dict[str, Figure]:
        """Draw all figures, by the names that they have in a folder."""

    @abstractmethod
    def _title(self) -> str:
        """Say what was analysed, and by which model."""

    @abstractmethod
    def _main_result(self) -> str:
        """Say the main result, without a full stop; empty where there is none."""

    @abstractmethod
    def _main(self) -> pd.DataFrame:
        """The columns of the main table that a person looks at first."""

    @abstractmethod
    def _failed(self) -> bool:
        """Whether a convergence gate failed."""

    def __str__(self) -> str:
        return self.summary()

    def _headline(self) -> str:
        """What was analysed, and the main result unless a convergence gate failed."""
        parts = [self._title(), "" if self._failed() else self._main_result()]
        return "; ".join(part for part in parts if part)

    def __repr__(self) -> str:
        mark = f"{NOT_CONVERGED}; " if self._failed() else ""
        return f"{type(self).__name__}({mark}{self._headline()})"

    def _repr_html_(self) -> str:
        return html_table(
            f"{type(self).__name__}: {self._headline()}",
            shown_columns(self._main()),
            warning=_UNRELIABLE if self._failed() else "",
        )


def shown_columns(table: pd.DataFrame) -> Mapping[str, list[str]]:
    """Cells of a table as text; a mean and its interval are one column.

    Parameters
    ----------
    table : pandas.DataFrame
        ``<name>_mean``, ``<name>_lower`` and ``<name>_upper`` become ``<name>``, and so do
        ranks with a median.

    Examples
    --------
    >>> table = pd.DataFrame({"model": ["a"], "score_mean": [61.234]})
    >>> dict(shown_columns(table.assign(score_lower=58.1, score_upper=64.3, p_best=0.25)))
    {'model': ['a'], 'score': ['61.2 [58.1, 64.3]'], 'p_best': ['0.25']}
    """
    table = table.reset_index(drop=True)
    shown: dict[str, list[str]] = {}
    for column in map(str, table.columns):
        name, _, part = column.rpartition("_")
        whole = all(f"{name}_{end}" in table for end in _ENDS[1:])
        if part in ("lower", "upper") and (f"{name}_mean" in table or f"{name}_median" in table):
            continue
        values = table[column]
        if part == "median" and whole:
            # The mean is shown of point estimates only, which have no median.
            shown[name] = rank_interval_texts(
                table if f"{name}_mean" in table else table.assign(**{f"{name}_mean": values}), name
            )
        elif part == "mean" and whole:
            shown[name] = interval_texts(table, name)
        elif column.startswith("p_") and values.dtype.kind == "f":
            shown[column] = [probability_text(p) for p in values]
        elif values.dtype.kind == "f":
            shown[column] = value_texts(values)
        else:
            shown[column] = ["-" if pd.isna(value) else str(value) for value in values]
    return shown
