"""PyMC engine: the reference implementation, for any spec, readable and extensible.

:func:`build` returns the model itself, with the names and coordinates of the
posterior, so that it can be inspected or extended in PyMC.
"""

from __future__ import annotations

import contextlib
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pymc as pm
import pytensor.tensor as pt
import xarray as xr

from bayeseval import names
from bayeseval._compat import nuts_arguments, to_datatree
from bayeseval._optional import require
from bayeseval._random import stream
from bayeseval._text import grouped
from bayeseval._typing import Floats, Progress
from bayeseval.design import Design, Relations, Slope, Term
from bayeseval.engines._density import residual_offset, sampled_variables, to_posterior
from bayeseval.engines._likelihood import items, log_floor, observed, score_site, with_units
from bayeseval.engines._pymc_replicates import replicate_noise
from bayeseval.engines._related import covariance
from bayeseval.engines.base import Draws, SamplerSettings, resolve_settings
from bayeseval.errors import EngineError, InputError, did_you_mean
from bayeseval.families import FAMILIES, At
from bayeseval.spec import Prior

__all__ = ["NUTS_SAMPLERS", "build", "density_function", "log_density", "sample"]


NUTS_SAMPLERS: Final = ("pymc", "nutpie", "numpyro", "blackjax")

_DEFAULTS: Final = {
    "draws": 1000,
    "tune": 1000,
    "chains": 4,
    "target_accept": 0.9,
    "nuts_sampler": "pymc",
}

# Draws of all chains between two progress reports.
_REPORT_EVERY: Final = 100

# Names of the statistics of the convergence gate in each NUTS implementation, and ours.
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


def build(design: Design, *, extend: Callable[[Any], Any] | None = None) -> pm.Model:
    """Build the PyMC model of a design.

    Parameters
    ----------
    design : Design
        The model and its table.
    extend : callable, optional
        Called in the model's context with the linear predictor of every record; what it
        returns takes its place.

    Returns
    -------
    pymc.Model
        Free variables are those of ``sampled_variables``; effects of non-centred
        terms and noise by level are deterministic. The observed variable is ``score``
        (scores, their logits, shares of the range, or counts, depending on the likelihood);
        with several likelihoods ``score_<likelihood>``.
    """
    coords: dict[str, Any] = {dim: list(labels) for dim, labels in design.coords.items()}
    coords[names.RECORD] = list(range(design.n_records))
    with pm.Model(coords=coords) as model:
        dims, vectors = design.dims(), design.sizes()
        value = {
            name: _prior(name, prior, dims=dims[name][0] if name in vectors else None)
            for name, prior in design.priors.items()
        }
        eta = value[names.INTERCEPT]
        for term in design.terms:
            if term.rank:
                eta = eta + _low_rank(term, value[names.sd_name(term.name)])
                continue
            sd = term.known_sd if term.sd is None else value[term.sd]
            family = pm.ZeroSumNormal if term.zero_sum else pm.Normal
            if term.centred:
                effect = family(term.effect, sigma=sd, dims=term.dim)
            else:
                offset = family(term.offset, sigma=1.0, dims=term.dim)
                if term.relations is not None:
                    root = _related_root(term.relations, sd, value)
                    effect = pm.Deterministic(term.effect, root @ offset, dims=term.dim)
                else:
                    effect = pm.Deterministic(term.effect, sd * offset, dims=term.dim)
            eta = eta + effect[term.index]
        for slope in design.slopes:
            eta = eta + value[slope.slope] * _covariate(slope)[slope.index]
        if extend is not None:
            eta = _extended(design, extend(eta))
        spread = _spread(design, value)
        noise = (0.0, None)
        if design.replicates is not None:
            noise = replicate_noise(design.replicates, value)
        for family in design.outcome.families:
            _observe(design, family, value, spread, eta, noise)
    return model


def _related_root(relations: Relations, own: Any, value: Mapping[str, Any]) -> Any:
    """Root of the covariance of related levels' effects."""
    contrasts = covariance(relations.contrasts, own, [value[name] for name in relations.sds], xp=pt)
    return relations.basis @ pt.linalg.cholesky(contrasts) @ relations.basis.T


