"""How often sets contain the true values: joint rank sets, best models, tiers.

They have no draws to rank a truth among, so that only their coverage is tested: they promise to
hold the truth at least so often.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np
import pandas as pd
from scipy.stats import binom

from bayeseval import names
from bayeseval._typing import Bools, Floats
from bayeseval.calibration.quantities import Levels
from bayeseval.estimands.ranks import higher_is_better, may_be_best, rank_sets, tie_groups

__all__ = [
    "MAY_BE_BEST",
    "PROBABILITIES",
    "SET_WORDS",
    "TIERS",
    "least_coverage",
    "p_below",
    "set_rows",
]

#: Intervals and sets whose coverage is counted.
PROBABILITIES: Final = (0.5, 0.9, 0.95)
MAY_BE_BEST: Final = "may_be_best"
TIERS: Final = "tiers"
_OF_RANKS: Final = tuple(f"{names.rank_name(quantity)}_set" for quantity in names.REPORTED)

#: What the sets are, in the order of tables.
SET_WORDS: Final[Mapping[str, str]] = {
    **dict(
        zip(
            _OF_RANKS,
            ("rank sets of languages", "rank sets of models", "rank sets by sd of gaps"),
            strict=True,
        )
    ),
    MAY_BE_BEST: "models that may be best",
    TIERS: "order of tiers",
}


def set_rows(joint: Mapping[str, Levels], fitted: Mapping[str, Levels]) -> pd.DataFrame:
    """Whether the sets of one simulation hold the truth.

    Parameters
    ----------
    joint : mapping of str to Levels
        With the truth as the last draw.
    fitted : mapping of str to Levels
        All draws of the fit, which the sets are made of.

    Returns
    -------
    pandas.DataFrame
        ``quantity``, ``level``, ``in_50``, ``in_90``, ``in_95`` (1 or 0). A rank set holds the
        truth if all ranks are inside their intervals at once. Tiers have a row for each two
        successive ones, which holds if the first model of the better one is truly better; NaN
        where there are fewer tiers with this probability.
    """
    found = [row for name in names.REPORTED for row in _of_ranks(name, joint, fitted)]
    score = names.STANDARDISED_SCORE
    if score in joint and score in fitted:
        found += _of_tiers(joint[score].draws[-1], fitted[score].draws)
    columns = ["quantity", "level", *(f"in_{100 * p:.0f}" for p in PROBABILITIES)]
    return pd.DataFrame(found, columns=columns)


def least_coverage(quantity: str, probability: float) -> float:
    """How often a set of this probability promises to hold the truth.

    Tiers are separated where P(better) reaches the upper end of the central interval.
    """
    return (1.0 + probability) / 2.0 if quantity == TIERS else probability


def p_below(hits: int, n: int, promised: float) -> float:
    """Probability of so few hits or fewer among `n`, if each has the promised probability."""
    return float(binom.cdf(hits, n, promised))


def _of_ranks(
    quantity: str, joint: Mapping[str, Levels], fitted: Mapping[str, Levels]
) -> Iterator[tuple[object, ...]]:
    name = names.rank_name(quantity)
    if name not in joint or name not in fitted:
        return
    truth, ranks = joint[name].draws[-1], fitted[name].draws
    if np.isnan(truth).any() or np.isnan(ranks).all(axis=0).any():
        return
    sets = [rank_sets(ranks, prob=p) for p in PROBABILITIES]
    held = [bool(((low <= truth) & (truth <= high)).all()) for low, high in sets]
    yield (f"{name}_set", "", *map(float, held))
    if quantity == names.STANDARDISED_SCORE:
        best: Bools = truth == truth.min()
        chosen = [may_be_best(ranks, prob=p) for p in PROBABILITIES]
        yield (MAY_BE_BEST, "", *(float((best & one).any()) for one in chosen))


def _of_tiers(truth: Floats, draws: Floats) -> list[tuple[object, ...]]:
    better = higher_is_better(names.STANDARDISED_SCORE)
    sign = 1.0 if better else -1.0
    signed = sign * draws.mean(axis=0)
    orders = []
    for probability in PROBABILITIES:
        limit = least_coverage(TIERS, probability)
        groups = tie_groups(draws, highest_first=better, prob=limit)
        heads = [
            int(np.argmax(np.where(groups == number, signed, -np.inf)))
            for number in range(1, groups.max() + 1)
        ]
        pairs = zip(heads[:-1], heads[1:], strict=True)
        orders.append([float(sign * truth[a] > sign * truth[b]) for a, b in pairs])
    most = max(map(len, orders))
    padded = [order + [np.nan] * (most - len(order)) for order in orders]
    return [
        (TIERS, f"{place + 1} before {place + 2}", *held)
        for place, held in enumerate(zip(*padded, strict=True))
    ]
