"""What a fit knows for planning: the variances that a study's precision depends on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

import numpy as np
import xarray as xr

from bayeseval import names
from bayeseval._random import generator
from bayeseval._text import any_of
from bayeseval._typing import Floats
from bayeseval.errors import InputError
from bayeseval.estimands.completion import CompletedTerm
from bayeseval.estimands.components import variance_components
from bayeseval.estimands.container import PosteriorArrays
from bayeseval.estimands.covariates import variance_by_facet
from bayeseval.estimands.noise import CellNoise, read_noise
from bayeseval.estimands.read import group, read_arrays, shared_item_variances
from bayeseval.families import of_quantity

__all__ = ["Facet", "PlanVariances", "Study", "present_study", "read_plan_variances"]

Facet = Literal["language", "task"]

_MODEL_LANGUAGE: Final = "model:language"
_MODEL_TASK: Final = "model:task"
_THREE_WAY: Final = "model:language:task"
_UPPER_BOUND: Final = (
    "seeds and items: sds of seeds and of test sets, where these are given as such or by n, both "
    "hold what a seed does to one test set, so the errors are upper bounds; rows by seed and test "
    "set, or items, tell it apart"
)


class Study(NamedTuple):
    """A design: how much is measured for every model.

    Attributes
    ----------
    seeds : float
        Seeds per cell; NaN when the fit knows nothing of seeds.
    items : float
        Size of the test sets relative to the present ones; NaN when the fit knows
        nothing of test sets.
    languages, tasks : float
        Every task is run in every language. Infinity is allowed.
    prompts : float
        Prompts (or judges) of every task, the same ones for all models and languages; NaN when
        the fit knows nothing of prompts.
    """

    seeds: float
    items: float
    languages: float
    tasks: float
    prompts: float = np.nan


@dataclass(frozen=True, slots=True, eq=False)
class PlanVariances:
    """Draws of the variances that a study's precision depends on, in score units squared.

    Attributes
    ----------
    model, language, task, language_task : ndarray, shape (n_samples,)
        Of main effects and language:task; zero for what the fit has no term for.
    model_language, model_task : ndarray, shape (n_samples,)
    three_way : ndarray, shape (n_samples, n_models)
        Interaction model:language:task; with known test-set noise the residual.
    noise : ndarray, shape (n_samples, n_models)
        Noise of one score that no facet explains. What the metrics of one set of outputs
        share is in it with the weight that it has in a mean over the tasks at hand; another
        number of tasks is taken to come with as many metrics for a dataset.
    seed, test_set, seed_test_set : ndarray, shape (n_samples, n_models), or None
        None for what the fit knows nothing of. With shared test sets `test_set` is
        what a cell has of its own.
    shared_items : dict of str to float
        With shared test sets, the variance that cells of one task have in common
        (``task``), those of a language and task (``language_task``) and of a model and
        task (``model_task``); empty without.
    model_effect : ndarray, shape (n_samples, n_models)
        What the models truly score, up to a constant.
    fixed : frozenset of {"language", "task"}
        Facets that the conclusion is about.
    models : tuple of str
    notes : tuple of str
        What the fit cannot tell.
    prompt : ndarray, shape (n_samples, n_models), or None
        What a prompt (or judge) does to one cell only; None without prompts.
    shared_prompts : dict of str to ndarray, shape (n_samples,)
        What a prompt does to all cells of a task (``task``), to those of a language and task
        (``language_task``) and of a model and task (``model_task``).
    """

    model: Floats
    language: Floats
    task: Floats
    language_task: Floats
    model_language: Floats
    model_task: Floats
    three_way: Floats
    noise: Floats
    seed: Floats | None
    test_set: Floats | None
    seed_test_set: Floats | None
    shared_items: Mapping[str, float]
    model_effect: Floats
    fixed: frozenset[Facet]
    models: tuple[str, ...]
    notes: tuple[str, ...]
    prompt: Floats | None = None
    shared_prompts: Mapping[str, Floats] = field(default_factory=dict)


def read_plan_variances(
    tree: xr.DataTree, *, fixed: Sequence[Facet] = (), seed: int = 0
) -> PlanVariances:
    """Read a fit's variances; a facet with a single level is taken as fixed.

    Parameters
    ----------
    tree : xarray.DataTree
        A fit with its derived estimands.
    fixed : sequence of {"language", "task"}
        Facets whose present levels are the ones that matter; others are samples.
    seed : int
        Seed for interactions of pairs that a model was not tested on.

    Raises
    ------
    InputError
        If the fit has terms that the estimands refuse.
    """
    arrays = read_arrays(tree)
    if arrays.response.link != "identity":
        raise InputError(
            "planning adds up variances of scores, and the fit has them on the logit scale "
            f"(likelihood {arrays.likelihood}); fit a spec with the likelihood "
            f"{any_of(of_quantity('score'))}"
        )
    facets: tuple[Facet, ...] = ("language", "task")
    single: set[Facet] = {f for f in facets if len(arrays.levels[f]) == 1}
    all_fixed = frozenset({*fixed, *single})
    parts = variance_components(arrays)
    variance = {label: parts.sd[:, i] ** 2 for i, label in enumerate(parts.labels)}
    zero = np.zeros(arrays.n_samples)
    noise = read_noise(tree) if arrays.residual_is_sd else None
    by_record = shared_item_variances(group(tree, "constant_data"))
    shared = {part: float(values.mean()) for part, values in by_record.items()}
    total = np.sum(list(by_record.values()), axis=0) if by_record else np.zeros(len(arrays.score))
    by_source = {} if noise is None else _by_model(arrays, noise, total)
    own_prompts, of_prompts = _of_prompts(tree, noise, by_source)
    residual = _residual(arrays, variance["residual"])
    nothing = np.zeros_like(residual)
    three_way, unexplained = nothing, residual
    if arrays.term(_THREE_WAY) is not None:
        three_way = np.broadcast_to(variance[_THREE_WAY][:, None], residual.shape)
    elif "test_set" in by_source:
        three_way, unexplained = residual, nothing
    metrics_share = arrays.term(names.SHARED_BY_METRICS)
    if metrics_share is not None:
        # Tasks of one dataset do not average it out: their number counts for less.
        tasks = len(arrays.levels[names.TASK])
        share = tasks * CompletedTerm(arrays, metrics_share).mean_over_new()
        unexplained = unexplained + share * variance[names.SHARED_BY_METRICS][:, None]
    # A further language or task comes with values of its own for every product.
    for pair in names.LOW_RANK_TERMS:
        variance[pair] = variance.get(pair, zero) + variance.get(names.low_rank_term(pair), zero)
    # A further language comes with values of its own.
    for slope in arrays.slopes:
        for label, part in variance_by_facet(slope).items():
            variance[label] = variance.get(label, zero) + part
    for factor, related in arrays.related.items():
        for label in related.used:
            variance[factor] = variance[factor] + variance[label]
    return PlanVariances(
        model=variance[names.MODEL],
        language=variance.get(names.LANGUAGE, zero),
        task=variance.get(names.TASK, zero),
        language_task=variance.get("language:task", zero),
        model_language=variance[_MODEL_LANGUAGE],
        model_task=variance[_MODEL_TASK],
        three_way=three_way,
        noise=unexplained,
        seed=by_source.get("seed"),
        test_set=by_source.get("test_set"),
        seed_test_set=by_source.get("seed_boot"),
        shared_items=shared,
        model_effect=_true_scores(tree, arrays, all_fixed, "test_set" in by_source, seed=seed),
        fixed=all_fixed,
        models=arrays.levels[names.MODEL],
        notes=(
            *_notes(arrays, by_source, all_fixed - single, paired=bool(shared)),
            *([] if noise is None or not noise.is_upper_bound.any() else [_UPPER_BOUND]),
            *_notes_of_prompts(by_source, of_prompts),
        ),
        prompt=own_prompts,
        shared_prompts=of_prompts,
    )


def _of_prompts(
    tree: xr.DataTree, noise: CellNoise | None, by_source: Mapping[str, Floats]
) -> tuple[Floats | None, dict[str, Floats]]:
    """Variance of the cells' own part of a prompt, by model, and of what cells share."""
    source = next((one for one in names.SHARED_SOURCES if one in by_source), None)
    if noise is None or source is None:
        return None, {}
    if f"{source}_share" not in group(tree, "constant_data"):
        raise InputError(
            f"planning does not know how many {source}s the cells have, because replicates are "
            "not pooled (pool: false); plan from a fit to the same table with pool: true"
        )
    shared: dict[str, Floats] = {}
    for one in noise.shared_of_run:
        part = "_".join(one.name.split(":")[1:])
        shared[part] = shared.get(part, 0.0) + one.variance
    total = np.sum(list(shared.values()), axis=0)[:, None] if shared else 0.0
    return np.maximum(by_source[source] - total, 0.0), shared


