"""Leaving out for good: NUTS without the records, and the density that it gives them.

All refits of one design share one compiled program where what is left out has the same
number of records. Each has random streams of its own, so that the order of the
refits and the number of processes change nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import logsumexp

from bayeseval import names
from bayeseval._cluster import Cluster
from bayeseval._diagnostics import convergence
from bayeseval._processes import run_all
from bayeseval._typing import Floats
from bayeseval.comparison.bridge import bridge
from bayeseval.design import Design
from bayeseval.engines import SamplerSettings, load_engine
from bayeseval.engines._evidence import without
from bayeseval.engines._leave_out_mixture import group_log_density, why_no_mixture
from bayeseval.engines.base import linear_predictor, pointwise_log_likelihood
from bayeseval.output._kept import Kept
from bayeseval.output._locks import alone_in

if TYPE_CHECKING:
    from typing import Any

    from bayeseval._typing import Progress

__all__ = ["refit_units"]


# A refit feeds one number, the mean of a density over the draws: on MEGA with `robust` its
# Monte-Carlo error is then a few hundredths.
_SETTINGS: Final = SamplerSettings(draws=500, tune=500, chains=4)
# Draws that a group's density is integrated at.
_GROUP_DRAWS: Final = 500
# Chains that disagree more than this have not found the same posterior.
_MOST_RHAT: Final = 1.05
# Enough of a SHA-256 to tell the densities of two fits apart.
_SHORT: Final = 12


class _Shared(NamedTuple):
    design: Design
    by: names.LeftOut
    seed: int


class _Task(NamedTuple):
    unit: int
    whole: Floats | None


def refit_units(
    design: Design,
    by: names.LeftOut,
    units: Sequence[int],
    *,
    seed: int,
    jobs: int | Cluster,
    progress: Progress,
    whole: Floats | None = None,
    work: Path | None = None,
) -> tuple[Floats, Floats]:
    """Log densities of units that were left out of the fit.

    Parameters
    ----------
    design : Design
        The whole table.
    by : {"record", "language", "task", "model"}
        What a unit is.
    units : sequence of int
        Records, or levels.
    seed : int
        The one seed.
    jobs : int or Cluster
        Refits at once, or where they run.
    progress : callable
        Called as ``progress(stage, done, total, remark)``.
    whole : ndarray, shape (n_units, n_chains, n_draws), optional
        Of groups, the log likelihood of their records at draws of the fit to the whole
        table.
    work : Path, optional
        Folder of the refits of this design that keeps finished ones.

    Returns
    -------
    elpd : ndarray, shape (n_units,)
        Natural log, score units; of groups, the joint density of their records.
    k_hat : ndarray, shape (n_units,)
        NaN for records, whose density is a plain mean over draws; for groups, that of
        the weights that integrate over their noise, or NaN after bridge sampling, which
        has none. Infinite where chains disagree, or the bridge is unreliable.

    Notes
    -----
    A group's effects are integrated out where that is possible given its noise
    (:func:`why_no_mixture`); where it is not, or the weights are bad, the posteriors with
    and without the group are joined by a bridge.
    """
    tasks = [_Task(unit, None if whole is None else whole[i]) for i, unit in enumerate(units)]
    stage = f"{design.spec.name}: refits without each {by}"
    kept = None if work is None else _kept(work, design.spec.name, by, tasks)
    with nullcontext() if kept is None else alone_in(kept.folder):
        results = run_all(
            _refit,
            tasks,
            shared=_Shared(design, by, seed),
            jobs=jobs,
            stage=stage,
            progress=progress,
            keep=None if kept is None else kept.store,
            done=None if kept is None else kept.find(),
        )
    return np.array([elpd for elpd, _ in results]), np.array([k for _, k in results])


def _kept(
    folder: Path, model: str, by: names.LeftOut, tasks: Sequence[_Task]
) -> Kept[tuple[float, float]]:
    """Store of refits; of groups, a bridge depends on the fit to the whole table, too."""
    pieces = []
    for task in tasks:
        piece = f"{model}: the refit without {by} {task.unit}"
        if task.whole is not None:
            digest = hashlib.sha256(np.ascontiguousarray(task.whole).tobytes()).hexdigest()
            piece += f" (beside densities {digest[:_SHORT]})"
        pieces.append(piece)
    return Kept(folder, tuple(pieces), _to_json, _from_json)


def _to_json(result: tuple[float, float]) -> dict[str, Any]:
    # As texts: JSON has no NaN and no infinity.
    return {"elpd": repr(result[0]), "k_hat": repr(result[1])}


def _from_json(value: Mapping[str, Any]) -> tuple[float, float]:
    return float(value["elpd"]), float(value["k_hat"])


def _refit(shared: _Shared, task: _Task, beat: Progress | None) -> tuple[float, float]:
    design, by, seed = shared
    # A seed of its own: refits must not share their draws.
    own = int(np.random.SeedSequence([seed, task.unit]).generate_state(1)[0])
    settings = replace(_SETTINGS, seed=own)
    drawn = load_engine("numpyro")(without(design, by=by, unit=task.unit), settings, progress=beat)
    flat = {
        name: np.asarray(values).reshape(-1, *values.shape[2:])
        for name, values in drawn.posterior.items()
    }
    if by == names.RECORD:
        density = pointwise_log_likelihood(design, flat)[:, task.unit]
        value, k_hat = float(logsumexp(density) - np.log(len(density))), np.nan
    else:
        value, k_hat = _group(design, by, task, flat, drawn.sample_stats["lp"].shape, seed=own)
    return value, np.inf if _rhat(design, flat, drawn.sample_stats["lp"]) > _MOST_RHAT else k_hat


def _group(
    design: Design,
    by: names.LeftOut,
    task: _Task,
    flat: dict[str, Floats],
    shape: tuple[int, ...],
    *,
    seed: int,
) -> tuple[float, float]:
    """Log density and k-hat of a group, from draws of a fit without it."""
    unit = task.unit
    value, k_hat = np.nan, np.inf
    if by != names.RECORD and why_no_mixture(design) is None:
        kept = np.linspace(0, len(flat[names.INTERCEPT]) - 1, _GROUP_DRAWS).astype(int)
        some = {name: values[kept] for name, values in flat.items()}
        value, k_hat = group_log_density(design, some, by=by, level=unit, seed=seed)
    if k_hat > names.K_HAT_MAX and task.whole is not None:
        records = np.flatnonzero(design.factor_index[by] == unit)
        density = pointwise_log_likelihood(design, flat)[:, records].sum(axis=1)
        bridged = bridge(task.whole, density.reshape(shape))
        if bridged.is_good or np.isnan(value):
            value, k_hat = bridged.value, np.nan if bridged.is_good else np.inf
    return value, k_hat


def _rhat(design: Design, flat: dict[str, Floats], lp: npt.NDArray[np.generic]) -> float:
    """Largest R-hat of the priors' parameters, the log density and the mean expected score."""
    several = [flat[name].reshape(*lp.shape, -1) for name in design.priors]
    several.append(linear_predictor(design, flat).mean(axis=-1).reshape(*lp.shape, 1))
    several.append(np.asarray(lp, dtype=np.float64)[..., None])
    values = np.concatenate(several, axis=-1)
    rhats = convergence(np.moveaxis(values, -1, 0)).r_hat
    # NaN must flag.
    return float(np.where(np.isnan(rhats), np.inf, rhats).max())
