"""The CSV tables of a result folder."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import pandas as pd
import xarray as xr

from bayeseval import estimands, names
from bayeseval.errors import InputError
from bayeseval.output.language_names import add_language_names

__all__ = ["GateStatus", "potential_view", "result_tables"]

GateStatus = Literal["pass", "fail", "not applicable"]

_STATUSES: tuple[GateStatus, ...] = ("pass", "fail", "not applicable")
# What is compared pairwise, and ranked.
_PAIRWISE = (*names.INFERENCE, names.effect_name(names.MODEL))


def result_tables(
    tree: xr.DataTree,
    *,
    gate_status: GateStatus,
    ci_prob: float = names.CI_PROB,
    language_names: Mapping[str, str] | None = None,
) -> dict[str, pd.DataFrame]:
    """Compute every table of a result folder.

    Parameters
    ----------
    tree : xarray.DataTree
        A fit with the variables that :func:`bayeseval.estimands.derive` adds.
    gate_status : {"pass", "fail", "not applicable"}
        Outcome of the convergence gate; the column ``gate`` of every table.
    ci_prob : float
        Probability inside the equal-tailed intervals.
    language_names : mapping of str to str, optional
        Language label to name, for the column ``language_name`` of every table by language;
        the label stands in for a name that is missing.

    Returns
    -------
    dict of str to pandas.DataFrame
        Path inside the result folder (``"tables/language_potential.csv"``) to table. Pairs are
        those of at most ``names.MOST_PAIRED`` models, and ranks those of ``names.MOST_RANKED``
        levels, the best ones.
        Columns of the contract first, in its order. A fit with replicates or standard
        errors adds ``within_language.csv``, ``aggregates.csv``, rows by model in
        ``variance_components.csv`` and the aggregates in ``pairwise_models.csv`` and
        ``rank_probabilities.csv``; one with covariates ``covariates.csv``, one with related
        languages ``language_parts.csv``, and one with a low-rank interaction of models and
        languages ``model_correlations.csv``. A fit of
        the engine ``ml`` adds ``published_potential``, the potential with the constant of
        the published table (the posterior's attribute ``published_shift``, score units).

    Raises
    ------
    InputError
        If `gate_status` or `ci_prob` is not allowed, or the tree lacks a variable.
    """
    if gate_status not in _STATUSES:
        raise InputError(f"gate_status must be one of {', '.join(_STATUSES)}, got {gate_status!r}")
    tables = {
        "model_ranking": estimands.ranking_table(tree, ci_prob=ci_prob),
        "model_language": estimands.model_language_table(tree, ci_prob=ci_prob),
        "language_potential": potential_view(tree, language_names, ci_prob=ci_prob),
        "model_disparity": estimands.disparity_table(tree, ci_prob=ci_prob),
        "model_disparity_latent": _latent(tree, ci_prob),
        "variance_components": _components(tree, ci_prob),
        "pairwise_models": estimands.pairwise_table(
            tree, _PAIRWISE, ci_prob=ci_prob, most=names.MOST_PAIRED
        ),
        "rank_probabilities": estimands.rank_probability_table(
            tree, ci_prob=ci_prob, most=names.MOST_RANKED
        ),
    }
    if estimands.has_replicates(tree):
        aggregates = [name for name, *_ in estimands.aggregate_variants()]
        tables |= {
            "pairwise_models": pd.concat(
                [
                    tables["pairwise_models"],
                    estimands.pairwise_table(
                        tree, aggregates, ci_prob=ci_prob, most=names.MOST_PAIRED
                    ),
                    estimands.language_pairwise_table(
                        tree, ci_prob=ci_prob, most=names.MOST_PAIRED
                    ),
                ],
                ignore_index=True,
            ),
            "rank_probabilities": estimands.rank_probability_table(
                tree, [*names.REPORTED, *aggregates], ci_prob=ci_prob, most=names.MOST_RANKED
            ),
            "within_language": estimands.within_language_table(tree, ci_prob=ci_prob),
            "aggregates": estimands.aggregates_table(tree, ci_prob=ci_prob),
        }
    correlations = estimands.model_correlations_table(tree, ci_prob=ci_prob)
    if len(correlations):
        tables["model_correlations"] = correlations
    parts = estimands.language_parts_table(tree, ci_prob=ci_prob)
    if len(parts):
        tables["language_parts"] = parts
    covariates = estimands.covariates_table(tree, ci_prob=ci_prob)
    if len(covariates):
        tables["covariates"] = covariates
    return {
        f"tables/{key}.csv": add_language_names(table, language_names).assign(gate=gate_status)
        for key, table in tables.items()
    }


def _latent(tree: xr.DataTree, ci_prob: float) -> pd.DataFrame:
    """The description from expected scores, on both supports."""
    return pd.concat(
        [
            estimands.disparity_table(tree, flavour="latent", support=support, ci_prob=ci_prob)
            for support in names.SUPPORTS
        ],
        ignore_index=True,
    )


def _components(tree: xr.DataTree, ci_prob: float) -> pd.DataFrame:
    """Components of the table as a whole, then those of every model; `model` says which."""
    table = estimands.components_table(tree, ci_prob=ci_prob)
    table.insert(list(table.columns).index("ci_kind"), names.MODEL, "")
    if not estimands.has_replicates(tree):
        return table
    by_model = estimands.model_components_table(tree, ci_prob=ci_prob).assign(scale="score")
    return pd.concat([table, by_model], ignore_index=True)


def potential_view(
    tree: xr.DataTree, language_names: Mapping[str, str] | None, *, ci_prob: float
) -> pd.DataFrame:
    """Language potential with names of languages: ``language_potential.csv`` without its gate."""
    table = estimands.potential_table(tree, ci_prob=ci_prob)
    # The contract's columns end with n_tasks.
    place = list(table.columns).index("n_tasks") + 1
    shift = tree["posterior"].attrs.get("published_shift")
    if shift is not None:
        table.insert(place, "published_potential", table["potential_mean"] + float(shift))
    return add_language_names(table, language_names, after="n_tasks")
