"""Tables of models: the ranking, models by language, and the published description.

The ranking is what a run shows first. It comes from expected scores on common pairs
(`inference`); the description (`prr`) has the published ratios and no ranks.
"""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import xarray as xr

from bayeseval import names
from bayeseval.errors import InputError, did_you_mean
from bayeseval.estimands.arrays import interval_summary
from bayeseval.estimands.container import PosteriorArrays
from bayeseval.estimands.expected import expected_scores
from bayeseval.estimands.frames import (
    finish,
    rank_columns,
    summary_columns,
)
from bayeseval.estimands.inference import gap_is_estimated, language_gaps
from bayeseval.estimands.quantities import (
    quantity_draws,
    quantity_labels,
    quantity_ranks,
    quantity_variable,
    tie_column,
)
from bayeseval.estimands.ranks import (
    best_levels,
    may_be_best,
    p_top_k,
    rank_probabilities,
    rank_sets,
)
from bayeseval.estimands.read import group, read_arrays

__all__ = ["disparity_table", "model_language_table", "ranking_probabilities", "ranking_table"]

_TOP = 3


def ranking_table(tree: xr.DataTree, *, ci_prob: float = names.CI_PROB) -> pd.DataFrame:
    """Models ranked by their expected scores on the common pairs, best first.

    Parameters
    ----------
    tree : xarray.DataTree
        A fit whose posterior holds what :func:`bayeseval.estimands.derive` adds.
    ci_prob : float
        Probability inside the equal-tailed intervals, and of the simultaneous rank sets.

    Returns
    -------
    pandas.DataFrame
        ``model``, ``score_{mean,sd,lower,upper}`` (mean expected score, score units),
        ``prr_{mean,sd,lower,upper}`` (ratio of mean expected score to mean potential; missing
        where zero does not mean that nothing was achieved), ``rank_{mean,median,lower,upper}``,
        ``rank_set_{lower,upper}`` (all models are inside at once with probability `ci_prob`),
        ``p_best``, ``p_top3``, ``may_be_best`` (the smallest set with joint P(best) of 0.95),
        ``tier`` (not told apart from the first of the tier at 0.975),
        ``gap_sd_languages_{mean,sd,lower,upper}`` (sd over languages of the gap to the
        potential; missing without a model:language term), ``gap_sd_rank_{mean,median,lower,
        upper}``, ``cv_prr_languages_{mean,sd,lower,upper}``, ``cv_prr_constant_gap`` (what it
        would be, were the gap the same everywhere), ``worst_language`` (among measured ones),
        ``share_predicted`` (of the common pairs, without a record of the model),
        ``n_records``, ``worst_language_prr_{mean,lower,upper}``, ``ci_kind``, ``ci_prob``.
        A point estimate has no interval, rank, probability or tier.
    """
    arrays = read_arrays(tree)
    score = quantity_draws(tree, names.STANDARDISED_SCORE)
    ranks = quantity_ranks(tree, names.STANDARDISED_SCORE)
    marginal = rank_columns("rank", ranks, ci_prob=ci_prob)
    lower, upper = rank_sets(ranks, prob=ci_prob)
    known = len(score) > 1
    best = may_be_best(ranks)
    n_models = score.shape[1]
    own = group(tree, "estimands")

    def summary(prefix: str, name: str, *, sd: bool = True) -> dict[str, object]:
        draws = quantity_draws(tree, name)
        return summary_columns(prefix, interval_summary(draws, ci_prob=ci_prob), sd=sd)

    table = pd.DataFrame(
        {names.MODEL: quantity_labels(tree, names.STANDARDISED_SCORE)}
        | summary("score", names.STANDARDISED_SCORE)
        | summary("prr", names.PRR)
        | marginal
        | {
            "rank_set_lower": lower,
            "rank_set_upper": upper,
            "p_best": rank_probabilities(ranks, most=1)[:, 0],
            "p_top3": p_top_k(ranks, min(_TOP, n_models)),
            "may_be_best": pd.array([bool(b) if known else None for b in best], dtype="boolean"),
            "tier": tie_column(score, highest_first=True),
        }
        | summary(names.GAP_SD, names.GAP_SD)
        | rank_columns("gap_sd_rank", quantity_ranks(tree, names.GAP_SD), ci_prob=ci_prob)
        | summary(names.CV_PRR_LANGUAGES, names.CV_PRR_LANGUAGES)
        | {
            "cv_prr_constant_gap": own["cv_prr_constant_gap"].to_numpy(),
            "worst_language": [str(label) for label in own["worst_language"].to_numpy()],
            "share_predicted": _share_predicted(arrays),
            "n_records": np.bincount(arrays.index[names.MODEL], minlength=n_models),
        }
        | summary(names.WORST_LANGUAGE_PRR, names.WORST_LANGUAGE_PRR, sd=False)
    )
    best_first = table.sort_values(names.MODEL, kind="stable").sort_values(
        "score_mean", ascending=False, kind="stable"
    )
    return finish(best_first, ci_prob)


