"""Tables of alignment from files: this package's, the reference tool's, and papers'."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from bayeseval._text import show
from bayeseval._typing import Floats
from bayeseval.errors import InputError, did_you_mean, wording
from bayeseval.mexa.alignment import Pooling, pool
from bayeseval.readers.base import as_number, read_json
from bayeseval.readers.raw import RawTable
from bayeseval.readers.tabular import read_table
from bayeseval.records import LANGUAGE_COLUMNS
from bayeseval.records.cells import clean_labels, empty_cells, parse_numbers

__all__ = ["AlignmentTable", "read_alignment"]


#: The tidy table in a folder that `bayeseval mexa` wrote.
TIDY: Final = "alignment.csv"

_VALUES: Final = ("alignment", "mexa", "score", "value")
_AVERAGES: Final = ("avg", "average", "mean")
# Columns of tidy tables that are no values.
_KEYS: Final = ("model", "embedding", "layer", "n")
_SHOWN: Final = 12
_DIGITS: Final = 6


@dataclass(frozen=True, eq=False)
class AlignmentTable:
    """Alignment, or any other number, by model and language.

    Attributes
    ----------
    source : str
        The file or folder.
    models : tuple of str
        One without a name (``""``) where the source names none.
    labels : tuple of str
        Languages as the source writes them.
    values : ndarray, shape (n_models, n_labels)
        NaN where missing; layers are pooled.
    n : ndarray, same shape, or None
        Sentences behind each value, where the source says it.
    notes : tuple of str
        What was read otherwise than it stands there.
    """

    source: str
    models: tuple[str, ...]
    labels: tuple[str, ...]
    values: Floats
    n: Floats | None = None
    notes: tuple[str, ...] = ()


def read_alignment(
    path: str | Path,
    *,
    column: str | None = None,
    pooling: Pooling = "mean",
    embedding: str | None = None,
) -> AlignmentTable:
    """Read a table of alignment, whatever wrote it.

    Parameters
    ----------
    path : str or Path
        A folder that ``bayeseval mexa`` wrote; a folder of the reference tool, with
        one ``LANGUAGE.json`` of layers and scores per language; or a file (CSV, TSV,
        JSON, JSONL, Parquet): tidy with columns ``language``, ``model``, ``layer``,
        ``alignment``, ``n``, or wide with one row per language and a column per model.
    column : str, optional
        The one column to take the values from.
    pooling : {"mean", "max"}
        How layers become one score, where the source has layers.
    embedding : str, optional
        ``weighted`` or ``last``, where the source has both.

    Returns
    -------
    AlignmentTable

    Raises
    ------
    InputError
        One line: the file, the place, what is wrong.
    """
    where = Path(path)
    # Path.exists raises an error for names that are too long.
    if not os.path.exists(where):  # noqa: PTH110
        raise InputError(f"{path}: no such file or folder")
    if where.is_dir():
        if not (where / TIDY).is_file():
            return _reference(where, pooling)
        where = where / TIDY
    table = read_table(where)
    names = {name.casefold(): name for name in table.columns}
    if column is not None and column not in table.columns:
        raise InputError(
            f"{table.source}: there is no column {column!r}{did_you_mean(column, table.columns)} "
            f"(columns: {_few(list(table.columns))})"
        )
    language = _language_column(table, names)
    labels = _texts(table, language, "the language")
    if "model" in names or "layer" in names:
        return _tidy(table, names, language, labels, column, pooling, embedding)
    return _wide(table, names, language, labels, column)


def _texts(table: RawTable, column: str, what: str) -> list[str]:
    cells = clean_labels(table.columns[column], table=table, column=column, name=what).values
    return [cells[row] for row in range(len(cells))]


def _language_column(table: RawTable, names: Mapping[str, str]) -> str:
    for name in LANGUAGE_COLUMNS:
        if name in names:
            return names[name]
    text = [name for name in table.columns if not _numeric(table, name)]
    if len(text) != 1:
        raise InputError(
            f"{table.source}: no column of languages; name it 'language' "
            f"(columns: {_few(list(table.columns))})"
        )
    return text[0]


def _numeric(table: RawTable, name: str) -> bool:
    """Whether a column holds numbers; a slip among them is for :func:`_numbers` to refuse."""
    cells = table.columns[name]
    if np.all(empty_cells(cells)):
        return False
    try:
        _numbers(table, name)
    except InputError:
        return any(_is_number(cells[row]) for row in range(len(cells)))
    return True


def _is_number(cell: object) -> bool:
    if isinstance(cell, bool) or not isinstance(cell, str | int | float):
        return False
    try:
        return bool(np.isfinite(float(cell)))
    except (ValueError, OverflowError):
        return False


def _numbers(table: RawTable, name: str) -> Floats:
    return parse_numbers(table.columns[name], table=table, column=name, name="the value")


def _counts(table: RawTable, name: str) -> Floats:
    """Numbers of sentences."""
    counts = _numbers(table, name)
    wrong = np.flatnonzero(counts < 1)
    if wrong.size:
        row = int(wrong[0])
        raise InputError(
            f"{table.at(row, name)}: {counts[row]:g} is no number of sentences; expected 1 or more"
        )
    return counts


def _tidy(
    table: RawTable,
    names: Mapping[str, str],
    language: str,
    labels: list[str],
    column: str | None,
    pooling: Pooling,
    embedding: str | None,
) -> AlignmentTable:
    rows = np.arange(len(table))
    notes: list[str] = []
    if "embedding" in names:
        kinds = _texts(table, names["embedding"], "the embedding")
        there = list(dict.fromkeys(kinds))
        if embedding is None and len(there) > 1:
            one = wording(f"choose one with embedding={there[0]!r}", "keep the rows of one of them")
            raise InputError(f"{table.source}: several embeddings ({', '.join(there)}); {one}")
        if embedding is not None and embedding not in there:
            raise InputError(
                f"{table.source}: no embedding {embedding!r} (there: {', '.join(there)})"
            )
        wanted = embedding or there[0]
        rows = np.array([i for i, kind in enumerate(kinds) if kind == wanted])
    values = _numbers(table, column or _value_column(table, names, language))
    models = [""] * len(table)
    if "model" in names:
        models = _texts(table, names["model"], "the model")
    layers = _numbers(table, names["layer"]) if "layer" in names else np.zeros(len(table))
    sentences = _counts(table, names["n"]) if "n" in names else None
    cells: dict[tuple[str, str], dict[float, int]] = {}
    for row in rows:
        layered = cells.setdefault((models[row], labels[row]), {})
        if layers[row] in layered:
            again = table.numbers[layered[layers[row]]]
            raise InputError(
                f"{table.at(int(row))}: {labels[row]!r} is there twice (also {table.place} {again})"
            )
        layered[layers[row]] = int(row)
    if "layer" in names:
        _check_layers(table, cells)
        notes.append(f"layers were pooled by their {'mean' if pooling == 'mean' else 'maximum'}")
    order = [list(dict.fromkeys(key[k] for key in cells)) for k in (0, 1)]
    pooled = np.full((len(order[0]), len(order[1])), np.nan)
    counts = np.full_like(pooled, np.nan)
    for (model, label), layered in cells.items():
        place = order[0].index(model), order[1].index(label)
        chosen = [layered[layer] for layer in sorted(layered)]
        pooled[place] = pool(values[chosen], pooling)
        if sentences is not None:
            counts[place] = np.min(sentences[chosen])
    return AlignmentTable(
        table.source,
        tuple(order[0]),
        tuple(order[1]),
        pooled,
        counts if sentences is not None else None,
        tuple(notes),
    )


def _check_layers(table: RawTable, cells: Mapping[tuple[str, str], Mapping[float, int]]) -> None:
    """Languages of one model have the same layers, or their pooled scores do not compare."""
    first: dict[str, tuple[str, set[float]]] = {}
    for (model, label), layered in cells.items():
        other, layers = first.setdefault(model, (label, set(layered)))
        if layers != set(layered):
            raise InputError(
                f"{table.source}: {label!r} has {len(layered)} layers and {other!r} {len(layers)}; "
                "scores pooled over different layers do not compare"
            )


def _value_column(table: RawTable, names: Mapping[str, str], language: str) -> str:
    for name in _VALUES:
        if name in names:
            return names[name]
    left = [
        name
        for name in table.columns
        if name != language and name.casefold() not in _KEYS and _numeric(table, name)
    ]
    if len(left) != 1:
        raise InputError(
            f"{table.source}: which column holds the values? "
            f"({'candidates: ' + _few(left) if left else 'none holds numbers'})"
        )
    return left[0]


def _wide(
    table: RawTable,
    names: Mapping[str, str],
    language: str,
    labels: list[str],
    column: str | None,
) -> AlignmentTable:
    seen: dict[str, int] = {}
    for row, label in enumerate(labels):
        if label in seen:
            raise InputError(
                f"{table.at(row)}: {label!r} is there twice (also {table.place} "
                f"{table.numbers[seen[label]]})"
            )
        seen[label] = row
    notes: list[str] = []
    if column is not None:
        chosen = [column]
    else:
        candidates = [name for name in table.columns if name not in (language, names.get("n"))]
        averages = [name for name in candidates if name.casefold() in _AVERAGES]
        chosen = [name for name in candidates if name not in averages]
        # A lone average is the values; beside its parts it would count twice.
        if not chosen:
            chosen, averages = averages, []
        notes += [f"the column {name!r} was left aside as an average" for name in averages]
        text = [name for name in chosen if not _numeric(table, name)]
        chosen = [name for name in chosen if name not in text]
        notes += [f"the column {name!r} was left aside: it holds no numbers" for name in text]
    if not chosen:
        raise InputError(f"{table.source}: no column of numbers beside {language!r}")
    values = np.stack([_numbers(table, name) for name in chosen])
    counts = None
    if "n" in names:
        counts = np.broadcast_to(_counts(table, names["n"]), values.shape)
    models = tuple(chosen) if len(chosen) > 1 else ("",)
    return AlignmentTable(table.source, models, tuple(labels), values, counts, tuple(notes))


def _reference(folder: Path, pooling: Pooling) -> AlignmentTable:
    """A folder of the MEXA authors' tool: ``{"0": 0.01, "1": 0.2, ...}`` in LANGUAGE.json."""
    scores: dict[str, Floats] = {}
    layers: dict[str, list[str]] = {}
    for path in sorted(folder.glob("*.json")):
        layered = _layers_of(path)
        order = sorted(layered, key=int)
        scores[path.stem] = np.array([layered[key] for key in order])
        layers[path.stem] = order
        first = next(iter(layers))
        if layers[first] != order:
            raise InputError(
                f"{path}: it has {len(order)} layers and {first}.json {len(layers[first])}; "
                "scores pooled over different layers do not compare"
            )
    if not scores:
        raise InputError(
            f"{folder}: neither {TIDY} nor files LANGUAGE.json of layers and scores are in it"
        )
    pooled = pool(np.stack(list(scores.values())), pooling)
    notes = (f"layers were pooled by their {'mean' if pooling == 'mean' else 'maximum'}",)
    return AlignmentTable(str(folder), ("",), tuple(scores), pooled[None], None, notes)


def _layers_of(path: Path) -> dict[str, float]:
    expected = 'an object of layers and scores, such as {"0": 0.01, "1": 0.2}'
    content = read_json(path)
    good = isinstance(content, dict) and content
    # Longer names than that are no numbers of layers.
    if not good or not all(key.isdecimal() and len(key) < _DIGITS for key in content):
        raise InputError(f"{path}: expected {expected}")
    layers: dict[str, float] = {}
    for key, value in content.items():
        number = as_number(value, f"{path}: layer {key}")
        if number is None:
            raise InputError(f"{path}: layer {key} has {show(value)} instead of a score")
        if str(int(key)) in layers:
            raise InputError(f"{path}: layer {int(key)} is there twice")
        layers[str(int(key))] = number
    return layers


def _few(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(repr(name) for name in names[:_SHOWN]) + more
