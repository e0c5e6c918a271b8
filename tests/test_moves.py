"""Moves between two fits: by hand, on a few draws."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr

from bayeseval import names
from bayeseval.estimands.moves import (
    Quantity,
    agreement,
    level_moves,
    most_moved,
    read_quantity,
    reported_quantities,
)


def drawn(values: list[list[float]], levels: str) -> Quantity:
    posterior = xr.Dataset(
        {"gap_sd_languages": (("chain", "draw", "model"), np.array([values]))},
        coords={"model": list(levels)},
    )
    return read_quantity(xr.DataTree.from_dict({"posterior": posterior}), "gap_sd_languages")


NAN = float("nan")
# Lower is better: c is worst before, and gone after.
BEFORE = drawn([[2.0, 1.0, 3.0], [4.0, 3.0, 5.0]], "abc")
AFTER = drawn([[5.0, 6.0, 4.0], [7.0, 8.0, 2.0]], "abd")


def test_common_levels_are_ranked_among_themselves() -> None:
    moved = level_moves(BEFORE, AFTER)
    assert list(moved.index) == ["a", "b"]
    assert list(moved["mean_before"]) == [3.0, 2.0]
    assert list(moved["mean_after"]) == [6.0, 7.0]
    np.testing.assert_allclose(moved["sd_before"], np.sqrt(2.0))
    # d is best of all after, but says nothing of how a and b moved.
    assert list(moved["median_before"]) == [2.0, 1.0]
    assert list(moved["median_after"]) == [1.0, 2.0]
    assert agreement(moved) == pytest.approx((-1.0, -1.0))
    assert most_moved(moved) == "a 2 [2, 2] to 1 [1, 1]; b 1 [1, 1] to 2 [2, 2]"


def test_languages_have_their_names_beside_their_codes() -> None:
    moved = level_moves(BEFORE, AFTER)
    assert most_moved(moved, language_names={"a": "Afar", "b": "b"}) == (
        "Afar (a) 2 [2, 2] to 1 [1, 1]; b 1 [1, 1] to 2 [2, 2]"
    )


def test_a_level_that_one_fit_does_not_report_moves_nobody() -> None:
    unreported = drawn([[NAN, 1.0, 3.0], [NAN, 3.0, 5.0]], "abc")
    for moved in (level_moves(BEFORE, unreported), level_moves(unreported, BEFORE)):
        assert list(moved.index) == ["b", "c"]
        # Among three, c would be third before and second after.
        assert list(moved["median_before"]) == list(moved["median_after"]) == [1.0, 2.0]
        assert most_moved(moved) == ""
    nothing = level_moves(BEFORE, drawn([[NAN] * 3], "abc"))
    assert len(nothing) == 0
    assert np.isnan(agreement(nothing)).all()


def test_the_same_fit_does_not_move() -> None:
    gap = drawn([[2.0, 1.0, 3.0], [4.0, NAN, 5.0], [6.0, 5.0, 7.0]], "abc")
    moved = level_moves(gap, gap)
    # A draw without a value is left out of the mean, and ranks nobody.
    assert list(moved["mean_after"]) == [4.0, 3.0, 5.0]
    assert list(moved["median_after"]) == [2.0, 1.0, 3.0]
    assert agreement(moved) == pytest.approx((1.0, 1.0))
    assert most_moved(moved) == ""


def test_the_same_order_of_thirteen_levels_has_a_correlation_of_one() -> None:
    levels = "abcdefghijklm"
    before = drawn([list(np.arange(13.0))], levels)
    after = drawn([list(np.arange(13.0) ** 2)], levels)
    # SciPy's Kendall correlation is 0.9999999999999998.
    assert agreement(level_moves(before, after)) == (1.0, 1.0)


def test_one_level_in_common_has_no_correlation() -> None:
    moved = level_moves(BEFORE, drawn([[1.0]], "c"))
    assert np.isnan(agreement(moved)).all()
    # A point estimate has neither sd nor interval, of its ranks neither.
    assert np.isnan(moved[["sd_after", "lower_after", "upper_after"]]).all(axis=None)
    # Nor a rank.
    one = level_moves(drawn([[1.0, 2.0]], "ab"), drawn([[2.0, 1.0]], "ab"))
    assert one[["median_before", "median_after"]].isna().all(axis=None)
    assert most_moved(one) == ""
    assert agreement(one) == pytest.approx((-1.0, -1.0))


def test_a_quantity_that_a_fit_does_not_estimate_is_not_reported() -> None:
    def tree(gap: float) -> xr.DataTree:
        values = {name: (("chain", "draw", "x"), np.ones((1, 2, 3))) for name in names.REPORTED}
        posterior = xr.Dataset(values)
        posterior["gap_sd_languages"] = gap * posterior["gap_sd_languages"]
        return xr.DataTree.from_dict({"posterior": posterior})

    assert reported_quantities(tree(1.0)) == names.REPORTED
    assert reported_quantities(tree(NAN)) == ("language_potential", "standardised_score")
