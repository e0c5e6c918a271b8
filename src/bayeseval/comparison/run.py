"""The comparison: fits that are missing, their scores, one table and a verdict."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, get_args

import numpy as np
import pandas as pd

from bayeseval import names
from bayeseval._processes import run_all, sensible_jobs
from bayeseval._progress import reporting
from bayeseval._typing import Floats
from bayeseval.comparison.scores import Scores, check_cost, score
from bayeseval.comparison.sentences import comparison_table, moves_table, routes_table, verdict
from bayeseval.design import Design, build_design, choose_model
from bayeseval.engines import SamplerSettings, choose_engine, cores_of
from bayeseval.errors import InputError, did_you_mean
from bayeseval.fitting.covariates import data_hash, find_covariates
from bayeseval.fitting.gate import warn_of_gates
from bayeseval.fitting.run import Fit, run_fit
from bayeseval.records import PairSource, Records, TableSource, choose_pairs, pairs_hash
from bayeseval.records import load as load_records
from bayeseval.spec import ModelSpec

if TYPE_CHECKING:
    from bayeseval._typing import Figures, Progress

__all__ = ["MOST_REFITS", "Comparison", "compare", "expected_run", "find_fits"]

#: One model: a name, a file or a spec.
SpecSource = str | Path | ModelSpec | Mapping  # type: ignore[type-arg]

#: Refits by NUTS that are done without being asked for, per model.
MOST_REFITS: Final = 20


@dataclass(frozen=True, eq=False)
class Comparison:
    """Models of one table, best predicting first.

    Attributes
    ----------
    table : pandas.DataFrame
        ``spec``, ``elpd``, ``se``, ``elpd_diff`` and ``diff_se`` (model less the best one:
        zero for the best, negative for the others), ``p_eff`` (log density of the
        scores within the sample less `elpd`: how much better a model describes scores that
        it has seen; with effects of single cells it can exceed the number of records, so it
        is no number of parameters), ``n_bad_k`` (left-out units whose `k_hats` are above
        0.7), ``method``. A model with a unit that was not computed has no elpd. Natural
        logarithms, score units.
    pointwise : pandas.DataFrame
        Elpd of every left-out unit (row) under every model (column).
    k_hats : pandas.DataFrame
        Pareto k-hat behind each; NaN where nothing was importance-sampled, infinite where
        a refit or a bridge cannot be relied on. A record above 0.7 that no refit was allowed
        for has no elpd.
    routes : pandas.DataFrame
        For records: elpd as in `table` beside that of plain PSIS over all parameters,
        ``elpd_psis``, and how many of its k-hats are above 0.7, ``n_bad_k_psis``.
        Empty for groups.
    moves : pandas.DataFrame
        What changes between the first model named and every other: ``spec``,
        ``quantity`` (``language_potential``, ``standardised_score`` and, where both models have
        a model:language term, ``gap_sd_languages``), ``spearman``, ``kendall``, ``moved`` (the
        levels that move most, with both ranks).
    verdict : tuple of str
        The answer in sentences.
    by : str
        What was left out at a time.
    fits : dict of str to Fit
        By name, in the order in which they were named.
    """

    table: pd.DataFrame
    pointwise: pd.DataFrame
    k_hats: pd.DataFrame
    routes: pd.DataFrame
    moves: pd.DataFrame
    verdict: tuple[str, ...]
    by: names.LeftOut
    fits: Mapping[str, Fit]

    def save(self, folder: str | Path, *, figures: Figures = True, force: bool = False) -> Path:
        """Write ``run.json``, the tables and the figure; the folder appears whole or not at all.

        Parameters
        ----------
        folder : str or Path
            ``tables/comparison.csv``, ``tables/pointwise.csv``, ``tables/k_hats.csv``,
            ``tables/moves.csv``, for records ``tables/routes.csv``, and
            ``figures/comparison.png``.
        figures : bool, str or sequence of str
            Whether to draw the figure, or in which formats ("pdf", "png,svg").
        force : bool
            Overwrite the results of a different run.

        Raises
        ------
        InputError
            If the folder holds something else or cannot be written.
        """
        from bayeseval.comparison.report import write_comparison
        from bayeseval.output.language_names import add_language_names

        known = next(iter(self.fits.values())).run.get("language_names")
        tables = {
            "comparison": self.table,
            "pointwise": add_language_names(self.pointwise.reset_index(), known),
            "k_hats": add_language_names(self.k_hats.reset_index(), known),
            "moves": self.moves,
        }
        if len(self.routes):
            tables["routes"] = self.routes
        return write_comparison(Path(folder), tables, run=self._run(), figures=figures, force=force)

    def _run(self) -> dict[str, Any]:
        runs = [one.run for one in self.fits.values()]
        first = runs[0]
        return {
            "benchmark": first["benchmark"],
            **_identity(first, [str(run["spec_hash"]) for run in runs], self.by),
            "by": self.by,
            "pairs": first["pairs"],
            "models": {name: one.run["engine"] for name, one in self.fits.items()},
            "gates": {name: one.gate.status for name, one in self.fits.items()},
            "verdict": list(self.verdict),
        }

    def __str__(self) -> str:
        """The table and the verdict."""
        from bayeseval.comparison.report import format_comparison

        return format_comparison(self.table, self.verdict, by=self.by)


def _identity(
    first: Mapping[str, Any], spec_hashes: Sequence[str], by: names.LeftOut
) -> dict[str, Any]:
    """What makes two comparisons the same: the first fit's table and pairs, all specs, `by`."""
    return {
        "data_hash": first["data_hash"],
        "spec_hash": hashlib.sha256(f"{by}{''.join(spec_hashes)}".encode()).hexdigest(),
        "engine": "compare",
        "seed": first["seed"],
        "pairs_hash": first["pairs_hash"],
    }


