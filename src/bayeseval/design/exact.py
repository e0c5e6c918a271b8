"""Refuse a table that the terms reproduce exactly: it has no posterior."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from bayeseval import names
from bayeseval._typing import Bools, Floats, Index
from bayeseval.design.container import Term
from bayeseval.design.covariates import Slope
from bayeseval.design.noise import Noise
from bayeseval.design.outcome import Outcome
from bayeseval.errors import DesignError, wording

__all__ = ["ExactTableError", "check_residual", "is_reproduced", "residual_vanishes"]


# A residual below a millionth of the scores' sd is rounding error, not noise: printed scores
# have fewer digits. Below it the variances of residual and effects differ by more than float64
# resolves (the marginal engine works at 1e-6 and fails at 1e-8).
_EXACT = 1e-6
# Printed scores are sums only up to rounding. A residual that rounding explains has no
# information on noise, but only where it is this small relative to the scores: sums printed
# with one decimal or none (on 0-100) leave a residual that engines can fit, and few or coarse
# scores may be close to sums by chance.
_PRINTED = 1e-3
# Rounding errors have the variance h^2 / 3, with h half a unit. The mean square of 10 of them
# exceeds twice that less than once in a thousand, and projecting them only makes them smaller.
_ROUNDING_VARIANCE = 2.0 / 3.0
# Fewer scores than this can be sums by chance.
_FEW = 20
# Precision of the first fit, which is enough to recognise noise, and of the second, for tables
# without noise in the first.
_COARSE, _FINE = 1e-4, 1e-10
_MOST_STEPS = 2000


class ExactTableError(DesignError):
    """The terms reproduce the scores without a residual."""


def check_residual(
    name: str,
    *,
    outcome: Outcome,
    noise: Noise,
    terms: Sequence[Term],
    slopes: Sequence[Slope],
    rounding: Floats | None = None,
    residual_index: Index | None = None,
    residual_labels: Sequence[str] = (),
    residual_by: str | None = None,
) -> None:
    """Refuse scores that are sums of the fitted effects, without a residual.

    With n records, rank r of the linear predictor and a least-squares residual of zero, the
    likelihood grows as sigma^-(n - r) as sigma goes to zero. The prior of sigma is flat
    there, so no posterior exists for n > r, and samplers do not terminate. The residual of
    printed sums is their rounding error: a residual that is no larger than rounding explains,
    and below a thousandth of the scores' sd, counts as zero.

    Records with known noise (standard errors, replicates, counts of items) are not checked:
    their likelihood stays finite. Where the residual differs by level, the records of every
    level are checked separately.

    Parameters
    ----------
    name : str
        Name of the table, for messages.
    outcome : Outcome
        Scores on the scale of the linear predictor.
    noise : Noise
        Known and unknown errors of the scores.
    terms : sequence of Term
        Terms of the linear predictor.
    slopes : sequence of Slope
        Covariates.
    rounding : ndarray, shape (n_records,), or None
        Largest rounding error of each score; see
        :func:`bayeseval.design.outcome.largest_rounding`. None where scores are not rounded.
    residual_index : ndarray of int, shape (n_records,), or None
        Level of each record where every level has its own residual sd.
    residual_labels : sequence of str
        Labels of these levels.
    residual_by : str or None
        Their factor.

    Raises
    ------
    ExactTableError
        If the terms reproduce all scores of the table, or of one such level.
    """
    bare = _without_known_noise(outcome, noise)
    shared = [term for term in terms if not term.is_noise]
    predictor = " + ".join(["intercept", *(s.name for s in slopes), *(t.name for t in shared)])

    def reproduction(terms: Sequence[Term], rows: Bools) -> tuple[str, str] | None:
        """How closely the terms reproduce the scores, and why this is refused; else None."""
        printed = _tolerance(outcome.linear[rows], None if rounding is None else rounding[rows])
        if not is_reproduced(outcome.linear, terms, slopes, rows, printed):
            return None
        if residual_vanishes(outcome.linear, terms, slopes, rows):
            return (
                "exactly",
                "nothing is left to estimate the residual from and no posterior exists",
            )
        return "to the printed digits", "only rounding is left to estimate the residual from"

    reproduced = reproduction(shared, bare)
    if reproduced is not None:
        closeness, consequence = reproduced
        main = [term for term in shared if len(term.factors) == 1]
        fewer = len(main) < len(shared) and reproduction(main, bare) is None
        raise ExactTableError(
            f"{name}: {predictor} reproduces all {bare.sum()} scores {closeness}"
            f"{'' if bare.all() else ' that have no standard error'}, so {consequence};"
            f" {_advice(shared, fewer_terms_help=fewer, few_scores=bool(bare.sum() < _FEW))}"
        )
    if residual_index is None:
        return
    for level, label in enumerate(residual_labels):
        rows = bare & (residual_index == level)
        reproduced = reproduction(shared, rows)
        if reproduced is not None:
            closeness, consequence = reproduced
            raise ExactTableError(
                f"{name}: {predictor} reproduces all {rows.sum()} scores of {residual_by} {label!r}"
                f" {closeness}, and residual_by gives them a separate residual, so {consequence};"
                f" remove residual_by or this {residual_by}, or check whether its scores were"
                " computed from others"
            )


def _advice(terms: Sequence[Term], *, fewer_terms_help: bool, few_scores: bool) -> str:
    """What to do about scores that these terms reproduce."""
    way_out = ""
    # With fewer terms every copy of a metric would count as independent evidence.
    if any(names.DATASET in term.factors for term in terms):
        way_out = (
            "drop one of the two metrics ("
            + wording("drop={'task': [TASK]}", "drop: {task: [TASK]} in a --mapping file")
            + ") and select the model anew ("
            + wording("spec='auto'", "--model auto")
            + "), or "
        )
    elif fewer_terms_help:
        fewer = wording("spec='additive'", "--model additive")
        way_out = f"fit a model with fewer terms ({fewer}), or "
    by_chance = "; so few scores can be sums by chance: add records" if few_scores else ""
    return (
        f"{way_out}check whether scores were computed from each other (one metric from"
        f" another, averages, copied rows, numbers without noise) and remove those{by_chance}"
    )


def _without_known_noise(outcome: Outcome, noise: Noise) -> Bools:
    """Records whose only noise is the residual."""
    bare = np.ones(len(outcome.linear), dtype=np.bool_)
    bare[outcome.rows_of("count")] = False
    if noise.known_variance is not None:
        bare &= ~(noise.known_variance > 0.0)
    for source in () if noise.replicates is None else noise.replicates.sources:
        bare &= source.share == 0.0
    return bare


def _tolerance(values: Floats, rounding: Floats | None) -> float:
    """The largest residual that counts as zero, relative to the spread of the values."""
    size = float(np.linalg.norm(values - values.mean())) if len(values) else 0.0
    if rounding is None or size == 0.0:
        return _EXACT
    printed = float(np.sqrt(_ROUNDING_VARIANCE * (rounding**2).sum())) / size
    return max(_EXACT, min(_PRINTED, printed))


def is_reproduced(
    values: Floats,
    terms: Sequence[Term],
    slopes: Sequence[Slope],
    rows: Bools,
    tolerance: float = _EXACT,
) -> bool:
    """Whether the terms reproduce these values exactly, but not arbitrary values.

    Parameters
    ----------
    values : ndarray, shape (n_records,)
        Scores on the scale of the linear predictor.
    terms : sequence of Term
        Terms of the linear predictor besides the intercept.
    slopes : sequence of Slope
        Covariates.
    rows : ndarray of bool, shape (n_records,)
        The records to check.
    tolerance : float
        The largest residual that counts as zero, relative to the spread of the values.
    """
    if not rows.any() or not residual_vanishes(values, terms, slopes, rows, tolerance):
        return False
    # A predictor whose rank is the number of records reproduces any values.
    arbitrary = np.random.default_rng(0).standard_normal(len(values))
    return not residual_vanishes(arbitrary, terms, slopes, rows)


def residual_vanishes(
    values: Floats,
    terms: Sequence[Term],
    slopes: Sequence[Slope],
    rows: Bools,
    tolerance: float = _EXACT,
) -> bool:
    """Whether the least-squares residual is zero; parameters as for :func:`is_reproduced`."""
    return _vanishes(_columns(terms, slopes, rows), values[rows], tolerance)


def _vanishes(columns: Any, values: Floats, tolerance: float) -> bool:
    """Whether the values are sums of the columns, up to this share of their spread."""
    from scipy.sparse.linalg import lsqr

    centred = values - values.mean()
    size = float(np.linalg.norm(centred))
    if size <= _EXACT * np.abs(values).max(initial=0.0):
        return True
    for precision in (_COARSE, _FINE):
        solution = lsqr(columns, centred, atol=precision, btol=precision, iter_lim=_MOST_STEPS)[0]
        residual = float(np.linalg.norm(centred - columns @ solution)) / size
        if residual <= tolerance:
            return True
        if residual > np.sqrt(_COARSE):
            return False
    return False


def _columns(terms: Sequence[Term], slopes: Sequence[Slope], rows: Bools) -> Any:
    """Sparse columns of the linear predictor, scaled to unit length.

    Main effects that an interaction contains are omitted: they are sums of its columns.
    """
    from scipy.sparse import csr_array, diags_array

    n = int(rows.sum())
    positions = np.arange(n)
    values, columns, records = [np.full(n, 1.0)], [np.zeros(n, dtype=np.int64)], [positions]
    width = 1
    for term in terms:
        if any(set(term.factors) < set(other.factors) for other in terms):
            continue
        _, level = np.unique(term.index[rows], return_inverse=True)
        values.append(np.ones(n))
        columns.append(width + level)
        records.append(positions)
        width += int(level.max(initial=-1)) + 1
    for slope in slopes:
        cell = slope.index[rows]
        values.append(slope.known[cell])
        columns.append(np.full(n, width))
        records.append(positions)
        width += 1
        # Estimated values are free parameters.
        unknown_cells, level = np.unique(cell[np.isin(cell, slope.unknown)], return_inverse=True)
        values.append(np.ones(len(level)))
        columns.append(width + level)
        records.append(positions[np.isin(cell, slope.unknown)])
        width += len(unknown_cells)
    matrix = csr_array(
        (np.concatenate(values), (np.concatenate(records), np.concatenate(columns))),
        shape=(n, width),
    )
    lengths = np.sqrt(np.asarray(matrix.multiply(matrix).sum(axis=0)).reshape(-1))
    return matrix @ diags_array(1.0 / np.where(lengths > 0.0, lengths, 1.0))
