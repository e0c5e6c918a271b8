"""Calibration of predictions, and the records that the model predicts worst.

Where the model has a closed form, every score is predicted from all others (leave-one-out
PIT). The band comes from tables drawn from the model at posterior draws of its sds, each
with its own leave-one-out PIT, so that it takes their dependence into account. For other
models the PIT is computed at draws of the posterior (see
:mod:`bayeseval.checks.realised`), where it is independent; single records are predicted from all
others by importance sampling (see :mod:`bayeseval.checks.importance`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import pandas as pd
from scipy import special

from bayeseval import names
from bayeseval._typing import Floats
from bayeseval.checks.blocks import fewer, row_blocks
from bayeseval.checks.container import WARN, Check, judge, p_text, two_numbers
from bayeseval.checks.gaussian import LeaveOneOut
from bayeseval.checks.importance import Reweighted
from bayeseval.checks.uniformity import GRID, counts, distance, independent_counts
from bayeseval.design import Design

__all__ = ["LeftOut", "calibration_check", "influence_check", "left_out"]


_SIMULATED: Final = 999
# Most operations of the matrix inverses of all points together.
_OPERATIONS: Final = 3e9
_MOST_POINTS, _LEAST_POINTS = 40, 3
_SHOWN: Final = 10


class LeftOut:
    """Every record predicted from all others, mixed over draws of the sds.

    Attributes
    ----------
    pit : ndarray, shape (n_records,)
    expected, error : ndarray, shape (n_records,)
        Predicted score, and observed minus predicted score in predictive sds.
    simulated : ndarray, shape (n_tables, 99)
        ECDFs of the PIT of tables drawn from the model: 999, or fewer of large tables.
    """

    def __init__(
        self, design: Design, points: Sequence[Mapping[str, Floats]], rng: np.random.Generator
    ) -> None:
        errors, sds, simulated = [], [], []
        n_tables = fewer(_SIMULATED, design.n_records)
        for number, point in enumerate(points):
            leave_one_out = LeaveOneOut(design, point)
            errors.append(leave_one_out.errors(design.score))
            sds.append(1.0 / np.sqrt(leave_one_out.precision))
            n = len(range(number, n_tables, len(points)))
            # A table is a column, of which several arrays are made.
            for block in row_blocks(n, 2 * design.n_records):
                tables = leave_one_out.tables(block.stop - block.start, rng)
                simulated.append(counts(special.ndtr(leave_one_out.errors(tables).T)))
        z, sd = np.stack(errors), np.stack(sds)
        # The posterior of the sds without record i is proportional to the full one divided by
        # p(y_i | y_-i, sds).
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
        Random generator of simulated tables.
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
    predictions: LeftOut | None, pit: Floats, rng: np.random.Generator
) -> tuple[Check, pd.DataFrame]:
    """Uniformity of the PIT: one p-value, and the ECDF with a 95 % simultaneous band.

    Parameters
    ----------
    predictions : LeftOut or None
        Leave-one-out predictions where there is a closed form.
    pit : ndarray, shape (n_draws, n_records)
        PIT at draws of the posterior, used without one.
    rng : numpy.random.Generator
        Random generator of simulated values.

    Returns
    -------
    check : Check
    ecdf : pandas.DataFrame
        ``pit`` (the grid), ``ecdf``, ``lower``, ``upper`` and ``kind``.
    """
    n = pit.shape[1]
    if predictions is None:
        observed, simulated = counts(pit), independent_counts(n, _SIMULATED, rng)
        kind = "PIT at draws of the posterior, independent under the model"
        seen = " by a fit that has seen them"
    else:
        observed, simulated = counts(predictions.pit[None]), predictions.simulated
        kind = "leave-one-out PIT, band from tables drawn from the model"
        seen = ""
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
    verdict = "as often as they should"
    if judge(p) != "pass":
        low_heavy = curve[GRID < 0.3].mean() > GRID[GRID < 0.3].mean()
        high_heavy = curve[GRID > 0.7].mean() < GRID[GRID > 0.7].mean()
        verdict = (
            "more often than they should: predictions are wider than most scores need, as happens "
            "if a few scores lie far from their predictions"
            if middle > 0.5
            else "less often than they should: predictions are too narrow"
        )
        if low_heavy != high_heavy and abs(middle - 0.5) < 0.02:
            verdict = "as often, but predictions are off to one side"
    return (
        Check(
            "calibration",
            judge(p),
            value=middle,
            p=p,
            sentence=f"{100 * middle:.0f} % of scores fall into the middle half of their "
            f"predictions{seen}, {verdict}: {p_text(p, simulated=len(null))}.",
        ),
        table,
    )


def influence_check(
    labels: pd.DataFrame,
    predictions: LeftOut | Reweighted | None,
    languages: Mapping[str, str] | None = None,
) -> tuple[Check, pd.DataFrame, int]:
    """Find the records that all others predict worst.

    Parameters
    ----------
    labels : pandas.DataFrame
        ``model``, ``language``, ``task`` and ``score`` of every record.
    predictions : LeftOut, Reweighted or None
        Leave-one-out predictions; None where the fit has too few draws for them.
    languages : mapping of str to str, optional
        Code to label, for the sentence.

    Returns
    -------
    check : Check
    records : pandas.DataFrame
        The ten most extreme records, largest first: `labels`, ``expected``,
        ``error_sds`` and ``p`` (two-sided, times the number of records); without a closed form
        also ``k_hat``.
    n : int
        Number of outlying records.
    """
    if predictions is None:
        sentence = "The fit has too few draws of the log likelihood."
        return Check("influential_records", "not applicable", sentence=sentence), pd.DataFrame(), 0
    p = np.minimum(
        1.0, 2.0 * np.minimum(predictions.pit, 1.0 - predictions.pit) * len(predictions.pit)
    )
    order = np.argsort(-np.abs(predictions.error), kind="stable")
    table = labels.assign(expected=predictions.expected, error_sds=predictions.error, p=p)
    if isinstance(predictions, Reweighted):
        table["k_hat"] = predictions.k_hat
    n, worst = int((p < WARN).sum()), table.iloc[order[0]]
    p_all = float(p.min())
    sentence = (
        f"{n} of {len(p)} records are further from their predictions from all other records than "
        "expected by chance; "
        if n
        else "No record is further from its prediction from all other records than expected by "
        "chance; "
    )
    score, expected = two_numbers(float(worst[names.SCORE]), float(worst["expected"]))
    sentence += (
        f"the largest error is that of {_described(worst, languages or {})}: {score}, predicted "
        f"{expected} ({worst['error_sds']:+.1f} sds)."
    )
    return (
        Check(
            "influential_records",
            "warn" if n else "pass",
            value=float(abs(predictions.error[order[0]])),
            p=p_all,
            sentence=sentence,
        ),
        table.iloc[order[:_SHOWN]].reset_index(drop=True),
        n,
    )


def _described(row: pd.Series, languages: Mapping[str, str]) -> str:
    language = languages.get(row[names.LANGUAGE], row[names.LANGUAGE])
    return f"{row[names.MODEL]} in {language} on {row[names.TASK]}"
