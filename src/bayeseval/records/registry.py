"""Benchmark cards: what a shipped folder of scores is, and how to read it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import BeforeValidator, Field, model_validator

from bayeseval._text import shorten
from bayeseval._yaml import FrozenConfig, parse_config, read_yaml
from bayeseval.errors import InputError, did_you_mean
from bayeseval.names import Likelihood
from bayeseval.records.build import DivergedRuns, MixedScales
from bayeseval.records.remote import Remote
from bayeseval.records.report import Units

__all__ = [
    "BenchmarkCard",
    "TableMapping",
    "find_mapping",
    "read_card",
    "read_mapping",
]


# reuben's keys for columns, and ours.
_REUBEN_COLUMNS: Final = {
    "model_col": "model",
    "task_col": "language",
    "score_col": "score",
    "seed_sd_col": "seed_sd",
    "boot_sd_col": "boot_sd",
    "replication_sd_col": "se",
    "seed_idx_col": "seed",
    "boot_idx_col": "boot",
    "replication_idx_col": "seed",
}
# Its other keys: how to resample and print, which is not for the table to say.
_REUBEN_SETTINGS: Final = (
    *("fix_outliers", "standardized", "output_format", "output_path", "pickle_output_folder"),
    *("rounding", "num_bootstrap_resamples", "task_resampling_method"),
    *("task_resampling_with_replacement", "task_resampling_num_tasks"),
    "replication_resampling_method",
)
_MAX_CONFIG_BYTES: Final = 65_536


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

    @model_validator(mode="after")
    def _are_bounds(self) -> UnitsConfig:
        # Said here, the file and the key stand before it.
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
    """How to read a table; the content of a ``--mapping`` file.

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
        What the files are, where their content should not decide.
    metric : str, mapping of str to str or None
        The metric of an evaluation tool's results, for all datasets or by dataset.
    task_names : str or None
        A table that says the dataset and language of tasks; its path as seen from the
        file that names it.
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
    task_names: str | None = None
    likelihoods: dict[str, Likelihood] = Field(default_factory=dict)


class BenchmarkCard(TableMapping):
    """The ``benchmark.yaml`` of a benchmark's folder.

    Attributes
    ----------
    name, title, description : str
        What the benchmark is called and what it is.
    files : tuple of str
        Tables beside the card; every table of the folder when left out.
    remote : Remote or None
        Address and SHA-256 of a table that is not beside the card.
    covariates : mapping of str to str
        Covariate to its file beside the card.
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
    remote: Remote | None = None
    covariates: dict[str, str] = Field(default_factory=dict)
    source: str = ""
    licence: str = ""
    citation: str = ""


def read_card(path: Path) -> BenchmarkCard:
    """Read a ``benchmark.yaml``.

    Raises
    ------
    InputError
        The key and what is allowed, in one line.
    """
    return parse_config(BenchmarkCard, read_yaml(path), source=str(path))


def read_mapping(path: Path) -> TableMapping:
    """Read a mapping file: the keys of :class:`TableMapping`, or a reuben configuration.

    reuben (the toolkit of "From tests to effect sizes") names columns by ``score_col``,
    ``model_col``, ``task_col``, ``seed_sd_col``, ``boot_sd_col``, ``seed_idx_col`` and
    ``boot_idx_col``. What it calls a task is what the models are compared over: a
    language here. Its settings of the analysis are not for the table and not read.
    """
    values = read_yaml(path)
    if _is_reuben(values):
        return _reuben_mapping(values, source=str(path))
    return parse_config(TableMapping, values, source=str(path))


def find_mapping(folder: Path) -> tuple[Path | None, list[str]]:
    """The one reuben configuration in a folder, and what to report about it.

    Returns
    -------
    path : Path or None
        None when there is none, or more than one.
    notes : list of str
    """
    found = []
    for path in sorted([*folder.glob("*.yaml"), *folder.glob("*.yml")]):
        # A configuration is a page; whatever else lies there is not for us to parse.
        if path.is_file() and path.stat().st_size <= _MAX_CONFIG_BYTES:
            try:
                found += [path] if _is_reuben(read_yaml(path)) else []
            except InputError:
                continue
    if len(found) > 1:
        names = shorten([path.name for path in found])
        return None, [f"{len(found)} reuben configurations ({names}); choose one with --mapping"]
    if not found:
        return None, []
    return found[0], [f"columns taken from the reuben configuration {found[0].name}"]


def _is_reuben(values: Any) -> bool:
    return isinstance(values, dict) and bool(set(values) & set(_REUBEN_COLUMNS))


def _reuben_mapping(values: dict[str, Any], *, source: str) -> TableMapping:
    columns: dict[str, str | None] = {}
    for key, value in values.items():
        if key in _REUBEN_SETTINGS or value is None:
            continue
        if key not in _REUBEN_COLUMNS:
            allowed = (*_REUBEN_COLUMNS, *_REUBEN_SETTINGS)
            raise InputError(
                f"{source}: unknown key {key!r}{did_you_mean(str(key), allowed)}"
                f" (columns are named by {', '.join(_REUBEN_COLUMNS)})"
            )
        if not isinstance(value, str):
            raise InputError(f"{source}: {key}: expected the name of a column, got {value!r}")
        our = _REUBEN_COLUMNS[key]
        if our in columns:
            raise InputError(f"{source}: {key}: another key names the {our} column already")
        columns[our] = value
    return TableMapping(columns=columns)
