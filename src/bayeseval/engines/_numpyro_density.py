"""The joint density in NumPyro: one function of a hashable structure and of arrays.

Everything that may change in a refit (scores, indices, known errors, the numbers in
the priors) is an array; what determines the compiled program (terms, their levels,
likelihood, kinds of priors) is a small hashable :class:`Structure`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.infer.util import compute_log_probs

from bayeseval import names
from bayeseval._typing import Floats
from bayeseval.design import ByCell, Design, SharedEffect
from bayeseval.engines._density import log_tail, residual_offset
from bayeseval.engines._integrated_effects import Block
from bayeseval.engines._likelihood import items, log_floor, observed, with_units
from bayeseval.engines._prompt_effects import arrays_of
from bayeseval.engines._related import covariance
from bayeseval.families import FAMILIES, At
from bayeseval.records import Unbalanced, restricted_log_density
from bayeseval.spec import Prior

__all__ = [
    "Structure",
    "Tree",
    "data_of",
    "free_shapes",
    "joint_density",
    "log_density",
    "structure_of",
]

Tree = dict[str, Any]


@dataclass(frozen=True)
class _TermShape:
    """Static part of a term; effects of `shifted` terms are sampled plus the intercept."""

    effect: str
    offset: str
    sd: str | None
    n_levels: int
    zero_sum: bool
    centred: bool
    shifted: bool
    relations: tuple[str, ...]


@dataclass(frozen=True)
class _LowRankShape:
    """Static part of a low-rank interaction."""

    loadings: tuple[str, str]
    sd: str
    rank: int
    sizes: tuple[int, int]


@dataclass(frozen=True)
class _SourceShape:
    """Static part of a source of replicate noise; of shared effects, what `shared` lists."""

    name: names.Source
    drawn: str
    n_models: int
    n_cells: int
    centred: bool
    shared: tuple[tuple[str, str, int, bool], ...]


@dataclass(frozen=True)
class _SlopeShape:
    """Static part of a covariate."""

    slope: str
    drawn: str
    measured: str
    n_unknown: int
    with_error: bool


@dataclass(frozen=True)
class Structure:
    """Static part of a design: designs with equal structures share a compiled program.

    NUTS does not sample the offsets of `integrated`, but draws them given the other variables.
    """

    priors: tuple[tuple[str, str, bool], ...]
    terms: tuple[_TermShape, ...]
    low_rank: tuple[_LowRankShape, ...]
    slopes: tuple[_SlopeShape, ...]
    families: tuple[str, ...]
    logit: bool
    chance: bool
    residual: tuple[str, int] | None
    known_se: bool
    sources: tuple[_SourceShape, ...]
    unbalanced: bool
    integrated: tuple[Block, ...] = ()

    @property
    def sizes(self) -> dict[str, int]:
        """Lengths of the parameters of `priors` that are vectors."""
        by_model = {names.source_model_sd(s.name): s.n_models for s in self.sources}
        return by_model | {term.sd: term.rank for term in self.low_rank}


def structure_of(design: Design) -> Structure:
    offset, factor = residual_offset(design), design.spec.residual_by
    return Structure(
        priors=tuple((name, p.dist, bool(p.low)) for name, p in design.priors.items()),
        terms=tuple(
            _TermShape(
                effect=t.effect,
                offset=t.offset,
                sd=t.sd,
                n_levels=t.n_levels,
                zero_sum=t.zero_sum,
                centred=t.centred,
                shifted=t.centred and not t.zero_sum and len(t.factors) == 1,
                relations=() if t.relations is None else t.relations.sds,
            )
            for t in design.terms
            if not t.rank
        ),
        low_rank=tuple(
            _LowRankShape(
                loadings=t.drawn_loadings,
                sd=names.sd_name(t.name),
                rank=t.rank,
                sizes=(t.n_members(t.factors[0]), t.n_members(t.factors[1])),
            )
            for t in design.terms
            if t.rank
        ),
        slopes=tuple(
            _SlopeShape(s.slope, s.drawn, s.measured, s.n_unknown, len(s.with_error) > 0)
            for s in design.slopes
        ),
        families=design.outcome.families,
        logit=design.outcome.link == "logit",
        chance=design.outcome.chance is not None,
        residual=None if offset is None or factor is None else (offset, len(design.coords[factor])),
        known_se=design.se is not None,
        sources=tuple(
            _SourceShape(
                name=s.name,
                drawn=s.drawn,
                n_models=len(design.coords[names.MODEL]),
                n_cells=s.n_cells,
                centred=s.centred,
                shared=tuple((e.drawn, e.sd, e.n_levels, e.centred) for e in s.shared),
            )
            for s in design.sources
        ),
        unbalanced=design.replicates is not None and design.replicates.unbalanced is not None,
    )


def data_of(design: Design) -> Tree:
    """Everything that may change in a refit, as arrays: the argument of the program."""
    data: Tree = {
        "families": [_family_data(design, family) for family in design.outcome.families],
        "priors": {name: _numbers(prior) for name, prior in design.priors.items()},
        "index": [term.index for term in design.terms if not term.rank],
        "known_sd": [
            np.float64(0.0) if term.known_sd is None else np.asarray(term.known_sd)
            for term in design.terms
            if not term.rank
        ],
    }
    if design.spec.low_rank:
        data["low_rank"] = [
            [term.members[factor][term.index] for factor in term.factors]
            for term in design.terms
            if term.rank
        ]
    data["related"] = {
        t.effect: {"basis": t.relations.basis, "contrasts": t.relations.contrasts}
        for t in design.terms
        if t.relations is not None
    }
    if design.slopes:
        data["slopes"] = [
            {
                "known": s.known,
                "index": s.index,
                "unknown": s.unknown,
                "with_error": s.with_error,
                "measurements": s.measurements,
            }
            for s in design.slopes
        ]
    if design.replicates is not None:
        data["squares"], data["df"] = design.replicates.squares, design.replicates.df
        data["sources"] = [
            {"model": s.model, "of_record": s.of_record, "share": s.share}
            | (
                {
                    "cell": design.replicates.cell[s.name],
                    "weight": design.replicates.weight[s.name],
                }
                if s.by_cell is None
                else {}
            )
            | ({} if s.over_models is None else {"over_models": s.over_models})
            | ({} if s.by_cell is None else {"by_cell": arrays_of(s.by_cell)})
            for s in design.sources
        ]
        unbalanced = design.replicates.unbalanced
        if unbalanced is not None:
            data["unbalanced"] = dict(vars(unbalanced))
            data["unbalanced_cell"] = dict(design.replicates.unbalanced_cell)
    return data


def _family_data(design: Design, family: str) -> Tree:
    """Records of one likelihood: observed values, bounds, chance levels, known errors."""
    outcome, rows = design.outcome, design.outcome.rows(family)
    task = design.factor_index[names.TASK][rows]
    data: Tree = {"rows": rows}
    data["observed"], n = observed(design, family), items(design, family)
    if n is not None:
        data["n"] = n
    if FAMILIES[family].quantity == "score" and design.se is not None:
        data["se"] = design.se[rows]
    if outcome.link == "logit":
        data |= {"lower": outcome.lower[task], "span": (outcome.upper - outcome.lower)[task]}
    if outcome.chance is not None:
        chance = outcome.chance[task]
        data |= {"log_chance": log_floor(chance), "log_rest": np.log1p(-chance)}
    if design.residual_index is not None:
        data["level"] = design.residual_index[rows]
    return data


def _numbers(prior: Prior) -> dict[str, np.float64]:
    given = {key: getattr(prior, key) for key in ("loc", "scale", "df", "shape", "rate", "low")}
    numbers = {key: np.float64(value) for key, value in given.items() if value is not None}
    return numbers | {"log_tail": np.float64(log_tail(prior))}


class _Tail(dist.Distribution):  # type: ignore[misc]
    """A distribution restricted to values above `low`, normalised."""

    pytree_data_fields = ("base", "low", "log_tail")

    def __init__(self, base: Any, low: Any, log_tail: Any) -> None:
        self.base, self.low, self.log_tail = base, low, log_tail
        super().__init__(base.batch_shape, base.event_shape)

    @property
    def support(self) -> Any:
        """Values above the truncation point."""
        return dist.constraints.greater_than(self.low)

    def log_prob(self, value: Any) -> Any:
        """Log density of values above `low`."""
        return self.base.log_prob(value) - self.log_tail


def _prior(kind: str, truncated: bool, p: Mapping[str, Any]) -> Any:
    if kind == "normal":
        return dist.Normal(p["loc"], p["scale"])
    if kind == "student_t":
        return dist.StudentT(p["df"], p["loc"], p["scale"])
    if kind == "half_normal":
        base = dist.HalfNormal(p["scale"])
    elif kind == "half_student_t":
        # The part above zero of a symmetric density has mass 1/2, hence the factor of 2.
        base = _Tail(dist.StudentT(p["df"], 0.0, p["scale"]), 0.0, -np.log(2.0))
    elif kind == "exponential":
        base = dist.Exponential(1.0 / p["scale"])
    else:
        base = dist.Gamma(p["shape"], p["rate"])
    return _Tail(base, p["low"], p["log_tail"]) if truncated else base


def _expanded(prior: Any, size: int | None) -> Any:
    return prior if size is None else prior.expand([size]).to_event(1)


def _levels(sd: Any, n_levels: int, zero_sum: bool) -> Any:
    if zero_sum:
        return dist.ZeroSumNormal(sd, event_shape=(n_levels,))
    return dist.Normal(0.0, sd).expand([n_levels]).to_event(1)


def joint_density(structure: Structure, data: Tree) -> None:
    """The joint density (arXiv:2508.17162, Eq. 1 and 6)."""
    sizes = structure.sizes
    value = {
        name: numpyro.sample(
            name, _expanded(_prior(kind, truncated, data["priors"][name]), sizes.get(name))
        )
        for name, kind, truncated in structure.priors
    }
    eta = value[names.INTERCEPT]
    for term, index, known_sd in zip(structure.terms, data["index"], data["known_sd"], strict=True):
        sd = known_sd if term.sd is None else value[term.sd]
        if term.centred:
            effect = numpyro.sample(term.effect, _levels(sd, term.n_levels, term.zero_sum))
        else:
            offset = numpyro.sample(term.offset, _levels(1.0, term.n_levels, term.zero_sum))
            if term.relations:
                effect = _related(data["related"][term.effect], sd, term.relations, value) @ offset
            else:
                effect = sd * offset
        eta = eta + effect[index]
    for shape, (first, second) in zip(structure.low_rank, data.get("low_rank", []), strict=True):
        eta = eta + _low_rank(shape, value[shape.sd], first, second)
    for slope, arrays in zip(structure.slopes, data.get("slopes", []), strict=True):
        eta = eta + value[slope.slope] * _covariate(slope, arrays)[arrays["index"]]

    spread: Any = 1.0
    if structure.residual is not None:
        offset = numpyro.sample(structure.residual[0], _levels(1.0, structure.residual[1], False))
        spread = jnp.exp(value[names.SD_LOG_RESIDUAL] * offset)
    added, shift = _replicates(structure, data, value) if structure.sources else (0.0, None)
    for family, arrays in zip(structure.families, data["families"], strict=True):
        single = len(structure.families) == 1
        centre = eta if single else eta[arrays["rows"]]
        if structure.chance:
            centre = jnp.logaddexp(centre, arrays["log_chance"]) - arrays["log_rest"]
        score = _score(structure, family, arrays, value, spread, centre, added, shift)
        site = names.SCORE if single else f"{names.SCORE}_{family}"
        numpyro.sample(site, score.to_event(1), obs=arrays["observed"])


def _low_rank(shape: _LowRankShape, sd: Any, model: Any, other: Any) -> Any:
    """Sum over the ranks of the products of unit-scale loadings, times the sd of each rank."""
    of_model, of_other = (
        numpyro.sample(name, _levels(1.0, size, zero_sum).expand([shape.rank]).to_event(1))
        for name, size, zero_sum in zip(shape.loadings, shape.sizes, (True, False), strict=True)
    )
    return (sd[:, None] * of_model[:, model] * of_other[:, other]).sum(axis=0)


def _related(arrays: Tree, own: Any, shared: Sequence[str], value: Mapping[str, Any]) -> Any:
    """Root of the covariance of related levels' effects."""
    contrasts = covariance(arrays["contrasts"], own, [value[name] for name in shared], xp=jnp)
    return arrays["basis"] @ jnp.linalg.cholesky(contrasts) @ arrays["basis"].T


