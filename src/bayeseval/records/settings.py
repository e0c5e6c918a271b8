"""How to read a table: settings of mapping files, cards and arguments of ``load``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from bayeseval._yaml import FrozenConfig
from bayeseval.errors import InputError
from bayeseval.names import Likelihood
from bayeseval.records.build import DivergedRuns, MixedScales
from bayeseval.records.report import Units
from bayeseval.records.scales import UnitsLike, normalise_units

__all__ = ["TableMapping", "UnitsConfig"]


class _Bounds(FrozenConfig):
    lower: float | None = None
    upper: float | None = None


class UnitsConfig(FrozenConfig):
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
    tasks: dict[str, _Bounds] = Field(default_factory=dict)

    @classmethod
    def of(cls, units: UnitsLike | Mapping[str, UnitsLike]) -> UnitsConfig:
        """The declaration that :func:`bayeseval.load` takes."""
        default, by_task = normalise_units(units)
        tasks = {task: {"lower": own.lower, "upper": own.upper} for task, own in by_task.items()}
        if default is None:
            return cls(tasks=tasks)
        return cls(lower=default.lower, upper=default.upper, tasks=tasks)

    @model_validator(mode="after")
    def _are_bounds(self) -> UnitsConfig:
        # Raised here, the message begins with the file and the key.
        try:
            self.as_units()
        except InputError as problem:
            raise ValueError(str(problem).removeprefix("units: ")) from problem
        return self

    def as_units(self) -> dict[str, Units]:
        """The declaration as :func:`bayeseval.load` takes it."""
        named = {task: Units(own.lower, own.upper) for task, own in self.tasks.items()}
        if self.model_fields_set & {"lower", "upper"}:
            named["*"] = Units(self.lower, self.upper)
        return named


def _as_list(value: Any) -> Any:
    """One value alone means a list of it."""
    return (value,) if isinstance(value, str | int | float) else value


class TableMapping(FrozenConfig):
    """How to read a table: what a mapping file, a card or the arguments of ``load`` set.

    Parameters
    ----------
    columns : mapping of str to str or None
        Our column names to the file's; an empty value leaves a column out.
    constants : mapping of str to str or number
        Our columns that have one value in all rows and are not in the table, such as
        ``{n_seeds: 5, dataset: xquad}``.
    units : UnitsConfig or None
        Bounds of the scores.
    language_names : mapping of str to str
        Names of the language labels.
    datasets : mapping of str to str
        Task to the dataset whose outputs it scores, where it is not what stands before
        the task's colon. Tasks of one dataset are several metrics of the same outputs.
    missing : number or list of numbers
        Scores that mean that there is no score, such as -1; their rows are left out.
    drop : mapping of str to list of str
        Models, languages and tasks to leave out, as in ``{model: [a, b], task: [c]}``.
    mixed_scales : {"refuse", "allow"}
        What to do with a task that seems to mix 0-1 and 0-100 scales, or whose scores
        of one model seem to be in other units.
    diverged_runs : {"refuse", "allow", "drop"}
        What to do with a seed that scored far below its cell's other seeds.
    format : str or None
        Format of the files, where it should not be detected by their content.
    metric : str, mapping of str to str or None
        The metric of an evaluation tool's results, for all datasets or by dataset.
    task_names : Path or None
        A table of the dataset and language of tasks; a relative path starts from the
        folder of the file that names it.
    likelihoods : mapping of str to str
        Likelihood of each task, ``default`` for those not named, for specs that say
        ``likelihood: card``.
    """

    columns: dict[str, str | None] = Field(default_factory=dict)
    constants: dict[str, str | float] = Field(default_factory=dict)
    units: UnitsConfig | None = None
    language_names: dict[str, str] = Field(default_factory=dict)
    datasets: dict[str, str] = Field(default_factory=dict)
    missing: Annotated[tuple[float, ...], BeforeValidator(_as_list)] = ()
    drop: dict[
        Literal["model", "language", "task"], Annotated[tuple[str, ...], BeforeValidator(_as_list)]
    ] = Field(default_factory=dict)
    mixed_scales: MixedScales = "refuse"
    diverged_runs: DivergedRuns = "refuse"
    format: str | None = None
    metric: str | dict[str, str] | None = None
    task_names: Path | None = None
    likelihoods: dict[str, Likelihood] = Field(default_factory=dict)

    @property
    def metrics(self) -> dict[str, str]:
        """Metric by dataset; the key ``"*"`` stands for all others."""
        if self.metric is None:
            return {}
        return {"*": self.metric} if isinstance(self.metric, str) else self.metric

    def in_folder(self, folder: Path) -> Self:
        """The settings of a file in `folder`, with paths as seen from the working directory."""
        if self.task_names is None:
            return self
        return self.model_copy(update={"task_names": folder / self.task_names})

    def merged(self, later: TableMapping) -> TableMapping:
        """These settings with those that `later` sets: by key where there are keys.

        Units are replaced as a whole, and scores that mean a missing one add up.
        """
        values = {name: getattr(self, name) for name in _fields_set(self)}
        for name in _fields_set(later):
            new = getattr(later, name)
            if name == "metric":
                new = {**self.metrics, **later.metrics}
            elif name == "missing":
                new = tuple(dict.fromkeys((*self.missing, *new)))
            elif isinstance(new, dict):
                new = {**getattr(self, name), **new}
            values[name] = new
        return TableMapping.model_construct(**values)

    def without_dropped_tasks(self) -> TableMapping:
        """The settings without those of tasks that are left out."""
        dropped = set(self.drop.get("task", ()))
        units = self.units and self.units.model_copy(
            update={"tasks": {t: own for t, own in self.units.tasks.items() if t not in dropped}}
        )
        return self.model_copy(
            update={
                "units": units,
                "datasets": {t: name for t, name in self.datasets.items() if t not in dropped},
                "likelihoods": {
                    t: kind for t, kind in self.likelihoods.items() if t not in dropped
                },
            }
        )


def _fields_set(settings: TableMapping) -> list[str]:
    """Names of the settings that are given; those of a card beside them left aside."""
    given = settings.model_fields_set
    return [
        name
        for name in TableMapping.model_fields
        if name in given and getattr(settings, name) is not None
    ]
