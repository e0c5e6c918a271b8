"""Tables of what is known of models: parameters, release, languages they were trained on."""

from __future__ import annotations

import calendar
import datetime as dt
import math
import os
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from bayeseval import names
from bayeseval._text import shorten, show
from bayeseval._typing import Floats
from bayeseval.errors import InputError, did_you_mean
from bayeseval.languages.codes import Language, resolve, understand
from bayeseval.languages.labels import one_label_each
from bayeseval.readers.raw import RawTable
from bayeseval.readers.tabular import read_table
from bayeseval.records.cells import (
    MISSING_WORDS,
    clean_labels,
    empty_cells,
    parse_numbers,
    read_label,
)
from bayeseval.records.covariates import Covariate
from bayeseval.records.table import Records

__all__ = ["LANGUAGE_COLUMNS", "fact_names", "facts_table", "match_models", "model_covariate"]

#: Names of a column of languages, in lower case; a table of models has none of them.
LANGUAGE_COLUMNS: Final = (
    "language",
    "lang",
    "language_code",
    "lang_code",
    "locale",
    "iso",
    "code",
)

_PARAMETERS: Final = "parameters"
_RELEASED: Final = "released"
_TRAINED_ON: Final = "trained_on"
_NUMBER: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?) *([KMBT]?)", re.IGNORECASE)
_UNITS: Final = {"": 1.0, "K": 1e3, "M": 1e6, "B": 1e9, "T": 1e12}
# Fewer are a number of billions without its unit.
_FEWEST: Final = 1e4
# No language model is older than the first computers; further years are slips of the keyboard.
_YEARS: Final = range(1940, 2101)
_DATE: Final = re.compile(r"([0-9]{4})(?:-([0-9]{2})(?:-([0-9]{2}))?)?")
_NOTES: Final = {
    _PARAMETERS: "parameters: log2 of the number of parameters, so raw_slope is per doubling",
    _RELEASED: "released: in years, so raw_slope is per year; a year or a month counts as its "
    "middle",
    _TRAINED_ON: "trained_on: 1 for the languages that are listed for a model, 0 for others",
}


def facts_table(path: Path) -> RawTable | None:
    """Read a table of models; None for a file that is none, such as a table of languages.

    Parameters
    ----------
    path : Path
        A file with a column ``model`` and none of languages.
    """
    # Path.is_file raises an error for names that are too long.
    if not os.path.isfile(path):  # noqa: PTH113
        return None
    table = read_table(path)
    has = {name.casefold() for name in table.columns}
    return table if names.MODEL in has and not has & set(LANGUAGE_COLUMNS) else None


def fact_names(table: RawTable) -> tuple[str, ...]:
    """Columns of a table of models that are covariates: all but ``model`` and ``family``."""
    aside = (names.MODEL, names.FAMILY)
    return tuple(name for name in table.columns if name.casefold() not in aside)


def model_covariate(table: RawTable, records: Records, name: str) -> Covariate:
    """One column of a table of models as a covariate.

    Parameters
    ----------
    table : RawTable
        From :func:`facts_table`.
    records : Records
        Whose models and languages are looked for.
    name : str
        The column. ``parameters``, such as ``7B``, becomes its log2, ``released``, a date or a
        year, becomes years, and ``trained_on``, codes of languages, becomes one value for each
        model and language; ``family`` is text, of which the values are positions in the
        categories; other columns hold numbers.

    Raises
    ------
    InputError
        The file, the row and the column, what is wrong and what is allowed.
    """
    if name not in table.columns:
        raise InputError(
            f"{table.source}: no column {name!r}{did_you_mean(name, fact_names(table))} (columns "
            f"beside model: {shorten(map(repr, fact_names(table))) or 'none'})"
        )
    labels, matched = _models(table, records.coords[names.MODEL])
    common: dict[str, Any] = {"name": name, "models": labels, "source": table.source}
    notes = (_NOTES[name],) if name in _NOTES else ()
    if name == _TRAINED_ON:
        return _trained_on(table, records, common, notes)
    read = _READERS.get(name)
    if read is not None:
        values = _each(table, name, read)
    elif name == names.FAMILY:
        values, common["categories"] = _families(table)
    else:
        values = _numbers(table, name)
    return Covariate(by="model", labels=(), values=values, matched=matched, notes=notes, **common)


