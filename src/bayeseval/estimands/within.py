"""Tables of replicate noise: components by model, cells, aggregates over languages."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

import numpy as np
import pandas as pd
import xarray as xr

from bayeseval import names
from bayeseval._typing import Floats
from bayeseval.estimands.aggregates import aggregate_variants
from bayeseval.estimands.arrays import Interval, interval_summary
from bayeseval.estimands.frames import (
    draws_of,
    finish,
    pair_rows,
    rank_columns,
    summary_columns,
)
from bayeseval.estimands.noise import read_noise
from bayeseval.estimands.ranks import best_levels, pairwise_differences
from bayeseval.estimands.read import group, read_arrays

__all__ = [
    "aggregates_table",
    "has_replicates",
    "language_pairwise_table",
    "model_components_table",
    "noise_sources",
    "within_language_table",
]

# Component, and the posterior variable it is read from.
_COMPONENTS: Final[Mapping[str, str]] = {
    "between": "between_sd",
    "between_population": "between_sd_population",
    "seed": "seed_sd",
    "boot": "boot_sd",
    "seed_boot": "seed_boot_sd",
    "prompt": "prompt_sd",
    "prompt_own": "prompt_own_sd",
    "prompt_shared": "prompt_shared_sd",
    "judge": "judge_sd",
    "judge_own": "judge_own_sd",
    "judge_shared": "judge_shared_sd",
    "given_se": "se_sd",
    "within": "within_sd",
}
_SOURCES: Final = (*names.SOURCES, "se")
_UPPER_BOUND: Final = (
    "run_sd and score_se are upper bounds: the sds of seeds and of test sets both hold their "
    "interaction"
)


def noise_sources(tree: xr.DataTree) -> tuple[str, ...]:
    """Components of a fit's models that are noise within cells; none without replicates."""
    posterior = group(tree, "posterior")
    no_source = ("between", "between_population", "within")
    return tuple(c for c, name in _COMPONENTS.items() if name in posterior and c not in no_source)


def has_replicates(tree: xr.DataTree) -> bool:
    """Whether a fit knows about noise within cells: replicates or standard errors."""
    return _COMPONENTS["within"] in group(tree, "posterior")


def model_components_table(tree: xr.DataTree, *, ci_prob: float = names.CI_PROB) -> pd.DataFrame:
    """Variance between the languages and within them, for every model.

    Parameters
    ----------
    tree : xarray.DataTree
        A fit with replicates or standard errors.
    ci_prob : float
        Probability inside the equal-tailed intervals.

    Returns
    -------
    pandas.DataFrame
        ``component`` (``between``, over the languages at hand; ``between_population``, of
        the population they come from; ``seed``, ``boot``, ``seed_boot``, ``prompt``,
        ``judge``, ``given_se``; ``prompt_shared`` and ``prompt_own``, or of judges, the parts
        of ``prompt`` that models share and that they do not;
        ``within``, of one run), ``sd_{mean,sd,lower,upper}`` (score units),
        ``share_{mean,lower,upper}`` of the variance of one run over the languages at
        hand (between^2 + within^2), ``kind`` (``realised`` of the languages at hand, ``known``
        of sds taken as given, which have no interval, else ``pooled``), ``model``,
        ``ci_kind``, ``ci_prob``. A component that a model has no replicates for is left out.

    References
    ----------
    Paper 001, section 3.
    """
    posterior = group(tree, "posterior")
    draws = {
        component: draws_of(posterior[name])
        for component, name in _COMPONENTS.items()
        if name in posterior
    }
    total = draws["between"] ** 2 + draws["within"] ** 2
    parts = []
    for component, values in draws.items():
        summary = _sd_summary(values, ci_prob)
        columns = {"component": component} | summary_columns("sd", summary)
        # The population's sd is not a part of what was observed.
        if component != "between_population":
            share = interval_summary(values**2 / total, ci_prob=ci_prob)
            columns |= summary_columns("share", share, sd=False)
        known = np.isnan(summary.lower) & (len(values) > 1)
        columns |= {
            "kind": np.where(known, "known", "realised" if component == "between" else "pooled")
        }
        parts.append(pd.DataFrame(columns | {names.MODEL: _labels(posterior, names.MODEL)}))
    table = pd.concat(parts)
    # The index counts models: all components of the first one first.
    return finish(table[table["sd_mean"].notna()].sort_index(kind="stable"), ci_prob)


def within_language_table(tree: xr.DataTree, *, ci_prob: float = names.CI_PROB) -> pd.DataFrame:
    """Noise of every cell: the sds of its seeds and test sets.

    Parameters
    ----------
    tree : xarray.DataTree
        A fit with replicates or standard errors.
    ci_prob : float
        Probability inside the equal-tailed intervals.

    Returns
    -------
    pandas.DataFrame
        ``model``, ``language``, ``task``, ``score`` (observed mean), ``cell_{mean,sd,lower,
        upper}`` (the score without noise); for every source that the table tells about
        ``<source>_sd_raw``, what the cell's own replicates say (missing for single runs and
        where some pairs of seed and test set are), and ``<source>_sd_{mean,lower,upper}``, a
        known sd without an interval; ``run_sd_{mean,lower,upper}`` (sd of one run about the cell),
        ``score_se_{mean,lower,upper}`` (of the observed score, the mean of its seeds on one
        test set), ``note`` (where these are upper bounds), ``ci_kind``, ``ci_prob``.
        Score units; cells without noise of their own are left out.
    """
    arrays, noise = read_arrays(tree), read_noise(tree, with_shared=False)
    if noise is None:
        return pd.DataFrame()
    rows = np.flatnonzero(np.any([~np.isnan(sd[0]) for sd in noise.sd.values()], axis=0))
    columns: dict[str, object] = {
        factor: np.array(arrays.levels[factor], dtype=object)[arrays.index[factor][rows]]
        for factor in (names.MODEL, names.LANGUAGE, names.TASK)
    }
    columns["score"] = arrays.score[rows]
    cell = draws_of(group(tree, "estimands")["cell_mean"])[:, rows]
    columns |= summary_columns("cell", interval_summary(cell, ci_prob=ci_prob))
    for source in _SOURCES:
        if source in noise.sd:
            columns[f"{source}_sd_raw"] = noise.raw_sd[source][rows]
            summary = _sd_summary(noise.sd[source][:, rows], ci_prob)
            columns |= summary_columns(f"{source}_sd", summary, sd=False)
    for name, variance in (("run_sd", noise.run_variance), ("score_se", noise.mean_variance)):
        summary = _sd_summary(np.sqrt(variance[:, rows]), ci_prob)
        columns |= summary_columns(name, summary, sd=False)
    columns["note"] = np.where(noise.is_upper_bound[rows], _UPPER_BOUND, "")
    return finish(pd.DataFrame(columns), ci_prob)


