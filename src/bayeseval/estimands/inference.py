"""Inference on models and languages, from expected scores on common pairs.

All models are compared on the same pairs, so that ranks and differences are meaningful; see
`prr` for the published ratios of observed scores, which describe a table but rank no models.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from bayeseval import names
from bayeseval._typing import Bools, Floats, Index
from bayeseval.estimands.arrays import all_nan, column_blocks, drop_meaningless
from bayeseval.estimands.container import PosteriorArrays
from bayeseval.estimands.expected import ExpectedScores

__all__ = [
    "NO_GAP",
    "Inference",
    "Withheld",
    "gap_is_estimated",
    "infer",
    "language_gaps",
    "may_be_zero",
    "measured_languages",
    "why_no_geometric_mean",
    "why_no_ratio",
]

# For a normal x that is z sds from zero, the mean of 1 / x exceeds 1 / mean(x) by a share of
# about 1 / z**2: 4 % here, and more closer to zero.
_SDS_FROM_ZERO: Final = 5.0
# Of the mean potential of all pairs: P(mean <= 0) is at most 0.13 %.
_SDS_OF_MEAN: Final = 3.0
# Terms that let a model be stronger in one language than in another.
_GAP_TERMS: Final = (
    *("model:language", "model:language:task"),
    names.low_rank_term("model:language"),
)
#: Why there is no evenness between languages.
NO_GAP: Final = "not estimated by this model: it has no model:language term"


@dataclass(frozen=True, slots=True, eq=False)
class Inference:
    """Joint draws of the quantities that models are compared by.

    Attributes
    ----------
    standardised_score : ndarray, shape (n_samples, n_models)
        Mean expected score over the common pairs, score units.
    prr : ndarray, shape (n_samples, n_models)
        Sum of expected scores over sum of potentials; NaN where `reasons` has a reason.
    gap_sd_languages : ndarray, shape (n_samples, n_models)
        Sd (ddof 1) over languages of the mean expected score less the language potential.
    cv_prr_languages : ndarray, shape (n_samples, n_models)
        Coefficient of variation over languages of the PRR in a language.
    cv_prr_constant_gap : ndarray, shape (n_models,)
        Its posterior mean if the gap of the model were the same in all languages.
    worst_language_prr : ndarray, shape (n_samples, n_models)
        PRR in the worst measured language.
    worst_language : ndarray of int, shape (n_models,)
        The language with the lowest mean gap among those the model was tested on; -1 where
        the gap is not estimated.
    language_potential : ndarray, shape (n_samples, n_languages)
    point_potential : ndarray, shape (n_samples, n_points)
        Of the pairs of :class:`ExpectedScores`.
    left_out : ndarray of bool, shape (n_languages,)
        Languages whose potential may be zero: they have no PRR and no part in its CV.
    reasons : dict of str to str
        Quantity to the reason why it is NaN.
    """

    standardised_score: Floats
    prr: Floats
    gap_sd_languages: Floats
    cv_prr_languages: Floats
    cv_prr_constant_gap: Floats
    worst_language_prr: Floats
    worst_language: Index
    language_potential: Floats
    point_potential: Floats
    left_out: Bools
    reasons: Mapping[str, str]


class Withheld(NamedTuple):
    """Which ratios to potentials a posterior does not report.

    Attributes
    ----------
    no_prr : str
        Why models have no PRR on the common pairs; empty if they have one.
    left_out : ndarray of bool, shape (n_languages,)
        Languages without a PRR.
    """

    no_prr: str
    left_out: Bools


def may_be_zero(arrays: PosteriorArrays, values: Floats, *, sds: float = _SDS_FROM_ZERO) -> Bools:
    """Whether potentials are too close to zero to divide by.

    These are potentials within `sds` posterior sds of zero, or at most zero in a draw. Under a
    logit link potentials stay above the lower bound of the scores, and their logarithms have
    the tails of a normal distribution, so only the second criterion applies.

    Parameters
    ----------
    arrays : PosteriorArrays
        The posterior, for its link.
    values : ndarray, shape (n_samples, n)
        Draws of potentials.
    sds : float
        Required distance from zero.
    """
    found = np.empty(values.shape[1], dtype=np.bool_)
    # In blocks of columns, as a standard deviation needs a copy of them.
    for columns in column_blocks(*values.shape):
        own = values[:, columns]
        found[columns] = (own <= 0.0).any(axis=0)
        if arrays.response.link != "logit":
            found[columns] |= own.mean(axis=0) <= sds * own.std(axis=0)
    return found


def why_no_ratio(arrays: PosteriorArrays) -> str:
    """Reason why ratios of scores are undefined, as zero is not the lowest score; else empty."""
    lower, tasks = arrays.bounds[0], arrays.levels[names.TASK]
    other = np.flatnonzero(np.isfinite(lower) & (lower != 0.0))
    if other.size:
        return (
            f"the scores of {tasks[other[0]]} start at {lower[other[0]]:g}, so ratios of scores "
            "have no meaning"
        )
    if (arrays.score < 0.0).any():
        return "some scores are negative, so ratios of scores have no meaning"
    return ""


def why_no_geometric_mean(arrays: PosteriorArrays) -> str:
    """Reason why no model has a geometric mean, as scores may be negative; else empty.

    Parameters
    ----------
    arrays : PosteriorArrays
        From :func:`bayeseval.estimands.read_arrays`, for the bounds of the scores.
    """
    lower, tasks = arrays.bounds[0], arrays.levels[names.TASK]
    below = np.flatnonzero(lower < 0.0)
    if below.size:
        return f"the scores of {tasks[below[0]]} start at {lower[below[0]]:g}"
    return "some scores are negative" if (arrays.score < 0.0).any() else ""


def measured_languages(arrays: PosteriorArrays) -> Bools:
    """Whether a model was tested on a language; shape (n_models, n_languages)."""
    shape = tuple(len(arrays.levels[f]) for f in (names.MODEL, names.LANGUAGE))
    measured = np.zeros(shape, dtype=bool)
    measured[arrays.index[names.MODEL], arrays.index[names.LANGUAGE]] = True
    return measured


def infer(expected: ExpectedScores, *, withheld: Withheld | None = None) -> Inference:
    """Compute all of :class:`Inference` from expected scores, draw by draw.

    Parameters
    ----------
    expected : ExpectedScores
        From :func:`bayeseval.estimands.expected.expected_scores`.
    withheld : Withheld, optional
        Ratios that are withheld whatever these draws are. They are chosen by these draws when left
        out.
    """
    arrays, common = expected.arrays, expected.common
    n_models, n_languages = (len(arrays.levels[f]) for f in (names.MODEL, names.LANGUAGE))
    score = np.empty((arrays.n_samples, n_models))
    total = np.empty(arrays.n_samples)
    language = np.empty((arrays.n_samples, n_languages))
    point = np.empty((arrays.n_samples, len(expected.language)))
    has_gap = gap_is_estimated(arrays)
    gap_sd = np.full_like(score, np.nan) if has_gap else all_nan(score.shape)
    mean_gap = np.zeros((n_models, n_languages))
    # A product of matrices, because a copy of the common pairs takes longer.
    share = np.bincount(common, minlength=len(expected.language)) / len(common)
    for block in expected.blocks():
        score[block.draws] = block.points @ share
        total[block.draws] = block.point_potential @ share
        language[block.draws] = block.language_potential
        point[block.draws] = block.point_potential
        if has_gap:
            gap = block.languages - block.language_potential[:, None]
            mean_gap += gap.sum(axis=0) / arrays.n_samples
            if n_languages > 1:
                gap_sd[block.draws] = gap.std(axis=2, ddof=1)
    reasons: dict[str, str] = {}
    prr = all_nan(score.shape)
    no_ratio, left_out = withheld or _withheld(arrays, total, language)
    if no_ratio:
        reasons[names.PRR] = no_ratio
    else:
        prr = score / total[:, None]
    worst = np.full(n_models, -1)
    if has_gap:
        measured_gap = np.where(measured_languages(arrays), mean_gap, np.inf)
        worst = np.where(np.isfinite(measured_gap).any(axis=1), measured_gap.argmin(axis=1), -1)
    else:
        reasons |= dict.fromkeys((names.GAP_SD, names.CV_PRR_LANGUAGES), NO_GAP)
    if (~left_out).sum() < 2:
        reasons.setdefault(
            names.CV_PRR_LANGUAGES, no_ratio or "fewer than two languages have a PRR"
        )
    cv, constant, worst_prr = _by_language(
        expected, left_out, worst, reported=names.CV_PRR_LANGUAGES not in reasons
    )
    return Inference(
        standardised_score=score,
        prr=prr,
        gap_sd_languages=gap_sd,
        cv_prr_languages=cv,
        cv_prr_constant_gap=constant,
        worst_language_prr=worst_prr,
        worst_language=worst,
        language_potential=language,
        point_potential=point,
        left_out=left_out,
        reasons=reasons,
    )


def _withheld(arrays: PosteriorArrays, total: Floats, language: Floats) -> Withheld:
    """What draws of the mean potential of the common pairs and of languages do not allow."""
    if no_ratio := why_no_ratio(arrays):
        return Withheld(no_ratio, np.ones(language.shape[1], dtype=bool))
    near_zero = may_be_zero(arrays, total[:, None], sds=_SDS_OF_MEAN)[0]
    no_prr = "the mean potential of the common pairs may be zero" if near_zero else ""
    return Withheld(no_prr, may_be_zero(arrays, language))


def gap_is_estimated(arrays: PosteriorArrays) -> bool:
    """Whether the model has terms by which the gap of a model differs between languages.

    A covariate of models and languages alone is none: the sds of the gaps would all be the size
    of one slope times constants, in an order that no score can change.
    """
    return bool({cells.term for cells in arrays.cells} & set(_GAP_TERMS))


def _by_language(
    expected: ExpectedScores, left_out: Bools, worst: Index, *, reported: bool
) -> tuple[Floats, Floats, Floats]:
    """CV-PRR over languages, its mean under a constant gap, and PRR in the worst language."""
    arrays, n_models = expected.arrays, len(worst)
    shape = (arrays.n_samples, n_models)
    constant = np.full(n_models, np.nan)
    if not reported:
        return all_nan(shape), constant, all_nan(shape)
    cv, worst_prr = np.full((2, *shape), np.nan)
    kept = np.flatnonzero(~left_out)
    total = np.zeros(n_models)
    has_worst = np.flatnonzero((worst >= 0) & ~left_out[worst])
    for block in expected.blocks():
        potential = block.language_potential[:, None, kept]
        ratio = block.languages[:, :, kept] / potential
        cv[block.draws] = _variation(ratio)
        gap = (block.languages[:, :, kept] - potential).mean(axis=2, keepdims=True)
        total += _variation(1.0 + gap / potential).sum(axis=0)
        at = worst[has_worst]
        worst_prr[block.draws, has_worst] = (
            block.languages[:, has_worst, at] / block.language_potential[:, at]
        )
    guarded, _, _ = drop_meaningless(cv)
    return guarded, total / arrays.n_samples, worst_prr


def _variation(ratio: Floats) -> Floats:
    """Coefficient of variation over languages, the last axis; NaN if the mean is not positive."""
    mean = ratio.mean(axis=2)
    return np.asarray(ratio.std(axis=2, ddof=1) / np.where(mean > 0.0, mean, np.nan))


def language_gaps(
    expected: ExpectedScores,
    potential: Floats,
    left_out: Bools,
    *,
    max_values: int = 10_000_000,
) -> Iterator[tuple[Index, slice, Floats, Floats]]:
    """Gap of every model to the potential in every language, and its PRR there.

    Parameters
    ----------
    expected : ExpectedScores
        From :func:`bayeseval.estimands.expected.expected_scores`.
    potential : ndarray, shape (n_samples, n_languages)
        Potentials of the languages, from the same expected scores.
    left_out : ndarray of bool, shape (n_languages,)
        Languages without a PRR.
    max_values : int
        Most scores in memory at a time, of one model at least; models that do not fit are in
        further groups.

    Yields
    ------
    models : ndarray of int, shape (m,)
        Positions among the levels.
    languages : slice
        Some of the languages; those of a group of models come in order.
    gap : ndarray, shape (n_samples, m, n)
        Score units.
    prr_language : ndarray, shape (n_samples, m, n)
        NaN where left out.
    """
    arrays = expected.arrays
    n_models, n_languages = (len(arrays.levels[f]) for f in (names.MODEL, names.LANGUAGE))
    size = max(1, max_values // (arrays.n_samples * n_languages))
    # As summaries cut many columns: draws summed in another order differ in the last digit.
    cut = len(column_blocks(arrays.n_samples, n_models * n_languages)) > 1
    for start in range(0, n_models, size):
        models = np.arange(start, min(start + size, n_models))
        scores = np.empty((arrays.n_samples, len(models), n_languages))
        for draws, part in expected.of_languages(models):
            scores[draws] = part
        # Two more arrays of the size of all scores would be as large as the posterior.
        for languages in column_blocks(arrays.n_samples * len(models), n_languages):
            own, base = scores[:, :, languages], potential[:, None, languages]
            if cut:
                own, base = _draws_together(own), _draws_together(base)
            divisor = np.where(left_out[languages], np.nan, base)
            yield models, languages, own - base, own / divisor


def _draws_together(values: Floats) -> Floats:
    """A copy whose first axis, the draws, is contiguous in memory."""
    return np.ascontiguousarray(np.moveaxis(values, 0, -1)).transpose(-1, *range(values.ndim - 1))
