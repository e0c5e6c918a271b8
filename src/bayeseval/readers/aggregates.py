"""Names of averages over the other models, languages or tasks of a table."""

from __future__ import annotations

import re
from typing import Final

from bayeseval.readers.printed import MAX_CELL

__all__ = ["is_aggregate", "is_average"]

_AVERAGE: Final = (
    r"(?:macro|micro|overall|total|all|unweighted)?[\s\-_.]*(?:avg|average|mean|μ|ø)\.?"
)
# "all" and its like alone or with what they are over; a model may be called all-MiniLM-L6-v2.
_ALL: Final = (
    r"(?:all|overall|macro|total)(?:[\s\-_]*(?:languages|langs|tasks|datasets|scores?))?"
    r"(?:\s*\(.*\))?"
)
_AVERAGES: Final = re.compile(rf"{_AVERAGE}(?:[\s\-_(]+.*)?|{_ALL}", re.IGNORECASE)
# What an average is over, if it is named: "of all", "over 12 tasks", "(14 languages)".
_OVER: Final = (
    r"(?:[\s\-_]+(?:of|over|across))?(?:[\s\-_]+(?:all|the|[0-9]+))*"
    r"(?:[\s\-_]*(?:models|languages|langs|tasks|datasets|benchmarks|scores?))?(?:\s*\(.*\))?"
)
_AGGREGATES: Final = re.compile(rf"{_AVERAGE}{_OVER}|{_ALL}", re.IGNORECASE)


def is_average(name: str) -> bool:
    """Whether a header or a label of a wide table means an average over the others.

    Whatever follows the word is taken for what the average is over.

    Examples
    --------
    >>> [is_average(name) for name in ("Avg.", "Mean (5 seeds)", "all-MiniLM-L6-v2", "de")]
    [True, True, False, False]
    """
    return len(name) <= MAX_CELL and _AVERAGES.fullmatch(name) is not None


def is_aggregate(name: str) -> bool:
    """Whether a label is a word for an average, alone or with what the average is over.

    These are names of :func:`is_average` that can hardly be those of models or tests.

    Examples
    --------
    >>> names = ("avg", "Macro-Average", "AVERAGE of all", "overall", "mean (12 tasks)")
    >>> all(map(is_aggregate, names)), is_aggregate("Mean Teacher"), is_aggregate("average-7b")
    (True, False, False)
    """
    return len(name) <= MAX_CELL and _AGGREGATES.fullmatch(name) is not None
