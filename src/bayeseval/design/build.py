"""Build the design of a spec on a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from bayeseval import names
from bayeseval._text import any_of
from bayeseval._typing import Floats, Index
from bayeseval.design.container import Design, Term
from bayeseval.design.covariates import Slope, build_slopes
from bayeseval.design.exact import check_residual
from bayeseval.design.forms import choose_forms
from bayeseval.design.identify import check_interactions, check_main_effects
from bayeseval.design.noise import Noise
from bayeseval.design.outcome import (
    Outcome,
    build_outcome,
    identity_outcome,
    largest_rounding,
    task_families,
)
from bayeseval.design.prompt_noise import add_prompts
from bayeseval.design.ranges import check_ranges, warn_of_narrow_tasks
from bayeseval.design.relations import build_relations, with_relations
from bayeseval.design.replicates import build_noise
from bayeseval.design.share_errors import (
    add_share_errors,
    all_errors_known,
    check_errors,
    known_residual,
    share_errors,
)
from bayeseval.design.test_sets import add_test_sets, shared_note
from bayeseval.errors import DesignError, wording
from bayeseval.families import FAMILIES, extra_parameters, link, of_quantity, scale_names
from bayeseval.records import (
    CellTable,
    Covariate,
    Records,
    average_over_others,
    boot_variance,
    item_variance,
    reduce_replicates,
)
from bayeseval.spec import AUTO, ModelSpec, Prior, load_spec

__all__ = ["assemble", "build_design", "build_term"]


def build_design(records: Records, spec: ModelSpec, covariates: Sequence[Covariate] = ()) -> Design:
    """Index arrays, coords and scaled priors of a spec on a table.

    Parameters
    ----------
    records : Records
        The validated table.
    spec : ModelSpec
        The model.
    covariates : sequence of Covariate
        Must hold those that the spec names; others are ignored.

    Raises
    ------
    DesignError
        If a covariate of the spec is missing, lacks values or does not vary; if languages that
        the spec relates are not known; if the table cannot identify the model: a disconnected or
        confounded design, an interaction without replication, scores that do not vary, that the
        terms reproduce exactly or that mix scales; if the table lacks a source of noise that the
        spec names; if replicates are incompatible with the likelihood or with
        ``replicates: {pool: false}``; or if a likelihood lacks bounds, numbers
        of items or chance levels.
    """
    _refuse_one_level(records)
    spec = _with_card_likelihoods(records, spec)
    records, averaged = average_over_others(records, spec.sources)
    cells = reduce_replicates(records)
    outcome, noise = _outcome_and_noise(records, spec, cells)
    notes = [*averaged, *_unused_columns(records, outcome, noise), *noise.notes, *outcome.notes]
    coords, factor_index = _levels(records, spec, cells)
    effects, omitted = _effects(
        records.name, spec, coords, factor_index, score_sd=float(outcome.linear.std(ddof=1))
    )
    relations, read = build_relations(spec, coords, covariates, name=records.name)
    effects = with_relations(effects, relations)
    notes += [*omitted, *read]
    noise, shared, of_test_sets = _shared_test_sets(records, spec, cells, outcome, noise)
    notes += of_test_sets
    # With known noise an interaction with one cell per record is not the residual.
    n_records, residual_by = len(cells), spec.residual_by
    errors_known = outcome.has_normal_scores and all_errors_known(noise, shared, n_records)
    # The noise of counts without a scale parameter follows from the numbers of items.
    noise_from_counts = not scale_names(outcome.families)
    notes += check_interactions(records, effects, noise_is_known=errors_known or noise_from_counts)
    residual_scale, residual_notes = (
        known_residual(records.name, noise, effects, residual_by, n_records)
        if errors_known
        else (None, [])
    )
    if residual_by == names.TASK:
        task = factor_index[names.TASK]
        notes += map(str, warn_of_narrow_tasks(outcome.linear, task, coords[names.TASK]))
    slopes = build_slopes(spec, covariates, coords, factor_index, name=records.name)
    check_residual(
        records.name,
        outcome=outcome,
        noise=noise,
        # Low-rank interactions are no sums of columns: the other terms must leave a residual.
        terms=[term for term in (*effects, *shared) if not term.rank],
        slopes=slopes,
        rounding=largest_rounding(outcome, cells.mean, factor_index[names.TASK]),
        residual_by=residual_by,
        residual_index=None if residual_by is None else factor_index[residual_by],
        residual_labels=() if residual_by is None else coords[residual_by],
    )
    return assemble(
        spec,
        score=cells.mean,
        outcome=outcome,
        noise=noise,
        terms=[*effects, *shared],
        slopes=slopes,
        coords=coords,
        factor_index=factor_index,
        notes=[*notes, *residual_notes, *(note for slope in slopes for note in slope.notes)],
        residual_scale=residual_scale,
    )


def _outcome_and_noise(
    records: Records, spec: ModelSpec, cells: CellTable
) -> tuple[Outcome, Noise]:
    """Scores of the cells as the likelihoods need them, and the noise of these scores."""
    pool = spec.replicates.pool
    noise = build_noise(cells, records.coords, pool=pool, name=records.name)
    noise = add_prompts(noise, cells, records.coords, pool=pool)
    task_likelihoods = task_families(spec, records.coords[names.TASK], records.name)
    if noise.replicates is not None:
        _check_replicates(records, task_likelihoods)
    score = cells.mean
    if np.ptp(score) == 0.0:
        raise DesignError(
            f"{records.name}: all {len(score)} scores are {score[0]:g}, so nothing can be"
            " compared; check that the right column is read as the score"
            + wording(" (columns={'score': NAME})", " (--columns score=NAME)")
        )
    check_ranges(records)
    outcome = _read_outcome(records, spec, cells, task_likelihoods)
    if outcome.link == "identity":
        noise = add_share_errors(noise, *share_errors(records, cells))
    _check_spread(records, score, outcome, spec)
    check_errors(records, cells, outcome, noise)
    if spec.residual_by is not None and not scale_names(outcome.families):
        raise DesignError(
            f"{records.name}: residual_by {spec.residual_by}: all tasks are "
            f"{' or '.join(outcome.families)}, which has no residual standard deviation; remove "
            "residual_by"
        )
    return outcome, noise


def _levels(
    records: Records, spec: ModelSpec, cells: CellTable
) -> tuple[dict[str, tuple[str, ...]], dict[str, Index]]:
    """Labels of the factors and the level of each cell; also of datasets with several tasks."""
    factor_index: dict[str, Index] = {f: cells.codes[f] for f in names.FACTORS}
    coords: dict[str, tuple[str, ...]] = {f: records.coords[f] for f in names.FACTORS}
    check_main_effects(records, factor_index, {f: len(coords[f]) for f in names.FACTORS})
    in_spec = any(names.DATASET in term.split(":") for term in spec.interactions)
    of_task = records.datasets
    datasets = [of_task[task] for task in coords[names.TASK]]
    if in_spec or 1 < len(set(datasets)) < len(datasets):
        # Also without a term: the checks test whether metrics of a dataset are correlated.
        coords[names.DATASET] = tuple(sorted(set(datasets)))
        dataset_of_task = np.array([coords[names.DATASET].index(dataset) for dataset in datasets])
        factor_index[names.DATASET] = dataset_of_task[factor_index[names.TASK]]
    return coords, factor_index


def _effects(
    name: str,
    spec: ModelSpec,
    coords: Mapping[str, tuple[str, ...]],
    factor_index: Mapping[str, Index],
    *,
    score_sd: float,
) -> tuple[list[Term], list[str]]:
    """Terms of the spec, and notes on those left out because a factor has one level."""
    if spec.interactions == (AUTO,):
        raise DesignError(
            f"{name}: the interactions auto depend on the table; name them, or call choose_model"
        )
    terms, notes = list[Term](), list[str]()
    for term in spec.terms:
        factors = names.factors_of(term)
        single = next((factor for factor in factors if len(coords[factor]) == 1), None)
        if single is None:
            terms.append(build_term(spec, term, coords, factor_index, score_sd=score_sd))
        elif len(factors) > 1:
            raise DesignError(
                f"{name}: {term} needs at least two levels of each factor, and {single} has one; "
                f"take the model additive or auto in place of {spec.name}"
            )
        else:
            notes.append(f"{term} has one level ({coords[term][0]}): no {term} term")
    return terms, notes


def _shared_test_sets(
    records: Records, spec: ModelSpec, cells: CellTable, outcome: Outcome, noise: Noise
) -> tuple[Noise, list[Term], list[str]]:
    """Noise of test sets that cells share, as separate terms; normal scores only."""
    if not outcome.has_normal_scores:
        return noise, [], []
    items, boots = item_variance(records, cells), boot_variance(records, cells)
    pool = spec.replicates.pool
    noise, terms = add_test_sets(noise, cells, records.coords, items=items, boots=boots, pool=pool)
    if not pool or (items is None and boots is None):
        return noise, terms, []
    return noise, terms, [shared_note(terms, "boot" if items is None else "item")]


def _check_replicates(records: Records, task_likelihoods: Sequence[names.Likelihood]) -> None:
    """Refuse likelihoods that cannot separate the noise of replicates from the residual."""
    normal = [f for f in of_quantity("score") if FAMILIES[f].kernel == "normal"]
    other = next((family for family in task_likelihoods if family not in normal), None)
    if other is not None:
        raise DesignError(
            f"{records.name}: replicates need the likelihood {any_of(normal)}, not {other}, which "
            "cannot separate their noise from the residual"
        )


def _refuse_one_level(records: Records) -> None:
    """Refuse tables of one model or one language: there is nothing to compare."""
    for factor in ("model", "language"):
        if len(records.coords[factor]) < 2:
            raise DesignError(
                f"{records.name}: only one {factor} ({records.coords[factor][0]!r}); a comparison"
                f" needs at least two {factor}s"
            )


def assemble(
    spec: ModelSpec,
    *,
    score: Floats,
    outcome: Outcome,
    noise: Noise,
    terms: Sequence[Term],
    slopes: Sequence[Slope],
    coords: Mapping[str, tuple[str, ...]],
    factor_index: Mapping[str, Index],
    notes: Sequence[str] = (),
    residual_scale: float | None = None,
) -> Design:
    """Assemble a design: parametrisations, priors in score units, coordinates.

    Parameters
    ----------
    spec : ModelSpec
        The model.
    score : ndarray, shape (n_records,)
        Scores, or means of the cells' replicates.
    outcome : Outcome
        The scores as the likelihoods need them.
    noise : Noise
        Known and unknown errors of the scores.
    terms : sequence of Term
        From :func:`build_term`.
    slopes : sequence of Slope
        From :func:`bayeseval.design.covariates.build_slopes`.
    coords : mapping of str to tuple of str
        Labels of the three factors, and of ``dataset`` where tasks are metrics of datasets.
    factor_index : mapping of str to ndarray of int, shape (n_records,)
        Level of every record.
    notes : sequence of str
        Remarks for the user.
    residual_scale : float or None
        Scale of the residual sd's prior where known errors leave no residual, score units;
        a prior of the spec takes precedence.
    """
    apart = [term for term in terms if term.is_noise or term.rank]
    own = [term for term in terms if not term.is_noise and not term.rank]
    terms = choose_forms(own, spec, outcome.linear) + apart
    sources = () if noise.replicates is None else noise.replicates.sources
    present = {term.sd for term in terms}
    absent = {names.sd_name(f) for f in names.FACTORS} - present | _absent_noise(outcome)
    priors = {key: prior for key, prior in spec.prior_table().items() if key not in absent}
    if residual_scale is not None and names.SD_RESIDUAL not in spec.priors:
        priors[names.SD_RESIDUAL] = Prior(dist="half_normal", scale=1.0).in_units(
            mean=0.0, sd=residual_scale
        )
    for source in sources:
        parameters = (names.source_model_sd(source.name), names.source_log_sd(source.name))
        shared = tuple(effect.sd for effect in source.shared)
        priors |= {key: spec.replicate_priors()[key] for key in (*parameters, *shared)}
    return Design(
        spec=spec,
        score=score,
        se=None if noise.known_variance is None else np.sqrt(noise.known_variance),
        terms=tuple(terms),
        slopes=tuple(slopes),
        outcome=outcome,
        priors={key: _in_units(key, prior, score, outcome) for key, prior in priors.items()},
        residual_index=None if spec.residual_by is None else factor_index[spec.residual_by],
        coords={
            **coords,
            **{term.dim: term.labels for term in terms if term.dim not in names.FACTORS},
            **{
                term.rank_dim: tuple(str(i + 1) for i in range(term.rank))
                for term in terms
                if term.rank
            },
            **{source.dim: source.labels for source in sources},
            **{one.dim: one.labels for source in sources for one in source.shared},
            **{slope.dim: slope.labels for slope in slopes if slope.n_unknown},
        },
        factor_index=factor_index,
        replicates=noise.replicates,
        known_sds=noise.known_sds,
        notes=tuple(notes),
    )


def _absent_noise(outcome: Outcome) -> set[str]:
    """Noise parameters of likelihoods that no task of the table has."""

    def parameters(families: Sequence[str] | None) -> set[str]:
        return {*scale_names(families), *(p.name for p in extra_parameters(families))}

    return parameters(None) - parameters(outcome.families)


def _in_units(name: str, prior: Prior, score: Floats, outcome: Outcome) -> Prior:
    """Prior on the scale of the linear predictor; of the residual sd on the residual's scale."""
    on_residual = name == names.SD_RESIDUAL
    values = _scores_of_residual(score, outcome) if on_residual else outcome.linear
    # The prior of a slope is centred at zero, not at the mean of the scores.
    mean = float(values.mean()) if name == names.INTERCEPT else 0.0
    return prior.in_units(mean=mean, sd=float(np.std(values, ddof=1)))


