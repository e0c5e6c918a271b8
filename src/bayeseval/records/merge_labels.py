"""One label where several of a table mean the same language."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping

import numpy as np

from bayeseval._text import Caution, Note, shorten, show
from bayeseval._typing import Floats
from bayeseval.languages.codes import understand
from bayeseval.languages.labels import meant_by_name
from bayeseval.records.coded import Coded

__all__ = ["merge_labels"]

_SHOWN = 4


def merge_labels(
    languages: Coded, language_names: Mapping[str, str], *, n_rows: Floats
) -> tuple[Coded, list[Note]]:
    """One label where several mean the same language, script and territory.

    ``English``, ``en`` and ``eng_Latn`` become the label that most rows have (of equally
    many the shortest). A label that no registry knows means what its name means (``français``
    that is named ``fr``), and becomes one that a registry knows. Labels of a macro language and
    of its standard variety (``sw`` and ``swh``, ``fil`` and ``tl``) stay apart, because a table
    may mean both.

    Parameters
    ----------
    languages : Coded
        The language of each row.
    language_names : mapping of str to str
        Names of labels, as the user or the card gives them.
    n_rows : array of float, shape (n,)
        How many rows of the files each row stands for.

    Returns
    -------
    languages : Coded
        With one label each.
    notes : list of Note
        Which labels were merged, and warnings for those that stay apart.
    """
    groups: dict[tuple[str, str, str | None], list[str]] = defaultdict(list)
    by_standard: dict[tuple[str, str, str | None], dict[str, str]] = defaultdict(dict)
    for label in sorted(languages.present()):
        one = understand(label) or meant_by_name(language_names.get(label, ""))
        if one is not None:
            groups[one.code, one.script, one.territory].append(label)
            by_standard[one.standard, one.script, one.territory].setdefault(one.code, label)
    rows = dict(zip(languages.levels, _rows(languages, n_rows), strict=True))
    renamed: dict[str, str] = {}
    notes: list[Note] = []
    for labels in groups.values():
        kept, *others = sorted(
            labels, key=lambda label: (not understand(label), -rows[label], len(label), label)
        )
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
    notes += _shared_names(set(languages.present()) - set(renamed), language_names)
    if not renamed:
        return languages, notes
    return Coded.of(languages.codes, [renamed.get(one, one) for one in languages.levels]), notes


def _shared_names(labels: Collection[str], language_names: Mapping[str, str]) -> list[Note]:
    """A warning for each name that several labels have, which would look like one language."""
    by_name: dict[str, list[str]] = defaultdict(list)
    for label in sorted(labels):
        if label in language_names:
            by_name[language_names[label]].append(label)
    return [
        Caution(
            f"language labels {shorten(map(show, same), limit=_SHOWN)} have one name"
            f" ({show(name)}) and were kept apart: write one label in the table if they are one"
            " language, else name them differently"
        )
        for name, same in by_name.items()
        if len(same) > 1
    ]


def _rows(languages: Coded, n_rows: Floats) -> list[float]:
    counts: list[float] = np.bincount(languages.codes, n_rows, len(languages.levels)).tolist()
    return counts
