"""Draw a table of scores from a spec: effects, noise, replicates and the true expected scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

from bayeseval import names
from bayeseval._arguments import as_mapping, as_number, as_whole_number
from bayeseval._calls import explained
from bayeseval._random import generator
from bayeseval._typing import Floats
from bayeseval.errors import InputError, did_you_mean
from bayeseval.families import FAMILIES, At, Family, extra_parameters, link, scale_parameters
from bayeseval.records import Records
from bayeseval.simulation.pattern import frame_of, labels_of, observed_cells
from bayeseval.simulation.replicates import (
    draw_replicates,
    draw_shared,
    draw_source_sds,
    draw_test_sets,
    shares_of,
    sources_of,
)
from bayeseval.spec import ModelSpec, load_spec

__all__ = ["Simulation", "simulate"]


# Typical values for a real benchmark on a 0-100 scale (MEGA, `crossed`).
_DEFAULT_SDS = {
    "sd_language": 10.0,
    "sd_task": 16.0,
    "sd_model": 12.0,
    "sd_language_task": 7.0,
    "sd_model_task": 7.0,
    "sd_model_language": 5.5,
    "sd_model_language_dataset": 5.0,
    "sd_model_language_task": 4.0,
    "sd_low_rank_model_language": 4.0,
    "sd_low_rank_model_task": 4.0,
    "sd_log_residual": 0.3,
    "sd_seed_model": 0.8,
    "sd_boot_model": 1.0,
    "sd_seed_boot_model": 0.4,
    "sd_log_seed": 0.3,
    "sd_log_boot": 0.3,
    "sd_log_seed_boot": 0.3,
    "sd_prompt_model": 1.0,
    "sd_log_prompt": 0.3,
    "sd_prompt_task": 2.0,
    "sd_prompt_language_task": 1.0,
    "sd_prompt_model_task": 1.0,
}
# The same on the logit scale.
_LOGIT_SDS = {
    "sd_language": 0.5,
    "sd_task": 0.8,
    "sd_model": 0.6,
    "sd_language_task": 0.35,
    "sd_model_task": 0.35,
    "sd_model_language": 0.3,
    "sd_model_language_dataset": 0.25,
    "sd_model_language_task": 0.2,
    "sd_low_rank_model_language": 0.2,
    "sd_low_rank_model_task": 0.2,
}
_UPPER = 100.0
# Nodes and weights of integrals over a standard normal.
_NODES = np.linspace(-9.0, 9.0, 181)
_WEIGHTS = np.exp(-0.5 * _NODES**2) / np.exp(-0.5 * _NODES**2).sum()


@dataclass(frozen=True, eq=False, repr=False)
class Simulation:
    """A simulated table and the parameters it was drawn from.

    Attributes
    ----------
    records : Records
        The table, as if loaded from a file.
    truth : dict of str to ndarray or float
        ``intercept``, every standard deviation, and for each term its effects:
        main effects in the order of ``records.coords``; interaction effects as a
        full grid over the crossed factors, in the order of the term's factors. With
        replicates also ``cell_mean``, the score of every cell without the noise of seeds,
        test sets and prompts, and ``sd_<source>_cell``, both of the shape of `expected`; with
        prompts also what they do to several cells, prompts first (``prompt_task_effect``, ...).
    potential : ndarray, shape (n_languages, n_tasks)
        True PP_lt (arXiv:2508.17162, Eq. 2), score units.
    expected : ndarray, shape (n_languages, n_tasks, n_models)
        Expected score of every model on every pair, score units.

    Examples
    --------
    >>> import bayeseval as be
    >>> be.simulate("crossed", n_models=5)
    <Simulation of Records 'simulated-crossed': 210 records, 5 models, 12 languages, 5 tasks>
    """

    records: Records
    truth: Mapping[str, Floats | float]
    potential: Floats
    expected: Floats

    def __repr__(self) -> str:
        return f"<Simulation of {repr(self.records)[1:-1]}>"

    @property
    def language_potential(self) -> Floats:
        """True LP_l (arXiv:2508.17162, Eq. 3), shape (n_languages,), score units."""
        return np.asarray(self.potential.mean(axis=1))


@explained
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
    n_seeds: int = 0,
    n_boot: int = 0,
    n_prompts: int = 0,
    test_set_shares: Mapping[str, float] | None = None,
    drop_share: float = 0.0,
    n_metrics: int = 1,
    n_items: int = 100,
    chance: float | None = None,
) -> Simulation:
    """Draw an incomplete table from a spec, with replicates of its cells on request.

    Parameters
    ----------
    spec : str or ModelSpec
        The model to draw from. Interactions that are ``auto`` depend on a table: there are none.
    n_languages, n_tasks, n_models : int
        Shape of the full grid.
    observed_share : float
        Share of the language x task x model cells that have a record; every level has at
        least two, and the table is connected.
    intercept : float
        Grand mean, score units.
    sds : dict of str to float, optional
        Standard deviations by parameter name (``sd_language``, ...), and ``nu``;
        those not given have a size that is typical of real benchmarks. Fixed effects are
        drawn with these sds too, not with the wide sd of their prior. With replicates also
        ``sd_<source>_model``, the typical sd of a source of noise (``seed``, ``boot``,
        ``seed_boot``, ``prompt``), and ``sd_log_<source>``, the sd of its log between cells; with
        prompts ``sd_prompt_task``, ``sd_prompt_language_task`` and ``sd_prompt_model_task``.
    seed : int
        Seed of effects and noise.
    pattern_seed : int, optional
        Seed of the draw of observed cells; `seed` by default. Fix it to keep the same
        observed cells while `seed` varies.
    n_seeds, n_boot : int
        Numbers of seeds and of bootstrapped test sets of every cell; 0 for none. The
        bootstrapped test sets scatter around the original test set, which is itself one
        draw: the mean of a cell's replicates has the variance
        (sigma^2 + omega^2 (1 + 1/B)) / S + tau^2 (1 + 1/B) around the cell's mean.
    n_prompts : int
        Number of prompts of every task, which its cells share; 0 for none. With seeds or
        bootstrapped test sets, these are the same for all prompts of a cell.
    test_set_shares : dict of str to float, optional
        Shares of the variance of test sets that cells have in common: ``task`` is that of all
        cells of a task, ``language:task`` that of its models in one language, ``model:task`` that
        of one model in its languages; the rest is every cell's own. Two cells with the sds
        ``sd_boot_cell`` t and u that share s have bootstraps of equal labels with the covariance
        s t u. By default nothing is shared, and equal labels are mere numbers.
    drop_share : float
        Probability that a replicate is missing; every cell keeps its first two seeds and
        its first two test sets. With prompts, these are missing as a whole, and every cell
        keeps the first two.
    n_metrics : int
        Number of metrics of each dataset: so many consecutive tasks are called
        ``dataset:metric``.
    n_items : int
        Number of items of every score, for likelihoods of counts.
    chance : float, optional
        Chance level of all tasks, score units, for a spec with ``chance: true``.

    Returns
    -------
    Simulation
        Records and true parameters. Under a logit link (one likelihood for all tasks)
        scores lie between 0 and 100, `sds` are on the logit scale, `intercept` is the
        score whose logit is the grand mean, and `potential` is the expected score of a new
        model, whose effects are drawn from N(0, sd^2). Otherwise scores have no bounds.

    Raises
    ------
    InputError
        If the shape is too small, an sd is unknown or negative, no connected table with
        that share of cells was found, replicates are requested without a normal
        likelihood, or the spec has covariates or related languages.

    Examples
    --------
    >>> import bayeseval as be
    >>> simulation = be.simulate("additive", n_languages=6, n_tasks=3, n_models=4, seed=1)
    >>> simulation.records
    <Records 'simulated-additive': 50 records, 4 models, 6 languages, 3 tasks>
    >>> simulation.potential.shape
    (6, 3)

    Two models on the same test sets:

    >>> simulation = be.simulate(
    ...     n_models=2, observed_share=1.0, sds={"sd_log_boot": 0.0},
    ...     n_boot=200, test_set_shares={"language:task": 0.8},
    ... )
    >>> cells = simulation.records.table.groupby(["language", "task", "model"])
    >>> deviation = simulation.records.table.assign(
    ...     score=lambda table: table["score"] - cells["score"].transform("mean")
    ... )
    >>> of_boots = deviation.pivot(
    ...     index=["language", "task", "boot"], columns="model", values="score"
    ... )
    >>> round(float(of_boots.corr().iloc[0, 1]), 2)
    0.8
    """
    n_languages = as_whole_number("n_languages", n_languages)
    n_tasks = as_whole_number("n_tasks", n_tasks)
    n_models = as_whole_number("n_models", n_models)
    n_seeds = as_whole_number("n_seeds", n_seeds)
    n_boot = as_whole_number("n_boot", n_boot)
    n_prompts = as_whole_number("n_prompts", n_prompts)
    n_metrics = as_whole_number("n_metrics", n_metrics)
    n_items = as_whole_number("n_items", n_items, least=1)
    seed = as_whole_number("seed", seed, least=0)
    if pattern_seed is not None:
        pattern_seed = as_whole_number("pattern_seed", pattern_seed, least=0)
    observed_share = as_number("observed_share", observed_share)
    intercept = as_number("intercept", intercept, finite=True)
    drop_share = as_number("drop_share", drop_share)
    chance = None if chance is None else as_number("chance", chance)
    sds = {} if sds is None else as_mapping("sds", sds, of="names of parameters to numbers")
    model = load_spec(spec)
    unknown = [one.name for one in model.covariates]
    unknown += [str(one) for one in (model.languages, model.models) if one is not None]
    if unknown:
        raise InputError(
            f"simulation does not support {'covariates' if model.covariates else 'relations'}, and "
            f"{model.name} has {', '.join(unknown)}; remove them from the spec"
        )
    logit = _has_logit_link(model, intercept, chance)
    shape = {names.LANGUAGE: n_languages, names.TASK: n_tasks, names.MODEL: n_models}
    sources = sources_of(
        model, n_seeds=n_seeds, n_boot=n_boot, n_prompts=n_prompts, drop_share=drop_share
    )
    shares = shares_of(test_set_shares, n_boot)
    scale = _scales(model, sds, sources)
    labels = labels_of(shape, n_metrics)
    observed = observed_cells(
        tuple(shape.values()),
        observed_share,
        generator(seed if pattern_seed is None else pattern_seed, "simulate-pattern"),
    )

    rng = generator(seed, "simulate")
    centre = float(special.logit(intercept / _UPPER)) if logit else float(intercept)
    truth: dict[str, Floats | float] = {"intercept": centre}
    expected, potential = _predictor(model, scale, shape, n_metrics, truth, rng)
    noise_sd = _noise_scale(model, scale, shape, truth, rng)
    family = FAMILIES[model.families[0]]
    extra = {parameter.name: scale[parameter.name] for parameter in family.extra}
    truth |= extra
    response = _Response(family, noise_sd, extra, (chance or 0.0) / _UPPER, n_items)
    score, counts = response.draw(expected, rng)
    if logit:
        integrated = np.sqrt(sum(sd**2 for k, sd in scale.items() if k.startswith("sd_model")))
        typical = noise_sd.mean(axis=2, keepdims=True)
        potential = _UPPER * response.mean(potential[..., None], typical, integrated)[..., 0]
        expected = _UPPER * response.mean(expected, noise_sd, 0.0)

    frame = frame_of(labels, observed, score)
    if counts is not None:
        frame = frame.assign(n=n_items, k=counts[observed])
    if chance is not None:
        frame["chance"] = chance
    if sources:
        truth["cell_mean"] = score
        noise_rng = generator(seed, "simulate-replicates")
        truth |= draw_source_sds(sources, scale, score.shape, noise_rng)
        cell_sds = {
            source: np.asarray(truth[names.source_cell_sd(source)])[observed] for source in sources
        }
        of_prompts = None
        if n_prompts:
            effects, sums = draw_shared("prompt", scale, shape, n_prompts, noise_rng)
            truth, of_prompts = truth | effects, sums[observed]
        numbers = max(n_seeds, 1), max(n_boot, 1)
        frame = draw_replicates(
            frame,
            cell_sds,
            *numbers,
            drop_share,
            noise_rng,
            prompts=of_prompts,
            own_share=1.0 - sum(shares.values()),
            shared=draw_test_sets(
                frame, shares, numbers[1], generator(seed, "simulate-shared-test-sets")
            ),
        ).drop(columns=[c for c, n in (("seed", n_seeds), ("boot", n_boot)) if n == 0])
    return Simulation(
        # All scores of a simulated task may lie between 0 and 1 by chance.
        records=Records.from_frame(
            frame,
            name=f"simulated-{model.name}",
            mixed_scales="allow",
            units=(0.0, _UPPER) if logit else None,
        ),
        truth=truth,
        potential=potential,
        expected=expected,
    )


def _predictor(
    model: ModelSpec,
    scale: Mapping[str, float],
    shape: Mapping[str, int],
    n_metrics: int,
    truth: dict[str, Floats | float],
    rng: np.random.Generator,
) -> tuple[Floats, Floats]:
    """Linear predictor of all cells, and of all pairs without the terms of models.

    Adds the effects and their standard deviations to `truth`.
    """
    n_tasks = shape[names.TASK]
    sizes = {**shape, names.DATASET: -(-n_tasks // n_metrics)}
    expected = np.full(tuple(shape.values()), truth["intercept"])
    potential = np.full((shape[names.LANGUAGE], n_tasks), truth["intercept"])
    for term in model.terms:
        factors = names.factors_of(term)
        sd = scale[names.sd_name(term)]
        if term in model.ranks:
            effects = _low_rank(model.ranks[term], sd, [sizes[f] for f in factors], rng)
            truth |= {names.sd_name(term): sd, names.effect_name(term): effects}
            expected = expected + _spread(effects, factors)
            continue
        effects = rng.normal(0.0, sd, size=tuple(sizes[f] for f in factors))
        if len(factors) == 1 and not (term == names.MODEL and model.population == "models"):
            effects -= effects.mean()
        truth[names.sd_name(term)] = sd
        truth[names.effect_name(term)] = effects
        if names.DATASET in factors:
            # One effect for all metrics of a dataset.
            effects = np.repeat(effects, n_metrics, axis=-1)[..., :n_tasks]
            factors = (*factors[:-1], names.TASK)
        expected = expected + _spread(effects, factors)
        if names.MODEL not in factors:
            potential = potential + _spread(effects, factors)[..., 0]
    return expected, potential


def _low_rank(rank: int, sd: float, sizes: Sequence[int], rng: np.random.Generator) -> Floats:
    """Sum of products of loadings of models, which sum to zero, and of the other factor."""
    of_model, of_other = (rng.standard_normal((rank, size)) for size in sizes)
    of_model -= of_model.mean(axis=1, keepdims=True)
    return np.asarray(sd * of_model.T @ of_other)


@dataclass(frozen=True, eq=False)
class _Response:
    """Scores under one likelihood; with a logit link as shares of the range."""

    family: Family
    noise: Floats
    extra: Mapping[str, float]
    floor: float
    n_items: int

    def share(self, eta: Floats) -> Floats:
        return np.asarray(self.floor + (1.0 - self.floor) * special.expit(eta))

    def mean(self, eta: Floats, noise: Floats, sd: float) -> Floats:
        """Expected share, integrated over effects with variance sd^2 and over logit noise."""
        total = np.zeros(eta.shape)
        for node, weight in zip(_NODES, _WEIGHTS, strict=True) if sd > 0.0 else ((0.0, 1.0),):
            share = self.share(eta + sd * node)
            if self.family.quantity == "logit":
                at = special.logit(share)
                each = (
                    special.expit(at + noise * z) * w for z, w in zip(_NODES, _WEIGHTS, strict=True)
                )
                share = np.sum(list(each), axis=0)
            total += weight * share
        return total

    def draw(self, eta: Floats, rng: np.random.Generator) -> tuple[Floats, Floats | None]:
        """Draw scores, and the counts behind them for likelihoods of counts."""
        quantity = self.family.quantity
        if quantity == "score":
            return self.family.draw(rng, At(eta, self.noise, self.extra)), None
        share = self.share(eta)
        centre = special.logit(share) if quantity == "logit" else share
        drawn = self.family.draw(rng, At(centre, self.noise, self.extra, self.n_items))
        if quantity != "count":
            return _UPPER * drawn, None
        counts = np.round(drawn * self.n_items)
        return _UPPER * counts / self.n_items, counts


def _has_logit_link(model: ModelSpec, intercept: float, chance: float | None) -> bool:
    """Whether scores are bounded; refuse likelihoods and chance levels that do not fit."""
    if model.likelihood == "card" or len(model.families) > 1:
        raise InputError(
            f"simulation supports one likelihood for all tasks; {model.name} has several"
        )
    logit = link(model.families) == "logit"
    if logit and not 0.0 < intercept < _UPPER:
        raise InputError(f"intercept must lie between 0 and {_UPPER:g}, got {intercept:g}")
    if model.chance != (chance is not None):
        raise InputError(
            f"{model.name} has chance: true; pass a chance level (chance=)"
            if model.chance
            else f"{model.name} has no chance levels; omit chance, or set chance: true in the spec"
        )
    if chance is not None and not 0.0 <= chance < _UPPER:
        raise InputError(f"chance must lie in [0, {_UPPER:g}), got {chance:g}")
    return logit


def _noise_scale(
    model: ModelSpec,
    scale: Mapping[str, float],
    shape: Mapping[str, int],
    truth: dict[str, Floats | float],
    rng: np.random.Generator,
) -> Floats:
    """Residual sd or dispersion of every cell; adds its parameters to `truth`."""
    grid, parameter = tuple(shape.values()), FAMILIES[model.families[0]].scale
    if parameter is None:
        return np.zeros(grid)
    name = parameter.name
    truth[name] = scale[name]
    factor = model.residual_by
    if factor is None:
        return np.full(grid, scale[name])
    spread = truth[names.SD_LOG_RESIDUAL] = scale[names.SD_LOG_RESIDUAL]
    levels = scale[name] * np.exp(rng.normal(0.0, spread, size=shape[factor]))
    truth[names.level_name(name, factor)] = levels
    return np.broadcast_to(_spread(levels, (factor,)), grid)


def _scales(
    model: ModelSpec, given: Mapping[str, float], sources: tuple[names.Source, ...]
) -> dict[str, float]:
    noise, extra = scale_parameters(model.families), extra_parameters(model.families)
    known = [*map(names.sd_name, model.terms), *(parameter.name for parameter in noise)]
    known += [names.SD_LOG_RESIDUAL] if model.residual_by is not None else []
    known += [parameter.name for parameter in extra]
    for source in sources:
        known += [names.source_model_sd(source), names.source_log_sd(source)]
        if source in names.SHARED_SOURCES:
            known += map(names.sd_name, names.shared_by(source))
    for name, value in given.items():
        if name not in known:
            raise InputError(
                f"{model.name} has no parameter {name!r}{did_you_mean(name, known)} "
                f"(it has: {', '.join(known)})"
            )
        if not as_number(name, value) >= 0.0:
            raise InputError(f"{name} must be zero or more, got {value}")
    defaults = _DEFAULT_SDS | _LOGIT_SDS if link(model.families) == "logit" else _DEFAULT_SDS
    defaults = defaults | {parameter.name: parameter.typical for parameter in (*noise, *extra)}
    return {name: float(given.get(name, defaults[name])) for name in known}


def _spread(effects: Floats, factors: tuple[str, ...]) -> Floats:
    """Effects on the axes (language, task, model), of length 1 for factors not among these."""
    order = [factors.index(f) for f in names.FACTORS if f in factors]
    target = [effects.shape[factors.index(f)] if f in factors else 1 for f in names.FACTORS]
    return effects.transpose(order).reshape(target)
