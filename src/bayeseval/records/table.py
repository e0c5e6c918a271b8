"""``Records``: one validated, frozen table of scores."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from bayeseval._arguments import as_path
from bayeseval._html import html_table
from bayeseval._text import counted, shorten
from bayeseval.errors import InputError, did_you_mean
from bayeseval.languages.labels import names_of
from bayeseval.names import FACTORS, LIKELIHOODS, Factor, Likelihood
from bayeseval.readers.columns import LABELS, REPLICATES
from bayeseval.records.build import Assembled, DivergedRuns, MixedScales, assemble
from bayeseval.records.content import content_hashes
from bayeseval.records.frames import raw_from_frame
from bayeseval.records.reduced import Reduced
from bayeseval.records.report import LoadReport, Units
from bayeseval.records.scales import UnitsLike

__all__ = ["FRAME_NAME", "Records"]

#: Name of the records of a data frame that is given without one.
FRAME_NAME: Final = "table"

# Rows that a notebook shows.
_SHOWN: Final = 8


@dataclass(frozen=True, eq=False, repr=False)
class Records:
    """Scores of models on languages and tasks, validated and in canonical order.

    Made by :func:`bayeseval.load` or :meth:`Records.from_frame`, never directly.
    Rows are sorted by model, language, task and replicate, so that the order of the
    input never matters.

    Attributes
    ----------
    name : str
        Name of the benchmark, or of the file.
    report : LoadReport
        What was read, dropped, guessed.

    Notes
    -----
    One record is one score of one model on one language of one task. Scores keep
    their task's own units (0-100 on MEGA); nothing is rescaled.

    Examples
    --------
    >>> import bayeseval as be
    >>> records = be.load(df, name="pilot")
    >>> records
    <Records 'pilot': 50 records, 4 models, 6 languages, 3 tasks>
    >>> records.coords["task"]
    ('t0', 't1', 't2')
    """

    name: str
    report: LoadReport
    _frame: pd.DataFrame = field(repr=False)
    _labels: Mapping[str, tuple[str, ...]] = field(repr=False)
    _codes: Mapping[str, npt.NDArray[np.int64]] = field(repr=False)
    _replicates: Mapping[str, npt.NDArray[np.int64]] = field(repr=False)
    _units: Mapping[str, Units] = field(repr=False)
    _language_names: Mapping[str, str] = field(repr=False)
    _datasets: Mapping[str, str] = field(repr=False)
    _likelihoods: Mapping[str, Likelihood] = field(repr=False, default_factory=dict)
    _covariate_files: Mapping[str, Path] = field(repr=False, default_factory=dict)
    _reduced: Reduced | None = field(repr=False, default=None)

    @classmethod
    def from_frame(
        cls,
        frame: pd.DataFrame,
        *,
        name: str = FRAME_NAME,
        columns: Mapping[str, str | None] | None = None,
        units: UnitsLike | Mapping[str, UnitsLike] | None = None,
        language_names: Mapping[str, str] | None = None,
        datasets: Mapping[str, str] | None = None,
        missing: float | Sequence[float] = (),
        drop: Mapping[str, Sequence[str]] | None = None,
        mixed_scales: MixedScales = "refuse",
        diverged_runs: DivergedRuns = "refuse",
        likelihoods: Mapping[str, Likelihood] | None = None,
    ) -> Records:
        """Validate a data frame with one row per score.

        Parameters
        ----------
        frame : pandas.DataFrame
            Columns as in a file: ``model``, ``language``, ``score`` and ``task`` or
            ``dataset`` and ``metric``, or common synonyms. It is not changed. NaN, NA
            and None are missing cells; text stays text.
        name : str
            Named in messages and results.
        columns : mapping of str to str or None, optional
            Our column names to the frame's; None leaves a column out.
        units : Units, pair, mapping or None
            Bounds of the scores, ``(lower, upper)``: for all tasks, or by task (the
            key ``"*"`` stands for all others). Guessed and reported when not given.
        language_names : mapping of str to str, optional
            Names of language labels, for tables and figures.
        datasets : mapping of str to str, optional
            Task to dataset, where it is not what stands before the task's colon.
        missing : float or sequence of float
            Scores that mean that there is no score, such as -1; their rows are left out.
        drop : mapping of str to sequence of str, optional
            Models, languages and tasks to leave out: ``{"model": ["a", "b"]}``.
        mixed_scales : {"refuse", "allow"}
            What to do with a task that seems to mix 0-1 and 0-100 scales, or whose
            scores of one model seem to be in other units.
        diverged_runs : {"refuse", "allow", "drop"}
            What to do with a seed that scored far below its cell's other seeds.
        likelihoods : mapping of str to str, optional
            Likelihood of each task (``default`` for the others), for specs that say
            ``likelihood: card``.

        Raises
        ------
        InputError
            One line: what is wrong, in which row and column, what is allowed.
        """
        return cls._assembled(
            assemble(
                [raw_from_frame(frame, name)],
                columns=columns or {},
                units=units,
                mixed=mixed_scales,
                diverged=diverged_runs,
                missing=(missing,) if isinstance(missing, int | float) else missing,
                drop=drop,
                named_languages=language_names or {},
            ),
            name=name,
            language_names=language_names,
            datasets=datasets,
            likelihoods=likelihoods,
        )

    @classmethod
    def _assembled(
        cls,
        parts: Assembled,
        *,
        name: str,
        language_names: Mapping[str, str] | None,
        datasets: Mapping[str, str] | None,
        likelihoods: Mapping[str, Likelihood] | None = None,
        covariate_files: Mapping[str, Path] | None = None,
    ) -> Records:
        codes = {name: np.array(values) for name, values in parts.codes.items()}
        for values in codes.values():
            values.flags.writeable = False
        for task, likelihood in (likelihoods or {}).items():
            tasks = (*parts.labels["task"], "default")
            for what, given, allowed in (
                ("task", task, tasks),
                ("likelihood", likelihood, LIKELIHOODS),
            ):
                if given not in allowed:
                    raise InputError(
                        f"{name}: likelihoods: no {what} {given!r}{did_you_mean(given, allowed)}"
                        f" (allowed: {shorten(allowed, limit=15)})"
                    )
        return cls(
            name=name,
            report=parts.report,
            _frame=parts.frame,
            _labels=dict(parts.labels),
            _codes={factor: codes[factor] for factor in LABELS},
            _replicates={name: codes[name] for name in REPLICATES if name in codes},
            _units=dict(parts.units),
            _language_names=names_of(parts.labels["language"], language_names or {}),
            _datasets=_datasets(parts, datasets or {}, name=name),
            _likelihoods=dict(likelihoods or {}),
            _covariate_files=dict(covariate_files or {}),
        )

    def __len__(self) -> int:
        return len(self._frame)

    def __repr__(self) -> str:
        shape = ", ".join(counted(len(self._labels[f]), f) for f in LABELS)
        return f"<Records {self.name!r}: {counted(len(self), 'record')}, {shape}>"

    def _repr_html_(self) -> str:
        """The first rows, for notebooks."""
        shown = self._frame.head(_SHOWN).astype(object)
        cells = shown.where(shown.notna(), "").astype(str)
        html = html_table(repr(self)[1:-1], {str(name): list(cells[name]) for name in cells})
        rest = len(self) - len(shown)
        return html + (f"<p>and {counted(rest, 'more record')}</p>" if rest else "")

    @property
    def table(self) -> pd.DataFrame:
        """The tidy table, one row per record; changing it leaves the records as they are.

        Columns ``model``, ``language``, ``task`` (text), ``score`` (float), then those
        of ``dataset``, ``metric``, ``n``, ``k``, ``se``, ``seed``, ``boot``,
        ``seed_sd``, ``boot_sd``, ``n_seeds``, ``n_boot``, ``item``, ``chance`` that
        the input had. Numbers are float64, NaN where not given.
        """
        return pd.DataFrame(
            {
                name: values.copy() if values.dtype == np.float64 else values.astype("str")
                for name, values in self._frame.items()
            }
        )

    @property
    def coords(self) -> dict[str, tuple[str, ...]]:
        """Sorted labels of each factor: ``language``, ``task``, ``model``."""
        return {factor: self._labels[factor] for factor in FACTORS}

    def subset(self, keep: npt.ArrayLike, *, name: str) -> Records:
        """Some of the records, with the bounds, names and files that hold for all.

        Parameters
        ----------
        keep : array_like of bool, shape (n_records,)
            The records to keep.
        name : str
            Named in messages and results.

        Raises
        ------
        InputError
            If `keep` has another length, or nothing is kept.
        """
        kept = np.asarray(keep)
        if kept.dtype != np.bool_ or kept.shape != (len(self),):
            raise InputError(
                f"{name}: keep must be an array of {len(self)} booleans, one for each record"
            )
        table = self.table[kept]
        if table.empty:
            raise InputError(f"{name}: no record is left")
        tasks = set(table["task"])
        subset = type(self)._assembled(
            assemble(
                [raw_from_frame(table, name)],
                columns={},
                units={task: unit for task, unit in self._units.items() if task in tasks},
                # Checked when the whole table was read.
                mixed="allow",
                diverged="allow",
                already_checked=True,
            ),
            name=name,
            language_names=self._language_names,
            datasets={task: dataset for task, dataset in self._datasets.items() if task in tasks},
            likelihoods={
                task: kind
                for task, kind in self._likelihoods.items()
                if task in tasks or task == "default"
            },
        )
        reduced = self._reduced and self._reduced_of(kept)
        return replace(subset, _covariate_files=self._covariate_files, _reduced=reduced)

    def _reduced_of(self, kept: npt.NDArray[np.bool_]) -> Reduced | None:
        """The sums over reduced rows of the cells of some records."""
        codes = np.stack([self.codes(factor) for factor in FACTORS])
        new = np.append(True, (codes[:, 1:] != codes[:, :-1]).any(axis=0))
        cell = np.cumsum(new) - 1
        share = np.bincount(cell, kept) / np.bincount(cell)
        tasks = np.zeros(len(self._labels["task"]), dtype=np.bool_)
        tasks[self.codes("task")[kept]] = True
        return self._reduced and self._reduced.of_cells(share, tasks, name=self.name)

    def codes(self, factor: Factor) -> npt.NDArray[np.int64]:
        """Position of each record's level in ``coords[factor]``, shape (n_records,)."""
        if factor not in self._codes:
            raise InputError(
                f"no factor {factor!r}{did_you_mean(str(factor), FACTORS)}"
                f" (factors: {', '.join(FACTORS)})"
            )
        return self._codes[factor]

    @cached_property
    def scores(self) -> npt.NDArray[np.float64]:
        """Scores in their tasks' own units, shape (n_records,); read-only."""
        values = self._frame["score"].to_numpy(dtype=np.float64, copy=True)
        values.flags.writeable = False
        return values

    @property
    def units(self) -> dict[str, Units]:
        """Bounds of the scores by task; a bound is None when unbounded or unknown."""
        return dict(self._units)

    @property
    def language_names(self) -> dict[str, str]:
        """Names of language labels, as far as they are known."""
        return dict(self._language_names)

    @property
    def datasets(self) -> dict[str, str]:
        """Dataset of every task: as in the card, otherwise the part of its name before the colon.

        Tasks of one dataset are several metrics of the same outputs.
        """
        return dict(self._datasets)

    @property
    def covariate_files(self) -> dict[str, Path]:
        """Files that the benchmark's card names for covariates, by name."""
        return dict(self._covariate_files)

    @property
    def replicate_columns(self) -> tuple[str, ...]:
        """Those of ``seed``, ``boot``, ``item`` that tell records of one cell apart."""
        return tuple(column for column in REPLICATES if column in self._frame.columns)

    def replicate_codes(self, column: str) -> npt.NDArray[np.int64]:
        """Position of each record's ``seed``, ``boot`` or ``item`` among all of them.

        Shape (n_records,), -1 where a record has none. Numbered labels count in the
        order of their numbers.
        """
        if column not in self._replicates:
            return np.full(len(self), -1, dtype=np.int64)
        return self._replicates[column]

    def numbers(self, column: str) -> npt.NDArray[np.float64]:
        """A column of numbers such as ``se`` or ``n``, shape (n_records,); NaN where empty."""
        if column not in self._frame:
            return np.full(len(self), np.nan)
        return self._frame[column].to_numpy(dtype=np.float64, copy=True)

    @property
    def reduced(self) -> Reduced | None:
        """Sums over items or bootstrap test sets whose rows were reduced while reading."""
        return self._reduced

    @property
    def likelihoods(self) -> dict[str, Likelihood]:
        """Likelihood of each task as the benchmark's card has it; empty when it says nothing."""
        return dict(self._likelihoods)

    @cached_property
    def content_hash(self) -> str:
        """SHA-256 of the records and their units, as 64 hexadecimal digits.

        The same whatever the file format, the order of rows and columns, or the
        version of any library; different when a label, a number or a bound differs.
        """
        return self._hashes[0]

    @property
    def rows_hash(self) -> str:
        """SHA-256 of the records without their units and datasets."""
        return self._hashes[1]

    @cached_property
    def _hashes(self) -> tuple[str, str]:
        default = _default_datasets(self._frame)
        others = {task: own for task, own in self._datasets.items() if own != default[task]}
        reduced = None if self._reduced is None else self._reduced.identity
        return content_hashes(self._frame, self._units, others, reduced=reduced)

    def to_csv(self, path: str | Path) -> None:
        """Write the table as CSV; :func:`bayeseval.load` reads the same records back.

        The bounds go into the columns ``scale_min`` and ``scale_max``. The file
        appears whole or not at all.
        """
        with _replacing(as_path("path", path)) as temporary:
            self.portable().to_csv(temporary, index=False, encoding="utf-8", lineterminator="\n")

    def to_parquet(self, path: str | Path) -> None:
        """Write the table as Parquet; otherwise as :meth:`to_csv`."""
        # Arrow itself opens no file whose name is not UTF-8.
        with _replacing(as_path("path", path)) as temporary, temporary.open("wb") as file:
            self.portable().to_parquet(file, index=False)

    def save_table(self, path: str | Path) -> None:
        """Write the table as Parquet if the name ends so, as CSV if it ends in ``.csv``.

        Raises
        ------
        InputError
            For other endings, or if the file cannot be written.
        """
        suffix = as_path("path", path).suffix.casefold()
        if suffix not in (".csv", ".parquet"):
            raise InputError(f"{path}: tables are written to .csv or .parquet")
        (self.to_csv if suffix == ".csv" else self.to_parquet)(path)

    def portable(self) -> pd.DataFrame:
        """The table with its bounds, as it is written to files.

        Raises
        ------
        InputError
            If rows were reduced while it was read: the table alone does not say what they do.
        """
        if self._reduced is not None:
            raise InputError(
                f"{self.name}: its rows were reduced to cells while it was read, so it cannot be"
                " joined or written; join the files instead, in one folder"
            )
        table = self.table
        tasks = table["task"]
        bounds = {
            name: tasks.map({task: getattr(u, side) for task, u in self._units.items()})
            for name, side in (("scale_min", "lower"), ("scale_max", "upper"))
        }
        return table.assign(**{name: values.astype(np.float64) for name, values in bounds.items()})


def _default_datasets(frame: pd.DataFrame) -> dict[str, str]:
    """Dataset of every task by the column of that name, else by the task's own name."""
    tasks = [str(task) for task in frame["task"].unique()]
    if "dataset" in frame:
        pairs = frame[["task", "dataset"]].drop_duplicates("task").astype("str")
        return dict(zip(pairs["task"], pairs["dataset"], strict=True))
    return {task: task.rpartition(":")[0] or task for task in tasks}


def _datasets(parts: Assembled, given: Mapping[str, str], *, name: str) -> dict[str, str]:
    default = _default_datasets(parts.frame)
    for task in given:
        if task not in default:
            raise InputError(
                f"{name}: datasets names the task {task!r}, which the table lacks"
                f"{did_you_mean(task, default)} (tasks: {', '.join(sorted(default))})"
            )
    return default | dict(given)


@contextlib.contextmanager
def _replacing(path: Path) -> Iterator[Path]:
    """A temporary path beside `path` that takes its place when all went well."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        yield temporary
        temporary.replace(path)
    except OSError as problem:
        raise InputError(f"{path}: cannot be written: {problem.strerror or problem}") from problem
    finally:
        temporary.unlink(missing_ok=True)
