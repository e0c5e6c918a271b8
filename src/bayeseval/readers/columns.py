"""Which column of a file is which of ours; ambiguity is refused with the choices."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from bayeseval._text import plain, shorten
from bayeseval.errors import InputError, did_you_mean

__all__ = [
    "EXTRA_NUMBERS",
    "LABELS",
    "METRIC_NAMES",
    "OUR_COLUMNS",
    "REPLICATES",
    "TABLE_COLUMNS",
    "ColumnMap",
    "resolve_columns",
]

LABELS: Final = ("model", "language", "task")
REPLICATES: Final = ("seed", "boot", "item")
EXTRA_NUMBERS: Final = (
    "n",
    "k",
    "se",
    "seed_sd",
    "boot_sd",
    "n_seeds",
    "n_boot",
    "chance",
)
TABLE_COLUMNS: Final = (
    *LABELS,
    "score",
    "dataset",
    "metric",
    "n",
    "k",
    "se",
    "seed",
    "boot",
    "seed_sd",
    "boot_sd",
    "n_seeds",
    "n_boot",
    "item",
    "chance",
)
"""Columns of the tidy table, in their order. Bounds live in ``Records.units``."""

METRIC_NAMES: Final = frozenset(
    [
        *("accuracy", "acc", "exactmatch", "em", "f1", "f1score", "macrof1", "microf1", "mcc"),
        *("bleu", "sacrebleu", "spbleu", "chrf", "chrf++", "comet", "rouge", "rougel"),
    ]
)
"""Score columns named after a metric, in the spelling of :func:`_fold`."""

_SYNONYMS: Final[Mapping[str, frozenset[str]]] = {
    "model": frozenset(["modelname", "modelid", "system", "systemname", "llm"]),
    "language": frozenset(
        [
            *("lang", "languagecode", "langcode", "languagename", "languageid", "locale"),
            *("isocode", "langpair", "languagepair"),
        ]
    ),
    "task": frozenset(["taskname"]),
    "dataset": frozenset(["datasetname", "benchmark", "benchmarkname", "corpus"]),
    "metric": frozenset(["metricname"]),
    "score": METRIC_NAMES
    | frozenset(["value", "result", "performance", "mean", "meanscore"])
    | frozenset(f"{metric}mean" for metric in METRIC_NAMES),
    "n": frozenset(["numitems", "nitems", "numsamples", "nsamples", "samplesize", "numexamples"]),
    "k": frozenset(["numcorrect", "ncorrect"]),
    "se": frozenset(["stderr", "standarderror", "scorestderr", "scorese"]),
    "seed": frozenset(["seedidx", "seedindex", "seedid"]),
    "boot": frozenset(
        ["bootidx", "bootindex", "bootid", "bootstrapidx", "bootstrapindex", "bootstrap"]
    ),
    "seed_sd": frozenset(["sdseed", "sd(seed)", "seedstd"]),
    "boot_sd": frozenset(["sdboot", "sd(boot)", "sdbootavg", "bootstd"]),
    "n_seeds": frozenset(["numseeds"]),
    "n_boot": frozenset(["nboots", "numboot", "numboots", "nbootstrap", "numbootstrap"]),
    "item": frozenset(["itemid", "docid"]),
    "scale_min": frozenset(["minscore"]),
    "scale_max": frozenset(["maxscore"]),
    "chance": frozenset(["chancelevel", "randombaseline"]),
}
OUR_COLUMNS: Final = tuple(_SYNONYMS)

# What a column named after the score's says of it: "bleu_seed_sd" beside "bleu_mean".
_OF_THE_SCORE: Final = ("se", "seed_sd", "boot_sd")


@dataclass(frozen=True, slots=True)
class ColumnMap:
    """How one file's columns are read.

    Parameters
    ----------
    ours : mapping of str to str
        Our column and the file's column it is read from.
    explicit : frozenset of str
        Our columns that the user mapped, rather than the loader.
    metric : str or None
        The metric that the score column is named after, when it is.
    """

    ours: Mapping[str, str]
    explicit: frozenset[str]
    metric: str | None


def resolve_columns(
    names: Sequence[str], *, source: str, explicit: Mapping[str, str | None]
) -> ColumnMap:
    """Match a file's column names with ours.

    Names are compared without case, blanks, underscores, hyphens and dots. A column
    with our own name wins over a synonym; two candidates of the same standing are
    refused. ``se``, ``seed_sd`` and ``boot_sd`` are also found under the score's name:
    ``acc_stderr`` beside ``acc``, ``bleu_seed_sd`` beside ``bleu_mean``.

    Parameters
    ----------
    names : sequence of str
        Column names of the file, in its order.
    source : str
        The file, for messages.
    explicit : mapping of str to str or None
        The user's choices, ours to theirs; None leaves our column out.

    Raises
    ------
    InputError
        If a needed column is missing, a choice is ambiguous, or a mapping names a
        column that does not exist.
    """
    chosen: dict[str, str] = {}
    for our, theirs in explicit.items():
        if our not in OUR_COLUMNS:
            raise InputError(
                f"column mapping: unknown name {our!r}{did_you_mean(our, OUR_COLUMNS)}"
                f" (allowed: {', '.join(OUR_COLUMNS)})"
            )
        if theirs is not None:
            chosen[our] = _find(theirs, names, source=source, our=our)
    _refuse_shared(chosen, source)
    taken = set(chosen.values())
    free = [name for name in names if name not in taken]
    for our in OUR_COLUMNS:
        if our not in explicit:
            match = _match(our, free, source)
            if match is not None:
                chosen[our] = match
    if "score" in chosen:
        stem = _fold(_without_mean(chosen["score"]))
        for our in _OF_THE_SCORE:
            if our not in explicit:
                endings = {_fold(our), *_SYNONYMS[our]}
                own = [n for n in free if _fold(n) in {stem + ending for ending in endings}]
                # Nearer than a column for the table as a whole.
                chosen |= {our: own[0]} if len(own) == 1 else {}
    missing = [our for our in ("model", "language", "score") if our not in chosen]
    if missing:
        raise InputError(_missing(missing, names, free, source))
    metric = _without_mean(chosen["score"])
    return ColumnMap(
        ours=chosen,
        explicit=frozenset(our for our, theirs in explicit.items() if theirs is not None),
        metric=metric if _fold(metric) in METRIC_NAMES else None,
    )


def _without_mean(score: str) -> str:
    """``bleu`` of ``bleu_mean``; other names as they are."""
    return re.sub(r"(?<=.)[\s_\-.]+mean$", "", score, flags=re.IGNORECASE)


def _fold(name: str) -> str:
    return re.sub(r"[\s_\-.]+", "", unicodedata.normalize("NFKC", name).casefold())


def _find(theirs: str, names: Sequence[str], *, source: str, our: str) -> str:
    if theirs in names:
        return theirs
    alike = [name for name in names if _fold(name) == _fold(theirs)]
    if len(alike) == 1:
        return alike[0]
    raise InputError(
        f"{source}: no column {theirs!r}, which was given for {our!r}"
        f"{did_you_mean(theirs, names)} (found: {shorten(map(plain, names), limit=12)})"
    )


def _refuse_shared(chosen: Mapping[str, str], source: str) -> None:
    users: dict[str, str] = {}
    for our, theirs in chosen.items():
        if theirs in users:
            raise InputError(
                f"{source}: column {theirs!r} is mapped to both {users[theirs]!r} and {our!r}"
            )
        users[theirs] = our


def _match(our: str, names: Sequence[str], source: str) -> str | None:
    own = [name for name in names if _fold(name) == _fold(our)]
    candidates = own or [name for name in names if _fold(name) in _SYNONYMS[our]]
    if len(candidates) > 1:
        choices = " or ".join(f"--columns {our}={_quoted(name)}" for name in candidates)
        listed = ", ".join(repr(name) for name in candidates)
        raise InputError(
            f"{source}: {listed} could each be the {our} column; choose with {choices}"
        )
    return candidates[0] if candidates else None


def _quoted(name: str) -> str:
    return f"'{plain(name)}'" if re.search(r"\s", name) else plain(name)


def _missing(missing: Sequence[str], names: Sequence[str], free: Sequence[str], source: str) -> str:
    listed = " and ".join(repr(our) for our in missing)
    if len(names) == 1:
        return (
            f"{source}: no column for {listed}: only one column was found, {names[0]!r};"
            " separate columns by commas, tabs or semicolons"
        )
    hint = ""
    for our in missing:
        options = {_fold(name): name for name in free}
        near = did_you_mean(our, [*options.values()])
        hint = hint or near
    return (
        f"{source}: no column for {listed}{hint} (found: {shorten(map(plain, names), limit=12)});"
        f" name it with --columns {missing[0]}=NAME"
    )
