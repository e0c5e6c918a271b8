"""What simulations say: one row per quantity, and sentences."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import pandas as pd

from bayeseval import names
from bayeseval._random import generator
from bayeseval._text import any_of, counted
from bayeseval._typing import Floats
from bayeseval.calibration.bands import coverage_interval, uniformity
from bayeseval.calibration.quantities import WORDS
from bayeseval.calibration.sets import (
    MAY_BE_BEST,
    PROBABILITIES,
    SET_WORDS,
    TIERS,
    least_coverage,
    p_below,
)

__all__ = [
    "FALSE_ALARMS",
    "independent_ranks",
    "independent_rows",
    "quantity_text",
    "sentences",
    "summarise",
]

#: Probability that any quantity of calibrated results leaves its band.
FALSE_ALARMS: Final = 0.05
# In a sentence; all others are rank sets.
_SET_KINDS: Final[Mapping[str, str]] = {MAY_BE_BEST: "best models", TIERS: "tiers"}
# Ratios to a potential.
_RATIOS: Final = (names.PRR, names.CV_PRR_LANGUAGES)
# Quantities that a sentence names.
_NAMED: Final = 4
# Fewer ranks show gross errors only.
_FEW: Final = 50

ALL: Final = "all"
PASSED: Final = "gate passed"


def quantity_text(name: str) -> str:
    """What a quantity is, for texts and figures; parameters keep their names."""
    return {**WORDS, **SET_WORDS}.get(name, name)


def independent_rows(simulations: pd.DataFrame, quantity: str) -> pd.DataFrame:
    """One row per simulation: a level drawn at random, as levels share the errors of a table.

    Parameters
    ----------
    simulations : pandas.DataFrame
        Of :class:`bayeseval.calibration.Calibration`.
    quantity : str

    Returns
    -------
    pandas.DataFrame
        Rows of `simulations`, independent of each other.
    """
    own = simulations[simulations["quantity"] == quantity]
    number = own["simulation"].to_numpy(dtype=np.int64)
    if not len(own):
        return own
    # By the number of the simulation: leaving one out does not change the level of others.
    uniform = generator(0, f"calibrate-level-{quantity}").uniform(size=int(number.max()) + 1)
    start = np.flatnonzero(np.diff(number, prepend=-1))
    size = np.diff(np.append(start, len(number)))
    chosen: pd.DataFrame = own.iloc[start + (uniform[number[start]] * size).astype(np.int64)]
    return chosen


def independent_ranks(simulations: pd.DataFrame, quantity: str) -> Floats:
    """Ranks of :func:`independent_rows`, shape (n_simulations,)."""
    return independent_rows(simulations, quantity)["rank"].to_numpy(dtype=np.float64)


def summarise(simulations: pd.DataFrame, statuses: pd.DataFrame) -> pd.DataFrame:
    """One row per quantity: mean rank, coverage and the test of uniform ranks.

    Parameters
    ----------
    simulations, statuses : pandas.DataFrame
        Of :class:`bayeseval.calibration.Calibration`.

    Returns
    -------
    pandas.DataFrame
        As :attr:`bayeseval.calibration.Calibration.table`.
    """
    parts = [_rows(simulations, ALL)]
    failed = statuses.loc[statuses["status"] == "gate failed", "simulation"]
    passed = simulations[~simulations["simulation"].isin(failed)]
    if len(failed) and len(passed):
        parts.append(_rows(passed, PASSED))
    return pd.concat(parts, ignore_index=True)


def _rows(simulations: pd.DataFrame, which: str) -> pd.DataFrame:
    known = list(dict.fromkeys(simulations["quantity"]))
    # Parameters first; the first simulations may lack a quantity that later ones report.
    others = {**WORDS, **SET_WORDS}
    quantities = [name for name in known if name not in others]
    quantities += [name for name in others if name in known]
    level = FALSE_ALARMS / max(len(quantities), 1)
    rows = []
    for quantity in quantities:
        own = simulations[simulations["quantity"] == quantity]
        number = own["simulation"].to_numpy(dtype=np.int64)
        row: dict[str, Any] = {
            "quantity": quantity,
            "simulations": which,
            "n_simulations": len(np.unique(number)),
            "n_values": len(own),
        }
        row |= _of_set(own) if quantity in SET_WORDS else _of_ranks(own)
        for probability in PROBABILITIES:
            name = f"{100 * probability:.0f}"
            inside = own[f"in_{name}"].to_numpy(dtype=np.float64)
            with_value = ~np.isnan(inside)
            share, lower, upper = coverage_interval(inside[with_value], number[with_value])
            row |= {
                f"coverage_{name}": share,
                f"coverage_{name}_lower": lower,
                f"coverage_{name}_upper": upper,
            }
        row |= {"p_uniform": row.pop("p_uniform")}
        row |= {"verdict": "outside" if row["p_uniform"] <= level else "inside"}
        alone = row["n_values"] == row["n_simulations"]
        rows.append(row | {"ci_kind": "clopper-pearson" if alone else "beta-binomial"})
    table = pd.DataFrame(rows)
    columns = [*table.columns.drop("ci_kind"), "band_prob", "ci_kind", "ci_prob"]
    return table.assign(band_prob=1.0 - level, ci_prob=names.CI_PROB)[columns]


def _of_ranks(own: pd.DataFrame) -> dict[str, Any]:
    """Mean rank, and the test that ranks are uniform."""
    by_simulation = own.groupby("simulation")["rank"].mean().to_numpy(dtype=np.float64)
    n = len(by_simulation)
    ranks = independent_ranks(own, str(own["quantity"].iloc[0]))
    return {
        "mean_rank": float(by_simulation.mean()),
        "mean_rank_se": float(by_simulation.std(ddof=1) / np.sqrt(n)) if n > 1 else np.nan,
        "p_uniform": uniformity(len(ranks)).p_value(ranks),
    }


def _of_set(own: pd.DataFrame) -> dict[str, Any]:
    """The test that sets contain the true values at the stated rate, one level per simulation."""
    quantity = str(own["quantity"].iloc[0])
    p = []
    for probability in PROBABILITIES:
        name = f"in_{100 * probability:.0f}"
        one = independent_rows(own[own[name].notna()], quantity)[name].to_numpy(dtype=np.float64)
        p.append(p_below(int(one.sum()), len(one), least_coverage(quantity, probability)))
    # Of three tests, by Bonferroni.
    return {"mean_rank": np.nan, "mean_rank_se": np.nan, "p_uniform": min(1.0, len(p) * min(p))}


def sentences(
    table: pd.DataFrame, statuses: pd.DataFrame, run: Mapping[str, Any]
) -> tuple[str, ...]:
    """Say whether the results are calibrated, which are not, and what was counted."""
    counts = statuses["status"].value_counts()
    n_fitted = int(counts.get("fitted", 0) + counts.get("gate failed", 0))
    if not n_fitted:
        return ("No simulated table could be fitted.", *_left_out(statuses))
    rows = table[table["simulations"] == ALL]
    said = [_verdict(rows, n_fitted), *_many_tests(rows)]
    discrete = [name for name in rows["quantity"] if str(name).endswith("_rank")]
    if discrete:
        said.append(
            "Intervals of ranks have whole-number ends and contain the true rank more often than "
            "stated."
        )
    # One tier has no order.
    fewer = rows[(rows["n_simulations"] < n_fitted) & ~rows["quantity"].isin([TIERS])]
    if len(fewer):
        numbers = ", ".join(
            f"{quantity_text(row['quantity'])} ({row['n_simulations']} of {n_fitted})"
            for row in fewer.to_dict("records")
        )
        ratios = any(row in _RATIOS for row in fewer["quantity"])
        why = ", because no ratio is reported where a potential may be zero" if ratios else ""
        said.append(f"Only some simulations report {numbers}{why}.")
    if run["priors_of_fits"] == "scaled":
        said.append(
            "Priors were scaled to every simulated table, as in a fit to real scores, and are not "
            "those that the truths were drawn from: deviations show what this scaling changes."
        )
    n_failed = int(counts.get("gate failed", 0))
    if n_failed and n_failed == n_fitted:
        said.append(
            f"The convergence gate failed in all of {counted(n_fitted, 'fit')}: deviations may be"
            " those of the draws; take more of them."
        )
    elif n_failed:
        without = table[table["simulations"] == PASSED]
        again = _outside(without) or "none is outside its band"
        said.append(
            f"The convergence gate failed in {n_failed} of {counted(n_fitted, 'fit')}, which are "
            f"included; without them: {again}."
        )
    return (*said, *_left_out(statuses))


def _left_out(statuses: pd.DataFrame) -> list[str]:
    """How many tables could not be fitted, and why the first of them could not."""
    refused = statuses[statuses["status"] == "not fitted"]
    if not len(refused):
        return []
    first = refused.iloc[0]
    return [
        f"{counted(len(refused), 'table')} could not be fitted and "
        f"{'is' if len(refused) == 1 else 'are'} left out; simulation {first['simulation']}: "
        f"{str(first['reason']).rstrip('.')}."
    ]


def _verdict(rows: pd.DataFrame, n_fitted: int) -> str:
    outside = _outside(rows)
    sets = rows["quantity"].isin(list(SET_WORDS))
    among = counted(int((~sets).sum()), "quantity", "quantities")
    # A table of two models has tiers of one probability only, of which nothing can be said.
    known = rows[[f"coverage_{100 * p:.0f}" for p in PROBABILITIES]].notna().all(axis=1)
    kinds = dict.fromkeys(
        _SET_KINDS.get(quantity, "rank sets") for quantity in rows.loc[sets & known, "quantity"]
    )
    all_sets = any_of(kinds, "and") if kinds else ""
    held = f", and {all_sets} contain the true values as often as stated" if kinds else ""
    simulated = counted(n_fitted, "simulation")
    only_gross = f"{simulated} can reveal only gross errors"
    if not outside and not _can_deviate(rows, n_fitted):
        return (
            f"{simulated} cannot show a deviation: the ranks of so few stay "
            f"inside their bands whatever they are. Simulate {_FEW} tables or more."
        )
    if not outside:
        stay = f"the ranks of all {among} stay inside their bands{held}"
        chance = f"calibrated results leave a band with probability {100 * FALSE_ALARMS:.0f} %"
        # The first sentence is quoted without the others.
        if n_fitted < _FEW:
            return f"{only_gross}; none found: {stay} ({chance})."
        return f"No deviation found: {stay} ({simulated}; {chance})."
    return (
        f"Outside its band: {outside}. Calibrated results leave any of the {len(rows)} bands with "
        f"probability {100 * FALSE_ALARMS:.0f} %: repeat with another seed before you conclude. "
        f"Continuing with more simulations after looking raises the {100 * FALSE_ALARMS:.0f} %."
        + (f" {only_gross}." if n_fitted < _FEW else "")
    )


def _many_tests(rows: pd.DataFrame) -> list[str]:
    """Why a p-value below 0.05 can be inside its band, where the table has one."""
    small = (rows["p_uniform"] <= FALSE_ALARMS) & (rows["verdict"] == "inside")
    if not small.any():
        return []
    percent = f"{100 * FALSE_ALARMS:.0f} %"
    return [
        f"Each p is that of one quantity. Of {counted(len(rows), 'quantity', 'quantities')}, one is"
        f" outside its band if its p is at most {FALSE_ALARMS / len(rows):.2g}, which is {percent} "
        f"divided by their number, so that a band is left by chance with probability {percent} "
        "in all."
    ]


def _can_deviate(rows: pd.DataFrame, n_fitted: int) -> bool:
    """Whether any ranks of so many simulations could leave their bands."""
    most_extreme = uniformity(n_fitted).p_value(np.zeros(n_fitted))
    return bool(most_extreme <= 1.0 - rows["band_prob"].max())


def _outside(rows: pd.DataFrame) -> str:
    """Name the quantities outside their bands, the most extreme first."""
    outside = rows[rows["verdict"] == "outside"].sort_values("p_uniform", kind="stable")
    if not len(outside):
        return ""
    texts = [
        f"{quantity_text(row['quantity'])} ({_mean_rank(row)}95 % intervals hold "
        f"{100 * row['coverage_95']:.0f} %, p {_p_text(row['p_uniform'])})"
        for row in outside.head(_NAMED).to_dict("records")
    ]
    more = len(outside) - len(texts)
    return ", ".join(texts) + (f" and {more} more" if more else "")


def _mean_rank(row: Mapping[Any, Any]) -> str:
    """Of a quantity with ranks; sets have none."""
    return "" if np.isnan(row["mean_rank"]) else f"mean rank {row['mean_rank']:.2f}, "


def _p_text(p: float) -> str:
    return "< 0.001" if p < 0.001 else f"{p:.3f}"
