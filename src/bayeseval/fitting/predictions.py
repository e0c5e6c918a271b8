"""Predictions of cells: read which are asked for, and put what is predicted in a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pandas as pd

from bayeseval import names
from bayeseval._arguments import as_path, as_texts
from bayeseval._memory import free_memory
from bayeseval._special import refuse_special
from bayeseval._text import byte_size, counted, grouped, shorten
from bayeseval._typing import Bools, Floats, Index, Progress
from bayeseval.errors import InputError, did_you_mean, wording
from bayeseval.estimands import read_arrays
from bayeseval.estimands.arrays import interval_summaries
from bayeseval.estimands.cell_noise import MeasurementNoise, read_measurement_noise
from bayeseval.estimands.cell_scores import AskedCells, predict_cells
from bayeseval.estimands.frames import summary_columns
from bayeseval.fitting.covariates import CovariateSource, covariate_at_cells, wanted_covariates
from bayeseval.fitting.fitted import check_posterior
from bayeseval.fitting.gate import GATE_FAILED, Gate
from bayeseval.fitting.outside import outside_notes
from bayeseval.fitting.relations import new_levels
from bayeseval.fitting.views import labelled
from bayeseval.languages.labels import meant_or_near, one_label_each, same_language
from bayeseval.languages.matching import with_names
from bayeseval.output.language_names import add_language_names
from bayeseval.readers.raw import RawTable, make_table
from bayeseval.readers.tabular import read_table
from bayeseval.records.cells import clean_labels, parse_numbers
from bayeseval.records.coded import Coded
from bayeseval.records.look_alikes import same_names
from bayeseval.spec import load_spec

if TYPE_CHECKING:
    import xarray as xr

    from bayeseval.estimands.container import PosteriorArrays

__all__ = [
    "CellSource",
    "Predictions",
    "input_table",
    "near_label",
    "prepare_predictions",
]

CellSource = pd.DataFrame | str | Path

# Columns of a new measurement, with the least and the greatest value of each: numbers of items
# are drawn from, and the squares of standard errors are added.
_NUMBERS: Final = {"n": (1.0, 1e9), "se": (0.0, 1e100), "seeds": (1.0, 1e9)}
_COLUMNS: Final = "the cells are a table with the columns model, language and task"


@dataclass(frozen=True, eq=False)
class Predictions:
    """Cells that are asked for of a fit, ready to be predicted.

    Attributes
    ----------
    arrays : PosteriorArrays
    cells : AskedCells
        Every cell, or measurement of it with other numbers, once.
    cell_of_row : ndarray of int, shape (n_rows,)
        Which of them each row asks for.
    noise : MeasurementNoise
    run : mapping
        That of the fit.
    numbers : tuple of str
        Columns of a new measurement that were given.
    notes : tuple of str
        How the cells were read.
    """

    arrays: PosteriorArrays
    cells: AskedCells
    cell_of_row: Index
    noise: MeasurementNoise
    run: Mapping[str, Any]
    numbers: tuple[str, ...]
    notes: tuple[str, ...]

    def predict(
        self, *, ci_prob: float, draws: bool = False, progress: Progress | None = None
    ) -> tuple[pd.DataFrame, xr.Dataset | None]:
        """Means and intervals in the order of the rows, and all draws if they are asked for.

        Raises
        ------
        InputError
            If a level cannot be predicted, or the draws take more memory than is free.
        """
        if draws:
            self._refuse_more_than_memory()
        n = self.cells.n_cells
        columns = {name: np.full(n, np.nan) for name in _RESULTS}
        shape = (self.arrays.n_samples, n) if draws else (0, 0)
        kept = {name: np.empty(shape) for name in ("expected", "measurement")}
        done = 0
        for block in predict_cells(self.arrays, self.cells, self.noise, seed=int(self.run["seed"])):
            (expected,) = interval_summaries(block.expected, [ci_prob])
            (measured,) = interval_summaries(block.measurement, [ci_prob])
            found = summary_columns("expected", expected) | {
                "measurement_lower": measured.lower,
                "measurement_upper": measured.upper,
            }
            for name, values in found.items():
                columns[name][block.cells] = values
            for name, whole in kept.items() if draws else ():
                whole[:, block.cells] = getattr(block, name)
            done += len(block.cells)
            if progress is not None:
                progress("predictions", done, n, "")
        table = self._table(columns, ci_prob)
        if not draws:
            return table, None
        notes = list(table.attrs["notes"])
        return table, self._dataset(kept).assign_attrs(gate=table.attrs["gate"], notes=notes)

    def _table(self, columns: dict[str, Floats], ci_prob: float) -> pd.DataFrame:
        labels = self.cells.labels
        narrow = self._repeats_outputs() & (
            columns["measurement_upper"] - columns["measurement_lower"]
            < columns["expected_upper"] - columns["expected_lower"]
        )
        given = {"n": self.cells.n_items, "se": self.cells.se, "seeds": self.cells.n_seeds}
        table = pd.DataFrame(
            {factor: np.array(labels[factor], dtype=object) for factor in _ORDER}
            | {name: given[name] for name in self.numbers}
            | {"n_records": self._n_records(), "new": self._new()}
            | columns
        )
        known = with_names(self.run.get("language_names") or {}, labels[names.LANGUAGE])
        table = add_language_names(table, known, after=names.LANGUAGE)
        table = labelled(table.take(self.cell_of_row).reset_index(drop=True), self.run, ci_prob)
        table.attrs["notes"] = (
            *self.notes,
            *_narrow_notes(int(narrow[self.cell_of_row].sum())),
            *outside_notes(table, self.run.get("bounds") or {}, self.arrays),
        )
        return table

    def _dataset(self, kept: Mapping[str, Floats]) -> xr.Dataset:
        import xarray as xr

        arrays, n = self.arrays, len(self.cell_of_row)
        shape = (arrays.n_chains, arrays.n_draws, n)
        labels = {f: np.array(self.cells.labels[f], dtype=str)[self.cell_of_row] for f in _ORDER}
        return xr.Dataset(
            {
                name: (("chain", "draw", "cell"), whole[:, self.cell_of_row].reshape(shape))
                for name, whole in kept.items()
            },
            coords={
                "chain": np.arange(arrays.n_chains),
                "draw": np.arange(arrays.n_draws),
                "cell": np.arange(n),
                **{factor: ("cell", own) for factor, own in labels.items()},
            },
        )

    def _refuse_more_than_memory(self) -> None:
        """Refuse draws that do not fit into memory, and the copy of them in the order of rows."""
        of_cell = 2 * 2 * 8 * self.arrays.n_samples
        n, free = len(self.cell_of_row), free_memory()
        if free is not None and n * of_cell > free:
            raise InputError(
                f"draws of {grouped(n)} cells take {byte_size(n * of_cell)} of memory, and "
                f"{byte_size(free)} are free; ask for the draws of at most "
                f"{grouped(free // of_cell)} cells at a time, or for the table alone"
            )

    def _n_records(self) -> Index:
        """Number of records of every cell."""
        arrays = self.arrays
        levels = [
            np.array(arrays.levels[f], dtype=object)[arrays.index[f]].tolist() for f in _ORDER
        ]
        count = Counter(zip(*levels, strict=True))
        asked = zip(*(self.cells.labels[f] for f in _ORDER), strict=True)
        return np.array([count[cell] for cell in asked], dtype=np.int64)

    def _new(self) -> list[str]:
        """Which factors' levels are not in the table, cell by cell."""
        own = {factor: set(self.arrays.levels[factor]) for factor in _ORDER}
        cells = zip(*(self.cells.labels[f] for f in _ORDER), strict=True)
        return [
            ", ".join(f for f, label in zip(_ORDER, cell, strict=True) if label not in own[f])
            for cell in cells
        ]

    def _repeats_outputs(self) -> Bools:
        """Cells with measured outputs, if measurements of one set of outputs share a part."""
        term = self.arrays.term(names.SHARED_BY_METRICS)
        if term is None:
            return np.zeros(self.cells.n_cells, dtype=np.bool_)
        factors = names.SHARED_BY_METRICS.split(":")
        levels = [
            np.array(self.arrays.levels[f], dtype=object)[term.members[f]].tolist() for f in factors
        ]
        measured = set(zip(*levels, strict=True))
        asked = zip(*(self.cells.labels[f] for f in factors), strict=True)
        return np.array([cell in measured for cell in asked], dtype=np.bool_)


