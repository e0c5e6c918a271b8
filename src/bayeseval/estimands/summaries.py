"""Estimand tables: pure functions from a derived tree to a DataFrame.

Every table has the columns of the contract first, in order, then extras, then
``ci_kind`` and ``ci_prob``. Rows come best first. A point estimate (one draw)
has no sd, interval, probability or tie group: those cells are missing.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
import xarray as xr

from bayeseval import names
from bayeseval.estimands.arrays import interval_summary, rank_summary
from bayeseval.estimands.components import variance_components
from bayeseval.estimands.frames import (
    finish,
    pair_rows,
    rank_columns,
    summary_columns,
)
from bayeseval.estimands.quantities import (
    check_quantity,
    quantity_draws,
    quantity_labels,
    quantity_ranks,
    quantity_variable,
    tie_column,
)
from bayeseval.estimands.ranks import (
    best_levels,
    higher_is_better,
    pairwise_differences,
    rank_probabilities,
)
from bayeseval.estimands.read import read_arrays

__all__ = [
    "components_table",
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
    values = quantity_draws(tree, names.LANGUAGE_POTENTIAL)
    ranks = quantity_ranks(tree, names.LANGUAGE_POTENTIAL)
    n_languages = values.shape[1]
    table = pd.DataFrame(
        {names.LANGUAGE: quantity_labels(tree, names.LANGUAGE_POTENTIAL)}
        | summary_columns("potential", interval_summary(values, ci_prob=ci_prob))
        | rank_columns("rank", ranks, ci_prob=ci_prob)
        | {
            "n_records": np.bincount(arrays.index[names.LANGUAGE], minlength=n_languages),
            "n_tasks": np.bincount(arrays.pairs.language, minlength=n_languages),
            "tie_group": tie_column(values, highest_first=True),
        }
    )
    # Numbers going down the page, labels in order where they are equal.
    best_first = table.sort_values(names.LANGUAGE, kind="stable").sort_values(
        "potential_mean", ascending=False, kind="stable"
    )
    return finish(best_first, ci_prob)


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
    quantities: Sequence[str] = names.INFERENCE,
    *,
    ci_prob: float = names.CI_PROB,
    most: int | None = None,
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
    most : int, optional
        Models that are compared: the best ones in the quantity, where there are more. All by
        default.

    Returns
    -------
    pandas.DataFrame
        ``quantity``, ``model_a``, ``model_b``, ``diff_{mean,sd,lower,upper}`` (a - b),
        ``effect_size``, ``p_a_better`` (lower is better for the sd of gaps),
        ``p_within_margin`` (P(|a - b| < margin), missing for quantities in other units or
        without a margin), ``ci_kind``, ``ci_prob``.

    Raises
    ------
    InputError
        If a quantity cannot be ranked, is absent or is not about models.
    """
    parts, margin = [], read_arrays(tree).margin
    for quantity in quantities:
        check_quantity(tree, quantity, dim=names.MODEL)
        highest_first = higher_is_better(quantity)
        models = np.array(quantity_labels(tree, quantity), dtype=object)
        values = quantity_draws(tree, quantity)
        pairs = pairwise_differences(
            values,
            highest_first=highest_first,
            ci_prob=ci_prob,
            margin=margin if quantity in names.INFERENCE else float("nan"),
            levels=best_levels(values, highest_first=highest_first, most=most),
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
    values = quantity_draws(tree, quantity)
    ranks = quantity_ranks(tree, quantity)
    level = str(quantity_variable(tree, quantity).dims[-1])
    table = pd.DataFrame(
        {level: quantity_labels(tree, quantity)}
        | rank_columns("rank", ranks, ci_prob=ci_prob)
        | {
            "p_best": rank_probabilities(ranks, most=1)[:, 0],
            "tie_group": tie_column(values, highest_first=highest_first),
        }
    )
    return finish(table.sort_values(["rank_mean", level], kind="stable"), ci_prob)


def rank_probability_table(
    tree: xr.DataTree,
    quantities: Sequence[str] = names.REPORTED,
    *,
    ci_prob: float = names.CI_PROB,
    most: int | None = None,
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
    most : int, optional
        Levels of a quantity: the best ones, where there are more. All by default.

    Returns
    -------
    pandas.DataFrame
        ``quantity``, ``level``, ``rank``, ``probability``, ``ci_kind``, ``ci_prob``.
        Levels come best mean rank first, ranks from 1 to the number of levels (of the best levels
        alone: to the lowest that one of them has); the probability is missing where a level has no
        rank.
    """
    parts = []
    for quantity in quantities:
        check_quantity(tree, quantity)
        ranks = quantity_ranks(tree, quantity)
        labels = quantity_labels(tree, quantity)
        mean = rank_summary(ranks, ci_prob=ci_prob).mean
        order = np.lexsort((np.argsort(np.argsort(labels)), mean))
        n_ranks = len(labels)
        if most is not None and len(labels) > most:
            order = order[:most]
            lowest = ranks[:, order]
            n_ranks = n_ranks if np.isnan(lowest).all() else int(np.nanmax(lowest))
        probability = rank_probabilities(ranks[:, order], most=n_ranks)
        parts.append(
            pd.DataFrame(
                {
                    "quantity": quantity,
                    "level": np.repeat(np.array(labels, dtype=object)[order], n_ranks),
                    "rank": np.tile(np.arange(1, n_ranks + 1), len(order)),
                    "probability": probability.reshape(-1),
                }
            )
        )
    return finish(pd.concat(parts), ci_prob)
