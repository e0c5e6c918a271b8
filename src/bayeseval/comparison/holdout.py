"""Scores left out, several times: fits without them, and how well these predict them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pandas as pd

from bayeseval import names
from bayeseval._arguments import as_number, as_whole_number
from bayeseval._processes import run_all, sensible_jobs
from bayeseval._random import generator
from bayeseval._typing import Bools, Floats, Index
from bayeseval.comparison.held_out import HeldOut, holdout_identity, main_table, sentences
from bayeseval.comparison.models import SpecSource, check_asked, model_name, prepare_models
from bayeseval.comparison.moved import limits_of, moved_scores
from bayeseval.comparison.predictive import normal_scores, sampled_scores
from bayeseval.comparison.splits import Splits, split_records
from bayeseval.comparison.two_way import TWO_WAY, cross_validated_sd, two_way_means
from bayeseval.design import Design
from bayeseval.engines import cores_of
from bayeseval.engines._likelihood import observed
from bayeseval.errors import BayesevalError, InputError, argument, wording
from bayeseval.estimands import read_arrays
from bayeseval.estimands.cell_noise import read_measurement_noise
from bayeseval.estimands.cell_scores import AskedCells, PredictedCells, predict_cells
from bayeseval.fitting.covariates import CovariateSource, covariate_at_cells
from bayeseval.fitting.fitted import Fit
from bayeseval.fitting.gate import Gate
from bayeseval.fitting.prepared import Prepared, prepare
from bayeseval.fitting.provenance import provenance, sampling_path
from bayeseval.fitting.relations import new_levels
from bayeseval.output._kept import Kept, folder_of, frame_from_json, frame_to_json, work_folder
from bayeseval.output._locks import alone_in
from bayeseval.records import PairSource, Records, average_over_others, reduce_replicates
from bayeseval.spec import load_spec

if TYPE_CHECKING:
    from typing import Any

    from bayeseval._typing import Progress

__all__ = [
    "REPEATS",
    "MeasuredCells",
    "PreparedHoldout",
    "measured_cells",
    "measured_values",
    "prepare_holdout",
]

#: Repeats that are done without being asked for.
REPEATS: Final = 5
# All splits and designs are made, and refused, before the first fit.
_MOST_REPEATS: Final = 200


class MeasuredCells(NamedTuple):
    """Cells of the table, as a model reads them; each array has one entry per cell.

    `value` is what the likelihood is of, and `log_units` turns its log density into one of the
    score.
    """

    score: Floats
    value: Floats
    log_units: Floats
    n_items: Floats
    se: Floats
    n_seeds: Floats
    n_prompts: Floats


class _Shared(NamedTuple):
    """What all fits share, by model or by repeat.

    The fits without what is left out are prepared again where they run: whole tables are
    larger than what says which of their records are left out.
    """

    fits: tuple[Prepared, ...]
    cells: tuple[MeasuredCells, ...]
    held: tuple[Bools, ...]
    rows: tuple[Index, ...]


class _Task(NamedTuple):
    """One fit, and the cells of the table that it does without."""

    whole: Design
    cells: MeasuredCells
    training: Prepared
    rows: Index


class _Predicted(NamedTuple):
    scores: pd.DataFrame
    gate: Gate
    sampling: dict[str, str]

    def to_json(self) -> dict[str, Any]:
        gate, scores = self.gate.to_dict(), frame_to_json(self.scores)
        return {"scores": scores, "gate": gate, "sampling": dict(self.sampling)}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> _Predicted:
        scores, gate = frame_from_json(value["scores"]), Gate.from_dict(value["gate"])
        return cls(scores, gate, dict(value["sampling"]))


@dataclass(frozen=True, eq=False)
class PreparedHoldout:
    """Fits without the scores left out, before any of them is made.

    Attributes
    ----------
    fits : tuple of Prepared
        Of the whole table, one for each model; they are not run.
    splits : Splits
        What each repeat leaves out.
    by : str
        What is left out together.
    share : float
        Share of it that each repeat leaves out.
    """

    fits: tuple[Prepared, ...]
    splits: Splits
    by: names.LeftOut
    share: float

    @property
    def repeats(self) -> int:
        """Number of repeats."""
        return len(self.splits.held)

    @property
    def identity(self) -> dict[str, Any]:
        """What :meth:`HeldOut.save` will write of the identity."""
        runs = [one.identity for one in self.fits]
        return holdout_identity(runs, by=self.by, share=self.share, repeats=self.repeats)

    @property
    def default_folder(self) -> Path:
        """Folder named after the inputs, under ``results/`` of the working directory."""
        from bayeseval.fitting.report.folder import default_folder

        first = self.fits[0]
        asked = ["by", self.by, f"holdout{self.share:g}", f"repeats{self.repeats}"]
        called = "-".join([*(model_name(one) for one in self.fits), *asked])
        return default_folder(first.records.name, called, "compare", first.settings.seed)

    def run(
        self,
        *,
        jobs: int | None = None,
        dask: str | None = None,
        work: str | Path | None = None,
        progress: Progress | None = None,
    ) -> HeldOut:
        """Make all fits, and score their predictions beside those of two-way means.

        Parameters
        ----------
        jobs, dask, work, progress
            As for :func:`bayeseval.compare`.

        Returns
        -------
        HeldOut
            Without a warning when the gate of a fit failed: that is for the caller to say.
        """
        cores = max(cores_of(one.engine.name) for one in self.fits)
        at_once = sensible_jobs(jobs, cores_each=cores, dask=dask)
        place = work_folder(work)
        rows = tuple(self._rows(repeat) for repeat in range(self.repeats))
        cells = tuple(measured_cells(whole) for whole in self.fits)
        # All models of a repeat together: the first repeat says how long the others take.
        tasks = [(i, repeat) for repeat in range(self.repeats) for i in range(len(self.fits))]
        labels = [
            f"{model_name(one)}, repeat {repeat + 1} of {self.repeats}"
            for repeat in range(self.repeats)
            for one in self.fits
        ]
        kept = None if place is None else self._kept(self.kept_in(place), labels)
        with nullcontext() if kept is None else alone_in(kept.folder):
            done = run_all(
                _predict,
                tasks,
                shared=_Shared(self.fits, cells, tuple(self.splits.held), rows),
                jobs=at_once,
                stage="fitting without the scores left out",
                progress=progress or (lambda stage, done, total, remark: None),
                labels=labels,
                keep=None if kept is None else kept.store,
                done=None if kept is None else kept.find(),
            )
        by_model = {model_name(one): done[i :: len(self.fits)] for i, one in enumerate(self.fits)}
        gates = {name: tuple(one.gate for one in several) for name, several in by_model.items()}
        parts = {name: [one.scores for one in several] for name, several in by_model.items()}
        predictions = pd.concat(
            [
                self._labelled(spec, repeat, rows[repeat], scores)
                for spec, several in (parts | {TWO_WAY: self._two_way(rows)}).items()
                for repeat, scores in enumerate(several)
            ],
            ignore_index=True,
        )
        table = main_table(predictions, gates)
        first = self.fits[0]
        verdict = list(sentences(table, gates, first.records.units, what=self.splits.what))
        left_out = np.concatenate(rows)
        moved = moved_scores({model_name(one): one.design for one in self.fits})
        if moved is not None and moved.any[left_out].any():
            verdict.append(moved.sentence_on_predictions(left_out))
        return HeldOut(
            table=table,
            predictions=predictions,
            verdict=tuple(verdict),
            by=self.by,
            what=self.splits.what,
            share=self.share,
            repeats=self.repeats,
            gates=gates,
            run=self._run(by_model),
        )

    def kept_in(self, work: Path) -> Path:
        """Folder of the finished fits of this comparison, among those of others."""
        return folder_of(work, self.identity)

    def _kept(self, folder: Path, labels: Sequence[str]) -> Kept[_Predicted]:
        return Kept(folder, tuple(labels), _Predicted.to_json, _Predicted.from_json)

    def _rows(self, repeat: int) -> Index:
        """Cells that a repeat leaves out, by position in the designs of the whole table."""
        return np.flatnonzero(self.splits.held[repeat][self._first])

    @cached_property
    def _first(self) -> Index:
        """First record of every cell of the designs."""
        return reduce_replicates(self.fits[0].records).first

    def _labelled(self, spec: str, repeat: int, rows: Index, scores: pd.DataFrame) -> pd.DataFrame:
        design = self.fits[0].design
        labels = {
            factor: np.array(design.coords[factor], dtype=object)[design.factor_index[factor][rows]]
            for factor in (names.MODEL, names.LANGUAGE, names.TASK)
        }
        start = {"spec": spec, "repeat": repeat + 1, **labels}
        unit, score = self.splits.unit[self._first[rows]], design.score[rows]
        return pd.DataFrame(start | {"unit": unit, "score": score}).join(scores)

    def _two_way(self, rows: Sequence[Index]) -> list[pd.DataFrame]:
        """Scores of two-way means, whose normal noise is found by cross-validation."""
        design, unit = self.fits[0].design, self.splits.unit[self._first]
        codes: dict[str, Index] = {f: design.factor_index[f] for f in names.FACTORS}
        scores = []
        for repeat, out in enumerate(rows):
            kept = np.setdiff1d(np.arange(design.n_records), out)
            left = {factor: own[kept] for factor, own in codes.items()}
            mean = two_way_means(
                left, design.score[kept], {factor: own[out] for factor, own in codes.items()}
            )
            rng = generator(self.fits[0].settings.seed, f"holdout {repeat}: two-way means")
            sd = cross_validated_sd(left, design.score[kept], unit[kept], rng=rng)
            scores.append(normal_scores(mean, sd, design.score[out]))
        return scores

    def _run(self, done: dict[str, list[_Predicted]]) -> dict[str, Any]:
        """Provenance of the whole table and of all fits."""
        runs = [
            provenance(
                one.records,
                one.design,
                done[model_name(one)][0].gate,
                covariates=one.covariates,
                engine=one.engine.name,
                settings=one.settings,
            )
            for one in self.fits
        ]
        kept = ("benchmark", "citations", "levels", "n_records", "language_names")
        return {
            **{key: runs[0][key] for key in kept},
            "covariates": {k: v for run in runs for k, v in run["covariates"].items()},
            **self.identity,
            "models": {model_name(one): one.engine.name for one in self.fits},
            "samplers": {
                f"{name}, repeat {repeat + 1}": one.sampling
                for name, several in done.items()
                for repeat, one in enumerate(several)
                if one.sampling
            },
        }


def prepare_holdout(
    records: Records,
    specs: SpecSource | Sequence[SpecSource],
    *,
    holdout: float,
    repeats: int | None = None,
    by: names.LeftOut = "record",
    engine: str = "auto",
    seed: int = 0,
    covariate: CovariateSource = None,
    pairs: PairSource = "any",
) -> PreparedHoldout:
    """Decide everything about predictions of left-out scores that can be known before any fit.

    Parameters
    ----------
    records : Records
        The table.
    specs, holdout, repeats, by, engine, seed, covariate, pairs
        As for :func:`bayeseval.compare`.

    Raises
    ------
    InputError
        If so much cannot be left out, or a model cannot be fitted to what is left.
    """
    check_asked(by, holdout=holdout)
    share = as_number(argument("holdout"), holdout)
    if not 0.0 < share < 1.0:
        raise InputError(
            f"{argument('holdout')} is the share of the scores to leave out, more than 0 and less "
            f"than 1, as in 0.3; got {share:g}"
        )
    n = REPEATS if repeats is None else as_whole_number(argument("repeats"), repeats, least=1)
    if n > _MOST_REPEATS:
        raise InputError(f"{argument('repeats')} must be at most {_MOST_REPEATS}, got {n}")
    wholes = prepare_models(
        records, specs, engine=engine, seed=seed, covariate=covariate, pairs=pairs
    )
    for one in wholes:
        _check_population(one, by)
    splits = split_records(records, share, by=by, repeats=n, seed=seed)
    for repeat, held in enumerate(splits.held):
        for one in wholes:
            # What cannot be fitted is refused before the first fit.
            _prepared(one, held, repeat)
    return PreparedHoldout(wholes, splits, by, share)


def _check_population(fit: Prepared, by: names.LeftOut) -> None:
    """Refuse levels that are left out of a model that has no population of them."""
    if by != names.RECORD and names.sd_name(by) not in fit.design.priors:
        raise InputError(
            f"{model_name(fit)} has fixed {by} effects, which do not predict scores of a {by} that "
            f"was left out; leave {model_name(fit)} out, or "
            + wording("choose by='record'", "choose --by record")
        )


def _prepared(whole: Prepared, held: Bools, repeat: int) -> Prepared:
    """The same model and engine on what a repeat leaves."""
    try:
        return prepare(
            whole.records.subset(~held, name=whole.records.name),
            whole.model.spec,
            engine=whole.engine.name,
            settings=whole.settings,
            covariate=whole.covariates or None,
        )
    except BayesevalError as error:
        raise InputError(
            f"{model_name(whole)} without the scores that repeat {repeat + 1} leaves out: {error}; "
            f"give a smaller {argument('holdout')}, or another {argument('seed')}"
        ) from error


def measured_values(design: Design) -> Floats:
    """What the likelihood of each cell's task is of: scores, logits of shares, shares or counts.

    Parameters
    ----------
    design : Design
        The model and its table.

    Returns
    -------
    ndarray, shape (n_records,)
    """
    value = np.empty(design.n_records)
    for family in design.outcome.families:
        value[design.outcome.rows(family)] = observed(design, family)
    return value


def measured_cells(fit: Prepared) -> MeasuredCells:
    """What was measured in every cell, and with how much noise, as the model reads it.

    Parameters
    ----------
    fit : Prepared
        Of the whole table.
    """
    design = fit.design
    cells = reduce_replicates(average_over_others(fit.records, design.spec.sources)[0])
    return MeasuredCells(
        score=design.score,
        value=measured_values(design),
        log_units=design.outcome.log_units,
        n_items=cells.n_items,
        # Standard errors that the model does not take are part of its residuals.
        se=design.known_sds.get("se", np.full(design.n_records, np.nan)),
        n_seeds=np.where(cells.n_seeds > 0, cells.n_seeds, np.nan),
        n_prompts=cells.n_prompts,
    )


def _predict(shared: _Shared, asked: tuple[int, int], beat: Progress | None) -> _Predicted:
    """Fit what a repeat leaves with one of the models, and score the predictions of the rest."""
    model, repeat = asked
    whole = shared.fits[model]
    training = _prepared(whole, shared.held[repeat], repeat)
    task = _Task(whole.design, shared.cells[model], training, shared.rows[repeat])
    fitted = task.training.run(beat, estimands=False)
    cells = task.cells
    low, high = limits_of(task.whole)
    scores = []
    places = []
    for block in _blocks(task, fitted):
        rows = task.rows[block.cells]
        # There is one, because `_blocks` gives what was measured.
        density = np.asarray(block.log_density, dtype=np.float64) + cells.log_units[rows]
        limits = low[rows], high[rows]
        scores.append(sampled_scores(block.measurement, density, cells.score[rows], limits))
        places.append(block.cells)
    table = pd.concat(scores, ignore_index=True)
    table = table.iloc[np.argsort(np.concatenate(places), kind="stable")].reset_index(drop=True)
    return _Predicted(table, fitted.gate, sampling_path(fitted.run))


def _blocks(task: _Task, fitted: Fit) -> Iterator[PredictedCells]:
    """Predictions of the cells that were left out."""
    data, run, rows = fitted.data, fitted.run, task.rows
    arrays, spec = read_arrays(data), load_spec(dict(run["spec"]))
    labels = {
        factor: tuple(task.whole.coords[factor][i] for i in index[rows])
        for factor, index in task.whole.factor_index.items()
    }
    covariates = {}
    for slope in arrays.slopes:
        given = next(one for one in task.training.covariates if one.name == slope.name)
        values = covariate_at_cells(data, run, spec, slope.name, given, arrays, labels, [])
        if values is not None:
            covariates[slope.name] = values
    asked = AskedCells(
        labels=labels,
        covariates=covariates,
        n_items=task.cells.n_items[rows],
        se=task.cells.se[rows],
        n_seeds=task.cells.n_seeds[rows],
        n_prompts=task.cells.n_prompts[rows],
        observed=task.cells.value[rows],
        related=new_levels(data, run, spec, task.training.covariates, arrays, labels, []),
    )
    return predict_cells(arrays, asked, read_measurement_noise(data, arrays), seed=run["seed"])
