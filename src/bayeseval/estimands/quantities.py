"""Quantities of a fit by name: draws, labels, ranks and tie groups."""

from __future__ import annotations

import numpy as np
import pandas as pd
import xarray as xr

from bayeseval import names
from bayeseval._text import show
from bayeseval._typing import Floats
from bayeseval.errors import InputError, did_you_mean
from bayeseval.estimands.frames import draws_of
from bayeseval.estimands.ranks import higher_is_better, is_rankable, rank_draws, tie_groups
from bayeseval.estimands.read import group

__all__ = [
    "check_quantity",
    "quantity_draws",
    "quantity_labels",
    "quantity_ranks",
    "quantity_variable",
    "tie_column",
]


def check_quantity(tree: xr.DataTree, name: object, *, dim: str | None = None) -> None:
    """Refuse what cannot be ranked or compared, with the names that this fit has.

    Parameters
    ----------
    tree : xarray.DataTree
        A fit.
    name : str
        Quantity.
    dim : str, optional
        Dimension that the quantity must have; None allows all.

    Raises
    ------
    InputError
        If the fit has no such quantity, or it is not about `dim`.
    """
    if not isinstance(name, str):
        raise InputError(f"a quantity must be a name, got {show(name)}")
    posterior = group(tree, "posterior")
    rankable = {
        str(key): str(values.dims[-1])
        for key, values in posterior.data_vars.items()
        if is_rankable(str(key))
    }
    if name in rankable and dim in (None, rankable[name]):
        return
    if name.startswith(names.DISPARITY):
        higher_is_better(name)  # Says why a description has no ranks.
    if name == names.PRR:
        raise InputError(
            "prr divides the scores of all models by the same number, so models have the same "
            f"order in it as in {names.STANDARDISED_SCORE}; use that"
        )
    if name in rankable:
        raise InputError(
            f"{name} is a quantity of {rankable[name]}s; pairs need a quantity of {dim}s"
        )
    known = [key for key, of in rankable.items() if dim in (None, of)]
    what = f" of {dim}s" if dim else ""
    # "score" is too short to be near "standardised_score".
    whole = [key for key in known if name in key.split("_")]
    near = did_you_mean(whole[0] if whole else name, known)
    raise InputError(f"no quantity{what} {name!r} in this fit{near} (allowed: {', '.join(known)})")


def quantity_draws(tree: xr.DataTree, name: str) -> Floats:
    """Draws of a variable of the posterior, shape (n_samples, n_levels).

    Raises
    ------
    InputError
        If the posterior has no such variable.
    """
    return draws_of(quantity_variable(tree, name))


def quantity_variable(tree: xr.DataTree, name: str) -> xr.DataArray:
    """A variable of the posterior; InputError with a suggestion when there is none."""
    posterior = group(tree, "posterior")
    if name not in posterior:
        known = [str(key) for key in posterior.data_vars]
        raise InputError(f"the posterior has no {name!r}{did_you_mean(name, known)}")
    return posterior[name].transpose("chain", "draw", ...)


def quantity_labels(tree: xr.DataTree, name: str) -> list[str]:
    """Levels of a variable of the posterior."""
    variable = quantity_variable(tree, name)
    return [str(label) for label in variable.coords[variable.dims[-1]].values]


def quantity_ranks(tree: xr.DataTree, name: str) -> Floats:
    """Joint draws of ranks; NaN throughout for a point estimate, which ranks nobody."""
    values = quantity_draws(tree, name)
    if len(values) < 2:
        return np.full_like(values, np.nan)
    return rank_draws(values, highest_first=higher_is_better(name))


def tie_column(values: Floats, *, highest_first: bool) -> pd.api.extensions.ExtensionArray:
    """Tie groups as nullable integers; missing where a level is in none."""
    groups = tie_groups(values, highest_first=highest_first)
    return pd.array([int(number) or None for number in groups], dtype="Int64")
