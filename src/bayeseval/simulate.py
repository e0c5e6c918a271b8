"""Tables with known truth: the ground of recovery tests and calibration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from bayeseval import names
from bayeseval._random import generator
from bayeseval.errors import InputError, did_you_mean
from bayeseval.records import Records
from bayeseval.spec import ModelSpec, load_spec

__all__ = ["Simulation", "simulate"]

Floats = npt.NDArray[np.float64]

# Orders of magnitude of a real benchmark on a 0-100 scale (MEGA, `crossed`).
_DEFAULT_SDS = {
    "sd_language": 10.0,
    "sd_task": 16.0,
    "sd_model": 12.0,
    "sd_language_task": 7.0,
    "sd_model_task": 7.0,
    "sd_model_language": 5.5,
    "sd_model_language_task": 4.0,
    "sd_residual": 6.0,
    "sd_log_residual": 0.3,
    "nu": 5.0,
}
_MAX_TRIES = 200


@dataclass(frozen=True, eq=False)
class Simulation:
    """A simulated table and what it was drawn from.

    Attributes
    ----------
    records : Records
        The table, as if loaded from a file.
    truth : dict of str to ndarray or float
        ``intercept``, every standard deviation, and for each term its effects:
        main effects in the order of ``records.coords``; interaction effects as a
        full grid over the crossed factors, in the order of the term's factors.
    potential : ndarray, shape (n_languages, n_tasks)
        True PP_lt (paper 000, Eq. 2), score units.
    expected : ndarray, shape (n_languages, n_tasks, n_models)
        Expected score of every model on every pair, score units.
    """

    records: Records
    truth: Mapping[str, Floats | float]
    potential: Floats
    expected: Floats

    @property
    def language_potential(self) -> Floats:
        """True LP_l (paper 000, Eq. 3), shape (n_languages,), score units."""
        return np.asarray(self.potential.mean(axis=1))


def simulate(
    spec: str | ModelSpec = "additive",
    *,
    n_languages: int = 12,
    n_tasks: int = 5,
    n_models: int = 6,
    observed_share: float = 0.7,
    intercept: float = 60.0,
    sds: Mapping[str, float] | None = None,
    seed: int = 0,
    pattern_seed: int | None = None,
) -> Simulation:
    """Draw an incomplete table from a spec.

    Parameters
    ----------
    spec : str or ModelSpec
        The model to draw from.
    n_languages, n_tasks, n_models : int
        Shape of the full grid.
    observed_share : float
        Share of the language x task x model cells that get a record; every level
        gets at least two and the table hangs together.
    intercept : float
        Grand mean, score units.
    sds : dict of str to float, optional
        Standard deviations by parameter name (``sd_language``, ...), and ``nu``;
        what is left out has the size it has on a real benchmark. Fixed effects
        are drawn with these too: a fixed effect is one whose size is not pooled,
        not one that is enormous.
    seed : int
        Seed of effects and noise.
    pattern_seed : int, optional
        Seed of which cells are observed; `seed` when left out. Giving it keeps
        the shape of the table while the truth varies.

    Returns
    -------
    Simulation
        Records without bounds on the score, and the truth.

    Raises
    ------
    InputError
        If the shape is too small, an sd is unknown or negative, or no connected
        table of that share could be drawn.
    """
    model = load_spec(spec)
    shape = {names.LANGUAGE: n_languages, names.TASK: n_tasks, names.MODEL: n_models}
    scale = _scales(model, sds or {})
    labels = {
        factor: tuple(f"{factor[0]}{i:0{len(str(size - 1))}d}" for i in range(size))
        for factor, size in shape.items()
    }
    observed = _pattern(
        tuple(shape.values()),
        observed_share,
        generator(seed if pattern_seed is None else pattern_seed, "simulate-pattern"),
    )

    rng = generator(seed, "simulate")
    truth: dict[str, Floats | float] = {"intercept": float(intercept)}
    expected = np.full(tuple(shape.values()), float(intercept))
    potential = np.full((n_languages, n_tasks), float(intercept))
    for term in model.terms:
        factors = tuple(term.split(":"))
        sd = scale[names.sd_name(term)]
        effects = rng.normal(0.0, sd, size=tuple(shape[f] for f in factors))
        if len(factors) == 1 and not (term == names.MODEL and model.population == "models"):
            effects -= effects.mean()
        truth[names.sd_name(term)] = sd
        truth[names.effect_name(term)] = effects
        expected = expected + _spread(effects, factors)
        if names.MODEL not in factors:
            potential = potential + _spread(effects, factors)[..., 0]

    residual = np.full(expected.shape, scale[names.SD_RESIDUAL])
    truth[names.SD_RESIDUAL] = scale[names.SD_RESIDUAL]
    if model.residual_by is not None:
        spread = scale[names.SD_LOG_RESIDUAL]
        levels = scale[names.SD_RESIDUAL] * np.exp(
            rng.normal(0.0, spread, size=shape[model.residual_by])
        )
        truth[names.SD_LOG_RESIDUAL] = spread
        truth[names.residual_name(model.residual_by)] = levels
        residual = np.broadcast_to(_spread(levels, (model.residual_by,)), expected.shape)
    if model.likelihood == "student_t":
        truth[names.NU] = scale[names.NU]
        noise = rng.standard_t(scale[names.NU], size=expected.shape)
    else:
        noise = rng.standard_normal(expected.shape)
    score = expected + residual * noise

    rows = np.argwhere(observed)
    frame = pd.DataFrame(
        {
            factor: [labels[factor][i] for i in rows[:, axis]]
            for axis, factor in enumerate(names.FACTORS)
        }
    )
    frame[names.SCORE] = score[observed]
    return Simulation(
        # One simulated model may well have all its few scores between 0 and 1.
        records=Records.from_frame(frame, name=f"simulated-{model.name}", mixed_scales="allow"),
        truth=truth,
        potential=potential,
        expected=expected,
    )


def _scales(model: ModelSpec, given: Mapping[str, float]) -> dict[str, float]:
    known = [names.sd_name(term) for term in model.terms] + [names.SD_RESIDUAL]
    known += [names.SD_LOG_RESIDUAL] if model.residual_by is not None else []
    known += [names.NU] if model.likelihood == "student_t" else []
    for name, value in given.items():
        if name not in known:
            raise InputError(
                f"{model.name} has no {name!r}{did_you_mean(name, known)} "
                f"(it has: {', '.join(known)})"
            )
        if not value >= 0.0:
            raise InputError(f"{name} must be zero or more, got {value}")
    return {name: float(given.get(name, _DEFAULT_SDS[name])) for name in known}


def _pattern(
    shape: tuple[int, ...], share: float, rng: np.random.Generator
) -> npt.NDArray[np.bool_]:
    """Which cells are observed: a fixed count, every level twice, one connected table."""
    if not 0.0 < share <= 1.0:
        raise InputError(f"observed_share must lie in (0, 1], got {share:g}")
    if min(shape) < 1 or shape[0] < 2 or shape[2] < 2:
        raise InputError(
            "a table needs at least two languages, one task and two models, got "
            f"{shape[0]}, {shape[1]} and {shape[2]}"
        )
    size = int(np.prod(shape))
    count = max(1, round(share * size))
    for _ in range(_MAX_TRIES):
        observed = np.zeros(size, dtype=bool)
        observed[rng.choice(size, size=count, replace=False)] = True
        grid = observed.reshape(shape)
        if all(
            grid.sum(axis=tuple(a for a in range(3) if a != axis)).min() >= 2 for axis in range(3)
        ) and _is_connected(grid):
            return grid
    raise InputError(
        f"no connected table with a share of {share:g} of {shape[0]} x {shape[1]} x {shape[2]} "
        "cells was found; raise observed_share"
    )


def _is_connected(grid: npt.NDArray[np.bool_]) -> bool:
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components as components

    rows = np.argwhere(grid) + np.array([0, grid.shape[0], grid.shape[0] + grid.shape[1]])
    size = sum(grid.shape)
    heads = np.concatenate([rows[:, 0], rows[:, 0]])
    tails = np.concatenate([rows[:, 1], rows[:, 2]])
    graph = coo_array((np.ones(len(heads)), (heads, tails)), shape=(size, size))
    return int(components(graph, directed=False, return_labels=False)) == 1


def _spread(effects: Floats, factors: tuple[str, ...]) -> Floats:
    """Effects of some factors, on axes (language, task, model) of length 1 elsewhere."""
    order = [factors.index(f) for f in names.FACTORS if f in factors]
    target = [effects.shape[factors.index(f)] if f in factors else 1 for f in names.FACTORS]
    return effects.transpose(order).reshape(target)
