"""Match a file's columns with those of a table; an ambiguous match is refused."""

from __future__ import annotations

import difflib
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from bayeseval._text import brief, shell_quoted, shorten
from bayeseval.errors import InputError, argument, did_you_mean, wording
from bayeseval.languages.codes import understand
from bayeseval.readers.printed import MAX_CELL
from bayeseval.readers.proposals import advice_on_columns
from bayeseval.readers.raw import Column

__all__ = [
    "EXTRA_NUMBERS",
    "LABELS",
    "METRIC_NAMES",
    "OUR_COLUMNS",
    "REPEATED",
    "REPLICATES",
    "SHARED",
    "TABLE_COLUMNS",
    "UNITS",
    "ColumnMap",
    "columns_argument",
    "columns_together",
    "find_column",
    "is_about_models",
    "is_bound",
    "is_repeated",
    "is_split",
    "missing_columns",
    "named_like",
    "resolve_columns",
]

LABELS: Final = ("model", "language", "task")
SHARED: Final = ("prompt", "judge")
REPLICATES: Final = ("seed", "boot", "item", *SHARED)
#: Over these, rows are reduced while they are read: the first that a table has.
UNITS: Final = ("item", "boot")
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
    "prompt",
    "judge",
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
    "prompt": frozenset(
        [
            *("promptid", "promptidx", "promptindex", "promptname", "prompttemplate"),
            *("template", "templateid", "templateidx", "templateindex", "templatename"),
        ]
    ),
    "judge": frozenset(["judgeid", "judgeidx", "judgeindex", "judgename", "judgemodel"]),
    "split": frozenset(["splitname", "datasetsplit", "evalsplit"]),
    "scale_min": frozenset(["minscore"]),
    "scale_max": frozenset(["maxscore"]),
    "chance": frozenset(["chancelevel", "randombaseline"]),
}
OUR_COLUMNS: Final = tuple(_SYNONYMS)
# Columns that describe models beside their scores.
_MODEL_FACTS: Final = frozenset(
    [
        *("size", "params", "parameters", "#params", "rank", "ranking", "type", "date", "year"),
        *("license", "licence", "url", "link", "release", "released", "#", "shot", "shots"),
        *("version", "open", "context", "organization", "organisation", "org", "developer"),
        *("architecture", "provider", "precision"),
    ]
)
# Columns in front of those of the models in a summary of OpenCompass.
_OPENCOMPASS: Final = ("dataset", "version", "metric", "mode")
_NEEDED: Final = ("model", "language", "score")

# Columns that may be named after the score column: "bleu_seed_sd" beside "bleu_mean".
_SPREADS: Final = ("se", "seed_sd", "boot_sd")

# So many rows say what a column holds.
_FIRST_ROWS: Final = 100
# So many columns are searched for one that a message can propose: more only cost time.
_MOST_SEARCHED: Final = 1000


REPEATED: Final = (
    *("seed", "run", "prompt", "template", "trial", "repetition", "repeat", "replicate", "boot"),
    *("fold", "judge"),
)
"""Words in the names of columns that tell repeated measurements apart, the likeliest first."""

# Similarity of names: of a column that has to be there, and of one that a table may lack.
_NEAR: Final = 0.6
_SURE: Final = 0.8
_REPEATED: Final = re.compile(rf"(?:{'|'.join(REPEATED)}|bootstrap)(?:id|idx|index)?")


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
    missing : tuple of str
        Those of our columns that every table needs and that the file lacks.
    """

    ours: Mapping[str, str]
    explicit: frozenset[str]
    metric: str | None
    missing: tuple[str, ...]


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
        If a choice is ambiguous, or a mapping names a column that does not exist.
    """
    chosen: dict[str, str] = {}
    for our, theirs in explicit.items():
        if our not in OUR_COLUMNS:
            raise InputError(
                f"column mapping: unknown name {our!r}{did_you_mean(our, OUR_COLUMNS)}"
                f" (allowed: {', '.join(OUR_COLUMNS)})"
            )
        if theirs is not None:
            chosen[our] = _find_column(theirs, names, source=source, our=our)
        elif our in ("model", "score"):
            raise InputError(
                f"{source}: the column {our!r} is needed and cannot be ignored; name it, or leave "
                "the choice to the names of the columns"
            )
    _refuse_shared(chosen, source)
    used = set(chosen.values())
    free = [name for name in names if name not in used]
    for our in OUR_COLUMNS:
        # A column of prompts may hold whole texts: it is read where it tells scores apart.
        if our not in explicit and our not in SHARED:
            match = _match_column(our, free, source)
            if match is not None:
                chosen[our] = match
    if "score" in chosen:
        score_name = _fold(_without_mean(chosen["score"]))
        for our in _SPREADS:
            if our not in explicit:
                endings = {_fold(our), *_SYNONYMS[our]}
                after_score = [
                    n for n in free if _fold(n) in {score_name + ending for ending in endings}
                ]
                # Nearer than a column for the table as a whole.
                chosen |= {our: after_score[0]} if len(after_score) == 1 else {}
    metric = _without_mean(chosen.get("score", ""))
    return ColumnMap(
        ours=chosen,
        explicit=frozenset(our for our, theirs in explicit.items() if theirs is not None),
        metric=metric if _fold(metric) in METRIC_NAMES else None,
        missing=tuple(our for our in _NEEDED if our not in chosen),
    )


