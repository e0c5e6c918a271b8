"""Labels in any script: fonts, characters that no font has, and text from right to left."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from functools import lru_cache, partial
from itertools import groupby
from operator import le
from typing import Final

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
_MIRRORED: Final = str.maketrans("()[]{}<>«»", ")(][}{><»«")
_KASHIDA: Final = "\u0640"
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
    join them, and get the text as it is. Directions follow the rules of Unicode for one line
    without embeddings (Unicode Standard Annex 9).
    """
    return _ordered(_joined(text)) if reordered(text) else text


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
def _forms() -> dict[str, dict[str, str]]:
    """Letter, or lam with alef, to its forms by position, where a font has them."""
    forms: dict[str, dict[str, str]] = {}
    for code in (*range(0xFB50, 0xFE00), *range(0xFE70, 0xFF00)):
        kind, *letters = unicodedata.decomposition(chr(code)).split() or [""]
        text = "".join(chr(int(letter, 16)) for letter in letters)
        ligature = len(text) == 2 and text[0] == "\u0644" and text[1] in "\u0622\u0623\u0625\u0627"
        if (len(text) == 1 or ligature) and code in _characters():
            forms.setdefault(text, {}).setdefault(kind.strip("<>"), chr(code))
    return forms


def _joined(text: str) -> str:
    """Arabic letters in the forms of their positions."""
    units: list[str] = []
    for character in text:
        pair = (units[-1] if units else "") + character
        units[-1:] = [pair] if len(pair) == 2 and pair in _forms() else [*units[-1:], character]
    # Marks on letters do not keep these from joining.
    letters = [i for i, unit in enumerate(units) if unicodedata.category(unit[0]) != "Mn"]
    shaped = list(units)
    for place, i in enumerate(letters):
        before = units[letters[place - 1]] if place else ""
        after = units[letters[place + 1]] if place + 1 < len(letters) else ""
        joins_before = _joins_on(before) and _joins_back(units[i])
        joins_after = _joins_on(units[i]) and _joins_back(after)
        form = {
            (True, True): "medial",
            (True, False): "final",
            (False, True): "initial",
            (False, False): "isolated",
        }[joins_before, joins_after]
        shaped[i] = _forms().get(units[i], {}).get(form, units[i])
    return "".join(shaped).replace(_NON_JOINER, "")


def _joins_on(unit: str) -> bool:
    return unit == _KASHIDA or "initial" in _forms().get(unit, {})


def _joins_back(unit: str) -> bool:
    return unit == _KASHIDA or "final" in _forms().get(unit, {})


def _ordered(text: str) -> str:
    """Characters from left to right, marks after their letters, brackets mirrored."""
    clusters: list[str] = []
    for character in text:
        if clusters and unicodedata.category(character) == "Mn":
            clusters[-1] += character
        else:
            clusters.append(character)
    levels = _levels([unicodedata.bidirectional(cluster[0]) for cluster in clusters])
    turned = [
        cluster.translate(_MIRRORED) if level == 1 else cluster
        for cluster, level in zip(clusters, levels, strict=True)
    ]
    # Innermost first: numbers and Latin words inside text from right to left.
    for least in (2, 1):
        start = 0
        for within, run in groupby(levels, partial(le, least)):
            end = start + len(list(run))
            if within:
                turned[start:end] = turned[start:end][::-1]
            start = end
    return "".join(turned)


def _levels(kinds: Sequence[str]) -> list[int]:
    """Embedding levels of characters by their bidirectional classes: odd is from right to left."""
    base = next("L" if kind == "L" else "R" for kind in kinds if kind in ("L", "R", "AL"))
    last, resolved = base, list[str]()
    for i, kind in enumerate(kinds):
        if kind in ("L", "R", "AL"):
            last = kind
            resolved.append("L" if kind == "L" else "R")
        elif kind in ("EN", "AN"):
            resolved.append("L" if kind == "EN" and last == "L" else "number")
        elif (
            # 2.5 is one number, and 2-5 is one except after Arabic letters.
            (kind == "CS" or (kind == "ES" and last != "AL"))
            and resolved[-1:] == ["number"]
            and kinds[i + 1 : i + 2] == [kinds[i - 1]]
        ):
            resolved.append("number")
        else:
            resolved.append("")
    # What lies between two texts of one direction has it too, and otherwise that of the line.
    for i, direction in enumerate(resolved):
        if not direction:
            before = resolved[i - 1] if i else base
            after = next((one for one in resolved[i:] if one), base)
            sides = {"R" if side == "number" else side for side in (before, after)}
            resolved[i] = sides.pop() if len(sides) == 1 else base
    levels = {"L": 0, "R": 1, "number": 2} if base == "L" else {"L": 2, "R": 1, "number": 2}
    return [levels[direction] for direction in resolved]