def _notes_of_prompts(by_source: Mapping[str, Floats], shared: Mapping[str, Floats]) -> list[str]:
    notes = []
    for source in names.SHARED_SOURCES:
        if source not in by_source:
            continue
        if source != "prompt":
            notes.append(f"prompts: the {source}s of the table, of which they are the number")
        if "task" not in shared:
            notes.append(
                f"prompts: no two models have a {source} in common, so what all models share of "
                f"one is not told apart and errors are upper limits; with the same {source}s for "
                "all models a part of them cancels in differences"
            )
        if "seed" in by_source:
            notes.append(
                f"prompts and seeds: what a seed does to one {source} counts in both, so the "
                "errors are upper limits"
            )
    return notes


def _residual(arrays: PosteriorArrays, pooled: Floats) -> Floats:
    """Residual variance of every model; shape (n_samples, n_models)."""
    shape = (arrays.n_samples, len(arrays.levels[names.MODEL]))
    if arrays.residual_by == names.MODEL and arrays.residual_is_sd:
        return np.asarray(arrays.residual_sd**2)
    return np.broadcast_to(pooled[:, None], shape)


def _by_model(arrays: PosteriorArrays, noise: CellNoise, shared: Floats) -> dict[str, Floats]:
    """Mean variance by source over each model's cells; a given error is one of the test set.

    The effect of a test set on all cells that share it is subtracted. A model without such
    cells has the mean of the others.
    """
    squared = {source: sd**2 for source, sd in noise.sd.items()}
    given = [squared.pop(source) for source in ("boot", "se") if source in squared]
    if given:
        unknown = np.all([np.isnan(values[0]) for values in given], axis=0)
        total = np.nan_to_num(given[0])
        for values in given[1:]:
            total = total + np.nan_to_num(values)
        squared["test_set"] = np.where(unknown, np.nan, np.maximum(total - shared, 0.0))
    n_models = len(arrays.levels[names.MODEL])
    variances = {}
    for source, values in squared.items():
        variance = np.full((arrays.n_samples, n_models), np.nan)
        for model in range(n_models):
            own = (arrays.index[names.MODEL] == model) & ~np.isnan(values[0])
            if own.any():
                variance[:, model] = values[:, own].mean(axis=1)
        mean = np.nanmean(variance, axis=1, keepdims=True)
        variances[source] = np.where(np.isnan(variance), mean, variance)
    return variances


