"""Choose cells to measure one after the other, and compare them with other choices."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
import pandas as pd

from bayeseval import names
from bayeseval._random import generator
from bayeseval._typing import Bools, Floats, Index
from bayeseval.errors import InputError, argument
from bayeseval.estimands.asked import Asked
from bayeseval.estimands.gains import Gains
from bayeseval.planning.candidates import Candidates

__all__ = ["CHOSEN", "LISTED", "MOST", "RANDOM", "VARIANCE", "Chosen", "Limits", "choose"]

#: Cells that are listed when neither a budget nor a target ends the list, and the most of all.
LISTED: Final = 20
MOST: Final = 1000
#: Choices that are compared.
CHOSEN: Final = "chosen"
RANDOM: Final = "random"
VARIANCE: Final = "largest variance"
# Orders of the random choice.
_RANDOM_ORDERS: Final = 20
# Relative rounding of sums of costs.
_ROUNDING: Final = 1e-9


@dataclass(frozen=True)
class Limits:
    """Where the list of cells ends."""

    budget: float | None
    sd: float | None
    probability: float | None

    @property
    def most(self) -> int:
        """Most cells of the list."""
        given = (self.budget, self.sd, self.probability)
        return LISTED if all(one is None for one in given) else MOST

    def reached(self, sd: Floats | float, p: Floats | float) -> Bools:
        """Whether all targets are reached; False without any."""
        met = np.full(np.shape(sd), self.sd is not None or self.probability is not None)
        if self.sd is not None:
            met &= np.asarray(sd) <= self.sd
        if self.probability is not None:
            met &= np.asarray(p) >= self.probability
        return np.asarray(met)


@dataclass(frozen=True, eq=False)
class Chosen:
    """Cells in their order, and what they do for what is asked.

    Attributes
    ----------
    order : ndarray of int, shape (n,)
        Positions among the candidates.
    cost : ndarray, shape (n,)
        What each costs after those before it.
    sd : ndarray, shape (n + 1,)
        Sd of what is asked before any measurement, then after each cell.
    p : ndarray, shape (n + 1,)
        Mean probability of the right order of two models; NaN where no models are asked for.
    alone : ndarray, shape (n,)
        By how much the sd would fall if the cell were the only one.
    comparison : pandas.DataFrame
        ``choice``, ``cost`` and ``sd_target``: the same for other choices.
    """

    order: Index
    cost: Floats
    sd: Floats
    p: Floats
    alone: Floats
    comparison: pd.DataFrame


def choose(candidates: Candidates, asked: Asked, limits: Limits) -> Chosen:
    """Choose cells until the budget is spent or the targets are reached.

    Raises
    ------
    InputError
        If the budget does not pay for any cell.
    """
    place = candidates.place
    rows = candidates.effects.rows(
        place[names.MODEL], place[names.LANGUAGE], place[names.TASK], measured=True
    )
    start = Gains(candidates.effects, rows, candidates.noise, asked.rows)
    first, gains = start.reductions(), start.copy()

    def done(fallen: Floats) -> bool:
        p = np.nan
        if limits.probability is not None:
            p = asked.p_right_order(candidates.effects, fallen)[-1]
        return bool(limits.reached(_sds(start.total, fallen)[-1], p))

    order, fallen = _greedy(
        candidates, gains, gains.reductions, budget=limits.budget, most=limits.most, done=done
    )
    if not len(order) and not done(fallen):
        cheapest = float(candidates.costs(order).min())
        raise InputError(
            f"{argument('budget')} is {limits.budget:g}, and the cheapest cell costs {cheapest:g}"
        )
    sd, cost = _sds(start.total, fallen), candidates.costs_in_order(order)
    return Chosen(
        order=order,
        cost=cost,
        sd=sd,
        p=asked.p_right_order(candidates.effects, fallen),
        alone=sd[0] - np.sqrt(np.maximum(start.total - first[order], 0.0)),
        comparison=_comparison(candidates, start, np.cumsum(cost), sd),
    )


def _sds(total: float, fallen: Floats) -> Floats:
    """Sd of what is asked before any measurement and after each, shape (n + 1,)."""
    fall = np.concatenate([[0.0], np.cumsum((fallen**2).sum(axis=1))])
    return np.asarray(np.sqrt(np.maximum(total - fall, 0.0)))


def _greedy(
    candidates: Candidates,
    gains: Gains,
    worth: Callable[[], Floats],
    *,
    budget: float | None,
    most: int,
    done: Callable[[Floats], bool],
) -> tuple[Index, Floats]:
    """Take the affordable cell of the greatest worth per cost until the list ends."""
    order: list[int] = []
    fallen = np.empty((0, gains.asked.shape[0]))
    left = np.ones(candidates.n, dtype=np.bool_)
    spent = 0.0
    while len(order) < min(most, candidates.n) and not done(fallen):
        costs = candidates.costs(order)
        allowed = left.copy()
        if budget is not None:
            allowed &= spent + costs <= budget * (1.0 + _ROUNDING)
        if not allowed.any():
            break
        best = int(np.argmax(np.where(allowed, worth() / costs, -np.inf)))
        order.append(best)
        left[best] = False
        spent += float(costs[best])
        fallen = np.vstack([fallen, gains.measure(best)])
    return np.array(order, dtype=np.int64), fallen


def _comparison(candidates: Candidates, start: Gains, cost: Floats, sd: Floats) -> pd.DataFrame:
    """Sd of what is asked by cost: as chosen, at random, and by the largest variance."""
    budget = float(cost[-1]) if len(cost) else 0.0
    at = np.concatenate([[0.0], cost])
    gains = start.copy()
    by_variance, fallen = _greedy(
        candidates,
        gains,
        lambda: gains.cell_variance,
        budget=budget,
        most=MOST,
        done=lambda fallen: False,
    )
    rng = generator(0, "next: random choice")
    runs = []
    for _ in range(_RANDOM_ORDERS):
        drawn = rng.permutation(candidates.n)
        spent = np.cumsum(candidates.costs_in_order(drawn))
        drawn = drawn[spent <= budget * (1.0 + _ROUNDING)][:MOST]
        sds = _sds(start.total, start.in_order(drawn))
        runs.append(sds[np.searchsorted(spent[: len(drawn)], at * (1.0 + _ROUNDING), "right")])
    curves = {
        CHOSEN: (at, sd),
        RANDOM: (at, np.mean(runs, axis=0)),
        VARIANCE: (
            np.concatenate([[0.0], np.cumsum(candidates.costs_in_order(by_variance))]),
            _sds(start.total, fallen),
        ),
    }
    return pd.concat(
        [
            pd.DataFrame({"choice": name, "cost": spent, "sd_target": sds})
            for name, (spent, sds) in curves.items()
        ],
        ignore_index=True,
    )
