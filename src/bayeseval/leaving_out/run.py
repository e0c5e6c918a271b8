"""How much results rest on single levels or odd records: refits without them.

A level of a factor, a group of levels, or the records with the largest residuals are left
out, the model is fitted again, and potentials, scores of models, evenness and their ranks are
held against those of the fit to all records. Models are asked the same language-task pairs in
all fits, less those of a language or task that is left out.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from bayeseval import names
from bayeseval._processes import run_all, sensible_jobs
from bayeseval._progress import reporting
from bayeseval.design import build_design, choose_model
from bayeseval.engines import SamplerSettings, choose_engine, cores_of
from bayeseval.errors import BayesevalError, DesignError, InputError
from bayeseval.estimands.moves import (
    Quantity,
    agreement,
    level_moves,
    most_moved,
    read_quantity,
    reported_quantities,
)
from bayeseval.fitting.covariates import data_hash, find_covariates
from bayeseval.fitting.gate import GATE_FAILED, Gate, warn_of_gates
from bayeseval.fitting.run import Fit, run_fit
from bayeseval.leaving_out.selection import Part, choose_parts, outlying
from bayeseval.records import PairSource, Records, TableSource, choose_pairs, pairs_hash
from bayeseval.records import load as load_records
from bayeseval.spec import AUTO, ModelSpec

if TYPE_CHECKING:
    from bayeseval._typing import Figures, Progress

__all__ = ["Sensitivity", "expected_run", "sensitivity"]


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
    """

    table: pd.DataFrame
    moves: pd.DataFrame
    outliers: pd.DataFrame
    fit: Fit
    groups: Mapping[str, Sequence[str]]

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


def expected_run(
    records: Records,
    model: ModelSpec,
    *,
    drop: Sequence[str],
    groups: Mapping[str, Sequence[str]],
    engine: str,
    seed: int,
    pairs: PairSource,
) -> dict[str, Any]:
    """What :meth:`Sensitivity.save` will write of the identity, known before any fit.

    Parameters
    ----------
    records : Records
        The table.
    model : ModelSpec
        The model; not ``auto``.
    drop, groups, engine, seed, pairs
        As for :func:`sensitivity`.

    Returns
    -------
    dict
        Keys of ``run.json``: those that make two runs the same, and ``fitted_with``.

    Raises
    ------
    InputError
        As :func:`sensitivity`, of what is asked for.
    """
    parts, n_outliers = choose_parts(records, drop, groups)
    covariates = find_covariates(records, model)
    design = build_design(records, model, covariates)
    chosen = choose_engine(engine, design, SamplerSettings(seed=seed))
    run = {
        "data_hash": data_hash(records, covariates),
        "spec_hash": design.spec.content_hash,
        "engine": chosen.name,
        "seed": seed,
        "pairs_hash": pairs_hash(records, choose_pairs(records, pairs)),
    }
    asked = [f"{part.drop}={part.label}" for part in parts]
    asked += [] if n_outliers is None else [f"outliers={_largest(n_outliers)}"]
    return {**_identity(run, asked, groups), "fitted_with": chosen.name}


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
    model = choose_model(spec, table, engine=engine).spec
    several: object = [drop] if isinstance(drop, str) else drop
    if not isinstance(several, Sequence) or not all(isinstance(one, str) for one in several):
        raise InputError(
            f"drop is language, task, model, outliers=N, or a list of these; got {drop!r}"
        )
    asked = list(several)
    parts, n_outliers = choose_parts(table, asked, groups or {})
    design = build_design(table, model, find_covariates(table, model))
    chosen = choose_engine(engine, design, SamplerSettings(seed=seed))
    at_once = sensible_jobs(jobs, cores_each=cores_of(chosen.name))
    settings = SamplerSettings(seed=seed)
    common = _labelled(table, pairs)
    with reporting(progress) as report:
        base = run_fit(
            table, spec, engine=chosen.name, settings=settings, pairs=pairs, progress=report
        )
        outliers = pd.DataFrame()
        if n_outliers is not None:
            keep, outliers = outlying(table, base.data, n_outliers)
            parts.append(Part("outliers", _largest(n_outliers), keep))
        before = tuple(read_quantity(base.data, name) for name in reported_quantities(base.data))
        job = _Job(table, model, chosen.name, seed, common, before)
        refits = run_all(
            _refit,
            [(job, part) for part in parts],
            jobs=at_once,
            stage="refitting",
            progress=report or (lambda stage, done, total, remark: None),
            labels=[f"without {part.label}" for part in parts],
        )
    done = list(zip(parts, refits, strict=True))
    warn_of_gates(
        {"all records": base.gate}
        | {f"without {part.label}": found.gate for part, found in done if found.gate is not None},
        stacklevel=2,
    )
    return Sensitivity(
        table=pd.DataFrame([row for part, found in done for row in _rows(table, part, found)]),
        moves=pd.concat(
            [
                moved.rename_axis("level")
                .reset_index()
                .assign(drop=part.drop, without=part.label, quantity=name)
                for part, found in done
                for name, moved in found.moves.items()
            ]
            or [pd.DataFrame()],
            ignore_index=True,
        ),
        outliers=outliers,
        fit=base,
        groups={name: list(levels) for name, levels in (groups or {}).items()},
    )


