"""Alignment as a covariate: scores joined to the languages of a benchmark."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

from bayeseval._resources import resource_names, shipped_covariates
from bayeseval._typing import Floats
from bayeseval.errors import InputError, did_you_mean, wording
from bayeseval.languages.matching import Matches, Pair, match, understand
from bayeseval.mexa.alignment import Pooling
from bayeseval.mexa.tables import AlignmentTable, read_alignment
from bayeseval.records import Covariate, Records, facts_table, match_models, model_covariate

__all__ = ["load_covariate"]


# English is compared with itself: 1 but for rounding and duplicate sentences.
_ADJUSTED_BELOW: Final = 0.99


def load_covariate(
    source: str | Path,
    records: Records,
    *,
    name: str = "mexa",
    column: str | None = None,
    by: Literal["auto", "language", "model:language"] = "auto",
    pooling: Pooling = "mean",
    embedding: str | None = None,
    pivot: str | None = None,
    sentences: int | None = None,
    aliases: Mapping[str, str] | None = None,
) -> Covariate:
    r"""Read alignment, or any number by language or model, for a benchmark.

    Parameters
    ----------
    source : str or Path
        A file or a folder as :func:`bayeseval.mexa.tables.read_alignment` takes it,
        the name of a shipped covariate (``mexa``, shipped with `mega`), or a table of models:
        a file with a column ``model``, none of languages, and one called `name`. Of such a
        table ``parameters`` (``7B``) becomes its log2, ``released`` (a date or a year) years,
        and ``trained_on`` (codes of languages) 1 or 0 for each model and language.
    records : Records
        Whose languages and models are looked for.
    name : str
        Name of the covariate; its slope is ``<name>_slope``.
    column : str, optional
        The one column to take the values from.
    by : {"auto", "language", "model:language"}
        ``auto`` takes the models apart when the source has every model of the records
        under the same name, and averages over its models otherwise.
    pooling : {"mean", "max"}
        How layers become one score, where the source has layers.
    embedding : str, optional
        ``weighted`` or ``last``, where the source has both.
    pivot : str, optional
        Divide every model's values by this language's: that turns alignment that was
        multiplied by a model's English score (table 6 of the paper) back.
    sentences : int, optional
        Number of sentences behind each value, for standard errors; not needed where
        the source says it.
    aliases : mapping of str to str, optional
        Languages of the records to labels of the source, where the user knows better.

    Returns
    -------
    Covariate
        All languages of the source, those without records too. Missing values are NaN.

    Raises
    ------
    InputError
        One line: the file, the place, what is wrong and what is allowed.

    Notes
    -----
    The standard error is binomial, :math:`\sqrt{q(1-q)/n}` with
    :math:`q = (np + 1/2)/(n + 1)`, so that scores of 0 and 1 are not taken as exact. A
    mean over layers or models is an average over n sentences of numbers between 0 and 1,
    whose variance is at most that of a 0-1 outcome with the same mean; so the error is
    not too small, however alike layers and models are. For a maximum over layers it is
    that of the best layer, as if that had been chosen beforehand.
    """
    path = _find(source, records.name)
    facts = facts_table(path) if by == "auto" else None
    if facts is not None:
        return model_covariate(facts, records, name)
    table = read_alignment(path, column=column, pooling=pooling, embedding=embedding)
    table = _raw(table, pivot)
    matches = _match(records, table.labels, aliases)
    if not matches.pairs:
        raise InputError(
            f"{table.source}: none of its languages is one of {records.name} "
            f"(there: {', '.join(table.labels[:4])}, ...)"
        )
    labels, places, left_out = _labels(table.labels, matches)
    chosen, level, notes = _level(table, records.coords["model"], by)
    counts = table.n if sentences is None else np.full(table.values.shape, float(sentences))
    if sentences is not None and sentences < 1:
        raise InputError(f"sentences must be at least 1; got {sentences}")
    if level == "language":
        values, complete = _average(table.values)
        notes += complete
        n = None if counts is None else np.min(counts, axis=0)
        models: tuple[str, ...] = ()
    else:
        values, n = table.values[list(chosen.values())], counts
        n = None if counts is None else counts[list(chosen.values())]
        models = tuple(chosen)
    values = values[..., places]
    se = None if n is None else _binomial_error(values, n[..., places], table.source)
    return Covariate(
        name=name,
        by=level,
        labels=labels,
        models=models,
        values=values,
        se=se,
        source=table.source,
        matched=matches.mapping,
        notes=(*table.notes, *notes, *matches.notes(), *left_out),
    )


def _find(source: str | Path, benchmark: str) -> Path:
    path = Path(source)
    # Path.exists raises an error for names that are too long.
    if os.path.exists(path):  # noqa: PTH110
        return path
    # Those of the benchmark itself come first; their languages are those of any table.
    shipped = shipped_covariates() | _own(benchmark)
    if str(source) in shipped:
        return shipped[str(source)]
    raise InputError(
        f"{source}: no such file, folder or shipped covariate"
        f"{did_you_mean(str(source), shipped)} (shipped: {', '.join(shipped)})"
    )


def _own(benchmark: str) -> dict[str, Path]:
    # The name of a table of one's own may be a path or a pattern.
    return shipped_covariates(benchmark) if benchmark in resource_names("benchmarks") else {}


def _raw(table: AlignmentTable, pivot: str | None) -> AlignmentTable:
    """The table divided by its pivot's row, or with a note that it looks multiplied."""
    row = _pivot_row(table, pivot)
    if pivot is None:
        english = table.values[:, row] if row is not None else np.array([])
        if len(table.models) > 1 and (english < _ADJUSTED_BELOW).any():
            label = table.labels[row or 0]
            ways = wording(f"pivot={label!r} divides", "divide them")
            note = (
                f"the row {label!r} is not 1: the values look like alignment times a model's"
                f" English score; {ways} by that row"
            )
            return replace(table, notes=(*table.notes, note))
        return table
    if row is None:
        raise InputError(f"{table.source}: there is no pivot {pivot!r}")
    whole = table.values[:, [row]]
    if not (whole > 0).all():
        raise InputError(f"{table.source}: the pivot {pivot!r} has a value that is not positive")
    note = f"every model's values were divided by its row {table.labels[row]!r}"
    return replace(table, values=table.values / whole, notes=(*table.notes, note))


