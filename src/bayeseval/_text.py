"""Short texts in messages: values, labels, counts."""

from __future__ import annotations

import re
import shlex
import unicodedata
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

__all__ = [
    "GROUPED",
    "NO_BREAK",
    "Caution",
    "Note",
    "any_of",
    "brief",
    "byte_size",
    "counted",
    "for_html",
    "for_terminal",
    "grouped",
    "has_decimal_comma",
    "one_line",
    "plain",
    "score_hint",
    "shell_quoted",
    "shorten",
    "show",
    "together",
    "two_sizes",
    "unbroken",
    "without_unseen",
]


@dataclass(frozen=True, slots=True)
class Caution:
    """A note that must not be missed; printed with ``warning:`` before its text.

    Parameters
    ----------
    text : str
    without_bounds : bool
        Whether it is only about models whose likelihood knows no bounds of the scores.
    """

    text: str
    without_bounds: bool = False

    def __str__(self) -> str:
        return f"warning: {self.text}"


#: What is worth knowing about a table or a fit; ``str()`` of it is what is printed.
Note = str | Caution

#: From here on the digits of a number stand in groups of three.
GROUPED: Final = 10_000
NO_BREAK: Final = "\u00a0"
# Warnings on more tasks than these become one.
_FEW_TASKS: Final = 3
_SHOWN_WIDTH = 60
# "95 %", "50 records", and all of "1.2 [0.9, 1.5] %".
_UNIT: Final = re.compile(
    r"(?<=\d) (?=%|[a-z]|\[[-\d])|(?<=\d,) (?=-?[\d.]+(?:e[-+]?\d+)?\])|(?<=\]) (?=%)"
)
_DECIMAL_COMMA: Final = re.compile(r"[+-]?[0-9]+(?:\.[0-9]{3})*,[0-9]+")
# Of what spreadsheets make of 12.5 and 5-12: 12. Mai, 5-Dec, Dec 5, 2025-12-05, 05/12/2025.
_DATE: Final = re.compile(
    r"\d{1,2}[-./ ]{1,2}[^\W\d]{3,10}\.?(?:[-./ ]\d{2,4})?|[^\W\d]{3,10}\.?[-./ ]\d{1,4}"
    r"|\d{4}[-./]\d{1,2}[-./]\d{1,2}(?:[ T]\d\d:\d\d.*)?|\d{1,2}[-./]\d{1,2}[-./]\d{2,4}"
)
_KEPT = "\n\u00a0\u202f\u3000\u200c\u200d"
# Python prints these characters, and no font shows them: those that Unicode lets programs ignore
# (Default_Ignorable_Code_Point), fillers, and a blank of Braille. Selectors choose a form.
_SELECTORS: Final = "\u180b-\u180d\u180f\ufe00-\ufe0f\U000e0100-\U000e01ef"
_FILLERS: Final = "\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0"
_UNSEEN: Final = re.compile(f"[{_FILLERS}{_SELECTORS}]")
# "1\ufe0f\u20e3" is a key, and behind letters and signs other than ASCII selectors have a use.
_CHOSEN: Final = re.compile(
    f"(?<=[^\\x00-\\x7f{_FILLERS}{_SELECTORS}])[{_SELECTORS}]|(?<=[0-9#*])\ufe0f(?=\u20e3)"
)


# Those of C0 and C1, without the tab and the line feed: HTML allows no others, and a terminal that
# prints a page acts on them.
_CONTROL: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
# What stands in brackets or quotes runs into no other label.
_ENCLOSED: Final = re.compile(r"\([^()]*\)|'[^']*'")


def score_hint(text: str) -> str:
    """What to do about a score that is a date or has a decimal comma; "" for other texts.

    Examples
    --------
    >>> score_hint("0.5"), score_hint("12. Mai")[:8]
    ('', '; a date')
    >>> score_hint("0,5")
    '; it has a decimal comma, write a decimal point'
    """
    if len(text) > _SHOWN_WIDTH:
        return ""
    if has_decimal_comma(text):
        return "; it has a decimal comma, write a decimal point"
    if _DATE.fullmatch(text.strip()) is None:
        return ""
    return "; a date: spreadsheets turn scores such as 12.5 into dates, so take it from the source"


def has_decimal_comma(text: str) -> bool:
    """Whether a text is a number with a decimal comma, as in ``1.234,5``."""
    return len(text) <= _SHOWN_WIDTH and _DECIMAL_COMMA.fullmatch(text.strip()) is not None


def show(value: object) -> str:
    """A value as it goes into a one-line message: quoted, escaped and cut."""
    text = repr(str(value)) if isinstance(value, str) else repr(value)
    # repr escapes every line break in a string; other types get the same treatment.
    text = " ".join(text.split())
    return text if len(text) <= _SHOWN_WIDTH else text[: _SHOWN_WIDTH - 3] + "..."


def plain(name: str) -> str:
    """Text with line breaks and other unprintable characters escaped.

    In a message about a name, unlike on the page of a terminal, no-break spaces and joiners are
    escaped too: two names may differ in nothing else.
    """
    return _escaped(name, "")


def for_terminal(text: str) -> str:
    r"""Lines of text without what a terminal acts on: such characters are escaped.

    Line feeds stay, and so do the joiners of Persian, Indic scripts and emoji, and selectors
    that choose the form of a letter or sign. Other characters that are not seen are escaped.

    Examples
    --------
    >>> for_terminal("a\x1b[2Jb")
    'a\\x1b[2Jb'
    """
    chosen = {found.start() for found in _CHOSEN.finditer(text)}
    return _escaped(text, _KEPT, chosen)