@dataclass(frozen=True, eq=False)
class _Job:
    """What all refits share."""

    records: Records
    spec: ModelSpec
    engine: str
    seed: int
    pairs: pd.DataFrame
    before: tuple[Quantity, ...]


@dataclass(frozen=True, eq=False)
class _Refit:
    """What one refit found, or why it did not."""

    status: str
    reason: str = ""
    moves: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    gate: Gate | None = None


def _refit(asked: tuple[_Job, Part], beat: Progress | None) -> _Refit:
    job, part = asked
    try:
        rest = job.records.subset(part.keep, name=f"{job.records.name} without {part.label}")
        settings = SamplerSettings(seed=job.seed)
        fitted = run_fit(
            rest,
            job.spec,
            engine=job.engine,
            settings=settings,
            pairs=_left(job.pairs, rest),
            progress=beat,
        )
    except DesignError as error:
        return _Refit("not identified", str(error))
    except BayesevalError as error:
        return _Refit("not fitted", str(error))
    return _Refit(
        "gate failed" if fitted.gate.status == "fail" else "fitted",
        moves={
            before.name: level_moves(before, read_quantity(fitted.data, before.name))
            for before in job.before
        },
        gate=fitted.gate,
    )


def _labelled(table: Records, pairs: PairSource) -> pd.DataFrame:
    """The common pairs of a table by label."""
    chosen = choose_pairs(table, pairs)
    index = {names.LANGUAGE: chosen.language, names.TASK: chosen.task}
    return pd.DataFrame(
        {factor: np.array(table.coords[factor], dtype=object)[i] for factor, i in index.items()}
    )


def _left(pairs: pd.DataFrame, rest: Records) -> PairSource:
    """Those of the pairs whose language and task the rest has; its own if there is none."""
    left = pairs[
        pairs[names.LANGUAGE].isin(rest.coords[names.LANGUAGE])
        & pairs[names.TASK].isin(rest.coords[names.TASK])
    ]
    return left if len(left) else "any"


def _rows(table: Records, part: Part, found: _Refit) -> Iterator[dict[str, Any]]:
    n_kept = int(part.keep.sum())
    shared = {
        "drop": part.drop,
        "without": part.label,
        "n_dropped": len(table) - n_kept,
        "n_records": n_kept,
        "status": found.status,
        "reason": found.reason,
    }
    if not found.moves:
        yield shared | {"quantity": ""}
    for name, moved in found.moves.items():
        spearman, kendall = agreement(moved)
        change = moved["mean_after"] - moved["mean_before"]
        shift = float(change.mean())
        in_sds = (change - shift) / moved["sd_before"]
        # Without sds, of a point estimate, the units decide what changes most.
        sizes = (in_sds if in_sds.notna().any() else change - shift).abs().dropna()
        level = str(sizes.idxmax()) if len(sizes) else ""
        yield shared | {
            "quantity": name,
            "n_levels": len(moved),
            "spearman": spearman,
            "kendall": kendall,
            "n_rank_changes": _changes(moved),
            "common_shift": shift,
            "largest_change": float(change[level] - shift) if level else np.nan,
            "largest_change_sd": float(in_sds[level]) if level else np.nan,
            "largest_change_level": level,
            "moved": most_moved(
                moved,
                language_names=table.language_names if name == names.LANGUAGE_POTENTIAL else None,
            ),
        }


def _changes(moved: pd.DataFrame) -> float:
    """Levels whose median ranks differ; NaN where there are no ranks."""
    shifts = (moved["median_after"] - moved["median_before"]).abs()
    return float((shifts > 0).sum()) if shifts.notna().any() else np.nan
