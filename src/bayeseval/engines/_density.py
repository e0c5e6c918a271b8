"""Variables of the joint density, independent of any PPL: names, shapes, start values.

Both NUTS engines sample the variables listed here and convert them to the posterior
with the same function. The effects of a centred term are sampled directly; those of a
non-centred term as unit-scale offsets, which are not part of the result.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy import stats

from bayeseval import names
from bayeseval._typing import Floats
from bayeseval.design import Design, Term
from bayeseval.engines._related import effects_of
from bayeseval.families import extra_parameters
from bayeseval.spec import Prior

__all__ = [
    "Variable",
    "inverse_mass",
    "log_tail",
    "lower_bound",
    "random_point",
    "residual_offset",
    "sampled_variables",
    "start_point",
    "to_posterior",
]


# Assumed sd of effects and of noise, as a share of sd(score), before fitting. It only
# affects the first warm-up window, which adapts it.
_TYPICAL_SHARE: Final = 0.5

# Start values of cells' log sds are at most so far below the typical one of the model.
_MOST_BELOW: Final = 1.5


@dataclass(frozen=True)
class Variable:
    """One variable that the samplers draw.

    Attributes
    ----------
    name : str
        Name in the posterior, or of the unit-scale offsets.
    size : int or None
        Number of levels; None for a scalar.
    zero_sum : bool
        Whether the values sum to zero.
    rank : int
        Number of such vectors; 0 for a single one.
    low : float or None
        Lower bound of a positive variable; None on the real line.
    """

    name: str
    size: int | None
    zero_sum: bool
    low: float | None
    rank: int = 0

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one draw."""
        if self.size is None:
            return ()
        return (self.rank, self.size) if self.rank else (self.size,)

    @property
    def n_free(self) -> int:
        """Number of unconstrained values."""
        return 1 if self.size is None else (self.rank or 1) * (self.size - self.zero_sum)


def residual_offset(design: Design) -> str | None:
    """Variable of the unit-scale offsets of log residual sds; None with one sd."""
    factor = design.spec.residual_by
    return None if factor is None else f"{names.level_name(names.SD_RESIDUAL, factor)}_offset"


def lower_bound(prior: Prior) -> float | None:
    """Lower end of a prior's support; None when it is the whole real line."""
    return (prior.low or 0.0) if prior.positive else None


def sampled_variables(design: Design) -> dict[str, Variable]:
    """Variables that a sampler draws for a design, in the order of the output.

    Returns
    -------
    dict of str to Variable
        Scalar parameters, then effects or offsets of every term, then unknown values of
        covariates, the offsets of the residual's log sds and, for every source of replicate
        noise, log sds or offsets of the cells.
    """
    sizes = design.sizes()
    variables = [
        Variable(name, size=sizes.get(name), zero_sum=False, low=lower_bound(prior))
        for name, prior in design.priors.items()
    ]
    variables += [
        Variable(_sampled_name(term), size=term.n_levels, zero_sum=term.zero_sum, low=None)
        for term in design.terms
        if not term.rank
    ]
    for term in design.terms:
        if term.rank:
            variables += [
                Variable(name, size=term.n_members(f), zero_sum=zero_sum, low=None, rank=term.rank)
                for name, f, zero_sum in zip(
                    term.drawn_loadings, term.factors, (True, False), strict=True
                )
            ]
    variables += [
        Variable(slope.drawn, size=slope.n_unknown, zero_sum=False, low=None)
        for slope in design.slopes
        if slope.n_unknown
    ]
    offset, factor = residual_offset(design), design.spec.residual_by
    if offset is not None and factor is not None:
        variables.append(
            Variable(offset, size=len(design.coords[factor]), zero_sum=False, low=None)
        )
    for source in design.sources:
        variables.append(Variable(source.drawn, size=source.n_cells, zero_sum=False, low=None))
        variables += [
            Variable(one.drawn, size=one.n_levels, zero_sum=False, low=None)
            for one in source.shared
        ]
    return {variable.name: variable for variable in variables}


def _sampled_name(term: Term) -> str:
    return term.effect if term.centred else term.offset