def _score(
    structure: Structure,
    family: str,
    arrays: Tree,
    value: Mapping[str, Any],
    spread: Any,
    centre: Any,
    added: Any,
    shift: Any,
) -> Any:
    """Distribution of the observed values of one likelihood."""

    def scale(name: str) -> Any:
        if structure.residual is None:
            return value[name]
        return (value[name] * spread)[arrays["level"]]

    kind = FAMILIES[family]
    sd: Any = None if kind.scale is None else scale(kind.scale.name)
    if kind.quantity == "score":
        if structure.logit:
            centre = arrays["lower"] + arrays["span"] * jax.nn.sigmoid(centre)
        if shift is not None:
            centre = centre + shift[arrays["rows"]]
        if structure.known_se or structure.sources:
            known = arrays["se"] ** 2 if structure.known_se else 0.0
            sd = jnp.sqrt(sd**2 + (known + added))
    if structure.integrated:
        numpyro.deterministic(names.SCORE_CENTRE, centre)
        numpyro.deterministic(names.SCORE_SD, sd)
    extra = {parameter.name: value[parameter.name] for parameter in kind.extra}
    return kind.numpyro(At(centre, sd, extra=extra, items=arrays.get("n")))


def _covariate(slope: _SlopeShape, arrays: Mapping[str, Any]) -> Any:
    """Standardised values; unknown ones are N(0, 1), with their measurements if any."""
    if not slope.n_unknown:
        return arrays["known"]
    unknown = numpyro.sample(slope.drawn, _levels(1.0, slope.n_unknown, False))
    if slope.with_error:
        measured, error = arrays["measurements"]
        true = unknown[arrays["with_error"]]
        numpyro.sample(slope.measured, dist.Normal(true, error).to_event(1), obs=measured)
    return jnp.asarray(arrays["known"]).at[arrays["unknown"]].set(unknown)


