"""Posterior predictive checks of residuals and effects, with the tests of arXiv:2508.17162.

Paper 000, Appendix C, tests the residuals for normality (Shapiro-Wilk) and for equal
variance across languages (Levene), and the model effects for normality.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pandas as pd
from scipy import stats

from bayeseval import names
from bayeseval._typing import Floats, Index
from bayeseval.checks.blocks import fewer, row_blocks
from bayeseval.checks.container import Check, judge, p_text, two_numbers
from bayeseval.checks.prior import mean_share, outside_share, where_bounded
from bayeseval.checks.realised import levene, members_of, normal_scores
from bayeseval.estimands import mean_residual
from bayeseval.estimands.container import PosteriorArrays
from bayeseval.estimands.predict import draws_by_row, off_bounds, replicate_scores
from bayeseval.estimands.related import independent_contrasts

__all__ = [
    "LEAST_RECORDS",
    "Realised",
    "effect_checks",
    "is_crowded",
    "range_checks",
    "residual_checks",
]


# Largest sample for which SciPy's p-value of the Shapiro-Wilk test is accurate.
_MOST_SHAPIRO = 5000
_SIMULATED = 400
# Expected scores that residuals are means over, and draws that they have at least.
_MOST_EXPECTED = 1_000_000_000
_LEAST_DRAWS = 100
#: Least number of records for the sd of a language's scores.
LEAST_RECORDS = 3
# Shares of impossible predicted scores.
_WARN_OUTSIDE = 0.01
_FAIL_OUTSIDE = 0.05


@dataclass(frozen=True, eq=False)
class Realised:
    """Residuals at draws of the posterior.

    Attributes
    ----------
    arrays : PosteriorArrays
    draws : ndarray of int, shape (n_draws,)
        Positions of these draws among the flattened draws.
    pit : ndarray, shape (n_draws, n_records)
        From :func:`bayeseval.checks.realised.realised_pit`.
    bounds : pair of ndarray, shape (n_records,), or None
        Smallest and largest possible score of every record.
    languages : mapping of str to str
        Code to label, for sentences.
    """

    arrays: PosteriorArrays
    draws: Index
    pit: Floats
    bounds: tuple[Floats, Floats] | None
    languages: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def residual(self) -> Floats:
        """Observed score less the mean of the expected one, shape (n_records,).

        At evenly spaced draws where all draws of all records are more than a billion.
        """
        most = max(_LEAST_DRAWS, _MOST_EXPECTED // len(self.arrays.score))
        return mean_residual(self.arrays, step=-(-self.arrays.n_samples // most))


def residual_checks(realised: Realised, rng: np.random.Generator) -> list[Check]:
    """Normality and equal variance of the residuals.

    Parameters
    ----------
    realised : Realised
        Residuals at draws of the posterior.
    rng : numpy.random.Generator
        Random generator of simulated residuals and, for more than 5,000 records, of the
        subset that is tested.
    """
    z, residual = normal_scores(realised.pit), realised.residual
    rows = np.arange(z.shape[1])
    if len(rows) > _MOST_SHAPIRO:
        rows = rng.choice(len(rows), _MOST_SHAPIRO, replace=False)
    checks = [_normality(z[:, rows], residual[rows])]
    compared = [f for f in names.FACTORS if len(realised.arrays.levels[f]) > 1]
    null = _equal_variances(realised.arrays, compared, rng)
    for factor in names.FACTORS:
        checks.append(
            _equal_variance(z, null[factor], residual, realised, factor)
            if factor in null
            else Check(
                f"equal_variance_{factor}", "not applicable", sentence=f"There is one {factor}."
            )
        )
    return checks


def _equal_variances(
    arrays: PosteriorArrays, factors: Sequence[str], rng: np.random.Generator
) -> dict[str, Floats]:
    """Levene's statistics of independent residuals of one variance, by factor."""
    n_records = len(arrays.score)
    n_tables = fewer(_SIMULATED, n_records)
    statistics = {factor: np.empty(n_tables) for factor in factors}
    for tables in row_blocks(n_tables, n_records, by_row=True):
        null = rng.standard_normal((tables.stop - tables.start, n_records))
        for factor, values in statistics.items():
            values[tables] = levene(null, arrays.index[factor], len(arrays.levels[factor]))
    return statistics