def for_html(text: str) -> str:
    r"""Text without the control characters that HTML does not allow: they are escaped.

    Tabs, line feeds, and characters that turn or join letters stay. Markup is not escaped here.

    Examples
    --------
    >>> for_html("a\x1b[2J <b>")
    'a\\x1b[2J <b>'
    """
    return _CONTROL.sub(lambda found: ascii(found.group())[1:-1], text)


def one_line(text: object) -> str:
    r"""A path or a title as :func:`for_terminal` shows it, with its line feeds escaped, too.

    Examples
    --------
    >>> one_line("results/a\nb")
    'results/a\\nb'
    """
    return for_terminal(str(text)).replace("\n", "\\n")


def without_unseen(text: str) -> str:
    r"""Text without characters that are not seen, of which some are printable for Python.

    Examples
    --------
    >>> without_unseen("a\u200b\u3164b")
    'ab'
    """
    return _UNSEEN.sub("", "".join(c for c in text if unicodedata.category(c) != "Cf"))


def _escaped(text: str, kept: str, chosen: Container[int] = ()) -> str:
    escaped = {
        c: ascii(c)[1:-1]
        for c in set(text)
        if c not in kept and (not c.isprintable() or _UNSEEN.match(c))
    }
    if not escaped:
        return text
    return "".join(
        c if c not in escaped or place in chosen else escaped[c] for place, c in enumerate(text)
    )


def brief(name: str) -> str:
    """A name as in :func:`plain`, cut where it is no name any more."""
    text = plain(name)
    return text if len(text) <= _SHOWN_WIDTH else text[: _SHOWN_WIDTH - 3] + "..."


def shell_quoted(text: str) -> str:
    r"""A word of a command, quoted so that a shell reads `text` from printable characters.

    Quotes of the form ``$'...'`` are read by bash, zsh, ksh and the shells of POSIX 2024.

    Examples
    --------
    >>> print(shell_quoted("a b.csv"), shell_quoted("it's\n.csv"))
    'a b.csv' $'it\'s\012.csv'
    """
    if text.isprintable() and not _UNSEEN.search(text):
        return shlex.quote(text)
    return f"$'{''.join(map(_as_in_shell, text))}'"


def _as_in_shell(character: str) -> str:
    if character in "'\\":
        return f"\\{character}"
    if character.isprintable() and not _UNSEEN.match(character):
        return character
    # A byte of a file name that is no UTF-8 is a lone surrogate for Python.
    is_byte = "\udc80" <= character <= "\udcff"
    encoded = character.encode("utf-8", "surrogateescape" if is_byte else "surrogatepass")
    # Three digits, after which a digit of the name cannot be read as a fourth.
    return "".join(f"\\{byte:03o}" for byte in encoded)


def unbroken(text: str) -> str:
    r"""Text in which no line can end between a number and its interval or unit.

    Examples
    --------
    >>> unbroken("95 % of 50 records")
    '95\xa0% of 50\xa0records'
    >>> unbroken("account for 15 [7, 25] %")
    'account for 15\xa0[7,\xa025]\xa0%'
    """
    return _UNIT.sub(NO_BREAK, text)


def shorten(labels: Iterable[str], *, limit: int = 8) -> str:
    """Join labels with commas, or with semicolons if one of them has a comma itself.

    Past `limit`, say how many more there are.

    Examples
    --------
    >>> shorten(["a", "b", "c"], limit=2), shorten(["m, de, qa", "m, en, qa"])
    ('a, b and 1 more', 'm, de, qa; m, en, qa')
    """
    items = list(labels)
    more = f" and {len(items) - limit} more" if len(items) > limit else ""
    shown = items[:limit]
    has_comma = any(", " in _ENCLOSED.sub("", item) for item in shown)
    return ("; " if has_comma else ", ").join(shown) + more


def together(cautions: Sequence[tuple[str, Caution]], *, few: int = _FEW_TASKS) -> list[Caution]:
    """Warnings of one kind; those on many tasks as one, with the first of them and their names.

    Parameters
    ----------
    cautions : sequence of (str, Caution)
        Tasks and what is said of each.
    few : int
        Up to so many tasks have warnings of their own: 1 where these would say the same.
    """
    tasks = list(dict.fromkeys(task for task, _ in cautions))
    if len(tasks) <= few:
        return [caution for _, caution in cautions]
    _, first = cautions[0]
    others = f"{counted(len(tasks) - 1, 'other task')} ({shorten(tasks[1:])})"
    return [replace(first, text=f"{first.text}; the same is found in {others}")]


def any_of(labels: Iterable[str], word: str = "or") -> str:
    """``"a"``, ``"a or b"``, ``"a, b or c"``; with another word in the place of "or"."""
    *most, last = labels
    return f"{', '.join(most)} {word} {last}" if most else last


def grouped(number: int) -> str:
    """A whole number with its digits in groups of three from 10,000 on, as in tables."""
    return f"{number:,}" if abs(number) >= GROUPED else str(number)


def byte_size(number: float) -> str:
    """``"67 MB"``, ``"3.0 GB"``: a size of a file or of memory."""
    return f"{number / 1e6:.0f} MB" if number < 1e9 else f"{number / 1e9:.1f} GB"


def two_sizes(size: int, limit: int) -> tuple[str, str]:
    """Two sizes as :func:`byte_size` gives them, in bytes where they would read alike.

    Examples
    --------
    >>> two_sizes(3_000_000_000, 1_073_741_824), two_sizes(1_048_577, 1_048_576)
    (('3.0 GB', '1.1 GB'), ('1,048,577 bytes', '1,048,576 bytes'))
    """
    first, second = byte_size(size), byte_size(limit)
    if size != limit and first == second:
        return counted(size, "byte"), counted(limit, "byte")
    return first, second


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """``"1 record"``, ``"1364 records"``, ``"13,640 records"``."""
    return f"{grouped(number)} {noun if number == 1 else plural or noun + 's'}"
