"""Scores that are shares of n test items: their binomial standard errors, as known ones.

A share p of n items that are right or wrong has the variance p (1 - p) / n over test sets
of that size, whatever makes items hard. For p stands (k + 1/2) / (n + 1), the mean of
Jeffreys' posterior of k right ones: the plain estimate would call 0 and 100 % exact.

Whether a score is such a share is asked of the scores, not only of the column n, which
also counts documents behind BLEU or questions behind F1: score times n has to be a whole
number as far as the printed digits tell.

Of one run, p (1 - p) / n is tau^2 + omega^2 (see :mod:`bayeseval.design.replicates`), and
the mean square M of S seeds on that test set is sigma^2 + omega^2. So the mean of the
seeds has the variance M / S + p (1 - p) / n - omega^2, and one run M + p (1 - p) / n -
omega^2. Shares say nothing of omega^2 but that it is at most M and at most p (1 - p) / n;
it is left in both parts, as with a published sd of test sets: an upper bound.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from bayeseval import names
from bayeseval._text import shorten
from bayeseval._typing import Bools, Floats, Index
from bayeseval.design.container import Term
from bayeseval.design.outcome import half_unit
from bayeseval.design.replicates import Noise, note_of_upper_bounds
from bayeseval.errors import DesignError
from bayeseval.records import CellTable, Records

__all__ = ["add_share_errors", "all_errors_known", "known_residual", "share_errors"]


# Metrics whose items are right or wrong. Where the printed digits are too few to see whole
# numbers, the name decides.
_RIGHT_OR_WRONG: Final = frozenset(["acc", "acc_norm", "accuracy", "em", "exact_match"])
# Whole numbers of a task's scores are no accident when fewer than one in a thousand sets of
# arbitrary numbers would look as whole.
_BY_CHANCE: Final = 1e-3
_OFF: Final = "columns: {n: null} in a --mapping file leaves it out"


def share_errors(records: Records, cells: CellTable) -> tuple[Floats, list[str]]:
    """Binomial standard errors of one run in the cells that are shares of their n items.

    Parameters
    ----------
    records : Records
        The table.
    cells : CellTable
        Of the same records. Where standard errors, bootstraps or items tell of a cell's
        test set, it is left alone.

    Returns
    -------
    se : ndarray, shape (n_cells,)
        Score units; NaN where nothing is to be added.
    notes : list of str
        Tasks where n was used, and those where it was not, with the reason.
    """
    se = np.full(len(cells), np.nan)
    candidate = (cells.n_items >= 1.0) & ~_told(records, cells)
    averaged = (cells.n_seeds > 1) & ~(cells.seed.df > 0)
    runs = _Runs.of(records, cells)
    used: list[str] = []
    reasons: dict[str, list[str]] = {}
    task = cells.codes[names.TASK]
    for code in map(int, np.unique(task[candidate])):
        label = records.coords[names.TASK][code]
        unit = records.units[label]
        if unit.lower != 0.0 or unit.upper not in (1.0, 100.0):
            reasons.setdefault("scores are not declared to lie in 0-1 or 0-100", []).append(label)
            continue
        own = candidate & (task == code)
        if (own & averaged).any():
            why = "scores that are means of seeds have no seed_sd"
            reasons.setdefault(why, []).append(label)
            own &= ~averaged
            if not own.any():
                continue
        rows = np.flatnonzero(own[runs.cell])
        right, reason = _right_items(
            runs.score[rows], runs.n[rows], runs.k[rows], label, upper=unit.upper
        )
        if reason:
            reasons.setdefault(reason, []).append(label)
            continue
        share = np.bincount(runs.cell[rows], right / runs.n[rows], len(cells))[own]
        n = cells.n_items[own]
        smooth = (share / cells.n_rows[own] * n + 0.5) / (n + 1.0)
        se[own] = unit.upper * np.sqrt(smooth * (1.0 - smooth) / n)
        used.append(label)
    notes = []
    if used:
        notes.append(
            f"n: {int(np.isfinite(se).sum()):,} scores of {shorten(used)} are shares of n items, "
            f"so their binomial standard errors are known; {_OFF}"
        )
    both = np.isfinite(se) & (cells.seed.df > 0)
    if both.any():
        notes.append(note_of_upper_bounds(int(both.sum())))
    notes += [f"n not used for {shorten(labels)}: {reason}" for reason, labels in reasons.items()]
    return se, notes


def _told(records: Records, cells: CellTable) -> Bools:
    """Cells of whose test sets something else tells: it would be counted twice."""
    told = np.isfinite(cells.se) | (cells.boot.df > 0) | (cells.n_boot > 0)
    if cells.unbalanced is not None:
        told[cells.unbalanced.cell] = True
    item = records.replicate_codes("item") >= 0
    told[_cell_of_record(cells)[item]] = True
    return told


def _cell_of_record(cells: CellTable) -> Index:
    return np.repeat(np.arange(len(cells), dtype=np.int64), cells.n_rows)


@dataclass(frozen=True, eq=False)
class _Runs:
    """Scores in which right items are counted: of one run, or the mean of several.

    `n` counts the answers behind a score: the items, times the seeds of a mean.
    """

    cell: Index
    score: Floats
    n: Floats
    k: Floats

    @classmethod
    def of(cls, records: Records, cells: CellTable) -> _Runs:
        cell = _cell_of_record(cells)
        averaged = np.where(cells.n_rows == 1, np.maximum(cells.n_seeds, 1.0), 1.0)[cell]
        given = records.numbers("n")
        n = np.where(np.isfinite(given), given, cells.n_items[cell])
        # A k beside the mean of several runs may be that of one run or of all.
        k = np.where(averaged == 1.0, records.numbers("k"), np.nan)
        return cls(cell, records.scores, n * averaged, k)


def _right_items(
    score: Floats, n: Floats, k: Floats, label: str, *, upper: float
) -> tuple[Floats, str]:
    """Numbers of right items, and why they are none (empty when they are)."""
    exact = score / upper * n
    stated = np.isfinite(k)
    whole = np.where(stated, k, np.round(exact))
    # A printed score is right to half a unit of its last decimal.
    allowed = np.maximum(n * half_unit(score) / upper * 1.001, 1e-3)
    if (np.abs(whole - exact) > allowed).any():
        return whole, "score times n is no whole number, so scores are no shares of n items"
    between = (exact > allowed) & (exact < n - allowed)
    by_chance = float(np.minimum(2.0 * allowed[between & ~stated], 1.0).prod())
    metric = label.rsplit(":", 1)[-1].split(",")[0].strip().casefold()
    named = metric.replace(" ", "_").replace("-", "_") in _RIGHT_OR_WRONG
    if by_chance > _BY_CHANCE and not named and not stated.all():
        return whole, (
            "the printed digits are too few to tell whether score times n is a whole number; "
            "give k or se, or name the metric accuracy"
        )
    return whole, ""


def add_share_errors(noise: Noise, se: Floats, notes: Sequence[str]) -> Noise:
    """The noise with such errors among the given ones."""
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


def all_errors_known(noise: Noise, shared: Sequence[Term], n_records: int) -> bool:
    """Whether the table tells, for every record, how far another test set would move it."""
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
    """Scale of the residual's prior where an interaction has a cell for every record.

    With all errors known, what is left beside them is that interaction: a residual of its
    own could not be told apart, and is held at a hundredth of a typical error.

    Returns
    -------
    scale : float or None
        Score units; None where no interaction is that full.
    notes : list of str

    Raises
    ------
    DesignError
        If the residual is also to differ by level.
    """
    full = [term for term in terms if len(term.factors) > 1 and term.n_levels == n_records]
    if not full:
        return None, []
    if residual_by is not None:
        raise DesignError(
            f"{name}: {full[0].name} has a cell for every record, so it is the residual beyond the "
            f"known errors, and residual_by: {residual_by} asks for another; leave one out"
        )
    scale = 0.01 * float(np.sqrt(np.median(_typical_variance(noise, n_records))))
    return scale, [
        f"{full[0].name} has a cell for every record, and all errors are known: it is what the "
        f"records differ by beyond these, and {names.SD_RESIDUAL} is held near 0 "
        f"({scale:.2g})"
    ]


def _typical_variance(noise: Noise, n_records: int) -> Floats:
    """Of the scores about the cells' means: known parts, and what replicates suggest."""
    total = np.zeros(n_records) if noise.known_variance is None else noise.known_variance.copy()
    for source in () if noise.replicates is None else noise.replicates.sources:
        total += source.share * np.exp(2.0 * source.log_sd)[source.of_record]
    return total
