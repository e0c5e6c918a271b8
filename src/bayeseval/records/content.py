"""Hashes of records: the same whatever the file format, the order of rows or the libraries."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from bayeseval.records.report import Units

__all__ = ["content_hashes"]

# Part of every hash; to be raised when the content of the hash changes.
_HASH_VERSION: Final = b"bayeseval-records-1"


def content_hashes(
    frame: pd.DataFrame,
    units: Mapping[str, Units],
    datasets: Mapping[str, str],
    *,
    reduced: Iterable[str] | None = None,
) -> tuple[str, str]:
    """SHA-256 of records with and without their units, in hexadecimal digits.

    Parameters
    ----------
    frame : pandas.DataFrame
        The records in canonical order; labels are categories.
    units : dict of str to Units
        By task.
    datasets : dict of str to str
        Datasets of the tasks whose dataset is another one than their labels say.
    reduced : iterable of str, optional
        What identifies the rows that the scores are sums of.
    """
    digest, columns = hashlib.sha256(_HASH_VERSION), set(frame.columns)
    if reduced is not None:
        # Sums of many rows differ in their last digits; the files do not.
        _feed(digest.update, "reduced", *reduced)
        columns.discard("score")
    for column in sorted(columns):
        _feed(digest.update, column)
        values = frame[column]
        if values.dtype == np.float64:
            _feed(digest.update, "numbers")
            digest.update(_float_bytes(values.to_numpy(dtype=np.float64)))
        else:
            _feed(digest.update, "labels")
            codes, uniques = _by_appearance(values)
            _feed(digest.update, *uniques)
            digest.update(codes.astype("<i8").tobytes())
    rows = digest.hexdigest()
    for task in sorted(units):
        _feed(digest.update, task, repr(units[task].lower), repr(units[task].upper))
    for task in sorted(datasets):
        _feed(digest.update, "dataset", task, datasets[task])
    return digest.hexdigest(), rows


def _feed(update: Callable[[bytes], None], *texts: str) -> None:
    """Hash texts so that no two sequences of them give the same bytes."""
    update(len(texts).to_bytes(8, "little"))
    for text in texts:
        encoded = str(text).encode("utf-8")
        update(len(encoded).to_bytes(8, "little"))
        update(encoded)


def _by_appearance(values: pd.Series[Any]) -> tuple[npt.NDArray[np.int64], list[str]]:
    """Codes of labels in the order of their first rows, -1 for none; and the labels."""
    by_first_row, places = pd.factorize(values.cat.codes.to_numpy())
    renumbered = np.where(places < 0, -1, np.cumsum(places >= 0) - 1)
    categories = values.cat.categories.tolist()
    return renumbered[by_first_row], [str(categories[place]) for place in places if place >= 0]


def _float_bytes(values: npt.NDArray[np.float64]) -> bytes:
    """IEEE bytes, with one NaN (the empty cell) and one zero."""
    canonical = np.where(np.isnan(values), np.nan, values + 0.0)
    return canonical.astype("<f8").tobytes()