def match_models(
    ours: Sequence[str], theirs: Sequence[str], source: str, *, otherwise: str = ""
) -> dict[str, int]:
    """Position of each model in a source, by its name or by that without ORG/.

    Parameters
    ----------
    ours : sequence of str
        Models that are looked for.
    theirs : sequence of str
        Those of the source.
    source : str
        Its name, for messages.
    otherwise : str
        What else may be done about two that could be the same model.

    Raises
    ------
    InputError
        If two could be one model.
    """
    positions: dict[str, list[int]] = {}
    for i, model in enumerate(theirs):
        for name in {model.casefold(), model.casefold().rpartition("/")[2]} - {""}:
            positions.setdefault(name, []).append(i)
    chosen = {}
    for model in ours:
        candidates = positions.get(model.casefold(), [])
        exact = [i for i in candidates if theirs[i].casefold() == model.casefold()]
        if len(exact or candidates) > 1:
            both = " and ".join(repr(theirs[i]) for i in (exact or candidates)[:2])
            raise InputError(
                f"{source}: {both} could both be the model {model!r} of the records; take one of "
                f"them out, or name it as the records do{otherwise}"
            )
        if candidates:
            chosen[model] = (exact or candidates)[0]
    return chosen


def _models(table: RawTable, ours: Sequence[str]) -> tuple[tuple[str, ...], dict[str, str]]:
    """The records' label of every row where there is one, else its own; and those matched."""
    column = next(name for name in table.columns if name.casefold() == names.MODEL)
    cells = clean_labels(table.columns[column], table=table, column=column, name="model").values
    theirs = [cells[row] for row in range(len(cells))]
    first: dict[str, int] = {}
    for row, label in enumerate(theirs):
        if first.setdefault(label, row) != row:
            raise InputError(
                f"{table.at(row, column)}: {label!r} is there twice (also {table.place} "
                f"{table.numbers[first[label]]}); leave one row of it"
            )
    found = match_models(ours, theirs, table.source)
    labels = list(theirs)
    for ours_label, row in found.items():
        labels[row] = ours_label
    return tuple(labels), {label: theirs[row] for label, row in found.items()}


def _each(table: RawTable, column: str, read: Callable[[str], float | None]) -> Floats:
    """Numbers of a column, NaN where it is empty; the first cell without one is refused."""
    cells = table.columns[column]
    values = np.full(len(table), np.nan)
    for row in np.flatnonzero(~empty_cells(cells)):
        value = read(str(cells[row]).strip())
        if value is None:
            raise InputError(
                f"{table.at(int(row), column)}: {show(cells[row])} is not {_EXPECTED[column]}"
            )
        values[row] = value
    return values


def _numbers(table: RawTable, column: str) -> Floats:
    """Numbers of a column; one of text, of which ``auto`` makes a covariate, has a way out."""
    try:
        return parse_numbers(table.columns[column], table=table, column=column, name=column)
    except InputError as error:
        known = [one for one in fact_names(table) if one in _NOTES]
        way_out = "correct the cell or remove the column"
        if known:
            way_out += f", or name the covariates in a spec: covariates: [{', '.join(known)}]"
        raise InputError(f"{error}; {way_out}") from error


def _families(table: RawTable) -> tuple[Floats, tuple[str, ...]]:
    """Position of each family among all of them; case does not tell families apart."""
    cells = table.columns[names.FAMILY]
    found: dict[int, str] = {}
    for row in map(int, np.flatnonzero(~empty_cells(cells))):
        text, problem = read_label(cells[row])
        label = unicodedata.normalize("NFC", text).strip()
        if not problem and label.casefold() in MISSING_WORDS:
            problem = f"{show(label)} is not a name; leave the cell empty if it is missing"
        if problem:
            raise InputError(f"{table.at(row, names.FAMILY)}: family {problem}")
        found[row] = label
    by_name: dict[str, str] = {}
    for label in sorted(found.values()):
        by_name.setdefault(label.casefold(), label)
    place = {name: i for i, name in enumerate(by_name)}
    values = np.full(len(table), np.nan)
    for row, label in found.items():
        values[row] = place[label.casefold()]
    return values, tuple(by_name.values())


