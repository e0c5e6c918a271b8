"""What a fit reports, as draws: parameters, potentials, scores, ranks, differences, forecasts.

The draws are those of the functions that reports are made of. A truth is one more draw: its
estimands come from the same call as those of the posterior.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

import numpy as np
import xarray as xr

from bayeseval import names
from bayeseval._random import generator
from bayeseval._typing import Floats
from bayeseval.design import Design
from bayeseval.estimands import component_dataset, derive, read_arrays
from bayeseval.estimands.forecast import new_potential
from bayeseval.estimands.frames import draws_of

__all__ = ["DIFFERENCE", "FORECAST", "WORDS", "Levels", "join", "reported"]

DIFFERENCE: Final = "score_difference"
FORECAST: Final = "forecast"
FINITE_SD: Final = "finite_sd"

#: Quantities that are no parameters, in the order of tables and figures, and what they are.
WORDS: Final[Mapping[str, str]] = {
    FINITE_SD: "sd of the levels at hand",
    names.LANGUAGE_POTENTIAL: "potential of a language",
    names.STANDARDISED_SCORE: "score of a model",
    names.PRR: "PRR of a model",
    DIFFERENCE: "difference of two models",
    names.rank_name(names.LANGUAGE_POTENTIAL): "rank of a language",
    names.rank_name(names.STANDARDISED_SCORE): "rank of a model",
    names.GAP_SD: "sd of a model's gaps",
    names.rank_name(names.GAP_SD): "rank by sd of gaps",
    names.CV_PRR_LANGUAGES: "CV-PRR of a model",
    FORECAST: "forecast of a language",
    "seed_sd": "sd between seeds",
    "boot_sd": "sd between test sets",
    "seed_boot_sd": "sd of seed x test set",
    "prompt_sd": "sd between prompts",
    "judge_sd": "sd between judges",
    "within_sd": "sd of one run",
    "between_sd": "sd between languages",
}


class Levels(NamedTuple):
    """One quantity: labels of its levels, and draws of shape (n_samples, n_levels)."""

    labels: tuple[str, ...]
    draws: Floats


def reported(tree: xr.DataTree, design: Design, *, seed: int) -> dict[str, Levels]:
    """Draws of all quantities that a fit reports, by name.

    Parameters
    ----------
    tree : xarray.DataTree
        A fit with its derived quantities.
    design : Design
        What was fitted; names the parameters.
    seed : int
        Seed of what has to be predicted for the forecast.

    Returns
    -------
    dict of str to Levels
        Parameters in the order of the design, then :data:`WORDS`. Quantities that the fit does
        not report are left out.
    """
    found = dict(_parameters(tree, design))
    posterior = tree["posterior"].to_dataset()
    others = {str(name): _levels(posterior[name]) for name in posterior if name in WORDS}
    others |= {FINITE_SD: _finite_sds(tree), DIFFERENCE: _differences(posterior)}
    forecast = _forecast(tree, seed)
    if forecast is not None:
        others[FORECAST] = forecast
    ordered = {name: others[name] for name in WORDS if name in others}
    return found | {
        name: levels for name, levels in ordered.items() if not np.isnan(levels.draws).all()
    }


def _parameters(tree: xr.DataTree, design: Design) -> Iterator[tuple[str, Levels]]:
    posterior = tree["posterior"].to_dataset()
    for name in design.priors:
        yield name, _levels(posterior[name])
    if design.spec.residual_by is not None:
        for scale in design.noise_scales:
            name = names.level_name(scale, design.spec.residual_by)
            yield name, _levels(posterior[name])


def _levels(variable: xr.DataArray) -> Levels:
    draws = draws_of(variable)
    if draws.ndim == 1:
        return Levels(("",), draws[:, None])
    dim = str(next(d for d in variable.dims if d not in ("chain", "draw")))
    return Levels(tuple(str(label) for label in variable[dim].values), draws)


def _finite_sds(tree: xr.DataTree) -> Levels:
    components = component_dataset(tree)
    # Known errors are no result.
    estimated = components.isel(component=np.flatnonzero(components["kind"].values != "known"))
    return _levels(estimated["finite_sd"])


def _differences(posterior: xr.Dataset) -> Levels:
    labels, draws = _levels(posterior[names.STANDARDISED_SCORE])
    first, second = np.triu_indices(len(labels), k=1)
    return Levels(
        tuple(f"{labels[a]} - {labels[b]}" for a, b in zip(first, second, strict=True)),
        draws[:, first] - draws[:, second],
    )


def _forecast(tree: xr.DataTree, seed: int) -> Levels | None:
    """Potential of a language without records, where there is a forecast without covariates."""
    arrays = read_arrays(tree)
    pooled = names.LANGUAGE in arrays.main_sd
    if arrays.response.link != "identity" or arrays.slopes or arrays.related or not pooled:
        return None
    rng = generator(seed, "calibrate-forecast")
    values = new_potential(arrays, np.zeros((arrays.n_samples, 1)), rng=rng, seed=seed)
    return Levels(("a new language",), values)


def join(tree: xr.DataTree, truth: xr.DataTree, *, n_draws: int, seed: int) -> xr.DataTree:
    """Evenly spaced draws of a fit with the truth as the last one, and what derives from them.

    Parameters
    ----------
    tree : xarray.DataTree
        A fit.
    truth : xarray.DataTree
        One draw of the same parameters.
    n_draws : int
        Draws of the fit at most.
    seed : int
        Seed of what has to be predicted; not that of the fit, so that no prediction of the truth
        shares random numbers with one of the fit.

    Returns
    -------
    xarray.DataTree
        One chain. The truth is exchangeable with the draws if the computation is right: nothing
        here treats it differently. Ratios to potentials that may be zero are withheld as in the
        fit, so that all draws, the truth and the intervals of the fit are of the same languages,
        which depend on the scores and not on the truth.
    """
    own = truth["posterior"].to_dataset()
    posterior = tree["posterior"].to_dataset()
    total = posterior.sizes["chain"] * posterior.sizes["draw"]
    n = min(n_draws, total)
    kept = np.arange(n) * total // n
    variables = {}
    for name, variable in own.data_vars.items():
        dims = [dim for dim in variable.dims if dim not in ("chain", "draw")]
        true = variable.transpose("chain", "draw", *dims).to_numpy()[0]
        drawn = draws_of(posterior[name].transpose("chain", "draw", *dims))[kept]
        variables[name] = (("chain", "draw", *dims), np.concatenate([drawn, true])[None])
    coords = {name: c for name, c in own.coords.items() if name not in ("chain", "draw")}
    joint = xr.Dataset(
        variables,
        coords=coords | {"chain": np.arange(1), "draw": np.arange(n + 1)},
        attrs=posterior.attrs,
    )
    groups = {name: tree[name].to_dataset() for name in ("constant_data", "observed_data")}
    joined = xr.DataTree.from_dict({"posterior": joint, **groups})
    additions, estimands = derive(joined, seed=seed, withheld_as=posterior)
    joined["posterior"] = xr.DataTree(joint.merge(additions))
    joined["estimands"] = xr.DataTree(estimands)
    return joined
