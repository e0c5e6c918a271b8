"""The comparison: fits that are missing, their scores, one table and a verdict."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, overload

import pandas as pd

from bayeseval import names
from bayeseval._arguments import LEAST, as_mapping, as_whole_number
from bayeseval._calls import explained
from bayeseval._cluster import Cluster
from bayeseval._processes import run_all, sensible_jobs
from bayeseval._progress import MODELS, reporting
from bayeseval._typing import Floats
from bayeseval.comparison.container import Comparison, identity
from bayeseval.comparison.held_out import HeldOut
from bayeseval.comparison.holdout import prepare_holdout
from bayeseval.comparison.models import SpecSource, check_asked, model_name, prepare_models
from bayeseval.comparison.moved import moved_scores
from bayeseval.comparison.scores import Scores, check_cost, score
from bayeseval.comparison.sentences import comparison_table, moves_table, routes_table, verdict
from bayeseval.engines import cores_of
from bayeseval.errors import InputError, argument, did_you_mean, wording
from bayeseval.fitting.covariates import CovariateSource
from bayeseval.fitting.fitted import Fit
from bayeseval.fitting.gate import warn_of_gates
from bayeseval.fitting.prepared import Prepared
from bayeseval.output._kept import folder_of, work_folder
from bayeseval.output._locks import alone_in
from bayeseval.records import PairSource, Records, TableSource
from bayeseval.records import load as load_records

if TYPE_CHECKING:
    from bayeseval._typing import Progress

__all__ = [
    "MOST_REFITS",
    "Comparison",
    "PreparedComparison",
    "compare",
    "find_fits",
    "prepare_comparison",
]

#: Refits by NUTS that are done without being asked for, per model.
MOST_REFITS: Final = 20


@dataclass(frozen=True, eq=False)
class PreparedComparison:
    """A comparison before any fit: made by :func:`prepare_comparison`, run by :meth:`run`.

    Attributes
    ----------
    fits : tuple of Prepared
        One for each model, in the order in which they were named.
    by : str
        What is left out at a time.
    refits : int
        How many times a model without closed form may be fitted again.
    """

    fits: tuple[Prepared, ...]
    by: names.LeftOut
    refits: int = MOST_REFITS

    @property
    def identity(self) -> dict[str, Any]:
        """What :meth:`Comparison.save` will write of the identity."""
        return identity([one.identity for one in self.fits], self.by)

    @property
    def default_folder(self) -> Path:
        """Folder named after the inputs, under ``results/`` of the working directory."""
        from bayeseval.fitting.report.folder import default_folder

        first = self.fits[0]
        called = "-".join([*(model_name(one) for one in self.fits), "by", self.by])
        seed, pairs = first.settings.seed, first.pairs.name
        return default_folder(first.records.name, called, "compare", seed, pairs=pairs)

    def kept_in(self, work: Path) -> Path:
        """Folder of the finished refits of this comparison, among those of others."""
        return folder_of(work, {"by": self.by, "fits": [one.identity for one in self.fits]})

    def run(
        self,
        *,
        ready: Mapping[str, Fit] | None = None,
        jobs: int | None = None,
        dask: str | None = None,
        work: str | Path | None = None,
        progress: Progress | None = None,
    ) -> Comparison:
        """Make the fits that are missing, and score all of them.

        Parameters
        ----------
        ready : dict of str to Fit, optional
            Fits that are there already, by name of the spec.
        jobs, dask, work, progress
            As for :func:`compare`.

        Returns
        -------
        Comparison
            Without a warning when the gate of a fit failed: that is for the caller to say.

        Raises
        ------
        InputError
            If a fit that is there is of no model of the comparison, or of another table, spec
            or choice of pairs.
        """
        tell: Progress = progress or (lambda stage, done, total, remark: None)
        place = work_folder(work)
        ready = {} if ready is None else as_mapping("fits", ready, of="names of models to fits")
        _check_ready(ready, self.fits)
        missing = [one for one in self.fits if model_name(one) not in ready]
        cores = max((cores_of(one.engine.name) for one in missing), default=1)
        at_once = sensible_jobs(jobs, cores_each=cores, dask=dask)
        done = self._make(ready, missing, jobs=at_once, tell=tell)
        if not isinstance(at_once, Cluster):
            # Refits are always by NUTS.
            at_once = sensible_jobs(jobs, cores_each=cores_of("numpyro"))
        kept = None if place is None else self.kept_in(place)
        with nullcontext() if kept is None else alone_in(kept):
            scores = self._scores(done, jobs=at_once, tell=tell, kept=kept)
        moved = moved_scores({model_name(one): one.design for one in self.fits})
        rest = ~moved.any if moved is not None and self.by == names.RECORD else None
        ranked = comparison_table(scores, rest)
        if moved is not None:
            ranked["n_moved"] = [int(moved.by_model[name].sum()) for name in ranked["spec"]]
        gates = {name: fit.gate.status for name, fit in done.items()}
        if "fail" in gates.values():
            ranked["gate"] = ranked["spec"].map(gates)
        moves = moves_table(done)
        notes = [note for one in scores.values() for note in one.notes]
        table = self.fits[0].records
        return Comparison(
            table=ranked,
            pointwise=_by_unit({n: one.elpd for n, one in scores.items()}, table, self.by),
            k_hats=_by_unit({n: one.k_hat for n, one in scores.items()}, table, self.by),
            routes=routes_table(scores),
            moves=moves,
            verdict=(
                *verdict(ranked, moves, done, self.by, moved),
                *(f"{note}." for note in notes),
            ),
            by=self.by,
            fits=done,
        )

    def _make(
        self,
        ready: Mapping[str, Fit],
        missing: Sequence[Prepared],
        *,
        jobs: int | Cluster,
        tell: Progress,
    ) -> dict[str, Fit]:
        """Fits of all models in their order; those that are not there are made."""
        made: Sequence[Fit] = ()
        if missing:
            made = run_all(
                _run_one,
                missing,
                shared=None,
                jobs=jobs,
                stage=f"fitting {MODELS}",
                progress=tell,
            )
        fits_by_name = {
            **ready,
            **{model_name(one): fit for one, fit in zip(missing, made, strict=True)},
        }
        return {model_name(one): fits_by_name[model_name(one)] for one in self.fits}

    def _scores(
        self, done: Mapping[str, Fit], *, jobs: int | Cluster, tell: Progress, kept: Path | None
    ) -> dict[str, Scores]:
        scores: dict[str, Scores] = {}
        stage = f"scoring {MODELS}"
        for i, one in enumerate(self.fits):
            name = model_name(one)
            tell(stage, i, len(done), name)
            scores[name] = score(
                one.design,
                done[name],
                self.by,
                seed=one.settings.seed,
                refits=self.refits,
                jobs=jobs,
                progress=tell,
                work=None if kept is None else kept / f"model{i + 1}",
            )
            tell(stage, i + 1, len(done), name)
        return scores


def prepare_comparison(
    records: Records,
    specs: SpecSource | Sequence[SpecSource],
    *,
    by: names.LeftOut = "record",
    engine: str = "auto",
    seed: int = 0,
    covariate: CovariateSource = None,
    pairs: PairSource = "any",
    refits: int = MOST_REFITS,
) -> PreparedComparison:
    """Decide everything about a comparison that can be known before any fit.

    Parameters
    ----------
    records : Records
        The table.
    specs, by, engine, seed, covariate, pairs, refits
        As for :func:`compare`.

    Returns
    -------
    PreparedComparison
        Frozen; :meth:`PreparedComparison.run` makes the fits.

    Raises
    ------
    InputError
        As :func:`compare`, of what is asked for.
    """
    check_asked(by)
    if by != names.RECORD and len(records.coords[by]) < 2:
        raise InputError(
            f"there is one {by}, {records.coords[by][0]}: without it nothing is left to fit; "
            + wording("choose by='record'", "choose --by record")
        )
    refits = as_whole_number(argument("refits"), refits)
    fits = prepare_models(
        records, specs, engine=engine, seed=seed, covariate=covariate, pairs=pairs
    )
    if refits < LEAST["refits"]:
        raise InputError(f"{argument('refits')} must be zero or more, got {refits}")
    for one in fits:
        check_cost(one.design, by, refits=refits)
    return PreparedComparison(fits, by, refits)


@overload
def compare(
    records: Records | TableSource,
    specs: SpecSource | Sequence[SpecSource],
    *,
    by: names.LeftOut = "record",
    holdout: None = None,
    repeats: None = None,
    engine: str = "auto",
    seed: int = 0,
    covariate: CovariateSource = None,
    pairs: PairSource = "any",
    fits: Mapping[str, Fit] | None = None,
    refits: int = MOST_REFITS,
    jobs: int | None = None,
    dask: str | None = None,
    work: str | Path | None = None,
    progress: Progress | bool | None = None,
) -> Comparison: ...


@overload
def compare(
    records: Records | TableSource,
    specs: SpecSource | Sequence[SpecSource],
    *,
    by: names.LeftOut = "record",
    holdout: float,
    repeats: int | None = None,
    engine: str = "auto",
    seed: int = 0,
    covariate: CovariateSource = None,
    pairs: PairSource = "any",
    fits: None = None,
    refits: int = MOST_REFITS,
    jobs: int | None = None,
    dask: str | None = None,
    work: str | Path | None = None,
    progress: Progress | bool | None = None,
) -> HeldOut: ...


@explained
def compare(
    records: Records | TableSource,
    specs: SpecSource | Sequence[SpecSource],
    *,
    by: names.LeftOut = "record",
    holdout: float | None = None,
    repeats: int | None = None,
    engine: str = "auto",
    seed: int = 0,
    covariate: CovariateSource = None,
    pairs: PairSource = "any",
    fits: Mapping[str, Fit] | None = None,
    refits: int = MOST_REFITS,
    jobs: int | None = None,
    dask: str | None = None,
    work: str | Path | None = None,
    progress: Progress | bool | None = None,
) -> Comparison | HeldOut:
    """Compare models of one table by how well they predict scores left out.

    Parameters
    ----------
    records : Records, DataFrame, str or Path
        The table, or what :func:`bayeseval.load` takes.
    specs : sequence, str, Path, ModelSpec or dict
        Shipped names, YAML files or specs, or one of these; ``auto`` is the model that
        :func:`bayeseval.fit` selects for this table. Changes of potentials, scores and evenness
        are reported relative to the first model. Of a single model, only the elpd is reported.
    by : {"record", "language", "task", "model"}
        Leave out one score, or all scores of a level together.
    holdout : float, optional
        Leave out this share of the table at once, fit the rest, and score the predictions of
        what was left out beside those of two-way means; nothing is left out one at a time. With
        ``by="record"`` whole cells are left out, each a model on a language of a dataset with
        all of its metrics and replicates; with another `by` whole levels, tasks by dataset.
    repeats : int, optional
        How many times a share is left out, each time another random one; 5 by default.
    engine : str
        As for :func:`bayeseval.fit`.
    seed : int
        The one seed.
    covariate : Covariate, sequence of Covariate, str or Path, optional
        As for :func:`bayeseval.fit`, for the models that have a covariate and for ``auto``;
        the other models do without it.
    pairs : str, Path or DataFrame
        The language-task pairs over which scores of models are averaged, as for
        :func:`bayeseval.fit`. The elpd does not depend on them.
    fits : dict of str to Fit, optional
        Existing fits, by name of the spec. A fit of a model that is not compared, or of another
        table, spec or choice of pairs, is refused. With `holdout` there is no use for them.
    refits : int
        Without `holdout`, how many times a model without closed form may be fitted again: for
        records with Pareto k-hats above 0.7 for which no other method applies, and for left-out
        levels.
    jobs : int, optional
        Number of fits that run in parallel, in processes of their own; None is one per core,
        or one per four cores where NUTS runs its four chains. The results do not depend on it.
    dask : str, optional
        Address ``tcp://host:port`` of the scheduler of a Dask cluster, whose workers make the
        fits and refits instead.
    work : str or Path, optional
        Folder that keeps finished refits (with `holdout`, fits), so that the same call continues
        an interrupted one.
    progress : bool or callable, optional
        True shows progress on stderr; a callable is called as
        ``progress(stage, done, total, remark)``.

    Returns
    -------
    Comparison or HeldOut
        Best model first; a :class:`HeldOut` with `holdout`.

    Raises
    ------
    InputError
        If no model is named, one is named twice, leaving out levels takes more refits than are
        allowed, or so large a share cannot be left out.

    Warns
    -----
    ConvergenceWarning
        Once, with the names of the models whose convergence gate failed.

    Examples
    --------
    >>> import bayeseval as be
    >>> comparison = be.compare(df, ["additive", "interaction"])
    >>> sorted(comparison.table["spec"])
    ['additive', 'interaction']
    >>> held_out = be.compare(df, "additive", holdout=0.2, repeats=2, jobs=1)
    >>> sorted(held_out.table["spec"])
    ['additive', 'two-way means']
    """
    check_asked(by, holdout=holdout, repeats=repeats, fits=fits)
    work = work_folder(work)
    table = records if isinstance(records, Records) else load_records(records)
    asked: dict[str, Any] = {"by": by, "engine": engine, "seed": seed}
    asked |= {"covariate": covariate, "pairs": pairs}
    if holdout is not None:
        left_out = prepare_holdout(table, specs, holdout=holdout, repeats=repeats, **asked)
        with reporting(progress) as report:
            held_out = left_out.run(jobs=jobs, dask=dask, work=work, progress=report)
        warn_of_gates(held_out.named_gates, stacklevel=3)
        return held_out
    prepared = prepare_comparison(table, specs, refits=refits, **asked)
    with reporting(progress) as report:
        comparison = prepared.run(ready=fits, jobs=jobs, dask=dask, work=work, progress=report)
    warn_of_gates(comparison.named_gates, stacklevel=3)
    return comparison


def _run_one(shared: None, fit: Prepared, beat: Progress | None) -> Fit:
    return fit.run(beat)


def _check_ready(ready: Mapping[str, object], wanted: Sequence[Prepared]) -> None:
    """Refuse fits that the comparison cannot use."""
    by_name = {model_name(one): one for one in wanted}
    for name, fit in ready.items():
        if name not in by_name:
            raise InputError(
                f"fits has {name!r}, which is not compared{did_you_mean(name, by_name)} "
                f"(the models are: {', '.join(by_name)})"
            )
        if not isinstance(fit, Fit):
            raise InputError(f"fits: {name} must be a Fit, got {type(fit).__name__}")
        _check_same(fit, by_name[name])


def _check_same(ready: Fit, wanted: Prepared) -> None:
    name, identity = model_name(wanted), wanted.identity
    for key in ("data_hash", "spec_hash"):
        if ready.run[key] != identity[key]:
            what = "table" if key == "data_hash" else "spec"
            raise InputError(f"the fit given for {name} is of another {what}")
    if ready.run.get("pairs_hash") != identity["pairs_hash"]:
        raise InputError(
            f"the fit given for {name} has its scores on other language-task pairs "
            f"({ready.run.get('pairs', 'unknown')}); give pairs= as in that fit, or fit it again"
        )


def _by_unit(columns: Mapping[str, Floats], table: Records, by: names.LeftOut) -> pd.DataFrame:
    """One row per left-out unit, labelled."""
    if by != names.RECORD:
        return pd.DataFrame(columns, index=pd.Index(table.coords[by], name=by))
    return pd.DataFrame(columns).rename_axis(names.RECORD)


def find_fits(wanted: Iterable[Prepared]) -> dict[str, Fit]:
    """Fits that lie in their default result folders.

    Parameters
    ----------
    wanted : iterable of Prepared
        What would be run.

    Returns
    -------
    dict of str to Fit
        By name of the spec; only those of the same table, spec, engine, seed and pairs. The
        margin may be another: no comparison of models depends on it.
    """
    fits_by_name = {}
    for one in wanted:
        folder = one.default_folder
        if not (folder / "run.json").is_file():
            continue
        ready = Fit.open(folder)
        identity = {key: value for key, value in one.identity.items() if key != "margin"}
        if all(ready.run.get(key) == value for key, value in identity.items()):
            fits_by_name[model_name(one)] = ready
    return fits_by_name