def _narrow_notes(n_narrow: int) -> list[str]:
    if not n_narrow:
        return []
    return [
        f"the interval of a measurement is narrower than that of the expected score for "
        f"{counted(n_narrow, 'cell')}: outputs of the cell were measured, and a new measurement is "
        "a further metric of the same outputs, whose dataset effect is known better than the "
        "expected score of other outputs"
    ]


_ORDER: Final = (names.MODEL, names.LANGUAGE, names.TASK)
_RESULTS: Final = (
    *(f"expected_{part}" for part in ("mean", "sd", "lower", "upper")),
    *(f"measurement_{part}" for part in ("lower", "upper")),
)


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
        Values of languages and models without records; when left out, those of the fit.

    Raises
    ------
    InputError
        With the row and the column of what is wrong.
    """
    check_posterior(str(run["engine"]), "predict")
    arrays, spec = read_arrays(data), load_spec(dict(run["spec"]))
    if covariate is not None and not wanted_covariates(spec):
        raise InputError(
            f"the model {spec.name} has no covariate, so none can be given; leave out "
            + wording("covariate", "--covariate")
        )
    allowed = as_texts("new", new, of="factors")
    for factor in allowed:
        if factor not in names.FACTORS:
            raise InputError(
                f"{wording('new', '--new')} is language, task or model, got {factor!r}"
                f"{did_you_mean(factor, names.FACTORS)}"
            )
    table = input_table(cells, "cells", _COLUMNS)
    for factor in _ORDER:
        if factor not in table.columns and len(arrays.levels[factor]) > 1:
            raise InputError(
                f"{table.source}: no column {factor!r}{did_you_mean(factor, table.columns)}; "
                f"{_COLUMNS}"
            )
    failed = Gate.from_dict(run["gate"]).status == "fail"
    notes: list[str] = [GATE_FAILED] if failed else []
    notes += _unused_columns(table)
    named = run.get("language_names") or {}
    rows = {factor: _labels(table, factor, arrays, allowed, named, notes) for factor in _ORDER}
    numbers = {
        name: _numbers(table, name, least, most)
        for name, (least, most) in _NUMBERS.items()
        if name in table.columns
    }
    noise = read_measurement_noise(data, arrays)
    first, cell_of_row = _distinct([*(rows[f].codes for f in _ORDER), *numbers.values()])
    labels = {factor: tuple(map(rows[factor].__getitem__, first)) for factor in _ORDER}
    if names.DATASET in arrays.levels:
        labels[names.DATASET] = _datasets(arrays, labels[names.TASK])
    unknown = np.full(len(first), np.nan)
    of_cell = {name: values[first] for name, values in numbers.items()}
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
        n_items=of_cell.get("n", unknown),
        se=of_cell.get("se", unknown),
        n_seeds=of_cell.get("seeds", unknown),
        related=new_levels(data, run, spec, covariate, arrays, labels, notes),
    )
    notes += _number_notes(arrays, asked, noise, table, first)
    return Predictions(arrays, asked, cell_of_row, noise, run, tuple(numbers), tuple(notes))


def _distinct(columns: Sequence[Index | Floats]) -> tuple[Index, Index]:
    """First row of every distinct row, and the position of each row among them."""
    frame = pd.DataFrame(dict(enumerate(columns)))
    groups = frame.groupby(list(frame.columns), sort=False, dropna=False).ngroup().to_numpy()
    return np.unique(groups, return_index=True)[1], groups.astype(np.int64)


def _unused_columns(table: RawTable) -> list[str]:
    unused = [name for name in table.columns if name not in {*_ORDER, *_NUMBERS}]
    if not unused:
        return []
    which = "the column" if len(unused) == 1 else "the columns"
    return [
        f"{which} {shorten(map(repr, unused))} {'is' if len(unused) == 1 else 'are'} not used: "
        f"predictions use {', '.join(_ORDER)}, {', '.join(_NUMBERS)}"
    ]


def input_table(given: CellSource, name: str, needs: str) -> RawTable:
    """Read a table that is given beside a fit; `name` is the argument, `needs` what it must have.

    Raises
    ------
    InputError
        If there is no such file, or it has no rows.
    """
    if isinstance(given, pd.DataFrame):
        cells = given.astype(object).where(given.notna(), None)
        columns = [(str(column), cells[column].to_numpy()) for column in cells.columns]
        table = make_table(name, "row", range(1, len(cells) + 1), columns)
    else:
        path = as_path(name, given)
        refuse_special(path)
        if path.is_dir():
            raise InputError(f"{path}: this is a folder; {needs}, in one file")
        if not path.is_file():
            raise InputError(f"{path}: no such file; {needs}")
        table = read_table(path)
    if not len(table):
        raise InputError(f"{table.source}: no rows; {needs}, one row for each cell")
    return table


def _labels(
    table: RawTable,
    factor: str,
    arrays: PosteriorArrays,
    allowed: Sequence[str],
    named: Mapping[str, str],
    notes: list[str],
) -> Coded:
    """The label of every row; those of the table where they mean the same language."""
    levels = arrays.levels[factor]
    if factor not in table.columns:
        return Coded.constant(levels[0], len(table))
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
            f"{near_label(factor, given[row], known)}; correct it, or allow new {factor}s with "
            + wording(f"new={factor!r}", f"--new {factor}")
        )
    if unknown:
        new = [str(given.levels[i]) for i in unknown]
        if factor == names.LANGUAGE:
            same = one_label_each(new)
            notes += [f"language {label!r} is read as {one!r}" for label, one in same.items()]
            meant |= same
            new = [label for label in new if label not in meant]
        notes.append(f"{counted(len(new), f'new {factor}')}: {shorten(new)}")
        like = [f"{one!r} ({label!r})" for one, label in same_names(new, levels).items()]
        if like:
            notes.append(
                f"{counted(len(like), f'new {factor}')} may be of the table, where another name "
                f"is nearly the same: {shorten(like)}; correct the cells if so"
            )
    return Coded.of(given.codes, (meant.get(label, label) for label in given.levels))


def near_label(factor: str, label: str, known: Sequence[str]) -> str:
    """The label of the table that is nearest, with or without an organisation."""
    if factor == names.LANGUAGE:
        return meant_or_near(label, known)
    same = same_names([label], known)
    return f"; did you mean {same[label]!r}?" if same else did_you_mean(label, known)


def _datasets(arrays: PosteriorArrays, tasks: tuple[str, ...]) -> tuple[str, ...]:
    """Dataset of every cell's task; of a new task what stands before its colon."""
    levels = arrays.levels
    known = {
        levels[names.TASK][t]: levels[names.DATASET][d]
        for t, d in zip(arrays.index[names.TASK], arrays.index[names.DATASET], strict=True)
    }
    return tuple(known.get(task, task.rpartition(":")[0] or task) for task in tasks)