def ranking_probabilities(tree: xr.DataTree) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Who is ahead with which probability: the ranking and its pairs without any interval.

    It takes a fraction of the time of the two tables, which have an interval for every pair.

    Parameters
    ----------
    tree : xarray.DataTree
        As for :func:`ranking_table`.

    Returns
    -------
    ranking : pandas.DataFrame
        ``model`` and ``p_best``, in the order of :func:`ranking_table`.
    pairs : pandas.DataFrame
        ``quantity``, ``model_a``, ``model_b`` and ``p_a_better`` of the score, as in
        :func:`bayeseval.estimands.pairwise_table`; of the best ``names.MOST_PAIRED`` models.
    """
    score = quantity_draws(tree, names.STANDARDISED_SCORE)
    models = np.array(quantity_labels(tree, names.STANDARDISED_SCORE), dtype=object)
    best = rank_probabilities(quantity_ranks(tree, names.STANDARDISED_SCORE), most=1)[:, 0]
    ranking = pd.DataFrame({names.MODEL: models, "p_best": best, "mean": score.mean(axis=0)})
    ranking = ranking.sort_values(names.MODEL, kind="stable").sort_values(
        "mean", ascending=False, kind="stable"
    )
    chosen = best_levels(score, highest_first=True, most=names.MOST_PAIRED)
    score, models = score[:, chosen], models[chosen]
    first, second = np.triu_indices(len(models), k=1)
    p_better = np.full(len(first), np.nan)
    if len(score) > 1:
        signs = [
            np.sign(score[:, [a]] - score[:, a + 1 :]).mean(axis=0) for a in range(len(models) - 1)
        ]
        p_better = (np.concatenate([*signs, np.empty(0)]) + 1.0) / 2.0
    pairs = pd.DataFrame(
        {
            "quantity": names.STANDARDISED_SCORE,
            "model_a": models[first],
            "model_b": models[second],
            "p_a_better": p_better,
        }
    )
    return ranking.drop(columns="mean").reset_index(drop=True), pairs


def _share_predicted(arrays: PosteriorArrays) -> np.ndarray:
    """Share of the common pairs on which each model has no record."""
    n_tasks = len(arrays.levels[names.TASK])
    common = arrays.common.language * n_tasks + arrays.common.task
    own = arrays.index[names.LANGUAGE] * n_tasks + arrays.index[names.TASK]
    n_models = len(arrays.levels[names.MODEL])
    tested = [
        np.isin(common, own[arrays.index[names.MODEL] == model]).sum() for model in range(n_models)
    ]
    return np.asarray(1.0 - np.array(tested) / len(common))


def model_language_table(tree: xr.DataTree, *, ci_prob: float = names.CI_PROB) -> pd.DataFrame:
    """Every model in every language: its PRR there and its gap to the potential.

    Parameters
    ----------
    tree : xarray.DataTree
        A fit with what :func:`bayeseval.estimands.derive` adds. The draws are not stored but
        computed again, from the seed of the fit.
    ci_prob : float
        Probability inside the equal-tailed intervals.

    Returns
    -------
    pandas.DataFrame
        ``model``, ``language``, ``prr_language_{mean,lower,upper}`` (mean expected score over
        all tasks / language potential; missing where that potential may be zero),
        ``gap_{mean,lower,upper}`` (the same as a difference, score units), ``n_records``,
        ``estimated`` (False without a model:language term: the gap is then the same in all
        languages by assumption), ``ci_kind``, ``ci_prob``. Models in the order of the
        ranking, languages by gap, lowest first.
    """
    arrays = read_arrays(tree)
    seed = int(group(tree, "estimands").attrs["seed"])
    excluded = quantity_variable(tree, names.CV_PRR_LANGUAGES).attrs["left_out"]
    languages = np.array(arrays.levels[names.LANGUAGE], dtype=object)
    left_out = np.isin(languages, json.loads(excluded))
    models, n_languages = arrays.levels[names.MODEL], len(languages)
    count = np.zeros((len(models), n_languages), dtype=np.int64)
    np.add.at(count, (arrays.index[names.MODEL], arrays.index[names.LANGUAGE]), 1)
    potential = quantity_draws(tree, names.LANGUAGE_POTENTIAL)
    summaries = {
        f"{prefix}_{part}": np.empty((len(models), n_languages))
        for prefix in ("prr_language", "gap")
        for part in ("mean", "lower", "upper")
    }
    expected = expected_scores(arrays, seed=seed)
    for positions, some, gap, ratio in language_gaps(expected, potential, left_out):
        for prefix, values in (("prr_language", ratio), ("gap", gap)):
            summary = interval_summary(values, ci_prob=ci_prob)
            for part in ("mean", "lower", "upper"):
                summaries[f"{prefix}_{part}"][positions, some] = getattr(summary, part)
    parts = []
    for place, model in enumerate(models):
        columns: dict[str, object] = {names.MODEL: model, names.LANGUAGE: languages}
        columns |= {name: values[place] for name, values in summaries.items()}
        columns["n_records"] = count[place]
        # Gaps that are equal but for rounding stay in the order of the languages.
        rows = np.argsort(summaries["gap_mean"][place].round(10), kind="stable")
        parts.append(pd.DataFrame(columns).iloc[rows])
    score = quantity_draws(tree, names.STANDARDISED_SCORE).mean(axis=0)
    order = sorted(range(len(models)), key=lambda m: (-score[m], models[m]))
    table = pd.concat([parts[m] for m in order])
    return finish(table.assign(estimated=gap_is_estimated(arrays)), ci_prob)


def disparity_table(
    tree: xr.DataTree,
    *,
    flavour: names.Flavour = "observed",
    support: names.Support = "observed",
    ci_prob: float = names.CI_PROB,
) -> pd.DataFrame:
    """The published description: Mean-, Std- and CV-PRR of every model, without ranks.

    Parameters
    ----------
    tree : xarray.DataTree
        A fit whose posterior holds what :func:`bayeseval.estimands.derive` adds.
    flavour : {"observed", "latent"}
        Ratios of observed or of expected scores.
    support : {"observed", "common"}
        The pairs a model was tested on, or the common pairs (with expected scores only).
    ci_prob : float
        Probability inside the equal-tailed intervals.

    Returns
    -------
    pandas.DataFrame
        ``model``, ``{mean_prr,std_prr,cv_prr}_{mean,sd,lower,upper}``, ``n_records``,
        ``n_pairs_left_out`` (of the benchmark's pairs: their potential may be zero), ``prr``
        (the flavour), ``support``, ``note``, ``ci_kind``, ``ci_prob``. Highest Mean-PRR first.

    Raises
    ------
    InputError
        If `flavour`, `support` or `ci_prob` is not allowed or the tree lacks a quantity.

    References
    ----------
    Paper 000, Eq. 4 and 5.
    """
    for value, allowed, what in (
        (flavour, names.FLAVOURS, "PRR flavour"),
        (support, names.SUPPORTS, "support"),
    ):
        if value not in allowed:
            raise InputError(
                f"no {what} {value!r}{did_you_mean(value, allowed)} (allowed: {', '.join(allowed)})"
            )
    if (support, flavour) not in names.DESCRIPTIONS:
        raise InputError(
            "scores that were not observed have no observed flavour: on common pairs take the "
            "flavour latent"
        )
    arrays = read_arrays(tree)
    columns: dict[str, object] = {}
    notes: dict[str, dict[str, str]] = {}
    excluded: list[str] = []
    for quantity in names.DISPARITY:
        name = names.disparity_name(quantity, support=support, flavour=flavour)
        columns.setdefault(names.MODEL, quantity_labels(tree, name))
        summary = interval_summary(quantity_draws(tree, name), ci_prob=ci_prob)
        columns |= summary_columns(quantity, summary)
        attrs = quantity_variable(tree, name).attrs
        notes[quantity] = json.loads(attrs.get("note", "{}"))
        excluded = json.loads(attrs.get("left_out", "[]"))
    models = arrays.levels[names.MODEL]
    columns |= {
        "n_records": np.bincount(arrays.index[names.MODEL], minlength=len(models)),
        "n_pairs_left_out": len(excluded),
        "prr": flavour,
        "support": support,
        "note": [_note(model, notes) for model in models],
    }
    table = pd.DataFrame(columns).sort_values(names.MODEL, kind="stable")
    return finish(table.sort_values("mean_prr_mean", ascending=False, kind="stable"), ci_prob)


def _note(model: str, notes: dict[str, dict[str, str]]) -> str:
    """Join what is said of a model's quantities, naming those it is said of."""
    reasons: dict[str, list[str]] = {}
    for quantity, by_model in notes.items():
        if model in by_model:
            reasons.setdefault(by_model[model], []).append(quantity)
    return "; ".join(f"{', '.join(quantities)}: {reason}" for reason, quantities in reasons.items())
