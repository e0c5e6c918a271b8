"""What one language label means: codes, names, scripts and the frequent mistakes."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from unicodedata import combining, normalize

from bayeseval.errors import InputError

__all__ = [
    "STANDARD",
    "Language",
    "is_code",
    "nearest_name",
    "resolve",
    "understand",
    "variant_name",
]

# Codes that do not exist, or that mean another language than their writers intend.
_MISTAKES: Mapping[str, str] = {
    "cn": "zh",
    "cz": "cs",
    "dk": "da",
    "gr": "el",
    "jap": "ja",
    "jp": "ja",
    "kp": "ko",
    "sp": "es",
    "ua": "uk",
    "vn": "vi",
    # Swahili Sign Language does not exist; swl is Swedish Sign Language, which has no text.
    "swl": "swh",
}

# Withdrawn codes, as ISO 639 says what to use now.
_WITHDRAWN: Mapping[str, str] = {
    "in": "id",
    "iw": "he",
    "ji": "yi",
    "jw": "jv",
    "mo": "ro",
    "scc": "srp",
    "scr": "hrv",
    "sh": "hbs",
}

# A macro language and the variety that texts under its code are written in; these are
# also the varieties that FLORES-200 chose.
STANDARD: Mapping[str, str] = {
    "aka": "twi",
    "ara": "arb",
    "aym": "ayr",
    "aze": "azj",
    "din": "dik",
    "est": "ekk",
    "fas": "pes",
    "fil": "tgl",
    "ful": "fuv",
    "grn": "gug",
    "hbs": "srp",
    "kau": "knc",
    "kok": "gom",
    "kur": "kmr",
    "lav": "lvs",
    "mlg": "plt",
    "mon": "khk",
    "msa": "zsm",
    "nep": "npi",
    "nor": "nob",
    "ori": "ory",
    "orm": "gaz",
    "pus": "pbt",
    "que": "quy",
    "sqi": "als",
    "swa": "swh",
    "uzb": "uzn",
    "yid": "ydd",
    "zho": "cmn",
}

# Other varieties of a macro language that evaluation data have: offered as candidates, never taken.
_VARIETIES: Mapping[str, tuple[str, ...]] = {
    "aka": ("fat",),
    "ara": ("acm", "acq", "aeb", "ajp", "apc", "ars", "ary", "arz", "ayl"),
    "aze": ("azb",),
    "fas": ("prs",),
    "hbs": ("bos", "cnr", "hrv"),
    "kur": ("ckb", "sdh"),
    "lav": ("ltg",),
    "msa": ("bjn", "min"),
    "nor": ("nno",),
    "orm": ("hae", "gax"),
    "que": ("quz", "quh", "qvi"),
    "uzb": ("uzs",),
    "yid": ("yih",),
    "zho": ("hak", "nan", "wuu", "yue"),
}
_MACRO: Mapping[str, str] = {
    **{member: macro for macro, members in _VARIETIES.items() for member in members},
    **{member: macro for macro, member in STANDARD.items() if macro != "fil"},
}

# Scripts of languages that Unicode's likely subtags do not list or list otherwise than they
# are written in FLORES-200.
_SCRIPTS: Mapping[str, str] = {
    "acm": "Arab",
    "acq": "Arab",
    "ajp": "Arab",
    "ars": "Arab",
    "azb": "Arab",
    "crh": "Latn",
    "pbt": "Arab",
    "prs": "Arab",
}
# One writing system under two names: Korean is Hangul with or without Chinese characters.
_SAME_SCRIPT: Mapping[str, str] = {"Kore": "Hang", "Hrkt": "Jpan"}

_SCRIPT_WORDS: Mapping[str, str] = {
    "arabic": "Arab",
    "cyrillic": "Cyrl",
    "devanagari": "Deva",
    "hans": "Hans",
    "hant": "Hant",
    "latin": "Latn",
    "roman": "Latn",
    "romanised": "Latn",
    "romanized": "Latn",
    "simplified": "Hans",
    "tifinagh": "Tfng",
    "traditional": "Hant",
}
# Names that langcodes' English list lacks or spells otherwise.
_NAMES: Mapping[str, str] = {
    "bahasa indonesia": "id",
    "bahasa malaysia": "ms",
    "bahasa melayu": "ms",
    "farsi": "fa",
    "isixhosa": "xh",
    "isizulu": "zu",
    "kiswahili": "sw",
    "mandarin": "zh",
    "modern standard arabic": "arb",
    "msa": "arb",
    "setswana": "tn",
    "standard malay": "zsm",
}
# English names that say less, or something else, in CLDR.
_DISPLAY_NAMES: Mapping[str, str] = {"hbs": "Serbo-Croatian", "prs": "Dari"}
# What CLDR adds to the standard variety where the macro language has the same name.
_INDIVIDUAL = " (individual language)"
_NOT_LANGUAGES = ("mis", "mul", "und", "zxx")


@dataclass(frozen=True)
class Language:
    """What a label was understood as.

    Attributes
    ----------
    label : str
        As the user wrote it.
    code : str
        ISO 639-3; of the macro language when the label names one (`swa` for ``sw``).
    standard : str
        ISO 639-3 of the variety that is meant: `swh` for ``sw`` and ``swh`` alike.
    script : str
        ISO 15924; the language's usual script when the label says none, and empty when
        that is not known.
    script_given : bool
        Whether the label says it, by itself or through a territory (``zh-TW``).
    territory : str or None
        ISO 3166 when the label says one.
    name : str
        In English.
    """

    label: str
    code: str
    standard: str
    script: str
    script_given: bool
    territory: str | None
    name: str

    @property
    def macro(self) -> str:
        """The macro language it belongs to; its own `standard` when there is none."""
        return _MACRO.get(self.standard, self.standard)


_MAX_LABEL = 200
# Two regional indicators, or a black flag with the tags of a region; the codes say no language.
_FLAG = "(?:[\U0001f1e6-\U0001f1ff]{2}|\U0001f3f4[\U000e0061-\U000e007a]{1,6}\U000e007f)"
_FLAGS = re.compile(rf"^(?:{_FLAG}\s*)+|(?:\s*{_FLAG})+$")
_FIRST_INDICATOR = 0x1F1E6
# Without those for private use; XK is Kosovo.
_TERRITORY = re.compile("(?!AA|Q[M-Z]|X[A-JL-Z]|ZZ)[A-Z]{2}")
_NO_TEXT = re.compile("[\0\ud800-\udfff]")


@lru_cache(maxsize=1 << 16)
def understand(label: str) -> Language | None:
    """As :func:`resolve`, but None for what is not a language."""
    text = _without_flags(label)
    # The registry's search of names takes time that grows with the square of a text, and it is
    # of UTF-8, which has no half of a surrogate pair; a null ends what it searches for.
    if len(text) > _MAX_LABEL or _NO_TEXT.search(text):
        return None
    tag = _as_tag(text)
    if tag is None:
        tag = _as_name(text)
    return None if tag is None else _language(label, *tag)


def flag_of(label: str) -> str:
    """The emoji flag before or behind a label, and an empty string where it has none."""
    text = " ".join(str(label).split())
    return text.replace(_without_flags(label), "").strip()


def _territory_of_flag(label: str) -> str | None:
    """The country whose flag stands beside a label; regions have other flags."""
    letters = [chr(ord(mark) - _FIRST_INDICATOR + ord("A")) for mark in flag_of(label)[:2]]
    code = "".join(letter for letter in letters if "A" <= letter <= "Z")
    return code if _TERRITORY.fullmatch(code) else None


def _without_flags(label: str) -> str:
    text = " ".join(str(label).split())
    # The pattern looks at a long text of flags more than once.
    return _FLAGS.sub("", text) if len(text) <= _MAX_LABEL else text


def resolve(label: str) -> Language:
    """Say which language a label means.

    Parameters
    ----------
    label : str
        ISO 639-1, -2 or -3 (``sw``, ``chi``, ``swh``), BCP-47 (``pt-BR``), FLORES or NLLB
        (``zho_Hans``), an English name (``Chinese (Simplified)``, ``Odia``) or one of the
        frequent mistakes (``jp``). Case and ``_`` or ``-`` do not matter; a code of a country or
        of the language may stand in brackets behind its name (``Portuguese (BR)``), and an emoji
        flag beside it says nothing.

    Returns
    -------
    Language

    Raises
    ------
    InputError
        If the label is not a known language; the message names the nearest one.

    Examples
    --------
    >>> resolve("sw").standard, resolve("swh_Latn").standard
    ('swh', 'swh')
    >>> resolve("zh").script, resolve("zh-TW").script
    ('Hans', 'Hant')
    """
    language = understand(label)
    if language is None:
        near = _nearest(" ".join(str(label).split())[:_MAX_LABEL])
        raise InputError(
            f"{label!r} is not a known language{near} (allowed: ISO 639 codes, BCP-47 tags, "
            "FLORES codes such as zho_Hans, English names)"
        )
    return language


def _as_tag(text: str) -> tuple[str, str | None, str | None] | None:
    """Language, script and territory of a code, or None when it is none."""
    import langcodes
    from langcodes.tag_parser import LanguageTagError

    head, *rest = re.split(r"[-_]", text.casefold())
    head = _MISTAKES.get(head, head)
    head = _WITHDRAWN.get(head, head)
    try:
        parsed = langcodes.Language.get("-".join([head, *rest]), normalize=False)
    except LanguageTagError:
        return None
    if parsed.language is None or parsed.private or parsed.extensions:
        return None
    # "zh-yue" says Cantonese as a variety of Chinese.
    code = _alpha3(parsed.extlangs[0] if parsed.extlangs else parsed.language)
    if code == "fas" and parsed.territory == "AF":  # what BCP-47 calls Dari
        code = "prs"
    subtags = langcodes.Language(script=parsed.script, territory=parsed.territory)
    if code is None or code in _NOT_LANGUAGES or not subtags.is_valid():
        return None
    return code, parsed.script, parsed.territory


@cache
def _of_bibliographic() -> dict[str, str]:
    """Two-letter codes of the bibliographic three-letter ones, such as ``ger``."""
    from langcodes.data_dicts import LANGUAGE_ALPHA3_BIBLIOGRAPHIC

    return {three: two for two, three in LANGUAGE_ALPHA3_BIBLIOGRAPHIC.items()}


def _alpha3(code: str) -> str | None:
    """ISO 639-3 of a two- or three-letter code, or None when there is no such code."""
    import langcodes
    from langcodes.data_dicts import LANGUAGE_ALPHA3

    code = _of_bibliographic().get(code, code)
    if len(code) == 2:
        return LANGUAGE_ALPHA3.get(code)
    # Codes with a two-letter equivalent are not valid in BCP-47, but they are codes.
    if code in LANGUAGE_ALPHA3.values() or code in _MACRO or code in STANDARD:
        return code
    # qaa to qtz are for private use.
    public = len(code) == 3 and not "qaa" <= code <= "qtz"
    return code if public and langcodes.Language(language=code).is_valid() else None


def _as_name(text: str) -> tuple[str, str | None, str | None] | None:
    """Language, script and territory of an English name, or None when it is none."""
    words = [word for word in re.split(r"[\s_(),]+", text.casefold()) if word]
    name = " ".join(word for word in words if word not in ("script", "language"))
    parsed = _exact_name(name)
    if parsed is not None:
        return parsed
    outside, _, inside = (part.strip(" )") for part in text.partition("("))
    if inside:
        return _name_with_brackets(outside, inside)
    scripts = [word for word in words if word in _SCRIPT_WORDS]
    if scripts:
        parsed = _exact_name(" ".join(word for word in name.split() if word not in scripts))
    return None if parsed is None else (parsed[0], _SCRIPT_WORDS[scripts[0]], parsed[2])


def _name_with_brackets(outside: str, inside: str) -> tuple[str, str | None, str | None] | None:
    """A name with a script, a territory or another name in brackets behind it."""
    import langcodes

    parsed = _exact_name(outside.casefold())
    if parsed is None:
        return None
    coded = _as_tag(inside)
    if coded is not None and STANDARD.get(coded[0], coded[0]) == STANDARD.get(parsed[0], parsed[0]):
        # "German (DE)" may mean the code of the language or that of the country.
        return coded[0], coded[1] or parsed[1], coded[2] or parsed[2]
    if _TERRITORY.fullmatch(inside) and langcodes.Language(territory=inside).is_valid():
        return parsed[0], parsed[1], inside
    inside = inside.casefold()
    for word in (inside, inside.removesuffix(" script")):
        if word in _SCRIPT_WORDS:
            return parsed[0], _SCRIPT_WORDS[word], parsed[2]
    if _exact_name(inside) == parsed:
        return parsed
    try:
        territory = langcodes.Language.find_name("territory", inside, "en")
    except LookupError:
        return None
    return parsed[0], parsed[1], territory.territory


def _exact_name(name: str) -> tuple[str, str | None, str | None] | None:
    import langcodes
    from language_data.names import TRIES, normalize_name

    if name in _NAMES:
        return _as_tag(_NAMES[name])
    # The registry has names of one letter, too, but in tables these are other labels.
    if len(name) < 2:
        return None
    try:
        tag = langcodes.find(name, "en")
    except LookupError:
        # "Yorùbá" is listed as Yoruba.
        bare = "".join(c for c in normalize("NFD", name) if not combining(c))
        return None if bare == name else _exact_name(bare)
    # `find` also takes the first word of a name ("Hindi and English" would be Hindi);
    # the table that it has looked in by now says whether the whole name is there.
    whole = normalize_name(name) in TRIES["en/name_to_language"]
    return _as_tag(str(tag)) if whole else None


def _language(label: str, code: str, script: str | None, territory: str | None) -> Language:
    import langcodes
    from langcodes.data_dicts import LANGUAGE_ALPHA3

    # Modern Standard Arabic is ar-001 in CLDR: the world is no territory.
    territory = None if territory == "001" else territory
    usual = _usual_script(code, territory)
    if script is None and usual != _usual_script(code, None):
        script = usual
    short = {three: two for two, three in LANGUAGE_ALPHA3.items()}.get(code, code)
    name = _DISPLAY_NAMES.get(code) or langcodes.Language.get(short, normalize=False).display_name(
        "en"
    )
    return Language(
        label=label,
        code=code,
        standard=STANDARD.get(code, code),
        script=_SAME_SCRIPT.get(script or usual, script or usual),
        script_given=script is not None,
        territory=territory,
        name=name.removesuffix(_INDIVIDUAL),
    )


def _usual_script(code: str, territory: str | None) -> str:
    """Script that a language is mostly written in; empty when nobody has written it down."""
    import langcodes
    from langcodes.data_dicts import LANGUAGE_ALPHA3, LIKELY_SUBTAGS

    if code in _SCRIPTS:
        return _SCRIPTS[code]
    two = {three: short for short, three in LANGUAGE_ALPHA3.items()}
    for candidate in (code, _MACRO.get(code, code)):
        short = two.get(candidate, candidate)
        if short in LIKELY_SUBTAGS:
            tag = langcodes.Language.make(language=short, territory=territory)
            return str(tag.maximize().script)
    return ""


def is_code(label: str) -> bool:
    """Whether a label is a language's code, and not its English name."""
    return _as_tag(_without_flags(label)) is not None


