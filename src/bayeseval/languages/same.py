"""One label per language where datasets use different codes for it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from bayeseval._text import shorten
from bayeseval.languages.matching import Matches, match

__all__ = ["one_label_each"]


def one_label_each(
    named: Iterable[tuple[str, str]],
) -> tuple[dict[tuple[str, str], str], list[str]]:
    """The label of each dataset's languages in the table as a whole.

    The dataset with most languages keeps its labels; the others take over those of the
    languages that are there already (``swh_Latn`` becomes ``sw``) and keep their own for
    the rest. The order of the files does not matter.

    Parameters
    ----------
    named : iterable of (dataset, language)
        Pairs as the files have them.

    Returns
    -------
    labels : dict of (dataset, language) to str
    notes : list of str
        What was matched to what, and what is near but was kept apart.
    """
    of_dataset: dict[str, dict[str, None]] = defaultdict(dict)
    for dataset, language in named:
        of_dataset[dataset].setdefault(language)
    labels: dict[tuple[str, str], str] = {}
    known: dict[str, None] = {}
    matched: dict[str, dict[str, None]] = {}
    kept_apart: dict[str, None] = {}
    for dataset in sorted(of_dataset, key=lambda name: (-len(of_dataset[name]), name)):
        languages = of_dataset[dataset]
        new = [language for language in languages if language not in known]
        matches = match(new, known) if known and new else Matches((), (), ())
        # Two labels of a dataset are two languages there, whatever they mean elsewhere.
        used = set(languages) & set(known)
        for language in languages:
            target = matches.mapping.get(language, language)
            if target != language and target in used:
                kept_apart.setdefault(f"{language} of {dataset} and {target}")
                target = language
            elif target != language:
                used.add(target)
                matched.setdefault(target, {}).setdefault(language)
            labels[dataset, language] = target
        for one in matches.ambiguous:
            kept_apart.setdefault(f"{one.label} of {dataset} and {', '.join(one.candidates[:3])}")
        known.update(dict.fromkeys(labels[dataset, language] for language in languages))
    notes = []
    if matched:
        pairs = [f"{', '.join(theirs)} as {ours}" for ours, theirs in matched.items()]
        notes.append(f"one language under several codes: {shorten(pairs, limit=12)}")
    if kept_apart:
        notes.append(f"near, but kept apart: {shorten(kept_apart, limit=6)}")
    return labels, notes