def _extended(design: Design, eta: Any) -> Any:
    """The user's linear predictor, refused if it is not one value for every record."""
    wanted = f"one value for each of the {grouped(design.n_records)} records"
    if eta is None:
        raise InputError(f"extend must return {wanted}, got None")
    eta = pt.as_tensor(eta)
    if eta.ndim != 1 or eta.type.shape[0] not in (None, design.n_records):
        raise InputError(f"extend must return {wanted}, got the shape {eta.type.shape}")
    return eta


def _low_rank(term: Term, sd: Any) -> Any:
    """Sum over the ranks of the products of unit-scale loadings, times the sd of each rank."""
    (of_model, model), (of_other, other) = (
        (family(name, sigma=1.0, dims=(term.rank_dim, factor)), term.members[factor][term.index])
        for family, name, factor in zip(
            (pm.ZeroSumNormal, pm.Normal), term.drawn_loadings, term.factors, strict=True
        )
    )
    return (sd[:, None] * of_model[:, model] * of_other[:, other]).sum(axis=0)


def _covariate(slope: Slope) -> Any:
    """Standardised values; unknown ones are N(0, 1), with their measurements if any."""
    if not slope.n_unknown:
        return slope.known
    unknown = pm.Normal(slope.drawn, dims=slope.dim)
    if len(slope.with_error):
        measured, error = slope.measurements
        pm.Normal(slope.measured, mu=unknown[slope.with_error], sigma=error, observed=measured)
    return pt.set_subtensor(pt.as_tensor(slope.known)[slope.unknown], unknown)


def _spread(design: Design, value: Mapping[str, Any]) -> Any:
    """Factors of the noise of each level; None if it does not differ by level."""
    offset, factor = residual_offset(design), design.spec.residual_by
    if offset is None or factor is None:
        return None
    spread = pm.math.exp(value[names.SD_LOG_RESIDUAL] * pm.Normal(offset, dims=factor))
    for name in design.noise_scales:
        pm.Deterministic(names.level_name(name, factor), value[name] * spread, dims=factor)
    return spread


def _observe(
    design: Design, family: str, value: Mapping[str, Any], spread: Any, eta: Any, noise: Any
) -> None:
    """Observed variable of the records of one likelihood; `noise` is from `replicate_noise`."""
    added, shift = noise
    outcome, rows = design.outcome, design.outcome.rows(family)
    site, single = score_site(design, family), len(outcome.families) == 1
    task = design.factor_index[names.TASK][rows]
    centre = eta if single else eta[rows]
    if outcome.chance is not None:
        chance = outcome.chance[task]
        centre = pm.math.logaddexp(centre, log_floor(chance)) - np.log1p(-chance)
    dims = names.RECORD if single else None

    def scale(name: str) -> Any:
        if spread is None or design.residual_index is None:
            return value[name]
        return (value[name] * spread)[design.residual_index[rows]]

    kind = FAMILIES[family]
    sd: Any = None if kind.scale is None else scale(kind.scale.name)
    if kind.quantity == "score":
        if outcome.link == "logit":
            span = (outcome.upper - outcome.lower)[task]
            centre = outcome.lower[task] + span * pm.math.sigmoid(centre)
        if shift is not None:
            centre = centre + shift[rows]
        if design.se is not None or design.replicates is not None:
            known = 0.0 if design.se is None else design.se[rows] ** 2
            sd = pm.math.sqrt(sd**2 + (known + added))
    extra = {parameter.name: value[parameter.name] for parameter in kind.extra}
    at = At(centre, sd, extra=extra, items=items(design, family))
    kind.pymc(site, at, observed=observed(design, family), dims=dims)


