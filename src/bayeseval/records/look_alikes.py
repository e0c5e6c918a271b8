"""Labels that look alike: by case, blanks, what is not seen, and letters of other scripts."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence
from typing import Final

from bayeseval._text import plain

__all__ = ["look_alikes", "look_alikes_text"]

# Letters that are drawn as a Latin one in most fonts: those of one letter in Unicode's table of
# confusable characters (UTS #39), of the scripts that share a keyboard with Latin. No two of one
# script stand for the same letter, so that names in one script are never taken for each other.
_SHAPES: Final = str.maketrans(
    "АВЕЅІЈКМНОРСТХаеѕіјһорсухԁԛԝӏΑΒΕΖΗΙΚΜΝΟΡΤΧαγινορυօսհոցզ",
    "ABESIJKMHOPCTXaesijhopcyxdqwlABEZHIKMNOPTXayivopuouhngq",
)
_SHOWN: Final = 3


def look_alikes(labels: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    r"""Groups of labels that differ only in what hardly shows.

    That is by case, blanks, Unicode form, characters that are not seen, or by letters of the
    Cyrillic, Greek and Armenian script that look like Latin ones.

    Parameters
    ----------
    labels : sequence of str
        Different ones.

    Examples
    --------
    >>> look_alikes(["en", "GPT", "gpt", "sw", "s\u200bw"])
    (('GPT', 'gpt'), ('sw', 's\u200bw'))
    >>> look_alikes(["Русский", "Українська", "Српски"])
    ()
    """
    found = [*_groups(labels, _folded), *_groups(labels, _skeleton)]
    # Of a group that both keys find, and of a smaller one inside it, one is enough.
    kept = [one for one in found if not any({*one} < {*other} for other in found)]
    return tuple(dict.fromkeys(kept))


def look_alikes_text(group: Sequence[str]) -> str:
    r"""Labels of a group; letters that only some of them have are named.

    Examples
    --------
    >>> look_alikes_text(["ab", "\u0430b"])
    'ab, аb (with U+0430 CYRILLIC SMALL LETTER A)'
    """
    shared = set.intersection(*map(set, group))
    return ", ".join(plain(label) + _named(label, shared) for label in group)


def _named(label: str, shared: set[str]) -> str:
    # What is not printable is escaped, and of ASCII letters the case shows.
    own = [c for c in dict.fromkeys(label) if c not in shared and not c.isascii()]
    named = [f"U+{ord(c):04X} {unicodedata.name(c, '')}".strip() for c in own if c.isprintable()]
    more = " and others" if len(named) > _SHOWN else ""
    return f" (with {', '.join(named[:_SHOWN])}{more})" if named else ""


def _groups(labels: Sequence[str], key: Callable[[str], str]) -> list[tuple[str, ...]]:
    groups: dict[str, list[str]] = {}
    for label in labels:
        groups.setdefault(key(label), []).append(label)
    return [tuple(group) for group in groups.values() if len(group) > 1]


def _seen(label: str) -> str:
    return unicodedata.normalize(
        "NFKC", "".join(c for c in label if unicodedata.category(c) != "Cf")
    )


def _folded(label: str) -> str:
    return "".join(_seen(label).casefold().split())


def _skeleton(label: str) -> str:
    # Capitals first: a small Cyrillic letter may look like another one than its capital.
    return "".join(_seen(label).translate(_SHAPES).casefold().split())
