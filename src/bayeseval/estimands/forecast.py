"""Languages without records: their potential from what is known of them, draw by draw."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bayeseval import names
from bayeseval.errors import InputError
from bayeseval.estimands.arrays import Bools, Floats
from bayeseval.estimands.container import PosteriorArrays

__all__ = ["Line", "downstream_line", "lowest_quarter", "new_potential", "sample_crps"]


def new_potential(
    arrays: PosteriorArrays, by_covariate: Floats, *, rng: np.random.Generator
) -> Floats:
    """Potential of languages that the table does not have.

    ``mu + x theta + N(0, sd_language**2 (1 + 1/L)) + mean(b)``: the effects of the L
    languages at hand sum to zero, so that the mean of the population they come from is
    known up to ``sd_language / sqrt(L)``. With language:task effects, those of a new
    language average to ``N(0, sd_language_task**2 / T)`` over the T tasks.

    Parameters
    ----------
    arrays : PosteriorArrays
        A fit with pooled language effects.
    by_covariate : ndarray, shape (n_samples, n_new)
        ``x theta``, score units.
    rng : numpy.random.Generator
        Source of the new languages' own effects.

    Returns
    -------
    ndarray, shape (n_samples, n_new)
        Score units.

    Raises
    ------
    InputError
        If language effects are fixed, or the likelihood has a logit link.
    """
    if arrays.response.link != "identity":
        raise InputError(
            "forecasts are for likelihoods on the score scale (normal, student_t); this fit has "
            "a logit link"
        )
    if names.LANGUAGE not in arrays.main_sd:
        raise InputError("fixed language effects say nothing of further languages; pool them")
    n_languages, n_tasks = (len(arrays.levels[f]) for f in (names.LANGUAGE, names.TASK))
    variance = arrays.main_sd[names.LANGUAGE] ** 2 * (1.0 + 1.0 / n_languages)
    cells = arrays.term("language:task")
    if cells is not None:
        variance = variance + cells.sd**2 / n_tasks
    common = arrays.intercept + arrays.main[names.TASK].mean(axis=1)
    own = np.sqrt(variance)[:, None] * rng.standard_normal(by_covariate.shape)
    return np.asarray(common[:, None] + by_covariate + own)


def lowest_quarter(ranks: Floats) -> Bools:
    """Whether a level is among the lowest quarter, given ranks (n_samples, n_levels)."""
    return np.asarray(ranks > 0.75 * ranks.shape[1])


def sample_crps(draws: Floats, target: float) -> float:
    """Continuous ranked probability score of draws: E|X - y| - E|X - X'| / 2; lower is better.

    Parameters
    ----------
    draws : ndarray, shape (n_samples,)
    target : float

    References
    ----------
    Gneiting and Raftery (2007), Strictly proper scoring rules, prediction, and estimation.
    """
    x = np.sort(draws)
    n = len(x)
    weight = 2.0 * np.arange(1, n + 1) - n - 1.0
    return float(np.abs(x - target).mean() - (weight @ x) / n**2)


@dataclass(frozen=True)
class Line:
    """A line from adjusted alignment to task score, ``slope * x + intercept``."""

    slope: float
    intercept: float

    def __call__(self, adjusted: Floats) -> Floats:
        """Task scores of adjusted alignments, as shares of one."""
        return np.asarray(self.slope * np.asarray(adjusted) + self.intercept)


def downstream_line(
    alignment: Floats | None = None,
    score: Floats | None = None,
    *,
    english: float = 1.0,
    chance: float = 0.25,
) -> Line:
    """Line that turns alignment into downstream scores (paper 004, section 5.2).

    Alignment says how near a language is to English, not how good the model is in English:
    it is multiplied by the model's English score first. Without scores the line is the ideal
    one, from `chance` at no alignment to one at full alignment: ``3/4 x + 1/4`` for four
    choices. With scores it is fitted by least squares.

    Parameters
    ----------
    alignment, score : ndarray, shape (n_languages,), optional
        Raw alignment and task scores between 0 and 1, both or none.
    english : float
        The model's English score on the task.
    chance : float
        Score of guessing.

    Returns
    -------
    Line
        Of adjusted alignment, ``alignment * english``.

    Raises
    ------
    InputError
        If one of the two is missing, their lengths differ, or alignment does not vary.
    """
    if alignment is None and score is None:
        return Line(1.0 - chance, chance)
    if alignment is None or score is None or np.shape(alignment) != np.shape(score):
        raise InputError("the line needs alignment and score of the same languages, or neither")
    x = english * np.asarray(alignment, dtype=np.float64)
    if len(x) < 2 or np.ptp(x) == 0.0:
        raise InputError("the line needs at least two languages whose alignment differs")
    slope, intercept = np.polyfit(x, np.asarray(score, dtype=np.float64), 1)
    return Line(float(slope), float(intercept))
