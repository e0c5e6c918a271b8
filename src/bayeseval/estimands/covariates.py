"""Contributions of covariates to expected scores, and the variance that they explain."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
import xarray as xr

from bayeseval import names
from bayeseval._typing import Floats
from bayeseval.errors import InputError
from bayeseval.estimands.arrays import finite_sd, interval_summary
from bayeseval.estimands.frames import finish, summary_columns
from bayeseval.estimands.related import read_related

__all__ = [
    "Explained",
    "SlopeDraws",
    "covariates_table",
    "explained",
    "read_slopes",
    "variance_by_facet",
]


@dataclass(frozen=True, slots=True, eq=False)
class SlopeDraws:
    """One covariate of a fit.

    Attributes
    ----------
    name : str
    slope : ndarray, shape (n_samples,)
        Score units per standard deviation of the covariate.
    standardised : ndarray, shape (1 or n_samples, n_languages) or (..., n_models, n_languages)
        Values; they differ by draw where some are unknown. Those of a covariate by model are the
        same in every language.
    mean, sd : float
        Raw value = mean + sd * standardised value.
    by : {"language", "model:language", "model"}
        What has a value of its own.
    """

    name: str
    slope: Floats
    standardised: Floats
    mean: float
    sd: float
    by: str = names.LANGUAGE

    @property
    def by_model(self) -> bool:
        """Whether models have values of their own."""
        return self.by != names.LANGUAGE

    @property
    def of_cells(self) -> Floats:
        """Values of what has one: languages, models, or models and languages."""
        return self.standardised[..., 0] if self.by == names.MODEL else self.standardised

    def _values(self, draws: slice) -> Floats:
        return self.standardised if len(self.standardised) == 1 else self.standardised[draws]

    def of_languages(self, draws: slice = slice(None)) -> Floats:
        """What the covariate adds to a language, models averaged; (n_samples, n_languages)."""
        values = self._values(draws)
        mean = values.mean(axis=1) if self.by_model else values
        return np.asarray(self.slope[draws, None] * mean)

    def of_model(self, model: int, draws: slice = slice(None)) -> Floats:
        """What it adds for one model beyond that; shape (n_samples, n_languages)."""
        values = self._values(draws)
        return np.asarray(self.slope[draws, None] * (values[:, model] - values.mean(axis=1)))

    def contribution(self) -> Floats:
        """What it adds to models beyond their mean, if by model; else what to languages."""
        if self.by == names.MODEL:
            x = self.of_cells
            return np.asarray(self.slope[:, None] * (x - x.mean(axis=1, keepdims=True)))
        return self.of_languages()


@dataclass(frozen=True, slots=True, eq=False)
class Explained:
    """Share of the variance between languages, or models, that a covariate explains, by draw.

    Attributes
    ----------
    population : ndarray, shape (n_samples,)
        V / (V + sd_language**2) with V the variance of ``x * theta`` over the languages
        (ddof 1): for the languages that these ones are a sample of. The variances of relations
        of languages are added to that of the languages. For a covariate by model the same of
        models.
    finite : ndarray, shape (n_samples,)
        V / (V + var(a)) with the variance of the effects of the languages, or models, at hand.
    """

    population: Floats
    finite: Floats


def read_slopes(posterior: xr.Dataset, constant: xr.Dataset) -> tuple[SlopeDraws, ...]:
    """Covariates of a fit, in the order of the posterior.

    Parameters
    ----------
    posterior, constant : xarray.Dataset
        Groups ``posterior`` and ``constant_data``.

    Raises
    ------
    InputError
        If there is a slope without values.
    """
    ending = names.slope_name("")
    slopes = []
    for variable in map(str, posterior.data_vars):
        name = variable.removesuffix(ending)
        if name == variable:
            continue
        if names.covariate_standardised(name) not in constant:
            raise InputError(
                f"the fit has the slope {variable!r}, but constant_data has no values of the "
                f"covariate ({names.covariate_standardised(name)!r}); fit again"
            )
        known = constant[names.covariate_standardised(name)]
        slope = posterior[variable].transpose("chain", "draw").to_numpy().reshape(-1)
        values = known.to_numpy().astype(np.float64)[None]
        if names.covariate_unknown(name) in posterior:
            dim = names.covariate_cell_dim(name)
            drawn = posterior[names.covariate_unknown(name)].transpose("chain", "draw", dim)
            flat = np.repeat(values.reshape(1, -1), len(slope), axis=0)
            unknown_positions = constant[f"{dim}_index"].to_numpy()
            flat[:, unknown_positions] = drawn.to_numpy().reshape(len(slope), -1)
            values = flat.reshape(len(slope), *values.shape[1:])
        by = ":".join(map(str, known.dims))
        if by == names.MODEL:
            shape = (*values.shape, constant.sizes[names.LANGUAGE])
            values = np.broadcast_to(values[..., None], shape)
        slopes.append(
            SlopeDraws(
                name=name,
                slope=slope.astype(np.float64),
                standardised=values,
                mean=float(known.attrs["mean"]),
                sd=float(known.attrs["sd"]),
                by=by,
            )
        )
    return tuple(slopes)


def explained(by_covariate: Floats, effect: Floats, sd: Floats) -> Explained:
    """Share of the languages', or models', variance that a covariate explains.

    Parameters
    ----------
    by_covariate : ndarray, shape (n_samples, n_levels)
        ``x * theta``, score units.
    effect : ndarray, shape (n_samples, n_levels)
        Effects of the languages, or models, beside it.
    sd : ndarray, shape (n_samples,)
        Their standard deviation.

    References
    ----------
    Gelman and Pardoe (2006), Bayesian measures of explained variance and pooling in
    multilevel models. Technometrics 48, 241-251.
    """
    spread = by_covariate.var(axis=1, ddof=1)
    return Explained(
        population=spread / (spread + sd**2),
        finite=spread / (spread + effect.var(axis=1, ddof=1)),
    )


def covariates_table(tree: xr.DataTree, *, ci_prob: float = names.CI_PROB) -> pd.DataFrame:
    """Slopes of covariates, and what they explain.

    Parameters
    ----------
    tree : xarray.DataTree
        A fit.
    ci_prob : float
        Probability inside the equal-tailed intervals.

    Returns
    -------
    pandas.DataFrame
        One row per covariate: ``covariate``, ``by``, ``slope_{mean,sd,lower,upper}`` (score
        units per standard deviation), ``raw_slope_{mean,sd,lower,upper}`` (per unit),
        ``p_positive``, ``sd_{mean,sd,lower,upper}`` (ddof 1, of ``x * theta`` over its cells),
        ``explained_{mean,lower,upper}`` and ``explained_finite_{mean,lower,upper}`` (see
        :class:`Explained`; of the variance between models for a covariate by model; NaN with
        fixed effects), ``covariate_mean``,
        ``covariate_sd``, ``ci_kind``, ``ci_prob``. Empty without covariates.

    Raises
    ------
    InputError
        If a slope has no values, or a factor with an sd no effects.
    """
    posterior, constant = tree["posterior"].to_dataset(), tree["constant_data"].to_dataset()
    related = read_related(posterior, constant)
    rows = []
    for slope in read_slopes(posterior, constant):
        row: dict[str, object] = {"covariate": slope.name, "by": slope.by}
        row |= summary_columns("slope", interval_summary(slope.slope, ci_prob=ci_prob))
        row |= summary_columns(
            "raw_slope", interval_summary(slope.slope / slope.sd, ci_prob=ci_prob)
        )
        row["p_positive"] = float(np.mean(slope.slope > 0.0))
        spread = interval_summary(component_sd(slope), ci_prob=ci_prob)
        row |= summary_columns("sd", spread)
        factor = names.MODEL if slope.by == names.MODEL else names.LANGUAGE
        if names.sd_name(factor) in posterior:
            name = names.effect_name(factor)
            if name not in posterior:
                raise InputError(
                    f"the fit is damaged: it has {names.sd_name(factor)!r}, but no {name!r}; fit "
                    "again"
                )
            effect = posterior[name].transpose("chain", "draw", factor)
            variance = posterior[names.sd_name(factor)].to_numpy().reshape(-1) ** 2
            if factor in related:
                variance = variance + (related[factor].population_sd() ** 2).sum(axis=1)
            share = explained(
                slope.contribution(),
                effect.to_numpy().reshape(len(slope.slope), -1),
                np.sqrt(variance),
            )
            for key, values in (
                ("explained", share.population),
                ("explained_finite", share.finite),
            ):
                row |= summary_columns(key, interval_summary(values, ci_prob=ci_prob), sd=False)
        row |= {"covariate_mean": slope.mean, "covariate_sd": slope.sd}
        rows.append(row)
    return finish(pd.DataFrame(rows), ci_prob)


def variance_by_facet(slope: SlopeDraws) -> dict[str, Floats]:
    """Split the mean square of ``x * theta`` into what languages, models and both bring.

    Returns
    -------
    dict of str to ndarray, shape (n_samples,)
        ``language`` (models averaged) or, for one value per model, ``model``; for values of
        both ``language``, ``model`` (languages averaged) and ``model:language`` (the rest): a
        two-way analysis of variance of a balanced table. Means of all values are taken off.
    """
    values = slope.of_cells
    values = values - values.mean(axis=tuple(range(1, values.ndim)), keepdims=True)
    squared = slope.slope**2
    if slope.by in names.FACTORS:
        return {slope.by: squared * np.mean(values**2, axis=1)}
    language, model = values.mean(axis=1, keepdims=True), values.mean(axis=2, keepdims=True)
    parts = {
        names.LANGUAGE: language,
        names.MODEL: model,
        "model:language": values - language - model,
    }
    return {name: squared * np.mean(part**2, axis=(1, 2)) for name, part in parts.items()}


def component_sd(slope: SlopeDraws) -> Floats:
    """Standard deviation (ddof 1) of ``x * theta`` over its cells; shape (n_samples,)."""
    flat = slope.of_cells.reshape(len(slope.standardised), -1)
    return np.asarray(np.abs(slope.slope) * finite_sd(flat))