def _prior(name: str, prior: Prior, *, dims: str | None) -> Any:
    # As float64: PyTensor would compute with a Python 0.5 in single precision.
    low, loc, scale, df, shape, rate = (
        np.float64(getattr(prior, key) or 0.0)
        for key in ("low", "loc", "scale", "df", "shape", "rate")
    )
    if prior.dist == "normal":
        return pm.Normal(name, mu=loc, sigma=scale, dims=dims)
    if prior.dist == "student_t":
        return pm.StudentT(name, nu=df, mu=loc, sigma=scale, dims=dims)
    if prior.dist == "half_normal":
        if low == 0.0:
            return pm.HalfNormal(name, sigma=scale, dims=dims)
        return pm.TruncatedNormal(name, mu=0.0, sigma=scale, lower=low, dims=dims)
    if prior.dist == "half_student_t":
        if low == 0.0:
            return pm.HalfStudentT(name, nu=df, sigma=scale, dims=dims)
        # Truncating the symmetric density above zero is the same as truncating its half.
        whole = pm.StudentT.dist(nu=df, mu=0.0, sigma=scale)
        return pm.Truncated(name, whole, lower=low, dims=dims)
    if prior.dist == "exponential":
        base, arguments = pm.Exponential, {"scale": scale}
    else:
        base, arguments = pm.Gamma, {"alpha": shape, "beta": rate}
    if low == 0.0:
        return base(name, **arguments, dims=dims)
    return pm.Truncated(name, base.dist(**arguments), lower=low, dims=dims)


def density_function(design: Design) -> Callable[[Mapping[str, Floats]], dict[str, float]]:
    """Build and compile the log density of a design once, for many points.

    Parameters
    ----------
    design : Design
        The model and its table.

    Returns
    -------
    callable
        From a point to its log densities, as :func:`log_density` returns them.
    """
    from pymc.model.transform.conditioning import remove_value_transforms

    # Without transforms the inputs are the constrained values themselves.
    model = remove_value_transforms(build(design))
    variables = [*model.basic_RVs, *model.potentials]
    labels = [variable.name for variable in variables]
    inputs = [variable.name for variable in model.value_vars]
    parts = model.logp(vars=variables, jacobian=False, sum=False)
    evaluate = model.compile_fn(parts, mode="FAST_COMPILE", on_unused_input="ignore")

    def density(point: Mapping[str, Floats]) -> dict[str, float]:
        values = evaluate({name: np.asarray(point[name]) for name in inputs})
        parts = {label: float(np.sum(v)) for label, v in zip(labels, values, strict=True)}
        return with_units(design, parts)

    return density


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
        log, no Jacobians of parameters; of the scores in score units.
    """
    return density_function(design)(point)


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
        Called as ``progress(stage, done, total, remark)``, counting the iterations of
        all chains; only PyMC's own NUTS reports progress during the run.

    Returns
    -------
    Draws
        Score scale. The same seed gives the same numbers.

    Raises
    ------
    EngineError
        If the NUTS implementation is unknown.
    MissingDependencyError
        If it is not installed.
    """
    settings = resolve_settings(settings, engine="pymc", defaults=_DEFAULTS)
    nuts = str(settings.nuts_sampler)
    if nuts not in NUTS_SAMPLERS:
        raise EngineError(
            f"unknown nuts_sampler {nuts!r}{did_you_mean(nuts, NUTS_SAMPLERS)} "
            f"(allowed: {', '.join(NUTS_SAMPLERS)})"
        )
    if nuts in ("nutpie", "blackjax"):
        require(nuts, nuts)
    (seed,) = stream(settings.seed, "fit").generate_state(1)
    arguments: dict[str, Any] = {
        "draws": settings.draws,
        "tune": settings.tune,
        "chains": settings.chains,
        "random_seed": int(seed),
        "target_accept": settings.target_accept,
        # Always passed: the default of PyMC 6 is nutpie where that is installed.
        "nuts_sampler": nuts,
        # This package has its own progress, messages and convergence gate.
        "progressbar": False,
        "quiet": True,
        "compute_convergence_checks": False,
        **nuts_arguments(nuts),
    }
    reporter = _ProgressReporter(progress, settings, nuts)
    if nuts == "pymc":
        arguments["callback"] = reporter
        # PyMC forks one process per chain; a process that has loaded JAX has threads and
        # must not be forked. The draws are the same either way.
        arguments["cores"] = 1 if "jax" in sys.modules else None
    on_jax = nuts in ("numpyro", "blackjax")
    reporter.begin()
    with build(design), _quietly(), _jax_restored() if on_jax else contextlib.nullcontext():
        tree = to_datatree(pm.sample(**arguments))
    reporter.end()

    posterior = tree["posterior"].to_dataset()
    drawn = {
        name: posterior[name].transpose("chain", "draw", ...).to_numpy()
        for name in sampled_variables(design)
    }
    library = pm if nuts == "pymc" else sys.modules[nuts]
    return Draws(
        posterior=to_posterior(design, drawn),
        sample_stats=_sample_stats(tree["sample_stats"].to_dataset(), nuts),
        settings=settings,
        attrs={
            "inference_library": nuts,
            "inference_library_version": str(library.__version__),
            "pymc_version": pm.__version__,
        },
    )


