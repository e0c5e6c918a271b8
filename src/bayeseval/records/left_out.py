"""Leave out rows on request: levels, and scores that mark a missing one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from bayeseval._text import counted, shorten
from bayeseval.errors import InputError, did_you_mean, wording
from bayeseval.readers.columns import LABELS
from bayeseval.readers.raw import Dropped
from bayeseval.records.stack import Stack

__all__ = ["leave_out"]


def leave_out(
    stack: Stack, *, drop: Mapping[str, Sequence[str]], missing: Sequence[float]
) -> tuple[Stack, list[Dropped], list[str]]:
    """The rows that stay, what was left out, and what to report.

    Parameters
    ----------
    stack : Stack
        All rows.
    drop : mapping of str to sequence of str
        ``model``, ``language`` or ``task`` to the labels whose rows are left out.
    missing : sequence of float
        Scores that mean that there is no score.

    Raises
    ------
    InputError
        If the table lacks a label, or there is no such factor.
    """
    dropped: list[Dropped] = []
    notes: list[str] = []
    for factor, labels in drop.items():
        if factor not in LABELS:
            raise InputError(
                f"{stack.source}: drop: no factor {factor!r}{did_you_mean(factor, LABELS)}"
                f" (allowed: {', '.join(LABELS)})"
            )
        known = stack.labels[factor].present()
        for label in labels:
            if label not in known:
                raise InputError(
                    f"{stack.source}: drop: no {factor} {label!r}{did_you_mean(label, known)}"
                    f" ({factor}s: {shorten(known, limit=15)})"
                )
        excluded = stack.labels[factor].among(set(labels))
        if excluded.any():
            rows = stack.n_rows
            counts = {
                label: int(rows[stack.labels[factor].among({label})].sum()) for label in labels
            }
            reason = f"{factor} left out on request (drop)"
            dropped.append(Dropped(reason, tuple(sorted(counts.items())), _first(stack, excluded)))
            stack = stack.take(~excluded)
    for value in missing:
        excluded = stack.numbers["score"] == value
        if not excluded.any():
            notes.append(
                f"no score is {value:g}, so {wording('missing=', 'missing: ')}{value:g} leaves"
                " nothing out"
            )
            continue
        models = stack.labels["model"].take(excluded)
        rows = stack.n_rows[excluded]
        sums = np.bincount(models.codes, rows, minlength=len(models.levels))
        numbers = sums.astype(np.int64).tolist()
        counts = {label: n for label, n in zip(models.levels, numbers, strict=True) if n}
        reason = f"score {value:g}, which means missing"
        dropped.append(Dropped(reason, tuple(sorted(counts.items())), _first(stack, excluded)))
        before, stack = stack, stack.take(~excluded)
        for factor in LABELS:
            lost = set(before.labels[factor].present()) - set(stack.labels[factor].present())
            if lost:
                n_lost = counted(len(lost), factor)
                notes.append(f"no score left for {n_lost}: {shorten(sorted(lost))}")
    return stack, dropped, notes


def _first(stack: Stack, rows: np.ndarray) -> str:
    return stack.at(int(np.flatnonzero(rows)[0]))
