"""How related languages are: matrices from labels, by place, family, script or a file."""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final

import numpy as np

from bayeseval._typing import Floats
from bayeseval.errors import InputError
from bayeseval.languages.codes import Language, understand

__all__ = ["Related", "by_family", "by_place", "by_script", "family_path"]

_FILE: Final = Path(__file__).resolve().parent / "genealogy" / "languages.csv.gz"
_EARTH_KM: Final = 6371.0
# Roots of Glottolog that are no families: artificial languages, pidgins, mixed languages,
# registers, sign languages, unattested and unclassifiable ones. Their members are unrelated.
_NO_FAMILIES: Final = frozenset(
    {
        *("arti1236", "book1242", "mixe1287", "pidg1258"),
        *("sign1238", "spee1234", "unat1236", "uncl1493"),
    }
)
# Macrolanguages and a standard variety without a row, and a variety that stands for each;
# ajp is part of apc since 2023.
_STAND_INS: Final = {"ajp": "apc", "kon": "kng", "srd": "src", "zgh": "tzm"}
# Most labels that a message lists.
_SHOWN: Final = 8


@dataclass(frozen=True, eq=False)
class Related:
    """How related some languages are.

    Attributes
    ----------
    matrix : ndarray, shape (n_languages, n_languages)
        Symmetric, positive semidefinite, with a diagonal of 1.
    notes : tuple of str
        What was read into the labels, a sentence each.
    """

    matrix: Floats
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Row:
    latitude: float
    longitude: float
    path: tuple[str, ...]


@lru_cache(maxsize=1)
def _rows() -> dict[str, _Row]:
    """Rows of Glottolog by ISO 639-3; ``genealogy/README.md`` has the source."""
    text = gzip.decompress(_FILE.read_bytes()).decode("utf-8")
    rows = {}
    for row in csv.DictReader(io.StringIO(text)):
        path = tuple(row["path"].split("/"))
        rows[row["iso639_3"]] = _Row(
            latitude=float(row["latitude"] or "nan"),
            longitude=float(row["longitude"] or "nan"),
            path=path[-1:] if path[0] in _NO_FAMILIES else path,
        )
    return rows


def _understood(labels: Sequence[str]) -> list[Language]:
    """The languages that labels mean; labels without a meaning are refused in one message."""
    found = [understand(label) for label in labels]
    unknown = [label for label, one in zip(labels, found, strict=True) if one is None]
    if unknown:
        raise InputError(
            f"{_listed(unknown)}: no known {'language' if len(unknown) == 1 else 'languages'}, so "
            "how related they are to others is not known; write ISO 639 codes, BCP-47 tags or "
            "English names, leave them out, or fit a model without languages: {...}"
        )
    return [one for one in found if one is not None]


def _listed(labels: Sequence[str]) -> str:
    more = f" and {len(labels) - _SHOWN} more" if len(labels) > _SHOWN else ""
    return ", ".join(map(repr, labels[:_SHOWN])) + more


def _glottolog(labels: Sequence[str]) -> tuple[list[_Row], tuple[str, ...]]:
    """Rows of the languages that labels mean, and notes on those read as another."""
    rows, absent, read = [], [], []
    for language in _understood(labels):
        code = next((c for c in _candidates(language) if c in _rows()), None)
        if code is None:
            absent.append(language.label)
            continue
        if code != language.code:
            read.append(f"{language.label} as {code}")
        rows.append(_rows()[code])
    if absent:
        raise InputError(
            f"Glottolog has no row for {_listed(absent)}; use the code of one variety, leave "
            "them out, or remove place and family from languages: in the spec"
        )
    notes = (f"place and family in Glottolog: {', '.join(read)}",) if read else ()
    return rows, notes


def _candidates(language: Language) -> tuple[str, ...]:
    """Codes to look for: the variety that is meant, what the label says, what stands for it."""
    stand_in = _STAND_INS.get(language.standard, language.macro)
    return (language.standard, language.code, stand_in)