def _replicates(structure: Structure, data: Tree, value: Mapping[str, Any]) -> Any:
    """Density of replicates; returns the records' noise variance and what prompts share."""
    expected = noise = 0.0
    shift = None
    variances = {}
    for source, arrays in zip(structure.sources, data["sources"], strict=True):
        typical = jnp.log(value[names.source_model_sd(source.name)])
        if "over_models" in arrays:
            typical = typical @ arrays["over_models"]
        centre = typical[arrays["model"]]
        within = value[names.source_log_sd(source.name)]
        if source.centred:
            log_sd = numpyro.sample(source.drawn, dist.Normal(centre, within).to_event(1))
        else:
            log_sd = centre + within * numpyro.sample(
                source.drawn, _levels(1.0, source.n_cells, False)
            )
        sd = numpyro.deterministic(names.source_cell_sd(source.name), jnp.exp(log_sd))
        variance = variances[source.name] = sd**2
        noise = noise + arrays["share"] * variance[arrays["of_record"]]
        if "by_cell" in arrays:
            shift = _prompts(source, arrays, value, variance)
        else:
            expected = expected + arrays["weight"] * variance[arrays["cell"]]
    if len(data["squares"]):
        squares = dist.Gamma(data["df"] / 2.0, 1.0 / (2.0 * expected)).to_event(1)
        numpyro.sample(names.SQUARES, squares, obs=data["squares"])
    if structure.unbalanced:
        log_density = restricted_log_density(
            Unbalanced(**data["unbalanced"]),
            *(variances[name][data["unbalanced_cell"][name]] for name in names.RUN_SOURCES),
            xp=jnp,
        )
        numpyro.factor(names.UNBALANCED, log_density.sum())
    return noise, shift