def _true_scores(
    tree: xr.DataTree,
    arrays: PosteriorArrays,
    fixed: frozenset[Facet],
    noise_known: bool,
    *,
    seed: int,
) -> Floats:
    """Model effects, with what covariates add and the mean of interactions with fixed facets."""
    posterior = group(tree, "posterior")
    if len(fixed) == 2 and noise_known and "arithmetic_mean" in posterior:
        means = posterior["arithmetic_mean"].transpose("chain", "draw", names.MODEL).to_numpy()
        return np.asarray(means.reshape(-1, means.shape[-1]), dtype=np.float64)
    values = arrays.main[names.MODEL].copy()
    for slope in arrays.slopes:
        if slope.by_model:
            for model in range(values.shape[1]):
                values[:, model] += slope.of_model(model).mean(axis=1)
    for cells in arrays.cells:
        factors = names.factors_of(cells.term)
        if names.MODEL in factors and {f for f in factors if f != names.MODEL} <= fixed:
            completed = CompletedTerm(arrays, cells)
            keys = completed.keys(arrays.pairs.language, arrays.pairs.task)
            for model, label in enumerate(arrays.levels[names.MODEL]):
                rng = generator(seed, f"plan: {cells.term}, model {label}")
                effect = completed.effect(model, slice(None), rng)
                values[:, model] += np.take(effect, keys, axis=1).mean(axis=1)
    return values


