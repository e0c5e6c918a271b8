"""A table that the terms reproduce exactly is refused: it has no posterior."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from bayeseval import names
from bayeseval._typing import Bools, Floats, Index
from bayeseval.design.container import Term
from bayeseval.design.covariates import Slope
from bayeseval.design.outcome import Outcome
from bayeseval.design.replicates import Noise
from bayeseval.errors import DesignError

__all__ = ["ExactTableError", "check_residual", "is_reproduced", "residual_vanishes"]


# A residual below a millionth of the scores' sd is arithmetic, not noise: printed scores have
# fewer digits, and below it the variances of residual and effects no longer fit in float64
# together (the marginal engine works at 1e-6 and fails at 1e-8).
_EXACT = 1e-6
# Printed scores are sums up to their last digits. A residual that rounding alone explains says
# nothing of noise, but only where it is this small against the scores: sums printed with one
# decimal or none (on 0-100) leave a residual of their own, which engines can fit, and few or
# coarse scores come that near to sums by accident.
_PRINTED = 1e-3
# Rounding errors have the variance h^2 / 3, with h half a unit. The mean square of 10 of them
# exceeds twice that less than once in a thousand, and projecting them only makes them smaller.
_ROUNDING_VARIANCE = 2.0 / 3.0
# So few coarse scores can be sums by chance.
_FEW = 20
# A table with noise is recognised within this precision; only one that seems to have none is
# looked at again.
_COARSE, _FINE = 1e-4, 1e-10
_MOST_STEPS = 2000


class ExactTableError(DesignError):
    """The terms reproduce the scores without any remainder."""


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
    """Refuse scores that are sums of the fitted effects, without any remainder.

    With n records, rank r of the linear predictor and a least-squares residual of zero, the
    likelihood grows as sigma^-(n - r) as sigma goes to zero. The prior of sigma is flat
    there, so that no posterior exists for n > r, and samplers never come to an end. Printed
    scores leave their rounding, from which the residual says as little: what is no larger
    than rounding, and below a thousandth of the scores' sd, counts as zero.

    Records whose own noise is known (standard errors, replicates, counts of items) are not
    looked at: their likelihood stays finite. Where the residual differs by level, the
    records of every level are looked at for themselves.

    Parameters
    ----------
    name : str
        The table, for the message.
    outcome : Outcome
        Scores as the linear predictor has them.
    noise : Noise
        What is known of their errors.
    terms : sequence of Term
        Terms of the linear predictor.
    slopes : sequence of Slope
        Covariates.
    rounding : ndarray, shape (n_records,), or None
        How far printing may have moved each score; see
        :func:`bayeseval.design.outcome.largest_rounding`. None where scores have all digits.
    residual_index : ndarray of int, shape (n_records,), or None
        Level of each record where every level has a residual sd of its own.
    residual_labels : sequence of str
        Labels of these levels.
    residual_by : str or None
        Their factor.

    Raises
    ------
    ExactTableError
        If the terms reproduce all scores of the table, or of one such level.
    """
    bare = _without_own_noise(outcome, noise)
    shared = [term for term in terms if not term.is_noise]
    predictor = " + ".join(["intercept", *(s.name for s in slopes), *(t.name for t in shared)])

    def found(terms: Sequence[Term], rows: Bools) -> tuple[str, str] | None:
        """How well the terms reproduce the scores, and what follows; None where they do not."""
        printed = _tolerance(outcome.linear[rows], None if rounding is None else rounding[rows])
        if not is_reproduced(outcome.linear, terms, slopes, rows, printed):
            return None
        if residual_vanishes(outcome.linear, terms, slopes, rows):
            return (
                "exactly",
                "nothing is left to estimate the residual from and no posterior exists",
            )
        return "to the printed digits", "only rounding is left to estimate the residual from"

    how = found(shared, bare)
    if how is not None:
        main = [term for term in shared if len(term.factors) == 1]
        fewer = len(main) < len(shared) and found(main, bare) is None
        # Fewer terms would count every copy of a metric as evidence of its own.
        copies = any(names.DATASET in term.factors for term in shared)
        smaller = "fit a model with fewer terms (--model additive), or " if fewer else ""
        if copies:
            smaller = "leave out one of two metrics (drop: {task: [...]} in a --mapping file), or "
        do = (
            f"{smaller}check whether scores were computed from each other (one metric from"
            " another, averages, copied rows, numbers without noise) and leave those out"
            f"{'; few scores can be sums by chance: then add records' if bare.sum() < _FEW else ''}"
        )
        raise ExactTableError(
            f"{name}: {predictor} reproduces all {bare.sum()} scores {how[0]}"
            f"{'' if bare.all() else ' that have no standard error of their own'}, so {how[1]};"
            f" {do}"
        )
    if residual_index is None:
        return
    for level, label in enumerate(residual_labels):
        rows = bare & (residual_index == level)
        how = found(shared, rows)
        if how is not None:
            raise ExactTableError(
                f"{name}: {predictor} reproduces all {rows.sum()} scores of {residual_by} {label!r}"
                f" {how[0]}, and residual_by gives them a residual of their own, so {how[1]}; leave"
                f" out residual_by or this {residual_by}, or check whether its scores were computed"
                " from others"
            )


def _without_own_noise(outcome: Outcome, noise: Noise) -> Bools:
    """Records that scatter by the residual alone."""
    bare = np.ones(len(outcome.linear), dtype=np.bool_)
    bare[outcome.rows_of("count")] = False
    if noise.known_variance is not None:
        bare &= ~(noise.known_variance > 0.0)
    for source in () if noise.replicates is None else noise.replicates.sources:
        bare &= source.share == 0.0
    return bare


def _tolerance(values: Floats, rounding: Floats | None) -> float:
    """The largest residual that counts as none, as a share of the values' spread."""
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
    """Whether the terms reproduce the values exactly although they could not any values.

    Parameters
    ----------
    values : ndarray, shape (n_records,)
        Scores on the scale of the linear predictor.
    terms : sequence of Term
        Terms of the linear predictor beside the intercept.
    slopes : sequence of Slope
        Covariates.
    rows : ndarray of bool, shape (n_records,)
        The records to look at.
    tolerance : float
        The largest residual that counts as none, as a share of the values' spread.
    """
    if not rows.any() or not residual_vanishes(values, terms, slopes, rows, tolerance):
        return False
    # As many directions as records reproduce everything, and that says nothing.
    anything = np.random.default_rng(0).standard_normal(len(values))
    return not residual_vanishes(anything, terms, slopes, rows)


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
    """Whether the values are sums of the columns, to this share of their spread."""
    from scipy.sparse.linalg import lsqr

    centred = values - values.mean()
    size = float(np.linalg.norm(centred))
    if size <= _EXACT * np.abs(values).max(initial=0.0):
        return True
    for precision in (_COARSE, _FINE):
        solution = lsqr(columns, centred, atol=precision, btol=precision, iter_lim=_MOST_STEPS)[0]
        left = float(np.linalg.norm(centred - columns @ solution)) / size
        if left <= tolerance:
            return True
        if left > np.sqrt(_COARSE):
            return False
    return False


