"""Prior sensitivity of reported quantities: potentials, PRR and ranks under power-scaled priors.

The prior of the parameters is raised to a power near one, the draws are reweighted
(Pareto-smoothed), and the change of every reported quantity is measured by the cumulative
Jensen-Shannon distance per doubling of the prior's weight (Kallioinen, Paananen, Bürkner
and Vehtari 2024, "Detecting and diagnosing prior and likelihood sensitivity with
power-scaling", Statistics and Computing 34).
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Final

import numpy as np
import pandas as pd
import xarray as xr

from bayeseval import names
from bayeseval.checks.container import Check
from bayeseval.checks.prior import log_prior
from bayeseval.design import Design
from bayeseval.errors import EngineError
from bayeseval.output.quantities import quantity_text

__all__ = ["LIMIT", "sensitivity_check", "sensitivity_table"]

#: ArviZ's rule: above this distance a quantity is sensitive to the prior.
LIMIT: Final = 0.05

_FEWEST_DRAWS = 100
# Share of the draws in which a rank has to differ from its most frequent value.
_LEAST_CHANGE = 0.025


def sensitivity_table(tree: xr.DataTree, design: Design) -> pd.DataFrame:
    """Power-scaling sensitivity of reported quantities, their ranks and the parameters.

    Parameters
    ----------
    tree : xarray.DataTree
        A fit, with ``log_likelihood``.
    design : Design
        Design of the fit.

    Returns
    -------
    pandas.DataFrame
        ``quantity``, ``level``, ``prior`` and ``likelihood`` (distances; NaN where a
        quantity hardly ever changes or is not reported in every draw) and ``diagnosis``: empty,
        ``strong prior`` (the prior matters, the data hardly) or ``prior and data``
        (both matter, possibly in conflict). Largest prior sensitivity first.
    """
    from arviz_stats import psense

    posterior = tree["posterior"].to_dataset()
    quantities = [name for name in _reported() if name in posterior]
    quantities += [str(name) for name in design.priors]
    columns: dict[tuple[str, str], np.ndarray] = {}
    for name in quantities:
        variable = posterior[name]
        values = variable.to_numpy().reshape(*variable.shape[:2], -1)
        dims = [str(d) for d in variable.dims[2:]]
        labels = [str(label) for label in variable[dims[0]].to_numpy()] if dims else [""]
        for i, label in enumerate(labels):
            columns[name, label] = values[:, :, i]
    varies = {key: values for key, values in columns.items() if _varies(values)}
    coords = {"chain": posterior["chain"], "draw": posterior["draw"]}
    variables = {str(name): posterior[name].to_numpy() for name in posterior.data_vars}
    stacked = xr.Dataset(
        {"reported": (("chain", "draw", "column"), np.stack(list(varies.values()), axis=-1))},
        coords=coords,
    )
    density = xr.Dataset({"parameters": (("chain", "draw"), log_prior(design, variables))}, coords)
    data = xr.DataTree.from_dict(
        {
            "posterior": stacked,
            "log_prior": density,
            "log_likelihood": tree["log_likelihood"].to_dataset(),
        }
    )
    distances = {}
    with warnings.catch_warnings():
        # Warnings of unreliable weights: these show as a large distance.
        warnings.simplefilter("ignore")
        for group in ("prior", "likelihood"):
            try:
                result = psense(data, group=group, sample_dims=["chain", "draw"])
            except ValueError as error:
                # ArviZ finds no tail where most draws have one density.
                raise EngineError(f"the draws cannot be weighed again ({error})") from error
            distances[group] = np.asarray(result["reported"].values, dtype=np.float64)
    table = pd.DataFrame(list(columns), columns=["quantity", "level"])
    for group, values in distances.items():
        known = dict(zip(varies, values, strict=True))
        table[group] = [known.get(key, np.nan) for key in columns]
    strong, data_too = table["prior"] > LIMIT, table["likelihood"] > LIMIT
    table["diagnosis"] = np.where(
        strong & data_too, "prior and data", np.where(strong, "strong prior", "")
    )
    order = table["prior"].sort_values(ascending=False, na_position="last", kind="stable").index
    return table.loc[order].reset_index(drop=True)


def _reported() -> list[str]:
    """Reported quantities and their ranks, where they are ranked."""
    return [name for q in names.REPORTED for name in (q, names.rank_name(q))]


def _varies(values: np.ndarray) -> bool:
    """Whether a quantity varies enough: a rank that differs in few draws is noise."""
    if not np.isfinite(values).all():
        return False
    _, number = np.unique(values, return_counts=True)
    return bool(number.max() <= (1.0 - _LEAST_CHANGE) * values.size)


def sensitivity_check(
    tree: xr.DataTree,
    design: Design | None,
    reason: str,
    languages: Mapping[str, str] | None = None,
) -> tuple[Check, pd.DataFrame]:
    """Check whether any reported quantity is sensitive to the priors; with all sensitivities."""
    if design is not None:
        sizes = tree["posterior"].to_dataset().sizes
        if sizes["chain"] * sizes["draw"] < _FEWEST_DRAWS:
            reason = f"the fit has fewer than {_FEWEST_DRAWS} draws"
        elif "log_likelihood" not in tree.children:
            reason = "the fit has no group log_likelihood"
        else:
            try:
                table = sensitivity_table(tree, design)
            except EngineError as error:
                reason = str(error)
            else:
                return _outcome(table, languages or {}), table
    return (
        Check("prior_sensitivity", "not applicable", sentence=f"Not checked: {reason}."),
        pd.DataFrame(),
    )


def _outcome(table: pd.DataFrame, languages: Mapping[str, str]) -> Check:
    part = table[table["quantity"].isin(_reported()) & table["prior"].notna()]
    if part.empty:
        return Check("prior_sensitivity", "not applicable", sentence="No reported quantity varies.")
    worst = part.iloc[0]
    of_languages = (names.LANGUAGE_POTENTIAL, names.rank_name(names.LANGUAGE_POTENTIAL))
    level = worst["level"]
    if worst["quantity"] in of_languages:
        level = languages.get(level, level)
    many = part[part["prior"] > LIMIT]
    value = float(worst["prior"])
    if many.empty:
        sentence = (
            "No reported quantity or rank is sensitive to the priors: largest distance "
            f"{value:.2f} ({quantity_text(worst['quantity'])} of {level}; {LIMIT:g} is allowed)."
        )
        return Check("prior_sensitivity", "pass", value=value, sentence=sentence)
    kinds = ", ".join(
        f"{count} of {n} {quantity_text(str(name), n)}"
        for name, count in many["quantity"].value_counts().items()
        for n in [int((part["quantity"] == name).sum())]
    )
    most = quantity_text(worst["quantity"])
    sentence = (
        f"Sensitive to the priors: {kinds}; the most sensitive is the {most} of {level} (its "
        f"distribution moves by {value:.2f} when the priors get twice the weight; "
        f"{LIMIT:g} is allowed; cumulative Jensen-Shannon distance)."
    )
    return Check("prior_sensitivity", "warn", value=value, sentence=sentence)
