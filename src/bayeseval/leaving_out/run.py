"""How much results rest on single levels or odd records: refits without them.

A level of a factor, a group of levels, or the records with the largest residuals are left
out, the model is fitted again, and potentials, scores of models, evenness and their ranks are
held against those of the fit to all records. Models are asked the same language-task pairs in
all fits, less those of a language or task that is left out.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from bayeseval._processes import run_all, sensible_jobs
from bayeseval._progress import reporting
from bayeseval.engines import SamplerSettings, cores_of
from bayeseval.errors import InputError
from bayeseval.estimands.moves import (
    level_moves,
    read_quantity,
    reported_quantities,
)
from bayeseval.fitting.fitted import Fit
from bayeseval.fitting.gate import GATE_FAILED, Gate, warn_of_gates
from bayeseval.fitting.prepared import Prepared, prepare
from bayeseval.leaving_out.refits import Job, all_moves, labelled_pairs, refit, refit_rows
from bayeseval.leaving_out.selection import Part, choose_parts, outlying
from bayeseval.records import PairSource, Records, TableSource
from bayeseval.records import load as load_records
from bayeseval.spec import AUTO, ModelSpec

if TYPE_CHECKING:
    from bayeseval._typing import Figures, Progress

__all__ = ["PreparedSensitivity", "Sensitivity", "prepare_sensitivity", "sensitivity"]


@dataclass(frozen=True, eq=False)
class Sensitivity:
    """What changes when part of a table is left out.

    Attributes
    ----------
    table : pandas.DataFrame
        One row per refit and quantity: ``drop`` (``language``, ``task``, ``model``,
        ``group`` or ``outliers``), ``without`` (what was left out), ``n_dropped`` and
        ``n_records`` (left), ``status`` (``fitted``, ``gate failed``, ``not identified``
        or ``not fitted``), ``reason``, ``quantity``, ``n_levels`` (in both fits),
        ``spearman`` and ``kendall`` of the posterior means, ``n_rank_changes`` (levels
        whose median rank among the common ones differs; missing of point estimates),
        ``common_shift`` (mean change
        over the levels), ``largest_change`` (the largest change beyond the common one, in
        the quantity's units), ``largest_change_sd`` (in posterior sds) and
        ``largest_change_level``, ``moved`` (the levels whose ranks move most, with
        intervals). A refit that failed has one row, without a quantity.
    moves : pandas.DataFrame
        Means, sds and rank intervals of every level before and after, by refit.
    outliers : pandas.DataFrame
        The records left out for their residuals: ``model``, ``language``, ``task``,
        ``score``, ``residual``; empty when none were asked for.
    fit : Fit
        The fit to all records.
    groups : dict of str to list of str
        Levels, or patterns, by name of the group.
    gates : dict of str to Gate
        Outcome of the convergence gate by name of the fit: ``all records``, and
        ``without ...`` for every refit that was made.
    """

    table: pd.DataFrame
    moves: pd.DataFrame
    outliers: pd.DataFrame
    fit: Fit
    groups: Mapping[str, Sequence[str]]
    gates: Mapping[str, Gate]

    @property
    def verdict(self) -> tuple[str, ...]:
        """The answer in sentences."""
        from bayeseval.leaving_out.report import sensitivity_sentences

        failed = [f"{GATE_FAILED[0].upper()}{GATE_FAILED[1:]}."]
        return (
            *(failed if self.fit.gate.status == "fail" else ()),
            *sensitivity_sentences(self.table),
        )

    def save(self, folder: str | Path, *, figures: Figures = True, force: bool = False) -> Path:
        """Write ``run.json``, tables and the figure; the folder appears whole or not at all.

        Parameters
        ----------
        folder : str or Path
            ``tables/sensitivity.csv``, ``tables/moves.csv``, ``tables/outliers.csv`` where
            there are any, ``figures/sensitivity.png``.
        figures : bool, str or sequence of str
            Whether to draw the figure, or in which formats ("pdf", "png,svg"); there is none of
            point estimates, which have no ranks.
        force : bool
            Overwrite the results of a different run.

        Raises
        ------
        InputError
            If the folder holds something else or cannot be written.
        """
        from bayeseval.leaving_out.report import write_sensitivity
        from bayeseval.output.language_names import add_language_names

        known = self.fit.run.get("language_names")
        tables = {"sensitivity": self.table, "moves": self.moves}
        if len(self.outliers):
            tables["outliers"] = self.outliers
        tables = {name: add_language_names(table, known) for name, table in tables.items()}
        return write_sensitivity(
            Path(folder),
            tables,
            ranks=None if self.fit.run["engine"] == "ml" else self._ranks(),
            run=self._run(),
            language_names=known,
            figures=figures,
            force=force,
        )

    def _ranks(self) -> pd.DataFrame:
        """Median and interval of the ranks in the fit to all records."""
        parts = []
        for name in reported_quantities(self.fit.data):
            quantity = read_quantity(self.fit.data, name)
            same = level_moves(quantity, quantity)
            ranks = same[["lower_before", "median_before", "upper_before"]]
            ranks.columns = pd.Index(["lower", "median", "upper"])
            parts.append(ranks.rename_axis("level").reset_index().assign(quantity=name))
        return pd.concat(parts, ignore_index=True)

    def _run(self) -> dict[str, Any]:
        run = self.fit.run
        return {
            "benchmark": run["benchmark"],
            **_identity(run, self.table["drop"] + "=" + self.table["without"], self.groups),
            "fitted_with": run["engine"],
            "spec": run["spec"],
            "gate": run["gate"],
            "groups": _sorted(self.groups),
            "pairs": run["pairs"],
            "verdict": list(self.verdict),
        }

    def __str__(self) -> str:
        """Summary, outliers and verdict as text."""
        from bayeseval.leaving_out.report import format_sensitivity

        return format_sensitivity(
            self.table,
            self.outliers,
            self.verdict,
            language_names=self.fit.run.get("language_names"),
        )


def _sorted(groups: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    return {name: sorted(levels) for name, levels in sorted(groups.items())}


def _identity(
    run: Mapping[str, Any], asked: Iterable[str], groups: Mapping[str, Sequence[str]]
) -> dict[str, Any]:
    """What makes two analyses the same: that of the fit to all records, and what is left out."""
    dropped = "|".join(sorted(set(asked)))
    said = f"{run['spec_hash']}{run['engine']}{dropped}{_sorted(groups) or ''}"
    return {
        "data_hash": run["data_hash"],
        "spec_hash": hashlib.sha256(said.encode()).hexdigest(),
        "engine": "sensitivity",
        "seed": run["seed"],
        "pairs_hash": run["pairs_hash"],
    }


@dataclass(frozen=True, eq=False)
class PreparedSensitivity:
    """Refits before any fit: made by :func:`prepare_sensitivity`, run by :meth:`run`.

    Attributes
    ----------
    whole : Prepared
        The fit to all records.
    parts : tuple of Part
        What is left out, level by level and group by group.
    n_outliers : int or None
        How many of the largest residuals are left out together.
    drop : tuple of str
        As asked for.
    groups : dict of str to list of str
        Levels, or patterns, by name of the group.
    """

    whole: Prepared
    parts: tuple[Part, ...]
    n_outliers: int | None
    drop: tuple[str, ...]
    groups: Mapping[str, Sequence[str]]

    @property
    def identity(self) -> dict[str, Any]:
        """What :meth:`Sensitivity.save` will write of the identity."""
        asked = [f"{part.drop}={part.label}" for part in self.parts]
        asked += [] if self.n_outliers is None else [f"outliers={_largest(self.n_outliers)}"]
        return _identity(self.whole.identity, asked, self.groups)

    @property
    def default_folder(self) -> Path:
        """Folder named after the inputs, under ``results/`` of the working directory."""
        from bayeseval.fitting.report.folder import default_folder

        whole = self.whole
        without = ["without", *(text.replace("=", "") for text in self.drop), *self.groups]
        called = "-".join([whole.design.spec.name, *without])
        seed, pairs = whole.settings.seed, whole.pairs.name
        return default_folder(whole.records.name, called, whole.engine.name, seed, pairs=pairs)

    def run(self, *, jobs: int | None = None, progress: Progress | None = None) -> Sensitivity:
        """Fit all records, then the rest without each part.

        Parameters
        ----------
        jobs, progress
            As for :func:`sensitivity`.

        Returns
        -------
        Sensitivity
            Without a warning when the gate of a fit failed: that is for the caller to say.
        """
        at_once = sensible_jobs(jobs, cores_each=cores_of(self.whole.engine.name))
        base, table, parts = self.whole.run(progress), self.whole.records, list(self.parts)
        outliers = pd.DataFrame()
        if self.n_outliers is not None:
            keep, outliers = outlying(table, base.data, self.n_outliers)
            parts.append(Part("outliers", _largest(self.n_outliers), keep))
        before = tuple(read_quantity(base.data, name) for name in reported_quantities(base.data))
        spec, engine, settings = self.whole.model.spec, self.whole.engine.name, self.whole.settings
        job = Job(table, spec, engine, settings, labelled_pairs(self.whole), before)
        refits = run_all(
            refit,
            [(job, part) for part in parts],
            jobs=at_once,
            stage="refitting",
            progress=progress or (lambda stage, done, total, remark: None),
            labels=[f"without {part.label}" for part in parts],
        )
        done = list(zip(parts, refits, strict=True))
        gates = {f"without {part.label}": one.gate for part, one in done if one.gate is not None}
        return Sensitivity(
            table=pd.DataFrame([row for part, one in done for row in refit_rows(table, part, one)]),
            moves=all_moves(done),
            outliers=outliers,
            fit=base,
            groups=self.groups,
            gates={"all records": base.gate} | gates,
        )


def prepare_sensitivity(
    records: Records,
    spec: str | Path | ModelSpec | Mapping[str, Any] = AUTO,
    *,
    drop: str | Sequence[str] = "language",
    groups: Mapping[str, Sequence[str]] | None = None,
    engine: str = "auto",
    seed: int = 0,
    pairs: PairSource = "any",
) -> PreparedSensitivity:
    """Decide everything about the refits that can be known before any fit.

    Parameters
    ----------
    records : Records
        The table.
    spec, drop, groups, engine, seed, pairs
        As for :func:`sensitivity`.

    Returns
    -------
    PreparedSensitivity
        Frozen; :meth:`PreparedSensitivity.run` fits.

    Raises
    ------
    InputError
        If what is to be dropped does not exist.
    """
    several: object = [drop] if isinstance(drop, str) else drop
    if not isinstance(several, Sequence) or not all(isinstance(one, str) for one in several):
        raise InputError(
            f"drop is language, task, model, outliers=N, or a list of these; got {drop!r}"
        )
    asked = tuple(several)
    named = {name: list(levels) for name, levels in (groups or {}).items()}
    parts, n_outliers = choose_parts(records, asked, named)
    whole = prepare(records, spec, engine=engine, settings=SamplerSettings(seed=seed), pairs=pairs)
    return PreparedSensitivity(whole, tuple(parts), n_outliers, asked, named)


def _largest(n_outliers: int) -> str:
    return f"the {n_outliers} largest residuals"


def sensitivity(
    records: Records | TableSource,
    spec: str | Path | ModelSpec | Mapping[str, Any] = AUTO,
    *,
    drop: str | Sequence[str] = "language",
    groups: Mapping[str, Sequence[str]] | None = None,
    engine: str = "auto",
    seed: int = 0,
    pairs: PairSource = "any",
    jobs: int | None = None,
    progress: Progress | bool | None = None,
) -> Sensitivity:
    """Fit again without each level, group, or the largest residuals, and compare.

    Parameters
    ----------
    records : Records, DataFrame, str or Path
        The table, or what :func:`bayeseval.load` takes.
    spec : str, Path, ModelSpec or dict
        A shipped model's name, a YAML file, or a spec. What ``auto`` is on the whole table
        is fitted to all parts of it.
    drop : str or sequence of str
        ``language``, ``task`` or ``model``: leave out each level in turn;
        ``outliers=10``: leave out the ten records with the largest residuals
        (observed less posterior mean of the expected score; paper 000, Appendix C).
    groups : mapping of str to sequence of str, optional
        Name of a group to the levels (of any factor, also patterns such as
        ``gpt-*``) that are left out together.
    engine : str
        As for :func:`bayeseval.fit`; every refit takes the engine of the first fit.
    seed : int
        The one seed.
    pairs : str, Path or DataFrame
        The language-task pairs that models are compared on, as for :func:`bayeseval.fit`. The
        refits take those of the fit to all records whose language and task are left: a pair
        that only a left-out model was tested on stays, predicted.
    jobs : int, optional
        Refits at a time, in processes of their own; None is one per core, or one per four
        cores where NUTS runs its four chains. The results do not depend on it.
    progress : bool or callable, optional
        True shows progress on stderr; a callable is called as
        ``progress(stage, done, total, remark)``.

    Returns
    -------
    Sensitivity
        A refit that the remaining table does not allow is a row that says why.

    Raises
    ------
    InputError
        If what is to be dropped does not exist.

    Warns
    -----
    ConvergenceWarning
        Once, with the names of the fits whose convergence gate failed.
    """
    table = records if isinstance(records, Records) else load_records(records)
    prepared = prepare_sensitivity(
        table, spec, drop=drop, groups=groups, engine=engine, seed=seed, pairs=pairs
    )
    with reporting(progress) as report:
        found = prepared.run(jobs=jobs, progress=report)
    warn_of_gates(found.gates, stacklevel=2)
    return found
