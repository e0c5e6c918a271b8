"""Binomial standard errors of scores that are shares of n test items.

A share p of n items that are right or wrong has the variance p (1 - p) / n over test sets
of that size, whatever makes items hard. p is estimated from all scores, see
:func:`bayeseval.design.fitted_shares.fitted_shares`: from the score itself, the variance would
be smaller where the score is further from one half by chance, and 0 and 100 % would have none.

The column n alone does not show that a score is such a share: it may also count documents
of BLEU or questions of F1. Score times n has to be a whole number, up to the precision of
the printed digits.

For one run, p (1 - p) / n is tau^2 + omega^2 (see :mod:`bayeseval.design.replicates`), and
the mean square M of S seeds on that test set is sigma^2 + omega^2. So the mean of the
seeds has the variance M / S + p (1 - p) / n - omega^2, and one run M + p (1 - p) / n -
omega^2. Shares only bound omega^2, by M and by p (1 - p) / n; it is kept in both parts, as
with a published sd of test sets, which gives an upper bound.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from bayeseval import names
from bayeseval._text import any_of, grouped, shorten
from bayeseval._typing import Bools, Floats, Index
from bayeseval.design.container import Term
from bayeseval.design.fitted_shares import fitted_shares
from bayeseval.design.noise import Noise
from bayeseval.design.outcome import Outcome, half_unit
from bayeseval.design.replicates import note_of_upper_bounds
from bayeseval.errors import DesignError, wording
from bayeseval.families import FAMILIES, of_quantity
from bayeseval.records import CellTable, Records, is_accuracy

__all__ = [
    "add_share_errors",
    "all_errors_known",
    "check_errors",
    "known_residual",
    "share_errors",
]


# Whole numbers are not taken for chance when fewer than one in a thousand sets of arbitrary
# scores would all be as close to whole numbers.
_BY_CHANCE: Final = 1e-3


def share_errors(records: Records, cells: CellTable) -> tuple[Floats, list[str]]:
    """Binomial standard errors of one run, for cells whose scores are shares of n items.

    Parameters
    ----------
    records : Records
        The table.
    cells : CellTable
        Cells of the same records. Cells with standard errors, bootstraps or items, which
        already include the noise of the test set, are skipped.

    Returns
    -------
    se : ndarray, shape (n_cells,)
        Score units; NaN where n is not used.
    notes : list of str
        Tasks where n was used, and those where it was not, with the reason.
    """
    se = np.full(len(cells), np.nan)
    candidate = (cells.n_items >= 1.0) & ~_has_known_error(records, cells)
    averaged = (cells.n_seeds > 1) & ~(cells.seed.df > 0)
    runs = _Runs.from_records(records, cells)
    used: list[str] = []
    shares, uppers = np.full(len(cells), np.nan), np.ones(len(cells))
    reasons: dict[str, list[str]] = {}
    task = cells.codes[names.TASK]
    for code in map(int, np.unique(task[candidate])):
        label = records.coords[names.TASK][code]
        unit = records.units[label]
        if unit.lower != 0.0 or unit.upper not in (1.0, 100.0):
            reasons.setdefault("scores are not declared to lie in 0-1 or 0-100", []).append(label)
            continue
        rows_of_task = candidate & (task == code)
        if (rows_of_task & averaged).any():
            reason = "scores are means of seeds without seed_sd"
            reasons.setdefault(reason, []).append(label)
            rows_of_task &= ~averaged
            if not rows_of_task.any():
                continue
        rows = np.flatnonzero(rows_of_task[runs.cell])
        right, reason = _right_items(
            runs.score[rows], runs.n[rows], runs.k[rows], label, upper=unit.upper
        )
        if reason:
            reasons.setdefault(reason, []).append(label)
            continue
        share = np.bincount(runs.cell[rows], right / runs.n[rows], len(cells))[rows_of_task]
        shares[rows_of_task] = share / cells.n_rows[rows_of_task]
        uppers[rows_of_task] = unit.upper
        used.append(label)
    notes = []
    if used:
        at = np.flatnonzero(np.isfinite(shares))
        n = cells.n_items[at]
        p = fitted_shares(shares[at], n, [cells.codes[factor][at] for factor in names.FACTORS])
        se[at] = uppers[at] * np.sqrt(p * (1.0 - p) / n)
        notes.append(
            f"n: {grouped(int(np.isfinite(se).sum()))} scores of {shorten(used)} are shares of n "
            f"items, so they have known binomial standard errors; {_how_to_ignore_n()}"
        )
    both = np.isfinite(se) & (cells.seed.df > 0)
    if both.any():
        notes.append(note_of_upper_bounds(int(both.sum())))
    notes += [f"n not used for {shorten(labels)}: {reason}" for reason, labels in reasons.items()]
    return se, notes


def _has_known_error(records: Records, cells: CellTable) -> Bools:
    """Cells whose test-set noise is already known or estimated in another way."""
    known = np.isfinite(cells.se) | (cells.boot.df > 0) | (cells.n_boot > 0)
    if cells.unbalanced is not None:
        known[cells.unbalanced.cell] = True
    item = records.replicate_codes("item") >= 0
    known[_cell_of_record(cells)[item]] = True
    return known


def _cell_of_record(cells: CellTable) -> Index:
    return np.repeat(np.arange(len(cells), dtype=np.int64), cells.n_rows)


@dataclass(frozen=True, eq=False)
class _Runs:
    """Scores of one run, or means of several, with numbers of answers and correct ones.

    `n` is the number of answers of a score: the items, times the seeds of a mean.
    """

    cell: Index
    score: Floats
    n: Floats
    k: Floats

    @classmethod
    def from_records(cls, records: Records, cells: CellTable) -> _Runs:
        cell = _cell_of_record(cells)
        averaged = np.where(cells.n_rows == 1, np.maximum(cells.n_seeds, 1.0), 1.0)[cell]
        given = records.numbers("n")
        n = np.where(np.isfinite(given), given, cells.n_items[cell])
        # A k given with the mean of several runs may be that of one run or of all.
        k = np.where(averaged == 1.0, records.numbers("k"), np.nan)
        return cls(cell, records.scores, n * averaged, k)


def _right_items(
    score: Floats, n: Floats, k: Floats, label: str, *, upper: float
) -> tuple[Floats, str]:
    """Numbers of correct items, and why they cannot be used (empty when they can)."""
    exact = score / upper * n
    stated = np.isfinite(k)
    correct = np.where(stated, k, np.round(exact))
    # A printed score is right to half a unit of its last decimal.
    allowed = np.maximum(n * half_unit(score) / upper * 1.001, 1e-3)
    if (np.abs(correct - exact) > allowed).any():
        return correct, "score times n is not a whole number, so scores are not shares of n items"
    inside = (exact > allowed) & (exact < n - allowed)
    by_chance = float(np.minimum(2.0 * allowed[inside & ~stated], 1.0).prod())
    if by_chance > _BY_CHANCE and not is_accuracy(label) and not stated.all():
        return correct, (
            "scores have too few digits to check that score times n is a whole number; add k or "
            "se, or call the metric accuracy"
        )
    return correct, ""


def add_share_errors(noise: Noise, se: Floats, notes: Sequence[str]) -> Noise:
    """Add binomial standard errors to the known errors."""
    if not notes:
        return noise
    use = np.isfinite(se)
    if not use.any():
        return replace(noise, notes=(*noise.notes, *notes))
    variance = np.zeros(len(se)) if noise.known_variance is None else noise.known_variance
    given = noise.known_sds.get("se", np.full(len(se), np.nan))
    return replace(
        noise,
        known_variance=variance + np.where(use, se, 0.0) ** 2,
        known_sds={**noise.known_sds, "se": np.where(use, se, given)},
        notes=(*noise.notes, *notes),
        from_items=True,
    )


def check_errors(records: Records, cells: CellTable, outcome: Outcome, noise: Noise) -> None:
    """Refuse known errors of scores whose likelihood does not take them."""
    if noise.known_variance is None:
        return
    for family in outcome.families:
        rows = outcome.rows(family)
        known = rows[noise.known_variance[rows] > 0.0]
        if FAMILIES[family].quantity == "score" or not known.size:
            continue
        others = any_of(of_quantity("score"))
        task = records.coords[names.TASK][cells.codes[names.TASK][known[0]]]
        why = (
            "the noise of its test items would be counted twice; ignore the errors "
            + wording("(columns={'se': None})", "(--columns se=)")
            + f", or use {others}"
            if FAMILIES[family].quantity == "count"
            else f"{family} does not take errors in score units; use {others}"
        )
        raise DesignError(
            f"{records.name}: task {task!r} has known standard errors and the likelihood {family}: "
            f"{why}"
        )


def all_errors_known(noise: Noise, shared: Sequence[Term], n_records: int) -> bool:
    """Whether the test-set noise of every record is known or estimated."""
    known = np.zeros(n_records, dtype=np.bool_)
    for name in ("boot", "se"):
        known |= np.nan_to_num(noise.known_sds.get(name, known.astype(np.float64))) > 0.0
    for source in () if noise.replicates is None else noise.replicates.sources:
        if source.name == "boot":
            known |= source.share > 0.0
    for term in shared:
        known |= np.asarray(term.known_sd)[term.index] > 0.0
    return bool(known.all())


def known_residual(
    name: str, noise: Noise, terms: Sequence[Term], residual_by: str | None, n_records: int
) -> tuple[float | None, list[str]]:
    """Scale of the residual sd's prior where an interaction has a cell for every record.

    With all errors known, the variation beyond them is that interaction. A residual would
    be confounded with it and is held at a hundredth of a typical error.

    Returns
    -------
    scale : float or None
        Score units; None if there is no such interaction.
    notes : list of str
        Remarks for the user.

    Raises
    ------
    DesignError
        If the spec also has ``residual_by``.
    """
    saturated = [term for term in terms if len(term.factors) > 1 and term.n_levels == n_records]
    if not saturated:
        return None, []
    if residual_by is not None:
        raise DesignError(
            f"{name}: {saturated[0].name} has a cell for every record, so it is the residual "
            f"beyond the known errors and confounded with residual_by: {residual_by}; remove one "
            "of them"
        )
    scale = 0.01 * float(np.sqrt(np.median(_typical_variance(noise, n_records))))
    return scale, [
        f"{saturated[0].name} has a cell for every record, and all errors are known: it models the "
        f"variation beyond them, and {names.SD_RESIDUAL} is held near 0 (scale {scale:.2g})"
    ]


def _typical_variance(noise: Noise, n_records: int) -> Floats:
    """Noise variance of each record: known parts, and estimates from replicates."""
    total = np.zeros(n_records) if noise.known_variance is None else noise.known_variance.copy()
    for source in () if noise.replicates is None else noise.replicates.sources:
        total += source.share * np.exp(2.0 * source.log_sd)[source.of_record]
    return total


def _how_to_ignore_n() -> str:
    return wording("columns={'n': None}", "--columns n=") + " ignores n"