def _columns(terms: Sequence[Term], slopes: Sequence[Slope], rows: Bools) -> Any:
    """Columns of the linear predictor, sparse, each of length one.

    A main effect is left out where an interaction contains it: the columns of the
    interaction's cells add up to it.
    """
    from scipy.sparse import csr_array, diags_array

    n = int(rows.sum())
    at = np.arange(n)
    values, places, records = [np.full(n, 1.0)], [np.zeros(n, dtype=np.int64)], [at]
    width = 1
    for term in terms:
        if any(set(term.factors) < set(other.factors) for other in terms):
            continue
        _, level = np.unique(term.index[rows], return_inverse=True)
        values.append(np.ones(n))
        places.append(width + level)
        records.append(at)
        width += int(level.max(initial=-1)) + 1
    for slope in slopes:
        cell = slope.index[rows]
        values.append(slope.known[cell])
        places.append(np.full(n, width))
        records.append(at)
        width += 1
        # Values that are estimated can be anything.
        free, level = np.unique(cell[np.isin(cell, slope.unknown)], return_inverse=True)
        values.append(np.ones(len(level)))
        places.append(width + level)
        records.append(at[np.isin(cell, slope.unknown)])
        width += len(free)
    matrix = csr_array(
        (np.concatenate(values), (np.concatenate(records), np.concatenate(places))),
        shape=(n, width),
    )
    lengths = np.sqrt(np.asarray(matrix.multiply(matrix).sum(axis=0)).reshape(-1))
    return matrix @ diags_array(1.0 / np.where(lengths > 0.0, lengths, 1.0))
