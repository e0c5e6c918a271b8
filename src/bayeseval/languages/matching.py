"""Language labels: which labels of two tables mean the same language.

People write `zh`, `zho_Hans`, `zh-CN` or `Chinese`; everything here goes through
:func:`resolve`, which knows ISO 639-1, -2 and -3, BCP-47, FLORES and NLLB codes and
English names (by the package langcodes), and a few tables for what no registry says:
mistakes that people make, and which variety is meant when a whole family is named.
The user's own label is never replaced; it is kept beside what was understood.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from bayeseval.errors import InputError, did_you_mean
from bayeseval.languages.codes import STANDARD, Language, flag_of, resolve, understand

__all__ = [
    "Ambiguous",
    "Language",
    "Matches",
    "Pair",
    "Unmatched",
    "match",
    "resolve",
    "understand",
    "with_names",
]

# Enough to say what is meant; more would be a table, not a message.
_SHOWN = 4


@dataclass(frozen=True)
class Pair:
    """Two labels of one language; `how` says what had to be read into them, if anything."""

    a: str
    b: str
    how: str = ""


@dataclass(frozen=True)
class Ambiguous:
    """A label that several others could mean, or one that is near but not the same."""

    label: str
    candidates: tuple[str, ...]
    why: str


@dataclass(frozen=True)
class Unmatched:
    """A label without any candidate, and the reason."""

    label: str
    why: str


@dataclass(frozen=True)
class Matches:
    """Which labels of one table mean which of another's.

    Attributes
    ----------
    pairs : tuple of Pair
        At most one per label of the first table, in its order.
    ambiguous : tuple of Ambiguous
        Labels of the first table that were not matched because that would be a guess.
    unmatched : tuple of Unmatched
        Labels of the first table without candidates.
    unused : tuple of str
        Labels of the second table that no pair has.
    """

    pairs: tuple[Pair, ...]
    ambiguous: tuple[Ambiguous, ...]
    unmatched: tuple[Unmatched, ...]
    unused: tuple[str, ...] = field(default=())

    @property
    def mapping(self) -> dict[str, str]:
        """Label of the first table to label of the second."""
        return {pair.a: pair.b for pair in self.pairs}

    def notes(self) -> tuple[str, ...]:
        """One sentence per label that needed reading into, or that found no partner."""
        read = [f"{pair.a!r} was matched to {pair.b!r}: {pair.how}" for pair in self.pairs]
        return (
            *(note for note, pair in zip(read, self.pairs, strict=True) if pair.how),
            *(f"{one.label!r} was not matched: {one.why}" for one in self.ambiguous),
            *(f"{one.label!r} was not matched: {one.why}" for one in self.unmatched),
        )


def match(
    labels_a: Iterable[str], labels_b: Iterable[str], *, aliases: Mapping[str, str] | None = None
) -> Matches:
    """Find the labels of `labels_b` that mean the languages of `labels_a`.

    Two labels match when they mean the same variety in the same script, and the same
    territory where both say one; a label without a script has its language's usual one.
    The code of a macro language means its standard variety (``ar`` is ``arb``). Where
    several labels of `labels_b` match, the one that says the same wins; if that leaves
    more than one, all are listed as ambiguous. Other varieties (``arz`` for ``ar``),
    scripts and territories are listed as near, and never taken.

    Parameters
    ----------
    labels_a, labels_b : iterable of str
        Duplicates count once.
    aliases : mapping of str to str, optional
        Labels of `labels_a` to labels of `labels_b`, where the user knows better.

    Returns
    -------
    Matches

    Raises
    ------
    InputError
        If `aliases` names a label that `labels_b` does not have.
    """
    ours, theirs = list(dict.fromkeys(labels_a)), list(dict.fromkeys(labels_b))
    known = {label: one for label in theirs if (one := understand(label)) is not None}
    aliases = dict(aliases or {})
    for label, target in aliases.items():
        if target not in theirs:
            raise InputError(
                f"{label!r} cannot be matched to {target!r}, which the other table lacks"
                f"{did_you_mean(target, theirs)}"
            )
    pairs: list[Pair] = []
    ambiguous: list[Ambiguous] = []
    unmatched: list[Unmatched] = []
    for label in ours:
        outcome = (
            Pair(label, aliases[label], "as requested")
            if label in aliases
            else _match_one(label, theirs, known)
        )
        if isinstance(outcome, Pair):
            pairs.append(outcome)
        elif isinstance(outcome, Ambiguous):
            ambiguous.append(outcome)
        else:
            unmatched.append(outcome)
    used = {pair.b for pair in pairs}
    unused = tuple(label for label in theirs if label not in used)
    return Matches(tuple(pairs), tuple(ambiguous), tuple(unmatched), unused)


def _match_one(
    label: str, theirs: list[str], known: Mapping[str, Language]
) -> Pair | Ambiguous | Unmatched:
    if label in theirs:
        return Pair(label, label)
    mine = understand(label)
    if mine is None:
        return Unmatched(label, "it is not a known language")
    family = [one for one in known.values() if one.macro == mine.macro]
    if not family:
        return Unmatched(label, f"there is no {mine.name} in the other table")
    agreeing = [one for one in family if _compatible(mine, one)]
    if not agreeing:
        return Ambiguous(
            label,
            tuple(one.label for one in family),
            f"{_listed(family)} {'is' if len(family) == 1 else 'are'} near, but not the same",
        )
    best = _best(mine, agreeing)
    if len(best) > 1:
        return Ambiguous(
            label, tuple(one.label for one in best), f"it could be any of {_listed(best)}"
        )
    return Pair(label, best[0].label, _remarks(mine, best[0], family))


def _compatible(mine: Language, other: Language) -> bool:
    """Whether what both labels say is the same; a flag tells two varieties apart."""
    if mine.standard != other.standard:
        return False
    if mine.territory and other.territory and mine.territory != other.territory:
        return False
    flags = flag_of(mine.label), flag_of(other.label)
    if all(flags) and flags[0] != flags[1]:
        return False
    return mine.script == other.script or not (mine.script and other.script)


def _best(mine: Language, agreeing: list[Language]) -> list[Language]:
    """Those that say the same as the label, as far as there are any."""
    for what in ("territory", "code", "script_given"):
        same = [one for one in agreeing if getattr(one, what) == getattr(mine, what)]
        agreeing = same or agreeing
    return agreeing


def _remarks(mine: Language, other: Language, family: list[Language]) -> str:
    remarks = []
    if mine.code != other.code:
        whole, part = (mine, other) if mine.code in STANDARD else (other, mine)
        # Two names of one thing (Swahili, Tagalog and Filipino) are no choice.
        if part.name != whole.name and part.standard != "tgl":
            remarks.append(f"{whole.name} is read as {part.name}")
    same = [one for one in family if one.standard == mine.standard]
    other_scripts = [one for one in same if one.script != other.script]
    if other_scripts and not mine.script_given:
        listed = f"{_listed(other_scripts)} {'is' if len(other_scripts) == 1 else 'are'} there too"
        remarks.append(f"{other.script} is its usual script ({listed})")
    if mine.territory != other.territory:
        remarks.append(f"{mine.territory or other.territory} is ignored")
    return "; ".join(remarks)


def _listed(languages: Iterable[Language]) -> str:
    labels = [repr(one.label) for one in languages]
    more = f" and {len(labels) - _SHOWN} more" if len(labels) > _SHOWN else ""
    return ", ".join(labels[:_SHOWN]) + more


def with_names(known: Mapping[str, str], labels: Iterable[object]) -> dict[str, str]:
    """Add the English names of labels that have none yet, where it is clear what they mean.

    Examples
    --------
    >>> with_names({"sw": "Kiswahili"}, ["sw", "deu_Latn", "xx"])
    {'sw': 'Kiswahili', 'deu_Latn': 'German'}
    """
    new = dict.fromkeys(label for one in labels if (label := str(one)) not in known)
    meant = {label: understand(label) for label in new}
    return dict(known) | {label: one.name for label, one in meant.items() if one is not None}
