"""Propose lines of a table of task names, for tasks whose names no rule knows."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from bayeseval._text import shorten
from bayeseval.languages.codes import is_code, understand
from bayeseval.readers.task_lines import MAX_NAME, SLOT, TaskLines

__all__ = ["Proposal", "advice_on_columns", "propose"]

_PIECES: Final = re.compile(r"[A-Za-z]+(?:_[A-Z][a-z]{3})?")
_SPLIT: Final = re.compile(r"[-_:.,/ ]")
# Words of names of tasks that are also codes of languages.
_WORDS: Final = frozenset(
    [
        *("all", "and", "ape", "arc", "art", "as", "ass", "bar", "ben", "big", "bio", "car", "cot"),
        *("cs", "day", "doc", "dot", "em", "gen", "go", "has", "her", "hit", "if", "in", "is"),
        *("it", "law", "lit", "log", "mc", "med", "mix", "mt", "no", "nor", "of", "one", "or"),
        *("out", "pro", "qa", "raw", "ref", "run", "see", "sem", "set", "so", "sum", "tag", "tax"),
        *("test", "the", "to", "top", "two", "us", "val", "war", "web", "who", "why", "yes"),
    ]
)
_FEW: Final = 3
# Columns that are searched for names of tasks: more only cost time.
_MOST_SEARCHED: Final = 1000
_SHOWN: Final = 4
_SAYABLE: Final = re.compile(rf"[^*{{}}\x00-\x1f\x7f]{{1,{MAX_NAME}}}")
_MAX_SLOTS: Final = 8


@dataclass(frozen=True, slots=True)
class Proposal:
    """One line for the user's table, and the tasks that it names.

    Parameters
    ----------
    pattern : str
        A name, or one with ``{language}`` or ``*``.
    language : str
        The language of all these tasks; empty if it stands in their names, or if none was
        found, so that the line leaves them out.
    tasks : tuple of str
    dataset : str
        Empty: the task's name without its language.
    """

    pattern: str
    language: str
    tasks: tuple[str, ...]
    dataset: str = ""

    @property
    def leaves_out(self) -> bool:
        """Whether the line gives its tasks no language."""
        return not self.language and SLOT not in self.pattern


def propose(tasks: Iterable[str]) -> list[Proposal]:
    """Lines that name all of these tasks, in the order in which they are to stand.

    A part of a name is taken for a language if names differ in it alone, one language each
    (``mybench_de``, ``mybench_sw``), or if several names that differ behind it have it in
    common (``exams_eu_a``, ``exams_eu_b``), or if it can be nothing else (``quiz-Swahili``,
    ``quiz_swh_Latn``). Tasks without such a part are left out.

    Parameters
    ----------
    tasks : iterable of str

    Examples
    --------
    >>> for line in propose(["mybench_de", "mybench_sw", "quiz"]):
    ...     print(line.pattern, line.leaves_out)
    mybench_{language} False
    quiz True
    """
    # What a line cannot say, or nobody would read.
    rest = dict.fromkeys(task for task in tasks if _SAYABLE.fullmatch(task))
    found = []
    for part in (
        *(_differing_in_language, _with_language_in_common),
        *(_with_a_plain_language, _left_out),
    ):
        for line in part(rest):
            found.append(line)
            for task in line.tasks:
                del rest[task]
    # Names before patterns, and patterns with more text before others: the first one counts.
    found.sort(key=lambda line: ("*" in line.pattern, "{" in line.pattern, -len(line.pattern)))
    return [*_exceptions(found), *found]


def advice_on_columns(names: Iterable[str]) -> str:
    """What to do about columns that are named after a task and a language; "" for others.

    Examples
    --------
    >>> advice_on_columns(["mgsm_ar", "mgsm_de", "size"])[:48]
    'the columns mgsm_ar, mgsm_de seem to hold the sc'
    >>> advice_on_columns(["size", "year"]), advice_on_columns(["de", "fr", "train_de", "train_fr"])
    ('', '')
    """
    searched = [*names][:_MOST_SEARCHED]
    if sum(understand(name) is not None for name in searched) > 1:
        # The scores are in the columns that are languages.
        return ""
    scores = [name for line in propose(searched) if not line.leaves_out for name in line.tasks]
    if len(scores) <= 1:
        return ""
    return (
        f"the columns {shorten(scores, limit=_SHOWN)} seem to hold the scores of a task in one"
        " language each; write one row per score, with the columns model, task and score:"
        " languages are taken from the names of tasks"
    )


def _exceptions(lines: Sequence[Proposal]) -> list[Proposal]:
    """Lines for tasks that one of `lines` before their own would name, or name otherwise."""
    names = TaskLines([line.pattern for line in lines])
    found = []
    for own in lines:
        before, slot, after = own.pattern.partition(SLOT)
        rest = before.rstrip("_-") + after if before else after.lstrip("_-")
        for task in own.tasks:
            language = task[len(before) : len(task) - len(after)] if slot else own.language
            place, span = names.first(task) or (None, None)
            said = task[slice(*span)] if span else own.language
            if place is None or lines[place] is not own or said != language:
                found.append(Proposal(task, language, (task,), rest if slot else ""))
    return found


def _slots(task: str) -> list[tuple[str, str, str]]:
    """Parts of a name that may be its language: what stands before, the part, what follows."""
    slots = []
    for match in _PIECES.finditer(task):
        start, end = match.span()
        whole = (start == 0 or _SPLIT.match(task[start - 1])) and (
            end == len(task) or _SPLIT.match(task[end])
        )
        if whole and _may_be_language(match[0]):
            slots.append((task[:start], match[0], task[end:]))
            if len(slots) == _MAX_SLOTS:
                break
    return slots


# The same parts stand in the names of thousands of tasks.
@lru_cache(maxsize=4096)
def _may_be_language(part: str) -> bool:
    if part.casefold() in _WORDS or (is_code(part) and len(part) > 3 and "_" not in part):
        return False
    return understand(part) is not None


def _differing_in_language(tasks: Mapping[str, None]) -> list[Proposal]:
    groups: dict[tuple[str, str], dict[str, str]] = defaultdict(dict)
    for task in tasks:
        for before, part, after in _slots(task):
            groups[before, after][part] = task
    found, named = [], set[str]()
    # The slot with the most languages first: the others are words.
    several = [group for group in groups.items() if len(group[1]) > 1]
    for (before, after), by_part in sorted(several, key=lambda group: (-len(group[1]), group[0])):
        own = [task for task in by_part.values() if task not in named]
        if len(own) > 1 and before + after:
            named |= set(own)
            found.append(Proposal(f"{before}{SLOT}{after}", "", tuple(own)))
    return found


def _with_language_in_common(tasks: Mapping[str, None]) -> list[Proposal]:
    groups: dict[tuple[str, str], list[str]] = defaultdict(list)
    for task in tasks:
        for before, part, after in _slots(task):
            if before and after:
                groups[before, part].append(task)
    found, named = [], set[str]()
    several = [group for group in groups.items() if len(group[1]) >= _FEW]
    for (before, part), members in sorted(several, key=lambda group: (-len(group[1]), group[0])):
        own = tuple(task for task in members if task not in named)
        if len(own) >= _FEW:
            named |= set(own)
            separator = own[0][len(before) + len(part)]
            found.append(Proposal(f"{before}{part}{separator}*", part, own))
    return found


def _with_a_plain_language(tasks: Mapping[str, None]) -> list[Proposal]:
    """Tasks with an English name of a language, or with a code and a script."""
    found = []
    for task in tasks:
        for before, part, after in _slots(task):
            if before + after and ("_" in part or not is_code(part)):
                found.append(Proposal(f"{before}{SLOT}{after}", "", (task,)))
                break
    return found


def _left_out(tasks: Mapping[str, None]) -> list[Proposal]:
    """One line per first word that several tasks have, and per other task."""
    groups: dict[str, list[str]] = defaultdict(list)
    for task in tasks:
        match = _SPLIT.search(task, 1)
        groups[task[: match.end()] if match else task].append(task)
    found = []
    for start, members in groups.items():
        if len(members) >= _FEW:
            found.append(Proposal(f"{start}*", "", tuple(members)))
        else:
            found += [Proposal(task, "", (task,)) for task in members]
    return found
