"""How related languages are, from a matrix of the user: similarities or distances in a file."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Final

import numpy as np

from bayeseval._special import refuse_special
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
            rows = [row for row in csv.reader(lines) if any(cell.strip() for cell in row)]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path}: not a readable CSV file in UTF-8 ({error})") from error
    header = tuple(cell.strip() for cell in (rows[0][1:] if rows else []))
    first = tuple(row[0].strip() for row in rows[1:])
    if len(header) < 2 or header != first or len(set(header)) < len(header):
        raise InputError(
            f"{path}: expected a square table with the same languages, each once, in the first row "
            "and in the first column"
        )
    values = np.empty((len(header), len(header)))
    for label, out, row in zip(first, values, rows[1:], strict=True):
        try:
            out[:] = [float(cell) for cell in row[1:]]
        except ValueError as error:
            raise InputError(
                f"{path}: the row {label!r} must have {len(header)} finite numbers ({error})"
            ) from error
    return header, _similarities(path, header, values)


def _similarities(path: str, labels: tuple[str, ...], values: Floats) -> Floats:
    """Check a matrix; turn distances into similarities."""
    if not np.isfinite(values).all():
        row = labels[int(np.argwhere(~np.isfinite(values))[0][0])]
        raise InputError(f"{path}: the row {row!r} must have {len(labels)} finite numbers")
    if np.abs(values).max() > _MOST:
        row = labels[int(np.argwhere(np.abs(values) > _MOST)[0][0])]
        raise InputError(f"{path}: the row {row!r} has a number beyond {_MOST:g}")
    skew = np.abs(values - values.T)
    if skew.max() > _ROUNDING * np.abs(values).max():
        i, j = (int(k) for k in np.unravel_index(skew.argmax(), skew.shape))
        raise InputError(
            f"{path}: {labels[i]!r} and {labels[j]!r} are related by {values[i, j]:g} in one row "
            f"and by {values[j, i]:g} in the other; the table must be symmetric"
        )
    values = 0.5 * (values + values.T)
    diagonal = np.diag(values)
    if (diagonal == 0.0).all() and (values >= 0.0).all() and values.any():
        unit = float(np.median(values[np.triu_indices(len(values), 1)]))
        if not unit:
            raise InputError(
                f"{path}: half of the distances between languages or more are 0, and the median "
                "distance is their unit; give similarities, such as exp(-distance / unit)"
            )
        values = np.exp(-values / unit)
    elif np.abs(diagonal - 1.0).max() > _ROUNDING or np.abs(values).max() > 1.0 + _ROUNDING:
        raise InputError(
            f"{path}: expected similarities up to 1 with ones on the diagonal, or distances with "
            f"zeros; the diagonal is from {diagonal.min():g} to {diagonal.max():g}"
        )
    eigenvalues, vectors = np.linalg.eigh(values)
    if eigenvalues[0] < _NEGATIVE * eigenvalues[-1]:
        raise InputError(
            f"{path}: the similarities are not positive semidefinite (smallest eigenvalue "
            f"{eigenvalues[0]:.3g}), so no effects of languages can vary together like this; use "
            "inner products of features of unit length, or exp(-distance) of Euclidean distances"
        )
    # Rounded numbers have eigenvalues just below zero.
    values = (vectors * np.maximum(eigenvalues, 0.0)) @ vectors.T
    scale = np.sqrt(np.diag(values))
    values = values / scale / scale[:, None]
    values = np.clip(0.5 * (values + values.T), -1.0, 1.0)
    np.fill_diagonal(values, 1.0)
    return np.asarray(values.round(12))
