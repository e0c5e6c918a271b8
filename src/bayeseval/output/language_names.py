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
    """Put the column ``language_name`` into a table with a column ``language``.

    Parameters
    ----------
    table : pandas.DataFrame
        Returned as it is where it has no languages, or has their names already.
    language_names : mapping of str to str, optional
        Code to name.
    after : str, optional
        Column before the new one; left out, it follows the columns of results.
    """
    if names.LANGUAGE not in table or LANGUAGE_NAME in table:
        return table
    known = language_names or {}
    columns = list(table.columns)
    if after is not None:
        place = columns.index(after) + 1
    else:
        place = min(
            (columns.index(name) for name in _LAST if name in columns), default=len(columns)
        )
    result = table.copy(deep=False)
    result.insert(
        place, LANGUAGE_NAME, [known.get(str(code), str(code)) for code in table[names.LANGUAGE]]
    )
    result.attrs = dict(table.attrs)
    return result