def _prompts(source: _SourceShape, arrays: Tree, value: Mapping[str, Any], variance: Any) -> Any:
    """Density of the contrasts among prompts; returns the shared part of every record."""
    effects, shared = [], []
    for (drawn, sd, n_levels, centred), level in zip(
        source.shared, arrays["by_cell"]["level"], strict=True
    ):
        effect = numpyro.sample(drawn, _levels(value[sd] if centred else 1.0, n_levels, False))
        effects.append(effect if centred else value[sd] * effect)
        shared.append(SharedEffect(name=drawn, labels=(), level=level, centred=centred))
    by_cell = ByCell(tuple(shared), arrays["by_cell"]["there"], arrays["by_cell"]["deviation"])
    sums = by_cell.sums(effects)
    numpyro.factor(names.CONTRASTS, by_cell.log_density(sums, variance, xp=jnp).sum())
    return by_cell.means(sums)[arrays["of_record"]] * (arrays["share"] > 0.0)


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
    with jax.enable_x64(True):
        parts, _ = compute_log_probs(
            joint_density, (structure_of(design), data_of(design)), {}, dict(point)
        )
        return with_units(design, {name: float(part) for name, part in parts.items()})


def free_shapes(structure: Structure) -> dict[str, tuple[int, ...]]:
    """Shape of the unconstrained values of every sampled variable."""
    sizes: dict[str, tuple[int, ...]] = {
        name: (structure.sizes[name],) if name in structure.sizes else ()
        for name, _, _ in structure.priors
    }
    for term in structure.terms:
        drawn = term.effect if term.centred else term.offset
        sizes[drawn] = (term.n_levels - term.zero_sum,)
    for shape in structure.low_rank:
        for name, size, zero_sum in zip(shape.loadings, shape.sizes, (1, 0), strict=True):
            sizes[name] = (shape.rank, size - zero_sum)
    for slope in structure.slopes:
        if slope.n_unknown:
            sizes[slope.drawn] = (slope.n_unknown,)
    if structure.residual is not None:
        sizes[structure.residual[0]] = (structure.residual[1],)
    for source in structure.sources:
        sizes[source.drawn] = (source.n_cells,)
        sizes |= {drawn: (n_levels,) for drawn, _, n_levels, _ in source.shared}
    return sizes