def expected_run(
    records: Records,
    specs: Sequence[ModelSpec],
    *,
    by: names.LeftOut,
    seed: int,
    pairs: PairSource,
) -> dict[str, Any]:
    """What :meth:`Comparison.save` will write of the identity, known before any fit.

    Parameters
    ----------
    records : Records
        The table.
    specs : sequence of ModelSpec
        None of them ``auto``.
    by, seed, pairs
        As for :func:`compare`.

    Returns
    -------
    dict
        The keys of ``run.json`` that make two runs the same.
    """
    found = [find_covariates(records, spec) for spec in specs]
    designs = [build_design(records, spec, own) for spec, own in zip(specs, found, strict=True)]
    first = {
        "data_hash": data_hash(records, found[0] if found else ()),
        "seed": seed,
        "pairs_hash": pairs_hash(records, choose_pairs(records, pairs)),
    }
    return _identity(first, [design.spec.content_hash for design in designs], by)


def compare(
    records: Records | TableSource,
    specs: SpecSource | Sequence[SpecSource],
    *,
    by: names.LeftOut = "record",
    engine: str = "auto",
    seed: int = 0,
    pairs: PairSource = "any",
    fits: Mapping[str, Fit] | None = None,
    refits: int = MOST_REFITS,
    jobs: int | None = None,
    progress: Progress | bool | None = None,
) -> Comparison:
    """Compare models of one table by how well they predict scores left out.

    Parameters
    ----------
    records : Records, DataFrame, str or Path
        The table, or what :func:`bayeseval.load` takes.
    specs : sequence, str, Path, ModelSpec or dict
        Shipped names, YAML files or specs, or one of these; ``auto`` is what
        :func:`bayeseval.fit` takes for this table. How potentials, scores and evenness move
        is reported against the first. A single model has its elpd and nothing to be compared
        with.
    by : {"record", "language", "task", "model"}
        Leave out one score, or all scores of a level together.
    engine : str
        As for :func:`bayeseval.fit`.
    seed : int
        The one seed.
    pairs : str, Path or DataFrame
        The language-task pairs that scores of models are means over, as for
        :func:`bayeseval.fit`. What moves depends on them, the elpd does not.
    fits : dict of str to Fit, optional
        Fits that are there already, by name of the spec; those of another table, spec or
        choice of pairs are refused.
    refits : int
        How many times a model without closed form may be fitted again: for records with
        Pareto k-hats above 0.7 that nothing else mends, and for left-out levels.
    jobs : int, optional
        Fits at once, each in a process of its own; None is one per core, or one per four
        cores where NUTS runs its four chains. The results do not depend on it.
    progress : bool or callable, optional
        True shows progress on stderr; a callable is called as
        ``progress(stage, done, total, remark)``.

    Returns
    -------
    Comparison
        Best model first.

    Raises
    ------
    InputError
        If no model is named, one is named twice, or leaving out levels takes more refits
        than are allowed.

    Warns
    -----
    ConvergenceWarning
        Once, with the names of the models whose convergence gate failed.
    """
    if by not in get_args(names.LeftOut):
        raise InputError(
            f"cannot leave out one {by!r} at a time{did_you_mean(by, get_args(names.LeftOut))} "
            f"(it is one of: {', '.join(get_args(names.LeftOut))})"
        )
    table = records if isinstance(records, Records) else load_records(records)
    if by != names.RECORD and len(table.coords[by]) < 2:
        raise InputError(
            f"there is one {by}, {table.coords[by][0]}: without it nothing is left to fit; "
            "choose by='record' (--by record)"
        )
    several = [specs] if isinstance(specs, SpecSource) else specs
    if not isinstance(several, Sequence):
        raise InputError(
            "models are a name, a YAML file, a ModelSpec, a dict, or a list of these; got "
            f"{type(specs).__name__}"
        )
    models = [choose_model(spec, table, engine=engine).spec for spec in several]
    designs = {
        spec.name: build_design(table, spec, find_covariates(table, spec)) for spec in models
    }
    _check(models, by, designs, engine=engine, refits=refits)
    # Likelihoods that a spec takes from the card stand in the design's.
    models = [designs[spec.name].spec for spec in models]
    needed = [
        cores_of(choose_engine(engine, designs[spec.name], SamplerSettings(seed=seed)).name)
        for spec in models
        if spec.name not in (fits or {})
    ]
    at_once = sensible_jobs(jobs, cores_each=max(needed, default=1))
    # Refits are always by NUTS.
    refits_at_once = sensible_jobs(jobs, cores_each=cores_of("numpyro"))
    with reporting(progress) as report:
        tell: Progress = report or (lambda stage, done, total, remark: None)
        done = _fits(
            table,
            models,
            dict(fits or {}),
            engine=engine,
            seed=seed,
            pairs=pairs,
            jobs=at_once,
            tell=tell,
        )
        scores: dict[str, Scores] = {}
        stage = f"leaving out each {by}"
        for i, (name, fitted) in enumerate(done.items()):
            tell(stage, i, len(done), name)
            scores[name] = score(
                designs[name],
                fitted,
                by,
                seed=seed,
                refits=refits,
                jobs=refits_at_once,
                progress=tell,
            )
            tell(stage, i + 1, len(done), name)
    warn_of_gates({name: one.gate for name, one in done.items()}, stacklevel=2)
    ranked = comparison_table(scores)
    moves = moves_table(done)
    notes = [note for one in scores.values() for note in one.notes]
    return Comparison(
        table=ranked,
        pointwise=_by_unit({name: one.elpd for name, one in scores.items()}, table, by),
        k_hats=_by_unit({name: one.k_hat for name, one in scores.items()}, table, by),
        routes=routes_table(scores),
        moves=moves,
        verdict=(*verdict(ranked, moves, done, by), *(f"{note}." for note in notes)),
        by=by,
        fits=done,
    )