def _log_parameters(text: str) -> float | None:
    found = _NUMBER.fullmatch(text)
    count = float(found[1]) * _UNITS[found[2].upper()] if found else 0.0
    return math.log2(count) if _FEWEST <= count < math.inf else None


def _year(text: str) -> float | None:
    """Years; the middle of a day, a month or a year."""
    found = _DATE.fullmatch(text)
    if found is None:
        return None
    year, month, day = (None if part is None else int(part) for part in found.groups())
    if year is None or year not in _YEARS:
        return None
    try:
        first = dt.date(year, *(1 if part is None else part for part in (month, day)))
    except ValueError:
        return None
    days = 366 if calendar.isleap(first.year) else 365
    length = days
    if month is not None:
        length = 1 if day is not None else calendar.monthrange(first.year, month)[1]
    return first.year + (first.timetuple().tm_yday - 1 + length / 2) / days


_READERS: Final[Mapping[str, Callable[[str], float | None]]] = {
    _PARAMETERS: _log_parameters,
    _RELEASED: _year,
}
_EXPECTED: Final = {
    _PARAMETERS: "a number of parameters; write it as 7B, 560M or 7000000000, or leave the cell "
    "empty",
    _RELEASED: f"a date from {_YEARS.start} to {_YEARS.stop - 1}; write it as 2024-03-15, 2024-03 "
    "or 2024, or leave the cell empty",
}


def _trained_on(
    table: RawTable, records: Records, common: Mapping[str, Any], notes: tuple[str, ...]
) -> Covariate:
    """1 where a language is in the list of a model, 0 elsewhere; NaN without a list."""
    own = records.coords[names.LANGUAGE]
    listed = _lists(table, own)
    meant = {label: understand(label) for label in own}
    meant |= {
        label: understand(name)
        for label, name in records.language_names.items()
        if meant.get(label) is None
    }
    strange = [label for label in own if meant[label] is None]
    if strange:
        notes = (
            *notes,
            f"trained_on: no known language, so listed by the same label only: {shorten(strange)}",
        )
    further = dict.fromkeys(code for codes in listed.values() for code in codes)
    new = [one for one in further if not any(_same(one, label, meant) for label in own)]
    again = one_label_each(new)
    labels = (*own, *(label for label in new if label not in again))
    meant |= {label: understand(label) for label in labels if label not in meant}
    values = np.full((len(table), len(labels)), np.nan)
    for row, codes in listed.items():
        values[row] = [any(_same(code, label, meant) for code in codes) for label in labels]
    return Covariate(
        by="model:language",
        labels=labels,
        values=values,
        matched={label: label for label in own},
        notes=notes,
        elsewhere=0.0,
        **common,
    )


def _lists(table: RawTable, own: Sequence[str]) -> dict[int, tuple[str, ...]]:
    """The codes of every row that has some."""
    cells = table.columns[_TRAINED_ON]
    listed = {}
    for row in np.flatnonzero(~empty_cells(cells)):
        codes = tuple(re.findall(r"[^;,\s]+", str(cells[row])))
        for code in codes:
            if code in own:
                continue
            try:
                resolve(code)
            except InputError as error:
                near = did_you_mean(code, own)
                # What is allowed is said once.
                why = str(error).partition(" (allowed")[0]
                why = f"{code!r} is not a known language{near}" if near else why
                raise InputError(
                    f"{table.at(int(row), _TRAINED_ON)}: {why} (codes of languages, separated by "
                    "spaces, commas or semicolons)"
                ) from error
        listed[int(row)] = codes
    return listed


def _same(code: str, label: str, meant: Mapping[str, Language | None]) -> bool:
    """Whether a code of a list covers a language; what one of them leaves open is no difference."""
    one, other = understand(code), meant[label]
    if code == label or one is None or other is None:
        return code == label
    return (
        one.standard == other.standard
        and (one.script == other.script or not (one.script_given and other.script_given))
        and (one.territory == other.territory or not (one.territory and other.territory))
    )
