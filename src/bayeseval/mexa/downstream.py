"""From alignment to task scores: the line of section 5.2 of the MEXA paper."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bayeseval._typing import Floats
from bayeseval.errors import InputError

__all__ = ["Line", "fit_line", "ideal_line"]


@dataclass(frozen=True)
class Line:
    """Task score as a linear function of adjusted alignment.

    Attributes
    ----------
    slope, intercept : float
        In shares of correct answers, 0 to 1.
    n : int
        Languages it was fitted to; 0 for the ideal line.
    """

    slope: float
    intercept: float
    n: int = 0

    def predict(self, alignment: npt.ArrayLike, *, pivot_score: float) -> Floats:
        """Task scores of languages from their alignment.

        Parameters
        ----------
        alignment : array_like
            Pooled alignment, 0 to 1.
        pivot_score : float
            The model's score on the task in the pivot language, 0 to 1.

        Returns
        -------
        ndarray
            Expected scores, 0 to 1; NaN where the alignment is. A line knows no
            uncertainty: for intervals use alignment as a covariate.
        """
        adjusted = np.asarray(alignment, dtype=np.float64) * _checked(pivot_score)
        return np.asarray(self.intercept + self.slope * adjusted)


def fit_line(alignment: npt.ArrayLike, scores: npt.ArrayLike, *, pivot_score: float) -> Line:
    """Least-squares line from adjusted alignment to task scores of one model.

    Parameters
    ----------
    alignment : array_like, shape (n_languages,)
        Pooled alignment, 0 to 1; it is multiplied by `pivot_score`, because alignment
        says how near a language is to the pivot and not how good that is.
    scores : array_like, shape (n_languages,)
        Shares of correct answers, 0 to 1. Languages that lack one of the two are left
        out; :attr:`Line.n` says how many were used.
    pivot_score : float
        The model's score in the pivot language, 0 to 1.

    Returns
    -------
    Line

    Raises
    ------
    InputError
        If the shapes differ, a number is outside of 0 to 1, or fewer than two
        languages have different alignment.
    """
    x, y = np.asarray(alignment, dtype=np.float64), np.asarray(scores, dtype=np.float64)
    if x.shape != y.shape or x.ndim != 1:
        raise InputError(
            f"alignment and scores must be as long as each other; got {x.shape} and {y.shape}"
        )
    for what, values in (("alignment", x), ("scores", y)):
        outside = values[(values < 0) | (values > 1)]
        if outside.size:
            raise InputError(f"{what} must lie between 0 and 1; got {outside[0]:g}")
    both = np.isfinite(x) & np.isfinite(y)
    x, y = x[both] * _checked(pivot_score), y[both]
    if np.unique(x).size < 2:
        raise InputError("a line needs two languages with different alignment and a score each")
    centred = x - x.mean()
    slope = float(centred @ y / (centred @ centred))
    return Line(slope, float(y.mean() - slope * x.mean()), int(both.sum()))


def ideal_line(choices: int = 4) -> Line:
    """The line for multiple-choice tasks where nothing is known to fit one to.

    Parameters
    ----------
    choices : int
        Answers to choose from: no alignment gives the score of guessing, full alignment
        of a model without errors 1; with four answers 3/4 x + 1/4.

    Returns
    -------
    Line

    Raises
    ------
    InputError
        If there are fewer than two answers.
    """
    if choices < 2:
        raise InputError(f"a choice needs at least two answers; got {choices}")
    return Line(1 - 1 / choices, 1 / choices)


def _checked(pivot_score: float) -> float:
    if not 0 < pivot_score <= 1:
        raise InputError(f"the pivot's score must lie between 0 and 1; got {pivot_score:g}")
    return pivot_score
