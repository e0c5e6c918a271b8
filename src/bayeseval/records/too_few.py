"""Refuse a table without records, and one of a single model or language."""

from __future__ import annotations

from collections.abc import Sequence

from bayeseval._text import Caution, Note
from bayeseval.errors import InputError
from bayeseval.readers.columns import columns_together
from bayeseval.readers.raw import Dropped
from bayeseval.records.left_out import merge_dropped
from bayeseval.records.stack import Stack

__all__ = ["refuse_too_few_levels"]


def refuse_too_few_levels(
    stack: Stack, left_out: Sequence[Dropped], *, allow_single: bool, is_input: bool
) -> list[Note]:
    """Refuse a table without records, or (unless `allow_single`) one of one model or language.

    Parameters
    ----------
    stack : Stack
    left_out : sequence of Dropped
        What is no longer in the stack.
    allow_single : bool
        Whether one model or language is warned of instead.
    is_input : bool
        Whether the columns of the table can be chosen anew.
    """
    dropped = merge_dropped([*(g for part in stack.parts for g in part.dropped), *left_out])
    reasons = ", ".join(f"{group.reason}: {group.n_rows}" for group in dropped)
    after = f" after rows were dropped ({reasons})" if dropped else ""
    if not len(stack):
        raise InputError(f"{stack.source}: no record is left{after}")
    warnings: list[Note] = []
    for factor in ("model", "language"):
        levels = stack.labels[factor].present()
        if len(levels) < 2:
            problem = (
                f"only one {factor} ({levels[0]!r}){after}; a comparison needs at least two"
                f" {factor}s"
            )
            if not allow_single:
                instead = _tasks_instead(stack) if is_input and factor == "language" else ""
                raise InputError(f"{stack.source}: {problem}{instead}")
            warnings.append(Caution(f"{problem}: give the folder that holds all of them"))
    return warnings


def _tasks_instead(stack: Stack) -> str:
    """How to compare the models of one language over its tasks; empty where that is no way."""
    first, *others = (dict(part.columns) for part in stack.parts)
    language, task = first.get("language"), first.get("task")
    same = all(one.get("language") == language and one.get("task") == task for one in others)
    if language is None or task is None or not same or len(stack.labels["task"].present()) < 2:
        return ""
    swapped = columns_together(("language", task), ("task", language))
    return (
        f"; {swapped} compares the models over tasks instead, with the tasks in the place of"
        " languages: the output calls them so, and short names that are codes of languages are"
        " taken for these"
    )