def to_posterior(design: Design, drawn: Mapping[str, Floats]) -> dict[str, Floats]:
    """Convert the variables of a sampler to those of the posterior.

    Parameters
    ----------
    design : Design
        The fitted design.
    drawn : dict of str to ndarray, shape (..., levels)
        Every variable of :func:`sampled_variables`, with the same leading axes.

    Returns
    -------
    dict of str to ndarray
        Scalars of ``design.priors``, effects on the linear predictor's scale, and
        ``sd_residual_<factor>`` or ``dispersion_..._<factor>`` where noise differs by it.
    """
    posterior = {name: np.asarray(drawn[name], dtype=np.float64) for name in design.priors}
    for term in design.terms:
        if term.rank:
            posterior |= low_rank_posterior(term, posterior[names.sd_name(term.name)], drawn)
            continue
        values = np.asarray(drawn[_sampled_name(term)], dtype=np.float64)
        if not term.centred:
            values = effects_of(term, posterior, values)
        posterior[term.effect] = values
    for slope in design.slopes:
        if slope.n_unknown:
            posterior[slope.drawn] = np.asarray(drawn[slope.drawn], dtype=np.float64)
    offset, factor = residual_offset(design), design.spec.residual_by
    if offset is not None and factor is not None:
        spread = posterior[names.SD_LOG_RESIDUAL][..., None] * np.asarray(drawn[offset])
        for name in design.noise_scales:
            posterior[names.level_name(name, factor)] = posterior[name][..., None] * np.exp(spread)
    for source in design.sources:
        cells = np.asarray(drawn[source.drawn], dtype=np.float64)
        name = names.source_model_sd(source.name)
        posterior[name] = source.typical_sd(posterior[name])
        if not source.centred:
            typical = posterior[name][..., source.model]
            cells = np.log(typical) + posterior[names.source_log_sd(source.name)][..., None] * cells
        posterior[names.source_cell_sd(source.name)] = np.exp(cells)
        for one in source.shared:
            values = np.asarray(drawn[one.drawn], dtype=np.float64)
            scale = 1.0 if one.centred else posterior[one.sd][..., None]
            posterior[one.effect] = scale * values
    return posterior


def low_rank_posterior(term: Term, sd: Floats, drawn: Mapping[str, Floats]) -> dict[str, Floats]:
    """Posterior variables of a low-rank interaction, from its unit-scale loadings.

    The order of the products is not identified, so that of every draw is by their sds, the
    largest first.

    Parameters
    ----------
    term : Term
        With a rank.
    sd : ndarray, shape (..., rank)
        Sd of the loadings of models.
    drawn : dict of str to ndarray, shape (..., rank, levels)
        Unit-scale loadings.

    Returns
    -------
    dict of str to ndarray
        The sds, both loadings, those of models times their sd, and the effects of all cells.
    """
    order = np.argsort(-sd, axis=-1, kind="stable")
    of_model, of_other = (
        np.take_along_axis(np.asarray(drawn[name], dtype=np.float64), order[..., None], axis=-2)
        for name in term.drawn_loadings
    )
    sd = np.take_along_axis(sd, order, axis=-1)
    of_model = sd[..., None] * of_model
    effect = np.einsum("...rm,...ro->...mo", of_model, of_other)
    model, other = term.loadings
    return {
        names.sd_name(term.name): sd,
        model: of_model,
        other: of_other,
        term.effect: effect.reshape(*effect.shape[:-2], term.n_levels),
    }


def log_tail(prior: Prior) -> float:
    """Log of the probability of a positive prior above its ``low``, before truncation.

    Returns
    -------
    float
        To be subtracted from the log density without truncation; 0 if not truncated.
    """
    low = prior.low or 0.0
    if low == 0.0:
        return 0.0
    if prior.dist == "half_normal":
        return float(stats.halfnorm.logsf(low, scale=prior.scale))
    if prior.dist == "half_student_t":
        return float(np.log(2.0) + stats.t.logsf(low, prior.df, scale=prior.scale))
    if prior.dist == "exponential":
        return float(stats.expon.logsf(low, scale=prior.scale))
    rate = 1.0 if prior.rate is None else prior.rate
    return float(stats.gamma.logsf(low, prior.shape, scale=1.0 / rate))


def _typical(prior: Prior) -> float:
    """A value in the middle of a positive prior."""
    low = prior.low or 0.0
    if prior.dist == "gamma":
        middle = (prior.shape or 1.0) / (prior.rate or 1.0)
    else:
        middle = 0.7 * (prior.scale or 1.0)
    return max(middle, 1.5 * low)


def start_point(design: Design, rng: np.random.Generator) -> dict[str, Floats]:
    """Draw the starting point of a chain: intercept near the mean score, effects near zero.

    Parameters
    ----------
    design : Design
        The design to fit.
    rng : numpy.random.Generator
        Random generator of the chain.

    Returns
    -------
    dict of str to ndarray
        A value of every variable of :func:`sampled_variables`, inside its support.
    """
    mean, sd = float(design.outcome.linear.mean()), float(design.outcome.linear.std())
    raw_log_sds = _own_log_sds(design)
    extra_names = {parameter.name for parameter in extra_parameters(design.outcome.families)}
    n_models = len(design.coords[names.MODEL])
    typical = {
        names.source_model_sd(s.name): np.exp(s.typical_log_sd(n_models)) for s in design.sources
    }
    point: dict[str, Floats] = {}
    for variable in sampled_variables(design).values():
        prior = design.priors.get(variable.name)
        noise = rng.normal(size=variable.shape)
        if variable.name in raw_log_sds:
            value = raw_log_sds[variable.name] + 0.1 * noise
        elif prior is None:
            unit = sd if _is_effect(design, variable) else 1.0
            value = 0.1 * unit * (_centred(noise) if variable.zero_sum else noise)
            # At zero the loadings of models and of languages have no gradient.
            value = 10.0 * value if variable.rank else value
        elif variable.low is None:
            value = (mean if variable.name == names.INTERCEPT else 0.0) + 0.1 * sd * noise
        else:
            middle: Floats | float = _typical(prior)
            if variable.name in typical:
                middle = np.maximum(typical[variable.name], 1.5 * variable.low)
            elif variable.name not in extra_names:
                # The middle of a very wide prior would be a poor start: bound it by sd(score).
                bound = _score_sd(design) if variable.name == names.SD_RESIDUAL else sd
                middle = max(min(middle, bound), 1.5 * variable.low)
            value = variable.low + (middle - variable.low) * np.exp(0.3 * noise)
        point[variable.name] = np.asarray(value, dtype=np.float64)
    return point