def _numbers(table: RawTable, name: str, least: float, most: float) -> Floats:
    values = parse_numbers(table.columns[name], table=table, column=name, name=name)
    whole = name != "se"
    outside = (values < least) | (values > most)
    wrong = np.flatnonzero(outside | (whole & np.isfinite(values) & (values % 1.0 != 0.0)))
    if len(wrong):
        row = int(wrong[0])
        kind = "a whole number" if whole else "a number"
        raise InputError(
            f"{table.at(row, name)}: {name} is {values[row]:g}; give {kind} from {least:g} to "
            f"{most:g}, or leave the cell empty"
        )
    return np.asarray(values)


def _number_notes(
    arrays: PosteriorArrays,
    cells: AskedCells,
    noise: MeasurementNoise,
    table: RawTable,
    first: Index,
) -> list[str]:
    """Refuse numbers that the fit's likelihood has no place for; say which are not used."""
    if np.isfinite(cells.n_seeds).any() and not {"seed", "seed_boot"} & noise.sd.keys():
        raise InputError(
            f"{table.source}, column 'seeds': the table of the fit has no replicates, so the noise "
            "of seeds is not known apart from the residual; leave the column out"
        )
    place = {label: i for i, label in enumerate(arrays.levels[names.TASK])}
    # A new task has the likelihood and the bounds of all others.
    task = np.array([place.get(label, 0) for label in cells.labels[names.TASK]], dtype=np.int64)
    smooth = arrays.response.has_quantity(task, "score")
    counts = arrays.response.has_quantity(task, "count")
    wrong = np.flatnonzero(np.isfinite(cells.se) & ~smooth)
    if len(wrong):
        raise InputError(
            f"{table.at(int(first[wrong[0]]), 'se')}: the likelihood of task "
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