def variant_name(label: str) -> str:
    """English name of a code with the script and territory that it says."""
    import langcodes
    from langcodes.data_dicts import LANGUAGE_ALPHA3

    language = resolve(label)
    short = {three: two for two, three in LANGUAGE_ALPHA3.items()}.get(language.code, language.code)
    territory = language.territory or _territory_of_flag(label)
    script = language.script if language.script_given and not territory else None
    full = langcodes.Language.make(language=short, script=script, territory=territory)
    return full.display_name("en").removesuffix(_INDIVIDUAL)


def script_name(code: str) -> str:
    """English name of a script; the text itself where it is no code of one.

    Examples
    --------
    >>> script_name("Deva"), script_name("others")
    ('Devanagari', 'others')
    """
    import langcodes

    if not langcodes.Language(script=code).is_valid():
        return code
    return langcodes.Language(script=code).script_name("en")


def nearest_name(label: str) -> str:
    """Name and code of the language whose English name is nearest, or an empty string."""
    near = difflib.get_close_matches(label.casefold(), _english_names(), n=1, cutoff=0.8)
    if not near:
        return ""
    name, code = _english_names()[near[0]]
    return f"{name} ({code})"


def _nearest(text: str) -> str:
    """Suggest a code or a name; codes of three letters are all near each other, so only names."""
    near = difflib.get_close_matches(text.casefold(), _english_names(), n=1, cutoff=0.7)
    return f"; did you mean {_english_names()[near[0]][0]!r}?" if near else ""


@lru_cache(maxsize=1)
def _english_names() -> dict[str, tuple[str, str]]:
    """English names and codes of languages with two letters, by the name in lower case."""
    import langcodes
    from langcodes.data_dicts import LANGUAGE_ALPHA3

    names = ((langcodes.Language.get(code).display_name("en"), code) for code in LANGUAGE_ALPHA3)
    return {name.casefold(): (name, code) for name, code in sorted(names)}
