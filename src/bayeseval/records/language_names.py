"""Tasks that are named after their language: one test that counts as several."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt

from bayeseval._text import Caution, counted, shorten
from bayeseval.errors import argument
from bayeseval.languages.codes import understand

__all__ = ["tasks_of_languages", "without_language"]

_MARKS: Final = "_-.:/|"
_SEPARATOR: Final = rf"[\s{re.escape(_MARKS)}]"
_PIECES: Final = re.compile(r"[^\W_]+(?:[-_][A-Z][a-z]{3})?")
_MAX_NAME: Final = 300


def without_language(task: str, language: str) -> str:
    """A task's name without its language, be it written in another way; others as they are.

    Examples
    --------
    >>> without_language("xnli_de", "German"), without_language("qa-sw:f1", "sw")
    ('xnli', 'qa:f1')
    >>> without_language("xnli", "de")
    'xnli'
    """
    start, end = _span(task, language)
    before = re.sub(rf"{_SEPARATOR}?\(?$", "", task[:start])
    return re.sub(rf"^{_SEPARATOR}+", "", before + task[end:].removeprefix(")")) or task


def _quoted(line: str) -> str:
    """A cell of a CSV file."""
    return '"' + line.replace('"', '""') + '"' if re.search(r'[",]', line) else line


def _span(task: str, language: str) -> tuple[int, int]:
    """Where the language stands in a name; both are its end where it does not."""
    nowhere = len(task), len(task)
    if len(task) > _MAX_NAME:
        return nowhere
    place = _place_of(language, task)
    if place is not None:
        return place, place + len(language)
    meant = _meaning(language)
    for piece in _PIECES.finditer(task) if meant is not None else ():
        if _meaning(piece[0]) == meant:
            return piece.span()
    return nowhere


def _place_of(language: str, task: str) -> int | None:
    """Where a name has the language between separators, in small or capital letters.

    A pattern for each language would take most of the time of a table of thousands.
    """
    name, wanted = task.casefold(), language.casefold()
    if len(name) != len(task) or len(wanted) != len(language):
        # ß is folded to ss, so that places would be others.
        name, wanted = task, language
    place = name.find(wanted)
    while place >= 0:
        before, after = name[:place][-1:], name[place + len(wanted) :][:1]
        if _separates(before, "(") and _separates(after, ")"):
            return place
        place = name.find(wanted, place + 1)
    return None


def _separates(character: str, bracket: str) -> bool:
    """Whether a language may stand beside it; empty at the ends of a name."""
    return not character or character.isspace() or character in f"{_MARKS}{bracket}"


@lru_cache(maxsize=4096)
def _meaning(label: str) -> str | None:
    one = understand(label)
    return None if one is None else one.code


def tasks_of_languages(
    codes: Mapping[str, npt.NDArray[np.int64]], labels: Mapping[str, tuple[str, ...]]
) -> list[Caution]:
    """Warn of tasks that differ in the language in their names alone, beside other tasks.

    Where all tasks are named so, no language could be compared, and the table is refused.

    Parameters
    ----------
    codes : mapping of str to array of int, shape (n,)
        Language and task of each record.
    labels : mapping of str to tuple of str
    """
    # One number for each pair: a table has millions of rows.
    key = np.unique(codes["task"] * len(labels["language"]) + codes["language"])
    pairs = np.stack(np.divmod(key, len(labels["language"])), axis=1)
    n_languages = np.bincount(pairs[:, 0])
    tests: dict[str, dict[str, str]] = defaultdict(dict)
    for task, language in pairs[n_languages[pairs[:, 0]] == 1]:
        name, label = labels["task"][task], labels["language"][language]
        start, end = _span(name, label)
        if start < end < len(name) or 0 < start < end:
            tests[f"{name[:start]}{{language}}{name[end:]}"][name] = label
    several = {line: own for line, own in tests.items() if len(set(own.values())) > 1}
    if not several or n_languages.max() < 2:
        return []
    lines = [f"{_quoted(line)},," for line in sorted(several)]
    names = sorted(name for own in several.values() for name in own)
    return [
        Caution(
            f"{counted(len(names), 'task')} named after a language"
            f" ({shorten(names, limit=4)}) count as different tests; if they are one test in"
            " several languages, name it in a CSV file with the columns task,dataset,language and"
            f" the line {' and the line '.join(lines)} and give the file as"
            f" {argument('task_names')}"
        )
    ]
