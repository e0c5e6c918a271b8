"""Cells that could be measured next: which, how noisy a measurement is, and what it costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pandas as pd

from bayeseval import names
from bayeseval._arguments import as_names
from bayeseval._text import counted, shorten
from bayeseval._typing import Floats, Index
from bayeseval.errors import InputError, argument, did_you_mean, wording
from bayeseval.estimands import read_arrays
from bayeseval.estimands.cell_noise import MeasurementNoise, read_measurement_noise
from bayeseval.estimands.cell_scores import AskedCells, with_new_languages
from bayeseval.estimands.container import PosteriorArrays
from bayeseval.estimands.effects import Effects, read_effects
from bayeseval.estimands.measurement import measurement_variance
from bayeseval.estimands.table_prompts import read_table_prompts
from bayeseval.fitting.covariates import CovariateSource
from bayeseval.fitting.predictions import (
    CellSource,
    input_table,
    near_label,
    prepare_predictions,
)
from bayeseval.planning.container import LEAST_COST, MOST_COST, Costs
from bayeseval.records.cells import clean_labels, parse_numbers, read_label

if TYPE_CHECKING:
    from bayeseval.fitting.fitted import Fit

__all__ = ["Candidates", "read_candidates"]

_ORDER: Final = (names.MODEL, names.LANGUAGE, names.TASK)
_COSTS: Final = "costs are a table with the column cost and one or more of model, language and task"


@dataclass(frozen=True, eq=False)
class Candidates:
    """Cells without records that could be measured.

    Attributes
    ----------
    effects : Effects
        Of the fit, with those of languages without records.
    place : dict of str to ndarray of int, shape (n_cells,)
        Level of each cell under each factor.
    noise : ndarray, shape (n_cells,)
        Variance of the noise of a new measurement.
    cost : ndarray, shape (n_cells,)
        What a cell costs beside what is paid once.
    once : tuple of (float, ndarray of int)
        Costs paid by the first cell of each group, and the group of each cell; -1 for none.
    notes : tuple of str
    """

    effects: Effects
    place: Mapping[str, Index]
    noise: Floats
    cost: Floats
    once: tuple[tuple[float, Index], ...]
    notes: tuple[str, ...]

    @property
    def n(self) -> int:
        """Number of cells."""
        return len(self.noise)

    def labels(self, factor: str) -> list[str]:
        """Label of every cell under a factor."""
        levels = self.effects.arrays.levels[factor]
        return [levels[i] for i in self.place[factor]]

    def costs(self, measured: Sequence[int] | Index) -> Floats:
        """What each cell costs when some are measured already, shape (n_cells,)."""
        total = self.cost.copy()
        done = np.asarray(measured, dtype=np.int64)
        for cost, group in self.once:
            total += cost * ((group >= 0) & ~np.isin(group, group[done]))
        return total

    def costs_in_order(self, order: Index) -> Floats:
        """What each cell of an order costs, those before it being measured."""
        total = self.cost[order].copy()
        for cost, group in self.once:
            first = np.zeros(len(order), dtype=np.bool_)
            first[np.unique(group[order], return_index=True)[1]] = True
            total += cost * (first & (group[order] >= 0))
        return total


def read_candidates(
    fit: Fit,
    cells: CellSource | None,
    *,
    languages: str | Sequence[str] | None,
    covariate: CovariateSource,
    cost: CellSource | None,
    costs: Costs,
    test_size: float | None,
) -> Candidates:
    """Read which cells may be measured, and what is known of their measurements.

    Parameters
    ----------
    fit : Fit
    cells : DataFrame, str, Path or None
        By default the cells without records whose language and task some model was tested on,
        and all cells of `languages`.
    languages : str or sequence of str, optional
        Languages without records; in one text, separated by commas.
    covariate : Covariate, sequence of Covariate, str or Path, optional
        Their values.
    cost : DataFrame, str or Path, optional
        Costs by model, language or task.
    costs : Costs
        What a cell costs otherwise, and what is paid once.
    test_size : float, optional
        Items of a test set.

    Raises
    ------
    InputError
        If a label is not known or no cell is left.
    """
    arrays, notes = read_arrays(fit.data), list[str]()
    noise = read_measurement_noise(fit.data, arrays)
    wide = _with_languages(fit, arrays, noise, languages, covariate, notes)
    if cells is None:
        place, given = _default_cells(arrays, wide), None
    else:
        place, given = _given_cells(fit, wide, cells, covariate, notes)
    shape = tuple(len(wide.levels[f]) for f in _ORDER)
    measured = np.ravel_multi_index(tuple(arrays.index[f] for f in _ORDER), shape)
    new = ~np.isin(np.ravel_multi_index(tuple(place[f] for f in _ORDER), shape), measured)
    if cells is not None and not new.all():
        notes.append(f"{counted(int((~new).sum()), 'cell')} left out, which have records already")
    if not new.any():
        raise InputError(
            "no cell is left to measure: all have records; "
            + wording("bayeseval.plan", "bayeseval plan")
            + " compares designs of more languages, tasks or seeds; to choose among other cells, "
            "name them with " + wording("cells or languages", "--cells or --languages")
        )
    place = {factor: codes[new] for factor, codes in place.items()}
    given = None if given is None else given.take(np.flatnonzero(new))
    prompts = read_table_prompts(fit.data, wide)
    notes += [
        _note_of_own(source) if prompts is None else _note_of_shared(source)
        for source in names.SHARED_SOURCES
        if source in noise.sd
    ]
    effects = read_effects(wide, seed=int(fit.run["seed"]), prompts=prompts)
    each = _given_costs(wide, place, cost)
    return Candidates(
        effects=effects,
        place=place,
        noise=measurement_variance(effects, noise, place, given),
        cost=costs.item * (test_size or 1.0) + np.zeros(int(new.sum())) if each is None else each,
        once=_paid_once(arrays, place, costs),
        notes=tuple(dict.fromkeys(notes)),
    )


def _note_of_shared(source: str) -> str:
    return (
        f"every measurement counts as one with the {source}s that the model has on the task, or "
        f"with all {source}s of the task if it has none there; what they do to all models cancels "
        "in differences between models"
    )


def _note_of_own(source: str) -> str:
    return (
        f"every measurement counts as one with a {source} of its own; with the same {source}s, "
        "differences between models gain more than listed, as part of this noise cancels in them, "
        "and potentials and expected scores less, as it does not average out"
    )


def _with_languages(
    fit: Fit,
    arrays: PosteriorArrays,
    noise: MeasurementNoise,
    languages: str | Sequence[str] | None,
    covariate: CovariateSource,
    notes: list[str],
) -> PosteriorArrays:
    """The posterior with languages that the table lacks."""
    asked = as_names(argument("languages"), languages or (), of="languages")
    for problem in filter(None, (read_label(one)[1] for one in asked)):
        raise InputError(f"{argument('languages')}: a language {problem}")
    if not asked:
        if covariate is not None:
            raise InputError(
                f"{argument('covariate')} has the values of languages without records; name them "
                f"with {argument('languages')}"
            )
        return arrays
    models, task = arrays.levels[names.MODEL], arrays.levels[names.TASK][0]
    grid = pd.DataFrame(
        [(model, language, task) for language in asked for model in models], columns=list(_ORDER)
    )
    ready = prepare_predictions(fit.data, fit.run, grid, new=names.LANGUAGE, covariate=covariate)
    notes += ready.notes
    own, labels = set(arrays.levels[names.LANGUAGE]), ready.cells.labels[names.LANGUAGE]
    known = [label for label in dict.fromkeys(labels) if label in own]
    if known:
        has, is_ = ("has", "is a candidate") if len(known) == 1 else ("have", "are candidates")
        notes.append(f"{shorten(known)} {has} records and {is_} without being named")
    rows = np.flatnonzero(np.array([label not in own for label in labels]))
    if not len(rows):
        return arrays
    return with_new_languages(arrays, ready.cells.take(rows), noise, seed=int(fit.run["seed"]))


def _default_cells(arrays: PosteriorArrays, wide: PosteriorArrays) -> dict[str, Index]:
    """Every model on the pairs of the table, and on all tasks in languages without records."""
    n_models, n_languages, n_tasks = (len(wide.levels[f]) for f in _ORDER)
    n_own = len(arrays.levels[names.LANGUAGE])
    language, task = np.indices((n_languages - n_own, n_tasks)).reshape(2, -1)
    language = np.concatenate([arrays.pairs.language, n_own + language])
    task = np.concatenate([arrays.pairs.task, task])
    return {
        names.MODEL: np.repeat(np.arange(n_models), len(task)),
        names.LANGUAGE: np.tile(language, n_models),
        names.TASK: np.tile(task, n_models),
    }


def _given_cells(
    fit: Fit,
    wide: PosteriorArrays,
    cells: CellSource,
    covariate: CovariateSource,
    notes: list[str],
) -> tuple[dict[str, Index], AskedCells]:
    """The cells of a file, once each."""
    ready = prepare_predictions(fit.data, fit.run, cells, new=_ORDER, covariate=covariate)
    given, place = ready.cells, {}
    for factor in _ORDER:
        position = {label: i for i, label in enumerate(wide.levels[factor])}
        unknown = next((one for one in given.labels[factor] if one not in position), None)
        if unknown is not None:
            named = argument("languages")
            more = f", or name it in {named}" if factor == names.LANGUAGE else ""
            raise InputError(
                f"{argument('cells')}: {factor} {unknown!r} is not in the table of the fit"
                f"{near_label(factor, unknown, [*position])}; correct it{more}"
            )
        place[factor] = np.array([position[one] for one in given.labels[factor]], dtype=np.int64)
    cell = pd.DataFrame(place)
    if cell.duplicated().any():
        row = int(np.flatnonzero(cell.duplicated().to_numpy())[0])
        label = names.cell_label(*(given.labels[factor][row] for factor in _ORDER))
        raise InputError(f"{argument('cells')}: {label} is given twice with different numbers")
    notes += [note for note in ready.notes if note.split(":")[0].partition(" ")[2] != "new"]
    return place, given


def _given_costs(
    arrays: PosteriorArrays, place: Mapping[str, Index], cost: CellSource | None
) -> Floats | None:
    """Cost of every cell from a table of costs; None without one."""
    if cost is None:
        return None
    table = input_table(cost, argument("cost"), _COSTS)
    factors = [factor for factor in _ORDER if factor in table.columns]
    if "cost" not in table.columns or not factors:
        missing = "cost" if "cost" not in table.columns else "model, language or task"
        hint = did_you_mean(missing, table.columns) if missing == "cost" else ""
        raise InputError(f"{table.source}: no column {missing}{hint}; {_COSTS}")
    values = parse_numbers(table.columns["cost"], table=table, column="cost", name="cost")
    wrong = np.flatnonzero(~((values >= LEAST_COST) & (values <= MOST_COST)))
    if len(wrong):
        row = int(wrong[0])
        raise InputError(
            f"{table.at(row, 'cost')}: a cost is a number from {LEAST_COST:g} to {MOST_COST:g}"
        )
    known: dict[tuple[int, ...], float] = {}
    columns = []
    for factor in factors:
        given = clean_labels(table.columns[factor], table=table, column=factor, name=factor).values
        position = {label: i for i, label in enumerate(arrays.levels[factor])}
        for i, label in enumerate(given.levels):
            if label not in position:
                row = int(np.flatnonzero(given.codes == i)[0])
                raise InputError(
                    f"{table.at(row, factor)}: {factor} {label!r} is not in the table of the fit"
                    f"{near_label(factor, label, [*position])}; correct it, or leave the row out"
                )
        columns.append([position[given[row]] for row in range(len(table))])
    for row, key in enumerate(zip(*columns, strict=True)):
        if known.setdefault(key, float(values[row])) != values[row]:
            raise InputError(f"{table.at(row, 'cost')}: a second cost of the same cells")
    keys = list(zip(*(place[factor].tolist() for factor in factors), strict=True))
    lacking = next((key for key in keys if key not in known), None)
    if lacking is not None:
        label = ", ".join(
            f"{f} {arrays.levels[f][i]!r}" for f, i in zip(factors, lacking, strict=True)
        )
        raise InputError(f"{table.source}: no cost of {label}; every cell needs one")
    return np.array([known[key] for key in keys])


def _paid_once(
    arrays: PosteriorArrays, place: Mapping[str, Index], costs: Costs
) -> tuple[tuple[float, Index], ...]:
    """A language without records is set up once; a model runs once on a task without records."""
    once = []
    if costs.language:
        new = place[names.LANGUAGE] >= len(arrays.levels[names.LANGUAGE])
        once.append((costs.language, np.where(new, place[names.LANGUAGE], -1)))
    if costs.seed:
        n_tasks = len(arrays.levels[names.TASK])
        run = arrays.index[names.MODEL] * n_tasks + arrays.index[names.TASK]
        group = place[names.MODEL] * n_tasks + place[names.TASK]
        once.append((costs.seed, np.where(np.isin(group, run), -1, group)))
    return tuple(once)