def _scores_of_residual(score: Floats, outcome: Outcome) -> Floats:
    """Scores on the scale of the residual; under a logit link only those that have one."""
    if outcome.link == "identity" or outcome.has_logit_residual:
        return outcome.linear
    return np.asarray(score[outcome.rows_of("score")])


def _check_spread(records: Records, score: Floats, outcome: Outcome, spec: ModelSpec) -> None:
    """Refuse scores without variance on the scale of the model: priors are relative to it."""
    if np.ptp(outcome.linear) == 0.0:
        raise DesignError(
            f"{records.name}: all {len(score)} scores lie within {100 * spec.edge:g} % of the "
            "range of the same bound, so nothing can be compared (edge in the spec sets this "
            "distance)"
        )
    values = _scores_of_residual(score, outcome)
    if len(values) and np.ptp(values) == 0.0:
        raise DesignError(
            f"{records.name}: the {len(values)} scores with the likelihood "
            f"{any_of(of_quantity('score'))} do "
            "not vary, so their residual has no scale; give these tasks another likelihood"
        )


def _with_card_likelihoods(records: Records, spec: ModelSpec) -> ModelSpec:
    """The spec, with the likelihoods of the benchmark's card in place of ``card``."""
    if spec.likelihood != "card":
        return spec
    tasks = records.coords[names.TASK]
    by_task = {t: f for t, f in records.likelihoods.items() if t in (*tasks, "default")}
    if not by_task:
        raise DesignError(
            f"{records.name}: the spec takes its likelihoods from the benchmark's card, which has "
            "none; add likelihoods to the card, or name them in the spec"
        )
    return load_spec({**spec.to_dict(), "likelihood": by_task})


