"""Names of languages beside their codes, in tables, figures and on the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import pandas as pd

from bayeseval import names

__all__ = ["LANGUAGE_NAME", "add_language_names", "name_and_code"]

#: Column beside ``language``; the code stands in for a name that is not known.
LANGUAGE_NAME: Final = "language_name"
# Columns that say how a table was made stand last.
_LAST: Final = ("ci_kind", "ci_prob")
# Columns that hold languages in some rows: those where another column has one of these values.
_SOME: Final[Mapping[str, tuple[str, frozenset[str]]]] = {
    "level": (
        "quantity",
        frozenset({names.LANGUAGE_POTENTIAL, names.rank_name(names.LANGUAGE_POTENTIAL)}),
    ),
    "without": ("drop", frozenset({names.LANGUAGE})),
}


def name_and_code(codes: Iterable[object], language_names: Mapping[str, str] | None) -> list[str]:
    """Label languages for a reader: ``Hindi (hi)``, the code alone where it has no name.

    Examples
    --------
    >>> name_and_code(["hi", "xx"], {"hi": "Hindi"})
    ['Hindi (hi)', 'xx']
    """
    known = language_names or {}
    labels = [str(code) for code in codes]
    return [f"{known[code]} ({code})" if known.get(code, code) != code else code for code in labels]


def add_language_names(
    table: pd.DataFrame, language_names: Mapping[str, str] | None, *, after: str | None = None
) -> pd.DataFrame:
    """Put names beside the codes of languages.

    Parameters
    ----------
    table : pandas.DataFrame
        With the column ``language``, ``worst_language`` or, in ranks of several quantities,
        ``level``, in refits ``without``; the new column is called ``<column>_name``.
        Returned as it is where it has no languages, or has their names already.
    language_names : mapping of str to str, optional
        Code to name.
    after : str, optional
        Column before the new one; left out, it follows the columns of results.
    """
    known = language_names or {}
    for column in (names.LANGUAGE, "worst_language", *_SOME):
        if column not in table or f"{column}_name" in table:
            continue
        codes = [str(code) for code in table[column]]
        if column in _SOME:
            kind, values = _SOME[column]
            if kind not in table or values.isdisjoint(table[kind]):
                continue
            languages = table[kind].isin(values)
            named = [
                known.get(code, code) if language else code
                for code, language in zip(codes, languages, strict=True)
            ]
        else:
            named = [known.get(code, code) for code in codes]
        columns = list(table.columns)
        if after is not None:
            place = columns.index(after) + 1
        else:
            place = min((columns.index(c) for c in _LAST if c in columns), default=len(columns))
        attrs = dict(table.attrs)
        table = table.copy(deep=False)
        table.insert(place, f"{column}_name", named)
        table.attrs = attrs
    return table