def _sample_stats(stats: xr.Dataset, nuts: str) -> dict[str, npt.NDArray[np.generic]]:
    """Statistics of a NUTS implementation under our names, each (chain, draw)."""
    values = {
        ours: stats[theirs].transpose("chain", "draw").to_numpy()
        for theirs, ours in _STATS.items()
        if theirs in stats
    }
    if nuts == "numpyro":
        # PyMC returns the potential energy, which is minus the log density.
        values["lp"] = -values["lp"]
    for count in ("n_steps", "tree_depth"):
        values[count] = values[count].astype(np.int64)
    return values


class _ProgressReporter:
    """PyMC's callback after every draw, which reports progress in blocks of iterations."""

    def __init__(self, progress: Progress | None, settings: SamplerSettings, nuts: str) -> None:
        self.progress, self.nuts = progress, nuts
        chains = settings.chains or 0
        self.sizes = {"warm-up": chains * (settings.tune or 0)}
        self.sizes["sampling"] = chains * (settings.draws or 0)
        self.done = dict.fromkeys(self.sizes, 0)
        self.divergences = 0

    def begin(self) -> None:
        """Report that compilation begins."""
        if self.progress is not None:
            self.progress("compiling", 0, 1, f"PyMC, {self.nuts}")

    def __call__(self, *, draw: Any, **_: Any) -> None:
        """Count one draw of one chain; PyMC calls this in the parent process."""
        stage = "warm-up" if draw.tuning else "sampling"
        self.done[stage] += 1
        if stage == "sampling":
            self.divergences += sum(bool(stat["diverging"]) for stat in draw.stats)
        if self.done[stage] % _REPORT_EVERY == 0:
            self._report(stage)

    def end(self) -> None:
        """Report that all draws are complete."""
        self.done["sampling"] = self.sizes["sampling"]
        self._report("sampling")

    def _report(self, stage: str) -> None:
        if self.progress is not None:
            remark = f"{self.divergences} divergences" if self.nuts == "pymc" else ""
            self.progress(stage, self.done[stage], self.sizes[stage], remark)


@contextlib.contextmanager
def _quietly() -> Iterator[None]:
    """Ignore warnings that do not concern the fit."""
    with warnings.catch_warnings():
        # The model has no matrix products, which BLAS would be used for.
        warnings.filterwarnings("ignore", "PyTensor could not link to a BLAS")
        # PyMC's conversion of JAX draws donates buffers that XLA cannot reuse.
        warnings.filterwarnings("ignore", "Some donated buffers were not usable")
        # PyMC forks its worker processes by default; JAX is not loaded then.
        warnings.filterwarnings("ignore", ".*use of fork", DeprecationWarning)
        yield


@contextlib.contextmanager
def _jax_restored() -> Iterator[None]:
    """Sample in float64, then restore the user's JAX settings and environment.

    When they are imported, PyMC's JAX samplers enable float64 for the whole process and
    request a hundred XLA devices in an environment variable.
    """
    import jax

    jax.devices()  # starts JAX before PyMC can change its number of devices
    flags, wide = os.environ.get("XLA_FLAGS"), jax.numpy.result_type(float) == np.float64
    try:
        with jax.enable_x64(True):
            yield
    finally:
        jax.config.update("jax_enable_x64", bool(wide))
        if flags is None:
            os.environ.pop("XLA_FLAGS", None)
        else:
            os.environ["XLA_FLAGS"] = flags
