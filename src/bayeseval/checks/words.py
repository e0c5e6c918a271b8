"""Checks as text: a sentence for each warning and failure, a list of the others."""

from __future__ import annotations

import pandas as pd

from bayeseval.output.text import INDENT, wrapped

__all__ = ["format_checks"]


def format_checks(table: pd.DataFrame, *, false_alarms: float) -> str:
    """Describe warnings and failures in sentences, with their meaning and the next command.

    Checks that pass are listed by name, those that do not apply with the reason.

    Parameters
    ----------
    table : pandas.DataFrame
        Table of :class:`bayeseval.checks.Checks`.
    false_alarms : float
        Share of checks with a p-value that warn or fail where the model is true.
    """
    count = table["status"].value_counts()
    counts = ", ".join(
        f"{count[status]} {word}"
        for status, word in (
            ("pass", "passed"),
            ("warn", "with a warning"),
            ("fail", "failed"),
            ("not applicable", "not applicable"),
        )
        if status in count
    )
    lines = [f"Model checks: {counts}"]
    n_p_values = int(table["p"].notna().sum())
    if n_p_values:
        chance = (
            f"{n_p_values} of them have p-values; if the model were true, about "
            f"{n_p_values * false_alarms:.1g} of these would warn or fail by chance."
        )
        lines.append(wrapped(chance, further=INDENT))
    for status in ("fail", "warn"):
        for row in table[table["status"] == status].to_dict("records"):
            text = f"{status}  {str(row['check']).replace('_', ' ')}: {row['sentence']}"
            indent = "        "
            lines.append(wrapped(text, further=indent))
            if row["meaning"]:
                lines.append(wrapped(f"Meaning: {row['meaning']}", indent=indent, further=indent))
            # A command is not wrapped, so that it can be copied.
            lines += [f"{indent}Next: {row['command']}"] if row["command"] else []
    passed = ", ".join(_names(table[table["status"] == "pass"]))
    not_applicable = _not_applicable(table[table["status"] == "not applicable"])
    for text in (
        f"pass  {passed}" if passed else "",
        f"n/a   {not_applicable}" if not_applicable else "",
    ):
        lines += [wrapped(text, further="        ")] if text else []
    return "\n".join(lines)


def _names(table: pd.DataFrame) -> list[str]:
    return [str(name).replace("_", " ") for name in table["check"]]


def _not_applicable(table: pd.DataFrame) -> str:
    """Checks that do not apply, grouped by reason."""
    by_reason: dict[str, list[str]] = {}
    for name, sentence in zip(_names(table), table["sentence"], strict=True):
        by_reason.setdefault(str(sentence).rstrip("."), []).append(name)
    return "; ".join(
        f"{', '.join(checks)}" + (f" ({reason[:1].lower()}{reason[1:]})" if reason else "")
        for reason, checks in by_reason.items()
    )
