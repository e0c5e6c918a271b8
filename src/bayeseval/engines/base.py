"""Interface of all engines: settings in, draws out, one canonical DataTree.

An engine is a function from a design and sampler settings to :class:`Draws`.
:func:`to_tree` gives the draws of all engines the same names, dimensions,
coordinates and log likelihood, so that later steps do not depend on the engine.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt
import xarray as xr

from bayeseval import names
from bayeseval._arguments import LEAST, as_number, as_whole_number
from bayeseval._text import counted, grouped
from bayeseval._typing import Floats, Progress
from bayeseval.design import Design
from bayeseval.engines._likelihood import (
    linear_predictor,
    noise_variance,
    pointwise_log_likelihood,
    residual_sd,
)
from bayeseval.errors import EngineError, argument, did_you_mean

__all__ = [
    "USUAL_CHAINS",
    "USUAL_DRAWS",
    "Draws",
    "Engine",
    "SamplerSettings",
    "linear_predictor",
    "noise_variance",
    "pointwise_log_likelihood",
    "residual_sd",
    "resolve_settings",
    "to_tree",
    "unstored_notes",
]


#: Defaults of the samplers, for the number of draws in all.
USUAL_DRAWS: Final = 1000
USUAL_CHAINS: Final = 4
# Of one parameter these are 80 MB; a machine runs out of memory far below 1e9 of them.
_MAX_DRAWS: Final = 10_000_000

# progress(stage, done, total, remark): engines report, the command line shows.


@dataclass(frozen=True)
class SamplerSettings:
    """Settings of a sampler.

    Attributes
    ----------
    draws, tune, chains : int, optional
        Kept draws and warm-up iterations per chain, and the number of chains.
    seed : int
        The one seed; streams are spawned from it by name.
    target_accept : float, optional
        Target acceptance rate of NUTS, between 0 and 1.
    nuts_sampler : str, optional
        For the engine ``pymc``: ``pymc``, ``nutpie``, ``numpyro`` or ``blackjax``.

    Notes
    -----
    None means the engine's default. A setting that the engine does not have is refused,
    never ignored.
    """

    draws: int | None = None
    tune: int | None = None
    chains: int | None = None
    seed: int = 0
    target_accept: float | None = None
    nuts_sampler: str | None = None

    def __post_init__(self) -> None:
        for name in ("draws", "tune", "chains", "seed"):
            value = getattr(self, name)
            if value is not None or name == "seed":
                # Integers of numpy lack methods of int, and JSON does not take them.
                whole = as_whole_number(
                    argument(name), value, least=LEAST.get(name, 1), error=EngineError
                )
                object.__setattr__(self, name, whole)
        chains = self.chains or USUAL_CHAINS
        for name, number in (("draws", self.draws or USUAL_DRAWS), ("tune", self.tune or 0)):
            if number * chains > _MAX_DRAWS:
                raise EngineError(
                    f"{argument(name)} {grouped(number)} for each of {counted(chains, 'chain')} "
                    f"are {grouped(number * chains)} draws; at most {grouped(_MAX_DRAWS)} are "
                    "allowed in all; give fewer"
                )
        if self.target_accept is not None:
            name = argument("target_accept")
            accept = as_number(name, self.target_accept, error=EngineError)
            if not 0.0 < accept < 1.0:
                raise EngineError(f"{name} must lie between 0 and 1, got {accept:g}")
            object.__setattr__(self, "target_accept", accept)

    def to_json(self) -> str:
        """JSON of the settings, for the attributes of a result."""
        return json.dumps(asdict(self))


def resolve_settings(
    settings: SamplerSettings, *, engine: str, defaults: Mapping[str, Any]
) -> SamplerSettings:
    """Fill in an engine's defaults; refuse settings that the engine does not have.

    Parameters
    ----------
    settings : SamplerSettings
        As the user gave them; None where not given.
    engine : str
        Name of the engine, for messages.
    defaults : dict
        Default of every setting the engine uses.

    Raises
    ------
    EngineError
        If a setting is given that the engine does not use.
    """
    given = {
        f.name
        for f in fields(settings)
        if f.name != "seed" and getattr(settings, f.name) is not None
    }
    surplus = sorted(given - set(defaults))
    if surplus:
        used = ", ".join(["seed", *defaults])
        raise EngineError(f"engine {engine} does not take {', '.join(surplus)} (it takes: {used})")
    return replace(settings, **{k: v for k, v in defaults.items() if k not in given})


@dataclass(frozen=True, eq=False)
class Draws:
    """What an engine returns.

    Attributes
    ----------
    posterior : dict of str to ndarray, shape (chain, draw, ...)
        Every scalar parameter of ``design.priors`` and every term's effects on
        the linear predictor's scale (never the non-centred offsets); with noise that
        differs by a factor also ``sd_residual_<factor>``, ``dispersion_beta_<factor>``.
    sample_stats : dict of str to ndarray, shape (chain, draw)
        At least ``diverging`` and ``energy`` from a NUTS engine; empty from a
        point estimate.
    settings : SamplerSettings
        With the defaults filled in.
    attrs : dict
        Attributes of the result, texts and numbers: library and version, diagnostics.
    """

    posterior: Mapping[str, Floats]
    sample_stats: Mapping[str, npt.NDArray[np.generic]]
    settings: SamplerSettings
    attrs: Mapping[str, str | float] = field(default_factory=dict)


class Engine(Protocol):
    """A function that draws from the posterior of a design."""

    def __call__(
        self, design: Design, settings: SamplerSettings, *, progress: Progress | None = None
    ) -> Draws:
        """Draw from the posterior."""


def unstored_notes(design: Design, settings: SamplerSettings) -> list[str]:
    """Notes on variables that are not stored because of their size."""
    values = design.n_records * (settings.draws or 1) * (settings.chains or 1)
    if values <= names.MOST_POINTWISE:
        return []
    return [
        f"log_likelihood and prr are not stored record by record: {values:.3g} values, more than "
        f"{names.MOST_POINTWISE:.3g}; use fewer draws, or leave_out for comparisons"
    ]


def to_tree(design: Design, draws: Draws, *, engine: str) -> xr.DataTree:
    """Convert the draws of any engine to the canonical DataTree.

    Returns
    -------
    xarray.DataTree
        Groups ``posterior``, ``sample_stats`` (when there are any),
        ``log_likelihood`` (up to ``names.MOST_POINTWISE`` values), ``observed_data``
        and ``constant_data``. A factor with a single level has an effect of zero, so
        every view finds its variables.

    Raises
    ------
    EngineError
        If the engine did not return a variable, or returned one that the design does not have.
    """
    posterior = dict(draws.posterior)
    shape = posterior[names.INTERCEPT].shape
    for factor in names.FACTORS:
        posterior.setdefault(
            names.effect_name(factor), np.zeros((*shape, len(design.coords[factor])))
        )
    dims = design.dims()
    expected = [*design.priors, *dims]
    for name in posterior:
        if name not in expected:
            raise EngineError(
                f"engine {engine} returned {name!r}, which the design does not have"
                f"{did_you_mean(name, expected)}"
            )
    missing = [name for name in expected if name not in posterior]
    if missing:
        raise EngineError(f"engine {engine} did not return {', '.join(missing)}")

    coords: dict[str, Any] = {
        "chain": np.arange(shape[0]),
        "draw": np.arange(shape[1]),
    }
    labels = {dim: np.array(values, dtype=str) for dim, values in design.coords.items()}
    attrs = {
        "engine": engine,
        "settings": draws.settings.to_json(),
        "scale": "score" if design.outcome.link == "identity" else "logit",
        **draws.attrs,
    }
    groups = {
        "posterior": xr.Dataset(
            {name: (("chain", "draw", *dims.get(name, ())), posterior[name]) for name in expected},
            coords=coords | labels,
            attrs=attrs,
        ),
        "observed_data": design.observed_data(),
        "constant_data": design.constant_data(),
    }
    if shape[0] * shape[1] * design.n_records <= names.MOST_POINTWISE:
        groups["log_likelihood"] = xr.Dataset(
            {
                names.SCORE: (
                    ("chain", "draw", names.RECORD),
                    pointwise_log_likelihood(design, posterior),
                )
            },
            coords=coords | {names.RECORD: np.arange(design.n_records)},
        )
    if draws.sample_stats:
        groups["sample_stats"] = xr.Dataset(
            {name: (("chain", "draw"), values) for name, values in draws.sample_stats.items()},
            coords=coords,
            attrs=attrs,
        )
    return xr.DataTree.from_dict(groups)
