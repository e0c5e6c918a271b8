"""One label where several of a table mean the same language."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from bayeseval._text import shorten, show
from bayeseval.languages.codes import understand
from bayeseval.records.coded import Coded

__all__ = ["merge_labels"]

_SHOWN = 4


def merge_labels(languages: Coded) -> tuple[Coded, list[str]]:
    """One label where several mean the same language, script and territory.

    ``English``, ``en`` and ``eng_Latn`` become the label that most rows have (of equally
    many the shortest). Labels of a macro language and of its standard variety (``sw`` and
    ``swh``, ``fil`` and ``tl``) stay apart, because a table may mean both.

    Parameters
    ----------
    languages : Coded
        The language of each row.

    Returns
    -------
    languages : Coded
        With one label each.
    notes : list of str
        Which labels were merged, and a warning for those that stay apart.
    """
    groups: dict[tuple[str, str, str | None], list[str]] = defaultdict(list)
    near: dict[tuple[str, str, str | None], dict[str, str]] = defaultdict(dict)
    for label in languages.present():
        one = understand(label)
        if one is not None:
            groups[one.code, one.script, one.territory].append(label)
            near[one.standard, one.script, one.territory].setdefault(one.code, label)
    rows = dict(zip(languages.levels, _rows(languages), strict=True))
    taken: dict[str, str] = {}
    notes = []
    for labels in groups.values():
        kept, *others = sorted(labels, key=lambda label: (-rows[label], len(label), label))
        if others:
            taken |= dict.fromkeys(others, kept)
            which = shorten([show(label) for label in sorted(labels)], limit=_SHOWN)
            notes.append(
                f"language labels {which} mean the same language: all are called {show(kept)}"
            )
    for by_code in near.values():
        if len(by_code) > 1:
            which = shorten([show(taken.get(one, one)) for one in by_code.values()], limit=_SHOWN)
            notes.append(
                f"warning: language labels {which} may mean the same language (a language and its"
                " standard variety); they were kept apart: rename one if they are the same"
            )
    if not taken:
        return languages, notes
    return Coded.of(languages.codes, [taken.get(one, one) for one in languages.levels]), notes


def _rows(languages: Coded) -> list[int]:
    counts: list[int] = np.bincount(languages.codes, minlength=len(languages.levels)).tolist()
    return counts