def _normality(z: Floats, residual: Floats) -> Check:
    p = float(np.mean([stats.shapiro(row).pvalue for row in z]))
    classical = stats.shapiro(residual)
    excess = float(stats.kurtosis(z, axis=1).mean())
    status = judge(p)
    verdict = "look like draws from the model's likelihood"
    if status != "pass":
        verdict = (
            "have heavier tails than the model's likelihood: most are smaller than it expects, and "
            "a few much larger"
            if excess > 0
            else "have lighter tails than the model's likelihood, or another shape"
        )
    return Check(
        "residual_normality",
        status,
        value=float(classical.statistic),
        p=p,
        p_classical=float(classical.pvalue),
        sentence=f"The residuals {verdict}: {p_text(p)}, excess kurtosis {excess:.1f}; "
        f"Shapiro-Wilk of their means W = {classical.statistic:.3f}.",
    )


def _equal_variance(
    z: Floats, null: Floats, residual: Floats, realised: Realised, factor: str
) -> Check:
    group, labels = realised.arrays.index[factor], realised.arrays.levels[factor]
    if factor == names.LANGUAGE:
        labels = tuple(realised.languages.get(label, label) for label in labels)
    observed, simulated = levene(z, group, len(labels)), np.sort(null)
    if np.isnan(observed).any():
        return Check(
            f"equal_variance_{factor}",
            "not applicable",
            sentence=f"No {factor} has three records or more: there is no variance to compare.",
        )
    above = len(simulated) - np.searchsorted(simulated, observed, side="left")
    p = float(np.mean((1 + above) / (1 + len(simulated))))
    sds = pd.Series(residual).groupby(group).agg(["std", "size"])
    known = sds[sds["size"] >= LEAST_RECORDS]["std"]
    groups = [residual[rows] for rows in members_of(group, len(labels)) if len(rows)]
    status, extremes = judge(p), ""
    differs = "was not found to differ" if status == "pass" else "differs"
    if status != "pass" and len(known) > 1:
        order = [labels[int(g)] for g in known.sort_values().index.to_numpy()]
        low, high = order[0], order[-1]
        extremes = f"; sd {known.max():.3g} in {high}, {known.min():.3g} in {low}"
    classical = stats.levene(*groups, center="median")
    return Check(
        f"equal_variance_{factor}",
        status,
        value=float(classical.statistic),
        p=p,
        p_classical=float(classical.pvalue),
        sentence=f"The residual sd {differs} between "
        f"{factor}s: {p_text(p, simulated=len(simulated))}{extremes}.",
    )


