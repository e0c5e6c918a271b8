"""How related languages are, from a matrix of the user: similarities or distances in a file."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Final

import numpy as np
from scipy.linalg import eigh

from bayeseval._special import refuse_special
from bayeseval._text import grouped
from bayeseval._typing import Floats
from bayeseval.errors import InputError
from bayeseval.languages.matching import match
from bayeseval.languages.relations import Related

__all__ = ["by_file"]

# Largest difference between two entries that should be equal: files have rounded numbers.
_ROUNDING: Final = 1e-3
# Smallest eigenvalue that counts as rounding, relative to the largest.
_NEGATIVE: Final = -1e-3
# Larger numbers are no distances; those of metres around the earth are below 1e8.
_MOST: Final = 1e12
# Most languages of a matrix: its eigenvalues take minutes, and half a gigabyte of memory.
_MOST_LABELS: Final = 5000
# Most labels that a message lists.
_SHOWN: Final = 8


def by_file(labels: Sequence[str], path: str) -> Related:
    """Relate languages as a matrix in a CSV file says.

    Parameters
    ----------
    labels : sequence of str
        Languages, matched to the labels of the file as those of covariates are.
    path : str
        A square table: labels in the first row and in the first column. With ones on the
        diagonal its entries are similarities; with zeros they are distances d, which become
        exp(-d / m) with m the median distance between the languages of the file.

    Returns
    -------
    Related

    Raises
    ------
    InputError
        If the file is no such table, or lacks a language; if it is not symmetric or not positive
        semidefinite.

    Examples
    --------
    >>> import pandas as pd
    >>> labels = ["de", "nl", "ja"]
    >>> similar = [[1, 0.8, 0.2], [0.8, 1, 0.1], [0.2, 0.1, 1]]
    >>> pd.DataFrame(similar, labels, labels).to_csv("syntax.csv")
    >>> by_file(["Japanese", "de"], "syntax.csv").matrix
    array([[1. , 0.2],
           [0.2, 1. ]])
    """
    place = Path(path)
    refuse_special(place)
    try:
        changed = place.stat().st_mtime_ns
    except OSError as error:
        raise InputError(
            f"{path}: no such file of relations between languages ({error.strerror}); give its "
            "path from the current folder"
        ) from error
    theirs, matrix = _read(path, changed)
    matches = match(labels, theirs)
    lacking = [label for label in labels if label not in matches.mapping]
    if lacking:
        more = f" and {len(lacking) - _SHOWN} more" if len(lacking) > _SHOWN else ""
        shown = ", ".join(map(repr, lacking[:_SHOWN])) + more
        raise InputError(
            f"{path}: no row for {shown}; add {'it' if len(lacking) == 1 else 'them'}, or leave "
            f"{'this language' if len(lacking) == 1 else 'these languages'} out of the table"
        )
    at = [theirs.index(matches.mapping[label]) for label in labels]
    return Related(matrix[np.ix_(at, at)], matches.notes())


@lru_cache(maxsize=8)
def _read(path: str, changed: int) -> tuple[tuple[str, ...], Floats]:
    """Labels and similarities of a file; `changed` makes an edited file another one."""
    try:
        with Path(path).open(encoding="utf-8-sig", newline="") as lines:
            rows = (row for row in csv.reader(lines) if any(cell.strip() for cell in row))
            labels, values = _square(path, rows)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path}: not a readable CSV file in UTF-8 ({error})") from error
    return labels, _similarities(path, labels, values)


def _square(path: str, rows: Iterator[list[str]]) -> tuple[tuple[str, ...], Floats]:
    """Labels and numbers of a square table, row by row: its text takes ten times the memory."""
    labels = tuple(cell.strip() for cell in next(rows, [])[1:])
    unlike = InputError(
        f"{path}: expected a square table with the same languages, each once, in the first row "
        "and in the first column"
    )
    if len(labels) < 2 or len(set(labels)) < len(labels):
        raise unlike
    if len(labels) > _MOST_LABELS:
        raise InputError(
            f"{path}: {grouped(len(labels))} languages; a matrix of at most "
            f"{grouped(_MOST_LABELS)} is read; leave out languages without scores"
        )
    values = np.empty((len(labels), len(labels)))
    n_rows = 0
    for n_rows, row in enumerate(rows, start=1):
        if n_rows > len(labels) or row[0].strip() != labels[n_rows - 1]:
            raise unlike
        must = f"{path}: the row {labels[n_rows - 1]!r} must have {len(labels)} finite numbers"
        if len(row) != len(labels) + 1:
            raise InputError(f"{must}; it has {len(row) - 1}")
        try:
            values[n_rows - 1] = [float(cell) for cell in row[1:]]
        except ValueError as error:
            raise InputError(f"{must} ({error})") from error
    if n_rows < len(labels):
        raise unlike
    return labels, values


def _similarities(path: str, labels: tuple[str, ...], values: Floats) -> Floats:
    """Check a matrix; turn distances into similarities. `values` is overwritten."""
    if not np.isfinite(values).all():
        row = labels[int(np.argwhere(~np.isfinite(values))[0][0])]
        raise InputError(f"{path}: the row {row!r} must have {len(labels)} finite numbers")
    largest = max(float(values.max()), -float(values.min()))
    if largest > _MOST:
        row = labels[int(np.argwhere(np.abs(values) > _MOST)[0][0])]
        raise InputError(f"{path}: the row {row!r} has a number beyond {_MOST:g}")
    skew = [float(np.abs(row - values[:, i]).max()) for i, row in enumerate(values)]
    if max(skew) > _ROUNDING * largest:
        i = int(np.argmax(skew))
        j = int(np.abs(values[i] - values[:, i]).argmax())
        raise InputError(
            f"{path}: {labels[i]!r} and {labels[j]!r} are related by {values[i, j]:g} in one row "
            f"and by {values[j, i]:g} in the other; the table must be symmetric"
        )
    for i in range(len(values)):
        values[i, i:] = values[i:, i] = 0.5 * (values[i, i:] + values[i:, i])
    diagonal = np.diag(values)
    if (diagonal == 0.0).all() and (values >= 0.0).all() and values.any():
        unit = float(np.median(np.concatenate([row[i + 1 :] for i, row in enumerate(values)])))
        if not unit:
            raise InputError(
                f"{path}: half of the distances between languages or more are 0, and the median "
                "distance is their unit; give similarities, such as exp(-distance / unit)"
            )
        np.exp(np.divide(values, -unit, out=values), out=values)
    elif np.abs(diagonal - 1.0).max() > _ROUNDING or largest > 1.0 + _ROUNDING:
        raise InputError(
            f"{path}: expected similarities up to 1 with ones on the diagonal, or distances with "
            f"zeros; the diagonal is from {diagonal.min():g} to {diagonal.max():g}"
        )
    return _semidefinite(path, values)


def _semidefinite(path: str, values: Floats) -> Floats:
    """The nearest matrix without negative eigenvalues, with ones on the diagonal."""
    # This driver needs no workspace of the size of the matrix, which is overwritten.
    eigenvalues, roots = eigh(values.T, driver="evr", overwrite_a=True)
    if eigenvalues[0] < _NEGATIVE * eigenvalues[-1]:
        raise InputError(
            f"{path}: the similarities are not positive semidefinite (smallest eigenvalue "
            f"{eigenvalues[0]:.3g}), so no effects of languages can vary together like this; use "
            "inner products of features of unit length, or exp(-distance) of Euclidean distances"
        )
    # Rounded numbers have eigenvalues just below zero.
    roots *= np.sqrt(np.maximum(eigenvalues, 0.0))
    np.matmul(roots, roots.T, out=values)
    scale = np.sqrt(np.diag(values))
    values /= scale
    values /= scale[:, None]
    np.clip(values, -1.0, 1.0, out=values)
    np.fill_diagonal(values, 1.0)
    return np.asarray(values.round(12, out=values))