def _notes(
    arrays: PosteriorArrays,
    by_source: dict[str, Floats],
    fixed: frozenset[Facet],
    *,
    paired: bool,
) -> list[str]:
    notes = []
    if "seed" not in by_source:
        notes.append(
            "seeds: the table has no replicates by seed, so what more seeds would bring is "
            "not known; their noise is in the residual"
        )
    if "test_set" not in by_source:
        notes.append(
            "items: the table says nothing of test-set noise, so what larger test sets would "
            "bring is not known; their noise is in the residual"
        )
    elif not paired:
        notes.append(
            "items: test-set noise is taken as independent between models; models that answer "
            "the same items differ by less"
        )
    for facet, term in (("language", _MODEL_LANGUAGE), ("task", _MODEL_TASK)):
        if len(arrays.levels[facet]) == 1:
            notes.append(f"{facet}s: the fit has a single {facet}, which the plan keeps fixed")
        elif not any(map(arrays.term, (term, names.low_rank_term(term)))) and not _is_residual(
            arrays, facet
        ):
            notes.append(
                f"{facet}s: the model has no term {term}, so models are taken to differ by the "
                f"same amount in every {facet}; a fit with that term (crossed) measures it"
            )
    residual = "test_set" not in by_source and arrays.term(_THREE_WAY) is None
    shared = arrays.term(names.SHARED_BY_METRICS) is not None
    if fixed and (residual or shared):
        parts = [*(["the residual"] if residual else []), *([names.SHARED_BY_METRICS] * shared)]
        one = len(parts) == 1
        notes.append(
            f"fixed {' and '.join(sorted(fixed))}: {' and '.join(parts)} "
            f"{'holds' if one else 'hold'} noise and interaction alike and "
            f"{'counts' if one else 'count'} as noise, so the sds are upper limits"
        )
    return notes


def _is_residual(arrays: PosteriorArrays, facet: str) -> bool:
    """Whether the residual is the interaction of model and facet: the other has one level."""
    return all(len(arrays.levels[f]) == 1 for f in ("language", "task") if f != facet)


def present_study(tree: xr.DataTree, variances: PlanVariances) -> Study:
    """The design of the table at hand, as if it were complete.

    Seeds, and prompts, are the median over the cells that have any; cells with standard
    deviations given beside the score tell by how much smaller the error of their mean is.
    """
    arrays = read_arrays(tree)
    seeds = np.nan if variances.seed is None else _typical_seeds(group(tree, "constant_data"))
    return Study(
        seeds=seeds,
        items=np.nan if variances.test_set is None else 1.0,
        languages=float(len(arrays.levels[names.LANGUAGE])),
        tasks=float(len(arrays.levels[names.TASK])),
        prompts=np.nan if variances.prompt is None else _typical_prompts(tree),
    )


def _typical_prompts(tree: xr.DataTree) -> float:
    constant = group(tree, "constant_data")
    shares = [constant.get(f"{source}_share") for source in names.SHARED_SOURCES]
    share = next(one.to_numpy() for one in shares if one is not None)
    return float(np.rint(np.median(1.0 / share[share > 0.0])))


def _typical_seeds(constant: xr.Dataset) -> float:
    counts = []
    if "seed_share" in constant:
        share = constant["seed_share"].to_numpy()
        counts.append(1.0 / share[share > 0.0])
    if "seed_sd" in constant:
        squared = {
            source: np.nan_to_num(constant[f"{source}_sd"].to_numpy()) ** 2
            for source in (*names.SOURCES, "se")
            if f"{source}_sd" in constant
        }
        by_seed = squared["seed"] + squared.get("seed_boot", 0.0)
        seed_variance_of_mean = constant["se"].to_numpy() ** 2
        seed_variance_of_mean = (
            seed_variance_of_mean - squared.get("boot", 0.0) - squared.get("se", 0.0)
        )
        informative = (by_seed > 0.0) & (seed_variance_of_mean > 0.0)
        counts.append(by_seed[informative] / seed_variance_of_mean[informative])
    known = np.concatenate(counts)
    return float(max(1.0, np.rint(np.median(known)))) if len(known) else 1.0
