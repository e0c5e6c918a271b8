"""Replicates unlike the others of their cell: diverged runs, single seeds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

from bayeseval._text import Caution, Note, counted, grouped, shorten
from bayeseval._typing import Floats
from bayeseval.errors import InputError, setting
from bayeseval.readers.columns import LABELS
from bayeseval.readers.raw import Dropped
from bayeseval.records.coded import combined_key
from bayeseval.records.stack import Stack

__all__ = [
    "DivergedRun",
    "DivergedRuns",
    "diverged_runs",
    "replicate_suspects",
    "single_seed_notes",
]

DivergedRuns = Literal["refuse", "allow", "drop"]

Ints = npt.NDArray[np.int64]

# Normal scores are this far below their median once in 1e23.
_SPREADS: Final = 10.0
# Makes the median absolute deviation of normal scores their standard deviation.
_MAD_TO_SD: Final = 1.4826
_MAX_LISTED: Final = 6


@dataclass(frozen=True, slots=True)
class DivergedRun:
    """A seed whose score is far below that of the cell's other seeds.

    Parameters
    ----------
    rows : array of int
        Its records.
    score : float
        Its mean score.
    message : str
        Place, scores and rule, in one line.
    """

    rows: Ints
    score: float
    message: str


def replicate_suspects(
    stack: Stack,
    codes: Mapping[str, npt.NDArray[np.int64]],
    tasks: tuple[str, ...],
    diverged: DivergedRuns,
) -> tuple[npt.NDArray[np.bool_], list[Dropped], list[Note]]:
    """Rows to keep, what was dropped, and notes of replicates unlike their cell's others.

    Parameters
    ----------
    stack : Stack
        All rows.
    codes : mapping of str to array of int, shape (n_rows,)
        Level of each row by column; -1 where a replicate column says nothing.
    tasks : tuple of str
        Labels of the tasks.
    diverged : {"refuse", "allow", "drop"}
        What to do with a diverged run.

    Raises
    ------
    InputError
        If there is a diverged run and these are refused.
    """
    kept = np.ones(len(stack), dtype=np.bool_)
    if "seed" not in codes and "n_seeds" not in stack.numbers:
        return kept, [], []
    seeds = codes.get("seed", np.full(len(stack), -1, dtype=np.int64))
    key = combined_key(codes[factor] for factor in LABELS)
    _, first, cells = np.unique(key, return_index=True, return_inverse=True)
    task_of_cell = {i: tasks[code] for i, code in enumerate(codes["task"][first])}
    notes: list[Note] = [
        *single_seed_notes(cells, seeds, task_of_cell, stack.numbers.get("n_seeds"))
    ]
    runs = diverged_runs(
        stack.numbers["score"], cells, seeds, lambda position: stack.at(position, "score")
    )
    if not runs:
        return kept, [], notes
    name = _of_prompts(stack)
    if name is not None:
        # A model may fail on one wording and not on another; no training diverged.
        listed = _listed(stack, runs)
        notes.append(
            Caution(
                f"{counted(len(runs), 'score')} far below the cell's others (column {name!r}) kept,"
                f" because repetitions with different prompts may differ: {listed}"
            )
        )
        return kept, [], notes
    more = f"; {len(runs)} such runs" if len(runs) > 1 else ""
    if diverged == "refuse":
        raise InputError(
            f"{runs[0].message}{more}; correct it, or leave such runs out with"
            f" {setting('diverged_runs', 'drop')}, or keep them with"
            f" {setting('diverged_runs', 'allow')}"
        )
    if diverged == "allow":
        return kept, [], [*notes, Caution(_together(stack, runs, "kept"))]
    counts: dict[str, int] = {}
    for run in runs:
        kept[run.rows] = False
        counts[_cell(stack, run)] = int(stack.n_rows[run.rows].sum())
    notes.append(_together(stack, runs, "dropped"))
    first_place = stack.at(int(runs[0].rows[0]))
    return kept, [Dropped("diverged run", tuple(sorted(counts.items())), first_place)], notes


def _of_prompts(stack: Stack) -> str | None:
    """The column of the seeds where that holds prompts, by its name."""
    columns = (part.columns.get("seed", "") for part in stack.parts)
    words = ("prompt", "template")
    return next((n for n in columns if any(word in n.casefold() for word in words)), None)


def _cell(stack: Stack, run: DivergedRun) -> str:
    at = int(run.rows[0])
    return ", ".join(stack.labels[key][at] for key in (*LABELS, "seed"))


def _listed(stack: Stack, runs: Sequence[DivergedRun]) -> str:
    """Runs by model, language, task and seed, each with its score."""
    return shorten([f"{_cell(stack, run)}: {run.score:.4g}" for run in runs], limit=_MAX_LISTED)


def _together(stack: Stack, runs: Sequence[DivergedRun], what: str) -> str:
    """One sentence on all diverged runs, which may be dozens."""
    if len(runs) == 1:
        return f"{runs[0].message}; it was {what}"
    return (
        f"{runs[0].message}; {len(runs)} such runs were {what}"
        f" (model, language, task, seed: score): {_listed(stack, runs)}"
    )


def diverged_runs(
    scores: Floats,
    cells: Ints,
    seeds: Ints,
    where: Callable[[int], str],
) -> list[DivergedRun]:
    """Find seeds that diverged, such as one with an F1 of 0 where others have 80.

    The rule, for each cell with at least two seeds and each seed's mean score x_s: the
    seed is diverged when x_s is below half of the reference c and more than 10 spreads
    below it. c is the cell's median (its maximum when there are two seeds); the spread
    is 1.4826 times the median absolute deviation from the median, and at least the
    median of that over all cells, so that three equal scores are no spread of zero.
    Only a low score is a diverged run, and only where scores are positive.

    Parameters
    ----------
    scores : array, shape (n,)
    cells, seeds : array of int, shape (n,)
        Cell of each record; its seed, -1 where it has none.
    where : callable
        Place of a record, for messages.

    Returns
    -------
    list of DivergedRun
        In the order of their first records.
    """
    known = np.flatnonzero(seeds >= 0)
    if not known.size:
        return []
    width = int(seeds.max()) + 1
    runs, run_of_row = np.unique(cells[known] * width + seeds[known], return_inverse=True)
    mean = np.bincount(run_of_row, scores[known]) / np.bincount(run_of_row)
    cell_of_run = np.unique(runs // width, return_inverse=True)[1]
    n_seeds = np.bincount(cell_of_run)
    middle = _medians(mean, cell_of_run, n_seeds)
    spread = _MAD_TO_SD * _medians(np.abs(mean - middle[cell_of_run]), cell_of_run, n_seeds)
    several = n_seeds > 1
    if not several.any():
        return []
    least = float(np.median(spread[several]))
    highest = np.full(len(n_seeds), -np.inf)
    np.maximum.at(highest, cell_of_run, mean)
    reference = np.where(n_seeds == 2, highest, middle)
    # With two seeds the spread is half the difference in question.
    allowed = _SPREADS * np.where(n_seeds == 2, least, np.maximum(spread, least))
    low = several[cell_of_run] & (mean < 0.5 * reference[cell_of_run])
    low &= reference[cell_of_run] - mean > allowed[cell_of_run]
    diverged = []
    for run in np.flatnonzero(low):
        rows = known[run_of_row == run]
        other_means = np.sort(mean[(cell_of_run == cell_of_run[run]) & ~low])
        others = shorten([f"{value:.4g}" for value in other_means[::-1]], limit=5)
        diverged.append(
            DivergedRun(
                rows,
                float(mean[run]),
                f"{where(int(rows[0]))}: score {mean[run]:.4g} looks like a diverged run: the other"
                f" {counted(len(other_means), 'seed')} of this model, language and task scored"
                f" {others}",
            )
        )
    return sorted(diverged, key=lambda one: int(one.rows[0]))


def _medians(values: Floats, group: Ints, sizes: Ints) -> Floats:
    """Median of the values of each group; `sizes` are the groups' numbers of values."""
    ordered = values[np.lexsort((values, group))]
    start = np.cumsum(sizes) - sizes
    result: Floats = 0.5 * (ordered[start + (sizes - 1) // 2] + ordered[start + sizes // 2])
    return result


def single_seed_notes(
    cells: Ints, seeds: Ints, task_of_cell: Mapping[int, str], given: Floats | None
) -> list[str]:
    """Notes on tasks and cells with one seed, which cannot show the variation between seeds.

    Parameters
    ----------
    cells, seeds : array of int, shape (n,)
        Cell of each record; its seed, -1 where it has none.
    task_of_cell : mapping of int to str
        The task of each cell.
    given : array, shape (n,), or None
        The column ``n_seeds``, NaN where empty.
    """
    known = seeds >= 0
    width = int(seeds.max(initial=0)) + 1
    pairs = np.unique(cells[known] * width + seeds[known])
    counted_cells, count = np.unique(pairs // width, return_counts=True)
    seeds_of = dict(zip(counted_cells.tolist(), count.tolist(), strict=True))
    if given is not None:
        has_n_seeds = np.flatnonzero(np.isfinite(given) & ~known)
        # Of several in a cell the smallest counts, which comes last here.
        at = has_n_seeds[np.argsort(-given[has_n_seeds], kind="stable")]
        seeds_of |= dict(zip(cells[at].tolist(), given[at].tolist(), strict=True))
    by_task: dict[str, list[float]] = {}
    for cell, number in seeds_of.items():
        by_task.setdefault(task_of_cell[cell], []).append(number)
    notes = []
    single = sorted(task for task, numbers in by_task.items() if max(numbers) == 1)
    if single:
        listed = f"task {single[0]}" if len(single) == 1 else f"tasks {shorten(single)}"
        notes.append(
            f"one seed per model and language in {listed}: the variation between seeds cannot be"
            " estimated"
        )
    partly = sum(number == 1 for task, n in by_task.items() if task not in single for number in n)
    if partly:
        total = sum(len(numbers) for task, numbers in by_task.items() if task not in single)
        notes.append(
            f"one seed in {grouped(partly)} of {counted(total, 'cell')} with seeds: the variation"
            " between seeds is estimated from the other cells only"
        )
    return notes
