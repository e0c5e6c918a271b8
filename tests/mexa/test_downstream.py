"""The line of section 5.2: hand-computed values, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from bayeseval.errors import InputError
from bayeseval.mexa.downstream import Line, fit_line, ideal_line


def test_the_ideal_line_is_three_quarters_and_a_quarter() -> None:
    assert ideal_line() == Line(0.75, 0.25)
    found = ideal_line().predict([0.0, 0.5, 1.0, np.nan], pivot_score=0.8)
    np.testing.assert_allclose(found, [0.25, 0.55, 0.85, np.nan])
    assert ideal_line(2) == Line(0.5, 0.5)


def test_a_line_is_found_again() -> None:
    alignment = np.array([0.0, 0.2, 0.5, 0.9, np.nan, 0.4])
    scores = 0.24 + 0.61 * 0.88 * alignment
    scores[5] = np.nan
    found = fit_line(alignment, scores, pivot_score=0.88)
    assert (round(found.slope, 12), round(found.intercept, 12), found.n) == (0.61, 0.24, 4)
    np.testing.assert_allclose(found.predict(alignment, pivot_score=0.88)[:4], scores[:4])
    # Without the adjustment the slope is another one.
    assert fit_line(alignment, scores, pivot_score=1.0).slope == pytest.approx(0.61 * 0.88)


def test_least_squares_by_hand() -> None:
    # Points (0, 0), (1, 0), (1, 1): slope 1/2 through (2/3, 1/3).
    found = fit_line([0.0, 1.0, 1.0], [0.0, 0.0, 1.0], pivot_score=1.0)
    assert (found.slope, found.intercept) == pytest.approx((0.5, 0.0))


def test_what_is_refused() -> None:
    for alignment, scores, pivot, line in (
        ([0.1, 0.2], [0.1], 0.5, "as long as each other"),
        ([0.1, 40.0], [0.1, 0.2], 0.5, "alignment must lie between 0 and 1; got 40"),
        ([0.1, 0.2], [55.0, 0.2], 0.5, "scores must lie between 0 and 1; got 55"),
        ([0.1, 0.1], [0.1, 0.2], 0.5, "two languages with different alignment"),
        ([0.1, 0.3], [0.1, 0.2], 88.0, "the pivot's score must lie between 0 and 1; got 88"),
    ):
        with pytest.raises(InputError, match=line):
            fit_line(alignment, scores, pivot_score=pivot)
    with pytest.raises(InputError, match="at least two answers; got 1"):
        ideal_line(1)