def inverse_mass(design: Design) -> dict[str, float]:
    """Rough posterior variance of every variable on the samplers' unconstrained scale.

    Computed from the number of records of each level alone. This first guess avoids very
    long trajectories in the first warm-up window: with 500 warm-up iterations of `additive`
    on MEGA, their mean length falls from 153 steps to 29.

    Returns
    -------
    dict of str to float
        One variance per variable, shared by its values.
    """
    sd = float(design.outcome.linear.std()) or 1.0
    noise = effect = _TYPICAL_SHARE * sd
    guess = {}
    n_models = len(design.coords[names.MODEL])
    by_model = {
        names.source_model_sd(s.name): 0.5 * n_models / (s.typical_df * s.n_cells)
        for s in design.sources
    }
    levels = {
        sd: len(term.loadings) * term.n_members(names.MODEL) if term.rank else term.n_levels
        for term in design.terms
        for sd in term.sds
    }
    slopes = {slope.slope: slope for slope in design.slopes}
    for name in design.priors:
        if name in slopes:
            guess[name] = effect**2 / slopes[name].raw.size
        elif name == names.INTERCEPT:
            guess[name] = sd**2 / design.n_records
        elif name in design.noise_scales:
            guess[name] = 0.5 / design.n_records
        elif name in levels:
            guess[name] = 0.5 / levels[name]
        elif name in by_model:
            guess[name] = by_model[name]
        else:
            guess[name] = 0.1
    for term in design.terms:
        if term.rank:
            guess |= dict.fromkeys(term.drawn_loadings, 0.5)
            continue
        counts = np.bincount(term.index, minlength=term.n_levels)
        share = float(np.mean(1.0 / (counts / noise**2 + 1.0 / effect**2)))
        known = term.known_sd if isinstance(term.known_sd, float) else effect
        unit = 1.0 if term.centred else known
        guess[_sampled_name(term)] = share / unit**2
    for slope in design.slopes:
        if slope.n_unknown:
            guess[slope.drawn] = 0.5
    offset = residual_offset(design)
    if offset is not None:
        guess[offset] = 0.5
    for source in design.sources:
        guess[source.drawn] = 0.5 / source.typical_df if source.centred else 0.5
        for one in source.shared:
            guess[one.sd] = 0.5 / one.n_levels
            guess[one.drawn] = noise**2 * one.n_levels / one.level.size if one.centred else 0.5
    return guess


def random_point(design: Design, rng: np.random.Generator) -> dict[str, Floats]:
    """Draw a random point of the constrained space, with about the spread of the scores.

    Parameters
    ----------
    design : Design
        Names, shapes and supports.
    rng : numpy.random.Generator
        Source of randomness.

    Returns
    -------
    dict of str to ndarray
        A value of every variable of :func:`sampled_variables`: positive ones inside
        their support, zero-sum effects summing to zero.
    """
    mean, sd = float(design.outcome.linear.mean()), float(design.outcome.linear.std())
    raw_log_sds = _own_log_sds(design)
    point: dict[str, Floats] = {}
    for variable in sampled_variables(design).values():
        noise = rng.normal(size=variable.shape)
        if variable.name in raw_log_sds:
            value = raw_log_sds[variable.name] + 0.5 * noise
        elif variable.name not in design.priors:
            value = _centred(noise) if variable.zero_sum else noise
            value = value * (0.5 * sd if _is_effect(design, variable) else 1.0)
        elif variable.low is None:
            value = (mean if variable.name == names.INTERCEPT else 0.0) + sd * noise
        else:
            value = variable.low + 0.5 * _typical(design.priors[variable.name]) * np.exp(noise)
        point[variable.name] = np.asarray(value, dtype=np.float64)
    return point


def _centred(values: Floats) -> Floats:
    return np.asarray(values - values.mean(axis=-1, keepdims=True))


def _own_log_sds(design: Design) -> dict[str, Floats]:
    """Estimates of cells' log sds from their own replicates, where log sds are sampled.

    A cell whose own estimate is near zero starts closer to the typical sd of its model.
    """
    n_models = len(design.coords[names.MODEL])
    return {
        source.drawn: np.maximum(
            source.log_sd, source.typical_log_sd(n_models)[source.model] - _MOST_BELOW
        )
        for source in design.sources
        if source.centred
    }


def _score_sd(design: Design) -> float:
    """Standard deviation of the scores on the scale of the residuals."""
    outcome = design.outcome
    return float(outcome.linear.std() if outcome.has_logit_residual else design.score.std())


def _is_effect(design: Design, variable: Variable) -> bool:
    shared = (one.effect for source in design.sources for one in source.shared)
    return variable.name in {*(term.effect for term in design.terms), *shared}
