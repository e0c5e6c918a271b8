"""Predictions of cells: read which are asked for, and put what is predicted in a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pandas as pd

from bayeseval import names
from bayeseval._arguments import as_path, as_texts
from bayeseval._special import refuse_special
from bayeseval._text import counted, shorten
from bayeseval._typing import Floats, Index
from bayeseval.errors import InputError, did_you_mean, wording
from bayeseval.estimands import read_arrays
from bayeseval.estimands.arrays import interval_summaries
from bayeseval.estimands.cell_noise import read_measurement_noise
from bayeseval.estimands.cell_scores import AskedCells, PredictedCells, predict_cells
from bayeseval.estimands.frames import summary_columns
from bayeseval.fitting.covariates import CovariateSource, stored_covariate
from bayeseval.fitting.fitted import check_posterior
from bayeseval.fitting.gate import GATE_FAILED, Gate
from bayeseval.languages.labels import same_language
from bayeseval.languages.matching import match
from bayeseval.readers.raw import RawTable, make_table
from bayeseval.readers.tabular import read_table
from bayeseval.records.cells import clean_labels, parse_numbers
from bayeseval.spec import ModelSpec, load_spec

if TYPE_CHECKING:
    import xarray as xr

    from bayeseval.estimands.container import PosteriorArrays

__all__ = ["CellSource", "Predictions", "covariate_at_cells", "prepare_predictions"]

CellSource = pd.DataFrame | str | Path

# Columns of a new measurement, with the least value of each.
_NUMBERS: Final[Mapping[str, float]] = {"n": 1.0, "se": 0.0, "seeds": 1.0}
_COLUMNS: Final = "the cells are a table with the columns model, language and task"


@dataclass(frozen=True, eq=False)
class Predictions:
    """Cells that are asked for of a fit, ready to be predicted.

    Attributes
    ----------
    arrays : PosteriorArrays
    cells : AskedCells
    data : DataTree
        That of the fit.
    seed : int
        That of the fit.
    numbers : dict of str to ndarray
        Columns of a new measurement that were given.
    notes : tuple of str
        How the cells were read.
    """

    arrays: PosteriorArrays
    cells: AskedCells
    data: xr.DataTree
    seed: int
    numbers: Mapping[str, Floats]
    notes: tuple[str, ...]

    def blocks(self) -> Iterator[PredictedCells]:
        """Predict the cells, some at a time."""
        noise = read_measurement_noise(self.data, self.arrays)
        return predict_cells(self.arrays, self.cells, noise, seed=self.seed)

    def table(self, *, ci_prob: float) -> pd.DataFrame:
        """Means and intervals in the order of the cells."""
        n = self.cells.n_cells
        columns = {
            name: np.full(n, np.nan)
            for name in (
                *(f"expected_{part}" for part in ("mean", "sd", "lower", "upper")),
                *(f"measurement_{part}" for part in ("lower", "upper")),
            )
        }
        for block in self.blocks():
            (expected,) = interval_summaries(block.expected, [ci_prob])
            (measured,) = interval_summaries(block.measurement, [ci_prob])
            found = summary_columns("expected", expected) | {
                "measurement_lower": measured.lower,
                "measurement_upper": measured.upper,
            }
            for name, values in found.items():
                columns[name][block.cells] = values
        return pd.DataFrame(
            {factor: list(self.cells.labels[factor]) for factor in _ORDER}
            | dict(self.numbers)
            | {"n_records": self._n_records(), "new": self._new()}
            | columns
        )

    def draws(self) -> xr.Dataset:
        """All draws, in the order of the cells."""
        import xarray as xr

        arrays, n = self.arrays, self.cells.n_cells
        values = {name: np.empty((arrays.n_samples, n)) for name in ("expected", "measurement")}
        for block in self.blocks():
            for name, whole in values.items():
                whole[:, block.cells] = getattr(block, name)
        shape = (arrays.n_chains, arrays.n_draws, n)
        return xr.Dataset(
            {n: (("chain", "draw", "cell"), whole.reshape(shape)) for n, whole in values.items()},
            coords={
                "chain": np.arange(arrays.n_chains),
                "draw": np.arange(arrays.n_draws),
                "cell": np.arange(n),
                **{f: ("cell", np.array(self.cells.labels[f], dtype=str)) for f in _ORDER},
            },
        )

    def _n_records(self) -> Index:
        """Number of records of every cell."""
        arrays = self.arrays
        levels = [
            np.array(arrays.levels[f], dtype=object)[arrays.index[f]].tolist() for f in _ORDER
        ]
        count = pd.Series(list(zip(*levels, strict=True))).value_counts()
        asked = zip(*(self.cells.labels[f] for f in _ORDER), strict=True)
        return np.array([int(count.get(cell, 0)) for cell in asked], dtype=np.int64)

    def _new(self) -> list[str]:
        """Which factors' levels are not in the table, cell by cell."""
        own = {factor: set(self.arrays.levels[factor]) for factor in _ORDER}
        cells = zip(*(self.cells.labels[f] for f in _ORDER), strict=True)
        return [
            ", ".join(f for f, label in zip(_ORDER, cell, strict=True) if label not in own[f])
            for cell in cells
        ]