class _Wanted(NamedTuple):
    table: Records
    spec: ModelSpec
    engine: str
    seed: int
    pairs: PairSource


def _fit_one(wanted: _Wanted, beat: Progress | None) -> Fit:
    settings = SamplerSettings(seed=wanted.seed)
    return run_fit(
        wanted.table,
        wanted.spec,
        engine=wanted.engine,
        settings=settings,
        pairs=wanted.pairs,
        progress=beat,
    )


def _fits(
    table: Records,
    models: Sequence[ModelSpec],
    ready: Mapping[str, Fit],
    *,
    engine: str,
    seed: int,
    pairs: PairSource,
    jobs: int,
    tell: Progress,
) -> dict[str, Fit]:
    """Fits of all models in their order; those that are not there are made."""
    for spec in models:
        if spec.name in ready:
            _check_ready(ready[spec.name], table, spec, pairs)
    missing = [spec for spec in models if spec.name not in ready]
    wanted = [_Wanted(table, spec, engine, seed, pairs) for spec in missing]
    if not wanted:
        return {spec.name: ready[spec.name] for spec in models}
    made = run_all(_fit_one, wanted, jobs=jobs, stage="fitting", progress=tell)
    found = {**ready, **{spec.name: one for spec, one in zip(missing, made, strict=True)}}
    return {spec.name: found[spec.name] for spec in models}