def aggregates_table(tree: xr.DataTree, *, ci_prob: float = names.CI_PROB) -> pd.DataFrame:
    """Aggregates over languages for every model, with ranks.

    Parameters
    ----------
    tree : xarray.DataTree
        A fit with replicates or standard errors.
    ci_prob : float
        Probability inside the equal-tailed intervals.

    Returns
    -------
    pandas.DataFrame
        ``aggregate``, ``population`` (``fixed``: the languages at hand, ``resampled``: as
        many new ones of the same kind, ``subset``: half of them), ``of`` (``expected``:
        scores without noise, ``run``: of one seed on one test set), ``model``,
        ``value_{mean,sd,lower,upper}`` (score units), ``rank_{mean,median,lower,upper}``,
        ``p_best``, ``excluded_draws`` (draws without a geometric mean), ``note`` (why a
        geometric mean is missing: scores that may be negative, or a draw with a language at
        or below zero; else empty), ``ci_kind``, ``ci_prob``. Best mean value first.

    References
    ----------
    Paper 001, section 5.
    """
    posterior = group(tree, "posterior")
    models = _labels(posterior, names.MODEL)
    parts = []
    for name, kind, population, of in aggregate_variants():
        draws, ranks = draws_of(posterior[name]), draws_of(posterior[names.rank_name(name)])
        reported = np.asarray(~np.isnan(ranks).all(axis=0))
        excluded = json.loads(posterior[name].attrs.get("excluded_draws", "{}"))
        reason = str(posterior[name].attrs.get("note", ""))
        counts = np.array([excluded.get(model, 0) for model in models], dtype=np.int64)
        part = pd.DataFrame(
            {"aggregate": kind, "population": population, "of": of, names.MODEL: models}
            | summary_columns("value", interval_summary(draws, ci_prob=ci_prob))
            | rank_columns("rank", ranks, ci_prob=ci_prob)
            | {
                "p_best": np.where(reported, (ranks == 1.0).mean(axis=0), np.nan),
                "excluded_draws": counts,
                "note": [
                    "" if known else _missing_note(count, len(draws), reason)
                    for count, known in zip(counts, reported, strict=True)
                ],
            }
        )
        parts.append(part.sort_values("value_mean", ascending=False, kind="stable"))
    return finish(pd.concat(parts), ci_prob)


def _missing_note(count: int, total: int, reason: str) -> str:
    """Say why a geometric mean is missing."""
    if reason:
        return f"not reported: {reason}, and a geometric mean needs scores above 0"
    if not count:
        return ""
    return (
        f"not reported: {count} of {total} draws ({100 * count / total:.3g} %) have a language at "
        "or below 0, where no geometric mean exists"
    )


def language_pairwise_table(
    tree: xr.DataTree, *, ci_prob: float = names.CI_PROB, most: int | None = None
) -> pd.DataFrame:
    """Differences between all pairs of models on every language.

    Parameters
    ----------
    tree : xarray.DataTree
        A fit with replicates or standard errors.
    ci_prob : float
        Probability inside the equal-tailed intervals.
    most : int, optional
        Models that are compared: those with the best scores in the language, where there are
        more. All by default.

    Returns
    -------
    pandas.DataFrame
        The columns of :func:`bayeseval.estimands.pairwise_table`; the quantity is
        ``score:<language>``, the mean of a model on the language without noise.

    References
    ----------
    Paper 001, section 5.
    """
    scores = group(tree, "estimands")["language_score"]
    models = np.array([str(m) for m in scores.coords[names.MODEL].values], dtype=object)
    parts = []
    for language in scores.coords[names.LANGUAGE].values:
        own = draws_of(scores.sel({names.LANGUAGE: language}))
        best = best_levels(own, highest_first=True, most=most)
        pairs = pairwise_differences(own, highest_first=True, ci_prob=ci_prob, levels=best)
        parts.append(pair_rows(f"score:{language}", models, pairs))
    return finish(pd.concat(parts), ci_prob)


def _sd_summary(draws: Floats, ci_prob: float) -> Interval:
    """Summary of sds; one that is known, the same in all draws, has neither sd nor interval."""
    summary = interval_summary(draws, ci_prob=ci_prob)
    sampled = draws.min(axis=0) < draws.max(axis=0)
    sd, lower, upper = (
        np.where(sampled, part, np.nan) for part in (summary.sd, summary.lower, summary.upper)
    )
    return summary._replace(sd=sd, lower=lower, upper=upper)


def _labels(posterior: xr.Dataset, dim: str) -> list[str]:
    return [str(label) for label in posterior.coords[dim].values]