def effect_checks(realised: Realised) -> list[Check]:
    """Normality of language, task and model effects.

    The Shapiro-Wilk statistic W does not depend on location and scale, so zero-sum effects
    have the same distribution of W as independent ones. Effects of related levels are
    turned into contrasts that are independent under the model.
    """
    checks = []
    for factor in names.FACTORS:
        name, effects = f"normality_{factor}", realised.arrays.main[factor]
        if effects.shape[1] < 4:
            checks.append(Check(name, "not applicable", sentence=f"Fewer than four {factor}s."))
            continue
        related, drawn = realised.arrays.related.get(factor), effects[realised.draws]
        if related is not None:
            own = realised.arrays.main_sd[factor]
            effects = independent_contrasts(related, own, effects)
            drawn = effects[realised.draws]
        some = slice(None, None, -(-effects.shape[1] // _MOST_SHAPIRO))
        p = float(np.mean([stats.shapiro(row[some]).pvalue for row in drawn]))
        classical = stats.shapiro(effects.mean(axis=0)[some])
        alike = "look normal" if judge(p) == "pass" else "do not look normal"
        checks.append(
            Check(
                name,
                judge(p),
                value=float(classical.statistic),
                p=p,
                p_classical=float(classical.pvalue),
                sentence=f"The {factor} effects {alike}: {p_text(p)}.",
            )
        )
    return checks


def range_checks(
    realised: Realised, rng: np.random.Generator, n: int = _SIMULATED
) -> tuple[list[Check], pd.DataFrame]:
    """Extremes of the residuals, sds by language and the share of impossible predictions.

    Returns
    -------
    checks : list of Check
    sds : pandas.DataFrame
        ``language``, ``n_records``, ``observed``, ``replicated_mean``,
        ``replicated_lower``, ``replicated_upper`` (95 %, equal-tailed) and ``p``
        (two-sided) of the sds of the scores of a language.
    """
    arrays = realised.arrays
    checks = _extremes(realised)
    members = members_of(arrays.index[names.LANGUAGE], len(arrays.levels[names.LANGUAGE]))
    parts: list[Floats] = []
    outside = []
    table = off_bounds(arrays, arrays.score)[None]
    for replicated in _replicated(arrays, rng, fewer(n, len(arrays.score))):
        if realised.bounds is not None:
            outside.append((outside_share(replicated, realised.bounds), len(replicated)))
        # The table itself is the first of all rows.
        moved = off_bounds(arrays, replicated)
        parts.append(_sds_of(moved if parts else np.concatenate([table, moved]), members))
        # Not kept while the next ones are drawn.
        del replicated, moved
    sds, check = _language_sds(arrays, np.concatenate(parts), members, realised.languages)
    checks.append(check)
    if realised.bounds is None:
        checks.append(
            Check("outside_bounds", "not applicable", sentence="The scores have no known bounds.")
        )
        return checks, sds
    share = mean_share(outside, realised.bounds)
    status = "fail" if share > _FAIL_OUTSIDE else "warn" if share > _WARN_OUTSIDE else "pass"
    checks.append(
        Check(
            "outside_bounds",
            status,  # type: ignore[arg-type]
            value=share,
            sentence=f"{100 * share:.1f} % of predicted scores are outside the bounds of the scale"
            f"{where_bounded(realised.bounds)}.",
        )
    )
    return checks, sds


def is_crowded(arrays: PosteriorArrays, sds: pd.DataFrame, bounds: tuple[Floats, Floats]) -> bool:
    """Whether the language whose sd is predicted worst varies too little, at a bound.

    Parameters
    ----------
    arrays : PosteriorArrays
    sds : pandas.DataFrame
        From :func:`range_checks`.
    bounds : pair of ndarray, shape (n_records,)
        Smallest and largest possible score of every record.
    """
    if not len(sds):
        return False
    width = sds["replicated_upper"] - sds["replicated_lower"]
    off = (sds["observed"] - sds["replicated_mean"]).abs() / width
    odd = sds.iloc[int(np.argmax(off.to_numpy()))]
    code = arrays.levels[names.LANGUAGE].index(odd[names.LANGUAGE])
    own = arrays.index[names.LANGUAGE] == code
    lower, upper = (side[own] for side in bounds)
    # Scores so close to a bound that the predicted ones reach beyond it.
    reach = 2.0 * float(odd["replicated_mean"])
    near = (arrays.score[own] - reach < lower) | (arrays.score[own] + reach > upper)
    return bool(odd["observed"] < odd["replicated_lower"] and near.mean() > 0.5)


def _extremes(realised: Realised) -> list[Check]:
    pit, arrays = realised.pit, realised.arrays
    # Of n independent uniform values, the largest is above u with probability 1 - u^n.
    n = pit.shape[1]
    p_high = float(-np.expm1(n * np.log(pit.max(axis=1))).mean())
    p_low = float(-np.expm1(n * np.log1p(-pit.min(axis=1))).mean())
    z = normal_scores(pit)
    typical = z.mean(axis=0)
    return [
        Check(
            f"{name}_residual",
            judge(p),
            value=value,
            p=p,
            sentence=f"The {name} residual is {abs(value):.1f} sds {side} zero: {p_text(p)} for "
            f"the {name} of {n} residuals.{_effect_of(row, realised.residual, arrays, judge(p))}",
        )
        for name, side, value, p, row in (
            ("highest", "above", float(z.max(axis=1).mean()), p_high, int(typical.argmax())),
            ("lowest", "below", float(z.min(axis=1).mean()), p_low, int(typical.argmin())),
        )
    ]


def _effect_of(row: int, residual: Floats, arrays: PosteriorArrays, status: str) -> str:
    """By how much one record moves the means of its model and language, if it is an outlier."""
    if status == "pass":
        return ""
    parts = []
    for factor in (names.MODEL, names.LANGUAGE):
        own = residual[arrays.index[factor] == arrays.index[factor][row]]
        if len(own) < 2:
            parts.append(f"it is the only record of its {factor}")
            continue
        shift = abs(own.mean() - (own.sum() - residual[row]) / (len(own) - 1))
        # Against the standard error of the mean of the others.
        others = np.sqrt(max(float((own**2).sum() - residual[row] ** 2), 0.0)) / (len(own) - 1)
        size = "small against" if shift < others else "more than"
        parts.append(
            f"it moves the mean of the {len(own)} records of its {factor} by {shift:.2g} ({size} "
            f"the standard error {others:.2g})"
        )
    return f" {parts[0][0].upper()}{parts[0][1:]}, and {parts[1]}."


def _replicated(arrays: PosteriorArrays, rng: np.random.Generator, n: int) -> Iterator[Floats]:
    """At least `n` predicted tables, in blocks."""
    # Evenly spaced draws; each several times if there are few.
    step, times = -(-arrays.n_samples // n), -(-n // arrays.n_samples)
    draws, n_records = len(range(0, arrays.n_samples, step)), len(arrays.score)
    by_row = draws_by_row(arrays)
    if len(list(row_blocks(draws * times, n_records, by_row=by_row))) == 1:
        parts = [replicate_scores(arrays, rng, slice(None, None, step)) for _ in range(times)]
        yield np.concatenate(parts)
        return
    for _ in range(times):
        for block in row_blocks(draws, n_records, by_row=by_row):
            yield replicate_scores(arrays, rng, slice(block.start * step, block.stop * step, step))


def _sds_of(scores: Floats, members: Sequence[Index]) -> Floats:
    """Sd of the scores of every language with enough records; shape (n_rows, n_languages)."""
    kept = [rows for rows in members if len(rows) >= LEAST_RECORDS]
    if not kept:
        return np.empty((len(scores), 0))
    return np.stack([scores[:, rows].std(axis=1, ddof=1) for rows in kept], axis=1)


def _language_sds(
    arrays: PosteriorArrays, sds: Floats, members: Sequence[Index], languages: Mapping[str, str]
) -> tuple[pd.DataFrame, Check]:
    """Sds of the table, the first row, against those of predicted tables."""
    labels = arrays.levels[names.LANGUAGE]
    kept = [g for g, rows in enumerate(members) if len(rows) >= LEAST_RECORDS]
    if not kept:
        sentence = f"No language has {LEAST_RECORDS} records."
        return pd.DataFrame(), Check("sd_by_language", "not applicable", sentence=sentence)
    observed, drawn = sds[0], sds[1:]
    centre, spread = drawn.mean(axis=0), drawn.std(axis=0, ddof=1)
    total = (((sds - centre) / spread) ** 2).sum(axis=1)
    p = float((1 + (total[1:] >= total[0]).sum()) / len(total))
    above = (1 + (drawn >= observed).sum(axis=0)) / (1 + len(drawn))
    below = (1 + (drawn <= observed).sum(axis=0)) / (1 + len(drawn))
    lower, upper = np.quantile(drawn, [0.025, 0.975], axis=0)
    table = pd.DataFrame(
        {
            names.LANGUAGE: [labels[g] for g in kept],
            "n_records": [len(members[g]) for g in kept],
            "observed": observed,
            "replicated_mean": centre,
            "replicated_lower": lower,
            "replicated_upper": upper,
            "p": np.minimum(1.0, 2.0 * np.minimum(above, below)),
        }
    )
    outside = int(((observed < lower) | (observed > upper)).sum())
    odd = table.iloc[int(np.argmax(np.abs(observed - centre) / spread))]
    observed_sd, predicted_sd = two_numbers(float(odd["observed"]), float(odd["replicated_mean"]))
    language = languages.get(odd[names.LANGUAGE], odd[names.LANGUAGE])
    largest = (
        f"; the largest difference is in {language}, {observed_sd} observed and {predicted_sd} "
        "predicted"
        if judge(p) != "pass"
        else ""
    )
    return table, Check(
        "sd_by_language",
        judge(p),
        value=outside / len(kept),
        p=p,
        sentence=f"In {outside} of {len(kept)} languages the sd of the scores is outside the 95 % "
        f"interval of predicted tables: {p_text(p)}{largest}.",
    )
