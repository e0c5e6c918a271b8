"""Lines of a table of task names: which is the first that a name fits."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from itertools import chain
from typing import Final

__all__ = ["MAX_NAME", "SLOT", "TaskLines"]

SLOT: Final = "{language}"
"""Where the language stands in the pattern of a line."""

# A longer name is that of a line without a pattern, or of none.
MAX_NAME: Final = 300
"""The most characters of a name that a line with a pattern may fit."""

# A language in a pattern of the user's: sw, swh_Latn, pt-BR, albanian.
_LANGUAGE: Final = re.compile(r"[A-Za-z]+(?:[-_][A-Za-z]{2,4})*")
_WILD: Final = re.compile(rf"\*|{re.escape(SLOT)}")


class TaskLines:
    """The first of many lines that a task's name fits, found without trying all of them.

    Parameters
    ----------
    lines : sequence of str
        Names, in which ``*`` stands for anything and ``{language}`` for a language.

    Examples
    --------
    >>> lines = TaskLines(["quiz_all", "quiz_{language}", "*_quiz"])
    >>> lines.first("quiz_all"), lines.first("quiz_de"), lines.first("exam_de")
    ((0, None), (1, (5, 7)), None)
    """

    def __init__(self, lines: Sequence[str]) -> None:
        self._lines = lines
        self._names: dict[str, int] = {}
        # By the text before the first wildcard, which a name has to begin with.
        self._wild: dict[str, list[int]] = defaultdict(list)
        for place, line in enumerate(lines):
            start, *rest = _WILD.split(line, maxsplit=1)
            if rest:
                self._wild[start].append(place)
            # A line fits what it says, too, letter by letter.
            self._names.setdefault(line, place)
        self._sizes = sorted({len(start) for start in self._wild})
        self._patterns: dict[int, re.Pattern[str]] = {}

    def first(self, task: str) -> tuple[int, tuple[int, int] | None] | None:
        """The place of the first line, with that of the language in the name, if it has a slot.

        None if no line fits.
        """
        own = self._names.get(task)
        starts = (task[:size] for size in self._sizes if size <= len(task) <= MAX_NAME)
        for place in sorted(chain.from_iterable(self._wild.get(start, ()) for start in starts)):
            if own is not None and own < place:
                break
            fits, span = self._fit(place, task)
            if fits:
                return place, span
        return None if own is None else (own, None)

    def _fit(self, place: int, task: str) -> tuple[bool, tuple[int, int] | None]:
        line = self._lines[place]
        if "*" not in line:
            before, _, after = line.partition(SLOT)
            span = len(before), len(task) - len(after)
            return task.endswith(after) and bool(_LANGUAGE.fullmatch(task, *span)), span
        if place not in self._patterns:
            self._patterns[place] = _pattern(line)
        match = self._patterns[place].fullmatch(task)
        return match is not None, match.span("language") if match and SLOT in line else None


def _pattern(line: str) -> re.Pattern[str]:
    """The expression that a line stands for; the group ``language`` is its slot."""
    before, slot, after = line.partition(SLOT)
    expression = _wildcards(before, to_the_end=not slot)
    if slot:
        expression += f"(?P<language>{_LANGUAGE.pattern}){_wildcards(after, to_the_end=True)}"
    return re.compile(expression)


def _wildcards(text: str, *, to_the_end: bool) -> str:
    """An expression for a text with ``*``, without the backtracking of many ``.*``."""
    first, *others = re.sub(r"\*+", "*", text).split("*")
    if not others:
        return re.escape(first)
    # The first place where a piece fits is as good as any later one, but for the last piece.
    *middle, last = others
    pieces = "".join(f"(?>.*?{re.escape(piece)})" for piece in middle)
    return re.escape(first) + pieces + (".*" if to_the_end else ".*?") + re.escape(last)
