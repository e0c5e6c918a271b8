"""Restore the design of a saved result."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import xarray as xr

from bayeseval import names
from bayeseval._typing import Floats, Index
from bayeseval.design.build import assemble, build_term
from bayeseval.design.container import Design
from bayeseval.design.covariates import restore_slopes
from bayeseval.design.noise import Noise
from bayeseval.design.outcome import Outcome, build_outcome, identity_outcome, task_families
from bayeseval.design.relations import restore_relations, with_relations
from bayeseval.design.share_errors import all_errors_known, known_residual
from bayeseval.errors import DesignError
from bayeseval.spec import ModelSpec

__all__ = ["restore_design"]


def restore_design(tree: xr.DataTree, spec: ModelSpec) -> Design:
    """Restore the design of a fit from its data, without the records.

    Parameters
    ----------
    tree : xarray.DataTree
        Groups ``observed_data`` and ``constant_data`` of a fit.
    spec : ModelSpec
        The model that was fitted.

    Returns
    -------
    Design
        Equal to that of :func:`bayeseval.design.build_design`, without notes.

    Raises
    ------
    DesignError
        If sds of replicates were sampled or cells share test sets: no fit holds all of
        their data, so that a new fit from the records has the same limitation.
    """
    constant = tree["constant_data"].to_dataset()
    score = tree["observed_data"][names.SCORE].to_numpy().astype(np.float64)
    factors = [f for f in (*names.FACTORS, names.DATASET) if f"{f}_index" in constant]
    coords: dict[str, tuple[str, ...]] = {
        f: tuple(str(label) for label in constant[f].to_numpy()) for f in factors
    }
    factor_index: dict[str, npt.NDArray[np.int64]] = {
        f: constant[f"{f}_index"].to_numpy().astype(np.int64) for f in factors
    }
    outcome = _outcome(constant, spec, score, coords, factor_index)
    linear_sd = float(outcome.linear.std(ddof=1))
    terms = [
        build_term(spec, name, coords, factor_index, score_sd=linear_sd)
        for name in spec.terms
        if all(len(coords[factor]) > 1 for factor in names.factors_of(name))
    ]
    terms = with_relations(terms, restore_relations(constant, spec))
    noise, n = _noise(constant), len(score)
    known = outcome.has_normal_scores and all_errors_known(noise, (), n)
    return assemble(
        spec,
        score=score,
        outcome=outcome,
        noise=noise,
        terms=terms,
        slopes=restore_slopes(constant, spec, coords, factor_index),
        coords=coords,
        factor_index=factor_index,
        residual_scale=(
            known_residual("the fit", noise, terms, spec.residual_by, n)[0] if known else None
        ),
    )


def _outcome(
    constant: xr.Dataset,
    spec: ModelSpec,
    score: Floats,
    coords: dict[str, tuple[str, ...]],
    factor_index: dict[str, Index],
) -> Outcome:
    task, tasks = factor_index[names.TASK], coords[names.TASK]
    task_likelihoods = task_families(spec, tasks, "the fit")
    if "likelihood" not in constant:
        return identity_outcome(score, task, task_likelihoods)

    def numbers(name: str) -> Floats | None:
        return constant[name].to_numpy().astype(np.float64) if name in constant else None

    lower, upper = (constant[f"score_{side}"].to_numpy() for side in ("lower", "upper"))
    chance = numbers("chance_share")
    return build_outcome(
        spec,
        score=score,
        task=task,
        tasks=tasks,
        task_likelihoods=task_likelihoods,
        bounds=(lower, upper),
        chance=None if chance is None else lower + (upper - lower) * chance,
        n=numbers("n_items"),
        k=numbers("n_correct"),
        name="the fit",
    )


def _noise(constant: xr.Dataset) -> Noise:
    shares = [f"{source}_share" for source in names.SOURCES]
    sampled = any(str(v) in shares for v in constant.data_vars)
    shared = any(str(v).startswith(names.TEST_SET) for v in constant.data_vars)
    if sampled or shared:
        sources = [
            words
            for words, there in (
                ("noise of replicates (seeds, bootstraps, prompts)", sampled),
                ("effects of test sets that cells share", shared),
            )
            if there
        ]
        raise DesignError(
            f"not available for a model that estimates {' and '.join(sources)}, because a fit "
            "does not keep all data on them"
        )
    known = [name for name in (*names.SOURCES, "se") if f"{name}_sd" in constant]
    return Noise(
        replicates=None,
        known_variance=(
            constant["se"].to_numpy().astype(np.float64) ** 2 if "se" in constant else None
        ),
        known_sds={name: constant[f"{name}_sd"].to_numpy().astype(np.float64) for name in known},
        notes=(),
    )
