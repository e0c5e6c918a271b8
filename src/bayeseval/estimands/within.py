"""Tables of replicate noise: components by model, cells, aggregates over languages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
import pandas as pd
import xarray as xr

from bayeseval import names
from bayeseval.estimands.aggregates import aggregate_variants
from bayeseval.estimands.arrays import Floats, interval_summary, rank_summary
from bayeseval.estimands.container import group, read_arrays
from bayeseval.estimands.noise import read_noise
from bayeseval.estimands.ranks import pairwise_differences

__all__ = [
    "aggregates_table",
    "has_replicates",
    "language_pairwise_table",
    "model_components_table",
    "within_language_table",
]

# Component, and the posterior variable it is read from.
_COMPONENTS: Final[Mapping[str, str]] = {
    "between": "between_sd",
    "between_population": "between_sd_population",
    "seed": "seed_sd",
    "boot": "boot_sd",
    "seed_boot": "seed_boot_sd",
    "given_se": "se_sd",
    "within": "within_sd",
}
_SOURCES: Final = (*names.SOURCES, "se")


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
        the population they come from; ``seed``, ``boot``, ``seed_boot``, ``given_se``;
        ``within``, of one run), ``model``, ``sd_{mean,sd,lower,upper}`` (score units),
        ``share_{mean,lower,upper}`` of the variance of one run over the languages at
        hand (between^2 + within^2), ``ci_kind``, ``ci_prob``. A component that a model
        has no replicates for is left out.

    References
    ----------
    Paper 001, section 3.
    """
    posterior = group(tree, "posterior")
    draws = {
        component: _flat(posterior[name])
        for component, name in _COMPONENTS.items()
        if name in posterior
    }
    total = draws["between"] ** 2 + draws["within"] ** 2
    rows = []
    for m, model in enumerate(_labels(posterior, names.MODEL)):
        for component, values in draws.items():
            if np.isnan(values[:, m]).all():
                continue
            sd = interval_summary(values[:, [m]], ci_prob=ci_prob)
            row = {"component": component, "model": model} | _numbers("sd", sd, 0)
            # The population's sd is not a part of what was observed.
            if component != "between_population":
                share = interval_summary(values[:, [m]] ** 2 / total[:, [m]], ci_prob=ci_prob)
                row |= _numbers("share", share, 0, sd=False)
            rows.append(row)
    return pd.DataFrame(rows).assign(ci_kind=names.CI_KIND, ci_prob=ci_prob)


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
        upper}`` (the score without noise), ``<source>_sd_{mean,lower,upper}`` for every
        source that the table tells about, ``run_sd_{mean,lower,upper}`` (sd of one run),
        ``ci_kind``, ``ci_prob``. Score units; cells without noise of their own are left
        out.
    """
    arrays, noise = read_arrays(tree), read_noise(tree)
    if noise is None:
        return pd.DataFrame()
    rows = np.flatnonzero(np.any([~np.isnan(sd[0]) for sd in noise.sd.values()], axis=0))
    columns: dict[str, object] = {
        factor: np.array(arrays.levels[factor], dtype=object)[arrays.index[factor][rows]]
        for factor in (names.MODEL, names.LANGUAGE, names.TASK)
    }
    columns["score"] = arrays.score[rows]
    cell = interval_summary(_flat(group(tree, "estimands")["cell_mean"])[:, rows], ci_prob=ci_prob)
    columns |= {f"cell_{key}": getattr(cell, key) for key in ("mean", "sd", "lower", "upper")}
    sds = {f"{source}_sd": noise.sd[source][:, rows] for source in _SOURCES if source in noise.sd}
    sds["run_sd"] = np.sqrt(noise.run_variance[:, rows])
    for name, values in sds.items():
        summary = interval_summary(values, ci_prob=ci_prob)
        columns |= {f"{name}_{key}": getattr(summary, key) for key in ("mean", "lower", "upper")}
    return pd.DataFrame(columns).assign(ci_kind=names.CI_KIND, ci_prob=ci_prob)


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
        ``p_best``, ``ci_kind``, ``ci_prob``. Best mean value first.

    References
    ----------
    Paper 001, section 5.
    """
    posterior = group(tree, "posterior")
    models = np.array(_labels(posterior, names.MODEL), dtype=object)
    parts = []
    for name, kind, population, of in aggregate_variants():
        value = interval_summary(_flat(posterior[name]), ci_prob=ci_prob)
        draws = _flat(posterior[names.rank_name(name)])
        rank = rank_summary(draws, ci_prob=ci_prob)
        part = pd.DataFrame(
            {"aggregate": kind, "population": population, "of": of, "model": models}
            | {f"value_{key}": getattr(value, key) for key in ("mean", "sd", "lower", "upper")}
            | {f"rank_{key}": getattr(rank, key) for key in ("mean", "median", "lower", "upper")}
            | {"p_best": np.where(np.isnan(rank.mean), np.nan, (draws == 1.0).mean(axis=0))}
        )
        parts.append(part.sort_values("value_mean", ascending=False, kind="stable"))
    table = pd.concat(parts, ignore_index=True)
    return table.assign(ci_kind=names.CI_KIND, ci_prob=ci_prob)


def language_pairwise_table(tree: xr.DataTree, *, ci_prob: float = names.CI_PROB) -> pd.DataFrame:
    """Differences between all pairs of models on every language.

    Parameters
    ----------
    tree : xarray.DataTree
        A fit with replicates or standard errors.
    ci_prob : float
        Probability inside the equal-tailed intervals.

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
        pairs = pairwise_differences(
            _flat(scores.sel({names.LANGUAGE: language})), highest_first=True, ci_prob=ci_prob
        )
        parts.append(
            pd.DataFrame(
                {
                    "quantity": f"score:{language}",
                    "model_a": models[pairs.first],
                    "model_b": models[pairs.second],
                }
                | {
                    f"diff_{key}": getattr(pairs.difference, key)
                    for key in ("mean", "sd", "lower", "upper")
                }
                | {"effect_size": pairs.effect_size, "p_a_better": pairs.p_a_better}
            )
        )
    table = pd.concat(parts, ignore_index=True)
    return table.assign(ci_kind=names.CI_KIND, ci_prob=ci_prob)


def _flat(variable: xr.DataArray) -> Floats:
    values = np.asarray(variable.transpose("chain", "draw", ...).values, dtype=np.float64)
    return values.reshape(-1, *values.shape[2:])


def _labels(posterior: xr.Dataset, dim: str) -> list[str]:
    return [str(label) for label in posterior.coords[dim].values]


def _numbers(prefix: str, summary: object, column: int, *, sd: bool = True) -> dict[str, float]:
    keys = ("mean", "sd", "lower", "upper") if sd else ("mean", "lower", "upper")
    return {f"{prefix}_{key}": float(getattr(summary, key)[column]) for key in keys}
