"""Where the models, the languages and the scores of a wide table stand."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Final

from bayeseval.errors import InputError
from bayeseval.languages.codes import Language, is_code, understand
from bayeseval.readers.aggregates import is_average
from bayeseval.readers.columns import (
    METRIC_NAMES,
    TABLE_COLUMNS,
    find_column,
    is_about_models,
    is_bound,
    is_repeated,
    is_split,
    resolve_columns,
)
from bayeseval.readers.printed import (
    COUNT,
    MAX_CELL,
    are_repeated,
    are_repeats,
    is_label_column,
    mostly_scores,
    without_marks,
)

__all__ = ["Layout", "find_layout", "has_our_columns", "is_about_languages"]

# Names of the column of models, the surest first. A blank one counts before the languages only.
_MODEL: Final = (
    *("model", "models", "modelname", "modelid", "llm", "llms", "system", "systemname", "name"),
    *("method", ""),
)
_DATASET: Final = frozenset(["dataset", "task", "benchmark", "testset", "corpus"])
_METRIC: Final = frozenset(["metric", "measure"])
_LANGUAGE: Final = frozenset(["language", "languages", "lang"])
# Columns that number the rows if they hold whole numbers, each once; some are codes of languages.
_NUMBERS: Final = frozenset(["rank", "ranking", "#", "index", "idx", "position", "place", ""])
_ALSO_LANGUAGES: Final = frozenset(["id", "no", "nr", "pos", "row"])
# Rows or columns that describe languages beside their scores.
_LANGUAGE_FACTS: Final = frozenset(
    [
        *("script", "family", "languagefamily", "genus", "branch", "code", "iso", "isocode"),
        *("iso6393", "glottocode", "resource", "resources", "resourcelevel", "class", "tier"),
        *("speakers", "region", "continent", "country", "group", "languagename"),
    ]
)
# Symbols of units and of errors that are codes of languages, too: "Latency (ms)".
_UNITS: Final = frozenset(
    [
        *("ms", "min", "sec", "hr", "mo", "km", "in", "ha", "kg", "mg", "lb", "ml", "gal", "cal"),
        *("kw", "sd", "std", "se", "pt", "tok"),
    ]
)
# "MMLU (de)"
_TASK_OF_LANGUAGE: Final = re.compile(r"([^()\[\]]*[^()\[\]\s])\s*[(\[]([^()\[\]]+)[)\]]")
# Scores under the code of a language that are as unlikely to be whole numbers are none.
_UNLIKELY: Final = 0.01
# So many of the headers have to be languages before a table is taken for a wide one.
_SHARE: Final = 0.6


@dataclass(frozen=True, slots=True)
class Layout:
    """Where things stand in a grid whose languages are across.

    Parameters
    ----------
    rows : list of list of str
        The grid: its columns are those of the file, or its rows if that has languages down.
    places : tuple of int
        Where its columns, or its rows, stand among the columns of the file.
    transposed : bool
        Whether the file has languages down.
    labels : mapping of str to int
        Columns of the model, the dataset and the metric. Without a ``model`` it is not known
        which one names the models.
    languages : mapping of int to str
    groups : mapping of int to str
        The dataset that the header names, empty where it names none; keys as `languages`.
    metrics : mapping of int to str
        The metric, where all that the header names beside the languages are metrics.
    header : int
        Lines of the header.
    averages, model_facts, not_languages : tuple of str
        Columns beside the languages.
    indices : tuple of str
        Columns of the file that number its rows.
    candidates : tuple of str
        Columns that may name the models, where none is known to.
    repeats : mapping of str to int
        Columns that tell repeated measurements apart, and those of bounds.
    chosen : mapping of str to str
        Columns of the labels that the user chose, by our name.
    """

    rows: list[list[str]]
    places: tuple[int, ...]
    transposed: bool
    labels: Mapping[str, int]
    languages: Mapping[int, str]
    groups: Mapping[int, str]
    metrics: Mapping[int, str]
    header: int
    averages: tuple[str, ...]
    model_facts: tuple[str, ...]
    not_languages: tuple[str, ...]
    indices: tuple[str, ...]
    candidates: tuple[str, ...]
    repeats: Mapping[str, int]
    chosen: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class _Given:
    """What is known before the columns are looked at."""

    places: tuple[int, ...]
    transposed: bool
    indices: tuple[str, ...]
    named_indices: tuple[str, ...]
    columns: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class _Columns:
    """Columns by what they hold."""

    texts: list[int] = field(default_factory=list)
    languages: dict[int, str] = field(default_factory=dict)
    groups: dict[int, str] = field(default_factory=dict)
    averages: list[int] = field(default_factory=list)
    facts: list[int] = field(default_factory=list)
    others: list[int] = field(default_factory=list)


def has_our_columns(header: Sequence[str], columns: Mapping[str, str | None]) -> bool:
    """Whether model, language and score are columns of their own.

    Parameters
    ----------
    header : sequence of str
    columns : mapping of str to str or None
        The user's choice of columns.
    """
    names = [name or f"({i})" for i, name in enumerate(header)]
    try:
        return not resolve_columns(names, source="", explicit=columns).missing
    except InputError:
        # Two columns could be one of ours.
        return False


def _lacks_models_only(header: Sequence[str], columns: Mapping[str, str | None]) -> bool:
    """Whether a table has a row per score, but no model.

    ``score`` is no model, and a metric such as ``accuracy`` is none where no other column may be
    one; ``mean`` may be.
    """
    names = [name or f"({i})" for i, name in enumerate(header)]
    try:
        found = resolve_columns(names, source="", explicit=columns)
    except InputError:
        return False
    if found.missing != ("model",):
        return False
    is_alone = found.metric is not None and len(found.ours) == len(header)
    return is_alone or _fold(found.ours["score"]) == "score"


def find_layout(
    rows: list[list[str]], columns: Mapping[str, str | None], *, source: str = ""
) -> Layout | None:
    """Layout of a wide table; None for others.

    Parameters
    ----------
    rows : list of list of str
        As they stand in the file, the header first.
    columns : mapping of str to str or None
        The user's choice of columns.
    source : str, optional
        Starts messages.

    Raises
    ------
    InputError
        If the user chose a column that does not exist.
    """
    if has_our_columns(rows[0], columns) or _lacks_models_only(rows[0], columns):
        return None
    header = [without_marks(cell) for cell in rows[0]]
    chosen = {
        our: find_column(our, header, source=source, explicit=columns) or ""
        for our in ("model", "dataset", "task", "metric")
        # What is read gets names of ours, which the user may use as well.
        if columns.get(our) is not None and columns[our] not in TABLE_COLUMNS
    }
    skipped = [p for p in _index_columns(header, rows[1:]) if header[p] not in chosen.values()]
    kept = [place for place in range(len(header)) if place not in skipped]
    if not kept:
        return None
    indices = tuple(header[place] or f"(unnamed column {place + 1})" for place in skipped)
    named = tuple(header[place] for place in skipped if header[place])
    given = _Given(tuple(kept), False, indices, named, chosen)
    layout = _layout_of([[row[place] for place in kept] for row in rows], given)
    # Models down and languages beside them: a row per score, not a header of two lines.
    if layout is not None or _fold(header[kept[0]]) in _MODEL[:-1]:
        return layout
    kept.sort(key=lambda place: _before_models(header[place]))
    given = _Given(tuple(kept), True, indices, (), {})
    return _layout_of([[row[place] for row in rows] for place in kept], given)


def _before_models(name: str) -> int:
    """Order of columns before those of the models, where languages are down."""
    folded = _fold(name)
    return 0 if folded in _DATASET else 1 if folded in _LANGUAGE else 2


def _index_columns(header: Sequence[str], body: Sequence[Sequence[str]]) -> list[int]:
    """Columns that number the rows; `header` has their names."""
    found: list[int] = []
    for place, name in enumerate(header):
        folded = _fold(name)
        is_first = place == len(found)
        known = folded in _NUMBERS or folded in _ALSO_LANGUAGES
        if not known and (
            not is_first
            or folded in {*_MODEL, *_DATASET, *_METRIC}
            or is_repeated(name)
            or is_split(name)
            or understand(name) is not None
        ):
            continue
        cells = [cell.strip() for row in body if (cell := row[place]).strip()]
        if not cells or not all(COUNT.fullmatch(cell) for cell in cells):
            continue
        numbers = [int(cell) for cell in cells]
        if numbers in (list(range(len(cells))), list(range(1, len(cells) + 1))) and is_first:
            found.append(place)
        # A table that was sorted, or of which rows were left out, has the numbers in any order.
        elif known and len({*numbers}) == len(numbers):
            found += [place] if folded in _NUMBERS or _is_no_language(place, header, body) else []
    return found


def _is_no_language(place: int, header: Sequence[str], body: Sequence[Sequence[str]]) -> bool:
    """Whether whole numbers under the code of a language number rows, and are no scores."""
    if place + 1 < len(header) and is_label_column([row[place + 1] for row in body]):
        # Languages stand behind the models.
        return not any(is_label_column([row[before] for row in body]) for before in range(place))
    others = [
        cell.strip()
        for other, name in enumerate(header)
        if other != place and understand(name) is not None
        for row in body
        if (cell := row[other]).strip()
    ]
    whole = sum(COUNT.fullmatch(cell) is not None for cell in others)
    filled = sum(bool(row[place].strip()) for row in body)
    # How likely as many scores are all whole.
    return bool(others) and (whole / len(others)) ** filled < _UNLIKELY


def _layout_of(rows: list[list[str]], given: _Given) -> Layout | None:
    for depth in (2, 1) if _has_languages_above(rows) else (1, 2):
        if len(rows) > depth:
            layout = _layout_below(rows, depth, given)
            if layout is not None:
                return layout
    return None


def _has_languages_above(rows: list[list[str]]) -> bool:
    """Whether the header has two lines, of which the upper one has the languages."""
    if len(rows) < 3 or rows[1][0].strip() or not is_label_column(rows[1][1:]):
        return False
    upper, lower = (
        len({cell for cell in row[1:] if understand(without_marks(cell)) is not None})
        for row in rows[:2]
    )
    return upper >= 2 and upper > lower


def _layout_below(rows: list[list[str]], depth: int, given: _Given) -> Layout | None:
    if depth == 2 and _fold(without_marks(rows[0][0])) not in {*_DATASET, *_MODEL}:
        return None
    names = [without_marks(cell) for cell in rows[depth - 1]]
    upper = [without_marks(cell) for cell in rows[0]] if depth == 2 else [""] * len(names)
    titles = [name or above for name, above in zip(names, upper, strict=True)]
    # A group's name stands above its first column only; the others are blank.
    for place in range(1, len(upper)):
        upper[place] = upper[place] or upper[place - 1]
    if depth == 2 and _has_languages_above(rows):
        names, upper = upper, names
    body = [row for row in rows[depth:] if not is_about_languages(without_marks(row[0]))]
    repeats = {
        name: place
        for place, name in enumerate(names)
        if is_bound(name)
        or (is_repeated(name) or is_split(name))
        and are_repeats([row[place] for row in body])
    }
    found = _sorted_columns(names, upper, titles, body, {*repeats.values()}, given)
    languages, groups = found.languages, found.groups
    labels, candidates = _label_columns(titles, found, given)
    others = [place for place in found.others if place not in labels.values()]
    # A unit in brackets is named when the table is read.
    plain = sum(_task_and_language(titles[place]) is None for place in others)
    if len(languages) < 2 or len(languages) < _SHARE * (len(languages) + plain):
        return None
    if len({(groups[p], name) for p, name in languages.items()}) < len(languages):
        # A language named again and again is a column of a table with a row per score.
        return None
    if not mostly_scores([row[place] for row in body for place in languages], of_language=True):
        return None
    # "F1 (de)", "EM (de)"
    of_metrics = "metric" not in labels and {_fold(one) for one in groups.values()} <= METRIC_NAMES
    facts = sorted({*found.facts, *found.texts} - {*labels.values()})
    if are_repeated([row for row in body if any(row[p].strip() for p in languages)], labels):
        # One of them may tell the rows of a model apart, which is said where they are refused.
        told = [p for p in facts if titles[p] and are_repeats([row[p] for row in body])]
        facts = [place for place in facts if place not in told]
        repeats |= {titles[place]: place for place in told}
    return Layout(
        rows=rows,
        places=given.places,
        transposed=given.transposed,
        labels=labels,
        languages=languages,
        groups=dict.fromkeys(groups, "") if of_metrics else groups,
        metrics=groups if of_metrics else {},
        header=depth,
        averages=tuple(dict.fromkeys(titles[place] for place in found.averages)),
        model_facts=tuple(dict.fromkeys(titles[place] for place in facts if titles[place])),
        not_languages=tuple(dict.fromkeys(titles[place] for place in others)),
        indices=given.indices,
        candidates=candidates,
        repeats=repeats,
        chosen=given.columns,
    )


def _sorted_columns(
    names: Sequence[str],
    upper: Sequence[str],
    titles: Sequence[str],
    body: Sequence[Sequence[str]],
    repeats: AbstractSet[int],
    given: _Given,
) -> _Columns:
    found = _Columns()
    all_named = _tasks_and_languages(names)
    # Texts before all others are names, even if their header is also a code of a language.
    leads = True
    for place, title in enumerate(titles):
        if place in repeats:
            continue
        named = all_named[place]
        if title in given.columns.values() or (
            (leads or named is None)
            and is_label_column([row[place] for row in body], of_language=named is not None)
        ):
            found.texts.append(place)
            continue
        leads = False
        if named is None and is_average(title):
            found.averages.append(place)
        elif named is None and (not names[place] or is_about_models(title)):
            found.facts.append(place)
        elif named is not None and (
            is_average(named[1]) or (upper[place] and is_average(upper[place]))
        ):
            found.averages.append(place)
        elif named is not None:
            found.groups[place], found.languages[place] = named[0] or upper[place], named[1]
        else:
            found.others.append(place)
    return found


def _label_columns(
    titles: Sequence[str], found: _Columns, given: _Given
) -> tuple[dict[str, int], tuple[str, ...]]:
    """Columns of the model, the dataset and the metric; those that may name the models."""
    labels: dict[str, int] = {}
    for our, theirs in given.columns.items():
        places = [place for place in found.texts if titles[place] == theirs]
        if places:
            labels["dataset" if our == "task" else our] = places[0]
    first_language = min(found.languages, default=len(titles))
    # Models may be called by numbers in the first column only.
    first = [place for place in (*found.facts, *found.others) if place == 0]
    for our, known in (("dataset", _DATASET), ("metric", _METRIC)):
        places = [place for place in found.texts if _fold(titles[place]) in known]
        if places and our not in labels:
            labels[our] = places[0]
    free = [place for place in found.texts if place not in labels.values()]
    named = [
        (_MODEL.index(_fold(titles[place])), place)
        for place in (*free, *first)
        if _fold(titles[place]) in _MODEL and (titles[place] or place < first_language)
    ]
    if "model" in labels:
        return labels, ()
    if named:
        return labels | {"model": min(named)[1]}, ()
    unknown = [place for place in free if titles[place] and not is_about_models(titles[place])]
    unknown = unknown or [place for place in first if place in found.others]
    if len(unknown) == 1:
        # The column of languages or of models has any name.
        return labels | {"model": unknown[0]}, ()
    candidates = [titles[place] for place in unknown or free if titles[place]]
    return labels, tuple(dict.fromkeys(candidates)) or given.named_indices


def _tasks_and_languages(names: Sequence[str]) -> list[tuple[str, str] | None]:
    """What each header names; units such as ``CO2 (kg)`` look like a task in a language, too."""
    found = [_task_and_language(name) for name in names]
    languages: dict[str, set[str]] = defaultdict(set)
    tasks: dict[str, set[str]] = defaultdict(set)
    for task, language in (named for named in found if named and not is_average(named[1])):
        languages[task].add(language)
        tasks[language].add(task)

    def is_no_language(named: tuple[str, str]) -> bool:
        """A single task of a single language; a unit of which no task is in a language."""
        task, language = named
        if not task or is_average(language) or len(languages[task]) > 1:
            return False
        is_unit = language.casefold() in _UNITS
        others = (languages[other] for other in tasks[language])
        return len(tasks[language]) == 1 or (is_unit and all(len(one) == 1 for one in others))

    return [None if named is not None and is_no_language(named) else named for named in found]


def _task_and_language(name: str) -> tuple[str, str] | None:
    """The task, or nothing, and the language or average that a header names."""
    whole = understand(name)
    match = _TASK_OF_LANGUAGE.fullmatch(name) if len(name) <= MAX_CELL else None
    if match is None or is_average(name):
        return None if whole is None else ("", name)
    task, language = match[1], match[2].strip()
    inner, outer = understand(language), understand(task)
    if whole is not None:
        # "German (de)" is German; "Chinese (zh_Hant)" and "Portuguese (PT)" say more than that.
        same = inner and outer and _meaning(outer) == _meaning(whole) and not language.isupper()
        return "", task if same else name
    if inner is None:
        return (task, language) if is_average(language) else None
    if outer is None or (is_code(task) and outer.standard != inner.standard):
        # Names of tests are codes of languages, too: ARC, NER.
        return task, language
    return ("", task) if outer.standard == inner.standard else None


def _meaning(language: Language) -> tuple[str, str, str | None]:
    return language.standard, language.script, language.territory


def is_about_languages(name: str) -> bool:
    """Whether a row or a column says something about the languages beside their scores."""
    return _fold(name) in _LANGUAGE_FACTS


def _fold(name: str) -> str:
    folded = re.sub(r"[\s_\-.]+", "", name.casefold())
    # What pandas calls a column without a header.
    if folded.startswith("unnamed") and re.fullmatch(r"unnamed:\d+(?:level\d+)?", folded):
        return ""
    return folded
