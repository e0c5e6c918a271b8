"""Plain text for the terminal and for pipes: aligned tables, names that stay distinct."""

from __future__ import annotations

import operator
import os
import re
import shutil
import sys
import textwrap
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from bayeseval._text import for_terminal

__all__ = [
    "INDENT",
    "fits",
    "is_terminal",
    "paragraph_width",
    "shorten_names",
    "terminal_width",
    "text_table",
    "without_empty",
    "wrapped",
]

INDENT: Final = "  "
# Columns of running text, on a terminal of fewer those of the terminal.
_PARAGRAPH: Final = 100
_LEAST_TERMINAL: Final = 80
_GAP: Final = 3
# Between the columns of a table that would be wider than the terminal with short names, too.
_LEAST_GAP: Final = 2
# Names cut to fewer characters cannot be told apart.
_LEAST_NAME: Final = 16
# Longer names push the numbers out of sight, on a wide terminal, too.
_MOST_NAME: Final = 80
# `meta-llama/` of `meta-llama/Llama-3.1-8B (5-shot)`: one slash, and no blanks but of a remark.
_DEVELOPER: Final = re.compile(r"^[\w.-]+/(?=[^/\s]+(?: \([^/()]*\))?$)")


def is_terminal() -> bool:
    """Whether the output goes to a terminal; it may be closed (``>&-``)."""
    return sys.stdout is not None and sys.stdout.isatty()


def terminal_width() -> int | None:
    """Columns of the terminal, at least 80; None where the output goes to a file or a pipe."""
    if not is_terminal():
        return None
    return max(_LEAST_TERMINAL, shutil.get_terminal_size().columns)


def paragraph_width() -> int:
    """Columns of running text: 100, or those of a narrower terminal."""
    return min(_PARAGRAPH, terminal_width() or _PARAGRAPH)


def wrapped(text: str, *, indent: str = INDENT, further: str | None = None) -> str:
    """Running text in lines, those after the first further in; no name is broken.

    Parameters
    ----------
    text : str
    indent : str
        Before the first line.
    further : str, optional
        Before the others; left out, two blanks more than before the first.
    """
    return textwrap.fill(
        text,
        paragraph_width(),
        initial_indent=indent,
        subsequent_indent=indent + INDENT if further is None else further,
        break_on_hyphens=False,
        break_long_words=False,
    )


def without_empty(columns: Mapping[str, Sequence[str]]) -> dict[str, Sequence[str]]:
    """Leave out columns that hold nothing but dashes, as ranks of a point estimate."""
    return {name: cells for name, cells in columns.items() if set(cells) != {"-"}}


def fits(columns: Mapping[str, Sequence[str]], *, names: int = 1) -> bool:
    """Whether a table is no wider than the terminal once its names are shortened."""
    from rich.cells import cell_len

    most = terminal_width()
    if most is None:
        return True
    widths = [max(map(cell_len, (name.strip(), *cells))) for name, cells in columns.items()]
    least = [min(wide, _LEAST_NAME) for wide in widths[:names]]
    return len(INDENT) + sum(least) + sum(widths[names:]) + _GAP * (len(widths) - 1) <= most