def _check(
    models: Sequence[ModelSpec],
    by: names.LeftOut,
    designs: Mapping[str, Design],
    *,
    engine: str,
    refits: int,
) -> None:
    if not models:
        raise InputError("a comparison needs a model; name at least one (--models a,b)")
    if len(designs) < len(models):
        twice = next(m.name for i, m in enumerate(models) if m.name in [o.name for o in models[:i]])
        raise InputError(f"the model {twice!r} is named twice; every model needs a name of its own")
    if engine == "ml":
        raise InputError(
            "engine ml gives a point estimate, and left-out densities are means over a posterior; "
            "leave engine (--engine) out"
        )
    if refits < 0:
        raise InputError(f"refits (--refits) must be zero or more, got {refits}")
    first = next(iter(designs.values()))
    for design in designs.values():
        if not np.array_equal(design.score, first.score):
            raise InputError(
                f"{first.spec.name} and {design.spec.name} read different scores from the table, "
                "so that their densities cannot be compared"
            )
        check_cost(design, by, refits=refits)


def _check_ready(ready: Fit, table: Records, spec: ModelSpec, pairs: PairSource) -> None:
    data = data_hash(table, find_covariates(table, spec))
    for key, ours in (("data_hash", data), ("spec_hash", spec.content_hash)):
        if ready.run[key] != ours:
            what = "table" if key == "data_hash" else "spec"
            raise InputError(f"the fit given for {spec.name} is of another {what}")
    if ready.run.get("pairs_hash") != pairs_hash(table, choose_pairs(table, pairs)):
        raise InputError(
            f"the fit given for {spec.name} has its scores on other language-task pairs "
            f"({ready.run.get('pairs', 'unknown')}); give pairs= as in that fit, or fit it again"
        )


def _by_unit(columns: Mapping[str, Floats], table: Records, by: names.LeftOut) -> pd.DataFrame:
    """One row per left-out unit, labelled."""
    if by != names.RECORD:
        return pd.DataFrame(columns, index=pd.Index(table.coords[by], name=by))
    return pd.DataFrame(columns).rename_axis(names.RECORD)


def find_fits(
    records: Records,
    specs: Sequence[ModelSpec],
    *,
    engine: str = "auto",
    seed: int = 0,
    pairs: PairSource = "any",
) -> dict[str, Fit]:
    """Fits of a table that lie in their default result folders.

    Parameters
    ----------
    records : Records
        The table.
    specs : sequence of ModelSpec
        What is wanted.
    engine : str
        As asked for.
    seed : int
        The one seed.
    pairs : str, Path or DataFrame
        As asked for.

    Returns
    -------
    dict of str to Fit
        By name of the spec; only fits of the same table, spec, engine, seed and pairs.
    """
    from bayeseval.fitting.report.folder import default_folder

    found = {}
    common = choose_pairs(records, pairs)
    for spec in specs:
        covariates = find_covariates(records, spec)
        design = build_design(records, spec, covariates)
        chosen = choose_engine(engine, design, SamplerSettings(seed=seed))
        folder = default_folder(records.name, spec.name, chosen.name, seed, pairs=common.name)
        if not (folder / "run.json").is_file():
            continue
        ready = Fit.open(folder)
        # Of the design: likelihoods that the spec takes from the card stand in there.
        wanted = {
            "data_hash": data_hash(records, covariates),
            "spec_hash": design.spec.content_hash,
            "engine": chosen.name,
            "seed": seed,
            "pairs_hash": pairs_hash(records, common),
        }
        if all(ready.run.get(key) == value for key, value in wanted.items()):
            found[spec.name] = ready
    return found
