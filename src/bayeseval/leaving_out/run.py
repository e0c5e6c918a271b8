"""How much results rest on single levels or odd records: refits without them.

A level of a factor, a group of levels, or the records with the largest residuals are left
out, the model is fitted again, and potentials, scores of models, evenness and their ranks are
held against those of the fit to all records. Models are asked the same language-task pairs in
all fits, less those of a language or task that is left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from bayeseval._arguments import as_mapping, as_texts
from bayeseval._calls import explained
from bayeseval._processes import run_all, sensible_jobs
from bayeseval._progress import reporting
from bayeseval.engines import SamplerSettings, cores_of
from bayeseval.errors import InputError
from bayeseval.estimands.moves import (
    read_quantity,
    reported_quantities,
)
from bayeseval.fitting.covariates import CovariateSource
from bayeseval.fitting.gate import warn_of_gates
from bayeseval.fitting.prepared import Prepared, prepare
from bayeseval.fitting.provenance import sampling_path
from bayeseval.leaving_out.container import Sensitivity, identity
from bayeseval.leaving_out.refits import Job, Refit, all_moves, labelled_pairs, refit, refit_table
from bayeseval.leaving_out.selection import Part, choose_parts, outlying
from bayeseval.output._kept import Kept, folder_of, work_folder
from bayeseval.output._locks import alone_in
from bayeseval.records import PairSource, Records, TableSource
from bayeseval.records import load as load_records
from bayeseval.spec import AUTO, ModelSpec

if TYPE_CHECKING:
    from bayeseval._typing import Progress

__all__ = ["PreparedSensitivity", "Sensitivity", "prepare_sensitivity", "sensitivity"]


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
        return identity(self.whole.identity, asked, self.groups)

    @property
    def default_folder(self) -> Path:
        """Folder named after the inputs, under ``results/`` of the working directory."""
        from bayeseval.fitting.report.folder import default_folder

        whole = self.whole
        without = ["without", *(text.replace("=", "") for text in self.drop), *self.groups]
        called = "-".join([whole.design.spec.name, *without])
        seed, pairs = whole.settings.seed, whole.pairs.name
        return default_folder(whole.records.name, called, whole.engine.name, seed, pairs=pairs)

    def run(
        self,
        *,
        jobs: int | None = None,
        dask: str | None = None,
        work: str | Path | None = None,
        progress: Progress | None = None,
    ) -> Sensitivity:
        """Fit all records, then the rest without each part.

        Parameters
        ----------
        jobs, dask, work, progress
            As for :func:`sensitivity`.

        Returns
        -------
        Sensitivity
            Without a warning when the gate of a fit failed: that is for the caller to say.
        """
        at_once = sensible_jobs(jobs, cores_each=cores_of(self.whole.engine.name), dask=dask)
        place = work_folder(work)
        base, table, parts = self.whole.run(progress), self.whole.records, list(self.parts)
        outliers = pd.DataFrame()
        if self.n_outliers is not None:
            keep, outliers = outlying(table, base.data, self.n_outliers)
            parts.append(Part("outliers", _largest(self.n_outliers), keep))
        before = tuple(read_quantity(base.data, name) for name in reported_quantities(base.data))
        spec, engine, settings = self.whole.model.spec, self.whole.engine.name, self.whole.settings
        pairs = labelled_pairs(self.whole)
        job = Job(table, spec, engine, settings, self.whole.covariates, pairs, before)
        kept = None if place is None else self._kept(self.kept_in(place), parts)
        with nullcontext() if kept is None else alone_in(kept.folder):
            refits = run_all(
                refit,
                parts,
                shared=job,
                jobs=at_once,
                stage="refitting",
                progress=progress or (lambda stage, done, total, remark: None),
                labels=[f"without {part.label}" for part in parts],
                keep=None if kept is None else kept.store,
                done=None if kept is None else kept.find(),
            )
        done = list(zip(parts, refits, strict=True))
        gates = {f"without {part.label}": one.gate for part, one in done if one.gate is not None}
        sampling = {f"without {part.label}": one.sampling for part, one in done if one.moves}
        rows = refit_table(table, done)
        failed = (rows["status"] == "gate failed") | (base.gate.status == "fail")
        if failed.any():
            rows["gate"] = np.where(failed, "fail", base.gate.status)
        return Sensitivity(
            table=rows,
            moves=all_moves(done),
            outliers=outliers,
            fit=base,
            groups=self.groups,
            gates={"all records": base.gate} | gates,
            sampling={"all records": sampling_path(base.run)} | sampling,
        )

    def kept_in(self, work: Path) -> Path:
        """Folder of the finished refits of this analysis, among those of others."""
        return folder_of(work, self.identity)

    def _kept(self, folder: Path, parts: Sequence[Part]) -> Kept[Refit]:
        pieces = tuple(f"the refit without {part.label} ({part.drop})" for part in parts)
        return Kept(folder, pieces, Refit.to_json, Refit.from_json)


def prepare_sensitivity(
    records: Records,
    spec: str | Path | ModelSpec | Mapping[str, Any] = AUTO,
    *,
    drop: str | Sequence[str] = "language",
    groups: Mapping[str, str | Sequence[str]] | None = None,
    engine: str = "auto",
    seed: int = 0,
    covariate: CovariateSource = None,
    pairs: PairSource = "any",
) -> PreparedSensitivity:
    """Decide everything about the refits that can be known before any fit.

    Parameters
    ----------
    records : Records
        The table.
    spec, drop, groups, engine, seed, covariate, pairs
        As for :func:`sensitivity`.

    Returns
    -------
    PreparedSensitivity
        Frozen; :meth:`PreparedSensitivity.run` fits.

    Raises
    ------
    InputError
        If a level or group to be left out does not exist.
    """
    several: object = [drop] if isinstance(drop, str) else drop
    if not isinstance(several, Sequence) or not all(isinstance(one, str) for one in several):
        raise InputError(
            f"drop is language, task, model, outliers=N, or a list of these; got {drop!r}"
        )
    asked = tuple(several)
    groups = {} if groups is None else as_mapping("groups", groups, of="names to levels")
    named = {
        name: list(as_texts(f"groups: {name}", levels, of="levels"))
        for name, levels in groups.items()
    }
    parts, n_outliers = choose_parts(records, asked, named)
    settings = SamplerSettings(seed=seed)
    whole = prepare(
        records, spec, engine=engine, settings=settings, covariate=covariate, pairs=pairs
    )
    return PreparedSensitivity(whole, tuple(parts), n_outliers, asked, named)


def _largest(n_outliers: int) -> str:
    return "the largest residual" if n_outliers == 1 else f"the {n_outliers} largest residuals"


@explained
def sensitivity(
    records: Records | TableSource,
    spec: str | Path | ModelSpec | Mapping[str, Any] = AUTO,
    *,
    drop: str | Sequence[str] = "language",
    groups: Mapping[str, str | Sequence[str]] | None = None,
    engine: str = "auto",
    seed: int = 0,
    covariate: CovariateSource = None,
    pairs: PairSource = "any",
    jobs: int | None = None,
    dask: str | None = None,
    work: str | Path | None = None,
    progress: Progress | bool | None = None,
) -> Sensitivity:
    """Fit again without each level, group, or the largest residuals, and compare.

    Parameters
    ----------
    records : Records, DataFrame, str or Path
        The table, or what :func:`bayeseval.load` takes.
    spec : str, Path, ModelSpec or dict
        A shipped model's name, a YAML file, or a spec. ``auto`` is selected for the whole table
        once and then fitted to all parts of it.
    drop : str or sequence of str
        ``language``, ``task`` or ``model``: leave out each level in turn;
        ``outliers=10``: leave out the ten records with the largest residuals
        (observed less posterior mean of the expected score; arXiv:2508.17162, Appendix C).
    groups : mapping of str to str or sequence of str, optional
        Name of a group to the levels (of any factor, also patterns such as
        ``gpt-*``) that are left out together.
    engine : str
        As for :func:`bayeseval.fit`; every refit takes the engine of the first fit.
    seed : int
        The one seed.
    covariate : Covariate, sequence of Covariate, str or Path, optional
        As for :func:`bayeseval.fit`; all refits have the same values.
    pairs : str, Path or DataFrame
        The language-task pairs that models are compared on, as for :func:`bayeseval.fit`. The
        refits take those of the fit to all records whose language and task are left: a pair
        that only a left-out model was tested on stays, predicted.
    jobs : int, optional
        Number of refits that run in parallel, in processes of their own; None is one per core,
        or one per four cores where NUTS runs its four chains. The results do not depend on it.
    dask : str, optional
        Address ``tcp://host:port`` of the scheduler of a Dask cluster, whose workers make the
        refits instead.
    work : str or Path, optional
        Folder that keeps finished fits, so that the same call continues an interrupted one.
    progress : bool or callable, optional
        True shows progress on stderr; a callable is called as
        ``progress(stage, done, total, remark)``.

    Returns
    -------
    Sensitivity
        A refit that the remaining table does not allow is a row that states the reason.

    Raises
    ------
    InputError
        If a level or group to be left out does not exist.

    Warns
    -----
    ConvergenceWarning
        Once, with the names of the fits whose convergence gate failed.

    Examples
    --------
    >>> import bayeseval as be
    >>> sensitivity = be.sensitivity(df, "additive", drop="task", jobs=1)
    >>> sorted(set(sensitivity.table["without"]))
    ['t0', 't1', 't2']
    """
    work = work_folder(work)
    table = records if isinstance(records, Records) else load_records(records)
    prepared = prepare_sensitivity(
        table,
        spec,
        drop=drop,
        groups=groups,
        engine=engine,
        seed=seed,
        covariate=covariate,
        pairs=pairs,
    )
    with reporting(progress) as report:
        result = prepared.run(jobs=jobs, dask=dask, work=work, progress=report)
    warn_of_gates(result.gates, stacklevel=3)
    return result
