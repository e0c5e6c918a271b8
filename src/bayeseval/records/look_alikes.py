"""Labels that look alike: by case, blanks, what is not seen, and letters of other scripts."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

from bayeseval._text import plain, without_unseen

__all__ = ["look_alikes", "look_alikes_text", "same_names"]

# Letters that are drawn as a Latin one in most fonts: those of one letter in Unicode's table of
# confusable characters (UTS #39), of the scripts that share a keyboard with Latin. No two of one
# script stand for the same letter, so that names in one script are never taken for each other.
_SHAPES: Final = str.maketrans(
    "АВЕЅІЈКМНОРСТУХԌаеѕіјһорсухԁԛԝӏѵΑΒΕΖΗΙΚΜΝΟΡΤΥΧαγινορυօսհոցզیک",
    "ABESIJKMHOPCTYXGaesijhopcyxdqwlvABEZHIKMNOPTYXayivopuouhngqيك",
)
# Cyrillic has two more, which are told from the first by those who read it.
_OTHER_SHAPES: Final = {
    **{place: letter for place, letter in _SHAPES.items() if chr(place) not in "УІ"},
    **str.maketrans("ҮӀ", "YI"),
}
_MARKS: Final = str.maketrans(
    "\u2010\u2011\u2012\u2013\u2014\u2212\ufe63\uff0d\u2019\u2018`\u00b4\u02bc\u201c\u201d",
    "-" * 8 + "'" * 5 + '"' * 2,
)
# Of what NFKC replaces, these look otherwise: x² is another name than x2.
_SHOWN_FORMS: Final = ("<super>", "<sub>", "<fraction>", "<circle>", "<square>")
# "Model 1 1" is another name than "Model 11".
_BLANKS: Final = re.compile(r"(?<!\d)\s+|\s+(?!\d)")
_SHOWN: Final = 3
_SEPARATORS: Final = re.compile(r"[\s_.-]+")


def look_alikes(labels: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    r"""Groups of labels that differ only in what hardly shows.

    That is by case, blanks, Unicode form, characters that are not seen, forms of dashes and
    quotes, letters of the Cyrillic, Greek and Armenian script that look like Latin ones, or
    Persian letters that look like Arabic ones.

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
    # Shapes with and without their case: a small letter may look like another one than its capital.
    keys: list[Callable[[str], str]] = [_folded]
    for shapes in (_SHAPES, _OTHER_SHAPES):
        keys += [partial(_skeleton, shapes, str), partial(_skeleton, shapes, str.lower)]
    seen = {label: _seen(label) for label in labels}
    found = dict.fromkeys(group for key in keys for group in _groups(seen, key))
    # Of a group that several keys find, and of a smaller one inside it, one is enough.
    kept = [one for one in found if not any({*one} < {*other} for other in found)]
    place = {label: i for i, label in enumerate(labels)}
    return tuple(sorted(kept, key=lambda group: place[group[0]]))


def look_alikes_text(group: Sequence[str]) -> str:
    r"""Labels of a group; letters that only some of them have are named.

    Examples
    --------
    >>> look_alikes_text(["ab", "\u0430b"])
    'ab, аb (with U+0430 CYRILLIC SMALL LETTER A)'
    """
    shared = set.intersection(*map(set, group))
    return ", ".join(plain(label) + _named(label, shared) for label in group)


def same_names(new: Sequence[str], known: Sequence[str]) -> dict[str, str]:
    r"""Which new labels are probably known ones, written in another way.

    Labels that look alike (:func:`look_alikes`), have other separators, or stand without their
    organisation, on either side.

    Parameters
    ----------
    new, known : sequence of str
        Different ones.

    Examples
    --------
    >>> same_names(["gpt-4", "gpt-4o", "Org/LLaMA 2"], ["openai/gpt-4", "llama-2"])
    {'gpt-4': 'openai/gpt-4', 'Org/LLaMA 2': 'llama-2'}
    """
    texts = {label: _SEPARATORS.sub("-", label) for label in (*known, *new)}
    short = {label: text.rpartition("/")[2] for label, text in texts.items() if "/" in text}
    every = list(dict.fromkeys([*texts.values(), *short.values()]))
    alike = {text: {text} for text in every}
    for group in look_alikes(every):
        for text in group:
            alike[text] |= set(group)
    # Only one of two may lack its organisation: those of different ones are different models.
    known_as = {
        **{short[label]: label for label in known if label in short},
        **{texts[label]: label for label in known},
    }
    without = {texts[label]: label for label in known if label not in short}
    found = {}
    for label in new:
        near = [known_as[text] for text in alike[texts[label]] if text in known_as]
        if label in short:
            near += [without[text] for text in alike[short[label]] if text in without]
        if near:
            found[label] = min(near)
    return found


def _named(label: str, shared: set[str]) -> str:
    # What is not printable is escaped, and of ASCII letters the case shows.
    own = [c for c in dict.fromkeys(label) if c not in shared and not c.isascii()]
    named = [f"U+{ord(c):04X} {unicodedata.name(c, '')}".strip() for c in own if c.isprintable()]
    more = " and others" if len(named) > _SHOWN else ""
    return f" (with {', '.join(named[:_SHOWN])}{more})" if named else ""


def _groups(seen: Mapping[str, str], key: Callable[[str], str]) -> list[tuple[str, ...]]:
    groups: dict[str, list[str]] = {}
    for label, text in seen.items():
        groups.setdefault(key(text), []).append(label)
    return [tuple(group) for group in groups.values() if len(group) > 1]


def _seen(label: str) -> str:
    if label.isascii():
        return _BLANKS.sub("", label.translate(_MARKS))
    marked = unicodedata.normalize("NFC", without_unseen(label).translate(_MARKS))
    simple = "".join(
        c
        if unicodedata.decomposition(c).startswith(_SHOWN_FORMS)
        else unicodedata.normalize("NFKC", c)
        for c in marked
    )
    return _BLANKS.sub("", unicodedata.normalize("NFC", simple))


def _folded(seen: str) -> str:
    # Not casefold(), for which Maße and Masse are one word; two forms of sigma are one letter.
    return seen.lower().replace("ς", "σ")


def _skeleton(shapes: Mapping[int, str | int], case: Callable[[str], str], seen: str) -> str:
    return case(seen).translate(shapes)
