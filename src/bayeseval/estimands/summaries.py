"""Estimand tables: pure functions from a derived tree to a DataFrame.

Every table has the columns of the contract first, in order, then extras, then
``ci_kind`` and ``ci_prob``. Rows come best first. A point estimate (one draw)
has no sd, interval, probability or tie group: those cells are missing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
import xarray as xr

from bayeseval import names
from bayeseval.errors import InputError, did_you_mean
from bayeseval.estimands.arrays import Floats, interval_summary, rank_summary
from bayeseval.estimands.components import variance_components
from bayeseval.estimands.container import PosteriorArrays, group, read_arrays
from bayeseval.estimands.frames import (
    draws_of,
    finish,
    pair_rows,
    rank_columns,
    summary_columns,
)
from bayeseval.estimands.ranks import (
    higher_is_better,
    pairwise_differences,
    rank_draws,
    rank_probabilities,
    tie_groups,
)

__all__ = [
    "components_table",
    "disparity_table",
    "pairwise_table",
    "potential_table",
    "rank_probability_table",
    "rank_table",
]


def potential_table(tree: xr.DataTree, *, ci_prob: float = names.CI_PROB) -> pd.DataFrame:
    """Potential and rank of every language, highest potential first.

    Parameters
    ----------
    tree : xarray.DataTree
        A fit whose posterior holds what :func:`bayeseval.estimands.derive` adds.
    ci_prob : float
        Probability inside the equal-tailed intervals.

    Returns
    -------
    pandas.DataFrame
        ``language``, ``potential_{mean,sd,lower,upper}`` (score units),
        ``rank_{mean,median,lower,upper}``, ``n_records``, ``n_tasks``, ``tie_group``
        (see :func:`bayeseval.estimands.tie_groups`), ``ci_kind``, ``ci_prob``.
    """
    arrays = read_arrays(tree)
    values = _draws(tree, names.LANGUAGE_POTENTIAL)
    ranks = _draws(tree, names.rank_name(names.LANGUAGE_POTENTIAL))
    n_languages = values.shape[1]
    table = pd.DataFrame(
        {names.LANGUAGE: _labels(tree, names.LANGUAGE_POTENTIAL)}
        | summary_columns("potential", interval_summary(values, ci_prob=ci_prob))
        | rank_columns("rank", ranks, ci_prob=ci_prob)
        | {
            "n_records": np.bincount(arrays.index[names.LANGUAGE], minlength=n_languages),
            "n_tasks": np.bincount(arrays.pairs.language, minlength=n_languages),
            "tie_group": _tie_column(values, highest_first=True),
        }
    )
    # Numbers going down the page, labels in order where they are equal.
    best_first = table.sort_values(names.LANGUAGE, kind="stable").sort_values(
        "potential_mean", ascending=False, kind="stable"
    )
    return finish(best_first, ci_prob)


def disparity_table(
    tree: xr.DataTree,
    *,
    flavour: names.Flavour = "observed",
    ci_prob: float = names.CI_PROB,
) -> pd.DataFrame:
    """Mean-, Std- and CV-PRR of every model on both supports, best Mean-PRR rank first.

    Parameters
    ----------
    tree : xarray.DataTree
        A fit whose posterior holds what :func:`bayeseval.estimands.derive` adds.
    flavour : {"observed", "latent"}
        Numerator of the ratios.
    ci_prob : float
        Probability inside the equal-tailed intervals.

    Returns
    -------
    pandas.DataFrame
        ``model``, ``support``, ``{mean_prr,std_prr,cv_prr}_{mean,sd,lower,upper}``,
        ``{mean_prr,cv_prr}_rank_{mean,median,lower,upper}``, ``n_records``, ``prr`` (the
        flavour), ``n_pairs``, ``excluded_draws``, ``note``, ``ci_kind``, ``ci_prob``.

    Raises
    ------
    InputError
        If `flavour` or `ci_prob` is not allowed or the tree lacks a quantity.
    """
    if flavour not in names.FLAVOURS:
        raise InputError(
            f"no PRR flavour {flavour!r}{did_you_mean(flavour, names.FLAVOURS)} "
            f"(allowed: {', '.join(names.FLAVOURS)})"
        )
    arrays = read_arrays(tree)
    parts = [_disparity_rows(tree, arrays, support, flavour, ci_prob) for support in names.SUPPORTS]
    return finish(pd.concat(parts), ci_prob)


def _disparity_rows(
    tree: xr.DataTree,
    arrays: PosteriorArrays,
    support: names.Support,
    flavour: names.Flavour,
    ci_prob: float,
) -> pd.DataFrame:
    variables = {
        quantity: names.disparity_name(quantity, support=support, flavour=flavour)
        for quantity in names.DISPARITY
    }
    models = _labels(tree, variables["mean_prr"])
    columns: dict[str, object] = {names.MODEL: models, "support": support}
    for quantity, variable in variables.items():
        summary = interval_summary(_draws(tree, variable), ci_prob=ci_prob)
        columns |= summary_columns(quantity, summary)
    for quantity in ("mean_prr", "cv_prr"):
        ranks = _draws(tree, names.rank_name(variables[quantity]))
        columns |= rank_columns(names.rank_name(quantity), ranks, ci_prob=ci_prob)
    index = arrays.index[names.MODEL]
    own_pairs = np.unique(np.stack([index, arrays.pairs.of_record]), axis=1)[0]
    n_pairs = np.bincount(own_pairs, minlength=len(models))
    columns["n_records"] = np.bincount(index, minlength=len(models))
    columns["prr"] = flavour
    columns["n_pairs"] = n_pairs if support == "observed" else arrays.n_pairs
    attrs = [_variable(tree, variable).attrs for variable in variables.values()]
    excluded = [json.loads(attr.get("excluded_draws", "{}")) for attr in attrs]
    notes = [json.loads(attr.get("note", "{}")) for attr in attrs]
    columns["excluded_draws"] = [max(e.get(model, 0) for e in excluded) for model in models]
    columns["note"] = [
        _note(model, dict(zip(names.DISPARITY, notes, strict=True))) for model in models
    ]
    return (
        pd.DataFrame(columns)
        .sort_values(names.MODEL, kind="stable")
        .sort_values("mean_prr_mean", ascending=False, kind="stable")
    )


def _note(model: str, notes: Mapping[str, Mapping[str, str]]) -> str:
    """Join what is said of a model's quantities, naming those it is said of."""
    reasons: dict[str, list[str]] = {}
    for quantity, by_model in notes.items():
        if model in by_model:
            reasons.setdefault(by_model[model], []).append(quantity)
    return "; ".join(f"{', '.join(which)}: {reason}" for reason, which in reasons.items())


