"""One label where several of a table mean the same language."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from bayeseval._text import Caution, Note, shorten, show
from bayeseval.languages.codes import understand
from bayeseval.records.coded import Coded

__all__ = ["merge_labels"]

_SHOWN = 4


def merge_labels(languages: Coded) -> tuple[Coded, list[Note]]:
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
    notes : list of Note
        Which labels were merged, and a warning for those that stay apart.
    """
    groups: dict[tuple[str, str, str | None], list[str]] = defaultdict(list)
    by_standard: dict[tuple[str, str, str | None], dict[str, str]] = defaultdict(dict)
    for label in languages.present():
        one = understand(label)
        if one is not None:
            groups[one.code, one.script, one.territory].append(label)
            by_standard[one.standard, one.script, one.territory].setdefault(one.code, label)
    rows = dict(zip(languages.levels, _rows(languages), strict=True))
    renamed: dict[str, str] = {}
    notes: list[Note] = []
    for labels in groups.values():
        kept, *others = sorted(labels, key=lambda label: (-rows[label], len(label), label))
        if others:
            renamed |= dict.fromkeys(others, kept)
            listed = shorten([show(label) for label in sorted(labels)], limit=_SHOWN)
            notes.append(
                f"language labels {listed} mean the same language: all are called {show(kept)}"
            )
    for by_code in by_standard.values():
        if len(by_code) > 1:
            listed = shorten(
                [show(renamed.get(one, one)) for one in by_code.values()], limit=_SHOWN
            )
            notes.append(
                Caution(
                    f"language labels {listed} may mean the same language (a language and its"
                    " standard variety); they were kept apart: rename one if they are the same"
                )
            )
    if not renamed:
        return languages, notes
    return Coded.of(languages.codes, [renamed.get(one, one) for one in languages.levels]), notes


def _rows(languages: Coded) -> list[int]:
    counts: list[int] = np.bincount(languages.codes, minlength=len(languages.levels)).tolist()
    return counts
