"""The published procedure: maximum likelihood by statsmodels, a point estimate.

Paper 000 fits Eq. 1 by maximum likelihood with fixed language and task effects
and a random intercept per model. :func:`sample` does the same and returns the
estimate as one chain of one draw, so that all views of a posterior can read it.

The profile likelihood is a function of one variable: the ratio var(model) /
var(residual). statsmodels maximises it with a general optimiser and sometimes stops at a
ratio of zero, far from the maximum, with no more than a warning (release 0.15 with
``lbfgs``, the call printed in the paper, does so on MEGA). Therefore two optimisers must
agree, and the whole profile is checked, before an estimate is returned.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from bayeseval import names
from bayeseval._text import any_of
from bayeseval._typing import Floats, Index, Progress
from bayeseval.design import Design
from bayeseval.engines.base import Draws, SamplerSettings, resolve_settings
from bayeseval.errors import EngineError

__all__ = ["published_reference", "published_shift", "sample"]


# Tried in this order, until two agree. With their default tolerances var(model) has a
# relative error of 3e-4 on MEGA; with these 1e-9.
_OPTIMISERS: Final[tuple[tuple[str, Mapping[str, float]], ...]] = (
    ("bfgs", {"gtol": 1e-8}),
    ("powell", {"ftol": 1e-12}),
    ("nm", {"ftol": 1e-12}),
    ("cg", {"gtol": 1e-8}),
    ("lbfgs", {}),
)

# A log likelihood this much lower counts as equal: it is one seventieth of a standard
# error away from the maximum (half the squared distance in standard errors).
_SAME_LOG_LIKELIHOOD: Final = 1e-4

# Largest slope of the log likelihood in log(ratio) at a maximum. The curvature there is of
# the order of half the number of models, so the ratio has about this relative error.
_FLAT_SLOPE: Final = 1e-3

# statsmodels treats a variance below 0.01, in absolute units, as a boundary. Scores are
# scaled to this sd first, so that the limit is one millionth of their variance whatever
# their units.
_WORKING_SD: Final = 100.0

# Ratios at which the profile likelihood is checked: from no model effect to no residual, in
# steps of half a decade.
_RATIOS: Final = np.logspace(-8.0, 8.0, 33)

# A residual variance below this share of the scores' variance is rounding error.
_NO_RESIDUAL: Final = 1e-16

_WAY_OUT: Final = "fit the model paper with the engine numpyro instead"
_NO_RESIDUAL_LEFT: Final = (
    "maximum likelihood has no solution on this table: the model effects fit the scores without "
    f"a residual, so var(residual) goes to zero; {_WAY_OUT}"
)


def sample(design: Design, settings: SamplerSettings, *, progress: Progress | None = None) -> Draws:
    """Maximum-likelihood estimate of the published model (arXiv:2508.17162, Eq. 1, Example 1).

    ``score = mu + a_l + b_t + u_m + e`` with fixed ``a`` and ``b``,
    ``u_m ~ N(0, sd_model**2)`` and ``e ~ N(0, sd_residual**2)``, fitted by
    ``statsmodels.MixedLM`` with ``reml=False``. Maximum likelihood does not use the priors
    and `fixed_scale` of the spec.

    Parameters
    ----------
    design : Design
        Of a spec with fixed language and task effects, pooled model effects,
        population ``models``, no interactions and one normal residual sd: the
        shipped spec ``paper``.
    settings : SamplerSettings
        Nothing is sampled: all settings but the seed are refused.
    progress : callable, optional
        Called as ``progress(stage, done, total, remark)`` when the fit starts and ends.

    Returns
    -------
    Draws
        One chain, one draw, score units. ``language_effect`` and ``task_effect``
        are the treatment-coded estimates converted to zero-sum contrasts, with their
        means added to the intercept, so that every ``mu + a_l + b_t`` is unchanged.
        ``model_effect`` holds the best linear unbiased predictions.
        ``attrs["published_shift"]`` is the difference of the published language
        potentials from Eq. 3, see :func:`published_shift`.

    Raises
    ------
    EngineError
        If the spec or the table is not of that form, if a sampler setting is given,
        or if no maximum with a positive model and residual variance is found and
        confirmed by a second optimiser.
    """
    _check_form(design)
    settings = resolve_settings(settings, engine="ml", defaults={})
    if progress is not None:
        progress("maximum likelihood", 0, 1, "")

    centre, unit = float(design.score.mean()), float(design.score.std()) / _WORKING_SD
    fixed_terms = [term for term in design.terms if term.name != names.MODEL]
    estimate, confirmed_by = _maximise(
        (design.score - centre) / unit,
        _treatment_columns(design.n_records, [(t.index, t.n_levels) for t in fixed_terms]),
        design.term(names.MODEL).index,
    )

    intercept = centre + unit * estimate.fixed[0]
    posterior: dict[str, Floats] = {}
    start = 1
    for term in fixed_terms:
        stop = start + term.n_levels - 1
        effect = unit * np.concatenate([[0.0], estimate.fixed[start:stop]])
        start = stop
        posterior[term.effect] = effect - effect.mean()
        intercept += effect.mean()
    posterior |= {
        names.INTERCEPT: np.array(intercept),
        names.effect_name(names.MODEL): unit * estimate.model_effects,
        names.sd_name(names.MODEL): np.array(
            unit * np.sqrt(estimate.ratio * estimate.residual_variance)
        ),
        names.SD_RESIDUAL: np.array(unit * np.sqrt(estimate.residual_variance)),
    }
    labels = design.coords[names.TASK]
    reference = published_reference(labels)
    shift = published_shift(
        posterior.get(names.effect_name(names.TASK), np.zeros(1)), reference=reference
    )
    if progress is not None:
        progress("maximum likelihood", 1, 1, "")
    return Draws(
        posterior={name: np.asarray(value)[None, None] for name, value in posterior.items()},
        sample_stats={},
        settings=settings,
        attrs={
            "estimate": "maximum likelihood (a point, no uncertainty)",
            "priors": "not used: maximum likelihood ignores the spec's priors and fixed_scale",
            "library": f"statsmodels {_statsmodels_version()}",
            "optimiser": f"{estimate.method}, confirmed by {confirmed_by}",
            "log_likelihood": float(estimate.log_likelihood - design.n_records * np.log(unit)),
            "published_reference": labels[reference],
            "published_shift": shift,
        },
    )


def published_reference(tasks: Sequence[str]) -> int:
    """Position of the task that is the reference level in the published code.

    It is the alphabetically first one among labels written ``dataset_metric``; ours
    are written ``dataset:metric``, and the two orders differ for some names, because
    capital letters sort between ``:`` and ``_``.

    Parameters
    ----------
    tasks : sequence of str
        Task labels.
    """
    return min(range(len(tasks)), key=lambda i: tasks[i].replace(":", "_", 1))


def published_shift(task_effect: Floats, *, reference: int = 0) -> float:
    """Difference of the published language potentials from Eq. 3 of arXiv:2508.17162.

    Eq. 3 averages ``mu + a_l + b_t`` over all K tasks. The published code averages
    the treatment-coded task effects of the fit, which do not include the effect of the
    reference task r (zero by construction), so its mean is over the other K - 1. With
    ``d_t = b_t - b_r`` the difference is, for every language,

    ``sum(d) / (K - 1) - sum(d) / K = mean(d) / (K - 1) = (mean(b) - b_r) / (K - 1)``

    and for zero-sum effects ``-b_r / (K - 1)``. It depends on which task is first in the
    alphabet, and does not change ranks. PRR uses the potential of each task and is not
    affected.

    Parameters
    ----------
    task_effect : ndarray, shape (n_tasks,)
        Task effects in score units, in any coding: a constant in all of them cancels.
    reference : int
        Position of the reference task, see :func:`published_reference`.

    Returns
    -------
    float
        Score units: published potential = Eq. 3 + shift. NaN for a single task, for which
        the published code averages over no task.
    """
    effect = np.asarray(task_effect, dtype=np.float64)
    if len(effect) < 2:
        return float("nan")
    return float((effect.mean() - effect[reference]) / (len(effect) - 1))


def _check_form(design: Design) -> None:
    """Refuse specs and tables that the published model does not cover."""
    spec = design.spec
    unsupported = [
        f"{excluded} {factor} effects"
        for factor, excluded in (("language", "pooled"), ("task", "pooled"), ("model", "fixed"))
        if getattr(spec.effects, factor) == excluded
    ]
    if spec.population != "models":
        unsupported.append(f"population {spec.population!r}")
    unsupported += [f"the interaction {term}" for term in (*spec.interactions, *spec.ranks)]
    unsupported += [f"the covariate {covariate.name}" for covariate in spec.covariates]
    unsupported += [f"the likelihood {f}" for f in design.outcome.families if f != "normal"]
    if spec.residual_by is not None:
        unsupported.append(f"residual sds by {spec.residual_by}")
    if unsupported:
        raise EngineError(
            f"engine ml fits the published model only, and {spec.name!r} has "
            f"{', '.join(unsupported)}; "
            "use the model paper"
        )
    if design.se is not None:
        raise EngineError(
            "engine ml fits the published model only, which has no known standard errors; "
            "ignore the column se, or use another engine"
        )
    own = [source.name for source in design.sources if source.name in names.NAMED_SOURCES]
    if own:
        raise EngineError(
            "engine ml fits the published model only, which has no noise of "
            f"{any_of(own, 'and')}; "
            "take a spec with sources: [], which averages over them, or use another engine"
        )
    if all(term.name != names.MODEL for term in design.terms):
        raise EngineError("engine ml needs at least two models to estimate var(model)")


def _treatment_columns(n_records: int, factors: Sequence[tuple[Index, int]]) -> Floats:
    """Intercept and one indicator column for every level but the first."""
    blocks = [np.ones((n_records, 1))]
    blocks += [(index[:, None] == np.arange(1, size)).astype(np.float64) for index, size in factors]
    return np.hstack(blocks)


@dataclass(frozen=True, eq=False)
class _Estimate:
    """Estimate of one optimiser, in working units."""

    method: str
    log_likelihood: float
    ratio: float
    residual_variance: float
    fixed: Floats
    model_effects: Floats


class _FitError(Exception):
    """One optimiser found no estimate; the message is the reason."""


def _maximise(score: Floats, exog: Floats, model: Index) -> tuple[_Estimate, str]:
    """Best estimate of the optimisers, and the name of the one that confirms it.

    Raises
    ------
    EngineError
        If no two agree, or they do not agree on an interior maximum.
    """
    from statsmodels.regression.mixed_linear_model import MixedLM

    # A random intercept per group is what MixedLM takes by default.
    mixed = MixedLM(score, exog, groups=model)
    estimates: list[_Estimate] = []
    failures: list[str] = []
    for method, options in _OPTIMISERS:
        try:
            estimates.append(_fit(mixed, method, options))
        except _FitError as failure:
            failures.append(f"{method}: {failure}")
            continue
        best = max(estimate.log_likelihood for estimate in estimates)
        agreed = [e for e in estimates if _as_good(e.log_likelihood, best)]
        if len(agreed) > 1:
            # Near the maximum the slope is more precise than the log likelihood, whose
            # differences are rounding errors there.
            agreed.sort(key=lambda estimate: abs(_slope(mixed, estimate.ratio)))
            _check_maximum(mixed, agreed[0])
            return agreed[0], agreed[1].method
    _check_curve(_curve(mixed))
    details = failures + [f"{e.method}: log likelihood {e.log_likelihood:.6g}" for e in estimates]
    raise EngineError(
        f"maximum likelihood failed on these {len(score)} records: no two optimisers agree "
        f"({'; '.join(details)}); {_WAY_OUT}"
    )


def _as_good(log_likelihood: float, best: float) -> bool:
    return log_likelihood >= best - _SAME_LOG_LIKELIHOOD


def _fit(mixed: Any, method: str, options: Mapping[str, float]) -> _Estimate:
    """Run one optimiser of statsmodels; a warning counts as a failure.

    Raises
    ------
    _FitError
    """
    try:
        with _warnings_are_errors():
            result = mixed.fit(reml=False, method=method, **options)
            predictions = result.random_effects
    except (ValueError, ArithmeticError, Warning) as error:
        raise _FitError(_one_line(error)) from error
    if not result.converged:
        raise _FitError("not converged")
    variance, residual = float(np.asarray(result.cov_re)[0, 0]), float(result.scale)
    estimate = _Estimate(
        method=method,
        log_likelihood=float(result.llf),
        ratio=variance / residual if residual > 0.0 else np.inf,
        residual_variance=residual,
        fixed=np.asarray(result.fe_params, dtype=np.float64),
        model_effects=np.array(
            [float(np.asarray(predictions[level])[0]) for level in range(len(predictions))]
        ),
    )
    numbers = [
        estimate.log_likelihood, estimate.ratio, estimate.residual_variance,
        *estimate.fixed, *estimate.model_effects,
    ]  # fmt: skip
    if not np.isfinite(numbers).all():
        raise _FitError("estimates that are not finite")
    return estimate


def _check_maximum(mixed: Any, estimate: _Estimate) -> None:
    """Check a maximum against the whole profile likelihood.

    Raises
    ------
    EngineError
        If the profile cannot be computed, is higher elsewhere, not flat at the estimate,
        or highest where the model variance or the residual variance vanishes.
    """
    curve = _curve(mixed)
    best = int(np.argmax(curve))
    if not _as_good(estimate.log_likelihood, curve[best]):
        _check_curve(curve)
        raise EngineError(
            f"maximum likelihood stopped early: at var(model) / var(residual) = "
            f"{estimate.ratio:.3g} the log likelihood is "
            f"{curve[best] - estimate.log_likelihood:.3g} lower than at {_RATIOS[best]:.3g} "
            f"({estimate.method}); {_WAY_OUT}"
        )
    _check_curve(np.append(curve, estimate.log_likelihood))
    if estimate.residual_variance < _NO_RESIDUAL * _WORKING_SD**2:
        raise EngineError(_NO_RESIDUAL_LEFT)
    slope = _slope(mixed, estimate.ratio)
    if not abs(slope) < _FLAT_SLOPE:
        raise EngineError(
            f"maximum likelihood stopped early: the log likelihood still changes by {slope:.3g} "
            f"per unit of log(var(model) / var(residual)) ({estimate.method}); {_WAY_OUT}"
        )


def _check_curve(log_likelihood: Floats) -> None:
    """Refuse a profile likelihood that is highest at either end of `_RATIOS`.

    Raises
    ------
    EngineError
    """
    best = log_likelihood.max()
    if _as_good(log_likelihood[0], best):
        raise EngineError(
            "the maximum-likelihood estimate of var(model) is zero: the models of this table "
            "differ no more than the noise explains, so the published model does not apply; "
            f"{_WAY_OUT}"
        )
    if _as_good(log_likelihood[len(_RATIOS) - 1], best):
        raise EngineError(_NO_RESIDUAL_LEFT)


def _curve(mixed: Any) -> Floats:
    """Profile log likelihood at `_RATIOS`."""
    # The parameter of statsmodels is the square root of the ratio.
    return np.array([_evaluate(mixed.loglike, root) for root in np.sqrt(_RATIOS)])


def _slope(mixed: Any, ratio: float) -> float:
    """Slope of the profile log likelihood in log(ratio)."""
    root = float(np.sqrt(ratio))
    return 0.5 * root * _evaluate(mixed.score, root)


def _evaluate(function: Callable[[Floats], Any], root: float) -> float:
    try:
        with _warnings_are_errors():
            return float(np.asarray(function(np.array([root]))).reshape(-1)[0])
    except (ValueError, ArithmeticError, Warning) as error:
        raise EngineError(
            f"the likelihood cannot be computed on this table ({_one_line(error)}); {_WAY_OUT}"
        ) from error


def _one_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0].rstrip(".") or type(error).__name__


@contextmanager
def _warnings_are_errors() -> Iterator[None]:
    """Turn warnings of statsmodels and NumPy into errors; leave others unchanged."""
    from statsmodels.tools.sm_exceptions import ModelWarning

    with warnings.catch_warnings():
        for category in (ModelWarning, RuntimeWarning):
            warnings.simplefilter("error", category)
        yield


def _statsmodels_version() -> str:
    import statsmodels

    return str(statsmodels.__version__)