def text_table(
    heading: str,
    columns: Mapping[str, Sequence[str]],
    *,
    names: int = 1,
    width: int | None = None,
) -> str:
    """Aligned columns under a heading; names to the left, numbers to the right.

    Parameters
    ----------
    heading : str
    columns : mapping of str to sequence of str
        Column name to its cells. Blanks around a name are not shown: they keep columns
        of the same name apart.
    names : int
        How many of the first columns hold names. On a terminal those of more than 80 columns,
        and where the table is wider than the terminal, are shortened in the middle; other cells
        never are. Where that is not enough, columns stand closer together, and long titles of
        numbers take several lines.
    width : int, optional
        Columns at most; when left out, those of the terminal; a pipe or file sets no limit, and
        holds whole names.
    """
    from rich.cells import cell_len

    most = terminal_width() if width is None else width
    # As they are printed, because escaped characters take more room.
    bodies = [[for_terminal(text) for text in cells] for cells in columns.values()]
    titles = [[for_terminal(name.strip())] for name in columns]
    widths = _widths(titles, bodies)
    limits, gap = widths[:names], _GAP

    def room(most: int) -> int:
        return most - len(INDENT) - sum(widths[names:]) - gap * (len(widths) - 1)

    if most is not None:
        limits = [min(wide, _MOST_NAME) for wide in limits]
        least = sum(min(wide, _LEAST_NAME) for wide in limits)
        if least > room(most):
            gap = _LEAST_GAP
        if least > room(most):
            titles[names:] = map(_folded, titles[names:], bodies[names:])
            widths = _widths(titles, bodies)
        limits = _shares(limits, room(most))
    for i, limit in enumerate(limits):
        bodies[i] = shorten_names(bodies[i], max(limit, *map(cell_len, titles[i])))
    widths = _widths(titles, bodies)
    n_lines = max(map(len, titles))
    heads = [[""] * (n_lines - len(title)) + title for title in titles]
    lines = []
    for row in zip(*map(operator.add, heads, bodies), strict=True):
        parts = [
            (text + " " * (wide - cell_len(text)))
            if place < names
            else (" " * (wide - cell_len(text)) + text)
            for place, (text, wide) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append((INDENT + (" " * gap).join(parts)).rstrip())
    return "\n".join([heading, *lines])


def _widths(titles: Sequence[Sequence[str]], bodies: Sequence[Sequence[str]]) -> list[int]:
    from rich.cells import cell_len

    return [max(map(cell_len, (*t, *body))) for t, body in zip(titles, bodies, strict=True)]


def _folded(title: Sequence[str], body: Sequence[str]) -> list[str]:
    """The title of a column in lines no wider than its cells, if its words are not."""
    (text,) = title
    widest = max((len(word) for word in text.split()), default=1)
    return textwrap.wrap(
        text,
        max(widest, *(len(cell) for cell in body)) if body else widest,
        break_on_hyphens=False,
        break_long_words=False,
    ) or [""]


def _shares(widths: Sequence[int], room: int) -> list[int]:
    """Widths of the name columns: the widest gives way first, none below what can be read."""
    shares = list(widths)
    while sum(shares) > room:
        widest = max(range(len(shares)), key=shares.__getitem__)
        if shares[widest] <= _LEAST_NAME:
            break
        shares[widest] -= 1
    return shares


def shorten_names(names: Sequence[str], width: int) -> list[str]:
    """Shorten long names in the middle so that different names stay different.

    Identifiers of a hub (``developer/model``) lose their developer first, all but those of
    models that have the same name; a remark that ends all names (`` (5-shot)``) goes next. Names
    with the same head and tail show the part in which they differ; where even that is not enough
    each has its number among all names in alphabetical order.

    Parameters
    ----------
    names : sequence of str
        Equal names stay equal.
    width : int
        Cells at most, as a terminal counts them (CJK characters take two).

    Examples
    --------
    >>> shorten_names(["a-rather-long-name-7b-instruct", "short"], 16)
    ['a-rather-…struct', 'short']
    >>> shorten_names(["google/gemma-3-27b-it", "google/gemma-3-4b-it"], 16)
    ['gemma-3-27b-it', 'gemma-3-4b-it']
    """
    from rich.cells import cell_len

    own = _without_remark(_without_developers(names, width), width)
    # Numbers that mean the same model in tables and panels of any order and width.
    place = {text: i + 1 for i, (_, text) in enumerate(sorted({*zip(names, own, strict=True)}))}
    distinct = list(place)
    short = {name: _cut(name, width) if cell_len(name) > width else name for name in distinct}
    for group in _alike(short):
        short |= dict(zip(group, _around_difference(group, width), strict=True))
    # Numbered across all groups: names of two of them may be cut to the same text.
    rest = [name for group in _alike(short) for name in group]
    short |= {name: _numbered(name, place[name], width) for name in rest}
    return [short[name] for name in own]


def _without_developers(names: Sequence[str], width: int) -> list[str]:
    """The names as they are if they fit; else without what stands before a slash, where unique."""
    from rich.cells import cell_len

    if max(map(cell_len, names), default=0) <= width:
        return list(names)
    own = {name: _DEVELOPER.sub("", name) for name in names}
    times = Counter(own.values())
    # Two developers of one model are what tells its names apart.
    kept = {name: name if times[text] > 1 else text for name, text in own.items()}
    return [kept[name] for name in names] if len(set(kept.values())) == len(own) else list(names)


def _without_remark(names: Sequence[str], width: int) -> list[str]:
    """The names as they are if they fit; else without the words in which all of them end."""
    from rich.cells import cell_len

    if max(map(cell_len, names), default=0) <= width or len(set(names)) == 1:
        return list(names)
    common = os.path.commonprefix([name[::-1] for name in names])[::-1]
    remark = common[common.find(" ") :] if " " in common else ""
    return [f"{name.removesuffix(remark)}…" if remark else name for name in names]


def _alike(short: Mapping[str, str]) -> list[list[str]]:
    """Names whose short forms are the same."""
    groups: dict[str, list[str]] = {}
    for name, text in short.items():
        groups.setdefault(text, []).append(name)
    return [group for group in groups.values() if len(group) > 1]


def _cut(name: str, width: int) -> str:
    tail = (width - 1) * 2 // 5
    return f"{_head(name, width - 1 - tail)}…{_tail(name, tail)}"


def _around_difference(group: Sequence[str], width: int) -> list[str]:
    """Head, and the part from the first difference on, of names with the same head and tail."""
    first = 0
    while len({name[: first + 1] for name in group}) == 1:
        first += 1
    part = max(1, (width - 2) * 3 // 5)
    head = _head(group[0][:first], width - 2 - part)
    return [
        f"{head}…{_head(name[max(len(head), first - 2) :], part)}"
        + ("…" if len(name) - max(len(head), first - 2) > part else "")
        for name in group
    ]


def _numbered(name: str, number: int, width: int) -> str:
    mark = f" #{number}"
    return f"{_cut(name, width - len(mark))}{mark}"


def _head(text: str, width: int) -> str:
    from rich.cells import cell_len

    kept = text
    while kept and cell_len(kept) > width:
        kept = kept[:-1]
    return kept


def _tail(text: str, width: int) -> str:
    from rich.cells import cell_len

    kept = text
    while kept and (cell_len(kept) > width or unicodedata.combining(kept[0])):
        kept = kept[1:]
    return kept
