"""What tells two runs apart: a result folder holds one, and files of another do not go into it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from bayeseval.errors import InputError

__all__ = ["RUN_ID", "ReplacedError", "differing_identity"]

#: Keys of the run file that say which run it is.
RUN_ID: Final = ("data_hash", "spec_hash", "engine", "seed", "pairs_hash", "margin")

_ID_WORDS: Final = {"data_hash": "data", "spec_hash": "spec", "pairs_hash": "pairs"}
_HASH_SHOWN: Final = 12  # enough of a SHA-256 to tell two apart by eye


class ReplacedError(InputError):
    """The results of a folder are no longer those that were read."""


def differing_identity(
    theirs: Mapping[str, Any], ours: Mapping[str, Any]
) -> tuple[str, str] | None:
    """Say in what two runs differ, or None; what our run does not know yet is not compared.

    Examples
    --------
    >>> differing_identity({"engine": "ml", "seed": 1}, {"engine": "ml", "seed": 2})
    ('seed 1', 'seed 2')
    >>> differing_identity({"engine": "ml", "seed": 1}, {"engine": "ml"})
    """
    differing = [key for key in RUN_ID if key in ours and theirs.get(key) != ours[key]]
    if not differing:
        return None
    texts = [", ".join(_text(key, run) for key in differing) for run in (theirs, ours)]
    return texts[0], texts[1]


def _text(key: str, run: Mapping[str, Any]) -> str:
    value = run.get(key)
    # None is a margin that was not given; anything else was not written down.
    text = ("default" if key == "margin" else "unknown") if value is None else str(value)
    return f"{_ID_WORDS.get(key, key)} {text[:_HASH_SHOWN] if key.endswith('_hash') else text}"
