"""What tests ask of tables of items."""

from __future__ import annotations

from bayeseval.records import Records

KEY = ["model", "language", "task"]


def cells(records: Records) -> dict[tuple[str, ...], float]:
    """Mean score by model, language and task."""
    means: dict[tuple[str, ...], float] = records.table.groupby(KEY)["score"].mean().to_dict()
    return means


def dropped(records: Records) -> dict[str, int]:
    return {group.reason: group.n_rows for group in records.report.dropped}


def notes(records: Records) -> str:
    return "\n".join(records.report.notes)
