"""Simulation-based calibration: truths from the priors, tables, fits, and where truths lie."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

import numpy as np

from bayeseval._arguments import as_whole_number
from bayeseval._calls import explained
from bayeseval._cluster import Cluster
from bayeseval._optional import versions
from bayeseval._processes import run_all, sensible_jobs
from bayeseval._progress import reporting
from bayeseval._random import stream
from bayeseval._text import counted, show
from bayeseval.calibration.container import Calibration
from bayeseval.calibration.draw import check_drawable, draw_table
from bayeseval.calibration.parts import kept_parts
from bayeseval.calibration.quantities import join, reported
from bayeseval.calibration.ranks import outcome_rows
from bayeseval.engines import SamplerSettings, cores_of
from bayeseval.errors import BayesevalError, EngineError, InputError, argument, by_option
from bayeseval.fitting.fitted import check_posterior
from bayeseval.fitting.prepared import Prepared, prepare
from bayeseval.fitting.provenance import sampling_path
from bayeseval.output._kept import discard_pieces, work_folder
from bayeseval.output._locks import alone_in
from bayeseval.records import Records, TableSource
from bayeseval.records import load as load_records
from bayeseval.simulation import simulate
from bayeseval.spec import AUTO, ModelSpec, load_spec

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

    from bayeseval._typing import Progress
    from bayeseval.design import Design
    from bayeseval.fitting.gate import Gate

__all__ = ["PreparedCalibration", "Priors", "calibrate", "prepare_calibration"]

Priors = Literal["fixed", "scaled"]

#: Draws that a truth is ranked among.
RANKED_DRAWS: Final = 199
# To be raised when the numbers of a simulation change with the same seed.
_VERSION: Final = 4
# Table for models that are calibrated without one.
_SHAPE: Final[Mapping[str, Any]] = {"n_languages": 8, "n_tasks": 4, "n_models": 6}
_OBSERVED: Final = 0.8
_DEFAULTS: Final = SamplerSettings()
# Enough of a SHA-256 for the name of a folder.
_SHORT: Final = 12
# Far more than bands of ranks need; lists of many more fill the memory before the first fit.
_MOST_SIMULATIONS: Final = 100_000


@dataclass(frozen=True, eq=False)
class PreparedCalibration:
    """A calibration before any simulation: made by :func:`prepare_calibration`.

    Attributes
    ----------
    like : Prepared
        The fit to the given table. Its design has the cells and the priors of all simulations.
    simulations : int
        How many.
    priors : {"fixed", "scaled"}
        Whether a fit has the priors that its truth was drawn from, or scales them to its table.
    seed : int
        The one seed.
    """

    like: Prepared
    simulations: int
    priors: Priors
    seed: int

    @property
    def identity(self) -> dict[str, Any]:
        """What makes two calibrations the same; the number of simulations is no part of it."""
        own = self.like.identity
        described = {name: str(prior) for name, prior in self.like.design.priors.items()}
        content = [own["spec_hash"], own["engine"], self.priors, described, _VERSION]
        content += [_given(self.like.settings)]
        return {
            "data_hash": own["data_hash"],
            "spec_hash": _hash(content),
            "engine": "calibrate",
            "seed": self.seed,
            "pairs_hash": own["pairs_hash"],
        }

    @property
    def default_folder(self) -> Path:
        """Folder named after the inputs, under ``results/`` of the working directory."""
        from bayeseval.fitting.report.folder import default_folder

        like = self.like
        called = f"calibration-{like.design.spec.name}"
        called += "-scaled" if self.priors == "scaled" else ""
        return default_folder(like.records.name, called, like.engine.name, self.seed)

    def run(
        self,
        *,
        jobs: int | None = None,
        dask: str | None = None,
        work: str | Path | None = None,
        ready: Calibration | None = None,
        progress: Progress | None = None,
    ) -> Calibration:
        """Simulate, fit and compare.

        Parameters
        ----------
        jobs, dask, work
            As for :func:`calibrate`.
        ready : Calibration, optional
            Earlier simulations of the same calibration, which are not made again.
        progress : callable, optional
            Called as ``progress(stage, done, total, remark)``.

        Returns
        -------
        Calibration

        Raises
        ------
        EngineError
            If no simulated table could be fitted.
        InputError
            If another process works on the same calibration in `work`.
        """
        at_once = sensible_jobs(jobs, cores_each=cores_of(self.like.engine.name), dask=dask)
        place = work_folder(work)
        done = {} if ready is None else ready.parts()
        folder = None if place is None else self.kept_in(place)
        with nullcontext() if folder is None else alone_in(folder):
            parts = self._parts(done, folder, at_once, progress)
        if not any(part["rows"] for part in parts):
            if folder is not None:
                discard_pieces(folder)
            raise EngineError(
                f"no simulated table could be fitted ({counted(len(parts), 'simulation')}); "
                f"simulation 0: {parts[0]['reason']}"
            )
        return Calibration.from_parts(parts, self._run())

    def kept_in(self, work: Path) -> Path:
        """Folder of the finished simulations of this calibration, among those of others."""
        return work / _hash(self.identity)[:_SHORT]

    def _parts(
        self,
        done: dict[int, dict[str, Any]],
        folder: Path | None,
        at_once: int | Cluster,
        progress: Progress | None,
    ) -> list[dict[str, Any]]:
        """What all simulations found: those that are done, and the others now."""
        kept = None if folder is None else kept_parts(folder, self.simulations)
        if kept is not None:
            found = kept.find().items()
            done = done | {i: {**part, "simulation": i} for i, part in found}
        missing = [i for i in range(self.simulations) if i not in done]
        if missing:
            parts = run_all(
                simulate_one,
                missing,
                shared=Job(self.like, self.priors, self.seed),
                jobs=at_once,
                stage="simulating",
                progress=progress or (lambda stage, done, total, remark: None),
                # By this process: those of a cluster may not reach the folder.
                keep=None if kept is None else lambda i, part: kept.store(missing[i], part),
            )
            done = done | dict(zip(missing, parts, strict=True))
        return [done[i] for i in range(self.simulations)]

    def _run(self) -> dict[str, Any]:
        like = self.like
        design = like.design
        return {
            "command": "calibrate",
            "benchmark": like.records.name,
            **self.identity,
            "fitted_with": like.engine.name,
            "priors_of_fits": self.priors,
            "spec": design.spec.to_dict(),
            "priors": {name: str(prior) for name, prior in design.priors.items()},
            "fixed_effects": {
                term.effect: f"normal(sd={term.known_sd:.4g})"
                for term in design.terms
                if isinstance(term.known_sd, float)
            },
            "pairs": like.pairs.name,
            "simulations": self.simulations,
            "ranked_draws": RANKED_DRAWS,
            "settings": _given(like.settings),
            "levels": {key: len(like.records.coords[key]) for key in ("language", "task", "model")},
            "n_records": design.n_records,
            "notes": list(design.notes),
            "versions": versions(["bayeseval", "numpy", "jax", "numpyro", "pymc"]),
        }


@dataclass(frozen=True, eq=False)
class Job:
    """What all simulations share."""

    like: Prepared
    priors: Priors
    seed: int


@dataclass(frozen=True, eq=False)
class Fitted:
    """A truth, and the fit to a table drawn from it.

    Attributes
    ----------
    truth, tree : xarray.DataTree
        One draw from the priors, and the fit.
    design : Design
        What was fitted.
    gate : Gate
        Outcome of the convergence gate.
    path : str
        How the marginal engine drew; empty for others.
    seed : int
        Of the fit.
    """

    truth: xr.DataTree
    tree: xr.DataTree
    design: Design
    gate: Gate
    path: str
    seed: int


def draw_and_fit(job: Job, number: int, beat: Progress | None = None) -> Fitted:
    """Draw a truth and a table, and fit it.

    Parameters
    ----------
    job : Job
        What all simulations share.
    number : int
        Names the random streams of this one.
    beat : callable, optional
        Called now and then.

    Raises
    ------
    BayesevalError
        If the table cannot be fitted.
    """
    for_truth, for_fit, _ = _streams(job, number)
    like = job.like
    drawn = draw_table(
        like.design,
        like.records,
        np.random.default_rng(for_truth),
        scaled=job.priors == "scaled",
    )
    seed = int(for_fit.generate_state(1)[0])
    settings = replace(like.settings, seed=seed)
    fit = replace(like, design=drawn.design, settings=settings).run(beat)
    path = sampling_path(fit.run).get("path", "")
    return Fitted(drawn.truth, fit.data, drawn.design, fit.gate, path, seed)


def locate(job: Job, number: int, fitted: Fitted) -> pd.DataFrame:
    """Say where the truth lies among the draws of a fit, as :func:`outcome_rows`."""
    _, _, for_ranks = _streams(job, number)
    seed = int(for_ranks.generate_state(1)[0])
    joint = join(fitted.tree, fitted.truth, n_draws=RANKED_DRAWS, seed=seed)
    return outcome_rows(
        reported(joint, fitted.design, seed=seed),
        reported(fitted.tree, fitted.design, seed=fitted.seed),
        np.random.default_rng(for_ranks),
    )


def simulate_one(job: Job, number: int, beat: Progress | None) -> dict[str, Any]:
    """Draw a truth and a table, fit it, and say where the truth lies.

    Parameters
    ----------
    job : Job
        What all simulations share.
    number : int
        Of this one.
    beat : callable, optional
        Called now and then.

    Returns
    -------
    dict
        As it is stored: ``simulation``, ``status`` (``fitted``, ``gate failed`` or ``not
        fitted``), ``reason``, ``path``, and the columns of the ranks, ``rows``.
    """
    part: dict[str, Any] = {"simulation": number, "status": "fitted", "reason": "", "path": ""}
    try:
        fitted = draw_and_fit(job, number, beat)
    except BayesevalError as error:
        part |= {"status": "not fitted", "reason": str(error), "rows": {}}
    else:
        if fitted.gate.status == "fail":
            failed = [f"{one.name} of {one.where}" for one in fitted.gate.checks if not one.passed]
            part |= {"status": "gate failed", "reason": "; ".join(failed)}
        rows = locate(job, number, fitted)
        part |= {"path": fitted.path, "rows": {str(n): rows[n].tolist() for n in rows}}
    return part


def _streams(job: Job, number: int) -> list[np.random.SeedSequence]:
    """Streams of the truth and the table, of the fit, and of the ranks."""
    return stream(job.seed, f"calibrate-{number}").spawn(3)


def prepare_calibration(
    spec: str | Path | ModelSpec | Mapping[str, Any] = AUTO,
    *,
    like: Records | None = None,
    simulations: int = 100,
    engine: str = "auto",
    priors: Priors = "fixed",
    settings: SamplerSettings = _DEFAULTS,
) -> PreparedCalibration:
    """Decide everything about a calibration that can be known before the first simulation.

    Parameters
    ----------
    spec, like, simulations, engine, priors
        As for :func:`calibrate`.
    settings : SamplerSettings
        Draws, warm-up, chains and the one seed.

    Returns
    -------
    PreparedCalibration
        Frozen; :meth:`PreparedCalibration.run` simulates.

    Raises
    ------
    BayesevalError
        If the model cannot be fitted to the table, or nothing can be drawn from its priors.
    """
    simulations = as_whole_number(argument("simulations"), simulations, least=1)
    if simulations > _MOST_SIMULATIONS:
        raise InputError(
            f"{argument('simulations')} must be at most {_MOST_SIMULATIONS}, got {simulations}"
        )
    if priors not in get_args(Priors):
        raise InputError(f"{argument('priors')} is fixed or scaled, got {show(priors)}")
    if like is None:
        if isinstance(spec, str) and spec == AUTO:
            raise InputError(
                f"the model auto is chosen for a table; name a model{by_option('--model')}, or a "
                f"table whose shape simulated tables have ({argument('like')})"
            )
        spec = load_spec(dict(spec) if isinstance(spec, Mapping) else spec)
        like = simulate(spec, **_SHAPE, observed_share=_OBSERVED).records
    _check_covariates(spec, like)
    settings = replace(settings, seed=as_whole_number("seed", settings.seed, least=0))
    prepared = prepare(like, spec, engine=engine, settings=settings)
    check_posterior(prepared.engine.name, "calibrate")
    check_drawable(prepared.design, like)
    return PreparedCalibration(prepared, simulations, priors, settings.seed)


def _check_covariates(spec: str | Path | ModelSpec | Mapping[str, Any], like: Records) -> None:
    """Refuse a model with a covariate that the table's card does not name, as none is taken."""
    if isinstance(spec, str) and spec == AUTO:
        return
    spec = load_spec(dict(spec) if isinstance(spec, Mapping) else spec)
    lacking = [term.name for term in spec.covariates if term.name not in like.covariate_files]
    if lacking:
        raise InputError(
            f"{like.name}: the model {spec.name} has the covariate {lacking[0]!r}, of which the "
            "card of this table names no file, and calibrate takes no other; name the file in the "
            "card (benchmark.yaml), or choose a model without it"
        )


