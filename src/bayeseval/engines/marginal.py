"""The marginal engine: with a normal likelihood only the sds need sampling.

Given the standard deviations everything else is jointly normal, so effects are integrated
out, and drawn exactly afterwards (`_marginal_density`). Two to seven dimensions remain, few
enough for importance sampling with quasi-random points (`_importance`): without warm-up
and autocorrelation, and with an estimate of the marginal likelihood. Where Pareto-smoothed
importance sampling finds the weights unreliable, NUTS draws the log-sds instead
(`_marginal_nuts`). Residual sds by level are further dimensions (`_marginal_levels`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from bayeseval import names
from bayeseval._random import stream
from bayeseval._typing import Floats, Index, Progress
from bayeseval.design import Design
from bayeseval.engines import _importance
from bayeseval.engines._evidence import scale_proposal, with_informed_levels
from bayeseval.engines._marginal_density import Marginal, build_marginal, one_thread_per_call
from bayeseval.engines._marginal_layout import eliminations, n_coefficients
from bayeseval.engines.base import Draws, SamplerSettings, resolve_settings
from bayeseval.errors import EngineError, by_option
from bayeseval.families import FAMILIES

__all__ = [
    "MOST_LEVELS",
    "check_design",
    "sample",
    "why_no_closed_form",
    "why_not",
    "why_not_at_once",
    "why_not_slopes",
]


_DEFAULTS: Final = {"draws": 1000, "chains": 4}

# Floating-point operations of Cholesky factors that may be spent on points before a point
# is used for several draws, and the most draws of a point. Draws of the effects are exact
# whatever the number of points; the number of points limits that of distinct sds.
_OPERATIONS: Final = 4e10
_DRAWS_PER_POINT: Final = 4
_LEAST_POINTS: Final = 128

# Draws of effects take at most this many bytes while points have no weights yet. If more are
# wanted, they are drawn at the points that the weights choose, which factorises A again.
_PREPARED_BYTES: Final = 2.5e8

# Most effects for NUTS on the sds, which factorises dense matrices.
_MOST_FOR_NUTS: Final = 2000

# Required effective points per chain: the convergence gate requires 100.
_ESS_PER_CHAIN: Final = 125.0

# Of a dense factor. With more operations, a factorisation takes longer than a gradient of the
# joint density, and NUTS on all parameters is the better engine.
_MOST_OPERATIONS: Final = 2000.0**3 / 3.0

# Most levels with residual sds of their own. Measured on MEGA: k-hat 0.2 to 0.3 and half of the
# points effective with 13 models or 15 tasks; with 53 languages a sixth of them are, so that
# NUTS takes less time.
MOST_LEVELS: Final = 20

# Sources of replicate noise, in words.
_NOISE: Final[Mapping[names.Source, str]] = {
    "seed": "seeds",
    "boot": "test sets",
    "seed_boot": "seeds by test sets",
    "prompt": "prompts",
    "judge": "judges",
}


def why_not(design: Design) -> str | None:
    """Reason why this engine cannot fit a design; None when it can.

    Parameters
    ----------
    design : Design
        The model and its table.
    """
    factor = design.spec.residual_by
    if factor is not None and len(design.coords[factor]) > MOST_LEVELS:
        levels = len(design.coords[factor])
        return f"residual sds of {levels} {factor}s are too many for importance sampling"
    return _why_not_gaussian(design)


def why_no_closed_form(design: Design) -> str | None:
    """Reason why left-out densities and marginal likelihoods are not computed in closed form.

    Parameters
    ----------
    design : Design
        The model and its table.
    """
    if design.spec.residual_by is not None:
        return f"residual sds differ by {design.spec.residual_by}"
    return _why_not_gaussian(design)


def _why_not_gaussian(design: Design) -> str | None:
    """Reason why scores and effects are not jointly normal given the sds; None when they are."""
    spec, prior = design.spec, design.priors[names.INTERCEPT]
    if not design.outcome.is_gaussian:
        families = design.outcome.families
        if all(FAMILIES[family].quantity == "logit" for family in families):
            return "it cannot integrate effects out of normal logits with chance levels"
        return f"it integrates effects out of a normal likelihood, not of {' and '.join(families)}"
    if spec.low_rank:
        return "products of loadings are not jointly normal given the sds"
    if prior.dist != "normal":
        return f"the intercept's prior must be normal, not {prior.dist}"
    reason = why_not_slopes(design)
    if reason is not None:
        return reason
    if design.sources:
        noise = " and ".join(_NOISE[source.name] for source in design.sources)
        return f"it needs known errors, and the noise of {noise} has to be estimated"
    known = {names.INTERCEPT, names.SD_RESIDUAL, *(sd for term in design.terms for sd in term.sds)}
    known |= {slope.slope for slope in design.slopes}
    if spec.residual_by is not None:
        known.add(names.SD_LOG_RESIDUAL)
    unknown = sorted(set(design.priors) - known)
    if unknown:
        return f"it does not support {', '.join(unknown)}"
    return why_not_at_once(design)


def check_design(design: Design) -> None:
    """Refuse a design that this engine cannot fit.

    Raises
    ------
    EngineError
        With the reason of :func:`why_not`.
    """
    reason = why_not(design)
    if reason is not None:
        option = by_option("--engine numpyro")
        raise EngineError(f"engine marginal: {reason}; use the engine numpyro{option}")


def why_not_at_once(design: Design) -> str | None:
    """Reason why one factorisation of all effects takes too long; None when it does not."""
    operations = [way.operations(design.terms) for way in eliminations(design.terms)]
    if not operations:
        return (
            "languages and models are related and the table has one task, so no effects are "
            "independent"
        )
    if min(operations) > _MOST_OPERATIONS:
        n_effects = sum(map(n_coefficients, design.terms))
        return f"{n_effects} effects are too many to integrate out at once"
    return None


def why_not_slopes(design: Design) -> str | None:
    """Reason why slopes cannot be integrated out like effects; None when they can."""
    for slope in design.slopes:
        if slope.n_unknown:
            return f"{slope.n_unknown} unknown values of {slope.name} have to be sampled"
        prior = design.priors[slope.slope]
        if prior.dist != "normal" or prior.loc:
            return f"the prior of {slope.slope} must be normal around zero, not {prior}"
    return None


def sample(design: Design, settings: SamplerSettings, *, progress: Progress | None = None) -> Draws:
    """Draw from the posterior, with effects integrated out and then drawn exactly.

    Parameters
    ----------
    design : Design
        Normal likelihood, normal prior on the intercept, one residual sd; known
        standard errors may differ by record.
    settings : SamplerSettings
        ``draws``, ``chains`` and ``seed``; others are refused, as there is no warm-up.
        The defaults are 1000, 4 and 0.
    progress : callable, optional
        Called as ``progress(stage, done, total, remark)``.

    Returns
    -------
    Draws
        Score scale. ``attrs`` hold the ``path`` (``importance`` or ``nuts``) and its
        reason, ``k_hat``, ``importance_ess``, ``importance_efficiency``, ``n_points``, and
        for ``importance`` also ``log_marginal_likelihood`` with its standard error.

    Raises
    ------
    EngineError
        If the model is not Gaussian, or a setting is given that the engine does not have.

    Notes
    -----
    Chains are independent: each resamples its own randomisation of the quasi-random
    points. The draws of a chain that share a point are adjacent, so that effective sample
    sizes count an sd once per point. Several draws of the effects at one point are
    independent given the sds.

    Without known standard errors, or with equal ones, the cost does not depend on
    the number of records, apart from one pass to aggregate them. Otherwise it is linear in
    the number of distinct combinations of language, task, model and error.
    """
    settings = resolve_settings(settings, engine="marginal", defaults=_DEFAULTS)
    check_design(design)
    with one_thread_per_call():
        return _Run(design, settings, progress).draws()


class _Run:
    """One run of the engine: importance sampling, then resampling or NUTS."""

    def __init__(
        self, design: Design, settings: SamplerSettings, progress: Progress | None
    ) -> None:
        self.design, self.settings = design, settings
        self.n_draws, self.chains = settings.draws or 0, settings.chains or 0
        self.report = progress or (lambda stage, done, total, remark: None)
        self.marginal, self.start = with_informed_levels(build_marginal(design), design)

    def draws(self) -> Draws:
        """Importance sampling, or NUTS if its weights are unreliable."""
        self.report("finding the mode", 0, 1, "")
        proposal = scale_proposal(self.marginal, self.design, start=self.start)
        self.report("finding the mode", 1, 1, "")
        for_points, for_resampling, _ = self._seeds("importance")
        n_points = self.n_points()
        least_ess = self.chains * min(_ESS_PER_CHAIN, 0.5 * n_points)
        adapted = _importance.sample_adaptively(
            self._evaluate,
            proposal,
            n_points=n_points,
            chains=self.chains,
            seed=for_points,
            least_ess=least_ess,
            # Draws of an sd are its points, so that the gate counts these.
            least_tail_ess=least_ess,
        )
        weighted = adapted.weighted
        attrs: dict[str, str | float] = {
            "k_hat": weighted.k_hat,
            "importance_ess": weighted.ess,
            "importance_efficiency": weighted.efficiency,
            "n_points": weighted.log_weights.size,
        }
        if weighted.k_hat <= _importance.K_HAT_MAX:
            return self._resampled(weighted, adapted.kept, for_resampling, attrs)
        return self._nuts(adapted.proposal, attrs)

    def _evaluate(
        self, points: Floats, seed: np.random.SeedSequence
    ) -> tuple[Floats, dict[str, Floats]]:
        """Log posterior of points, and the draws of the effects that each will likely need."""
        self.report("importance sampling", 0, len(points), "")
        n_effects = 1 + -(-self.n_draws * self.chains // len(points))
        statistics = self.marginal.statistics
        n_values = len(points) * n_effects * (statistics.n_kept + statistics.eliminated.size)
        result: tuple[Floats, dict[str, Floats]]
        if 8 * n_values <= _PREPARED_BYTES:
            result = self.marginal.log_posterior_and_effects(points, n_effects, seed=seed)
        else:
            result = self.marginal.log_posterior(points), {}
        self.report("importance sampling", len(points), len(points), "")
        return result

    def _seeds(self, path: str) -> list[np.random.SeedSequence]:
        return stream(self.settings.seed, f"marginal-{path}").spawn(3)

    def n_points(self) -> int:
        """Points per chain, a power of two."""
        affordable = _OPERATIONS / self.marginal.statistics.layout.operations / self.chains
        most = max(_LEAST_POINTS, _power_of_two(self.n_draws))
        least = max(_LEAST_POINTS, _power_of_two(self.n_draws // _DRAWS_PER_POINT))
        if self.marginal.scales.levels is not None:
            # In more dimensions fewer points are effective (half of them on MEGA): enough at
            # once is cheaper than a second try.
            least *= 2
        return max(least, min(most, _power_of_two(int(affordable)) // 2))

    def _resampled(
        self,
        weighted: _importance.Weighted,
        effects: dict[str, Floats],
        seed: np.random.SeedSequence,
        attrs: dict[str, str | float],
    ) -> Draws:
        rng, for_further = np.random.default_rng(seed), seed.spawn(1)[0]
        chains, m, n = weighted.points.shape
        resampled = [
            _importance.resample(log_weights, self.n_draws, rng)
            for log_weights in weighted.log_weights
        ]
        point = np.concatenate([chain * m + chosen for chain, (chosen, _) in enumerate(resampled)])
        repeat = np.concatenate([repeat for _, repeat in resampled])
        phi = weighted.points.reshape(-1, n)
        drawn = _take(self.marginal, phi, effects, point, repeat, seed=for_further)
        index = np.repeat(point, repeat)
        attrs = attrs | {
            "path": "importance",
            "path_reason": f"k-hat {weighted.k_hat:.2f} is at most {_importance.K_HAT_MAX:g}",
            "log_marginal_likelihood": weighted.log_evidence,
            "log_marginal_likelihood_se": weighted.log_evidence_se,
        }
        shape = (chains, self.n_draws)
        stats = {
            "point": index.reshape(shape),
            "log_weight": weighted.log_weights.reshape(-1)[index].reshape(shape),
        }
        return self._finish(phi[index], drawn, stats, attrs)

    def _nuts(self, proposal: _importance.Proposal, attrs: dict[str, str | float]) -> Draws:
        if self.marginal.scales.levels is not None:
            return self._joint_nuts(attrs)
        from bayeseval.engines import _marginal_nuts

        n_effects = self.marginal.statistics.n_kept
        if n_effects > _MOST_FOR_NUTS:
            raise EngineError(
                f"engine marginal: the importance weights are unreliable (k-hat "
                f"{float(attrs['k_hat']):.2f}, at most {_importance.K_HAT_MAX:g} is allowed) and "
                f"{n_effects} effects are too many for NUTS on the standard deviations; use the "
                f"engine numpyro{by_option('--engine numpyro')}"
            )
        self.report("NUTS", 0, 1, f"importance weights have k-hat {float(attrs['k_hat']):.2f}")
        for_starts, for_nuts, for_effects = self._seeds("nuts")
        uniform = np.random.default_rng(for_starts).uniform(
            0.1, 0.9, (self.chains, len(proposal.mode))
        )
        starts, _ = proposal.points(uniform)
        phi, stats = _marginal_nuts.sample_scales(
            self.marginal, starts, draws=self.n_draws, seed=for_nuts
        )
        self.report("NUTS", 1, 1, "")
        phi = phi.reshape(-1, self.marginal.scales.n)
        drawn = self.marginal.effects(phi, np.ones(len(phi), dtype=np.int64), seed=for_effects)
        attrs = attrs | {
            "path": "nuts",
            "path_reason": _above(attrs),
            "tune": _marginal_nuts.TUNE,
            "target_accept": _marginal_nuts.TARGET_ACCEPT,
        }
        return self._finish(phi, drawn, stats, attrs)

    def _joint_nuts(self, attrs: dict[str, str | float]) -> Draws:
        """NUTS with all effects: a gradient with effects integrated out costs many of these.

        With several noise classes, and in more dimensions, it would take longer trajectories.
        """
        from bayeseval.engines import numpyro

        settings = replace(self.settings, draws=self.n_draws, chains=self.chains)
        drawn = numpyro.sample(self.design, settings, progress=self.report)
        used: dict[str, str | float] = {
            "path": "nuts",
            "path_reason": _above(attrs),
            "tune": drawn.settings.tune or 0,
            "target_accept": drawn.settings.target_accept or 0.0,
        }
        return replace(drawn, settings=self.settings, attrs={**drawn.attrs, **attrs, **used})

    def _finish(
        self,
        phi: Floats,
        effects: dict[str, Floats],
        stats: dict[str, npt.NDArray[Any]],
        attrs: dict[str, str | float],
    ) -> Draws:
        shape = (self.chains, self.n_draws)
        sds = self.marginal.scales.natural(phi)
        posterior: dict[str, Floats] = {names.INTERCEPT: effects[names.INTERCEPT].reshape(shape)}
        for column, name in enumerate(self.marginal.scales.names):
            posterior[name] = sds[:, column].reshape(shape)
        if self.marginal.scales.levels is not None:
            by_level = self.marginal.scales.residual(sds)
            posterior[self.marginal.scales.levels.name] = by_level.reshape(*shape, -1)
        for slope in self.design.slopes:
            posterior[slope.slope] = effects[slope.slope].reshape(shape)
        for term in self.design.terms:
            posterior[term.effect] = effects[term.name].reshape(*shape, term.n_levels)
        return Draws(posterior=posterior, sample_stats=stats, settings=self.settings, attrs=attrs)


def _take(
    marginal: Marginal,
    phi: Floats,
    prepared: dict[str, Floats],
    point: Index,
    repeat: Index,
    *,
    seed: np.random.SeedSequence,
) -> dict[str, Floats]:
    """`repeat` draws of the effects at each `point`: prepared ones, then further ones.

    Returns
    -------
    dict of str to ndarray, shape (repeat.sum(), n_levels)
    """
    if not prepared:
        return marginal.effects(phi[point], repeat, seed=seed)
    n_prepared = next(iter(prepared.values())).shape[1]
    index = np.repeat(point, repeat)
    rank = np.arange(len(index)) - np.repeat(np.cumsum(repeat) - repeat, repeat)
    n_further = np.maximum(repeat - n_prepared, 0)
    drawn = {
        name: values[index, np.minimum(rank, n_prepared - 1)] for name, values in prepared.items()
    }
    if n_further.any():
        needs_more = n_further > 0
        extra = marginal.effects(phi[point[needs_more]], n_further[needs_more], seed=seed)
        for name, values in extra.items():
            drawn[name][rank >= n_prepared] = values
    return drawn


def _above(attrs: Mapping[str, str | float]) -> str:
    k_hat = float(attrs["k_hat"])
    return f"k-hat {k_hat:.2f} of the importance weights is above {_importance.K_HAT_MAX:g}"


def _power_of_two(n: int) -> int:
    """Smallest power of two that is at least `n`."""
    return int(1 << max(n - 1, 0).bit_length())
