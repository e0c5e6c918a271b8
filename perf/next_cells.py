"""How many cells `next_cells` saves on tables like MEGA: `python perf/next_cells.py`.

Scores are simulated on MEGA's cells with the terms of `crossed` and the standard deviations that
MEGA has, so the truth is known. A share of them is hidden, the rest is fitted by `crossed`, and the
hidden cells are measured in the order of `next_cells`, of the largest variance, and at random.
After every cell the expected error (root mean square) of what is asked is computed from the true
standard deviations, by dense linear algebra that shares no code with the package: of the PRR of the
models, of the potentials of all languages (some lose all records) and of the scores in the table.
For potentials, sets of cells that no exchange of one cell improves show how few would do at best.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd
from measure import print_table, provenance, write_csv

import bayeseval as be

Floats = npt.NDArray[np.float64]
Index = npt.NDArray[np.int64]
Order = Sequence[int] | Index
Codes = dict[str, Index]
FACTORS = ("model", "language", "task")
PAIRS = (("language", "task"), ("model", "task"), ("model", "language"))
TARGETS = ("ranking", "potential", "table")
RANDOM_ORDERS = 50
STEPS = 200


class Truth:
    """The terms of `crossed` with known sds on all cells of MEGA's levels."""

    def __init__(self, records: pd.DataFrame, sds: dict[str, float]) -> None:
        self.levels = {f: sorted(records[f].unique()) for f in FACTORS}
        self.size = {f: len(self.levels[f]) for f in FACTORS}
        self.sds = sds
        self.code = {f: {x: i for i, x in enumerate(self.levels[f])} for f in FACTORS}

    def at(self, table: pd.DataFrame) -> Codes:
        """Codes of cells."""
        return {f: table[f].map(self.code[f]).to_numpy() for f in FACTORS}

    def grid(self) -> Codes:
        """Codes of all cells."""
        index = np.indices(tuple(self.size[f] for f in FACTORS)).reshape(3, -1)
        return dict(zip(FACTORS, index, strict=True))

    def covariance(self, one: Codes, other: Codes) -> Floats:
        """Prior covariance of the expected scores of cells; effects of factors sum to zero."""
        total = np.full((len(one["model"]), len(other["model"])), 100.0**2)
        same = {f: one[f][:, None] == other[f][None] for f in FACTORS}
        for f in FACTORS:
            total += self.sds[f"sd_{f}"] ** 2 * (same[f] - 1.0 / self.size[f])
        for a, b in PAIRS:
            total += self.sds[f"sd_{a}_{b}"] ** 2 * (same[a] & same[b])
        return np.asarray(total)

    def draw(self, rng: np.random.Generator) -> Floats:
        """Expected scores of all cells, by model, language and task."""
        shape = tuple(self.size[f] for f in FACTORS)
        total = np.full(shape, 60.0)
        for axis, f in enumerate(FACTORS):
            effect = self.sds[f"sd_{f}"] * rng.standard_normal(self.size[f])
            total += np.expand_dims(effect - effect.mean(), [i for i in range(3) if i != axis])
        for a, b in PAIRS:
            axes = (FACTORS.index(a), FACTORS.index(b))
            inner = sorted(axes)
            effect = rng.standard_normal(tuple(shape[i] for i in inner))
            (out,) = {0, 1, 2} - set(axes)
            total += self.sds[f"sd_{a}_{b}"] * np.expand_dims(effect, out)
        return total


def errors(
    truth: Truth,
    expected: Floats,
    kept: pd.DataFrame,
    hidden: pd.DataFrame,
    pairs: Floats,
    targets: Sequence[str] = TARGETS,
) -> tuple[Floats, dict[str, tuple[Floats, Floats]]]:
    """Posterior covariance of the hidden cells, and of the hidden cells with what is asked.

    Returns
    -------
    covariance : ndarray, shape (n_hidden, n_hidden)
    asked : dict of str to (variances now, covariances with the hidden cells)
    """
    noise = truth.sds["sd_residual"] ** 2
    grid, own, cells = truth.grid(), truth.at(kept), truth.at(hidden)
    joint = truth.covariance(own, own) + noise * np.eye(len(kept))
    root = np.linalg.cholesky(joint)
    to_grid = np.linalg.solve(root, truth.covariance(own, grid))
    to_cells = np.linalg.solve(root, truth.covariance(own, cells))
    shape = expected.shape
    score = np.einsum("mlt,lt->m", expected, pairs) / pairs.sum()
    # PRR are scores over their mean; small changes of both.
    ratio = score / score.mean()
    m = shape[0]
    of_models = np.zeros((m, *shape))
    for i in range(m):
        of_models[i, i] = pairs / pairs.sum()
    prr = (of_models - ratio[:, None, None, None] * of_models.mean(axis=0)) / score.mean()
    potential = np.zeros((shape[1], *shape))
    for i in range(shape[1]):
        potential[i, :, i] = 1.0 / (m * shape[2])
    table = np.flatnonzero(np.broadcast_to(pairs > 0, shape).reshape(-1))
    weights = {"ranking": prr.reshape(m, -1), "potential": potential.reshape(shape[1], -1)}
    prior = truth.covariance(grid, cells) - to_grid.T @ to_cells
    asked = {}
    for name, w in weights.items():
        if name not in targets:
            continue
        variance = -((to_grid @ w.T) ** 2).sum(axis=0)
        for i, row in enumerate(w):
            used = np.flatnonzero(row)
            some = {f: codes[used] for f, codes in grid.items()}
            variance[i] += row[used] @ truth.covariance(some, some) @ row[used]
        asked[name] = (variance, w @ prior)
    if "table" in targets:
        one = {f: codes[table[:1]] for f, codes in grid.items()}
        fall = (to_grid[:, table] ** 2).sum(axis=0)
        asked["table"] = (truth.covariance(one, one)[0, 0] - fall, prior[table])
    covariance = truth.covariance(cells, cells) - to_cells.T @ to_cells
    return covariance + noise * np.eye(len(hidden)), asked