_ORDER: Final = (names.MODEL, names.LANGUAGE, names.TASK)


def prepare_predictions(
    data: xr.DataTree,
    run: Mapping[str, Any],
    cells: CellSource,
    *,
    new: str | Sequence[str] = (),
    covariate: CovariateSource = None,
) -> Predictions:
    """Read which cells are asked for, and refuse those that cannot be predicted.

    Parameters
    ----------
    data, run : DataTree, mapping
        Those of the fit.
    cells : DataFrame, str or Path
        The cells or their file.
    new : str or sequence of str
        Factors whose labels need not be in the table.
    covariate : Covariate, sequence of Covariate, str or Path, optional
        Values of languages without records; when left out, those of the fit.

    Raises
    ------
    InputError
        With the row and the column of what is wrong.
    """
    check_posterior(str(run["engine"]), "predict")
    arrays, spec = read_arrays(data), load_spec(dict(run["spec"]))
    allowed = as_texts("new", new, of="factors")
    for factor in allowed:
        if factor not in names.FACTORS:
            raise InputError(
                f"{wording('new', '--new')} is language, task or model, got {factor!r}"
                f"{did_you_mean(factor, names.FACTORS)}"
            )
    table = _table(cells)
    for factor in _ORDER:
        if factor not in table.columns and len(arrays.levels[factor]) > 1:
            raise InputError(
                f"{table.source}: no column {factor!r}{did_you_mean(factor, table.columns)}; "
                f"{_COLUMNS}"
            )
    failed = Gate.from_dict(run["gate"]).status == "fail"
    notes: list[str] = [GATE_FAILED] if failed else []
    named = run.get("language_names") or {}
    labels = {factor: _labels(table, factor, arrays, allowed, named, notes) for factor in _ORDER}
    if names.DATASET in arrays.levels:
        labels[names.DATASET] = _datasets(arrays, labels[names.TASK])
    numbers = {
        name: _numbers(table, name, least)
        for name, least in _NUMBERS.items()
        if name in table.columns
    }
    unknown = np.full(len(table), np.nan)
    asked = AskedCells(
        labels=labels,
        covariates={
            slope.name: values
            for slope in arrays.slopes
            if (
                values := covariate_at_cells(
                    data, run, spec, slope.name, covariate, arrays, labels, notes
                )
            )
        },
        n_items=numbers.get("n", unknown),
        se=numbers.get("se", unknown),
        n_seeds=numbers.get("seeds", unknown),
    )
    ready = Predictions(arrays, asked, data, int(run["seed"]), numbers, ())
    notes += _number_notes(ready, table)
    return Predictions(arrays, asked, data, int(run["seed"]), numbers, tuple(notes))


def _table(cells: CellSource) -> RawTable:
    if isinstance(cells, pd.DataFrame):
        given = cells.astype(object).where(cells.notna(), None)
        columns = [(str(name), given[name].to_numpy()) for name in given.columns]
        table = make_table("cells", "row", range(1, len(cells) + 1), columns)
    else:
        path = as_path("cells", cells)
        refuse_special(path)
        if not path.is_file():
            raise InputError(f"{path}: no such file; {_COLUMNS}")
        table = read_table(path)
    if not len(table):
        raise InputError(f"{table.source}: no rows; {_COLUMNS}, one row for each cell")
    return table


def _labels(
    table: RawTable,
    factor: str,
    arrays: PosteriorArrays,
    allowed: Sequence[str],
    named: Mapping[str, str],
    notes: list[str],
) -> tuple[str, ...]:
    """The label of every row; those of the table where they mean the same language."""
    levels = arrays.levels[factor]
    if factor not in table.columns:
        return levels * len(table)
    given = clean_labels(table.columns[factor], table=table, column=factor, name=factor).values
    meant = {label: label for label in levels}
    if factor == names.LANGUAGE:
        read = same_language(given.levels, levels, named)
        notes += [f"language {one!r} is read as {label!r}" for one, label in read.items()]
        meant |= read
    unknown = [i for i, label in enumerate(given.levels) if label not in meant]
    if unknown and factor not in allowed:
        row = int(np.flatnonzero(given.codes == unknown[0])[0])
        known = [*levels, *(named[label] for label in levels if label in named)]
        raise InputError(
            f"{table.at(row, factor)}: {factor} {given[row]!r} is not in the table of the fit"
            f"{did_you_mean(given[row], known)}; correct it, or allow new {factor}s with "
            + wording(f"new={factor!r}", f"--new {factor}")
        )
    if unknown:
        new = [str(given.levels[i]) for i in unknown]
        if factor == names.LANGUAGE:
            # Several codes or names of one new language.
            for place, label in enumerate(new):
                same = same_language([label], [one for one in new[:place] if one not in meant], {})
                notes += [f"language {label!r} is read as {one!r}" for one in same.values()]
                meant |= same
            new = [label for label in new if label not in meant]
        notes.append(f"{counted(len(new), f'new {factor}')}: {shorten(new)}")
    final = [str(meant.get(label, label)) for label in given.levels]
    return tuple(final[code] for code in given.codes)


