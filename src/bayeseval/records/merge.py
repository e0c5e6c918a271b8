"""Several benchmarks as one table, with one label for each language."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from bayeseval._text import WARNING, counted, shorten
from bayeseval.errors import InputError
from bayeseval.languages.same import one_label_each
from bayeseval.names import Likelihood
from bayeseval.readers.base import file_bytes
from bayeseval.records.build import assemble
from bayeseval.records.table import Records, raw_from_frame

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
        Its report says what was matched to what, what each benchmark's report said, and
        which covariates are left out because the benchmarks name different files for them.

    Raises
    ------
    InputError
        If two benchmarks have one name, or both have a score for the same cell, or state
        other bounds for the same task.
    """
    names = [part.name for part in parts]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InputError(f"two benchmarks are named {twice[0]!r}; give each once")
    labels, matched = one_label_each(
        (part.name, language) for part in parts for language in part.coords["language"]
    )
    notes = [f"benchmarks put together: {', '.join(names)}", *matched]
    notes += _in_one_only(parts, labels)
    covariates, contested = _covariate_files(parts)
    notes += contested
    tables = []
    language_names: dict[str, str] = {}
    for part in parts:
        frame = part.portable()
        ours = frame["language"].map(
            {one: labels[part.name, one] for one in set(frame["language"])}
        )
        raw = raw_from_frame(frame.assign(language=ours), part.name)
        tables.append(replace(raw, dropped=part.report.dropped))
        notes += [_of_part(part.name, note) for note in part.report.notes]
        for code, text in part.language_names.items():
            language_names.setdefault(labels[part.name, code], text)
    return Records._assembled(
        # Scales and runs were looked at when each benchmark was read.
        assemble(
            tables,
            columns={},
            units=None,
            mixed="allow",
            diverged="allow",
            notes=notes,
            again=True,
        ),
        name="+".join(names),
        language_names=language_names,
        datasets={task: name for part in parts for task, name in part.datasets.items()},
        likelihoods={task: kind for part in parts for task, kind in _likelihoods(part).items()},
        covariate_files=covariates,
    )


def _of_part(name: str, note: str) -> str:
    """A benchmark's note under its name; a warning stays recognisable as one."""
    text = note.removeprefix(WARNING)
    return f"{name}: {note}" if text == note else f"{WARNING}{name}: {text}"


def _likelihoods(part: Records) -> dict[str, Likelihood]:
    """Likelihoods of a benchmark's own tasks: its default is not that of the others."""
    said = part.likelihoods
    kinds = {task: said.get(task, said.get("default")) for task in part.coords["task"]}
    return {task: kind for task, kind in kinds.items() if kind is not None}


def _covariate_files(parts: Sequence[Records]) -> tuple[dict[str, Path], list[str]]:
    """Files of covariates by name, none where benchmarks name different ones; notes.

    Which of them is meant, only the user knows. A model without the covariate does not
    need to; one with it asks for ``--covariate``.
    """
    named: dict[str, dict[str, Path]] = {}
    for part in parts:
        for name, path in part.covariate_files.items():
            named.setdefault(name, {})[part.name] = path
    files: dict[str, Path] = {}
    notes = []
    for name, by_part in named.items():
        first, *others = by_part.values()
        if any(other != first and file_bytes(other) != file_bytes(first) for other in others):
            said = shorten(f"{part}: {path}" for part, path in by_part.items())
            notes.append(
                f"warning: covariate {name} left out, because the benchmarks name different files"
                f" for it ({said}); say which with --covariate PATH"
            )
        else:
            files[name] = first
    return files, notes


def _in_one_only(parts: Sequence[Records], labels: dict[tuple[str, str], str]) -> list[str]:
    """What the benchmarks share, which decides what can be compared across them."""
    shared = []
    for what, levels in (
        ("model", [set(part.coords["model"]) for part in parts]),
        ("language", [{labels[p.name, one] for one in p.coords["language"]} for p in parts]),
    ):
        common = set.intersection(*levels)
        if common:
            named = shorten(sorted(common), limit=6)
            shared.append(f"{counted(len(common), what)} in all of them: {named}")
        else:
            shared.append(f"warning: no {what} is in all of them")
    return shared