def find_column(
    our: str, names: Sequence[str], *, source: str, explicit: Mapping[str, str | None]
) -> str | None:
    """The file's column for one of ours, as :func:`resolve_columns` finds it; None without one.

    Raises
    ------
    InputError
        If the choice is ambiguous, or names a column that does not exist.
    """
    if our in explicit:
        theirs = explicit[our]
        return None if theirs is None else _find_column(theirs, names, source=source, our=our)
    used = set(explicit.values())
    return _match_column(our, [name for name in names if name not in used], source)


def _without_mean(score: str) -> str:
    """``bleu`` of ``bleu_mean``; other names as they are."""
    return re.sub(r"(?<=.)[\s_\-.]+mean$", "", score, flags=re.IGNORECASE)


@lru_cache(maxsize=1 << 18)
def _fold(name: str) -> str:
    return re.sub(r"[\s_\-.]+", "", unicodedata.normalize("NFKC", name).casefold())


def _find_column(theirs: str, names: Sequence[str], *, source: str, our: str) -> str:
    if theirs in names:
        return theirs
    similar = [name for name in names if _fold(name) == _fold(theirs)]
    if len(similar) == 1:
        return similar[0]
    raise InputError(
        f"{source}: no column {theirs!r}, which was given for {our!r}"
        f"{did_you_mean(theirs, names)} (columns: {shorten(map(brief, names), limit=12)})"
    )


def _refuse_shared(chosen: Mapping[str, str], source: str) -> None:
    users: dict[str, str] = {}
    for our, theirs in chosen.items():
        if theirs in users:
            raise InputError(
                f"{source}: column {theirs!r} is mapped to both {users[theirs]!r} and {our!r}"
            )
        users[theirs] = our


def _match_column(our: str, names: Sequence[str], source: str) -> str | None:
    own = _fold(our)
    same_name = [name for name in names if _fold(name) == own]
    synonyms = _SYNONYMS[our]
    candidates = same_name or [name for name in names if _fold(name) in synonyms]
    if len(candidates) > 1:
        listed = ", ".join(repr(name) for name in candidates)
        choices = columns_argument(*((our, name) for name in candidates))
        raise InputError(f"{source}: {listed} could each be the {our} column; choose {choices}")
    return candidates[0] if candidates else None


def is_repeated(name: str) -> bool:
    """Whether a column's name says that it tells repeated measurements apart."""
    return _REPEATED.fullmatch(_fold(name)) is not None


def named_like(our: str, names: Sequence[str]) -> str | None:
    """The first name that is ours, else the first that is a synonym of it; None without one."""
    same = [name for name in names if _fold(name) == _fold(our)]
    return next(iter(same or [name for name in names if _fold(name) in _SYNONYMS[our]]), None)


def is_about_models(name: str) -> bool:
    """Whether a column's name says that it describes models: their size, licence or rank."""
    # "Params (B)", "Model size", "Hub license"
    folded = _fold(re.sub(r"\s*[(\[][^()\[\]]*[)\]]$", "", name[:MAX_CELL]))
    return folded in _MODEL_FACTS or re.sub("^(?:model|hub)", "", folded) in _MODEL_FACTS


def is_split(name: str) -> bool:
    """Whether a column's name says that it names splits of a test."""
    return _fold(name) in {"split", *_SYNONYMS["split"]}


def is_bound(name: str) -> bool:
    """Whether a column's name says that it holds bounds of the scores."""
    return any(_fold(name) in {_fold(our), *_SYNONYMS[our]} for our in ("scale_min", "scale_max"))


def columns_argument(*choices: tuple[str, str | None]) -> str:
    """Choices of a column, one or the other, as Python or the command line takes them.

    Parameters
    ----------
    *choices : (str, str or None)
        Our column and the file's; None leaves our column out.
    """
    return " or ".join(columns_together(choice) for choice in choices)


def columns_together(*choices: tuple[str, str | None]) -> str:
    """One argument, or one line of options, for several of our columns, all of them chosen."""
    listed = ", ".join(f"{our!r}: {theirs!r}" for our, theirs in choices)
    pairs = (f"{our}={_quoted(theirs or '')}" for our, theirs in choices)
    return wording(f"columns={{{listed}}}", " ".join(f"--columns {pair}" for pair in pairs))


def _quoted(name: str) -> str:
    return shell_quoted(name) if name else ""


