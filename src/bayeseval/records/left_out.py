"""Leave out rows: averages, levels on request, and scores that mark a missing one."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import numpy as np

from bayeseval._text import Caution, Note, counted, shorten
from bayeseval.errors import InputError, did_you_mean, wording
from bayeseval.readers.aggregates import is_aggregate, is_average
from bayeseval.readers.columns import LABELS
from bayeseval.readers.raw import Dropped
from bayeseval.records.stack import Stack

__all__ = ["leave_out", "leave_out_levels", "merge_dropped"]


def leave_out_levels(factor: str, labels: Sequence[str]) -> str:
    """How to leave out levels of a factor, in messages."""
    return wording(
        f"drop={{{factor!r}: {[*labels]!r}}}",
        f"drop: {{{factor}: {json.dumps([*labels], ensure_ascii=False)}}} in a --mapping file",
    )


def leave_out(
    stack: Stack,
    *,
    drop: Mapping[str, Sequence[str]],
    missing: Sequence[float],
    averages: bool = False,
) -> tuple[Stack, list[Dropped], list[Note]]:
    """The rows that stay, what was left out, and what to report.

    Parameters
    ----------
    stack : Stack
        All rows.
    drop : mapping of str to sequence of str
        ``model``, ``language`` or ``task`` to the labels whose rows are left out.
    missing : sequence of float
        Scores that mean that there is no score.
    averages : bool
        Whether models and tasks that are named as averages over the others are left out.

    Raises
    ------
    InputError
        If the table lacks a label, or there is no such factor.
    """
    dropped: list[Dropped] = []
    notes: list[Note] = []
    for factor, labels in drop.items():
        if factor not in LABELS:
            raise InputError(
                f"{stack.source}: drop: no factor {factor!r}{did_you_mean(factor, LABELS)}"
                f" (allowed: {', '.join(LABELS)})"
            )
        known = stack.labels[factor].present()
        for label in labels:
            # Readers leave out languages that are named as averages.
            left_out_before = factor == "language" and is_aggregate(label)
            if label not in known and not left_out_before:
                hint = _name_now(stack, label) if factor == "language" else ""
                raise InputError(
                    f"{stack.source}: drop: no {factor} {label!r}"
                    f"{hint or did_you_mean(label, known)} ({factor}s: {shorten(known, limit=15)})"
                )
        there = [label for label in labels if label in known]
        if there:
            reason = f"{factor} left out on request (drop)"
            stack, group = _without(stack, factor, there, reason)
            dropped.append(group)
    for factor in ("model", "task") if averages else ():
        names = _named_as_averages(stack, factor)
        certain = [label for label, is_certain in names.items() if is_certain]
        if certain:
            stack, group = _without(stack, factor, certain, f"aggregate rows, not a {factor}")
            dropped.append(group)
        notes += [
            Caution(
                f"{factor} {label!r} is named as an average may be, and counts as a {factor}; if it"
                f" is an average over others, leave it out with {leave_out_levels(factor, [label])}"
            )
            for label in names
            if label not in certain
        ]
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


def _without(
    stack: Stack, factor: str, labels: Sequence[str], reason: str
) -> tuple[Stack, Dropped]:
    """The rows of other levels, and what is reported of those of `labels`."""
    coded, rows = stack.labels[factor], stack.n_rows
    excluded = coded.among(set(labels))
    counts = {label: int(rows[coded.among({label})].sum()) for label in labels}
    group = Dropped(reason, tuple(sorted(counts.items())), _first(stack, excluded))
    return stack.take(~excluded), group


def _name_now(stack: Stack, label: str) -> str:
    """What a language is called in all rows that was written in this way, too; else ""."""
    if label not in stack.written.present():
        return ""
    now = stack.labels["language"].take(stack.written.among({label})).present()
    return f", which is called {' or '.join(map(repr, now))} here"


def _named_as_averages(stack: Stack, factor: str) -> dict[str, bool]:
    """Levels that are named as averages over the others, and whether they can be nothing else.

    Where no other level is left, they are what was measured.
    """
    labels = stack.labels[factor].present()
    # Of a dataset and its metric, the dataset says what is averaged.
    names = {
        label: label.rpartition(":")[0] if factor == "task" and "dataset" in stack.labels else ""
        for label in labels
    }
    found = {
        label: is_aggregate(label) or is_aggregate(name)
        for label, name in names.items()
        if is_average(label) or is_average(name)
    }
    return found if len(found) < len(labels) else {}


def _first(stack: Stack, rows: np.ndarray) -> str:
    return stack.at(int(np.flatnonzero(rows)[0]))


def merge_dropped(groups: Sequence[Dropped]) -> tuple[Dropped, ...]:
    """One group for each reason, with the first place of all."""
    counts: dict[str, dict[str, int]] = {}
    first: dict[str, str] = {}
    for group in groups:
        first.setdefault(group.reason, group.first)
        merged = counts.setdefault(group.reason, {})
        for label, count in group.counts:
            merged[label] = merged.get(label, 0) + count
    return tuple(
        Dropped(reason, tuple(sorted(merged.items())), first[reason])
        for reason, merged in counts.items()
    )
