"""Labels in any script: fonts, characters that no font has, and text from right to left."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache
from itertools import groupby
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from arabic_reshaper import ArabicReshaper

__all__ = [
    "DEFAULT_FONT",
    "drawable",
    "font_families",
    "legible",
    "legible_text",
    "reordered",
    "visual",
]

#: Comes with matplotlib: labels that it can draw look the same everywhere.
DEFAULT_FONT: Final = "DejaVu Sans"
# Asked after it, where they are installed, for the characters that it lacks. Colour fonts of
# emoji are not among them: matplotlib cannot draw them.
_FALLBACKS: Final = (
    *("Noto Sans CJK SC", "Noto Sans CJK JP", "Noto Sans SC", "Noto Sans JP", "Noto Sans KR"),
    *("Source Han Sans SC", "Source Han Sans CN", "WenQuanYi Micro Hei", "WenQuanYi Zen Hei"),
    *("PingFang SC", "Hiragino Sans GB", "Hiragino Sans", "Microsoft YaHei", "Yu Gothic"),
    *("Malgun Gothic", "Apple SD Gothic Neo", "NanumGothic", "Arial Unicode MS"),
    *("Noto Sans Devanagari", "Lohit Devanagari", "Noto Sans Bengali", "Noto Sans Tamil"),
    *("Noto Sans Telugu", "Noto Sans Gujarati", "Noto Sans Gurmukhi", "Noto Sans Kannada"),
    *("Noto Sans Malayalam", "Noto Sans Oriya", "Noto Sans Sinhala", "Nirmala UI"),
    *("Noto Sans Thai", "Noto Sans Khmer", "Noto Sans Myanmar", "Leelawadee UI", "FreeSerif"),
    *("Noto Sans Ethiopic", "Noto Sans Symbols2", "Symbola", "Noto Emoji", "Segoe UI Symbol"),
)
# Marks of Hebrew and Arabic before their letter, where reversal puts them; a font draws a mark on
# the letter before it.
_MARKED: Final = re.compile(
    "([\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a\u064b-\u065f\u0670"
    "\u06d6-\u06dc\u06df-\u06e4\u06e7\u06e8\u06ea-\u06ed]+)(.)"
)
_NON_JOINER: Final = "\u200c"
_FLAG_LETTERS: Final = 0x1F1E6


@lru_cache(maxsize=1)
def font_families() -> tuple[str, ...]:
    """Families that figures are drawn with, in the order in which they are asked."""
    from matplotlib.font_manager import fontManager

    installed = {font.name for font in fontManager.ttflist}
    return (DEFAULT_FONT, *(name for name in _FALLBACKS if name in installed))


@lru_cache(maxsize=1)
def _characters() -> frozenset[int]:
    from matplotlib.font_manager import FontProperties, findfont, get_font

    paths = (findfont(FontProperties(family=family)) for family in font_families())
    return frozenset().union(*(get_font(path).get_charmap() for path in paths))


def drawable(text: str) -> bool:
    """Whether the fonts of the figures have every character of a text."""
    return all(ord(character) in _characters() for character in text)


def legible(text: str) -> str:
    r"""Replace what no font can draw: emoji by their names, other characters by code points.

    Examples
    --------
    >>> legible("\N{ROBOT FACE}-7b"), legible("gpt-4")
    ('[robot face]-7b', 'gpt-4')
    """
    # Invisible characters, among them those that turn the direction of a text.
    text = "".join(
        c for c in text if c == _NON_JOINER or not (unicodedata.category(c) == "Cf" or _selects(c))
    )
    if drawable(text):
        return text
    parts = []
    for kind, run in groupby(text, _kind):
        characters = list(run)
        if kind == "drawn":
            parts.append("".join(characters))
        elif kind == "flag":
            parts.append(f"[{''.join(chr(ord('A') + ord(c) - _FLAG_LETTERS) for c in characters)}]")
        elif kind == "symbol":
            parts += [f"[{unicodedata.name(c).lower()}]" for c in characters]
        else:
            parts.append(f"[U+{' '.join(f'{ord(c):04X}' for c in characters)}]")
    return "".join(parts)


def _selects(character: str) -> bool:
    """Whether a character only chooses between forms of the one before it."""
    return "\ufe00" <= character <= "\ufe0f"


def _kind(character: str) -> str:
    if ord(character) in _characters():
        return "drawn"
    if 0 <= ord(character) - _FLAG_LETTERS < 26:
        return "flag"
    return "symbol" if unicodedata.category(character).startswith("S") else "letter"


def legible_text(labels: Sequence[object]) -> str:
    """Say what the brackets are, for the caption; empty where all labels can be drawn."""
    if all("[U+" not in legible(str(label)) for label in labels):
        return ""
    return " [U+...]: Unicode numbers of characters that no installed font can draw."


def visual(text: str) -> str:
    """A text in the order and the forms in which it is drawn from left to right.

    Up to version 3.10 matplotlib draws characters as they are stored, so that Hebrew
    and Arabic would stand backwards and Arabic letters unjoined. Later versions order and
    join them, and get the text as it is.
    """
    if not reordered(text):
        return text
    # This one mirrors brackets, the one in Rust leaves them to the program that draws.
    from bidi.algorithm import get_display

    return _MARKED.sub(lambda found: found[2] + found[1][::-1], get_display(_joined(text)))


def reordered(text: str) -> bool:
    """Whether a text is drawn in another order than it is stored, by :func:`visual`."""
    if _matplotlib_shapes():
        return False
    return any(unicodedata.bidirectional(c) in ("R", "AL") for c in text)


@lru_cache(maxsize=1)
def _matplotlib_shapes() -> bool:
    from matplotlib import ft2font

    return hasattr(ft2font, "__libraqm_version__")


@lru_cache(maxsize=1)
def _reshaper() -> ArabicReshaper:
    from arabic_reshaper import ArabicReshaper

    return ArabicReshaper({"delete_harakat": False, "ARABIC LIGATURE ALLAH": False})


def _joined(text: str) -> str:
    """Arabic letters in the forms of their positions, where a font has these forms."""
    forms = _reshaper().reshape(text).replace(_NON_JOINER, "")
    return "".join(c if drawable(c) else unicodedata.normalize("NFKC", c) for c in forms)