def missing_columns(columns: ColumnMap, cells: Mapping[str, Column], *, source: str) -> str:
    """What a message says of the columns that a file lacks, and what to do.

    Parameters
    ----------
    columns : ColumnMap
        With one missing column or more.
    cells : mapping of str to array of object or TypedCells
        Columns of the file, in its order.
    source : str
        The file.
    """
    missing = columns.missing
    *names, last = map(repr, missing)
    listed = f"{', '.join(names)} and {last}" if names else last
    used = set(columns.ours.values())
    free = [name for name in cells if name not in used][:_MOST_SEARCHED]
    if len(cells) == 1:
        return (
            f"{source}: no column for {listed}: the only column is {[*cells][0]!r};"
            " separate columns by commas, tabs or semicolons"
        )
    header = tuple(map(_fold, cells))[: len(_OPENCOMPASS)]
    if header == _OPENCOMPASS and {"model", "score"} <= set(missing):
        return (
            f"{source}: a summary of OpenCompass, with a column for each model behind"
            f" {_OPENCOMPASS[-1]!r}; write one row per score, with the columns model, dataset,"
            " metric and score, without the rows whose version is '-' (averages): languages are"
            " taken from the names of datasets"
        )
    if {"language", "score"} <= set(missing):
        tasks_in_columns = advice_on_columns(free)
        if tasks_in_columns:
            return f"{source}: no column for {listed}: {tasks_in_columns}"
    hint = next(filter(None, (did_you_mean(our, free) for our in missing)), "")
    found = _candidates(missing, free, cells)
    choices = [(our, _likeliest(our, names) or "NAME") for our, names in found.items()]
    if not {"task", "dataset", "metric"} & set(columns.ours):
        taken = {theirs for _, theirs in choices}
        task = _nearest("task", [name for name in free if name not in taken], cutoff=_SURE)
        choices += [("task", task)] if task is not None and choices else []
    absent = [our for our in missing if our not in found]
    ways = []
    if choices:
        theirs = " and ".join(repr(our) for our, _ in choices)
        it = theirs if absent else "them" if len(choices) > 1 else "it"
        ways.append(f"name {it} with {columns_together(*choices)}")
    if absent:
        plural = "s" if len(absent) > 1 else ""
        ways.append(f"add the column{plural} {' and '.join(map(repr, absent))}")
    if "language" in absent and {"task", "dataset"} & set(columns.ours):
        ways[-1] += (
            ", or name the language of every task in a CSV file with the columns"
            f" task,dataset,language, given as {argument('task_names')}"
            + wording("", "; 'bayeseval validate ... --propose-task-names FILE' writes one to edit")
        )
    several = len(found.get("score", ())) > 1 and not {"task", "dataset"} & set(columns.ours)
    return (
        f"{source}: no column for {listed}{hint}"
        f" (columns: {shorten(map(brief, cells), limit=12)}); {', and '.join(ways)}"
        + ("; if several are tasks, write one row per score, with a column 'task'" * several)
    )


def _likeliest(our: str, candidates: Sequence[str]) -> str | None:
    """The only column that may be ours, or the one with nearly its name."""
    if len(candidates) == 1:
        return candidates[0]
    return _nearest(our, candidates, cutoff=_NEAR)


def _nearest(our: str, names: Sequence[str], *, cutoff: float) -> str | None:
    """The name that a slip of the keyboard makes of ours; None where none is near."""
    by_fold = {_fold(name): name for name in names}
    near = difflib.get_close_matches(our, [*by_fold], n=1, cutoff=cutoff)
    return by_fold[near[0]] if near else None


def _candidates(
    missing: Sequence[str], free: Sequence[str], cells: Mapping[str, Column]
) -> dict[str, list[str]]:
    """Columns that may be the missing ones by name and content; none that may not is listed."""
    # Licences such as "mit" are codes of languages, too.
    free = [name for name in free if not is_about_models(name)]
    beginnings = {name: _beginning(cells[name]) for name in free}
    numbers = [name for name, values in beginnings.items() if all(map(_is_number, values))]
    texts = [name for name in free if name not in numbers]
    of_languages = [
        name for name in texts if all(understand(str(value)) for value in beginnings[name])
    ]
    found: dict[str, list[str]] = {}
    if "score" in missing:
        found["score"] = numbers
    if "language" in missing:
        # A table may have labels that no registry knows.
        found["language"] = of_languages or texts
    if "model" in missing:
        # One column cannot be both.
        found["model"] = [name for name in texts if [name] != of_languages]
        if len(texts) == 1 and not of_languages:
            found.pop("language", None)
    return {our: found[our] for our in missing if found.get(our)}


def _beginning(cells: Column) -> list[object]:
    """The cells of the first rows that are filled."""
    values = (cells[row] for row in range(min(len(cells), _FIRST_ROWS)))
    return [value for value in values if value is not None and str(value).strip()]


def _is_number(value: object) -> bool:
    try:
        float(str(value))
    except ValueError:
        return False
    return True
