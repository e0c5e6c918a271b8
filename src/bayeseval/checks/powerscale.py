"""Prior sensitivity of reported quantities: potentials, PRR and ranks under power-scaled priors.

The prior of the parameters is raised to a power near one, the draws are reweighted
(Pareto-smoothed), and the change of every reported quantity is measured by the cumulative
Jensen-Shannon distance per doubling of the prior's weight (Kallioinen, Paananen, Bürkner
and Vehtari 2024, "Detecting and diagnosing prior and likelihood sensitivity with
power-scaling", Statistics and Computing 34).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import pandas as pd
import xarray as xr

from bayeseval import names
from bayeseval._diagnostics import convergence, mean_mcse, smoothed_weights
from bayeseval._text import counted
from bayeseval._typing import Floats
from bayeseval.checks.container import Check
from bayeseval.checks.prior import log_prior
from bayeseval.design import Design
from bayeseval.errors import EngineError
from bayeseval.output.quantities import quantity_text

__all__ = [
    "LIMIT",
    "distance_errors",
    "distances_moved",
    "sensitivity_check",
    "sensitivity_table",
]

#: ArviZ's rule: above this distance a quantity is sensitive to the prior.
LIMIT: Final = 0.05

# Monte-Carlo standard errors by which a distance has to exceed the limit.
_CLEAR: Final = 2.0
_FEWEST_DRAWS = 100
# ArviZ's powers of a density.
_POWERS: Final = (0.99, 1.01)
# Quantities at a time: some MB at the usual number of draws.
_BLOCK: Final = 32
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
        quantity hardly ever changes or is not reported in every draw), ``prior_mcse`` (Monte-Carlo
        standard error of ``prior``) and ``diagnosis``: empty, ``strong prior`` (the prior matters,
        the data hardly) or ``prior and data`` (both matter, possibly in conflict). Largest prior
        sensitivity first.
    """
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
    variables = {str(name): posterior[name].to_numpy() for name in posterior.data_vars}
    reported = np.stack(list(varies.values()), axis=-1)
    densities = {
        "prior": log_prior(design, variables),
        "likelihood": _total(tree["log_likelihood"].to_dataset()),
    }
    distances = {}
    for group, density in densities.items():
        try:
            distances[group] = distances_moved(reported, density)
        except ValueError as error:
            # There is no tail where most draws have one density.
            raise EngineError(f"the draws cannot be weighed again ({error})") from error
    distances["prior_mcse"] = distance_errors(reported, densities["prior"])
    table = pd.DataFrame(list(columns), columns=["quantity", "level"])
    for group, values in distances.items():
        known = dict(zip(varies, values, strict=True))
        table[group] = [known.get(key, np.nan) for key in columns]
    strong, data_too = _clear(table), table["likelihood"] > LIMIT
    table["diagnosis"] = np.where(
        strong & data_too, "prior and data", np.where(strong, "strong prior", "")
    )
    order = table["prior"].sort_values(ascending=False, na_position="last", kind="stable").index
    return table.loc[order].reset_index(drop=True)


def _total(log_likelihood: xr.Dataset) -> Floats:
    """Log likelihood of all records together: chain by draw."""
    parts = [
        variable.transpose("chain", "draw", ...).to_numpy()
        for variable in log_likelihood.data_vars.values()
    ]
    total: Floats = np.sum([part.reshape(*part.shape[:2], -1).sum(axis=-1) for part in parts], 0)
    return total


def distances_moved(values: Floats, log_density: Floats) -> Floats:
    """Power-scaling sensitivities of many quantities, as ArviZ's ``psense`` computes them.

    Parameters
    ----------
    values : ndarray, shape (n_chains, n_draws, n_quantities)
        Draws.
    log_density : ndarray, shape (n_chains, n_draws)
        Log density that is raised to a power.

    Returns
    -------
    ndarray, shape (n_quantities,)
        Mean over powers below and above one of the distance per doubling of the power.

    Raises
    ------
    ValueError
        If the densities of the draws are too alike to weigh the draws again.
    """
    flat = log_density.ravel()
    efficiency = float(convergence(flat[None, None, :]).tail[0]) / len(flat)
    sets = []
    for power in _POWERS:
        with np.errstate(divide="ignore", invalid="ignore"):
            log_weights, _ = smoothed_weights((power - 1.0) * flat, efficiency=efficiency, most=0.5)
        weights = np.exp(log_weights)
        sets.append(weights / weights.sum())
    distances = _distances(np.ascontiguousarray(values.reshape(-1, values.shape[-1]).T), sets)
    doublings = np.abs(np.log2(_POWERS))[:, None]
    moved: Floats = (distances / doublings).mean(axis=0)
    return moved


def _distances(columns: Floats, sets: Sequence[Floats]) -> Floats:
    """Cumulative Jensen-Shannon distances of draws (quantity, draw) from those with weights."""
    found = np.empty((len(sets), len(columns)))
    for at in range(0, len(columns), _BLOCK):
        part = columns[at : at + _BLOCK]
        order = np.argsort(part, axis=1)
        width = np.diff(np.take_along_axis(part, order, axis=1), axis=1)
        turned = np.ascontiguousarray(width[:, ::-1])
        for number, weights in enumerate(sets):
            own = weights[order]
            # Of a quantity or of its negative, whichever is larger.
            upwards = _divergence(width, own)
            downwards = _divergence(turned, np.ascontiguousarray(own[:, ::-1]))
            found[number, at : at + _BLOCK] = np.maximum(upwards, downwards)
    return found