def _datasets(arrays: PosteriorArrays, tasks: tuple[str, ...]) -> tuple[str, ...]:
    """Dataset of every cell's task; of a new task what stands before its colon."""
    levels = arrays.levels
    known = {
        levels[names.TASK][t]: levels[names.DATASET][d]
        for t, d in zip(arrays.index[names.TASK], arrays.index[names.DATASET], strict=True)
    }
    return tuple(known.get(task, task.rpartition(":")[0] or task) for task in tasks)


def _numbers(table: RawTable, name: str, least: float) -> Floats:
    values = parse_numbers(table.columns[name], table=table, column=name, name=name)
    low = np.flatnonzero(values < least)
    if len(low):
        row = int(low[0])
        raise InputError(
            f"{table.at(row, name)}: {name} is {values[row]:g}; give {least:g} or more, or leave "
            "the cell empty"
        )
    return np.asarray(values)


def _number_notes(ready: Predictions, table: RawTable) -> list[str]:
    """Refuse numbers that the fit's likelihood has no place for; say which are not used."""
    arrays, cells = ready.arrays, ready.cells
    noise = read_measurement_noise(ready.data, arrays)
    if np.isfinite(cells.n_seeds).any() and not {"seed", "seed_boot"} & noise.sd.keys():
        raise InputError(
            f"{table.source}, column 'seeds': the table of the fit has no replicates, so the noise "
            "of seeds is not known apart from the residual; leave the column out"
        )
    place = {label: i for i, label in enumerate(arrays.levels[names.TASK])}
    # A new task has the likelihood and the bounds of all others.
    task = np.array([place.get(label, 0) for label in cells.labels[names.TASK]], dtype=np.int64)
    smooth = arrays.response.tasks_of("score")[task]
    counts = arrays.response.tasks_of("count")[task]
    wrong = np.flatnonzero(np.isfinite(cells.se) & ~smooth)
    if len(wrong):
        raise InputError(
            f"{table.at(int(wrong[0]), 'se')}: the likelihood of task "
            f"{cells.labels[names.TASK][wrong[0]]!r} is not on the score scale and has no standard "
            "errors; leave the cell empty"
        )
    used = counts | noise.uses_items(arrays, task)
    idle = int((np.isfinite(cells.n_items) & ~used & ~np.isfinite(cells.se)).sum())
    if not idle:
        return []
    return [
        f"n is not used for {counted(idle, 'cell')}: the residuals of the fit contain the noise of "
        "test items, or the scale of the scores is not known; se is used"
    ]


def covariate_at_cells(
    data: xr.DataTree,
    run: Mapping[str, Any],
    spec: ModelSpec,
    name: str,
    given: CovariateSource,
    arrays: PosteriorArrays,
    labels: Mapping[str, tuple[str, ...]],
    notes: list[str],
) -> tuple[Floats, Floats] | None:
    """Standardised values and standard errors by cell; None if the fit has all of them."""
    slope = next(one for one in arrays.slopes if one.name == name)
    factors = (names.LANGUAGE, names.MODEL) if slope.by_model else (names.LANGUAGE,)
    if all(set(labels[f]) <= set(arrays.levels[f]) for f in factors):
        return None
    source = stored_covariate(data, run, spec, name, given)
    languages = list(dict.fromkeys(labels[names.LANGUAGE]))
    models = list(dict.fromkeys(labels[names.MODEL]))
    strange = [label for label in languages if label not in source.labels]
    matches = match(strange, source.labels)
    notes += [f"{name}: language {p.a!r} is read as {p.b!r}" for p in matches.pairs if p.a != p.b]
    values, se = source.at([matches.mapping.get(label, label) for label in languages], models)
    term = next(one for one in spec.covariates if one.name == name)
    se = se if term.measurement_error else np.where(np.isnan(values), np.nan, 0.0)
    at_language = [languages.index(label) for label in labels[names.LANGUAGE]]
    at_model = [models.index(label) for label in labels[names.MODEL]]
    at = (at_model, at_language) if slope.by_model else (at_language,)
    x, error = (values[at] - slope.mean) / slope.sd, se[at] / slope.sd
    own = set(arrays.levels[names.LANGUAGE])
    lacking = dict.fromkeys(
        label
        for label, value in zip(labels[names.LANGUAGE], x, strict=True)
        if np.isnan(value) and (label not in own or slope.by_model)
    )
    if lacking:
        notes.append(
            f"{name} has no value for {shorten(lacking)}: predicted for a language drawn from "
            "those of the table"
        )
    return x, error
