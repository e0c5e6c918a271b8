"""What the priors of a design say: draws, densities, and the scores they expect."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import xarray as xr
from scipy import stats

from bayeseval import names
from bayeseval._text import counted
from bayeseval._typing import Floats
from bayeseval.checks.blocks import fewer, row_blocks
from bayeseval.checks.container import Check
from bayeseval.design import Design
from bayeseval.engines import Draws, SamplerSettings, to_tree
from bayeseval.engines._density import low_rank_posterior
from bayeseval.engines._related import effects_of
from bayeseval.engines.base import linear_predictor
from bayeseval.estimands import read_arrays
from bayeseval.estimands.frames import draws_of
from bayeseval.estimands.predict import draws_by_row, replicate_scores
from bayeseval.spec import Prior

__all__ = [
    "draw_prior",
    "log_density",
    "log_prior",
    "log_priors",
    "mean_share",
    "outside_share",
    "prior_checks",
    "prior_tree",
    "prior_values",
]


# A prior that spends this much of its weight on impossible scores is not of this world;
# the default priors of a model with an identity link spend about half.
_WARN_OUTSIDE = 0.75
_FAIL_OUTSIDE = 0.95
# Sd of prior tables over that of the scores, or the inverse. The default priors scale with
# the scores: between 1 and 2.5, whatever the model.
_WARN_SPREAD = 4.0
_FAIL_SPREAD = 8.0


def prior_values(prior: Prior, size: tuple[int, ...], rng: np.random.Generator) -> Floats:
    """Independent draws of one parameter, by inverting its distribution function.

    Parameters
    ----------
    prior : Prior
        In its own units.
    size : tuple of int
        Shape of the draws.
    rng : numpy.random.Generator
        Source of randomness.
    """
    u = rng.uniform(size=size)
    if prior.dist == "half_student_t":
        base = stats.t(prior.df, scale=prior.scale)
        low = 2.0 * base.cdf(prior.low or 0.0) - 1.0
        return np.asarray(base.ppf(0.5 + 0.5 * (low + (1.0 - low) * u)))
    base = _distribution(prior)
    low = 0.0 if prior.low is None else float(base.cdf(prior.low))
    return np.asarray(base.ppf(low + (1.0 - low) * u))


def log_density(prior: Prior, values: Floats) -> Floats:
    """Log density of one parameter, truncated at its lower point; same shape as `values`."""
    if prior.dist == "half_student_t":
        base = stats.t(prior.df, scale=prior.scale)
        return np.asarray(base.logpdf(values) - base.logsf(prior.low or 0.0))
    base = _distribution(prior)
    tail = 0.0 if prior.low is None else float(base.logsf(prior.low))
    return np.asarray(base.logpdf(values) - tail)


def _distribution(prior: Prior) -> stats.rv_continuous:
    if prior.dist == "normal":
        return stats.norm(prior.loc, prior.scale)
    if prior.dist == "student_t":
        return stats.t(prior.df, prior.loc, prior.scale)
    if prior.dist == "half_normal":
        return stats.halfnorm(scale=prior.scale)
    if prior.dist == "exponential":
        return stats.expon(scale=prior.scale)
    rate = 1.0 if prior.rate is None else prior.rate
    return stats.gamma(prior.shape, scale=1.0 / rate)


def draw_prior(design: Design, rng: np.random.Generator, n: int) -> dict[str, Floats]:
    """Draws of all parameters and effects from the priors of a design; no engine is asked.

    Parameters
    ----------
    design : Design
        Priors, terms and levels.
    rng : numpy.random.Generator
        Source of randomness.
    n : int
        Number of draws.

    Returns
    -------
    dict of str to ndarray, shape (n,) or (n, n_levels)
        Every variable of a posterior of this design, score units.
    """
    sizes = design.sizes()
    draws = {
        name: prior_values(prior, (n, sizes[name]) if name in sizes else (n,), rng)
        for name, prior in design.priors.items()
    }
    for term in design.terms:
        if term.rank:
            model, other = (
                rng.standard_normal((n, term.rank, term.n_members(f))) for f in term.factors
            )
            model -= model.mean(axis=-1, keepdims=True)
            drawn = dict(zip(term.drawn_loadings, (model, other), strict=True))
            draws |= low_rank_posterior(term, draws[names.sd_name(term.name)], drawn)
            continue
        effect = rng.standard_normal((n, term.n_levels))
        if term.zero_sum:
            # N(0, sd^2 (I - 11'/K)), as all engines have it.
            effect -= effect.mean(axis=1, keepdims=True)
        draws[term.effect] = effects_of(term, draws, effect)
    for slope in design.slopes:
        if slope.n_unknown:
            # Standardised values that are missing, or measured with error.
            draws[slope.drawn] = rng.standard_normal((n, slope.n_unknown))
    factor = design.spec.residual_by
    if factor is not None:
        spread = rng.standard_normal((n, len(design.coords[factor])))
        spread *= draws[names.SD_LOG_RESIDUAL][:, None]
        for name in design.noise_scales:
            draws[names.level_name(name, factor)] = draws[name][:, None] * np.exp(spread)
    for source in design.sources:
        name = names.source_model_sd(source.name)
        draws[name] = source.typical_sd(draws[name])
        typical = draws[name][:, source.model]
        differ = draws[names.source_log_sd(source.name)][:, None]
        cells = rng.standard_normal((n, source.n_cells))
        draws[names.source_cell_sd(source.name)] = typical * np.exp(differ * cells)
        for one in source.shared:
            effect = rng.standard_normal((n, one.n_levels))
            draws[one.effect] = draws[one.sd][:, None] * effect
    return draws


def log_priors(design: Design, posterior: Mapping[str, Floats]) -> dict[str, Floats]:
    """Log prior density of every variable that has a prior of its own, draw by draw.

    What power-scaling scales (Kallioinen et al. 2024, section 2.3): the distributions of
    effects given their sds are part of the model and left out; fixed effects with their
    known wide sd are priors and in.

    Parameters
    ----------
    design : Design
        Priors in score units.
    posterior : dict of str to ndarray, shape (...) or (..., n_levels)
        Draws with the same leading axes.

    Returns
    -------
    dict of str to ndarray
        Natural log; every density is normalised. Parameters have the shape of their draws.
        Fixed effects, which may sum to zero, have one joint density, shape (...).
    """
    parts = {
        name: log_density(prior, np.asarray(posterior[name]))
        for name, prior in design.priors.items()
    }
    for term in design.terms:
        if isinstance(term.known_sd, float):
            effect = np.asarray(posterior[term.effect])
            free = term.n_levels - term.zero_sum
            constant = free * (np.log(term.known_sd) + 0.5 * np.log(2.0 * np.pi))
            parts[term.effect] = -0.5 * (effect**2).sum(axis=-1) / term.known_sd**2 - constant
    return parts


def log_prior(design: Design, posterior: Mapping[str, Floats]) -> Floats:
    """Sum of :func:`log_priors`, shape (...): what power-scaling scales as a whole."""
    shape = np.shape(posterior[names.INTERCEPT])
    total = np.zeros(shape)
    for part in log_priors(design, posterior).values():
        total += part.reshape(*shape, -1).sum(axis=-1)
    return total


def prior_tree(design: Design, rng: np.random.Generator, n: int) -> xr.DataTree:
    """Prior draws in the form of a fit, one chain; its group ``posterior`` is the prior."""
    drawn = {name: values[None] for name, values in draw_prior(design, rng, n).items()}
    settings = SamplerSettings(draws=n, chains=1)
    return to_tree(design, Draws(drawn, {}, settings), engine="prior")


def outside_share(scores: Floats, bounds: tuple[Floats, Floats]) -> float:
    """Share of scores (n_tables, n_records) outside their bounds, where there are any."""
    bounded = np.isfinite(bounds[0]) | np.isfinite(bounds[1])
    outside = (scores < bounds[0]) | (scores > bounds[1])
    return float(outside[:, bounded].mean())


def mean_share(shares: Sequence[tuple[float, int]], bounds: tuple[Floats, Floats]) -> float:
    """:func:`outside_share` of all tables, from blocks of so many tables each."""
    if len(shares) == 1:
        return shares[0][0]
    n_bounded = int((np.isfinite(bounds[0]) | np.isfinite(bounds[1])).sum())
    # Whole numbers of scores: the same share whatever the blocks are.
    outside = sum(round(share * n * n_bounded) for share, n in shares)
    return outside / (sum(n for _, n in shares) * n_bounded)


def where_bounded(bounds: tuple[Floats, Floats]) -> str:
    """What a share outside the bounds leaves out: records of tasks without a known bound."""
    unbounded = int((~np.isfinite(bounds[0]) & ~np.isfinite(bounds[1])).sum())
    if not unbounded:
        return ""
    return f", apart from {counted(unbounded, 'record')} of tasks whose scale is not known"


def prior_checks(
    design: Design, bounds: tuple[Floats, Floats] | None, rng: np.random.Generator, n: int = 500
) -> list[Check]:
    """Hold the scores that the priors expect against the scale and spread of the real ones.

    Parameters
    ----------
    design : Design
        Priors and table.
    bounds : pair of ndarray, shape (n_records,), or None
        Smallest and largest possible score of every record, infinite where unbounded.
    rng : numpy.random.Generator
        Source of randomness.
    n : int
        Number of prior tables.
    """
    n_records = len(design.score)
    tree = prior_tree(design, rng, fewer(n, n_records))
    arrays = read_arrays(tree)
    shares, spreads = [], []
    for draws in row_blocks(arrays.n_samples, n_records, by_row=draws_by_row(arrays)):
        scores = replicate_scores(arrays, rng, draws)
        if bounds is not None:
            shares.append((outside_share(scores, bounds), len(scores)))
        spreads.append(_spread(design, tree, scores, draws))
    checks = []
    if bounds is None:
        checks.append(
            Check("prior_range", "not applicable", sentence="The scores have no known bounds.")
        )
    else:
        share = mean_share(shares, bounds)
        status = "fail" if share > _FAIL_OUTSIDE else "warn" if share > _WARN_OUTSIDE else "pass"
        checks.append(
            Check(
                "prior_range",
                status,  # type: ignore[arg-type]
                value=share,
                sentence=f"{100 * share:.0f} % of the scores that the priors expect are outside "
                f"the bounds of the scale{where_bounded(bounds)} (more than "
                f"{100 * _WARN_OUTSIDE:.0f} % warns: the priors are too wide).",
            )
        )
    logits = design.outcome.link != "identity"
    scale = "The logits of the scores" if logits else "The scores"
    observed = float((design.outcome.linear if logits else design.score).std(ddof=1))
    ratio = float(np.median(np.concatenate(spreads))) / observed
    too = "wide" if ratio > 1.0 else "narrow"
    off = max(ratio, 1.0 / ratio)
    status = "fail" if off > _FAIL_SPREAD else "warn" if off > _WARN_SPREAD else "pass"
    checks.append(
        Check(
            "prior_spread",
            status,  # type: ignore[arg-type]
            value=ratio,
            sentence=f"{scale} have sd {observed:.3g}, tables drawn from the priors typically "
            f"{ratio * observed:.3g}"
            + (
                "."
                if status == "pass"
                else f": the priors are too {too} (a factor of {_WARN_SPREAD:g} is allowed)."
            ),
        )
    )
    return checks


def _spread(design: Design, tree: xr.DataTree, scores: Floats, draws: slice) -> Floats:
    """Sd of every prior table of some draws, where the priors live."""
    if design.outcome.link == "identity":
        return np.asarray(scores.std(axis=1, ddof=1))
    # Bounded scores cannot spread beyond half of their range, however wide the priors are.
    posterior = tree["posterior"].to_dataset()
    drawn = {str(name): draws_of(posterior[name])[draws] for name in posterior.data_vars}
    return np.asarray(linear_predictor(design, drawn).std(axis=-1, ddof=1))
