"""PyMC engine: the reference model, for any spec, readable and extensible.

:func:`build` returns the model itself, with the names and coordinates of the
posterior, so that it can be inspected or taken further in PyMC.
"""

from __future__ import annotations

import contextlib
import logging
import sys
import warnings
from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pymc as pm
import pytensor.tensor as pt

from bayeseval import names
from bayeseval._compat import nuts_arguments, to_datatree
from bayeseval._optional import require
from bayeseval._random import stream
from bayeseval.design import Design
from bayeseval.engines._density import residual_offset, sampled_variables, to_posterior
from bayeseval.engines.base import Draws, Progress, SamplerSettings, resolve_settings
from bayeseval.errors import EngineError, did_you_mean
from bayeseval.spec import Prior

__all__ = ["NUTS_SAMPLERS", "build", "log_density", "sample"]

Floats = npt.NDArray[np.float64]

NUTS_SAMPLERS: Final = ("pymc", "nutpie", "numpyro", "blackjax")

_DEFAULTS: Final = {
    "draws": 1000,
    "tune": 1000,
    "chains": 4,
    "target_accept": 0.9,
    "nuts_sampler": "pymc",
}

# What each NUTS implementation calls the statistics that the gate looks at.
_STATS: Final = {
    "diverging": "diverging",
    "energy": "energy",
    "acceptance_rate": "acceptance_rate",
    "mean_tree_accept": "acceptance_rate",
    "lp": "lp",
    "logp": "lp",
    "n_steps": "n_steps",
    "step_size": "step_size",
    "tree_depth": "tree_depth",
    "depth": "tree_depth",
}


def build(design: Design) -> pm.Model:
    """Build the PyMC model of a design.

    Parameters
    ----------
    design : Design
        The model and its table.

    Returns
    -------
    pymc.Model
        Free variables are those of ``sampled_variables``; effects of non-centred
        terms and residual sds by level are deterministic. Score scale.
    """
    coords = {dim: list(labels) for dim, labels in design.coords.items()}
    coords[names.RECORD] = list(range(design.n_records))
    with pm.Model(coords=coords) as model:
        value = {name: _prior(name, prior) for name, prior in design.priors.items()}
        eta = value[names.INTERCEPT]
        for term in design.terms:
            sd = term.known_sd if term.sd is None else value[term.sd]
            family = pm.ZeroSumNormal if term.zero_sum else pm.Normal
            if term.centred:
                effect = family(term.effect, sigma=sd, dims=term.dim)
            else:
                offset = family(term.offset, sigma=1.0, dims=term.dim)
                effect = pm.Deterministic(term.effect, sd * offset, dims=term.dim)
            eta = eta + effect[term.index]
        scale = _residual_scale(design, value)
        observed: dict[str, Any] = {"observed": design.score, "dims": names.RECORD}
        if design.spec.likelihood == "normal":
            pm.Normal(names.SCORE, mu=eta, sigma=scale, **observed)
        else:
            pm.StudentT(names.SCORE, nu=value[names.NU], mu=eta, sigma=scale, **observed)
    return model


def _residual_scale(design: Design, value: Mapping[str, Any]) -> Any:
    scale = value[names.SD_RESIDUAL]
    offset, factor = residual_offset(design), design.spec.residual_by
    if offset is not None and factor is not None:
        spread = value[names.SD_LOG_RESIDUAL] * pm.Normal(offset, dims=factor)
        by_level = pm.Deterministic(
            names.residual_name(factor), scale * pt.exp(spread), dims=factor
        )
        scale = by_level[design.residual_index]
    return scale if design.se is None else pt.sqrt(scale**2 + design.se**2)


def _prior(name: str, prior: Prior) -> Any:
    low = prior.low or 0.0
    if prior.dist == "normal":
        return pm.Normal(name, mu=prior.loc, sigma=prior.scale)
    if prior.dist == "student_t":
        return pm.StudentT(name, nu=prior.df, mu=prior.loc, sigma=prior.scale)
    if prior.dist == "half_normal":
        if low == 0.0:
            return pm.HalfNormal(name, sigma=prior.scale)
        return pm.TruncatedNormal(name, mu=0.0, sigma=prior.scale, lower=low)
    if prior.dist == "half_student_t":
        if low == 0.0:
            return pm.HalfStudentT(name, nu=prior.df, sigma=prior.scale)
        # A symmetric density cut above zero: the half and the cut in one.
        whole = pm.StudentT.dist(nu=prior.df, mu=0.0, sigma=prior.scale)
        return pm.Truncated(name, whole, lower=low)
    if prior.dist == "exponential":
        base, arguments = pm.Exponential, {"scale": prior.scale}
    else:
        base, arguments = pm.Gamma, {"alpha": prior.shape, "beta": prior.rate}
    if low == 0.0:
        return base(name, **arguments)
    return pm.Truncated(name, base.dist(**arguments), lower=low)


