"""Aggregates over languages: three means, in three populations of languages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Literal, get_args

import numpy as np

from bayeseval._typing import Floats
from bayeseval.errors import InputError

__all__ = [
    "AGGREGATES",
    "POPULATIONS",
    "Aggregate",
    "Of",
    "Population",
    "aggregate",
    "aggregate_name",
    "aggregate_variants",
    "choose_languages",
    "default_subset",
]

Aggregate = Literal["arithmetic_mean", "geometric_mean", "median"]
Population = Literal["fixed", "resampled", "subset"]
Of = Literal["expected", "run"]

AGGREGATES: Final[tuple[Aggregate, ...]] = get_args(Aggregate)
POPULATIONS: Final[tuple[Population, ...]] = get_args(Population)


def aggregate_name(
    kind: Aggregate, *, population: Population = "fixed", of: Of = "expected"
) -> str:
    """Variable name of an aggregate: ``median``, ``median_resampled``, ``median_run``."""
    return (
        kind + ("" if population == "fixed" else f"_{population}") + ("_run" if of == "run" else "")
    )


def aggregate_variants() -> Iterator[tuple[str, Aggregate, Population, Of]]:
    """Every aggregate with its name, in the order of the tables."""
    for of in get_args(Of):
        for population in POPULATIONS:
            for kind in AGGREGATES:
                yield aggregate_name(kind, population=population, of=of), kind, population, of


def aggregate(kind: Aggregate, values: Floats) -> Floats:
    """Aggregate over the last axis.

    Parameters
    ----------
    kind : {"arithmetic_mean", "geometric_mean", "median"}
    values : ndarray, shape (..., n_languages)
        Score units.

    Returns
    -------
    ndarray, shape (...)
        Score units; a geometric mean of values of which one is at or below zero is NaN.
    """
    if kind == "arithmetic_mean":
        return np.asarray(values.mean(axis=-1))
    if kind == "median":
        return np.asarray(np.median(values, axis=-1))
    if kind == "geometric_mean":
        positive = np.where(values > 0.0, values, np.nan)
        return np.asarray(np.exp(np.log(positive).mean(axis=-1)))
    raise InputError(f"unknown aggregate {kind!r} (allowed: {', '.join(AGGREGATES)})")


def default_subset(n_languages: int) -> int:
    """Size of the random subsets that tables report: half of the languages, at least two."""
    return max(2, (n_languages + 1) // 2)


def choose_languages(
    values: Floats, population: Population, *, rng: np.random.Generator, k: int | None = None
) -> Floats:
    """Select the languages of a population, anew in every draw and the same for all models.

    Parameters
    ----------
    values : ndarray, shape (n_samples, n_models, n_languages)
        Scores by language.
    population : {"fixed", "resampled", "subset"}
        The observed languages; as many drawn from them with replacement, which represents
        new languages of the same kind; `k` of them without replacement.
    rng : numpy.random.Generator
        Random generator.
    k : int, optional
        Size of the subset; half of the languages by default.

    Returns
    -------
    ndarray, shape (n_samples, n_models, n_chosen)

    Raises
    ------
    InputError
        If `k` is not between 1 and the number of languages.
    """
    n_samples, _, n_languages = values.shape
    if population == "fixed":
        return values
    if population == "resampled":
        chosen = rng.integers(n_languages, size=(n_samples, n_languages))
    else:
        size = default_subset(n_languages) if k is None else k
        if not 1 <= size <= n_languages:
            raise InputError(f"k must be between 1 and {n_languages} languages, got {size}")
        chosen = np.argsort(rng.random((n_samples, n_languages)), axis=1)[:, :size]
    return np.take_along_axis(values, chosen[:, None, :], axis=2)
