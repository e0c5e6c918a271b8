"""Calibration of predictions, and the records that the model predicts worst.

Where the model has a closed form, every score is predicted from all others (leave-one-out
PIT), and the band comes from tables drawn from the model at posterior draws of its sds,
each with its own leave-one-out PIT: these are dependent, and the band knows how. Elsewhere
the PIT is taken at draws of the posterior (see :mod:`bayeseval.checks.realised`), where it
is independent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import pandas as pd
import xarray as xr
from scipy import special

from bayeseval import names
from bayeseval._typing import Floats
from bayeseval.checks.container import WARN, Check, judge, p_text, two_numbers
from bayeseval.checks.gaussian import LeaveOneOut
from bayeseval.checks.uniformity import GRID, counts, distance, independent_counts
from bayeseval.design import Design

__all__ = ["LeftOut", "calibration_check", "influence_check", "left_out"]


_SIMULATED: Final = 999
# Operations that the inverses of all points may take together.
_OPERATIONS: Final = 3e9
_MOST_POINTS, _LEAST_POINTS = 40, 3
_SHOWN: Final = 10
_K_DRAWS: Final = 1000


class LeftOut:
    """Every record predicted from all others, mixed over draws of the sds.

    Attributes
    ----------
    pit : ndarray, shape (n_records,)
    expected, error : ndarray, shape (n_records,)
        Predicted score, and observed less predicted in predictive sds.
    simulated : ndarray, shape (999, 99)
        ECDFs of the PIT of tables drawn from the model.
    """

    def __init__(
        self, design: Design, points: Sequence[Mapping[str, Floats]], rng: np.random.Generator
    ) -> None:
        errors, sds, simulated = [], [], []
        for number, point in enumerate(points):
            at = LeaveOneOut(design, point)
            errors.append(at.errors(design.score))
            sds.append(1.0 / np.sqrt(at.precision))
            n = len(range(number, _SIMULATED, len(points)))
            simulated.append(counts(special.ndtr(at.errors(at.tables(n, rng)).T)))
        z, sd = np.stack(errors), np.stack(sds)
        # Without record i the posterior of the sds is the one with it over p(y_i | y_-i, sds).
        log_weight = np.log(sd) + 0.5 * z**2
        weight = np.exp(log_weight - log_weight.max(axis=0))
        weight /= weight.sum(axis=0)
        self.pit = np.clip((weight * special.ndtr(z)).sum(axis=0), 1e-16, 1.0 - 1e-16)
        self.expected = (weight * (design.score - z * sd)).sum(axis=0)
        self.error = (weight * z).sum(axis=0)
        self.simulated = np.concatenate(simulated)


def left_out(design: Design, posterior: Mapping[str, Floats], rng: np.random.Generator) -> LeftOut:
    """Leave-one-out predictions at evenly spaced draws of the sds.

    Parameters
    ----------
    design : Design
        With a closed form (`why_no_closed_form` is None).
    posterior : dict of str to ndarray, shape (n_samples, ...)
        Draws.
    rng : numpy.random.Generator
        Source of simulated tables.
    """
    p = 1 + sum(term.n_levels for term in design.terms)
    affordable = int(_OPERATIONS / (4.0 * p**3 + 100.0 * design.n_records))
    n = len(posterior[names.INTERCEPT])
    n_points = min(n, max(_LEAST_POINTS, min(_MOST_POINTS, affordable)))
    draws = np.unique(np.linspace(0, n - 1, n_points).astype(int))
    effects = {term.effect for term in design.terms}
    points = [
        {name: values[draw] for name, values in posterior.items() if name not in effects}
        for draw in draws
    ]
    return LeftOut(design, points, rng)


def calibration_check(
    found: LeftOut | None, pit: Floats, rng: np.random.Generator
) -> tuple[Check, pd.DataFrame]:
    """Uniformity of the PIT: one p-value, and the ECDF with a 95 % simultaneous band.

    Parameters
    ----------
    found : LeftOut or None
        Leave-one-out predictions where there is a closed form.
    pit : ndarray, shape (n_draws, n_records)
        PIT at draws of the posterior, used without one.
    rng : numpy.random.Generator
        Source of simulated values.

    Returns
    -------
    check : Check
    ecdf : pandas.DataFrame
        ``pit`` (the grid), ``ecdf``, ``lower``, ``upper`` and ``kind``.
    """
    n = pit.shape[1]
    if found is None:
        observed, simulated = counts(pit), independent_counts(n, _SIMULATED, rng)
        kind = "PIT at draws of the posterior, independent under the model"
    else:
        observed, simulated = counts(found.pit[None]), found.simulated
        kind = "leave-one-out PIT, band from tables drawn from the model"
    null = np.sort(distance(simulated, n))
    above = len(null) - np.searchsorted(null, distance(observed, n), side="left")
    p = float(np.mean((1 + above) / (1 + len(null))))
    width = float(np.quantile(null, 0.95)) * np.sqrt(GRID * (1.0 - GRID) / n)
    curve = observed.mean(axis=0)
    table = pd.DataFrame(
        {
            "pit": GRID,
            "ecdf": curve,
            "lower": np.clip(GRID - width, 0.0, 1.0),
            "upper": np.clip(GRID + width, 0.0, 1.0),
            "kind": kind,
        }
    )
    middle = float(curve[74] - curve[24])
    said = "as often as they should"
    if judge(p) != "pass":
        low_heavy = curve[GRID < 0.3].mean() > GRID[GRID < 0.3].mean()
        high_heavy = curve[GRID > 0.7].mean() < GRID[GRID > 0.7].mean()
        said = (
            "more often than they should: predictions are too wide for most scores"
            if middle > 0.5
            else "less often than they should: predictions are too narrow"
        )
        if low_heavy != high_heavy and abs(middle - 0.5) < 0.02:
            said = "as often, but predictions are off to one side"
    return (
        Check(
            "calibration",
            judge(p),
            value=middle,
            p=p,
            sentence=f"{100 * middle:.0f} % of scores fall into the middle half of their "
            f"predictions, {said}: {p_text(p, simulated=len(null))}.",
        ),
        table,
    )


def influence_check(
    tree: xr.DataTree, labels: pd.DataFrame, found: LeftOut | None
) -> tuple[Check, pd.DataFrame, int]:
    """Name the records that the others predict worst, or that hold the posterior in place.

    Parameters
    ----------
    tree : xarray.DataTree
        A fit.
    labels : pandas.DataFrame
        ``model``, ``language``, ``task`` and ``score`` of every record.
    found : LeftOut or None
        Leave-one-out predictions; without them the k-hats of PSIS-LOO are looked at.

    Returns
    -------
    check : Check
    records : pandas.DataFrame
        The ten records that stand out most, largest first: `labels`, and ``expected``,
        ``error_sds`` and ``p`` (two-sided, times the number of records), or ``k_hat``.
    n : int
        How many records stand out.
    """
    if found is None:
        return _by_k_hat(tree, labels)
    p = np.minimum(1.0, 2.0 * np.minimum(found.pit, 1.0 - found.pit) * len(found.pit))
    order = np.argsort(-np.abs(found.error), kind="stable")
    table = labels.assign(expected=found.expected, error_sds=found.error, p=p)
    n, worst = int((p < WARN).sum()), table.iloc[order[0]]
    p_all = float(p.min())
    sentence = (
        f"{n} of {len(p)} records are further from what the others predict than chance allows; "
        if n
        else "No record is further from what the others predict than chance allows; "
    )
    score, expected = two_numbers(float(worst[names.SCORE]), float(worst["expected"]))
    sentence += (
        f"furthest is {_named(worst)}: {score} where {expected} is "
        f"expected, {worst['error_sds']:+.1f} sds."
    )
    return (
        Check(
            "influential_records",
            "warn" if n else "pass",
            value=float(abs(found.error[order[0]])),
            p=p_all,
            sentence=sentence,
        ),
        table.iloc[order[:_SHOWN]].reset_index(drop=True),
        n,
    )


def _by_k_hat(tree: xr.DataTree, labels: pd.DataFrame) -> tuple[Check, pd.DataFrame, int]:
    if "log_likelihood" not in tree.children or tree["posterior"].sizes["draw"] < 100:
        return (
            Check(
                "influential_records",
                "not applicable",
                sentence="No draws of the log likelihood to tell from.",
            ),
            pd.DataFrame(),
            0,
        )
    k_hat = _k_hats(tree)
    order = np.argsort(-k_hat, kind="stable")
    n = int((k_hat > names.K_HAT_MAX).sum())
    table = labels.assign(k_hat=k_hat)
    worst = table.iloc[order[0]]
    some = f"{n} of {len(k_hat)} records have" if n else "No record has"
    return (
        Check(
            "influential_records",
            "warn" if n else "pass",
            value=float(k_hat.max()),
            sentence=f"{some} a k-hat above {names.K_HAT_MAX:g} (the posterior without "
            f"such a record differs much); largest for {_named(worst)} ({worst['k_hat']:.2f}).",
        ),
        table.iloc[order[:_SHOWN]].reset_index(drop=True),
        n,
    )


def _k_hats(tree: xr.DataTree) -> Floats:
    import warnings

    from arviz_stats import loo

    density, posterior = (tree[group].to_dataset() for group in ("log_likelihood", "posterior"))
    step = max(1, density.sizes["chain"] * density.sizes["draw"] // _K_DRAWS)
    thinned = xr.DataTree.from_dict(
        {
            "log_likelihood": density.isel(draw=slice(None, None, step)),
            "posterior": posterior[[names.INTERCEPT]].isel(draw=slice(None, None, step)),
        }
    )
    with warnings.catch_warnings():
        # Of k-hats, which are what is asked for.
        warnings.simplefilter("ignore")
        found = loo(thinned, pointwise=True)
    return np.asarray(found.pareto_k, dtype=np.float64)


def _named(row: pd.Series) -> str:
    return f"{row[names.MODEL]} in {row[names.LANGUAGE]} on {row[names.TASK]}"
