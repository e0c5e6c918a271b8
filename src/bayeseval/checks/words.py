"""Checks as text: one line each, those that pass in short."""

from __future__ import annotations

import textwrap

import pandas as pd

__all__ = ["format_checks"]

_WIDTH = 100


def format_checks(table: pd.DataFrame) -> str:
    """What warns or fails in sentences, the rest by name.

    Parameters
    ----------
    table : pandas.DataFrame
        Of :class:`bayeseval.checks.Checks`.
    """
    count = table["status"].value_counts()
    said = ", ".join(
        f"{count[status]} {word}"
        for status, word in (
            ("pass", "passed"),
            ("warn", "with a warning"),
            ("fail", "failed"),
            ("not applicable", "not applicable"),
        )
        if status in count
    )
    lines = [f"Model checks: {said}"]
    for status in ("fail", "warn"):
        for row in table[table["status"] == status].to_dict("records"):
            text = f"{status}  {str(row['check']).replace('_', ' ')}: {row['sentence']}"
            lines += textwrap.wrap(text, _WIDTH, initial_indent="  ", subsequent_indent="        ")
    passed = [str(name).replace("_", " ") for name in table.loc[table["status"] == "pass", "check"]]
    if passed:
        lines += textwrap.wrap(
            f"pass  {', '.join(passed)}", _WIDTH, initial_indent="  ", subsequent_indent="        "
        )
    return "\n".join(lines)
