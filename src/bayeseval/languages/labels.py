"""Language labels of one table: their names, and labels that no registry knows."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from bayeseval._text import Caution, Note, shorten, show
from bayeseval.errors import did_you_mean, wording
from bayeseval.languages.codes import (
    Language,
    flag_of,
    is_code,
    nearest_name,
    understand,
    variant_name,
)

__all__ = [
    "meant_by_name",
    "meant_or_near",
    "names_of",
    "one_label_each",
    "same_language",
    "unknown_labels",
]

_SHOWN = 4
# Shorter labels are near to something by chance.
_MIN_LENGTH = 5
# To compare one with all names takes a millisecond.
_MAX_COMPARED = 500


def names_of(labels: Sequence[str], given: Mapping[str, str]) -> dict[str, str]:
    """English names of the labels that are codes, and those that are given.

    Names that several labels would share say the script or territory too (``Chinese
    (Traditional)``); where that does not help, the labels have none. A label that is a
    name itself needs no other.

    Parameters
    ----------
    labels : sequence of str
        The table's language labels.
    given : mapping of str to str
        Names that the user or the card states, or codes; they win. Other labels are left aside.
    """
    names: dict[str, str] = {}
    for label in labels:
        # Few fonts have flags, so that a figure needs the name without one.
        parts = [
            understand(part) if is_code(part) or flag_of(part) else None
            for part in label.split("+")
        ]
        if all(part is not None for part in parts):
            names[label] = " + ".join(part.name for part in parts if part is not None)
    for same in _with_shared_name(names):
        names |= {label: variant_name(label) for label in same}
    for same in _with_shared_name(names):
        for label in same:
            del names[label]
    for label in labels:
        if label in given:
            one = meant_by_name(given[label]) if is_code(given[label]) else None
            names[label] = given[label] if one is None else one.name
    return names


def meant_by_name(name: str) -> Language | None:
    """The language that a name of `language_names` says, be it a code; None if it is not known.

    A code begins with a small letter: Ga is a language, and ga the code of another.

    Examples
    --------
    >>> [one and one.code for one in map(meant_by_name, ("French", "fr", "ga", "Ga"))]
    ['fra', 'fra', 'gle', None]
    """
    return understand(name) if name[:1].islower() or not is_code(name) else None


def meant_or_near(label: str, known: Sequence[str]) -> str:
    """What a message adds on a label that is not known: its language, or else the nearest label.

    A code that is near to another one means another language; only a label of the same language
    is proposed.

    Examples
    --------
    >>> meant_or_near("ta", ["th", "Thai"]), meant_or_near("Thia", ["th", "Thai"])
    ("; 'ta' is Tamil", "; did you mean 'Thai'?")
    >>> meant_or_near("zho_Hant", ["zh", "th"])
    "; 'zho_Hant' is Chinese (Traditional); did you mean 'zh'?"
    """
    meant = understand(label)
    head = understand(re.split(r"[-_]", label)[0]) if is_code(label) else meant
    # "cat_Lat" is Latin by the rules of codes, and Catalan for whoever wrote it.
    if meant is None or head is None or head.standard != meant.standard:
        return did_you_mean(label, known)
    said = f"; {label!r} is {variant_name(label)}" if is_code(label) else ""
    read = ((one, understand(one)) for one in known)
    same = (one for one, other in read if other is not None and other.standard == meant.standard)
    near = next(same, None)
    return said + ("" if near is None else f"; did you mean {near!r}?")


def _with_shared_name(names: Mapping[str, str]) -> list[list[str]]:
    by_name: dict[str, list[str]] = defaultdict(list)
    for label, name in names.items():
        by_name[name].append(label)
    return [labels for labels in by_name.values() if len(labels) > 1]


def same_language(
    asked: Iterable[str], labels: Sequence[str], named: Mapping[str, str]
) -> dict[str, str]:
    """Which label of a table another text means: a name, or another code of one language.

    Parameters
    ----------
    asked : iterable of str
        Texts that may or may not be labels of the table.
    labels : sequence of str
        The table's language labels.
    named : mapping of str to str
        Their names, as :func:`names_of`.

    Returns
    -------
    dict of str to str
        From each text to the one label that it means; texts that mean none, or several, are
        left out.
    """
    table_labels = set(labels)
    by_name: dict[str, list[str]] = defaultdict(list)
    by_language: dict[tuple[str, str, str | None], list[str]] = defaultdict(list)
    meaning: dict[str, str] = {}
    for label in labels:
        by_name[named.get(label, label).casefold()].append(label)
    rest = [text for text in asked if text not in table_labels]
    for label in labels if rest else ():
        one = understand(label)
        if one is not None:
            by_language[one.code, one.script, one.territory].append(label)
    for text in rest:
        candidates = by_name.get(text.casefold(), [])
        one = None if candidates else understand(text)
        if one is not None:
            candidates = by_language.get((one.code, one.script, one.territory), [])
        if len(candidates) == 1:
            meaning[text] = candidates[0]
    return meaning


def one_label_each(labels: Iterable[str]) -> dict[str, str]:
    """Which labels mean the language of an earlier one: another code, or its name.

    Parameters
    ----------
    labels : iterable of str
        Labels without a table.

    Returns
    -------
    dict of str to str
        From each such label to the first of its language.
    """
    by_name: dict[str, str] = {}
    by_language: dict[tuple[str, str, str | None], str] = {}
    meaning: dict[str, str] = {}
    for label in dict.fromkeys(labels):
        one = understand(label)
        key = None if one is None else (one.code, one.script, one.territory)
        first = by_name.get(label.casefold())
        if first is None and key is not None:
            first = by_language.get(key)
        if first is not None:
            meaning[label] = first
            continue
        by_name[label.casefold()] = label
        if key is not None:
            by_language[key] = label
    return meaning


def unknown_labels(labels: Iterable[str], named: Iterable[str]) -> list[Note]:
    """Warn of labels that no registry of languages knows and that the user has not named.

    Where no label of a table is registered, a single note says so instead.

    Parameters
    ----------
    labels : iterable of str
        The table's language labels.
    named : iterable of str
        Labels that the user or the card names.
    """
    every, user_named = list(labels), set(named)
    unknown = [
        label
        for label in every
        if label not in user_named and any(understand(part) is None for part in label.split("+"))
    ]
    if not unknown:
        return []
    compared = [label for label in unknown if len(label) >= _MIN_LENGTH][:_MAX_COMPARED]
    nearest = {label: nearest_name(label) for label in compared}
    suggested = [label for label in compared if nearest[label]]
    if len(unknown) == len(every) and not suggested:
        return [
            f"no language label is in the registry ({shorten(map(show, unknown), limit=_SHOWN)}):"
            " languages have no names; give names with " + _names_argument()
        ]
    others = [label for label in unknown if label not in suggested]
    listed = [f"{show(label)} (did you mean {nearest[label]}?)" for label in suggested]
    listed += [show(label) for label in others]
    return [
        Caution(
            f"language labels that no registry knows: {shorten(listed, limit=_SHOWN)}; correct or"
            f" name them with {_names_argument()}"
        )
    ]


def _names_argument() -> str:
    return wording("language_names", "language_names in a --mapping file")