def by_place(labels: Sequence[str], *, km: float) -> Related:
    """Relate languages that are spoken near each other: exp(-d / km), d the great circle.

    Parameters
    ----------
    labels : sequence of str
        Codes or English names.
    km : float
        Distance over which the relation falls to 1/e, in kilometres.

    Returns
    -------
    Related
        A language whose place is not known is related to none.

    Raises
    ------
    InputError
        If a label is no known language, or Glottolog has no row for it.

    Examples
    --------
    >>> by_place(["de", "nl", "ja"], km=1000).matrix.round(2)
    array([[1.  , 0.52, 0.  ],
           [0.52, 1.  , 0.  ],
           [0.  , 0.  , 1.  ]])
    """
    rows, notes = _glottolog(labels)
    latitude, longitude = np.radians([[row.latitude, row.longitude] for row in rows]).T
    points = np.stack(
        [
            np.cos(latitude) * np.cos(longitude),
            np.cos(latitude) * np.sin(longitude),
            np.sin(latitude),
        ],
        axis=1,
    )
    # Half the chord: exact for near points too, where the arc cosine is not.
    chord = np.linalg.norm(points[:, None] - points[None], axis=-1)
    distance = 2.0 * _EARTH_KM * np.arcsin(np.minimum(0.5 * chord, 1.0))
    matrix = np.where(np.isnan(distance), 0.0, np.exp(-distance / km))
    np.fill_diagonal(matrix, 1.0)
    nowhere = [label for label, row in zip(labels, rows, strict=True) if np.isnan(row.latitude)]
    if nowhere:
        notes += (f"no place is known of {_listed(nowhere)}: related to no language by place",)
    return Related(matrix, notes)


def family_path(label: str) -> tuple[str, ...]:
    """Nodes of Glottolog from the root of a language's family to the language.

    Examples
    --------
    >>> family_path("eu"), len(family_path("de"))
    (('basq1248',), 12)
    """
    return _glottolog([label])[0][0].path


def by_family(labels: Sequence[str]) -> Related:
    """Relate languages by the branches of Glottolog's tree that they share.

    The number of common nodes, over the geometric mean of the lengths of the two paths from the
    root of the family to the language: 0 for languages of different families.

    Parameters
    ----------
    labels : sequence of str
        Codes or English names.

    Returns
    -------
    Related

    Raises
    ------
    InputError
        If a label is no known language, or Glottolog has no row for it.

    Examples
    --------
    >>> by_family(["de", "nl", "eu"]).matrix.round(2)
    array([[1.  , 0.46, 0.  ],
           [0.46, 1.  , 0.  ],
           [0.  , 0.  , 1.  ]])
    """
    rows, notes = _glottolog(labels)
    paths = [row.path for row in rows]
    nodes = {node: i for i, node in enumerate(dict.fromkeys(n for path in paths for n in path))}
    on_path = np.zeros((len(paths), len(nodes)))
    for row, path in zip(on_path, paths, strict=True):
        row[[nodes[node] for node in path]] = 1.0
    # A node has one parent, so that common nodes are common from the root on.
    unit = on_path / np.sqrt(on_path.sum(axis=1, keepdims=True))
    return Related(_symmetric(unit @ unit.T), notes)


def by_script(labels: Sequence[str]) -> Related:
    """Relate languages that are written in the same script: 1, and 0 for all others.

    Parameters
    ----------
    labels : sequence of str
        Codes or English names; a label without a script has the usual one of its language.

    Returns
    -------
    Related
        A language whose script is not known is related to none.

    Raises
    ------
    InputError
        If a label is no known language.

    Examples
    --------
    >>> by_script(["de", "sr_Latn", "sr"]).matrix
    array([[1., 1., 0.],
           [1., 1., 0.],
           [0., 0., 1.]])
    """
    scripts = np.array([language.script for language in _understood(labels)])
    known = scripts != ""
    matrix = ((scripts[:, None] == scripts) & known).astype(np.float64)
    np.fill_diagonal(matrix, 1.0)
    without = [label for label, there in zip(labels, known, strict=True) if not there]
    note = f"no script is known of {_listed(without)}: related to no language by script"
    return Related(matrix, (note,) if without else ())


def _symmetric(matrix: Floats) -> Floats:
    """Without the rounding errors of products: symmetric, with a diagonal of exactly 1."""
    result = np.minimum(0.5 * (matrix + matrix.T), 1.0)
    np.fill_diagonal(result, 1.0)
    return np.asarray(result)
