"""Numbers of items and of right answers that scores and standard errors leave no choice of."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final

from bayeseval._text import Note, counted
from bayeseval.readers.measures import is_accuracy
from bayeseval.readers.score import Score

__all__ = ["with_item_counts"]

# Standard errors are written with 16 digits, scores that were rounded with fewer.
_TOLERANCE: Final = 1e-9


def with_item_counts(scores: list[Score], notes: list[Note]) -> list[Score]:
    """Number of items and of right ones, where the numbers leave no other possibility."""
    with_items = [_with_items(score) for score in scores]
    # One cell whose items were not all right or wrong speaks for its whole dataset.
    confirmed: set[tuple[str, str]] = set()
    refuted: set[tuple[str, str]] = set()
    for score in with_items:
        share = _share(score)
        if share is not None and 0.0 < share < 1.0:
            (refuted if score.k is None else confirmed).add((score.dataset, score.key))
    binary = {
        (s.dataset, s.key)
        for s in with_items
        if is_accuracy(s.metric) or (s.dataset, s.key) in confirmed
    } - refuted
    result = [
        s if s.k is None or (s.dataset, s.key) in binary else replace(s, k=None) for s in with_items
    ]
    certain = sum(map(_has_no_spread, result))
    if certain:
        notes.append(
            f"a standard error of 0 was not used in {counted(certain, 'cell')} where all items"
            " are right or all are wrong: it does not measure the uncertainty of the score"
        )
        result = [replace(s, se=None) if _has_no_spread(s) else s for s in result]
    with_k = sum(s.k is not None for s in result)
    if with_k and any(a.k is None and b.k is not None for a, b in zip(scores, result, strict=True)):
        notes.append(
            f"numbers of items and of right answers recovered for {counted(with_k, 'cell')}: exact,"
            " because the scores, standard errors and metrics allow no others"
        )
    return result


def _scale_width(score: Score) -> float:
    """What a score of 1 is in the score's own units: 100 where the tool says 0 to 100."""
    upper = score.upper_bound if score.lower_bound == 0.0 else None
    return 1.0 if upper is None or upper <= 0.0 else upper


def _share(score: Score) -> float | None:
    """The share of right items that a score would be; None if it can be none."""
    share = None if score.value is None else score.value / _scale_width(score)
    return share if share is not None and 0.0 <= share <= 1.0 else None


def _has_no_spread(score: Score) -> bool:
    """Whether the error is zero only because all items are right, or all are wrong."""
    return score.se == 0 and (_share(score) in (0.0, 1.0) or score.value == 100.0)


def _with_items(score: Score) -> Score:
    """``n`` and ``k`` of a mean of zeros and ones.

    The standard error s/sqrt(n) of a mean p of zeros and ones (s on n - 1 degrees of
    freedom) is sqrt(p (1 - p) / (n - 1)); any other values between 0 and 1 with that
    mean have a smaller one. So an equal one shows that all items were right or wrong.
    """
    p, n = _share(score), score.n
    se = None if score.se is None else score.se / _scale_width(score)
    if score.k is not None or p is None:
        return score
    if p in (0.0, 1.0):
        return score if n is None else replace(score, k=float(round(p * n)))
    right = round(p * n) if n is not None else 0
    if se is None and n is not None and is_accuracy(score.metric):
        # Nothing to check it with but the name; at least it has to be a whole number.
        return replace(score, k=float(right)) if abs(right - p * n) <= _TOLERANCE * n else score
    if se is None or not se > 0.0:
        return score
    # Divided twice: the square of an absurd error is out of a number's range.
    implied = p * (1.0 - p) / se / se + 1.0
    if math.isinf(implied):
        return score
    items = float(round(implied)) if n is None else n
    right = round(p * items)
    fits = (
        math.isclose(implied, items, rel_tol=1e-6)
        and items >= 2
        and abs(right - p * items) <= _TOLERANCE * items
    )
    return replace(score, n=items, k=float(right)) if fits else score