def _read_outcome(
    records: Records,
    spec: ModelSpec,
    cells: CellTable,
    task_likelihoods: tuple[names.Likelihood, ...],
) -> Outcome:
    task, tasks = cells.codes[names.TASK], records.coords[names.TASK]
    if link(task_likelihoods) == "identity":
        return identity_outcome(cells.mean, task, task_likelihoods)
    units = records.units
    bounds = np.array(
        [[units[label].lower, units[label].upper] for label in tasks], dtype=np.float64
    ).T
    chance = np.full(len(tasks), np.nan)
    given = records.numbers("chance")
    known = np.isfinite(given)
    chance[records.codes(names.TASK)[known]] = given[known]
    # For cells of several rows, `cells` has the number of items, and the mean their share.
    k = np.where(cells.n_rows == 1, records.numbers("k")[cells.first], np.nan)

    def where(i: int) -> str:
        return ", ".join(
            f"{factor} {records.coords[factor][cells.codes[factor][i]]}" for factor in names.FACTORS
        )

    return build_outcome(
        spec,
        score=cells.mean,
        task=task,
        tasks=tasks,
        task_likelihoods=task_likelihoods,
        bounds=(bounds[0], bounds[1]),
        chance=chance,
        n=cells.n_items,
        k=k,
        name=records.name,
        where=where,
    )


