"""The common pairs: on which language-task pairs all models are compared."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from bayeseval._special import refuse_special
from bayeseval._text import Caution, grouped
from bayeseval._typing import Index
from bayeseval.errors import InputError, did_you_mean, wording
from bayeseval.languages.labels import same_language
from bayeseval.readers.raw import RawTable, make_table
from bayeseval.readers.tabular import read_table
from bayeseval.records.cells import clean_labels
from bayeseval.records.table import Records

__all__ = [
    "PairChoice",
    "PairSource",
    "choose_pairs",
    "pairs_hash",
    "sole_pairs",
    "warn_of_sole_pairs",
]

PairSource = str | Path | pd.DataFrame

_CHOICES = ("any", "shared")

# A larger share of the common pairs should not rest on one model.
_MAX_SOLE_SHARE = 0.25


@dataclass(frozen=True, eq=False)
class PairChoice:
    """Pairs of a language and a task, each once, in the order of the levels.

    Attributes
    ----------
    language, task : ndarray of int, shape (n_pairs,)
        Positions among the levels.
    name : str
        ``any``, ``shared``, or the file (``given`` for a frame).
    """

    language: Index
    task: Index
    name: str


def choose_pairs(records: Records, source: PairSource = "any") -> PairChoice:
    """Resolve the pairs on which all models of a table are compared.

    Parameters
    ----------
    records : Records
        The table.
    source : str, Path or DataFrame
        ``any``: pairs that any model was tested on. ``shared``: that two models or more were
        tested on. Else a table with the columns ``language`` and ``task``, or its file; its
        pairs need not have been tested. A language may also be given by its English name or by
        another code of the same language.

    Raises
    ------
    InputError
        If no pair is left, the file lacks a column, or names a level that the table lacks.
    """
    n_tasks = len(records.coords["task"])
    if isinstance(source, str) and source in _CHOICES:
        code = records.codes("language") * n_tasks + records.codes("task")
        tested = np.unique(np.stack([code, records.codes("model")]), axis=1)[0]
        pairs, count = np.unique(tested, return_counts=True)
        if source == "shared":
            pairs = pairs[count > 1]
        if not len(pairs):
            raise InputError(
                f"{records.name}: no language-task pair was tested on two models; use "
                + wording("pairs='any'", "--pairs any")
            )
        return PairChoice(pairs // n_tasks, pairs % n_tasks, source)
    if isinstance(source, pd.DataFrame):
        columns = [
            (str(column), source[column].astype(object).to_numpy()) for column in source.columns
        ]
        numbers = range(1, len(source) + 1)
        return _from_table(records, make_table("pairs", "row", numbers, columns), "given")
    if not isinstance(source, str | os.PathLike):
        raise InputError(
            "pairs are any, shared, a file or a DataFrame with the columns language and task; got "
            f"{type(source).__name__}"
        )
    path = Path(source)
    refuse_special(path)
    if not path.is_file():
        raise InputError(
            f"pairs: {str(source)!r} is neither any nor shared nor a file with the columns "
            f"language and task{did_you_mean(str(source), _CHOICES)}"
        )
    return _from_table(records, read_table(path), str(path))


def pairs_hash(records: Records, pairs: PairChoice) -> str:
    """SHA-256 of the labels of the common pairs, whatever their order and their file's name."""
    languages, tasks = records.coords["language"], records.coords["task"]
    labels = sorted(
        f"{languages[i]}\t{tasks[j]}" for i, j in zip(pairs.language, pairs.task, strict=True)
    )
    return hashlib.sha256("\n".join(labels).encode()).hexdigest()


def sole_pairs(records: Records, pairs: PairChoice) -> dict[str, int]:
    """Common pairs that one model alone was tested on: models and numbers, most first."""
    n_tasks = len(records.coords["task"])
    code = records.codes("language") * n_tasks + records.codes("task")
    tested = np.unique(np.stack([code, records.codes("model")]), axis=1)
    _, first, count = np.unique(tested[0], return_index=True, return_counts=True)
    sole = first[(count == 1) & np.isin(tested[0][first], pairs.language * n_tasks + pairs.task)]
    labels = records.coords["model"]
    numbers = np.bincount(tested[1][sole], minlength=len(labels))
    order = np.argsort(-numbers, kind="stable")
    return {labels[i]: int(numbers[i]) for i in order if numbers[i]}


def warn_of_sole_pairs(records: Records, pairs: PairChoice) -> tuple[Caution, ...]:
    """Warn of a model that alone was tested on more than a quarter of the common pairs.

    The scores of the other models on these pairs are predicted, and count in their summaries.
    """
    n_pairs = len(pairs.language)
    n_alone = sole_pairs(records, pairs)
    any_shared = sum(n_alone.values()) < n_pairs
    shared = wording("pairs='shared'", "--pairs shared")
    advice = f"; {shared} leaves such pairs out"
    return tuple(
        Caution(
            f"{grouped(n)} of {grouped(n_pairs)} language-task pairs ({n / n_pairs:.0%}) have a"
            f" score of model {model} alone: the scores of the other models on them are predicted,"
            f" and count in the score and rank of each{advice if any_shared else ''}"
        )
        for model, n in n_alone.items()
        if n > _MAX_SOLE_SHARE * n_pairs
    )


def _from_table(records: Records, table: RawTable, name: str) -> PairChoice:
    language, task = (_positions(records, table, factor) for factor in ("language", "task"))
    n_tasks = len(records.coords["task"])
    pairs = np.unique(language * n_tasks + task)
    return PairChoice(pairs // n_tasks, pairs % n_tasks, name)


def _positions(records: Records, table: RawTable, factor: str) -> Index:
    """Position of every row's label among the levels of the table."""
    if factor not in table.columns:
        raise InputError(
            f"{table.source}: no column {factor!r}{did_you_mean(factor, table.columns)}; the "
            "common pairs are a table with the columns language and task"
        )
    column = table.columns[factor]
    labels = clean_labels(column, table=table, column=factor, name=factor).values
    levels = records.coords[factor]
    meant = {label: label for label in levels}
    named = records.language_names if factor == "language" else {}
    if factor == "language":
        meant |= same_language(labels.levels, levels, named)
    unknown = [i for i, label in enumerate(labels.levels) if label not in meant]
    if unknown:
        row = int(np.flatnonzero(labels.codes == unknown[0])[0])
        known = [*levels, *(named[label] for label in levels if label in named)]
        raise InputError(
            f"{table.at(row, factor)}: no {factor} {labels[row]!r} in {records.name}"
            f"{did_you_mean(labels[row], known)}"
        )
    place = {label: i for i, label in enumerate(levels)}
    return np.array([place[meant[label]] for label in labels.levels], dtype=np.int64)[labels.codes]