def _pivot_row(table: AlignmentTable, pivot: str | None) -> int | None:
    mapping = match([pivot or "eng_Latn"], table.labels).mapping
    return table.labels.index(next(iter(mapping.values()))) if mapping else None


def _match(records: Records, theirs: Sequence[str], aliases: Mapping[str, str] | None) -> Matches:
    """Match labels of languages, by the name of the language where the label has no match."""
    ours = records.coords["language"]
    strays = [label for label in aliases or {} if label not in ours]
    if strays:
        raise InputError(
            f"{strays[0]!r} is no language of {records.name}{did_you_mean(strays[0], ours)}"
        )
    matches = match(ours, theirs, aliases=aliases)
    names = records.language_names
    retry = {other.label: names[other.label] for other in matches.unmatched if other.label in names}
    by_name = match(retry.values(), theirs).mapping
    added = [Pair(label, by_name[text]) for label, text in retry.items() if text in by_name]
    matched = {pair.a for pair in added}
    return replace(
        matches,
        pairs=(*matches.pairs, *added),
        unmatched=tuple(other for other in matches.unmatched if other.label not in matched),
        unused=tuple(label for label in matches.unused if label not in {pair.b for pair in added}),
    )


def _labels(
    theirs: Sequence[str], matches: Matches
) -> tuple[tuple[str, ...], npt.NDArray[np.int64], list[str]]:
    """The benchmark's label where there is one, else the source's; and where each stands."""
    place = {label: i for i, label in enumerate(theirs)}
    ours = [(pair.a, place[pair.b]) for pair in matches.pairs]
    taken = set(matches.mapping)
    notes = []
    for label in matches.unused:
        if understand(label) is None:
            notes.append(f"the row {label!r} was left out: it is not a known language")
        elif label in taken:
            notes.append(f"the row {label!r} was left out: that label belongs to another row")
        else:
            ours.append((label, place[label]))
    labels, places = zip(*sorted(ours, key=lambda one: one[1]), strict=True)
    return labels, np.array(places, dtype=np.int64), notes


def _level(
    table: AlignmentTable, models: Sequence[str], by: str
) -> tuple[dict[str, int], Literal["language", "model:language"], list[str]]:
    """Which of the benchmark's models the source has, and what is a value's level."""
    chosen = (
        {}
        if by == "language"
        else match_models(
            models, table.models, table.source, otherwise=", or average with by=language"
        )
    )
    if by == "auto":
        by = "model:language" if len(chosen) == len(models) else "language"
        some = bool(chosen) and len(chosen) < len(models)
        notes = [f"only {len(chosen)} of {len(models)} models have values"] if some else []
    else:
        notes = []
    if by == "language":
        if len(table.models) > 1:
            notes.append(f"averaged over {len(table.models)} models: {', '.join(table.models)}")
        return {}, "language", notes
    if by != "model:language":
        raise InputError(f"by must be auto, language or model:language; got {by!r}")
    if not chosen:
        names = ", ".join(table.models) or "none named"
        raise InputError(f"{table.source}: none of its models is in the records ({names})")
    return chosen, "model:language", notes


def _average(values: Floats) -> tuple[Floats, list[str]]:
    """Mean over models; NaN for languages that lack values of some models."""
    partly = np.isnan(values).any(axis=0) & ~np.isnan(values).all(axis=0)
    count = int(partly.sum())
    lacking = "1 language lacks" if count == 1 else f"{count} languages lack"
    counting = "counts" if count == 1 else "count"
    note = f"{lacking} values of some models and {counting} as missing"
    return values.mean(axis=0), [note] if count else []


def _binomial_error(values: Floats, n: Floats, source: str) -> Floats:
    outside = np.isfinite(values) & ((values < 0) | (values > 1))
    if outside.any():
        raise InputError(
            f"{source}: {values[outside][0]:g} is no share of sentences, so its standard error "
            "cannot follow from their number; leave sentences (column n) out"
        )
    q = (n * values + 0.5) / (n + 1)
    return np.sqrt(q * (1 - q) / n)