def _unused_columns(records: Records, outcome: Outcome, noise: Noise) -> list[str]:
    used = {"n", "k"} if outcome.n is not None or noise.from_items else set()
    used |= set() if outcome.chance is None else {"chance"}
    columns = [c for c in ("n", "k", "chance") if c not in used]
    unused = [c for c in columns if np.isfinite(records.numbers(c)).any()]
    if not unused:
        return []
    return [f"columns not used by this model: {', '.join(unused)}"]


def build_term(
    spec: ModelSpec,
    name: str,
    coords: Mapping[str, tuple[str, ...]],
    factor_index: Mapping[str, Index],
    *,
    score_sd: float,
) -> Term:
    """Build one term of the linear predictor: its levels, and the level of each record.

    Parameters
    ----------
    spec : ModelSpec
        The model.
    name : str
        A factor, or several joined by colons.
    coords : mapping of str to tuple of str
        Labels of the factors.
    factor_index : mapping of str to ndarray of int, shape (n_records,)
        Level of every record.
    score_sd : float
        Standard deviation of the scores, the unit of ``fixed_scale``.
    """
    factors, rank = names.factors_of(name), spec.ranks.get(name, 0)
    if len(factors) == 1:
        labels = coords[name]
        index = factor_index[name]
        members = {name: np.arange(len(labels), dtype=np.int64)}
        fixed = getattr(spec.effects, name) == "fixed"
        zero_sum = not (name == names.MODEL and spec.population == "models")
    else:
        stacked = np.stack([factor_index[factor] for factor in factors])
        if rank:
            # Loadings give every cell its effect, whether it has a score or not.
            shape = tuple(len(coords[factor]) for factor in factors)
            cells = np.indices(shape).reshape(len(shape), -1)
            index = np.ravel_multi_index(tuple(stacked), shape).astype(np.int64)
        else:
            cells, index = np.unique(stacked, axis=1, return_inverse=True)
            index = index.reshape(-1).astype(np.int64)
        labels = tuple(
            names.cell_label(*(coords[f][i] for f, i in zip(factors, cell, strict=True)))
            for cell in cells.T
        )
        members = {f: row.astype(np.int64) for f, row in zip(factors, cells, strict=True)}
        fixed, zero_sum = False, False
    return Term(
        name=name,
        factors=factors,
        labels=labels,
        index=index,
        members=members,
        known_sd=spec.fixed_scale * score_sd if fixed else None,
        zero_sum=zero_sum,
        centred=True,
        rank=rank,
    )
