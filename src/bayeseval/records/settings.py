"""What mapping files, cards and arguments of ``load`` say about a table; the later one wins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from bayeseval.names import Likelihood
from bayeseval.records.build import DivergedRuns, MixedScales
from bayeseval.records.registry import TableMapping
from bayeseval.records.scales import UnitsLike

__all__ = ["Settings", "metric_by_dataset"]


@dataclass(frozen=True, slots=True)
class Settings:
    """How to read a table; None and what is not in a mapping is not said.

    Parameters
    ----------
    columns, constants, language_names, datasets, likelihoods
        As in :class:`~bayeseval.records.registry.TableMapping`.
    missing : tuple of float
        Scores that mean that there is no score.
    drop : mapping of str to sequence of str
        Models, languages and tasks to leave out.
    units : Units, pair, mapping or None
        Bounds of the scores, for all tasks or by task.
    mixed_scales : {"refuse", "allow"} or None
    diverged_runs : {"refuse", "allow", "drop"} or None
    format : str or None
    metrics : mapping of str to str
        Metric by dataset; the key ``"*"`` stands for all others.
    task_names : Path or None
    """

    columns: Mapping[str, str | None] = field(default_factory=dict)
    constants: Mapping[str, str | float] = field(default_factory=dict)
    language_names: Mapping[str, str] = field(default_factory=dict)
    datasets: Mapping[str, str] = field(default_factory=dict)
    likelihoods: Mapping[str, Likelihood] = field(default_factory=dict)
    missing: tuple[float, ...] = ()
    drop: Mapping[str, Sequence[str]] = field(default_factory=dict)
    units: UnitsLike | Mapping[str, UnitsLike] | None = None
    mixed_scales: MixedScales | None = None
    diverged_runs: DivergedRuns | None = None
    format: str | None = None
    metrics: Mapping[str, str] = field(default_factory=dict)
    task_names: Path | None = None

    @classmethod
    def of(cls, mapping: TableMapping, folder: Path) -> Settings:
        """What a file in `folder` says."""
        said = mapping.model_fields_set
        return cls(
            columns=mapping.columns,
            constants=mapping.constants,
            language_names=mapping.language_names,
            datasets=mapping.datasets,
            likelihoods=mapping.likelihoods,
            missing=mapping.missing,
            drop=dict(mapping.drop.items()),
            units=None if mapping.units is None else mapping.units.as_units(),
            mixed_scales=mapping.mixed_scales if "mixed_scales" in said else None,
            diverged_runs=mapping.diverged_runs if "diverged_runs" in said else None,
            format=mapping.format,
            metrics=metric_by_dataset(mapping.metric),
            task_names=None if mapping.task_names is None else folder / mapping.task_names,
        )

    def merged(self, later: Settings) -> Settings:
        """These settings with those of `later`: by key where there are keys, but units whole."""
        return Settings(
            columns={**self.columns, **later.columns},
            constants={**self.constants, **later.constants},
            language_names={**self.language_names, **later.language_names},
            datasets={**self.datasets, **later.datasets},
            likelihoods={**self.likelihoods, **later.likelihoods},
            missing=tuple(dict.fromkeys((*self.missing, *later.missing))),
            drop={**self.drop, **later.drop},
            units=self.units if later.units is None else later.units,
            mixed_scales=later.mixed_scales or self.mixed_scales,
            diverged_runs=later.diverged_runs or self.diverged_runs,
            format=later.format or self.format,
            metrics={**self.metrics, **later.metrics},
            task_names=later.task_names or self.task_names,
        )

    def without_dropped_tasks(self) -> Settings:
        """What concerns tasks that are left out is not said of the table."""
        gone = set(self.drop.get("task", ()))
        units = self.units
        if isinstance(units, Mapping):
            units = {task: bounds for task, bounds in units.items() if task not in gone}
        return replace(
            self,
            units=units,
            datasets={task: name for task, name in self.datasets.items() if task not in gone},
            likelihoods={t: kind for t, kind in self.likelihoods.items() if t not in gone},
        )


def metric_by_dataset(metric: str | Mapping[str, str] | None) -> dict[str, str]:
    """One metric for all datasets (``"*"``), or the metrics by dataset as they are."""
    if metric is None:
        return {}
    return {"*": metric} if isinstance(metric, str) else dict(metric)