def components_table(tree: xr.DataTree, *, ci_prob: float = names.CI_PROB) -> pd.DataFrame:
    """Variance components, in the order of the model's terms.

    Returns
    -------
    pandas.DataFrame
        ``component``, ``sd_{mean,sd,lower,upper}``, ``share_{mean,lower,upper}``, ``kind``,
        ``finite_sd_{mean,sd,lower,upper}``, ``scale`` of the sds (``score`` units, or
        ``logit``), ``ci_kind``, ``ci_prob``; see :func:`bayeseval.estimands.variance_components`.
    """
    arrays = read_arrays(tree)
    parts = variance_components(arrays)
    share = interval_summary(parts.share, ci_prob=ci_prob)
    table = pd.DataFrame(
        {"component": list(parts.labels)}
        | summary_columns("sd", interval_summary(parts.sd, ci_prob=ci_prob))
        | summary_columns("share", share, sd=False)
        | {"kind": list(parts.kind)}
        | summary_columns("finite_sd", interval_summary(parts.finite_sd, ci_prob=ci_prob))
        | {"scale": "score" if arrays.response.link == "identity" else "logit"}
    )
    return finish(table, ci_prob)


def pairwise_table(
    tree: xr.DataTree,
    quantities: Sequence[str] = ("mean_prr", "cv_prr"),
    *,
    ci_prob: float = names.CI_PROB,
) -> pd.DataFrame:
    """Differences between all pairs of models, a before b in the order of the levels.

    Parameters
    ----------
    tree : xarray.DataTree
        A fit whose posterior holds `quantities`.
    quantities : sequence of str
        Quantities on the dimension ``model``.
    ci_prob : float
        Probability inside the equal-tailed intervals.

    Returns
    -------
    pandas.DataFrame
        ``quantity``, ``model_a``, ``model_b``, ``diff_{mean,sd,lower,upper}`` (a - b),
        ``effect_size``, ``p_a_better`` (lower is better for Std- and CV-PRR),
        ``ci_kind``, ``ci_prob``.

    Raises
    ------
    InputError
        If a quantity cannot be ranked, is absent or is not about models.
    """
    parts = []
    for quantity in quantities:
        highest_first = higher_is_better(quantity)
        dim = _variable(tree, quantity).dims[-1]
        if dim != names.MODEL:
            raise InputError(f"{quantity} is about {dim}s; pairs are formed of models")
        models = np.array(_labels(tree, quantity), dtype=object)
        pairs = pairwise_differences(
            _draws(tree, quantity), highest_first=highest_first, ci_prob=ci_prob
        )
        parts.append(pair_rows(quantity, models, pairs))
    return finish(pd.concat(parts), ci_prob)


