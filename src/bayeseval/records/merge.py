"""Several benchmarks as one table, with one label for each language."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from bayeseval._text import Caution, Note, counted, shorten
from bayeseval.errors import InputError, argument
from bayeseval.languages.same import one_label_each
from bayeseval.names import Likelihood
from bayeseval.readers.base import file_bytes
from bayeseval.records.build import assemble
from bayeseval.records.frames import raw_from_frame
from bayeseval.records.table import Records

__all__ = ["merge"]


def merge(parts: Sequence[Records]) -> Records:
    """Put benchmarks together, whatever codes their languages are written in.

    The benchmark with most languages keeps its labels; the others take over those of the
    languages that are there. Tasks keep their names and units.

    Parameters
    ----------
    parts : sequence of Records
        Two or more. Their names have to differ.

    Returns
    -------
    Records
        Its report has the matched labels, the notes of each benchmark, and the covariates
        that are left out because the benchmarks name different files for them.

    Raises
    ------
    InputError
        If two benchmarks have one name, or both have a score for the same cell, or state
        other bounds for the same task.
    """
    names = [part.name for part in parts]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise InputError(f"two benchmarks are named {repeated[0]!r}; give each once")
    labels, label_notes = one_label_each(
        (part.name, language) for part in parts for language in part.coords["language"]
    )
    notes: list[Note] = [f"benchmarks put together: {', '.join(names)}", *label_notes]
    notes += _overlap_notes(parts, labels)
    covariates, covariate_notes = _covariate_files(parts)
    notes += covariate_notes
    tables = []
    language_names: dict[str, str] = {}
    for part in parts:
        frame = part.portable()
        merged_labels = frame["language"].map(
            {one: labels[part.name, one] for one in set(frame["language"])}
        )
        raw = raw_from_frame(frame.assign(language=merged_labels), part.name)
        tables.append(replace(raw, dropped=part.report.dropped))
        notes += [_prefixed(part.name, note) for note in part.report.remarks]
        for code, text in part.language_names.items():
            language_names.setdefault(labels[part.name, code], text)
    return Records._assembled(
        # Scales and runs were checked when each benchmark was read.
        assemble(
            tables,
            columns={},
            units=None,
            mixed="allow",
            diverged="allow",
            notes=notes,
            already_checked=True,
        ),
        name="+".join(names),
        language_names=language_names,
        datasets={task: name for part in parts for task, name in part.datasets.items()},
        likelihoods={task: kind for part in parts for task, kind in _likelihoods(part).items()},
        covariate_files=covariates,
    )


def _prefixed(name: str, note: Note) -> Note:
    """A benchmark's note with its name."""
    if isinstance(note, Caution):
        return replace(note, text=f"{name}: {note.text}")
    return f"{name}: {note}"


def _likelihoods(part: Records) -> dict[str, Likelihood]:
    """Likelihoods of a benchmark's own tasks: its default is not that of the others."""
    stated = part.likelihoods
    kinds = {task: stated.get(task, stated.get("default")) for task in part.coords["task"]}
    return {task: kind for task, kind in kinds.items() if kind is not None}


def _covariate_files(parts: Sequence[Records]) -> tuple[dict[str, Path], list[Note]]:
    """Files of covariates by name, none where benchmarks name different ones; notes.

    Only the user can choose between different files: a model with the covariate then
    asks for it, a model without it does not need one.
    """
    named: dict[str, dict[str, Path]] = {}
    for part in parts:
        for name, path in part.covariate_files.items():
            named.setdefault(name, {})[part.name] = path
    files: dict[str, Path] = {}
    notes: list[Note] = []
    for name, by_part in named.items():
        first, *others = by_part.values()
        if any(other != first and file_bytes(other) != file_bytes(first) for other in others):
            listed = shorten(f"{part}: {path}" for part, path in by_part.items())
            notes.append(
                Caution(
                    f"covariate {name} left out, because the benchmarks name different files for"
                    f" it ({listed}); choose one with {argument('covariate')}"
                )
            )
        else:
            files[name] = first
    return files, notes


def _overlap_notes(parts: Sequence[Records], labels: dict[tuple[str, str], str]) -> list[Note]:
    """What the benchmarks share, which decides what can be compared across them."""
    shared: list[Note] = []
    for what, levels in (
        ("model", [set(part.coords["model"]) for part in parts]),
        ("language", [{labels[p.name, one] for one in p.coords["language"]} for p in parts]),
    ):
        common = set.intersection(*levels)
        if common:
            listed = shorten(sorted(common), limit=6)
            shared.append(f"{counted(len(common), what)} in all of them: {listed}")
        else:
            shared.append(Caution(f"no {what} is in all of them"))
    return shared