def curve(covariance: Floats, asked: tuple[Floats, Floats], order: Order) -> Floats:
    """Expected root mean squared error before any cell of an order, and after each."""
    variance, shared = asked
    at = np.asarray(order)
    root = np.linalg.cholesky(covariance[np.ix_(at, at)])
    fall = np.linalg.solve(root, shared[:, at].T) ** 2
    left = variance.mean() - np.concatenate([[0.0], np.cumsum(fall.mean(axis=1))])
    return np.asarray(np.sqrt(left))


def largest_variance(covariance: Floats, noise: float, steps: int) -> list[int]:
    """Cells by the variance of their expected scores, given those before them."""
    left, order = covariance.copy(), list[int]()
    for _ in range(steps):
        variance = np.diag(left) - noise
        variance[order] = -np.inf
        order.append(int(np.argmax(variance)))
        column = left[:, order[-1]] / np.sqrt(left[order[-1], order[-1]])
        left -= np.outer(column, column)
    return order


def known_sds(covariance: Floats, shared: Floats, steps: int) -> list[int]:
    """The order of `next_cells` if the true standard deviations were known."""
    left, shared = covariance.copy(), shared.copy()
    worth = np.ones(len(left), dtype=bool)
    order: list[int] = []
    for _ in range(steps):
        variance = np.where(worth, np.diag(left), np.inf)
        order.append(int(np.argmax((shared**2).sum(axis=0) / variance)))
        worth[order[-1]] = False
        root = np.sqrt(left[order[-1], order[-1]])
        column, own = left[:, order[-1]] / root, shared[:, order[-1]] / root
        left -= np.outer(column, column)
        shared -= np.outer(own, column)
    return order


def exchanged(covariance: Floats, asked: tuple[Floats, Floats], order: list[int]) -> float:
    """Expected error after a set of cells that no exchange of one cell improves."""
    variance, shared = asked
    at, left = list(order), float(curve(covariance, asked, order)[-1])
    improved = True
    while improved:
        improved = False
        for i in range(len(at)):
            rest = at[:i] + at[i + 1 :]
            root = np.linalg.cholesky(covariance[np.ix_(rest, rest)])
            to_all = np.linalg.solve(root, covariance[rest])
            to_asked = np.linalg.solve(root, shared[:, rest].T)
            open_cells = np.setdiff1d(np.arange(len(covariance)), rest)
            further = (shared - to_asked.T @ to_all)[:, open_cells]
            alone = np.diag(covariance)[open_cells] - (to_all[:, open_cells] ** 2).sum(axis=0)
            fall = (further**2).mean(axis=0) / alone
            best = int(np.argmax(fall))
            error = np.sqrt(variance.mean() - (to_asked**2).sum() / len(variance) - fall[best])
            if error < left * (1.0 - 1e-9):
                at, left, improved = [*rest, int(open_cells[best])], float(error), True
    return left


def fewest(
    covariance: Floats, asked: tuple[Floats, Floats], order: list[int], error: float
) -> int | str:
    """Cells with which a greedy order, and exchanges of its cells, reach an error."""
    count = first(curve(covariance, asked, order) <= error)
    while isinstance(count, int) and count > 1:
        if exchanged(covariance, asked, order[: count - 1]) > error:
            break
        count -= 1
    return count


def first(reached: npt.NDArray[np.bool_]) -> int | str:
    """Cells after which an error is reached."""
    return int(np.argmax(reached)) if reached.any() else "more"


