"""What sections of the report are made of, besides tables and charts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bayeseval.reporting.charts import Chart, Spec
from bayeseval.reporting.grid import Grid

__all__ = ["Chooser", "Listing", "Pre", "Properties", "Section", "Text"]


@dataclass(frozen=True)
class Text:
    """Sentences, each a paragraph or an item of a list."""

    sentences: Sequence[str]
    kind: str = "text"


@dataclass(frozen=True)
class Listing:
    """Statuses with what they mean and the command that goes on from them."""

    rows: Sequence[Mapping[str, str]]
    kind: str = "listing"


@dataclass(frozen=True)
class Properties:
    """Names and their values, as text."""

    rows: Sequence[tuple[str, str]]
    kind: str = "properties"


@dataclass(frozen=True)
class Pre:
    """Text that keeps its lines, in an element that the reader opens."""

    id: str
    title: str
    text: str
    kind: str = "pre"


@dataclass(frozen=True)
class Chooser:
    """A model that the reader selects, with a chart and a table of its languages.

    Attributes
    ----------
    id, label : str
    options : sequence of str
    caption : str
        Of the chart.
    spec : dict
        Vega-Lite for the rows of one model.
    payload : str
        Rows of all models, compressed.
    """

    id: str
    label: str
    options: Sequence[str]
    caption: str
    spec: Spec
    payload: str
    kind: str = "chooser"


@dataclass(frozen=True)
class Section:
    """One part of the page with its heading."""

    id: str
    title: str
    blocks: Sequence[Text | Listing | Properties | Pre | Chooser | Chart | Grid]