def log_density(design: Design, point: Mapping[str, Floats]) -> dict[str, float]:
    """Log density of every part of the model at a point of the constrained space.

    Parameters
    ----------
    design : Design
        The model and its table.
    point : dict of str to ndarray
        A value of every variable of ``sampled_variables(design)``.

    Returns
    -------
    dict of str to float
        One entry per sampled variable and ``score`` for the likelihood; natural
        log, score scale, no Jacobians.
    """
    from pymc.model.transform.conditioning import remove_value_transforms

    # Without transforms the inputs are the constrained values themselves.
    model = remove_value_transforms(build(design))
    parts = model.logp(jacobian=False, sum=False)
    evaluate = model.compile_fn(parts, mode="FAST_COMPILE", on_unused_input="ignore")
    wanted = {variable.name: np.asarray(point[variable.name]) for variable in model.value_vars}
    values = evaluate(wanted)
    labels = [variable.name for variable in model.basic_RVs]
    return {label: float(np.sum(value)) for label, value in zip(labels, values, strict=True)}


def sample(design: Design, settings: SamplerSettings, *, progress: Progress | None = None) -> Draws:
    """Draw from the posterior with PyMC.

    Parameters
    ----------
    design : Design
        The model and its table.
    settings : SamplerSettings
        Every setting is used. The defaults are 1000 draws, 1000 warm-up iterations,
        4 chains, a target acceptance of 0.9 and PyMC's own NUTS.
    progress : callable, optional
        Told when sampling begins and ends; PyMC shows its own bar, on stderr.

    Returns
    -------
    Draws
        Score scale.

    Raises
    ------
    EngineError
        If there is no NUTS implementation of that name.
    MissingDependencyError
        If it is not installed.
    """
    settings = resolve_settings(settings, engine="pymc", defaults=_DEFAULTS)
    nuts = str(settings.nuts_sampler)
    if nuts not in NUTS_SAMPLERS:
        raise EngineError(
            f"no NUTS sampler {nuts!r}{did_you_mean(nuts, NUTS_SAMPLERS)} "
            f"(there are: {', '.join(NUTS_SAMPLERS)})"
        )
    if nuts in ("nutpie", "blackjax"):
        require(nuts, nuts)
    tell = progress or (lambda stage, done, total, remark: None)
    total = (settings.chains or 0) * ((settings.tune or 0) + (settings.draws or 0))
    tell("sampling", 0, total, f"PyMC, {nuts}")
    (seed,) = stream(settings.seed, "fit").generate_state(1)
    arguments: dict[str, Any] = {
        "draws": settings.draws,
        "tune": settings.tune,
        "chains": settings.chains,
        "random_seed": int(seed),
        "target_accept": settings.target_accept,
        "nuts_sampler": nuts,
        # blackjax's bar does not work in a vectorised program.
        "progressbar": progress is not None and nuts != "blackjax",
        # The gate is ours, and the log likelihood is computed from the draws.
        "compute_convergence_checks": False,
    }
    arguments |= nuts_arguments(nuts)
    if nuts != "nutpie":
        arguments["idata_kwargs"] = {"log_likelihood": False}
    if nuts == "pymc" and "jax" in sys.modules:
        # PyMC's worker processes; forking a process that runs JAX's threads can hang.
        arguments["mp_ctx"] = "spawn"
    with build(design), _quietly():
        tree = to_datatree(pm.sample(**arguments))
    tell("sampling", total, total, f"PyMC, {nuts}")

    posterior = tree["posterior"].to_dataset()
    drawn = {
        name: posterior[name].transpose("chain", "draw", ...).to_numpy()
        for name in sampled_variables(design)
    }
    stats = tree["sample_stats"].to_dataset()
    return Draws(
        posterior=to_posterior(design, drawn),
        sample_stats={
            ours: stats[theirs].transpose("chain", "draw").to_numpy()
            for theirs, ours in _STATS.items()
            if theirs in stats
        },
        settings=settings,
        attrs={
            "inference_library": "pymc" if nuts == "pymc" else nuts,
            "pymc_version": pm.__version__,
        },
    )


@contextlib.contextmanager
def _quietly() -> Iterator[None]:
    """Send PyMC's bar to stderr and silence what our own gate and settings say better."""
    logger = logging.getLogger("pymc")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with contextlib.redirect_stdout(sys.stderr), warnings.catch_warnings():
            # Settings and draws are passed on and checked here; the samplers'
            # remarks on their own defaults and devices are not the user's concern.
            warnings.filterwarnings("ignore", category=FutureWarning)
            warnings.filterwarnings("ignore", category=UserWarning)
            yield
    finally:
        logger.setLevel(level)
