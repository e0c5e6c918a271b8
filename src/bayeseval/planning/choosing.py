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
from bayeseval.estimands.effects import Effects
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

    end = _End(limits, asked, candidates.effects, start.total)
    order, fallen = _greedy(
        candidates, gains, gains.reductions, budget=limits.budget, most=limits.most, end=end
    )
    if not len(order) and not end.reached:
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


class _End:
    """Whether the targets are reached after the cells so far; each cell is added once."""

    def __init__(self, limits: Limits, asked: Asked, effects: Effects, total: float) -> None:
        self._limits, self._asked, self._total = limits, asked, np.array([total])
        self._by_order = limits.probability is not None
        if self._by_order:
            self._variance = asked.pair_variances(effects)
            self._explained = np.zeros((1, len(asked.pairs)))

    def add(self, fallen: Floats) -> None:
        """Take in what the measurement of a cell explains, shape (n_asked,)."""
        self._total = self._total - (fallen**2).sum()
        if self._by_order:
            self._explained = self._explained + self._asked.explained(fallen[None])

    @property
    def reached(self) -> bool:
        """Whether the list ends here."""
        p = self._asked.p_given(self._variance, self._explained) if self._by_order else np.nan
        return bool(np.all(self._limits.reached(np.sqrt(np.maximum(self._total, 0.0)), p)))


def _greedy(
    candidates: Candidates,
    gains: Gains,
    worth: Callable[[], Floats],
    *,
    budget: float | None,
    most: int,
    end: _End | None = None,
) -> tuple[Index, Floats]:
    """Take the affordable cell of the greatest worth per cost until the list ends."""
    order: list[int] = []
    fallen: list[Floats] = []
    left = np.ones(candidates.n, dtype=np.bool_)
    spent = 0.0
    while len(order) < min(most, candidates.n) and not (end is not None and end.reached):
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
        fallen.append(gains.measure(best))
        if end is not None:
            end.add(fallen[-1])
    return np.array(order, dtype=np.int64), np.reshape(fallen, (-1, gains.asked.shape[0]))


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
