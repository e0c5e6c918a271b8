"""Keep scores of several splits of a test (dev, test) apart, as tasks of their own."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Final

import numpy as np

from bayeseval._text import shorten
from bayeseval.errors import InputError, wording
from bayeseval.records.coded import Coded, combined_key
from bayeseval.records.stack import Stack

__all__ = ["keep_splits_apart"]

_TEST: Final = "test"


def keep_splits_apart(stack: Stack, *, dropped: Collection[str] = ()) -> list[str]:
    """Add the split to the names of tasks that would mix several splits.

    A task mixes splits if one of its languages has scores of more than one: two models would
    then be compared on different test items, or one model would have two scores. Where every
    language has scores of one split, the models are compared on the same items, and the name
    of the task stays.

    Parameters
    ----------
    stack : Stack
        All rows; their ``split`` is taken off, and the tasks and datasets get new labels.
    dropped : collection of str
        Tasks that will be left out, which a note need not name.

    Returns
    -------
    list of str
        What to report.

    Raises
    ------
    InputError
        If two tasks would have one name.
    """
    split = stack.labels.pop("split", None)
    if split is None or len(split.present()) < 2:
        return []
    tasks = stack.labels["task"]
    groups = combined_key([stack.labels["language"].codes, tasks.codes])
    of_group = np.unique(np.stack([groups, split.codes]), axis=1)[0]
    names, counts = np.unique(of_group, return_counts=True)
    mixed = np.isin(tasks.codes, tasks.codes[np.isin(groups, names[counts > 1])])
    if not mixed.any():
        listed = shorten(sorted(filter(None, split.present())))
        return [
            f"split ({listed}): every language of a task has scores of one split only, so that all"
            " models are compared on the same items, and tasks keep their names"
        ]
    suffix = Coded.of(
        np.where(mixed, split.codes, len(split.levels)),
        [*(f" ({text})" if text else "" for text in split.levels), ""],
    )
    _refuse_shared_names(stack, suffix)
    for name in ("task", "dataset"):
        if name in stack.labels:
            stack.labels[name] = stack.labels[name].joined(suffix, "")
    rest = mixed & ~stack.labels["task"].among(dropped)
    if len(split.take(rest).present()) < 2:
        return []
    return [_note(stack.labels["task"].take(rest), split.take(rest))]


def _refuse_shared_names(stack: Stack, suffix: Coded) -> None:
    """Refuse tasks that would have one name with their splits: their scores would be mixed."""
    tasks = stack.labels["task"]
    sources: dict[str, list[str]] = {}
    for name, task in tasks.joined(suffix, "").pairs(tasks):
        sources.setdefault(name, []).append(task)
    for name, own in sources.items():
        if len(own) > 1:
            raise InputError(
                f"{stack.source}: the tasks {shorten([repr(task) for task in own])} would both be"
                f" named {name!r}, because splits are kept apart as tasks of their own; give one of"
                " the tasks or the split another name"
            )


def _note(tasks: Coded, split: Coded) -> str:
    """Names of the tasks, and how to leave out all splits but one."""
    splits = split.present()
    sizes = np.bincount(split.codes, minlength=len(split.levels))
    tests = [text for text in splits if text.casefold() == _TEST]
    kept = tests[0] if tests else split.levels[int(sizes.argmax())]
    others = sorted({task for task, text in tasks.pairs(split) if text != kept})
    # Every text in double quotes is the same in JSON, in YAML and in Python.
    drop = f"task: {json.dumps(others, ensure_ascii=False)}"
    one = wording(f"drop={{'task'{drop[4:]}}}", f"'drop: {{{drop}}}' in a --mapping file")
    return (
        f"split: scores of {shorten(sorted(text or 'no split' for text in splits))} are kept apart"
        f" as tasks of their own ({shorten(sorted(tasks.present()), limit=6)});"
        f" {one} keeps {kept or 'those without a split'} only"
    )