@explained
def calibrate(
    spec: str | Path | ModelSpec | Mapping[str, Any],
    *,
    like: Records | TableSource | None = None,
    simulations: int = 100,
    engine: str = "auto",
    priors: Priors = "fixed",
    draws: int | None = None,
    tune: int | None = None,
    chains: int | None = None,
    seed: int = 0,
    work: str | Path | None = None,
    jobs: int | None = None,
    dask: str | None = None,
    progress: Progress | bool | None = None,
) -> Calibration:
    """Simulate tables from the priors, fit them, and compare the results with the true values.

    A simulation draws parameters from the priors, and scores on the cells of a given table; fits
    them; and computes the rank of every true value among the draws of the posterior, and whether
    its intervals contain it. The true values are computed by the same functions as those of the
    draws. If everything is right, ranks are uniform and a 95 % interval contains the true value in
    95 % of the simulations.

    Parameters
    ----------
    spec : str, Path, ModelSpec or dict
        The model; a shipped model's name, a YAML file, or a spec.
    like : Records, DataFrame, str or Path, optional
        Table whose shape simulated tables have: its cells, errors, numbers of items and
        replicates, and the scale of its priors. A simulated table of 8 languages, 4 tasks and 6
        models, 80 % observed, when left out.
    simulations : int
        How many.
    engine : str
        As for :func:`bayeseval.fit`.
    priors : {"fixed", "scaled"}
        ``fixed``: every fit has the priors from which parameters are drawn, and calibration is
        exact.
        ``scaled``: as in a fit to real scores, relative priors are scaled to each simulated
        table, so they differ from those from which parameters are drawn; deviations show the
        effect.
    draws, tune, chains : int, optional
        As for :func:`bayeseval.fit`. Ranks are uniform for any number of draws, so fewer draws
        than its defaults save time; the limits of the convergence gate stay the same.
    seed : int
        The one seed; every simulation has streams of its own.
    work : str or Path, optional
        Folder that keeps finished simulations, so that the same call continues an
        interrupted one.
    jobs : int, optional
        Number of simulations that run in parallel, in processes of their own; None is one per core,
        or one per four cores where NUTS runs its four chains. The results do not depend on it.
    dask : str, optional
        Address ``tcp://host:port`` of the scheduler of a Dask cluster, whose workers make the
        simulations instead.
    progress : bool or callable, optional
        True shows progress on stderr; a callable is called as
        ``progress(stage, done, total, remark)``.

    Returns
    -------
    Calibration
        Fits whose convergence gate failed and tables that could not be fitted are counted in it.

    Raises
    ------
    BayesevalError
        If the model cannot be fitted to the table, nothing can be drawn from its priors, no
        simulated table could be fitted, or another process works on the same calibration in
        `work`.

    References
    ----------
    Talts et al. (2018), arXiv:1804.06788. Modrak et al. (2023), doi:10.1214/23-BA1404.

    Examples
    --------
    >>> import bayeseval as be
    >>> calibration = be.calibrate("additive", like=df, simulations=4, jobs=1)
    >>> calibration.table["quantity"].tolist()[:3]
    ['intercept', 'sd_language', 'sd_task']
    """
    work = work_folder(work)
    table = like if like is None or isinstance(like, Records) else load_records(like)
    settings = SamplerSettings(draws=draws, tune=tune, chains=chains, seed=seed)
    prepared = prepare_calibration(
        spec, like=table, simulations=simulations, engine=engine, priors=priors, settings=settings
    )
    with reporting(progress) as report:
        return prepared.run(jobs=jobs, dask=dask, work=work, progress=report)


def _given(settings: SamplerSettings) -> dict[str, Any]:
    """Settings of the sampler that are not its defaults; the seed has a place of its own."""
    given = {key: value for key, value in asdict(settings).items() if value is not None}
    return {key: value for key, value in given.items() if key != "seed"}


def _hash(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode("utf-8")).hexdigest()
