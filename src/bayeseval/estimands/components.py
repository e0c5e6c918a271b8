"""Variance components: the variation of scores due to each part of the model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.special import logit

from bayeseval import names
from bayeseval._typing import Floats
from bayeseval.estimands.arrays import finite_sd, root_mean_square
from bayeseval.estimands.container import PosteriorArrays, draw_blocks
from bayeseval.estimands.covariates import component_sd
from bayeseval.estimands.predictor import linear_predictor
from bayeseval.estimands.related import relation_parts

__all__ = [
    "Components",
    "Kind",
    "has_residual",
    "realised_residual_sd",
    "variance_components",
]

Kind = Literal["pooled", "fixed", "related", "covariate", "realised", "known"]


@dataclass(frozen=True, slots=True, eq=False)
class Components:
    """Draws of the variance components.

    Attributes
    ----------
    labels : tuple of str
        Main effects, relations of languages, covariates, interactions, then ``residual`` and,
        with known standard errors, ``known_se``, or ``replicates`` when seeds, test sets or
        prompts add to them, and ``shared_items`` when cells share test sets.
    kind : tuple of str
        Definition of `sd`. ``pooled``: the super-population parameter. ``fixed``: the
        finite-population sd, as fixed effects have no parameter. ``related``: the sd of a
        relation times the root of the mean variance of a contrast, which is below 1
        where levels are alike. ``covariate``: root mean
        square of x theta over the languages, or models and languages. ``realised``:
        the root mean square of the residuals of the records. ``known``: given
        with the data.
    sd, finite_sd, share : ndarray, shape (n_samples, n_components)
        Standard deviations on the linear predictor's scale; share of the sum of squared `sd`.
    """

    labels: tuple[str, ...]
    kind: tuple[Kind, ...]
    sd: Floats
    finite_sd: Floats
    share: Floats


def realised_residual_sd(arrays: PosteriorArrays, *, max_bytes: int = 60_000_000) -> Floats:
    """Root mean square residual of the records; shape (n_samples,).

    Score minus linear predictor, or logit of the score minus linear predictor.
    """
    score = arrays.score
    if arrays.response.link == "logit":
        task, response = arrays.index[names.TASK], arrays.response
        share = (score - response.lower[task]) / (response.upper - response.lower)[task]
        score = logit(np.clip(share, response.edge, 1.0 - response.edge))
    result = np.empty(arrays.n_samples)
    for draws in draw_blocks(arrays.n_samples, 3 * len(score), max_bytes=max_bytes):
        result[draws] = root_mean_square(score - linear_predictor(arrays, draws))
    return result


def variance_components(arrays: PosteriorArrays) -> Components:
    """Standard deviation, finite-population sd and variance share of each component.

    The finite-population sd is that of the levels at hand, with as many degrees of freedom as
    there are free directions, so that it estimates the same as the parameter: K - 1 for the
    levels of a factor and the cells of a covariate, about their mean (:func:`finite_sd`); all
    observed cells of an interaction, whose effects no constraint ties together, and all records
    for the residual, about zero (:func:`root_mean_square`). The effects of related levels are
    split into what each relation contributes, given the effects (:func:`relation_parts`). That
    of the residual is of scores less predictions, and so contains known errors, which the
    residual's own sd leaves out.

    The residual of a normal likelihood is its sd parameter; when that differs by
    level, the root of its mean square over the records. A Student-t residual has
    the variance sigma**2 * nu / (nu - 2) only for nu > 2, which the posterior need
    not respect, so its `sd` is the realised residual of the records: a variance
    on the response scale that exists in every draw (and that contains known
    standard errors, which then get no component of their own).

    Everything is on the linear predictor's scale. Under a logit link that is the logit
    scale, where only normal logits without chance levels have a residual: with other
    likelihoods there is none, and shares are those of the effects.

    Parameters
    ----------
    arrays : PosteriorArrays
        From :func:`bayeseval.estimands.read_arrays`.

    References
    ----------
    Gelman (2005), Analysis of variance: why it is more important than ever.
    """
    labels: list[str] = []
    kinds: list[Kind] = []
    sds: list[Floats] = []
    finite: list[Floats] = []

    def add(label: str, kind: Kind, sd: Floats, finite_population_sd: Floats) -> None:
        labels.append(label)
        kinds.append(kind)
        sds.append(sd)
        finite.append(finite_population_sd)

    for factor in names.FACTORS:
        if len(arrays.levels[factor]) < 2:
            continue
        realised = finite_sd(arrays.main[factor])
        pooled = arrays.main_sd.get(factor)
        add(
            factor,
            "fixed" if pooled is None else "pooled",
            realised if pooled is None else pooled,
            realised,
        )
        related = arrays.related.get(factor)
        if related is not None and pooled is not None:
            parts = relation_parts(related, pooled, arrays.main[factor])
            finite[-1] = parts.finite_sd[:, 0]
            scales = related.population_sd()
            for i, name in enumerate(related.used):
                add(name, "related", scales[:, i], parts.finite_sd[:, i + 1])
    for slope in arrays.slopes:
        add(slope.name, "covariate", component_sd(slope), component_sd(slope))
    for cells in arrays.cells:
        add(cells.term, "pooled", cells.sd, root_mean_square(cells.effect))

    if not has_residual(arrays):
        return _assembled(labels, kinds, sds, finite)
    realised = realised_residual_sd(arrays)
    if not arrays.residual_is_sd:
        add("residual", "realised", realised, realised)
    else:
        add("residual", "pooled", _pooled_residual_sd(arrays), realised)
        if arrays.replicates:
            errors = _error_sd(arrays)
            add("replicates", "realised", errors, errors)
        elif arrays.se is not None:
            known = np.full(arrays.n_samples, float(np.sqrt(np.mean(arrays.se**2))))
            add("known_se", "known", known, known)
        if arrays.shared_items:
            mean = sum(float(np.mean(variance)) for variance in arrays.shared_items.values())
            items = np.full(arrays.n_samples, np.sqrt(mean))
            add("shared_items", "known", items, items)

    return _assembled(labels, kinds, sds, finite)


def _error_sd(arrays: PosteriorArrays) -> Floats:
    """Root mean square over the records of known and replicates' errors, of every draw."""
    known = 0.0 if arrays.known_se is None else float(np.sum(arrays.known_se**2))
    total = np.full(arrays.n_samples, known)
    for noise in arrays.replicates:
        total += noise.sd**2 @ noise.share
        for shared in noise.shared:
            total += shared.sd**2 * noise.share.sum()
    return np.asarray(np.sqrt(total / len(arrays.score)))


def has_residual(arrays: PosteriorArrays) -> bool:
    """Whether residuals are on the linear predictor's scale, beside the effects."""
    plain_logit = arrays.response.quantities == {"logit"} and arrays.response.chance is None
    return bool(arrays.response.link == "identity" or plain_logit)


def _assembled(
    labels: list[str], kinds: list[Kind], sds: list[Floats], finite: list[Floats]
) -> Components:
    sd = np.stack(sds, axis=1)
    variance = sd**2
    share = variance / variance.sum(axis=1, keepdims=True)
    return Components(tuple(labels), tuple(kinds), sd, np.stack(finite, axis=1), share)


def _pooled_residual_sd(arrays: PosteriorArrays) -> Floats:
    if arrays.residual_by is None:
        return arrays.residual_sd[:, 0]
    index = arrays.index[arrays.residual_by]
    weight = np.bincount(index, minlength=arrays.residual_sd.shape[1]) / len(index)
    pooled: Floats = np.sqrt(arrays.residual_sd**2 @ weight)
    return pooled