@dataclass(frozen=True, eq=False)
class Simulated:
    """A simulated table, and what measuring its hidden cells does under the true sds.

    Attributes
    ----------
    truth : Truth
    kept, hidden : DataFrame
        Cells with the columns `FACTORS`; those kept have scores.
    covariance, asked : as returned by `errors`
    orders : list of ndarray of int
        Random orders of the hidden cells.
    """

    truth: Truth
    kept: pd.DataFrame
    hidden: pd.DataFrame
    covariance: Floats
    asked: dict[str, tuple[Floats, Floats]]
    orders: list[Index]

    def random(self, target: str) -> Floats:
        """Expected error after 0, 1, ... random cells, mean over the orders."""
        of = self.asked[target]
        return np.asarray(np.mean([curve(self.covariance, of, one) for one in self.orders], axis=0))


def simulated(
    seed: int,
    share: float,
    sds: dict[str, float],
    records: pd.DataFrame,
    targets: Sequence[str] = TARGETS,
) -> Simulated:
    """Scores on the cells of a table, of which a share is hidden."""
    rng = np.random.default_rng(seed)
    truth = Truth(records, sds)
    expected = truth.draw(rng)
    at = truth.at(records)
    score = expected[tuple(at[f] for f in FACTORS)]
    table = records.assign(score=score + sds["sd_residual"] * rng.standard_normal(len(records)))
    out = rng.random(len(table)) < share
    kept, hidden = table[~out], table[out]
    for factor in ("model", "task"):
        assert set(kept[factor]) == set(table[factor]), "a level lost all records"
    pairs = np.zeros(expected.shape[1:])
    pairs[truth.at(kept)["language"], truth.at(kept)["task"]] = 1.0
    covariance, asked = errors(truth, expected, kept, hidden, pairs, targets)
    orders = [rng.permutation(len(hidden))[:STEPS] for _ in range(RANDOM_ORDERS)]
    return Simulated(truth, kept, hidden, covariance, asked, orders)


def repeat(
    seed: int, share: float, sds: dict[str, float], records: pd.DataFrame
) -> list[dict[str, object]]:
    """One simulated table: the cells that each choice needs."""
    made = simulated(seed, share, sds, records)
    kept, hidden, covariance = made.kept, made.hidden, made.covariance
    lost = sorted(set(hidden["language"]) - set(kept["language"]))
    fit = be.fit(be.Records.from_frame(kept, name="simulated"), "crossed", seed=seed)
    position = {
        cell: i for i, cell in enumerate(hidden[list(FACTORS)].itertuples(index=False, name=None))
    }
    by_variance = largest_variance(covariance, sds["sd_residual"] ** 2, STEPS)
    rows = []
    for target, of in made.asked.items():
        chosen = be.next_cells(
            fit, target=target, cells=hidden[list(FACTORS)], languages=lost or None, budget=STEPS
        )
        order = [
            position[cell]
            for cell in chosen.table[list(FACTORS)].itertuples(index=False, name=None)
        ]
        ours = curve(covariance, of, order)
        variance = curve(covariance, of, by_variance)
        known = known_sds(covariance, of[1], STEPS)
        random = made.random(target)
        rows += [
            {
                "target": target,
                "seed": seed,
                "hidden": len(hidden),
                "languages lost": len(lost),
                "random": k,
                "error now": ours[0],
                "error": random[k],
                "next": first(ours <= random[k]),
                "known sds": first(curve(covariance, of, known) <= random[k]),
                # A hundred cells and more take long to exchange.
                "exchanged": fewest(covariance, of, known, random[k])
                if target == "potential"
                else None,
                "largest variance": first(variance <= random[k]),
            }
            for k in (100, 200)
        ]
    return rows


def sds_of_mega() -> dict[str, float]:
    """Posterior means of the standard deviations that `crossed` finds in MEGA."""
    posterior = be.fit("mega", "crossed", seed=0).data["posterior"]
    names = [f"sd_{f}" for f in (*FACTORS, "residual")] + [f"sd_{a}_{b}" for a, b in PAIRS]
    return {name: float(posterior[name].mean()) for name in names}


def cells_of_mega() -> pd.DataFrame:
    """The cells of MEGA that have a score."""
    return be.load("mega").table[list(FACTORS)].reset_index(drop=True)


def main() -> None:
    """Repeat, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--share", type=float, default=0.6, help="share of the cells hidden")
    parser.add_argument("--repeats", type=int, default=3, help="simulated tables")
    given = parser.parse_args()
    said = provenance()
    records, sds = cells_of_mega(), sds_of_mega()
    rows = []
    for seed in range(given.repeats):
        made = repeat(seed, given.share, sds, records)
        print_table(made)
        rows += made
    write_csv("next_cells", rows, said, digits=4)


if __name__ == "__main__":
    main()
