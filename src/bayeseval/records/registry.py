"""Benchmark cards: what a shipped folder of scores is, and how to read it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from bayeseval._resources import resource_names
from bayeseval._yaml import parse_config, read_yaml
from bayeseval.records.build import MixedScales
from bayeseval.records.report import Units, counted

__all__ = [
    "BenchmarkCard",
    "BenchmarkSummary",
    "TableMapping",
    "list_benchmarks",
    "read_card",
    "read_mapping",
]


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class UnitsConfig(_Frozen):
    """Bounds of the scores: one pair for all tasks, and others by task.

    Parameters
    ----------
    lower, upper : float or None
        Bounds in the scores' own units; leave out when unbounded.
    tasks : mapping of str to mapping, optional
        ``{task: {lower: ..., upper: ...}}`` where a task differs.
    """

    lower: float | None = None
    upper: float | None = None
    tasks: dict[str, dict[str, float | None]] = Field(default_factory=dict)

    def as_units(self) -> dict[str, Units]:
        """The declaration as :func:`bayeseval.load` takes it."""
        named = {task: Units(**bounds) for task, bounds in self.tasks.items()}
        if self.model_fields_set & {"lower", "upper"}:
            named["*"] = Units(self.lower, self.upper)
        return named


class TableMapping(_Frozen):
    """How to read a table; the content of a ``--mapping`` file.

    Parameters
    ----------
    columns : mapping of str to str or None
        Our column names to the file's; an empty value leaves a column out.
    units : UnitsConfig or None
        Bounds of the scores.
    language_names : mapping of str to str
        Names of the language labels.
    mixed_scales : {"refuse", "allow"}
        What to do with a task that seems to mix 0-1 and 0-100 scales.
    """

    columns: dict[str, str | None] = Field(default_factory=dict)
    units: UnitsConfig | None = None
    language_names: dict[str, str] = Field(default_factory=dict)
    mixed_scales: MixedScales = "refuse"


class BenchmarkCard(TableMapping):
    """The ``benchmark.yaml`` of a benchmark's folder.

    Attributes
    ----------
    name, title, description : str
        What the benchmark is called and what it is.
    files : tuple of str
        Tables beside the card; every table of the folder when left out.
    source : str
        Where the scores were published.
    licence : str
        What is known about the right to use them.
    citation : str
        What to cite, as text or BibTeX.
    """

    name: str = Field(min_length=1)
    title: str = Field(min_length=1)
    description: str = ""
    files: tuple[str, ...] = ()
    source: str = ""
    licence: str = ""
    citation: str = ""


@dataclass(frozen=True, slots=True)
class BenchmarkSummary:
    """One line of ``bayeseval list benchmarks``."""

    name: str
    title: str
    shape: str


def read_card(path: Path) -> BenchmarkCard:
    """Read a ``benchmark.yaml``.

    Raises
    ------
    InputError
        The key and what is allowed, in one line.
    """
    return parse_config(BenchmarkCard, read_yaml(path), source=str(path))


def read_mapping(path: Path) -> TableMapping:
    """Read a mapping file (``columns``, ``units``, ``language_names``, ``mixed_scales``)."""
    return parse_config(TableMapping, read_yaml(path), source=str(path))


def list_benchmarks() -> tuple[BenchmarkSummary, ...]:
    """The shipped benchmarks with their shapes, in alphabetical order."""
    from bayeseval.records.load import load

    found = []
    for name, path in resource_names("benchmarks").items():
        records = load(path)
        levels = (counted(len(records.coords[f]), f) for f in ("model", "language", "task"))
        shape = ", ".join([counted(len(records), "record"), *levels])
        found.append(BenchmarkSummary(name=name, title=read_card(path).title, shape=shape))
    return tuple(found)
