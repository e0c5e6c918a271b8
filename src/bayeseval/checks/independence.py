"""Check whether residuals of records in the same cell are correlated."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from bayeseval._typing import Floats, Index
from bayeseval.checks.container import Check, judge, p_text
from bayeseval.checks.realised import between_groups

__all__ = ["CELLS", "cell_codes", "independence_check"]


#: Cells whose records are compared: those of all interactions except model:language:task,
#: whose cells have one record.
CELLS = ("language:task", "model:task", "model:language", "model:language:dataset")


def cell_codes(
    term: str, index: Mapping[str, Index], levels: Mapping[str, tuple[str, ...]]
) -> Index:
    """Number of the cell of every record; records of one cell have the same number.

    Parameters
    ----------
    term : str
        Factors joined by colons.
    index : mapping of str to ndarray of int, shape (n_records,)
        Level of every record under each factor.
    levels : mapping of str to tuple of str
        Labels.
    """
    factors = term.split(":")
    codes = np.ravel_multi_index(
        tuple(index[factor] for factor in factors), tuple(len(levels[factor]) for factor in factors)
    )
    return np.asarray(codes, dtype=np.int64)


def independence_check(
    z: Floats, index: Mapping[str, Index], levels: Mapping[str, tuple[str, ...]]
) -> tuple[Check, tuple[str, ...]]:
    """Test whether residuals of records in the same cell are correlated, for all interactions.

    Parameters
    ----------
    z : ndarray, shape (n_draws, n_records)
        Residuals at draws of the posterior, standard normal under the model.
    index : mapping of str to ndarray of int, shape (n_records,)
        Level of every record under each factor; ``dataset`` is one of them where some
        datasets have several tasks.
    levels : mapping of str to tuple of str
        Labels.

    Returns
    -------
    check : Check
        Its p-value is the smallest of all interactions, times their number.
    correlated_terms : tuple of str
        Interactions within whose cells residuals are correlated, smallest p-value first.
    """
    outcomes = []
    for term in CELLS:
        if not all(factor in index for factor in term.split(":")):
            continue
        p, correlation = between_groups(z, cell_codes(term, index, levels))
        if np.isfinite(p).all():
            outcomes.append((float(p.mean()), -correlation, term))
    if not outcomes:
        sentence = "No two records share a cell."
        return Check("independence", "not applicable", sentence=sentence), ()
    ordered = sorted(outcomes)
    # The smallest of several p-values.
    adjusted = [min(1.0, len(ordered) * p) for p, _, _ in ordered]
    correlated = [
        (term, -negative)
        for p, (_, negative, term) in zip(adjusted, ordered, strict=True)
        if judge(p) != "pass"
    ]
    if correlated:
        parts = [f"same {_in_words(term)} ({correlation:.2f})" for term, correlation in correlated]
        listed = parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
        sentence = f"Residuals of the {listed} are correlated (correlation in brackets)"
    else:
        sentence = (
            "Residuals of records in the same cell ("
            + "; ".join(_in_words(term) for term in CELLS if term in {o[2] for o in ordered})
            + ") are not correlated more than by chance"
        )
    check = Check(
        "independence",
        judge(adjusted[0]),
        value=-ordered[0][1],
        p=adjusted[0],
        sentence=f"{sentence}: {p_text(adjusted[0])}.",
    )
    return check, tuple(term for term, _ in correlated)


def _in_words(term: str) -> str:
    *first, last = term.split(":")
    return f"{', '.join(first)} and {last}"
