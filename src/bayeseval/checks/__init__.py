"""Checks of a fitted model: how it fits the table, and how sensitive results are to its priors.

The convergence gate checks whether the draws are those of the posterior; these checks
whether the model describes this table. None of them needs an engine.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
import xarray as xr

from bayeseval import names
from bayeseval._random import generator
from bayeseval._typing import Floats
from bayeseval.checks.advice import advised_together
from bayeseval.checks.blocks import fewer
from bayeseval.checks.calibration import calibration_check, influence_check, left_out
from bayeseval.checks.connections import connection_check
from bayeseval.checks.container import Check, Checks, FitLabel
from bayeseval.checks.gaussian import why_no_closed_form
from bayeseval.checks.importance import reweighted
from bayeseval.checks.independence import independence_check
from bayeseval.checks.powerscale import sensitivity_check
from bayeseval.checks.predictive import predictive_draws, predictive_groups
from bayeseval.checks.prior import prior_checks
from bayeseval.checks.realised import has_exact_pit, normal_scores, realised_pit
from bayeseval.checks.residuals import (
    Realised,
    effect_checks,
    is_crowded,
    range_checks,
    residual_checks,
)
from bayeseval.checks.situation import Situation
from bayeseval.design import Design, narrow_tasks
from bayeseval.errors import BayesevalError
from bayeseval.estimands import read_arrays
from bayeseval.estimands.container import PosteriorArrays
from bayeseval.estimands.frames import draws_of
from bayeseval.output.language_names import name_and_code
from bayeseval.records.limits import limits_of_tasks

__all__ = ["Check", "Checks", "FitLabel", "predictive_draws", "predictive_groups", "run_checks"]

Bounds = Mapping[str, tuple[float | None, float | None]]

# Number of posterior draws at which residuals are checked; half as many where this needs
# replicated scores.
_DRAWS = 40
# Residuals at all these draws, and draws that a large table has at least.
_MOST_PIT = 50_000_000
_LEAST_DRAWS = 5


def run_checks(
    tree: xr.DataTree,
    design: Design | None,
    *,
    bounds: Bounds | None = None,
    seed: int = 0,
    why_no_design: str = "the fit does not hold its design",
    benchmark: str = "TABLE",
    options: str = "",
    covariate: str = "",
    model: str = "additive",
    language_names: Mapping[str, str] | None = None,
) -> Checks:
    """Run all checks of a fit.

    Parameters
    ----------
    tree : xarray.DataTree
        All groups of a fit.
    design : Design or None
        Design of the fit; without it the checks of priors are not applicable.
    bounds : mapping of str to pair of float, optional
        Smallest and largest possible score by task; None where unbounded.
    seed : int
        The one seed.
    why_no_design : str
        Reason why `design` is None.
    benchmark, options, covariate, model : str
        Values of ``--benchmark``, of further options on reading the table, of ``--covariate``
        and of ``--model``, for the recommended commands.
    language_names : mapping of str to str, optional
        Code to name, for sentences.

    Returns
    -------
    Checks
        Takes about a second on 1,364 records.
    """
    arrays = read_arrays(tree)

    def rng(what: str) -> np.random.Generator:
        return generator(seed, f"checks: {what}")

    limits = _limits(arrays, bounds or {})
    n_draws = fewer(
        _DRAWS if has_exact_pit(arrays) else _DRAWS // 2,
        len(arrays.score),
        most=_MOST_PIT,
        least=_LEAST_DRAWS,
    )
    draws = np.unique(np.linspace(0, arrays.n_samples - 1, n_draws).astype(int))
    languages = names_by_code(arrays, language_names)
    pit = realised_pit(arrays, draws, rng("pit"))
    realised = Realised(arrays, draws, pit, limits, languages)
    prior, sensitivity, table = _prior_checks(
        tree, design, limits, rng("prior"), why_no_design, languages
    )
    loo = None
    if design is not None and why_no_closed_form(design) is None:
        posterior = tree["posterior"].to_dataset()
        variables = {
            str(name): draws_of(posterior[name]) for name in _parameters(design, posterior)
        }
        loo = left_out(design, variables, rng("left out"))
    calibration, ecdf = calibration_check(loo, realised.pit, rng("calibration"))
    influence, records, n_outliers = influence_check(
        _labels(arrays), reweighted(tree, arrays) if loo is None else loo, languages
    )
    ranges, sds = range_checks(realised, rng("replicates"))
    z = normal_scores(realised.pit)
    independence, alike = independence_check(z, arrays.index, arrays.levels)
    situation = Situation.of(
        arrays,
        benchmark=benchmark,
        options=options,
        covariate=covariate,
        model=model,
        bounded=limits is not None and all(np.isfinite(side).all() for side in limits),
        alike=alike,
        outliers=n_outliers,
        crowded=limits is not None and is_crowded(arrays, sds, limits),
        inside=limits is not None and _all_between(limits, arrays.score),
        even_on_logits=limits is not None and _even_on_logits(limits, arrays),
    )
    details = {
        "calibration": ecdf,
        "sd_by_language": sds,
        "influential_records": records,
        "prior_sensitivity": table,
    }
    checks = [
        *prior,
        sensitivity,
        calibration,
        *ranges,
        *residual_checks(realised, rng("residuals")),
        independence,
        *effect_checks(realised),
        influence,
        connection_check(
            arrays.index,
            {
                **arrays.levels,
                names.LANGUAGE: tuple(languages[code] for code in arrays.levels[names.LANGUAGE]),
            },
        ),
    ]
    return Checks.of(
        advised_together(checks, situation),
        {name: part for name, part in details.items() if len(part)},
    )


def names_by_code(
    arrays: PosteriorArrays, language_names: Mapping[str, str] | None
) -> dict[str, str]:
    """How sentences call each language of a fit: ``Hindi (hi)``."""
    codes = arrays.levels[names.LANGUAGE]
    return dict(zip(codes, name_and_code(codes, language_names), strict=True))


def _prior_checks(
    tree: xr.DataTree,
    design: Design | None,
    limits: tuple[Floats, Floats] | None,
    rng: np.random.Generator,
    reason: str,
    languages: Mapping[str, str],
) -> tuple[list[Check], Check, pd.DataFrame]:
    """Checks of the priors, and the table of prior sensitivity."""
    if tree["posterior"].attrs.get("engine") == "ml":
        design, reason = None, "maximum likelihood does not use priors"
    if design is not None:
        try:
            sensitivity = sensitivity_check(tree, design, "", languages)
            return prior_checks(design, limits, rng), *sensitivity
        except BayesevalError as error:
            reason = str(error)
    sentence = f"Not checked: {reason}."
    prior = [
        Check(name, "not applicable", sentence=sentence) for name in ("prior_range", "prior_spread")
    ]
    return prior, *sensitivity_check(tree, None, reason, languages)


def _parameters(design: Design, posterior: xr.Dataset) -> list[str]:
    effects = {term.effect for term in design.terms}
    wanted = {*design.priors, *design.dims()} - effects
    return [str(name) for name in posterior.data_vars if name in wanted]


def _limits(arrays: PosteriorArrays, bounds: Bounds) -> tuple[Floats, Floats] | None:
    """Bounds of every record; None where no task has any."""
    task_of_record = arrays.index[names.TASK]
    lower, upper = limits_of_tasks(bounds, arrays.score, task_of_record, arrays.levels[names.TASK])
    if np.isinf(lower).all() and np.isinf(upper).all():
        return None
    return lower[task_of_record], upper[task_of_record]


def _all_between(limits: tuple[Floats, Floats], scores: Floats) -> bool:
    """Whether no score is at a bound, and every one has two."""
    lower, upper = limits
    return bool(((lower < scores) & (scores < upper) & np.isfinite(upper - lower)).all())


def _even_on_logits(limits: tuple[Floats, Floats], arrays: PosteriorArrays) -> bool:
    """Whether no task's scores vary much less than others' as logits, which all scores have."""
    if not _all_between(limits, arrays.score):
        return False
    lower, upper = limits
    logits = np.log(arrays.score - lower) - np.log(upper - arrays.score)
    return not narrow_tasks(logits, arrays.index[names.TASK], arrays.levels[names.TASK])


def _labels(arrays: PosteriorArrays) -> pd.DataFrame:
    return pd.DataFrame(
        {
            factor: np.array(arrays.levels[factor], dtype=object)[arrays.index[factor]]
            for factor in (names.MODEL, names.LANGUAGE, names.TASK)
        }
    ).assign(score=arrays.score)
