"""Decision study: how far two models' means would be apart by chance in another design.

A model's score in a study is its mean over L languages, T tasks, P prompts and S seeds, on
test sets of r times the present size, in every cell. Of two models on the same languages and
tasks, the difference of these means has the error variance

    V = 2 [ ml/L + mt/T + mlt/(LT) + (e + seed/S + test/r + cross/(S r) + prompt/P) / (LT)
            + mi/(T r) + mp/(T P) ]

with the variances of the interactions model:language (ml), model:task (mt) and
model:language:task (mlt), of unexplained noise (e), of seeds, of test sets of the
present size and of what a seed does to one test set only (cross). Where languages share
their test items (translations), mi is the variance of how the items of a task suit a
model, which more languages do not average out; what all models share of a test set
cancels. So it is with prompts, which are the same for all models: prompt is what one does
to a single cell, mp what it does to a model in all languages. It is the relative error of
generalisability theory, doubled. Languages or tasks that are fixed are the very ones that
the conclusion is about: an interaction with fixed facets only is then no error but a part
of what the models truly differ by. Levels of the languages and tasks themselves cancel in
differences and count only for a model's absolute level.

References
----------
Brennan (2001), Generalizability Theory, chapters 3 and 4; arXiv:2509.22612, section 3.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from scipy.special import ndtr

from bayeseval import names
from bayeseval._typing import Bools, Floats
from bayeseval.estimands.arrays import Interval, interval_summary
from bayeseval.estimands.plan_variances import PlanVariances, Study

__all__ = [
    "absolute_variance",
    "cheapest_study",
    "error_variance",
    "p_right_pairs",
    "p_right_population",
    "reaches_targets",
    "study_table",
    "universe_variance",
]

# Normal distribution functions of all pairs, draws and studies of one table.
_MAX_PAIR_VALUES = 40_000_000
_MIN_PAIR_DRAWS = 100


def error_variance(variances: PlanVariances, study: Study) -> Floats:
    """Error variance of each model's mean; shape (n_samples, n_models).

    The variance of the difference of two models is the sum of theirs.

    References
    ----------
    Brennan (2001), Generalizability Theory, section 4.1: sigma^2(delta).
    """
    v, cells = variances, study.languages * study.tasks
    seeds = 1.0 if np.isnan(study.seeds) else study.seeds
    items = 1.0 if np.isnan(study.items) else study.items
    total = v.noise / cells
    if "language" not in v.fixed:
        total = total + v.model_language[:, None] / study.languages
    if "task" not in v.fixed:
        total = total + v.model_task[:, None] / study.tasks
    if len(v.fixed) < 2:
        total = total + v.three_way / cells
    if v.seed is not None:
        total = total + v.seed / (seeds * cells)
    if v.test_set is not None:
        total = total + v.test_set / (items * cells)
    if v.seed_test_set is not None:
        total = total + v.seed_test_set / (seeds * items * cells)
    total = total + v.shared_items.get("model_task", 0.0) / (items * study.tasks)
    if v.prompt is not None:
        prompts = 1.0 if np.isnan(study.prompts) else study.prompts
        of_model = np.asarray(v.shared_prompts.get("model_task", 0.0))
        total = total + v.prompt / (prompts * cells)
        total = total + of_model[..., None] / (prompts * study.tasks)
    return np.asarray(total)


def universe_variance(variances: PlanVariances, study: Study) -> Floats:
    """Variance of what models truly score: models, and interactions with fixed facets.

    Returns
    -------
    ndarray, shape (n_samples,)
    """
    v = variances
    total = v.model
    if "language" in v.fixed:
        total = total + v.model_language / study.languages
    if "task" in v.fixed:
        total = total + v.model_task / study.tasks
    if len(v.fixed) == 2:
        total = total + v.three_way.mean(axis=1) / (study.languages * study.tasks)
    return np.asarray(total)


def absolute_variance(variances: PlanVariances, study: Study) -> Floats:
    """Error variance of a model's level, averaged over models; shape (n_samples,).

    Beside the error of comparisons it has that of the choice of languages and tasks.

    References
    ----------
    Brennan (2001), Generalizability Theory, section 4.1: sigma^2(Delta).
    """
    v = variances
    total = error_variance(v, study).mean(axis=1)
    if "language" not in v.fixed:
        total = total + v.language / study.languages
    if "task" not in v.fixed:
        total = total + v.task / study.tasks
    if len(v.fixed) < 2:
        total = total + v.language_task / (study.languages * study.tasks)
    items = 1.0 if np.isnan(study.items) else study.items
    common = v.shared_items.get("language_task", 0.0) / study.languages
    common += v.shared_items.get("task", 0.0)
    prompts = 1.0 if np.isnan(study.prompts) else study.prompts
    of_prompts = v.shared_prompts.get("language_task", 0.0) / study.languages
    of_prompts = of_prompts + v.shared_prompts.get("task", 0.0)
    total = total + of_prompts / (prompts * study.tasks)
    return np.asarray(total + common / (items * study.tasks))


def p_right_population(universe: Floats, error: Floats) -> Floats:
    """Probability that a study puts two models of the population in the right order.

    Parameters
    ----------
    universe : ndarray
        Variance of what models truly score.
    error : ndarray, same shape
        Error variance of one model's mean.

    Returns
    -------
    ndarray
        1/2 + arctan(sqrt(universe / error)) / pi: the probability that a normal
        difference and the same difference with an independent error agree in sign
        (orthant probability of the bivariate normal).
    """
    return np.asarray(0.5 + np.arctan2(np.sqrt(universe), np.sqrt(error)) / np.pi)


def p_right_pairs(effects: Floats, error: Floats) -> Floats:
    """Probability that a study gets the order right, mean over the pairs of models at hand.

    Parameters
    ----------
    effects, error : ndarray, shape (n_samples, n_models)
        What the models truly score, and the error variances of their means.

    Returns
    -------
    ndarray, shape (n_samples,)
        Mean of Phi(|difference| / sd of its error).
    """
    a, b = np.triu_indices(effects.shape[1], k=1)
    difference = np.abs(effects[:, a] - effects[:, b])
    sd = np.sqrt(error[:, a] + error[:, b])
    # Without error any difference is seen, and none is a coin's throw.
    ratio = np.divide(difference, sd, out=np.where(difference > 0.0, np.inf, 0.0), where=sd > 0.0)
    return np.asarray(ndtr(ratio).mean(axis=1))


def study_table(
    variances: PlanVariances, studies: Sequence[Study], *, ci_prob: float = names.CI_PROB
) -> pd.DataFrame:
    """Precision of every study.

    Parameters
    ----------
    variances : PlanVariances
        From :func:`bayeseval.estimands.plan_variances.read_plan_variances`.
    studies : sequence of Study
    ci_prob : float
        Probability inside the equal-tailed intervals.

    Returns
    -------
    pandas.DataFrame
        ``seeds``, ``items``, ``languages``, ``tasks``, ``prompts``;
        ``sd_difference_{mean,sd,lower,upper}``, score units, of two typical models;
        ``p_correct_{mean,lower,upper}`` for two models of the population,
        ``p_correct_pairs_{mean,lower,upper}`` over the pairs at hand (of up to a few
        thousand evenly spaced draws); ``generalisability_*`` and ``dependability_*``,
        the share of true variance in relative and in absolute decisions; ``ci_kind``,
        ``ci_prob``.
    """
    n_samples, n_models = variances.model_effect.shape
    most = _MAX_PAIR_VALUES // max(1, len(studies) * n_models * (n_models - 1) // 2)
    step = max(1, -(-n_samples // max(_MIN_PAIR_DRAWS, most)))
    effects = variances.model_effect[::step]
    rows = []
    for study in studies:
        error = error_variance(variances, study)
        mean_error = error.mean(axis=1)
        universe = universe_variance(variances, study)
        absolute = absolute_variance(variances, study)
        quantities = {
            "sd_difference": np.sqrt(2.0 * mean_error),
            "p_correct": p_right_population(universe, mean_error),
            "p_correct_pairs": p_right_pairs(effects, error[::step]),
            "generalisability": universe / (universe + mean_error),
            "dependability": universe / (universe + absolute),
        }
        row: dict[str, float] = study._asdict()
        for name, draws in quantities.items():
            parts = ("mean", "sd", "lower", "upper")
            summary: Interval = interval_summary(draws, ci_prob=ci_prob)
            row |= {
                f"{name}_{part}": float(getattr(summary, part))
                for part in parts
                if part != "sd" or name == "sd_difference"
            }
        rows.append(row)
    return pd.DataFrame(rows).assign(ci_kind=names.CI_KIND, ci_prob=ci_prob)


def reaches_targets(
    table: pd.DataFrame, *, target_sd: float | None, target_probability: float | None
) -> Bools:
    """Which studies reach all targets given, by their posterior means.

    Parameters
    ----------
    table : pandas.DataFrame
        From :func:`study_table`.
    target_sd : float or None
        Largest ``sd_difference_mean``, score units.
    target_probability : float or None
        Smallest ``p_correct_mean``.

    Returns
    -------
    ndarray of bool, shape (n_studies,)
        All False without any target.
    """
    reached = np.full(len(table), target_sd is not None or target_probability is not None)
    if target_sd is not None:
        reached &= table["sd_difference_mean"].to_numpy() <= target_sd
    if target_probability is not None:
        reached &= table["p_correct_mean"].to_numpy() >= target_probability
    return reached


def cheapest_study(table: pd.DataFrame, candidates: Bools) -> int | None:
    """Row of the cheapest study among candidates; None when there are none.

    Of equally cheap ones it is the one with the smallest sd of a difference.

    Parameters
    ----------
    table : pandas.DataFrame
        From :func:`study_table`, with the column ``cost``.
    candidates : ndarray of bool, shape (n_studies,)
    """
    if not candidates.any():
        return None
    order = np.lexsort((table["sd_difference_mean"], table["cost"], ~candidates))
    return int(order[0])