def _divergence(width: Floats, weights: Floats) -> Floats:
    """The distance from steps between sorted draws and the weights of the draws."""
    n = weights.shape[1]
    plain = np.linspace(1.0 / n, 1.0 - 1.0 / n, n - 1)
    weighted = np.cumsum(weights / weights.sum(axis=1, keepdims=True), axis=1)[:, :-1]
    # One product for each quantity, whose rounding does not depend on those beside it.
    of_plain = np.array([np.dot(plain, row) for row in width])
    of_weighted = np.array([np.dot(*rows) for rows in zip(weighted, width, strict=True)])
    mean = _log2(0.5 * (plain + weighted))
    slope = 0.5 / np.log(2.0) * (of_weighted - of_plain)
    forth = (width * (plain * (_log2(plain) - mean))).sum(axis=1) + slope
    back = (width * (weighted * (_log2(weighted) - mean))).sum(axis=1) - slope
    with np.errstate(divide="ignore", invalid="ignore"):
        distance: Floats = np.sqrt(
            (np.maximum(forth, 0.0) + np.maximum(back, 0.0)) / (of_plain + of_weighted)
        )
    return distance


def _log2(values: Floats) -> Floats:
    """Binary logarithm; 0 of 0."""
    return np.log2(values, out=np.zeros_like(values), where=values != 0.0)


def distance_errors(values: Floats, log_density: Floats) -> Floats:
    """Monte-Carlo standard errors of power-scaling sensitivities.

    Parameters
    ----------
    values : ndarray, shape (n_chains, n_draws, n_quantities)
        Draws.
    log_density : ndarray, shape (n_chains, n_draws)
        Log density that is raised to a power.

    Returns
    -------
    ndarray, shape (n_quantities,)

    Notes
    -----
    For powers near one the distribution function P of a quantity moves by the covariance h of
    the log density with the indicator of lower values, and the sensitivity is
    ``D = sqrt(log(2) / 8 * A / N)``, ``A = int h^2 / P`` and ``N = int P``; of the quantity or of
    its negative, whichever is larger. A draw's influence on D is its derivative with respect to
    the weight of the draw. The error of D is that of the mean of the influences.
    """
    shape = values.shape
    flat = values.reshape(-1, shape[-1])
    centred = log_density.ravel() - log_density.mean()
    (up, influence_up), (down, influence_down) = (
        _influence(sign * flat, centred) for sign in (1.0, -1.0)
    )
    influence = np.where(up >= down, influence_up, influence_down).reshape(shape)
    return mean_mcse(np.moveaxis(influence, -1, 0))


def _influence(values: Floats, centred: Floats) -> tuple[Floats, Floats]:
    """Sensitivity of every column, and the influence of every draw on it."""
    n = len(values)
    order = np.argsort(values, axis=0, kind="stable")
    width = np.diff(np.take_along_axis(values, order, axis=0), axis=0)
    own = centred[order]
    below = (np.arange(1, n) / n)[:, None]
    moved = np.cumsum(own, axis=0)[:-1] / n
    of_moved, of_below = 2.0 * width * moved / below, -width * (moved / below) ** 2
    total, scale = (0.5 * of_moved * moved).sum(axis=0), (width * below).sum(axis=0)

    def from_own(steps: Floats) -> Floats:
        """Sums over the steps at or above every draw."""
        return np.concatenate([np.cumsum(steps[::-1], axis=0)[::-1], np.zeros_like(steps[:1])])

    by_moved = own * (from_own(of_moved) - (of_moved * below).sum(axis=0)) - 2.0 * total
    by_below = from_own(of_below) + total
    by_scale = from_own(width) - scale
    with np.errstate(divide="ignore", invalid="ignore"):
        # The density of a prior may be the same at all draws.
        distance = np.sqrt(np.log(2.0) / 8.0 * total / scale)
        ordered = 0.5 * distance * ((by_moved + by_below) / total - by_scale / scale)
    influence = np.empty_like(ordered)
    np.put_along_axis(influence, order, ordered, axis=0)
    return distance, influence


def _clear(table: pd.DataFrame) -> pd.Series:
    """Whether distances are above the limit by more than their errors; unknown ones are small."""
    return table["prior"] - _CLEAR * table["prior_mcse"].fillna(0.0) > LIMIT


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
    many = part[_clear(part)]
    worst = (part if many.empty else many).iloc[0]
    of_languages = (names.LANGUAGE_POTENTIAL, names.rank_name(names.LANGUAGE_POTENTIAL))
    level = worst["level"]
    if worst["quantity"] in of_languages:
        level = languages.get(level, level)
    value = float(worst["prior"])
    most = quantity_text(worst["quantity"])
    if many.empty:
        unclear = int((part["prior"] > LIMIT).sum())
        sentence = (
            f"No reported quantity or rank is {'clearly ' if unclear else ''}sensitive to the "
            f"priors: largest distance {value:.2f} ({most} of {level}; {LIMIT:g} is allowed)"
        )
        if unclear:
            sentence += (
                f"; {counted(unclear, 'distance')} above {LIMIT:g} may be so by chance, as the "
                f"Monte-Carlo standard error is {worst['prior_mcse']:.2g}: more draws decide it"
            )
        return Check("prior_sensitivity", "pass", value=value, sentence=f"{sentence}.")
    kinds = ", ".join(
        f"{count} of {n} {quantity_text(str(name), n)}"
        for name, count in many["quantity"].value_counts().items()
        for n in [int((part["quantity"] == name).sum())]
    )
    sentence = (
        f"Sensitive to the priors: {kinds}; the most sensitive is the {most} of {level} (its "
        f"distribution moves by {value:.2f} when the priors get twice the weight; "
        f"{LIMIT:g} is allowed; cumulative Jensen-Shannon distance)."
    )
    return Check("prior_sensitivity", "warn", value=value, sentence=sentence)
