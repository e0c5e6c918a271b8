"""How few cells can be enough for potentials, however they are chosen: `python perf/next_bound.py`.

The tables are those of `perf/next_cells.py`, and so is the error: the expected one (root mean
square) of the potentials of all languages under the true standard deviations. For the errors that
random choices of 100 and 200 cells have, the script writes the smallest number of cells that a
lower bound on the error of all sets of that size (`perf/cell_bound.py`) does not rule out, and the
number with which the order that is chosen one by one under the true standard deviations gets there.
"""

from __future__ import annotations

import argparse

import numpy as np
from cell_bound import Floats, Problem, lower_bounds
from measure import print_table, provenance, write_csv
from next_cells import (
    Codes,
    Simulated,
    Truth,
    cells_of_mega,
    curve,
    known_sds,
    sds_of_mega,
    simulated,
)


def within_language(truth: Truth, one: Codes, other: Codes) -> Floats:
    """Prior covariance of scores of one language, given the effects of models and tasks."""
    task = one["task"][:, None] == other["task"][None]
    model = one["model"][:, None] == other["model"][None]
    sds = truth.sds
    return np.asarray(
        sds["sd_language"] ** 2
        + sds["sd_language_task"] ** 2 * task
        + sds["sd_model_language"] ** 2 * model
    )


def problem(made: Simulated) -> Problem:
    """The hidden cells and the potentials, with the languages as groups."""
    truth, noise = made.truth, made.truth.sds["sd_residual"] ** 2
    hidden, kept = truth.at(made.hidden), truth.at(made.kept)
    own = np.zeros_like(made.covariance)
    groups = []
    for language in np.unique(hidden["language"]):
        at = np.flatnonzero(hidden["language"] == language)
        cells = {f: codes[at] for f, codes in hidden.items()}
        known = {f: codes[kept["language"] == language] for f, codes in kept.items()}
        joint = within_language(truth, known, known) + noise * np.eye(len(known["task"]))
        shared = within_language(truth, known, cells)
        left = within_language(truth, cells, cells) - shared.T @ np.linalg.solve(joint, shared)
        own[np.ix_(at, at)] = left + noise * np.eye(len(at))
        groups.append(at)
    variance, shared = made.asked["potential"]
    return Problem(variance, shared, made.covariance, own, groups)


def fewest(whole: Problem, order: list[int], error: float) -> tuple[int, float]:
    """The smallest number of cells with which an error is not ruled out, and the proof.

    Parameters
    ----------
    whole : Problem
    order : list of int
        Cells that reach the error.
    error : float

    Returns
    -------
    count : int
    bound : float
        Lower bound on the error with one cell less; above `error`.
    """
    bounds = np.sqrt(lower_bounds(whole, order))
    count = int(np.argmax(bounds <= error))
    while count < len(order):
        # The bound is best for the number of cells that the search is for.
        again = np.sqrt(lower_bounds(whole, order[:count]))
        bounds[: count + 1] = np.maximum(bounds[: count + 1], again)
        if bounds[count] <= error:
            break
        count += 1
    return count, float(bounds[count - 1])


def rows_of(seed: int, made: Simulated) -> list[dict[str, object]]:
    """What random choices reach, and how many cells that takes at least."""
    asked, whole, random = made.asked["potential"], problem(made), made.random("potential")
    order = known_sds(made.covariance, asked[1], len(random) - 1)
    chosen = curve(made.covariance, asked, order)
    rows = []
    for k in (100, 200):
        enough = int(np.argmax(chosen <= random[k]))
        count, bound = fewest(whole, order[:enough], random[k])
        rows.append(
            {
                "target": "potential",
                "seed": seed,
                "hidden": len(made.hidden),
                "random": k,
                "error": random[k],
                "lower bound": count,
                "error with one less": bound,
                "known sds": enough,
            }
        )
    return rows


def main() -> None:
    """Repeat, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--share", type=float, default=0.6, help="share of the cells hidden")
    parser.add_argument("--repeats", type=int, default=5, help="simulated tables")
    given = parser.parse_args()
    said = provenance()
    records, sds = cells_of_mega(), sds_of_mega()
    rows = []
    for seed in range(given.repeats):
        made = rows_of(seed, simulated(seed, given.share, sds, records, ["potential"]))
        print_table(made)
        rows += made
    write_csv("next_bound", rows, said, digits=5)


if __name__ == "__main__":
    main()