def rank_table(tree: xr.DataTree, quantity: str, *, ci_prob: float = names.CI_PROB) -> pd.DataFrame:
    """Ranks of one quantity, best mean rank first.

    Returns
    -------
    pandas.DataFrame
        The level (column named like its dimension), ``rank_{mean,median,lower,upper}``,
        ``p_best``, ``tie_group``, ``ci_kind``, ``ci_prob``.
    """
    highest_first = higher_is_better(quantity)
    values = _draws(tree, quantity)
    ranks = rank_draws(values, highest_first=highest_first)
    level = str(_variable(tree, quantity).dims[-1])
    table = pd.DataFrame(
        {level: _labels(tree, quantity)}
        | rank_columns("rank", ranks, ci_prob=ci_prob)
        | {
            "p_best": rank_probabilities(ranks)[:, 0],
            "tie_group": _tie_column(values, highest_first=highest_first),
        }
    )
    return finish(table.sort_values(["rank_mean", level], kind="stable"), ci_prob)


def rank_probability_table(
    tree: xr.DataTree,
    quantities: Sequence[str] = (names.LANGUAGE_POTENTIAL, "mean_prr", "cv_prr"),
    *,
    ci_prob: float = names.CI_PROB,
) -> pd.DataFrame:
    """Probability of every rank of every level, zeros included.

    Parameters
    ----------
    tree : xarray.DataTree
        A fit whose posterior holds `quantities`.
    quantities : sequence of str
        What to rank.
    ci_prob : float
        Only carried along in its column: this table has no interval.

    Returns
    -------
    pandas.DataFrame
        ``quantity``, ``level``, ``rank``, ``probability``, ``ci_kind``, ``ci_prob``.
        Levels come best mean rank first, ranks from 1 to the number of levels; the
        probability is missing where a level has no rank.
    """
    parts = []
    for quantity in quantities:
        ranks = rank_draws(_draws(tree, quantity), highest_first=higher_is_better(quantity))
        labels = _labels(tree, quantity)
        mean = rank_summary(ranks, ci_prob=ci_prob).mean
        order = np.lexsort((np.argsort(np.argsort(labels)), mean))
        probability = rank_probabilities(ranks)[order]
        parts.append(
            pd.DataFrame(
                {
                    "quantity": quantity,
                    "level": np.repeat(np.array(labels, dtype=object)[order], len(labels)),
                    "rank": np.tile(np.arange(1, len(labels) + 1), len(labels)),
                    "probability": probability.reshape(-1),
                }
            )
        )
    return finish(pd.concat(parts), ci_prob)


def _variable(tree: xr.DataTree, name: str) -> xr.DataArray:
    posterior = group(tree, "posterior")
    if name not in posterior:
        known = [str(key) for key in posterior.data_vars]
        raise InputError(f"the posterior has no {name!r}{did_you_mean(name, known)}")
    return posterior[name].transpose("chain", "draw", ...)


def _draws(tree: xr.DataTree, name: str) -> Floats:
    return draws_of(_variable(tree, name))


def _labels(tree: xr.DataTree, name: str) -> list[str]:
    variable = _variable(tree, name)
    return [str(label) for label in variable.coords[variable.dims[-1]].values]


def _tie_column(values: Floats, *, highest_first: bool) -> pd.api.extensions.ExtensionArray:
    """Tie groups as nullable integers; missing where a level is in none."""
    groups = tie_groups(values, highest_first=highest_first)
    return pd.array([int(number) or None for number in groups], dtype="Int64")
